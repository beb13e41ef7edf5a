#!/usr/bin/env bash
# Round trips through every format that can hold the model, and failures that must leave nothing behind.
. tests/lib.sh
export RUN_CPU=ref
dir=$tmp
F=tests/fixtures
tokens=1,34,22,5,7,9,40,63

# same NAME A B TOLERANCE - the largest difference of the two models' logits, by the program's --json
logits() { "$RUN" "$1" -m logits --tokens $tokens --json | tr -d '[]{}"' | sed 's/.*logits: //' | tr ',' '\n'; }
same() {
    local worst
    logits "$2" >"$dir/a" && logits "$3" >"$dir/b" || { not_ok "$1" "no logits"; return; }
    worst=$(paste "$dir/a" "$dir/b" | awk '{d = $1 - $2; if (d < 0) d = -d; if (d > m) m = d; n++} END {print (n > 10 ? m : 9)}')
    if awk -v w="$worst" -v t="$4" 'BEGIN {exit !(w <= t)}'; then ok "$1"; else not_ok "$1" "logits differ by $worst"; fi
}
# converted NAME SOURCE TARGET TOLERANCE ARGS... - SOURCE is converted, and TARGET has its logits
converted() {
    local name=$1 source=$2 target=$3 tolerance=$4
    shift 4
    rm -rf "$target"
    if "$RUN" "$source" -m convert -o "$target" --quiet "$@" 2>"$dir/err"; then same "$name" "$source" "$target" "$tolerance"
    else not_ok "$name" "exit $?: $(cat "$dir/err")"; fi
}

for source in base_hf base.gguf base_v0.bin base_v1.bin; do
    for target in x.gguf x.bin xdir; do converted "$source to $target" $F/$source "$dir/$target" 1e-5; done
done
for source in rope_yarn_hf rope_llama3_hf rope_longrope_hf rope_linear_hf mqa_head_dim_hf mha_tied_hf biases_hf qwen2_hf qwen2.gguf gpt2_hf gpt2.gguf; do
    converted "$source to GGUF" $F/$source "$dir/$source.gguf" 1e-5
done
for source in rope_yarn_hf rope_llama3_hf rope_longrope_hf rope_linear_hf mqa_head_dim_hf biases_hf rope_yarn.gguf qwen2_hf qwen2.gguf; do
    converted "$source to a directory" $F/$source "$dir/xdir" 1e-5
done
tokens=1,34,22,5,7,9,40,43 # of 48
for source in $F/ladder/rms_gelu_learned_gqa $F/ladder/ln_swiglu_rope_mha; do
    converted "${source##*/} to a directory" "$source" "$dir/xdir" 1e-5
done
tokens=1,34,22,5,7,9,40,63
# config_has NAME TEXT - the directory's config.json has it
config_has() { if grep -qF "$2" "$dir/xdir/config.json"; then ok "$1"; else not_ok "$1" "$(cat "$dir/xdir/config.json")"; fi; }
converted "biases on q, k and v only: no Llama" $F/qkv_bias.gguf "$dir/xdir" 1e-5
config_has "biases on q, k and v only: a Qwen2" '"model_type": "qwen2"'
cp -r $F/base_hf "$dir/ends" && echo '{"eos_token_id": [2, 7, 9]}' >"$dir/ends/generation_config.json"
converted "end tokens" "$dir/ends" "$dir/xdir" 0
config_has "every end token" '"eos_token_id": [2, 7, 9]'
mkdir "$dir/empty"
"$RUN" $F/gpt2_hf -m convert -o "$dir/empty" --quiet 2>/dev/null
if [ -d "$dir/empty" ]; then ok "a refusal leaves an empty directory"; else not_ok "a refusal leaves an empty directory" "it is gone"; fi
if "$RUN" $F/base.gguf -m convert -o "$dir/empty" --quiet; then same "into an empty directory" $F/base.gguf "$dir/empty" 1e-5
else not_ok "into an empty directory" "exit $?"; fi
# Quantizing what was quantized is done, and said; from floating point, or to the same type, there is nothing to say.
note() { "$RUN" "$1" -m convert --type "$2" -o "$dir/again.gguf" 2>&1 >/dev/null | grep -c '^note: these weights were quantized before'; }
if [ "$(note $F/base_q4_1.gguf q8_0)$(note $F/base_q4_1.gguf q4_1)$(note $F/base_q4_1.gguf f16)$(note $F/base.gguf q8_0)" = 1000 ]; then
    ok "quantized twice is said"
