#!/bin/sh
# coverage.sh BUILD PERCENT PATH... - line coverage of the sources under each PATH after the tests of a build with
# CONFIG=coverage: a line a file, then the total. Exit 1 when the total is below PERCENT. Details: BUILD/coverage.info.
build=$1 least=$2
shift 2
for path in "$@"; do patterns="$patterns $PWD/$path*"; done
set -f
lcov -q --capture --directory "$build" --base-directory "$PWD" --output-file "$build/all.info" >"$build/lcov.log" 2>&1 &&
    lcov -q --extract "$build/all.info" $patterns --output-file "$build/coverage.info" >>"$build/lcov.log" 2>&1 || {
    cat "$build/lcov.log"
    exit 1
}
awk -F: -v least="$least" -v root="$PWD/" '
    $1 == "SF" { file = substr($2, length(root) + 1) }
    $1 == "LF" { lines = $2 }
    $1 == "LH" { printf "%6.1f %%  %4d of %4d lines  %s\n", 100 * $2 / lines, $2, lines, file; all += lines; hit += $2 }
    END {
        if (all) printf "%6.1f %%  %4d of %4d lines  in all\n", 100 * hit / all, hit, all
        if (!all || 100 * hit < least * all) { print "expected at least " least " % of the lines"; exit 1 }
    }' "$build/coverage.info"
