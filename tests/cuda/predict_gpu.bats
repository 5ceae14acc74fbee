#!/usr/bin/env bats
# dnpredict through the plugin against dnpredict on the CPU.
load ../lib
load gpu

# Probabilities differ by no more than this from the CPU's: sums of some thousand terms in float32, in another order.
tolerance=1e-5

setup_file() {
    export KGP3=$SHARED/golden/kgp3
    cd "$BATS_FILE_TMPDIR" || return 1
    # 4 models of 700 SNPs, not a multiple of 4 of which matched; widths that are no multiples of anything.
    "$TOOLS/mkmodel" -o m --snps 701 --folds 2 --repeats 2 --units 21 --hidden 10 --classes 5 --cohort c.gpk --people 91 --matched 0.66
    "$BIN/dnpredict" -q --device cpu -m m c.gpk -o cpu.tsv --scores cpu.h5
}

setup() {
    gpu_setup
    predict=("$BIN/dnpredict" --device cuda -m "$BATS_FILE_TMPDIR/m" --threads 2)
    C=$BATS_FILE_TMPDIR/c.gpk CPU=$BATS_FILE_TMPDIR/cpu
    cd "$BATS_TEST_TMPDIR" || return 1
}

# The table's columns but for confidence and entropy, whose last digit may differ.
cells() { awk -F'\t' -v OFS='\t' '{$(NF - 2) = $(NF - 3) = ""; print}' "$1"; }

@test "a whole prediction equals the CPU's: table, probabilities, hidden layer; the log says where it ran" {
    run "${predict[@]}" "$C" -o g.tsv --scores g.h5 --report g.html
    expect_exit 0
    expect_text "device: cuda (" "memory on the GPU: about" "91 people predicted" "the GPU was waited for"
    cmp <(cells g.tsv) <(cells "$CPU.tsv")
    near g.h5 "$CPU.h5" $tolerance
    [ -s g.html ]
}

@test "auto takes the GPU and says so" {
    run "${predict[@]}" --device auto "$C" -o g.tsv
    expect_exit 0
    expect_text "device: cuda ("
    run "$BIN/dnpredict" --version
    expect_text "CUDA: plugin $plugin, version" "GPU 0: "
}

@test "the plugin is found beside installed programs, and beside built ones; its place is told" {
    for lib in lib/dnpipe lib; do
        rm -rf at
        mkdir -p at/bin at/$lib
        cp "$BIN/dnpredict" at/bin
        cp "$plugin" at/$lib/backend_cuda.so
        DNPIPE_CUDA_PLUGIN='' run at/bin/dnpredict --version
        expect_exit 0
        expect_text "CUDA: plugin $PWD/at/$lib/backend_cuda.so, version" "GPU 0: "
    done
}

@test "GP03: the plugin as nvcc builds it, on a machine without a driver: exit 9 with the cause; auto goes on" {
    real=$BIN/../lib/backend_cuda.so
    [ -e "$real" ] || skip "no plugin was built with CUDA=1"
    [ -z "$(ldconfig -p | grep libcuda.so.1)" ] || skip "this machine has a driver"
    DNPIPE_CUDA_PLUGIN=$real run "${predict[@]}" "$C" -o g.tsv
    expect_exit 9
    expect_text "--device cuda: there is no NVIDIA driver on this machine"
    DNPIPE_CUDA_PLUGIN=$real run "${predict[@]}" "$C" -o g.tsv --device auto
    expect_exit 0
    expect_text "device: cpu" "there is no NVIDIA driver on this machine"
    refuse_text warning
    cmp g.tsv "$CPU.tsv"
}

@test "GP04: twice the same run on a device: the same bytes, for any number of threads" {
    "${predict[@]}" -q "$C" -o a.tsv --scores a.h5
    "${predict[@]}" -q "$C" -o b.tsv --scores b.h5 --threads 1
    cmp a.tsv b.tsv
    cmp a.h5 b.h5
}

