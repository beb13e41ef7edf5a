# AddressSanitizer, UBSan and LeakSanitizer.
OPT := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
# These run at length what other tests run.
SCRIPTS := $(filter-out test_ladder.sh test_docs.py test_progress.py test_session.py test_long.sh,$(SCRIPTS))
