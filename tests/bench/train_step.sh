#!/usr/bin/env bash
# One training step at the published size (229,986 SNPs, 24 classes, 100 units): its parts against their floors, samples/s by batch
# size, and PyTorch's step of the same network on the same cores in the same run.
# Usage: train_step.sh [THREADS [REPEATS]]; TOOLS, PYTHON and SNPS may be set.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
tools=${TOOLS:-$root/build/cpu/tools}
python=${PYTHON:-/usr/bin/python3}
snps=${SNPS:-229986} threads=${1:-2} repeats=${2:-5}
[ -x "$tools/netbench" ] || { echo "train_step.sh: no $tools/netbench: run make tools" >&2; exit 1; }
echo "== one step, batch 138, and its parts =="
ours=$("$tools/netbench" "$snps" 138 "$threads" "$repeats")
echo "$ours"
echo "== the same with input dropout 0.2 =="
"$tools/netbench" "$snps" 138 "$threads" "$repeats" 24 100 0.2 1
for batch in 512 2048; do
    echo "== batch $batch =="
    "$tools/netbench" "$snps" "$batch" "$threads" 2 24 100 0 1
done
echo "== UK Biobank's shape, 169,829 SNPs x 292,048 people: one step measured, an epoch's 2,117 steps reckoned from it =="
"$tools/netbench" 169829 138 "$threads" 2 24 100 0 1 | awk '/^step/ { printf "step %.0f ms, epoch %.0f s (CPU time per thread: %.0f s)\n", $2, $2 * 2.117, $5 * 2.117 }'
if "$python" -c 'import torch' 2>/dev/null; then
    read -r wall cpu <<<"$("$python" "$here/torch_step.py" "$snps" 138 "$threads" 3)"
    read -r our_wall our_cpu <<<"$(sed -n 's/^step *\([0-9.]*\) ms wall *\([0-9.]*\) ms cpu.*/\1 \2/p' <<<"$ours")"
    awk -v w="$wall" -v c="$cpu" -v ow="$our_wall" -v oc="$our_cpu" 'BEGIN {
        printf "== PyTorch, batch 138: %.0f ms wall, %.0f ms cpu per thread; ours %.0f and %.0f: %.1f and %.1f times faster ==\n",
               1e3 * w, 1e3 * c, ow, oc, 1e3 * w / ow, 1e3 * c / oc }'
else
    echo "== no torch for $python: no comparison =="
fi
