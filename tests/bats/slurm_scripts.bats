#!/usr/bin/env bats
# The cluster's scripts without a cluster: settings, sbatch lines, fake sbatch and scontrol, local.sh, the download.
# `make check-slurm` runs them on a real SLURM.
load ../lib

setup() {
    cd "$BATS_TEST_TMPDIR"
    S=$(dirname "$TESTS")/slurm
    export CODE_LOC FAKE=$BATS_TEST_TMPDIR/fake CPUS=2
    # The programs of the variant under test.
    CODE_LOC=$BATS_TEST_TMPDIR/dnpipe
    mkdir -p "$CODE_LOC/build"
    ln -s "$S" "$CODE_LOC/slurm"
    ln -s "$BIN" "$CODE_LOC/build/bin"
    unset SLURM_JOB_ID SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID SLURM_CPUS_PER_TASK SLURM_TMPDIR DRY_RUN ENV_FILE SIF_LOC ACCOUNT
    mkdir -p "$FAKE" "my data"
    PATH=$FAKE:$PATH
}

teardown() { [ -z "${server-}" ] || kill "$server" 2>/dev/null || true; }

# Fakes: sbatch logs its arguments, refuses array indices above 1000 as SLURM does, and numbers its jobs; scontrol logs.
fakes() {
    cat >"$FAKE/sbatch" <<'SH'
#!/bin/bash
echo "$*|TASK_OFFSET=${TASK_OFFSET-}" >>"$FAKE/sbatch.log"
for a in "$@"; do
    case $a in
    --array=*) i=${a#--array=} i=${i%%\%*} i=${i#*-}
        [ "$i" -le "${FAKE_MAX_INDEX:-1000}" ] || { echo "sbatch: error: Batch job submission failed: Invalid job array specification" >&2; exit 1; } ;;
    esac
done
[ -z "${FAKE_REFUSE-}" ] || [[ $* != *$FAKE_REFUSE* ]] || { echo "sbatch: error: Invalid account" >&2; exit 1; }
echo $((100 + $(wc -l <"$FAKE/sbatch.log")))
SH
    cat >"$FAKE/scontrol" <<'SH'
#!/bin/bash
case $* in
"show config") echo "MaxArraySize            = 1001" ;;
*show*) echo "JobId=1 JobState=${FAKE_STATE:-COMPLETING} Reason=${FAKE_REASON:-None} Dependency=(null)" ;;
*) echo "$*" >>"$FAKE/scontrol.log" ;;
esac
SH
    chmod +x "$FAKE"/*
}
# A panel of 40 people and 60 SNPs, and a configuration, in a folder with a blank.
panel() {
    "$TOOLS/dnsim" -q -o "my data/panel" -n 120 -m 300 -k 3 --cohort 30
    printf '%s\n' 'batch_size: 16' 'epochs: 2' 'input_dropout: 0.0' 'dropout_main: 0.1' 'lr_aux: 0.001' 'lr_main: 0.001' 'learning_rate_annealing: 0.99' \
        'nb_hidden_u_aux: [8, 8]' 'nb_hidden_u_main: [8]' 'patience: 5' 'seed: 78' 'uniform_init_limit: 0.02' >"my data/config.yaml"
    export TRAIN_PREFIX="$PWD/my data/panel" TRAIN_LABELS="$PWD/my data/panel.labels.tsv" RUN_DIR="$PWD/my run" CONFIG="$PWD/my data/config.yaml"
    export TEST_PREFIX="$PWD/my data/panel_cohort" MODEL_DIR="$PWD/my run/models" WORK_DIR="$PWD/my work" OUT="$PWD/my work/out.tsv"
}

@test "every job and every submit script names all the settings that are not set, exit 2, and does nothing" {
    fakes
    check() { # SCRIPT NAME...
        run bash "$S/$1"
        expect_exit 2
        expect_text "not set:" "${@:2}"
    }
    check submit_predict.sh MODEL_DIR TEST_PREFIX WORK_DIR OUT
    check submit_train.sh TRAIN_PREFIX TRAIN_LABELS RUN_DIR CONFIG
    check submit_batch_study.sh TRAIN_PREFIX TRAIN_LABELS RUN_DIR CONFIG
    check submit_reproduce.sh RELEASE EXP_DIR
    check match.sbatch MODEL_DIR TEST_PREFIX WORK_DIR
    check predict.sbatch MODEL_DIR WORK_DIR SHARDS
    check join.sbatch WORK_DIR SHARDS OUT
    check dataset.sbatch TRAIN_PREFIX TRAIN_LABELS RUN_DIR
    check pack.sbatch RUN_DIR
    check split.sbatch RUN_DIR
    check train.sbatch RUN_DIR CONFIG FOLD_LIST SEED_LIST
    check check.sbatch RUN_DIR FOLD_LIST SEED_LIST
    check check_release.sbatch RELEASE RUN_DIR
    check bench_predict.sbatch TRAIN_PREFIX TRAIN_LABELS TEST_PREFIX RUN_DIR
    check bench_io.sbatch PLINK_PREFIX OUT_JSON WORKDIR
    check bench_train_inputs.sbatch RUN_DIR CONFIG
    check batch_size_study.sbatch RUN_DIR CONFIG FOLD_LIST SEED_LIST
    # Each .sbatch file was looked at.
    [ "$(cd "$S" && ls ./*.sbatch | wc -l)" = 13 ]
    for f in "$S"/*.sbatch; do
        CODE_LOC='' run bash "$f"
        expect_exit 2
        expect_text CODE_LOC
    done
    [ ! -e "$FAKE/sbatch.log" ]
}

@test "no script names an account, a partition, a GPU or an absolute path; all can be requeued and append to their logs" {
    run grep -nE '^#SBATCH.*(account|partition|gres|gpu|qos|mail)|(^|[^A-Za-z_$}"])/(scratch|home|project|lustre|gpfs)/' "$S"/*.sbatch "$S"/*.sh
    expect_exit 1
    for f in "$S"/*.sbatch; do
        for o in --open-mode=append --requeue --signal=B:USR1@120 --output=%x_ --time= --mem= --cpus-per-task=; do
            grep -qF -- "#SBATCH $o" "$f" || { echo "$f lacks $o"; false; }
        done
    done
    # snpmatch's --force also overrides its floors: no script gives it to anything.
    run grep -nE -- '--force|dn_cmd.* -f ' "$S"/*.sbatch "$S"/*.sh
    refuse_text 'dn_cmd'
    [ "$(grep -c -- '^[^#]*--force' "$S"/*.sbatch "$S"/*.sh | grep -vc ':0$')" = 0 ]
}

@test "every setting that a script reads is explained in env.example" {
    for v in $(grep -ohE '\$\{?[A-Z][A-Z0-9_]+' "$S"/*.sbatch "$S"/*.sh | tr -d '${' | sort -u); do
        case $v in SLURM_* | BASH_* | RANDOM | TMPDIR | PATH | SECONDS | DRY_RUN | ENV_FILE | TASK_OFFSET | DN_LOCAL | JOBS | STUDY_STEP | APPTAINER | *_EXTRA) continue ;; esac
        grep -qE "\b$v\b" "$S/env.example" || { echo "$v is not in env.example"; false; }
    done
}

@test "--dry-run prints every sbatch line, with sizes, and changes nothing; DRY_RUN=1 does the same" {
    panel
    fakes
    run "$S/submit_train.sh" --dry-run
    expect_exit 0
    [ "$(grep -c '^sbatch --parsable' <<<"$output")" = 4 ]
    expect_text "120 people x 300 SNPs" "= 15" "--array=0-14" "--dependency=afterok:JOB_pack" "--dependency=afterany:JOB_train_0" "asks for:" "my run/logs"
    [ ! -e "$RUN_DIR" ]
    mkdir -p "$MODEL_DIR"
    DRY_RUN=1 run "$S/submit_predict.sh"
    expect_exit 0
    [ "$(grep -c '^sbatch --parsable' <<<"$output")" = 3 ]
    [ ! -e "$WORK_DIR" ]
    [ ! -e "$FAKE/sbatch.log" ]
}

@test "options for sbatch are passed through; those for a GPU reach the arrays alone" {
    panel
    fakes
    ACCOUNT=def-one TRAIN_SBATCH="--partition=gpu --nice" run "$S/submit_train.sh" --qos=high --gres=gpu:1 -- -C skylake --gpus-per-node 2
    expect_exit 0
    [ "$(grep -c -- '--account=def-one --qos=high -C skylake' "$FAKE/sbatch.log")" = 4 ]
    [ "$(grep -c -- '--gres=gpu:1 --gpus-per-node 2 --partition=gpu --nice' "$FAKE/sbatch.log")" = 1 ]
    grep -- '--gres' "$FAKE/sbatch.log" | grep -q 'train.sbatch'
    run "$S/submit_train.sh" --account def-one
    expect_exit 2
    expect_text "--account"
}

@test "sizes of UK Biobank's jobs are those that docs/slurm.md gives" {
    panel
    yes 'f i 0 0 0 -9' | head -n 488377 >ukb.fam
    yes '1 rs1 0 1 A C' | head -n 784256 >ukb.bim
    mkdir -p "$MODEL_DIR"
    TEST_PREFIX=ukb SHARDS=16 CPUS=8 run "$S/submit_predict.sh" --dry-run
    expect_exit 0
    for line in "488377 people x 784256 SNPs; 15 models; 16 shards" "match 3G, 29 min; predict 11G, 14 min a shard; 8 CPUs each"; do
        expect_text "$line"
        grep -qF "$line" "$TESTS/../docs/slurm.md"
    done
    yes '1 rs1 0 1 A C' | head -n 229986 >big.bim
    sed -i 's/^batch_size:.*/batch_size: 138/; s/^epochs:.*/epochs: 1000/' "$CONFIG"
    ln -s ukb.fam big.fam
    yes 'f i 0 0 0 -9' | head -n 2504 >kgp.fam
    ln -s big.bim kgp.bim
    for p in big kgp; do
        TRAIN_PREFIX=$p CPUS=8 run "$S/submit_train.sh" --dry-run
        expect_exit 0
        line=$(grep -o 'pack [0-9]*G.*a task, 8 CPUs' <<<"$output")
        grep -qF "$line" "$TESTS/../docs/slurm.md" || { echo "docs/slurm.md lacks: $line"; false; }
    done
}

