#!/usr/bin/env bash
# test_batch.sh - -m batch: each line gets the text that it gets alone, whatever runs beside it; a run that was cut short
# goes on where it ended.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
model=weights/shakespeare.gguf

python3 - "$tmp/in.jsonl" <<'PY'
import json, sys
shared = "First Citizen: Before we proceed any further, hear me speak of the corn and the price of it; "
lines = [{"prompt": "ROMEO:", "seed": 1}, {"id": "two", "prompt": "JULIET:", "seed": 2, "max_tokens": 7},
         {"prompt": shared + "and of war", "seed": 3}, {"prompt": shared + "and of peace", "seed": "18446744073709551615"},
         {"id": 5.5, "prompt": "The king", "temperature": 0, "top_k": 5}, {"prompt": "", "seed": 6, "stop": [".", "!"]},
         {"prompt": shared + "or of nothing at all", "seed": 7, "top_p": 0.5}, {"tokens": [5, 6, 7], "seed": 8},
         {"prompt": "O", "seed": 9, "steps": 100}, {"prompt": "A", "seed": 10, "repeat_penalty": 1.3}]
open(sys.argv[1], "w").write("".join(json.dumps(line) + "\n\n" for line in lines))
PY

batch() { "$RUN" $model -m batch -n 24 --deterministic "$@" >"$tmp/stdout" 2>"$tmp/err" </dev/null; }
check "a batch" batch -f "$tmp/in.jsonl" -o "$tmp/out.jsonl" --parallel 4
if [ -s "$tmp/stdout" ]; then not_ok "standard output stays empty" "it is not"; else ok "standard output stays empty"; fi
check "what prompts begin with is read once" grep -q 'prefill: [0-9]* tokens, [4-9][0-9] more copied' "$tmp/err"
check "the text of each alone, in order" python3 - "$RUN" $model "$tmp" <<'PY'
import json, subprocess, sys
run, model, tmp = sys.argv[1:]
lines = [json.loads(line) for line in open(tmp + "/in.jsonl") if line.strip()]
results = [json.loads(line) for line in open(tmp + "/out.jsonl")]
assert [r["id"] for r in results] == [line.get("id", i + 1) for i, line in enumerate(lines)], "ids"
names = {"temperature": "-t", "top_k": "--top-k", "top_p": "-p", "seed": "-s", "max_tokens": "-n", "steps": "-n", "repeat_penalty": "--repeat-penalty"}
for line, result in zip(lines, results):
    args = [run, model, "--json", "--deterministic", "--quiet", "-n", "24"]
    args += ["-i", line["prompt"]] if "prompt" in line else ["--tokens", ",".join(map(str, line["tokens"]))]
    for key, value in line.items():
        args += [names[key], str(value)] if key in names else []
    for stop in line.get("stop", []):
        args += ["--stop", stop]
    alone = json.loads(subprocess.run(args, check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL).stdout)
    for key in ["prompt", "text", "tokens", "stop"] + (["seed"] if "seed" in line else []):
        assert alone[key] == result[key], (line, key, alone[key], result[key])
PY
cut_at() { head -c "$1" "$tmp/out.jsonl" >"$tmp/cut.jsonl"; }
texts() { sed 's/"seed": [0-9]*, "prefill.*//' "$1"; } # all but the time it took
whole=$(wc -c <"$tmp/out.jsonl")
wrong=
for bytes in 0 1 $((whole / 3)) $((whole / 2)) $((whole - 1)) $whole; do
    cut_at $bytes
    batch -f "$tmp/in.jsonl" -o "$tmp/cut.jsonl" || wrong="$wrong exit at $bytes"
    complete=$(head -c $bytes "$tmp/out.jsonl" | tr -dc '\n' | wc -c)
    cmp -s <(texts "$tmp/cut.jsonl") <(texts "$tmp/out.jsonl") || wrong="$wrong text at $bytes"
    cmp -s <(head -n $complete "$tmp/cut.jsonl") <(head -n $complete "$tmp/out.jsonl") || wrong="$wrong done again at $bytes"
done
empty "goes on where it was cut" "$wrong"

# Ctrl-C in the middle: what is there is whole lines, and the same command does the rest.
rm -f "$tmp/stopped.jsonl"
python3 - "$tmp/long.jsonl" <<'PY'
import json, sys
open(sys.argv[1], "w").write("".join(json.dumps({"prompt": "The king of %d" % i, "seed": i}) + "\n" for i in range(300)))
PY
"$RUN" $model -m batch -f "$tmp/long.jsonl" -o "$tmp/stopped.jsonl" -n 200 --parallel 2 -j 1 2>"$tmp/err" &
pid=$!
for _ in $(seq 200); do [ -s "$tmp/stopped.jsonl" ] && break; sleep 0.05; done
kill -INT $pid
wait $pid
status=$?
if [ $status -eq 130 ] && grep -q '^stop: interrupt' "$tmp/err"; then ok "Ctrl-C"; else not_ok "Ctrl-C" "exit $status: $(head -c 200 "$tmp/err")"; fi
check "whole lines are left" python3 -c 'import json, sys; assert 0 < len([json.loads(l) for l in open(sys.argv[1])]) < 300' "$tmp/stopped.jsonl"

# What is wrong with a line is in its result.
cat >"$tmp/bad.jsonl" <<'LINES'
{"prompt": 3}
not JSON
{"prompt": "a", "temprature": 1}
{"prompt": "a", "temperature": "hot"}
{"id": "m", "messages": [{"role": "user", "content": "hello"}]}
{"prompt": "a", "tokens": [1]}
{"prompt": "fine", "seed": 1}
{"tokens": [1, 99999]}
LINES
refused "errors" 1 "expected 8 prompts that can be answered, found 7 that cannot" $model -m batch -f "$tmp/bad.jsonl" -o "$tmp/errors.jsonl" -n 3 --quiet
check "each line's error" python3 - "$tmp/errors.jsonl" <<'PY'
import json, sys
words = ["expected a text", "JSON", "temprature", "temperature: expected a number", "chat template", "found more", None, "expected an id"]
for line, word in zip(map(json.loads, open(sys.argv[1])), words, strict=True):
    assert ("text" in line) if word is None else word in line["error"], (line, word)
PY
check "messages through a template" batch -f <(grep messages "$tmp/bad.jsonl") -o "$tmp/chat.jsonl" --chat-template chatml
check "... and their answer" grep -q '^{"id": "m", "prompt": "hello", "text": ' "$tmp/chat.jsonl"

refused "another file's results" 1 'line 1: expected the result of .* in .*long.jsonl' $model -m batch -f "$tmp/long.jsonl" -o "$tmp/chat.jsonl"
refused "no output" 2 "--output: expected the file of the results" $model -m batch -f "$tmp/in.jsonl"
refused "no prompts" 2 "--file: expected the file of the prompts" $model -m batch -o "$tmp/none"
