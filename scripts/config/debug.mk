# For a debugger.
OPT := -O0 -g3