@test "CL07: 2,000 tasks where indices end at 1000: two arrays, each (fold, seed) exactly once" {
    panel
    fakes
    FOLDS=10 SEED_LIST=0-199 run "$S/submit_train.sh"
    expect_exit 0
    expect_text "= 2000"
    grep 'train.sbatch' "$FAKE/sbatch.log" | sed -E 's/.*--array=0-([0-9]+).*TASK_OFFSET=([0-9]+) .*\|TASK_OFFSET=([0-9]+)/\1 \2 \3/' >chunks
    [ "$(cat chunks)" = $'1000 0 0\n998 1001 1001' ]
    while read -r last offset _; do seq "$offset" $((offset + last)); done <chunks >tasks
    [ "$(sort -n tasks | uniq | wc -l)" = 2000 ] && [ "$(wc -l <tasks)" = 2000 ]
    [ "$(sort -n tasks | tail -1)" = 1999 ]
    # The check waits for both.
    grep -q 'dependency=afterany:103:104' "$FAKE/sbatch.log"
}

@test "CL07: an sbatch that refuses ends the chain with an error, and says what it was" {
    panel
    fakes
    FAKE_REFUSE=split.sbatch run "$S/submit_train.sh"
    [ "$status" -ne 0 ]
    expect_text "sbatch refused" "split.sbatch" "Invalid account"
    [ "$(wc -l <"$FAKE/sbatch.log")" = 2 ]
    refuse_text "check "
    # An index above the limit, where the limit could not be asked.
    rm "$FAKE/sbatch.log" "$FAKE/scontrol"
    printf '#!/bin/bash\nexit 1\n' >"$FAKE/scontrol"
    chmod +x "$FAKE/scontrol"
    FAKE_MAX_INDEX=3 run "$S/submit_train.sh"
    [ "$status" -ne 0 ]
    expect_text "Invalid job array" "sbatch refused"
    # One that says something else than a number.
    printf '#!/bin/bash\necho Submitted batch job 7\n' >"$FAKE/sbatch"
    run "$S/submit_train.sh"
    [ "$status" -ne 0 ]
    expect_text "where a job number was expected"
}

