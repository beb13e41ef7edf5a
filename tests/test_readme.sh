#!/bin/sh
# test_readme.sh - README.md lists every flag that the program has.
cd "$(dirname "$0")/.." || exit 1
missing=$("${RUN:-./run}" --help | grep -oE '^ +(-[a-zA-Z],)? +--[a-z-]+' | grep -oE -- '--[a-z-]+' | while read -r flag; do
    grep -q -- "$flag " README.md || echo "$flag"
done)

# A link to a function, [`name`](../file.c), names one that the file defines.
absent=$(grep -ohE '\[`[a-z_0-9]+`\]\(\.\./[a-z/_]+\.c[^)]*\)' docs/*.md | tr -d '[]()`' | sed 's/\.\.\// /' |
    while read -r name file; do grep -qE "^[a-zA-Z].*\b$name\(" "$file" || echo "$name($file)"; done)
if [ -z "$absent" ]; then echo "ok links to functions"; else echo "not ok links to functions: not there:" $absent; fi
if [ -z "$missing" ]; then echo "ok every flag is in README.md"; else echo "not ok flags in README.md: not there:" $missing; fi
