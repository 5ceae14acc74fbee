#!/usr/bin/env bats
# tests/gpu.sh itself, at tiny sizes and with the shim for a GPU: what is run on a GPU machine has been run before.
load ../lib
load gpu

setup() {
    gpu_setup
    need_shim
    cd "$BATS_TEST_TMPDIR"
    export GPU_SH_SMALL=1
    export -n DNPIPE_CUDA_PLUGIN
}

@test "every step of gpu.sh runs, and its table has their figures" {
    run "$TESTS/gpu.sh" "$PWD/out"
    expect_exit 0
    refuse_text "FAILED" "time is up" "TOO LARGE"
    expect_text "device	Shim 0" "plugin	host shim" "batch 16: training" "batch 8: epoch" "evaluation" "fat layer, rows from memory" \
        "differences from the CPU, float32" "0 too large" "50 people predicted" "1 passed, 0 failed"
    [ -s out/table.tsv ]
    awk -F'\t' '/too large/ {split($2, n, " "); if (n[1] < 40) exit 1}' out/table.tsv
}

@test "gpu.sh goes on after a step that fails or takes too long, shows the table, and exits 1" {
    DN_SHIM_MEMORY=40000 run "$TESTS/gpu.sh" "$PWD/out"
    expect_exit 1
    expect_text "device	ok" "check_float32	FAILED (exit 9)" "predict_tf32	FAILED (exit 9)" "out of memory"
    [ "$(grep -c . out/steps.tsv)" -ge 10 ]
    [ -s out/table.tsv ]
    GPU_SH_SECONDS=4 run "$TESTS/gpu.sh" "$PWD/late"
    expect_exit 1
    expect_text "time is up"
    [ "$(grep -c "no time was left" late/*.log | grep -c :1)" -ge 5 ]
    GPU_SH_PLUGIN=$PWD/none.so run "$TESTS/gpu.sh" "$PWD/none"
    expect_exit 1
    expect_text "train_float32	FAILED (exit 9)" "DNPIPE_CUDA_PLUGIN names"
}

@test "gpu_pack.sh packs the programs and their libraries, and they run from there" {
    VARIANT=$VARIANT GPU_SH_SMALL=1 run "$TESTS/gpu_pack.sh" "$PWD/pack.tar.gz"
    expect_exit 0
    tar xzf pack.tar.gz
    [ -e "build/$VARIANT/tests/backend_shim.so" ]
    LD_LIBRARY_PATH=$PWD/build/gpu-libs run ldd "build/$VARIANT/tools/gpubench"
    expect_text "$PWD/build/gpu-libs/libhdf5" "$PWD/build/gpu-libs/libyaml"
    refuse_text "not found"
    DNPIPE_CUDA_PLUGIN=$PWD/build/$VARIANT/tests/backend_shim.so LD_LIBRARY_PATH=$PWD/build/gpu-libs \
        run "build/$VARIANT/tools/gpubench" check -m 301 -k 3 -u 9 --models 3 --folds 2 --threads 2
    expect_exit 0
}
