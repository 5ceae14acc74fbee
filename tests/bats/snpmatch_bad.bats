#!/usr/bin/env bats
# snpmatch on bad input, bad command lines, full disks and sudden death: the exit code, the words, and no output left behind.

load ../lib

setup() {
    cd "$BATS_TEST_TMPDIR"
    t5 a
    cp a.bim m.bim
}

match() { "$BIN/snpmatch" "$@"; }
# refuses CODE WORD... -- ARGS: exit code, words, and neither an output nor a temporary file.
refuses() {
    local code=$1 words=()
    shift
    while [ "$1" != -- ]; do words+=("$1"); shift; done
    shift
    run match "$@"
    expect_exit "$code" && expect_text "${words[@]}" || return 1
    nothing_left
}
nothing_left() {
    local left
    left=$(find . -name '*out*')
    [ -z "$left" ] || { echo "left behind: $left"; return 1; }
}
# a larger cohort, for outputs that do not fit somewhere
wide() { "$TOOLS/dnsim" -q -f -o w -n 4 -m 5000 --cohort "${1:-400}"; }

# ---- the command line ----

@test "UX04: options that miss, clash or make no sense are exit 2 and say what to do" {
    refuses 2 "--bfile" -- --model m.bim -o out.gpk
    refuses 2 "--model" -- --bfile a -o out.gpk
    refuses 2 "-o FILE" "--report" -- --bfile a --model m.bim
    refuses 2 "unexpected argument \"m.bim\"" -- --bfile a m.bim -o out.gpk
    refuses 2 "different names" -- --bfile a --model m.bim -o out.gpk --report out.gpk
    refuses 2 "did you mean pos" -- --bfile a --model m.bim -o out.gpk --by poss
    refuses 2 "keep|drop|freq" -- --bfile a --model m.bim -o out.gpk --ambiguous no
    refuses 2 "did you mean --min-overlap" -- --bfile a --model m.bim -o out.gpk --min-overlp 3
    for n in 0 -1 x 1e3 3.5 ""; do refuses 2 "--min-overlap" -- --bfile a --model m.bim -o out.gpk --min-overlap "$n"; done
    for r in 0:5 5:4 5 : 1: :5 1-5 1:x a:b; do refuses 2 "--samples" "FIRST:LAST" -- --bfile a --model m.bim -o out.gpk --samples "$r"; done
    refuses 5 "--samples 2:6: the cohort has 5 people" -- --bfile a --model m.bim -o out.gpk --samples 2:6
    SLURM_CPUS_PER_TASK=many refuses 2 "SLURM_CPUS_PER_TASK" -- --bfile a --model m.bim -o out.gpk
    refuses 2 "is a folder" -- --bfile a --model m.bim -o /tmp
}

@test "UX04: an existing output is replaced only under --force, and never if it is an input" {
    match -q --bfile a --model m.bim -o one.gpk --report one.tsv
    cp one.gpk kept.gpk
    run match --bfile a --model m.bim -o one.gpk
    expect_exit 2
    expect_text "one.gpk exists already" "--force"
    run match --bfile a --model m.bim -o two.gpk --report one.tsv
    expect_exit 2
    expect_text "one.tsv exists already"
    cmp one.gpk kept.gpk
    [ ! -e two.gpk ]
    run match --bfile a --model m.bim -o one.gpk --report one.tsv --force
    expect_exit 0
    cmp one.gpk kept.gpk
    cp a.bed a.copy
    for f in a.bed a.bim a.fam m.bim; do
        run match --bfile a --model m.bim -o "$f" --force
        expect_exit 2
        expect_text "is the input"
        run match --bfile a --model m.bim --report "./$f" --force
        expect_exit 2
    done
    cmp a.bed a.copy
}

@test "UX03: the output is tested before work; a failed run leaves nothing and can be repeated as it is" {
    refuses 6 "folder nodir" -- --bfile a --model m.bim -o nodir/out.gpk
    refuses 6 "folder nodir" -- --bfile a --model m.bim -o out.gpk --report nodir/out.tsv
    refuses 3 "no-such-model" -- --bfile a --model no-such-model -o out.gpk
    refuses 3 "nothere.bed" -- --bfile nothere --model m.bim -o out.h5
    run match --bfile a --model m.bim -o out.gpk
    expect_exit 0
}

