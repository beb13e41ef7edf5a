#!/usr/bin/env bash
# -m rope, -m verify, -m probe and --check as they are called: exit codes, JSON, one line on a failure.
. tests/lib.sh
f=tests/fixtures

# shows NAME STATUS WHERE TEXT ARGUMENTS...: the exit code, and TEXT (a fixed string) in WHERE (out or err)
shows() {
    local name=$1 want=$2 where=$3 text=$4 got
    shift 4
    "$RUN" "$@" >"$tmp/out" 2>"$tmp/err"
    got=$?
    if [ $got -ne "$want" ]; then not_ok "$name" "expected exit $want, found $got: $(head -c 200 "$tmp/err")"
    elif ! grep -qF -- "$text" "$tmp/$where"; then not_ok "$name" "expected '$text', found $(head -c 300 "$tmp/$where")"
    elif [ "$where" = err ] && [ -s "$tmp/out" ]; then not_ok "$name" "expected nothing on standard output"
    elif [ "$where" = err ] && [ "$(wc -l <"$tmp/err")" -ne 1 ]; then not_ok "$name" "expected one line of error"
    else ok "$name"; fi
}

shows "rope: a vector rotated" 0 out '"inv_freq": [1, 0.01], "rotated": [0.540302277, 0.841470957, 0.999949992, 0.00999983307]}' \
    -m rope --json --x 1,0,1,0 --pos 1
shows "rope: half-split pairing" 0 out '"rotated": [0.540302277, 1, 0.841470957, 1e-15]' -m rope --json --x 1,1,0,0 --pos 1 --rope-pairing half --rope-theta 1e30
shows "rope: keys" 0 out '{"head_dim": 8, "theta": 10000, "type": "yarn", "attention_factor": 1.13862943611, "inv_freq": [' \
    -m rope --json --head-dim 8 --rope-scaling yarn --rope-factor 4 --rope-original-ctx 2048
shows "rope: linear" 0 out '"inv_freq": [0.25, 0.0025]' -m rope --json --head-dim 4 --rope-scaling linear --rope-factor 4 --rope-original-ctx 64
shows "rope: table" 0 out 'slowed by' -m rope --head-dim 8 --rope-scaling llama3 --rope-factor 8 --rope-original-ctx 8192
shows "rope: of a checkpoint" 0 out '"head_dim": 16, "theta": 1000000' -m rope --json $f/mqa_head_dim.gguf
shows "rope: odd head_dim" 1 err 'head_dim: expected an even number, found 7' -m rope --head-dim 7
shows "rope: factor left out" 1 err 'factor: expected a number from 1 with --rope-scaling linear, found none' -m rope --rope-scaling linear
two="--q 1,0,1,0 --k 1,0,1,0 --pos 2 --pos-k 1"
shows "rope: a score term by term" 0 out '1.5403 = -0.2248 + 0.7651 + 0.9998 + 0.0002' -m rope $two
shows "rope: the same score 100 on" 0 out 'score of q at 102 and k at 101:  1.5403' -m rope $two
shows "rope: a score as JSON" 0 out '"terms": [-0.224845095, 0.765147401, 0.999750017, 0.000199983334], "score": 1.54025231, "shifted": {"pos": 102, "pos_k": 101, "score": 1.54025231}}' -m rope $two --json
shows "rope: q and k rotated" 0 out '"q_rotated": [-0.416146837, 0.909297427, 0.999800007, 0.0199986667], "k_rotated": [0.540302306, 0.841470985, 0.99995, 0.00999983333]' -m rope $two --json
shows "rope: q without k" 1 err '--q and --k: expected both, found one' -m rope --q 1,2
shows "rope: q and k of different lengths" 1 err '--k: expected head_dim, 4 numbers, found 2' -m rope --q 1,2,3,4 --k 1,2
shows "rope: cos 0.01 as a calculator has it" 0 out 'position 1:  0.5403,  0.8415,  1.0000,  0.0100' -m rope --head-dim 4
shows "rope: the matrix" 0 out '       .       .  0.9996 -0.0300' -m rope --head-dim 4 --pos 3
shows "rope: 768 features" 0 out '{"head_dim": 768,' -m rope --json --head-dim 768
shows "rope: 4096 features" 0 out '{"head_dim": 4096,' -m rope --json --head-dim 4096
shows "rope: more" 1 err 'rotary dimension: expected at most 4096, found 4098' -m rope --head-dim 4098
shows "rope: static NTK" 0 out '"type": "ntk", "attention_factor": 1, "inv_freq": [1, 0.286414970979,' -m rope --json --head-dim 16 --rope-scaling ntk --rope-factor 2
shows "rope: partial rotary" 0 out '"inv_freq": [1, 0.01], "rotated": [0.540302277, 0.841470957, 0.999949992, 0.00999983307, 5, 6]' -m rope --json --x 1,0,1,0,5,6 --rotary-dim 4 --pos 1
longrope="--head-dim 4 --rope-scaling longrope --rope-short 1,2 --rope-long 4,5 --rope-original-ctx 10 --rope-factor 4"
shows "rope: longrope, short" 0 out '"type": "longrope", "attention_factor": 1.26572508521, "inv_freq": [1, 0.005]' -m rope --json $longrope --seq-len 10
shows "rope: longrope, long" 0 out '"inv_freq": [0.25, 0.002]' -m rope --json $longrope --seq-len 11
shows "rope: longrope without factors" 1 err 'longrope: expected short_factor and long_factor' -m rope --rope-scaling longrope --rope-original-ctx 10
shows "rope: longrope with a factor too few" 1 err '--rope-long: expected rotary_dim / 2, 2 numbers, found 1' -m rope $longrope --rope-long 1
shows "rope: longrope on a checkpoint" 0 out '"type": "longrope"' -m rope $f/base_hf --json --rope-scaling longrope --rope-short 1,2,3,4 --rope-long 4,5,6,7 --rope-original-ctx 10 --rope-factor 4
shows "rope: bad vector" 1 err "number 1: expected finite numbers" -m rope --x 1,nan
shows "rope: learned positions" 1 err 'expected RoPE, found learned ones' -m rope $f/gpt2_hf
for model in base_hf base.gguf base_v0.bin; do
    shows "verify: $model" 0 out 'all 23 tensors of 16 tokens are within tolerance' $f/$model -m verify -r $f/verify/base.safetensors