# A dntrain that ends with $1, in a code folder of its own.
fake_train() {
    mkdir -p code/build/bin run
    ln -sfn "$S" code/slurm
    printf '#!/bin/bash\n%s\n' "$1" >code/build/bin/dntrain
    chmod +x code/build/bin/dntrain
    export CODE_LOC=$PWD/code RUN_DIR=$PWD/run FOLD_LIST=0-1 SEED_LIST=78,23 CONFIG=c.yaml STAGE=no
    : >run/dataset.gpk
}

# Until the program in the background has written its first word.
wait_ready() {
    local n
    for ((n = 0; n < 600; n++)); do
        if grep -q ready out 2>/dev/null; then return; fi
        sleep 0.05
    done
    echo "no sign of life: $(cat out)"
    return 1
}

@test "CL01: exit 75 asks scontrol to requeue this task of the array, not the array" {
    fakes
    fake_train 'exit 75'
    SLURM_JOB_ID=4713 SLURM_ARRAY_JOB_ID=4711 SLURM_ARRAY_TASK_ID=2 run bash "$S/train.sbatch"
    expect_exit 75
    expect_text "queueing 4711_2 again"
    [ "$(cat "$FAKE/scontrol.log")" = "requeue 4711_2" ]
    rm "$FAKE/scontrol.log"
    SLURM_JOB_ID=4713 run bash "$S/train.sbatch"
    [ "$(cat "$FAKE/scontrol.log")" = "requeue 4713" ]
    # Not without end, not outside SLURM, and not for any other exit code.
    rm "$FAKE/scontrol.log"
    SLURM_JOB_ID=4713 SLURM_RESTART_COUNT=100 run bash "$S/train.sbatch"
    expect_exit 75
    expect_text MAX_REQUEUE
    run bash "$S/train.sbatch"
    expect_exit 75
    fake_train 'exit 10'
    SLURM_JOB_ID=4713 run bash "$S/train.sbatch"
    expect_exit 10
    [ ! -e "$FAKE/scontrol.log" ]
}

