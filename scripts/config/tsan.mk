# ThreadSanitizer: the tests that share something between threads; it makes each take minutes.
OPT     := -O1 -g -fsanitize=thread
TESTS   := test_threads test_model
REPLAYS :=
SCRIPTS :=
# Threads meet in the same places at every level of kernels: AVX2 is enough.
LEFT_OUT := $(filter-out src/lite/levels.c,$(wildcard src/lite/*.c)) src/dist/mpi.c src/kernels/levels.c \
    src/kernels/avxvnni.c src/kernels/avx512.c
