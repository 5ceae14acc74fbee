#!/usr/bin/env bats
# Training tasks on a real SLURM, disturbed in every way that clusters know: what they leave in the end equals the bytes of a
# run that was never disturbed. A task is stopped in its tracks (SIGSTOP) before it is disturbed, so that nothing depends on
# how fast this machine is.
load ../lib
load slurm

setup_file() {
    slurm_up
    export REF=$BATS_FILE_TMPDIR/ref FOLD_LIST=0-1 SEED_LIST=78,23 CONFIG=$BATS_FILE_TMPDIR/config.yaml
    config "$CONFIG" 25
    mkdir -p "$REF"
    "$BIN/gpack" -q --bfile "$PANEL" --labels "$PANEL.labels.tsv" -o "$REF/dataset.gpk"
    "$BIN/dnsplit" -q "$REF/dataset.gpk" --folds 2 --seed 124 -o "$REF/split.h5" >/dev/null
    for t in 0 1 2 3; do
        "$BIN/dntrain" -q --data "$REF/dataset.gpk" --split "$REF/split.h5" --config "$CONFIG" --folds 0-1 --seeds 78,23 --task $t --threads 1 -o "$REF/models"
    done
    # The two that wait for a time limit start now, and are looked at last.
    export RUN_DIR=$BATS_FILE_TMPDIR/usr1
    data
    sub --array=0 --time=1 --signal=B:USR1@20 train.sbatch >"$BATS_FILE_TMPDIR/usr1.job"
    freeze seed78_fold0
    # Thawed as soon as the signal is there, whatever the tests do meanwhile.
    (until_true 300 grep -q "signal USR1: passing it on" "$RUN_DIR/log_$(cat "$BATS_FILE_TMPDIR/usr1.job")_0" && thaw) >/dev/null 2>&1 3>&- &
    RUN_DIR=$BATS_FILE_TMPDIR/term
    data
    # A cluster that sends only TERM, at the end: here a signal that does nothing takes the place of USR1.
    sub --array=0 --time=1 --signal=B:CONT@1 train.sbatch >"$BATS_FILE_TMPDIR/term.job"
    freeze seed78_fold0
}
teardown_file() { slurm_down; }

data() {
    mkdir -p "$RUN_DIR"
    cp "$REF/dataset.gpk" "$REF/split.h5" "$RUN_DIR"
}
setup() {
    export RUN_DIR=$BATS_TEST_TMPDIR/run
    [ -z "${REF-}" ] || data
}

@test "a task requeued in mid-epoch (scontrol requeue) ends with the same bytes; its log is appended" {
    job=$(sub --array=0-1 train.sbatch)
    freeze seed78_fold0
    scontrol requeue "${job}_0"
    wait_state "$job" COMPLETED
    same seed78_fold0 seed23_fold0
    run log_of "$job" 0
    expect_text "start 1 on" "start 2 on" "state saved; ended from outside" "going on from the checkpoint"
}

@test "CL03: two copies of one task at once: the second is refused by name, the first ends with the same bytes" {
    job=$(sub --array=0 train.sbatch)
    freeze seed78_fold0
    second=$(sub --array=0 train.sbatch)
    wait_over "$second"
    state_is "$second" FAILED
    run log_of "$second" 0
    expect_text "$(hostname)" "${job}"
    thaw
    wait_state "$job" COMPLETED
    same seed78_fold0
}

@test "the node is drained and resumed: the task waits, then ends with the same bytes" {
    job=$(sub --array=0 train.sbatch)
    freeze seed78_fold0
    scontrol update nodename="$(hostname -s)" state=drain reason=test
    scontrol requeue "${job}_0"
    until_true 60 state_is "${job}_0" PENDING
    [ ! -e "$RUN_DIR/models/seed78_fold0.h5" ]
    [[ $(sinfo -h -o %T) == drain* ]]
    scontrol update nodename="$(hostname -s)" state=resume
    wait_state "$job" COMPLETED
    same seed78_fold0
}

@test "a task cancelled by scancel saves, stays cancelled, and continues when it is submitted again" {
    job=$(sub --array=0-1 train.sbatch)
    freeze seed78_fold0
    scancel "${job}_0"
    wait_over "$job"
    [ "$(state "${job}_0")" = CANCELLED ]
    [ "$(state "${job}_1")" = COMPLETED ]
    [ ! -e "$RUN_DIR/models/seed78_fold0.h5" ]
    [ -s "$RUN_DIR/models/seed78_fold0.ckpt" ]
    run log_of "$job" 0
    expect_text "state saved; ended from outside"
    before=$(stat -c %y "$RUN_DIR/models/seed23_fold0.h5")
    again=$(sub --array=0-1 train.sbatch)
    wait_state "$again" COMPLETED
    [ "$(state "${job}_0")" = CANCELLED ]
    same seed78_fold0 seed23_fold0
    [ "$before" = "$(stat -c %y "$RUN_DIR/models/seed23_fold0.h5")" ]
    run log_of "$again" 1
    refuse_text "staged"
}

