#!/usr/bin/env bats
# dnsplit: upstream's folds draw for draw, its files both ways, statistics and embedding, groups, and what must be refused.

load ../lib

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    "$PYTHON" -c 'import h5py, numpy' 2>/dev/null || skip "no h5py"
}
split() { run "$BIN/dnsplit" "$@"; }
panel() { "$PYTHON" "$TESTS/panel_h5.py" "$@"; }

# Ten people of A, six of B, five SNPs; the second B is F7's only other member of family fam1.
toy() {
    panel text toy.h5 <<'T'
fam1/a0 A 01210
fam1/a1 A 11200
fam2/a2 A 0.210
fam2/a3 A 01110
0/a4 A 02210
0/a5 A 012.0
fam3/a6 A 01010
fam3/a7 A 11210
fam3/a8 A 01220
0/a9 A 21210
fam4/b0 B 00010
fam4/b1 B 10100
fam5/b2 B 02110
fam5/b3 B 01200
0/b4 B 2101.
0/b5 B 11110
T
}

@test "partition: every index list of upstream's small.tsv, balanced as sets, unbalanced in order" {
    need_shared
    panel labels "$SHARED/golden/partition/small.labels.txt" small.h5
    cut -f1-4 "$SHARED/golden/partition/small.tsv" | tail -n +2 | sort -u | while read -r mode seed folds ratio; do
        opt=(--balance-class)
        [ "$mode" = balanced ] || opt=(--train-valid-ratio "$ratio")
        "$BIN/dnsplit" small.h5 -q -f -k "$folds" -s "$seed" "${opt[@]}" -o "$mode.$seed.$folds.$ratio.h5" >/dev/null 2>warnings || exit 1
    done
    run "$PYTHON" - "$SHARED/golden/partition/small.tsv" <<'PY'
import csv, sys, h5py
n = 0
for r in csv.DictReader(open(sys.argv[1]), delimiter="\t"):
    want = [int(i) for i in r["indices"].split(",")] if r["indices"] else []
    with h5py.File("%s.%s.%s.%s.h5" % (r["mode"], r["seed"], r["folds"], r["ratio"])) as f:
        got = list(f["fold%s/%s" % (r["fold"], r["set"])][:])
    if r["mode"] == "balanced":
        got, want = sorted(got), sorted(want)
    assert got == want, r
    n += 1
print(n)
PY
    expect_exit 0
    [ "$output" = 486 ]
}

@test "partition: every hash of upstream's panel.sha256.tsv (2,504 people)" {
    need_shared
    panel labels "$SHARED/golden/partition/panel.labels.txt" panel.h5
    cut -f1-4 "$SHARED/golden/partition/panel.sha256.tsv" | tail -n +2 | sort -u | while read -r mode seed folds ratio; do
        opt=(--balance-class)
        [ "$mode" = balanced ] || opt=(--train-valid-ratio "$ratio")
        "$BIN/dnsplit" panel.h5 -q -k "$folds" -s "$seed" "${opt[@]}" -o "$mode.$seed.$folds.$ratio.h5" >/dev/null || exit 1
    done
    run "$PYTHON" - "$SHARED/golden/partition/panel.sha256.tsv" <<'PY'
import csv, hashlib, sys, h5py
n = 0
for r in csv.DictReader(open(sys.argv[1]), delimiter="\t"):
    with h5py.File("%s.%s.%s.%s.h5" % (r["mode"], r["seed"], r["folds"], r["ratio"])) as f:
        got = list(f["fold%s/%s" % (r["fold"], r["set"])][:])
    if r["mode"] == "balanced":
        got = sorted(got)
    assert len(got) == int(r["n"]), r
    assert hashlib.sha256((",".join(map(str, got)) + "\n").encode()).hexdigest() == r["sha256"], r
    n += 1
print(n)
PY
    expect_exit 0
    [ "$output" = 486 ]
}

