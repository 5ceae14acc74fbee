#!/usr/bin/env bats
# bed2h5: dataset.h5 from filesets, tables and labels, as people have them.

load ../lib

setup() {
    "$PYTHON" -c 'import h5py' 2>/dev/null || skip "no h5py for $PYTHON"
    need h5diff
    cd "$BATS_TEST_TMPDIR" || exit 1
    b=$BIN/bed2h5
    real=$SHARED/realdata
}

check() { "$PYTHON" "$TESTS/h5_check.py" "$@"; }
t5_rows=$'0120.\n2100.\n11021\n20.12\n00012\n12.00'
# Nothing under the final name, and no temporary file.
nothing_left() { [ -z "$(find . -name "$1*" -print -quit)" ] || { ls -la; return 1; }; }

# ---- upstream's layout ----

@test "h5py reads exactly upstream's keys, types and values" {
    need_shared
    k=$real/kgp3_26pop/kgp3_26pop_all g=$SHARED/golden/kgp3
    run "$b" --bfile "$k" --labels "$g/labels.tsv" -o d.h5
    expect_exit 0
    expect_text "24 classes" "2504 people x 2659 SNPs"
    run check upstream d.h5 2504 2659 "$g/labels.tsv"
    expect_exit 0
    run "$b" --bfile "$k" --labels "$g/labels.tsv" --regression-labels "$g/train/regression/latitude.tsv" -o r.h5
    expect_exit 0
    run check upstream r.h5 2504 2659 "$g/labels.tsv" "$g/train/regression/latitude.tsv"
    expect_exit 0
    run "$b" --bfile "$k" -o n.h5
    expect_exit 0
    expect_text "warning: no labels were given"
    run check upstream n.h5 2504 2659
    expect_exit 0
    h5diff d.h5 r.h5 inputs inputs
    h5diff d.h5 n.h5 inputs inputs
}

@test "MA03: genotypes of every real cohort equal plink2's and plink1.9's, whichever allele they count" {
    need_shared
    need plink2
    need plink1.9
    for k in kgp1_14k/kgp1_14k hapmap3_14k/hapmap3_14k kgp3_26pop/kgp3_26pop_aisnp kgp3_26pop/kgp3_26pop_all \
        ethseq_21pop/ethseq_21pop humanorigins_tiny/humanorigins_tiny hapmap2_trios/hapmap2_trios; do
        labels=$real/$k.labels.tsv
        run "$b" --bfile "$real/$k" --labels "$labels" -o d.h5 --force
        expect_exit 0
        plink1.9 --bfile "$real/$k" --threads 1 --recode A --out one >/dev/null 2>&1
        run check raw d.h5 one.raw "$real/$k.bim"
        expect_exit 0
        [ "$k" != humanorigins_tiny/humanorigins_tiny ] || continue # Debian's plink2 takes its padding for people
        plink2 --bfile "$real/$k" --threads 1 --export A --out two >/dev/null 2>&1
        run check raw d.h5 two.raw "$real/$k.bim"
        expect_exit 0
    done
}

