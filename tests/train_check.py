#!/usr/bin/env python3
"""Checks on what dntrain writes, for its bats files.

train_check.py weights PACKAGE MODEL.pt TOLERANCE     auxiliary and main net against upstream's state dict
train_check.py near A B TOLERANCE                     two runs' networks, of packages or checkpoints (with optimisers): absolute, or
                                                      relative to the array's largest number if that is above 1
train_check.py draws CHECKPOINT                       the generator's state and the order of the samples, as one line
train_check.py weights-hash PACKAGE                   one line that is equal for equal weights
train_check.py log OURS GOLDEN TOLERANCE [EPOCHS]     losses, relative, of the first EPOCHS (default: all) and their best epoch
train_check.py best OURS GOLDEN                       the same best epoch
train_check.py round-trip LOG                         every number is in a form that reads back exactly, none is longer
train_check.py npz-folds PARTITION.npz                upstream's folds as text for mksplit
train_check.py steps CHECKPOINT                       training steps made
train_check.py checkpoint CHECKPOINT LOG PACKAGE      a finished task's checkpoint by docs/format-checkpoint.md
train_check.py finite LOG PACKAGE                     every number in both is finite
train_check.py oracle-log OURS ORACLE TOLERANCE       losses against the oracle's, and the same accuracies
train_check.py test-pass PREDICTIONS SCORES FOLDS.txt FOLD LABELS LOG   dnpredict's table against dntrain's test pass
"""
import csv
import hashlib
import sys


def package_arrays(path):
    import h5py
    out = {}
    with h5py.File(path, 'r') as f:
        def visit(name, obj):
            if isinstance(obj, h5py.Dataset) and name.split('/')[0] in ('aux', 'main', 'fat'):
                out[name] = obj[()]
        f.visititems(visit)
    return out


def torch_name(name):
    group, layer, what = name.split('/')
    layer = int(layer)
    if group == 'aux':
        return f'aux_net.hidden_layers.{layer}.weight'
    bn = {'bn_gamma': 'weight', 'bn_beta': 'bias', 'bn_mean': 'running_mean', 'bn_var': 'running_var'}
    if what in bn:
        return 'main_net.bn_fatLayer.' + bn[what] if layer == 0 else f'main_net.bn.{layer - 1}.{bn[what]}'
    return 'main_net.fat_bias' if layer == 0 else f'main_net.hidden_layers.{layer - 1}.{what}'


def weights(package, model, tolerance):
    import numpy as np
    import torch
    ours = package_arrays(package)
    theirs = {k: v.numpy() for k, v in torch.load(model, map_location='cpu')['model_state_dict'].items()
              if 'num_batches' not in k}
    last = max(int(k.split('/')[1]) for k in ours if k.startswith('main/'))
    seen = set()
    for name, a in ours.items():
        if name.startswith('fat/'):
            continue
        t = torch_name(name)
        if name.startswith(f'main/{last}/'):
            t = 'main_net.out.' + name.split('/')[2]
        b = theirs[t]
        assert a.shape == b.shape, (name, a.shape, t, b.shape)
        d = np.abs(a.astype(float) - b).max()
        assert d <= tolerance, f'{name}: differs by {d}'
        seen.add(t)
    assert seen == set(theirs), set(theirs) - seen
    print(f'{len(seen)} arrays equal to {tolerance}')


def near(one, two, tolerance):
    import numpy as np
    def arrays(path):
        if path.endswith('.ckpt'):
            return {k: v for k, v in checkpoint_arrays(path).items() if k.startswith(('net/', 'best/', 'adam_m/', 'adam_v/'))}
        return package_arrays(path)

    a, b = arrays(one), arrays(two)
    assert a.keys() == b.keys(), a.keys() ^ b.keys()
    worst = 0
    for k in a:
        d = np.abs(a[k].astype(float) - b[k]).max() / max(1, np.abs(b[k]).max())
        worst = max(worst, d)
        assert d <= tolerance, f'{k}: differs by {d:.1e}'
    print(f'{len(a)} arrays differ by {worst:.1e} at most')