# golden SET BFILE LABELS: upstream's partition in, its statistics and embedding out.
golden() {
    local up=$SHARED/golden/$1/upstream
    panel bfile "$2" "$3" "$1.h5"
    split "$1.h5" --from-npz "$up/partition_seed124.npz" -o "$1.split.h5" --stats-npz stats.npz --embedding-npz embedding.npz --export-npz part.npz
    expect_exit 0
    expect_text "sample IDs agree"
    run "$PYTHON" - "$up" "$1.split.h5" <<'PY'
import sys, h5py, numpy as np
up, split = sys.argv[1:]
a, b = np.load("stats.npz"), np.load(up + "/stats.npz")
assert sorted(a) == sorted(b)
for k in b:
    assert a[k].shape == b[k].shape and a[k].dtype == b[k].dtype
    assert np.max(np.abs(a[k] - b[k]) / np.abs(b[k]).clip(1e-300)) < 1e-12, k
e, g = np.load("embedding.npz")["emb"], np.load(up + "/embedding.npz")["emb"]
assert e.shape == g.shape and e.dtype == g.dtype
assert np.max(np.abs(e - g) / np.abs(g).clip(1e-300)) < 1e-12
x, y = (np.load(p, allow_pickle=True) for p in ("part.npz", up + "/partition_seed124.npz"))
f = h5py.File(split)
for i in range(5):
    for s, name in enumerate(("train", "valid", "test")):
        assert type(x["folds_indexes"][i, s]) is list
        assert x["folds_indexes"][i, s] == list(y["folds_indexes"][i, s]) == list(f["fold%d/%s" % (i, name)][:])
        assert (x["folds_samples"][i, s] == y["folds_samples"][i, s]).all()
PY
    expect_exit 0
    # The same through our own programs, from the fileset.
    "$BIN/gpack" -q --bfile "$2" --labels "$3" -o own.gpk
    "$BIN/bed2h5" -q --bfile "$2" --labels "$3" -o own.h5
    for own in own.gpk own.h5; do
        "$BIN/dnsplit" $own -q --from-npz "$up/partition_seed124.npz" -o $own.split --stats-npz $own.st --embedding-npz $own.em >/dev/null
        cmp $own.st stats.npz && cmp $own.em embedding.npz
    done
    cmp own.gpk.split own.h5.split
}

@test "kgp3: means, deviations and embedding equal upstream's to 1e-12; its partition goes in and out unchanged" {
    need_shared
    golden kgp3 "$(find "$SHARED/realdata/" -name kgp3_26pop_all.bed | head -1 | sed 's/.bed$//')" "$SHARED/golden/kgp3/labels.tsv"
}

@test "kgp1: the same, from deflated files" {
    need_shared
    p=$(find "$SHARED/realdata/" -name kgp1_14k.bed | head -1)
    golden kgp1 "${p%.bed}" "${p%.bed}.labels.tsv"
}

@test "same bytes with 1, 2 and 7 threads and with little memory; and from .gpk" {
    need_shared
    p=$(find "$SHARED/realdata/" -name kgp3_26pop_all.bed | head -1)
    panel bfile "${p%.bed}" "$SHARED/golden/kgp3/labels.tsv" k.h5
    i=0
    for o in "--threads 1" "--threads 2" "--threads 7" "--threads 2 --memory 5M"; do
        # shellcheck disable=SC2086
        "$BIN/dnsplit" k.h5 -q -b $o -o s$i.h5 --stats-npz st$i.npz --embedding-npz em$i.npz --export-npz p$i.npz >t$i
        for f in s:h5 st:npz em:npz p:npz; do cmp "${f%:*}0.${f#*:}" "${f%:*}$i.${f#*:}"; done
        cmp t0 t$i
        i=$((i + 1))
    done
    split k.h5 -b -q --memory 1M --stats-npz no.npz
    expect_exit 7
    expect_text "--memory"
    [ ! -e no.npz ]
    "$BIN/gpack" -q k.h5 -o k.gpk
    "$BIN/dnsplit" k.gpk -q -b -o g.h5 --stats-npz gst.npz >/dev/null
    cmp g.h5 s0.h5 && cmp gst.npz st0.npz
}

