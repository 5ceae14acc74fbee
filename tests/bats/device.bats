#!/usr/bin/env bats
# Which device is taken, and what is said when it is not there. A plugin that is wrong in one way (tests/fake_plugin.c) stands
# in for what cannot be had on a CPU machine; the real plugin is under tests/cuda.
load ../lib
load ../train

setup_file() {
    ${CC:-cc} -shared -fPIC -I"$TESTS/../common" "$TESTS/fake_plugin.c" -o "$BATS_FILE_TMPDIR/fake.so"
}

setup() {
    unset CUDA_VISIBLE_DEVICES SLURM_JOB_GPUS DNPIPE_CUDA_TIMEOUT SLURM_ARRAY_TASK_ID SLURM_JOB_ID
    export DNPIPE_CUDA_PLUGIN=
    fake=$BATS_FILE_TMPDIR/fake.so
}

# Programs at a place of their own, where no plugin is found beside them.
alone() {
    mkdir -p "$BATS_TEST_TMPDIR/bin"
    cp "$BIN/dntrain" "$BIN/dnpredict" "$BATS_TEST_TMPDIR/bin"
    dntrain=("$BATS_TEST_TMPDIR/bin/dntrain" --data p.gpk --split s.h5 --config c.yaml --threads 1)
    dnpredict=("$BATS_TEST_TMPDIR/bin/dnpredict" --threads 1)
}

# with KIND PROGRAM...: runs it with the plugin that is wrong in that way.
with() {
    local kind=$1
    shift
    FAKE_CUDA=$kind DNPIPE_CUDA_PLUGIN=$fake run "$@"
}

# before_data KIND WORD...: --device cuda is exit 9 with these words, before any file is opened or made.
before_data() {
    local kind=$1
    shift
    with "$kind" train --fold 0 -o none --device cuda --data no-such-file.gpk
    expect_exit 9
    expect_text "--device cuda: " "--device cpu" "$@"
    [ ! -e none ]
}

@test "GP03: no plugin at all: cuda is exit 9 before data are read and says how to build it; auto and cpu say what they use" {
    small epochs=0
    alone
    run train --fold 0 -o out --device cuda --data no-such-file.gpk
    expect_exit 9
    expect_text "backend_cuda.so, is not installed" "make CUDA=1" "--device cpu"
    [ ! -e out ]
    run train --fold 0 -o out
    expect_exit 0
    expect_text "device: cpu (1 threads), no GPU: the GPU plugin, backend_cuda.so, is not installed"
    CUDA_VISIBLE_DEVICES="" run train --fold 0 -o out2 --device cpu
    expect_exit 0
    expect_text "device: cpu (1 threads), as asked for"
    same_results out out2
}

@test "GP03: CUDA_VISIBLE_DEVICES=\"\" with cuda, auto and cpu" {
    small epochs=0
    export CUDA_VISIBLE_DEVICES=
    before_data none "no GPU is visible: CUDA_VISIBLE_DEVICES is \"\""
    with none train --fold 0 -o a
    expect_exit 0
    expect_text "device: cpu (1 threads), no GPU: no GPU is visible: CUDA_VISIBLE_DEVICES is \"\""
    with none train --fold 0 -o b --device cpu
    expect_exit 0
    expect_text "device: cpu (1 threads), as asked for"
    same_results a b
}

@test "GP03: a GPU that the job was given, or a plugin that cannot work, is a warning even under --quiet; a CPU node is not" {
    small epochs=0
    with none train -q --fold 0 -o a
    expect_exit 0
    [ -z "$output" ]
    SLURM_JOB_GPUS=0 with none train -q --fold 0 -o b
    expect_exit 0
    expect_text "warning: device: cpu" "no GPU"
    for kind in abi version crash; do
        with $kind train -q --fold 0 -o "q$kind"
        expect_exit 0
        expect_text "warning: device: cpu"
        same_results a "q$kind"
    done
}

@test "GP03: the message names what is wrong: driver, device, plugin of another build, a file that is none, a crash, silence" {
    small epochs=0
    before_data driver "the driver is of CUDA 11.4"
    before_data none "this machine has no GPU that the driver knows"
    before_data abi "is of another build of dnpipe" "dnpipe cuda 0" "make CUDA=1"
    before_data version "is of another build of dnpipe" "0.0.1"
    before_data null "is not a GPU plugin of dnpipe"
    before_data crash "crashed when they were tried"
    before_data exit "ended the process that tried them"
    DNPIPE_CUDA_TIMEOUT=0.3 before_data hang "the NVIDIA driver did not answer within 0.3 s"
    fake=$BATS_TEST_TMPDIR/c.yaml
    before_data "" "does not load" "invalid ELF header"
    fake=$BATS_TEST_TMPDIR/missing.so
    before_data "" "DNPIPE_CUDA_PLUGIN names" "No such file"
}

