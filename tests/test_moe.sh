#!/usr/bin/env bash
# test_moe.sh - models with experts from the outside: what info says, layouts of the tensors, and one line for each
# thing that is wrong with a file.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
F=tests/fixtures/families

cat >"$tmp/edit.py" <<'P'
# edit.py MODEL OUT EDIT...: a copy of a Hugging Face model. Edits: config.KEY=JSON, drop=TENSOR, shape=TENSOR:[..],
# nan=TENSOR, copy=TO:FROM, exchange (gate and up of every expert), fuse (the experts of a layer in one tensor, as transformers 5 has them in memory)
import json, pathlib, struct, sys
source, out = map(pathlib.Path, sys.argv[1:3])
config = json.loads((source / "config.json").read_text())
data = (source / "model.safetensors").read_bytes()
n = struct.unpack("<Q", data[:8])[0]
header = {k: v for k, v in json.loads(data[8:8 + n]).items() if k != "__metadata__"}
tensors = {k: [v, data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]] for k, v in header.items()}
for edit in sys.argv[3:]:
    what, _, value = edit.partition("=")
    if what.startswith("config."): config[what[7:]] = json.loads(value)
    elif what == "drop": del tensors[value]
    elif what == "shape": tensors[value.split(":")[0]][0]["shape"] = json.loads(value.split(":")[1])
    elif what == "nan": tensors[value][1] = b"\xff\x7f" + tensors[value][1][2:]
    elif what == "copy":  # copy=TO:FROM
        to, other = value.split(":")
        tensors[to][1] = tensors[other][1]
    elif what == "exchange":
        for name in [n for n in tensors if "expert" in n and ".gate_proj." in n]:
            other = tensors[name.replace(".gate_proj.", ".up_proj.")]
            tensors[name][1], other[1] = other[1], tensors[name][1]
    elif what == "fuse":
        for layer in range(config["num_hidden_layers"]):
            p, experts = f"model.layers.{layer}.block_sparse_moe.experts.", range(config["num_local_experts"])
            tensors[f"model.layers.{layer}.mlp.gate.weight"] = tensors.pop(p.replace("experts.", "gate.weight"))
            both = b"".join(tensors[f"{p}{e}.{w}.weight"][1] for e in experts for w in ("w1", "w3"))
            down = b"".join(tensors[f"{p}{e}.w2.weight"][1] for e in experts)
            (hidden, dim), dtype = tensors[p + "0.w1.weight"][0]["shape"], tensors[p + "0.w1.weight"][0]["dtype"]
            for e in experts:
                for w in ("w1", "w2", "w3"): del tensors[f"{p}{e}.{w}.weight"]
            q = f"model.layers.{layer}.mlp.experts."
            tensors[q + "gate_up_proj"] = [{"dtype": dtype, "shape": [len(experts), 2 * hidden, dim]}, both]
            tensors[q + "down_proj"] = [{"dtype": dtype, "shape": [len(experts), dim, hidden]}, down]
at = 0
for t in tensors.values():
    t[0]["data_offsets"] = [at, at + len(t[1])]
    at += len(t[1])
head = json.dumps({k: t[0] for k, t in tensors.items()}).encode()
head += b" " * (-len(head) % 8)
out.mkdir()
(out / "config.json").write_text(json.dumps(config))
(out / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + b"".join(t[1] for t in tensors.values()))
P
edited() { # edited MODEL EDIT...: prints the name of the edited copy
    python3 "$tmp/edit.py" "$F/$1" "$tmp/m$BASHPID" "${@:2}" && echo "$tmp/m$BASHPID"
}
logits() { RUN_CPU=ref "$RUN" "$1" -m logits --tokens 1,34,43,18 --json --all; }

