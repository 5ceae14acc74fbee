#!/usr/bin/env bats
# gpack: round trips, agreement with plink2 and with the second reader, bad input, full disks, kills.

load ../lib

setup() {
    cd "$BATS_TEST_TMPDIR"
    gpack=$BIN/gpack
    reader=$TESTS/gpk_reader.py
}

tsv() { "$PYTHON" "$reader" --tsv "$1"; }
whole() { "$PYTHON" "$reader" --check "$1"; }

# plain_copy FROM TO: the same genotypes with IDs and alleles that every PLINK takes.
plain_copy() {
    cp "$1.bed" "$2.bed"
    chmod u+w "$2.bed"
    awk '{print "F"NR"\tS"NR"\t0\t0\t1\t-9"}' "$1.fam" >"$2.fam"
    awk '{print "1\tv"NR"\t0\t"NR"\tA\tG"}' "$1.bim" >"$2.bim"
}

# round_trips PREFIX [rows in a block]: .bed -> .gpk -> .h5 -> .gpk, also compressed, byte for byte; dosages as plink2 exports them.
round_trips() {
    "$gpack" -qf -b "$1" -o r.gpk 2>/dev/null || return 1
    "$gpack" -qf -z -b "$1" --block-rows "${2:-3}" -o r.z.gpk 2>/dev/null || return 1
    "$gpack" -qf -d r.gpk -o r.h5 && "$gpack" -qf -d r.z.gpk -o r.z.h5 || return 1
    "$gpack" -qf r.h5 -o r2.gpk && "$gpack" -qf r.z.gpk -o r3.gpk || return 1
    "$gpack" -qf -z --block-rows "${2:-3}" r.h5 -o r2.z.gpk || return 1
    cmp r.h5 r.z.h5 && cmp r.gpk r2.gpk && cmp r.gpk r3.gpk && cmp r.z.gpk r2.z.gpk || return 1
    "$gpack" -qt r.gpk r.z.gpk r.h5 || return 1
    tsv r.gpk >r.tsv && tsv r.z.gpk | cmp - r.tsv || return 1
}

# as_plink2 PREFIX: r.tsv holds what plink2 exports, counting column 5.
as_plink2() {
    plain_copy "$1" plain
    cut -f2,5 plain.bim >plain.a1
    plink2 --bfile plain --threads 1 --export A --export-allele plain.a1 --out raw >log 2>&1 || { cat log; return 1; }
    tail -n +2 raw.raw | cut -f7- | cmp - <(cut -f3- r.tsv)
}

@test "the worked example of docs/format-gpk.md is a file that both readers take" {
    "$PYTHON" "$reader" --example "$TESTS/../docs/format-gpk.md" e.gpk
    run whole e.gpk
    expect_exit 0
    run "$gpack" -l e.gpk
    expect_exit 0
    expect_text "$(whole e.gpk | cut -d' ' -f2)" "3          5        2"
    run "$gpack" -t e.gpk
    expect_exit 0
    run tsv e.gpk
    [ "$output" = $'F1\tA\t0\t1\t2\tNA\t0\nF1\tB\t2\tNA\t0\t0\t1\nF2\tA\tNA\tNA\t1\t1\t2' ]
    "$gpack" -qd e.gpk -o e.h5
    "$gpack" -q e.h5 -o e2.gpk
    cmp e.gpk e2.gpk
}

@test "MA03: dosages count .bim column 5, as plink2 --export A does when asked for it" {
    t5 a
    "$gpack" -q -b a -o a.gpk
    run tsv a.gpk
    expect_exit 0
    [ "$output" = $'F1\tS1\t0\t2\t1\t2\t0\t1\nF2\tS2\t1\t1\t1\t0\t0\t2\nF3\tS3\t2\t0\t0\tNA\t0\tNA\nF4\tS4\t0\t0\t2\t1\t1\t0\nF5\tS5\tNA\tNA\t1\t2\t2\t0' ]
    need plink2
    round_trips a
    as_plink2 a
}

@test "round trips and plink2 at sizes around four calls, a row's padding and a byte" {
    need plink2
    for size in "1 1" "3 1" "1 5" "2 2" "4 3" "5 4" "1 6" "7 255" "8 256" "9 257" "2 259" "3 261" "6 1023" "4 1024" "5 1025"; do
        # shellcheck disable=SC2086
        set -- $size
        t5 s --people $1 --snps $2
        round_trips s || { echo "$size"; false; }
        as_plink2 s || { echo "$size"; false; }
    done
}

