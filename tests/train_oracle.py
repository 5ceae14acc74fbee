#!/usr/bin/env python3
"""Random small networks: dntrain against the oracle (../shared/oracle/dietnet_ref.py), draw for draw.

train_oracle.py ORACLE BIN TOOLS SEED [SEED ...]    works in the present folder

A case has 0 to 3 hidden layers and 1 to 3 auxiliary ones, odd sizes everywhere, missing calls, SNPs that do not vary, and often
a last batch of one, which is joined to the one before (the oracle's class is driven batch by batch here, with that rule).
From seed 1000 on it has 33,000 SNPs and few missing calls: then the CPU leaves features of the embedding out that follow from others.
"""
import os
import subprocess
import sys

import numpy as np

CODE = {0: 3, 1: 2, 2: 0, -1: 1}


def write_plink(prefix, x):
    n, m = x.shape
    with open(prefix + '.bed', 'wb') as f:
        f.write(b'\x6c\x1b\x01')
        for j in range(m):
            row = [CODE[int(g)] for g in x[:, j]]
            f.write(bytes(sum(c << 2 * k for k, c in enumerate(row[i:i + 4])) for i in range(0, n, 4)))
    with open(prefix + '.bim', 'w') as f:
        for j in range(m):
            f.write(f'1\trs{j}\t0\t{100 + j}\tA\tG\n')
    with open(prefix + '.fam', 'w') as f:
        for i in range(n):
            f.write(f'F{i}\tS{i}\t0\t0\t0\t-9\n')


def batches(n, size):
    k = -(-n // size)
    if k > 1 and n % size == 1:
        k -= 1
    return [(i * size, n if i + 1 == k else (i + 1) * size) for i in range(k)]


def oracle_losses(ref, cfg, x, y, n_classes, train, valid, epochs):
    """(epoch, training loss, validation loss, validation accuracy) rows."""
    xt, yt = x[train], y[train]
    ok = xt >= 0
    mean = (xt * ok).sum(0) / ok.sum(0)
    sd = np.sqrt((((xt - mean) * ok) ** 2).sum(0) / (ok.sum(0) - 1)) + 1e-6
    flat = sd <= 1.000001e-6
    emb = np.concatenate([[(xt[yt == c] == g).sum(0) / (yt == c).sum() for g in range(3)] for c in range(n_classes)]).T
    norm = np.sqrt((emb ** 2).sum(0))
    rng = ref.Torch(cfg['seed'])
    net = ref.DietNet(emb, n_classes, cfg, rng)
    net.e = emb / np.where(norm > 0, norm, 1)
    std = lambda r: np.where((r >= 0) & ~flat, (r - mean) / sd, 0.0)

    def evaluate(idx):
        z = net.forward(std(x[idx]), False)
        return ref.softmax_loss(z, y[idx])[0] / len(idx), (z.argmax(1) == y[idx]).mean()

    rng.int64()
    rows = [(0, None) + evaluate(valid)]
    lra, lrm = cfg['lr_aux'], cfg['lr_main']
    for ep in range(1, epochs + 1):
        rng.int64()
        order = np.array(train)[ref.Torch(rng.int64()).permutation(len(train))]
        total = 0
        for a, b in batches(len(order), cfg['batch_size']):
            p = order[a:b]
            loss, d = ref.softmax_loss(net.forward(std(x[p]), True), y[p])
            total += loss
            net.step(net.backward(d), lra, lrm)
        rng.int64(), rng.int64(), rng.int64()
        lra *= cfg['learning_rate_annealing']
        lrm *= cfg['learning_rate_annealing']
        rows.append((ep, total / len(order)) + evaluate(valid))
    return rows


def run_case(ref, bin_dir, tools, seed):
    r = np.random.RandomState(seed)
    n, m, c = r.randint(30, 90), r.randint(5, 140), r.randint(2, 6)
    if seed >= 1000:
        m = 33000
    y = np.concatenate([np.arange(c), r.randint(0, c, n - c)])
    freq = r.uniform(0.05, 0.95, (c, m))
    x = r.binomial(2, freq[y]).astype(int)
    x[r.uniform(size=x.shape) < (0.03 if seed < 1000 else 0.001)] = -1
    for j in r.choice(m, size=m // 8 + 1, replace=False):
        x[:, j] = r.randint(0, 3)  # does not vary
    x[0, r.randint(0, m)] = -1
    n_train = n * 3 // 5
    people = r.permutation(n)
    train, valid, test = people[:n_train], people[n_train:n * 4 // 5], people[n * 4 // 5:]
    size = int(r.choice([n_train - 1, (n_train - 1) // 2 or 2, r.randint(2, n_train + 10)]))
    cfg = dict(batch_size=max(size, 2), epochs=3, input_dropout=float(r.choice([0.0, 0.3])), dropout_main=float(r.choice([0.0, 0.4])),
               lr_aux=0.002, lr_main=0.003, learning_rate_annealing=0.9,
               nb_hidden_u_aux=[int(k) for k in r.randint(1, 20, r.randint(1, 4))],
               nb_hidden_u_main=[int(k) for k in r.randint(2, 20, seed % 4)], uniform_init_limit=0.2, patience=50,
               seed=int(r.randint(0, 2**31 - 1)))
    name = f'case{seed}'
    write_plink(name, x)
    with open(name + '.labels.tsv', 'w') as f:
        f.write('sample\tlabel\n' + ''.join(f'S{i}\tc{k}\n' for i, k in enumerate(y)))
    with open(name + '.yaml', 'w') as f:
        f.write(''.join(f'{k}: {v}\n' for k, v in cfg.items()))
    with open(name + '.folds', 'w') as f:
        for what, idx in (('train', train), ('valid', valid), ('test', test)):
            print(0, what, *idx, file=f)
    sh = lambda *a: subprocess.run([str(v) for v in a], check=True)
    sh(f'{bin_dir}/gpack', '-q', '--bfile', name, '--labels', name + '.labels.tsv', '-o', name + '.gpk')
    sh(f'{tools}/mksplit', name + '.gpk', name + '.folds', name + '.split.h5')
    sh(f'{bin_dir}/dntrain', '-q', '--data', name + '.gpk', '--split', name + '.split.h5', '--config', name + '.yaml', '--fold', 0,
       '-o', name + '.out', '--threads', 1 + seed % 3)
    with open(f'{name}.out/seed{cfg["seed"]}_fold0.log.tsv') as f:
        f.readline()
        ours = [line.rstrip('\n').split('\t') for line in f]
    worst = 0
    want = oracle_losses(ref, cfg, x, y, c, train, valid, 3)
    assert len(ours) == len(want) + 1
    for a, b in zip(ours, want):
        assert int(a[0]) == b[0]
        for got, exp in ((a[1], b[1]), (a[3], b[2])):
            if exp is not None:
                worst = max(worst, abs(float(got) / exp - 1))
    assert worst < 1e-5, f'{name}: losses differ by {worst:.1e}: {cfg}'
    return worst


def main():
    oracle, bin_dir, tools = sys.argv[1:4]
    sys.path.insert(0, os.path.dirname(oracle))
    import dietnet_ref as ref
    worst = [run_case(ref, bin_dir, tools, int(s)) for s in sys.argv[4:]]
    print(f'{len(worst)} networks, largest difference {max(worst):.1e}')


if __name__ == '__main__':
    main()
