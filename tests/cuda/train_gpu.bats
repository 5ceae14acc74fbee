#!/usr/bin/env bats
# dntrain through the plugin against dntrain on the CPU, and against itself when it was stopped, moved or failed.
load ../lib
load ../train
load gpu

setup() {
    gpu_setup
    gpu=(--device cuda)
    cpu=(--device cpu)
}

check() { "$PYTHON" "$TESTS/train_check.py" "$@"; }

# same_run A B LOSSES ARRAYS: losses of every epoch (relative), best epoch, networks and optimisers of two runs within these
# tolerances; draws are the same. Arrays may differ by more: Adam divides by the size of a gradient, however small.
same_run() {
    need_h5py
    local n=seed78_fold0
    run check log "$1/$n.log.tsv" "$2/$n.log.tsv" "$3"
    expect_exit 0
    echo "# $1: $output" >&3
    run check best "$1/$n.log.tsv" "$2/$n.log.tsv"
    expect_exit 0
    for e in h5 ckpt; do
        run check near "$1/$n.$e" "$2/$n.$e" "$4"
        expect_exit 0
        echo "# $1: $e: $output" >&3
    done
    [ "$(check draws "$1/$n.ckpt")" = "$(check draws "$2/$n.ckpt")" ]
}

@test "a whole training run equals the CPU's; the log says where it ran" {
    small
    train -q --fold 0 -o cpu "${cpu[@]}"
    run train --fold 0 -o gpu "${gpu[@]}"
    expect_exit 0
    expect_text "device: cuda (" "memory on the GPU: "
    same_run gpu cpu 1e-4 1e-3
    only_results gpu
}

@test "nets of every shape equal the CPU's: one auxiliary layer, none, three; no hidden layer, two; dropout or none; last batch of one" {
    i=0
    for net in "nb_hidden_u_aux=[5]" "nb_hidden_u_aux=[]" "nb_hidden_u_aux=[9,7,5] nb_hidden_u_main=[]" \
        "nb_hidden_u_main=[6,11] dropout_main=0" "input_dropout=0" "batch_size=35" "batch_size=500 input_dropout=0.5"; do
        i=$((i + 1))
        # shellcheck disable=SC2086
        small epochs=2 $net
        train -q --fold 0 -o cpu$i "${cpu[@]}"
        train -q --fold 0 -o gpu$i "${gpu[@]}"
        same_run gpu$i cpu$i 1e-4 1e-3
        rm p.* s.h5
    done
}

@test "--rng fast: the same dropout from counters on both" {
    small input_dropout=0.3
    train -q --fold 0 -o cpu "${cpu[@]}" --rng fast
    train -q --fold 0 -o gpu "${gpu[@]}" --rng fast
    same_run gpu cpu 1e-4 1e-3
}

@test "no program forks once CUDA may be in use: every HDF5 file is looked at before" {
    need_shim
    [ "${VARIANT:-cpu}" = cpu ] || skip "sanitizers want to be loaded first"
    small epochs=1
    ${CC:-cc} -D_GNU_SOURCE -shared -fPIC "$TESTS/fork_spy.c" -o spy.so -ldl
    "$BIN/gpack" -q -d p.gpk -o p.h5
    for epochs in 1 2; do # from nothing, and beside a checkpoint and a package
        LD_PRELOAD=$PWD/spy.so run "$BIN/dntrain" --data p.h5 --split s.h5 --config c.yaml --threads 1 --fold 0 -o out --epochs $epochs "${gpu[@]}"
        expect_exit 0
        expect_text "fork: plugin not loaded"
        refuse_text "fork: plugin loaded"
    done
    "$TOOLS/dnsim" -q -o q -n 120 -m 300 -k 4 --regions 2 --cohort 20
    "$BIN/snpmatch" -q --bfile q_cohort --model out -o c.h5 -f 2>/dev/null
    LD_PRELOAD=$PWD/spy.so run "$BIN/dnpredict" --model out c.h5 -o t.tsv --scores sc.h5 --report r.html "${gpu[@]}"
    expect_exit 0
    expect_text "fork: plugin not loaded"
    refuse_text "fork: plugin loaded"
}