@test "many blocks, two under way: every person is there once and in order, from a file, compressed, .h5 and a pipe" {
    "$TOOLS/mkmodel" -o b --snps 203 --folds 2 --repeats 1 --units 9 --classes 3 --cohort b.gpk --people 3000
    "$BIN/dnpredict" -q --device cpu -m b b.gpk -o cpu.tsv --scores cpu.h5
    gpu=("$BIN/dnpredict" --device cuda -m b)
    "$BIN/gpack" -q -z b.gpk -o z.gpk
    for memory in 65700K 65900K 66200K; do
        run "${gpu[@]}" b.gpk -o g.tsv --scores g.h5 --memory $memory -f
        expect_exit 0
        refuse_text "blocks of 3000 people"
        near g.h5 cpu.h5 $tolerance
        cmp <(cells g.tsv) <(cells cpu.tsv)
    done
    "${gpu[@]}" -q z.gpk -o z.tsv --memory 66200K
    cmp g.tsv z.tsv
    "${gpu[@]}" -q - -o p.tsv --memory 66200K <b.gpk
    cmp g.tsv p.tsv
}

@test "shards, also some from the CPU, join; parts of another precision do not" {
    "${predict[@]}" -q "$C" -o all.tsv
    for i in 1 2 3; do "${predict[@]}" -q "$C" -o p$i.tsv --shard $i/4; done
    "$BIN/dnpredict" -q --device cpu -m "$BATS_FILE_TMPDIR/m" "$C" -o p4.tsv --shard 4/4
    "$BIN/dnpredict" -q --join p?.tsv -o joined.tsv
    cmp <(cells all.tsv) <(cells joined.tsv)
    "${predict[@]}" -q "$C" -o p4.tsv --shard 4/4 --precision tf32 -f
    run "$BIN/dnpredict" --join p?.tsv -o j2.tsv
    expect_exit 5
    expect_text "not parts of one table"
}

@test "people without a call, and with few, are the CPU's" {
    "$TOOLS/mkmodel" -o b --snps 130 --folds 1 --repeats 2 --units 5 --classes 3 --cohort b.gpk --people 60 --missing 0.985
    run "$BIN/dnpredict" --device cpu -m b b.gpk -o cpu.tsv --scores cpu.h5
    expect_exit 0
    [[ $output =~ ([0-9]+)" of 60 people have no call" ]]
    none=${BASH_REMATCH[1]}
    run "$BIN/dnpredict" --device cuda -m b b.gpk -o g.tsv --scores g.h5
    expect_exit 0
    expect_text "$none of 60 people have no call"
    cmp <(cells g.tsv) <(cells cpu.tsv)
    near g.h5 cpu.h5 $tolerance
}

@test "NU02: numbers that are not finite are exit 10 with the member's and the person's name, as on the CPU, and no table" {
    "$TOOLS/mkmodel" -o b --snps 130 --folds 1 --repeats 2 --units 5 --classes 3 --cohort b.gpk --people 60 --huge
    mkdir out
    for device in cpu cuda; do
        run "$BIN/dnpredict" --device $device -m b b.gpk -o out/g.tsv --scores out/g.h5
        expect_exit 10
        expect_text "model seed23_fold0 gives numbers that are not finite for sample"
        [ -z "$(ls -A out)" ]
        grep -o "for sample .*" <<<"$output" >$device.txt
    done
    cmp cpu.txt cuda.txt
}

@test "memory: --memory that is too small is exit 7; a GPU that is too small is exit 9; nothing is left" {
    mkdir out
    run "${predict[@]}" "$C" -o out/g.tsv --scores out/g.h5 --memory 17M
    expect_exit 7
    expect_text "--memory"
    [ -z "$(ls -A out)" ]
    need_shim
    DN_SHIM_MEMORY=30000 run "${predict[@]}" "$C" -o out/g.tsv --scores out/g.h5
    expect_exit 9
    expect_text "cudaMalloc on device 0 (Shim 0): out of memory"
    [ -z "$(ls -A out)" ]
}

