#!/usr/bin/env bats
# dnpredict on the golden results of upstream, by every way in; shapes, threads, shards, memory.

load ../lib

setup_file() {
    export KGP3=$SHARED/golden/kgp3 KGP1=$SHARED/golden/kgp1
    cd "$BATS_FILE_TMPDIR" || return 1
    # 4 small models of 700 SNPs and a cohort that lacks a third of them.
    "$TOOLS/mkmodel" -o m --snps 700 --folds 2 --repeats 2 --units 20 --hidden 10 --classes 5 --cohort c.gpk --people 90 --matched 0.66
}

setup() {
    predict=$BIN/dnpredict
    M=$BATS_FILE_TMPDIR/m C=$BATS_FILE_TMPDIR/c.gpk
    cd "$BATS_TEST_TMPDIR" || return 1
}

# compare_scores.py, with its words shown when it fails.
compare() {
    "$PYTHON" -c 'import h5py, numpy' 2>/dev/null || skip "no Python with h5py and numpy"
    run "$PYTHON" "$TESTS/compare_scores.py" "$@"
    expect_exit 0
}

need_match() { [ -x "$BIN/snpmatch" ] || skip "no snpmatch"; }

@test "golden kgp3: predictions cell for cell, probabilities, hidden layer, from upstream's matched.hdf5" {
    need_shared
    run "$predict" -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o p.tsv --scores s.h5
    expect_exit 0
    cut -f1-17 p.tsv | cmp - "$KGP3/infer/predictions.txt"
    compare table p.tsv "$KGP3/infer/predictions.txt"
    compare scores s.h5 "$KGP3/infer/scores.tsv"
    compare hidden s.h5 1_1 "$KGP3/infer/hidden_model1_1.tsv"
    compare consistent p.tsv s.h5
}

@test "golden kgp3: the same bytes by .gpk, compressed .gpk, .h5 and pipe, and upstream's file but for its missing FIDs" {
    need_shared
    need_match
    "$BIN/snpmatch" -q -b "$KGP3/infer/query" -m "$KGP3/release" -o q.gpk
    "$BIN/snpmatch" -q -b "$KGP3/infer/query" -m "$KGP3/release" -o q.h5
    "$predict" -q -m "$KGP3/release" q.gpk -o gpk.tsv --scores gpk.s.h5
    "$predict" -q -m "$KGP3/release" q.h5 -o h5.tsv --scores h5.s.h5
    "$BIN/snpmatch" -q -b "$KGP3/infer/query" -m "$KGP3/release" -o - | "$predict" -q -m "$KGP3/release" - -o - >pipe.tsv
    "$predict" -q -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o up.tsv
    compare table gpk.tsv "$KGP3/infer/predictions.txt"
    compare scores gpk.s.h5 "$KGP3/infer/scores.tsv"
    compare hidden gpk.s.h5 1_1 "$KGP3/infer/hidden_model1_1.tsv"
    cmp gpk.tsv h5.tsv
    cmp gpk.s.h5 h5.s.h5
    cmp gpk.tsv pipe.tsv
    [ "$(head -2 gpk.tsv | tail -1 | cut -f23)" = HG00101 ]
    cmp <(cut -f1-22 gpk.tsv) <(cut -f1-22 up.tsv)
    if [ -x "$BIN/gpack" ] && "$BIN/gpack" -q -z q.gpk -o z.gpk; then
        "$predict" -q -m "$KGP3/release" z.gpk -o z.tsv
        cmp gpk.tsv z.tsv
    fi
    # A named pipe is a pipe too.
    mkfifo fifo
    cat q.gpk >fifo &
    "$predict" -q -m "$KGP3/release" fifo -o fifo.tsv
    wait
    cmp gpk.tsv fifo.tsv
}

@test "golden kgp3: swapped, flipped, shuffled, per chromosome, sample-major, chr-named, other FIDs: the same predictions" {
    need_shared
    need_match
    need plink1.9
    "$predict" -q -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o want.tsv
    "$TESTS/variants.sh" "$KGP3/infer/query" v >list.tsv
    [ "$(wc -l <list.tsv)" -ge 10 ]
    while IFS=$'\t' read -r name prefixes; do
        args=()
        for p in $prefixes; do args+=(-b "$p"); done
        "$BIN/snpmatch" -q "${args[@]}" -m "$KGP3/release" -o - 2>/dev/null | "$predict" -q -m "$KGP3/release" - -o "$name.tsv"
        cmp <(cut -f1-22 want.tsv) <(cut -f1-22 "$name.tsv") || { echo "variant $name"; false; }
    done <list.tsv
    [ "$(sed -n 3p fids.tsv | cut -f1,23)" = "$(printf 'HG00109\tFAM2')" ]
}

