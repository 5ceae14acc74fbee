#!/usr/bin/env bash
# The whole job on simulated data, in a minute or so: panel -> dataset -> folds -> 4 models -> a cohort's predictions.
# The cohort has 30 % of its SNPs with A1/A2 swapped, 10 % on the other strand, 20 % absent and 2 % missing calls.
# Usage: demo.sh [FOLDER]   (default: build/demo, made anew)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$root/build/demo}
bin=$root/build/bin
rm -rf "$out"
mkdir -p "$out/models"
cd "$out"
step() {
    printf '\n$ %s\n' "$*" | sed "s|$bin/||; s|$root/build/cpu/tools/||"
    "$@" 2>>demo.log || { rc=$?; tail -5 demo.log >&2; exit $rc; }
}
cat >config.yaml <<'YAML'
batch_size: 64
epochs: 12
input_dropout: 0.0
dropout_main: 0.3
lr_aux: 0.001
lr_main: 0.002
learning_rate_annealing: 0.99
nb_hidden_u_aux: [50, 50]
nb_hidden_u_main: [50]
patience: 6
seed: 78
uniform_init_limit: 0.02
YAML
step "$root/build/cpu/tools/dnsim" -o panel -n 900 -m 12000 -k 6 --fst-pop 0.006 --cohort 300 --swap 0.3 --flip 0.1 --drop 0.2 --missing 0.02 -s 7
step "$bin/gpack" --bfile panel --labels panel.labels.tsv -o panel.gpk
step "$bin/dnsplit" panel.gpk --folds 5 --seed 124 -o split.h5
for task in 0 1 2 3; do
    step "$bin/dntrain" --data panel.gpk --split split.h5 --config config.yaml --folds 0-1 --seeds 78,23 --task "$task" -o models
done
step "$bin/dncheck" models --folds 0-1 --seeds 78,23 --data panel.gpk --split split.h5 --full --report report.html |
    awk -F'\t' '$1 != "ok" || ($3 == "all" && $2 ~ /grid|distinct|held-out|ensemble/)'
step "$bin/snpmatch" --bfile panel_cohort --model models -o cohort.gpk --report report.tsv
step "$bin/dnpredict" --model models cohort.gpk -o predictions.tsv
echo
echo "What happened to the model's SNPs (report.tsv):"
awk -F'\t' 'NR==1 {for (i = 1; i <= NF; i++) if ($i == "reason") c = i; next} {n[$c]++} END {for (r in n) printf "  %-18s %6d\n", r, n[r]}' report.tsv | sort
echo
echo "The first people of the cohort (predictions.tsv):"
head -4 predictions.tsv | awk -F'\t' '{for (i = 1; i <= 9; i++) printf "%-11s", $i; print ""}' | sed 's/ *$//'
echo
printf '%-28s %s\n' "model" "accuracy"
for f in models/*.log.tsv; do
    # The log's last line: the best model on the fold's test set.
    awk -F'\t' -v name="$(basename "$f" .log.tsv), held-out fold" \
        'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "valid_acc") c = i} $1 == "test" {printf "%-28s %.1f %%\n", name, 100 * $c}' "$f"
done
awk -F'\t' 'NR==FNR {truth[$1] = $2; next} FNR==1 {for (i = 1; i <= NF; i++) if ($i == "prediction") c = i; next}
    {n++; ok += truth[$1] == $c} END {printf "%-28s %.1f %% (%d of %d new people)\n", "4 models on the cohort", 100 * ok / n, ok, n; exit ok < 0.8 * n}' \
    panel_cohort.labels.tsv predictions.tsv
echo
echo "Files are in ${out#"$root"/}; what the programs said is in demo.log there."