@test "a split that dnsplit exports comes back the same, and is checked against the people" {
    toy
    split toy.h5 -k 3 -s 5 -o a.h5 --export-npz p.npz
    expect_exit 0
    split toy.h5 --from-npz p.npz -o b.h5 --export-npz q.npz
    expect_exit 0
    expect_text "sample IDs agree"
    cmp p.npz q.npz
    run "$PYTHON" -c '
import h5py
a, b = h5py.File("a.h5"), h5py.File("b.h5")
for f in range(3):
    for s in ("train", "valid", "test"):
        assert list(a["fold%d/%s" % (f, s)][:]) == list(b["fold%d/%s" % (f, s)][:])
assert a.attrs["method"] == b"unbalanced" and b.attrs["method"] == b"npz" and a.attrs["data_fingerprint"] == b.attrs["data_fingerprint"]'
    expect_exit 0
    # The same people in another order, and other people.
    panel text other.h5 < <(printf 'b%d B 01\n' 0 1 2 3 4 5; printf 'a%d A 10\n' 0 1 2 3 4 5 6 7 8 9)
    split other.h5 --from-npz p.npz -o c.h5
    expect_exit 5
    expect_text "another order"
    panel text few.h5 < <(printf 'a%d A 01\n' 0 1 2 3)
    split few.h5 --from-npz p.npz -o c.h5
    expect_exit 5
    expect_text "has 4 people"
    [ ! -e c.h5 ]
}

@test "--from-npz: lists, tuples and arrays; (folds,) of triples; integers of one length" {
    toy
    "$PYTHON" - <<'PY'
import numpy as np
folds = [[[4, 1, 10, 12], [2, 13, 3], [0, 11, 5]], [[2, 3, 12, 14], [4, 15], [1, 10]]]
def save(name, f):
    a = np.empty((2, 3), object)
    for i in range(2):
        for s in range(3):
            a[i, s] = f(folds[i][s])
    np.savez(name, folds_indexes=a)
save("list.npz", list)
save("tuple.npz", tuple)
save("i8.npz", np.array)
save("u2.npz", lambda x: np.array(x, np.uint16))
b = np.empty(2, object)
b[0], b[1] = folds
np.savez_compressed("triples.npz", folds_indexes=b)
np.savez("ints.npz", folds_indexes=np.array([[[4, 10], [2, 11], [0, 12]], [[1, 13], [3, 14], [5, 15]]]))
PY
    for k in list tuple i8 u2 triples; do
        split toy.h5 --from-npz $k.npz -o $k.h5
        expect_exit 0
        expect_text "only numbers were checked"
        cmp list.h5 $k.h5
    done
    split toy.h5 --from-npz ints.npz -o ints.h5
    expect_exit 0
    run "$PYTHON" -c 'import h5py; print(*h5py.File("ints.h5")["fold1/test"][:])'
    [ "$output" = "5 15" ]
}

