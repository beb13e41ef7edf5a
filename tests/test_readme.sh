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

# The layout that README.md and CONTRIBUTING.md tell of is the tree's: what they name in `backquotes` as a path is there,
# and every folder of the top level and of src/, and every C file of the top level, is named.
absent=$(grep -ohE '`[A-Za-z0-9_./-]+`' README.md CONTRIBUTING.md | tr -d '`' | grep -E '/$|\.(c|h|md|sh|py|cc|json|tsv|mk)$' | grep -vE 'NAME|^(config|tokenizer|generation_config)\.json$' |
    sort -u | while read -r path; do
    [ -e "$path" ] || [ -n "$(find . -path ./build -prune -o -name "${path##*/}" -path "*/$path" -print -quit)" ] || echo "$path"
done)
empty "what the documents name is there" "$absent"
unnamed=$({ find src -mindepth 1 -maxdepth 1 -type d; git ls-files 2>/dev/null | grep / | cut -d/ -f1 | grep -v '^\.' | sort -u; ls ./*.c; } |
    sed 's|^\./||' | while read -r path; do
    [ -d "$path" ] && path=$path/
    grep -qF "\`$path\`" CONTRIBUTING.md || echo "$path"
done)
empty "CONTRIBUTING.md names every folder" "$unnamed"