@test "regression equals the CPU's" {
    cd "$BATS_TEST_TMPDIR"
    "$TOOLS/dnsim" -q -o p -n 120 -m 300 -k 4 --regions 2 --missing 0.02
    awk 'BEGIN {print "sample\tvalue"} {print $2 "\t" NR % 7 / 3}' p.fam >numbers.tsv
    "$BIN/gpack" -q --bfile p --labels p.labels.tsv --regression-labels numbers.tsv -o p.gpk
    folds p.gpk s.h5 "0 train 0-70" "0 valid 71-95" "0 test 96-119"
    config c.yaml epochs=3
    for d in cpu cuda; do train -q --fold 0 -o $d --task-type regression --device $d; done
    same_run cuda cpu 1e-4 1e-3
}

@test "GP04: twice the same run on a device: same order, same bytes; for any number of threads and every way of reading" {
    small
    train -q --fold 0 -o a "${gpu[@]}"
    train -q --fold 0 -o b "${gpu[@]}" --threads 2
    same_results a b
    cmp a/seed78_fold0.ckpt b/seed78_fold0.ckpt
    "$BIN/gpack" -q -d p.gpk -o p.h5
    for inputs in ram memmap; do
        "$BIN/dntrain" -q --data p.h5 --split s.h5 --config c.yaml --threads 1 --fold 0 -o $inputs --inputs $inputs "${gpu[@]}"
        same_results a $inputs
    done
}

# stopped DIR SIGNAL: starts, and sends the signal at a random moment after the first checkpoint. $code is the exit status.
stopped() {
    local dir=$1 signal=$2 pid
    "${dntrain[@]}" -q --fold 0 -o "$dir" --checkpoint-minutes 0 "${gpu[@]}" 2>"$dir.err" &
    pid=$!
    until [ -e "$dir/seed78_fold0.ckpt" ] || ! kill -0 $pid 2>/dev/null; do nap 5; done
    nap $((RANDOM * 300 / 32768))
    kill -"$signal" $pid 2>/dev/null || true
    code=0
    wait $pid || code=$?
}

@test "CL02, CS02: stopped by SIGTERM, SIGUSR1 and kill -9 in the middle, and continued on the device: the same bytes" {
    small epochs=12 batch_size=6
    train -q --fold 0 -o ref "${gpu[@]}"
    seen=0
    for signal in TERM USR1 KILL TERM KILL TERM; do
        rm -rf out
        stopped out $signal
        case $code in
        0) ;;
        75 | 137) seen=$((seen + 1)) ;;
        *) echo "SIG$signal: exit $code: $(cat out.err)"; false ;;
        esac
        run train --fold 0 -o out "${gpu[@]}"
        expect_exit 0
        same_results ref out || { echo "after SIG$signal: differs"; false; }
        only_results out
    done
    echo "# $seen of 6 were stopped before their end" >&3
    [ $seen -ge 2 ]
}

@test "epoch border: 4 epochs are 2 + 2 on the device, byte for byte" {
    small
    train -q --fold 0 -o ref "${gpu[@]}"
    train -q --fold 0 -o out --epochs 2 "${gpu[@]}"
    train -q --fold 0 -o out "${gpu[@]}"
    same_results ref out
}

@test "a run moves from CPU to GPU to CPU, and ends where it would have ended on either" {
    small epochs=6
    train -q --fold 0 -o ref "${cpu[@]}"
    train -q --fold 0 -o out --epochs 2 "${cpu[@]}"
    run train --fold 0 -o out --epochs 4 "${gpu[@]}"
    expect_exit 0
    expect_text "going on from the checkpoint: after epoch 2" "device: cuda"
    train -q --fold 0 -o out "${cpu[@]}"
    same_run out ref 1e-4 1e-3
}