@test "--from-npz: a person twice, a negative number, text, a missing array, a harmful pickle" {
    toy
    "$PYTHON" - <<'PY'
import os, io, pickle, zipfile, numpy as np
def save(name, cells, key="folds_indexes"):
    a = np.empty((1, 3), object)
    for s in range(3):
        a[0, s] = cells[s]
    np.savez(name, **{key: a})
save("twice.npz", [[0, 1, 10], [2, 11], [3, 1]])
save("minus.npz", [[0, -1], [2], [3]])
save("text.npz", [[0, "a"], [2], [3]])
save("float.npz", [[0, 1.5], [2], [3]])
save("key.npz", [[0], [2], [3]], "folds")
class Bad:
    def __reduce__(self):
        return os.system, ("touch ran-it",)
save("bad.npz", [[0], Bad(), [3]])
PY
    check() {
        split toy.h5 --from-npz "$1.npz" -o x.h5
        expect_exit "$2"
        expect_text "$1.npz" "$3"
        [ ! -e x.h5 ]
    }
    check twice 4 "person 1 twice, in its train and its test set"
    check minus 5 "person -1"
    check text 4 "item 1 is a string"
    check float 4 "item 1 is a float"
    check key 4 "no array \"folds_indexes\""
    check bad 4 "posix system"
    [ ! -e ran-it ]
    head -c $(($(stat -c %s twice.npz) / 2)) twice.npz >cut.npz
    check cut 4 "truncated"
}

@test "groups: no family is torn, all are dealt, and a plain split's damage is told" {
    toy
    split toy.h5 -k 3 -b --group-by-fid -o s.h5
    expect_exit 0
    expect_text "11 people in 5 groups of two or more" "5 people alone" "a plain split would have torn" "now none is"
    check() {
        "$PYTHON" - "$1" <<'PY'
import sys, h5py
d, s = h5py.File("toy.h5"), h5py.File(sys.argv[1])
fid, n = [x.decode() for x in d["fids"][:]], 16
tested = []
for f in range(s.attrs["n_folds"]):
    where = {}
    for k in ("train", "valid", "test"):
        for i in s["fold%d/%s" % (f, k)][:]:
            assert i not in where
            where[i] = k
    assert len(where) == n
    for a in range(n):
        for b in range(n):
            if fid[a] == fid[b] != "0":
                assert where[a] == where[b], (f, a, b)
    tested += list(s["fold%d/test" % f][:])
assert sorted(tested) == list(range(n))
PY
    }
    run check s.h5
    expect_exit 0
    # The same groups from a file, by IID and by FID and IID; with and without a header.
    "$PYTHON" -c '
import h5py
d = h5py.File("toy.h5")
rows = [(f.decode(), i.decode()) for f, i in zip(d["fids"][:], d["samples"][:])]
open("g2", "w").write("".join("%s\t%s\n" % (i, f) for f, i in rows if f != "0"))
open("g3", "w").write("FID IID group\n" + "".join("%s %s %s\n" % (f, i, f) for f, i in rows if f != "0"))'
    for g in g2 g3; do
        split toy.h5 -k 3 -b --group $g -o $g.h5
        expect_exit 0
        cmp s.h5 $g.h5
    done
    for k in 2 3 4 5; do
        split toy.h5 -k $k --group g2 -o u$k.h5 --force
        run check u$k.h5
        expect_exit 0
    done
    # Everybody alone: the plain draw.
    printf 'a0 x\na1 y\n' >single
    split toy.h5 -k 3 -b --group single -o one.h5
    split toy.h5 -k 3 -b -o plain.h5
    run "$PYTHON" -c '
import h5py
a, b = h5py.File("one.h5"), h5py.File("plain.h5")
assert all(list(a["fold%d/%s" % (f, s)][:]) == list(b["fold%d/%s" % (f, s)][:]) for f in range(3) for s in ("train", "valid", "test"))'
    expect_exit 0
}