@test "round trips around the blocks of the transposition and of the output" {
    for size in "1023 2047" "1024 2048" "1025 2049" "4097 3" "3 8193" "1 1"; do
        # shellcheck disable=SC2086
        set -- $size
        "$TOOLS/dnsim" -q -o s -n $1 -m $2 --missing 0.03 -f
        round_trips s 17 || { echo "$size"; false; }
        if command -v plink2 >/dev/null; then as_plink2 s || { echo "$size"; false; }; fi
    done
}

@test "real cohorts: round trips, plink2's dosages, the second reader, labels, the same bytes with 1, 2 and 7 threads" {
    need_shared
    for p in kgp1_14k/kgp1_14k hapmap3_14k/hapmap3_14k kgp3_26pop/kgp3_26pop_all kgp3_26pop/kgp3_26pop_aisnp ethseq_21pop/ethseq_21pop \
        humanorigins_tiny/humanorigins_tiny hapmap2_trios/hapmap2_trios; do
        p=$SHARED/realdata/$p
        round_trips "$p" 8 || { echo "$p"; false; }
        if command -v plink2 >/dev/null; then as_plink2 "$p" || { echo "$p"; false; }; fi
        for t in 1 2 7; do
            "$gpack" -qf -b "$p" --labels "$p.labels.tsv" -@ $t -o t$t.gpk 2>/dev/null
            "$gpack" -qf -z -b "$p" --labels "$p.labels.tsv" -@ $t -o z$t.gpk 2>/dev/null
        done
        cmp t1.gpk t2.gpk && cmp t1.gpk t7.gpk && cmp z1.gpk z2.gpk && cmp z1.gpk z7.gpk
        [ "$(whole t1.gpk)" = "$(whole z1.gpk)" ]
        [ "$("$PYTHON" "$reader" --info t1.gpk | "$PYTHON" -c 'import json,sys; d=json.load(sys.stdin); print(len(d["CLAS"]), len(d["LABL"]), min(d["LABL"]))')" = \
            "$(tail -n +2 "$p.labels.tsv" | cut -f2 | sort -u | wc -l) $(wc -l <"$p.fam") 0" ]
    done
}

@test "bed2h5 and gpack --bfile make the same dataset" {
    [ -x "$BIN/bed2h5" ] || skip "bed2h5 is not built"
    t5 a --people 9 --snps 40 --labels
    printf 'sample\tvalue\nS1\t1.5\nS2\t-2\nS3\t0\nS5\t4e3\n' >r.tsv
    printf 'rs7\nrs8\nrs30\nrsB\n' >snps
    for extra in "" "--labels a.labels.tsv" "--labels a.labels.tsv --regression-labels r.tsv" "--labels a.labels.tsv --extract snps"; do
        # shellcheck disable=SC2086
        "$BIN/bed2h5" -qf -b a $extra -o b.h5 2>/dev/null
        # shellcheck disable=SC2086
        "$gpack" -qf -b a $extra -o b.gpk 2>/dev/null
        "$gpack" -qf b.h5 -o c.gpk
        cmp b.gpk c.gpk
        "$gpack" -qfd b.gpk -o c.h5
        cmp b.h5 c.h5
        [ "$("$gpack" -l b.gpk 2>/dev/null | awk 'END {print $9}')" = "$("$gpack" -l b.h5 2>/dev/null | awk 'END {print $9}')" ]
    done
}

@test "pipes: stdin and stdout, the same bytes as files" {
    t5 a --people 30 --snps 700 --labels
    "$gpack" -q -b a --labels a.labels.tsv -o a.gpk
    "$gpack" -q -b a --labels a.labels.tsv -c | cmp - a.gpk
    "$gpack" -q -z a.gpk -o a.z.gpk
    cat a.gpk | "$gpack" -qz - -c | cmp - a.z.gpk
    "$gpack" -q -z <a.gpk - | cmp - a.z.gpk
    cat a.z.gpk | "$gpack" -q - | cmp - a.gpk
    cat a.z.gpk | "$gpack" -qd - -o b.h5
    "$gpack" -qd a.gpk -o a.h5
    cmp a.h5 b.h5
    cat a.z.gpk | "$gpack" -qt -
    [ "$(cat a.z.gpk | "$gpack" -l - 2>/dev/null | awk 'END {print $9}')" = "$("$gpack" -l a.gpk 2>/dev/null | awk 'END {print $9}')" ]
    cat a.gpk | "$PYTHON" "$reader" --check -
    run bash -c "cat a.h5 | '$gpack' - -o x.gpk"
    expect_exit 4
    expect_text HDF5
    run "$gpack" -d a.gpk -o -
    expect_exit 2
    expect_text "pipe"
}

