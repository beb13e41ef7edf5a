#!/bin/sh
# test_readme.sh - README.md lists every flag that the program has.
cd "$(dirname "$0")/.." || exit 1
missing=$("${RUN:-./run}" --help | grep -oE '^ +(-[a-zA-Z],)? +--[a-z-]+' | grep -oE -- '--[a-z-]+' | while read -r flag; do
    grep -q -- "$flag " README.md || echo "$flag"
done)
if [ -z "$missing" ]; then echo "ok every flag is in README.md"; else echo "not ok flags in README.md: not there:" $missing; fi
