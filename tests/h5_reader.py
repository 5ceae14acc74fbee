#!/usr/bin/env python3
"""A second reader of dataset.h5 and of packages, written from docs/format-dataset.md and docs/format-package.md alone, to
test those documents and the C code by.

  h5_reader.py FILE    every check of the documents; prints what it is and its fingerprints
"""
import sys

import h5py
import numpy as np

from gpk_reader import xxh3

NAN = 0x7FF8000000000000


def u64(*v):
    return np.array(v, dtype='<u8').tobytes()


def list_hash(d):
    s = [bytes(x) for x in d[()]]
    assert d.dtype.kind == 'S' and d.chunks is None
    return xxh3(u64(len(s)) + b''.join(x + b'\0' for x in s))


def dataset(f):
    a = f.attrs
    assert a['version_major'] == 1
    hashes = []
    for name in ('samples', 'fids', 'snp_names', 'snp_chrom', 'snp_pos', 'snp_a1', 'snp_a2', 'class_label_names', 'class_labels',
                 'regression_labels'):
        if name not in f:
            hashes.append(0)
        elif f[name].dtype.kind == 'S':
            hashes.append(list_hash(f[name]))
        else:
            hashes.append(xxh3(f[name][()].tobytes()))
    assert xxh3(u64(*hashes)) == a['tables_xxh3'], 'tables'
    x = f['inputs'][()]
    n, m = x.shape
    stride = -(-m // 256) * 64
    codes = np.full((n, stride * 4), 3, dtype=np.uint8)
    codes[:, :m] = np.where(x < 0, 3, x)
    rows = (codes.reshape(n, stride, 4) << np.array([0, 2, 4, 6], dtype=np.uint8)).sum(axis=2, dtype=np.uint8)
    assert xxh3(rows.tobytes()) == f['inputs'].attrs['rows_xxh3'], 'rows'
    print(f'dataset {n} x {m}')


def package(f):
    a = f.attrs
    assert a['version_major'] == 1
    head = b''
    order = ('format', 'version_major', 'version_minor', 'program', 'task', 'fold', 'seed', 'best_epoch', 'test_loss', 'test_accuracy',
             'data_fingerprint', 'split_fingerprint', 'snps_fingerprint', 'weight_fingerprint', 'layers', 'aux_layers', 'contents')
    for name in order:
        v = a[name]
        head += name.encode() + b'\0' + (bytes(v) + b'\0' if isinstance(v, bytes) else np.asarray(v).tobytes())
    names = bytes(a['contents']).decode().split('\n')
    assert names.pop() == ''
    have, weights = {}, 0
    for name in names:
        d = f[name]
        assert d.chunks is None
        h = list_hash(d) if d.dtype.kind == 'S' else xxh3(d[()].tobytes())
        assert h == d.attrs['xxh3'], name
        assert d.dtype.kind != 'f' or np.isfinite(d[()]).all(), name
        head += name.encode() + b'\0' + u64(h)
        if name.startswith(('fat/', 'main/')):
            weights = xxh3(u64(weights, h))
        have[name] = d
    assert xxh3(head) == a['checksum'], 'checksum'
    assert weights == a['weight_fingerprint'], 'weights'
    m, h = have['fat/weight'].shape
    snps = b''
    for name in ('snps/id', 'snps/a1', 'snps/a2'):
        if name in have:
            s = [bytes(x) if name == 'snps/id' else bytes(x).upper() for x in have[name][()]]
            snps += u64(len(s)) + b''.join(x + b'\0' for x in s)
    assert xxh3(snps) == a['snps_fingerprint'], 'snps'
    assert have['fat/weight'].id.get_offset() % 64 == 0 or have['fat/weight'].size * 4 < 512
    for name in ('snps/id', 'snps/freq', 'norm/mean', 'norm/sd'):
        assert have[name].shape == (m,), name
    outs = 1 if a['task'] == b'regression' else len(have['classes'])
    size = h
    for i in range(int(a['layers'])):
        last = i + 1 == a['layers']
        if i:
            assert have[f'main/{i}/weight'].shape[1] == size
            size = have[f'main/{i}/weight'].shape[0]
        for part in ['bias'] + ([] if last else ['bn_gamma', 'bn_beta', 'bn_mean', 'bn_var']):
            assert have[f'main/{i}/{part}'].shape == (size,)
    assert size == outs
    size = None
    for i in range(int(a['aux_layers'])):
        w = have[f'aux/{i}/weight']
        assert size in (None, w.shape[1])
        size = w.shape[0]
    assert size in (None, h)
    print(f"package fold {a['fold']} seed {a['seed']}: {m} SNPs, {outs} outputs, layers {a['layers']}")


with h5py.File(sys.argv[1], 'r') as file:
    {b'dnpipe dataset': dataset, b'dnpipe package': package}[bytes(file.attrs['format'])](file)