check "info says how many experts and parameters a token uses" python3 -c '
import json, sys
i = json.load(open(sys.argv[1]))
assert (i["experts"], i["experts_used"], i["shared_dim"]) == (5, 2, 0), i
dim = hidden = 16
assert i["params"] - i["active_params"] == 2 * 3 * 3 * dim * hidden, i' <("$RUN" $F/mixtral -m info --json)
check "info as text" grep -q "2 of 5 experts, SwiGLU" <("$RUN" $F/mixtral -m info)
check "the shared expert counts as active" python3 -c '
import json, sys
i = json.load(open(sys.argv[1]))
assert (i["experts"], i["experts_used"], i["hidden_dim"], i["shared_dim"]) == (5, 3, 8, 24), i
assert i["params"] - i["active_params"] == 2 * 2 * 3 * 16 * 8, i' <("$RUN" $F/qwen2_moe -m info --json)
check "the fused layout is the same model" cmp <(logits $F/mixtral) <(logits "$(edited mixtral fuse)")
check "noise of training changes nothing" cmp <(logits "$(edited mixtral config.num_experts_per_tok=5)") \
    <(logits "$(edited mixtral config.num_experts_per_tok=5 config.router_jitter_noise=0.1)")

w=model.layers.1.block_sparse_moe
bad() { refused "$1" 1 "$2" "$(edited "${@:3}")" -m logits --tokens 1; }
bad "more experts used than there are" "num_experts_per_tok: expected 1 to the 5 experts there are, found 6" mixtral \
    config.num_experts_per_tok=6
bad "no expert used" "num_experts_per_tok: expected 1 to" mixtral config.num_experts_per_tok=0
bad "no experts" "num_local_experts: expected 1 to 1024 experts, found 0" mixtral config.num_local_experts=0
bad "an expert too many in the file" "experts.4.w1.weight: expected experts 0 to 3, found expert 4" mixtral \
    config.num_local_experts=4 drop=$w.gate.weight drop=model.layers.0.block_sparse_moe.gate.weight
bad "an expert's tensor missing" "layer 1: expected the tensor of 5 experts, found none of expert 3" mixtral \
    drop=$w.experts.3.w2.weight
bad "the router missing" "router of layer 1: expected the tensor, found none" mixtral drop=$w.gate.weight
bad "a router of the wrong shape" "gate.weight: shape: expected \[5, 16\], found \[10, 8\]" mixtral \
    "shape=$w.gate.weight:[10, 8]"
bad "fused experts of the wrong number" "expected matrices of 4 experts" mixtral fuse config.num_local_experts=4
bad "fused experts of another shape" "gate_up_proj: shape: expected \[5, 32, 16\], found 80 rows of 32 values" mixtral fuse \
    "shape=model.layers.0.mlp.experts.gate_up_proj:[5, 16, 32]"
bad "a NaN in the router" "expected a finite number, found nan" mixtral nan=$w.gate.weight
refused "a NaN in the router, looked for" 1 "layer 1, router, row 0.*operand router, row 0, column 0, is nan" \
    "$(edited mixtral nan=$w.gate.weight)" -m logits --tokens 1 --check
bad "a NaN in an expert" "found nan" mixtral nan=$w.experts.0.w2.weight nan=$w.experts.1.w2.weight \
    nan=$w.experts.2.w2.weight nan=$w.experts.3.w2.weight nan=$w.experts.4.w2.weight
bad "experts where a dense layer belongs" "layers.0.mlp.experts.0.down_proj.weight: expected no such tensor with this config" \
    qwen3_moe "config.mlp_only_layers=[0]"
bad "a dense layer where experts belong" "layers.3.mlp.down_proj.weight: expected no such tensor with this config" \
    qwen2_moe_dense "config.mlp_only_layers=[]"
bad "a list of layers that is none" "mlp_only_layers: expected a list" qwen2_moe_dense config.mlp_only_layers=3
bad "a layer that is no number" "mlp_only_layers: expected numbers of layers" qwen2_moe_dense 'config.mlp_only_layers=["3"]'
bad "a step of 0" "decoder_sparse_step: expected" qwen2_moe_dense config.decoder_sparse_step=0
bad "dense layers in a family without them" "mlp_only_layers: expected null" olmoe "config.mlp_only_layers=[0]"
check "layers that are named twice, or are none of the model's" cmp <(logits $F/qwen2_moe_dense) \
    <(logits "$(edited qwen2_moe_dense "config.mlp_only_layers=[2, 3, 3, 9, -1]")")
