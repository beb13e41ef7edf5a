#!/usr/bin/env bash
# deb.sh PROGRAM NAME OUT.deb - a Debian package of what `make install` installs, with the dependencies of PROGRAM.
# Its maintainer is whom DEBFULLNAME and DEBEMAIL name, as for Debian's own tools; else the author of the last commit; else,
# where there is no git, the user on this host.
set -euo pipefail
program=$1 name=$2 out=$3
author() { git log -1 --format="$1" 2>/dev/null || echo "$2"; }
maintainer="${DEBFULLNAME:-$(author %an "$(id -un)")} <${DEBEMAIL:-$(author %ae "$(id -un)@$(hostname)")}>"
version=$("$program" --version | head -n 1 | cut -d' ' -f2)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
make --no-print-directory -s install DESTDIR="$root" PREFIX=/usr
mkdir -p "$root/DEBIAN" "$root/usr/share/doc/$name"
rm -f "$root/usr/lib/lib$name.so"* # a shared library, where one was built, wants a package of its own
# Libraries of several machines live side by side.
multiarch=$("${CC:-gcc}" -dumpmachine)
mkdir "$root/usr/lib/$multiarch"
mv "$root"/usr/lib/lib* "$root/usr/lib/pkgconfig" "$root/usr/lib/$multiarch/"
sed -i "s|/lib |/lib/$multiarch |" "$root/usr/lib/$multiarch/pkgconfig/$name.pc"
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/bin/$name"
strip --strip-debug --remove-section=.comment "$root/usr/lib/$multiarch/lib$name.a"
rm "$root/usr/share/doc/$name/LICENSE" # it is in copyright
gzip -9nf "$root/usr/share/man/man1/$name.1"
{
    echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    echo "Upstream-Name: $name"
    echo
    echo "Files: *"
    echo "Copyright: $(grep -m 1 -i copyright LICENSE | sed 's/^[Cc]opyright *//')"
    echo "License: Expat"
    sed -n '/^Permission/,$s/^/ /p' LICENSE | sed 's/^ $/ ./'
} >"$root/usr/share/doc/$name/copyright"
{
    echo "$name ($version) unstable; urgency=low"
    echo
    sed -n "/^## $version/,/^## /s/^- /* /p" CHANGELOG.md | while read -r line; do echo "  $line" | fold -s -w 76 | sed '2,$s/^/    /; s/ *$//'; done
    echo
    echo " -- $maintainer  $(date -R -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}")"
} | gzip -9n >"$root/usr/share/doc/$name/changelog.gz"
# The packages of the libraries that the program is linked with, in the versions that have what it calls.
mkdir "$root/debian"
: >"$root/debian/control"
depends=$(cd "$root" && dpkg-shlibdeps -O usr/bin/"$name" | sed 's/^shlibs:Depends=//')
rm -r "$root/debian"
cat >"$root/DEBIAN/control" <<CONTROL
Package: $name
Version: $version
Section: science
Priority: optional
Architecture: $(dpkg --print-architecture)
Maintainer: $maintainer
Installed-Size: $(du -ks "$root/usr" | cut -f1)
Depends: $depends
Suggests: libopenblas0
Description: run LLaMA and GPT-2 checkpoints, and see how they compute
 A small C program that reads llama2.c, GGUF and Hugging Face checkpoints as
 they are, generates text, talks, measures, converts, and checks every
 intermediate of the forward pass against a reference.
CONTROL
(cd "$root" && find usr -type f -exec md5sum {} +) >"$root/DEBIAN/md5sums"
chmod -R u+rwX,go+rX,go-w "$root"
mkdir -p "$(dirname "$out")"
dpkg-deb --root-owner-group --build "$root" "$out" >/dev/null
echo "$out"
