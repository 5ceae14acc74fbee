#!/usr/bin/env bats
# Stopped at any moment, a task goes on and ends with the bytes of a run that was never stopped.
# One stop per round at a random moment; the seed is printed, so that a failing round can be looked at.
load ../lib
load ../train

setup() { unset SLURM_ARRAY_TASK_ID SLURM_ARRAY_JOB_ID SLURM_JOB_ID SLURM_RESTART_COUNT; }

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# reference [options]: trains into ref and measures how long that takes, in ms.
reference() {
    local start
    start=$(now_ms)
    train -q --fold 0 -o ref "$@"
    span=$(($(now_ms) - start))
}

# interrupted DIR SIGNAL MS [options]: starts, sends the signal after that time, waits; $code is the exit status.
interrupted() {
    local dir=$1 signal=$2 ms=$3 pid
    shift 3
    "${dntrain[@]}" -q --fold 0 -o "$dir" "$@" 2>>"$dir.err" &
    pid=$!
    nap "$ms"
    kill -"$signal" $pid 2>/dev/null || true
    code=0
    wait $pid || code=$?
}

# rounds N SIGNAL [options]: N random moments; then the task is finished and compared. The span of moments follows how long
# runs take just now, as other jobs on the machine come and go.
rounds() {
    local n=$1 signal=$2 i stopped=0 ms
    shift 2
    for i in $(seq "$n"); do
        rm -rf out
        : >out.err
        ms=$((RANDOM * (span + 1) / 32768))
        interrupted out "$signal" "$ms" "$@"
        case $code in
        0) span=$(((span + ms) / 2)) ;;
        75) stopped=$((stopped + 1)) span=$((span + span / 20 + 1)) ;;
        137) [ "$signal" = KILL ] && stopped=$((stopped + 1)) span=$((span + span / 20 + 1)) || return 1 ;;
        138 | 143) # before main() had begun
            [ ! -e out ] || { echo "round $i, $ms ms: exit $code"; return 1; }
            ;;
        *) echo "round $i, $ms ms: exit $code: $(cat out.err)"; return 1 ;;
        esac
        run train --fold 0 -o out "$@"
        [ "$status" -eq 0 ] || { echo "round $i, $ms ms: going on: exit $status: $output"; return 1; }
        same_results ref out || { echo "round $i, stopped after $ms ms, differs"; return 1; }
        only_results out || return 1
    done
    echo "$stopped of $n rounds were stopped before their end"
    [ "$stopped" -ge $((n / 8)) ]
}

# until_file FILE PID: waits for it, or for the process to end.
until_file() {
    until [ -e "$1" ]; do
        kill -0 "$2" 2>/dev/null || return 0
        nap 5
    done
}

@test "CS02, CS08: kill -9 at 50 random moments" {
    small epochs=5
    reference
    rounds 50 KILL
}

@test "CL02: SIGTERM at 25 and SIGUSR1 at 25 random moments: exit 75, then the same bytes" {
    small epochs=5
    reference
    rounds 25 TERM
    rounds 25 USR1
}

@test "CL02: --rng fast: SIGTERM at 12 random moments: exit 75, then the same bytes" {
    small epochs=5
    reference --rng fast
    rounds 12 TERM --rng fast
}

@test "CS02: kill -9 and SIGTERM while saving: a save after every batch" {
    small epochs=2 batch_size=4
    reference --checkpoint-minutes 0
    train -q --fold 0 -o often
    same_results ref often # how often it is saved changes nothing
    rounds 15 KILL --checkpoint-minutes 0
    rounds 10 TERM --checkpoint-minutes 0
}

@test "CS08: stopped in the validation and the evaluation" {
    # Few people to train, thousands to evaluate, and wide layers: most of the time is spent there.
    cd "$BATS_TEST_TMPDIR"
    panel p -n 5000 -m 400
    folds p.gpk s.h5 "0 train 0-39" "0 valid 40-4979" "0 test 4980-4999"
    config c.yaml epochs=3 nb_hidden_u_main='[400, 400]' nb_hidden_u_aux='[8, 64]'
    reference
    # Until two stops have fallen into it.
    seen=0
    for i in $(seq 24); do
        rm -rf out
        "${dntrain[@]}" -q --fold 0 -o out 2>out.err &
        pid=$!
        until_file out/seed78_fold0.ckpt $pid
        nap $((RANDOM * 150 / 32768))
        kill -TERM $pid 2>/dev/null || true
        wait $pid || true
        cat out.err
        if grep -q "in the validation of epoch" out.err; then seen=$((seen + 1)); fi
        train -q --fold 0 -o out
        same_results ref out
        [ $seen -lt 2 ] || break
    done
    [ $seen -ge 1 ]
}