@test "golden kgp1: HapMap 3, another build and row order, five listed models within 1e-4" {
    need_shared
    need_match
    cut -f2 "$SHARED/realdata/kgp1_14k/kgp1_14k.labels.tsv" | tail -n +2 | LC_ALL=C sort -u >classes.txt
    "$BIN/snpmatch" -b "$SHARED/realdata/hapmap3_14k/hapmap3_14k" -m "$KGP1/release" -o h.gpk 2>match.log
    run "$predict" -m "$KGP1/release" --classes classes.txt h.gpk -o p.tsv --scores s.h5
    expect_exit 0
    refuse_text warning
    [ "$(wc -l <p.tsv)" -eq 958 ]
    compare scores s.h5 "$KGP1/infer/scores.tsv" --models 1_1,2_1,3_1,4_1,5_1
    compare hidden s.h5 1_1 "$KGP1/infer/hidden_model1_1.tsv"
    compare consistent p.tsv s.h5
}

@test "threads: 1, 2 and 7 give the same bytes, table and scores; so does every instruction set" {
    for t in 1 2 7; do
        "$predict" -q -m "$M" "$C" -o p$t.tsv --scores s$t.h5 --threads $t
        cmp p1.tsv p$t.tsv
        cmp s1.h5 s$t.h5
    done
    [ -z "$SHARED" ] || for t in 1 2 7; do
        "$predict" -q -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o g$t.tsv --scores gs$t.h5 --threads $t
        cmp g1.tsv g$t.tsv
        cmp gs1.h5 gs$t.h5
    done
    for isa in portable avx2 avx512; do
        run env DN_ISA=$isa "$predict" -q -m "$M" "$C" -o p$isa.tsv --scores s$isa.h5
        [ "$status" -ne 8 ] || continue # this CPU lacks it
        expect_exit 0
        cmp p1.tsv p$isa.tsv
        cmp s1.h5 s$isa.h5
    done
}

@test "blocks: a memory bound that cuts people into many blocks changes no byte" {
    "$TOOLS/mkmodel" -o b --snps 700 --folds 2 --repeats 2 --units 20 --classes 3 --cohort b.gpk --people 3000
    run "$predict" -m b b.gpk -o all.tsv --scores all.h5
    expect_text "blocks of 3000 people"
    run "$predict" -m b b.gpk -o p.tsv --scores s.h5 --memory 18M
    expect_exit 0
    expect_text "blocks of "
    refuse_text "blocks of 3000 people"
    cmp all.tsv p.tsv
    cmp all.h5 s.h5
}

@test "CL05: shards of one folder at once; parts in any order join to the same bytes as one run" {
    "$predict" -q -m "$M" "$C" -o all.tsv
    for i in 1 2 3 4 5 6 7 8; do "$predict" -q -m "$M" "$C" -o part$i.tsv --shard $i/8 --threads 1 & done
    wait
    run "$predict" --join part3.tsv part1.tsv part5.tsv part8.tsv part4.tsv part2.tsv part7.tsv part6.tsv -o joined.tsv
    expect_exit 0
    expect_text "joined 8 parts: every one of 90 people is in the table once"
    cmp all.tsv joined.tsv
    "$predict" -q --join part?.tsv -o - | cmp all.tsv -
    compare join joined.tsv part?.tsv
    # More shards than people: some parts are empty, and needed all the same.
    for i in $(seq 1 100); do "$predict" -q -m "$M" "$C" -o "many$i.tsv" --scores "many$i.h5" --shard "$i/100" --threads 1; done
    "$predict" -q --join many*.tsv -o joined2.tsv
    cmp all.tsv joined2.tsv
    # From a pipe too: people before and after the shard pass by.
    "$predict" -q -m "$M" - -o part3p.tsv --shard 3/8 <"$C"
    cmp <(grep -v '^#' part3.tsv) <(grep -v '^#' part3p.tsv)
}