@test "--precision tf32 is part of a run's identity, the device is not" {
    small epochs=2
    train -q --fold 0 -o out --epochs 1 --precision tf32 "${gpu[@]}"
    run train --fold 0 -o out "${gpu[@]}"
    expect_exit 5
    expect_text "precision"
    rm out/*.ckpt*
    run train --fold 0 -o out --epochs 1 "${gpu[@]}"
    expect_exit 5
    expect_text "precision: tf32"
    train -q --fold 0 -o out2 "${gpu[@]}" --epochs 1
    run train --fold 0 -o out2 "${gpu[@]}" --precision tf32
    expect_exit 5
    expect_text "precision: tf32"
}

@test "an error in mid-run is exit 9 with the call's name; log, checkpoint and best model are whole, and it goes on to the same bytes" {
    need_shim
    small epochs=2
    train -q --fold 0 -o ref "${gpu[@]}"
    # Until several in a row went well: one that did may have failed where nothing depends on it (a look at the device).
    n=1 seen=0 late=0 well=0
    while [ $well -lt 3 ]; do
        rm -rf out
        DN_SHIM_FAIL=$n run train --fold 0 -o out "${gpu[@]}"
        if [ "$status" -eq 0 ]; then
            same_results ref out
            well=$((well + 1))
        else
            well=0
            expect_exit 9
            [[ $output == *": "*cu[dbB]* || $output == *"GPU"* ]] || { echo "call $n: $output"; false; }
            if [ -e out ]; then
                only_results out
                [ ! -e out/seed78_fold0.h5 ]
                [ ! -e out/seed78_fold0.ckpt ] || late=$((late + 1))
            fi
            # Every so often it is finished: most failures lie in the loop over batches, and are alike.
            if [ $((seen % 4)) = 0 ]; then
                train -q --fold 0 -o out "${gpu[@]}"
                same_results ref out
            fi
            seen=$((seen + 1))
        fi
        n=$((n + 1 + n / 6))
        [ $n -lt 10000000 ]
    done
    echo "# $seen failing calls up to number $n, $late of them after a checkpoint" >&3
    [ $seen -ge 20 ]
    [ $late -ge 3 ]
}

@test "genotypes that do not fit on the GPU are brought there batch by batch: the same bytes; weights that do not fit are exit 9" {
    need_shim
    cd "$BATS_TEST_TMPDIR"
    panel p -n 600 -m 3000
    folds p.gpk s.h5 "0 train 0-399" "0 valid 400-499" "0 test 500-599"
    config c.yaml epochs=1 batch_size=64
    train -q --fold 0 -o ref "${gpu[@]}"
    fits=0 fails=0
    for kib in 256 512 1024 1536 2048 3072 4096 8192 16384; do
        DN_SHIM_MEMORY=$((kib * 1024)) run train -q --fold 0 -o out$kib "${gpu[@]}"
        if [ "$status" -eq 9 ]; then
            expect_text "out of memory"
            fails=$((fails + 1))
        else
            expect_exit 0
            same_results ref out$kib
            fits=$((fits + 1))
        fi
    done
    echo "# $fails sizes of a GPU were too small, $fits were not" >&3
    [ $fails -ge 1 ]
    [ $fits -ge 2 ]
}

@test "two and three GPUs share a batch: the same bytes each time, the CPU's run within tolerance" {
    need_shim
    small
    export DN_SHIM_DEVICES=3
    train -q --fold 0 -o cpu "${cpu[@]}"
    for n in 2 3; do
        run train --fold 0 -o a$n "${gpu[@]}" --gpus $n
        expect_exit 0
        expect_text "device: cuda ($n of 3 GPUs, Shim 0"
        train -q --fold 0 -o b$n "${gpu[@]}" --gpus $n
        same_results a$n b$n
        same_run a$n cpu 1e-4 1e-3
    done
}

@test "golden kgp3 through the plugin: upstream's losses of the first epochs to 1e-5" {
    need_shared
    need_h5py
    cd "$BATS_TEST_TMPDIR"
    local g=$SHARED/golden/kgp3
    "$BIN/gpack" -q --bfile "$SHARED/realdata/kgp3_26pop/kgp3_26pop_all" --labels "$g/labels.tsv" -o kgp3.gpk
    check npz-folds "$g/upstream/partition_seed124.npz" >folds.txt
    "$TOOLS/mksplit" kgp3.gpk folds.txt split.h5
    "$BIN/dntrain" -q --data kgp3.gpk --split split.h5 --config "$g/train/ind/config.yaml" --fold 0 -o gpu --epochs 2 "${gpu[@]}"
    run check log gpu/seed78_fold0.log.tsv "$g/train/ind/log.tsv" 1e-5 2
    expect_exit 0
    echo "# $output" >&3
}
