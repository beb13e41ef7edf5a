#!/bin/sh
# run_tests.sh PROGRAM... - runs each test program and ends with 'N passed, N failed, N skipped'.
# A program is a cmocka binary, a .sh or a .py script; scripts print lines "ok NAME", "not ok NAME: why" or
# "skip NAME: why". A program that dies or times out counts as one failure. Exit 1 if anything failed.
# EMULATOR: what runs the programs, and RUN for the scripts, when they are of another machine.
passed=0 failed=0 skipped=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
dir=$(dirname "$0")
TSAN_OPTIONS="suppressions=$dir/tsan.supp:halt_on_error=1:${TSAN_OPTIONS}"
export TSAN_OPTIONS
if [ -n "$EMULATOR" ]; then
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$EMULATOR" "$RUN" >"$RUN.emulated"
    chmod +x "$RUN.emulated"
    RUN=$RUN.emulated
    export EMULATED=yes
fi
for program in "$@"; do
    case $program in
    *.sh) timeout 900 sh "$program" >"$out" 2>&1 ;;
    *.py) timeout 900 python3 "$program" >"$out" 2>&1 ;;
    *) timeout 900 $EMULATOR "$program" >"$out" 2>&1 ;;
    esac
    status=$?
    p=$(grep -cE '^(\[       OK \]|ok )' "$out")
    f=$(grep -cE '^(\[  FAILED  \] [A-Za-z0-9_]+$|not ok )' "$out")
    s=$(grep -cE '^(\[  SKIPPED \] [A-Za-z0-9_]+$|skip )' "$out")
    # cmocka names a failed (skipped) test where it ran and once more in its summary
    case $program in *.sh | *.py) ;; *) f=$(grep -E '^\[  FAILED  \] [A-Za-z0-9_]+$' "$out" | sort -u | wc -l)
        s=$(grep -E '^\[  SKIPPED \] [A-Za-z0-9_]+$' "$out" | sort -u | wc -l) ;; esac
    [ "$status" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    [ $((p + f + s)) -eq 0 ] && f=1
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if [ "$f" -gt 0 ]; then
        echo "FAIL $program (exit $status)"
        grep -vE '^\[ +(RUN|OK) ' "$out" | tail -40
    else
        echo "ok   $program: $p passed, $s skipped"
        grep -E '^skip ' "$out" | sed 's/^/     /'
    fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
