#!/usr/bin/env bash
# Numbers at the edge of what makes sense: in the flags, and in the weights. No NaN is ever sampled from, and what the
# KV cache cannot hold is said.
. tests/lib.sh
dir=$tmp

# A tokenizer of 64 letters for the small models, and models with something wrong in their weights.
cat >"$dir/make.py" <<'P'
import struct, sys
folder = sys.argv[1]
with open(folder + "/tok.bin", "wb") as f:
    f.write(struct.pack("<i", 8))
    for i in range(64):
        text = [b"<unk>", b"\n<s>\n", b"\n</s>\n"][i] if i < 3 else bytes([60 + i])
        f.write(struct.pack("<fi", -i, len(text)) + text)
model = open("tests/fixtures/base_v0.bin", "rb").read()
dim, hidden, layers, heads, kv_heads, vocab, ctx = struct.unpack("<7i", model[:28])
vocab = abs(vocab)
sizes = [("tok_emb", vocab * dim), ("attn_norm", layers * dim), ("wq", layers * dim * dim), ("wk", layers * dim * dim * kv_heads // heads),
         ("wv", layers * dim * dim * kv_heads // heads), ("wo", layers * dim * dim), ("ffn_norm", layers * dim)]
def change(name, tensor, f, only=None):
    at = 28
    for t, n in sizes:
        if t == tensor: break
        at += 4 * n
    x = list(struct.unpack("<%df" % n, model[at:at + 4 * n]))
    x = [f(v) if only is None or i == only else v for i, v in enumerate(x)]
    open("%s/%s.bin" % (folder, name), "wb").write(model[:at] + struct.pack("<%df" % n, *x) + model[at + 4 * n:])
change("nan", "wo", lambda v: float("nan"), 5)
change("inf", "ffn_norm", lambda v: float("inf"), 40)
change("keys", "wk", lambda v: v * 3e5)      # keys beyond 65504
change("values", "wv", lambda v: v * 3e5)    # values beyond it
with open(folder + "/wide.bin", "wb") as f:  # the smallest model with 2^24 tokens, all zeros
    f.write(struct.pack("<7i", 2, 2, 1, 1, 1, 1 << 24, 32768))
    f.truncate(28 + 4 * (2 * (1 << 24) + 2 + 4 * 4 + 2 + 3 * 4 + 2 + 2 * 32768))
P
python3 "$dir/make.py" "$dir" || exit 1
M=tests/fixtures/base_v0.bin
T=$dir/tok.bin

text() { "$RUN" $M -z "$T" -n 20 -i A "$@" 2>"$dir/err"; }
greedy=$(text -t 0)
same() { # NAME ARGS... - the greedy text
    local name=$1
    shift
    got=$(text "$@")
    if [ "$got" = "$greedy" ] && [ ${#greedy} -gt 15 ]; then ok "$name"; else not_ok "$name" "'$got', expected '$greedy': $(cat "$dir/err")"; fi
}
drawn() { # NAME ARGS... - some text
    local name=$1
    shift
    if text "$@" >"$dir/out" && [ -s "$dir/out" ]; then ok "$name"; else not_ok "$name" "$(cat "$dir/err")"; fi
}

same "temperature 1e-30 is greedy" -t 1e-30 -s 1
same "the smallest temperature is greedy" -t 1e-45 -s 1
same "top-p 0 is greedy" -p 0 -s 1
same "top-k 1 is greedy" --top-k 1 -s 1
same "min-p 1 is greedy" --min-p 1 -s 1
drawn "temperature 1e6" -t 1e6 -s 1
drawn "top-p 1" -p 1 -s 1
drawn "top-k 0 is off" --top-k 0 -s 1
drawn "top-k beyond the vocabulary" --top-k 2147483647 -s 1
drawn "repeat-last 0" --repeat-last 0 --repeat-penalty 1.5 -s 1
for flag in "-t -1" "-t nan" "-t inf" "-t 1e30" "-p 1.5" "-p -0.1" "-p nan" "--min-p 2" "--top-k -1" "--top-k 1e3" "--top-k 2147483648" \
    "--repeat-penalty 0" "--repeat-penalty inf" "--repeat-last -1" "-n -1" "-n 99999999999" "-c -5" "-j 0" "-j -1" "--batch 0" \
    "-s 18446744073709551616" "-s 1.5" "-s x" "--rope-theta 0" "--rope-factor nan" "--tokens -1" "--tokens 1,,2"; do
    # shellcheck disable=SC2086
    refused "$flag" 2 "expected" $M -z "$T" $flag
done
a=$(text -s 0)
b=$(text -s 0)
c=$(text -s 18446744073709551615)
d=$(text -s -1)
if [ "$a" = "$b" ] && [ "$c" = "$d" ] && [ "$a" != "$c" ]; then ok "seeds 0, 2^64 - 1 and -1"; else not_ok "seeds 0, 2^64 - 1 and -1" "$a $b $c $d"; fi

for mode in "-m generate -i A -t 0" "-m generate -i A -s 1" "-m logits --tokens 1,2,3 --json" "-m logits --tokens 1,2,3 --all" \
    "-m perplexity -i ABCDEFGH" "-m probe -i ABCDEFGH" "-m chat --chat-template llama-2 --quiet -i A"; do
    for what in nan inf; do
        # shellcheck disable=SC2086
        refused "$what in the weights, $mode" 1 "expected \(a \)\?finite" "$dir/$what.bin" -z "$T" --quiet $mode
    done
done
refused "--check names the weight that is nan" 1 "layer 0, .*wo, row 0, column 5, is nan in the file" "$dir/nan.bin" -z "$T" -i A --check
refused "--check names the weight that is inf" 1 "layer 1, .*ffn_norm, value 8, is inf in the file" "$dir/inf.bin" -z "$T" -i A --check

for what in keys values; do
    refused "$what beyond f16" 1 "KV cache: expected keys and values up to 65504.*--kv-type f32" "$dir/$what.bin" -z "$T" -i A -t 0 --kv-type f16
    refused "$what beyond f16, logits" 1 "KV cache" "$dir/$what.bin" -m logits --tokens 1,2,3 --kv-type f16
    refused "$what beyond f16, perplexity" 1 "KV cache" "$dir/$what.bin" -z "$T" --quiet -m perplexity -i ABCDEF --kv-type f16
    if "$RUN" "$dir/$what.bin" -z "$T" -i A -t 0 -n 5 --kv-type f32 >"$dir/out" 2>"$dir/err"; then ok "$what beyond f16 are held by f32"
    else not_ok "$what beyond f16 are held by f32" "$(cat "$dir/err")"; fi
done

# sums of flags that no int holds
for flags in "-n 2147483647 -d 100" "-P 1048576 -d 67108864" "-P 0 -n 67108864 -d 1"; do
    # shellcheck disable=SC2086
    refused "bench $flags" 2 "expected at most 67108864 tokens together, found [0-9]*$" $M -m bench $flags
done
refused "bench of nothing" 2 "expected one of them above 0" $M -m bench -P 0 -n 0
for flags in "-n 2147483647" "--repeat-last 2147483647 --repeat-penalty 1.5" "--top-k 2147483647" "--batch 65536"; do
    # shellcheck disable=SC2086
    drawn "$flags" -s 1 -c 64 $flags
done
# shellcheck disable=SC2086
if "$RUN" -m rope --pos 2147483647 --seq-len 2147483647 --json --x 1,0 >"$dir/out" 2>"$dir/err"; then ok "the last position"
else not_ok "the last position" "$(cat "$dir/err")"; fi

# More memory than there is, and less than the default asks for
refused "a context that does not fit" 1 "memory: expected [0-9]* MiB for a context of 67108864, found [0-9]* MiB free (lower it with -c" \
    weights/shakespeare.gguf -c 67108864 -i A
refused "rows of logits that do not fit" 1 "wide.bin: memory: expected 209[0-9]* MiB for 32768 rows of logits and their context, found [0-9]* MiB free (lower it with fewer tokens, or without --all)" \
    "$dir/wide.bin" -m logits --all --tokens "$(yes 1 | head -n 32768 | paste -sd ,)"
case $RUN in
*asan* | *tsan* | *aarch64*) ;; # a sanitizer maps terabytes, an emulator what it likes
*)
    (ulimit -v 600000; "$RUN" weights/shakespeare.gguf -c 400000 -i A >"$dir/out" 2>"$dir/err")
    if [ $? -eq 1 ] && grep -q "memory: expected [0-9]* MiB for a context of 400000" "$dir/err"; then ok "ulimit -v"; else not_ok "ulimit -v" "$(cat "$dir/err")"; fi ;;
esac