@test "two and three GPUs share the people" {
    need_shim
    for n in 2 3; do
        DN_SHIM_DEVICES=3 run "${predict[@]}" "$C" -o g$n.tsv --scores g$n.h5 --gpus $n
        expect_exit 0
        expect_text "device: cuda ($n of 3 GPUs, Shim 0"
        near g$n.h5 "$CPU.h5" $tolerance
    done
    DN_SHIM_DEVICES=3 run "${predict[@]}" "$C" -o g.tsv --gpus 4
    expect_exit 9
    expect_text "--gpus 4: 3 GPUs are visible here"
}

@test "GP03, GP01: the real plugin names the cause: no driver, driver too old, no device, capability" {
    need_shim
    run "$BIN/dnpredict" --version
    expect_text "for host shim" "GPU 0: Shim 0"
    for case in "DN_SHIM_DRIVER=missing:no NVIDIA driver on this machine" "DN_SHIM_DRIVER=old:the NVIDIA driver is too old" \
        "DN_SHIM_DEVICES=0:this machine has no GPU that the driver knows" "DN_SHIM_CAPABILITY=6.1:compute capability 6.1; this build needs"; do
        run env "${case%%:*}" "${predict[@]}" no-such-file.gpk -o g.tsv
        expect_exit 9
        expect_text "--device cuda: " "${case#*:}" "--device cpu"
        run env "${case%%:*}" "${predict[@]}" --device auto "$C" -o auto.tsv -f
        expect_exit 0
        expect_text "device: cpu" "no GPU" "${case#*:}"
        cmp auto.tsv "$CPU.tsv"
        run env "${case%%:*}" "$BIN/dntrain" --version
        expect_exit 0
        expect_text "${case#*:}"
    done
}

@test "whichever call fails: exit 9 with the call's name, no table, no scores, nothing left" {
    need_shim
    mkdir out
    n=1 seen=0
    while :; do
        DN_SHIM_FAIL=$n run "${predict[@]}" "$C" -o out/g.tsv --scores out/g.h5 --report out/g.html
        [ "$status" -ne 0 ] || break
        expect_exit 9
        [[ $output == *": "*cu[dbB]* ]] || { echo "call $n: $output"; false; }
        [ -z "$(ls -A out)" ] || { echo "call $n left: $(ls -A out)"; false; }
        seen=$((seen + 1))
        n=$((n + 1 + n / 12))
        [ $n -lt 100000 ]
    done
    echo "# $seen failing calls up to number $n" >&3
    [ $seen -ge 15 ]
    cmp out/g.tsv <("${predict[@]}" -q "$C" -o -)
    # A kernel that goes wrong is seen by the next wait.
    rm -r out && mkdir out
    DN_SHIM_FAIL_KERNEL=2 run "${predict[@]}" "$C" -o out/g.tsv --scores out/g.h5
    expect_exit 9
    expect_text "illegal memory access"
    [ -z "$(ls -A out)" ]
}

@test "golden kgp3: upstream's release through the plugin: upstream's table, and its probabilities within 1e-4; the CPU's within 1e-5" {
    need_shared
    run "$BIN/dnpredict" --device cuda -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o g.tsv --scores g.h5
    expect_exit 0
    expect_text "device: cuda ("
    cut -f1-17 g.tsv | cmp - "$KGP3/infer/predictions.txt"
    need_h5py
    run "$PYTHON" "$TESTS/compare_scores.py" scores g.h5 "$KGP3/infer/scores.tsv"
    expect_exit 0
    run "$PYTHON" "$TESTS/compare_scores.py" consistent g.tsv g.h5
    expect_exit 0
    "$BIN/dnpredict" -q --device cpu -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o cpu.tsv --scores cpu.h5
    near g.h5 cpu.h5 $tolerance
}
