# Built for ARM, tested by an emulator. Debian packages g++-aarch64-linux-gnu, qemu-user.
OPT      := -O2 -g
HARDEN   += -D_FORTIFY_SOURCE=2
SYSROOT  := build/aarch64/sysroot
OPENBLAS := $(SYSROOT)/usr/lib/aarch64-linux-gnu/openblas-openmp
CC       := aarch64-linux-gnu-gcc
CXX      := aarch64-linux-gnu-g++
CPPFLAGS += --sysroot=$(SYSROOT)
LDFLAGS  += --sysroot=$(SYSROOT)
EMULATOR := qemu-aarch64 -L $(SYSROOT) -E LD_LIBRARY_PATH=$(patsubst $(SYSROOT)%,%,$(OPENBLAS))
# What is said of sources, documents and references holds on every machine or none. The trained models take more than
# a quarter of an hour in emulated code; the other long tests ask for less there.
SCRIPTS  := $(filter-out test_layers.sh test_readme.sh test_reference.sh test_ladder.sh,$(SCRIPTS))