@test "names in the manner of zstd: dataset.h5 <-> dataset.gpk; nothing is replaced or deleted unasked" {
    t5 a
    "$gpack" -q -b a -o d.gpk
    "$gpack" -qd d.gpk
    [ -s d.h5 ] && [ -s d.gpk ]
    run "$gpack" d.h5
    expect_exit 2
    expect_text "d.gpk exists already" "--force"
    "$gpack" -qf d.h5
    cp d.gpk e.gpk
    run "$gpack" -f e.gpk -o e.gpk
    expect_exit 2
    expect_text "is the input"
    cmp d.gpk e.gpk
    run "$gpack" -f -b a -o a.bed
    expect_exit 2
    expect_text "is the input"
    run "$gpack" -b a
    expect_exit 2
    expect_text "-o"
    run "$gpack" -b a -t
    expect_exit 2
    run "$gpack" -dt d.gpk
    expect_exit 2
    run "$gpack" d.gpk e.gpk -o x.gpk
    expect_exit 2
    run "$gpack" d.h5 --labels l.tsv -o x.gpk
    expect_exit 2
    expect_text "--bfile"
    run "$gpack" -z23 d.h5 -o x.gpk
    expect_exit 2
    [ ! -e x.gpk ]
    run "$gpack" -q -f d.h5
    expect_exit 0
    [ -z "$output" ]
}

@test "compressed blocks: levels, rows in a block, ratio in the list" {
    t5 a --people 40 --snps 3000
    for z in -z -z1 -z19 "-z --block-rows 1" "-z --block-rows 7" "-z --block-rows 100000"; do
        # shellcheck disable=SC2086
        "$gpack" -qf $z -b a -o z.gpk
        "$gpack" -qt z.gpk
        whole z.gpk >/dev/null
        "$gpack" -qf z.gpk -o raw.gpk
        "$gpack" -qf -b a -o want.gpk
        cmp raw.gpk want.gpk
    done
    run "$gpack" -l want.gpk z.gpk
    expect_exit 0
    expect_text "raw" "zstd-3/40" "People"
    [ "$(grep -c People <<<"$output")" = 1 ]
}

@test "a value outside -1..2 is refused with row and column" {
    t5 a
    "$gpack" -q -b a -o a.gpk
    "$gpack" -qd a.gpk -o a.h5
    for v in 3 -2 127 -128; do
        "$PYTHON" -c "
import h5py, sys
with h5py.File('a.h5', 'r+') as f: f['inputs'][2, 4] = $v"
        run "$gpack" -f a.h5 -o b.gpk
        expect_exit 4
        expect_text "$v" "row" "column" "S3" "rsE"
        [ ! -e b.gpk ]
        run "$gpack" -t a.h5
        expect_exit 4
    done
}

