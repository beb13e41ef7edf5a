# macOS: Apple's clang, and the libraries of Homebrew, some of which are in folders of their own.
include scripts/clang.mk
BREW     ?= $(shell brew --prefix)
OPENMP   := -Xpreprocessor -fopenmp
CPPFLAGS += -I$(BREW)/include -I$(BREW)/opt/libomp/include -I$(BREW)/opt/libedit/include
HARDEN   := $(filter-out -fstack-clash-protection,$(HARDEN))
LINK     := -L$(BREW)/lib -L$(BREW)/opt/libomp/lib -L$(BREW)/opt/libedit/lib \
    -Wl,-rpath,$(BREW)/opt/openblas/lib # in which dlopen looks
LDLIBS   := $(LDLIBS:-lstdc++=-lc++) -lomp