@test "groups: files with faults, and groups against a partition that stands" {
    toy
    printf 'a0 x\na1 y\na0 y\n' >two
    split toy.h5 -k 3 --group two -o s.h5
    expect_exit 4
    expect_text "line 3" "a0 is in group x and in group y"
    printf 'a0 x\na1\n' >short
    split toy.h5 -k 3 --group short -o s.h5
    expect_exit 4
    expect_text "line 2" "1 columns"
    printf 'zz x\nyy x\n' >foreign
    split toy.h5 -k 3 --group foreign -o s.h5
    expect_exit 5
    expect_text "names nobody"
    printf 'a0 x\r\nzz x\r\na1 x\r' >crlf
    split toy.h5 -k 3 --group crlf -o s.h5
    expect_exit 0
    expect_text "1 lines of crlf name nobody of the dataset, the first: zz" "2 people in 1 groups"
    printf 'a%d all\n' 0 1 2 3 4 5 6 7 8 9 >large
    printf 'b%d all\n' 0 1 2 3 4 5 >>large
    split toy.h5 -k 3 --group large -o t.h5
    expect_exit 10
    expect_text "1 groups cannot be dealt into 3 folds"
    split toy.h5 -k 3 --export-npz p.npz
    split toy.h5 --from-npz p.npz --group-by-fid -o k.h5
    expect_exit 0
    expect_text "tears" "of 5 groups"
    split toy.h5 -k 3 --group two --group-by-fid -o u.h5
    expect_exit 2
    [ ! -e t.h5 ] && [ ! -e u.h5 ]
}

@test "NU01: SNPs that do not vary in a training set are counted; all hom, all het, varying only in what is held out" {
    toy
    "$PYTHON" - <<'PY'
import numpy as np
a = np.empty((2, 3), object)
a[0, 0], a[0, 1], a[0, 2] = [0, 3, 5, 10, 11, 14], [1, 12], [2, 13]
a[1, 0], a[1, 1], a[1, 2] = [1, 12, 15], [0, 10], [2, 13]
np.savez("p.npz", folds_indexes=a)
PY
    # SNP 0 all 0, SNP 1 all het, SNP 2 varies in the validation set only, SNP 3 without a call, SNP 4 varies.
    panel text flat.h5 <<'T'
p0 A 010.0
p1 A 012.1
p2 A 011.0
p3 A 010.2
p4 A 010.0
p5 A 010.1
p6 A 010.0
p7 A 010.0
p8 A 010.0
p9 A 010.0
q0 B 010.0
q1 B 010.1
q2 B 012.0
q3 B 010.0
q4 B 010.1
q5 B 012.2
T
    split flat.h5 --from-npz p.npz -o s.h5 --stats-npz st.npz --embedding-npz em.npz
    expect_exit 0
    expect_text "fold 0: 4 SNPs do not vary in the training set (1 have no call there)" "fold 1: 4 SNPs"
    run "$PYTHON" -c '
import numpy as np
s, e = np.load("st.npz"), np.load("em.npz")["emb"]
m, d = s["means_by_fold"], s["sd_by_fold"]
assert list(m[0, :4]) == [0, 1, 0, 0] and (d[0, :4] == 1e-6).all() and d[0, 4] > .5
assert np.isfinite(m).all() and np.isfinite(d).all() and np.isfinite(e).all()
assert list(e[0, 1]) == [0, 1, 0, 0, 1, 0] and list(e[0, 3]) == [0] * 6'
    expect_exit 0
}

@test "NU05: a class of one, a class only in what is held out, one class: told by name, written only under --force" {
    panel text one.h5 < <(printf 'a%d A 01\n' 0 1 2 3 4 5 6 7; echo "b0 B 10")
    split one.h5 -k 5 --balance-class -o s.h5
    expect_exit 10
    expect_text "class B (1 people) is absent from the training set of fold" "--force" "fold	set	people	A	B"
    [ ! -e s.h5 ]
    split one.h5 -k 5 --balance-class -o s.h5 --force
    expect_exit 0
    expect_text "warning: class B"
    run "$PYTHON" -c '
import h5py
f = h5py.File("s.h5")
assert sorted(sum((list(f["fold%d/test" % k][:]) for k in range(5)), [])) == list(range(9))'
    expect_exit 0
    panel text same.h5 < <(printf 'a%d A 01\n' 0 1 2 3 4 5 6 7)
    split same.h5 -k 4 -o t.h5
    expect_exit 0
    expect_text "one class: nothing can be learnt"
    # A class that the file lists and nobody has.
    "$PYTHON" -c '
import h5py
f = h5py.File("same.h5", "a")
del f["class_label_names"]
f["class_label_names"] = [b"A", b"Z"]'
    split same.h5 -k 4 -o u.h5
    expect_exit 10
    expect_text "class Z (0 people)"
}

