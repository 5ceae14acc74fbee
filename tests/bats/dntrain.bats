#!/usr/bin/env bats
# dntrain's command line, configuration, tasks and the messages for what people get wrong.
load ../lib
load ../train

setup() { unset SLURM_ARRAY_TASK_ID SLURM_ARRAY_JOB_ID SLURM_JOB_ID SLURM_RESTART_COUNT; }

@test "a small model is trained: package, log, checkpoint; the log's shape; a second start ends at once" {
    small
    run train --fold 0 -o out
    expect_exit 0
    expect_text "people to train" "epoch 4:" "test accuracy"
    only_results out
    [ -e out/seed78_fold0.h5 ] && [ -e out/seed78_fold0.ckpt ]
    log=out/seed78_fold0.log.tsv
    head -1 "$log" | grep -qP '^epoch\ttrain_loss\ttrain_acc\tvalid_loss\tvalid_acc\teval_train_loss\teval_train_acc\tlr_aux\tlr_main$'
    [ "$(cut -f1 "$log" | paste -sd' ')" = "epoch 0 1 2 3 4 test" ]
    [ "$(awk -F'\t' '{print NF}' "$log" | sort -u)" = 9 ]
    [ "$(awk -F'\t' '$1 == 2 {print $8, $9}' "$log")" = "0.0019 0.0019" ]
    sum=$(sha256sum out/*)
    run train --fold 0 -o out
    expect_exit 0
    expect_text "is finished already"
    refuse_text "epoch 1:"
    [ "$(sha256sum out/*)" = "$sum" ]
}

@test "UX04: a wrong option or value is exit 2 with the nearest name" {
    small
    run train --fold 0 -o out --epoch 5
    expect_exit 2
    expect_text "--epochs"
    for bad in "--fold x" "--fold -1" "--epochs 1.5" "--epochs x" "--batch-size 1" "--batch-size 0" "--patience 0" "--task-type class" \
        "--lr-scale square" "--device gpu" "--inputs disk" "--checkpoint-minutes -1" "--checkpoint-minutes x" "--threads 0" "extra"; do
        # shellcheck disable=SC2086
        run train -o out --fold 0 $bad
        expect_exit 2
    done
    run train --fold 0 -o out --lr-scale sqrt
    expect_exit 2
    expect_text "--batch-size"
    run train --fold 0
    expect_exit 2
    expect_text "-o"
    [ ! -e out ]
}

@test "which task: --fold and --seed, or --folds x --seeds with --task or SLURM_ARRAY_TASK_ID" {
    small epochs=0
    q="--folds 0-1 --seeds 5,9,7 -o out -q"
    # shellcheck disable=SC2086
    train $q --task 4
    [ -e out/seed9_fold1.h5 ]
    # shellcheck disable=SC2086
    SLURM_ARRAY_TASK_ID=2 train $q
    [ -e out/seed7_fold0.h5 ]
    # shellcheck disable=SC2086
    SLURM_ARRAY_TASK_ID=2 train $q --task 0
    [ -e out/seed5_fold0.h5 ]
    train --fold 1 --seed 3 -o out -q
    [ -e out/seed3_fold1.h5 ]
    train --fold 1 -o out -q
    [ -e out/seed78_fold1.h5 ]
    [ "$(find out -name '*.h5' | wc -l)" = 5 ]
    # shellcheck disable=SC2086
    run train $q
    expect_exit 2
    expect_text "6 tasks" "--task"
    # shellcheck disable=SC2086
    run train $q --task 6
    expect_exit 2
    expect_text "6 tasks" "0 to 5"
    # shellcheck disable=SC2086
    SLURM_ARRAY_TASK_ID=x run train $q
    expect_exit 2
    for bad in "--folds 0-1 --task 0" "--seeds 5 --task 0" "--task 0" "" "--folds 0-1 --seeds 5 --fold 0 --task 0" "--folds 0,0 --seeds 1 --task 0" \
        "--folds a --seeds 1 --task 0" "--folds 0- --seeds 1 --task 0"; do
        # shellcheck disable=SC2086
        run train -o out $bad
        expect_exit 2
    done
    run train --fold 2 -o out
    expect_exit 2
    expect_text "2 folds"
    config c.yaml epochs=0 seed=
    run train --fold 0 -o out
    expect_exit 2
    expect_text "no seed"
    train --fold 0 --seed 1 -o out -q
    [ -e out/seed1_fold0.h5 ]
}

@test "configurations: tabs, missing and unknown keys, strings for numbers, each with file and line" {
    small
    check() {
        run train --fold 0 -o out
        expect_exit 4
        expect_text c.yaml "$@"
    }
    config c.yaml patience=
    check "lacks patience"
    config c.yaml patiense=3
    check "unknown key \"patiense\"" "did you mean patience" "line 11"
    config c.yaml 'lr_aux="0.001"'
    check "lr_aux" "without quotes" "line 6"
    config c.yaml lr_aux=fast
    check "lr_aux: found fast"
    printf 'zz:\t1\n' >>c.yaml
    check "a tab" "line 13"
    config c.yaml batch_size=1
    check "batch_size: found 1" "from 2"
    config c.yaml epochs=2.5
    check "epochs: found 2.5"
    config c.yaml dropout_main=1
    check "dropout_main"
    config c.yaml
    printf 'epochs: 3\n' >>c.yaml
    check "given twice"
    gzip -c c.yaml >c.gz && mv c.gz c.yaml
    check "gzip"
    rm c.yaml
    run train --fold 0 -o out
    expect_exit 3
    [ ! -e out ]
}

@test "inputs that are absent, damaged or of another kind are named" {
    small
    run "$BIN/dntrain" --data no.gpk --split s.h5 --config c.yaml --fold 0 -o out
    expect_exit 3
    expect_text no.gpk
    run "$BIN/dntrain" --data p.gpk --split no.h5 --config c.yaml --fold 0 -o out
    expect_exit 3
    expect_text no.h5
    run "$BIN/dntrain" --data p.bed --split s.h5 --config c.yaml --fold 0 -o out
    [ "$status" -ge 2 ] && [ "$status" -le 4 ]
    expect_text p.bed
    run "$BIN/dntrain" --data p.gpk --split p.gpk --config c.yaml --fold 0 -o out
    expect_exit 4
    head -c 5000 p.gpk >cut.gpk
    run "$BIN/dntrain" --data cut.gpk --split s.h5 --config c.yaml --fold 0 -o out
    expect_exit 4
    [ ! -e out/seed78_fold0.h5 ]
    # one bit of person 3's genotypes, which are used in place: whoever reads them says so
    "$PYTHON" - <<'PY'
import struct
b = bytearray(open("p.gpk", "rb").read())
row_bytes, rows_offset = struct.unpack_from("<QQ", b, 32)
b[rows_offset + 2 * row_bytes + 5] ^= 4
open("flip.gpk", "wb").write(b)
PY
    iid=$(awk 'NR == 3 { print $2 }' p.fam)
    for reader in "dntrain --data flip.gpk --split s.h5 --config c.yaml --fold 0 -o out" \
        "dnsplit flip.gpk --folds 2 --seed 1 --stats-npz no.npz --embedding-npz no2.npz -o no.h5"; do
        read -ra words <<<"$reader"
        run "$BIN/${words[0]}" "${words[@]:1}"
        expect_exit 4
        expect_text "flip.gpk: the genotypes of person 3 ($iid) are damaged"
    done
    [ ! -e no.h5 ] && [ ! -e no.npz ]
    # a cohort that snpmatch made is no panel
    "$TOOLS/dnsim" -q -o nolab -n 120 -m 300
    "$BIN/gpack" -q --bfile nolab -o nolab.gpk
    run "$BIN/dntrain" --data nolab.gpk --split s.h5 --config c.yaml --fold 0 -o out
    expect_exit 5
    only_results out
}

@test "a split of another dataset is refused by both fingerprints" {
    small
    panel other -s 5
    run "$BIN/dntrain" --data other.gpk --split s.h5 --config c.yaml --fold 0 -o out
    expect_exit 5
    expect_text s.h5 other.gpk "another dataset" dnsplit
}

@test "UX03: the output folder is made, tested before work starts, and never blocks a second run" {
    small epochs=1
    run train --fold 0 -o no/such/out
    expect_exit 6
    expect_text no/such/out
    run train --fold 0 -o c.yaml
    expect_exit 2
    expect_text "c.yaml is a file"
    if [ "$(id -u)" -ne 0 ]; then
        mkdir -m 0555 ro
        run train --fold 0 -o ro
        expect_exit 6
    fi
    run train --fold 0 -o out --data c.yaml
    [ "$status" -ne 0 ]
    run train --fold 0 -o out
    expect_exit 0
    only_results out
}

@test "--batch-size with --lr-scale changes the learning rates as documented" {
    small epochs=1 lr_main=0.004
    rates() { awk -F'\t' '$1 == 1 {print $8, $9}' "$1/seed78_fold0.log.tsv"; }
    train -q --fold 0 -o a --batch-size 64
    [ "$(rates a)" = "0.002 0.004" ]
    train -q --fold 0 -o b --batch-size 64 --lr-scale sqrt
    [ "$(rates b)" = "0.004 0.008" ]
    train -q --fold 0 -o c --batch-size 64 --lr-scale linear
    [ "$(rates c)" = "0.008 0.016" ]
    # as good as saying so in the file
    config c.yaml epochs=1 batch_size=64 lr_aux=0.004 lr_main=0.008
    train -q --fold 0 -o d
    same_results b d
}

@test "--epochs and --patience replace the configuration's; patience counts epochs without a better model" {
    small epochs=100 patience=50
    train -q --fold 0 -o a --epochs 2
    [ "$(tail -2 a/seed78_fold0.log.tsv | cut -f1 | paste -sd' ')" = "2 test" ]
    train -q --fold 0 -o b --patience 3 --skip-train-eval
    awk -F'\t' 'NR > 1 && $1 != "test" {e = $1; if (NR == 2 || $5 > acc || ($5 == acc && $4 < loss)) {acc = $5; loss = $4; best = $1}}
        END {exit !(e == best + 3 && e < 100)}' b/seed78_fold0.log.tsv
}

@test "--skip-train-eval: the model is the same, the log lacks two columns' values" {
    small
    train -q --fold 0 -o a
    train -q --fold 0 -o b --skip-train-eval
    cut -f1-5,8,9 a/seed78_fold0.log.tsv >a.txt
    cut -f1-5,8,9 b/seed78_fold0.log.tsv >b.txt
    cmp a.txt b.txt
    [ -z "$(cut -f6,7 b/seed78_fold0.log.tsv | sed 1d | tr -d '\t\n')" ]
    [ "$("$PYTHON" "$TESTS/train_check.py" weights-hash a/seed78_fold0.h5)" = "$("$PYTHON" "$TESTS/train_check.py" weights-hash b/seed78_fold0.h5)" ]
}

@test "--rng fast: other dropout, all else the same; the same bytes for 1, 2 and 7 threads and in two goes; never mixed" {
    small
    train -q --fold 0 -o ref
    train -q --fold 0 -o fast --rng fast
    run cmp -s ref/seed78_fold0.h5 fast/seed78_fold0.h5
    expect_exit 1
    # The initial model is the same, and so is a run in which nothing is dropped.
    [ "$(sed -n 2p ref/seed78_fold0.log.tsv)" = "$(sed -n 2p fast/seed78_fold0.log.tsv)" ]
    config none.yaml input_dropout=0 dropout_main=0
    train -q --fold 0 -o r0 --config none.yaml
    train -q --fold 0 -o f0 --config none.yaml --rng fast
    cmp r0/seed78_fold0.log.tsv f0/seed78_fold0.log.tsv
    for t in 2 7; do
        train -q --fold 0 -o "t$t" --rng fast --threads $t
        same_results fast "t$t"
    done
    # In two goes; the kind is part of what the run is, and the package says which.
    train -q --fold 0 -o half --rng fast --epochs 2
    rm half/seed78_fold0.h5
    run train --fold 0 -o half
    expect_exit 5
    expect_text "seed78_fold0.ckpt is of another run" "rng: fast there" "--force"
    run train --fold 0 -o half --rng fast
    expect_exit 0
    same_results fast half
    run train --fold 0 -o fast
    expect_exit 5
    expect_text "rng: fast there"
    run train --fold 0 -o ref --rng fast
    expect_exit 5
    expect_text "rng: " "fast here"
    run "$PYTHON" -c 'import h5py, sys; print(bytes(h5py.File(sys.argv[1])["config_yaml"][()]).decode())' fast/seed78_fold0.h5
    expect_exit 0
    expect_text "# rng: fast"
    run train --fold 0 -o x --rng quick
    expect_exit 2
    expect_text "--rng" "upstream|fast"
}

@test "numbers in the log read back as the same numbers" {
    small
    train -q --fold 0 -o a
    "$PYTHON" "$TESTS/train_check.py" round-trip a/seed78_fold0.log.tsv
}

@test "the memory bound is kept or refused before work" {
    small epochs=0
    run train --fold 0 -o out --memory 10M
    expect_exit 7
    expect_text "--memory"
    run train --fold 0 -o out --memory 1G
    expect_exit 0
}

@test "a second reader, written from docs/format-checkpoint.md, finds in a checkpoint what log and package say" {
    small
    train -q --fold 0 -o out
    run "$PYTHON" "$TESTS/train_check.py" checkpoint out/seed78_fold0.ckpt out/seed78_fold0.log.tsv out/seed78_fold0.h5
    expect_exit 0
}
