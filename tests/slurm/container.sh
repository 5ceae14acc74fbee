#!/usr/bin/env bash
# Runs %post and %test of slurm/container.def in a bare Debian 12 made by debootstrap (root, the network, and some minutes
# are needed), which is what Apptainer does with them.
# Usage: container.sh [FOLDER]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
[ "$(id -u)" = 0 ] || { echo "container.sh: must be root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "container.sh: debootstrap is not installed" >&2; exit 1; }
dir=${1:-$(mktemp -d)}
def=$root/slurm/container.def
trap 'umount "$dir/root/proc" 2>/dev/null || true; rm -rf "$dir/root"' EXIT
section() { awk -v s="%$1" '/^%/ {on = $1 == s; next} on' "$def"; }
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -1) || true
mkdir -p "$dir"
debootstrap --variant=minbase --include=ca-certificates bookworm "$dir/root" "${mirror:-http://deb.debian.org/debian}" >"$dir/debootstrap.log" 2>&1 || { tail "$dir/debootstrap.log"; exit 1; }
# What the build host needs to reach its mirrors is no part of the recipe.
cp /etc/resolv.conf "$dir/root/etc/" 2>/dev/null || true
cp /etc/hosts "$dir/root/etc/" 2>/dev/null || true
apt-config dump Acquire >"$dir/root/etc/apt/apt.conf.d/00host"
cp /etc/ssl/certs/ca-certificates.crt "$dir/root/etc/ssl/certs/" 2>/dev/null || true
mount -t proc proc "$dir/root/proc"
mkdir -p "$dir/root/opt/dnpipe"
git -C "$root" ls-files -z | tar -C "$root" --null -T - -c | tar -C "$dir/root/opt/dnpipe" -x
section post >"$dir/root/tmp/post.sh"
section test >"$dir/root/tmp/test.sh"
chroot "$dir/root" /bin/sh -e /tmp/post.sh >"$dir/post.log" 2>&1 || { tail -20 "$dir/post.log"; echo "container.sh: %post failed (whole log: $dir/post.log)"; exit 1; }
chroot "$dir/root" /bin/sh -e /tmp/test.sh | grep -c . >/dev/null
echo "container.sh: %post and %test of container.def work in a bare Debian 12"