@test "NU03: an empty validation set is refused before any training" {
    panel text d.h5 < <(printf 'a%d A 01\n' 0 1 2 3; printf 'b%d B 10\n' 0 1 2 3)
    split d.h5 -k 2 --train-valid-ratio 0.9999 -o s.h5
    expect_exit 0
    "$PYTHON" -c '
import numpy as np
a = np.empty((1, 3), object)
a[0, 0], a[0, 1], a[0, 2] = [0, 1, 4, 5], [], [2, 6]
np.savez("p.npz", folds_indexes=a)'
    split d.h5 --from-npz p.npz -o t.h5
    expect_exit 10
    expect_text "the valid set of fold 0 is empty"
    panel text tiny.h5 < <(printf 'a A 01\nb B 10\nc A 11\n')
    split tiny.h5 -k 4 -o t.h5
    expect_exit 10
    expect_text "3 people cannot be dealt into 4 folds"
    split tiny.h5 -k 2 --balance-class -o t.h5
    expect_exit 2
    expect_text "balanced folds need 3"
    [ ! -e t.h5 ]
}

@test "regression labels: people without one take part in no set; balance is refused" {
    "$PYTHON" - <<'PY'
import h5py, numpy as np
with h5py.File("r.h5", "w") as f:
    f["inputs"] = (np.arange(60).reshape(20, 3) % 3).astype(np.int8)
    f["samples"] = np.array([b"p%d" % i for i in range(20)])
    f["snp_names"] = np.array([b"a", b"b", b"c"])
    y = np.arange(20) / 7
    y[[3, 17]] = np.nan
    f["regression_labels"] = y
PY
    split r.h5 -k 3 -o s.h5 --stats-npz st.npz --embedding-npz em.npz
    expect_exit 0
    expect_text "2 of 20 people have no label" "fold	set	people"
    run "$PYTHON" -c '
import h5py, numpy as np
f = h5py.File("s.h5")
for k in range(3):
    assert sorted(sum((list(f["fold%d/%s" % (k, s)][:]) for s in ("train", "valid", "test")), [])) == [i for i in range(20) if i not in (3, 17)]
assert np.load("em.npz")["emb"].shape == (3, 3, 3)'
    expect_exit 0
    split r.h5 -k 3 --balance-class -o t.h5
    expect_exit 5
    expect_text "no class labels"
}

@test "UX04, UX03: mistyped options, nonsense values, outputs that exist, folders that do not" {
    toy
    no() {
        want=$1 words=$2
        shift 2
        split "$@"
        expect_exit "$want"
        expect_text "$words"
    }
    no 2 "--folds" toy.h5 --fold 3 -o s.h5
    no 2 "folds" toy.h5 -k 0 -o s.h5
    no 2 "folds" toy.h5 --folds x -o s.h5
    no 2 "folds" toy.h5 --folds 1e3 -o s.h5
    no 2 "seed" toy.h5 --seed -1 -o s.h5
    no 2 "seed" toy.h5 --seed 4294967296 -o s.h5
    no 2 "train-valid-ratio" toy.h5 --train-valid-ratio 1.5 -o s.h5
    no 2 "train-valid-ratio" toy.h5 --train-valid-ratio 0,5 -o s.h5
    no 2 "exclude each other" toy.h5 -b --train-valid-ratio 0.5 -o s.h5
    no 2 "as they are in the file" toy.h5 --from-npz p.npz -k 3 -o s.h5
    no 2 "nothing to write" toy.h5
    no 2 "no dataset" -o s.h5
    no 2 "one dataset" toy.h5 toy.h5 -o s.h5
    no 2 "two outputs" toy.h5 -o s.h5 --export-npz s.h5
    no 2 "files here" toy.h5 -o -
    no 2 "is the input" toy.h5 -o toy.h5 --force
    no 3 "nowhere.h5" nowhere.h5 -o s.h5
    no 6 "nodir" toy.h5 -o nodir/s.h5
    no 6 "nodir" toy.h5 -o s.h5 --stats-npz nodir/s.npz
    [ ! -e s.h5 ]
    no 0 "" toy.h5 -k 3 -o s.h5
    no 2 "exists already" toy.h5 -k 3 -o s.h5
    no 0 "" toy.h5 -k 3 -o s.h5 --force
    echo text >t.h5
    no 4 "t.h5" t.h5 -o u.h5
    [ "$(id -u)" -eq 0 ] || { mkdir ro && chmod 555 ro && no 6 "ro" toy.h5 -o ro/s.h5; }
    [ -z "$(find . -name '*.tmp.*')" ]
}

