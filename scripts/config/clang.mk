# The other compiler. Debian packages clang-14, libomp-14-dev.
OPT      := -O3 -g
HARDEN   += -D_FORTIFY_SOURCE=2
CC       := clang-14
CXX      := clang++-14
CONTRACT :=
WARN     += -Wno-missing-field-initializers # rows of tables leave the fields that are 0 out; gcc lets it be with names
WARN     += -Wno-pass-failed # `omp simd` is advice: a loop that clang cannot follow it in is no mistake
