#!/usr/bin/env bash
# ranks.sh - the program on several ranks: the same logits and text as one, what it sends, and how it fails. Called by
# make test-mpi. RUN is the plain program, RUN_MPI that with MPI.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # containers and gates run as root
mpi=$(realpath "${RUN_MPI:-./run-mpi}")
ranks() { # ranks N ARGS...
    local n=$1
    shift
    timeout 120 mpirun -q --oversubscribe -n "$n" "$mpi" "$@"
}

# ---- The same logits: relative to the largest, in f32 activations, all positions, at once and token by token ----
tokens=1,5,9,2,7,3,11,4,8,6,10,12
compare='import json, sys # ONE MANY [LIMIT]
a, b = (json.load(open(f))["logits"] for f in sys.argv[1:3])
limit = float((sys.argv[3:] or ["1e-4"])[0])
top = max(abs(x) for row in a for x in row)
worst = max(abs(x - y) for r, s in zip(a, b) for x, y in zip(r, s)) / top
sys.exit(0 if len(a) == len(b) and worst <= limit else f"differ by {worst:.2g} of the largest")'
for m in tests/fixtures/*_hf tests/fixtures/*.gguf tests/fixtures/base_v2.bin tests/fixtures/families/*/; do
    m=${m%/} counts=2
    case $m in
    *-0000[2-9]-of-*) continue ;;
    *base_hf | *mqa_head_dim.gguf | *base_q4_1.gguf | *gpt2_hf | *qwen2.gguf) counts="2 3 4" ;; # 4 heads, 1 to 4 KV heads
    esac
    name=$(basename "$m")
    flags="-m logits --tokens $tokens --all --json -j 1 --kv-type f32"
    RUN_CPU=ref "$RUN" "$m" $flags >"$tmp/one" 2>"$tmp/err" || { not_ok "$name on one rank" "$(tail -n 1 "$tmp/err")"; continue; }
    for n in $counts; do
        for batch in 256 1; do
            [ $batch = 1 ] && [ "$counts/$n" != "2 3 4/2" ] && continue
            RUN_CPU=ref ranks $n "$m" $flags --batch $batch >"$tmp/many" 2>"$tmp/err"
            if why=$(python3 -c "$compare" "$tmp/one" "$tmp/many" 2>&1); then ok "$name on $n ranks, batch $batch"
            else not_ok "$name on $n ranks, batch $batch" "$why $(head -n 1 "$tmp/err")"; fi
        done
    done
done
ranks 3 tests/fixtures/base_hf -m verify -r tests/fixtures/base.ref.safetensors >"$tmp/out" 2>&1
check "verify on 3 ranks sees all heads" grep -q "tensors of 24 tokens are within tolerance" "$tmp/out"
RUN_PAYLOAD=bf16 ranks 2 tests/fixtures/base_hf -m verify -r tests/fixtures/base.ref.safetensors >"$tmp/out" 2>&1
check "a payload of bf16 is less exact" grep -q "first over tolerance" "$tmp/out"

# ---- Two sums of a prefill in flight; layers with a window, beyond the window and a batch ----
long() { seq -s , 1 "$1"; } # token ids
same() { # same NAME RANKS LIMIT MODEL ARGS...: one rank's logits, and the same bits again
    local name=$1 n=$2 limit=$3
    shift 3
    RUN_CPU=ref RUN_PAYLOAD=f32 "$RUN" "$@" -m logits --all --json -j 1 --kv-type f32 >"$tmp/one" 2>"$tmp/err"
    for again in many again; do RUN_CPU=ref ranks $n "$@" -m logits --all --json -j 1 --kv-type f32 >"$tmp/$again" 2>"$tmp/err" </dev/null; done
    check "$name on $n ranks" python3 -c "$compare" "$tmp/one" "$tmp/many" "$limit"
    check "... and the same bits again" cmp "$tmp/many" "$tmp/again"
}
for n in 2 3; do
    same "a batch of 200 tokens" $n 1e-4 weights/shakespeare.gguf --tokens "$(long 200)" --batch 200
    RUN_PAYLOAD=bf16 same "... its sums in bf16" $n 5e-3 weights/shakespeare.gguf --tokens "$(long 200)" --batch 200
done
cp -r tests/fixtures/base_hf "$tmp/mistral" # of 4 heads, for 3 ranks
sed -i 's/"model_type": "llama"/"model_type": "mistral", "sliding_window": 8/; s/LlamaForCausalLM/MistralForCausalLM/' "$tmp/mistral/config.json"
while read -r m n; do
    same "$(basename "$m"): 40 tokens, a window of 8, batches of 5" $n 1e-4 "$m" --tokens "$(long 40)" --batch 5
