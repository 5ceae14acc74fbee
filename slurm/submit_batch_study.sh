#!/usr/bin/env bash
# Submits the study of batch sizes: pack -> split -> one task per batch size x scaling of the learning rates x fold x seed ->
# a table, mean (sd) of the test accuracy. After a failure the same command does only what is left.
# Usage: submit_batch_study.sh [--dry-run] [--NAME=VALUE for sbatch ...] [-- any SBATCH OPTIONS]
# Settings: those of submit_train.sh (SEED_LIST defaults to 78), BATCH_SIZES ("32 64 138 256 512"), LR_SCALES ("none sqrt linear")
set -euo pipefail
CODE_LOC=${CODE_LOC:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
export CODE_LOC
# shellcheck source=slurm/lib_submit.sh
. "$CODE_LOC/slurm/lib_submit.sh"
dn_submit_args "$@"
export FOLDS=${FOLDS:-5} SPLIT_SEED=${SPLIT_SEED:-124} SEED_LIST=${SEED_LIST:-78}
[[ $FOLDS =~ ^[1-9][0-9]{0,3}$ ]] || dn_die "FOLDS=$FOLDS is not a number from 1 to 9999"
export FOLD_LIST=${FOLD_LIST:-0-$((FOLDS - 1))}
export BATCH_SIZES=${BATCH_SIZES:-32 64 138 256 512} LR_SCALES=${LR_SCALES:-none sqrt linear}
dn_need TRAIN_PREFIX TRAIN_LABELS RUN_DIR CONFIG
export TRAIN_PREFIX TRAIN_LABELS RUN_DIR CONFIG
dn_grid
read -ra batches <<<"$BATCH_SIZES"
read -ra scales <<<"$LR_SCALES"
for b in "${batches[@]}"; do [[ $b =~ ^[1-9][0-9]*$ ]] || dn_die "BATCH_SIZES: \"$b\" is not a number"; done
for s in "${scales[@]}"; do [[ $s =~ ^(none|sqrt|linear)$ ]] || dn_die "LR_SCALES: \"$s\" is none of none, sqrt, linear"; done
tasks=$((${#batches[@]} * ${#scales[@]} * ${#folds[@]} * ${#seeds[@]}))
dn_set_size "$TRAIN_PREFIX"
dn_train_sizes "$people" "$snps"
dn_say "tasks: ${#batches[@]} batch sizes x ${#scales[@]} scalings x ${#folds[@]} folds x ${#seeds[@]} seeds = $tasks"
[ "${DRY_RUN:-0}" = 1 ] || dn_folder "$RUN_DIR/logs"

dn_pack_and_split
study=$(dn_sbatch_array "$tasks" --output="$RUN_DIR/logs/%x_%A_%a.log" "${after[@]}" --cpus-per-task="$cpus" --mem="${train_gib}G" \
    --time="$train_min" "${SBATCH_EXTRA[@]}" "${GPU_EXTRA[@]}" "${TRAIN_EXTRA[@]}" "$CODE_LOC/slurm/batch_size_study.sbatch")
dn_after afterany "$study"
table=$(STUDY_STEP=table dn_sbatch --output="$RUN_DIR/logs/dn-batch-table_%j.log" --job-name=dn-batch-table --export=ALL,STUDY_STEP=table "${after[@]}" \
    --cpus-per-task=1 --mem=1G --time=10 "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/batch_size_study.sbatch")
echo "pack $pack, split $split, study $study ($tasks tasks), table $table -> $RUN_DIR/batch_study.tsv"
