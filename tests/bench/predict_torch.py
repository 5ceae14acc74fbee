#!/usr/bin/env python3
"""What a straightforward PyTorch inference costs, for the comparison in predict.sh.

    predict_torch.py SNPS THREADS

Follows the scheme of the published scripts: genotypes as int8, each sample fetched and standardised by itself in Python,
batches of 138, one pass over the data per model. Runs one model on 276 people and prints people per CPU second for 15 such
models; then the same for the matrix product alone, on floats that are there already. CPU time, since others may use the
machine.
"""
import sys
import time

import numpy as np
import torch

SNPS, THREADS = int(sys.argv[1]), int(sys.argv[2])
PEOPLE, BATCH, UNITS, CLASSES, MODELS = 276, 138, 100, 24, 15
torch.set_num_threads(THREADS)
rng = np.random.default_rng(1)
genotypes = rng.integers(-1, 3, (PEOPLE, SNPS), dtype=np.int8)
mean = torch.from_numpy(rng.random(SNPS) + 0.5)
sd = torch.from_numpy(rng.random(SNPS) + 0.5)
fat = torch.randn(UNITS, SNPS)
layers = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.BatchNorm1d(UNITS), torch.nn.Linear(UNITS, UNITS), torch.nn.ReLU(),
                             torch.nn.BatchNorm1d(UNITS), torch.nn.Linear(UNITS, CLASSES), torch.nn.Softmax(1)).eval()


class People(torch.utils.data.Dataset):
    def __len__(self):
        return PEOPLE

    def __getitem__(self, i):
        return torch.from_numpy(genotypes[i].astype(np.int64)), i


def standardise(x):
    mask = x >= 0
    return (mask * (x - mean) / sd * 1.0).float()


best = float("inf")
with torch.no_grad():
    for _ in range(2):
        start = time.process_time()
        for x, _ in torch.utils.data.DataLoader(People(), batch_size=BATCH):
            layers(standardise(x) @ fat.T).argmax(1)
        best = min(best, time.process_time() - start)
    product = float("inf")
    x = torch.randn(BATCH, SNPS)
    for _ in range(3):
        start = time.process_time()
        x @ fat.T
        product = min(product, time.process_time() - start)
print(PEOPLE / best / MODELS, BATCH / product / MODELS)