done <<<"tests/fixtures/families/gemma3_text.gguf 2
tests/fixtures/families/gpt_oss.gguf 2
$tmp/mistral 2
$tmp/mistral 3"

# ---- The same text ----
for m in weights/shakespeare.gguf weights/SmolLM2-135M-Instruct.Q4_1.gguf; do
    [ -f "$m" ] || { echo "skip greedy text of $(basename $m) on ranks: not there (make smollm2)"; continue; }
    RUN_CPU=ref "$RUN" $m -t 0 -n 24 -j 1 -i "The king" >"$tmp/one" 2>"$tmp/err"
    for n in 2 3; do
        RUN_CPU=ref ranks $n $m -t 0 -n 24 -j 1 -i "The king" >"$tmp/many" 2>"$tmp/err"
        check "greedy text of $(basename $m) on $n ranks" cmp "$tmp/one" "$tmp/many"
    done
done

# ---- Sampled text: of the other ranks come all logits, or the largest alone ----
while read -r flags; do
    RUN_CPU=ref "$RUN" weights/shakespeare.gguf $flags -s 3 -n 60 -j 1 -i ROMEO: >"$tmp/one" 2>"$tmp/err" </dev/null
    for n in 2 3; do
        RUN_CPU=ref ranks $n weights/shakespeare.gguf $flags -s 3 -n 60 -j 1 -i ROMEO: >"$tmp/many" 2>"$tmp/err" </dev/null
        check "text of $flags on $n ranks" cmp "$tmp/one" "$tmp/many"
    done
done <<<"-t 1.2 --top-k 20 -p 0.9
-t 1 --top-k 300
-t 1 -p 0.9
-t 1 --top-k 20 --repeat-penalty 1.2
-t 0 --presence-penalty 2"

# ---- Drafted tokens: several rows of logits in one pass ----
said="ROMEO: O, she doth teach the torches to burn bright! JULIET: O, she doth teach"
for n in 2 3; do
    while read -r m draft; do
        ranks $n $m -t 0 -n 60 -j 1 --deterministic -i "$said" >"$tmp/one" 2>"$tmp/err" </dev/null
        ranks $n $m -t 0 -n 60 -j 1 --deterministic -i "$said" $draft >"$tmp/many" 2>"$tmp/err" </dev/null
        check "$draft: the text on $n ranks" cmp "$tmp/one" "$tmp/many"
        check "... some of it drafted" grep -qE "^drafts: .* [1-9][0-9]* accepted" "$tmp/err"
    done <<<"weights/shakespeare.gguf --lookup 12
weights/rung4 --draft weights/rung3"
done

# ---- Messages and bytes are what docs/distributed.md predicts ----
for n in 2 3; do
    ranks $n weights/shakespeare.gguf -m bench --json -P 0 -n 8 -r 1 -j 1 >"$tmp/out" 2>"$tmp/err"
    check "messages of a token on $n ranks" python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))["results"][0]
n, layers, dim, order = int(sys.argv[2]), 6, 256, 48
assert r["messages"] == (2 * layers + 2) * (n - 1), r
assert r["bytes"] == (2 * layers * 4 * dim + 2 * order + 4) * (n - 1), r
assert r["received"] == (2 * layers * 4 * dim + 8 + 8) * (n - 1), r' "$tmp/out" $n
done

