#!/usr/bin/env bash
# test_reference.sh - the references themselves: what scripts/hf_reference.py reads of each fixture is what its logits
# were computed from, and damaged files are refused by name. Needs transformers: make test PYTHON=path/to/python
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
PYTHON=${PYTHON:-python3}
F=tests/fixtures

if ! "$PYTHON" -c 'import gguf, safetensors, torch, transformers' 2>/dev/null; then
    skip "references read back" "no transformers (make test PYTHON=...)"
    exit 0
fi
check "references read back" "$PYTHON" scripts/make_fixtures.py --check

# damaged NAME WORDS FILE - one line that holds WORDS, no reference
damaged() {
    "$PYTHON" scripts/hf_reference.py "$3" --tokens 1,2 -o "$tmp/ref" >"$tmp/out" 2>&1
    if [ $? -eq 1 ] && [ ! -e "$tmp/ref" ] && [ "$(wc -l <"$tmp/out")" -eq 1 ] && grep -q "^hf_reference: $3: $2" "$tmp/out"; then
        ok "$1"
    else not_ok "$1" "$(tail -n 1 "$tmp/out")"; fi
}
for v in 0 1 2; do
    head -c -1 $F/base_v$v.bin >"$tmp/cut.bin"
    damaged "version $v a byte short" "tensors: expected" "$tmp/cut.bin"
    { cat $F/base_v$v.bin; printf x; } >"$tmp/long.bin"
    damaged "version $v a byte long" "tensors: expected" "$tmp/long.bin"
done
head -c 100 $F/base_v1.bin >"$tmp/header.bin"
damaged "half a header" "header: expected 256 bytes, found 100" "$tmp/header.bin"
{ head -c 4 $F/base_v1.bin; printf '\003'; tail -c +6 $F/base_v1.bin; } >"$tmp/version.bin"
damaged "unknown version" "version: expected 1 or 2, found 3" "$tmp/version.bin"
{ head -c 37 $F/base_v2.bin; printf '\000'; tail -c +39 $F/base_v2.bin; } >"$tmp/group.bin"
damaged "groups of none" "header: expected sizes" "$tmp/group.bin"