else not_ok "quantized twice is said" "$(note $F/base_q4_1.gguf q8_0)$(note $F/base_q4_1.gguf q4_1)$(note $F/base_q4_1.gguf f16)$(note $F/base.gguf q8_0)"; fi
converted "parts of a GGUF to one" $F/base_q4_1_split-00001-of-00003.gguf "$dir/joined.gguf" 0
# every family both ways, but where a format has no place for it
tokens=1,34,22,5,7,9,40,43,2,17,11,30
for source in $F/families/*; do
    name=${source##*/}
    [ -e "$source/config.json" ] || case $name in *.gguf) ;; *) continue ;; esac
    # no such GGUF, or none with its window, its clamp, its norms, its weights of the experts, its layers without them
    case $name in phi_qk_norm | mistral | ministral | vaultgemma | helium | cwm | flex_olmo | gpt_oss_clamp | olmoe_clip | *_dense) ;;
    *) converted "$name to GGUF" "$source" "$dir/family.gguf" 1e-5 ;; esac
    case $name in falcon* | apertus.gguf) ;; # names that depend on the norms; a rule as numbers
    *) converted "$name to a directory" "$source" "$dir/xdir" 1e-5 ;; esac
done
tokens=1,34,22,5,7,9,40,63
cp -r $F/base_hf "$dir/with" && cp $F/tokenizers/llama/*.json "$dir/with"
rm -rf "${dir:?}/xdir"
if "$RUN" "$dir/with" -m convert -o "$dir/xdir" --quiet && cmp -s "$dir/with/tokenizer.json" "$dir/xdir/tokenizer.json" &&
    cmp -s "$dir/with/tokenizer_config.json" "$dir/xdir/tokenizer_config.json"; then ok "the tokenizer goes along"
else not_ok "the tokenizer goes along" "$(ls "$dir/xdir")"; fi
# A name may be a link: to a file of that kind (a cache's blobs) it goes along, to another it is left behind.
mkdir "$dir/blobs" && mv "$dir/with/"*.json "$dir/blobs" && mv "$dir/with/model.safetensors" "$dir/blobs"
(cd "$dir/blobs" && for f in *; do ln -s "../blobs/$f" "../with/$f"; done)
printf 'root:x:0:0:root:/root:/bin/sh\n' >"$dir/secret"
printf '{"password": "hunter2", "eos": 2}' >"$dir/secret.json"
for name in special_tokens_map.json merges.txt tokenizer.model vocab.json; do ln -sf "$dir/secret" "$dir/with/$name"; done
rm -rf "${dir:?}/xdir"
"$RUN" "$dir/with" -m convert -o "$dir/xdir" --quiet
if cmp -s "$dir/blobs/tokenizer.json" "$dir/xdir/tokenizer.json" && [ ! -e "$dir/xdir/special_tokens_map.json" ] &&
    ! grep -rq root:x "$dir/xdir"; then ok "links to blobs go along, others do not"
else not_ok "links to blobs go along, others do not" "$(ls "$dir/xdir")"; fi
for name in special_tokens_map.json generation_config.json tokenizer_config.json vocab.json; do
    ln -sf "$dir/secret.json" "$dir/with/$name"
done
rm -rf "${dir:?}/xdir"
"$RUN" "$dir/with" -m convert -o "$dir/xdir" --quiet 2>/dev/null
if ! grep -rq hunter2 "$dir/xdir" 2>/dev/null; then ok "nor does other JSON"; else not_ok "nor does other JSON" "$(ls "$dir/xdir")"; fi
# the types are bit for bit those that the gguf module made from the same weights
for type in f16 bf16 q8_0 q4_0 q4_1; do
    "$RUN" $F/base.gguf -m convert -o "$dir/$type.gguf" --type $type --quiet
    same "$type as the gguf module writes it" $F/base_$type.gguf "$dir/$type.gguf" 0
done
converted "q8_0 .bin" $F/base_hf "$dir/v2.bin" 0.2 --type q8_0
# the tokenizer of a directory or of -z goes into a GGUF and gives the same ids; one whose rules a GGUF cannot say stays out
T=$F/tokenizers
mkdir "$dir/hf_llama" && sed 's/"single_word":true/"single_word":false/; s/,{"id":420,.*"special":false}\]/]/' $T/llama/tokenizer.json >"$dir/hf_llama/tokenizer.json"
cp README.md "$dir/corpus.txt"
for t in $T/bpe_gpt-2 $T/bpe_llama-bpe $T/bpe_qwen2 $T/bpe_smollm $T/spm_fast $T/spm_llama $T/spm.model "$dir/hf_llama"; do
    if "$RUN" weights/shakespeare.gguf -m convert -z "$t" -o "$dir/tok.gguf" --type q8_0 2>"$dir/err" && grep -q "tokenizer included" "$dir/err" &&
        "$RUN" "$t" -m tokenize -f "$dir/corpus.txt" >"$dir/a" 2>/dev/null &&
        "$RUN" "$dir/tok.gguf" -m tokenize -f "$dir/corpus.txt" >"$dir/b" 2>/dev/null && [ "$(wc -w <"$dir/a")" -gt 1000 ] &&
        cmp -s "$dir/a" "$dir/b"; then ok "the tokenizer ${t##*/} in a GGUF"
    else not_ok "the tokenizer ${t##*/} in a GGUF" "$(cat "$dir/err"; cmp "$dir/a" "$dir/b")"; fi
