#!/usr/bin/env bats
# Filesets as people have them: what is read, what is refused, and with which words. Driven by tests/tools/plinkdump.c.

load ../lib

setup() {
    cd "$BATS_TEST_TMPDIR"
    dump=$TOOLS/plinkdump
    odd=$SHARED/realdata/oddfiles
}

dosages() { "$dump" --no-people --no-snps "$@"; }
people() { "$dump" -b "$1" --no-snps | sed -n 's/^P\t//p'; }
t5_dosages=$'0120.\n2100.\n11021\n20.12\n00012\n12.00'

# A copy of a fileset that every PLINK reads: people F1/S1.., SNPs v1.. on chromosome 1 in file order, alleles A and G.
plain_copy() {
    cp "$1.bed" "$2.bed"
    chmod u+w "$2.bed"
    awk '{print "F"NR" S"NR" 0 0 1 -9"}' "$1.fam" >"$2.fam"
    awk '{print "1\tv"NR"\t0\t"NR"\tA\tG"}' "$1.bim" >"$2.bim"
}

# same_as_plink PREFIX TOOL: the genotypes of PREFIX equal those that TOOL's --export A / --recode A gives.
same_as_plink() {
    plain_copy "$1" plain
    if [ "$2" = plink2 ]; then plink2 --bfile plain --threads 1 --export A --out raw >log 2>&1 || { cat log; return 1; }
    else plink1.9 --bfile plain --threads 1 --recode A --out raw >log 2>&1 || { cat log; return 1; }; fi
    "$PYTHON" "$TESTS/raw_matrix.py" raw.raw A >want
    dosages -b "$1" >got 2>/dev/null
    cmp got want
}

# ---- the rows of the field reports under input-parse ----

@test "IP01: a sample-major .bed is transposed, also where its size fits both ways" {
    t5 a --people 4 --snps 4
    t5 b --people 4 --snps 4 --major 0
    [ "$(stat -c %s a.bed)" = 7 ] && [ "$(stat -c %s b.bed)" = 7 ]
    run dosages -b b
    expect_exit 0
    [ "$output" = "$(dosages -b a)" ]
    for n in 1 3 5 17; do
        for m in 1 2 5 6 23; do
            t5 a --people $n --snps $m
            t5 b --people $n --snps $m --major 0 --padding 0xFF
            [ "$(dosages -b b 2>/dev/null)" = "$(dosages -b a)" ]
        done
    done
}

@test "IP02: a .bed of 28 GB: 64-bit sizes and offsets" {
    huge_fileset
    local limit=unlimited
    if plain_build; then limit=1000000; fi # KiB; sanitizers reserve terabytes
    run bash -c "ulimit -v $limit; $dump -b big --no-people --no-snps --list 0,1,17647,17648,17649,35296,229999 --count 6"
    expect_exit 0
    [ "$output" = $'2.1022\n222222\n2.1022\n2.1022\n222222\n2.1022\n2.1022' ]
    run dosages -b big --list 0,17647,17648,35295,35296,229999 --first 486744
    [ "$output" = $'01.2\n01.2\n01.2\n2222\n01.2\n01.2' ]
    truncate -s 27988010002 big.bed
    run dosages -b big
    expect_exit 4
    expect_text "27988010002 bytes" "27988010003" "1 bytes fewer"
}

@test "IP03: a .bed of the wrong size: found, expected, and how many whole variants" {
    t5 a
    cp a.bed good.bed
    printf '\0\0' >>a.bed
    run dosages -b a
    expect_exit 5
    expect_text "a.bed has 17 bytes" "5 people (a.fam)" "6 SNPs (a.bim)" "make 15" "1 whole variants more than expected"
    { cat good.bed; printf '\0'; } >a.bed
    run dosages -b a
    expect_exit 4
    expect_text "a.bed has 16 bytes" "1 bytes more" "not a whole number of variants (2 bytes each)"
    head -c 14 good.bed >a.bed
    run dosages -b a
    expect_exit 4
    expect_text "a.bed has 14 bytes" "1 bytes fewer" "it was cut"
    head -c 9 good.bed >a.bed
    run dosages -b a
    expect_exit 5
    expect_text "3 whole variants fewer"
    t5 b --people 9
    cp good.bed b.bed
    run dosages -b b
    expect_exit 5
    expect_text "would fit 5 to 8 people"
    t5 c --major 0
    printf '\0\0' >>c.bed
    run dosages -b c
    expect_exit 5
    expect_text "1 whole people more"
}