@test "CL02: USR1 and TERM reach the program; after TERM only a time limit queues the task again" {
    fakes
    fake_train 'trap "echo got USR1; exit 75" USR1; trap "echo got TERM; exit 75" TERM; echo ready; while :; do sleep 0.05; done'
    try() { # SIGNAL: the job's output in $output
        local pid
        rm -f "$FAKE/scontrol.log" out
        SLURM_JOB_ID=9 bash "$S/train.sbatch" >out 2>&1 3>&- &
        pid=$!
        wait_ready
        kill -"$1" $pid
        wait $pid && status=0 || status=$?
        output=$(cat out)
    }
    try USR1
    expect_exit 75
    expect_text "got USR1"
    [ "$(cat "$FAKE/scontrol.log")" = "requeue 9" ]
    try TERM
    expect_exit 75
    expect_text "got TERM" "ended from outside"
    [ ! -e "$FAKE/scontrol.log" ]
    export FAKE_REASON=TimeLimit
    try TERM
    expect_text "got TERM" "queueing 9 again"
    [ "$(cat "$FAKE/scontrol.log")" = "requeue 9" ]
}

@test "signals at any moment: the exit code is the program's own, or 75 where the shell lost it" {
    fakes
    # The program ends by itself while signals rain on the shell.
    fake_train 'trap "" USR1; echo ready; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.03; done; exit 7'
    for round in 1 2 3 4 5; do
        rm -f out
        bash "$S/train.sbatch" >out 2>&1 3>&- &
        pid=$!
        wait_ready
        while kill -USR1 $pid 2>/dev/null; do sleep 0.01; done
        wait $pid && status=0 || status=$?
        # 138: the last signal came when the shell was about to end.
        [[ $status =~ ^(7|75|138)$ ]] || { echo "round $round: $status"; cat out; false; }
        [ "$status" -ne 75 ] || grep -q "lost among signals" out
    done
}