# ---- Failures: one line, and the end of all ranks ----
line() { # line NAME TEXT ARGS...: fails, the first line of stderr is ours and says TEXT, nothing on stdout
    local name=$1 text=$2
    shift 2
    if timeout 60 mpirun -q --oversubscribe "$@" >"$tmp/out" 2>"$tmp/err"; then not_ok "$name" "expected a failure"
    elif [ -s "$tmp/out" ]; then not_ok "$name" "standard output: $(head -c 80 "$tmp/out")"
    elif head -n 1 "$tmp/err" | grep -q "^run: .*$text"; then ok "$name"
    else not_ok "$name" "$(head -n 2 "$tmp/err")"; fi
}
mkdir "$tmp/a" "$tmp/b"
cp tests/fixtures/base.gguf "$tmp/a/m.gguf"
line "more ranks than heads" "found 9 ranks for 4 heads" -n 9 "$mpi" "$tmp/a/m.gguf" -m logits --tokens 1
line "a missing file" "nosuch.gguf" -n 2 "$mpi" "$tmp/nosuch.gguf" -m logits --tokens 1
line "a mode that sees the whole model" "expected one process" -n 2 "$mpi" "$tmp/a/m.gguf" -m probe
line "a session file" "expected one process" -n 2 "$mpi" weights/shakespeare.gguf -i a -n 2 -j 1 --session "$tmp/s"
line "an unknown mode" "sing" -n 2 "$mpi" "$tmp/a/m.gguf" -m sing
two() { line "$1" "$2" -n 1 -wdir "$tmp/a" "$mpi" m.gguf -m logits --tokens 1 : -n 1 -wdir "$tmp/b" "$mpi" m.gguf -m logits --tokens 1 $3; }
head -c 50000 "$tmp/a/m.gguf" >"$tmp/b/m.gguf"
two "a truncated file on one rank" "rank 1: m.gguf"
python3 - "$tmp/a/m.gguf" "$tmp/b/m.gguf" <<'P'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[60000] ^= 1
open(sys.argv[2], "wb").write(data)
P
two "another file on one rank" "rank 1: expected what rank 0 has"
cp "$tmp/a/m.gguf" "$tmp/b/m.gguf"
two "other flags on one rank" "rank 1: command line" "--rope-theta 5"
version=$("$mpi" --version | sed -n 's/^run //; s/[][().*]/./g; 1p')
LC_ALL=C sed "s/$version/${version/1/9}/g" "$mpi" >"$tmp/other"
chmod +x "$tmp/other"
line "another version on one rank" "rank 1: command line" -n 1 "$mpi" "$tmp/a/m.gguf" -m logits --tokens 1 : \
    -n 1 "$tmp/other" "$tmp/a/m.gguf" -m logits --tokens 1
cat >"$tmp/small" <<P
#!/bin/bash
[ "\$OMPI_COMM_WORLD_RANK" = 1 ] && ulimit -v 1200000
exec "$mpi" "\$@"
P
chmod +x "$tmp/small"
line "too little memory on one rank" "rank 1: .*memory: expected" -n 2 "$tmp/small" weights/shakespeare.gguf --quiet -j 1 -n 2 -c 1000000 -i a

# ---- A rank that is killed ends all within ten seconds, one that stops after the time limit ----
begin() { # begin N: that many ranks at work; victim is one of them
    RUN_TIMEOUT=2 mpirun -q --oversubscribe -n "$1" "$mpi" "$tmp/a/m.gguf" -m bench -P 0 -n 32 -r 1000 -j 1 >"$tmp/out" 2>"$tmp/err" &
    job=$! victim=
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        sleep 0.3
        victim=$(pgrep -f "^$mpi $tmp/a/m.gguf" | tail -n 1)
        [ -n "$victim" ] && break
    done
    sleep 0.5
    start=$SECONDS
}
begin 3
kill -9 "$victim" 2>/dev/null
wait $job
status=$?
check "kill -9 of a rank ends all" test $status -ne 0 -a $((SECONDS - start)) -lt 10
check "no rank is left" test -z "$(pgrep -f "^$mpi $tmp/a/m.gguf")"
begin 2
kill -STOP "$victim" 2>/dev/null
wait $job
check "a rank that stops ends all" grep -q "^run: rank . of 2: messages: expected them within 2 s, found none" "$tmp/err"
check "... within ten seconds" test $((SECONDS - start)) -lt 10

# ---- Two hosts, made of network namespaces, and TCP between them ----
. tests/hosts.sh
if hosts_open veth; then
    trap 'hosts_close; rm -rf "$tmp"' EXIT
    RUN_CPU=ref "$RUN" tests/fixtures/base_hf -m logits --tokens $tokens --all --json -j 1 --kv-type f32 >"$tmp/one"
    hosts_mpirun -x RUN_CPU=ref timeout 60 "$mpi" tests/fixtures/base_hf -m logits --tokens $tokens --all --json -j 1 --kv-type f32 \
        >"$tmp/many" 2>"$tmp/err"
    check "two hosts over TCP" python3 -c "$compare" "$tmp/one" "$tmp/many"
    sent=$(ip netns exec ${ns}b cat /sys/class/net/v${ns}b/statistics/tx_bytes)
    check "... and the bytes went through the wire" test "$sent" -gt 10000
else
    hosts_close
    echo "skip two hosts over TCP: network namespaces cannot be made here"
fi