@test "a task killed for memory: the job fails, and is continued with more" {
    job=$(sub --array=0 --mem=30M train.sbatch)
    # It may be killed before there is anything to stop.
    until_true 120 eval 'job_over "$job" || frozen_ready seed78_fold0'
    if ! job_over "$job"; then freeze seed78_fold0 || true; fi
    wait_over "$job"
    [[ $(state "${job}_0") =~ ^(OUT_OF_MEMORY|FAILED|CANCELLED)$ ]]
    [ ! -e "$RUN_DIR/models/seed78_fold0.h5" ]
    again=$(sub --array=0 train.sbatch)
    wait_state "$again" COMPLETED
    same seed78_fold0
}

@test "a program killed with -9: the job fails with 137, and is continued" {
    job=$(sub --array=0 train.sbatch)
    freeze seed78_fold0
    kill -9 "$FROZEN"
    wait_over "$job"
    [ "$(state "${job}_0")" = FAILED ]
    [[ $(scontrol -o show job "${job}_0") == *ExitCode=137:0* ]]
    again=$(sub --array=0 train.sbatch)
    wait_state "$again" COMPLETED
    same seed78_fold0
}

@test "one task of four fails: the others finish, the check names it, submitting again redoes only that one" {
    # A dntrain that dies in task 2.
    bad=$BATS_TEST_TMPDIR/code
    mkdir -p "$bad/build/bin"
    ln -s "$CODE_LOC/slurm" "$bad/slurm"
    for p in "$BIN"/*; do ln -s "$p" "$bad/build/bin"; done
    rm "$bad/build/bin/dntrain"
    printf '#!/bin/bash\n[[ " $* " != *" --task 2 "* ]] || exit 1\nexec "%s/dntrain" "$@"\n' "$BIN" >"$bad/build/bin/dntrain"
    chmod +x "$bad/build/bin/dntrain"
    job=$(CODE_LOC=$bad sub --array=0-3 train.sbatch)
    check=$(sub --dependency="afterany:$job" check.sbatch)
    wait_over "$check"
    [ "$(state "${job}_2")" = FAILED ]
    [ "$(state "$check")" = FAILED ]
    run cat "$RUN_DIR/check.tsv"
    expect_text "seed78_fold1" "missing"
    [ "$(grep -c '^FAULT' "$RUN_DIR/check.tsv")" = 1 ]
    same seed78_fold0 seed23_fold0 seed23_fold1
    before=$(stat -c %Y.%i "$RUN_DIR"/models/seed{78_fold0,23_fold0,23_fold1}.h5)
    again=$(sub --array=0-3 train.sbatch)
    check=$(sub --dependency="afterany:$again" check.sbatch)
    wait_over "$check"
    [ "$(state "$check")" = COMPLETED ]
    same seed78_fold1
    [ "$before" = "$(stat -c %Y.%i "$RUN_DIR"/models/seed{78_fold0,23_fold0,23_fold1}.h5)" ]
    [ -s "$RUN_DIR/report.html" ]
}

@test "CL05: two arrays in one folder at once: every model once, the same bytes, nothing left over" {
    a=$(sub --array=0-3 train.sbatch)
    b=$(sub --array=0-3 train.sbatch)
    wait_over "$a"
    wait_over "$b"
    same seed78_fold0 seed23_fold0 seed78_fold1 seed23_fold1
    run find "$RUN_DIR/models" -name '*.lock*' -o -name '*.tmp*'
    [ -z "$output" ]
}

@test "a results folder on a read-only file system: exit 6, naming the folder" {
    mkdir "$BATS_TEST_TMPDIR/ro"
    mount -t tmpfs tmpfs "$BATS_TEST_TMPDIR/ro" || skip "no right to mount"
    cp "$REF/dataset.gpk" "$REF/split.h5" "$BATS_TEST_TMPDIR/ro"
    mount -o remount,ro "$BATS_TEST_TMPDIR/ro"
    job=$(RUN_DIR=$BATS_TEST_TMPDIR/ro sbatch --parsable --cpus-per-task=1 --mem=600M --array=0 --output="$RUN_DIR/log_%A_%a" "$CODE_LOC/slurm/train.sbatch")
    wait_over "$job"
    umount "$BATS_TEST_TMPDIR/ro"
    [[ $(scontrol -o show job "${job}_0") == *ExitCode=6:0* ]]
    run log_of "$job" 0
    expect_text "cannot write in $BATS_TEST_TMPDIR/ro/models"
}

@test "CL10: data on a read-only file system, and locked by another process, are read all the same" {
    mkdir "$BATS_TEST_TMPDIR/ro"
    mount -t tmpfs tmpfs "$BATS_TEST_TMPDIR/ro" || skip "no right to mount"
    cp "$REF/dataset.gpk" "$REF/split.h5" "$BATS_TEST_TMPDIR/ro"
    mount -o remount,ro "$BATS_TEST_TMPDIR/ro"
    rm -f "$RUN_DIR/dataset.gpk" "$RUN_DIR/split.h5"
    ln -s "$BATS_TEST_TMPDIR/ro/dataset.gpk" "$RUN_DIR/dataset.gpk"
    ln -s "$BATS_TEST_TMPDIR/ro/split.h5" "$RUN_DIR/split.h5"
    exec 8<"$BATS_TEST_TMPDIR/ro/split.h5" 9<"$BATS_TEST_TMPDIR/ro/dataset.gpk"
    flock -x 8
    flock -x 9
    job=$(STAGE=no sub --array=0 train.sbatch)
    wait_over "$job"
    exec 8<&- 9<&-
    umount "$BATS_TEST_TMPDIR/ro"
    [ "$(state "${job}_0")" = COMPLETED ]
    same seed78_fold0
}

@test "staging: to SLURM_TMPDIR where there is room, in place where there is none, and both are said" {
    mkdir "$BATS_TEST_TMPDIR/small" "$BATS_TEST_TMPDIR/large"
    mount -t tmpfs -o size=1M tmpfs "$BATS_TEST_TMPDIR/small" || skip "no right to mount"
    a=$(SLURM_TMPDIR=$BATS_TEST_TMPDIR/small sub --array=0 train.sbatch)
    b=$(SLURM_TMPDIR=$BATS_TEST_TMPDIR/large sub --array=1 train.sbatch)
    wait_over "$a"
    wait_over "$b"
    umount "$BATS_TEST_TMPDIR/small"
    same seed78_fold0 seed23_fold0
    run log_of "$a" 0
    expect_text "not enough room in $BATS_TEST_TMPDIR/small" "reading it in place"
    run log_of "$b" 1
    expect_text "staged $RUN_DIR/dataset.gpk to $BATS_TEST_TMPDIR/large/"
    [ -z "$(ls "$BATS_TEST_TMPDIR/large")" ]
}

@test "CL01, CL02: the time limit comes near: USR1 reaches the program, it saves, the task queues itself again, and ends with the same bytes" {
    RUN_DIR=$BATS_FILE_TMPDIR/usr1
    job=$(cat "$BATS_FILE_TMPDIR/usr1.job")
    until_true 120 grep -q "start 2 on" "$RUN_DIR/log_${job}_0"
    wait_state "$job" COMPLETED
    run log_of "$job" 0
    expect_text "stopped by SIGUSR1" "state saved; queueing ${job}_0 again" "start 2 on"
    same seed78_fold0
}

@test "CL02: the time limit is there and only TERM came: saved, queued again, the same bytes" {
    RUN_DIR=$BATS_FILE_TMPDIR/term
    job=$(cat "$BATS_FILE_TMPDIR/term.job")
    until_true 180 grep -q "start 2 on" "$RUN_DIR/log_${job}_0"
    wait_state "$job" COMPLETED
    run log_of "$job" 0
    expect_text "stopped by SIGTERM" "queueing ${job}_0 again"
    same seed78_fold0
}

@test "CL03: the node goes down: SLURM starts the task again, which takes over the dead one's lock; same bytes" {
    job=$(sub --array=0 train.sbatch)
    freeze seed78_fold0
    scontrol update nodename="$(hostname -s)" state=down reason=test
    kill -9 "$FROZEN" 2>/dev/null || true
    until_true 60 grep -q "start 1 on" "$RUN_DIR/log_${job}_0"
    # It may be up again by itself, as soon as its slurmd says so.
    scontrol update nodename="$(hostname -s)" state=resume 2>/dev/null || true
    wait_state "$job" COMPLETED
    run log_of "$job" 0
    expect_text "start 2 on"
    same seed78_fold0
    [ ! -e "$RUN_DIR/models/seed78_fold0.lock" ]
}
