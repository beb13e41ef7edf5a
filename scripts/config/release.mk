# What users run: ./run.
OPT    := -O3 -g
HARDEN += -D_FORTIFY_SOURCE=2
