#!/usr/bin/env bats
# dnpredict --report: the page's numbers against the table's, warnings, shards and their join, regression, size.

load ../lib

setup_file() {
    export KGP1=$SHARED/golden/kgp1
    cd "$BATS_FILE_TMPDIR" || return 1
    "$TOOLS/mkmodel" -q -o m --snps 700 --folds 2 --repeats 2 --units 20 --hidden 10 --classes 26 --cohort c.gpk --people 400 --matched 0.66
}

setup() {
    predict=$BIN/dnpredict
    M=$BATS_FILE_TMPDIR/m C=$BATS_FILE_TMPDIR/c.gpk
    cd "$BATS_TEST_TMPDIR" || return 1
}

# The page is well formed and needs nothing but itself; numbers in it are those of the table: page.html table.tsv
check_page() {
    run "$PYTHON" - "$@" <<'PY'
import re, sys, csv
from html.parser import HTMLParser
import xml.dom.minidom
page = open(sys.argv[1], encoding="utf-8").read()
class P(HTMLParser):
    VOID = {"meta", "br", "hr", "img", "link"}
    def __init__(self):
        super().__init__(); self.stack = []; self.rows = []; self.cell = None
    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "img", "link", "iframe"), tag
        assert not any(k.startswith("on") or k in ("src", "href") for k, _ in attrs), attrs
        if tag not in self.VOID: self.stack.append(tag)
        if tag == "tr": self.rows.append([])
        if tag in ("td", "th"): self.cell = ""
    def handle_endtag(self, tag):
        assert self.stack.pop() == tag, tag
        if tag in ("td", "th"): self.rows[-1].append(self.cell); self.cell = None
    def handle_data(self, d):
        if self.cell is not None: self.cell += d
p = P(); p.feed(page); p.close()
assert not p.stack, p.stack
for svg in re.findall(r"<svg.*?</svg>", page, re.S): xml.dom.minidom.parseString(svg)
assert "http" not in page.replace("http://www.w3.org/2000/svg", ""), "an address"
assert not re.search(r"\b(nan|inf)\b", page)
rows = list(csv.DictReader(open(sys.argv[2]), delimiter="\t", quoting=csv.QUOTE_NONE))
fact = {r[0]: r[1] for r in p.rows if len(r) == 2}
assert fact["people"] == str(len(rows)), fact
called = [r for r in rows if r["prediction"] != "NA"]
assert fact["people with a prediction"] == str(len(called)), fact
if "votes" in rows[0]:
    members = sum(k.startswith("model") for k in rows[0])
    seen = {}
    for r in called: seen.setdefault(r["prediction"], []).append(r)
    table = {r[0]: r[1:] for r in p.rows if len(r) == 6 and r[0] != "predicted population"}
    assert {k: int(v[0]) for k, v in table.items() if v[0] != "0"} == {k: len(v) for k, v in seen.items()}
    for k, v in seen.items():
        assert abs(float(table[k][2]) - sum(float(r["confidence"]) for r in v) / len(v)) < 6e-5, k
        assert abs(float(table[k][3]) - 100 * sum(int(r["votes"]) == members for r in v) / len(v)) < 0.06, k
        assert int(table[k][4]) == sum(float(r["confidence"]) < 0.5 for r in v), k
    for n in range(1, members + 1):
        want = sum(int(r["votes"]) == n for r in called)
        assert re.search(r">%d of %d</text>.*?>%d \(" % (n, members, want), page, re.S), n
    order = [int(v[0]) for v in table.values()]
    assert order == sorted(order, reverse=True)
for heading in sys.argv[3:]: assert heading in page, heading
PY
    expect_exit 0
}

@test "the page's counts are the table's; it is well formed, alone, the same for any number of threads, and changes no table" {
    "$predict" -q -m "$M" "$C" -o want.tsv
    run "$predict" -m "$M" "$C" -o p.tsv --report r.html --threads 1
    expect_exit 0
    cmp want.tsv p.tsv
    check_page r.html p.tsv "People per predicted population" "Confidence of the prediction" "vote for the prediction" "Call rate" \
        "per chromosome" "any other one is placed among them"
    "$predict" -q -m "$M" "$C" -o p7.tsv --report r7.html --threads 7 --memory 40M
    cmp r.html r7.html
    run "$predict" -q -m "$M" "$C" -o - --report -
    expect_exit 2
}

@test "SNPs matched per chromosome are those of snpmatch's table" {
    "$TOOLS/dnsim" -q -o sim -n 60 -m 2200 -k 3 --cohort 30 --drop 0.3
    "$TOOLS/mkmodel" -q -o sm --bim sim.bim --folds 1 --repeats 2 --units 6 --classes 3
    awk '$1 != 7' sim_cohort.bim | cut -f2 >keep.txt
    "$BIN/snpmatch" -b sim_cohort -m sm -o q.gpk -r match.tsv
    "$predict" -q -m sm q.gpk -o p.tsv --report r.html
    awk -F'\t' 'NR > 1 { of[$3]++; if ($NF !~ /absent|differ|duplicate|dropped/) n[$3]++ }
        END { for (c in of) printf "%d of %d (%.1f %%)\n", n[c], of[c], 100 * n[c] / of[c] }' match.tsv | sort >want
    grep -oE '[0-9]+ of [0-9]+ \([0-9.]+ %\)' r.html | sort >found
    [ "$(wc -l <want)" -eq 22 ]
    cmp want found
    run grep -c 'chromosomes without a SNP' r.html
    [ "$output" = 0 ]
}

