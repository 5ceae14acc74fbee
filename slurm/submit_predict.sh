#!/usr/bin/env bash
# Submits a prediction: match -> predict (array of SHARDS) -> join. Each waits for the one before; steps whose result is
# there end at once, so after a failure the same command does only what is left.
# Usage: submit_predict.sh [--dry-run] [--NAME=VALUE for sbatch ...] [-- any SBATCH OPTIONS]
# Settings (slurm/env.example): MODEL_DIR TEST_PREFIX WORK_DIR OUT; SHARDS, CPUS, MATCH_OPTS, PREDICT_OPTS, PREDICT_SBATCH,
# ACCOUNT, ARRAY_LIMIT, SIF_LOC
set -euo pipefail
CODE_LOC=${CODE_LOC:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
export CODE_LOC
# shellcheck source=slurm/lib_submit.sh
. "$CODE_LOC/slurm/lib_submit.sh"
dn_submit_args "$@"
export SHARDS=${SHARDS:-4}
dn_need MODEL_DIR TEST_PREFIX WORK_DIR OUT
[[ $SHARDS =~ ^[1-9][0-9]{0,5}$ ]] || dn_die "SHARDS=$SHARDS is not a number from 1 to 999999"
export MODEL_DIR TEST_PREFIX WORK_DIR OUT
dn_set_size "$TEST_PREFIX"
members=$(dn_count_members "$MODEL_DIR")
[ "${DRY_RUN:-0}" = 1 ] || dn_folder "$WORK_DIR/logs"

# Match: 1 GiB of buffers (snpmatch's bound), and tables of 200 bytes a SNP. Predict: every member's fat weights (100 units,
# 4 bytes) twice, and a block of people. A core does 20 MB/s of .bed, and 100 people/s of 15 members x 230,000 SNPs; doubled.
cpus=${CPUS:-8}
used=$((snps < 1000000 ? snps : 1000000))
match_gib=$(dn_gib $(((2 << 30) + snps * 200)))
predict_gib=$(dn_gib $(((2 << 30) + 2 * members * 100 * 4 * used)))
match_min=$((10 + 2 * people * snps / (4 * 20000000 * cpus * 60)))
predict_min=$((10 + 2 * (people / SHARDS + 1) * used * members / (230000 * 15 * 100 * cpus * 60)))
dn_say "cohort: $people people x $snps SNPs; $members models; $SHARDS shards"
dn_say "asks for: match ${match_gib}G, $match_min min; predict ${predict_gib}G, $predict_min min a shard; $cpus CPUs each"

logs=(--output="$WORK_DIR/logs/%x_%j.log")
match=$(dn_sbatch "${logs[@]}" --cpus-per-task="$cpus" --mem="${match_gib}G" --time="$match_min" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/match.sbatch")
dn_after afterok "$match"
predict=$(dn_sbatch_array "$SHARDS" --output="$WORK_DIR/logs/%x_%A_%a.log" "${after[@]}" --cpus-per-task="$cpus" --mem="${predict_gib}G" \
    --time="$predict_min" "${SBATCH_EXTRA[@]}" "${GPU_EXTRA[@]}" "${PREDICT_EXTRA[@]}" "$CODE_LOC/slurm/predict.sbatch")
dn_after afterok "$predict"
join=$(dn_sbatch "${logs[@]}" "${after[@]}" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/join.sbatch")
echo "match $match, predict $predict ($SHARDS shards), join $join -> $OUT"
