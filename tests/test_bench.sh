#!/usr/bin/env bash
# test_bench.sh - -m bench: what limits a test, and how it compares with an earlier measurement.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
quantized=weights/shakespeare.gguf
f32=weights/rung4

bench() { timeout 120 "$RUN" "$@" -m bench -P 16 -n 4 -r 2 >"$tmp/out" 2>"$tmp/err" </dev/null; }
is() { # is NAME CONDITION - of the JSON, as d
    check "$1" python3 -c "
import json, sys
d = json.load(open(sys.argv[1]))
pp, tg = d['results']
assert $2, d" "$tmp/out"
}

# The limit of prefill is that of the products the level makes.
for level in $("$RUN" --version | sed -n 's/^kernels: .* of //p'); do
    RUN_CPU=$level bench $quantized --json
    if [ $level = ref ] || [ $level = blas ]; then is "$level multiplies in f32" "d['int8_gops'] == 0 and 'f32' in pp['limit'] and 'memory' in tg['limit']"
    else is "$level multiplies in int8" "d['cpu'] != '$level' or (d['int8_gops'] > 1 and 'int8' in pp['limit'] and pp['fraction_of_limit'] > 0)"; fi
done
bench $quantized --json --precise
is "f32 activations are multiplied in f32" "'f32' in pp['limit']"
bench $f32 --json
is "f32 weights too" "'f32' in pp['limit'] and d['sgemm_gflops'] > 0"

# An earlier measurement.
cp "$tmp/out" "$tmp/earlier"
bench $f32 --json --compare "$tmp/earlier"
is "ratios in JSON" "all(abs(r['ratio'] - r['tok_s'] / r['before']) < 0.001 * r['ratio'] + 1e-4 for r in d['results'])"
check "... with what it was" python3 -c '
import json, sys
now, then = (json.load(open(f))["results"] for f in sys.argv[1:])
assert [r["before"] for r in now] == [r["tok_s"] for r in then]' "$tmp/out" "$tmp/earlier"
bench $f32 --csv --compare "$tmp/earlier"
check "... in CSV" python3 -c '
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert len(rows) == 2 and all(abs(float(r["ratio"]) - float(r["tok_s"]) / float(r["before"])) < 0.001 * float(r["ratio"]) + 1e-3 for r in rows), rows' "$tmp/out"
bench $f32 --compare "$tmp/earlier"
check "a table" grep -qE '^pp16 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+  [#.]{20} +[0-9]+% of the f32 product.s rate$' "$tmp/out"
timeout 60 "$RUN" $f32 -m bench -P 0 -n 3 -r 1 --compare "$tmp/earlier" >"$tmp/out" 2>"$tmp/err"
check "no such test there" grep -q "^$tmp/earlier: has none of these tests$" "$tmp/err"
check "... has no ratio" grep -qE '^tg3 .* - +-  ' "$tmp/out"
sed 's/"threads": 1/"threads": 7/; s/"cpu": "[a-z0-9]*"/"cpu": "other"/' "$tmp/earlier" >"$tmp/others"
bench $f32 -j 1 --compare "$tmp/others"
check "another machine" grep -q "was measured with other kernels" "$tmp/err"
bench $f32 -j 1 --compare "$tmp/others" --quiet
check "... unsaid when quiet" test ! -s "$tmp/err"
echo '{"results": [{"test": "pp16", "tok_s": "fast"}]}' >"$tmp/bad1"
echo '{"results": []}' >"$tmp/bad2"
echo 'pp16 100 tok/s' >"$tmp/bad3"
echo '[1, 2]' >"$tmp/bad4"
for bad in bad1 bad2 bad4; do
    refused "$bad: no measurement" 1 "$bad: results: expected tests with their tok_s" $f32 -m bench -P 16 -n 4 -r 1 --compare "$tmp/$bad"
done
refused "no JSON" 1 "bad3: JSON: expected" $f32 -m bench -P 16 -n 4 -r 1 --compare "$tmp/bad3"
refused "no file" 1 "none: file: expected to open it" $f32 -m bench -P 16 -n 4 -r 1 --compare "$tmp/none"
refused "another mode" 2 "--compare: expected -m bench, found -m generate" $f32 --compare "$tmp/earlier"
