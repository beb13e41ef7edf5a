#!/usr/bin/env bash
# test_draft.sh - --lookup and --draft change how soon a text comes, and nothing of what it is.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
model=weights/shakespeare.gguf
prompt=$'ROMEO:\nO, she doth teach the torches to burn bright!\n\nJULIET:\nO, she doth teach the torches to burn bright!\n\nROMEO:\nO, she doth'

# What both runs print but for the time it took: texts, tokens, logits' probabilities, why they end.
plain() { sed -E 's/, "prefill": .*"tok_s": [0-9.]+\}(, "drafts": \{[^}]*\})?//' "$1"; }

# same NAME MODEL DRAFT ARGS... - with and without DRAFT, which is words, standard output and the last line are the same.
same() {
    local name=$1 m=$2 draft=$3 one two
    shift 3
    "$RUN" "$m" "$@" --deterministic >"$tmp/one" 2>"$tmp/one.err" </dev/null
    one=$?
    "$RUN" "$m" "$@" --deterministic $draft >"$tmp/two" 2>"$tmp/two.err" </dev/null
    two=$?
    if [ $one -ne 0 ] || [ $two -ne 0 ]; then not_ok "$name" "failed: $(tail -n 1 "$tmp/one.err" "$tmp/two.err")"
    elif ! cmp -s <(plain "$tmp/one") <(plain "$tmp/two"); then not_ok "$name" "another text: $(head -c 300 "$tmp/two")"
    elif [ "$(tail -n 1 "$tmp/one.err")" != "$(tail -n 1 "$tmp/two.err")" ]; then not_ok "$name" "$(tail -n 1 "$tmp/two.err")"
    else ok "$name"; fi
}

# Prompt lookup samples each token as it would without: with the same seed it is the same text.
while IFS='|' read -r name flags; do
    same "lookup: $name" $model "--lookup 12" -i "$prompt" -s 3 -n 60 $flags
done <<'FLAGS'
greedy|-t 0
greedy, one thread|-t 0 -j 1
sampled|-t 0.8
top-k, min-p|-t 1.2 --top-k 20 --min-p 0.02 -p 1
penalties|-t 0.7 --repeat-penalty 1.2 --frequency-penalty 0.2 --presence-penalty 0.1 --repeat-last 30
typical, dynamic temperature|-t 0.8 --typical 0.7 --dynatemp-range 0.4
XTC|-t 0.8 --xtc-probability 0.5
DRY|-t 0.6 --dry-multiplier 0.8
Mirostat|-t 1 --mirostat 2
another order|-t 0.7 --samplers top-k;temperature;penalties --top-k 30 --repeat-penalty 1.1
banned and biased|-t 0 --logit-bias 261-1 --ban 13
a text that ends it|-t 0 -n 120 --stop she --stop burn
a token that ends it|-t 0 --stop </s>
the context ends it|-t 0 -n 120 -c 130
the context goes on|-t 0 -c 110 --keep 8 -n 150
small batches|-t 0 --batch 4
f32 keys|-t 0 --kv-type f32
q8_0 keys|-t 0 --kv-type q8_0
f32 activations|-t 0 --precise
JSON|-t 0.5 --json --logprobs 3
lines of JSON|-t 0 --json=lines --logprobs 2
colour|-t 0 --color
no token|-t 0 -n 1
FLAGS
same "lookup: learned positions" weights/rung0 "--lookup 12" -i "$prompt" -t 0 -n 0
same "lookup: 64 tokens" $model "--lookup 64" -i "$prompt" -t 0 -n 120
same "lookup: a chat" $model "--lookup 12" -m chat --chat-template chatml -i "$prompt" -t 0 -n 80 -y "Thou art a poet."
for draft in weights/rung3 weights/rung4 weights/rung0; do
    same "draft: $draft, greedy" weights/rung4 "--draft $draft" -i "$prompt" -t 0 -n 100 --json -s 1
done
same "draft: for learned positions" weights/rung0 "--draft weights/rung4" -i "$prompt" -t 0 -n 0
same "draft: the context goes on" weights/rung4 "--draft weights/rung3" -i "$prompt" -t 0 -c 110 --keep 8 -n 120
same "draft: penalties" weights/rung4 "--draft weights/rung3" -i "$prompt" -t 0 -n 100 --repeat-penalty 1.3 --dry-multiplier 0.5
same "draft: a chat" weights/rung4 "--draft weights/rung3" -m chat --chat-template chatml -i "$prompt" -t 0 -n 80

