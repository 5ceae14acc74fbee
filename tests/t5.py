#!/usr/bin/env python3
"""The base set T5 of the field reports: 5 people x 6 SNPs, all four codes, two palindromic SNPs; and sets cut from it.

t5.py PREFIX                    writes PREFIX.bed/.bim/.fam
  --people N  --snps M          the first N people and M SNPs; above 5 and 6 people and SNPs are made up, from a fixed rule
  --major 0                     a sample-major .bed
  --padding 0xFC                OR this into the last byte of every row
  --chrom C                     all SNPs on chromosome C
  --tag X                       SNP IDs become X + ID
  --labels                      also PREFIX.labels.tsv (two classes, A and B, in turn)
Genotypes: copies of A1 (.bim column 5), '.' = missing.
"""
import argparse

CODE = {'2': 0, '.': 1, '1': 2, '0': 3}
ROWS = ['0120.', '2100.', '11021', '20.12', '00012', '12.00']
FAM = [(f'F{i}', f'S{i}', 1 + i % 2) for i in range(1, 6)]
BIM = [('1', 'rsA', 100, 'A', 'G'), ('1', 'rsB', 200, 'C', 'A'), ('1', 'rsC', 300, 'T', 'C'),
       ('2', 'rsD', 100, 'A', 'T'), ('2', 'rsE', 200, 'C', 'G'), ('22', 'rsF', 300, 'G', 'T')]


def table(n_people=5, n_snps=6):
    """(rows of SNPs as text, .fam tuples, .bim tuples) of the asked size."""
    fam = (FAM + [(f'F{i}', f'S{i}', 1 + i % 2) for i in range(6, n_people + 1)])[:n_people]
    bim = list(BIM[:n_snps])
    for j in range(len(bim), n_snps):
        a1, a2 = [('A', 'G'), ('C', 'A'), ('T', 'C'), ('G', 'T')][j % 4]
        bim.append((str(1 + j * 22 // n_snps), f'rs{j}', 100 * (j + 1), a1, a2))
    rows = []
    for j in range(n_snps):
        base = ROWS[j] if j < 6 else ''
        more = ''.join('0012.10201'[(i * 7 + j * 3 + i * j) % 10] for i in range(len(base), n_people))
        rows.append((base + more)[:n_people])
    return rows, fam, bim


def bed(rows, major=1, padding=0):
    m = [[CODE[c] for c in r] for r in rows]
    if major == 0:
        m = [list(t) for t in zip(*m)]
    out = bytearray(b'\x6c\x1b' + bytes([major]))
    for r in m:
        out += bytes(sum(c << 2 * j for j, c in enumerate(r[i:i + 4])) for i in range(0, len(r), 4))
        if padding and len(r) % 4:
            out[-1] |= padding & (0xFF << 2 * (len(r) % 4)) & 0xFF
    return bytes(out)


def write(prefix, n_people=5, n_snps=6, major=1, padding=0, chrom=None, tag='', labels=False):
    rows, fam, bim = table(n_people, n_snps)
    with open(prefix + '.bed', 'wb') as f:
        f.write(bed(rows, major, padding))
    with open(prefix + '.bim', 'w', newline='\n') as f:
        for c, i, p, a1, a2 in bim:
            f.write(f'{chrom or c}\t{tag}{i}\t0\t{p}\t{a1}\t{a2}\n')
    with open(prefix + '.fam', 'w', newline='\n') as f:
        for fid, iid, sex in fam:
            f.write(f'{fid}\t{iid}\t0\t0\t{sex}\t-9\n')
    if labels:
        with open(prefix + '.labels.tsv', 'w', newline='\n') as f:
            f.write('sample\tlabel\n')
            for k, (_, iid, _) in enumerate(fam):
                f.write(f'{iid}\t{"AB"[k % 2]}\n')


if __name__ == '__main__':
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('prefix')
    p.add_argument('--people', type=int, default=5)
    p.add_argument('--snps', type=int, default=6)
    p.add_argument('--major', type=int, choices=(0, 1), default=1)
    p.add_argument('--padding', type=lambda s: int(s, 0), default=0)
    p.add_argument('--chrom')
    p.add_argument('--tag', default='')
    p.add_argument('--labels', action='store_true')
    a = p.parse_args()
    write(a.prefix, a.people, a.snps, a.major, a.padding, a.chrom, a.tag, a.labels)
