#!/bin/sh
# valgrind.sh [RUN] - every mode on the small models and tokenizers of tests/fixtures under valgrind's memcheck: no
# wrong access, no use of a value that was never set, no leak. Prints 'N passed, N failed'; exit 1 if anything failed.
RUN=${1:-build/release/run}
command -v valgrind >/dev/null || { echo "valgrind.sh: expected valgrind, found none" >&2; exit 1; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
F=tests/fixtures
T=$F/tokenizers
passed=0 failed=0

clean() { # EXIT ARGS... - the program ends with EXIT and valgrind finds nothing
    want=$1
    shift
    valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect,possible \
        --errors-for-leak-kinds=definite,indirect,possible "$RUN" "$@" -j 1 >"$dir/out" 2>"$dir/err" <"$dir/in"
    code=$?
    if [ $code -eq "$want" ] && ! grep -q '^==' "$dir/err"; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "not ok $*: exit $code, expected $want"; head -30 "$dir/err"; fi
}

printf 'Hello\nthere\n' >"$dir/in"
echo "a text, no model" >"$dir/text.gguf"
head -c 20000 $F/base.gguf >"$dir/cut.gguf"
for model in base.gguf base_q8_0.gguf base_q4_1.gguf base_bf16.gguf gpt2.gguf rope_longrope.gguf base_hf gpt2_hf biases_hf base_v0.bin base_v1.bin base_v2.bin; do
    clean 0 $F/$model -m logits --tokens 1,2,3 --all --json
    clean 0 $F/$model -m info
done
for tokenizer in bpe_gpt-2 bpe_llama-bpe bpe_qwen2.gguf bpe_smollm gpt2_files llama metaspace spm.bin spm.gguf spm.model; do
    clean 0 $T/$tokenizer -m tokenize -i "Hello there <s> 12" --json
done
clean 0 weights/shakespeare.gguf -n 5 -s 1 -c 64 -i "ROMEO:" --stop xyz --top-k 50 --min-p 0.01 --repeat-penalty 1.1
clean 0 weights/shakespeare.gguf -n 5 -t 0 -c 64 -i "ROMEO:" --kv-type q8_0 --check
clean 0 weights/shakespeare.gguf -n 12 -t 0 -c 64 -i "to be or not to be or not to be or not to" --lookup 8
clean 0 weights/rung4 -n 6 -s 1 -c 64 -i "ROMEO:" --draft weights/rung3 --mirostat 2
clean 0 weights/shakespeare.gguf -m chat --chat-template chatml -n 3 -c 128 -t 0 -y "Be kind."
clean 0 weights/shakespeare.gguf -m perplexity -c 32 -i "Now is the winter of our discontent made glorious summer by this sun"
clean 0 weights/shakespeare.gguf -m probe -i "Now is the winter of our discontent made glorious summer by this sun"
clean 0 $F/base.gguf -m verify -r $F/base.ref.safetensors
clean 1 $F/base_q4_0.gguf -m verify -r $F/base.ref.safetensors
clean 0 $F/base_hf -m convert -o "$dir/x.gguf" --type q4_0
clean 0 $F/base.gguf -m convert -o "$dir/x.bin"
clean 0 $F/base.gguf -m convert -o "$dir/xdir"
clean 0 -m rope --head-dim 8
clean 0 -m kv --json
clean 0 $F/families/gemma3_text.gguf -m kv
clean 1 "$dir/text.gguf"
clean 1 "$dir/cut.gguf" -m info
clean 1 $F/base.gguf -m convert -o "$dir/none/x.gguf"
clean 1 $F/base.gguf --tokens 1,99 -m logits
clean 2 --nonsense
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
