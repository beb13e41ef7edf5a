# The other compiler. Debian packages clang-14, libomp-14-dev.
OPT      := -O3 -g
HARDEN   += -D_FORTIFY_SOURCE=2
CC       := clang-14
CXX      := clang++-14
include scripts/clang.mk
