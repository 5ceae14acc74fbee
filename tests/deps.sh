#!/usr/bin/env bash
# Installs what building and testing need and this machine lacks: through apt when root, else prints the command.
# Usage: deps.sh [--print] [--check|--cuda|--deb|--peers|--all]   (--check: what the tests need; --cuda: those of the GPU's
# code on the CPU; --peers: also what they compare with where it is there; --all: also the linters that CI uses)
set -euo pipefail
need=(gcc make pkg-config libhdf5-dev libzstd-dev libzip-dev libyaml-dev libxxhash-dev libopenblas-dev bats python3)
test=(python3-numpy python3-h5py python3-yaml hdf5-tools)
more=(plink1.9 plink2)
ci=(g++ clang clang-format cppcheck shellcheck libclang-rt-14-dev valgrind util-linux dpkg-dev man-db curl slurm-wlm munge)
print=0
for a in "$@"; do
    case $a in
    --print) print=1 ;;
    --check) need+=("${test[@]}") ;;
    --cuda) need+=(g++ "${test[@]}") ;;
    --deb) need+=(dpkg-dev) ;;
    --peers) need+=("${test[@]}" "${more[@]}") ;;
    --all) need+=("${test[@]}" "${more[@]}" "${ci[@]}") ;;
    *) echo "deps.sh: unknown option $a" >&2; exit 2 ;;
    esac
done
missing=()
have_dpkg=0
command -v dpkg-query >/dev/null && have_dpkg=1
for p in "${need[@]}"; do
    if [ $have_dpkg = 1 ] && dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed; then continue; fi
    missing+=("$p")
done
if [ $have_dpkg = 0 ]; then
    # Not Debian: the build says which library pkg-config lacks; there is nothing that can be installed from here.
    command -v pkg-config >/dev/null || { echo "deps.sh: pkg-config is missing; the Debian names of what is needed: ${need[*]}" >&2; exit 1; }
    exit 0
fi
[ ${#missing[@]} -gt 0 ] || exit 0
line="apt-get install --no-install-recommends -y ${missing[*]}"
if [ $print = 1 ]; then echo "$line"; exit 0; fi
if [ "$(id -u)" != 0 ]; then
    echo "These packages are missing. Run this, then try again:" >&2
    echo "  sudo $line" >&2
    exit 1
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { apt-get update -q && apt-get install --no-install-recommends -y -q "${missing[@]}"; } >"$log" 2>&1; then
    tail -20 "$log" >&2
    echo "deps.sh: could not install; run by hand: $line" >&2
    exit 1
fi
rm -f "$log"
