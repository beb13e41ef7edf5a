#!/bin/sh
# run_tests.sh PROGRAM... - runs each test program, as many at once as there are processors, and ends with
# 'N passed, N failed, N skipped'. Reports stand in the order of the arguments.
# A program is a cmocka binary, a .sh or a .py script; scripts print lines "ok NAME", "not ok NAME: why" or
# "skip NAME: why". A program that dies or times out counts as one failure. Exit 1 if anything failed.
# Tests that are skipped for the same reason count as one (cmocka's give it by tests/skip.h).
# EMULATOR: what runs the programs, and RUN for the scripts, when they are of another machine.
unset MAKEFLAGS MFLAGS # tests that call make have no part in the jobs of the make that calls them

# run_tests.sh --one DIR N PROGRAM: leaves DIR/N.out and DIR/N.result, 'STATUS SECONDS'.
if [ "$1" = --one ]; then
    begun=$(date +%s)
    case $4 in
    *.sh) timeout 900 bash "$4" ;;
    *.py) timeout 900 python3 "$4" ;;
    *) timeout 900 $EMULATOR "$4" ;;
    esac >"$2/$3.out" 2>&1 </dev/null
    echo "$? $(($(date +%s) - begun))" >"$2/$3.result"
    exit 0
fi

passed=0 failed=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
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

i=0
for program in "$@"; do
    i=$((i + 1))
    echo "$i $program"
done | xargs -r -P "$(nproc)" -L 1 sh "$0" --one "$tmp"

i=0
for program in "$@"; do
    i=$((i + 1))
    out=$tmp/$i.out
    read -r status seconds <"$tmp/$i.result" || status=lost
    case $program in
    *.sh | *.py)
        f=$(grep -c '^not ok ' "$out")
        s=$(grep -c '^skip ' "$out")
        sed -n 's/^skip .*: //p' "$out" >>"$tmp/reasons"
        ;;
    *) # cmocka names a failed or skipped test where it ran and once more in its summary
        f=$(grep -E '^\[  FAILED  \] [A-Za-z0-9_]+$' "$out" | sort -u | wc -l)
        s=$(grep -E '^\[  SKIPPED \] [A-Za-z0-9_]+$' "$out" | sort -u | wc -l)
        sed -n 's/^SKIP: //p' "$out" >>"$tmp/reasons"
        ;;
    esac
    p=$(grep -cE '^(\[       OK \]|ok )' "$out")
    [ "$status" != 0 ] && [ "$f" -eq 0 ] && f=1
    [ $((p + f + s)) -eq 0 ] && f=1
    passed=$((passed + p)) failed=$((failed + f))
    if [ "$f" -gt 0 ]; then
        echo "FAIL $program (exit $status, $seconds s)"
        grep -vE '^(\[ +(RUN|OK) |ok )' "$out" | tail -40
    else
        echo "ok   $program: $p passed, $s skipped ($seconds s)"
    fi
done
sort "$tmp/reasons" | uniq -c | sed -E 's/^ *([0-9]+) (.*)/skipped, \1 tests: \2/'
echo "$passed passed, $failed failed, $(sort -u "$tmp/reasons" | grep -c .) skipped"
[ "$failed" -eq 0 ]
