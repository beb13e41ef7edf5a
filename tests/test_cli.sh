#!/bin/sh
# test_cli.sh - the program as a user calls it: output, exit codes, bad input, pipes, Ctrl-C. RUN is the program.
cd "$(dirname "$0")/.." || exit 1
RUN=${RUN:-./run}
model=../shared/data/stories260K.bin
tok=../shared/data/tok512.bin
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

ok() { echo "ok $1"; }
not_ok() { echo "not ok $1: $2"; }

# refused NAME CODE WORD ARGS... - the program ends with CODE, one line "run: ... WORD ...", nothing on stdout.
refused() {
    name=$1 code=$2 word=$3
    shift 3
    timeout 60 "$RUN" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    status=$?
    if [ $status -ne "$code" ]; then not_ok "$name" "exit $status, expected $code: $(head -c 200 "$tmp/err")"
    elif [ -s "$tmp/out" ]; then not_ok "$name" "something on standard output"
    elif [ "$(grep -c . "$tmp/err")" -ne 1 ]; then not_ok "$name" "more than one line: $(head -c 300 "$tmp/err")"
    elif ! grep -q "^run: .*$word" "$tmp/err"; then not_ok "$name" "the line does not name $word: $(cat "$tmp/err")"
    else ok "$name"; fi
}

refused "unknown flag" 2 nonsense --nonsense
refused "no checkpoint" 2 CHECKPOINT
refused "unknown mode" 2 mode x.bin -m sing
refused "missing file" 1 "none.bin" "$tmp/none.bin"
: >"$tmp/empty.bin"
refused "empty file" 1 "empty.bin" "$tmp/empty.bin"
echo "a text, no model" >"$tmp/text.bin"
refused "text file" 1 "text.bin" "$tmp/text.bin"
head -c 4096 /dev/zero >"$tmp/zero.bin"
refused "zeroes" 1 "zero.bin" "$tmp/zero.bin"
printf 'GGUF\003\000\000\000\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377' >"$tmp/absurd.gguf"
refused "absurd counts" 1 "absurd.gguf" "$tmp/absurd.gguf"
printf '\200\000\000\000\000\002\000\000\005\000\000\000\010\000\000\000\004\000\000\000\377\377\377\177\000\002\000\000' >"$tmp/absurd.bin"
refused "absurd vocabulary" 1 "absurd.bin" "$tmp/absurd.bin"
mkdir "$tmp/dir"
refused "directory without config.json" 1 "dir" "$tmp/dir"

if "$RUN" --help 2>/dev/null | grep -q -- --temperature; then ok "help"; else not_ok "help" "no --temperature in it"; fi
if "$RUN" --version 2>/dev/null | grep -q '^run [0-9]'; then ok "version"; else not_ok "version" "no number"; fi

if [ ! -e "$model" ]; then
    echo "skip generation: no ../shared/data"
    exit 0
fi

"$RUN" $model -z $tok -t 0 -n 200 >"$tmp/out" 2>"$tmp/err"
if cmp -s "$tmp/out" ../shared/data/stories260K.expected.txt; then ok "the peer's text"
else not_ok "the peer's text" "$(diff "$tmp/out" ../shared/data/stories260K.expected.txt | head -c 300)"; fi
if [ "$(tail -n 1 "$tmp/err")" = "stop: steps" ] && grep -qE '^prefill: 1 tokens, [0-9.]+ tok/s; decode: 200 tokens, [0-9.]+ tok/s$' "$tmp/err"
then ok "statistics"; else not_ok "statistics" "$(cat "$tmp/err")"; fi

head -c 300000 $model >"$tmp/cut.bin"
refused "truncated" 1 "cut.bin" "$tmp/cut.bin" -z $tok
head -c 2000 $tok >"$tmp/cut_tok.bin"
refused "truncated tokenizer" 1 "cut_tok.bin" $model -z "$tmp/cut_tok.bin"
refused "missing tokenizer" 1 "nowhere" $model -z "$tmp/nowhere"
cp $model "$tmp/alone.bin"
refused "no tokenizer beside it" 1 "tokenizer" "$tmp/alone.bin"
# head_dim 64 / 9 heads is no whole number; n_heads is the fourth number of the header
{ head -c 12 $model; printf '\011\000\000\000'; tail -c +17 $model; } >"$tmp/heads.bin"
refused "odd head_dim" 1 "heads.bin" "$tmp/heads.bin" -z $tok
refused "token id beyond the vocabulary" 1 "512" $model --tokens 1,512 -m logits
refused "context of learned length" 1 "memory" $model -z $tok -c 67108864
i=0 long=
while [ $i -lt 120 ]; do long="$long Once upon a time"; i=$((i + 1)); done
refused "prompt longer than the context" 1 "context" $model -z $tok -c 64 -i "$long"
if [ "$(id -u)" -ne 0 ]; then
    cp $model "$tmp/locked.bin" && chmod 000 "$tmp/locked.bin"
    refused "unreadable file" 1 "locked.bin" "$tmp/locked.bin"