done
# and the vocabulary of a GGUF, of llama2.c or of a lone model goes into a directory, which says its special tokens
LC_ALL=C sed 's/<|im_start|>/            /' $T/spm.gguf >"$dir/runs.gguf" # an added piece of spaces, as Gemma's
printf 'a <|im_end|>b</s> c<s>  d\n\n  e<|im_start|>             f' >"$dir/special.txt"
for t in $T/bpe_gpt-2.gguf $T/bpe_llama-bpe.gguf $T/bpe_qwen2.gguf $T/bpe_smollm.gguf $T/spm.gguf "$dir/runs.gguf" $T/spm.model $T/spm.bin weights/shakespeare.gguf; do
    rm -rf "${dir:?}/tok"
    "$RUN" weights/shakespeare.gguf -m convert -z "$t" -o "$dir/tok" 2>"$dir/err"
    flags=
    case $t in *.model | *.bin) flags=--no-special ;; esac # alone they read special tokens as text
    for text in corpus special; do
        for which in "$t" "$dir/tok"; do
            "$RUN" "$which" -m tokenize -f "$dir/$text.txt" $flags >"$dir/ids.${which##*/}" 2>/dev/null
        done
        if grep -q "tokenizer included" "$dir/err" && [ "$(wc -w <"$dir/ids.${t##*/}")" -gt 10 ] &&
            cmp -s "$dir/ids.${t##*/}" "$dir/ids.tok"; then ok "the tokenizer ${t##*/} in a directory: $text"
        else not_ok "the tokenizer ${t##*/} in a directory: $text" "$(cat "$dir/err"; cmp "$dir/ids.${t##*/}" "$dir/ids.tok")"; fi
    done
done
check "the names of special tokens" python3 -c '
import json, sys
c = json.load(open(sys.argv[1]))
assert (c["bos_token"], c["eos_token"], c["unk_token"]) == ("<s>", "</s>", "<unk>"), c' "$dir/tok/tokenizer_config.json"
if [ -e weights/SmolLM2-135M-Instruct.Q4_1.gguf ]; then
    rm -rf "${dir:?}/tok"
    "$RUN" weights/shakespeare.gguf -m convert -z weights/SmolLM2-135M-Instruct.Q4_1.gguf -o "$dir/tok" --quiet
    check "SmolLM2's tokenizer in a directory" cmp <("$RUN" weights/SmolLM2-135M-Instruct.Q4_1.gguf -m tokenize -f README.md) \
        <("$RUN" "$dir/tok" -m tokenize -f README.md)
    check "and its template" grep -q "<|im_start|>" "$dir/tok/tokenizer_config.json"
fi
"$RUN" weights/shakespeare.gguf -m convert -z $T/bpe_gpt-2 -o "$dir/anew" 2>"$dir/err"
check "a tokenizer.json is not written anew" grep -q "without the tokenizer: .* copy its files" "$dir/err"
for beyond in '\x12\x02\x18\x01 no byte-pair encoding' '\x1a\x02\x20\x01 drops repeated spaces' \
    '\x12\x05\x18\x02\xc0\x01\x01 places spaces otherwise'; do # fields of its settings
    { cat $T/spm.model && printf "${beyond%% *}"; } >"$dir/beyond.model"
    "$RUN" weights/shakespeare.gguf -m convert -z "$dir/beyond.model" -o "$dir/tok.gguf" 2>"$dir/err"
    if grep -q "without the tokenizer: .*${beyond#* }$" "$dir/err"; then ok "a lone model: ${beyond#* }"
    else not_ok "a lone model: ${beyond#* }" "$(cat "$dir/err")"; fi
done
cp -r $F/base_hf "$dir/single" && cp $T/llama/tokenizer.json "$dir/single"
if "$RUN" "$dir/single" -m convert -o "$dir/tok.gguf" 2>"$dir/err" && grep -q "without the tokenizer: .*single words" "$dir/err"; then
    ok "a tokenizer that a GGUF cannot hold"
else not_ok "a tokenizer that a GGUF cannot hold" "$(cat "$dir/err")"; fi
while IFS='|' read -r from edit words; do
    python3 - "$T/$from/tokenizer.json" "$dir/edited.json" "$edit" <<'P'
import json, sys
t = json.load(open(sys.argv[1]))
exec(sys.argv[3])
json.dump(t, open(sys.argv[2], "w"))
P
    "$RUN" weights/shakespeare.gguf -m convert -z "$dir/edited.json" -o "$dir/tok.gguf" >/dev/null 2>"$dir/err"
    check "a tokenizer that a GGUF cannot hold: ${edit:0:35}..." grep -q "without the tokenizer: .*$words" "$dir/err"
done <<'EDITS'
bpe_gpt-2|t["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a", "type_id": 0}}] * 2 + [{"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"a": {"id": "a", "ids": [5], "tokens": ["a"]}}}|a GGUF puts BOS and EOS around a text and nothing else
bpe_gpt-2|t["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "[aeiou]"}, "behavior": "Isolated", "invert": False}, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]}|no pre-tokenizer of llama.cpp cuts a text as this one does
bpe_gpt-2|t["normalizer"] = {"type": "NFKC"}|no pre-tokenizer of llama.cpp cuts a text as this one does
llama|t["added_tokens"] = t["added_tokens"][:3]; t["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, t["normalizer"]]}|a GGUF's tokenizer llama gives other ids for
EDITS
# llama2.c's vocabulary has spaces where a GGUF has U+2581
D=../shared/data
if [ -e $D/tok512.bin ]; then
    "$RUN" $D/stories260K.bin -z $D/tok512.bin -m convert -o "$dir/stories.gguf" --quiet
    check "llama2.c's tokenizer in a GGUF" diff <("$RUN" $D/stories260K.bin -z $D/tok512.bin -i "Once  upon a café" -n 80 -t 0 --quiet) \
        <("$RUN" "$dir/stories.gguf" -i "Once  upon a café" -n 80 -t 0 --quiet)
else skip "llama2.c's tokenizer in a GGUF" "no ../shared"; fi
refused "a tokenizer that is not there" 1 "none.json" $F/base.gguf -m convert -z "$dir/none.json" -o "$dir/no.gguf"
# every name of llama-quantize; SmolLM2's shape in small: rows of 64 get the types of 32 values, rows of 256 the K types
for type in q2_k q2_k_s q3_k q3_k_s q3_k_m q3_k_l q4_k q4_k_s Q4_K_M q5_k q5_k_s q5_k_m q6_k iq4_nl q5_0 q5_1; do
    converted "$type" $F/base.gguf "$dir/mix.gguf" 3 --type $type
done
# types that are read but not written: copied, or dequantized; requantized they stay within the error of 8 bits
k=../shared/cases/gguf/gg_kquants_a.gguf
if [ -e $k ]; then
    for target in k.gguf kdir; do converted "Q4_K and Q6_K to $target" $k "$dir/$target" 2e-5; done
    # logits up to 12; f32 activations show all of the weights' rounding, which int8 ones shared between both files
    converted "Q4_K and Q6_K to q8_0" $k "$dir/k8.gguf" 0.25 --type q8_0
else skip "Q4_K and Q6_K" "no ../shared"; fi

# K and V averaged over their heads
check "kv-heads" "$RUN" $F/mha_tied.gguf -m convert --kv-heads 2 -o "$dir/kv2.gguf" --quiet
check "kv-heads, counted" grep -q '"n_kv_heads": 2' <("$RUN" "$dir/kv2.gguf" -m info --json)
converted "kv-heads as they are" $F/base.gguf "$dir/kv.gguf" 0 --kv-heads 2

refused "theta that .bin cannot say" 1 "theta" $F/mqa_head_dim_hf -m convert -o "$dir/no.bin"
refused "biases that .bin cannot hold" 1 "bias" $F/biases_hf -m convert -o "$dir/no.bin"
refused "heads that do not divide" 1 "--kv-heads" $F/mha_tied.gguf -m convert --kv-heads 3 -o "$dir/no.gguf"
refused "unknown type" 2 "type" $F/base.gguf -m convert --type q9_9 -o "$dir/no.gguf"
refused "no output" 2 "-o" $F/base.gguf -m convert
refused "a directory that is not there" 1 "none" $F/base.gguf -m convert -o "$dir/none/no.gguf"
refused "over itself" 1 "itself\|same" "$dir/q8_0.gguf" -m convert -o "$dir/q8_0.gguf"
cp $F/base_v0.bin "$dir/nan.bin"
printf '\000\000\300\177' | dd of="$dir/nan.bin" bs=1 seek=28 conv=notrunc 2>/dev/null # the first weight
for target in gguf bin; do refused "a NaN weight, to .$target" 1 "tok_emb row 0" "$dir/nan.bin" -m convert --type q8_0 -o "$dir/no.$target"; done
refused "f16 to .bin" 1 "f16" $F/base.gguf -m convert --type f16 -o "$dir/no.bin"
refused "q8_0 to a directory" 1 "q8_0" $F/base.gguf -m convert --type q8_0 -o "$dir/nodir"
refused "switches that GGUF has no names for" 1 "expected" $F/ladder/rms_gelu_learned_gqa -m convert -o "$dir/no.gguf"
refused "switches that .bin has no place for" 1 "expected" $F/ladder/rms_gelu_learned_gqa -m convert -o "$dir/no.bin"
refused "frequency factors that config.json cannot say" 1 "rope_freqs\|factors" $F/rope_llama3.gguf -m convert -o "$dir/nodir"
mkdir "$dir/full.gguf" "$dir/full" && : >"$dir/full/x"
refused "a directory called .gguf" 1 "full.gguf" $F/base.gguf -m convert -o "$dir/full.gguf"
refused "a directory that is full" 1 "full" $F/base.gguf -m convert -o "$dir/full"
refused "GPT-2 to a directory" 1 "Conv1D" $F/gpt2_hf -m convert -o "$dir/nodir"
refused "a window that a GGUF llama has no key for" 1 "a window" $F/families/mistral -m convert -o "$dir/no.gguf"
refused "a clamp that llama.cpp does not have" 1 "that clamp of the experts" $F/families/gpt_oss_clamp -m convert -o "$dir/no.gguf"
refused "layers that llama.cpp wants experts in" 1 "layers without experts" $F/families/qwen2_moe_dense -m convert -o "$dir/no.gguf"
refused "weights of experts that llama.cpp does not have" 1 "weights of the experts that add up to 1" $F/families/olmoe_clip \
    -m convert -o "$dir/no.gguf"
refused "experts in a .bin" 1 "LLaMA" $F/families/mixtral -m convert -o "$dir/no.bin"
refused "settings that .bin has no place for" 1 "LLaMA" $F/families/qwen3 -m convert -o "$dir/no.bin"
empty "nothing is left of a refused conversion" "$(find "$dir" -maxdepth 1 -name 'no*')"
for target in no.gguf no.bin nodir; do # 40 KiB a file stand in for a full disk; the signal must not end the program
    (ulimit -f 40; "$RUN" $F/base.gguf -m convert -o "$dir/$target" >/dev/null 2>"$dir/err")
    code=$?
    if [ $code -eq 1 ] && grep -q '^run: .*: writing: expected success, found File too large$' "$dir/err" && [ "$(wc -l <"$dir/err")" -eq 1 ] &&
        ! ls "$dir"/no* >/dev/null 2>&1; then ok "a disk that is full, $target"
    else not_ok "a disk that is full, $target" "exit $code, $(cat "$dir/err") $(ls "$dir")"; fi
done
# In the middle comes a signal, or a file that is read shrinks: nothing stays behind. The program is hit as soon as it has
# made the file, and now and then has renamed it before: then it is tried again.
cat >"$dir/interrupt.py" <<'P'
import glob, os, re, shutil, signal, subprocess, sys
run, model, out, what = sys.argv[1:]
source = os.path.realpath(os.path.dirname(out)) + "/source"
read, made = source, out + ".*.part"
if os.path.isdir(model): read, made = source + "/tokenizer.json", made + "/tokenizer.json"
code, line = 130 if what.startswith("SIGINT") else -getattr(signal, what, 0), ""
if what == "shrinks": code, line = 1, "run: %s: size: expected it to stay, found the file changed while in use\n" % read
for attempt in range(50):
    subprocess.run(["rm", "-rf", source, out], check=True)
    subprocess.run(["cp", "-r", model, source], check=True)
    p = subprocess.Popen([run, source, "-m", "convert", "-o", out, "--type", "f32", "--quiet"], stderr=subprocess.PIPE)
    while p.poll() is None and not glob.glob(made): pass
    if what == "shrinks": os.truncate(read, 4096)
    else:
        for name in what.split(","): p.send_signal(getattr(signal, name))
    err = p.communicate()[1].decode()
    if "EMULATED" in os.environ: err = re.sub(r"(?m)^qemu: .*\n", "", err) # the emulator says that SIGQUIT dumped its core
    left = glob.glob(out + ".*")
    assert not left, left
    if os.path.exists(out): continue
    assert p.returncode == code and err == line, (p.returncode, err)
    sys.exit(0)
sys.exit("never in time")
P
mkdir "$dir/signal"
cut() { # NAME MODEL WHAT
    if python3 "$dir/interrupt.py" "$RUN" "$2" "$dir/signal/$target" "$3" 2>"$dir/py"; then ok "$1 while writing $target"
    else not_ok "$1 while writing $target" "$(tail -n 1 "$dir/py")"; fi
}
for target in no.gguf no.bin nodir; do
    for signals in SIGINT SIGINT,SIGINT SIGTERM SIGHUP SIGQUIT SIGXCPU; do cut "$signals" weights/shakespeare.gguf $signals; done
    cut "a source that shrinks" weights/shakespeare.gguf shrinks
done
# A large file that only goes along: nobody touches its bytes but the copy.
cp -r $F/base_hf "$dir/large" && {
    printf '{"model": {"vocab": {"a": 0}}'
    head -c 100000000 /dev/zero | tr '\0' ' '
    printf '}'
} >"$dir/large/tokenizer.json"
cut "a tokenizer that shrinks" "$dir/large" shrinks