@test "scores of a shard are those of its people" {
    "$predict" -q -m "$M" "$C" -o all.tsv --scores all.h5
    "$predict" -q -m "$M" "$C" -o part.tsv --scores part.h5 --shard 2/3
    "$PYTHON" -c 'import h5py' 2>/dev/null || skip "no h5py"
    "$PYTHON" - <<'PY'
import h5py
a, b = h5py.File("all.h5"), h5py.File("part.h5")
assert b.attrs["first_person"] == 30 and b.attrs["n_people"] == 90
assert (b["samples"][()] == a["samples"][30:60]).all() and (b["fids"][()] == a["fids"][30:60]).all()
assert (b["scores"][()] == a["scores"][:, 30:60]).all() and (b["hidden"][()] == a["hidden"][:, 30:60]).all()
assert list(a["models"]) == [b"seed23_fold0", b"seed78_fold0", b"seed23_fold1", b"seed78_fold1"], list(a["models"])
assert list(a["classes"]) == [b"POP01", b"POP02", b"POP03", b"POP04", b"POP05"]
assert a["scores"].dtype == "f4" and a["scores"].shape == (4, 90, 5) and a["hidden"].shape == (4, 90, 10)
assert a.attrs["model_snps"] == 700 and a.attrs["matched_snps"] < 500
PY
}

@test "MA01: how many of the model's SNPs matched is on stderr, with the percentage; few are a warning" {
    run "$predict" -m "$M" "$C" -o p.tsv
    expect_exit 0
    [[ $output =~ "4 models, 700 SNPs; "4[0-9]+" of them matched (6"[0-9.]+" %), scale 1." ]] || { echo "$output"; false; }
    refuse_text warning
    "$TOOLS/mkmodel" -o few --snps 700 --folds 1 --repeats 2 --units 5 --classes 3 --cohort few.gpk --matched 0.05
    run "$predict" -m few few.gpk -o few.tsv
    expect_exit 0
    expect_text "warning: only" "700 SNPs"
    # An absent SNP is missing for everybody, never a dosage: people still differ.
    [ "$(cut -f3 few.tsv | sort -u | wc -l)" -gt 2 ]
    need_shared
    run "$predict" -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o p.tsv -f
    expect_text "15 models, 2659 SNPs; 1595 of them matched (60.0 %)"
}

@test "NU04: one person, and two, come out as they do among many" {
    "$predict" -q -m "$M" "$C" -o all.tsv
    "$predict" -q -m "$M" "$C" -o one.tsv --shard 90/90
    cmp <(tail -1 all.tsv) <(grep -v '^#' one.tsv | tail -1)
    "$TOOLS/mkmodel" -o one --snps 50 --folds 1 --repeats 1 --cohort one.gpk --people 1
    run "$predict" -m one one.gpk -o p1.tsv
    expect_exit 0
    [ "$(wc -l <p1.tsv)" -eq 2 ]
    [ "$(head -1 p1.tsv | tr '\t' ' ')" = "samples model1 all_models prediction votes confidence entropy call_rate fid" ]
}

@test "NU02: a person without any call is NA and named in a warning; a SNP without calls is harmless" {
    "$TOOLS/mkmodel" -o none --snps 300 --folds 1 --repeats 2 --units 8 --classes 3 --cohort none.gpk --people 3 --missing 1
    run "$predict" -m none none.gpk -o p.tsv --scores s.h5
    expect_exit 0
    expect_text "3 of 3 people have no call" "NA"
    [ "$(sed -n 2p p.tsv | tr '\t' ' ')" = "P000001 NA NA NA NA 0 NA NA 0.000000 F000001" ]
    run grep -ci 'nan\|inf' p.tsv
    [ "$output" = 0 ]
    compare consistent p.tsv s.h5
    # Some people without a call, a SNP without a call: through HDF5, as upstream writes it.
    "$PYTHON" - "$C" <<'PY'
import sys, os
sys.path.insert(0, os.environ["TESTS"])
import h5py, numpy as np
m = 50
x = np.random.RandomState(1).randint(0, 3, (6, m)).astype("i1")
x[2] = -1
x[:, 7] = -1
x[4, 3:] = -1
with h5py.File("up.h5", "w") as f:
    f["inputs"] = x
    f["samples"] = np.array([b"s%d" % i for i in range(6)])
    f["snp_names"] = np.array([b"rs%d" % (j + 1) for j in range(m)])
    f["scale"] = np.array([m / (m - 1)])
PY
    "$TOOLS/mkmodel" -o up --snps 50 --folds 1 --repeats 2 --classes 3 --units 9
    run "$predict" -m up up.h5 -o up.tsv --scores up.s.h5
    expect_exit 0
    expect_text "1 of 6 people have no call" "1 of 6 people have calls at less than half"
    [ "$(cut -f4 up.tsv | grep -c NA)" -eq 1 ]
    [ "$(sed -n 4p up.tsv | cut -f1)" = s2 ]
    compare consistent up.tsv up.s.h5
}