@test "every small size, both orders of .bed, any memory and threads" {
    for size in 1x1 3x1 1x5 4x6 5x6 6x7 7x9 8x255 9x256 130x257 1030x70; do
        n=${size%x*} m=${size#*x}
        t5 a --people "$n" --snps "$m" --labels
        "$TOOLS/plinkdump" --no-people --no-snps -b a >want
        run "$b" -b a -o a.h5 -fq -@ 1
        expect_exit 0
        check rows a.h5 | cmp - want
        check upstream a.h5 "$n" "$m"
        t5 s --people "$n" --snps "$m" --major 0 --padding 0xFF
        "$b" -b s -o s.h5 -fq -@ 7 --memory "$(room 60M)"
        cmp a.h5 s.h5
        "$b" -b a -o s.h5 -fq -@ 2 --memory "$(room 40M)"
        cmp a.h5 s.h5
    done
}

@test "filesets per chromosome, by @ and by repeated --bfile, make one dataset" {
    t5 all --people 9 --snps 6
    i=0
    for c in 1 2 22; do # the rows of each chromosome
        awk -v c=$c '$1 == c' all.bim >chr$c.bim
        cp all.fam chr$c.fam
        rows=$(wc -l <chr$c.bim)
        { head -c 3 all.bed; tail -c +$((4 + i * 3)) all.bed | head -c $((rows * 3)); } >chr$c.bed
        i=$((i + rows))
    done
    "$b" -b all -o all.h5 -q
    run "$b" -b 'chr@' -o at.h5
    expect_exit 0
    cmp all.h5 at.h5
    "$b" -b chr1 -b chr2 --bfile chr22 -o three.h5 -q
    cmp all.h5 three.h5
    sed -i '2s/S2/S9/' chr2.fam
    run "$b" -b 'chr@' -o x.h5
    expect_exit 5
    expect_text "chr1.fam and chr2.fam disagree"
    nothing_left x.h5
}

@test "--keep, --remove, --extract and --exclude choose as plink1.9 does" {
    need_shared
    need plink1.9
    k=$real/hapmap3_14k/hapmap3_14k
    awk 'NR % 3 {print $1, $2}' "$k.fam" >keep
    awk 'NR % 5 == 0 {print $1, $2}' "$k.fam" >remove
    awk 'NR % 7 {print $2}' "$k.bim" >extract
    awk 'NR % 2 == 0 {print $2}' "$k.bim" >exclude
    plink1.9 --bfile "$k" --threads 1 --keep keep --remove remove --extract extract --exclude exclude --keep-allele-order --make-bed --out p >/dev/null 2>&1
    "$b" -b p --labels "$k.labels.tsv" -o want.h5 -q
    run "$b" -b "$k" --labels "$k.labels.tsv" --keep keep --remove remove --extract extract --exclude exclude -o got.h5
    expect_exit 0
    h5diff want.h5 got.h5
    echo nobody >keep
    run "$b" -b "$k" --keep keep -o x.h5
    expect_exit 5
    expect_text "no person is left"
    echo rs0 >extract
    run "$b" -b "$k" --extract extract -o x.h5
    expect_exit 5
    expect_text "no SNP is left"
    nothing_left x.h5
}

# ---- text ----

@test "--tsv: upstream's table with NA, ./. and -1 gives the same dataset" {
    t5 a --people 9 --snps 40 --labels
    sed -i 's/^F[0-9]*/0/' a.fam
    "$b" -b a --labels a.labels.tsv -o a.h5 -q
    check tsv a.h5 >a.tsv
    run "$b" --tsv a.tsv --bim a.bim --labels a.labels.tsv -o t.h5
    expect_exit 0
    cmp a.h5 t.h5
    sed -i 's/$/\r/; $s/\r//' a.tsv
    truncate -s -1 a.tsv
    run "$b" --tsv a.tsv --labels a.labels.tsv -o t.h5 -f
    expect_exit 0
    expect_text "does not name both alleles"
    h5diff a.h5 t.h5 inputs inputs
    h5diff a.h5 t.h5 class_labels class_labels
    printf 'S3\nS7\n' >keep
    printf 'rs7\nrsB\n' >extract
    "$b" --tsv a.tsv --keep keep --extract extract -o t.h5 -fq
    "$b" -b a --keep keep --extract extract -o k.h5 -fq
    h5diff k.h5 t.h5 inputs inputs
}

@test "--tsv and --raw: what is wrong, with line, field and SNP" {
    printf 'id\trs1\trs2\nA\t0\t1\nB\t2\tNA\n' >good.tsv
    try() { # file, exit, words
        run "$b" "$1" x.txt -o x.h5
        expect_exit "$2"
        shift 2
        expect_text "$@"
        nothing_left x.h5
    }
    sed '3s/NA/3/' good.tsv >x.txt
    try --tsv 4 "line 3, field 3 (SNP rs2): '3' is no genotype"
    sed '2s/0/0.5/' good.tsv >x.txt
    try --tsv 4 "line 2, field 2 (SNP rs1): '0.5'"
    sed '3s/\tNA//' good.tsv >x.txt
    try --tsv 4 "line 3: 2 fields found, 3 expected"
    sed '3s/$/\t1/' good.tsv >x.txt
    try --tsv 4 "line 3: 4 fields found"
    sed 1d good.tsv >x.txt
    try --tsv 4 "no header"
    tr '\t' ' ' <good.tsv >x.txt
    try --tsv 4 "no tab"
    sed '3s/^B/A/' good.tsv >x.txt
    try --tsv 4 "person A stands on lines 2 and 3"
    sed '2s/^A//' good.tsv >x.txt
    try --tsv 4 "line 2 has no usable sample ID"
    sed '3i\\' good.tsv >x.txt
    try --tsv 4 "line 3 is empty"
    head -1 good.tsv >x.txt
    try --tsv 4 "0 people"
    : >x.txt
    try --tsv 4 "is empty"
    gzip -c good.tsv >x.txt
    try --tsv 4 "gzip"
    printf 'FID IID PAT MAT SEX PHENOTYPE rs1_A rs2_C\nF A 0 0 1 -9 0 NA\n' >x.txt
    run "$b" --raw x.txt -o raw.h5
    expect_exit 0
    [ "$(check rows raw.h5)" = $'0\n.' ]
    [ "$(check get raw.h5 snp_names)" = $'rs1\nrs2' ]
    printf 'FID IID PAT MAT SEX PHENOTYPE rs1_A rs1_HET\nF A 0 0 1 -9 0 NA\n' >x.txt
    try --raw 4 "--recode AD"
    cp good.tsv x.txt
    try --raw 4 "'FID' is expected"
    printf 'FID IID PAT MAT SEX PHENOTYPE rs1_A\nF A 0 0 1 -9 0\n' >x.txt
    printf '1\trs1\t0\t5\tC\tG\n' >x.bim
    run "$b" --raw x.txt --bim x.bim -o y.h5
    expect_exit 5
    expect_text "counts allele A" "C and G"
}

@test "--raw of plink1.9 and plink2 with --bim equals the fileset, also where they count the other allele" {
    need_shared
    need plink2
    need plink1.9
    k=$real/hapmap3_14k/hapmap3_14k
    "$b" -b "$k" -o want.h5 -q
    plink1.9 --bfile "$k" --threads 1 --keep-allele-order --recode A --out one >/dev/null 2>&1
    run "$b" --raw one.raw --bim "$k.bim" -o one.h5
    expect_exit 0
    h5diff want.h5 one.h5
    cut -f 2,5 "$k.bim" >a1
    plink2 --bfile "$k" --threads 1 --export A --export-allele a1 --out two >/dev/null 2>&1
    run "$b" --raw two.raw --bim "$k.bim" -o two.h5
    expect_exit 0
    h5diff want.h5 two.h5
    plink2 --bfile "$k" --threads 1 --export A include-alt --out ref >/dev/null 2>&1
    run "$b" --raw ref.raw -o ref.h5
    expect_exit 0
    refuse_text "does not name both"
    [ "$(check get ref.h5 snp_a1 | head -3)" = "$(cut -f 6 "$k.bim" | head -3)" ]
}

# ---- labels ----

@test "people without labels and labels without people: counted, ten named, an error under --strict" {
    t5 a --people 30 --snps 8 --labels
    head -16 a.labels.tsv >some.tsv
    for i in 1 2 3; do printf 'X%s\tA\n' $i >>some.tsv; done
    run "$b" -b a --labels some.tsv -o d.h5
    expect_exit 0
    expect_text "15 people are left out, as they have no label in some.tsv: F16 S16, F17 S17" "F25 S25, ..." \
        "3 labels name nobody in the cohort" "X1, X2, X3" "15 people x 8 SNPs" "2 classes"
    refuse_text "F26 S26"
    [ "$(check get d.h5 samples | tail -1)" = S15 ]
    run "$b" -b a --labels some.tsv --strict -o x.h5
    expect_exit 5
    expect_text "--strict: 15 people have no label" "F16 S16"
    run "$b" -b a --labels some.tsv --keep <(awk 'NR < 16 {print $1, $2}' a.fam) --strict -o x.h5
    expect_exit 5
    expect_text "--strict: 3 lines of some.tsv name nobody" "X1"
    nothing_left x.h5
}

@test "labels that differ by blanks or case are called out; NU05: small classes too" {
    t5 a --people 20 --snps 4
    awk 'BEGIN {print "sample\tlabel"} {print $2 "\t" (NR == 3 ? "gbr" : NR == 4 ? " GBR " : NR < 12 ? "GBR" : "Y R I")}' a.fam >l.tsv
    sed -i '20s/Y R I/YRI/' l.tsv
    run "$b" -b a --labels l.tsv -o d.h5
    expect_exit 0
    expect_text "two classes of l.tsv differ only by blanks or case: 'GBR' (10) and 'gbr' (1)" "'Y R I' (8) and 'YRI' (1)" \
        "blanks around fields removed on 1 lines" "class gbr has 1 person" "4 classes"
    [ "$(check get d.h5 class_label_names)" = $'GBR\nY R I\nYRI\ngbr' ]
}

@test "label files as people have them: CRLF, BOM, no last newline, non-ASCII class names kept as bytes" {
    t5 a --labels
    "$b" -b a --labels a.labels.tsv -o want.h5 -q
    { printf '\357\273\277'; sed 's/$/\r/' a.labels.tsv | head -c -2; } >l.tsv
    run "$b" -b a --labels l.tsv -o got.h5
    expect_exit 0
    cmp want.h5 got.h5
    sed 's/\tB$/\tC\xc3\xb4te\xff/' a.labels.tsv >l.tsv
    run "$b" -b a --labels l.tsv -o got.h5 -f
    expect_exit 0
    [ "$(check get got.h5 class_label_names | tail -1 | iconv -f utf-8 -t latin1 | od -An -tx1 | tr -d ' \n')" = 43c3b47465ff0a ]
    awk 'BEGIN {print "FID\tIID\tlabel"} NR > 1 {print "F" NR - 1 "\t" $0}' a.labels.tsv >two.tsv
    run "$b" -b a --labels two.tsv --id-cols 2 -o got.h5 -f
    expect_exit 0
    cmp want.h5 got.h5
}

@test "bad labels: each in its own words, and no output" {
    t5 a
    try() { # exit, words...; the labels come from stdin
        cat >l.tsv
        run "$b" -b a "$kind" l.tsv -o x.h5
        expect_exit "$1"
        shift
        expect_text l.tsv "$@"
        nothing_left x.h5
    }
    kind=--labels
    printf 's\tl\nS1\tA\nS2\tB\nS1\tB\n' | try 4 "person S1 has two labels: 'A' on line 2, 'B' on line 4"
    printf 'S1\tA\nS2\tB\n' | try 4 "line 1: no header"
    printf 'Q1\tA\nS2\tA\nS3\tB\n' | try 4 "line 1: no header" "line 2"
    printf 's l\nS1 A\n' | try 4 "tabs, not blanks"
    printf 's\tl\nS1\tA\n\nS2\tB\n' | try 4 "line 3 is empty"
    printf 's\tl\n' | try 4 "no labels"
    printf '' | try 4 "is empty"
    printf 's\tl\n"S1"\t"A"\n' | try 5 "in quotes"
    gzip -c a.bim | try 4 "gzip"
    printf 's\tl\nS1\tA\tx\n' | try 4 "3 fields found, 2 expected"
    kind=--regression-labels
    printf 's\tx\nS1\t1\nS2\tnan\n' | try 4 "line 3" "'nan'" "only finite"
    printf 's\tx\nS1\tinf\n' | try 4 "line 2" "'inf'"
    printf 's\tx\nS1\t1,5\n' | try 4 "'1,5'" "decimal point"
    printf 's\tx\nS1\ttall\n' | try 4 "a number is expected"
    printf 'S9\t1.5\nS1\t2\n' | try 4 "no header"
    run "$b" -b a --labels missing.tsv -o x.h5
    expect_exit 3
    sed -i '2s/S2/S1/' a.fam
    kind=--labels
    printf 's\tl\nS1\tA\n' | try 5 "shared by families F1 and F2" "--id-cols 2"
}

# ---- rows of the field reports ----

@test "IP01 IP03 IP05 IP06 IP07 IP12 IP13: odd filesets give T5 or a message" {
    t5 a
    "$b" -b a -o want.h5 -q
    [ "$(check rows want.h5)" = "$t5_rows" ]
    t5 a --major 0 # IP01
    "$b" -b a -o got.h5 -q && cmp want.h5 got.h5
    t5 a --padding 0xFC # IP05
    run "$b" -b a -o got.h5 -f
    expect_exit 0
    [ "$(grep -c 'bits after the last person' <<<"$output")" = 1 ]
    cmp want.h5 got.h5
    t5 a
    sed -i 's/\t/ /g; s/$/\r/' a.fam # IP07, IP13
    { printf '\357\273\277'; head -c -1 a.bim; } >x && mv x a.bim # IP12, IP13
    run "$b" -b a -o got.h5 -f
    expect_exit 0
    cmp want.h5 got.h5
    t5 a
    printf '\0\0' >>a.bed # IP03
    run "$b" -b a -o x.h5
    expect_exit 5
    expect_text "1 whole variants more"
    t5 a --people 4 --snps 1
    printf '\x6c\x1b\x01\x1b' >a.bed # IP06
    "$b" -b a -o got.h5 -fq
    [ "$(check rows got.h5)" = "01.2" ]
    nothing_left x.h5
}

@test "IP08 IP10 IP14 IP17: refused by name, and no dataset is left" {
    try() {
        run "$b" -b a -o x.h5
        expect_exit "$1"
        shift
        expect_text "$@"
        nothing_left x.h5
    }
    t5 a && sed -i 's/S2/S 2/' a.fam && try 4 "a.fam, line 2" "7 fields"
    t5 a && sed -i '4s/.*/F2\tS2\t0\t0\t1\t-9/' a.fam && try 4 "lines 2 and 4"
    t5 a && : >a.bim && head -c 3 a.bed >x && mv x a.bed && try 4 "0 SNPs"
    t5 a && : >a.fam && try 4 "0 people"
    t5 a && gzip -c a.bed >x && mv x a.bed && try 4 "gzip"
    t5 a && sed -i '2s/S2/S1/' a.fam # IP10: one IID in two families is two people
    "$b" -b a -o two.h5 -q
    [ "$(check get two.h5 samples | head -2)" = $'S1\nS1' ]
    [ "$(check get two.h5 fids | head -2)" = $'F1\nF2' ]
}

@test "IP16: foreign chromosomes are written down as they are" {
    t5 a
    awk 'BEGIN {OFS = "\t"; split("0 26 XY chrUn_1 scaffold_3 chrX", c, " ")} {$1 = c[NR]; print}' a.bim >x && mv x a.bim
    run "$b" -b a -o d.h5
    expect_exit 0
    [ "$(check get d.h5 snp_chrom | tr '\n' ' ')" = "0 26 XY chrUn_1 scaffold_3 chrX " ]
    [ "$(check rows d.h5)" = "$t5_rows" ]
}

@test "NU02: a person without a single call is named" {
    t5 a --people 1 --snps 5
    printf '\x6c\x1b\x01\x01\x01\x01\x01\x01' >a.bed
    run "$b" -b a -o d.h5
    expect_exit 0
    expect_text "1 people have no genotype at all, the first: F1 S1"
}

@test "ME01: memory stays within --memory whatever the cohort" {
    need_plain_build
    awk 'BEGIN { for (i = 1; i <= 40000; i++) print "F S" i " 0 0 1 -9" }' >big.fam
    awk 'BEGIN { for (i = 1; i <= 5000; i++) print "1\trs" i "\t0\t" i "\tA\tG" }' >big.bim
    printf '\x6c\x1b\x01' >big.bed
    truncate -s 50000003 big.bed || skip "no sparse files here"
    printf '\x1b' | dd of=big.bed bs=1 seek=50000002 conv=notrunc status=none
    run "$b" -b big -o d.h5 --memory 40M
    expect_exit 0
    mib=$(sed -n 's/.* \([0-9]*\)\.[0-9]* MiB peak.*/\1/p' <<<"$output")
    [ "$mib" -le 40 ]
    [ "$("$PYTHON" -c 'import h5py; x = h5py.File("d.h5")["inputs"]; print(x.shape, x[-4:, -1], x[0, 0])')" = "(40000, 5000) [ 0  1 -1  2] 2" ]
    run "$b" -b big -o x.h5 --memory 1M
    expect_exit 7
    expect_text "--memory"
    nothing_left x.h5
}

@test "ME02 CS03: full disks are write errors that say so, and nothing is left" {
    t5 a --people 100 --snps 1000
    run "$b" -b a -o /dev/full
    expect_exit 6
    run bash -c "trap '' XFSZ; ulimit -f 10; $b -b a -o x.h5"
    expect_exit 6
    expect_text "x.h5" "File too large"
    run bash -c "ulimit -f 10; $b -b a -o x.h5"
    expect_exit 6
    nothing_left x.h5
    mkdir small
    run unshare -rm bash -c "mount -t tmpfs -o size=64k none small && cd small && { $b -b ../a -o x.h5; rc=\$?; ls -A; exit \$rc; }"
    [ "$status" -ne 1 ] || skip "no user namespaces"
    expect_exit 6
    expect_text "not enough room for x.h5: needs 1" " free"
    [ "$(tail -1 <<<"$output" | grep -c x.h5)" = 0 ]
}

@test "CS02 CS04: killed at any moment, nothing stands under the final name and the rest is refused" {
    awk 'BEGIN { for (i = 1; i <= 20000; i++) print "F S" i " 0 0 1 -9" }' >big.fam
    awk 'BEGIN { for (i = 1; i <= 5000; i++) print "1\trs" i "\t0\t" i "\tA\tG" }' >big.bim
    printf '\x6c\x1b\x01' >big.bed
    truncate -s 25000003 big.bed || skip "no sparse files here"
    killed=0
    for ms in 010 030 050 080 120 160 200 250; do
        "$b" -b big -o d.h5 -q 2>/dev/null &
        pid=$!
        sleep "0.$ms"
        kill -9 "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
        if [ -e d.h5 ]; then # it was faster: then it is whole
            check upstream d.h5 20000 5000
            rm d.h5
        fi
        for left in d.h5.tmp.*; do
            [ -e "$left" ] || continue
            killed=$((killed + 1))
            run "$PYTHON" -c 'import sys, h5py; h5py.File(sys.argv[1])' "$left"
            # Killed between the last byte and the renaming: then the file is whole, under its temporary name.
            if [ "$status" -eq 0 ]; then
                check upstream "$left" 20000 5000
            elif [ -x "$BIN/gpack" ]; then
                run "$BIN/gpack" "$left" -o g.gpk
                [ "$status" -eq 4 ]
            fi
            rm "$left"
        done
    done
    for sig in TERM INT HUP; do # these leave nothing at all
        "$b" -b big -o d.h5 -q 2>/dev/null &
        pid=$!
        sleep 0.1
        kill -s $sig "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
        rm -f d.h5
        nothing_left d.h5
    done
}

@test "UX03 UX04: outputs are tested first, options are strict, nothing is replaced unasked" {
    t5 a --labels
    run "$b" -b a -o nodir/x.h5
    expect_exit 6
    expect_text "folder nodir"
    run "$b" -b a -o .
    expect_exit 2
    mkdir ro && chmod 555 ro
    if [ "$(id -u)" != 0 ]; then
        run "$b" -b a -o ro/x.h5
        expect_exit 6
    fi
    run "$b" -b a -o d.h5
    expect_exit 0
    cp d.h5 copy.h5
    run "$b" -b a --labels a.labels.tsv -o d.h5
    expect_exit 2
    expect_text "exists" "--force"
    cmp d.h5 copy.h5
    run "$b" -b a --labels a.labels.tsv -o d.h5 --force
    expect_exit 0
    run "$b" -b a -o a.bed --force
    expect_exit 2
    expect_text "is the input"
    run "$b" -b a --labels a.labels.tsv -o a.labels.tsv --force
    expect_exit 2
    t5 good && cmp a.bed good.bed
    run "$b" -b a --label x -o y.h5
    expect_exit 2
    expect_text "--labels"
    run "$b" -b a --id-cols 3 -o y.h5
    expect_exit 2
    run "$b" -b a -o -
    expect_exit 2
    expect_text "gpack"
    run "$b" -o y.h5
    expect_exit 2
    run "$b" -b a --tsv x -o y.h5
    expect_exit 2
    run "$b" -b a a -o y.h5
    expect_exit 2
    run "$b" -b a
    expect_exit 2
    run "$b" --bfile b2 -o y.h5
    expect_exit 3
    nothing_left y.h5
    run "$b" --help
    expect_exit 0
    for o in $(grep -oE '^ +(-., +)?--[a-z-]+' <<<"$output" | grep -oE -- '--[a-z-]+'); do # help names only what the parser knows
        run "$b" "$o=zz" -b a
        refuse_text "unknown option"
    done
}

@test "the same inputs give the same bytes, at another time too" {
    t5 a --people 50 --snps 300 --labels
    "$b" -b a --labels a.labels.tsv -o one.h5 -q
    sleep 1.1
    "$b" -b a --labels a.labels.tsv -o two.h5 -q -@ 2
    cmp one.h5 two.h5
}