@test "warnings: people without a call or with few, few SNPs, a chromosome that is not there, low confidence" {
    "$PYTHON" -c 'import h5py' 2>/dev/null || skip "no h5py"
    "$TOOLS/mkmodel" -q -o w --snps 2200 --folds 1 --repeats 2 --units 6 --classes 12
    "$PYTHON" - <<'PY'
import h5py, numpy as np
ids = h5py.File("w/seed78_fold0.h5")["snps/id"][()]
x = np.random.default_rng(1).integers(0, 3, (40, 2200)).astype("i1")
x[:, 100:200] = -1   # all of the model's second hundred
x[3] = -1
x[7, 10:] = -1
with h5py.File("w.h5", "w") as f:
    f["inputs"] = x
    f["samples"] = np.array([b"P<%d>" % i for i in range(40)])
    f["snp_names"] = ids
    f["scale"] = np.array([2200 / 2100])
PY
    run "$predict" -m w w.h5 -o p.tsv --report r.html
    expect_exit 0
    check_page r.html p.tsv "no call" "1 of 40 people have no call at any matched SNP; their prediction is NA: 0 P&lt;3&gt;" \
        "1 of 40 people have calls at less than half of the matched SNPs: 0 P&lt;7&gt;" "low confidence" \
        "no SNP matched on 1 of the model's chromosomes: 2." "2100 of the model's 2200 SNPs matched"
    "$TOOLS/mkmodel" -q -o few --snps 700 --folds 1 --repeats 1 --units 6 --cohort few.gpk --people 9 --matched 0.2
    run "$predict" -m few few.gpk -o few.tsv --report few.html
    expect_exit 0
    check_page few.html few.tsv "few SNPs" "predictions rest on little"
}

@test "shards report on their people, the join on everybody: the same page but for its SNPs" {
    for i in 1 2 3; do "$predict" -q -m "$M" "$C" -o p$i.tsv --report r$i.html --shard $i/3; done
    grep -q "shard 2 of 3: people 134 to 266 of 400" r2.html
    run "$predict" --join p3.tsv p1.tsv p2.tsv -o j.tsv --report j.html
    expect_exit 0
    check_page j.html j.tsv "Confidence of the prediction"
    "$predict" -q -m "$M" "$C" -o j.all.tsv --report all.html
    cmp j.tsv j.all.tsv
    # The join knows nothing of the model but what the table says; the rest is the same page.
    part() { sed -n '/People per predicted/,/<\/svg>/p; /Confidence of/,/^<h2>SNPs of the model\|^<p style/p' "$1" | grep -v '^<h2>SNPs\|^<p style'; }
    part j.html >j.part
    part all.html >all.part
    [ "$(grep -c '<svg' j.part)" -eq 4 ]
    cmp j.part all.part
}

@test "regression: a histogram of values whose bars add up, at any scale of numbers" {
    "$TOOLS/mkmodel" -q -o r --regression --snps 300 --folds 2 --repeats 2 --units 8 --cohort r.gpk --people 500
    "$predict" -q -m r r.gpk -o p.tsv --report r.html
    check_page r.html p.tsv "Predicted values: mean over models" "standard deviation over models"
    run "$predict" -q --join p.tsv -o j.tsv --report j.html
    expect_exit 4
    for i in 1 2; do "$predict" -q -m r r.gpk -o p$i.tsv --shard $i/2; done
    "$predict" -q --join p1.tsv p2.tsv -o j.tsv --report j.html
    check_page j.html j.tsv "Predicted values: mean over models"
}

@test "the page is an output like the others: an existing one, a full disk, a wrong folder, the same name twice" {
    echo mine >r.html
    run "$predict" -m "$M" "$C" -o p.tsv --report r.html
    expect_exit 2
    [ "$(cat r.html)" = mine ]
    [ ! -e p.tsv ]
    run "$predict" -m "$M" "$C" -o p.tsv --report r.html -f
    expect_exit 0
    rm p.tsv
    run "$predict" -m "$M" "$C" -o p.tsv --report /dev/full
    expect_exit 6
    [ ! -e p.tsv ]
    run "$predict" -m "$M" "$C" -o p.tsv --report no/r.html
    [ "$status" -ne 0 ]
    [ ! -e p.tsv ]
    run "$predict" -m "$M" "$C" -o x --report x
    expect_exit 2
    run "$predict" -m "$M" "$C" -o p.tsv --scores x --report x
    expect_exit 2
}

@test "memory does not grow with people: a page of 500,000 is as small as one of 400, its counts in plain digits" {
    need_plain_build
    "$TOOLS/mkmodel" -q -o big --snps 400 --folds 1 --repeats 1 --units 4 --layers 0 --classes 26 --cohort big.gpk --people 500000
    run "$predict" -m big big.gpk -o p.tsv --report r.html --memory 200M
    expect_exit 0
    [ "$(stat -c %s r.html)" -lt 40000 ]
    grep -q ">500000<" r.html
    run grep -cE '[0-9]e\+0' r.html
    [ "$output" = 0 ]
}

@test "kgp1 -> HapMap 3: the page has its parts, and says that one person in ten is placed with little confidence" {
    need_shared
    cut -f2 "$SHARED/realdata/kgp1_14k/kgp1_14k.labels.tsv" | tail -n +2 | LC_ALL=C sort -u >classes.txt
    "$BIN/snpmatch" -q -b "$SHARED/realdata/hapmap3_14k/hapmap3_14k" -m "$KGP1/release" -o h.gpk 2>/dev/null
    "$predict" -q -m "$KGP1/release" --classes classes.txt h.gpk -o p.tsv --report r.html
    check_page r.html p.tsv "14079 of the model's 14079 SNPs matched" "low confidence" "MXL"
}