@test "settings from a file: the environment wins, quotes come off, nothing is run, mistakes are named" {
    panel
    printf '%s\r\n' '# a comment' '' "SEED_LIST='5,6'" 'FOLDS=3' "ACCOUNT=\$(touch $PWD/run_by_shell)" >my.env
    ENV_FILE=my.env FOLDS=4 run "$S/submit_train.sh" --dry-run
    expect_exit 0
    expect_text "4 folds x 2 seeds = 8" 'touch'
    [ ! -e run_by_shell ]
    echo 'FOLDS 3' >my.env
    ENV_FILE=my.env run "$S/submit_train.sh" --dry-run
    expect_exit 2
    expect_text "FOLDS 3"
    ENV_FILE=none.env run "$S/submit_train.sh" --dry-run
    expect_exit 3
    expect_text none.env
}

@test "mistakes in settings are found before anything is submitted" {
    panel
    fakes
    SEED_LIST=78,78 run "$S/submit_train.sh"
    expect_exit 2
    expect_text "SEED_LIST" "78 twice"
    SEED_LIST=a run "$S/submit_train.sh"
    expect_exit 2
    FOLD_LIST=4-2 run "$S/submit_train.sh"
    expect_exit 2
    CONFIG="$PWD/c_{seed}.yaml" run "$S/submit_train.sh"
    expect_exit 3
    expect_text "c_78.yaml"
    TRAIN_PREFIX=nowhere run "$S/submit_train.sh"
    expect_exit 3
    expect_text "nowhere.fam"
    TRAIN_PREFIX=chr@ run "$S/submit_train.sh"
    expect_exit 3
    expect_text "chr@.fam"
    SHARDS=0 run "$S/submit_predict.sh"
    expect_exit 2
    run "$S/submit_predict.sh"
    expect_exit 3
    expect_text "MODEL_DIR"
    [ ! -e "$FAKE/sbatch.log" ]
}

@test "SIF_LOC: the programs are run inside the image" {
    panel
    printf '#!/bin/bash\necho "apptainer $*" >>"$FAKE/apptainer.log"\nwhile [ "$1" != "$SIF_LOC" ]; do shift; done\nshift\np=$1\nshift\nexec "%s/$p" "$@"\n' "$BIN" >"$FAKE/apptainer"
    chmod +x "$FAKE/apptainer"
    : >"my image.sif"
    SIF_LOC="$PWD/my image.sif" SIF_BIND=/data run "$S/local.sh" pack.sbatch
    expect_exit 0
    [ -s "$RUN_DIR/dataset.gpk" ]
    grep -q "apptainer exec --bind /data $PWD/my image.sif gpack" "$FAKE/apptainer.log"
    rm "$RUN_DIR/dataset.gpk"
    SIF_LOC=none.sif run "$S/local.sh" pack.sbatch
    expect_exit 3
    expect_text none.sif
}

@test "local.sh: the chains without SLURM, in folders with blanks; a failed task is named, the same command does the rest" {
    panel
    export FOLDS=2 SEED_LIST=78,23 JOBS=2
    run "$S/local.sh" train
    expect_exit 0
    [ "$(ls "$RUN_DIR/models"/*.h5 | wc -l)" = 4 ]
    grep -q 'each there once' "$RUN_DIR/check.tsv"
    SHARDS=3 MATCH_OPTS="--min-overlap 10" run "$S/local.sh" predict
    expect_exit 0
    [ "$(wc -l <"$OUT")" = 31 ]
    cp "$OUT" first.tsv
    rm "$OUT" "$WORK_DIR/shards/part_2_of_3.tsv"
    SHARDS=3 MATCH_OPTS="--min-overlap 10" run "$S/local.sh" predict
    expect_exit 0
    cmp first.tsv "$OUT"
    # A task that cannot be done: a folder is where its lock belongs.
    cp "$RUN_DIR/models/seed23_fold1.h5" .
    rm "$RUN_DIR/models/seed23_fold1".*
    mkdir "$RUN_DIR/models/seed23_fold1.lock"
    run "$S/local.sh" train
    expect_exit 1
    expect_text "train.sbatch 3 exit" "train_local_3.log"
    grep -q 'seed23_fold1.*missing' "$RUN_DIR/check.tsv"
    rmdir "$RUN_DIR/models/seed23_fold1.lock"
    run "$S/local.sh" train
    expect_exit 0
    cmp seed23_fold1.h5 "$RUN_DIR/models/seed23_fold1.h5"
    # Models made anew: what was predicted with the old ones is not taken for theirs.
    rm "$OUT"
    SHARDS=3 MATCH_OPTS="--min-overlap 10" run "$S/local.sh" predict
    expect_exit 1
    grep -q "made from other inputs" "$WORK_DIR/logs/match_local.log"
}

