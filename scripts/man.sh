#!/usr/bin/env bash
# man.sh PROGRAM NAME - the manual page, from what PROGRAM --help says.
set -euo pipefail
program=$1 name=$2
version=$("$program" --version | head -n 1 | cut -d' ' -f2)
title=$(tr '[:lower:]' '[:upper:]' <<<"$name")
cat <<PAGE
.TH $title 1 "" "$name $version" "User Commands"
.SH NAME
$name \- run LLaMA and GPT\-2 checkpoints
.SH SYNOPSIS
.B $name
.I CHECKPOINT
.RI [ options ]
.SH DESCRIPTION
Continues a text, talks, and shows how the model came to it. Reads llama2.c .bin, GGUF, safetensors and Hugging Face
directories as they are. Standard output holds the result, everything else goes to standard error.
PAGE
"$program" --help | awk '
    function esc(x) { gsub(/\\/, "\\e", x); gsub(/-/, "\\-", x); sub(/^\./, "\\\\\\&.", x); sub(/^\047/, "\\(aq", x); return x }
    function head(x) { if (part == "text") print ".fi"; part = ""; print ".SH " x }
    /^modes/      { head("MODES"); part = "list"; next }
    /^environment/ { head("ENVIRONMENT"); part = "list"; next }
    /^Exit: /     { head("EXIT STATUS"); print esc(substr($0, 7)); next }
    /^perplexity protocols/ { head("PERPLEXITY PROTOCOLS"); print ".nf"; part = "text"; next }
    /^mistakes/   { head("MISTAKES"); part = "list"; next }
    /^[A-Za-z][A-Za-z ]*:$/ {
        if (!seen++) head("OPTIONS")
        print ".SS " toupper(substr($0, 1, 1)) substr($0, 2, length($0) - 2)
        part = "flags"
        next
    }
    part == "flags" && match($0, /--[a-z-]+/) {
        name = substr($0, RSTART, RLENGTH)
        brief = substr($0, 3, 1) == "-" ? substr($0, 3, 2) ", " : ""
        rest = substr($0, RSTART + RLENGTH + (RLENGTH < 19 ? 19 - RLENGTH : 0) + 1)
        value = substr(rest, 1, 5)
        gsub(/ /, "", value)
        print ".TP\n.B " esc(brief name) (value ? " \\fI" esc(value) "\\fP" : "") "\n" esc(substr(rest, 7))
        next
    }
    part == "list" && match($0, /^ +[^ ]+ +/) {
        word = substr($0, 1, RLENGTH)
        gsub(/ /, "", word)
        print ".TP\n.B " esc(word) "\n" esc(substr($0, RLENGTH + 1))
        next
    }
    (part == "text" || part == "list") && NF { print (part == "list" ? ".PP\n" : "") esc($0) }'
cat <<PAGE
.SH SEE ALSO
The README and the documents below docs/ of the source.
PAGE
