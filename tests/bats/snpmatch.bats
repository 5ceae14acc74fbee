#!/usr/bin/env bats
# snpmatch on good input: which SNP is which, how dosages turn, what is said, and that nothing else changes the result.

load ../lib

setup() {
    cd "$BATS_TEST_TMPDIR"
    kgp3=$SHARED/golden/kgp3
    real=$SHARED/realdata
    tight=$(room 26M) # several blocks
}

match() { "$BIN/snpmatch" "$@"; }
# The genotypes in a .gpk: FID, IID, and one character per SNP.
rows() { oracle dump "$1"; }
calls() { rows "$1" | cut -f3; }
reasons() { tail -n +2 "$1" | awk -F'\t' '{ n[$NF]++ } END { for (r in n) print r, n[r] }' | sort | tr '\n' ' '; }
reason_of() { awk -F'\t' -v s="$2" '$2 == s { print $NF }' "$1"; }
warnings() { grep -c 'warning:' <<<"$output" || true; }
oracle() { "$PYTHON" "$TESTS/match_oracle.py" "$@"; }

# A cohort of a simulated panel with everything that goes wrong: sim.bim is the model, sim_cohort the cohort.
simulate() { "$TOOLS/dnsim" -q -f -o sim -n 20 -m "${2:-6001}" --cohort "$1" --swap 0.3 --flip 0.2 --drop 0.1 --missing 0.05; }

# ---- the field reports ----

@test "MA03: dosages are copies of .bim column 5: the printed matrix of T5, and plink2 --export A" {
    t5 a
    run match --bfile a --model a.bim -o a.gpk
    expect_exit 0
    [ "$(calls a.gpk)" = $'021201\n111002\n200.0.\n002110\n..1220' ]
    need plink2
    awk '{ $5 = "A"; $6 = "G"; print }' a.bim >p.bim # plink2 counts the allele it is told
    cp a.bed p.bed && cp a.fam p.fam
    plink2 --bfile p --threads 1 --export A --out raw >/dev/null
    # plink2 says the same of the .bed, one line per SNP.
    [ "$("$PYTHON" "$TESTS/raw_matrix.py" raw.raw A)" = "$(calls a.gpk | sed 's/./& /g' | "$PYTHON" -c "
import sys
for col in zip(*(line.split() for line in sys.stdin)): print(''.join(col))")" ]
}

@test "MA03: fid, iid and SNPs of the .gpk are the cohort's and the model's" {
    t5 a
    sed 's/rs/RS/' a.bim >m.bim # the model's names are kept, found by position
    match -q --bfile a --model m.bim -o a.gpk
    run "$PYTHON" "$TESTS/gpk_reader.py" --info a.gpk
    expect_exit 0
    expect_text '"RSA"' '"RSF"' '"F1"' '"S5"'
    run "$PYTHON" "$TESTS/gpk_reader.py" --check a.gpk
    expect_exit 0
}

@test "MA04: A1 and A2 exchanged and genotypes recoded gives the same bytes; missing stays missing" {
    t5 a
    match -q --bfile a --model a.bim -o a.gpk
    awk 'BEGIN { OFS = "\t" } { t = $5; $5 = $6; $6 = t; print }' a.bim >b.bim
    "$PYTHON" -c "
import sys
d = open('a.bed', 'rb').read()
flip = [3, 1, 2, 0]
print(end='', file=open('b.bed', 'w'))
open('b.bed', 'wb').write(d[:3] + bytes(sum(flip[x >> s & 3] << s for s in (0, 2, 4, 6)) for x in d[3:]))"
    cp a.fam b.fam
    run match --bfile b --model a.bim -o b.gpk --report b.tsv
    expect_exit 0
    cmp a.gpk b.gpk
    [ "$(reasons b.tsv)" = "ambiguous-kept 2 swapped 4 " ]
    [ "$(cut -f12 b.tsv | tail -n +2 | sort -u)" = "2-g" ]
}