@test "CS08: stopped in the test pass" {
    cd "$BATS_TEST_TMPDIR"
    panel p -n 5000 -m 400
    folds p.gpk s.h5 "0 train 0-39" "0 valid 40-59" "0 test 60-4999"
    config c.yaml epochs=0 nb_hidden_u_main='[900, 900]' nb_hidden_u_aux='[8, 64]'
    reference
    seen=0
    for i in $(seq 24); do
        rm -rf out
        "${dntrain[@]}" -q --fold 0 -o out 2>out.err &
        pid=$!
        until_file out/seed78_fold0.ckpt $pid
        nap $((RANDOM * 60 / 32768))
        [ $((i % 2)) = 0 ] && s=USR1 || s=TERM
        kill -$s $pid 2>/dev/null || true
        wait $pid || true
        cat out.err
        if grep -q "in the test pass" out.err; then seen=$((seen + 1)); fi
        train -q --fold 0 -o out
        same_results ref out
        [ $seen -lt 2 ] || break
    done
    [ $seen -ge 1 ]
}

@test "CS08: epoch border: 4 epochs are 2 + 2 and 1 + 1 + 1 + 1, byte for byte" {
    small
    train -q --fold 0 -o ref
    train -q --fold 0 -o out --epochs 2
    [ "$(tail -2 out/seed78_fold0.log.tsv | cut -f1 | paste -sd' ')" = "2 test" ]
    train -q --fold 0 -o out --epochs 4
    same_results ref out
    for e in 0 1 2 3 4; do train -q --fold 0 -o one --epochs $e; done
    same_results ref one
    # fewer than there are is refused, not forgotten
    run train --fold 0 -o out --epochs 3
    expect_exit 5
    expect_text "epochs" "epoch 4"
    same_results ref out
}

@test "twice in a row, and many times: kill -9, SIGTERM and SIGUSR1 in turn" {
    small epochs=60 patience=60
    reference
    n=0
    for _ in 1 2; do
        rm -rf out
        : >out.err
        for i in $(seq 12); do
            case $((i % 3)) in 0) s=KILL ;; 1) s=TERM ;; 2) s=USR1 ;; esac
            interrupted out $s $((span / 12 + RANDOM * span / 32768 / 4))
            case $code in 0) break ;; 75 | 137 | 138 | 143) n=$((n + 1)) ;; *) echo "exit $code: $(cat out.err)"; false ;; esac
        done
        train -q --fold 0 -o out
        same_results ref out
    done
    echo "stopped $n times"
    [ "$n" -ge 4 ]
}

@test "CL02: signals sent twice and three times at once save once and exit 75" {
    small epochs=400 patience=400
    "${dntrain[@]}" -q --fold 0 -o out 2>err.txt &
    pid=$!
    until [ -e out/seed78_fold0.ckpt ]; do nap 20; done
    nap 100
    kill -TERM $pid; kill -USR1 $pid; kill -TERM $pid; kill -INT $pid || true
    code=0
    wait $pid || code=$?
    [ "$code" -eq 75 ]
    grep -q "run the same command again" err.txt
    [ ! -e out/seed78_fold0.h5 ] && [ ! -e out/seed78_fold0.lock ]
    only_results out
}

@test "CL02: a signal while genotypes are read is exit 75 too, and leaves no lock" {
    cd "$BATS_TEST_TMPDIR"
    panel p -n 5000 -m 20000 --missing 0
    folds p.gpk s.h5 "0 train 0-3999" "0 valid 4000-4499" "0 test 4500-4999"
    config c.yaml epochs=1
    "${dntrain[@]}" -q --fold 0 -o out --inputs ram 2>err.txt &
    pid=$!
    until [ -e out/seed78_fold0.lock ]; do nap 2; done
    kill -USR1 $pid
    code=0
    wait $pid || code=$?
    [ "$code" -eq 75 ]
    [ ! -e out/seed78_fold0.lock ]
}

@test "CS07: patience, best model and 'finished' survive: stopped after every epoch, the run ends at the same one" {
    small epochs=60 patience=3 lr_main=0.02 lr_aux=0.02
    reference --skip-train-eval
    last=$(tail -2 ref/seed78_fold0.log.tsv | head -1 | cut -f1)
    [ "$last" -lt 60 ]
    : >out.err
    code=75
    for i in $(seq 200); do
        interrupted out TERM $((30 + RANDOM * 60 / 32768)) --skip-train-eval
        [ "$code" -ne 0 ] || break
    done
    train -q --fold 0 -o out --skip-train-eval
    sum=$(sha256sum out/*)
    train -q --fold 0 -o out --skip-train-eval
    [ "$sum" = "$(sha256sum out/*)" ]
    [ "$(tail -2 out/seed78_fold0.log.tsv | head -1 | cut -f1)" = "$last" ]
    same_results ref out
}
