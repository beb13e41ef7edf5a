# ThreadSanitizer: the tests that share something between threads; it makes each take minutes.
OPT     := -O1 -g -fsanitize=thread
TESTS   := test_threads test_model
REPLAYS :=
SCRIPTS :=