@test "MA04: only the columns exchanged by hand: frequencies run against the model's, and that is called out" {
    need_shared
    awk 'BEGIN { OFS = "\t" } { t = $5; $5 = $6; $6 = t; print }' "$kgp3/infer/query.bim" >q.bim
    cp "$kgp3/infer/query.bed" q.bed && cp "$kgp3/infer/query.fam" q.fam
    run match --bfile q --model "$kgp3/release" -o q.gpk
    expect_exit 0
    expect_text "alleles seem to be labelled wrongly: in the 1370 SNPs of group 'swapped'" "exchanged without recoding"
    # A third of them by hand: the groups that are right are not blamed.
    awk 'BEGIN { OFS = "\t" } NR % 3 == 0 { t = $5; $5 = $6; $6 = t } { print }' "$kgp3/infer/query.bim" >q.bim
    run match -f --bfile q --model "$kgp3/release" -o q.gpk
    expect_exit 0
    expect_text "of group 'swapped'"
    refuse_text "of group 'matched'"
    # One person alone is no reason for alarm.
    head -1 "$kgp3/infer/query.fam" >keep
    run match -f --bfile "$kgp3/infer/query" --keep keep --model "$kgp3/release" -o q.gpk
    expect_exit 0
    refuse_text "labelled wrongly"
}

@test "MA05: exactly one reason per SNP of the model, in a report with named columns" {
    t5 a --snps 10
    cat >m.bim <<'END'
1	rsA	0	100	A	G
1	rsB	0	200	A	C
1	rsC	0	300	A	G
1	x1	0	9	A	G
2	rsD	0	100	A	T
2	rsE	0	200	C	G
22	rsF	0	300	A	G
END
    awk 'BEGIN { OFS = "\t" } $2 == "rs6" { $2 = "x1"; $5 = "C"; $6 = "T" } $2 == "rs7" || $2 == "rs8" { $2 = "dup"; $5 = "A"; $6 = "G" } { print }' a.bim >b.bim && mv b.bim a.bim
    printf '3\tdup\t0\t1\tA\tG\n4\tgone\t0\t1\tA\tG\n' >>m.bim
    run match --bfile a --model m.bim --ambiguous keep -o a.gpk --report r.tsv --min-overlap 1
    expect_exit 0
    [ "$(head -1 r.tsv)" = $'model_index\tsnp\tchrom\tpos\ta1\ta2\tcohort_snp\tcohort_chrom\tcohort_pos\tcohort_a1\tcohort_a2\tdosage\treason' ]
    [ "$(tail -n +2 r.tsv | cut -f2,12,13 | tr '\t\n' ' ;')" = "rsA g matched;rsB 2-g swapped;rsC g flipped;x1 2-g flipped+swapped;rsD g ambiguous-kept;rsE g ambiguous-kept;rsF . alleles-differ;dup . duplicate;gone . absent;" ]
    grep -q $'^6\trsF\t22\t300\tA\tG\trsF\t22\t300\tG\tT\t\.\talleles-differ$' r.tsv
    grep -q $'^8\tgone\t4\t1\tA\tG\t\.\t\.\t\.\t\.\t\.\t\.\tabsent$' r.tsv
    [ "$(awk -F'\t' '{ print NF }' r.tsv | sort -u)" = 13 ]
    [ "$(oracle reasons m.bim id a)" = "$(tail -n +2 r.tsv | cut -f13)" ]
    rows a.gpk >got && oracle rows m.bim id a >want && cmp got want
    run match --bfile a --model m.bim --ambiguous drop -o a.gpk --report r.tsv --min-overlap 1 -f
    [ "$(reason_of r.tsv rsD)" = ambiguous-dropped ]
    expect_text "ambig-drop"
    run match --bfile a --model m.bim --no-strand-flip -o a.gpk --report r.tsv --min-overlap 1 -f
    [ "$(reason_of r.tsv rsC)" = alleles-differ ]
    [ "$(reason_of r.tsv x1)" = alleles-differ ]
}

@test "MA07: lower and mixed case on either side" {
    t5 a
    match -q --bfile a --model a.bim -o a.gpk
    awk 'BEGIN { OFS = "\t" } { $5 = tolower($5); print }' a.bim >b.bim
    cp a.bed b.bed && cp a.fam b.fam
    match -q --bfile b --model a.bim -o b.gpk
    cmp a.gpk b.gpk
    match -q --bfile a --model b.bim -o c.gpk
    [ "$(calls a.gpk)" = "$(calls c.gpk)" ]
}