@test "NU01: a SNP without variation in training contributes nothing, whatever the call" {
    "$TOOLS/mkmodel" -o flat --flat --snps 50 --folds 2 --repeats 1 --classes 3 --units 9
    "$PYTHON" - <<'PY'
import h5py, numpy as np
x = np.random.RandomState(1).randint(0, 3, (20, 50)).astype("i1")
for name in "ab":
    with h5py.File(name + ".h5", "w") as f:
        f["inputs"] = x
        f["samples"] = np.array([b"s%d" % i for i in range(20)])
        f["snp_names"] = np.array([b"rs%d" % (j + 1) for j in range(50)])
        f["scale"] = np.array([1.0])
    x[:, 3::10] = (x[:, 3::10] + 1) % 3
PY
    "$predict" -q -m flat a.h5 -o a.tsv
    "$predict" -q -m flat b.h5 -o b.tsv
    cmp a.tsv b.tsv
}

@test "a regression model gives its value, the mean and the spread" {
    "$TOOLS/mkmodel" -o r --regression --snps 300 --folds 2 --repeats 2 --units 8 --cohort r.gpk --people 7
    run "$predict" -m r r.gpk -o p.tsv --scores s.h5
    expect_exit 0
    [ "$(head -1 p.tsv | tr '\t' ' ')" = "samples model1 model2 model3 model4 all_models prediction sd call_rate fid" ]
    awk -F'\t' 'NR > 1 { m = ($2 + $3 + $4 + $5) / 4; if ((m - $7) ^ 2 > 1e-10 || $8 <= 0) exit 1 }' p.tsv
    "$PYTHON" -c 'import h5py' 2>/dev/null || skip "no h5py"
    "$PYTHON" -c '
import h5py
f = h5py.File("s.h5")
want = [r.split("\t") for r in open("p.tsv").read().splitlines()[1:]]
assert f["scores"].shape == (4, 7, 1)
for i, r in enumerate(want):
    for m in range(4):
        assert abs(f["scores"][m, i, 0] - float(r[1 + m])) < 1e-5'
}

@test "other shapes: members of different width, several hidden layers, none, odd sizes" {
    for s in "--units 33 --hidden 7 --layers 3 --classes 2" "--units 1 --layers 0 --classes 9" "--units 130 --hidden 65 --layers 1"; do
        # shellcheck disable=SC2086
        "$TOOLS/mkmodel" -o "x$s" --snps 131 --folds 1 --repeats 2 $s --cohort "x$s.gpk" --people 19
        run "$predict" -m "x$s" "x$s.gpk" -o "$s.tsv" --scores "$s.h5"
        expect_exit 0
        compare consistent "$s.tsv" "$s.h5"
    done
    mkdir mix
    "$TOOLS/mkmodel" -o w1 --snps 131 --folds 1 --repeats 1 --units 33 --hidden 7 --cohort w.gpk --people 19
    "$TOOLS/mkmodel" -o w2 --snps 131 --folds 2 --repeats 1 --units 16 --hidden 12
    cp w1/seed78_fold0.h5 w2/seed78_fold1.h5 mix
    run "$predict" -m mix w.gpk -o mix.tsv --scores mix.h5
    expect_exit 0
    "$predict" -q -m w1 w.gpk -o w1.tsv --scores w1.s.h5
    cmp <(cut -f1,2 mix.tsv) <(cut -f1,2 w1.tsv)
}

