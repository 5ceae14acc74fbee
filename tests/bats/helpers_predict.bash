# Shared by the dnpredict tests.

PYTHON=${PYTHON:-/usr/bin/python3}

predict_setup_file() {
    export KGP3=$SHARED/golden/kgp3 KGP1=$SHARED/golden/kgp1
}

predict_setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
}

need_shared() {
    [ -n "$SHARED" ] || skip "no real data (../shared)"
}

# compare_scores.py, with its words shown when it fails; skipped where Python lacks h5py.
compare() {
    "$PYTHON" -c 'import h5py, numpy' 2>/dev/null || skip "no Python with h5py and numpy"
    run "$PYTHON" "$TESTS/compare_scores.py" "$@"
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
}
