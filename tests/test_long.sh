#!/usr/bin/env bash
# Long texts with every type of KV cache, a context that fills up, and two processes with one file.
. tests/lib.sh
dir=$tmp
long=8192
[ -n "$EMULATED" ] && long=2048 # emulated code takes a quarter of an hour for the others

# A small llama2.c model with the head_dim of 32 that q8_0 asks for and a context of $long, and its tokenizer.
python3 - "$dir" $long <<'P' || exit 1
import random, struct, sys
folder, dim, ctx, vocab = sys.argv[1], 32, int(sys.argv[2]), 64
random.seed(1)
def floats(n, mean, spread): return struct.pack("<%df" % n, *(random.gauss(mean, spread) for _ in range(n)))
matrix = dim * dim
with open(folder + "/long.bin", "wb") as f:
    f.write(struct.pack("<7i", dim, dim, 1, 1, 1, vocab, ctx) + floats(vocab * dim, 0, 1) + floats(dim, 1, 0.1))
    f.write(floats(4 * matrix, 0, 0.2) + floats(dim, 1, 0.1) + floats(3 * matrix, 0, 0.2) + floats(dim, 3, 0.1))
    f.write(bytes(4 * ctx * dim))
with open(folder + "/tok.bin", "wb") as f:
    f.write(struct.pack("<i", 8))
    for i in range(vocab):
        text = [b"<unk>", b"\n<s>\n", b"\n</s>\n"][i] if i < 3 else bytes([60 + i])
        f.write(struct.pack("<fi", -i, len(text)) + text)
# no end token comes out of it: the rows of BOS and EOS are far away from every state
data = bytearray(open(folder + "/long.bin", "rb").read())
for token in (1, 2): data[28 + 4 * dim * token:28 + 4 * dim * (token + 1)] = floats(dim, 0, 1e-9)
open(folder + "/long.bin", "wb").write(data)
P
generate() { "$RUN" "$dir/long.bin" -z "$dir/tok.bin" --no-echo "$@"; }

for type in f32 f16 q8_0; do
    generate -c $long -n $long -t 0.5 -s 3 --kv-type $type >"$dir/$type" 2>"$dir/err"
    code=$?
    size=$(wc -c <"$dir/$type")
    if [ $code -eq 0 ] && [ "$size" -eq $((long + 1)) ] && [ "$(tail -n 1 "$dir/err")" = "stop: steps" ] && grep -q "decode: $long tokens" "$dir/err"
    then ok "$long tokens, keys and values in $type"
    else not_ok "$long tokens, keys and values in $type" "exit $code, $size bytes, $(tail -n 2 "$dir/err")"; fi
done
# BOS is one of the places; the last token of the text needs none. Both when it is asked for more, and without end.
for n in 0 9000; do
    generate -c $long -n $n -s 3 >"$dir/out" 2>"$dir/err"
    code=$?
    if [ $code -eq 0 ] && [ "$(tail -n 1 "$dir/err")" = "stop: context" ] && [ "$(wc -c <"$dir/out")" -ge $long ]; then ok "the context fills up, -n $n"
    else not_ok "the context fills up, -n $n" "exit $code, $(tail -n 1 "$dir/err")"; fi
done
yes ABC | head -n 400 >"$dir/lines"
"$RUN" "$dir/long.bin" -z "$dir/tok.bin" -t 1 -c 300 -m chat --chat-template llama-2 -n 20 -s 3 >"$dir/out" 2>"$dir/err" <"$dir/lines"
code=$?
if [ $code -eq 0 ] && [ "$(grep -c '^prefill:' "$dir/err")" -eq 400 ] && grep -q 'oldest messages are forgotten' "$dir/err"; then ok "the context of a chat fills up"
else not_ok "the context of a chat fills up" "exit $code, $(tail -n 1 "$dir/err")"; fi

# the same file, read by several processes at once
generate -n 500 -s 5 >"$dir/alone" 2>/dev/null
for i in 1 2 3; do generate -n 500 -s 5 >"$dir/out$i" 2>/dev/null & done
"$RUN" "$dir/long.bin" -m convert -o "$dir/copy.gguf" --quiet
wait
same=yes
for i in 1 2 3; do cmp -s "$dir/alone" "$dir/out$i" || same=no; done
if [ $same = yes ] && [ -s "$dir/alone" ] && "$RUN" "$dir/copy.gguf" -m info >/dev/null 2>&1; then ok "four processes, one file"
else not_ok "four processes, one file" "another text"; fi
