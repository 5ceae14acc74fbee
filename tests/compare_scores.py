#!/usr/bin/env python3
"""Compares dnpredict's outputs with expected ones.

    compare_scores.py scores  SCORES.h5 EXPECTED.tsv [--models 1_1,2_1] [--tol 1e-4]
        EXPECTED.tsv: columns model, sample, pred, class0, class1, ...; every row must be there, every probability
        within --tol, and every predicted class equal.
    compare_scores.py hidden  SCORES.h5 MODEL EXPECTED.tsv [--rel 1e-3]
        EXPECTED.tsv: sample and the last hidden layer, no header.
    compare_scores.py table   PREDICTIONS.tsv EXPECTED.txt
        Every column of EXPECTED.txt (samples, model1, ..., all_models) equal, cell for cell, in the same order.
    compare_scores.py consistent PREDICTIONS.tsv SCORES.h5
        The table follows from the scores: votes, prediction, confidence, entropy, call rate.
    compare_scores.py near       A.h5 B.h5 [--tol 1e-5]
        Two runs of one model and cohort: names, people and call rates equal, numbers missing in the same places,
        probabilities (or values) within --tol, the last hidden layer within 10 times that of its size.
    compare_scores.py join    JOINED.tsv PART...
        The parts, read by docs/format-predictions.md, are whole and make up the joined table.

Prints one line with what was compared; exits 1 at the first difference.
"""
import argparse
import sys

import numpy as np


def fail(text):
    print("compare_scores: " + text)
    sys.exit(1)


def texts(dataset):
    return [x.decode() for x in dataset[()]]


def load(path):
    import h5py
    f = h5py.File(path, "r")
    return f["scores"][()], f["hidden"][()], texts(f["models"]), texts(f["samples"]), texts(f["classes"]), f["call_rate"][()]


def rows(path):
    return [line.rstrip("\n").split("\t") for line in open(path)]


def compare_scores(a):
    scores, _, models, samples, classes, _ = load(a.scores)
    want = rows(a.expected)[1:]
    chosen = a.models.split(",") if a.models else models
    worst = 0.0
    n = 0
    seen = {}
    at = {s: i for i, s in enumerate(samples)}
    for model, sample, pred, *p in want:
        if model not in chosen:
            continue
        if model not in models:
            fail(f"no model {model} among {models}")
        got = scores[models.index(model), at[sample]]
        p = np.array(p, float)
        if len(p) != len(got) or len(p) != len(classes):
            fail(f"{len(got)} classes, expected {len(p)}")
        d = np.abs(got - p).max()
        worst = max(worst, d)
        if not d <= a.tol:
            fail(f"model {model}, sample {sample}: probability off by {d}")
        if int(pred) != got.argmax():
            fail(f"model {model}, sample {sample}: class {got.argmax()}, expected {pred}")
        seen.setdefault(model, set()).add(sample)
        n += 1
    for m in chosen:
        if len(seen.get(m, ())) != len(samples):
            fail(f"model {m}: {len(seen.get(m, ()))} samples compared, {len(samples)} in the scores")
    print(f"{n} rows of {len(chosen)} models, largest difference {worst:.3g}")


def compare_hidden(a):
    _, hidden, models, samples, _, _ = load(a.scores)
    at = {s: i for i, s in enumerate(samples)}
    worst = 0.0
    want = rows(a.expected)
    for sample, *v in want:
        v = np.array(v, float)
        got = hidden[models.index(a.model), at[sample]]
        if len(got) != len(v):
            fail(f"{len(got)} hidden units, expected {len(v)}")
        # Relative to the layer's size: single units may be near 0.
        worst = max(worst, np.abs(got - v).max() / np.abs(v).max())
        if not worst <= a.rel:
            fail(f"sample {sample}: hidden layer off by {worst} relative")
    print(f"{len(want)} samples, largest relative difference {worst:.3g}")


def compare_table(a):
    got, want = rows(a.predictions), rows(a.expected)
    if len(got) != len(want):
        fail(f"{len(got)} lines, expected {len(want)}")
    for i, (g, w) in enumerate(zip(got, want)):
        if g[:len(w)] != w:
            k = [x == y for x, y in zip(g, w)].index(False)
            fail(f"line {i + 1}, column {want[0][k]}: {g[k]}, expected {w[k]}")
    if got[0][len(want[0]):] != ["prediction", "votes", "confidence", "entropy", "call_rate", "fid"]:
        fail(f"our columns are {got[0][len(want[0]):]}")
    print(f"{len(want) - 1} people x {len(want[0])} columns equal")


