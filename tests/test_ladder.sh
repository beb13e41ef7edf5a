#!/usr/bin/env bash
# The trained rungs of weights/ as they are run: their loss is PyTorch's, decoding predicts as the prefill does, each
# mistake of --break costs loss, and learned positions end with a clear line.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
W=weights
dir=$tmp
text=../shared/data/tinyshakespeare.txt

# bits MODEL ARGS... - bits per byte of the model's own text
bits() {
    local model=$1
    shift
    "$RUN" "$model" -m perplexity -f "$dir/text" --json --quiet -j 1 "$@" 2>"$dir/err" | sed -n 's/.*"bits_per_byte": \([0-9.]*\).*/\1/p'
}
# holds NAME EXPRESSION - of awk
holds() { if awk "BEGIN { exit !($2) }"; then ok "$1"; else not_ok "$1" "$2 $(cat "$dir/err")"; fi; }

for seed in 1 2 3 4; do "$RUN" $W/rung4 -t 0.7 -s $seed -n 160 --quiet; done >"$dir/text"
size=$(wc -c <"$dir/text")
[ "$size" -gt 500 ] || not_ok "text of rung 4" "$size bytes"
sound4=$(bits $W/rung4) sound0=$(bits $W/rung0 -c 64)
holds "loss of rung 4 on its own text" "0.2 < ${sound4:-0} && ${sound4:-9} < 2.5"
for m in "$W/rung4" "$W/rung0" "$W/shakespeare.gguf"; do
    a=$(bits "$m" --kv-type f32) b=$(bits "$m" --kv-type f32 --decode)
    holds "decode predicts as the prefill does, $m" "0 < ${a:-0} && ${a:-9} - ${b:-0} < 0.001 && ${b:-9} - ${a:-0} < 0.001"
done

# A mistake costs at least 0.1 bits a byte; one position less in decode shows where the prompt is short.
for m in "$W/rung4" "$W/shakespeare.gguf"; do
    sound=$(bits "$m")
    for mistake in wrong-pairing v-rotated rope-layer0 keys-unrotated k-permuted no-rope one-frequency flipped-frequencies \
        reversed reversed-key no-mask gqa-modulo; do
        broken=$(bits "$m" --break $mistake)
        holds "--break $mistake costs loss, $m" "${broken:-0} - ${sound:-9} > 0.1"
    done
    broken=$(bits "$m" --break score-scale) # their softmax has one key left already: four times the score changes little
    holds "--break score-scale costs loss, $m" "${broken:-0} - ${sound:-9} > 0.001"
done
broken=$(bits $W/rung0 -c 64 --break conv1d)
holds "--break conv1d costs loss" "${broken:-0} - ${sound0:-9} > 0.1"
sound=$(bits $W/rung4 -c 8 --decode) broken=$(bits $W/rung4 -c 8 --decode --break decode-off-by-one)
holds "--break decode-off-by-one costs loss in decode" "${broken:-0} - ${sound:-9} > 0.01"
same=$(bits $W/rung4 -c 8 --break decode-off-by-one) sound=$(bits $W/rung4 -c 8)
holds "and none in prefill" "${same:-0} == ${sound:-1}"
sound=$(bits $W/rung0 -c 256) broken=$(bits $W/rung0 -c 512 --break wpe-past-end)
holds "--break wpe-past-end runs past the table and costs loss" "${broken:-0} - ${sound:-9} > 0.02"

# --score-from N leaves out what has fewer tokens before it: here the first 99 that are scored otherwise.
scored() { "$RUN" $W/rung4 -m perplexity -f "$dir/text" -c 200 --kv-type f32 --json --quiet -j 1 "$@" | sed 's/.*"tokens": \([0-9]*\), "nll": \([0-9.]*\).*/\1 \2/'; }
"$RUN" $W/rung4 -m tokenize -f "$dir/text" | tr ' ' '\n' | sed 1d | head -n 99 | paste -sd, >"$dir/ids" # BOS comes again
head_text=$("$RUN" $W/rung4 -m tokenize --tokens "$(cat "$dir/ids")" && echo .)
first=$("$RUN" $W/rung4 -m perplexity -i "${head_text%$'\n'.}" --kv-type f32 --json --quiet -j 1 | sed 's/.*"tokens": \([0-9]*\), "nll": \([0-9.]*\).*/\1 \2/')
check_sum=$(echo "$(scored) $(scored --score-from 100) $first" | awk '{ d = $2 - $4 - $6; print ($1 - $3 == 99 && $5 == 99 && d < 1e-3 && d > -1e-3) ? "same" : $0 }')
if [ "$check_sum" = same ]; then ok "--score-from leaves out the first positions"; else not_ok "--score-from leaves out the first positions" "$check_sum"; fi

# Two that say the same in numbers: no rotation at all is every position at a distance of 0.
a=$(bits $W/rung4 --break no-rope --kv-type f32) b=$(bits $W/rung4 --rope-scaling linear --rope-factor 1e9 --kv-type f32)
holds "--break no-rope is a rotation by nothing" "0 < ${a:-0} && ${a:-9} - ${b:-0} < 1e-4 && ${b:-9} - ${a:-0} < 1e-4"

