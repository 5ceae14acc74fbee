# Sourced by the bats files of this folder. By default the plugin is the host shim's (tests/shim); GPU_PLUGIN names another:
# tests/gpu.sh gives the real one, and then tests of what only the shim can play are skipped.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # used by the files that source this

gpu_setup() {
    unset CUDA_VISIBLE_DEVICES SLURM_JOB_GPUS SLURM_ARRAY_TASK_ID SLURM_ARRAY_JOB_ID SLURM_JOB_ID SLURM_RESTART_COUNT
    unset "${!DN_SHIM_@}"
    [ -z "${GPU_VISIBLE-}" ] || export CUDA_VISIBLE_DEVICES=$GPU_VISIBLE
    plugin=${GPU_PLUGIN:-$BIN/../tests/backend_shim.so}
    export DNPIPE_CUDA_PLUGIN=$plugin
}

# What a GPU cannot be made to do.
need_shim() { [ -z "${GPU_PLUGIN-}" ] || skip "only the shim can play this"; }

need_h5py() { "$PYTHON" -c 'import h5py, numpy' 2>/dev/null || skip "no Python with h5py and numpy"; }

# near A.h5 B.h5 TOLERANCE: scores of two runs.
near() {
    need_h5py
    run "$PYTHON" "$TESTS/compare_scores.py" near "$1" "$2" --tol "$3"
    expect_exit 0
    echo "# $output" >&3
}
