#!/bin/sh
# test_readme.sh - README.md lists every flag that the program has.
cd "$(dirname "$0")/.." || exit 1
missing=$("${RUN:-./run}" --help | grep -oE '^ +(-[a-zA-Z],)? +--[a-z-]+' | grep -oE -- '--[a-z-]+' | while read -r flag; do
    grep -q -- "$flag " README.md || echo "$flag"
done)

# A link to a line of C, [`name`](../file.c#L12), is near the function of that name (make ladder-plots sets the lines).
far=$(grep -ohE '\[`[a-z_0-9]+`\]\(\.\./[a-z/_]+\.c#L[0-9]+\)' docs/*.md | tr -d '[]()`' | sed 's/\.\.\// /; s/#L/ /' |
    while read -r name file line; do
        sed -n "$((line > 20 ? line - 20 : 1)),$((line + 20))p" "$file" | grep -q "\b$name(" || echo "$name"
    done)
if [ -z "$far" ]; then echo "ok links to lines of C"; else echo "not ok links to lines of C: elsewhere now:" $far; fi
if [ -z "$missing" ]; then echo "ok every flag is in README.md"; else echo "not ok flags in README.md: not there:" $missing; fi