# Without it, the end of the table is said.
line=$("$RUN" $W/rung0 -m perplexity -f "$dir/text" -c 512 2>&1)
if [ $? -eq 1 ] && [ "$line" = "run: $W/rung0: context: expected at most 256 (learned positions end there), found 512" ]; then ok "learned positions end"
else not_ok "learned positions end" "$line"; fi
line=$("$RUN" $W/rung4 -m perplexity -f "$dir/text" --break conv1d 2>&1)
if [ $? -eq 1 ] && [ "$(echo "$line" | wc -l)" -eq 1 ]; then ok "a mistake that the model cannot have is refused"
else not_ok "a mistake that the model cannot have is refused" "$line"; fi

# PyTorch's loss: of the first 4,096 tokens as the training logged it last, for each rung; of the whole split for two.
# A sanitizer has nothing to find in more of the same tokens, and takes minutes for them.
cat >"$dir/pytorch.py" <<'EOF'
import csv, json, math, pathlib, subprocess, sys
run, text, tmp = sys.argv[1], pathlib.Path(sys.argv[2]).read_bytes(), pathlib.Path(sys.argv[3])
val = text[int(0.9 * len(text)):]
(tmp / "val").write_bytes(val)

def call(*args):
    return json.loads(subprocess.run([run, *args, "-j", "1", "--json", "--quiet"], stdout=subprocess.PIPE, check=True).stdout)

def check(name, want, bits):
    good = abs(bits - want) < 1e-3
    print(f"ok PyTorch's loss, {name}" if good else f"not ok PyTorch's loss, {name}: expected {want}, found {bits}")

LIMIT = 4096
for rung in ("rung0", "rung1", "rung1b", "rung2", "rung3", "rung4"):
    model = f"weights/{rung}"
    tokens = call(model, "-m", "tokenize", "-f", str(tmp / "val"))
    part = "".join(tokens["pieces"][1:LIMIT + 1]).replace("\u2581", " ").replace("<0x0A>", "\n")
    (tmp / "part").write_text(part)
    got = call(model, "-m", "perplexity", "-f", str(tmp / "part"), "--kv-type", "f32")
    assert got["tokens"] == LIMIT, got
    with open(f"weights/losses/{rung}.csv", newline="") as f:
        want = float(list(csv.DictReader(f))[-1]["val_bits_per_byte"])
    check(rung, want, got["nll"] / math.log(2) / len(part.encode()))
runs = json.loads(pathlib.Path("weights/losses/runs.json").read_text())
for model, want in (("weights/rung4", runs["rung4"]["val_bits_per_byte"]),
                    ("weights/shakespeare.gguf", runs["default"]["q8_0_val_bits_per_byte"])):
    check(f"{model}, the whole split", want, call(model, "-m", "perplexity", "-f", str(tmp / "val"))["bits_per_byte"])
EOF
if [ -r $text ]; then python3 "$dir/pytorch.py" "$RUN" $text "$dir" 2>"$dir/err" || not_ok "PyTorch's loss" "$(tail -n 1 "$dir/err")"
else skip "PyTorch's loss" "no ../shared"; fi

# Every layer of every shipped model attends to something: the scores of a query deviate within its row. Below 0.1 a
# softmax is the plain mean of the values before it.
check "every layer is alive" python3 - "$RUN" $W <<'P'
import json, math, subprocess, sys
run, weights = sys.argv[1:]

def call(*args):
    return json.loads(subprocess.run([run, *args, "--json", "--quiet"], stdout=subprocess.PIPE, check=True).stdout)

TEXT = "First Citizen:\nBefore we proceed any further, hear me speak."
for name in ("rung0", "rung1", "rung1b", "rung2", "rung3", "rung4", "shakespeare.gguf"):
    model = f"{weights}/{name}"
    info = call(model, "-m", "info")
    for layer in range(info["n_layers"]):
        rows = []  # log softmax is the scores but for a constant
        for head in range(info["n_heads"]):
            matrix = call(model, "-m", "trace", "-i", TEXT, "--layer", str(layer), "--head", str(head))["attention"]
            rows += [[math.log(p) for p in row[:q + 1] if p > 0] for q, row in enumerate(matrix) if q >= 4]
        variance = sum(sum(x * x for x in r) / len(r) - (sum(r) / len(r)) ** 2 for r in rows) / len(rows)
        assert math.sqrt(variance) > 0.1, (name, layer, math.sqrt(variance))
P

# The comparison of docs/ladder.md: every layer of every run is alive, the best such rate of each sweep lies between two
# others, and the runs that tell a gate from RoPE and RoPE from other positions are there.
check "the comparison's runs" python3 - weights/losses/comparison.json <<'P'
import json, sys
data = json.load(open(sys.argv[1]))
for name, row in data["models"].items():
    runs = sorted(row["sweep"], key=lambda r: r["lr"])
    alive = [r for r in runs if min(x["score_std"] for x in r["layers"]) >= 0.1]
    best = min(alive, key=lambda r: r["val_bits_per_byte"])
    assert len(runs) >= 3 and best not in (runs[0], runs[-1]), (name, runs)
    assert all(r["lr"] == best["lr"] for r in row["runs"]), (name, best["lr"])
for name in ("rung0", "rung1", "rung1b", "rung2", "rung3", "rung4", "none", "sinusoidal", "alibi", "gelu-rope"):
    assert data["models"][name]["runs"], name
for name, row in data["models"].items():
    for run in row["runs"]:
        assert all(x["score_std"] > 0.1 for x in run["layers"]), (name, run["seed"], run["layers"])
        assert len(run["layers"]) == row["config"]["n_layers"], name
    assert len(row["runs"]) == 3, (name, "seeds")
P