@test "IP04: filesets per chromosome: each against its own files, all .fam against the first" {
    t5 chr1 --chrom 1
    t5 chr2 --chrom 2 --tag b
    awk 'NR==2{hold=$0; next} {print} NR==3{print hold}' chr2.fam >x && mv x chr2.fam
    run dosages -b chr1 -b chr2
    expect_exit 5
    expect_text "chr1.fam and chr2.fam disagree on line 2" "F2 S2" "F3 S3" "line 3 of the first file"
    t5 chr3 --chrom 3 --people 4
    run dosages -b chr1 -b chr3
    expect_exit 5
    expect_text "chr1.fam and chr3.fam disagree: 5 people" "4 in the other" "F5 S5"
    run dosages -b chr3 -b chr1
    expect_exit 5
    expect_text "F5 S5" "line 5"
    t5 chr2 --chrom 2 --tag b
    head -c 13 chr2.bed >x && mv x chr2.bed
    run dosages -b chr1 -b chr2
    expect_exit 5
    expect_text "chr2.bed has 13 bytes" "(chr2.fam)" "(chr2.bim)"
    t5 chr2 --chrom 2 --tag b
    rm chr3.*
    run dosages -b 'chr@'
    expect_exit 0
    [ "$output" = "$t5_dosages"$'\n'"$t5_dosages" ]
    rm chr2.fam
    run dosages -b 'chr@'
    expect_exit 3
    expect_text "chr2.fam"
    run dosages -b 'nochr@'
    expect_exit 3
    expect_text "nochr@"
    run dosages -b chr1 -b chr1.bed
    expect_exit 2
    expect_text "given twice"
}

@test "IP05: every N mod 4, and padding bits that are set, with one warning" {
    for n in 1 2 3 4 5 6 7 8 9; do
        t5 a --people $n
        t5 b --people $n --padding 0xFF
        run dosages -b b
        expect_exit 0
        if [ $((n % 4)) = 0 ]; then [ "$output" = "$(dosages -b a)" ]
        else
            [ "$(dosages -b b 2>/dev/null)" = "$(dosages -b a)" ]
            [ "$(dosages -b b 2>&1 >/dev/null | grep -c padding)" = 1 ]
        fi
    done
    t5 a
    printf '\xfd' | dd of=a.bed bs=1 seek=4 conv=notrunc status=none
    [ "$(dosages -b a 2>/dev/null)" = "$t5_dosages" ]
}

@test "IP06: 01 is missing and 10 is het, low bits first" {
    t5 a --people 4 --snps 1
    printf '\x6c\x1b\x01\x1b' >a.bed
    run dosages -b a
    [ "$output" = "01.2" ]
}

@test "IP07: blanks or tabs between the columns; a line of another width is named" {
    t5 a
    want=$(people a)
    cp a.fam good.fam
    for change in 's/\t/ /g' 's/\t/ \t  /g' 's/\t/ /2' 's/^/  /' 's/$/ \t/'; do
        sed "$change" good.fam >a.fam
        run people a
        [ "$output" = "$want" ]
    done
    sed '3s/\t-9$//' good.fam >a.fam
    run dosages -b a
    expect_exit 4
    expect_text "a.fam, line 3" "5 fields found, 6 expected" "a column is missing"
    sed '2s/$/ 7/' good.fam >a.fam
    run dosages -b a
    expect_exit 4
    expect_text "a.fam, line 2" "7 fields found"
    cp good.fam a.fam
    sed -i 's/\t/ /g; s/^/ /' a.bim
    run dosages -b a
    [ "$output" = "$t5_dosages" ]
    sed -i '4s/ [ACGT]$//' a.bim
    run dosages -b a
    expect_exit 4
    expect_text "a.bim, line 4" "5 fields found, 6 expected"
}

@test "IP08: an ID that holds a blank is refused with its line; columns never shift" {
    t5 a
    sed -i 's/S2/S 2/' a.fam
    run dosages -b a
    expect_exit 4
    expect_text "a.fam, line 2" "7 fields" "IDs must not hold blanks"
    t5 a
    sed -i 's/rsC/rs C/' a.bim
    run dosages -b a
    expect_exit 4
    expect_text "a.bim, line 3" "7 fields"
}