@test "MA08: another build: IDs at other positions, or chance hits by position" {
    t5 a --people 9 --snps 200
    cp a.bed b.bed && cp a.fam b.fam
    awk 'BEGIN { OFS = "\t" } NR > 1 { $4 += 1003 } { print }' a.bim >b.bim
    run match --bfile b --model a.bim -o b.gpk
    expect_exit 0
    expect_text "probably another genome build" "of 200 SNPs that have the model's IDs, 199 are at other positions"
    run match --bfile b --model a.bim -o c.gpk --by pos
    expect_exit 5
    expect_text "only 1 of the model's 200 SNPs" "probably another genome build"
    [ ! -e c.gpk ]
    # Other names; one position in ten is hit by chance, half of those with alleles the other way round.
    awk 'BEGIN { OFS = "\t" } { $2 = "v" NR; if (NR % 10) $4 += 1003; else if (NR % 20) { t = $5; $5 = $6; $6 = t } print }' a.bim >b.bim
    run match --bfile b --model a.bim -o c.gpk
    expect_exit 5
    expect_text "probably another genome build"
    run match --bfile b --model a.bim -o c.gpk --min-overlap 5
    expect_exit 5
    expect_text "probably another genome build" "as in chance hits" "--force"
    [ ! -e c.gpk ]
    run match --bfile b --model a.bim -o c.gpk --min-overlap 5 --force
    expect_exit 0
    expect_text "warning: probably another genome build"
    # The same few SNPs at the right places and under the right names are a small cohort.
    awk 'NR % 10 == 0' a.bim >k.bim
    cp a.bim b.bim
    run match --bfile b --model k.bim -o d.gpk --by pos
    expect_exit 0
    refuse_text "genome build"
}

@test "MA09: chromosome names are normalised on both sides" {
    t5 a
    match -q --bfile a --model a.bim --by pos -o a.gpk
    cp a.bed b.bed && cp a.fam b.fam
    for p in 0 chr Chr CHR chr0; do
        awk -v p=$p 'BEGIN { OFS = "\t" } { if (p !~ /0$/ || $1 < 10) $1 = p $1; print }' a.bim >b.bim
        match -q --bfile b --model a.bim --by pos -f -o b.gpk
        cmp a.gpk b.gpk
        match -q --bfile a --model b.bim --by pos -f -o b.gpk
        [ "$(calls a.gpk)" = "$(calls b.gpk)" ]
    done
    for pair in X:23 Y:24 XY:25 MT:26 chrM:26 chrX:X M:MT PAR1:25; do
        t5 a --chrom "${pair%:*}"
        awk -v c="${pair#*:}" 'BEGIN { OFS = "\t" } { $1 = c; $2 = "n" NR; $4 += 1000 * NR; print }' a.bim >m.bim
        awk 'BEGIN { OFS = "\t" } { $4 += 1000 * NR; print }' a.bim >b.bim && mv b.bim a.bim
        run match --bfile a --model m.bim --by pos -f -o b.gpk
        expect_exit 0
        expect_text "6 of the model's 6 SNPs"
    done
}

@test "MA12: a floor stops cohorts that share too little, and a table says which chromosomes are there" {
    t5 m --snps 200
    t5 a --snps 1
    run match --bfile a --model m.bim -o a.gpk
    expect_exit 5
    expect_text "only 1 of the model's 200 SNPs can be used (0.5 %)" "--min-overlap 100" "--force"
    [ ! -e a.gpk ]
    awk '$1 == 1' m.bim >a.bim
    n=$(wc -l <a.bim)
    { printf '\x6c\x1b\x01'; tail -c +4 m.bed | head -c $((n * 2)); } >a.bed
    run match --bfile a --model m.bim -o a.gpk
    expect_exit 5
    expect_text "SNPs were found on 2 of the model's" "chromosomes only: are filesets missing" || expect_text "SNPs were found on 1 of the model's" "are filesets missing"
    [[ $output =~ all\ +200\ +$n ]]
    run match --bfile a --model m.bim -o a.gpk --min-overlap "$n"
    expect_exit 0
    run match --bfile a --model m.bim -o b.gpk --force
    expect_exit 0
    cmp a.gpk b.gpk
    # The report alone never stops, and says that -o would.
    run match --bfile a --model m.bim --report r.tsv
    expect_exit 0
    expect_text "with -o this would stop"
    [ "$(wc -l <r.tsv)" = 201 ]
}

@test "MA15: rows of the .bim in any order give the same output bytes" {
    need_shared
    "$TESTS/variants.sh" "$kgp3/infer/query" v >/dev/null
    match -q --bfile v/plain --model "$kgp3/release" -o a.gpk --report a.tsv
    match -q --bfile v/shuffled --model "$kgp3/release" -o b.gpk --report b.tsv
    cmp a.gpk b.gpk && cmp a.tsv b.tsv
}

