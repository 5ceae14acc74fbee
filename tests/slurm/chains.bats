#!/usr/bin/env bats
# The chains from end to end on a real SLURM whose MaxArraySize is 3 (so that four tasks take two arrays), in folders with
# blanks in their names: the results equal, byte for byte, those of the same steps by hand.
load ../lib
load slurm

setup_file() {
    slurm_up 3
    export BASE="$BATS_FILE_TMPDIR/my results" HAND=$BATS_FILE_TMPDIR/hand
    mkdir -p "$BASE" "$HAND"
    export TRAIN_PREFIX=$PANEL TRAIN_LABELS=$PANEL.labels.tsv RUN_DIR="$BASE/train" FOLDS=2 SPLIT_SEED=124 SEED_LIST=78,23
    export CONFIG="$BASE/my config.yaml" MODEL_DIR="$BASE/train/models" TEST_PREFIX=$COHORT WORK_DIR="$BASE/predict" OUT="$BASE/all people.tsv"
    config "$CONFIG" 3
    one=(-- --cpus-per-task=1 --mem=600M)
    "$CODE_LOC/slurm/submit_train.sh" "${one[@]}" >"$BATS_FILE_TMPDIR/train.out" 2>&1
}
teardown_file() { slurm_down; }
setup() { one=(-- --cpus-per-task=1 --mem=600M); }
# last_of FILE NAME: the job number behind a name in a submit script's last line.
last_of() { sed -n "s/.*\b$2 \([0-9:]*\).*/\1/p" "$1" | tail -1; }
all_over() { ! squeue -h | grep -q .; }

@test "train: pack, split, four tasks in two arrays, check: packages equal those made by hand" {
    check=$(last_of "$BATS_FILE_TMPDIR/train.out" check)
    wait_over "$check"
    cat "$BATS_FILE_TMPDIR/train.out"
    [[ $(last_of "$BATS_FILE_TMPDIR/train.out" train) =~ ^[0-9]+:[0-9]+$ ]]
    [ "$(state "$check")" = COMPLETED ]
    "$BIN/gpack" -q --bfile "$PANEL" --labels "$PANEL.labels.tsv" -o "$HAND/dataset.gpk"
    "$BIN/dnsplit" -q "$HAND/dataset.gpk" --folds 2 --seed 124 -o "$HAND/split.h5" >/dev/null
    cmp "$HAND/dataset.gpk" "$RUN_DIR/dataset.gpk"
    cmp "$HAND/split.h5" "$RUN_DIR/split.h5"
    for f in 0 1; do
        for s in 78 23; do
            "$BIN/dntrain" -q --data "$HAND/dataset.gpk" --split "$HAND/split.h5" --config "$CONFIG" --fold $f --seed $s --threads 1 -o "$HAND/models"
            cmp "$HAND/models/seed${s}_fold$f.h5" "$RUN_DIR/models/seed${s}_fold$f.h5"
        done
    done
    [ "$(find "$RUN_DIR/models" -name '*.h5' | wc -l)" = 4 ]
    [ -s "$RUN_DIR/report.html" ]
    # Each log is named by step, array and task, and starts with a header.
    for log in "$RUN_DIR"/logs/*.log; do
        head -1 "$log" | grep -qE '== dn-[a-z]+ [0-9_]+ start 1 on .*, commit '
    done
    [ "$(find "$RUN_DIR/logs" -name 'dn-train_*_*.log' | wc -l)" = 4 ]
}

@test "train, submitted again: every step ends at once and no file changes" {
    stamp() { find "$RUN_DIR" -name '*.h5' -o -name '*.gpk' | xargs -d '\n' stat -c '%n %i %y' | sort; }
    before=$(stamp)
    run "$CODE_LOC/slurm/submit_train.sh" "${one[@]}"
    expect_exit 0
    check=$(sed -n 's/.*check \([0-9]*\).*/\1/p' <<<"$output" | tail -1)
    wait_over "$check"
    [ "$(state "$check")" = COMPLETED ]
    [ "$before" = "$(stamp)" ]
    grep -q "nothing to do" "$RUN_DIR"/logs/dn-pack_*.log
}

