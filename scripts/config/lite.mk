# The small program, ./run-lite: llama2.c and GGUF files with their vocabularies, by gcc and the C library alone. What
# needs a library is left out, and a file of src/lite/ refuses it by name.
OPT      := -O1 # the intrinsics are the speed; with more gcc takes twice as long for them
LDLIBS   := -lm
LIB_CC   :=
LEFT_OUT := src/dist/mpi.c src/kernels/levels.c src/kernels/blas.c src/kernels/avxvnni.c src/kernels/avx512.c \
    src/io/json.c src/io/safetensors.c src/checkpoint/hf% src/convert/% \
    src/tokenizer/unicode.c src/tokenizer/regex.c src/tokenizer/sp_check.c src/tokenizer/spm% \
    src/tokenizer/hf_files.c src/tokenizer/tiktoken.c src/tokenizer/gguf_models.c src/tokenizer/json% src/tokenizer/to_json.c src/tokenizer/tokenizer_json.c \
    $(filter-out src/chat/turns.c,$(wildcard src/chat/*.c)) $(filter-out src/verify/tripwire.c,$(wildcard src/verify/*.c)) \
    src/gen/batch.c src/modes/mode_batch.c src/modes/batch_lines.c src/modes/mode_bench.c $(wildcard src/modes/bench_*.c) src/modes/int8_peak.c src/modes/mode_chat.c $(wildcard src/modes/chat_*.c) src/modes/mode_convert.c src/modes/mode_trace.c \
    src/modes/mode_verify.c src/modes/version.c src/gen/receipt.c src/library/%
