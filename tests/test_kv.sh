#!/usr/bin/env bash
# test_kv.sh - the size of the KV cache: of well-known models by formulas written here, of a checkpoint as -m info has it.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
unset RUN_CPU
"$RUN" -m kv --json >"$tmp/all"
check "well-known models" python3 - "$tmp/all" <<'P'
import json, sys
models = {m["name"]: m for m in json.load(open(sys.argv[1]))["models"]}
size = {"f32": lambda n: 4 * n, "f16": lambda n: 2 * n, "q8_0": lambda n: n // 32 * 34}
assert {"gpt2", "llama2-7b", "llama3-8b", "qwen3-8b", "gemma3-4b", "mistral-7b", "gpt-neox-20b", "deepseek-v3"} <= set(models)
for m in models.values():
    assert m["source"] and m["n_heads"] % m["n_kv_heads"] == 0, m
    for t, c in m["cache"].items():
        def layer(heads):
            return heads * (size[t](m["head_dim"]) + size[t](128 if m["name"] == "deepseek-v3" else m["head_dim"]))
        token = size[t](m["latent"]) if m["latent"] else layer(m["n_kv_heads"])
        assert c["token_bytes"] == token * m["n_layers"], (m, t)
        assert c["bytes"] == c["token_bytes"] * m["ctx"], (m, t)
        kept = min(m["window"], m["ctx"]) if m["window_layers"] else 0
        rows = (m["n_layers"] - m["window_layers"]) * m["ctx"] + m["window_layers"] * kept
        assert c["window_bytes"] == token * rows, (m, t)
        assert c["multi_head_bytes"] == layer(m["n_heads"]) * m["n_layers"] * m["ctx"], (m, t)
        assert c["multi_query_bytes"] == layer(1) * m["n_layers"] * m["ctx"], (m, t)
one = models["llama3-8b"]["cache"]["f16"]
assert one["token_bytes"] == 131072 and one["multi_head_bytes"] == 4 * one["bytes"], one
assert models["llama2-7b"]["cache"]["f16"]["token_bytes"] == 524288
P
# The windows of Gemma 3: every sixth layer has none.
check "layers with a window" python3 - "$tmp/all" <<'P'
import json, sys
for m in json.load(open(sys.argv[1]))["models"]:
    if m["name"].startswith("gemma3"):
        assert m["window_layers"] == sum((i + 1) % 6 != 0 for i in range(m["n_layers"])), m
P
check "16 GiB of Llama 3 8B" grep -qE '^grouped-query, 8 KV heads +32.00 GiB +16.00 GiB +8.50 GiB$' <("$RUN" llama3-8b -m kv -c 131072)
check "four times that with all heads" grep -qE '^multi-head, 32 +128.00 GiB +64.00 GiB' <("$RUN" llama3-8b -m kv -c 131072)
check "a name goes before a model of that name" grep -q 'meta-llama' <(RUN_MODELS=weights "$RUN" llama2-7b -m kv)
check "the table, at a context" grep -qE '^qwen3-8b .* 1024 +294912 +288.00 MiB' <("$RUN" -m kv -c 1024 --kv-type f32)
check "a type that a head does not fit" grep -qE '^multi-head, 8 .* -$' <("$RUN" weights/rung4 -m kv)

# A checkpoint: what -m info says of a token, whatever its format, and its layers with a window.
for model in weights/rung0 weights/rung4 weights/shakespeare.gguf tests/fixtures/families/{gemma,gemma2,gemma3_text,mistral,qwen3}{,.gguf}; do
    "$RUN" "$model" -m info --json >"$tmp/info" 2>"$tmp/err" || { not_ok "$model" "$(head -1 "$tmp/err")"; continue; }
    "$RUN" "$model" -m kv --json >"$tmp/kv" 2>"$tmp/err" || { not_ok "$model" "$(head -1 "$tmp/err")"; continue; }
    check "${model##*/}" python3 - "$tmp/info" "$tmp/kv" <<'P'
import json, sys
info, kv = (json.load(open(p)) for p in sys.argv[1:])
kv = kv["models"][0]
assert kv["cache"]["f16"]["token_bytes"] == info["kv_bytes_per_token"] and kv["ctx"] == info["n_ctx"], (info, kv)
P
done
# Layers with a window keep it and a batch, in whole blocks of 32: a longer context costs the others alone.
check "what a context costs" python3 - <("$RUN" tests/fixtures/families/gemma3_text -m info --json -c 4096 --batch 16) \
    <("$RUN" tests/fixtures/families/gemma3_text -m info --json -c 8192 --batch 40 --kv-type f32) <<'P'
import json, sys
one, two = (json.load(open(p)) for p in sys.argv[1:])
assert one["kv_bytes_per_token"] == 384 and one["kv_window_bytes_per_token"] == 320, one
assert one["kv_ctx"] == 4096 and one["kv_bytes"] == 64 * 4096 + 320 * 32, one
assert two["kv_ctx"] == 8192 and two["kv_bytes"] == 2 * (64 * 8192 + 320 * 64), two
P
check "and as text" grep -q '^KV cache        384 bytes a token: 64 in 1 layers, 320 in 5 with a window of 8$' <("$RUN" tests/fixtures/families/gemma3_text -m info)
refused "no such model" 1 "nobody" nobody -m kv
refused "q8_0 with heads of 16" 1 "expected head_dim to be a multiple of 32 for q8_0, found 16" weights/rung4 -m kv --kv-type q8_0
refused "a flag of another mode" 2 "top-k" llama3-8b -m kv --top-k 1
