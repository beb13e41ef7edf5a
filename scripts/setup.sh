#!/usr/bin/env bash
# setup.sh [gate|checks] - installs what building and testing needs, on Debian or Ubuntu, as root or with sudo. Installs
# only what is missing, so that a second run does nothing. On macOS what building needs, by Homebrew. Elsewhere it prints
# the names. With `gate` also what .ci/run needs, with `checks` also what `make check-all` needs.
set -euo pipefail

if [ "$(uname -s)" = Darwin ] && command -v brew >/dev/null; then
    brew install libomp openblas sentencepiece oniguruma utf8proc cjson libedit
    exit 0
fi

packages=(
    build-essential           # gcc, g++, make
    libopenblas-openmp-dev    # sgemm; the OpenMP build shares one thread pool with the program
    libsentencepiece-dev      # sentencepiece .model tokenizers
    libonig-dev               # the expressions in tokenizer files (Oniguruma)
    libutf8proc-dev           # NFC, which some pre-tokenizers ask for
    libcjson-dev              # config.json, tokenizer.json
    libedit-dev               # line editing in chat
    libcmocka-dev             # tests
    libopenmpi-dev openmpi-bin openssh-client # make MPI=1
    iproute2                  # make test-mpi: two hosts of network namespaces
    python3 python3-pip       # scripts/get_smollm2.sh, scripts/check_layers.py
    ca-certificates
)
gate=(
    clang-14 libomp-14-dev    # CONFIG=clang
    clang-tidy-14 cppcheck    # make tidy, make cppcheck
    clang-format-14           # make format-check
    valgrind                  # make valgrind
    lintian                   # tests/test_install.sh
)
checks=(
    libclang-rt-14-dev        # make fuzz
    lcov                      # make coverage
    g++-aarch64-linux-gnu     # make aarch64
    qemu-user
)
case ${1:-} in
gate) packages+=("${gate[@]}") ;;
checks) packages+=("${gate[@]}" "${checks[@]}") ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "setup.sh: this is not Debian or Ubuntu; please install what these packages hold:"
    printf '  %s\n' "${packages[@]}"
    exit 1
fi

missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "setup.sh: everything is there"
    exit 0
fi

root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
        echo "setup.sh: please run as root, or install: ${missing[*]}" >&2
        exit 1
    }
    root=(sudo)
fi
echo "setup.sh: installing ${missing[*]}"
install() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"; }
# The package lists of a fresh container are empty, those of an old machine out of date.
"${root[@]}" apt-get update -q
install