@test "CS10: cut, changed and half-copied files are exit 4 and say what is missing; other files are named" {
    t5 a --people 9 --snps 300 --labels
    "$gpack" -q -b a --labels a.labels.tsv -o a.gpk
    "$gpack" -q -z --block-rows 2 a.gpk -o z.gpk
    size=$(stat -c %s a.gpk)
    for cut in 0 1 7 8 71 72 500 4095 4096 4100 $((size / 2)) $((size - 100)) $((size - 1)); do
        head -c "$cut" a.gpk >cut.gpk
        for f in "-t cut.gpk" "-l cut.gpk" "-d cut.gpk -o x.h5" "cut.gpk -o x.gpk"; do
            # shellcheck disable=SC2086
            run "$gpack" $f
            expect_exit 4
            refuse_text "internal"
        done
        run bash -c "'$gpack' -t - <cut.gpk"
        expect_exit 4
    done
    expect_text "the trailer"
    rows=$(od -An -tu8 -j40 -N8 a.gpk) # where they start; each takes 128 bytes
    head -c $((rows + 400)) a.gpk >cut.gpk
    run "$gpack" -t cut.gpk
    expect_text "has 3 of 9 rows" "bytes are missing"
    cat a.gpk a.gpk >twice.gpk
    run "$gpack" -t twice.gpk
    expect_exit 4
    expect_text "$size bytes of something else"
    cp a.gpk flip.gpk
    printf '\x15' | dd of=flip.gpk bs=1 seek=$((rows + 4 * 128 + 20)) conv=notrunc status=none
    run "$gpack" -t flip.gpk
    expect_exit 4
    expect_text "row 5 is damaged"
    run "$gpack" -d flip.gpk -o x.h5
    expect_exit 4
    run "$gpack" flip.gpk -o x.gpk
    expect_exit 4
    run "$gpack" -t a.gpk flip.gpk z.gpk
    expect_exit 4
    expect_text "row 5 is damaged" "1 of 3 files"
    [ ! -e x.h5 ] && [ ! -e x.gpk ]
    gzip -c a.gpk >g.gpk
    run "$gpack" -t g.gpk
    expect_exit 4
    expect_text gzip
    run "$gpack" a.bed -o x.gpk
    expect_exit 4
    expect_text "--bfile"
    run "$gpack" a.fam -o x.gpk
    expect_exit 4
    run "$gpack" nobody.h5 -o x.gpk
    expect_exit 3
    run "$gpack" . -o x.gpk
    expect_exit 3
    : >empty.gpk
    run "$gpack" -t empty.gpk
    expect_exit 4
    expect_text "empty"
}

@test "a file of another version names both versions; a matched .gpk is not a dataset" {
    t5 a
    "$gpack" -q -b a -o a.gpk
    printf '\x02' | dd of=a.gpk bs=1 seek=8 conv=notrunc status=none
    run "$gpack" -t a.gpk
    expect_exit 8
    expect_text "version 2.0" "version 1.x"
    [ -x "$BIN/snpmatch" ] || skip "snpmatch is not built"
    "$BIN/snpmatch" -q -b a --model a.bim --min-overlap 1 -o m.gpk 2>/dev/null
    run "$gpack" -l m.gpk
    expect_exit 0
    "$gpack" -qz m.gpk -o mz.gpk
    whole mz.gpk
    "$gpack" -q mz.gpk -o m2.gpk
    cmp m.gpk m2.gpk
    run "$gpack" -d m.gpk -o m.h5
    expect_exit 8
    expect_text "matched to a model" snpmatch
    [ ! -e m.h5 ]
    "$BIN/snpmatch" -q -b a --model a.bim --min-overlap 1 -o m.h5 2>/dev/null
    run "$gpack" m.h5 -o x.gpk
    expect_exit 8
}

@test "labels: people without one are left out with a count, or an error under --strict; names kept as bytes" {
    t5 a
    printf 'sample\tlabel\nS1\tCôte d’Ivoire\nS2\tB\nS4\tB\nnobody\tB\n' >l.tsv
    run "$gpack" -b a --labels l.tsv -o a.gpk
    expect_exit 0
    expect_text "2 people are left out" "F3 S3" "F5 S5" "1 labels name nobody" "nobody"
    [ "$(tsv a.gpk | cut -f2 | tr '\n' ' ')" = "S1 S2 S4 " ]
    "$PYTHON" "$reader" --info a.gpk | grep -q '"LABL"'
    "$gpack" -qd a.gpk -o a.h5
    run "$PYTHON" -c "
import h5py
with h5py.File('a.h5') as f: print([x.decode('latin-1').encode('latin-1').decode('utf-8') for x in f['class_label_names'][:]], f['class_labels'][:].tolist())"
    expect_text "Côte d’Ivoire" "[1, 0, 0]"
    run "$gpack" -b a --labels l.tsv --strict -o b.gpk
    expect_exit 5
    expect_text "--strict" "S3"
    [ ! -e b.gpk ]
    printf 'sample\tvalue\nS1\t1.5\nS2\tNA\nS4\t-3e2\n' >r.tsv
    "$gpack" -q -b a --labels l.tsv --regression-labels r.tsv -o c.gpk 2>/dev/null
    [ "$(tsv c.gpk | cut -f2 | tr '\n' ' ')" = "S1 S4 " ]
    "$PYTHON" "$reader" --info c.gpk | tr -d ' \n' | grep -q '"TARG":\[1.5,-300.0\]'
}