@test "a training set that has the model's SNPs, all and in order, needs no matching" {
    [ -x "$BIN/gpack" ] || skip "no gpack"
    "$TOOLS/dnsim" -q -o sim -n 30 -m 400 -k 3
    "$TOOLS/mkmodel" -o sm --bim sim.bim --folds 1 --repeats 2 --units 6 --classes 3
    "$BIN/gpack" -q --bfile sim -o sim.gpk
    run "$predict" -m sm sim.gpk -o p.tsv
    expect_exit 0
    expect_text "400 of them matched (100.0 %)"
    if [ -x "$BIN/snpmatch" ]; then
        "$BIN/snpmatch" -q -b sim -m sm -o - 2>/dev/null | "$predict" -q -m sm - -o q.tsv
        cmp p.tsv q.tsv
    fi
}

@test "names are kept byte for byte: blanks, UTF-8, the same IID under two FIDs" {
    "$PYTHON" -c 'import h5py' 2>/dev/null || skip "no h5py"
    "$PYTHON" - <<'PY'
import h5py, numpy as np
names = ["S 2", "\u00e9t\u00e9", "dup", "dup", "#x"]
with h5py.File("n.h5", "w") as f:
    f["inputs"] = np.ones((5, 50), "i1")
    f["samples"] = np.array([n.encode() for n in names])
    f["fids"] = np.array([b"F1", b"F2", b"F3", b"F4", b"-9"])
    f["snp_names"] = np.array([b"rs%d" % (j + 1) for j in range(50)])
    f["scale"] = np.array([1.0])
PY
    "$TOOLS/mkmodel" -o n --snps 50 --folds 1 --repeats 1 --units 6
    "$predict" -q -m n n.h5 -o p.tsv
    [ "$(cut -f1,9 p.tsv | tail -n +2)" = "$(printf 'S 2\tF1\nété\tF2\ndup\tF3\ndup\tF4\n#x\t-9')" ]
    for i in 1 2; do "$predict" -q -m n n.h5 -o part$i.tsv --shard $i/2; done
    "$predict" -q --join part2.tsv part1.tsv -o j.tsv
    cmp p.tsv j.tsv
}

@test "ME01: the cohort may be larger than --memory: peak memory keeps to the bound; too small a bound says what it takes" {
    need_plain_build
    "$TOOLS/mkmodel" -o big --snps 8000 --folds 1 --repeats 2 --units 50 --cohort big.gpk --people 60000
    [ "$(stat -c %s big.gpk)" -gt 115000000 ]
    for in in big.gpk -; do
        run "$predict" -m big $in -o p.tsv -f --memory 64M --threads 2 <big.gpk
        expect_exit 0
        [[ $output =~ ([0-9]+)\.[0-9]\ MiB\ peak\ memory ]] || { echo "$output"; false; }
        [ "${BASH_REMATCH[1]}" -le 64 ] || { echo "$output"; false; }
        [ "$(wc -l <p.tsv)" -eq 60001 ]
        mv p.tsv p$in.tsv
    done
    cmp pbig.gpk.tsv p-.tsv
    run bash -c "ulimit -v 1000000; '$predict' -m big big.gpk -o q.tsv --memory 64M --threads 2"
    expect_exit 0
    cmp pbig.gpk.tsv q.tsv
    run "$predict" -m big big.gpk -o r.tsv --memory 8M
    expect_exit 7
    expect_text "--memory" "give --memory"
    [ ! -e r.tsv ]
    need_shared
    # A release's weights are computed, and not before it is known that they fit.
    run "$predict" -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o r.tsv --memory 10M
    expect_exit 7
    expect_text "fat weights of 15 models of 2659 SNPs x 100 units take 16 MiB"
    [ ! -e r.tsv ]
}

