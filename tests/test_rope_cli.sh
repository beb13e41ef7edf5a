#!/bin/sh
# -m rope, -m verify, -m probe and --check as they are called: exit codes, JSON, one line on a failure.
run=${RUN:-./run}
f=tests/fixtures
out=$(mktemp) && err=$(mktemp) || exit 1
trap 'rm -f "$out" "$err"' EXIT

# check NAME STATUS WHERE TEXT ARGUMENTS...: the exit code, and TEXT (a fixed string) in WHERE (out or err)
check() {
    name=$1 want=$2 where=$3 text=$4
    shift 4
    "$run" "$@" >"$out" 2>"$err"
    got=$?
    file=$out
    [ "$where" = err ] && file=$err
    if [ $got -ne "$want" ]; then echo "not ok $name: expected exit $want, found $got: $(head -c 200 "$err")"
    elif ! grep -qF -- "$text" "$file"; then echo "not ok $name: expected '$text', found $(head -c 300 "$file")"
    elif [ "$where" = err ] && [ -s "$out" ]; then echo "not ok $name: expected nothing on standard output"
    elif [ "$where" = err ] && [ "$(wc -l <"$err")" -ne 1 ]; then echo "not ok $name: expected one line of error"
    else echo "ok $name"; fi
}

check "rope: a vector turned" 0 out '"inv_freq": [1, 0.01], "rotated": [0.540302277, 0.841470957, 0.999949992, 0.00999983307]}' \
    -m rope --json --x 1,0,1,0 --pos 1
check "rope: half-split pairing" 0 out '"rotated": [0.540302277, 1, 0.841470957, 1e-15]' -m rope --json --x 1,1,0,0 --pos 1 --rope-pairing half --rope-theta 1e30
check "rope: keys" 0 out '{"head_dim": 8, "theta": 10000, "type": "yarn", "attention_factor": 1.13862943611, "inv_freq": [' \
    -m rope --json --head-dim 8 --rope-scaling yarn --rope-factor 4 --rope-original-ctx 2048
check "rope: linear" 0 out '"inv_freq": [0.25, 0.0025]' -m rope --json --head-dim 4 --rope-scaling linear --rope-factor 4 --rope-original-ctx 64
check "rope: table" 0 out 'slowed by' -m rope --head-dim 8 --rope-scaling llama3 --rope-factor 8 --rope-original-ctx 8192
check "rope: of a checkpoint" 0 out '"head_dim": 16, "theta": 1000000' -m rope --json $f/mqa_head_dim.gguf
check "rope: odd head_dim" 1 err 'head_dim: expected an even number, found 7' -m rope --head-dim 7
check "rope: factor left out" 1 err 'factor: expected a number from 1, found 0' -m rope --rope-scaling linear
check "rope: bad vector" 1 err "number 1: expected finite numbers" -m rope --x 1,nan
check "rope: learned positions" 1 err 'expected RoPE, found learned ones' -m rope $f/gpt2_hf
for model in base_hf base.gguf base_v0.bin; do
    check "verify: $model" 0 out 'all 23 tensors of 16 tokens are within tolerance' $f/$model -m verify -r $f/verify/base.safetensors
done
check "verify: pairing" 1 out 'first over tolerance: layers.0.q_rot' $f/base.gguf -m verify -r $f/verify/base.safetensors --rope-pairing half
check "verify: theta" 1 out '"first": "layers.0.q_rot", "cause": "theta wrong' $f/base.gguf -m verify --json -r $f/verify/base.safetensors --rope-theta 500
check "verify: another model's" 1 err 'expected F32 of 16 rows' $f/base.gguf -m verify -r $f/verify/mqa_head_dim.safetensors
check "verify: no reference" 2 err 'expected -r REF' $f/base.gguf -m verify
check "check: a sound model" 0 out '"logits"' $f/base.gguf -m logits --tokens 1,2,3 --json --check

model=
large=weights/SmolLM2-135M-Instruct.Q4_1.gguf
[ -n "$EMULATED" ] && large= # minutes of emulated code; the small one asks for the same
for m in weights/rung4 $large; do [ -e "$m" ] && model=$m; done
if [ -n "$model" ]; then
    check "probe: sound" 0 out 'RoPE fits its weights' $model -m probe
    case $model in *.gguf) wrong=half right=pairs ;; *) wrong=pairs right=half ;; esac
    check "probe: pairing wrong" 0 out "run with --rope-pairing $right" $model -m probe --rope-pairing $wrong
else
    echo "skip probe: no trained model in weights/"
fi
