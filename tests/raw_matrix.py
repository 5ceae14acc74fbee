#!/usr/bin/env python3
"""raw_matrix.py FILE.raw A1: the genotypes of a PLINK .raw as `plinkdump` prints them, one line of 0 1 2 . per SNP.
A column's name ends in the allele that it counts; columns that do not count A1 (one letter for all SNPs) are turned."""
import sys

import numpy as np

with open(sys.argv[1], 'rb') as f:
    head = f.readline().split()[6:]
    rows = [line.rstrip(b'\n').split(maxsplit=6)[6].replace(b'NA', b'.').translate(None, b' \t') for line in f]
m = np.frombuffer(b''.join(rows), dtype=np.uint8).reshape(len(rows), len(head)).T.copy()
for j, name in enumerate(head):
    if name.rsplit(b'_', 1)[1].decode() != sys.argv[2]:
        m[j] = np.where(m[j] == ord('.'), ord('.'), ord('0') + ord('2') - m[j].astype(int))
out = np.full((m.shape[0], m.shape[1] + 1), ord('\n'), dtype=np.uint8)
out[:, :-1] = m
sys.stdout.buffer.write(out.tobytes())
