#!/usr/bin/env bash
# Makes a Debian package from the built programs: deb.sh STAGE_FOLDER OUTPUT_FOLDER (`make deb` calls it). Dependencies are
# those that the binaries link, found by dpkg-shlibdeps.
set -euo pipefail
mkdir -p "$1"
stage=$(realpath "$1") out=$2
version=$(sed -n 's/^#define DN_VERSION *"\(.*\)"/\1/p' "$(dirname "$0")/../common/dn.h")
arch=$(dpkg --print-architecture)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/debian" "$stage/DEBIAN"
printf 'Source: dnpipe\n\nPackage: dnpipe\nArchitecture: any\n' >"$tmp/debian/control"
deps=$(cd "$tmp" && dpkg-shlibdeps -O "$stage"/usr/bin/* 2>"$tmp/log" | sed -n 's/^shlibs:Depends=//p')
[ -n "$deps" ] || { echo "deb.sh: dpkg-shlibdeps found no dependencies" >&2; exit 1; }
cat >"$stage/DEBIAN/control" <<C
Package: dnpipe
Version: $version
Architecture: $arch
Section: science
Priority: optional
Maintainer: The dnpipe authors <dnpipe@localhost>
Installed-Size: $(du -ks "$stage/usr" | cut -f1)
Depends: $deps
Description: genetic ancestry for biobanks with Diet Networks
 From PLINK files to a table of predicted populations with a confidence, and
 from a labelled panel to the ensemble of models that predicts.
C
mkdir -p "$out"
deb=$out/dnpipe_${version}_$arch.deb
dpkg-deb --root-owner-group --build "$stage" "$deb" >/dev/null
echo "$deb"
