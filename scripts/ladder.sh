#!/bin/sh
# ladder - runs the six rungs of weights/ through ./run and prints what each swap changed, what sharing key/value
# heads costs, and what the known mistakes cost.
#
#   sh scripts/ladder.sh [TEXT] [table|theta|kv|breaks ...]      default: table theta kv
#
# TEXT is tinyshakespeare.txt, whose last 10 % validates; without it only the columns that need no text are filled.
# Everything printed comes from ./run. The same figures go to build/ladder/*.csv and *.txt, for
# scripts/plot_ladder.py. RUN names another program, WEIGHTS another directory with rung0 .. rung4.
# shellcheck disable=SC2086 # what stands unquoted are words of this script
set -u
RUN=${RUN:-./run}
WEIGHTS=${WEIGHTS:-weights}
OUT=build/ladder
FIXTURES=tests/fixtures
export RUN OUT
text=${1:-../shared/data/tinyshakespeare.txt}
[ $# -gt 0 ] && shift
mkdir -p $OUT

# field NAME - the value of a key of the JSON object on stdin
field() { tr '\n' ' ' | sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p"; }

# ---- Losses: first all are planned, then computed by as many processes as there are cores, then printed -------------

# plan NAME MODEL FILE [options] - NAME.json will be what -m perplexity says, or NAME.err why it stopped
plan() { [ -n "$3" ] && [ -e "$2" ] && echo "$@" >>$OUT/jobs; }

# shellcheck disable=SC2016
compute() {
    [ -e $OUT/jobs ] || return 0
    echo "ladder: computing $(wc -l <$OUT/jobs) losses ..." >&2
    xargs -P "$(nproc)" -L 1 sh -c '
        out=$OUT/$1 model=$2 file=$3
        shift 3
        $RUN "$model" -m perplexity -f "$file" --json --quiet -j 1 "$@" >"$out.json" 2>"$out.err" || rm "$out.json"
    ' sh <$OUT/jobs
    rm $OUT/jobs
}

# bits NAME - bits per byte of a planned loss, "-" where the program stopped or nothing was planned
bits() {
    if [ -e "$OUT/$1.json" ]; then field bits_per_byte <"$OUT/$1.json" | awk '{ printf "%.4f", $1 }'
    else printf '%s' -; fi
}

difference() { awk -v a="$1" -v b="$2" 'BEGIN { if (a == "-" || b == "-") print "-"; else printf "%+.4f", b - a }'; }

# row FORMAT FILE VALUES... - one line of a table, and of a CSV
row() {
    format=$1 file=$2
    shift 2
    # shellcheck disable=SC2059
    printf "$format\n" "$@"
    (IFS=,; echo "$*") >>"$OUT/$file.csv"
}

# ---- The table of the rungs ------------------------------------------------------------------------------------------

RUNGS="0 1 1b 2 3 4"
RULES="linear ntk dynamic yarn llama3"

# describe MODEL - "norm ffn positions heads params kv_bytes multiply_adds"
#   A multiply-add for each weight of each matrix (the head included, the table of embeddings is only looked up), and
#   two for each cached feature that a query head meets: at position n_ctx.
describe() {
    info=$($RUN "$1" -m info --json 2>&1) || { echo "$info" >&2; exit 1; }
    get() { printf '%s' "$info" | field "$1"; }
    awk -v norm="$(get norm)" -v ffn="$(get ffn)" -v pos="$(get positions)" -v d="$(get dim)" \
        -v h="$(get hidden_dim)" -v l="$(get n_layers)" -v nh="$(get n_heads)" -v kv="$(get n_kv_heads)" \
        -v hd="$(get head_dim)" -v v="$(get vocab_size)" -v ctx="$(get n_ctx)" -v p="$(get params)" \
        -v kvb="$(get kv_bytes_per_token)" 'BEGIN {
            layer = d * hd * (2 * nh + 2 * kv) + (ffn == "swiglu" ? 3 : 2) * d * h + 2 * nh * hd * ctx
            print norm, ffn, pos, nh "/" kv, p, kvb, l * layer + v * d }'
}

# steps RUNG - of its training, as weights/losses says
steps() {
    awk -v rung="\"$1\":" '$1 == rung { there = 1 } there && $1 == "\"steps\":" { n = $2 + 0; exit }
        END { print n ? n : "-" }' \
        "$WEIGHTS/losses/runs.json"
}

# speed MODEL - tokens per second of decoding 128 tokens on one core
speed() { $RUN "$1" -t 0 -n 128 -s 1 -j 1 2>&1 >/dev/null | sed -n 's/.*decode:.* \([0-9.]*\) tok\/s.*/\1/p'; }

plan_table() {
    for i in $RUNGS; do
        m=$WEIGHTS/rung$i
        plan rung$i "$m" "$val"
        # Strictly the positions that the table's columns name: the first window does not score its first half either.
        plan rung$i-inside "$m" "$part" -c 256 --score-from 128
        plan rung$i-none "$m" "$part" -c 512 --score-from 256
        [ $i = 3 ] || [ $i = 4 ] || continue # learned positions have no rule
        for rule in $RULES; do
            plan rung$i-$rule "$m" "$part" -c 512 --score-from 256 --rope-scaling $rule --rope-factor 2 --rope-original-ctx 256
        done
    done
}

print_table() {
    echo "One swap a row. Multiply-adds and KV cache (f16) are those of one token, the speed that of one core. Bits per byte"
    echo "of the validation split; then of its first 20,000 bytes by position, trained on 0..255, with each scaling rule:"
    echo "                                                        KV multiply-                         | 128..  256..511"
    format='%-6s %-9s %-6s %-9s %-5s %10s %6s %9s %5s %9s %9s | %6s %7s %7s %7s %7s %7s %7s'
    rm -f $OUT/table.csv
    row "$format" table rung norm ffn positions heads parameters bytes adds steps bits/byte tok/s 255 none $RULES
    for i in $RUNGS; do
        m=$WEIGHTS/rung$i
        [ -d "$m" ] || continue
        # shellcheck disable=SC2046
        row "$format" table rung$i $(describe "$m") "$(steps rung$i)" "$(bits rung$i)" "$(speed "$m")" "$(bits rung$i-inside)" \
            "$(bits rung$i-none)" $(for rule in $RULES; do bits rung$i-$rule; echo; done)
    done
    echo
    [ -s $OUT/rung0-none.err ] && echo "Past its table rung 0 stops:" && sed 's/^/    /' $OUT/rung0-none.err
    for i in $RUNGS; do
        [ -d "$WEIGHTS/rung$i" ] || continue
        echo
        echo "--- rung$i"
        $RUN "$WEIGHTS/rung$i" -i "ROMEO:" -n 48 -t 0.8 -s 1 --quiet 2>&1 | sed '/^stop: /d'
    done
}

# ---- The base: another theta for rung 4, nothing retrained --------------------------------------------------------------

THETAS="10000 20000 50000 100000 500000"
NTK_FACTORS="1.5 2 3 4 8"

plan_theta() {
    for theta in $THETAS; do
        plan theta-$theta-inside "$WEIGHTS/rung4" "$part" -c 256 --score-from 128 --rope-theta $theta
        plan theta-$theta "$WEIGHTS/rung4" "$part" -c 512 --score-from 256 --rope-theta $theta
    done
    for factor in $NTK_FACTORS; do
        plan ntk-$factor-inside "$WEIGHTS/rung4" "$part" -c 256 --score-from 128 --rope-scaling ntk --rope-factor $factor
        plan ntk-$factor "$WEIGHTS/rung4" "$part" -c 512 --score-from 256 --rope-scaling ntk --rope-factor $factor
    done
}

print_theta() {
    echo "Rung 4, trained with theta 10000 on 256 positions, run with another base (20,000 bytes):"
    format='%-8s %9s %9s'
    rm -f $OUT/theta.csv $OUT/ntk.csv
    row "$format" theta theta 128..255 256..511
    for theta in $THETAS; do row "$format" theta $theta "$(bits theta-$theta-inside)" "$(bits theta-$theta)"; done
    echo
    echo "The same by static NTK, theta = 10000 factor^(16 / 14) for a head of 16:"
    row "$format" ntk factor 128..255 256..511
    for factor in $NTK_FACTORS; do row "$format" ntk $factor "$(bits ntk-$factor-inside)" "$(bits ntk-$factor)"; done
}

# ---- The GQA slider: mean-pool the key and value heads of rung 3 (multi-head), without training -----------------------

plan_kv() {
    [ -d "$WEIGHTS/rung3" ] || return 0
    for n in 8 4 2 1; do
        rm -rf "$OUT/rung3-kv$n"
        $RUN "$WEIGHTS/rung3" -m convert --kv-heads $n -o "$OUT/rung3-kv$n" --quiet || exit 1
        plan kv$n "$OUT/rung3-kv$n" "$part"
    done
    plan kv-rung4 "$WEIGHTS/rung4" "$part"
}

print_kv() {
    [ -d "$WEIGHTS/rung3" ] || { echo "$WEIGHTS/rung3 is not there: no heads to pool"; return 0; }
    echo "Key/value heads of rung 3 mean-pooled, nothing retrained; below it rung 4, trained with 2 (20,000 bytes):"
    format='%-8s %8s %9s %9s'
    rm -f $OUT/kv.csv
    row "$format" kv "KV heads" "KV bytes" bits/byte cost
    for n in 8 4 2 1; do
        kv=$($RUN "$OUT/rung3-kv$n" -m info --json | field kv_bytes_per_token)
        row "$format" kv $n "$kv" "$(bits kv$n)" "$(difference "$(bits kv8)" "$(bits kv$n)")"
    done
    kv=$($RUN "$WEIGHTS/rung4" -m info --json | field kv_bytes_per_token)
    row "$format" kv "rung4: 2" "$kv" "$(bits kv-rung4)" "$(difference "$(bits kv8)" "$(bits kv-rung4)")"
}

# ---- The mistakes of --break --------------------------------------------------------------------------------------------

# each_break COMMAND - calls COMMAND NAME MISTAKE RUNG FIXTURE "options of both" "options of the broken one"
each_break() {
    $1 wrong-pairing wrong-pairing rung4 base_hf "" ""
    $1 v-rotated v-rotated rung4 base_hf "" ""
    $1 rope-layer0 rope-layer0 rung4 base_hf "" ""
    $1 keys-unrotated keys-unrotated rung4 base_hf "" ""
    $1 k-permuted k-permuted rung4 base_hf "" ""
    $1 no-rope no-rope rung4 base_hf "" ""
    $1 one-frequency one-frequency rung4 base_hf "" ""
    $1 flipped-frequencies flipped-frequencies rung4 base_hf "" ""
    $1 reversed reversed rung4 base_hf "" ""
    $1 reversed-key reversed-key rung4 base_hf "" ""
    $1 score-scale score-scale rung4 base_hf "" ""
    $1 no-mask no-mask rung4 base_hf "" ""
    $1 gqa-modulo gqa-modulo rung4 base_hf "" ""
    $1 conv1d conv1d rung0 gpt2_hf "" ""
    $1 wpe-past-end wpe-past-end rung0 "" "" "-c 512"
    $1 decode-off-by-one decode-off-by-one rung4 base_hf "--decode" ""
    $1 decode-off-by-one-8 decode-off-by-one rung4 "" "-c 8 --decode" ""
}

plan_one_break() {
    plan sound-$1 "$WEIGHTS/$3" "$part" $5
    plan broken-$1 "$WEIGHTS/$3" "$part" $5 $6 --break $2
}

print_one_break() {
    row '%-19s %-5s %-15s %8s %8s %8s' breaks "$2" "$3" "${5:-${6:--}}" "$(bits sound-$1)" "$(bits broken-$1)" \
        "$(difference "$(bits sound-$1)" "$(bits broken-$1)")"
    case $4 in
    base_hf) reference=$FIXTURES/verify/base.safetensors ;;
    gpt2_hf) reference=$FIXTURES/gpt2.ref.safetensors ;;
    *) return 0 ;;
    esac
    $RUN "$FIXTURES/$4" -m verify -r "$reference" --break "$2" 2>/dev/null |
        sed -n 's/^first over tolerance: /    verify: /p; s/^likely cause: /        /p' | fold -s -w 108 |
        sed '3,$s/^/        /; s/ *$//'
}