@test "fetch_release: resumes, checks, records sums at first use, unpacks; a damaged download is not kept" {
    command -v curl >/dev/null || skip "no curl"
    mkdir -p site/api/records site/files "rel/DN_MODELS" rel/DN_SNPS
    head -c 300000 /dev/urandom >rel/DN_MODELS/weights_model1_1.pt
    echo rs1 >rel/DN_SNPS/dietnet_snps.txt
    tar -C rel -czf site/files/release.tar.gz DN_MODELS DN_SNPS
    echo hello >site/files/README.txt
    "$PYTHON" "$TESTS/range_server.py" site >port 3>&- &
    server=$!
    for ((n = 0; n < 200; n++)); do
        [ ! -s port ] || break
        sleep 0.05
    done
    url=http://127.0.0.1:$(cat port)
    # A record as Zenodo's API gives it.
    printf '{"id": 1, "links": {"self": "%s/api/records/1"}, "files": [' "$url" >site/api/records/1
    for f in release.tar.gz README.txt; do
        printf '{"id": "x", "key": "%s", "size": %d, "checksum": "md5:%s", "links": {"self": "%s/files/%s"}}, ' $f "$(stat -c %s site/files/$f)" \
            "$(md5sum site/files/$f | cut -d' ' -f1)" "$url" $f
    done | sed 's/, $//' >>site/api/records/1
    echo ']}' >>site/api/records/1
    export RELEASE_URL=$url/api/records/1
    # Half of it is there from a download that was cut.
    mkdir "my dest"
    head -c 100000 site/files/release.tar.gz >"my dest/release.tar.gz.part"
    run "$S/fetch_release.sh" "my dest"
    expect_exit 0
    expect_text "continued at 100000 bytes" "the release is my dest"
    cmp rel/DN_MODELS/weights_model1_1.pt "my dest/DN_MODELS/weights_model1_1.pt"
    (cd "my dest" && sha256sum -c --quiet checksums.sha256)
    grep -q 'bytes=100000-' server.log
    # Again: nothing is fetched.
    : >server.log
    run "$S/fetch_release.sh" "my dest"
    expect_exit 0
    run grep -c files/ server.log
    [ "$output" = 0 ]
    # Changed since the first use.
    printf x | dd of="my dest/README.txt" conv=notrunc status=none
    run "$S/fetch_release.sh" "my dest"
    expect_exit 4
    expect_text "README.txt" "damaged"
    # A part that is not the start of this file: fetched anew.
    mkdir d2
    head -c 1000 /dev/zero >d2/release.tar.gz.part
    run "$S/fetch_release.sh" d2
    expect_exit 0
    cmp site/files/release.tar.gz d2/release.tar.gz
    # The server's file is not what the user's sums say: nothing is kept.
    echo "$(echo other | sha256sum | cut -d' ' -f1)  README.txt" >sums
    RELEASE_URL=$url/files RELEASE_FILES=README.txt RELEASE_CHECKSUMS=sums run "$S/fetch_release.sh" d3
    expect_exit 4
    [ ! -e d3/README.txt ]
    (cd site/files && sha256sum README.txt) >sums
    RELEASE_URL=$url/files RELEASE_FILES=README.txt RELEASE_CHECKSUMS=sums run "$S/fetch_release.sh" d3
    expect_exit 0
    # Names that lead out of the folder; no such file; no server.
    sed 's|"key": "README.txt"|"key": "../evil"|' site/api/records/1 >site/api/records/2
    RELEASE_URL=$url/api/records/2 run "$S/fetch_release.sh" d4
    expect_exit 4
    [ ! -e evil ]
    RELEASE_URL=$url/files RELEASE_FILES=none.txt run "$S/fetch_release.sh" d4
    expect_exit 3
    kill $server
    RELEASE_URL=http://127.0.0.1:9/x run "$S/fetch_release.sh" d4
    expect_exit 3
}