@test "IP10: the same person twice is refused with both lines; one person ID in two families is two people" {
    t5 a
    sed -i '4s/.*/F2\tS2\t0\t0\t1\t-9/' a.fam
    run dosages -b a
    expect_exit 4
    expect_text "a.fam, lines 2 and 4" "family ID F2, person ID S2"
    t5 a
    sed -i '2s/S2/S1/' a.fam
    run people a
    expect_exit 0
    expect_text $'F1\tS1\nF2\tS1'
    t5 a # joining IDs must not make two people one
    sed -i '1s/F1\tS1/F\t1S1/; 2s/F2\tS2/F1\tS1/' a.fam
    run people a
    expect_exit 0
}

@test "IP12: the last line counts without its newline; blank lines only at the end" {
    t5 a
    cp a.fam good.fam
    cp a.bim good.bim
    head -c -1 good.fam >a.fam
    head -c -1 good.bim >a.bim
    run dosages -b a
    [ "$output" = "$t5_dosages" ]
    { cat good.fam; printf '\n \t\n\r\n'; } >a.fam
    { cat good.bim; printf '\n\n  \n'; } >a.bim
    run dosages -b a
    [ "$output" = "$t5_dosages" ]
    sed '3i\\' good.fam >a.fam
    run dosages -b a
    expect_exit 4
    expect_text "a.fam, line 3" "blank line inside"
    cp good.fam a.fam
    sed '2i\ ' good.bim >a.bim
    run dosages -b a
    expect_exit 4
    expect_text "a.bim, line 2" "blank line inside" "line 3"
}

@test "IP13: Windows line ends and a byte order mark are taken off; other line ends are named" {
    t5 a
    cp a.fam good.fam
    cp a.bim good.bim
    want=$("$dump" -b a)
    for f in fam bim; do
        sed 's/$/\r/' good.$f >a.$f
        run "$dump" -b a
        [ "$output" = "$want" ]
        { printf '\357\273\277'; cat good.$f; } >a.$f
        run "$dump" -b a
        [ "$output" = "$want" ]
        { printf '\357\273\277'; sed 's/$/\r/' good.$f | head -c -2; } >a.$f
        run "$dump" -b a
        [ "$output" = "$want" ]
        tr '\n' '\r' <good.$f >a.$f
        run dosages -b a
        expect_exit 4
        expect_text "a.$f, line 1" "old Mac"
        { printf '\377\376'; cat good.$f; } >a.$f
        run dosages -b a
        expect_exit 4
        expect_text "a.$f" "UTF-16"
        printf '\357\273\277' >a.$f
        run dosages -b a
        expect_exit 4
        expect_text "a.$f: 0 "
        cp good.$f a.$f
    done
}

@test "IP14: 0 SNPs and 0 people have their own words" {
    t5 a
    : >a.bim
    head -c 3 a.bed >x && mv x a.bed
    run dosages -b a
    expect_exit 4
    expect_text "a.bim: 0 SNPs"
    t5 a
    : >a.fam
    run dosages -b a
    expect_exit 4
    expect_text "a.fam: 0 people"
    printf '\n\n' >a.fam
    run dosages -b a
    expect_exit 4
    expect_text "a.fam: 0 people"
}

@test "IP16: foreign chromosome names are read, kept as written, and stop nothing" {
    t5 a --snps 12
    printf '%s\n' 0 26 XY chrUn_1 scaffold_3 29 MT PAR1 chrX 01 Y >names
    awk 'BEGIN{OFS="\t"; while ((getline x < "names") > 0) c[++n]=x} {$1 = NR <= n ? c[NR] : ""; print}' a.bim >b.bim
    mv b.bim a.bim
    run "$dump" -b a --no-people
    expect_exit 0
    expect_text $'S\tchrUn_1\trsD' $'S\t29\trsF' $'S\t\trs11\t1200'
    [ "${#lines[@]}" = 24 ]
    printf '\t1\trsX\t0\tA\tG\n' >>a.bim # a stray tab and a missing column are no empty name
    run "$dump" -b a
    expect_exit 4
    expect_text "a.bim, line 13"
}

