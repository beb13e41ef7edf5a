#!/bin/sh
# test_reference.sh - the references themselves: what scripts/hf_reference.py reads of each fixture is what its logits
# were computed from, and damaged files are refused by name. Needs transformers: make test PYTHON=path/to/python
cd "$(dirname "$0")/.." || exit 1
PYTHON=${PYTHON:-python3}
F=tests/fixtures
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

if ! "$PYTHON" -c 'import gguf, safetensors, torch, transformers' 2>/dev/null; then
    echo "skip references read back: no transformers (make test PYTHON=...)"
    exit 0
fi
if "$PYTHON" scripts/make_fixtures.py --check >"$tmp/out" 2>&1; then echo "ok references read back"
else echo "not ok references read back: $(tail -n 1 "$tmp/out")"; fi

# refused NAME WORDS FILE - one line that holds WORDS, no reference
refused() {
    "$PYTHON" scripts/hf_reference.py "$3" --tokens 1,2 -o "$tmp/ref" >"$tmp/out" 2>&1
    if [ $? -eq 1 ] && [ ! -e "$tmp/ref" ] && [ "$(wc -l <"$tmp/out")" -eq 1 ] && grep -q "^hf_reference: $3: $2" "$tmp/out"; then
        echo "ok $1"
    else echo "not ok $1: $(tail -n 1 "$tmp/out")"; fi
}
for v in 0 1 2; do
    head -c -1 $F/base_v$v.bin >"$tmp/cut.bin"
    refused "version $v a byte short" "tensors: expected" "$tmp/cut.bin"
    { cat $F/base_v$v.bin; printf x; } >"$tmp/long.bin"
    refused "version $v a byte long" "tensors: expected" "$tmp/long.bin"
done
head -c 100 $F/base_v1.bin >"$tmp/header.bin"
refused "half a header" "header: expected 256 bytes, found 100" "$tmp/header.bin"
{ head -c 4 $F/base_v1.bin; printf '\003'; tail -c +6 $F/base_v1.bin; } >"$tmp/version.bin"
refused "unknown version" "version: expected 1 or 2, found 3" "$tmp/version.bin"
{ head -c 37 $F/base_v2.bin; printf '\000'; tail -c +39 $F/base_v2.bin; } >"$tmp/group.bin"
refused "groups of none" "header: expected sizes" "$tmp/group.bin"