plan_breaks() { each_break plan_one_break; }

print_breaks() {
    echo "What each mistake costs, in bits per byte of 20,000 bytes; below it what -m verify says of it on a model of"
    echo "$FIXTURES, which has transformers' intermediates:"
    rm -f $OUT/breaks.csv
    row '%-19s %-5s %-15s %8s %8s %8s' breaks mistake model options sound broken cost
    each_break print_one_break
}

# ---- The whole -----------------------------------------------------------------------------------------------------

val='' part=''
if [ -r "$text" ]; then
    size=$(wc -c <"$text")
    val=$OUT/val.txt part=$OUT/part.txt
    tail -c +$((size * 9 / 10 + 1)) "$text" >$val # bytes from int(0.9 * size) on
    head -c 20000 $val >$part
else
    echo "ladder: $text: no such text: losses are left out; get tinyshakespeare.txt and call" >&2
    echo "  make ladder DATA=path/to/tinyshakespeare.txt" >&2
fi
rm -f $OUT/jobs $OUT/*.json $OUT/*.err
[ $# -gt 0 ] || set -- table theta kv
for what in "$@"; do
    case $what in
    table | theta | kv | breaks) plan_$what ;;
    *) echo "ladder: $what: expected table, theta, kv or breaks" >&2; exit 2 ;;
    esac
done
compute
for what in "$@"; do
    print_$what | tee $OUT/$what.txt
    echo
done
