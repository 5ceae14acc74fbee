# shellcheck shell=bash
# shellcheck disable=SC2154 # status and output are set by bats' `run`
# Sourced by the tests on a real SLURM: starts one, and waits for jobs by asking, never by fixed sleeps.

# slurm_up [MAX_ARRAY]: a SLURM of this file's own, in DN_CLUSTER; skips the file where it cannot be had.
slurm_up() {
    need_shared
    [ "$(id -u)" = 0 ] || skip "a SLURM can be started by root only"
    if ! command -v slurmctld >/dev/null || ! command -v munged >/dev/null; then
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends slurm-wlm munge; } >/dev/null 2>&1 ||
            skip "slurm-wlm and munge are not installed, and cannot be (apt-get)"
    fi
    DN_CLUSTER=$(mktemp -d /tmp/dnslurm.XXXXXX)
    bash "$TESTS/slurm/cluster.sh" start "$DN_CLUSTER" "${1:-1001}" >&2 || return 1
    export DN_CLUSTER SLURM_CONF=$DN_CLUSTER/etc/slurm.conf
    # Copies that a killed job leaves behind go with the cluster's folder.
    mkdir "$DN_CLUSTER/tmp"
    export TMPDIR=$DN_CLUSTER/tmp
    # The login shell's own settings must not leak into jobs.
    unset SLURM_TMPDIR ACCOUNT ENV_FILE SIF_LOC DRY_RUN TASK_OFFSET
    export CODE_LOC CPUS=1 PANEL=$SHARED/realdata/kgp1_14k/kgp1_14k COHORT=$SHARED/realdata/hapmap3_14k/hapmap3_14k
    CODE_LOC=$(dirname "$TESTS")
}
slurm_down() {
    [ -n "${DN_CLUSTER-}" ] || return 0
    scancel -u "$(id -un)" 2>/dev/null || true
    bash "$TESTS/slurm/cluster.sh" stop "$DN_CLUSTER" || true
    rm -rf "$DN_CLUSTER"
}

# until_true SECONDS COMMAND...
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        if [ $SECONDS -ge "$end" ]; then
            echo "gave up waiting for: $*"
            squeue -t all
            return 1
        fi
        sleep 0.1
    done
}
state() { squeue -h -t all -j "$1" -o %T 2>/dev/null | sort -u | paste -sd, -; }
# wait_state JOB STATE: until every task of the job is in it.
state_is() { [[ ",$2," == *",$(state "$1"),"* ]]; }
wait_state() { until_true 180 state_is "$1" "$2"; }
job_over() { ! squeue -h -j "$1" 2>/dev/null | grep -q .; }
wait_over() { until_true 180 job_over "$1"; }

# config FILE EPOCHS
config() {
    sed "s/^epochs:.*/epochs: $2/" "$SHARED/golden/kgp1/upstream/config_seed78.yaml" >"$1"
}

# sub SBATCH-ARGUMENTS... SCRIPT: one small job; prints its number.
sub() { sbatch --parsable --cpus-per-task=1 --mem=600M --time=20 --output="$RUN_DIR/log_%A_%a" "${@:1:$#-1}" "$CODE_LOC/slurm/${*: -1}"; }

# freeze NAME: stops the training of RUN_DIR/models/NAME in its tracks, after two epochs at least; thaw lets it go on.
frozen_ready() { [ -s "$RUN_DIR/models/$1.lock" ] && [ "$(cat "$RUN_DIR/models/$1.log.tsv" 2>/dev/null | wc -l)" -ge 4 ]; }
freeze() {
    until_true 120 frozen_ready "$1" || return 1
    FROZEN=$(awk '$1 == "pid" {print $2}' "$RUN_DIR/models/$1.lock")
    kill -STOP "$FROZEN" || { echo "$1 was over before it could be stopped"; return 1; }
    [ ! -e "$RUN_DIR/models/$1.h5" ]
}
thaw() { kill -CONT "$FROZEN"; }

# same NAME...: packages and logs equal the undisturbed run's, byte for byte.
same() {
    local n
    for n in "$@"; do
        cmp "$REF/models/$n.h5" "$RUN_DIR/models/$n.h5" || return 1
        cmp "$REF/models/$n.log.tsv" "$RUN_DIR/models/$n.log.tsv" || return 1
    done
}
# log_of JOB TASK
log_of() { cat "$RUN_DIR/log_$1_$2"; }
