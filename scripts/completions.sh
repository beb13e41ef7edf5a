#!/usr/bin/env bash
# completions.sh bash|zsh PROGRAM NAME - completion of NAME's flags and modes, from what PROGRAM --help says.
set -euo pipefail
shell=$1 program=$2 name=$3
help=$("$program" --help)
flags=$(grep -oE '^ +(-[a-zA-Z],)? +--[a-z-]+' <<<"$help" | grep -oE -- '-[a-zA-Z-]+' | grep -E '^--?[a-zA-Z]' | sort -u | tr '\n' ' ')
modes=$(sed -n '/^modes/,/^$/s/^  \([a-z]*\) .*/\1/p' <<<"$help" | tr '\n' ' ')
case $shell in
bash)
    cat <<SCRIPT
# bash completion for $name
_$name() {
    local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]}
    case \$before in
    -m | --mode | --help) COMPREPLY=(\$(compgen -W "$modes" -- "\$word")) ;;
    --kv-type) COMPREPLY=(\$(compgen -W "f32 f16 q8_0" -- "\$word")) ;;
    --type) COMPREPLY=(\$(compgen -W "f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 iq4_nl q2_k q2_k_s q3_k_s q3_k_m q3_k_l q4_k_s q4_k_m q5_k_s q5_k_m q6_k" -- "\$word")) ;;
    *)
        if [[ \$word == -* ]]; then COMPREPLY=(\$(compgen -W "$flags" -- "\$word"))
        else COMPREPLY=(\$(compgen -f -- "\$word")); fi
        ;;
    esac
}
complete -o filenames -F _$name $name
SCRIPT
    ;;
zsh)
    cat <<SCRIPT
#compdef $name
# zsh completion for $name
local modes=($modes) flags=($flags)
case \$words[CURRENT-1] in
-m | --mode | --help) compadd -a modes ;;
--kv-type) compadd f32 f16 q8_0 ;;
--type) compadd f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 iq4_nl q2_k q2_k_s q3_k_s q3_k_m q3_k_l q4_k_s q4_k_m q5_k_s q5_k_m q6_k ;;
*) if [[ \$PREFIX == -* ]]; then compadd -a flags; else _files; fi ;;
esac
SCRIPT
    ;;
*) echo "completions.sh: shell: expected bash or zsh, found $shell" >&2; exit 2 ;;
esac
