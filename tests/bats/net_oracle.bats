#!/usr/bin/env bats
# The network against the NumPy oracle and upstream's golden runs. Real data needed: skipped without.

setup() {
    [ -n "$SHARED" ] || skip "no real data"
    PY=${PYTHON:-/usr/bin/python3}
    "$PY" -c 'import numpy, yaml' 2>/dev/null || skip "no numpy or yaml for $PY"
    export SHARED TOOLS WORK=$BATS_TEST_TMPDIR OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
}

compare() {
    run "$PY" "$TESTS/net_oracle.py" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "random small networks agree with the oracle (NU01, NU02, NU04: flat SNPs, no calls, a last batch of one)" {
    compare random 24
}

@test "random small networks agree with the oracle for every instruction set" {
    for isa in portable avx2 avx512; do
        export DN_ISA=$isa
        run "$TOOLS/nettrace"
        [ "$status" -ne 8 ] || continue # not on this machine
        compare random 10
    done
}

@test "golden: initial weights to 1e-7 of upstream's" {
    "$PY" -c 'import torch' 2>/dev/null || skip "no torch for $PY"
    compare golden init
}

@test "golden: 8 epochs without dropout" {
    compare golden d0
}

@test "golden: 8 epochs with dropout in the main net" {
    compare golden d5
}

@test "golden: 8 epochs with input dropout" {
    compare golden ind
}

@test "golden: regression" {
    compare golden regression
}

@test "GP04: 1, 2 and 7 threads, AVX2 and AVX-512 give the same bytes" {
    compare threads
}