@test "--keep, --remove, --extract and --exclude choose; nobody or nothing left is exit 5" {
    t5 a
    printf 'F2 S2\nF4 S4\nF9 S9\n' >people
    printf 'rsB\nrsF\nrsZ\n' >snps
    run "$gpack" -b a --keep people --extract snps -o a.gpk
    expect_exit 0
    expect_text "S9" "rsZ"
    [ "$(tsv a.gpk)" = $'F2\tS2\t1\t2\nF4\tS4\t0\t0' ]
    "$gpack" -qf -b a --remove people --exclude snps -o a.gpk 2>/dev/null
    [ "$(tsv a.gpk)" = $'F1\tS1\t0\t1\t2\t0\nF3\tS3\t2\t0\tNA\t0\nF5\tS5\tNA\t1\t2\t2' ]
    printf 'F9 S9\n' >people
    run "$gpack" -b a --keep people -o b.gpk
    [ "$status" -eq 5 ] || [ "$status" -eq 4 ]
    [ ! -e b.gpk ]
}

@test "IP01: a sample-major .bed packs to the same file" {
    for size in "4 4" "3 9" "17 1030"; do
        # shellcheck disable=SC2086
        set -- $size
        t5 a --people $1 --snps $2
        t5 b --people $1 --snps $2 --major 0
        "$gpack" -qf -b a -o a.gpk
        "$gpack" -qf -b b -o b.gpk
        cmp a.gpk b.gpk
    done
}

@test "IP04: one fileset per chromosome, by @ or repeated; a .fam in another order is refused by name" {
    t5 all --snps 6
    for c in 1 2 22; do
        t5 chr$c --chrom $c --tag c$c
    done
    "$gpack" -q -b chr@ -o a.gpk
    "$gpack" -q -b chr1 -b chr2 -b chr22 -o b.gpk
    cmp a.gpk b.gpk
    [ "$(tsv a.gpk | cut -f9-14)" = "$(tsv a.gpk | cut -f3-8)" ]
    sed -i -e '2{h;d}' -e '3{G}' chr2.fam
    run "$gpack" -b chr@ -o c.gpk
    expect_exit 5
    expect_text "chr2.fam"
    [ ! -e c.gpk ]
}

@test "IP05: stray padding bits are one warning, and never a person" {
    t5 a
    t5 b --padding 0xFC
    "$gpack" -q -b a -o a.gpk
    run "$gpack" -q -b b -o b.gpk
    expect_exit 0
    [ "$(grep -c warning <<<"$output")" = 1 ]
    cmp a.gpk b.gpk
}

@test "IP14: 0 people or 0 SNPs have their own words, and leave no file" {
    t5 a
    : >a.bim
    head -c 3 a.bed >b && mv b a.bed
    run "$gpack" -b a -o a.gpk
    expect_exit 4
    expect_text "0 SNPs"
    t5 a
    : >a.fam
    run "$gpack" -b a -o a.gpk
    expect_exit 4
    [ ! -e a.gpk ]
}

@test "IP17: gzip, HDF5 and text in the wrong place are named" {
    t5 a
    gzip -c a.bed >b && mv b a.bed
    run "$gpack" -b a -o a.gpk
    expect_exit 4
    expect_text gzip
    printf '\x28\xb5\x2f\xfdxxxx' >s.h5
    run "$gpack" s.h5 -o s.gpk
    expect_exit 4
    expect_text zstd
}

@test "IP08, IP10, IP13, NU02: what PLINK files may not or may hold is settled before packing" {
    t5 a
    sed -i 's/S2/S 2/' a.fam
    run "$gpack" -b a -o a.gpk
    expect_exit 4
    expect_text "a.fam"
    t5 a
    sed -i 2p a.fam && sed -i '$d' a.fam
    run "$gpack" -b a -o a.gpk
    expect_exit 4
    expect_text "F2" "S2"
    t5 a
    sed -i 's/$/\r/' a.fam a.bim
    { printf '\357\273\277'; cat a.bim; } >b && mv b a.bim
    "$gpack" -q -b a -o a.gpk
    t5 b
    "$gpack" -q -b b -o b.gpk
    cmp a.gpk b.gpk
    printf '\x6c\x1b\x01\x55\x55\x55\x55' >m.bed
    head -2 a.bim | tr -d '\r\357\273\277' >m.bim
    cp b.fam m.fam
    "$gpack" -q -b m -o m.gpk
    run "$gpack" -l m.gpk
    expect_text "100.0000%"
}

