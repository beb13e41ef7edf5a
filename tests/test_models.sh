#!/usr/bin/env bash
# test_models.sh - checkpoints by name: which are found, which one a name means, and what would be refused.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
unset HF_HUB_CACHE
export HF_HOME=$tmp/hf RUN_MODELS=$tmp/a:$tmp/none:$tmp/b
mkdir -p "$tmp/a" "$tmp/b" "$tmp/hf/hub"
cp weights/shakespeare.gguf "$tmp/a/Shakespeare-4M.Q8_0.gguf"
ln -s "$PWD/weights/rung4" "$tmp/b/rung4"
ln -s "$PWD/weights/rung0" "$tmp/b/rung0"
echo "no model" >"$tmp/a/broken.gguf"
echo "# a model" >"$tmp/a/README.md"
: >"$tmp/a/tokenizer.bin"
: >"$tmp/a/part-00002-of-00002.gguf"
hub=$tmp/hf/hub/models--org--tiny
mkdir -p "$hub/snapshots/abc" "$hub/snapshots/old" "$hub/refs"
for f in weights/rung4/*; do ln -s "$PWD/$f" "$hub/snapshots/abc/"; done
printf abc >"$hub/refs/main"
mkdir -p "$tmp/hf/hub/models--org--unclear/snapshots/x" # without a ref: not guessed

check "what there is" python3 - <("$RUN" -m models --json) <<'P'
import json, sys
m = {x["name"]: x for x in json.load(open(sys.argv[1]))["models"]}
assert sorted(m) == ["Shakespeare-4M.Q8_0", "broken", "org/tiny", "rung0", "rung4"], sorted(m)
assert m["Shakespeare-4M.Q8_0"]["type"] == "q8_0" and m["Shakespeare-4M.Q8_0"]["params"] == 4394240, m
assert m["rung4"]["family"] == "llama" and m["rung0"]["family"] == "gpt2" and "refused" in m["broken"], m
P
check "as a table" grep -qE '^broken +refused: .*broken.gguf' <("$RUN" -m models)
generate() { "$RUN" "$1" -t 0 -n 6 -i ROMEO: 2>/dev/null; }
want=$("$RUN" weights/shakespeare.gguf -t 0 -n 6 -i ROMEO: 2>/dev/null)
for name in Shakespeare-4M.Q8_0 shakespeare SHAKE 4m; do check "the name $name" diff <(echo "$want") <(generate $name); done
want=$("$RUN" weights/rung4 -t 0 -n 6 -i ROMEO: 2>/dev/null)
for name in rung4 org/tiny tiny "$hub"; do check "the name ${name##*/}" diff <(echo "$want") <(generate "$name"); done
refused "a name of two" 2 "rung: expected the name of one model, found rung0 and rung4" rung -i A
refused "a name of none" 1 "nobody" nobody -i A
refused "a folder without a ref" 1 "unclear" "$tmp/hf/hub/models--org--unclear" -i A
refused "models of a checkpoint" 2 "expected no CHECKPOINT" weights/rung4 -m models
check "no models" grep -q '^models: none' <(RUN_MODELS='' HF_HOME=$tmp/none "$RUN" -m models 2>&1)