@test "MA01: an absent SNP is missing for everyone, never a dosage; scale and report say how many" {
    t5 m
    t5 a --snps 3
    run match --bfile a --model m.bim -o a.h5 --report r.tsv
    expect_exit 0
    expect_text "3 of the model's 6 SNPs are used (50.0 %)"
    [ "$(reasons r.tsv)" = "absent 3 matched 3 " ]
    run "$PYTHON" -c "
import h5py
f = h5py.File('a.h5')
print(f['inputs'][:, 3:].min(), f['inputs'][:, 3:].max(), f['scale'][0], f['inputs'][:, :3].max())"
    expect_exit 0
    [ "$output" = "-1 -1 2.0 2" ]
    [ "$("$PYTHON" "$TESTS/matched_reader.py" a.h5)" = "ok 5 6 3" ]
    match -q --bfile a --model m.bim -o a.gpk
    [ "$(calls a.gpk)" = $'021\n111\n200\n002\n..1' ]
    run match --bfile a --model m.bim -o b.gpk --min-overlap 4
    expect_exit 5
}

@test "IP10: one person ID in two families: two people, and --keep names them by both" {
    t5 a
    sed -i 's/^F2\tS2/F2\tS1/' a.fam
    match -q --bfile a --model a.bim -o a.gpk
    [ "$(rows a.gpk | cut -f1,2 | head -2)" = $'F1\tS1\nF2\tS1' ]
    echo "F2 S1" >keep
    match -q --bfile a --model a.bim --keep keep -o b.gpk
    [ "$(rows b.gpk)" = "$(rows a.gpk | sed -n 2p)" ]
    echo "S1" >keep
    run match --bfile a --model a.bim --keep keep -o c.gpk
    expect_exit 5
    expect_text "several families"
}

@test "IP05: every N mod 4 gives the rows of its people, also with padding bits set" {
    t5 m --people 8
    match -q --bfile m --model m.bim -o m.gpk
    for n in 1 2 3 4 5 6 7 8; do
        t5 a --people $n --padding 0xFC
        match -q --bfile a --model m.bim -o a.gpk -f
        [ "$(rows a.gpk)" = "$(rows m.gpk | head -$n)" ]
    done
    t5 a --padding 0xFC
    run match --bfile a --model m.bim -o a.gpk -f
    expect_exit 0
    [ "$(grep -c 'bits after the last person' <<<"$output")" = 1 ]
}

@test "IP16: foreign chromosomes are skipped by position, counted, and stop nothing" {
    t5 a --snps 8
    awk 'BEGIN { OFS = "\t"; split("0 26 XY chrUn_1 scaffold_3 1 2 27", c, " ") } { $1 = c[NR]; $4 = 1000 * NR; print }' a.bim >b.bim && mv b.bim a.bim
    cp a.bim m.bim
    run match --bfile a --model m.bim --by pos -o a.gpk
    expect_exit 0
    expect_text "4 of the model's 8 SNPs are used" "4 SNPs of the cohort are on none of the chromosomes 1-26, X, Y, XY, MT"
    run match --bfile a --model m.bim --by id -f -o a.gpk
    expect_exit 0
    expect_text "8 of the model's 8 SNPs are used"
}

# ---- issue 2, "It must show" ----

@test "2.2: matched.h5 equals upstream's matched.hdf5, and h5dump reads it" {
    need_shared
    run match --bfile "$kgp3/infer/query" --model "$kgp3/release" -o m.h5
    expect_exit 0
    run "$PYTHON" -c "
import h5py
a, b = h5py.File('m.h5'), h5py.File('$kgp3/infer/matched.hdf5')
for k in ('inputs', 'samples', 'scale'):
    assert a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and (a[k][:] == b[k][:]).all(), k
assert [x.rsplit(b'_', 1)[0] for x in b['snp_names'][:]] == list(a['snp_names'][:])
assert list(a['fids'][:]) == list(a['samples'][:])
print('equal')"
    [ "$output" = equal ] || { echo "$output"; false; }
    [ "$("$PYTHON" "$TESTS/matched_reader.py" m.h5)" = "ok 203 2659 1595" ]
    need h5dump
    run h5dump -d scale m.h5
    expect_exit 0
    expect_text "1.66708"
}