else echo "skip unreadable file: root reads everything"; fi

same() { # same NAME WANT ARGS... - standard output is WANT
    name=$1 want=$2
    shift 2
    got=$("$RUN" $model -z $tok "$@" 2>"$tmp/err")
    if [ "$got" = "$want" ]; then ok "$name"; else not_ok "$name" "'$got', expected '$want': $(tail -n 1 "$tmp/err")"; fi
}
stopped() { # the last line of the run before
    if [ "$(tail -n 1 "$tmp/err")" = "stop: $2" ]; then ok "$1"; else not_ok "$1" "$(tail -n 1 "$tmp/err")"; fi
}
same "prompt echo" "Once upon a time, there was" -t 0 -n 3 -i "Once upon a time"
same "no echo" ", there was" -t 0 -n 3 -i "Once upon a time" --no-echo
# a stop text that spans tokens is not printed, nor anything after it
same "stop text" "Once upon a time, the" -t 0 -n 50 --stop "re was a li"
same "stop text, held back to the end of it" "Once upon a time, the" -t 0 -n 50 --stop "re was"
stopped "stop reason" stop-text
same "stop text that does not come" "Once upon a time, there was" -t 0 -n 7 --stop "was x"
printf 'Once upon a time' >"$tmp/prompt.txt"
same "prompt from a file" "Once upon a time, there was" -t 0 -n 3 -f "$tmp/prompt.txt"
got=$(printf 'Once upon a time' | "$RUN" $model -z $tok -t 0 -n 3 -f - 2>/dev/null)
if [ "$got" = "Once upon a time, there was" ]; then ok "prompt from standard input"; else not_ok "prompt from standard input" "$got"; fi
ids=$("$RUN" $model -z $tok -m tokenize -i "Once upon a time" 2>/dev/null)
same "token ids as prompt" "Once upon a time, there was" -t 0 -n 3 --tokens "$(echo "$ids" | tr ' ' ,)"
got=$("$RUN" $tok -m tokenize --tokens "$(echo "$ids" | tr ' ' ,)" 2>/dev/null)
if [ "$got" = "Once upon a time" ]; then ok "tokenize there and back"; else not_ok "tokenize there and back" "$got"; fi
"$RUN" $model -z $tok -t 0 -n 0 -c 40 >"$tmp/out" 2>"$tmp/err"
if [ $? -eq 0 ] && [ "$(tail -n 1 "$tmp/err")" = "stop: context" ]; then ok "context full"; else not_ok "context full" "$(tail -n 1 "$tmp/err")"; fi

# one seed, one text: on every run and with every number of threads
a=$("$RUN" $model -z $tok -s 7 -n 60 -j 1 2>/dev/null)
for j in 1 2 3; do
    b=$("$RUN" $model -z $tok -s 7 -n 60 -j $j 2>/dev/null)
    if [ "$a" = "$b" ]; then ok "seed 7 with $j threads"; else not_ok "seed 7 with $j threads" "another text"; fi
done
b=$("$RUN" $model -z $tok -s 8 -n 60 2>/dev/null)
if [ "$a" != "$b" ]; then ok "another seed, another text"; else not_ok "another seed, another text" "the same"; fi
if "$RUN" $model -z $tok -n 1 2>&1 >/dev/null | grep -qE '^seed: [0-9]+$'; then ok "fresh seed is printed"; else not_ok "fresh seed is printed" "it is not"; fi

