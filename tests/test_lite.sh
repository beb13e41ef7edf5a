#!/usr/bin/env bash
# test_lite.sh - the small program is built by gcc and the C library alone, writes the whole program's text, and refuses
# by name what it leaves out.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
case $RUN in
*release*) ;;
*) ok "the release program's test builds it" && exit 0 ;;
esac
copy=$tmp/copy
mkdir -p "$copy" "$tmp/forbidden/cjson" "$tmp/forbidden/editline"
cp -r Makefile scripts src ./*.c ./*.h "$copy"
for header in cjson/cJSON.h editline/readline.h oniguruma.h utf8proc.h cblas.h sentencepiece_processor.h; do
    echo '#error "a library that the small program must not need"' >"$tmp/forbidden/$header"
done
check "make lite" env CPPFLAGS="-I$tmp/forbidden" CXX=false make -C "$copy" -j2 lite
lite=$copy/run-lite
empty "it is linked with libc, libm and OpenMP only" "$(ldd "$lite" | grep -vE '^\s*(linux-vdso|libm|libgomp|libc|libpthread|/lib.*/ld-linux|/lib/ld-linux)')"

M=weights/shakespeare.gguf
"$RUN" $M -m convert -o "$tmp/m.bin" --quiet
for args in "$M -t 0 -n 60 -i ROMEO:" "$M -s 7 -n 40 -i ROMEO:" "$M -m tokenize -i ROMEO:" "$M -m info" "$M -m logits --tokens 1,2,3" \
    "$tmp/m.bin -z $M -t 0 -n 40 -i ROMEO:" "-m rope --json --x 1,0,1,0 --pos 3" "-m rope"; do
    # shellcheck disable=SC2086
    check "as the whole program: ${args//$tmp\//}" diff <(RUN_CPU=avx2 "$RUN" $args 2>/dev/null) <("$lite" $args 2>/dev/null)
done

RUN=$lite
refused "no chat" 2 "found chat, which needs libedit" $M -m chat
refused "no bench" 2 "found bench" $M -m bench
refused "no convert" 2 "found convert" $M -m convert -o "$tmp/x.gguf"
refused "no verify" 2 "found verify" $M -m verify -r tests/fixtures/verify/base.safetensors
refused "no Hugging Face directory" 1 "rung4: format: expected a llama2.c or GGUF file" weights/rung4
refused "no safetensors" 1 "expected a llama2.c or GGUF file" weights/rung4/model.safetensors
refused "no sentencepiece model" 1 "found a sentencepiece model" $M -z weights/rung4/tokenizer.model
refused "no tokenizer.json" 1 "found JSON" $M -z tests/fixtures/tokenizers/llama/tokenizer.json
smollm2=weights/SmolLM2-135M-Instruct.Q4_1.gguf
if [ -e $smollm2 ]; then refused "no regular expressions" 1 "without regular expressions" $smollm2 -i Hello
else skip "no regular expressions" "no SmolLM2 (make smollm2)"; fi