@test "2.3: the same cohort in twelve shapes of files: the same .gpk and .h5, byte for byte" {
    need_shared
    need plink1.9
    "$TESTS/variants.sh" "$kgp3/infer/query" v >list
    [ "$(wc -l <list)" = 12 ]
    match -q --bfile "$kgp3/infer/query" --model "$kgp3/release" -o want.gpk
    match -q --bfile "$kgp3/infer/query" --model "$kgp3/release" -o want.h5
    rows want.gpk | cut -f2- >want.rows
    while IFS=$'\t' read -r name prefixes; do
        args=()
        for p in $prefixes; do args+=(--bfile "$p"); done
        run match "${args[@]}" --model "$kgp3/release" -o got.gpk -f
        expect_exit 0
        # A/T and C/G SNPs are warned of; nothing else is.
        [ "$(warnings)" = 1 ] || { echo "$name: $output"; false; }
        match -q "${args[@]}" --model "$kgp3/release" -o got.h5 -f
        if [ "$name" = fids ]; then
            rows got.gpk | cut -f2- | cmp - want.rows
        else
            cmp got.gpk want.gpk || { echo "$name"; false; }
            cmp got.h5 want.h5 || { echo "$name"; false; }
        fi
    done <list
    [ "$(rows got.gpk | head -1 | cut -f1,2)" = $'HG00101\tHG00101' ]
}

@test "2.4: HapMap 3 with the kgp1 release: warned of the build and the A/T and C/G SNPs, and of nothing else" {
    need_shared
    run match --bfile "$real/hapmap3_14k/hapmap3_14k" --model "$SHARED/golden/kgp1/release" -o a.gpk --report r.tsv
    expect_exit 0
    expect_text "14079 of the model's 14079 SNPs are used" "probably another genome build" "1015 of the 14079 SNPs used are A/T or C/G"
    [ "$(warnings)" = 2 ] || { echo "$output"; false; }
    [ "$(reasons r.tsv)" = "ambiguous-kept 1015 matched 13064 " ]
    oracle rows "$SHARED/golden/kgp1/release/DN_SNPS/dummy.bim" id "$real/hapmap3_14k/hapmap3_14k" >want
    rows a.gpk | cmp - want
}

@test "2.4: humanorigins_tiny and hapmap2_trios: the floor, or under --force the report" {
    need_shared
    m=$real/hapmap3_14k/hapmap3_14k.bim
    for c in humanorigins_tiny hapmap2_trios; do
        run match --bfile "$real/$c/$c" --model "$m" -o a.gpk --report r.tsv
        expect_exit 5
        expect_text "--min-overlap 1000" "SNPs can be used"
        [ ! -e a.gpk ] && [ ! -e r.tsv ]
        run match --bfile "$real/$c/$c" --model "$m" -o a.gpk --report r.tsv --force
        expect_exit 0
        oracle reasons "$m" id "$real/$c/$c" >want
        tail -n +2 r.tsv | cut -f13 | cmp - want
        oracle rows "$m" id "$real/$c/$c" >want
        rows a.gpk | cmp - want
        rm a.gpk
        mv r.tsv last.tsv
    done
    [ "$(reasons last.tsv)" = "absent 14003 ambiguous-kept 12 flipped 13 flipped+swapped 19 matched 16 swapped 16 " ]
}

# ---- the rest ----

@test "against the oracle on simulated cohorts, by ID and by position, in chunks and in any order" {
    for n in 97 98 99 100; do
        simulate $n 4700
        for by in id pos; do
            match -q --bfile sim_cohort --model sim.bim --by $by -f -o a.gpk --report r.tsv
            oracle reasons sim.bim $by sim_cohort >want
            tail -n +2 r.tsv | cut -f13 | cmp - want
            oracle rows sim.bim $by sim_cohort >want
            rows a.gpk | cmp - want
        done
    done
    "$TESTS/variants.sh" sim_cohort v >list || skip "no plink1.9"
    for name in shuffled samplemajor both chr@ sorted; do
        args=()
        for p in $(awk -F'\t' -v n="$name" '$1 == n { print $2 }' list); do args+=(--bfile "$p"); done
        match -q "${args[@]}" --model sim.bim -f -o b.gpk --by pos
        cmp a.gpk b.gpk || { echo "$name"; false; }
    done
    # A shuffled model is another order of columns.
    shuf --random-source=<(yes) sim.bim >other.bim
    match -q --bfile sim_cohort --model other.bim -f -o a.gpk
    oracle rows other.bim id sim_cohort >want
    rows a.gpk | cmp - want
}

