#!/bin/sh
# ladder - runs the five rungs of weights/ through ./run and prints what each swap changed.
#
#   sh scripts/ladder.sh [TEXT] [table|kv ...]
#
# TEXT is tinyshakespeare.txt, whose last 10 % validates; without it only the columns that need no text
# are filled. Everything printed comes from ./run (info, perplexity, generate, convert); the same
# figures go to build/ladder/*.csv, where scripts/plot_ladder.py finds them.
# RUN names another program, WEIGHTS another directory with rung0 .. rung4.
set -u
RUN=${RUN:-./run}
WEIGHTS=${WEIGHTS:-weights}
OUT=build/ladder
text=${1:-../shared/data/tinyshakespeare.txt}
[ $# -gt 0 ] && shift
mkdir -p $OUT
err=$OUT/stderr

# field NAME - the value of a key of the JSON object on stdin
field() { tr '\n' ' ' | sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p"; }

# bits FILE MODEL [options] - bits per byte, or "-" and the program's own line in $err
bits() {
    file=$1 model=$2
    shift 2
    if json=$($RUN "$model" -m perplexity -f "$file" --json --quiet "$@" 2>$err); then
        printf '%s' "$json" | field bits_per_byte | awk '{ printf "%.4f", $1 }'
    else
        printf '%s' -
    fi
}

# speed MODEL - tokens per second of decoding 64 tokens
speed() {
    $RUN "$1" -t 0 -n 64 -s 1 2>&1 >/dev/null | sed -n 's/.*decode:.* \([0-9.]*\) tok\/s.*/\1/p'
}

# describe MODEL - "norm ffn positions attention params kv_bytes multiply_adds"
#   A multiply-add for each weight of each matrix (the head included, the table of embeddings is only
#   looked up), and two for each cached value that a query meets: at position n_ctx.
describe() {
    info=$($RUN "$1" -m info --json 2>$err) || { cat $err >&2; exit 1; }
    get() { printf '%s' "$info" | field "$1"; }
    awk -v norm="$(get norm)" -v ffn="$(get ffn)" -v pos="$(get positions)" -v d="$(get dim)" \
        -v h="$(get hidden_dim)" -v l="$(get n_layers)" -v nh="$(get n_heads)" -v kv="$(get n_kv_heads)" \
        -v hd="$(get head_dim)" -v v="$(get vocab_size)" -v ctx="$(get n_ctx)" -v p="$(get params)" \
        -v kvb="$(get kv_bytes_per_token)" 'BEGIN {
            layer = d * hd * (2 * nh + 2 * kv) + (ffn == "swiglu" ? 3 : 2) * d * h + 2 * nh * hd * ctx
            print norm, ffn, pos, (kv < nh ? "gqa" : "mha") nh "/" kv, p, kvb, l * layer + v * d }'
}

if [ -r "$text" ]; then
    size=$(wc -c <"$text")
    val=$OUT/val.txt part=$OUT/part.txt
    tail -c +$((size * 9 / 10 + 1)) "$text" >$val # bytes from int(0.9 * size) on
    head -c 20000 $val >$part
else
    val='' part=''
    echo "ladder: $text: no such text: losses are left out; get tinyshakespeare.txt and call" >&2
    echo "  make ladder DATA=path/to/tinyshakespeare.txt" >&2
fi

table() {
    echo "One swap a row (multiply-adds and speed of one token; KV cache of the default type, f16):"
    row='%-6s %-10s %-7s %-9s %-7s %10s %9s %12s %10s %7s\n'
    # shellcheck disable=SC2059
    printf "$row" rung norm ffn positions heads parameters "KV bytes" multiply-adds bits/byte tok/s
    echo "rung,norm,ffn,positions,heads,parameters,kv_bytes,multiply_adds,bits_per_byte,tok_s" >$OUT/table.csv
    for i in 0 1 2 3 4; do
        m=$WEIGHTS/rung$i
        [ -d "$m" ] || continue
        # shellcheck disable=SC2046
        set -- "rung$i" $(describe "$m") "$([ -n "$val" ] && bits $val "$m")" "$(speed "$m")"
        # shellcheck disable=SC2059
        printf "$row" "$@"
        (IFS=,; echo "$*") >>$OUT/table.csv
    done
    echo
    if [ -n "$part" ]; then positions; fi
    for i in 0 1 2 3 4; do
        [ -d "$WEIGHTS/rung$i" ] || continue
        echo "--- rung$i"
        $RUN "$WEIGHTS/rung$i" -i "ROMEO:" -n 48 -t 0.8 -s 1 2>$err
    done
}

# Windows of W tokens at a stride of W / 2 score the positions W / 2 .. W - 1 of a window.
positions() {
    echo "Bits per byte of 20,000 bytes by position; trained on positions 0 .. 255:"
    row='%-6s %-9s %12s %12s\n'
    # shellcheck disable=SC2059
    printf "$row" rung scaling "128..255" "256..511"
    echo "rung,scaling,inside,past" >$OUT/positions.csv
    for i in 0 1 2 3 4; do
        m=$WEIGHTS/rung$i
        [ -d "$m" ] || continue
        inside=$(bits $part "$m" -c 256)
        for rule in none linear dynamic yarn llama3; do
            if [ $rule = none ]; then set --; else
                set -- --rope-scaling $rule --rope-factor 2 --rope-original-ctx 256
            fi
            past=$(bits $part "$m" -c 512 "$@")
            # shellcheck disable=SC2059
            printf "$row" "rung$i" $rule "$inside" "$past"
            echo "rung$i,$rule,$inside,$past" >>$OUT/positions.csv
            if [ "$past" = - ]; then
                sed 's/^/         /' $err
                break # learned positions: no rule helps
            fi
        done
    done
    echo
}

# The GQA slider: mean-pool the key and value heads of rung 3 (multi-head), without training.
kv() {
    [ -n "$val" ] && [ -d "$WEIGHTS/rung3" ] || return 0
    echo "Key/value heads of rung 3 mean-pooled, nothing retrained; rung 4 was trained with 2:"
    row='%-9s %9s %10s\n'
    # shellcheck disable=SC2059
    printf "$row" "KV heads" "KV bytes" bits/byte
    echo "kv_heads,kv_bytes,bits_per_byte" >$OUT/kv.csv
    for n in 8 4 2 1; do
        m=$OUT/rung3-kv$n
        rm -rf "$m"
        $RUN "$WEIGHTS/rung3" -m convert --kv-heads $n -o "$m" 2>$err >&2 || { cat $err >&2; return 1; }
        [ -e "$m/tokenizer.model" ] || cp "$WEIGHTS/rung3/tokenizer.model" "$m"
        set -- $n "$($RUN "$m" -m info --json 2>$err | field kv_bytes_per_token)" "$(bits $val "$m")"
        # shellcheck disable=SC2059
        printf "$row" "$@"
        (IFS=,; echo "$*") >>$OUT/kv.csv
    done
    echo
}

[ $# -gt 0 ] || set -- table kv
for what in "$@"; do
    case $what in
    table | kv) $what ;;
    *) echo "ladder: $what: expected table or kv" >&2; exit 2 ;;
    esac
done
