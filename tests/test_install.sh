#!/usr/bin/env bash
# test_install.sh - what is installed, how it calls itself, that uninstall takes all of it away, and the package.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
case $RUN in
*release*) ;;
*) ok "the release program's test installs it" && exit 0 ;;
esac
check "a version without git" grep -q 'PROGRAM_VERSION=."[0-9.]*"' <(make -n -W src/modes/version.c COMMIT= build/release/src/modes/version.o)
root=$tmp/root name=gpt2llama
check "make install" make -s install DESTDIR="$root" PREFIX=/usr
installed=$root/usr/bin/$name
check "it has a name of its own" grep -q "^$name [0-9]" <("$installed" --version)
check "errors have it" grep -q "^$name: .*nowhere" <("$installed" "$tmp/nowhere" 2>&1)
check "it runs" grep -q ROMEO <("$installed" weights/shakespeare.gguf -t 0 -n 5 -i ROMEO: 2>/dev/null)
page=$root/usr/share/man/man1/$name.1
missing=$("$RUN" --help | grep -oE -- '^ +(-[a-zA-Z],)? +--[a-z-]+' | grep -oE -- '--[a-z-]+' | while read -r flag; do
    grep -qF -- "${flag//-/\\-}" "$page" || echo "$flag"
done)
empty "every flag is in the manual page" "$missing"
if command -v groff >/dev/null; then empty "groff reads it" "$(groff -man -Tutf8 -ww "$page" 2>&1 >/dev/null | grep -v 'cannot select font\|adjust')"; fi
complete=$root/usr/share/bash-completion/completions/$name
check "completion of modes" bash -c ". $complete; COMP_WORDS=($name x -m per) COMP_CWORD=3; _$name; [ \"\${COMPREPLY[*]}\" = perplexity ]"
check "completion of flags" bash -c ". $complete; COMP_WORDS=($name --rope-th) COMP_CWORD=1; _$name; [ \"\${COMPREPLY[*]}\" = --rope-theta ]"
if command -v zsh >/dev/null; then check "zsh reads its completion" zsh -n "$root/usr/share/zsh/vendor-completions/_$name"; fi
check "make uninstall" make -s uninstall DESTDIR="$root" PREFIX=/usr
empty "uninstall leaves nothing" "$(find "$root" -type f)"

empty "Containerfile copies what there is" "$(sed -n 's/^COPY \([^-. ][^ ]*\) .*/\1/p' Containerfile | while read -r path; do [ -e "$path" ] || echo "$path"; done)"
empty "and names no host" "$(grep -nE '//|[a-z]\.(com|org|net|io)\b' Containerfile)"

if command -v dpkg-deb >/dev/null; then
    rm -f build/$name*.deb
    check "make deb" make -s deb
    deb=$(ls build/$name*.deb)
    check "its program" grep -q "./usr/bin/$name$" <(dpkg-deb -c "$deb")
    for depends in libc6 libgomp1 libcjson1 libedit2; do
        check "it depends on $depends" grep -qw "$depends" <(dpkg-deb -f "$deb" Depends)
    done
    check "its libraries' versions" grep -q 'libc6 (>= [0-9.]*)' <(dpkg-deb -f "$deb" Depends)
    if author=$(git log -1 --format='%an <%ae>' 2>/dev/null); then check "the last author maintains it" test "$(dpkg-deb -f "$deb" Maintainer)" = "$author"; fi
    check "or who is named" env DEBFULLNAME="A. Packager" DEBEMAIL=a@packager.example bash scripts/deb.sh "$RUN" $name "$tmp/named.deb"
    check "is in it" grep -qx "A. Packager <a@packager.example>" <(dpkg-deb -f "$tmp/named.deb" Maintainer)
    mkdir "$tmp/clean"
    check "unpacked elsewhere it runs" dpkg-deb -x "$deb" "$tmp/clean"
    check "and calls itself by its name" grep -q "^$name [0-9]" <("$tmp/clean/usr/bin/$name" --version)
    if [ "$(id -u)" -eq 0 ]; then
        mkdir -p "$tmp/clean/var/lib/dpkg/info" "$tmp/clean/var/lib/dpkg/updates" && : >"$tmp/clean/var/lib/dpkg/status"
        check "dpkg installs it in a root of its own" dpkg --root="$tmp/clean" --force-depends --force-script-chrootless --install "$deb"
        check "and removes it" dpkg --root="$tmp/clean" --force-script-chrootless --purge $name
        if [ -e "$tmp/clean/usr/bin/$name" ]; then not_ok "nothing of it is left" "the program is"; else ok "nothing of it is left"; fi
    fi
    if command -v lintian >/dev/null; then check "lintian" lintian --fail-on error,warning "$deb"; fi
fi