@test "CS03: a full disk is an error and leaves nothing, for each output" {
    toy
    for o in -o --export-npz --stats-npz --embedding-npz; do
        split toy.h5 -k 3 -q $o /dev/full
        expect_exit 6
    done
    for o in -o --stats-npz --embedding-npz --export-npz; do
        run bash -c 'ulimit -f 0; trap "" XFSZ; exec "$0" toy.h5 -k 3 -q "$1" full.out' "$BIN/dnsplit" $o
        expect_exit 6
        [ ! -e full.out ]
    done
    run bash -c '"$0" toy.h5 -k 3 -q -o ok.h5 >/dev/full' "$BIN/dnsplit"
    expect_exit 6
    [ -z "$(find . -name '*.tmp.*')" ]
}

@test "CS02: killed at any moment, it leaves whole files or none, and can be run again" {
    panel text many.h5 < <("$PYTHON" -c '
import random
random.seed(1)
for i in range(3000):
    print("p%d" % i, "ABCD"[i % 4], "".join(random.choice("012.") for _ in range(400)))')
    run_it() { "$BIN/dnsplit" many.h5 -q -f -b -o s.h5 --export-npz p.npz --stats-npz st.npz --embedding-npz em.npz >/dev/null; }
    run_it
    for f in s.h5 p.npz st.npz em.npz; do cp $f want.$f; done
    killed=0
    for ms in 2 4 6 8 10 12 15 18 21 25 30 35 40 50 60 80; do
        rm -f s.h5 p.npz st.npz em.npz
        "$BIN/dnsplit" many.h5 -q -b -o s.h5 --export-npz p.npz --stats-npz st.npz --embedding-npz em.npz >/dev/null &
        pid=$!
        sleep "$(printf '0.%03d' $ms)"
        kill -9 $pid 2>/dev/null && killed=$((killed + 1))
        wait $pid || true
        for f in s.h5 p.npz st.npz em.npz; do
            if [ -e $f ]; then cmp $f want.$f; fi
        done
    done
    [ $killed -gt 3 ]
    run_it
    for f in s.h5 p.npz st.npz em.npz; do cmp $f want.$f; done
}

@test "a split is for its dataset only, and the same dataset in other clothes is the same" {
    toy
    "$BIN/dnsplit" toy.h5 -q -k 3 -o a.h5 >/dev/null
    "$PYTHON" -c '
import h5py
f = h5py.File("toy.h5", "a")
f["inputs"][3, 2] = 2'
    "$BIN/dnsplit" toy.h5 -q -k 3 -o b.h5 >/dev/null
    run "$PYTHON" -c '
import h5py
a, b = h5py.File("a.h5"), h5py.File("b.h5")
assert a.attrs["data_fingerprint"] != b.attrs["data_fingerprint"] and a.attrs["checksum"] != b.attrs["checksum"]'
    expect_exit 0
}
