#!/bin/sh
# test_layers.sh - the #include lines go strictly downward, and an upward one would be noticed.
cd "$(dirname "$0")/.." || exit 1
if out=$(python3 scripts/check_layers.py); then echo "ok includes go downward"; else echo "not ok includes: $out"; fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/scripts" "$tmp/src/base" "$tmp/src/gen"
cp scripts/check_layers.py "$tmp/scripts/"
echo '#include "gen/up.h"' >"$tmp/src/base/low.c"
: >"$tmp/src/gen/up.h"
if python3 "$tmp/scripts/check_layers.py" >/dev/null; then
    echo "not ok an upward include: expected a failure, found none"
else
    echo "ok an upward include is found"
fi
