#!/usr/bin/env bats
# The documents against the programs: options, manuals, links, messages; every command is run; figures are measured again.

load ../lib

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    mkdir fixture
    cd fixture || return 1
    # A small panel and cohort, 15 small models, and everything that the documents name.
    "$TOOLS/dnsim" -q -o panel -n 150 -m 600 -k 3 --cohort 40 --swap 0.3 --flip 0.1 --drop 0.1 --missing 0.02
    for e in bed bim fam; do
        mv panel_cohort.$e cohort.$e
        cp cohort.$e ukb_chr1.$e
        cp panel.$e chr1.$e
    done
    cp panel.labels.tsv labels.tsv
    awk '{print $1, $2}' panel.fam | head -140 >unrelated.txt
    cut -f2 panel.bim | head -500 >pruned.txt
    awk 'BEGIN {print "sample\tvalue"} {print $2 "\t" NR % 7 / 3}' panel.fam >numbers.tsv
    printf '%s\n' 'batch_size: 32' 'epochs: 2' 'input_dropout: 0.0' 'dropout_main: 0.3' 'lr_aux: 0.001' 'lr_main: 0.002' \
        'learning_rate_annealing: 0.99' 'nb_hidden_u_aux: [8, 8]' 'nb_hidden_u_main: [8]' 'patience: 6' 'seed: 78' 'uniform_init_limit: 0.02' >config.yaml
    "$BIN/gpack" -q --bfile panel --labels labels.tsv --regression-labels numbers.tsv -o panel.gpk
    "$BIN/dnsplit" -q panel.gpk --folds 5 --seed 124 -o split.h5 --export-npz partition.npz >/dev/null
    "$BIN/gpack" -q panel.gpk -o dataset.gpk
    "$BIN/gpack" -q -d panel.gpk -o dataset.h5
    for t in $(seq 0 14); do
        "$BIN/dntrain" -q --data panel.gpk --split split.h5 --config config.yaml --folds 0-4 --seeds 78,23,124 --task "$t" -o models
    done
    rm models/*.ckpt*
    for name in MODEL RELEASE release packages; do ln -s models $name; done
    "$BIN/snpmatch" -q --bfile cohort --model models -o cohort.gpk 2>/dev/null
    "$BIN/snpmatch" -q --bfile cohort --model models -o matched.h5 2>/dev/null
    cp matched.h5 matched.hdf5
    for i in $(seq 1 10); do "$BIN/dnpredict" -q --model models cohort.gpk --shard "$i/10" -o part$i.tsv; done
    "$BIN/dnpredict" -q --join part*.tsv -o predictions.tsv
    { printf 'fold\tseed\ttest_acc\n'; for f in 0 1 2 3 4; do for s in 78 23 124; do printf '%s\t%s\t0.%s\n' $f $s $((50 + f + s % 7)); done; done; } >accuracy.tsv
    "$PYTHON" - <<'PY'
# genotypes.tsv and panel.raw from panel.bed, by PLINK's format alone.
people = [x.split() for x in open("panel.fam")]
snps = [x.split() for x in open("panel.bim")]
bed = open("panel.bed", "rb").read()[3:]
row = (len(people) + 3) // 4
call = lambda j, i: (2, "NA", 1, 0)[bed[j * row + i // 4] >> i % 4 * 2 & 3]
with open("genotypes.tsv", "w") as f, open("panel.raw", "w") as g:
    f.write("ID\t" + "\t".join(s[1] for s in snps) + "\n")
    g.write("FID IID PAT MAT SEX PHENOTYPE " + " ".join(s[1] + "_" + s[4] for s in snps) + "\n")
    for i, p in enumerate(people):
        calls = [str(call(j, i)) for j in range(len(snps))]
        f.write(p[1] + "\t" + "\t".join(calls) + "\n")
        g.write(" ".join(p[:6] + calls) + "\n")
PY
}

setup() {
    top=$TESTS/..
    docs=("$top/README.md" "$top"/docs/*.md)
    cd "$BATS_TEST_TMPDIR" || return 1
}

check() { "$PYTHON" "$TESTS/docs_check.py" "$@"; }

programs() {
    local p
    for p in bed2h5 gpack snpmatch dnpredict dnsplit dntrain dncheck; do echo "$BIN/$p"; done
}

@test "UX04: commands in documents name only options that the program has" {
    # shellcheck disable=SC2046
    run check options "${docs[@]}" -- $(programs)
    expect_exit 0
}

@test "every program has a manual, and it names every option of --help" {
    for p in $(programs); do
        run check manual "$top/docs/$(basename "$p").md" "$p"
        expect_exit 0
    done
}

@test "links in documents lead somewhere; every document is reached from the README" {
    run check links "${docs[@]}"
    expect_exit 0
    for d in "$top"/docs/*.md; do
        grep -q "docs/$(basename "$d")" "$top/README.md" || { echo "README.md does not link docs/$(basename "$d")"; false; }
    done
}

@test "messages that the troubleshooting page explains are messages that the programs have" {
    run check messages "$top/docs/troubleshooting.md" "$top"/common/*.c "$top"/common/cuda/*.cu "$top"/{bed2h5,gpack,snpmatch,dnpredict,dnsplit,dntrain,dncheck}/*.c
    expect_exit 0
}

@test "every command in the documents runs" {
    for d in "${docs[@]}"; do
        [ "$(basename "$d")" != guide-biobank.md ] || continue # on real data, below
        run check run "$BIN" "$BATS_FILE_TMPDIR/fixture" "$d"
        expect_exit 0
    done
}

@test "README: train, predict, predict through a pipe, as they stand there" {
    mkdir build
    ln -s "$BIN" build/bin
    for f in panel.bed panel.bim panel.fam panel.labels.tsv cohort.bed cohort.bim cohort.fam config.yaml; do cp "$BATS_FILE_TMPDIR/fixture/$f" .; done
    check block "$top/README.md" bin/dntrain >train.sh
    check block "$top/README.md" "cohort.gpk --report report.tsv" | sed 's/\bMODEL\b/models/' >predict.sh
    check block "$top/README.md" "snpmatch --bfile cohort --model MODEL -o - |" | sed 's/\bMODEL\b/models/g; s/predictions.tsv/piped.tsv/' >pipe.sh
    for s in train predict pipe; do
        [ "$(grep -c build/bin $s.sh)" -ge 1 ]
        run bash -euo pipefail $s.sh
        expect_exit 0
    done
    [ "$(find models -name 'seed*.h5' | wc -l)" -eq 15 ]
    cmp predictions.tsv piped.tsv
    # The columns that the README explains are those of the table.
    for c in samples all_models prediction votes confidence entropy call_rate fid; do
        head -1 predictions.tsv | tr '\t' '\n' | grep -qx "$c"
        grep -q "^| .*\`$c\`" "$top/README.md"
    done
}

@test "outputs are -o, --out in every program that has one" {
    for p in $(programs); do
        [ "$(basename "$p")" != dncheck ] || continue
        run "$p" --help
        expect_text "-o, --out "
    done
}

@test "the configuration that dntrain's manual shows is one" {
    check block "$top/docs/dntrain.md" "batch_size: 138" >config.yaml
    [ "$(wc -l <config.yaml)" -eq 12 ]
    run "$BIN/dntrain" --data "$BATS_FILE_TMPDIR/fixture/panel.gpk" --split "$BATS_FILE_TMPDIR/fixture/split.h5" --config config.yaml --fold 0 --epochs 0 -o out
    expect_exit 0
}

# The guide's folder: hapmap3.*, kgp1/, kgp1_panel.fam, classes.txt.
guide_folder() {
    need_shared
    for e in bed bim fam; do ln -s "$SHARED/realdata/hapmap3_14k/hapmap3_14k.$e" hapmap3.$e; done
    ln -s "$SHARED/realdata/kgp1_14k/kgp1_14k.fam" kgp1_panel.fam
    ln -s "$SHARED/golden/kgp1/release" kgp1
    cut -f2 "$SHARED/realdata/kgp1_14k/kgp1_14k.labels.tsv" | tail -n +2 | LC_ALL=C sort -u >classes.txt
    labels=$SHARED/realdata/hapmap3_14k/hapmap3_14k.labels.tsv
    guide=$top/docs/guide-biobank.md
    PATH=$BIN:$PATH
}

# As the guide writes it: thousands with a comma.
comma() { sed ':a; s/\([0-9]\)\([0-9]\{3\}\)\($\|,\)/\1,\2\3/; ta' <<<"$1"; }
in_guide() { grep -qF -- "$1" "$guide" || { echo "the guide does not say: $1"; return 1; }; }

# right TABLE: of the 85 people whose population kgp1 has, how many are named right, and their mean confidence.
right() {
    awk -F'\t' 'NR == FNR {pop[$1] = $2 == "MEX" ? "MXL" : $2; next} FNR == 1 {for (i = 1; i <= NF; i++) c[$i] = i; next}
        pop[$1] !~ /GIH|MKK|CHD/ {n++; ok += pop[$1] == $c["prediction"]; conf += $c["confidence"]}
        END {if (n != 85) exit 1; printf "%d | %.3f\n", ok, conf / n}' "$labels" "$1"
}

@test "the guide's figures on HapMap 3: populations known and never seen, by the guide's own commands" {
    guide_folder
    for word in "match.tsv" "--report report.html" "new.gpk"; do
        check block "$guide" "$word" >>commands.sh
    done
    [ "$(grep -c '^dnpredict\|^snpmatch' commands.sh)" -eq 4 ]
    run bash -euo pipefail commands.sh
    expect_exit 0
    expect_text "14079 of the model's 14079 SNPs are used" "14074 are at other positions" "1015 of the 14079 SNPs used are A/T or C/G"
    in_guide "all 14,079 IDs agree, and 14,074 positions differ"
    in_guide "1,015 of the 14,079 here"
    [ "$(wc -l <new.txt)" -eq 393 ]
    run snpmatch --bfile hapmap3 --model kgp1 --by pos -o x.gpk
    expect_exit 5
    expect_text "only 5 of the model's 14079 SNPs" "probably another genome build"
    run "$PYTHON" - "$labels" "$guide" <<'PY'
import csv, sys, collections
pop = {r["sample"]: r["label"] for r in csv.DictReader(open(sys.argv[1]), delimiter="\t")}
guide = open(sys.argv[2], encoding="utf-8").read()
by = collections.defaultdict(list)
for r in csv.DictReader(open("new.tsv"), delimiter="\t"):
    p = pop[r["samples"]]
    by[p if p in ("MKK", "CHD", "GIH") else "known"].append((p, r))
assert {k: len(v) for k, v in by.items()} == {"MKK": 140, "CHD": 81, "GIH": 87, "known": 85}
for name, v in by.items():
    got = collections.Counter(r["prediction"] for _, r in v)
    mean = lambda c: "%.3f" % (sum(float(r[c]) for _, r in v) / len(v))
    everyone = sum(r["votes"] == "15" for _, r in v)
    row = next(x for x in guide.split("\n") if x.startswith(("| " + name, "| *" + name)) and "| %d |" % len(v) in x).replace("*", "")
    assert "| %s | %s | %d |" % (mean("confidence"), mean("entropy"), everyone) in row, (row, mean("confidence"), mean("entropy"), everyone)
    if name != "known":
        for k, n in got.items(): assert "%s %d" % (k, n) in row.replace(" (Luhya in Kenya)", ""), (row, got)
    low = sum(float(r["confidence"]) < 0.5 for _, r in v)
    if name == "known":
        ok = sum((p if p != "MEX" else "MXL") == r["prediction"] for p, r in v)
        assert "right: %d" % ok in row
        wrong = [(p, r["prediction"]) for p, r in v if (p if p != "MEX" else "MXL") != r["prediction"]]
        assert set(wrong) == {("CEU", "GBR")} and "the %d of %d CEU" % (len(wrong), sum(p == "CEU" for p, _ in v)) in guide
        assert "of the known, %d of 85 are" % low in guide
    if name == "GIH": assert low == 87
print("fine")
PY
    expect_text fine
}

@test "the guide's figures on alleles exchanged by plink1.9 and on chips with few SNPs" {
    guide_folder
    need plink1.9
    awk 'NR == FNR {seen[$2]; next} !($2 in seen) {print $1, $2}' kgp1_panel.fam hapmap3.fam >new.txt
    predict() { snpmatch -q "$@" --model kgp1 --min-overlap 1 -o - 2>/dev/null | dnpredict -q --model kgp1 --classes classes.txt - -o -; }
    predict --bfile hapmap3 --keep new.txt >want.tsv
    check block "$guide" "--out plain" | bash -euo pipefail >/dev/null
    in_guide "at $(comma "$(awk 'NR == FNR {a[$2] = $5; next} a[$2] != $5' hapmap3.bim plain.bim | wc -l)") of the 14,079 SNPs"
    predict --bfile plain >plain.tsv
    cmp want.tsv plain.tsv
    predict --bfile plain --no-alleles >blind.tsv
    in_guide "by ID alone) | $(right blind.tsv | cut -d' ' -f1) |"
    for every in 1 2 5 10 20 50; do
        awk -v k=$every '(NR - 1) % k == 0 {print $2}' hapmap3.bim >some.txt
        plink1.9 --bfile hapmap3 --keep new.txt --extract some.txt --keep-allele-order --make-bed --out some >/dev/null
        predict --bfile some >some.tsv
        run right some.tsv
        expect_exit 0
        in_guide "| $(comma "$(wc -l <some.txt)") | $((100 / every)) % | $output |"
    done
}
