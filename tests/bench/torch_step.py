#!/usr/bin/env python3
"""Time of one training step of the same network in PyTorch, as upstream writes it, on random standardised genotypes.

    torch_step.py SNPS BATCH THREADS REPEATS

Prints: seconds of wall clock, seconds of CPU per thread (best of the repeats). Decoding and standardising the batch, which
upstream does too, is not counted: its genotypes lie here as floats already.
"""
import sys
import time

import torch

M, B, threads, repeats = (int(a) for a in sys.argv[1:5])
C, H = 24, 100
torch.set_num_threads(threads)
torch.manual_seed(1)
emb = torch.rand(M, 3 * C) / M**0.5
x = torch.randn(B, M)
y = torch.arange(B) % C
aux = torch.nn.Sequential(torch.nn.Linear(3 * C, H, bias=False), torch.nn.Tanh(), torch.nn.Linear(H, H, bias=False), torch.nn.Tanh())
bias = torch.nn.Parameter(torch.zeros(H))
main = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.BatchNorm1d(H), torch.nn.Linear(H, H), torch.nn.ReLU(), torch.nn.BatchNorm1d(H),
                           torch.nn.Linear(H, C))
opt = [torch.optim.Adam(aux.parameters(), lr=1e-3), torch.optim.Adam([bias, *main.parameters()], lr=1e-3)]
wall = cpu = 1e9
for r in range(repeats + 1):
    w, c = time.monotonic(), time.process_time()
    loss = torch.nn.functional.cross_entropy(main(x @ aux(emb) + bias), y)
    for o in opt:
        o.zero_grad()
    loss.backward()
    for o in opt:
        o.step()
    w, c = time.monotonic() - w, (time.process_time() - c) / threads
    if r:
        wall, cpu = min(wall, w), min(cpu, c)
print("%.4f %.4f" % (wall, cpu))
