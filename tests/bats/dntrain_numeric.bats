#!/usr/bin/env bats
# Degenerate data and numbers that run away; equal runs are equal bytes; dntrain against the oracle on random networks.
load ../lib
load ../train

setup() {
    unset SLURM_ARRAY_TASK_ID SLURM_ARRAY_JOB_ID SLURM_JOB_ID SLURM_RESTART_COUNT
    cd "$BATS_TEST_TMPDIR" || return 1
}

# h5set NAME "python: x (int8 N x M), y (classes), t (targets) are there to be changed": upstream's layout, 4 classes.
h5set() {
    "$PYTHON" - "$1" "$2" <<'PY'
import sys
import h5py
import numpy as np
r = np.random.RandomState(5)
n, m = 60, 90
y = np.arange(n) % 4
x = r.binomial(2, r.uniform(0.1, 0.9, (4, m))[y]).astype('i1')
x[r.uniform(size=x.shape) < 0.02] = -1
t = y + 0.1 * r.normal(size=n)
names = ['A', 'B', 'C', 'D']
exec(sys.argv[2])
with h5py.File(sys.argv[1] + '.h5', 'w') as f:
    f['inputs'] = x
    f['samples'] = np.array([f'S{i}' for i in range(len(x))], 'S8')
    f['snp_names'] = np.array([f'rs{j}' for j in range(x.shape[1])], 'S8')
    if y is not None:
        f['class_labels'] = np.asarray(y, 'i8')
        f['class_label_names'] = np.array(names, 'S8')
    if t is not None:
        f['regression_labels'] = np.asarray(t, 'f8')
PY
}

