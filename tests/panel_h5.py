#!/usr/bin/env python3
"""Writes dataset.h5 in upstream's layout with h5py, independently of bed2h5, for tests.

    panel_h5.py bfile PREFIX LABELS.tsv OUT.h5      everyone in the .fam; class labels by IID
    panel_h5.py labels LABELS.txt OUT.h5            one person per line, one SNP, genotypes 0, 1, 2, missing in turn
    panel_h5.py text OUT.h5                         stdin: IID, label ("-" for none), then one genotype per SNP (0 1 2 .)
"""
import sys
import h5py
import numpy as np


def write(out, x, ids, labels, snps, fids=None):
    names = sorted(set(l for l in labels if l != "-"), key=lambda s: s.encode())
    with h5py.File(out, "w") as f:
        f["inputs"] = x.astype(np.int8)
        f["samples"] = np.array([i.encode() for i in ids])
        f["snp_names"] = np.array([s.encode() for s in snps])
        if names:
            f["class_labels"] = np.array([names.index(l) if l != "-" else -1 for l in labels], np.int64)
            f["class_label_names"] = np.array([n.encode() for n in names])
        if fids:
            f["fids"] = np.array([i.encode() for i in fids])


def main():
    mode = sys.argv[1]
    if mode == "bfile":
        prefix, lab, out = sys.argv[2:5]
        fam = [l.split() for l in open(prefix + ".fam")]
        n = len(fam)
        raw = np.fromfile(prefix + ".bed", np.uint8)[3:].reshape(-1, (n + 3) // 4)
        code = (raw[:, :, None] >> np.array([0, 2, 4, 6])) & 3
        x = np.array([2, -1, 1, 0], np.int8)[code.reshape(raw.shape[0], -1)[:, :n]].T
        d = dict(l.rstrip("\n").split("\t")[:2] for l in open(lab))
        write(out, x, [r[1] for r in fam], [d[r[1]] for r in fam], [l.split()[1] for l in open(prefix + ".bim")])
    elif mode == "labels":
        labels = [l.strip() for l in open(sys.argv[2])]
        n = len(labels)
        x = (np.arange(n) % 4)[:, None]
        write(sys.argv[3], np.where(x == 3, -1, x), ["p%d" % i for i in range(n)], labels, ["rs1"])
    else:
        rows = [l.split() for l in sys.stdin]
        x = np.array([[-1 if c == "." else int(c) for c in r[2]] for r in rows])
        fids = [r[0].split("/")[0] for r in rows] if "/" in rows[0][0] else None
        write(sys.argv[2], x, [r[0].split("/")[-1] for r in rows], [r[1] for r in rows], ["rs%d" % j for j in range(x.shape[1])], fids)


main()