# What is drafted is told: with itself as the draft nearly all is accepted.
counts() { sed -nE 's/^drafts: ([0-9]+) tokens, ([0-9]+) accepted \([0-9]+%\); ([0-9.]+) tokens a pass$/\1 \2 \3/p' "$tmp/err"; }
"$RUN" weights/rung4 --draft weights/rung4 -i "$prompt" -t 0.9 -s 1 -n 200 --deterministic >"$tmp/out" 2>"$tmp/err"
read -r drafted accepted rate <<<"$(counts)"
check "a model drafts for itself" awk "BEGIN { exit !($accepted > 80 && $accepted >= 0.97 * $drafted && $rate > 1.9) }"
"$RUN" $model --lookup 12 -i "$prompt" -t 0 -n 100 >"$tmp/out" 2>"$tmp/err"
read -r drafted accepted rate <<<"$(counts)"
check "lookup drafts" awk "BEGIN { exit !($accepted > 10 && $accepted <= $drafted && $rate > 1.1) }"
"$RUN" $model --lookup 12 -i "$prompt" -t 0 -n 100 --json --quiet >"$tmp/out" 2>"$tmp/err"
check "... in JSON too" python3 -c '
import json, sys
o = json.load(open(sys.argv[1]))
assert o["drafts"] == {"tokens": int(sys.argv[2]), "accepted": int(sys.argv[3]), "tokens_a_pass": o["drafts"]["tokens_a_pass"]}
assert abs(o["drafts"]["tokens_a_pass"] - float(sys.argv[4])) < 0.01, o' "$tmp/out" "$drafted" "$accepted" "$rate"

# A session and a receipt.
same_session() { # same_session DRAFT - two halves of a text, the second from the first one's file
    rm -f "$tmp/s"
    for part in "$prompt" "$prompt teach"; do
        "$RUN" $model -i "$part" -t 0 -n 30 --deterministic --session "$tmp/s" $1 --quiet || return
    done
}
cmp -s <(same_session) <(same_session "--lookup 9") && ok "a session" || not_ok "a session" "another text"
"$RUN" $model --lookup 9 -i "$prompt" -s 5 -n 60 --receipt "$tmp/receipt" >"$tmp/one" 2>/dev/null
check "a receipt's text again" "$RUN" -i "$prompt" --replay "$tmp/receipt"
"$RUN" weights/rung4 --draft weights/rung3 -i "$prompt" -s 5 -n 60 --receipt "$tmp/receipt" >"$tmp/one" 2>/dev/null
check "... that a model drafted for" "$RUN" -i "$prompt" --replay "$tmp/receipt"
printf 'To be\nTo be or not\nTo be or not to be\n' >"$tmp/lines"
talk() { "$RUN" $model -m chat --chat-template chatml -t 0 -n 40 --deterministic "$@" <"$tmp/lines" 2>/dev/null; }
cmp -s <(talk) <(talk --lookup 9) && ok "a conversation" || not_ok "a conversation" "another text"
cmp -s <(talk) <(talk --lookup 9 -c 150) && not_ok "a short context" "it makes no difference" || ok "a short context"
cmp -s <(talk -c 150) <(talk --lookup 9 -c 150) && ok "a conversation that forgets" || not_ok "a conversation that forgets" "another text"

# What cannot be.
refused "both" 2 "--lookup, --draft: expected one of them, found both" $model --lookup 3 --draft weights/rung4
refused "a known mistake" 2 "--lookup: expected no --break, found --break" $model --lookup 3 --break no-mask
refused "no tokens" 2 "--lookup: expected an integer from 1 to 64, found '0'" $model --lookup 0
mkdir "$tmp/other"
cp weights/rung4/* "$tmp/other"
python3 - "$tmp/other/tokenizer.model" <<'PY'
import sys
data = open(sys.argv[1], "rb").read()
assert data.count("\n\x06▁king".encode()) < 2
open(sys.argv[1], "wb").write(data.replace("▁the".encode(), "▁eht".encode(), 1))
PY
refused "another vocabulary" 1 "other: vocabulary: token [0-9]*: expected '.*the' as in weights/rung4, found '.*eht'" weights/rung4 --draft "$tmp/other"
smollm2=weights/SmolLM2-135M-Instruct.Q4_1.gguf
if [ -e $smollm2 ]; then refused "a vocabulary of another size" 1 "$smollm2: vocabulary: expected the 1024 tokens of weights/rung4, found 49152" weights/rung4 --draft $smollm2
else skip "a vocabulary of another size" "no SmolLM2 (make smollm2)"; fi
refused "no such draft" 1 "weights/none" $model --draft weights/none
for mode in batch bench logits perplexity tokenize info verify; do
    refused "$mode drafts nothing" 2 "--lookup: expected -m generate, chat, found -m $mode" $model -m $mode --lookup 4
    refused "$mode has no draft" 2 "--draft: expected -m generate, chat, found -m $mode" $model -m $mode --draft $model
done
