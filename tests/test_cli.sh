#!/usr/bin/env bash
# test_cli.sh - the program as a user calls it: output, exit codes, bad input, pipes, Ctrl-C.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
tok=weights/rung4/tokenizer.model
model=$tmp/rung4.bin # a llama2.c file of the small LLaMA, which needs -z
"$RUN" weights/rung4 -m convert -o "$model" --quiet || not_ok "rung4 as a .bin" "convert failed"
shared=../shared

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

check "help" grep -q -e --temperature <("$RUN" --help)
check "version" grep -qE '^run [0-9.]+ \([0-9a-f]+' <("$RUN" --version)
check "its kernels" grep -qE '^kernels: [a-z0-9]+ of .*ref$' <("$RUN" --version)
check "its libraries" grep -qE '^libraries: .*Oniguruma [0-9.]+, utf8proc' <("$RUN" --version)

want=$'ROMEO: I am accused:\nI\'ll be'
"$RUN" $model -z $tok -t 0 -n 12 -i ROMEO: >"$tmp/out" 2>"$tmp/err"
check "greedy text" diff "$tmp/out" <(printf '%s\n' "$want")
check "the reason is the last line" grep -q '^stop: steps$' <(tail -n 1 "$tmp/err")
check "statistics" grep -qE '^prefill: 3 tokens, [0-9.]+ tok/s; decode: 12 tokens, [0-9.]+ tok/s$' "$tmp/err"

head -c 300000 $model >"$tmp/cut.bin"
refused "truncated" 1 "cut.bin" "$tmp/cut.bin" -z $tok
head -c 2000 $tok >"$tmp/cut_tok.bin"
refused "truncated tokenizer" 1 "cut_tok.bin" $model -z "$tmp/cut_tok.bin"
refused "missing tokenizer" 1 "nowhere" $model -z "$tmp/nowhere"
cp $model "$tmp/alone.bin"
refused "no tokenizer beside it" 1 "tokenizer" "$tmp/alone.bin"
# head_dim 128 / 9 heads is no whole number; n_heads is the fourth number of the header
{ head -c 12 $model; printf '\011\000\000\000'; tail -c +17 $model; } >"$tmp/heads.bin"
refused "odd head_dim" 1 "heads.bin" "$tmp/heads.bin" -z $tok
refused "token id beyond the vocabulary" 1 "1024" $model --tokens 1,1024 -m logits
refused "context of learned length" 1 "memory" $model -z $tok -c 67108864
i=0 long=
while [ $i -lt 120 ]; do long="$long Once upon a time"; i=$((i + 1)); done
refused "prompt longer than the context" 1 "context" $model -z $tok -c 64 -i "$long"
# root reads everything, unless it gives that right up
[ "$(id -u)" -eq 0 ] && drop="setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-dac_override,-dac_read_search"
cp $model "$tmp/locked.bin" && chmod 000 "$tmp/locked.bin"
printf '#!/bin/sh\nexec %s %s "$@"\n' "$drop" "$(realpath "$RUN")" >"$tmp/unprivileged" && chmod +x "$tmp/unprivileged"
RUN=$tmp/unprivileged refused "unreadable file" 1 "locked.bin" "$tmp/locked.bin"