@test "threads, memory, instruction set, file or pipe: the same bytes" {
    simulate 1501 9000
    match -q --bfile sim_cohort --model sim.bim -o want.gpk --threads 1
    match -q --bfile sim_cohort --model sim.bim -o want.h5 --threads 1
    "$PYTHON" "$TESTS/gpk_reader.py" --check want.gpk
    for t in 2 7; do
        match -q --bfile sim_cohort --model sim.bim -f -o got.gpk --threads $t
        match -q --bfile sim_cohort --model sim.bim -f -o got.h5 --threads $t
        cmp got.gpk want.gpk && cmp got.h5 want.h5
    done
    for m in $tight 500M 8G; do
        match -q --bfile sim_cohort --model sim.bim -f -o got.gpk --memory $m
        match -q --bfile sim_cohort --model sim.bim -f -o got.h5 --memory $m
        cmp got.gpk want.gpk && cmp got.h5 want.h5
    done
    match -q --bfile sim_cohort --model sim.bim -o - | cmp - want.gpk
    DN_ISA=portable match -q --bfile sim_cohort --model sim.bim -f -o got.gpk
    cmp got.gpk want.gpk
    SLURM_CPUS_PER_TASK=3 match -q --bfile sim_cohort --model sim.bim -f -o got.gpk
    cmp got.gpk want.gpk
}

@test "--samples, --keep and --remove: the same rows as the whole has, whatever the block" {
    simulate 4200 1500
    match -q --bfile sim_cohort --model sim.bim -o all.gpk
    rows all.gpk >all
    for range in 1:1 2:2 3:7 4:4200 4200:4200 1021:1030 6:2051; do
        match -q --bfile sim_cohort --model sim.bim --samples $range -f -o a.gpk
        rows a.gpk | cmp - <(sed -n "${range/:/,}p" all) || { echo $range; false; }
    done
    awk 'NR % 7 == 3 || NR == 4199 { print $1, $2 }' sim_cohort.fam >keep
    awk 'NR % 7 == 3 || NR == 4199' all >want
    for m in $tight 1G; do
        match -q --bfile sim_cohort --model sim.bim --keep keep --memory $m -f -o a.gpk
        rows a.gpk | cmp - want
    done
    match -q --bfile sim_cohort --model sim.bim --remove keep -f -o a.gpk
    rows a.gpk | cmp - <(awk '!(NR % 7 == 3 || NR == 4199)' all)
    # Far apart: what lies between is not read.
    { sed -n 5p sim_cohort.fam; tail -1 sim_cohort.fam; } | cut -f2 >ends
    match -q --bfile sim_cohort --model sim.bim --keep ends -f -o a.gpk
    rows a.gpk | cmp - <(sed -n '5p;$p' all)
    match -q --bfile sim_cohort --model sim.bim --keep keep --samples 1:100 -f -o a.gpk
    rows a.gpk | cmp - <(head -100 all | awk 'NR % 7 == 3')
    echo nobody >>keep
    run match --bfile sim_cohort --model sim.bim --keep keep -f -o a.gpk
    expect_exit 0
    expect_text "1 people of --keep are not in the cohort, the first: nobody"
}

@test "duplicates: the one whose alleles fit; two that fit are absent and named; no row order matters" {
    t5 a --snps 10
    cp a.bim m.bim
    # rs6 comes three times, once with fitting alleles; rs7 twice, both fit.
    awk 'BEGIN { OFS = "\t" } $2 == "rs8" { $2 = "rs6"; $5 = "A"; $6 = "C" } $2 == "rs9" { $2 = "rs7"; $5 = "G"; $6 = "T" } { print }' m.bim >a.bim
    run match --bfile a --model m.bim --by id -o a.gpk --report r.tsv
    expect_exit 0
    [ "$(reason_of r.tsv rs6)" = matched ]
    [ "$(reason_of r.tsv rs7)" = duplicate ]
    [ "$(oracle reasons m.bim id a)" = "$(tail -n +2 r.tsv | cut -f13)" ]
    # The same SNPs from two filesets: all of them are there twice.
    t5 b --snps 10
    t5 c --snps 10
    run match --bfile b --bfile c --model m.bim -o b.gpk
    expect_exit 5
    expect_text "10 more than once" "given twice"
}

