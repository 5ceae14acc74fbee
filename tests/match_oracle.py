#!/usr/bin/env python3
"""Matching by the rules of docs/snpmatch.md, written apart from the C code, to compare it with.

  match_oracle.py reasons MODEL.bim id|pos PREFIX...   the reason of every SNP of the model, one a line
  match_oracle.py rows MODEL.bim id|pos PREFIX...      FID, IID and dosages ('.' for missing) of the used SNPs
  match_oracle.py dump FILE.gpk                        the same of a .gpk with raw rows, fast
"""
import struct
import sys
from collections import defaultdict

import numpy as np

OTHER = {'A': 'T', 'T': 'A', 'C': 'G', 'G': 'C'}
CHROM = {'X': 23, 'Y': 24, 'XY': 25, 'PAR1': 25, 'PAR2': 25, 'M': 26, 'MT': 26}
UNSEEN = ('0', '.')


def chrom(c):
    c = c.upper()
    c = c[3:] if c.startswith('CHR') else c
    n = int(c) if c.isdigit() else CHROM.get(c, 0)
    return n if n <= 26 else 0


def bim(path):
    for line in open(path):
        c, i, _, p, a1, a2 = line.split()
        yield chrom(c), i, int(p), a1.upper(), a2.upper()


def same(m, c):
    """Do two ordered pairs of alleles agree, of which unseen ones agree with anything?"""
    open_ = [x in UNSEEN or y in UNSEEN for x, y in zip(m, c)]
    return not all(open_) and all(o or x == y for o, x, y in zip(open_, m, c))


def turn(pair):
    if not all(a in OTHER or a in UNSEEN for a in pair):
        return None
    return tuple(OTHER.get(a, a) for a in pair)


def fit(m, c):
    """(reason, swapped?) or None."""
    if m[0] == m[1] and m[0] not in UNSEEN or c[0] == c[1] and c[0] not in UNSEEN:
        return None
    t = turn(c) if turn(m) else None
    on = [same(m, c), same(m, c[::-1])]
    off = [bool(t) and same(m, t), bool(t) and same(m, t[::-1])]
    if any(on):
        swapped = not on[0]
        return ('ambiguous-kept' if any(off) else 'swapped' if swapped else 'matched'), swapped
    if any(off):
        return ('flipped', False) if off[0] else ('flipped+swapped', True)
    return None


def show(people, picked):
    """picked: people x SNPs, -1 = missing."""
    text = np.frombuffer(b'012.', dtype=np.uint8)
    for who, calls in zip(people, picked):
        print(*who, text[calls].tobytes().decode(), sep='\t')


def dump(path):
    data = open(path, 'rb').read()
    n, m, row, at, n_sections = struct.unpack('<QQQQI', data[16:52])
    pos, ids = 72, {}
    for _ in range(n_sections):
        tag, _, length = struct.unpack('<4sIQ', data[pos:pos + 16])
        ids[tag] = data[pos + 24:pos + 24 + length].decode().split('\0')
        pos += 24 + (length + 7) // 8 * 8
        if b'IID ' in ids:
            break
    raw = np.frombuffer(data, dtype=np.uint8, count=n * row, offset=at).reshape(n, row)
    codes = np.stack([raw >> s & 3 for s in (0, 2, 4, 6)], axis=2).reshape(n, -1)[:, :m]
    show(zip(ids[b'FID '], ids[b'IID ']), np.where(codes == 3, -1, codes.astype(np.int8)))


def main(what, model, by, prefixes):
    key = (lambda r: r[1]) if by == 'id' else (lambda r: (r[0], r[2]) if r[0] and r[2] > 0 else None)
    cohort = defaultdict(list)
    at = 0
    for p in prefixes:
        for r in bim(p + '.bim'):
            if r[2] >= 0:
                cohort[key(r)].append((at, r))
            at += 1
    reasons, use = [], []
    for r in bim(model):
        named = any(ch.isalnum() for ch in r[1]) if by == 'id' else key(r) is not None
        found = cohort.get(key(r), []) if named else []
        fits = [(k, fit(r[3:], c[3:])) for k, c in found]
        fits = [(k, f) for k, f in fits if f]
        if not found:
            reasons.append('absent')
        elif not fits:
            reasons.append('alleles-differ')
        elif len(fits) > 1:
            reasons.append('duplicate')
        else:
            reasons.append(fits[0][1][0])
            use.append((fits[0][0], fits[0][1][1]))
    if what == 'reasons':
        print('\n'.join(reasons))
        return
    fam = [line.split()[:2] for line in open(prefixes[0] + '.fam')]
    n = len(fam)
    dosage = np.array([2, -1, 1, 0], dtype=np.int8)
    cols = []
    for p in prefixes:
        m = sum(1 for _ in open(p + '.bim'))
        raw = np.fromfile(p + '.bed', dtype=np.uint8)
        major, raw = raw[2], raw[3:].reshape(m if raw[2] else n, -1)
        codes = np.stack([raw >> s & 3 for s in (0, 2, 4, 6)], axis=2).reshape(raw.shape[0], -1)
        cols.append(dosage[codes[:, :n] if major else codes[:, :m].T])
    g = np.concatenate(cols)
    picked = np.stack([np.where(g[k] < 0, -1, 2 - g[k]) if s else g[k] for k, s in use])
    show(fam, picked.T)


if __name__ == '__main__':
    if len(sys.argv) == 3 and sys.argv[1] == 'dump':
        dump(sys.argv[2])
        sys.exit()
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
