#!/usr/bin/env bash
# test_receipt.sh - a receipt makes its text again, on any number of threads; what differs is said.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
M=weights/shakespeare.gguf
"$RUN" $M -n 40 -i ROMEO: --deterministic --top-k 20 -t 0.8 --stop ZZZ --receipt "$tmp/r.json" >"$tmp/text" 2>"$tmp/err"
check "it holds what the text came of" python3 - "$tmp/r.json" "$tmp/text" $M <<'P'
import hashlib, json, sys
r = json.load(open(sys.argv[1]))
text = open(sys.argv[2]).read()[len("ROMEO:"):-1]
assert r["text_sha256"] == hashlib.sha256(text.encode()).hexdigest(), text
assert r["prompt_sha256"] == hashlib.sha256(b"ROMEO:").hexdigest()
assert r["model_sha256"] == hashlib.sha256(open(sys.argv[3], "rb").read()).hexdigest()
assert r["model"] == sys.argv[3] and len(r["tokens"]) == 40 and r["cpu"] and r["version"]
assert r["flags"][-2:] == ["--seed", str(r["seed"])] and "--top-k" in r["flags"] and "--receipt" not in r["flags"], r["flags"]
P
for j in 1 2 3; do
    check "replay with $j threads" diff "$tmp/text" <("$RUN" --replay "$tmp/r.json" -j $j 2>/dev/null)
done
# The text is a level's: a receipt names it, and replay uses it where the CPU has it.
levels=$("$RUN" --version | sed -n 's/^kernels: .* of //p')
for level in $levels; do
    RUN_CPU=$level "$RUN" $M -n 60 -i ROMEO: --deterministic -s 3 --receipt "$tmp/$level.json" >"$tmp/$level.text" 2>/dev/null
    for j in 1 3; do
        check "replay of $level with $j threads" diff "$tmp/$level.text" <("$RUN" --replay "$tmp/$level.json" -j $j 2>/dev/null)
    done
done
for receipt in $levels; do
    for level in $levels; do
        [ $receipt != $level ] || continue
        RUN_CPU=$level "$RUN" --replay "$tmp/$receipt.json" >"$tmp/out" 2>"$tmp/err"
        case $? in
        0) check "$receipt's receipt by $level" diff "$tmp/$receipt.text" "$tmp/out" ;;
        1) check "$receipt's receipt by $level: what differs" grep -q "found another from token.*CPU level: $receipt, here $level)" "$tmp/err" ;;
        *) not_ok "$receipt's receipt by $level" "$(tail -n 1 "$tmp/err")" ;;
        esac
    done
done
RUN_CPU=ref "$RUN" weights/rung4 -t 0 -n 60 -i ROMEO: --deterministic --receipt "$tmp/f32.json" >"$tmp/f32.text" 2>/dev/null
RUN_CPU=${levels%% *} "$RUN" --replay "$tmp/f32.json" >"$tmp/out" 2>"$tmp/err"
code=$?
check "another level gives the text again, or says what differs" sh -c "diff '$tmp/f32.text' '$tmp/out' && [ $code -eq 0 ] || \
    { [ $code -eq 1 ] && grep -q 'found another from token' '$tmp/err'; }"
"$RUN" --replay "$tmp/r.json" >/dev/null 2>"$tmp/err"
check "replay succeeds" grep -q '^stop: ' <(tail -n 1 "$tmp/err")
cp $M "$tmp/copy.gguf"
check "a model elsewhere" diff "$tmp/text" <("$RUN" "$tmp/copy.gguf" --replay "$tmp/r.json" 2>/dev/null)
cat $M <(echo) >"$tmp/other.gguf"
check "the same text of another model" diff "$tmp/text" <("$RUN" "$tmp/other.gguf" --replay "$tmp/r.json" 2>"$tmp/err")
check "is said" grep -q '^replay: the same text of another model: sha256 [0-9a-f]*, the receipt.s [0-9a-f]*$' "$tmp/err"
check "and not of the same" sh -c '! grep -q ^replay' < <("$RUN" --replay "$tmp/r.json" 2>&1 >/dev/null)

differs() { # NAME WORDS ARGS... - exit 1, and the last line says it
    local name=$1 words=$2
    shift 2
    "$RUN" "$@" >"$tmp/out" 2>"$tmp/err"
    if [ $? -ne 1 ]; then not_ok "$name" "exit code"
    elif ! tail -n 1 "$tmp/err" | grep -q "^run: .*$words"; then not_ok "$name" "$(tail -n 1 "$tmp/err")"
    else ok "$name"; fi
}
differs "another temperature" "text: expected the receipt's, found another from token [0-9]* on (model: the same" --replay "$tmp/r.json" -t 2.5
differs "another model" "(model: another" weights/rung4 --replay "$tmp/r.json"
differs "another prompt" "prompt: expected that of sha256" --replay "$tmp/r.json" -i JULIET:
refused "no receipt" 2 "none.json" --replay "$tmp/none.json"
echo '{"a": 1}' >"$tmp/bad.json"
refused "another kind of file" 2 "bad.json" --replay "$tmp/bad.json"
differs "a receipt that cannot be written" "nowhere.*No such file" $M -n 2 -i A --no-echo --quiet --receipt "$tmp/nowhere/r.json" 
empty "nothing is left aside" "$(ls "$tmp" | grep part)"
