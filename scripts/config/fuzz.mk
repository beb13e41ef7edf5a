# What libFuzzer drives. Debian packages clang-14, libomp-14-dev, libclang-rt-14-dev.
include scripts/config/clang.mk
OPT := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
HARDEN := $(filter-out -D_FORTIFY_SOURCE=2,$(HARDEN))
# The kernels read no file; with a check of every load clang takes half an hour for them.
$(foreach f,$(wildcard src/kernels/avx*.c),$(eval build/fuzz/$(f:.c=.o): OPT := -O1 -g))
