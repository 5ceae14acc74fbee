#!/usr/bin/env bash
# Submits a training: pack -> split -> train (array of FOLD_LIST x SEED_LIST) -> check. Each waits for the one before; steps
# whose result is there end at once, so after a failure the same command does only what is left.
# Usage: submit_train.sh [--dry-run] [--NAME=VALUE for sbatch ...] [-- any SBATCH OPTIONS]
# Settings (slurm/env.example): TRAIN_PREFIX TRAIN_LABELS RUN_DIR CONFIG; FOLDS, SPLIT_SEED or PARTITION, FOLD_LIST, SEED_LIST,
# CPUS, TRAIN_OPTS, TRAIN_SBATCH, ACCOUNT, ARRAY_LIMIT, SIF_LOC
set -euo pipefail
CODE_LOC=${CODE_LOC:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
export CODE_LOC
# shellcheck source=slurm/lib_submit.sh
. "$CODE_LOC/slurm/lib_submit.sh"
dn_submit_args "$@"
export FOLDS=${FOLDS:-5} SPLIT_SEED=${SPLIT_SEED:-124} SEED_LIST=${SEED_LIST:-78,23,124}
[[ $FOLDS =~ ^[1-9][0-9]{0,3}$ ]] || dn_die "FOLDS=$FOLDS is not a number from 1 to 9999"
export FOLD_LIST=${FOLD_LIST:-0-$((FOLDS - 1))}
dn_need TRAIN_PREFIX TRAIN_LABELS RUN_DIR CONFIG
export TRAIN_PREFIX TRAIN_LABELS RUN_DIR CONFIG
dn_grid
tasks=$((${#folds[@]} * ${#seeds[@]}))
for s in "${seeds[@]}"; do
    [ -r "$(dn_config "$s")" ] || dn_die -3 "cannot read $(dn_config "$s") (CONFIG, seed $s)"
done
[ -r "$TRAIN_LABELS" ] || dn_die -3 "cannot read $TRAIN_LABELS (TRAIN_LABELS)"
dn_set_size "$TRAIN_PREFIX"
dn_train_sizes "$people" "$snps"
dn_say "tasks: ${#folds[@]} folds x ${#seeds[@]} seeds = $tasks"
[ "${DRY_RUN:-0}" = 1 ] || dn_folder "$RUN_DIR/logs"

dn_pack_and_split
train=$(dn_sbatch_array "$tasks" --output="$RUN_DIR/logs/%x_%A_%a.log" "${after[@]}" --cpus-per-task="$cpus" --mem="${train_gib}G" \
    --time="$train_min" "${SBATCH_EXTRA[@]}" "${GPU_EXTRA[@]}" "${TRAIN_EXTRA[@]}" "$CODE_LOC/slurm/train.sbatch")
# The check runs whatever became of the tasks: it says which are missing.
dn_after afterany "$train"
check=$(dn_sbatch "${logs[@]}" "${after[@]}" --mem="${pack_gib}G" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/check.sbatch")
echo "pack $pack, split $split, train $train ($tasks tasks), check $check -> $RUN_DIR"
