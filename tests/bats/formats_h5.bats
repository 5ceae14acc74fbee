#!/usr/bin/env bats
# dataset.h5 and packages against their documents, by a second reader; and damaged files in the programs.

load ../lib

setup() {
    "$PYTHON" -c 'import h5py' 2>/dev/null || skip "no h5py for $PYTHON"
    cd "$BATS_TEST_TMPDIR" || exit 1
}

second() { "$PYTHON" "$TESTS/h5_reader.py" "$@"; }

@test "datasets hold what docs/format-dataset.md says" {
    for size in 1x1 5x6 9x255 7x256 30x257; do
        t5 a --people "${size%x*}" --snps "${size#*x}" --labels
        "$BIN/bed2h5" -b a --labels a.labels.tsv -o d.h5 -fq
        run second d.h5
        expect_exit 0
        [ "$output" = "dataset ${size%x*} x ${size#*x}" ]
    done
    sed -i 's/^F[0-9]*/0/' a.fam # no family IDs
    awk 'BEGIN {print "s\tx"} {print $2 "\t" NR / 7}' a.fam >r.tsv
    "$BIN/bed2h5" -b a --regression-labels r.tsv -o d.h5 -fq
    run second d.h5
    expect_exit 0
    run "$PYTHON" "$TESTS/h5_check.py" get d.h5 fids
    [ "$status" -ne 0 ]
}

@test "packages hold what docs/format-package.md says" {
    "$TOOLS/mkmodel" -o m --snps 301 --folds 1 --repeats 2 --units 20 --hidden 8 --layers 2 --classes 5 -q
    "$TOOLS/mkmodel" -o r --snps 4 --folds 1 --repeats 1 --units 3 --layers 0 --regression -q
    for f in m/*.h5 r/*.h5; do
        run second "$f"
        expect_exit 0
    done
    expect_text "4 SNPs, 1 outputs, layers 2"
}

@test "CS10: a package that is cut, flipped, empty or not a package stops the ensemble by its name" {
    "$TOOLS/mkmodel" -o m --snps 200 --folds 1 --repeats 3 --units 20 --classes 5 -q
    f=$(find m -name '*.h5' | sort | sed -n 2p)
    cp "$f" good
    size=$(stat -c %s good)
    try() { # exit, words
        run "$TOOLS/inspect" model m
        expect_exit "$1"
        shift
        expect_text "$f" "$@"
    }
    head -c $((size / 2)) good >"$f"
    try 4 "damaged or truncated"
    : >"$f"
    try 4 "an empty file"
    at=$("$PYTHON" -c 'import h5py, sys; print(h5py.File(sys.argv[1])["fat/weight"].id.get_offset())' good)
    cp good "$f"
    printf '\x01' | dd of="$f" bs=1 seek=$((at + 40)) conv=notrunc status=none
    try 4 "checksum of 'fat/weight'"
    cp good "$f"
    "$PYTHON" -c 'import h5py, sys; h5py.File(sys.argv[1], "r+").attrs.modify("fold", 3)' "$f"
    try 4 "checksum"
    cp good "$f"
    "$PYTHON" -c 'import h5py, sys; h5py.File(sys.argv[1], "r+").attrs.modify("version_major", 7)' "$f"
    try 8 "version 7.0" "update dnpipe"
    t5 a --labels
    "$BIN/bed2h5" -b a -o "$f" -fq
    try 4 "not a model package" "a dataset"
    cp good "$f"
    run "$TOOLS/inspect" model m
    expect_exit 0
}