def draws(path):
    c = checkpoint_arrays(path)
    print(hashlib.sha256(c['rng'].tobytes()).hexdigest(), hashlib.sha256(c['order'].tobytes()).hexdigest(), len(c['order']), *c['place'][:2])


def read_log(path):
    with open(path, newline='') as f:
        return list(csv.DictReader(f, delimiter='\t'))


def best_of(rows):
    best = None
    for r in rows:
        if r['epoch'] == 'test':
            continue
        key = (-round(float(r.get('valid_acc') or 0), 9), float(r['valid_loss']))
        if best is None or key < best[0]:
            best = (key, int(r['epoch']))
    return best[1]


def compare_logs(ours, golden, tolerance, epochs=None):
    a, b = read_log(ours), read_log(golden)
    if epochs is not None:
        a, b = ([r for r in rows if r['epoch'] != 'test' and int(r['epoch']) <= epochs] for rows in (a, b))
        assert len(a) == epochs + 1
    assert [r['epoch'] for r in a] == [r['epoch'] for r in b], ([r['epoch'] for r in a], [r['epoch'] for r in b])
    worst = 0
    for x, y in zip(a, b):
        for k in ('train_loss', 'valid_loss', 'eval_train_loss'):
            assert bool(x[k]) == bool(y[k]), (x['epoch'], k)
            if x[k]:
                d = abs(float(x[k]) / float(y[k]) - 1)
                worst = max(worst, d)
                assert d <= tolerance, f"epoch {x['epoch']}: {k} {x[k]}, upstream {y[k]}: differs by {d:.1e}"
    print(f'losses agree to {worst:.1e}')


def round_trip(path):
    with open(path) as f:
        f.readline()
        for line in f:
            for v in line.rstrip('\n').split('\t'):
                if v and v != 'test':
                    shortest = repr(float(v))
                    assert float(v) == float(shortest) and len(v) <= len(shortest) + 2, (v, shortest)


def checkpoint_arrays(path):
    """A second reader of docs/format-checkpoint.md: name -> array or text. Checksums are left to the first one."""
    import struct

    import numpy as np
    with open(path, 'rb') as f:
        b = f.read()
    assert b[:8] == b'\x89DNCKPT\n' and struct.unpack_from('<I', b, 8)[0] == 1
    size, n = struct.unpack_from('<QQ', b, 16)
    assert size == len(b)
    out = {}
    for i in range(n):
        at = 64 + 88 * i
        name = b[at:at + 64].rstrip(b'\0').decode()
        kind = b[at + 64:at + 72].rstrip(b'\0').decode()
        offset, count = struct.unpack_from('<QQ', b, at + 72)
        if kind == 'text':
            out[name] = b[offset:offset + count].decode()
        else:
            t = {'u32': '<u4', 'u64': '<u8', 'f32': '<f4', 'f64': '<f8'}[kind]
            out[name] = np.frombuffer(b, t, count, offset)
    return out


def checkpoint(path, log, package):
    import numpy as np
    c = checkpoint_arrays(path)
    identity = dict(line.split(': ', 1) for line in c['identity'].splitlines())
    with open(log) as f:
        lines = f.read().splitlines(keepends=True)
    assert c['log'] == ''.join(lines[:-1]) and lines[-1].startswith('test\t')
    rows = read_log(log)
    epochs = int(rows[-2]['epoch'])
    place, sums = c['place'], c['sums']
    assert len(place) == 12 and len(sums) == 12
    assert place[0] == epochs and place[5] == 1 and len(c['order']) == 0 and int(identity['epochs']) >= epochs
    assert place[3] == best_of(rows)
    best = rows[place[3]]
    assert sums[3] == float(best['valid_loss']) and sums[4] == float(best['valid_acc'])
    assert sums[5] == float(rows[-1]['valid_loss']) and sums[6] == float(rows[-1]['valid_acc'])
    rate = float(rows[-2]['lr_aux']) * float(identity['learning_rate_annealing'])
    assert abs(sums[1] / rate - 1) < 1e-12
    assert len(c['rng']) == 625 and c['rng'][624] <= 624
    for name, a in package_arrays(package).items():
        if not name.startswith('fat/'):
            assert np.array_equal(c['best/' + name], a.ravel()), name
            assert c['net/' + name].size == a.size
            running = name.endswith(('bn_mean', 'bn_var'))
            assert ('adam_m/' + name in c) == (not running) and ('adam_v/' + name in c) == (not running)
    print(f'{len(c)} arrays')


