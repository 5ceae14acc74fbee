#!/usr/bin/env bats
# What every program must do alike, the guard against committing data, and the demo's simulator.

programs() {
    local p
    for p in bed2h5 gpack snpmatch dnpredict dnsplit dntrain dncheck; do
        [ ! -x "$BIN/$p" ] || echo "$p"
    done
}

@test "every program: --help on stdout, exit 0, names its options" {
    for p in $(programs); do
        run "$BIN/$p" --help
        [ "$status" -eq 0 ] || { echo "$p: $status"; false; }
        [[ $output == *"--threads"* && $output == *"--help"* ]] || { echo "$p: $output"; false; }
        "$BIN/$p" --help 2>/dev/null | head -1 | grep -q "$p" || { echo "$p: usage line"; false; }
    done
}

@test "every program: --version tells version, compiler, instruction set, libraries, CUDA" {
    for p in $(programs); do
        run "$BIN/$p" --version
        [ "$status" -eq 0 ]
        for word in "$p" compiler "instruction set" HDF5 zstd BLAS CUDA; do
            [[ $output == *"$word"* ]] || { echo "$p: no $word in: $output"; false; }
        done
    done
}

@test "every program: --help does not lie: each option it lists is known to the parser" {
    for p in $(programs); do
        for o in $("$BIN/$p" --help 2>/dev/null | grep -oE '^ +(-[a-zA-Z@], )?--[a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+'); do
            case $o in --help | --version) continue ;; esac
            run "$BIN/$p" "$o"
            [[ $output != *"unknown option"* ]] || { echo "$p $o: $output"; false; }
        done
    done
}

@test "UX04: an unknown option is exit 2 with the nearest name, in every program" {
    for p in $(programs); do
        run "$BIN/$p" --thread 2
        [ "$status" -eq 2 ] || { echo "$p: $status: $output"; false; }
        [[ $output == *"--threads"* ]] || { echo "$p: $output"; false; }
        for bad in "-k 0" "--threads xyz" "--threads 0" "--threads -1" "--memory 0" "--memory x"; do
            # shellcheck disable=SC2086
            run "$BIN/$p" $bad
            [ "$status" -eq 2 ] || { echo "$p $bad: $status: $output"; false; }
        done
    done
}

@test "every program without arguments is exit 2 with a way out, never a crash" {
    for p in $(programs); do
        run "$BIN/$p" </dev/null
        [ "$status" -eq 2 ] || { echo "$p: $status: $output"; false; }
        [[ $output == *"--help"* || $output == *"-o"* || $output == *"--"* ]] || { echo "$p: $output"; false; }
    done
}

@test "CS03: help and version to a full disk are exit 6" {
    for p in $(programs); do
        run bash -c "'$BIN/$p' --help >/dev/full"
        [ "$status" -eq 6 ] || { echo "$p: $status"; false; }
        run bash -c "'$BIN/$p' --version >/dev/full"
        [ "$status" -eq 6 ] || { echo "$p: $status"; false; }
    done
}

@test "DN_ISA names an instruction set or is refused" {
    for p in $(programs); do
        DN_ISA=portable run "$BIN/$p" --version
        [ "$status" -eq 0 ]
        [[ $output == *"instruction set: portable"* ]] || { echo "$p: $output"; false; }
        DN_ISA=mmx run "$BIN/$p" --version
        [ "$status" -eq 2 ] || { echo "$p: $status: $output"; false; }
    done
}

@test "the simulator is seeded: same seed same bytes, other seed other bytes" {
    cd "$BATS_TEST_TMPDIR"
    "$TOOLS/dnsim" -q -o a -n 50 -m 300 --cohort 20 --swap 0.3 --flip 0.2 --drop 0.1 --missing 0.05
    "$TOOLS/dnsim" -q -o b -n 50 -m 300 --cohort 20 --swap 0.3 --flip 0.2 --drop 0.1 --missing 0.05
    "$TOOLS/dnsim" -q -o c -n 50 -m 300 -s 2
    cmp a.bed b.bed && cmp a_cohort.bed b_cohort.bed && cmp a_cohort.bim b_cohort.bim
    run cmp -s a.bed c.bed
    [ "$status" -eq 1 ]
    [ "$(stat -c %s a.bed)" -eq $((3 + 300 * 13)) ]
}

# A throw-away repository with the guard switched on.
guarded() {
    git init -q "$BATS_TEST_TMPDIR/r"
    cd "$BATS_TEST_TMPDIR/r"
    git config user.email a@b.c
    git config user.name n
    git config core.hooksPath "$TESTS/../.githooks"
}

@test "the pre-commit guard refuses data by name and by first bytes, and cluster paths" {
    guarded
    echo "int x;" >ok.c
    git add ok.c
    run git commit -qm ok
    [ "$status" -eq 0 ]
    for f in x.bed x.fam x.h5 x.hdf5 x.npy x.npz x.pt x.gpk; do
        echo text >"$f"
        git add "$f"
        run git commit -qm "$f"
        [ "$status" -ne 0 ] || { echo "$f passed"; false; }
        [[ $output == *"$f"* ]]
        git rm -q --cached "$f"
    done
    printf '\x6c\x1b\x01abc' >innocent.dat
    git add innocent.dat
    run git commit -qm bed
    [ "$status" -ne 0 ]
    git rm -q --cached innocent.dat
    printf '\x89GPK\r\n\x1a\nabc' >innocent.dat
    git add innocent.dat
    run git commit -qm gpk
    [ "$status" -ne 0 ]
    git rm -q --cached innocent.dat
    echo 'DATA=/lustre/someone/cohort' >job.sh # guard: expected
    git add job.sh
    run git commit -qm path
    [ "$status" -ne 0 ]
    [[ $output == *"absolute path"* ]]
}
