# AddressSanitizer, UBSan and LeakSanitizer.
OPT := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
# The trained models' figures and the documents' examples run what other tests run, at length.
SCRIPTS := $(filter-out test_ladder.sh test_docs.py,$(SCRIPTS))