@test "predict: match, four shards in two arrays, join: the table equals the one made by hand" {
    run "$CODE_LOC/slurm/submit_predict.sh" "${one[@]}"
    expect_exit 0
    expect_text "957 people x 14079 SNPs" "4 models"
    join=$(sed -n 's/.*join \([0-9]*\).*/\1/p' <<<"$output" | tail -1)
    wait_over "$join"
    [ "$(state "$join")" = COMPLETED ]
    "$BIN/snpmatch" -q --bfile "$COHORT" --model "$HAND/models" -o "$HAND/matched.gpk" --report "$HAND/report.tsv"
    "$BIN/dnpredict" -q --model "$HAND/models" "$HAND/matched.gpk" -o "$HAND/predictions.tsv"
    cmp "$HAND/matched.gpk" "$WORK_DIR/matched.gpk"
    cmp "$HAND/report.tsv" "$WORK_DIR/match_report.tsv"
    cmp "$HAND/predictions.tsv" "$OUT"
}

@test "another cohort in the same folder is refused, naming what changed" {
    TEST_PREFIX=$PANEL run "$CODE_LOC/slurm/submit_predict.sh" "${one[@]}"
    expect_exit 0
    match=$(sed -n 's/^match \([0-9]*\),.*/\1/p' <<<"$output" | tail -1)
    until_true 120 all_over
    [[ $(scontrol -o show job "$match") == *ExitCode=5:0* ]]
    # Those that would have followed have left the queue.
    join=$(sed -n 's/.*join \([0-9]*\).*/\1/p' <<<"$output" | tail -1)
    [ "$(state "$join")" = CANCELLED ]
    run cat "$WORK_DIR/logs/dn-match_$match.log"
    expect_text "made from other inputs" "hapmap3_14k" "kgp1_14k"
    cmp "$HAND/predictions.tsv" "$OUT"
}

@test "a predict shard is killed: no table, join refuses and names it; submitted again, only that shard is made" {
    bad=$BATS_TEST_TMPDIR/code
    mkdir -p "$bad/build/bin"
    ln -s "$CODE_LOC/slurm" "$bad/slurm"
    ln -s "$BIN/snpmatch" "$bad/build/bin"
    # shellcheck disable=SC2016
    printf '#!/bin/bash\n[[ " $* " != *" --shard 3/4 "* ]] || kill -9 $$\nexec "%s/dnpredict" "$@"\n' "$BIN" >"$bad/build/bin/dnpredict"
    chmod +x "$bad/build/bin/dnpredict"
    export WORK_DIR="$BASE/predict 2" OUT="$BASE/again.tsv"
    CODE_LOC=$bad run "$bad/slurm/submit_predict.sh" "${one[@]}"
    expect_exit 0
    until_true 120 all_over
    [ ! -e "$OUT" ]
    join=$(SHARDS=4 sbatch --parsable --mem=100M --output="$WORK_DIR/logs/by_hand" "$CODE_LOC/slurm/join.sbatch")
    wait_over "$join"
    [ "$(state "$join")" = FAILED ]
    run cat "$WORK_DIR/logs/by_hand"
    expect_text "part_3_of_4.tsv is not there" "shard 3 of 4"
    before=$(stat -c '%i %y' "$WORK_DIR/shards/part_1_of_4.tsv")
    run "$CODE_LOC/slurm/submit_predict.sh" "${one[@]}"
    expect_exit 0
    until_true 120 all_over
    cmp "$HAND/predictions.tsv" "$OUT"
    [ "$before" = "$(stat -c '%i %y' "$WORK_DIR/shards/part_1_of_4.tsv")" ]
}

@test "reproduce: the release is checked against recomputed statistics, then the tasks run with the published configuration" {
    g=$SHARED/golden/kgp1
    export EXP_DIR="$BASE/exp" RELEASE=$g/release FOLD_LIST=1 SEED_LIST=78,124 TRAIN_OPTS="--epochs 2"
    unset CONFIG RUN_DIR TRAIN_PREFIX TRAIN_LABELS
    mkdir -p "$EXP_DIR"
    cp "$HAND/dataset.gpk" "$EXP_DIR"
    cp "$g/upstream/partition_seed124.npz" "$EXP_DIR/partition.npz"
    cp "$g/upstream"/config_seed*.yaml "$g/upstream/accuracy.tsv" "$EXP_DIR"
    run "$CODE_LOC/slurm/submit_reproduce.sh" "${one[@]}"
    expect_exit 0
    until_true 180 all_over
    run cat "$EXP_DIR/reproduce/check_release.tsv"
    expect_text "equal to the recomputed ones"
    refuse_text FAULT
    [ -s "$EXP_DIR/reproduce/models/seed78_fold1.h5" ] && [ -s "$EXP_DIR/reproduce/models/seed124_fold1.h5" ]
    run cat "$EXP_DIR/reproduce/check.tsv"
    expect_text "published"
}

