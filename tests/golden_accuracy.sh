#!/usr/bin/env bash
# Held-out accuracy of dntrain against upstream's, on real data: kgp1 (14 populations) and kgp3 (24), 5 folds x 3 seeds each, with
# upstream's configurations and partition. Takes about 20 minutes on one core; prints the tables of docs/accuracy.md and fails
# when a mean over the 15 models is more than one standard deviation of upstream's 15 from upstream's mean.
# Usage: golden_accuracy.sh [FOLDER]   (default: build/accuracy; goes on where it was when started again)
#        DNPIPE_SHARED: the folder with golden/ and realdata/ (default: ../shared)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
shared=${DNPIPE_SHARED-$root/../shared}
out=${1:-$root/build/accuracy}
bin=$root/build/bin
[ -d "$shared/golden" ] || { echo "golden_accuracy.sh: no golden results in $shared: set DNPIPE_SHARED" >&2; exit 3; }
mkdir -p "$out"
bad=0

# train SET BFILE LABELS
train() {
    local set=$1 golden=$shared/golden/$1/upstream dir=$out/$1 seed fold
    mkdir -p "$dir/models"
    [ -e "$dir/panel.gpk" ] || "$bin/gpack" -q --bfile "$2" --labels "$3" -o "$dir/panel.gpk"
    [ -e "$dir/split.h5" ] || "$bin/dnsplit" -q "$dir/panel.gpk" --from-npz "$golden/partition_seed124.npz" -o "$dir/split.h5" >"$dir/split.txt"
    for seed in 78 23 124; do
        for fold in 0 1 2 3 4; do
            "$bin/dntrain" -q --data "$dir/panel.gpk" --split "$dir/split.h5" --config "$golden/config_seed$seed.yaml" --fold $fold \
                --skip-train-eval -o "$dir/models"
        done
    done
    # fold seed upstream's-epoch upstream's-accuracy our-epoch our-accuracy
    tail -n +2 "$golden/accuracy.tsv" | while IFS=$'\t' read -r fold seed _ epoch _ acc; do
        awk -F'\t' -v head="$fold $seed $epoch $acc" '
            NR == 1 {for (i = 1; i <= NF; i++) {if ($i == "valid_acc") a = i; if ($i == "valid_loss") l = i}; next}
            $1 == "test" {print head, best, $a; next}
            best == "" || $a > acc || ($a == acc && $l < loss) {best = $1; acc = $a; loss = $l}' "$dir/models/seed${seed}_fold$fold.log.tsv"
    done >"$dir/table.txt"
    echo "### $set"
    echo
    echo "| fold | seed | upstream: best epoch | test accuracy | dntrain: best epoch | test accuracy |"
    echo "|---|---|---|---|---|---|"
    awk '{printf "| %d | %d | %d | %.4f | %d | %.4f |\n", $1, $2, $3, $4, $5, $6}' "$dir/table.txt"
    awk '{n++; a += $4; aa += $4 * $4; b += $6; bb += $6 * $6}
        END {sa = sqrt((aa - a * a / n) / (n - 1)); sb = sqrt((bb - b * b / n) / (n - 1)); d = (b - a) / n
            printf "| mean (sd) | %d models | | %.4f (%.4f) | | %.4f (%.4f) |\n\n", n, a / n, sa, b / n, sb
            printf "Difference of the means: %+.4f, %.2f of upstream'"'"'s standard deviation.\n\n", d, (d < 0 ? -d : d) / sa
            exit !(n == 15 && (d < 0 ? -d : d) <= sa)}' "$dir/table.txt" || bad=1
}

train kgp1 "$shared/realdata/kgp1_14k/kgp1_14k" "$shared/realdata/kgp1_14k/kgp1_14k.labels.tsv"
train kgp3 "$shared/realdata/kgp3_26pop/kgp3_26pop_all" "$shared/golden/kgp3/labels.tsv"
exit $bad