@test "GP01: a device of a capability that the plugin was not built for is refused at the start; its neighbour is named" {
    small epochs=0
    before_data old "GPU 0, Fake 61, is not usable: compute capability 6.1; this build needs 7.0 or later"
    refuse_text "Others are"
    before_data "old first" "GPU 0, Fake 61, is not usable" "CUDA_VISIBLE_DEVICES=1"
    with old train --fold 0 -o a
    expect_exit 0
    expect_text "device: cpu" "compute capability 6.1"
}

@test "--gpus and --precision: numbers are checked, and what asks for a GPU gets no CPU" {
    small epochs=0
    with "" train --fold 0 -o a --gpus 3
    expect_exit 9
    expect_text "--gpus 3: 2 GPUs are visible here"
    with "old second" train --fold 0 -o a --gpus 2
    expect_exit 9
    expect_text "GPU 1, Fake 61, is not usable"
    for bad in "--gpus 0" "--gpus -1" "--gpus two" "--gpus 1 --device cpu" "--precision tf32 --device cpu" "--precision half"; do
        # shellcheck disable=SC2086
        with "" train --fold 0 -o a $bad
        expect_exit 2
    done
    for ask in "--gpus 1" "--precision tf32"; do
        # shellcheck disable=SC2086
        with none train --fold 0 -o a $ask
        expect_exit 9
        expect_text "${ask% *}" "no GPU"
    done
    [ ! -e a ]
}

@test "a GPU that fails when training begins is exit 9, and leaves no lock" {
    small epochs=1
    with "" train --fold 0 -o a
    expect_exit 9
    expect_text "device: cuda (1 of 2 GPUs, Fake 9000" "cudaMalloc on GPU 0, Fake 9000: out of memory"
    [ -z "$(ls a)" ]
}

@test "--version lists plugin and devices, or why there are none, and never fails for it" {
    alone
    run "${dnpredict[0]}" --version
    expect_exit 0
    expect_text "CUDA: none: the GPU plugin, backend_cuda.so, is not installed"
    with "old second" "$BIN/dntrain" --version
    expect_exit 0
    expect_text "CUDA: plugin $fake, version" "GPU 0: Fake 9000, compute capability 9.0, 79.0 of 80.0 GiB free" "GPU 1: Fake 61" "not usable: compute capability 6.1"
    for kind in driver crash exit abi null none; do
        with $kind "$BIN/dnpredict" --version
        expect_exit 0
        expect_text "CUDA: plugin $fake" "GPU: none: "
    done
    DNPIPE_CUDA_TIMEOUT=0.3 with hang "$BIN/dntrain" --version
    expect_exit 0
    expect_text "did not answer within 0.3 s"
}

@test "GP03: dnpredict: cuda without a GPU is exit 9 before data are read; auto says what it took; the table does not change" {
    cd "$BATS_TEST_TMPDIR"
    alone
    run "${dnpredict[@]}" --model no-such-model no-such-file.gpk -o a.tsv --device cuda
    expect_exit 9
    expect_text "backend_cuda.so, is not installed" "make CUDA=1"
    with old "${dnpredict[@]}" --model no-such-model no-such-file.gpk -o a.tsv --device cuda
    expect_exit 9
    expect_text "GPU 0, Fake 61, is not usable: compute capability 6.1"
    with "" "${dnpredict[@]}" --model no-such-model no-such-file.gpk -o a.tsv --gpus 3
    expect_exit 9
    expect_text "--gpus 3: 2 GPUs are visible here"
    for bad in "--device cpu --gpus 1" "--device cpu --precision tf32" "--device tpu" "--gpus 0"; do
        # shellcheck disable=SC2086
        run "${dnpredict[@]}" --model no-such-model no-such-file.gpk -o a.tsv $bad
        expect_exit 2
    done
    for bad in "--device cpu" "--gpus 1" "--precision tf32"; do
        # shellcheck disable=SC2086
        run "${dnpredict[@]}" --join a.tsv -o b.tsv $bad
        expect_exit 2
        expect_text "--join takes parts" "${bad%% *}"
    done
    "$TOOLS/dnsim" -q -o p -n 80 -m 300 -k 3 --cohort 20
    "$BIN/gpack" -q --bfile p --labels p.labels.tsv -o p.gpk
    "$BIN/dnsplit" -q p.gpk --folds 3 --seed 1 -o s.h5 >/dev/null
    config c.yaml epochs=1
    for f in 0 1; do "$BIN/dntrain" -q --data p.gpk --split s.h5 --config c.yaml --fold $f -o m; done
    "$BIN/snpmatch" -q --bfile p_cohort --model m -o c.gpk 2>/dev/null
    run "${dnpredict[@]}" --model m c.gpk -o cpu.tsv --device cpu
    expect_exit 0
    expect_text "device: cpu (1 threads), as asked for"
    run "${dnpredict[@]}" --model m c.gpk -o auto.tsv
    expect_exit 0
    expect_text "device: cpu (1 threads), no GPU: the GPU plugin"
    cmp cpu.tsv auto.tsv
    # A GPU that fails when it begins: no table.
    with "" "${dnpredict[@]}" --model m c.gpk -o gpu.tsv
    expect_exit 9
    expect_text "device: cuda" "cudaMalloc on GPU 0"
    [ ! -e gpu.tsv ]
}
