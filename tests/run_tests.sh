#!/bin/sh
# run_tests.sh PROGRAM... - runs each test program and ends with 'N passed, N failed, N skipped'.
# A program is a cmocka binary, a .sh or a .py script; scripts print lines "ok NAME", "not ok NAME: why" or
# "skip NAME: why". A program that dies or times out counts as one failure. Exit 1 if anything failed.
# Tests that are skipped for the same reason count as one (cmocka's give it by tests/skip.h).
# EMULATOR: what runs the programs, and RUN for the scripts, when they are of another machine.
unset MAKEFLAGS MFLAGS # tests that call make have no part in the jobs of the make that calls them
passed=0 failed=0
out=$(mktemp) && reasons=$(mktemp) || exit 1
trap 'rm -f "$out" "$reasons"' EXIT
dir=$(dirname "$0")
TSAN_OPTIONS="suppressions=$dir/tsan.supp:halt_on_error=1:${TSAN_OPTIONS}"
LSAN_OPTIONS="suppressions=$dir/lsan.supp:print_suppressions=0:${LSAN_OPTIONS}"
export TSAN_OPTIONS LSAN_OPTIONS
if [ -n "$EMULATOR" ]; then
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$EMULATOR" "$RUN" >"$RUN.emulated"
    chmod +x "$RUN.emulated"
    RUN=$RUN.emulated
    export EMULATED=yes
fi
for program in "$@"; do
    case $program in
    *.sh | *.py)
        if [ "${program##*.}" = py ]; then shell=python3; else shell=bash; fi
        timeout 900 $shell "$program" >"$out" 2>&1 </dev/null
        status=$?
        f=$(grep -c '^not ok ' "$out")
        s=$(grep -c '^skip ' "$out")
        sed -n 's/^skip .*: //p' "$out" >>"$reasons"
        ;;
    *) # cmocka names a failed or skipped test where it ran and once more in its summary
        timeout 900 $EMULATOR "$program" >"$out" 2>&1 </dev/null
        status=$?
        f=$(grep -E '^\[  FAILED  \] [A-Za-z0-9_]+$' "$out" | sort -u | wc -l)
        s=$(grep -E '^\[  SKIPPED \] [A-Za-z0-9_]+$' "$out" | sort -u | wc -l)
        sed -n 's/^SKIP: //p' "$out" >>"$reasons"
        ;;
    esac
    p=$(grep -cE '^(\[       OK \]|ok )' "$out")
    [ "$status" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    [ $((p + f + s)) -eq 0 ] && f=1
    passed=$((passed + p)) failed=$((failed + f))
    if [ "$f" -gt 0 ]; then
        echo "FAIL $program (exit $status)"
        grep -vE '^\[ +(RUN|OK) ' "$out" | tail -40
    else
        echo "ok   $program: $p passed, $s skipped"
    fi
done
sort "$reasons" | uniq -c | sed -E 's/^ *([0-9]+) (.*)/skipped, \1 tests: \2/'
echo "$passed passed, $failed failed, $(sort -u "$reasons" | grep -c .) skipped"
[ "$failed" -eq 0 ]
