# Counts the lines that the tests run. Debian package lcov.
OPT := -O1 -g --coverage
