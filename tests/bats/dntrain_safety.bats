#!/usr/bin/env bats
# Checkpoints that are damaged or another run's, the lock, many tasks at once, full disks.
load ../lib
load ../train

setup() { unset SLURM_ARRAY_TASK_ID SLURM_ARRAY_JOB_ID SLURM_JOB_ID SLURM_RESTART_COUNT; }

# half DIR [options]: a task stopped after its second epoch, as a run of more epochs would leave it: no package.
half() {
    local dir=$1
    shift
    train -q --fold 0 -o "$dir" --epochs 2 "$@"
    rm "$dir/seed78_fold0.h5"
}

@test "a checkpoint of another fold, seed, configuration, dataset, split or task is refused by name, and left as it is" {
    small
    panel q -s 9
    folds q.gpk q.h5 "0 train 0-70" "0 valid 71-95" "0 test 96-119"
    folds p.gpk other.h5 "0 train 0-69" "0 valid 70-95" "0 test 96-119" "1 train 0-70" "1 valid 71-95" "1 test 96-119"
    half out
    sum=$(sha256sum out/*)
    refused() {
        local word=$1
        shift
        run "${dntrain[@]}" -o out "$@"
        expect_exit 5
        expect_text "seed78_fold0.ckpt is of another run" "$word" "--force"
        [ "$(sha256sum out/*)" = "$sum" ]
    }
    for option in "lr_main=0.003" "dropout_main=0.5" "nb_hidden_u_main=[8]" "nb_hidden_u_main=[7, 7]" "nb_hidden_u_aux=[12]" "batch_size=17" \
        "uniform_init_limit=0.04" "learning_rate_annealing=0.9" "input_dropout=0"; do
        config c.yaml "$option"
        refused "${option%%=*}: " --fold 0
    done
    config c.yaml
    refused "batch_size: 16 there, 17 here" --fold 0 --batch-size 17
    refused "train_eval: 1 there, 0 here" --fold 0 --skip-train-eval
    refused "split: " --fold 0 --split other.h5
    refused "epochs: 1 here" --fold 0 --epochs 1
    refused "dataset: " --fold 0 --data q.gpk --split q.h5
    # A renamed checkpoint is still that of its own fold and seed.
    mkdir moved
    cp out/seed78_fold0.ckpt moved/seed78_fold1.ckpt
    cp out/seed78_fold0.ckpt moved/seed79_fold0.ckpt
    run train --fold 1 -o moved
    expect_exit 5
    expect_text "fold: 0 there, 1 here"
    run train --fold 0 --seed 79 -o moved
    expect_exit 5
    expect_text "seed: 78 there, 79 here"
    # With everything right it goes on.
    run train --fold 0 -o out
    expect_exit 0
    expect_text "going on from the checkpoint: after epoch 2"
}

@test "a package of another run is refused by name; --force starts anew" {
    small
    train -q --fold 0 -o out
    sum=$(sha256sum out/*)
    cp c.yaml old.yaml
    config c.yaml lr_main=0.5
    run train --fold 0 -o out
    expect_exit 5
    expect_text "seed78_fold0.h5 is of another run" "lr_main: 0.002 there, 0.5 here"
    rm out/*.ckpt*
    config c.yaml epochs=9
    run train --fold 0 -o out
    expect_exit 5
    expect_text "epochs: 4 there, 9 here"
    mv out/seed78_fold0.h5 out/seed78_fold1.h5
    cp old.yaml c.yaml
    run train --fold 1 -o out
    expect_exit 5
    expect_text "fold: 0 there, 1 here"
    mv out/seed78_fold1.h5 out/seed78_fold0.h5
    config c.yaml lr_main=0.5 epochs=1
    run train --fold 0 -o out --force
    expect_exit 0
    expect_text "removed"
    train -q --fold 0 -o ref
    same_results ref out
    only_results out
}

@test "CS10: a checkpoint of another format version is refused by name" {
    small
    half out
    printf '\x02' | dd of=out/seed78_fold0.ckpt bs=1 seek=8 conv=notrunc status=none
    run train --fold 0 -o out
    expect_exit 8
    expect_text "format version 2"
}

@test "CS02: a damaged newest checkpoint falls back to the one before, with a warning, and the end is the same" {
    small
    train -q --fold 0 -o ref
    for damage in flip cut empty absent text; do
        rm -rf out
        half out
        case $damage in
        flip) printf '\xff' | dd of=out/seed78_fold0.ckpt bs=1 seek=3000 conv=notrunc status=none ;;
        cut) truncate -s 2000 out/seed78_fold0.ckpt ;;
        empty) : >out/seed78_fold0.ckpt ;;
        absent) rm out/seed78_fold0.ckpt ;;
        text) echo hello >out/seed78_fold0.ckpt ;;
        esac
        # the good one must not be pushed out by the damaged one: stopped at once, and again
        run timeout -s TERM 0.3 "${dntrain[@]}" --fold 0 -o out --checkpoint-minutes 0
        [ $damage = absent ] || expect_text "warning" "seed78_fold0.ckpt" "is used"
        run train --fold 0 -o out
        expect_exit 0
        same_results ref out
    done
    # Both damaged: an error that names both and the way out, and nothing is overwritten.
    rm -rf out
    half out
    truncate -s 2000 out/seed78_fold0.ckpt
    truncate -s 2000 out/seed78_fold0.ckpt.prev
    run train --fold 0 -o out
    expect_exit 4
    expect_text seed78_fold0.ckpt seed78_fold0.ckpt.prev "--force"
    run train --fold 0 -o out --force
    expect_exit 0
    same_results ref out
}

@test "CS10: a damaged package is made anew from its checkpoint; without one it is an error" {
    small
    train -q --fold 0 -o ref
    train -q --fold 0 -o out
    truncate -s 3000 out/seed78_fold0.h5
    run train --fold 0 -o out
    expect_exit 0
    expect_text "warning" "written anew"
    same_results ref out
    truncate -s 3000 out/seed78_fold0.h5
    rm out/*.ckpt*
    run train --fold 0 -o out
    expect_exit 4
    expect_text "--force"
}

@test "a log that was edited, cut or removed is made whole again" {
    small
    train -q --fold 0 -o ref
    for damage in cut removed edited longer; do
        rm -rf out
        half out
        case $damage in
        cut) truncate -s 100 out/seed78_fold0.log.tsv ;;
        removed) rm out/seed78_fold0.log.tsv ;;
        edited) sed -i 's/0\.0/9.9/' out/seed78_fold0.log.tsv ;;
        longer) echo "3	a row of an epoch that no checkpoint knows" >>out/seed78_fold0.log.tsv ;;
        esac
        train -q --fold 0 -o out
        same_results ref out
    done
}

@test "CL03: the second start of a task is refused while the first runs, naming host, process and job; a dead one is taken over" {
    small epochs=3000 patience=3000
    SLURM_JOB_ID=4711 "${dntrain[@]}" -q --fold 0 -o out 2>err.txt &
    pid=$!
    until [ -e out/seed78_fold0.ckpt ]; do nap 10; done
    run train --fold 0 -o out
    expect_exit 5
    expect_text "process $pid on host $(hostname)" "job 4711" "out/seed78_fold0.lock"
    # another task of the same folder is free
    train -q --fold 1 -o out --epochs 1
    kill -KILL $pid
    wait $pid || true
    [ -e out/seed78_fold0.lock ]
    run timeout -s TERM 1 "${dntrain[@]}" --fold 0 -o out
    [ "$status" -eq 124 ] || [ "$status" -eq 0 ] # timeout's own code for "it was stopped"
    expect_text "which no longer runs, is taken over" "process $pid"
    [ ! -e out/seed78_fold0.lock ]
}

@test "CL03: a lock of another host is refused with advice; the next start of the same SLURM job takes it" {
    small epochs=1
    mkdir out
    printf 'dnpipe lock 1\nhost node17\nboot b\npid 1\nstart 1\njob 55_3\nrestart 0\nnonce ab\nkernel 1\n' >out/seed78_fold0.lock
    run train --fold 0 -o out
    expect_exit 5
    expect_text "node17" "55_3" "remove the lock file"
    SLURM_JOB_ID=99 SLURM_ARRAY_JOB_ID=55 SLURM_ARRAY_TASK_ID=3 SLURM_RESTART_COUNT=1 run train --fold 0 -o out
    expect_exit 0
    expect_text "is taken over"
    only_results out
}

@test "CL03: eight starts of one task at once: one trains, seven are refused" {
    small epochs=300 patience=300
    for i in 1 2 3 4 5 6 7 8; do
        (
            code=0
            timeout -s TERM 5 "${dntrain[@]}" -q --fold 0 -o out 2>"err$i" || code=$?
            echo $code >"code$i"
        ) &
    done
    wait
    [ "$(cat code? | grep -cE '^(0|75|124)$')" -ge 1 ]
    [ "$(cat code? | grep -cvE '^(0|75|124|5)$')" = 0 ]
    # Nobody else came in while it ran: refused ones name it, and the checkpoint is whole.
    train -q --fold 0 -o out --epochs 300
    train -q --fold 0 -o ref
    same_results ref out
}

@test "CL05: 40 tasks from one folder at once, each with its own files" {
    small epochs=1
    seq 0 39 | xargs -P 40 -I{} "${dntrain[@]}" -q --folds 0-1 --seeds 1-20 -o out --task {}
    [ "$(find out -name 'seed*_fold[01].h5' | wc -l)" = 40 ]
    only_results out
    for t in "1 0" "13 1" "20 1"; do
        set -- $t
        train -q --seed "$1" --fold "$2" -o ref
        same_results ref out "seed$1_fold$2"
    done
}

# on_small_disk SIZE COMMAND...: with a tmpfs of that size at ./disk, in a namespace of its own.
on_small_disk() {
    local size=$1
    shift
    mkdir -p disk
    unshare -rm bash -c "mount -t tmpfs -o size=$size tmpfs disk || exit 99
        $*"
}

# A run on a disk that fills up just after the first checkpoint: $cmd is running as $pid then. Filled several times, as the
# room of a temporary file comes and goes.
fill='
    $cmd 2>err.txt & pid=$!
    until [ -e disk/out/seed78_fold0.ckpt ]; do sleep 0.01; done
    for k in 1 2 3 4 5; do dd if=/dev/zero of=disk/filler$k bs=1k 2>/dev/null; sleep 0.02; done'

@test "CS03: the disk fills up while saving, and has room again: the run goes on, with a warning, to the same end" {
    unshare -rm true 2>/dev/null || skip "no user namespaces here"
    small epochs=1600 patience=1600
    train -q --fold 0 -o ref
    export cmd="${dntrain[*]} --fold 0 -o disk/out"
    # Room for the log of so many epochs in two checkpoints, a third on its way, the log and the package.
    run on_small_disk 3000k "$fill
        for i in {1..500}; do grep -q 'the run goes on' err.txt && break; sleep 0.01; done
        rm disk/filler?
        wait \$pid || { cat err.txt; exit 90; }
        cmp disk/out/seed78_fold0.h5 ref/seed78_fold0.h5 && cmp disk/out/seed78_fold0.log.tsv ref/seed78_fold0.log.tsv"
    expect_exit 0
    grep -q "warning.*the run goes on" err.txt
}

@test "CS03: the disk stays full: exit 6 when the package is due, or on a signal; what was saved goes on to the same end" {
    unshare -rm true 2>/dev/null || skip "no user namespaces here"
    small epochs=800 patience=800
    train -q --fold 0 -o ref
    export cmd="${dntrain[*]} --fold 0 -o disk/out"
    for how in "true" "sleep 0.2; kill -TERM \$pid"; do
        run on_small_disk 600k "$fill
            $how
            code=0
            wait \$pid || code=\$?
            [ \$code = 6 ] || exit 90
            [ ! -e disk/out/seed78_fold0.h5 ] || exit 91
            [ -z \"\$(find disk/out -name '*tmp*')\" ] || exit 92
            rm disk/filler?
            $cmd -q || exit 93
            cmp disk/out/seed78_fold0.h5 ref/seed78_fold0.h5 && cmp disk/out/seed78_fold0.log.tsv ref/seed78_fold0.log.tsv"
        expect_exit 0
        grep -q "No space left" err.txt
    done
}

@test "CS03: no room for the first checkpoint is exit 6 at once" {
    unshare -rm true 2>/dev/null || skip "no user namespaces here"
    small
    run on_small_disk 16k "${dntrain[*]} --fold 0 -o disk/out; code=\$?; find disk/out -type f; exit \$code"
    expect_exit 6
    refuse_text tmp lock.new
}