# modes for machines
json() { # json NAME PYTHON ARGS... - the output is JSON d, and PYTHON holds
    name=$1 holds=$2
    shift 2
    if "$RUN" $model -z $tok "$@" --json 2>"$tmp/err" | python3 -c "import json,sys; d=json.load(sys.stdin); assert $holds, d" 2>"$tmp/py"
    then ok "$name"; else not_ok "$name" "$(tail -n 1 "$tmp/py" | head -c 300) $(head -c 200 "$tmp/err")"; fi
}
json "info" 'd["dim"] == 64 and d["n_heads"] == 8 and d["n_kv_heads"] == 4 and d["head_dim"] == 8 and d["vocab_size"] == 512 and d["rope_pairing"] == "pairs" and d["format"] and d["kv_bytes_per_token"] > 0 and sum(d["dtypes"].values()) > 40' -m info
json "bench" '[r["test"] for r in d["results"]] == ["pp8", "tg4"] and d["threads"] > 0 and d["cpu"] and all(0 < r["min"] <= r["tok_s"] <= r["max"] and r["fraction_of_limit"] > 0 for r in d["results"]) and d["read_gb_s"] > 0 and d["sgemm_gflops"] > 0' -m bench -P 8 -n 4 -r 3
json "bench of decode alone, at depth" '[r["test"] for r in d["results"]] == ["tg4@d16"]' -m bench -P 0 -n 4 -d 16 -r 2
json "logits" 'len(d["logits"]) == 512 and d["tokens"] == [1, 5, 9]' -m logits --tokens 1,5,9
json "logits of all positions" 'len(d["logits"]) == 3 and len(d["logits"][2]) == 512' -m logits --tokens 1,5,9 --all
json "tokenize" 'd["ids"][0] == 1 and len(d["ids"]) == len(d["pieces"])' -m tokenize -i "Hello there"
head -c 3000 ../shared/data/stories260K.expected.txt >"$tmp/text.txt"
json "perplexity hf" 'd["protocol"] == "hf" and 1 < d["ppl"] < 3 and d["bits_per_byte"] > 0' -m perplexity -f "$tmp/text.txt"
json "perplexity llamacpp" 'd["protocol"] == "llamacpp" and d["tokens"] % 15 == 0' -m perplexity -f "$tmp/text.txt" --protocol llamacpp -c 32
# both protocols by their definitions, from the logits of every window
cat >"$tmp/perplexity.py" <<'P'
import json, math, subprocess, sys
run, model, tok, text = sys.argv[1:]
def call(*args): return json.loads(subprocess.run([run, model, *args, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout)
def nll(window, first):
    rows = call("-m", "logits", "--all", "--tokens", ",".join(map(str, window)))["logits"]
    total = 0
    for i in range(max(first, 1), len(window)):
        row = rows[i - 1]
        total += max(row) + math.log(sum(math.exp(x - max(row)) for x in row)) - row[window[i]]
    return total
ids = call("-z", tok, "-m", "tokenize", "-f", text)["ids"]
size = len(open(text, "rb").read())
want, scored, n = 0, 1, 64
for begin in range(0, len(ids), n // 2):
    end = min(begin + n, len(ids))
    want += nll(ids[begin:end], scored - begin)
    scored = end
    if end == len(ids): break
got = call("-z", tok, "-m", "perplexity", "-f", text, "-c", str(n), "--kv-type", "f32")
assert got["tokens"] == len(ids) - 1, (got, len(ids))
assert abs(got["nll"] / want - 1) < 1e-4 and abs(got["ppl"] / math.exp(want / (len(ids) - 1)) - 1) < 1e-4, (got, want)
assert abs(got["bits_per_byte"] / (want / math.log(2) / size) - 1) < 1e-4, got
want = sum(nll([1] + ids[b + 1:b + n], n // 2 + 1) for b in range(0, len(ids) - n + 1, n))
got = call("-z", tok, "-m", "perplexity", "-f", text, "-c", str(n), "--kv-type", "f32", "--protocol", "llamacpp")
assert got["tokens"] == len(ids) // n * (n // 2 - 1), (got, len(ids))
assert abs(got["nll"] / want - 1) < 1e-4, (got, want)
P
head -c 465 ../shared/data/stories260K.expected.txt | tr -d '\n' >"$tmp/line.txt"
if python3 "$tmp/perplexity.py" "$RUN" $model $tok "$tmp/line.txt" 2>"$tmp/py"; then ok "perplexity by its definitions"
else not_ok "perplexity by its definitions" "$(tail -n 1 "$tmp/py" | head -c 300)"; fi
refused "perplexity of nothing" 2 "text" $model -z $tok -m perplexity
printf 'a' >"$tmp/short.txt"
refused "text too short for llamacpp" 1 "tokens" $model -z $tok -m perplexity -f "$tmp/short.txt" --protocol llamacpp
refused "chat without a template" 1 "template" $model -z $tok -m chat
refused "unknown chat template" 1 "template" $model -z $tok -m chat --chat-template parrot
printf 'Hi\nAnd you?\n' | "$RUN" $model -z $tok -m chat --chat-template llama-2 -t 0 -n 5 >"$tmp/out" 2>"$tmp/err"
if [ $? -eq 0 ] && [ "$(wc -l <"$tmp/out")" -ge 2 ] && [ "$(grep -c '^prefill:' "$tmp/err")" -eq 2 ]; then ok "chat from a pipe"
else not_ok "chat from a pipe" "$(cat "$tmp/err")"; fi
# the model's own template: recognised and named, or refused by name; the tokenizer fixture, filled up to the model's 512
mkdir -p "$tmp/chat"
python3 - "$tmp/chat" <<'P'
import json, sys
t = json.load(open("tests/fixtures/tokenizers/llama/tokenizer.json"))
some = t["added_tokens"][-1]
t["added_tokens"] += [{**some, "id": i, "content": f"<{i}>"} for i in range(len(t["model"]["vocab"]) + 2, 512)]
json.dump(t, open(sys.argv[1] + "/tokenizer.json", "w"))
P
cp tests/fixtures/tokenizers/llama/tokenizer_config.json "$tmp/chat/"
cp tests/fixtures/chat/llama-3.2.jinja "$tmp/chat/chat_template.jinja"
echo Hi | "$RUN" $model -z "$tmp/chat" -m chat -t 0 -n 5 >"$tmp/out" 2>"$tmp/err"
if [ $? -eq 0 ] && grep -qx 'chat template: llama-3.2' "$tmp/err"; then ok "chat by the model's template"
else not_ok "chat by the model's template" "$(cat "$tmp/err")"; fi
cp tests/fixtures/chat/phi-3.jinja "$tmp/chat/chat_template.jinja"
refused "chat template that no row is for" 1 "found that of Phi-3" $model -z "$tmp/chat" -m chat
cp tests/fixtures/chat/gemma.jinja "$tmp/chat/chat_template.jinja"
refused "system prompt that the template has not" 1 "gemma: expected no system prompt" $model -z "$tmp/chat" -m chat --quiet -y "Be brief." -i Hi

# a reader that goes away, and Ctrl-C
got=$("$RUN" $model -z $tok -t 0 -n 0 2>"$tmp/err" | head -c 10)
if [ "$got" = "Once upon " ] && ! grep -q '^run:' "$tmp/err"; then ok "closed pipe"; else not_ok "closed pipe" "'$got' $(cat "$tmp/err")"; fi
if [ -w /dev/full ]; then
    "$RUN" $model -z $tok -t 0 -n 5 >/dev/full 2>"$tmp/err"
    if [ $? -eq 1 ] && grep -q '^run: standard output' "$tmp/err"; then ok "disk full"; else not_ok "disk full" "$(cat "$tmp/err")"; fi
fi
cat >"$tmp/interrupt.py" <<'P'
import signal, subprocess, sys
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
p.stdout.read(1)  # it is generating
p.send_signal(signal.SIGINT)
out, err = p.communicate(timeout=60)
lines = err.decode().splitlines()
assert p.returncode == 130, (p.returncode, lines)
assert lines[-1] == "stop: interrupt" and lines[-2].startswith("prefill: "), lines
P
if python3 "$tmp/interrupt.py" "$RUN" $model -z $tok -t 1 -s 1 -c 60000 -n 0 2>"$tmp/py"; then ok "Ctrl-C"
else not_ok "Ctrl-C" "$(tail -n 1 "$tmp/py")"; fi

cat >"$tmp/shrink.py" <<'P'
import os, subprocess, sys
model = sys.argv[2]
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
p.stdout.read(1)  # it is generating
os.truncate(model, 4096)
out, err = p.communicate(timeout=60)
lines = err.decode().splitlines()
assert p.returncode == 1, (p.returncode, lines)
assert lines[-1] == "run: " + os.path.realpath(model) + ": size: expected it to stay, found the file changed while in use", lines
P
cp $model "$tmp/shrinks.bin"
if python3 "$tmp/shrink.py" "$RUN" "$tmp/shrinks.bin" -z $tok -t 1 -s 1 -c 60000 -n 0 2>"$tmp/py"; then ok "a model that shrinks"
else not_ok "a model that shrinks" "$(tail -n 1 "$tmp/py")"; fi

# the bank of files from public bug reports
cases=../shared/cases/run_cases.py
if [ -e $cases ]; then
    timeout 800 python3 $cases --run "$RUN" >"$tmp/cases" 2>&1
    wrong=$(sed '$d' "$tmp/cases")
    if [ -z "$wrong" ] && grep -qE '^[0-9]+ passed' "$tmp/cases"; then ok "case bank ($(tail -n 1 "$tmp/cases"))"
    else not_ok "case bank" "$wrong"; fi
else echo "skip case bank: no ../shared/cases"; fi
