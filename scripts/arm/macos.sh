#!/usr/bin/env bash
# macos.sh - the program compiled and linked for macOS on ARM, on Debian, by zig's clang, C library headers and linker
# (pip install ziglang; ZIG=COMMAND: another name for it). Homebrew's libraries are stubs of what Debian's ones export,
# so that a symbol of neither them nor macOS is an error. The result cannot run here.
set -euo pipefail
cd "$(dirname "$0")/../.."
zig=${ZIG:-python-zig}
B=build/macos
brew=$B/brew
mkdir -p $brew/{include,lib} $brew/opt/lib{omp,edit}/{include,lib}

for header in cjson oniguruma.h utf8proc.h sentencepiece_processor.h; do ln -sfn /usr/include/$header $brew/include/; done
ln -sfn /usr/include/histedit.h $brew/opt/libedit/include/
ln -sfn "$(clang-14 -print-file-name=include/omp.h)" $brew/opt/libomp/include/

stub() { # NAME - with the symbols of standard input
    printf -- "--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\ninstall-name: '@rpath/lib%s.dylib'\n" "$1"
    printf 'exports:\n  - targets: [ arm64-macos ]\n    symbols: [ %s ]\n...\n' "$(sed 's/^/_/' | paste -sd,)"
}
exported() { nm -D --defined-only "$1" | sed 's/.* //; s/@.*//' | sort -u; }
for name in onig utf8proc cjson edit; do
    exported "$(gcc -print-file-name=lib$name.so)" | stub $name >$brew/lib/lib$name.tbd
done
exported /usr/lib/llvm-14/lib/libomp.so | stub omp >$brew/lib/libomp.tbd
: | stub sentencepiece >$brew/lib/libsentencepiece.tbd

link() {
    rm -f $B/run # the linker leaves an empty file where it fails
    make -j"$(nproc)" SYSTEM=Darwin BREW=$brew B=$B CC="$zig cc -target aarch64-macos" CXX="$zig c++ -target aarch64-macos" \
        AR="$zig ar" WERROR=1 flags_neondot=-mcpu=generic+v8_2a+dotprod $B/run
}
# The names of C++ functions hold those of the C++ library's types, which is another one there: which are wanted is what
# the linker misses, and they are compared as they are written in C++.
written() { c++filt | sed 's/std::__1::/std::/g; s/\[abi:cxx11\]//' | sort -u; }
link >$B/link.log 2>&1 || true
wanted=$(sed -nE 's/^error: undefined symbol: _(_ZN?K?13sentencepiece.*)/\1/p' $B/link.log)
unknown=$(comm -23 <(echo "$wanted" | written) <(exported "$(gcc -print-file-name=libsentencepiece.so)" | written))
[ -z "$unknown" ] || { echo "macos.sh: expected functions of libsentencepiece, found $unknown" >&2 && exit 1; }
echo "$wanted" | stub sentencepiece >$brew/lib/libsentencepiece.tbd
link