check "info says how wide the dense layers are" python3 -c '
import json, sys
i = json.load(open(sys.argv[1]))
assert (i["hidden_dim"], i["dense_dim"], i["shared_dim"]) == (8, 40, 24), i
assert i["params"] - i["active_params"] == 1 * 2 * 3 * 16 * 8, i' <("$RUN" $F/qwen2_moe_dense -m info --json)
bad "the shared expert missing" "shared.w_up of layer 0: expected the tensor, found none" qwen2_moe \
    drop=model.layers.0.mlp.shared_expert.up_proj.weight
bad "the shared expert's gate missing" "shared_gate of layer 1: expected the tensor, found none" qwen2_moe \
    drop=model.layers.1.mlp.shared_expert_gate.weight
bad "sinks missing" "sinks of layer 0: expected the tensor, found none" gpt_oss drop=model.layers.0.self_attn.sinks
bad "an expert's bias missing" "experts.b_down of layer 1: expected the tensor of 5 experts, found none of expert 0" \
    gpt_oss drop=model.layers.1.mlp.experts.down_proj_bias
bad "experts as rows where columns belong" "gate_up_proj: shape: expected \[5, 16, 32\], found 160 rows of 16 values" \
    gpt_oss "shape=model.layers.0.mlp.experts.gate_up_proj:[5, 32, 16]"
q=model.layers.1.mlp.experts
bad "exponents missing" "$q.gate_up_proj_scales: expected the tensor, found none" gpt_oss_mxfp4 drop=$q.gate_up_proj_scales
bad "nibbles missing" "$q.down_proj_blocks: expected the tensor, found none" gpt_oss_mxfp4 drop=$q.down_proj_blocks
bad "nibbles of another shape" "$q.down_proj: shape: expected \[5, 64, 1, 16\] and scales without the last" gpt_oss_mxfp4 \
    "shape=$q.down_proj_blocks:[5, 32, 2, 16]"
bad "exponents of another shape" "$q.gate_up_proj: shape: expected \[5, 64, 2, 16\]" gpt_oss_mxfp4 \
    "shape=$q.gate_up_proj_scales:[5, 128, 1]"
bad "blocks that nothing speaks of" "_blocks: expected a tensor this program knows" gpt_oss_mxfp4 config.quantization_config=null
bad "another quantization" "expected null or the method mxfp4, found the method gptq" gpt_oss_mxfp4 \
    'config.quantization_config={"quant_method": "gptq"}'
bad "experts in a LLaMA" "num_local_experts: expected 0, found 5" mixtral 'config.model_type="llama"'

# What verify says of a wrong setting; the reference is transformers' run of the right one (scripts/hf_reference.py).
R=tests/fixtures/verify/qwen2_moe.safetensors
check "verify compares the router's scores and weights" grep -q "layers.1.router_weights" <("$RUN" $F/qwen2_moe -m verify -r $R)
check "verify agrees" grep -q "all 27 tensors of 12 tokens are within tolerance" <("$RUN" $F/qwen2_moe -m verify -r $R)
wrong() { # wrong NAME TENSOR WORDS EDIT...
    "$RUN" "$(edited qwen2_moe "${@:4}")" -m verify -r $R >"$tmp/verify" 2>&1
    if grep -q "first over tolerance: $2" "$tmp/verify" && grep -q "likely cause: .*$3" "$tmp/verify"; then ok "$1"
    else not_ok "$1" "$(tail -n 2 "$tmp/verify")"; fi
}
wrong "weights that add up to 1" layers.0.router_weights "experts' renormalisation: in the reference the weights of the chosen experts are shares" \
    config.norm_topk_prob=true
wrong "too few experts used" layers.0.router_weights "experts used: .* a token goes through 3 of the 5 experts, this model says 2" \
    config.num_experts_per_tok=2
wrong "too many experts used" layers.0.router_weights "a token goes through 3 of the 5 experts, this model says 4" \
    config.num_experts_per_tok=4
wrong "gate and up exchanged" layers.0.ffn_out "experts: in the reference w_gate and w_up are exchanged" exchange
wrong "another router" layers.1.router "router: .*other weights" copy=model.layers.1.mlp.gate.weight:model.layers.0.mlp.gate.weight
"$RUN" $F/qwen2_moe -m trace --tokens 1,34,43 >"$tmp/trace"
check "trace shows the experts' weights" grep -q "router_weights *\[3, 5\]" "$tmp/trace"