# numeric NAME CODE [fold lines]: the set with its split and configuration, as p.h5 and s.h5.
numeric() {
    h5set p "$1"
    shift
    [ $# -gt 0 ] || set -- "0 train 0-35" "0 valid 36-47" "0 test 48-59"
    folds p.h5 s.h5 "$@"
    [ -e c.yaml ] || config c.yaml
    rm -rf out
}
ntrain() { "$BIN/dntrain" --data p.h5 --split s.h5 --config c.yaml --threads 1 --fold 0 -o out "$@"; }
finite_log() { "$PYTHON" "$TESTS/train_check.py" finite out/seed78_fold0.log.tsv out/seed78_fold0.h5; }

@test "NU01: SNPs that do not vary, all het, or vary in the held-out people only contribute nothing, and are counted" {
    numeric "x[:, 0] = 0; x[:, 1] = 2; x[:, 2] = 1; x[:36, 3] = 1; x[36:, 3] = np.arange(24) % 3; x[:36, 4] = 0; x[36:, 4] = 2"
    run ntrain
    expect_exit 0
    expect_text "5 of 90 SNPs do not vary in the training set and contribute nothing (0 of them have no call)"
    finite_log
    cp -r out first
    # Their values among held-out people change nothing.
    numeric "x[:, 0] = 0; x[:, 1] = 2; x[:, 2] = 1; x[:36, 3] = 1; x[36:, 3] = 0; x[:36, 4] = 0; x[36:, 4] = -1"
    ntrain -q
    cmp first/seed78_fold0.log.tsv out/seed78_fold0.log.tsv
}

@test "NU01: no SNP varies in the training set: exit 10, nothing written" {
    numeric "x[:36] = 1"
    run ntrain
    expect_exit 10
    expect_text "no SNP varies"
    only_results out
}

@test "NU02: a SNP without calls in the fold, one with a single call, a person without calls" {
    numeric "x[:, 0] = -1; x[:36, 1] = -1; x[:36, 2] = -1; x[7, 2] = 1; x[5] = -1; x[40] = -1; x[50] = -1"
    run ntrain
    expect_exit 0
    expect_text "3 of 90 SNPs do not vary" "(2 of them have no call)"
    finite_log
}

@test "NU03: learning rate 1e30 is exit 10 with epoch and batch; best model, log and checkpoint as they were; no package" {
    config c.yaml lr_main=1e30 lr_aux=1e30 dropout_main=0
    numeric ""
    run ntrain
    expect_exit 10
    expect_text "epoch 1, " "not finite" "the best model so far (epoch 0)"
    [[ $output == *"batch "*" of 3"* || $output == *"validation"* ]]
    [ ! -e out/seed78_fold0.h5 ]
    only_results out
    # Not done: the next start says the same. The checkpoint is that of the last good state.
    before=$(sha256sum out/*)
    run ntrain
    expect_exit 10
    [ "$before" = "$(sha256sum out/*)" ]
    # In a later epoch: the annealing makes the rates explode in the third one. What is there is that of the second.
    config c.yaml learning_rate_annealing=1e5 epochs=9
    rm -rf out
    run ntrain
    expect_exit 10
    epoch=$(sed -n 's/.*dntrain: epoch \([0-9]*\), .*not finite.*/\1/p' <<<"$output")
    [ "$epoch" -ge 2 ]
    [ "$(tail -1 out/seed78_fold0.log.tsv | cut -f1)" = $((epoch - 1)) ]
    # Up to there it is a run like any other.
    cp -r out stopped
    rm -rf out
    ntrain -q --epochs $((epoch - 1))
    cmp <(sed '$d' out/seed78_fold0.log.tsv) stopped/seed78_fold0.log.tsv
}

@test "NU03: an empty validation set is exit 10 before training; an empty test set is a warning" {
    numeric "" "0 train 0-35" "0 test 48-59"
    run ntrain
    expect_exit 10
    expect_text "validation set of fold 0 is empty"
    numeric "" "0 train 0-35" "0 valid 48-59"
    run ntrain
    expect_exit 0
    expect_text "test set of fold 0 is empty"
    [ "$(tail -1 out/seed78_fold0.log.tsv | tr -d '\t')" = test ]
    run ntrain
    expect_exit 0
    expect_text "finished already"
}

@test "NU04: 17 people in batches of 16, 33 in 16, 1 in 16, fewer than a batch" {
    steps() { "$PYTHON" "$TESTS/train_check.py" steps out/seed78_fold0.ckpt; }
    config c.yaml epochs=2
    numeric "" "0 train 0-16" "0 valid 36-47" "0 test 48-59"
    run ntrain
    expect_exit 0
    expect_text "joins the batch before"
    [ "$(steps)" = 2 ]
    numeric "" "0 train 0-32" "0 valid 36-47" "0 test 48-59"
    ntrain -q
    [ "$(steps)" = 4 ]
    finite_log
    numeric "" "0 train 0-33" "0 valid 36-47" "0 test 48-59"
    ntrain -q
    [ "$(steps)" = 6 ]
    numeric "" "0 train 0" "0 valid 36-47" "0 test 48-59"
    run ntrain
    expect_exit 10
    expect_text "is of size 1" "2 people or more"
    numeric "" "0 train 0-1" "0 valid 36" "0 test 48"
    run ntrain
    expect_exit 0
    finite_log
    numeric ""
    run ntrain --batch-size 1000
    expect_exit 0
    expect_text "more than the 36 people to train"
    [ "$(steps)" = 2 ]
    run ntrain --batch-size 1
    expect_exit 2
}

@test "NU05: a class with one person, a class in the held-out set only, one class" {
    numeric "y = np.where(np.arange(n) == 3, 1, 0); names = ['A', 'B']"
    run ntrain
    expect_exit 0
    expect_text "class B: 1 to train, 0 to validate, 0 to test"
    finite_log
    numeric "y = np.where(np.arange(n) >= 50, 2, np.arange(n) % 2); names = ['A', 'B', 'C']"
    run ntrain
    expect_exit 0
    expect_text "class C: 0 to train, 0 to validate, 10 to test" "warning: class C has nobody in the training set"
    finite_log
    numeric "y = 0 * y; names = ['A']"
    run ntrain
    expect_exit 10
    expect_text "one class"
}

@test "labels: regression labels that are NaN or infinite, people without a class, the other kind of labels" {
    numeric "t[40] = np.nan"
    run ntrain --task-type regression
    expect_exit 5
    expect_text "S40" "no finite regression label"
    h5set p "t[40] = np.inf"
    run ntrain --task-type regression
    expect_exit 4
    expect_text "S40" "infinite"
    numeric "y[41] = -1"
    run ntrain
    expect_exit 5
    expect_text "S41" "no class label"
    # outside of the fold it is nobody's business
    numeric "y[41] = -1; t[41] = np.nan" "0 train 0-35" "0 valid 36-40" "0 test 42-59"
    ntrain -q
    rm -rf out
    ntrain -q --task-type regression
    finite_log
    [ "$(head -1 out/seed78_fold0.log.tsv)" = "$(printf 'epoch\ttrain_loss\tvalid_loss\teval_train_loss\tlr_aux\tlr_main')" ]
    # without classes the embedding is that of the training set as one class
    numeric "y = None"
    run ntrain --task-type regression
    expect_exit 0
    expect_text "as one class"
    finite_log
    run ntrain --force
    expect_exit 5
    expect_text "no class labels" "--task-type regression"
    numeric "t = None"
    run ntrain --task-type regression
    expect_exit 5
    expect_text "no regression labels"
}

@test "a genotype that is none is named with person and SNP" {
    numeric ""
    h5set p "x[30, 17] = 5"
    for how in ram memmap; do
        run ntrain --inputs $how
        expect_exit 4
        expect_text p.h5 "holds 5" S30
        [ ! -e out/seed78_fold0.h5 ]
    done
}

@test "GP04: two equal runs are equal bytes; another seed, fold or configuration is not" {
    panel p
    folds p.gpk s.h5 "0 train 0-70" "0 valid 71-95" "0 test 96-119" "1 train 1-70" "1 valid 71-95" "1 test 96-119"
    config c.yaml
    train -q --fold 0 -o a
    train -q --fold 0 -o b
    same_results a b
    train -q --fold 0 --seed 79 -o a
    run cmp -s a/seed78_fold0.h5 a/seed79_fold0.h5
    expect_exit 1
    train -q --fold 1 -o a
    run cmp -s a/seed78_fold0.log.tsv a/seed78_fold1.log.tsv
    expect_exit 1
}

@test "1, 2, 7 and 16 threads, and every way of reading, give the same bytes: odd sizes" {
    panel p -n 117 -m 257
    folds p.gpk s.h5 "0 train 0-64" "0 valid 65-90" "0 test 91-116"
    config c.yaml
    train -q --fold 0 -o ref
    for t in 2 7 16; do
        train -q --fold 0 -o "t$t" --threads $t
        same_results ref "t$t"
    done
    for how in ram memmap packed auto; do
        train -q --fold 0 -o "i$how" --inputs $how
        same_results ref "i$how"
    done
    "$BIN/gpack" -q -d p.gpk -o p2.h5
    "$BIN/gpack" -q -z p2.h5 -o pz.gpk
    for how in ram memmap packed; do
        train -q --fold 0 -o "h$how" --data p2.h5 --inputs $how
        same_results ref "h$how"
    done
    train -q --fold 0 -o z --data pz.gpk
    same_results ref z
    run train --fold 0 -o z2 --data pz.gpk --inputs memmap
    expect_exit 8
    expect_text "compressed"
    numeric ""
    ntrain -q && mv out one
    for how in ram memmap packed; do
        ntrain -q --inputs $how
        same_results one out
        rm -rf out
    done
}

@test "30 random networks agree with the oracle to 1e-5: 0 to 3 hidden layers, odd sizes, missing calls, last batches of one" {
    need_shared
    run "$PYTHON" "$TESTS/train_oracle.py" "$SHARED/oracle/dietnet_ref.py" "$BIN" "$TOOLS" $(seq 1 30)
    expect_exit 0
    expect_text "30 networks"
}

@test "networks of 33,000 SNPs agree with the oracle to 1e-5; 1 and 3 threads give the same bytes" {
    need_shared
    run "$PYTHON" "$TESTS/train_oracle.py" "$SHARED/oracle/dietnet_ref.py" "$BIN" "$TOOLS" 1000 1001
    expect_exit 0
    expect_text "2 networks"
    for t in 1 3; do
        "$BIN/dntrain" -q --data case1000.gpk --split case1000.split.h5 --config case1000.yaml --fold 0 -o "t$t" --threads $t
    done
    cmp t1/*.h5 t3/*.h5
}