# ---- special tokens in a prompt, and tokens that end an answer
tokens() { "$RUN" weights/rung4 -m tokenize "$@"; }
check "special tokens are parsed" diff <(tokens -i '<s>ROMEO</s>') <(echo 1 1 818 2)
check "--no-special: they are text" diff <(tokens -i '</s>' --no-special) <("$RUN" weights/rung4/tokenizer.model -m tokenize -i '</s>')
said() { "$RUN" weights/rung4 -t 0 -n 3 "$@" 2>&1 >/dev/null; }
check "BOS twice is warned of" grep -q 'BOS twice' <(said -i '<s>ROMEO')
check "once is not" sh -c '! grep -q "BOS twice"' < <(said -i 'ROMEO')
check "twice as text is not" sh -c '! grep -q "BOS twice"' < <(said -i '<s>ROMEO' --no-special)
check "a stop text that is a control token ends there" grep -q '^stop: stop-text$' <(said -i ROMEO --stop '<s>' --logit-bias 1+100)
check "an end token ends a text" grep -q '^stop: eos$' <(said -i ROMEO --logit-bias 2+100)
sed 's/tokenizer\.ggml\.pre/tokenizer.ggml.prX/' tests/fixtures/tokenizers/bpe_gpt-2.gguf >"$tmp/no_pre.gguf"
check "a GGUF that does not say how its text is cut" grep -q '^tokenizer\.ggml\.pre: missing' <("$RUN" "$tmp/no_pre.gguf" -m tokenize -i a 2>&1)
mkdir "$tmp/added" && cp weights/rung4/* "$tmp/added"
echo '{"tokenizer_class": "LlamaTokenizer", "pad_token": "[PAD]", "add_bos_token": true}' >"$tmp/added/tokenizer_config.json"
check "a token beyond the model's is let be" "$RUN" "$tmp/added" -i ROMEO -n 1
refused "but not in a prompt" 1 'text: "\[PAD\]": expected a token that the model has, below' "$tmp/added" -i '[PAD]' -n 1

same() { # same NAME WANT ARGS... - standard output is WANT
    local name=$1 want=$2 got
    shift 2
    got=$("$RUN" $model -z $tok "$@" 2>"$tmp/err")
    if [ "$got" = "$want" ]; then ok "$name"; else not_ok "$name" "'$got', expected '$want': $(tail -n 1 "$tmp/err")"; fi
}
stopped() { # the last line of the run before
    if [ "$(tail -n 1 "$tmp/err")" = "stop: $2" ]; then ok "$1"; else not_ok "$1" "$(tail -n 1 "$tmp/err")"; fi
}
same "prompt echo" "ROMEO: I am a" -t 0 -n 3 -i ROMEO:
same "no echo" " I am a" -t 0 -n 3 -i ROMEO: --no-echo
# a stop text that spans tokens is not printed, nor anything after it
same "stop text" "ROMEO: I am ac" -t 0 -n 50 -i ROMEO: --stop $'cused:\nI'
same "stop text, held back to the end of it" "ROMEO: I am ac" -t 0 -n 50 -i ROMEO: --stop "cuse"
stopped "stop reason" stop-text
same "stop text that does not come" "ROMEO: I am accu" -t 0 -n 5 -i ROMEO: --stop "cux"
printf ROMEO: >"$tmp/prompt.txt"
same "prompt from a file" "ROMEO: I am a" -t 0 -n 3 -f "$tmp/prompt.txt"
same "prompt from standard input" "ROMEO: I am a" -t 0 -n 3 -f - <"$tmp/prompt.txt"
ids=$("$RUN" $model -z $tok -m tokenize -i "ROMEO:" 2>/dev/null)
same "token ids as prompt" "ROMEO: I am a" -t 0 -n 3 --tokens "$(echo "$ids" | tr ' ' ,)"
check "tokenize there and back" diff <(echo ROMEO:) <("$RUN" $tok -m tokenize --tokens "$(echo "$ids" | tr ' ' ,)")
"$RUN" $model -z $tok -t 0 -n 0 -c 40 >"$tmp/out" 2>"$tmp/err" && stopped "context full" context

# one seed, one text: on every run and with every number of threads
a=$("$RUN" $model -z $tok -s 7 -n 60 -j 1 2>/dev/null)
for j in 1 2 3; do
    b=$("$RUN" $model -z $tok -s 7 -n 60 -j $j 2>/dev/null)
    if [ "$a" = "$b" ]; then ok "seed 7 with $j threads"; else not_ok "seed 7 with $j threads" "another text"; fi
done
b=$("$RUN" $model -z $tok -s 8 -n 60 2>/dev/null)
if [ "$a" != "$b" ]; then ok "another seed, another text"; else not_ok "another seed, another text" "the same"; fi
if "$RUN" $model -z $tok -n 1 2>&1 >/dev/null | grep -qE '^seed: [0-9]+$'; then ok "fresh seed is printed"; else not_ok "fresh seed is printed" "it is not"; fi

# what a pipe carries is the prompt when no other is given; an empty one, /dev/null and nothing are none
same "prompt from a pipe, without a flag" "ROMEO: I am a" -t 0 -n 3 < <(printf ROMEO:)
same "prompt from a file as standard input" "ROMEO: I am a" -t 0 -n 3 <"$tmp/prompt.txt"
same "-i comes before a pipe" "ROMEO: I am a" -t 0 -n 3 -i ROMEO: < <(printf JULIET:)
check "nothing in a pipe is no prompt" diff <("$RUN" $model -z $tok -t 0 -n 5 </dev/null) <(printf '' | "$RUN" $model -z $tok -t 0 -n 5)
check "tokenize from a pipe" diff <(echo "$ids") <(printf ROMEO: | "$RUN" $tok -m tokenize)
same "escapes" "$(printf 'A\tB\n"\\C%s' "$("$RUN" $model -z $tok -t 0 -n 2 --no-echo -f <(printf 'A\tB\n"\\C') 2>/dev/null)")" \
    -t 0 -n 2 -e -i 'A\tB\n\"\\\x43'
refused "an escape that is none" 1 "escape" $model -z $tok -e -i 'A\q'
check "ids there and back as they are printed" diff <(echo ROMEO:) <("$RUN" $tok -m tokenize --tokens "$ids")

# the seed has a line of its own, before the text; a note about the context comes when it is full
cat >"$tmp/seed.py" <<'P'
import os, pty, subprocess, sys
ours, theirs = pty.openpty()
p = subprocess.Popen(sys.argv[1:], stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL)
os.close(theirs)
out = b""
while True:
    try: data = os.read(ours, 4096)
    except OSError: break
    if not data: break
    out += data
lines = out.decode().replace("\r", "").split("\n")
assert lines[0].startswith("seed: ") and lines[0][6:].isdigit() and lines[1].startswith("ROMEO:"), lines
assert not any(line.startswith("context:") for line in lines), lines
P
check "the seed is not in the text" python3 "$tmp/seed.py" "$RUN" $model -z $tok -n 5 -i ROMEO:

# modes for machines
json() { # json NAME PYTHON ARGS... - the output is JSON d, and PYTHON holds
    local name=$1 holds=$2
    shift 2
    if "$RUN" $model -z $tok "$@" --json 2>"$tmp/err" | python3 -c "import json,sys; d=json.load(sys.stdin); assert $holds, d" 2>"$tmp/py"
    then ok "$name"; else not_ok "$name" "$(tail -n 1 "$tmp/py" | head -c 300) $(head -c 200 "$tmp/err")"; fi
}
json "info" 'd["dim"] == 128 and d["n_heads"] == 8 and d["n_kv_heads"] == 2 and d["head_dim"] == 16 and d["vocab_size"] == 1024 and d["rope_pairing"] == "pairs" and d["format"] and d["kv_bytes_per_token"] > 0 and sum(d["dtypes"].values()) > 40' -m info
json "info: tokenizer" 'd["tokenizer"] == "sentencepiece" and d["bos"] == 1 and d["eos"] == [2] and d["chat_template"] is None' -m info
check "info: the tokenizer in words" diff <("$RUN" weights/rung4 -m info | tail -n 4) - <<'T'
tokenizer       sentencepiece, 1024 tokens
BOS             1 <s>
end tokens      2 </s>
chat template   none
T
mkdir "$tmp/lonely" && cp $model "$tmp/lonely/m.bin"
check "info without a tokenizer" grep -q '^tokenizer       none: .*expected one in or beside' <("$RUN" "$tmp/lonely/m.bin" -m info)
check "info: a chat template and a name" grep -qE '^chat template +the model.s own, [0-9]+ bytes' <("$RUN" $model -z tests/fixtures/tokenizers/llama -m info)
check "-c 0: the model's context" grep -q '^cut\|^stop: context' <("$RUN" $model -z $tok -t 1 -s 1 -c 0 -n 0 -i A --logit-bias 1-100 --logit-bias 2-100 2>&1 >/dev/null)
json "bench" '[r["test"] for r in d["results"]] == ["pp8", "tg4"] and d["threads"] > 0 and d["cpu"] and all(0 < r["min"] <= r["tok_s"] <= r["max"] and r["fraction_of_limit"] > 0 for r in d["results"]) and d["read_gb_s"] > 0 and d["sgemm_gflops"] > 0' -m bench -P 8 -n 4 -r 3
json "bench of decode alone, at depth" '[r["test"] for r in d["results"]] == ["tg4@d16"]' -m bench -P 0 -n 4 -d 16 -r 2
json "logits" 'len(d["logits"]) == 1024 and d["tokens"] == [1, 5, 9]' -m logits --tokens 1,5,9
check "logits in words" diff <("$RUN" weights/rung4 -m logits -i ROMEO: --top-k 2 | sed 's/  *[0-9.-]*  *[0-9.]*%/ P/; s/logit [0-9.]*,/logit P,/') - <<'T'
position 2: largest logit P, token 296
   token       logit  probability  text
     296 P  " I"
     516 P  " O"
T
check "the probabilities are a softmax" python3 - <("$RUN" $model -m logits --tokens 1,5,9 --top-k 1024) <<'P'
import sys
rows = [line.split() for line in open(sys.argv[1]).readlines()[2:]]
assert len(rows) == 1024 and abs(sum(float(r[2][:-1]) for r in rows) - 100) < 0.06, len(rows)
assert [float(r[1]) for r in rows] == sorted((float(r[1]) for r in rows), reverse=True)
P
refused "logits: --top-k with --json" 2 "every logit" $model -m logits --tokens 1 --top-k 3 --json
check "special tokens add no text, and it is said" grep -q '^special tokens without text: 2' <("$RUN" $tok -m tokenize --tokens 1,818,2 2>&1 >/dev/null)
check "--special writes them out" grep -qE '^<s>.+</s>$' <("$RUN" $tok -m tokenize --tokens 1,818,2 --special)
refused "a rule without its factor" 1 "[-]-rope-factor: expected a number from 1 with --rope-scaling yarn" -m rope --rope-scaling yarn
refused "a GGUF as reference" 1 "expected safetensors, found a GGUF file" $model -m verify -r weights/shakespeare.gguf
json "logits of all positions" 'len(d["logits"]) == 3 and len(d["logits"][2]) == 1024' -m logits --tokens 1,5,9 --all
json "generate" 'd["prompt"] == "ROMEO:" and d["text"] == " I am a" and len(d["tokens"]) == 3 and d["stop"] == "steps" and d["seed"] == 9 and d["prefill"]["tokens"] == 3 and d["decode"]["tokens"] == 3 and d["decode"]["tok_s"] > 0' -t 0 -n 3 -s 9 -i ROMEO:
json "generate, a stop text" 'd["text"] == " I am ac" and d["stop"] == "stop-text"' -t 0 -n 50 -i ROMEO: --stop cuse
json "log probabilities" 'all(len(t["likely"]) == 4 and t["likely"][0]["id"] == t["id"] and abs(t["likely"][0]["logprob"] - t["logprob"]) < 1e-6 and t["likely"][1]["logprob"] <= t["logprob"] < 0 for t in d["logprobs"]) and len(d["logprobs"]) == 3' -t 0 -n 3 -i ROMEO: --logprobs 4
json "tokenize backward" 'd == {"text": "ROMEO:"}' -m tokenize --tokens "$ids"
json "convert" 'd["output"].endswith("j.gguf") and d["tokenizer"] in (True, False)' -m convert -o "$tmp/j.gguf"
cat >"$tmp/lines.py" <<'P'
import json, math, subprocess, sys
run, model, tok = sys.argv[1:]
def call(*args): return subprocess.run([run, model, "-z", tok, *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.decode()
*tokens, last = [json.loads(line) for line in call("-t", "0", "-n", "8", "-i", "ROMEO:", "--json=lines").splitlines()]
assert "".join(t["text"] for t in tokens) == last["text"], (tokens, last)
assert [t["id"] for t in tokens] == last["tokens"] and len(tokens) == 8, last
ids = list(map(int, call("-m", "tokenize", "-i", "ROMEO:").split()))
row = json.loads(call("-m", "logits", "--json", "--kv-type", "f16", "--tokens", ",".join(map(str, ids))))["logits"]
want = row[tokens[0]["id"]] - max(row) - math.log(sum(math.exp(x - max(row)) for x in row))
assert abs(tokens[0]["logprob"] - want) < 1e-3, (tokens[0], want)
P
cat >"$tmp/shades.py" <<'P'
import json, math, os, re, subprocess, sys
run, *args = sys.argv[1:]
def call(*more, **env): return subprocess.run([run, *args, *more], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, env={**os.environ, **env}).stdout.decode()
ramp = [196, 202, 208, 214, 220, 226, 190, 154, 118, 82]
*tokens, last = [json.loads(line) for line in call("--json=lines").splitlines()]
shown = re.findall("\x1b\\[38;5;(\\d+)m([^\x1b]*)\x1b\\[0m", call("--color"))
assert [text for _, text in shown] == [t["text"] for t in tokens], shown
for (shade, _), t in zip(shown, tokens):
    near = {ramp[min(9, int(10 * math.exp(3 * t["logprob"]) + e))] for e in (-1e-3, 0, 1e-3)}
    assert int(shade) in near, (shade, t)
assert len({shade for shade, _ in shown}) > 1, shown
assert "\x1b" not in call() + call("--color", NO_COLOR="1") + call("--color", "--json")
P
check "--color shades by probability" python3 "$tmp/shades.py" "$RUN" "$model" -z $tok -t 0.5 -s 4 -n 40 -i ROMEO:
check "in chat too" python3 "$tmp/shades.py" "$RUN" weights/shakespeare.gguf -m chat --chat-template chatml -t 0.5 -s 4 -n 40 -i ROMEO:
check "JSON lines" python3 "$tmp/lines.py" "$RUN" "$model" $tok
json "tokenize" 'd["ids"][0] == 1 and len(d["ids"]) == len(d["pieces"])' -m tokenize -i "Hello there"
for seed in 1 2 3 4; do "$RUN" weights/rung4 -t 0.6 -s $seed -n 200 --quiet; done >"$tmp/text.txt"
json "perplexity hf" 'd["protocol"] == "hf" and 1 < d["ppl"] < 20 and d["bits_per_byte"] > 0' -m perplexity -f "$tmp/text.txt"
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
want = sum(nll(ids[:1] + ids[b + 1:b + n], n // 2 + 1) for b in range(0, len(ids) - n + 1, n))
got = call("-z", tok, "-m", "perplexity", "-f", text, "-c", str(n), "--kv-type", "f32", "--protocol", "llamacpp")
assert got["tokens"] == len(ids) // n * (n // 2 - 1), (got, len(ids))
assert abs(got["nll"] / want - 1) < 1e-4, (got, want)
P
head -c 465 "$tmp/text.txt" >"$tmp/line.txt"
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
# the model's own template is run, and refused with its line; the tokenizer fixture, filled up to the model's 1024
mkdir -p "$tmp/chat"
python3 - "$tmp/chat" <<'P'
import json, sys
t = json.load(open("tests/fixtures/tokenizers/llama/tokenizer.json"))
some = t["added_tokens"][-1]
t["added_tokens"] += [{**some, "id": i, "content": f"<{i}>"} for i in range(len(t["model"]["vocab"]) + 2, 1024)]
json.dump(t, open(sys.argv[1] + "/tokenizer.json", "w"))
P
cp tests/fixtures/tokenizers/llama/tokenizer_config.json "$tmp/chat/"
cp tests/fixtures/chat/llama-3.2.jinja "$tmp/chat/chat_template.jinja"
echo Hi | "$RUN" $model -z "$tmp/chat" -m chat -t 0 -n 5 >"$tmp/out" 2>"$tmp/err"
if [ $? -eq 0 ] && grep -q '^prefill: [0-9][0-9]* tokens' "$tmp/err"; then ok "chat by the model's template"
else not_ok "chat by the model's template" "$(cat "$tmp/err")"; fi
printf 'a\n{{ messages | nope }}' >"$tmp/chat/chat_template.jinja"
refused "chat template that is none" 1 "line 2, column 15: No filter named 'nope'" $model -z "$tmp/chat" -m chat --quiet -i Hi
refused "chat template of a file" 1 "line 2, column 15" $model -z $tok -m chat --quiet -i Hi --chat-template "$tmp/chat/chat_template.jinja"
cp tests/fixtures/chat/gemma.jinja "$tmp/chat/chat_template.jinja"
refused "system prompt that the template has not" 1 "System role not supported" $model -z "$tmp/chat" -m chat --quiet -y "Be brief." -i Hi

for name in model.guf out.GGUF x.txt -; do
    refused "convert to $name" 2 "output: expected .gguf, .bin or a directory" $model -m convert -o "$([ $name = - ] || echo "$tmp/")$name"
done
for name in Llama-3.2 model.dir/ plain; do
    check "convert to the directory $name" "$RUN" $model -m convert -o "$tmp/$name" --quiet
done

# a reader that goes away, and Ctrl-C
got=$("$RUN" $model -z $tok -t 0 -n 0 -i "ROMEO: I" 2>"$tmp/err" | head -c 8)
if [ "$got" = "ROMEO: I" ] && ! grep -q '^run:' "$tmp/err"; then ok "closed pipe"; else not_ok "closed pipe" "'$got' $(cat "$tmp/err")"; fi
if [ -w /dev/full ]; then
    "$RUN" $model -z $tok -t 0 -n 5 >/dev/full 2>"$tmp/err"
    if [ $? -eq 1 ] && grep -q '^run: standard output.*No space left' "$tmp/err"; then ok "disk full"; else not_ok "disk full" "$(cat "$tmp/err")"; fi
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

# what lies outside the repository: the text of a peer, and the bank of files from public bug reports
if [ -e $shared ]; then
    check "the peer's text" diff $shared/data/stories260K.expected.txt \
        <("$RUN" $shared/data/stories260K.bin -z $shared/data/tok512.bin -t 0 -n 200)
    timeout 800 python3 $shared/cases/run_cases.py --run "$RUN" >"$tmp/cases" 2>&1
    wrong=$(sed '$d' "$tmp/cases")
    if [ -z "$wrong" ] && grep -qE '^[0-9]+ passed' "$tmp/cases"; then ok "case bank ($(tail -n 1 "$tmp/cases"))"
    else not_ok "case bank" "$wrong"; fi
else
    skip "the peer's text" "no ../shared"
    skip "case bank" "no ../shared"
fi
