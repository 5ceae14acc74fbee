#!/usr/bin/env bats
# dnpredict and what goes wrong: models, inputs, outputs, parts. Each with its exit code, a message, and no output file.

load ../lib

setup_file() {
    export KGP3=$SHARED/golden/kgp3 KGP1=$SHARED/golden/kgp1
    cd "$BATS_FILE_TMPDIR" || return 1
    "$TOOLS/mkmodel" -o m --snps 700 --folds 2 --repeats 2 --units 20 --hidden 10 --classes 5 --cohort c.gpk --people 90 --matched 0.66
}

setup() {
    predict=$BIN/dnpredict
    M=$BATS_FILE_TMPDIR/m C=$BATS_FILE_TMPDIR/c.gpk
    cd "$BATS_TEST_TMPDIR" || return 1
}

# refused CODE WORD... -- ARGS: dnpredict ends with CODE, says every WORD, and leaves nothing, not even a temporary file.
refused() {
    local code=$1 words=()
    shift
    while [ "$1" != -- ]; do words+=("$1"); shift; done
    shift
    mkdir -p out
    run "$predict" "$@" -o out/p.tsv --scores out/s.h5
    expect_exit "$code" || return 1
    expect_text "${words[@]}" || return 1
    [ -z "$(ls -A out)" ] || { ls -A out; return 1; }
}

need_h5py() { "$PYTHON" -c 'import h5py, numpy' 2>/dev/null || skip "no Python with h5py"; }

# up.h5 like upstream's matched.hdf5 for a model of 50 SNPs; python code as an argument may spoil x, names, samples, scale, f.
upstream_file() {
    [ -d u ] || "$TOOLS/mkmodel" -o u --snps 50 --folds 1 --repeats 2 --units 6 --classes 3
    "$PYTHON" - "$1" "${2-}" <<'PY'
import sys, h5py, numpy as np
out, code = sys.argv[1:3]
a1 = "ACAG"
x = np.random.RandomState(1).randint(0, 3, (6, 50)).astype("i1")
names = ["rs%d_%s" % (j + 1, a1[j % 4]) for j in range(50)]
samples = ["s%d" % i for i in range(6)]
scale = np.array([1.0])
keep = {"inputs", "samples", "snp_names", "scale"}
exec(code)
with h5py.File(out, "w") as f:
    for k, v in (("inputs", x), ("samples", np.array([s.encode() for s in samples])),
                 ("snp_names", np.array([s.encode() for s in names])), ("scale", scale)):
        if k in keep:
            f[k] = v
PY
}

@test "CS10: a member of the model is missing, named by fold and seed" {
    cp -r "$M" m && rm m/seed78_fold1.h5
    refused 4 "seed78_fold1" -- -m m "$C"
    need_shared
    cp -r "$KGP3/release" r && chmod -R u+w r
    rm r/DN_MODELS/weights_model3_2.pt
    refused 4 "weights_model3_2.pt" -- -m r "$KGP3/infer/matched.hdf5"
    rm r/DN_MODELS/norm_stats_model1.npz
    cp "$KGP3/release/DN_MODELS/weights_model3_2.pt" r/DN_MODELS
    run "$predict" -m r "$KGP3/infer/matched.hdf5" -o out/p.tsv
    [ "$status" -eq 3 ] || expect_exit 4
    expect_text "norm_stats_model1.npz"
}

