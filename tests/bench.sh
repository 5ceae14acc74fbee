#!/usr/bin/env bash
# Measures against the peers and prints ratios: every tests/bench/*.sh, or those named. Nothing here is asserted: machines differ.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export BIN=$here/../build/bin TOOLS=$here/../build/cpu/tools TESTS=$here
# A setting that steers OpenBLAS away from its own choice of kernels would spoil the comparison.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) CPUs, load $(cut -d' ' -f1 /proc/loadavg)"
"$BIN/dnpredict" --version
if [ $# -gt 0 ]; then files=("$@"); else files=("$here"/bench/*.sh); fi
rc=0
for f in "${files[@]}"; do
    [ -f "$f" ] || f=$here/bench/$f.sh
    printf '\n== %s\n' "$(basename "$f" .sh)"
    bash "$f" || { echo "$(basename "$f") failed" >&2; rc=1; }
done
exit $rc