@test "UX03, issue 2.6: a folder that cannot be written" {
    unshare -rm true 2>/dev/null || skip "no user namespaces here"
    mkdir ro
    run unshare -rm bash -c "mount -t tmpfs none ro && mount -o remount,ro ro || exit 99; '$BIN/snpmatch' --bfile a --model m.bim -o ro/out.gpk"
    expect_exit 6
    expect_text "ro/out.gpk"
    run unshare -rm bash -c "mount -t tmpfs none ro && mount -o remount,ro ro || exit 99; '$BIN/snpmatch' --bfile a --model m.bim -o ro/out.h5"
    expect_exit 6
}

# ---- models ----

@test "--model: what is no list of SNPs is named for what it is" {
    gzip -c m.bim >m.gz
    : >empty
    mkdir folder
    printf 'rsA\nrsB\n' >list.txt
    head -c 300 /dev/urandom >noise
    refuses 4 "gzip-compressed" -- --bfile a --model m.gz -o out.gpk
    refuses 4 "a PLINK .bed file" ".bim" -- --bfile a --model a.bed -o out.gpk
    refuses 4 "an empty file" -- --bfile a --model empty -o out.gpk
    refuses 4 "unknown binary data" -- --bfile a --model noise -o out.gpk
    refuses 4 "read as a .bim" "list.txt, line 1" -- --bfile a --model list.txt -o out.gpk
    run match --bfile a --model folder -o out.gpk
    [ "$status" -eq 3 ] || [ "$status" -eq 4 ] || { echo "$status: $output"; false; }
    expect_text "folder"
    nothing_left
    match -q --bfile a --model m.bim -o panel.gpk
    head -c -10 panel.gpk >cut.gpk
    refuses 4 "cut.gpk" -- --bfile a --model cut.gpk -o out.gpk
}

@test "a release that lacks its alleles is matched by ID alone, with a warning" {
    need_shared
    cp -r "$SHARED/golden/kgp3/release" r
    chmod -R u+w r
    rm r/DN_SNPS/dummy.bim
    run match --bfile "$SHARED/golden/kgp3/infer/query" --model r -o q.gpk
    expect_exit 0
    expect_text "matching without alleles" "no dummy.bim" "1595 of the model's 2659 SNPs"
    run match --bfile "$SHARED/golden/kgp3/infer/query" --model r --by pos -o out.gpk
    expect_exit 5
    expect_text "no positions to match by" "--by id"
    nothing_left
    rm r/DN_SNPS/dietnet_snps.txt
    run match --bfile "$SHARED/golden/kgp3/infer/query" --model r -o out.gpk
    [ "$status" -eq 3 ] || [ "$status" -eq 4 ]
    nothing_left
}

@test "issue 2.6: nothing in common is exit 5 and no output, also under --force" {
    t5 b --tag other
    awk 'BEGIN { OFS = "\t" } { $4 += 7; print }' b.bim >c.bim && mv c.bim b.bim
    refuses 5 "none of the model's 6 SNPs can be used" -- --bfile b --model m.bim -o out.gpk
    refuses 5 "none of the model's 6 SNPs can be used" -- --bfile b --model m.bim -o out.h5 --report out.tsv --force
    awk 'BEGIN { OFS = "\t" } { $5 = "AA"; $6 = "CC"; print }' m.bim >n.bim
    refuses 5 "6 with other alleles" "coded in letters" -- --bfile a --model n.bim -o out.gpk --force
}

# ---- cohorts: the reader's own tests are in plink_input.bats; here, that its errors pass with their codes ----

