#!/usr/bin/env bash
# The built program carries the protections that the Makefile asks for: read from its ELF headers and symbols.
. tests/lib.sh
command -v readelf >/dev/null || { skip hardening "no readelf"; exit 0; }
RUN=${RUN%.emulated}
has() { # NAME WORD READELF-OPTION
    if readelf -W "$3" "$RUN" | grep -qE "$2"; then ok "$1"; else not_ok "$1" "readelf $3 shows no '$2'"; fi
}
has "position independent" 'Type: +DYN' -h
has "relocations are read-only" 'GNU_RELRO' -l
has "and all resolved at the start" 'BIND_NOW|FLAGS.* NOW' -d
has "the stack is not executable" 'GNU_STACK.* RW +0x' -l
has "stack protector" '__stack_chk_(fail|guard)' -s
case $RUN in
*release* | *clang* | *aarch64*) has "fortified C library calls" '__(snprintf|memcpy|vsnprintf|fprintf|strcpy)_chk' -s ;;
*) ;; # only where the compiler optimizes, and no sanitizer checks more
esac
if readelf -W -l "$RUN" | grep -E 'LOAD.* RWE'; then not_ok "nothing is writable and executable" "a segment is"; else ok "nothing is writable and executable"; fi
