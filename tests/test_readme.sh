#!/usr/bin/env bash
# test_readme.sh - README.md lists every flag that the program has, and the documents name what is there.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
missing=$("$RUN" --help | grep -oE '^ +(-[a-zA-Z],)? +--[a-z-]+' | grep -oE -- '--[a-z-]+' | while read -r flag; do
    grep -q -- "$flag " README.md || echo "$flag"
done)
empty "every flag is in README.md" "$missing"

# A link to a function, [`name`](../file.c), names one that the file defines.
absent=$(grep -ohE '\[`[a-z_0-9]+`\]\(\.\./[a-z/_]+\.c[^)]*\)' docs/*.md | tr -d '[]()`' | sed 's/\.\.\// /' |
    while read -r name file; do grep -qE "^[a-zA-Z].*\b$name\(" "$file" || echo "$name($file)"; done)
empty "links to functions" "$absent"
