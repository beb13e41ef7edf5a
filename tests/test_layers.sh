#!/usr/bin/env bash
# test_layers.sh - the #include lines go strictly downward, and an upward one would be noticed.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
check "includes go downward" python3 scripts/check_layers.py

mkdir -p "$tmp/scripts" "$tmp/src/base" "$tmp/src/gen"
cp scripts/check_layers.py "$tmp/scripts/"
echo '#include "gen/up.h"' >"$tmp/src/base/low.c"
: >"$tmp/src/gen/up.h"
if python3 "$tmp/scripts/check_layers.py" >/dev/null; then not_ok "an upward include is found" "it is accepted"
else ok "an upward include is found"; fi
