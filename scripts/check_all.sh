#!/usr/bin/env bash
# check_all.sh - every check of this project, one after the other, each with a limit of time; then a table of them. A
# check whose tools are missing is skipped and said so. What each prints is kept in build/check/. Exit 1 if one failed.
cd "$(dirname "$0")/.." || exit 1
mkdir -p build/check
jobs=$(nproc)
failed=0
table=

check() { # NAME MINUTES NEEDS COMMAND... - NEEDS: the tool without which it is skipped
    local name=$1 minutes=$2 needs=$3 start=$SECONDS result
    shift 3
    if ! command -v "$needs" >/dev/null; then result="skipped: no $needs"
    elif timeout "${minutes}m" "$@" >"build/check/$name.log" 2>&1; then result=ok
    else
        result="FAILED ($?), see build/check/$name.log"
        failed=1
    fi
    local last
    last=$(grep -E '^[0-9]+ passed|^ *[0-9.]+ %.*in all' "build/check/$name.log" 2>/dev/null | tail -n 1)
    printf -v row '%-12s %5ss of %2s min  %s%s' "$name" $((SECONDS - start)) "$minutes" "$result" "${last:+ ($last)}"
    echo "$row"
    table+=$row$'\n'
}

check layers 1 python3 python3 scripts/check_layers.py
check release 15 gcc make -j"$jobs" WERROR=1 test
check asan 40 gcc make -j"$jobs" CONFIG=asan WERROR=1 test
check tsan 10 gcc make -j"$jobs" CONFIG=tsan WERROR=1 test
check clang 20 clang-14 make -j"$jobs" CONFIG=clang WERROR=1 test
check cppcheck 10 cppcheck make cppcheck
check tidy 15 clang-tidy-14 make tidy
check valgrind 15 valgrind make valgrind
check aarch64 60 qemu-aarch64 make -j"$jobs" aarch64 WERROR=1
check macos 10 "${ZIG:-python-zig}" bash scripts/arm/macos.sh
check coverage 30 lcov make -j"$jobs" coverage
check fuzz 20 clang-14 make fuzz TIME="${TIME:-60}"
printf '\n%s' "$table"
exit $failed
