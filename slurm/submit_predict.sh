#!/usr/bin/env bash
# Submits a prediction: match -> predict (array of SHARDS) -> join. Each waits for the one before.
# Usage: submit_predict.sh [--dry-run] [-- SBATCH OPTIONS]     settings: see env.example
set -euo pipefail
CODE_LOC=${CODE_LOC:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
export CODE_LOC
# shellcheck source=slurm/lib.sh
. "$CODE_LOC/slurm/lib.sh"
dn_submit_args "$@"
dn_load_env
export SHARDS=${SHARDS:-4}
dn_need MODEL_DIR TEST_PREFIX WORK_DIR OUT
[[ $SHARDS =~ ^[1-9][0-9]*$ ]] || dn_die "SHARDS=$SHARDS is not a number of 1 or more"
export MODEL_DIR TEST_PREFIX WORK_DIR OUT
mkdir -p "$WORK_DIR/logs"

# Sizes (docs/slurm.md): packed bytes = people x SNPs / 4. Match: 1 GiB of buffers and the tables. Predict: all members' fat
# weights (4 bytes x SNPs x 100 units x members) and a block of people. Times at 20 MB/s of .bed per core and 100 people/s
# per core, doubled.
mapfile -t fams < <(dn_set_files "$TEST_PREFIX" fam)
mapfile -t bims < <(dn_set_files "$TEST_PREFIX" bim)
people=$(dn_count_lines "${fams[0]}")
snps=$(dn_count_lines "${bims[@]}")
members=$(dn_count_members "$MODEL_DIR")
cpus=${CPUS:-8}
match_gib=$(dn_gib $(((2 << 30) + snps * 100)))
predict_gib=$(dn_gib $(((2 << 30) + members * 100 * 4 * (snps < 1000000 ? snps : 1000000))))
match_min=$((10 + people * snps / 4 / 20000000 / cpus / 60 * 2))
predict_min=$((10 + people / SHARDS / 100 / cpus / 60 * 2 * (members + 14) / 15))
dn_say "cohort: $people people x $snps SNPs; $members models; $SHARDS shards"
dn_say "asks for: match ${match_gib}G, $match_min min; predict ${predict_gib}G, $predict_min min a shard; $cpus CPUs"

logs=(--output="$WORK_DIR/logs/%x_%j.log")
match=$(dn_sbatch "${logs[@]}" --cpus-per-task="$cpus" --mem="${match_gib}G" --time="$match_min" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/match.sbatch")
predict=$(dn_sbatch_array "$SHARDS" --output="$WORK_DIR/logs/%x_%A_%a.log" --dependency="afterok:$match" --cpus-per-task="$cpus" \
    --mem="${predict_gib}G" --time="$predict_min" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/predict.sbatch")
join=$(dn_sbatch "${logs[@]}" --dependency="afterok:$predict" "${SBATCH_EXTRA[@]}" "$CODE_LOC/slurm/join.sbatch")
echo "match $match, predict $predict, join $join -> $OUT"
