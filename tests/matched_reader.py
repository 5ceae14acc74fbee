#!/usr/bin/env python3
"""A second reader of matched.h5, written from docs/format-matched.md: checks every mark and checksum of FILE, prints "ok N M used"."""
import struct
import sys

import h5py
import numpy as np

from gpk_reader import xxh3


def strings(items):
    return struct.pack('<Q', len(items)) + b''.join(x + b'\0' for x in items)


def main(path):
    f = h5py.File(path, 'r')
    x = f['inputs']
    n, m = x.shape
    assert x.dtype == np.int8 and x.chunks is None and x.compression is None
    assert f.attrs['format'] == b'dnpipe matched' or f.attrs['format'] == 'dnpipe matched'
    assert f.attrs['version_major'] == 1
    iids, ids, scale, used = list(f['samples'][:]), list(f['snp_names'][:]), f['scale'], f['snp_matched'][:]
    fids = list(f['fids'][:]) if 'fids' in f else [b'0'] * n
    assert len(iids) == len(fids) == n and len(ids) == len(used) == m
    assert scale.dtype == np.float64 and scale.shape == (1,) and scale[0] == m / used.sum()
    g = x[:]
    assert g.min() >= -1 and g.max() <= 2 and (g[:, used == 0] == -1).all()
    snps = strings(ids)
    if 'snp_a1' in f:
        snps += strings([a.upper() for a in f['snp_a1'][:]]) + strings([a.upper() for a in f['snp_a2'][:]])
        assert xxh3(snps) == f.attrs['model_hash']
    parts = [n, m, xxh3(strings(fids)), xxh3(strings(iids)), xxh3(snps), xxh3(used.tobytes())]
    assert xxh3(struct.pack('<6Qd', *parts, scale[0])) == f.attrs['tables_xxh3'], 'tables_xxh3'
    wide = np.full((n, (m + 255) // 256 * 256), 3, dtype=np.uint8)
    wide[:, :m] = g & 3
    packed = wide[:, 0::4] | wide[:, 1::4] << 2 | wide[:, 2::4] << 4 | wide[:, 3::4] << 6
    assert xxh3(packed.tobytes()) == x.attrs['rows_xxh3'], 'rows_xxh3'
    print('ok', n, m, used.sum())


main(sys.argv[1])
