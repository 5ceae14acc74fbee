#!/usr/bin/env python3
"""h5_check.py: looks into a dataset.h5 with h5py, as upstream's scripts would.

h5_check.py upstream FILE N M [LABELS.tsv [REGRESSION.tsv]]   keys, types, layout; labels as in the files
h5_check.py raw FILE FILE.raw BIM                             genotypes equal a PLINK .raw (either allele counted)
h5_check.py rows FILE                                         one line of 0 1 2 . per SNP, as plinkdump prints
h5_check.py get FILE NAME                                     one dataset, one entry a line
h5_check.py tsv FILE                                          upstream's tab-separated input, missing written three ways
"""
import sys

import h5py
import numpy as np

what, path = sys.argv[1:3]
f = h5py.File(path, 'r')
x = f['inputs']


def table(name):
    with open(name, 'rb') as g:
        g.readline()
        return dict(line.rstrip(b'\r\n').split(b'\t')[:2] for line in g)


def text(name):
    return [s.decode() for s in f[name][()]]


if what == 'upstream':
    n, m = int(sys.argv[3]), int(sys.argv[4])
    assert x.shape == (n, m) and x.dtype == np.int8 and x.chunks is None and x.compression is None
    assert set(np.unique(x[()])) <= {-1, 0, 1, 2}
    want = {'inputs', 'samples', 'snp_names'}
    for name in ('samples', 'snp_names'):
        d = f[name]
        assert d.dtype.kind == 'S' and d.chunks is None, name
        assert max(map(len, d[()])) == d.dtype.itemsize, name
        assert h5py.check_string_dtype(d.dtype).encoding == 'ascii'
        assert d.id.get_type().get_strpad() == h5py.h5t.STR_NULLPAD
    assert f['samples'].shape == (n,) and f['snp_names'].shape == (m,)
    if len(sys.argv) > 5:
        want |= {'class_labels', 'class_label_names'}
        labels = table(sys.argv[5])
        names, label = f['class_label_names'][()], f['class_labels']
        assert label.dtype == np.int64 and label.shape == (n,)
        assert names.dtype.kind == 'S' and list(names) == sorted(set(names))
        mine = [labels[s] for s in f['samples'][()]]
        assert [names[k] for k in label[()]] == mine
        # what upstream's scripts compute from the labels
        u, inv = np.unique(np.array(mine), return_inverse=True)
        assert (u == names).all() and (inv == label[()]).all()
    if len(sys.argv) > 6:
        want |= {'regression_labels'}
        r = table(sys.argv[6])
        d = f['regression_labels']
        assert d.dtype == np.float64 and d.shape == (n,)
        assert [float(r[s]) for s in f['samples'][()]] == list(d[()])
    ours = {'fids', 'snp_chrom', 'snp_pos', 'snp_a1', 'snp_a2'}
    assert want <= set(f) <= want | ours, (set(f), want)
    print('upstream ok')
elif what == 'raw':
    with open(sys.argv[3], 'rb') as g:
        head = g.readline().split()
        rows = [line.split() for line in g]
    bim = [line.split() for line in open(sys.argv[4], 'rb')]
    # a text of one byte per call, missing as 9
    raw = np.array([b''.join(r[6:]).replace(b'NA', b'9') for r in rows])
    raw = np.frombuffer(b''.join(raw), np.uint8).reshape(len(rows), -1).astype(np.int8) - 48
    assert raw.shape == x.shape and len(bim) == x.shape[1]
    for j, (name, b) in enumerate(zip(head[6:], bim)):
        allele = name.rsplit(b'_', 1)[1].split(b'(')[0]
        if allele != b[4]:
            assert allele == b[5] or b[5] == b[4], (name, b)
            c = raw[:, j]
            c[c != 9] = 2 - c[c != 9]
    raw[raw == 9] = -1
    assert (raw == x[()]).all(), np.argwhere(raw != x[()])[:5]
    assert [r[1] for r in rows] == list(f['samples'][()])
    assert [b[1] for b in bim] == list(f['snp_names'][()])
    if 'fids' in f:
        assert [r[0] for r in rows] == list(f['fids'][()])
    assert [b[0] for b in bim] == list(f['snp_chrom'][()]) and [int(b[3]) for b in bim] == list(f['snp_pos'][()])
    assert [b[4] for b in bim] == list(f['snp_a1'][()]) and [b[5] for b in bim] == list(f['snp_a2'][()])
    print(f'{x.shape[0]} x {x.shape[1]} equal')
elif what == 'rows':
    for row in x[()].T:
        print(''.join('.' if v < 0 else str(v) for v in row))
elif what == 'get':
    for v in f[sys.argv[3]][()]:
        print(v.decode('latin-1') if isinstance(v, bytes) else v)
elif what == 'tsv':
    missing = ['NA', './.', '-1']
    print('sample\t' + '\t'.join(text('snp_names')))
    for i, s in enumerate(text('samples')):
        print(s + '\t' + '\t'.join(missing[(i + j) % 3] if v < 0 else str(v) for j, v in enumerate(x[i])))
else:
    sys.exit(__doc__)
