#!/usr/bin/env bash
# aarch64.sh - the libraries of an ARM machine, unpacked below build/aarch64/sysroot for `make aarch64`: Debian's own
# arm64 packages with all they need. Nothing is installed and nothing of the machine's apt is changed: lists and
# packages are kept below build/. Needs apt-get and dpkg, and the packages gcc-aarch64-linux-gnu and qemu-user.
set -euo pipefail
cd "$(dirname "$0")/.."

sysroot=build/aarch64/sysroot
[ -e "$sysroot/.complete" ] && exit 0
for tool in apt-get dpkg aarch64-linux-gnu-g++ qemu-aarch64; do
    command -v "$tool" >/dev/null || {
        echo "aarch64.sh: expected $tool, found none (Debian: g++-aarch64-linux-gnu qemu-user)" >&2
        exit 1
    }
done
packages=(libopenblas-openmp-dev libsentencepiece-dev libonig-dev libutf8proc-dev libcjson-dev libedit-dev libcmocka-dev
    libstdc++6 libgomp1)

apt=$PWD/build/aarch64/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$sysroot"
: >"$apt/status" # a machine on which nothing is installed yet: everything is fetched
get() {
    apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists="$apt/lists" \
        -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}
get update
get install --download-only --yes --no-install-recommends "${packages[@]}"
for package in "$apt"/cache/archives/*.deb; do dpkg -x "$package" "$sysroot"; done
# Links to places of the root would lead out of the folder.
find "$sysroot" -type l -lname '/*' | while read -r link; do ln -sfn "$PWD/$sysroot$(readlink "$link")" "$link"; done
rm -r "$apt"
touch "$sysroot/.complete"
