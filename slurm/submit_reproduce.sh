#!/usr/bin/env bash
# Reproduces upstream's published models: the release is checked against statistics recomputed from the data, and the chain
# stops unless they are equal; then one task per (fold, seed) with that seed's published configuration; then the accuracies
# are compared with the published ones.
# Usage: submit_reproduce.sh [--dry-run] [--NAME=VALUE for sbatch ...] [-- any SBATCH OPTIONS]
# Settings (slurm/env.example): RELEASE EXP_DIR; ACCOUNT. EXP_DIR holds dataset.gpk or dataset.h5 (or give TRAIN_PREFIX and
# TRAIN_LABELS), partition.npz, config_seed{S}.yaml and accuracy.tsv, or name them in PARTITION, CONFIG, PUBLISHED. Results
# go to RUN_DIR (default: EXP_DIR/reproduce).
set -euo pipefail
CODE_LOC=${CODE_LOC:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
export CODE_LOC
# shellcheck source=slurm/lib_submit.sh
. "$CODE_LOC/slurm/lib_submit.sh"
dn_submit_args "$@"
dn_need RELEASE EXP_DIR
export RELEASE EXP_DIR RUN_DIR=${RUN_DIR:-$EXP_DIR/reproduce}
export SEED_LIST=${SEED_LIST:-78,23,124} FOLD_LIST=${FOLD_LIST:-0-4}
export CONFIG=${CONFIG:-$EXP_DIR/config_seed{seed\}.yaml} PARTITION=${PARTITION:-$EXP_DIR/partition.npz}
export PUBLISHED=${PUBLISHED:-$EXP_DIR/accuracy.tsv}
dn_grid
tasks=$((${#folds[@]} * ${#seeds[@]}))
for f in "$PARTITION" "$PUBLISHED" "$RELEASE/DN_SNPS/dietnet_snps.txt"; do [ -r "$f" ] || dn_die -3 "cannot read $f"; done
for s in "${seeds[@]}"; do
    [ -r "$(dn_config "$s")" ] || dn_die -3 "cannot read $(dn_config "$s") (the configuration of seed $s)"
done
if [ -s "$EXP_DIR/dataset.gpk" ]; then data=dataset.gpk bytes=$(($(stat -Lc %s "$EXP_DIR/dataset.gpk") * 4))
elif [ -s "$EXP_DIR/dataset.h5" ]; then data=dataset.h5 bytes=$(stat -Lc %s "$EXP_DIR/dataset.h5")
else data=''
fi
if [ -n "$data" ]; then
    snps=$(dn_count_lines "$RELEASE/DN_SNPS/dietnet_snps.txt")
    people=$((bytes / (snps > 0 ? snps : 1)))
else
    dn_need TRAIN_PREFIX TRAIN_LABELS
    export TRAIN_PREFIX TRAIN_LABELS
    dn_set_size "$TRAIN_PREFIX"
fi
dn_train_sizes "$people" "$snps"
if [ "${DRY_RUN:-0}" != 1 ]; then
    dn_folder "$RUN_DIR/logs"
    if [ -n "$data" ] && [ ! -e "$RUN_DIR/$data" ]; then ln -s "$(readlink -f "$EXP_DIR/$data")" "$RUN_DIR/$data"; fi
fi

dn_pack_and_split
release=$(dn_sbatch "${logs[@]}" "${after[@]}" --mem="${pack_gib}G" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/check_release.sbatch")
dn_after afterok "$release"
train=$(dn_sbatch_array "$tasks" --output="$RUN_DIR/logs/%x_%A_%a.log" "${after[@]}" --cpus-per-task="$cpus" --mem="${train_gib}G" \
    --time="$train_min" "${SBATCH_EXTRA[@]}" "${GPU_EXTRA[@]}" "${TRAIN_EXTRA[@]}" "$CODE_LOC/slurm/train.sbatch")
# After every task that ran, however it ended; but not when the release was refused and none ran.
dn_after "afterok:$release,afterany" "$train"
check=$(dn_sbatch "${logs[@]}" "${after[@]}" --mem="${pack_gib}G" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/check.sbatch")
echo "pack $pack, split $split, release $release, train $train ($tasks tasks), check $check -> $RUN_DIR"
