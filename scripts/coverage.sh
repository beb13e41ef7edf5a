#!/bin/sh
# coverage.sh BUILD PERCENT "PATH..."... - line coverage of the sources under each PATH after the tests of a build with
# CONFIG=coverage: a line a file, then one a group of paths. Exit 1 when a group is below PERCENT. Details: BUILD/all.info.
build=$1 least=$2 failed=0
shift 2
set -f
lcov -q --capture --directory "$build" --base-directory "$PWD" --output-file "$build/all.info" >"$build/lcov.log" 2>&1 || {
    cat "$build/lcov.log"
    exit 1
}
for group in "$@"; do
    patterns=
    for path in $group; do patterns="$patterns $PWD/$path*"; done
    lcov -q --extract "$build/all.info" $patterns --output-file "$build/group.info" >>"$build/lcov.log" 2>&1
    awk -F: -v least="$least" -v root="$PWD/" -v group="$group" '
        $1 == "SF" { file = substr($2, length(root) + 1) }
        $1 == "LF" { lines = $2 }
        $1 == "LH" { printf "%6.1f %%  %5d of %5d lines  %s\n", 100 * $2 / lines, $2, lines, file; all += lines; hit += $2 }
        END {
            if (all) printf "%6.1f %%  %5d of %5d lines  %s, in all\n", 100 * hit / all, hit, all, group
            if (!all || 100 * hit < least * all) { print group ": expected at least " least " % of the lines"; exit 1 }
        }' "$build/group.info" || failed=1
done
exit $failed
