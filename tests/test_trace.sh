#!/usr/bin/env bash
# -m trace: its numbers are transformers' (the references of tests/fixtures/verify), and each step follows from the one
# before it by formulas written here.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh

cat >"$tmp/trace.py" <<'EOP'
import json, math, struct, subprocess, sys
run = sys.argv[1]

def tensors(path):
    """{name: (shape, values)} of the F32 and I32 tensors of a safetensors file."""
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name == "__metadata__":
            continue
        a, b = (8 + n + x for x in t["data_offsets"])
        kind = {"F32": "f", "I32": "i", "I64": "q"}.get(t["dtype"])
        if kind:
            out[name] = t["shape"], struct.unpack(f"<{(b - a) // struct.calcsize(kind)}{kind}", raw[a:b])
    return out

def trace(model, *args):
    return json.loads(subprocess.run([run, model, "-m", "trace", "--json", "--quiet", *args], check=True, stdout=subprocess.PIPE).stdout)

def check(name, found, want, tolerance=1e-4):
    worst = max((abs(a - b) for a, b in zip(found, want)), default=0)
    good = len(found) == len(want) and worst <= tolerance * max(1, max(map(abs, want), default=1))
    print(f"ok {name}" if good else f"not ok {name}: {len(found)} and {len(want)} numbers, off by {worst:g}")

def matrix(values, cols):
    return [values[i:i + cols] for i in range(0, len(values), cols)]