@test "IP17: compressed, text, HDF5 and other files given for a .bed are named" {
    t5 a
    t5 good
    gzip -c good.bed >a.bed
    run dosages -b a
    expect_exit 4
    expect_text "a.bed is not a PLINK 1 .bed" "gzip-compressed"
    printf '\x28\xb5\x2f\xfd\x00\x01' >a.bed
    run dosages -b a
    expect_exit 4
    expect_text "zstd-compressed"
    printf '\x89HDF\r\n\x1a\n\0\0' >a.bed
    run dosages -b a
    expect_exit 4
    expect_text "HDF5"
    cp good.bim a.bed
    run dosages -b a
    expect_exit 4
    expect_text "it is text"
    printf '\x6c\x1b\x10\x05\x00\x00' >a.bed
    run dosages -b a
    expect_exit 4
    expect_text "byte 3 is 0x10"
    printf '\x01\x02\x03\x04' >a.bed
    run dosages -b a
    expect_exit 4
    expect_text "first bytes 01 02"
    printf '\x6c\x1b' >a.bed
    run dosages -b a
    expect_exit 4
    expect_text "truncated"
    : >a.bed
    run dosages -b a
    expect_exit 4
    expect_text "an empty file"
    cp good.bed a.bed
    for f in bim fam; do
        gzip -c good.$f >a.$f
        run dosages -b a
        expect_exit 4
        expect_text "a.$f should be plain text, but it is gzip-compressed"
        cp good.$f a.$f
    done
    printf 'rs1\nrs2\n' >snps.txt
    run dosages -b snps.txt
    expect_exit 3
    expect_text "snps.txt itself is a file (text)" "PREFIX"
    gzip good.bim
    run dosages -b good
    expect_exit 3
    expect_text "good.bim.gz does" "decompress"
}

# ---- more of what people do ----

@test "positions: 1e+05, fractions and words are refused with the line; 0 and negative ones pass" {
    t5 a
    cp a.bim good.bim
    sed '5s/\t200\t/\t1e+05\t/' good.bim >a.bim
    run dosages -b a
    expect_exit 4
    expect_text "a.bim, line 5" "'1e+05'" "scipen"
    sed '5s/\t200\t/\t200.5\t/' good.bim >a.bim
    run dosages -b a
    expect_exit 4
    expect_text "line 5" "cM"
    sed '5s/\t200\t/\tX\t/' good.bim >a.bim
    run dosages -b a
    expect_exit 4
    expect_text "line 5" "'X'"
    sed '5s/\t200\t/\t99999999999999999999\t/' good.bim >a.bim
    run dosages -b a
    expect_exit 4
    sed '5s/\t200\t/\t-7\t/; 1s/\t100\t/\t0\t/' good.bim >a.bim
    run "$dump" -b a
    expect_exit 0
    expect_text $'rsE\t-7' $'rsA\t0\t'
}

@test "missing files, folders and pipes are named, with the likely cause" {
    run dosages -b none
    expect_exit 3
    expect_text "none.bed" "No such file"
    t5 a
    mv a.bed a.pgen
    run dosages -b a
    expect_exit 3
    expect_text "PLINK 2" "--make-bed"
    mkdir a.bed
    run dosages -b a
    expect_exit 3
    expect_text "folder"
    rmdir a.bed
    mkfifo a.bed
    run timeout 10 "$dump" -b a
    expect_exit 3
    expect_text "not a regular file"
    run dosages -b ""
    expect_exit 2
}

@test "a NUL byte, a control byte and an overlong ID in a text file are refused by line" {
    t5 a
    cp a.bim good.bim
    printf '1\trsG\0x\t0\t1\tA\tG\n' >>a.bim
    run dosages -b a
    expect_exit 4
    expect_text "a.bim" "binary"
    { for _ in {1..99}; do cat good.bim; done; printf '1\trsG\0x\t0\t1\tA\tG\n'; } >a.bim
    run dosages -b a
    expect_exit 4
    expect_text "a.bim, line 595" "NUL"
    { for _ in {1..99}; do cat good.bim; done; printf '22\trs\001F\t0\t300\tG\tT\n'; } >a.bim
    run dosages -b a
    expect_exit 4
    expect_text "a.bim, line 595" "0x01"
    cp good.bim a.bim
    sed -i "2s/S2/$(printf 'x%.0s' {1..5000})/" a.fam
    run dosages -b a
    expect_exit 4
    expect_text "a.fam, line 2" "4096"
}

