#!/usr/bin/env bash
# Submits a training: pack -> split -> train (array of FOLD_LIST x SEED_LIST) -> check. Each waits for the one before; steps
# whose result is there end at once, so after a failure the same command does only what is left.
# Usage: submit_train.sh [--dry-run] [-- SBATCH OPTIONS]     settings: see env.example
set -euo pipefail
CODE_LOC=${CODE_LOC:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
export CODE_LOC
# shellcheck source=slurm/lib.sh
. "$CODE_LOC/slurm/lib.sh"
dn_submit_args "$@"
dn_load_env
export FOLDS=${FOLDS:-5} SPLIT_SEED=${SPLIT_SEED:-124} SEED_LIST=${SEED_LIST:-78,23,124}
export FOLD_LIST=${FOLD_LIST:-0-$((FOLDS - 1))}
dn_need TRAIN_PREFIX TRAIN_LABELS RUN_DIR CONFIG
export TRAIN_PREFIX TRAIN_LABELS RUN_DIR CONFIG
mkdir -p "$RUN_DIR/logs" "$RUN_DIR/models"
n_folds=$(dn_list "$FOLD_LIST" | wc -l)
n_seeds=$(dn_list "$SEED_LIST" | wc -l)
tasks=$((n_folds * n_seeds))
[ "$tasks" -gt 0 ] || dn_die "FOLD_LIST=$FOLD_LIST and SEED_LIST=$SEED_LIST name no task"
dn_train_sizes "$TRAIN_PREFIX"
dn_say "tasks: $n_folds folds x $n_seeds seeds = $tasks"
logs=(--output="$RUN_DIR/logs/%x_%j.log")
pack=$(dn_sbatch "${logs[@]}" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/pack.sbatch")
split=$(dn_sbatch "${logs[@]}" --dependency="afterok:$pack" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/split.sbatch")
train=$(dn_sbatch_array "$tasks" --output="$RUN_DIR/logs/%x_%A_%a.log" --dependency="afterok:$split" --cpus-per-task="$cpus" \
    --mem="${train_gib}G" --time="$train_min" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/train.sbatch")
# The check runs whatever became of the tasks: it says which are missing.
check=$(dn_sbatch "${logs[@]}" --dependency="afterany:$train" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/check.sbatch")
echo "pack $pack, split $split, train $train ($tasks tasks), check $check -> $RUN_DIR"