for model, reference, layer, pos in (("tests/fixtures/base_hf", "tests/fixtures/verify/base.safetensors", 1, 9),
                                     ("tests/fixtures/base.gguf", "tests/fixtures/verify/base.safetensors", 0, 15),
                                     ("tests/fixtures/gpt2_hf", "tests/fixtures/gpt2.ref.safetensors", 1, 5)):
    ref = tensors(reference)
    ids = ref["tokens"][1]
    what = f"{model}, layer {layer}, position {pos}"
    heads = [trace(model, "--tokens", ",".join(map(str, ids)), "--layer", str(layer), "--head", str(h), "--pos", str(pos))
             for h in range(4)]
    half = model.endswith("_hf")
    for h, t in enumerate(heads):
        step = {s["name"]: s["values"] for s in t["steps"]}
        def row(name, head=None):
            shape, x = ref[name if name in ref else f"layers.{layer}.{name}"]
            size = len(x) // len(ids)
            d = size if head is None else shape[-1]
            at = pos * size + (head or 0) * d
            return list(x[at:at + d])
        if h == 0:
            for name in ("embed", "attn_norm", "attn_out", "ffn_norm", "ffn_out", "out", "final_norm", "logits"):
                check(f"{what}: {name}", step[name], row(name))
        for name, head in (("q", h), ("k", t["kv_head"]), ("v", t["kv_head"]), ("q_rot", h), ("k_rot", t["kv_head"])):
            if name not in step:
                continue
            want = row(name, head)
            if not half and name != "v":  # GGUF has the pairs side by side
                want = [want[i // 2 + i % 2 * (len(want) // 2)] for i in range(len(want))]
            check(f"{what}: {name} of head {h}", step[name], want)
        top = max(step["scores"])
        e = [math.exp(s - top) for s in step["scores"]]
        check(f"{what}: softmax of head {h}", step["softmax"], [x / sum(e) for x in e], 1e-6)
        check(f"{what}: the row of the matrix", t["attention"][pos][:pos + 1], step["softmax"], 0)
        check(f"{what}: rows add up to 1, nothing is seen ahead",
              [sum(r) for r in t["attention"]] + [x for m, r in enumerate(t["attention"]) for x in r[m + 1:]],
              [1] * len(ids) + [0] * (len(ids) * (len(ids) - 1) // 2), 1e-6)
        if "rotation" in t:
            r = t["rotation"]
            z = complex(*r["q"]) * complex(math.cos(r["angle"]), math.sin(r["angle"]))
            check(f"{what}: the pair of head {h}", r["q_rotated"], [z.real, z.imag], 1e-5)
            check(f"{what}: is q's", r["q"], [step["q"][i] for i in r["features"]], 0)
    if model == "tests/fixtures/base_hf":  # the heads' mixes times W_o
        mix = [x for t in heads for s in t["steps"] if s["name"] == "mix" for x in s["values"]]
        w = tensors(f"{model}/model.safetensors").get(f"model.layers.{layer}.self_attn.o_proj.weight")
        check(f"{what}: the mixes times W_o", [sum(a * b for a, b in zip(r, mix)) for r in matrix(w[1], w[0][1])], row("attn_out"))
    logits = row("logits")
    order = sorted(range(len(logits)), key=lambda i: -logits[i])[:5]
    total = sum(math.exp(x - logits[order[0]]) for x in logits)
    check(f"{what}: the likeliest", [x["id"] for x in heads[0]["top"]], order, 0)
    check(f"{what}: how likely", [x["p"] for x in heads[0]["top"]], [math.exp(logits[i] - logits[order[0]]) / total for i in order])
EOP
python3 "$tmp/trace.py" "$RUN" 2>"$tmp/err" || not_ok "trace" "$(tail -n 1 "$tmp/err")"

"$RUN" weights/rung4 -m trace -i "To be, or <not>" --layer 2 --head 1 --quiet >"$tmp/text"
for line in '9 tokens; layer 2 of 6, head 1 of 8, KV head 0 of 2' 'q          \[9, 8, 16\]' 'k          \[9, 2, 16\]' 'pair 0, features 0 and 8, at position' '^   0  100   .'; do
    if grep -q "$line" "$tmp/text"; then ok "text: $line"; else not_ok "text: $line" "$(head -3 "$tmp/text")"; fi
done
# Quantized weights with f32 activations: the numbers of the f32 model, nearly.
"$RUN" weights/rung4 -m convert --type q8_0 -o "$tmp/q8_0.gguf" --quiet
cat >"$tmp/precise.py" <<'EOP'
import json, subprocess, sys
run, quantized = sys.argv[1:3]
def call(model, *args):
    return json.loads(subprocess.run([run, model, "--json", "--quiet", "--tokens", "1,100,200,300", *args], check=True, stdout=subprocess.PIPE).stdout)
def near(name, a, b):
    worst = max(abs(x - y) for x, y in zip(a, b)) / max(map(abs, b))
    print(f"ok {name}" if worst < 0.1 else f"not ok {name}: off by {worst:g} of the largest")
near("logits of q8_0 with f32 activations", call(quantized, "-m", "logits")["logits"], call("weights/rung4", "-m", "logits")["logits"])
a, b = (next(s["values"] for s in call(m, "-m", "trace", "--layer", "1")["steps"] if s["name"] == "ffn_out") for m in (quantized, "weights/rung4"))
near("trace of q8_0 with f32 activations", a, b)
EOP
python3 "$tmp/precise.py" "$RUN" "$tmp/q8_0.gguf" 2>"$tmp/err" || not_ok "precise" "$(tail -n 1 "$tmp/err")"

"$RUN" weights/rung4 -m trace -i "To be, or <not>" --csv --quiet >"$tmp/csv"
if [ "$(wc -l <"$tmp/csv")" -eq 10 ] && [ "$(sed -n 2p "$tmp/csv")" = "0,1,0,0,0,0,0,0,0,0" ]; then ok "CSV"; else not_ok "CSV" "$(head -2 "$tmp/csv")"; fi
"$RUN" weights/rung4 -m trace -i "To be, or <not>" --svg --quiet >"$tmp/svg"
if python3 -c 'import sys, xml.dom.minidom as x; d = x.parse(sys.argv[1]); assert len(d.getElementsByTagName("rect")) == 46' "$tmp/svg" 2>"$tmp/err"
then ok "SVG is XML with a square for each pair of tokens"; else not_ok "SVG" "$(tail -n 1 "$tmp/err")"; fi
for bad in "--layer 6" "--head 8" "--pos 9" "--pair 8"; do
    # shellcheck disable=SC2086 # a flag and its value
    line=$("$RUN" weights/rung4 -m trace -i "To be, or <not>" $bad 2>&1 >/dev/null)
    if [ $? -eq 1 ] && [[ $line == "run: ${bad% *}: expected from 0 to "* ]]; then ok "refused: $bad"; else not_ok "refused: $bad" "$line"; fi
done