@test "a text file without line ends does not fill the memory" {
    t5 a --snps 60
    truncate -s 20G a.bim || skip "no sparse files here"
    local limit=unlimited
    if plain_build; then limit=1500000; fi
    run bash -c "ulimit -v $limit; $dump -b a"
    expect_exit 4
    expect_text "a.bim, line 61: longer than 256 MiB"
}

@test "a list of people or SNPs: both columns, IDs alone, headers, CRLF; nobody left is an error" {
    t5 a
    printf 'F2 S2\r\nF9\tS9\r\n' >k
    run "$dump" -b a --no-people --no-snps --keep k
    expect_exit 0
    [ "$output" = $'K\tF2\tS2\nmissing 1\nM\tF9 S9' ]
    printf '#FID IID SEX\nF2 S2 1\nF3 S3 2\n' >k
    run "$dump" -b a --no-people --no-snps --remove k
    [ "$output" = $'K\tF1\tS1\nK\tF4\tS4\nK\tF5\tS5\nmissing 0' ]
    printf 'S5' >k
    run "$dump" -b a --no-people --no-snps --keep k
    [ "$output" = $'K\tF5\tS5\nmissing 0' ]
    printf '\357\273\277\n' >k
    run "$dump" -b a --keep k
    expect_exit 4
    expect_text "k: the list is empty"
    printf 'F1_S1\n' >k
    run "$dump" -b a --keep k
    expect_exit 5
    expect_text "no person is left" "F1_S1" "F1 S1"
    printf 'rsB\nrsZ\n' >k
    run "$dump" -b a --no-people --no-snps --extract k
    [ "$output" = $'K\trsB\nmissing 1\nM\trsZ' ]
    run "$dump" -b a --extract a.bim
    expect_exit 4
    expect_text "a.bim, line 1" "cut -f2"
}

@test "damaged IDs cannot drive the terminal" {
    t5 a
    sed -i $'2s/\t-9$/\t-9\t\e[31mred/' a.fam
    run dosages -b a
    expect_exit 4
    refuse_text $'\e'
}

# ---- real files ----

@test "oddfiles that are read: genotypes equal PLINK's" {
    need_shared
    need plink2
    for f in bedreader_small bedreader_smallmode0 bedreader_sparse bedreader_some_missing bedreader_plink_sim_10s_100v_10pmiss \
        sgkit_plink_sim_10s_100v_10pmiss pandasplink_data hail_docs_test hail_sex_mt_contigs hail_skip_invalid_loci \
        plinkng_all_ploidy; do
        same_as_plink "$odd/$f" plink2 || { echo "$f"; return 1; }
    done
}

@test "oddfiles: IDs and columns as they stand" {
    need_shared
    run people "$odd/hail_docs_test"
    [ "${lines[0]}" = $'0\tC1046::HG02024' ]
    run people "$odd/bedreader_plink_sim_10s_100v_10pmiss" # IID 0 is odd, but it is an ID like any other
    [ "${lines[0]}" = $'0\t0' ] && [ "${#lines[@]}" = 10 ]
    run people "$odd/sgkit_plink_sim_10s_100v_10pmiss"
    [ "${lines[0]}" = $'0\t000' ]
    run "$dump" -b "$odd/plinkng_all_ploidy" --no-people
    expect_text $'S\tPAR1\tPAR1_219954_CAG_C\t219954\tC\tCAG' $'S\tMT\t'
    run "$dump" -b "$odd/sgkit_plink_sim_10s_100v_10pmiss" --no-people
    expect_text $'\tCGCGCG\tG'
    run "$dump" -b "$odd/pandasplink_data" --no-people
    expect_text $'S\t1\trs2949421\t45413\t0\t0'
    for e in bed pedsnp:bim pedind:fam; do cp "$odd/eigensoft_example.${e%:*}" "e.${e#*:}"; done
    [ "$(people e 2>err | tail -1)" = $'5\tSAMPLE4' ]
    grep -q padding err
    for f in hail_importFamCaseControl hail_importFamCaseControlNumericException hail_importFamQPheno.space.m9; do
        t5 a
        cp "$odd/$f.fam" a.fam
        run people a
        [ "${lines[0]}" = $'Newton\tA' ] && [ "${lines[4]}" = $'0\tE' ]
        chmod u+w a.fam
    done
    t5 a --people 2
    cp "$odd/hail_docs_case_control_study.fam" a.fam
    run people a
    [ "$output" = $'s1\ts1\ns2\ts2' ]
    t5 b --people 60
    cp "$odd/snprelate_plinkhapmap.fam" b.fam
    run people b
    [ "${#lines[@]}" = 60 ] && [ "${lines[0]}" = $'0\tNA19152' ]
}

