#!/usr/bin/env bash
# dnpredict with a 15-model package of published size on simulated genotypes: people/s, G multiply-add equivalents/s per core
# beside this machine's sgemm, peak memory; and beside a PyTorch loop that does what upstream's inference does.
# Usage: predict.sh        Environment: BIN, TOOLS; BENCH_PEOPLE (4096), BENCH_SNPS (229986), BENCH_ROUNDS (2), BENCH_THREADS
# (all CPUs), BENCH_DIR (needs 2 GB; default: TMPDIR).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
BIN=${BIN:-$root/build/cpu/bin}
TOOLS=${TOOLS:-$root/build/cpu/tools}
people=${BENCH_PEOPLE:-4096} snps=${BENCH_SNPS:-229986} rounds=${BENCH_ROUNDS:-2} threads=${BENCH_THREADS:-$(nproc)}
py=${PYTHON:-/usr/bin/python3}
dir=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/dnpipe_predict.XXXXXX")
trap 'rm -rf "$dir"' EXIT
cd "$dir"
unset OPENBLAS_CORETYPE
echo "dnpredict: 15 models x $snps SNPs x 100 units, $people people, $threads threads; $(nproc) CPUs, load $(cut -d' ' -f1 /proc/loadavg)"
"$TOOLS/mkmodel" -o model --snps "$snps" --cohort cohort.gpk --people "$people"

best=0
for ((i = 0; i < rounds; i++)); do
    "$BIN/dnpredict" -m model cohort.gpk -o p.tsv -f --threads "$threads" 2>log
    # "4096 people predicted: 701 people/s, 351 per CPU second; fat layer 121.0 G multiply-add equivalents per CPU second"
    read -r rate free gps < <(sed -n 's/.*predicted: \([0-9]*\) people\/s, \([0-9]*\) per.*layer \([0-9.]*\) G.*/\1 \2 \3/p' log)
    read -r wall cpu peak < <(sed -n 's/.*: \([0-9.]*\) s wall, \([0-9.]*\) s CPU, \([0-9.]*\) MiB peak.*/\1 \2 \3/p' log)
    if [ "$free" -gt "$best" ]; then best=$free best_rate=$rate best_gps=$gps best_wall=$wall best_cpu=$cpu; fi
done
sgemm=$(OPENBLAS_NUM_THREADS=1 "$TOOLS/fatbench" 4096 4096 15 100 1 10)
while read -r line; do echo "  one core: $line"; done <<<"$sgemm"
gemm=$(sed -n 's/^sgemm.* \([0-9.]*\) G\/s.*/\1/p' <<<"$sgemm")
# CPU time, since others may use the machine: what the threads would do if each had a core to itself.
free=$((best * threads))
awk -v r="$best_rate" -v f="$free" -v t="$threads" -v g="$best_gps" -v s="$gemm" -v w="$best_wall" -v c="$best_cpu" -v p="$peak" 'BEGIN {
    printf "  dnpredict: %d people/s as it ran, %d people/s on %d free cores (upstream on an A100: 701; ratio %.2f); with loading %.1f s wall, %.1f s CPU\n", r, f, t, f / 701, w, c
    printf "  fat layer: %.1f G multiply-add equivalents/s per core, %.2f times sgemm on decoded floats (%.1f)\n", g, g / s, s
    printf "  peak memory: %.0f MiB\n", p }'

if "$py" -c 'import torch' 2>/dev/null; then
    "$py" "$here/predict_torch.py" "$snps" "$threads" | awk -v r="$best" -v t="$threads" '
        { printf "  PyTorch, one sample per call, one pass per model: %.1f people/s on %d free cores (ratio %.1f)\n", $1 * t, t, r / $1
          printf "  PyTorch, the fat layer alone on decoded floats: %.1f people/s on %d free cores (ratio %.1f)\n", $2 * t, t, r / $2 }'
else
    echo "  no PyTorch here: not compared with it"
fi
