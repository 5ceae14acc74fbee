#!/usr/bin/env bash
# Runs the chains, or one step, on this machine without SLURM: the same scripts and settings, one after another, the tasks of
# an array JOBS at a time with CPUS threads each (default: 1 job, all the CPUs there are). Logs and results are where SLURM
# would have put them; Ctrl-C, then the same command again, continues.
# Usage: local.sh predict|train|reproduce|batch_study [--dry-run]
#        local.sh STEP.sbatch            one step, in the foreground; TASK_OFFSET=N for task N of an array
set -euo pipefail
CODE_LOC=${CODE_LOC:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
export CODE_LOC JOBS=${JOBS:-1}
case ${1-} in
-h | --help | '') sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; [ $# -gt 0 ] && exit 0 || exit 2 ;;
esac
[[ $JOBS =~ ^[1-9][0-9]*$ ]] || { echo "error: JOBS=$JOBS is not a number of 1 or more" >&2; exit 2; }
n=$(nproc)
export CPUS=${CPUS:-$((n / JOBS > 0 ? n / JOBS : 1))}
what=$1
shift
unset SLURM_JOB_ID SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID SLURM_CPUS_PER_TASK SLURM_RESTART_COUNT
case $what in
*.sbatch) exec bash "$CODE_LOC/slurm/$(basename "$what")" "$@" ;;
predict | train | reproduce | batch_study) ;;
*) echo "error: $what is none of predict, train, reproduce, batch_study, STEP.sbatch" >&2; exit 2 ;;
esac
DN_LOCAL=$(mktemp)
export DN_LOCAL
trap 'rm -f "$DN_LOCAL"' EXIT
rc=0
bash "$CODE_LOC/slurm/submit_$what.sh" "$@" || rc=$?
if [ -s "$DN_LOCAL" ]; then
    echo "error: failed (what is done stays; the same command does the rest):" >&2
    cat "$DN_LOCAL" >&2
    exit 1
fi
exit $rc