@test "oddfiles that are refused, each in its own words" {
    need_shared
    cp "$odd"/bedreader_small.{bed,bim,fam} . && chmod u+w ./*
    for pair in "badfile:it is text" "smallmodebad:byte 3 is 0x30" "empty:an empty file"; do
        cp -f "$odd/bedreader_${pair%%:*}.bed" bedreader_small.bed
        run dosages -b bedreader_small
        expect_exit 4
        expect_text "${pair#*:}"
    done
    cp -f "$odd/bedreader_small_too_short.bed" bedreader_small.bed
    run dosages -b bedreader_small
    expect_exit 5
    expect_text "1 whole variants fewer"
    cp -f "$odd/bedreader_small.bed" .
    cp -f "$odd/bedreader_small.bim_bad_positions.bim" bedreader_small.bim
    run dosages -b bedreader_small
    expect_exit 4
    expect_text "line 2: position '100.0'"
    run dosages -b "$odd/bigsnpr_example-missing"
    expect_exit 4
    expect_text "'1e+05'" "line 100"
    t5 a --people 2
    cp "$odd/hail_duplicate_id.fam" a.fam
    run dosages -b a
    expect_exit 4
    expect_text "lines 1 and 2" "HG00272"
    t5 b --people 30
    cp "$odd/plinkqc_four_columns_head30.fam" b.fam
    run dosages -b b
    expect_exit 4
    expect_text "line 1: 4 fields found, 6 expected"
    for f in plink107_test plinkng_merge_equal_pos_merge; do
        run dosages -b "$odd/$f"
        expect_exit 3
        expect_text "text fileset"
    done
    run dosages -b "$odd/uwgac_chrX_haploid_head40.vcf.gz"
    expect_exit 3
    expect_text "gzip-compressed"
    run dosages -b "$odd/variantannotation_fewer-FORMAT-than-GENO.vcf"
    expect_exit 3
    expect_text "itself is a file (text)"
    cp "$odd/variantannotation_fewer-FORMAT-than-GENO.vcf" a.bim
    t5 c
    cp a.bim c.bim
    run dosages -b c
    expect_exit 4
    expect_text "c.bim, line 1" "VCF"
}

@test "real cohorts: genotypes equal plink2's, and plink1.9's where padding bits are set" {
    need_shared
    need plink2
    for f in kgp3_26pop/kgp3_26pop_aisnp kgp3_26pop/kgp3_26pop_all ethseq_21pop/ethseq_21pop hapmap2_trios/hapmap2_trios \
        hapmap3_14k/hapmap3_14k kgp1_14k/kgp1_14k; do
        same_as_plink "$SHARED/realdata/$f" plink2 || { echo "$f"; return 1; }
    done
    need plink1.9
    same_as_plink "$SHARED/realdata/humanorigins_tiny/humanorigins_tiny" plink1.9
    run dosages -b "$SHARED/realdata/humanorigins_tiny/humanorigins_tiny" --sum
    expect_text "padding bits"
}

@test "real cohorts: the same from blocks of people, from a sample-major .bed, and with every instruction set" {
    need_shared
    need plink2
    hm=$SHARED/realdata/hapmap3_14k/hapmap3_14k
    plink2 --bfile "$hm" --threads 1 --export ind-major-bed --out im >log 2>&1 || { cat log; return 1; }
    [ "$(od -An -tx1 -N3 im.bed | tr -d ' ')" = 6c1b00 ]
    cp -f "$hm.bim" "$hm.fam" .
    mv hapmap3_14k.bim im.bim
    want=$(dosages -b "$hm" --sum)
    for block in 4 100 956 4096; do
        [ "$(dosages -b "$hm" --sum --block $block)" = "$want" ]
    done
    for isa in portable avx2 avx512; do
        run env DN_ISA=$isa "$dump" -b im --no-people --no-snps --sum --block 400
        [ "$status" = 8 ] || [ "$output" = "$want" ]
    done
}