@test "ME01: memory is bounded by --memory, not by the data" {
    "$TOOLS/dnsim" -q -o s -n 3000 -m 60000
    "$gpack" -qf -b s -o want.gpk
    run "$gpack" -f -b s -o s.gpk --memory 48M
    expect_exit 0
    peak=$(sed -n 's/.* \([0-9]*\)\.[0-9]* MiB peak.*/\1/p' <<<"$output")
    if plain_build; then [ "$peak" -le 64 ] || { echo "$output"; false; }; fi
    cmp s.gpk want.gpk
    run "$gpack" -qd s.gpk -o s.h5 --memory 48M
    expect_exit 0
    run "$gpack" -f s.h5 -o s.gpk --memory 48M
    expect_exit 0
    peak=$(sed -n 's/.* \([0-9]*\)\.[0-9]* MiB peak.*/\1/p' <<<"$output")
    if plain_build; then [ "$peak" -le 64 ] || { echo "$output"; false; }; fi
    cmp s.gpk want.gpk
    run "$gpack" -f -b s -o s.gpk --memory 9M
    expect_exit 7
    expect_text "--memory"
    cmp s.gpk want.gpk
}

@test "IP02: first and last people of a 28 GB .bed, in bounded memory" {
    huge_fileset
    printf 'F S1\nF S2\nF S3\nF S486747\nF S486748\n' >few
    run "$gpack" -b big --keep few -o few.gpk --memory 256M
    expect_exit 0
    peak=$(sed -n 's/.* \([0-9]*\)\.[0-9]* MiB peak.*/\1/p' <<<"$output")
    if plain_build; then [ "$peak" -le 272 ] || { echo "$output"; false; }; fi
    # Codes 00 01 10 11 of 0xe4 are 2, missing, 1, 0; the last byte is the reverse. Elsewhere 00: 2 copies.
    for snp in 1 17648 17649 35297 230000; do
        [ "$(tsv few.gpk | cut -f$((2 + snp)) | tr '\n' ' ')" = "2 NA 1 NA 2 " ]
    done
    [ "$(tsv few.gpk | cut -f4 | sort -u)" = 2 ]
    rm big.bed
}

@test "PE03: a .h5 that is chunked, compressed, of another type or byte order, or never written, gives the same .gpk or is refused" {
    t5 a --people 20 --snps 90 --labels
    "$gpack" -q -b a --labels a.labels.tsv -o a.gpk
    "$gpack" -qd a.gpk -o a.h5
    for how in "chunks=(1,90)" "chunks=(64,64)" "chunks=(8,90),compression='gzip'" "dtype='>i2'" "dtype='i8'" "chunks=(7,13),shuffle=True,fletcher32=True"; do
        "$PYTHON" - "$how" <<'PY'
import h5py, shutil, sys
shutil.copy('a.h5', 'b.h5')
with h5py.File('b.h5', 'r+') as f:
    x = f['inputs'][:]
    del f['inputs']
    how = eval('dict(%s)' % sys.argv[1])
    if 'chunks' in how:
        how['chunks'] = tuple(min(a, b) for a, b in zip(how['chunks'], x.shape))
    f.create_dataset('inputs', data=x.astype(how.pop('dtype', 'i1')), dtype=None, **how)
PY
        "$gpack" -qf b.h5 -o b.gpk
        cmp a.gpk b.gpk || { echo "$how"; false; }
    done
    "$PYTHON" - <<'PY'
import h5py, shutil
shutil.copy('a.h5', 'b.h5')
with h5py.File('b.h5', 'r+') as f:
    del f['inputs']
    f.create_dataset('inputs', shape=(20, 90), dtype='i1')
PY
    run "$gpack" -f b.h5 -o b.gpk
    [ "$status" -eq 4 ] || { [ "$status" -eq 0 ] && [ "$(tsv b.gpk | cut -f3- | tr '\t' '\n' | sort -u)" = 0 ]; }
}

