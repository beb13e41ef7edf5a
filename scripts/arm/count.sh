#!/usr/bin/env bash
# count.sh [LEVEL...] - instructions of ARM for a weight, by type and level: what the emulator counts of twice the work
# less what it counts of once. decode: one row of activations; prefill: for each of 64. Needs what `make aarch64` needs,
# and the objects that it leaves below build/aarch64.
set -euo pipefail
cd "$(dirname "$0")/../.."

levels=("${@:-neondot}")
out=build/aarch64/count
mkdir -p "$out"
gcc -O2 -shared -fPIC -o "$out/plugin.so" scripts/arm/count_plugin.c
aarch64-linux-gnu-gcc --sysroot=build/aarch64/sysroot -O2 -Isrc -o "$out/products" scripts/arm/products.c \
    $(find build/aarch64/src/kernels -name '*.o') -lm
count() { qemu-aarch64 -L build/aarch64/sysroot -plugin "$out/plugin.so" "$out/products" "$@" 2>&1 >/dev/null; }
each() { # each LEVEL TYPE ROWS - instructions for a weight
    echo "$(count "$@" 1) $(count "$@" 2) $3" | awk '{printf "%.2f", ($2 - $1) / (64 * 2048 * $3)}'
}

echo "| level | type | decode | prefill |"
echo "|---|---|---|---|"
for level in "${levels[@]}"; do
    for type in f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q4_k q5_k q6_k q2_k q3_k iq4_nl iq4_xs mxfp4; do
        echo "| $level | $type | $(each "$level" $type 1) | $(each "$level" $type 64) |"
    done
done