def finite(log, package):
    import math

    import numpy as np
    for r in read_log(log):
        for k, v in r.items():
            assert k == 'epoch' or not v or math.isfinite(float(v)), r
    for k, a in package_arrays(package).items():
        assert np.isfinite(a).all(), k


def npz_folds(path):
    import numpy as np
    for f, sets in enumerate(np.load(path, allow_pickle=True)['folds_indexes']):
        for name, people in zip(('train', 'valid', 'test'), sets):
            print(f, name, *people)


def oracle_log(ours, oracle, tolerance):
    a, b = read_log(ours), read_log(oracle)
    for x, y in zip(a, b):
        assert x['epoch'] == y['epoch']
        for k in ('train_loss', 'valid_loss'):
            if y[k]:
                d = abs(float(x[k]) / float(y[k]) - 1)
                assert d <= tolerance, f"epoch {x['epoch']}: {k} {x[k]}, oracle {y[k]}: differs by {d:.1e}"
        if 'valid_acc' in y and y['valid_acc']:
            assert abs(float(x['valid_acc']) - float(y['valid_acc'])) < 1e-9, (x, y)
    assert len(a) == len(b) + 1


def test_pass(predictions, scores, folds, fold, labels, log):
    import h5py
    import numpy as np
    with open(folds) as f:
        test = [list(map(int, line.split()[2:])) for line in f if line.split()[:2] == [fold, 'test']][0]
    with open(labels) as f:
        label = dict(line.rstrip('\n').split('\t') for line in f)
    names = sorted(set(label.values()) - {'label'})
    rows = read_log(predictions)
    with h5py.File(scores, 'r') as f:
        prob = f['scores'][0].astype(float)
    truth = [label[rows[i]['samples']] for i in test]
    right = sum(rows[i]['model1'] == t for i, t in zip(test, truth))
    loss = -np.mean([np.log(prob[i, names.index(t)]) for i, t in zip(test, truth)])
    last = read_log(log)[-1]
    assert last['epoch'] == 'test'
    assert abs(right / len(test) - float(last['valid_acc'])) < 1e-12, (right / len(test), last)
    assert abs(loss / float(last['valid_loss']) - 1) < 1e-5, (loss, last)
    print(f'{right} of {len(test)}')


def main():
    cmd, args = sys.argv[1], sys.argv[2:]
    if cmd == 'weights':
        weights(args[0], args[1], float(args[2]))
    elif cmd == 'weights-hash':
        h = hashlib.sha256()
        for k, v in sorted(package_arrays(args[0]).items()):
            h.update(k.encode() + v.tobytes())
        print(h.hexdigest())
    elif cmd == 'near':
        near(args[0], args[1], float(args[2]))
    elif cmd == 'draws':
        draws(args[0])
    elif cmd == 'log':
        compare_logs(args[0], args[1], float(args[2]), int(args[3]) if len(args) > 3 else None)
    elif cmd == 'best':
        a, b = best_of(read_log(args[0])), best_of(read_log(args[1]))
        assert a == b, f'best epoch {a}, upstream {b}'
        print(f'best epoch {a}')
    elif cmd == 'steps':
        print(checkpoint_arrays(args[0])['place'][4])
    elif cmd == 'checkpoint':
        checkpoint(*args)
    elif cmd == 'finite':
        finite(*args)
    elif cmd == 'npz-folds':
        npz_folds(args[0])
    elif cmd == 'oracle-log':
        oracle_log(args[0], args[1], float(args[2]))
    elif cmd == 'test-pass':
        test_pass(*args)
    elif cmd == 'round-trip':
        round_trip(args[0])
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main()
