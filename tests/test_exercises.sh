#!/usr/bin/env bash
# exercises/: the answers solve them, the stubs say that nothing is written yet, and a usual mistake in each (in
# tests/exercises, with what is to be said of it in the first line) is named. The plain forward pass is ./run's.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
config=$(basename "$(dirname "$(readlink -f "$RUN")")")
[ -e "build/$config/libmodel.a" ] || { skip "exercises" "no build/$config/libmodel.a"; exit 0; }
case $config in asan | tsan | coverage | aarch64) skip "exercises" "they are built with the compiler's usual flags"; exit 0 ;; esac

solve() { make -s CONFIG="$config" exercise N="$1" FILE="$2" >"$tmp/out" 2>&1; }
for n in 1 2 3 4 5 6 7 8; do
    answer=$(echo exercises/answers/${n}_*.c) stub=$(echo exercises/${n}_*.c) mistake=$(echo tests/exercises/${n}_*.c)
    if solve $n "$answer" && [ "$(tail -n 1 "$tmp/out")" = solved ] && grep -q "bits per byte; target" "$tmp/out"; then ok "$answer solves it"
    else not_ok "$answer solves it" "$(tail -n 3 "$tmp/out")"; fi
    if grep -q "warning" "$tmp/out"; then not_ok "$answer has no warning" "$(grep -m 1 warning "$tmp/out")"; fi
    solve $n ""
    if [ $? -ne 0 ] && grep -q "likely cause: not written yet" "$tmp/out"; then ok "$stub: not written yet"
    else not_ok "$stub: not written yet" "$(tail -n 3 "$tmp/out")"; fi
    words=$(sed -n '1s,^/\* expected: \(.*\) \*/$,\1,p' "$mistake")
    solve $n "$mistake"
    if [ $? -ne 0 ] && grep -q "^wrong " "$tmp/out" && grep -qF "likely cause: " "$tmp/out" && grep -qF -- "$words" "$tmp/out"; then ok "$mistake is named: $words"
    else not_ok "$mistake is named: $words" "$(tail -n 3 "$tmp/out")"; fi
done
solve 9 ""
if [ $? -ne 0 ] && grep -q "N: expected 1 to 8, found '9'" "$tmp/out"; then ok "there are eight"; else not_ok "there are eight" "$(cat "$tmp/out")"; fi
solve 3 "$tmp/none.c"
if [ $? -ne 0 ] && grep -q "none.c: expected your C file, found none" "$tmp/out"; then ok "a file that is not there"; else not_ok "a file that is not there" "$(cat "$tmp/out")"; fi

# What the plain forward pass says of a text is what the program says.
solve 1 exercises/answers/1_rmsnorm.c
target=$(sed -n 's/.*target \([0-9.]*\)$/\1/p' "$tmp/out")
ids=$("$RUN" weights/rung4 -m tokenize -f exercises/text.txt | tr ' ' '\n' | sed -n 2,200p | paste -sd,)
"$RUN" weights/rung4 -m tokenize --tokens "$ids" >"$tmp/text"
truncate -s -1 "$tmp/text"
bits=$("$RUN" weights/rung4 -m perplexity -f "$tmp/text" --kv-type f32 --json --quiet | sed 's/.*"bits_per_byte": \([0-9.]*\).*/\1/')
if awk "BEGIN { exit !(${bits:-0} - ${target:-9} < 1e-3 && ${target:-9} - ${bits:-0} < 1e-3) }"; then ok "the plain forward pass is the program's"
else not_ok "the plain forward pass is the program's" "$target, the program says $bits"; fi
