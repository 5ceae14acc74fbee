#!/usr/bin/env bash
# Reproduces upstream's published models: first the release is checked against statistics recomputed from the data (and the
# chain stops unless they are equal), then one task per (fold, seed) with that seed's published configuration, then the
# accuracies are compared with the published ones.
# Usage: submit_reproduce.sh [--dry-run] [-- SBATCH OPTIONS]
# Settings: RELEASE, EXP_DIR (holds dataset.gpk or dataset.h5, partition.npz, config_seed{S}.yaml, accuracy.tsv), ACCOUNT
set -euo pipefail
CODE_LOC=${CODE_LOC:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
export CODE_LOC
# shellcheck source=slurm/lib.sh
. "$CODE_LOC/slurm/lib.sh"
dn_submit_args "$@"
dn_load_env
dn_need RELEASE EXP_DIR
export RELEASE EXP_DIR RUN_DIR=${RUN_DIR:-$EXP_DIR/reproduce}
export SEED_LIST=${SEED_LIST:-78,23,124} FOLD_LIST=${FOLD_LIST:-0-4}
export CONFIG=${CONFIG:-$EXP_DIR/config_seed{seed\}.yaml} PARTITION=${PARTITION:-$EXP_DIR/partition.npz}
export PUBLISHED=${PUBLISHED:-$EXP_DIR/accuracy.tsv}
for f in "$PARTITION" "$PUBLISHED"; do [ -r "$f" ] || dn_die "cannot read $f"; done
for s in $(dn_list "$SEED_LIST"); do
    [ -r "${CONFIG//'{seed}'/$s}" ] || dn_die "cannot read ${CONFIG//'{seed}'/$s} (the configuration of seed $s)"
done
mkdir -p "$RUN_DIR/logs" "$RUN_DIR/models"
for f in dataset.gpk dataset.h5; do
    if [ -s "$EXP_DIR/$f" ] && [ ! -e "$RUN_DIR/$f" ]; then ln -s "$(readlink -f "$EXP_DIR/$f")" "$RUN_DIR/$f"; fi
done
[ -e "$RUN_DIR/dataset.gpk" ] || [ -e "$RUN_DIR/dataset.h5" ] || dn_need TRAIN_PREFIX TRAIN_LABELS
tasks=$(($(dn_list "$FOLD_LIST" | wc -l) * $(dn_list "$SEED_LIST" | wc -l)))
logs=(--output="$RUN_DIR/logs/%x_%j.log")
pack=$(dn_sbatch "${logs[@]}" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/pack.sbatch")
split=$(dn_sbatch "${logs[@]}" --dependency="afterok:$pack" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/split.sbatch")
release=$(dn_sbatch "${logs[@]}" --dependency="afterok:$split" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/check_release.sbatch")
train=$(dn_sbatch_array "$tasks" --output="$RUN_DIR/logs/%x_%A_%a.log" --dependency="afterok:$release" "${SBATCH_EXTRA[@]}" \
    "$CODE_LOC/slurm/train.sbatch")
check=$(dn_sbatch "${logs[@]}" --dependency="afterany:$train" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/check.sbatch")
echo "pack $pack, split $split, release $release, train $train ($tasks tasks), check $check -> $RUN_DIR"