@test "IP03, IP04, IP14, IP17: filesets that do not fit, are empty or are something else" {
    cp a.bed keep.bed
    head -c -1 keep.bed >a.bed
    refuses 4 "a.bed" "bytes" -- --bfile a --model m.bim -o out.gpk
    { cat keep.bed; printf '\0\0'; } >a.bed
    refuses 5 "1 whole variants more" -- --bfile a --model m.bim -o out.gpk
    gzip -c keep.bed >a.bed
    refuses 4 "gzip-compressed" -- --bfile a --model m.bim -o out.gpk
    cp keep.bed a.bed
    t5 b --tag x
    sed -i '2{h;d};3{G}' b.fam
    refuses 5 "b.fam disagree on line 2" -- --bfile a --bfile b --model m.bim -o out.gpk
    refuses 2 "given twice" -- --bfile a --bfile ./a --model m.bim -o out.gpk
    : >e.bim && head -c 3 a.bed >e.bed && cp a.fam e.fam
    run match --bfile e --model m.bim -o out.gpk
    expect_exit 4
    expect_text "0 SNPs"
    : >a.fam
    refuses 4 "0 people" -- --bfile a --model m.bim -o out.gpk
    refuses 3 "no fileset matches z@" -- --bfile z@ --model m.bim -o out.gpk
}

@test "IP07, IP08, IP10, IP12, IP13: text as people write it is read, or refused with its line" {
    match -q --bfile a --model m.bim -o want.gpk
    tr '\t' ' ' <a.fam >b.fam && sed 's/\t/  /g; s/$/\r/' a.bim >b.bim && cp a.bed b.bed
    match -q --bfile b --model m.bim -o b.gpk
    cmp want.gpk b.gpk
    { printf '\357\273\277'; cat a.bim; } >b.bim
    head -c -1 a.fam >b.fam
    match -q -f --bfile b --model b.bim -o b.gpk
    cmp want.gpk b.gpk
    sed 's/S2/S 2/' a.fam >b.fam
    refuses 4 "b.fam, line 2" -- --bfile b --model m.bim -o out.gpk
    sed '3s/.*/F1\tS1\t0\t0\t1\t-9/' a.fam >b.fam
    refuses 4 "b.fam" "line" "F1" -- --bfile b --model m.bim -o out.gpk
    cp a.fam b.fam
    sed '4s/\t100\t/\t1e+05\t/' a.bim >b.bim
    refuses 4 "b.bim, line 4" "1e+05" -- --bfile b --model m.bim -o out.gpk
    sed '3s/.*//' a.bim >b.bim
    run match --bfile b --model m.bim -o out.gpk
    [ "$status" -eq 4 ] || [ "$status" -eq 5 ] || { echo "$status: $output"; false; }
    expect_text "line 3"
    nothing_left
}

@test "--keep and --remove that leave nobody, name nobody or are no lists" {
    : >none
    echo "X1 Y1" >other
    cut -f1,2 a.fam >all
    refuses 4 "none" -- --bfile a --model m.bim --keep none -o out.gpk
    refuses 5 "no person is left" -- --bfile a --model m.bim --keep other -o out.gpk
    refuses 5 "no person is left" -- --bfile a --model m.bim --remove all -o out.gpk
    refuses 3 "nolist" -- --bfile a --model m.bim --keep nolist -o out.gpk
    echo S5 >five
    refuses 5 "no person is left" -- --bfile a --model m.bim --keep five --samples 1:4 -o out.gpk
    printf 'F1 S1\nF9 \033[1mbold\n' >esc
    run match --bfile a --model m.bim --keep esc -o a.gpk
    [[ $output != *$'\033'* ]]
}

# ---- memory, disks, death ----

@test "ME01: --memory that cannot hold even a few people is exit 7 with a figure" {
    wide 20
    refuses 7 "--memory is too small by" "MiB" -- --bfile w_cohort --model w.bim --memory 1M -o out.gpk
    refuses 7 "--memory is too small by" -- --bfile w_cohort --model w.bim --memory 1M -o out.h5
}