@test "ME01: the first and the last 1,000 of 486,748 people of a 28 GB .bed, in 2 GiB of address space" {
    need_match
    need prlimit
    need_plain_build
    seq 486748 | awk '{ print "F" $1 " S" $1 " 0 0 0 -9" }' >big.fam
    seq 230000 | awk '{ print int(($1 - 1) / 10500) + 1 "\trs" $1 "\t0\t" 1000 + $1 "\tA\tG" }' >big.bim
    printf '\x6c\x1b\x01' >big.bed
    truncate -s 27988010003 big.bed || skip "no sparse files here"
    # The last person alone is other than all A1 at 300 SNPs, the last ones of the file among them.
    "$PYTHON" -c '
with open("big.bed", "r+b") as f:
    for j in list(range(0, 229000, 1000)) + list(range(229930, 230000)):
        f.seek(3 + j * 121687 + 121686)
        f.write(b"\xc0")'
    "$TOOLS/mkmodel" -o big --bim big.bim --folds 1 --repeats 2 --units 16 --hidden 8 --regression
    for range in 1:1000 485749:486748; do
        prlimit --as=2147483648 "$BIN/snpmatch" -q -b big -m big --samples $range -o - |
            prlimit --as=2147483648 "$predict" -m big - -o "p$range.tsv" 2>log
        [ "$(wc -l <"p$range.tsv")" -eq 1001 ]
        awk '/peak memory/ { if ($9 > 400) exit 1 }' log || { cat log; false; }
    done
    [ "$(tail -1 p485749:486748.tsv | cut -f1,8)" = "$(printf 'S486748\tF486748')" ]
    [ "$(tail -n +2 p1:1000.tsv | cut -f2-7 | sort -u | wc -l)" -eq 1 ]
    [ "$(tail -n +2 p485749:486748.tsv | head -999 | cut -f2-7 | sort -u)" = "$(sed -n 2p p1:1000.tsv | cut -f2-7)" ]
    for k in 2 3; do [ "$(tail -1 p485749:486748.tsv | cut -f$k)" != "$(sed -n 2p p1:1000.tsv | cut -f$k)" ]; done
}

@test "a cohort matched by IDs alone is warned about, from .gpk and .h5" {
    need_shared
    need_match
    for out in q.gpk q.h5; do
        "$BIN/snpmatch" -q -b "$KGP3/infer/query" -m "$KGP3/release" --no-alleles -o $out 2>/dev/null
        run "$predict" -m "$KGP3/release" $out -o p.tsv -f
        expect_exit 0
        expect_text "warning: the cohort was matched by SNP IDs alone"
    done
    "$BIN/snpmatch" -q -b "$KGP3/infer/query" -m "$KGP3/release" -o r.gpk 2>/dev/null
    for in in r.gpk "$KGP3/infer/matched.hdf5"; do
        run "$predict" -m "$KGP3/release" "$in" -o p.tsv -f
        expect_exit 0
        refuse_text warning
    done
}

@test "CS04: every line has the same number of columns, and there are N + 1" {
    "$predict" -q -m "$M" "$C" -o p.tsv
    [ "$(awk -F'\t' '{ print NF }' p.tsv | sort -u)" = 12 ]
    [ "$(wc -l <p.tsv)" -eq 91 ]
}

@test "PE03: inputs chunked and compressed by somebody else's h5py are read all the same" {
    need_shared
    "$PYTHON" -c 'import h5py' 2>/dev/null || skip "no h5py"
    "$PYTHON" - "$KGP3/infer/matched.hdf5" <<'PY'
import sys, h5py
f = h5py.File(sys.argv[1])
with h5py.File("chunked.h5", "w") as g:
    g.create_dataset("inputs", data=f["inputs"][()], chunks=(64, 64), compression="gzip")
    for k in ("samples", "snp_names"):
        g[k] = f[k][()]
    g["scale"] = f["scale"][()][0]
with h5py.File("wide.h5", "w") as g:
    g["inputs"] = f["inputs"][()].astype(">i4")
    for k in ("samples", "snp_names"):
        g.create_dataset(k, data=[x.decode() for x in f[k][()]], dtype=h5py.string_dtype())
    g["scale"] = f["scale"][()]
PY
    "$predict" -q -m "$KGP3/release" "$KGP3/infer/matched.hdf5" -o want.tsv
    for k in chunked wide; do
        "$predict" -q -m "$KGP3/release" $k.h5 -o $k.tsv
        cmp want.tsv $k.tsv
    done
}

@test "CL10: inputs locked by another process, or in a read-only folder, are read" {
    need_shared
    need flock
    cp "$KGP3/infer/matched.hdf5" m.h5
    cp "$C" c.gpk
    (flock -x 9; sleep 20) 9<m.h5 &
    locker=$!
    sleep 0.2
    run "$predict" -q -m "$KGP3/release" m.h5 -o p.tsv
    kill $locker
    expect_exit 0
    mkdir ro && cp "$C" ro/c.gpk && cp -r "$M" ro/m && chmod -R a-w ro
    run "$predict" -q -m ro/m ro/c.gpk -o q.tsv
    expect_exit 0
    chmod -R u+w ro
}