@test "--ambiguous freq: A/T and C/G SNPs on the other strand are found by frequency, doubtful ones dropped" {
    need_shared
    # Every second A/T and C/G SNP typed on the other strand: letters cannot show it.
    awk 'BEGIN { OFS = "\t"; split("A T C G", b, " "); c["A"] = "T"; c["T"] = "A"; c["C"] = "G"; c["G"] = "C" }
        ($5 $6) ~ /^(AT|TA|CG|GC)$/ && ++n % 2 { $5 = c[$5]; $6 = c[$6]; print $2 >"turned" } { print }' "$kgp3/infer/query.bim" >q.bim
    cp "$kgp3/infer/query.bed" q.bed && cp "$kgp3/infer/query.fam" q.fam
    match -q --bfile "$kgp3/infer/query" --model "$kgp3/release" --ambiguous freq -o want.gpk --report want.tsv
    run match --bfile q --model "$kgp3/release" --ambiguous freq -o got.gpk --report got.tsv
    expect_exit 0
    [ "$(warnings)" = 0 ] || { echo "$output"; false; }
    cmp want.gpk got.gpk
    [ "$(grep -c ambiguous-kept got.tsv)" -gt 100 ]
    [ "$(grep -c ambiguous-dropped got.tsv)" -gt 0 ]
    # Kept as they are, half of them would be wrong, and all turned are noticed.
    awk 'BEGIN { OFS = "\t"; c["A"] = "T"; c["T"] = "A"; c["C"] = "G"; c["G"] = "C" }
        ($5 $6) ~ /^(AT|TA|CG|GC)$/ { $5 = c[$5]; $6 = c[$6] } { print }' "$kgp3/infer/query.bim" >q.bim
    run match --bfile q --model "$kgp3/release" -f -o got.gpk
    expect_exit 0
    expect_text "of group 'ambiguous-kept'" "other strand; use --ambiguous freq or drop"
    # Shards of a cohort decide alike: frequencies are those of everybody in the .fam.
    match -q --bfile q --model "$kgp3/release" --ambiguous freq -f -o a.gpk
    match -q --bfile q --model "$kgp3/release" --ambiguous freq --samples 11:12 -f -o b.gpk
    rows b.gpk | cmp - <(rows a.gpk | sed -n 11,12p)
    # Without frequencies there is nothing to decide by.
    run match --bfile q --model "$kgp3/release/DN_SNPS/dummy.bim" --ambiguous freq -f -o b.gpk
    expect_exit 5
    expect_text "--ambiguous freq needs a model with allele frequencies"
}

@test "--no-alleles: by ID alone, with a warning; the same identity of the model as with alleles" {
    t5 a
    awk 'BEGIN { OFS = "\t" } { $5 = "A"; $6 = "C"; print }' a.bim >m.bim
    run match --bfile a --model m.bim --no-alleles -o a.gpk --report r.tsv
    expect_exit 0
    expect_text "matching without alleles (--no-alleles)" "the wrong way round"
    [ "$(reasons r.tsv)" = "matched 6 " ]
    t5 b --tag x
    match -q --bfile a --model a.bim -f -o with.gpk
    match -q --bfile a --model a.bim --no-alleles -f -o without.gpk
    [ "$(calls with.gpk)" = "$(calls without.gpk)" ]
    [ "$("$PYTHON" "$TESTS/gpk_reader.py" --info with.gpk | grep hash)" = "$("$PYTHON" "$TESTS/gpk_reader.py" --info without.gpk | grep hash)" ]
}

@test "--model: a release, a .bim and a .gpk of the same SNPs give the same match" {
    need_shared
    match -q --bfile "$kgp3/infer/query" --model "$kgp3/release" -o a.gpk
    match -q --bfile "$kgp3/infer/query" --model "$kgp3/release/DN_SNPS/dummy.bim" -o b.gpk
    cmp a.gpk b.gpk
    match -q --bfile "$real/kgp3_26pop/kgp3_26pop_all" --model "$kgp3/release/DN_SNPS/dummy.bim" -o panel.gpk
    match -q --bfile "$kgp3/infer/query" --model panel.gpk -o c.gpk
    cmp a.gpk c.gpk
    run match --bfile "$kgp3/infer/query" --model "$kgp3/release/DN_SNPS/dummy.bim" --by id -o d.gpk
    expect_text "2659 SNPs (.bim)"
    cmp a.gpk d.gpk
    match -q --bfile "$kgp3/infer/query" --model "$kgp3/release" --by pos -o e.gpk
    cmp a.gpk e.gpk
}