@test "reproduce: a release whose statistics are not those of the data stops the chain before any training" {
    g=$SHARED/golden/kgp1
    export EXP_DIR="$BASE/exp" RELEASE="$BASE/release" RUN_DIR="$BASE/wrong" FOLD_LIST=1 SEED_LIST=78
    unset CONFIG TRAIN_PREFIX TRAIN_LABELS
    cp -r "$g/release" "$RELEASE"
    chmod -R u+w "$RELEASE"
    mv "$RELEASE/DN_MODELS/norm_stats_model1.npz" "$RELEASE/x"
    mv "$RELEASE/DN_MODELS/norm_stats_model2.npz" "$RELEASE/DN_MODELS/norm_stats_model1.npz"
    mv "$RELEASE/x" "$RELEASE/DN_MODELS/norm_stats_model2.npz"
    run "$CODE_LOC/slurm/submit_reproduce.sh" "${one[@]}"
    expect_exit 0
    until_true 120 all_over
    run cat "$RUN_DIR/check_release.tsv"
    expect_text FAULT norm_stats_model1.npz
    [ ! -e "$RUN_DIR/models" ]
    [ ! -e "$RUN_DIR/check.tsv" ]
}

@test "the study of batch sizes ends in a table: mean (sd) per batch size and scaling" {
    export BATCH_SIZES="64 138" LR_SCALES="none sqrt" FOLD_LIST=0-1 SEED_LIST=78 TRAIN_OPTS="--epochs 1"
    run "$CODE_LOC/slurm/submit_batch_study.sh" "${one[@]}"
    expect_exit 0
    expect_text "= 8"
    until_true 180 all_over
    run cat "$RUN_DIR/batch_study.tsv"
    [ "${#lines[@]}" = 5 ]
    for l in "${lines[@]:1}"; do [[ $l =~ ^(64|138)$'\t'(none|sqrt)$'\t'2$'\t'0\.[0-9]+$'\t'0\.[0-9]+$'\t'0\.[0-9]+\ \(0\.[0-9]+\)$ ]]; done
    # At the configuration's own batch size no scaling changes anything.
    [ "$(grep '^138' "$RUN_DIR/batch_study.tsv" | cut -f4- | sort -u | wc -l)" = 1 ]
}

@test "the studies of steps, formats and training inputs give their tables" {
    export OUT_JSON="$BASE/io.json" WORKDIR="$BASE/io" PLINK_PREFIX=$COHORT FORMATS="bed gpk h5" ROUNDS=1 BENCH_EPOCHS=1 SLURM_TMPDIR=$BATS_TEST_TMPDIR
    d=$(sbatch --parsable --mem=600M --output="$BASE/dataset.log" "$CODE_LOC/slurm/dataset.sbatch")
    a=$(sbatch --parsable --mem=600M --cpus-per-task=1 --output="$BASE/a.log" "$CODE_LOC/slurm/bench_predict.sbatch")
    b=$(sbatch --parsable --mem=600M --cpus-per-task=1 --output="$BASE/b.log" "$CODE_LOC/slurm/bench_io.sbatch")
    c=$(sbatch --parsable --mem=600M --cpus-per-task=1 --output="$BASE/c.log" --dependency="afterok:$d" "$CODE_LOC/slurm/bench_train_inputs.sbatch")
    until_true 180 all_over
    tail -n 3 "$BASE"/?.log
    [ "$(state "$a"),$(state "$b"),$(state "$c")" = COMPLETED,COMPLETED,COMPLETED ]
    [ "$(cut -f1 "$RUN_DIR/bench_predict.tsv" | paste -sd,)" = step,pack,split,train-1-epochs,match,predict ]
    [ "$(cut -f1 "$RUN_DIR/bench_train_inputs.tsv" | paste -sd,)" = step,h5-network,h5-staged,gpk-staged,memory ]
    "$PYTHON" -c 'import json, sys; d = json.load(open(sys.argv[1])); assert [r["format"] for r in d] == ["bed", "gpk", "h5"] and all(r["load_s"] > 0 for r in d)' "$OUT_JSON"
}