done
shows "verify: pairing" 1 out 'first over tolerance: layers.0.q_rot' $f/base.gguf -m verify -r $f/verify/base.safetensors --rope-pairing half
shows "verify: theta" 1 out '"first": "layers.0.q_rot", "cause": "theta wrong' $f/base.gguf -m verify --json -r $f/verify/base.safetensors --rope-theta 500
shows "verify: another model's" 1 err 'expected F32 of 16 rows' $f/base.gguf -m verify -r $f/verify/mqa_head_dim.safetensors
shows "verify: no reference" 2 err 'expected -r REF' $f/base.gguf -m verify
shows "check: a sound model" 0 out '"logits"' $f/base.gguf -m logits --tokens 1,2,3 --json --check

# The angles of dynamic NTK depend on the length of the whole prompt, however it is cut into batches.
tokens=$(seq -s, 1 60)
last() { "$RUN" $f/rope_dynamic_hf -m logits --tokens "$tokens" "$@" | tail -n 1; }
if [ "$(last --batch 8 --all)" = "$(last --batch 60)" ]; then ok "logits --all: dynamic, in batches"
else not_ok "logits --all: dynamic, in batches" "$(last --batch 8 --all), expected $(last --batch 60)"; fi

# A rule takes the place of the file's own, whether that is a rule or frequencies that are scaled already.
freqs() { "$RUN" "$@" -m rope --json | grep -o '"inv_freq": [^]]*'; }
llama3="--rope-scaling llama3 --rope-factor 8 --rope-original-ctx 64"
if [ "$(freqs $f/rope_llama3.gguf $llama3)" = "$(freqs $f/rope_llama3_hf $llama3)" ]; then ok "rope: a rule over baked frequencies"
else not_ok "rope: a rule over baked frequencies" "$(freqs $f/rope_llama3.gguf $llama3)"; fi
for flag in factor original-ctx; do
    shows "rope: --rope-$flag without a rule" 1 err "--rope-$flag: expected a rule that uses it (--rope-scaling), found none" -m rope $f/base_hf --rope-$flag 4
    shows "rope: --rope-$flag, baked frequencies" 1 err "found frequencies that the file has scaled already" -m rope $f/rope_llama3.gguf --rope-$flag 4
done
refused "q8_0 of small heads" 1 "expected head_dim to be a multiple of 32 for q8_0, found 8" $f/base_hf -m info --kv-type q8_0
levels="avx2, avxvnni or avx512"
"$RUN" --version | grep -qw avx512 || levels="neon or neondot"
export RUN_CPU=avx9
refused "RUN_CPU of no level" 2 "RUN_CPU: expected ref, blas, $levels, found 'avx9'" $f/base_hf -m info
unset RUN_CPU

model=
large=weights/SmolLM2-135M-Instruct.Q4_1.gguf
case $RUN in *asan*) large= ;; esac # minutes, as under an emulator; the small one takes the same paths
[ -n "$EMULATED" ] && large=
for m in weights/rung4 $large; do [ -e "$m" ] && model=$m; done
if [ -n "$model" ]; then
    shows "probe: sound" 0 out 'RoPE fits its weights' $model -m probe
    case $model in *.gguf) wrong=half right=pairs ;; *) wrong=pairs right=half ;; esac
    shows "probe: pairing wrong" 0 out "run with --rope-pairing $right" $model -m probe --rope-pairing $wrong
else
    not_ok "probe" "no trained model in weights/"
fi