@test "ME02, CS03: a full disk is exit 6 with need and free, or the system's word, and leaves nothing" {
    t5 a --people 200 --snps 3000
    run "$gpack" -b a -o /dev/full
    expect_exit 6
    run bash -c "'$gpack' -b a -o - >/dev/full"
    expect_exit 6
    run bash -c "ulimit -f 10; '$gpack' -b a -o big.gpk"
    expect_exit 6
    run bash -c "ulimit -f 10; '$gpack' -z1 -b a -o big.gpk"
    expect_exit 6
    "$gpack" -q -b a -o a.gpk
    run bash -c "ulimit -f 10; '$gpack' -d a.gpk -o big.h5"
    expect_exit 6
    run bash -c "'$gpack' -q -c -b a | head -c 10 >/dev/null; exit \${PIPESTATUS[0]}"
    expect_exit 6
    [ "$(ls)" = $'a.bed\na.bim\na.fam\na.gpk' ] || { ls; false; }
    unshare -rm true 2>/dev/null || skip "no user namespaces here"
    mkdir small
    run unshare -rm bash -c "mount -t tmpfs -o size=64k none small || exit 99; '$gpack' -b a -o small/a.gpk; r=\$?; ls -A small; exit \$r"
    [ "$status" -ne 99 ] || skip "no tmpfs here"
    expect_exit 6
    expect_text "not enough room" "free"
    refuse_text "tmp."
    run unshare -rm bash -c "mount -t tmpfs -o size=64k none small || exit 99; '$gpack' -z1 -b a -o small/a.gpk; r=\$?; ls -A small; exit \$r"
    expect_exit 6
    refuse_text "tmp."
}

@test "UX03: the output is tested before work starts" {
    t5 a
    run "$gpack" -b nobody -o nodir/x.gpk
    expect_exit 6
    expect_text "nodir"
    mkdir ro
    chmod 0555 ro
    [ -w ro ] || { run "$gpack" -b a -o ro/x.gpk; expect_exit 6; }
    run "$gpack" -b a -o .
    expect_exit 2
    expect_text "folder"
    # A failed run leaves nothing that blocks the next.
    cp a.bed good.bed
    head -c 5 good.bed >a.bed
    run "$gpack" -b a -o a.gpk
    expect_exit 5
    [ ! -e a.gpk ]
    cp good.bed a.bed
    "$gpack" -q -b a -o a.gpk
}

@test "CS02: kill -9 and SIGTERM in the middle leave nothing under the final name" {
    t5 a --people 50 --snps 3000
    "$gpack" -q -b a -o a.gpk
    mkfifo pipe
    for signal in KILL TERM; do
        { head -c $(($(stat -c %s a.gpk) - 10000)) a.gpk; sleep 3; } >pipe &
        feeder=$!
        "$gpack" -q - -o out.gpk <pipe 3>&- &
        pid=$!
        for _ in $(seq 50); do
            [ ! -e "out.gpk.tmp.$pid" ] || break
            sleep 0.05
        done
        [ -e "out.gpk.tmp.$pid" ]
        kill -$signal $pid
        run wait $pid
        kill $feeder 2>/dev/null || true
        wait $feeder 2>/dev/null || true
        [ ! -e out.gpk ]
        if [ $signal = TERM ]; then
            [ ! -e "out.gpk.tmp.$pid" ]
        else
            run "$gpack" -t "out.gpk.tmp.$pid"
            expect_exit 4
            rm "out.gpk.tmp.$pid"
        fi
    done
}

@test "UX04: options that do not exist, values that make no sense" {
    run "$gpack" --comprss d.h5
    expect_exit 2
    expect_text "--compress"
    for bad in "-z0 x" "--block-rows 0 -z x" "--block-rows 5 x" "--threads x x" "--id-cols 3 -b x -o y"; do
        # shellcheck disable=SC2086
        run "$gpack" $bad
        expect_exit 2
    done
}

@test "CL10: a file that another process holds a lock on is read" {
    t5 a
    "$gpack" -q -b a -o a.gpk
    "$gpack" -qd a.gpk -o a.h5
    ( flock -x 9; "$gpack" -q a.h5 -o b.gpk; "$gpack" -qt a.gpk ) 9<a.h5
    cmp a.gpk b.gpk
}