@test "--model: a folder of packages and one package, in the pipe to dnpredict too" {
    simulate 30 800
    "$TOOLS/mkmodel" -q -o packages --bim sim.bim --folds 2 --repeats 2 --units 8 --hidden 8 --classes 3
    match -q --bfile sim_cohort --model sim.bim -o a.gpk
    run match --bfile sim_cohort --model packages -o b.gpk
    expect_exit 0
    expect_text "800 SNPs (package)"
    cmp a.gpk b.gpk
    run match --bfile sim_cohort --model "$(find packages -name '*.h5' | sort | head -1)" -f -o b.gpk
    expect_exit 0
    cmp a.gpk b.gpk
    # A .gpk, a .h5 and a pipe give the same predictions.
    match -q --bfile sim_cohort --model packages -o b.h5
    "$BIN/dnpredict" -q --model packages b.gpk -o want.tsv
    "$BIN/dnpredict" -q --model packages b.h5 -o h5.tsv
    match -q --bfile sim_cohort --model packages -o - | "$BIN/dnpredict" -q --model packages - -o pipe.tsv
    [ "$(wc -l <want.tsv)" = 31 ]
    cmp want.tsv h5.tsv && cmp want.tsv pipe.tsv
}

@test "a cohort of one person, a model of one SNP, an indel, a SNP that nobody varies at" {
    t5 a --people 1 --snps 1
    match -q --bfile a --model a.bim -o a.gpk
    [ "$(calls a.gpk)" = 0 ]
    t5 a
    awk 'BEGIN { OFS = "\t" } NR == 1 { $5 = "at"; $6 = "A" } NR == 2 { $5 = 0 } NR == 3 { $5 = "C"; $6 = 0 } { print }' a.bim >b.bim
    cp a.bed b.bed && cp a.fam b.fam
    awk 'BEGIN { OFS = "\t" } NR == 1 { $5 = "A"; $6 = "AT" } { print }' a.bim >m.bim
    match -q --bfile b --model m.bim -o b.gpk --report r.tsv
    [ "$(cut -f13 r.tsv | sed -n 2,4p | tr '\n' ' ')" = "swapped matched swapped " ]
}

@test "NU02: a SNP without calls and a person without calls stay what they are" {
    t5 a
    "$PYTHON" -c "
d = bytearray(open('a.bed', 'rb').read())
for j in range(6):
    d[3 + 2 * j] = d[3 + 2 * j] & ~12 | 4 # the second person
d[5] = d[6] = 0x55                        # the second SNP
open('b.bed', 'wb').write(d)"
    cp a.bim b.bim && cp a.fam b.fam
    match -q --bfile b --model a.bim -o b.gpk
    [ "$(calls b.gpk)" = $'0.1201\n......\n2.0.0.\n0.2110\n..1220' ]
    need_shared
    # With frequencies looked at, too: nothing called is no evidence of anything.
    "$PYTHON" -c "
d = open('$kgp3/infer/query.bed', 'rb').read()
open('q.bed', 'wb').write(d[:3] + b'\x55' * (len(d) - 3))"
    cp "$kgp3/infer/query.bim" q.bim && cp "$kgp3/infer/query.fam" q.fam
    for a in keep freq; do
        run match --bfile q --model "$kgp3/release" --ambiguous $a -f -o q.h5
        expect_exit 0
        refuse_text nan inf "labelled wrongly"
    done
    expect_text "1370 of the model's 2659 SNPs are used"
}

@test "ME01, IP02: 486,748 people in 28 GB: opened, sized right, the last people matched in bounded memory" {
    need_plain_build
    huge_fileset
    need prlimit
    for range in 1:4 486745:486748; do
        run prlimit --as=2147483648 "$BIN/snpmatch" --bfile big --model big.bim --samples $range -o big.gpk -f
        expect_exit 0
        expect_text "memory:" "4 people (chosen) x 230000 SNPs" "230000 of the model's 230000 SNPs are used"
        mib=$(sed -n 's/.* \([0-9]*\)\.[0-9] MiB peak memory/\1/p' <<<"$output")
        [ "$mib" -lt 400 ]
        want=2.10
        [ $range = 1:4 ] || want=01.2
        calls big.gpk >calls
        for col in 0 17647 17648 35296 229999; do
            [ "$(cut -c$((col + 1)) calls | tr -d '\n')" = $want ] || { echo "$range $col"; false; }
        done
        [ "$(cut -c101 calls | tr -d '\n')" = 2222 ]
    done
    # A thousand people, with less memory than they need at once: more blocks, the same rows.
    prlimit --as=2147483648 "$BIN/snpmatch" -q --bfile big --model big.bim --samples 485749:486748 -o a.gpk
    run "$BIN/snpmatch" --bfile big --model big.bim --samples 485749:486748 -o b.gpk --memory 160M
    expect_exit 0
    cmp a.gpk b.gpk
    mib=$(sed -n 's/.* \([0-9]*\)\.[0-9] MiB peak memory/\1/p' <<<"$output")
    [ "$mib" -le 160 ]
}