def consistent(a):
    scores, _, models, samples, classes, rate = load(a.scores)
    table = rows(a.predictions)
    head, table = table[0], table[1:]
    if [r[0] for r in table] != samples or len(head) != len(models) + 8:
        fail("people or columns differ")
    for i, r in enumerate(table):
        d = dict(zip(head, r))
        p = scores[:, i].astype(float)
        if abs(float(d["call_rate"]) - rate[i]) > 1e-6:
            fail(f"{r[0]}: call rate {d['call_rate']}, scores say {rate[i]}")
        if rate[i] == 0:
            if not np.isnan(p).all() or r[1:len(models) + 3] != ["NA"] * (len(models) + 2) or d["votes"] != "0":
                fail(f"{r[0]}: no call, yet {r}")
            continue
        if not np.isfinite(p).all() or np.abs(p.sum(1) - 1).max() > 1e-5:
            fail(f"{r[0]}: probabilities")
        top = p.argmax(1)
        if r[1:len(models) + 1] != [classes[c] for c in top]:
            fail(f"{r[0]}: classes of the models")
        votes = np.bincount(top, minlength=len(classes))
        names = sorted((classes[c], votes[c]) for c in range(len(classes)) if votes[c])
        if d["all_models"] != ",".join(f"{n}({v})" for n, v in names):
            fail(f"{r[0]}: all_models {d['all_models']}")
        mean = p.mean(0)
        best = max(range(len(classes)), key=lambda c: (votes[c], mean[c], -c))
        if (d["prediction"], d["votes"]) != (classes[best], str(votes[best])):
            fail(f"{r[0]}: prediction {d['prediction']} {d['votes']}, expected {classes[best]} {votes[best]}")
        ent = -(mean[mean > 0] * np.log(mean[mean > 0])).sum()
        if abs(float(d["confidence"]) - mean[best]) > 2e-6 or abs(float(d["entropy"]) - ent) > 2e-6:
            fail(f"{r[0]}: confidence or entropy")
    print(f"{len(table)} people consistent")


def near(a):
    one, two = load(a.a), load(a.b)
    for k, what in ((2, "models"), (3, "samples"), (4, "classes")):
        if one[k] != two[k]:
            fail(f"{what} differ")
    if not np.array_equal(one[5], two[5]):
        fail("call rates differ")
    worst = []
    for k, what in ((0, "probabilities"), (1, "hidden layer")):
        if one[k].shape != two[k].shape or not np.array_equal(np.isnan(one[k]), np.isnan(two[k])):
            fail(f"{what}: numbers are missing in other places")
        size = max(1.0, float(np.nanmax(np.abs(one[k]))))
        worst.append(float(np.nanmax(np.abs(one[k] - two[k]))) / size)
        if not worst[-1] <= a.tol * (1 if k == 0 else 10):
            fail(f"{what}: off by {worst[-1]:.3g}")
    print(f"{one[0].shape[0]} models x {one[0].shape[1]} people: largest difference {worst[0]:.3g}, of the hidden layer {worst[1]:.3g}")


def join(a):
    import re
    import struct
    from gpk_reader import xxh3
    parts = []
    for path in a.parts:
        raw = open(path, "rb").read()
        lines = raw.split(b"\n")
        m = re.fullmatch(rb"#dnpredict-part version=1 shard=(\d+)/(\d+) people=(\d+)-(\d+) of=(\d+) "
                         rb"people_hash=([0-9a-f]{16}) run=([0-9a-f]{16})", lines[0])
        e = re.fullmatch(rb"#dnpredict-end rows=(\d+) hash=([0-9a-f]{16})", lines[-2])
        if not m or not e or lines[-1] or lines[1].split(b"\t")[0] != b"samples":
            fail(f"{path}: head, columns or end")
        shard, shards, first, last, n = map(int, m.groups()[:5])
        if first != n * (shard - 1) // shards or last != n * shard // shards:
            fail(f"{path}: people {first}-{last}")
        if int(e[1]) != last - first or len(lines) != last - first + 4:
            fail(f"{path}: {len(lines)} lines")
        if int(e[2], 16) != xxh3(raw[:raw.rindex(b"#dnpredict-end")]):
            fail(f"{path}: hash")
        parts.append((shard, (shards, n, m[6], m[7], lines[1]), lines[2:-2]))
    parts.sort()
    if [p[0] for p in parts] != list(range(1, parts[0][1][0] + 1)) or len({p[1] for p in parts}) != 1:
        fail("shards, or they are not of one run")
    people = [r for p in parts for r in p[2]]

    def strings(values):
        return xxh3(struct.pack("<Q", len(values)) + b"".join(v + b"\0" for v in values))

    fields = [r.split(b"\t") for r in people]
    if xxh3(struct.pack("<QQ", strings([f[-1] for f in fields]), strings([f[0] for f in fields]))) != int(parts[0][1][2], 16):
        fail("people_hash")
    if open(a.joined, "rb").read() != b"\n".join([parts[0][1][4]] + people) + b"\n":
        fail("the joined table is not the parts'")
    print(f"{len(parts)} parts, {len(people)} people")


def main():
    ap = argparse.ArgumentParser()
    sub = ap.add_subparsers(required=True)
    p = sub.add_parser("scores")
    p.add_argument("scores")
    p.add_argument("expected")
    p.add_argument("--models")
    p.add_argument("--tol", type=float, default=1e-4)
    p.set_defaults(run=compare_scores)
    p = sub.add_parser("hidden")
    p.add_argument("scores")
    p.add_argument("model")
    p.add_argument("expected")
    p.add_argument("--rel", type=float, default=1e-3)
    p.set_defaults(run=compare_hidden)
    p = sub.add_parser("table")
    p.add_argument("predictions")
    p.add_argument("expected")
    p.set_defaults(run=compare_table)
    p = sub.add_parser("consistent")
    p.add_argument("predictions")
    p.add_argument("scores")
    p.set_defaults(run=consistent)
    p = sub.add_parser("near")
    p.add_argument("a")
    p.add_argument("b")
    p.add_argument("--tol", type=float, default=1e-5)
    p.set_defaults(run=near)
    p = sub.add_parser("join")
    p.add_argument("joined")
    p.add_argument("parts", nargs="+")
    p.set_defaults(run=join)
    a = ap.parse_args()
    a.run(a)


if __name__ == "__main__":
    main()