@test "members that differ in SNPs, alleles or classes, and two equal members, are refused by name" {
    mkdir d1 d2 d3
    "$TOOLS/mkmodel" -o other --snps 701 --folds 2 --repeats 2 --units 20 --hidden 10 --classes 5
    "$TOOLS/mkmodel" -o classes --snps 700 --folds 2 --repeats 2 --units 20 --hidden 10 --classes 6 --seed 9
    for d in d1 d2 d3; do cp "$M"/*.h5 $d; done
    cp other/seed78_fold1.h5 d1
    refused 5 "seed78_fold1" "SNP" -- -m d1 "$C"
    cp classes/seed78_fold1.h5 d2
    refused 5 "seed78_fold1" -- -m d2 "$C"
    awk 'BEGIN { for (j = 0; j < 700; j++) print "1\trs" j + 1 "\t0\t" 1000 + j "\t" substr("ACAG", j % 4 + 1, 1) "\t" (j == 5 ? "G" : substr("GTCT", j % 4 + 1, 1)) }' >other.bim
    "$TOOLS/mkmodel" -o alleles --bim other.bim --folds 2 --repeats 2 --units 20 --hidden 10 --classes 5
    cp alleles/seed78_fold1.h5 d3
    refused 5 "seed78_fold1" -- -m d3 "$C"
    need_shared
    cp -r "$KGP3/release" r && chmod -R u+w r
    cp r/DN_MODELS/weights_model1_1.pt r/DN_MODELS/weights_model1_2.pt
    refused 5 "1_1" "1_2" "equal weights" -- -m r "$KGP3/infer/matched.hdf5"
}

@test "CS10: a model file that is cut, empty or has one byte flipped is refused" {
    cp -r "$M" m
    size=$(stat -c %s m/seed78_fold1.h5)
    for cut in 0 7 100 $((size / 4)) $((size / 2)) $((size - 1)); do
        head -c "$cut" "$M/seed78_fold1.h5" >m/seed78_fold1.h5
        refused 4 "seed78_fold1.h5" -- -m m "$C"
    done
    cp "$M/seed78_fold1.h5" m/
    # In the fat layer's weights, which fill most of the file.
    printf '\x55' | dd of=m/seed78_fold1.h5 bs=1 seek=$((size / 2)) conv=notrunc status=none
    refused 4 "seed78_fold1.h5" -- -m m "$C"
    refused 3 "nowhere" -- -m nowhere "$C"
    mkdir empty
    refused 4 "empty" -- -m empty "$C"
}

@test "NU02: a weight that is infinite or not a number is exit 10 or 4, and no table is written" {
    need_shared
    "$PYTHON" -c 'import torch' 2>/dev/null || skip "no PyTorch"
    cp -r "$KGP3/release" r && chmod -R u+w r
    for v in inf nan; do
        "$PYTHON" - "$KGP3/release/DN_MODELS/weights_model2_1.pt" r/DN_MODELS/weights_model2_1.pt $v <<'PY'
import sys, torch
src, dst, v = sys.argv[1:]
d = torch.load(src, map_location="cpu")
s = d["model_state_dict"] if "model_state_dict" in d else d
k = [k for k in s if k.endswith("weight")][-1]
s[k].view(-1)[3] = float(v)
torch.save(d, dst)
PY
        mkdir -p out
        run "$predict" -m r "$KGP3/infer/matched.hdf5" -o out/p.tsv
        [ "$status" -eq 4 ] || expect_exit 10
        expect_text "2_1"
        [ -z "$(ls -A out)" ]
    done
}

@test "a .gpk that is cut anywhere, empty, or damaged is exit 4, from a file and from a pipe" {
    size=$(stat -c %s "$C")
    for cut in 0 1 8 40 64 200 $((size / 4)) $((size / 2)) $((size - 4096)) $((size - 60)) $((size - 9)) $((size - 1)); do
        head -c "$cut" "$C" >cut.gpk
        refused 4 "cut.gpk" -- -m "$M" cut.gpk
        refused 4 "standard input" -- -m "$M" - <cut.gpk
    done
    { cat "$C"; echo more; } >long.gpk
    refused 4 "long.gpk" -- -m "$M" long.gpk
    # One byte anywhere: in header, lists, rows or trailer.
    cp "$C" bad.gpk
    for at in 0 9 17 33 100 700 2000 $((size / 2)) $((size * 3 / 4)) $((size - 40)) $((size - 3)); do
        old=$(od -An -tu1 -j "$at" -N 1 "$C" | tr -d ' ')
        # shellcheck disable=SC2059
        printf "\\x$(printf %02x $((old ^ 1)))" | dd of=bad.gpk bs=1 seek="$at" conv=notrunc status=none
        mkdir -p out
        for in in bad.gpk -; do
            run "$predict" -m "$M" $in -o out/p.tsv <bad.gpk
            [ "$status" -eq 8 ] || [ "$status" -eq 5 ] || expect_exit 4 || { echo "byte $at of $size, $in"; false; }
            [ -z "$(ls -A out)" ]
        done
        cp "$C" bad.gpk
    done
}

@test "IP17: what is no matched cohort is named: gzip, text, .bed, folder, nothing there, an unmatched set" {
    gzip -c "$C" >c.gz
    refused 4 "c.gz" "gzip" "snpmatch" -- -m "$M" c.gz
    echo hello >t.gpk
    refused 4 "t.gpk" "text" -- -m "$M" t.gpk
    t5 t5
    refused 4 "t5.bed" "snpmatch --bfile" -- -m "$M" t5.bed
    refused 3 "folder" -- -m "$M" "$M"
    refused 3 "nofile.gpk" -- -m "$M" nofile.gpk
    [ -x "$BIN/gpack" ] || return 0
    "$BIN/gpack" -q --bfile t5 -o t5.gpk
    refused 5 "t5.gpk" "not matched" "run snpmatch" -- -m "$M" t5.gpk
}

@test "a cohort matched to another model is refused: other SNPs, other order, other alleles, other size" {
    "$TOOLS/mkmodel" -o n --snps 701 --folds 1 --repeats 2 --units 6 --cohort n.gpk
    refused 5 "n.gpk" "another model" "run snpmatch with this model" -- -m "$M" n.gpk
    refused 5 "another model" -- -m n "$C"
    # The same SNPs, one other allele.
    awk 'BEGIN { for (j = 0; j < 700; j++) print "1\trs" j + 1 "\t0\t" 1000 + j "\t" substr("ACAG", j % 4 + 1, 1) "\t" (j == 5 ? "G" : substr("GTCT", j % 4 + 1, 1)) }' >other.bim
    "$TOOLS/mkmodel" -o alleles --bim other.bim --folds 1 --repeats 2 --units 6 --cohort a.gpk
    refused 5 "another model" -- -m "$M" a.gpk
    need_shared
    refused 5 "matched.hdf5" "another model" -- -m "$M" "$KGP3/infer/matched.hdf5"
}

@test "an HDF5 cohort of upstream's that does not fit is refused: names, order, counted allele, scale, values, sizes" {
    need_h5py
    upstream_file good.h5
    "$predict" -q -m u good.h5 -o good.tsv
    upstream_file bad.h5 'names[3], names[4] = names[4], names[3]'
    refused 5 "bad.h5, column 4" "rs5_A" "rs4" -- -m u bad.h5
    upstream_file bad.h5 'names[7] = "rs8_T"'
    refused 5 "rs8" "counts allele T" "the model counts G" -- -m u bad.h5
    upstream_file bad.h5 'names[7] = "rs88"'
    refused 5 "rs88" -- -m u bad.h5
    upstream_file bad.h5 'keep.remove("scale")'
    refused 5 "scale" "run snpmatch" -- -m u bad.h5
    upstream_file bad.h5 'scale = np.array([2.0])'
    refused 5 "25 of 50" -- -m u bad.h5
    upstream_file bad.h5 'scale = np.array([np.nan])'
    refused 4 "scale" -- -m u bad.h5
    upstream_file bad.h5 'x[4, 9] = 7'
    refused 4 "person 5 (s4), column 10 is 7" -- -m u bad.h5
    upstream_file bad.h5 'x[:] = -1'
    refused 5 "0 of the model's 50 SNPs matched" -- -m u bad.h5
    upstream_file bad.h5 'samples = samples[:5]'
    refused 4 "5 samples" -- -m u bad.h5
    upstream_file bad.h5 'x = x[:, :49]; names = names[:49]'
    refused 5 "49 SNPs" -- -m u bad.h5
    upstream_file bad.h5 'x = x[:0]; samples = []' || skip "this h5py cannot write empty lists"
    refused 4 "bad.h5" -- -m u bad.h5
    upstream_file bad.h5 'samples[2] = "a\tb"'
    refused 4 "sample 3" "tab" -- -m u bad.h5
    upstream_file bad.h5 'x = x.astype("f4")'
    refused 4 "inputs" -- -m u bad.h5
    size=$(stat -c %s good.h5)
    for cut in 3 100 600 $((size / 2)) $((size - 1)); do
        head -c "$cut" good.h5 >cut.h5
        refused 4 "cut.h5" -- -m u cut.h5
    done
}

@test "our matched.h5 with one changed genotype is refused at its end" {
    need_h5py
    [ -x "$BIN/snpmatch" ] || skip "no snpmatch"
    "$TOOLS/dnsim" -q -o sim -n 20 -m 400 -k 3
    "$TOOLS/mkmodel" -o sm --bim sim.bim --folds 1 --repeats 2 --units 6 --classes 3
    "$BIN/snpmatch" -q -b sim -m sm -o sm.h5 2>/dev/null
    "$predict" -q -m sm sm.h5 -o good.tsv
    "$PYTHON" -c '
import h5py
with h5py.File("sm.h5", "r+") as f:
    f["inputs"][5, 6] = (f["inputs"][5, 6] + 1) % 3'
    refused 4 "sm.h5" "checksum" -- -m sm sm.h5
}

@test "UX04: the command line: unknown and missing options, wrong values, an existing output" {
    cd "$BATS_TEST_TMPDIR"
    run "$predict" -m "$M" "$C" --shards 1/2 -o p.tsv
    expect_exit 2
    expect_text "did you mean --shard?"
    for bad in 0/3 4/3 1 1/ /3 x/3 1/3/5 -1/3 1/0 1.5/3; do
        run "$predict" -m "$M" "$C" "--shard=$bad" -o p.tsv
        expect_exit 2
        expect_text "--shard"
    done
    run "$predict" -m "$M" "$C"
    expect_exit 2
    expect_text "-o"
    run "$predict" "$C" -o p.tsv
    expect_exit 2
    expect_text "--model"
    run "$predict" -m "$M" -o p.tsv
    expect_exit 2
    run "$predict" -m "$M" "$C" "$C" -o p.tsv
    expect_exit 2
    run "$predict" -m "$M" "$C" -o p.tsv --scores p.tsv
    expect_exit 2
    run "$predict" -m "$M" "$C" -o p.tsv --scores -
    expect_exit 2
    run "$predict" --join -o p.tsv
    expect_exit 2
    run "$predict" --join -m "$M" "$C" -o p.tsv
    expect_exit 2
    [ -z "$(ls -A .)" ]
    "$predict" -q -m "$M" "$C" -o p.tsv
    cp p.tsv before.tsv
    run "$predict" -m "$M" "$C" -o p.tsv
    expect_exit 2
    expect_text "exists" "--force"
    cmp p.tsv before.tsv
    echo old >p.tsv
    "$predict" -q -m "$M" "$C" -o p.tsv --force
    cmp p.tsv before.tsv
    # The scores too: nothing is computed before both are known to be free.
    echo old >s.h5
    run "$predict" -m "$M" "$C" -o q.tsv --scores s.h5
    expect_exit 2
    [ ! -e q.tsv ]
}

@test "UX03: the output is tested before the model is read; a failed run leaves nothing in the way of the next" {
    run "$predict" -m nomodel nocohort -o nodir/p.tsv
    expect_exit 6
    expect_text "nodir"
    run "$predict" -m nomodel nocohort -o .
    expect_exit 2
    expect_text "folder"
    mkdir ro && chmod 0555 ro
    if [ -w ro ]; then # root may write anywhere: as nobody, then
        need setpriv
        chmod 755 "$BATS_TEST_TMPDIR"
        if setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$predict" -a -r "$C"; then
            run setpriv --reuid=65534 --regid=65534 --clear-groups "$predict" -m "$M" "$C" -o ro/p.tsv
            expect_exit 6
        fi
    else
        run "$predict" -m "$M" "$C" -o ro/p.tsv
        expect_exit 6
    fi
    cp -r "$M" m && head -c 1000 "$M/seed78_fold0.h5" >m/seed78_fold0.h5
    run "$predict" -m m "$C" -o p.tsv --scores s.h5
    expect_exit 4
    cp "$M/seed78_fold0.h5" m/
    run "$predict" -m m "$C" -o p.tsv --scores s.h5
    expect_exit 0
    [ "$(ls)" = "$(printf 'm\np.tsv\nro\ns.h5')" ]
}

@test "CS03: a full disk is exit 6 in each way it shows, with no file under the final name" {
    run "$predict" -m "$M" "$C" -o /dev/full
    expect_exit 6
    run bash -c "'$predict' -m '$M' '$C' -o - >/dev/full"
    expect_exit 6
    run bash -c "'$predict' --quiet -m '$M' '$C' -o - | head -c 10 >/dev/null; exit \${PIPESTATUS[0]}"
    [ "$status" -eq 0 ] || expect_exit 6
    mkdir f
    "$TOOLS/mkmodel" -o b --snps 60 --folds 1 --repeats 2 --units 5 --cohort b.gpk --people 3000
    run bash -c "ulimit -f 10; '$predict' -m b b.gpk -o f/p.tsv"
    expect_exit 6
    run bash -c "ulimit -f 10; '$predict' -m b b.gpk -o /dev/null --scores f/s.h5"
    expect_exit 6
    [ -z "$(ls -A f)" ] || { ls -A f; false; }
    unshare -rm true 2>/dev/null || skip "no user namespaces here"
    for what in "-o small/p.tsv" "-o /dev/null --scores small/s.h5" "-o p.tsv --scores small/s.h5" "-o small/p.tsv --scores s.h5"; do
        run unshare -rm bash -c "mkdir -p small; mount -t tmpfs -o size=64k none small || exit 99; '$predict' -m b b.gpk $what; r=\$?; ls -A small; exit \$r"
        [ "$status" -ne 99 ] || skip "no tmpfs here"
        expect_exit 6
        refuse_text "p.tsv.tmp" $'\n'p.tsv $'\n's.h5
        [ ! -e p.tsv ] && [ ! -e s.h5 ] || { ls; false; }
    done
    # The need is told before the work.
    run unshare -rm bash -c "mount -t tmpfs -o size=64k none small || exit 99; '$predict' -m b b.gpk -o /dev/null --scores small/s.h5"
    expect_text "not enough room" "free"
}

@test "CS04: kill -9 and SIGTERM in mid-predict leave no table; then the same command works" {
    "$TOOLS/mkmodel" -o b --snps 60 --folds 1 --repeats 2 --units 5 --cohort b.gpk --people 500
    "$predict" -q -m b b.gpk -o want.tsv
    for signal in KILL TERM INT; do
        rm -f pipe && mkfifo pipe # what the last one left in it must not come out here
        { head -c $(($(stat -c %s b.gpk) - 10000)) b.gpk; sleep 3; } >pipe &
        feeder=$!
        setsid "$predict" -q -m b - -o out.tsv --scores out.h5 <pipe 3>&- &
        pid=$!
        for _ in $(seq 100); do
            compgen -G 'out.tsv.tmp.*' >/dev/null && break
            sleep 0.02
        done
        [ -n "$(compgen -G 'out.tsv.tmp.*')" ] || { ls; false; }
        kill -$signal $pid
        wait $pid || true
        kill $feeder 2>/dev/null || true
        wait $feeder || true
        [ ! -e out.tsv ] && [ ! -e out.h5 ]
        [ $signal = KILL ] || [ -z "$(compgen -G 'out.*')" ] || { ls; false; }
        rm -f out.*
    done
    # At random moments of a whole run: all or nothing.
    for ms in 002 005 010 020 040 080; do
        "$predict" -q -m b b.gpk -o r.tsv &
        pid=$!
        sleep 0.$ms
        kill -9 $pid 2>/dev/null || true
        wait $pid || true
        if [ -e r.tsv ]; then cmp want.tsv r.tsv; fi
        rm -f r.tsv
    done
    "$predict" -q -m b b.gpk -o r.tsv
    cmp want.tsv r.tsv
}

@test "--join proves that every person is there once: missing, twice, cut, changed, of another run" {
    for i in 1 2 3; do "$predict" -q -m "$M" "$C" -o p$i.tsv --shard $i/3; done
    mkdir out
    bad() {
        local code=$1 words=()
        shift
        while [ "$1" != -- ]; do words+=("$1"); shift; done
        shift
        run "$predict" --join "$@" -o out/j.tsv
        expect_exit "$code" && expect_text "${words[@]}" && [ -z "$(ls -A out)" ]
    }
    bad 5 "1 of 3 shards are missing: 2" -- p1.tsv p3.tsv
    bad 5 "shard 2/3 is there twice" "p2.tsv" -- p1.tsv p2.tsv p2.tsv p3.tsv
    "$predict" -q -m "$M" "$C" -o q2.tsv --shard 2/4
    bad 5 "another number of shards" -- p1.tsv q2.tsv p3.tsv
    "$predict" -q -m "$M" "$C" -o all.tsv
    bad 4 "all.tsv is not a part" -- all.tsv p2.tsv p3.tsv
    for lines in 0 1 2 5 31 32; do
        head -n $lines p2.tsv >cut.tsv
        bad 4 "cut.tsv" -- p1.tsv cut.tsv p3.tsv
    done
    head -c -5 p2.tsv >cut.tsv
    bad 4 "cut.tsv" -- p1.tsv cut.tsv p3.tsv
    sed '5s/POP/PQP/' p2.tsv >changed.tsv
    bad 4 "changed.tsv" "changed or damaged" -- p1.tsv changed.tsv p3.tsv
    sed '5d' p2.tsv >changed.tsv
    bad 4 "changed.tsv" -- p1.tsv changed.tsv p3.tsv
    { sed -n 1,4p p2.tsv; sed -n 4p p2.tsv; sed -n '6,$p' p2.tsv; } >changed.tsv
    bad 4 "changed.tsv" -- p1.tsv changed.tsv p3.tsv
    { cat p2.tsv; echo more; } >changed.tsv
    bad 4 "after the last line" -- p1.tsv changed.tsv p3.tsv
    sed '5s/\t[^\t]*$//' p2.tsv >changed.tsv
    bad 4 "line 5" "columns" -- p1.tsv changed.tsv p3.tsv
    sed '1s/people=30-60/people=30-59/' p2.tsv >changed.tsv
    bad 4 "first line is damaged" -- p1.tsv changed.tsv p3.tsv
    sed '1s/version=1/version=2/' p2.tsv >changed.tsv
    bad 8 "version" -- p1.tsv changed.tsv p3.tsv
    # Of another model, or another cohort.
    "$TOOLS/mkmodel" -o n --snps 700 --folds 2 --repeats 2 --units 20 --hidden 10 --classes 5 --seed 4
    "$TOOLS/mkmodel" -o m2 --snps 700 --folds 2 --repeats 2 --units 20 --hidden 10 --classes 5 --cohort c2.gpk --people 91 --matched 0.66
    "$predict" -q -m n "$C" -o n2.tsv --shard 2/3
    bad 5 "models" -- p1.tsv n2.tsv p3.tsv
    "$predict" -q -m "$M" c2.gpk -o c2.tsv --shard 2/3
    bad 5 "cohorts differ" -- p1.tsv c2.tsv p3.tsv
    bad 3 "nopart" -- p1.tsv nopart p3.tsv
    gzip -c p2.tsv >p2.gz
    bad 4 "gzip" -- p1.tsv p2.gz p3.tsv
    "$predict" -q --join p1.tsv p2.tsv p3.tsv -o j.tsv
    cmp j.tsv all.tsv
    run "$predict" --join p1.tsv p2.tsv p3.tsv -o j.tsv
    expect_exit 2
    run "$predict" --join p1.tsv p2.tsv p3.tsv -o /dev/full
    expect_exit 6
}

@test "class names: a list of another length or with a name twice is refused; 14 classes without names ask for them" {
    seq -f 'POP%02g' 24 >names.txt
    refused 2 "--classes" -- -m "$M" "$C" --classes names.txt
    need_shared
    set -- -m "$KGP3/release" "$KGP3/infer/matched.hdf5"
    head -23 names.txt >short.txt
    refused 5 "short.txt" "23 classes" -- "$@" --classes short.txt
    { head -23 names.txt; echo POP02; } >twice.txt
    refused 4 "twice.txt, line 24" -- "$@" --classes twice.txt
    { printf '\xef\xbb\xbf'; head -23 names.txt | sed 's/$/\r/'; printf 'last one'; } >odd.txt
    "$predict" -q "$@" -o p.tsv --classes odd.txt
    [ "$(cut -f18 p.tsv | tail -n +2 | grep -vcxE 'POP[0-9][0-9]|last one')" = 0 ]
    [ -x "$BIN/snpmatch" ] || skip "no snpmatch"
    "$BIN/snpmatch" -q -b "$SHARED/realdata/hapmap3_14k/hapmap3_14k" -m "$KGP1/release" -o h.gpk 2>/dev/null
    refused 2 "--classes" -- -m "$KGP1/release" h.gpk
}