@test "CS03: a full device, for every output, is exit 6" {
    for o in "-o /dev/full" "-o - >/dev/full" "-o out.gpk --report /dev/full" "--report /dev/full" "--report - >/dev/full"; do
        run bash -c "'$BIN/snpmatch' --bfile a --model m.bim $o"
        expect_exit 6
        expect_text "No space left"
        nothing_left
    done
    # A reader that goes away.
    wide
    run bash -c "set -o pipefail; '$BIN/snpmatch' -q --bfile w_cohort --model w.bim -o - 2>err | head -c 100 >/dev/null; echo \${PIPESTATUS[0]}; cat err"
    [[ $output == 6* ]] || { echo "$output"; false; }
}

@test "CS03, ME02: a small disk: need and free before work, and no file" {
    unshare -rm true 2>/dev/null || skip "no user namespaces here"
    wide
    mkdir small
    for f in out.gpk out.h5; do
        run unshare -rm bash -c "mount -t tmpfs -o size=64k none small || exit 99; '$BIN/snpmatch' -q --bfile w_cohort --model w.bim -o small/$f; r=\$?; ls -A small; exit \$r"
        expect_exit 6
        expect_text "not enough room for small/$f: needs" "65536 free"
        [[ $(tail -1 <<<"$output") == *"free"* ]] || { echo "$output"; false; } # ls found nothing
    done
    # Full in the middle: the report takes what was free a moment ago.
    run unshare -rm bash -c "mount -t tmpfs -o size=64k none small || exit 99; '$BIN/snpmatch' -q --bfile w_cohort --model w.bim --report small/out.tsv; r=\$?; ls -A small; exit \$r"
    expect_exit 6
    expect_text "small/out.tsv"
    [[ $(tail -1 <<<"$output") == *"cannot write"* ]] || { echo "$output"; false; }
}

@test "CS03: ulimit -f: a write error, not a signal, and no file" {
    wide
    for f in out.gpk out.h5; do
        run bash -c "ulimit -f 100; '$BIN/snpmatch' -q --bfile w_cohort --model w.bim -o $f"
        expect_exit 6
        expect_text "File too large"
        nothing_left
    done
}

@test "CS02, CS04: killed in the middle: nothing under the final name, and the same command works again" {
    wide 3000
    match -q --bfile w_cohort --model w.bim -o want.gpk
    match -q --bfile w_cohort --model w.bim -o want.h5
    for f in k.gpk k.h5; do
        for ms in 1 3 5 8 12 17 23 30 40 55; do
            "$BIN/snpmatch" -q --bfile w_cohort --model w.bim -o $f 2>/dev/null &
            pid=$!
            sleep "$(printf '0.%03d' $ms)"
            kill -9 $pid 2>/dev/null || true
            wait $pid || true
            if [ -e $f ]; then cmp $f "want.${f#k.}" && rm $f; fi
        done
        match -q --bfile w_cohort --model w.bim -o $f
        cmp $f "want.${f#k.}"
    done
}

@test "CS02: a signal that can be caught leaves no temporary file either" {
    wide 3000
    mkfifo pipe
    for sig in TERM HUP; do # bash starts background jobs with INT ignored, and what is ignored stays so
        # The reader of the pipe never reads on, so the program is caught in the middle of writing.
        sleep 5 <pipe &
        reader=$!
        "$BIN/snpmatch" -q --bfile w_cohort --model w.bim -o pipe 2>/dev/null &
        pid=$!
        sleep 0.3
        kill -$sig $pid
        rc=0
        wait $pid || rc=$?
        kill $reader 2>/dev/null || true
        wait $reader || true
        [ $rc -gt 128 ] || { echo "$sig: $rc"; false; }
    done
    rm pipe
    for ms in 5 10 20 40; do
        "$BIN/snpmatch" -q --bfile w_cohort --model w.bim -o out.gpk 2>/dev/null &
        pid=$!
        sleep "$(printf '0.%03d' $ms)"
        kill -TERM $pid 2>/dev/null || true
        wait $pid || true
        rm -f out.gpk
        nothing_left
    done
}

@test "a .h5 cannot go where only a stream can" {
    mkfifo pipe.h5
    (cat pipe.h5 >/dev/null &)
    run match --bfile a --model m.bim -o pipe.h5
    [ "$status" -ne 0 ]
    rm pipe.h5
    run match --bfile a --model m.bim -o out.hdf5
    expect_exit 0
}
