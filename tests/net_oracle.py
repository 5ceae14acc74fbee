#!/usr/bin/env python3
"""Compares tests/tools/nettrace.c with the NumPy Diet Network of ../shared/oracle, and with upstream's golden runs.

    net_oracle.py random N       N random small networks: losses of every epoch to 1e-5, weights
    net_oracle.py golden CASE    ../shared/golden/kgp3/train/CASE
    net_oracle.py threads        1, 2 and 7 threads, AVX2 and AVX-512: the same bytes

Environment: TOOLS (folder of nettrace), SHARED, WORK (a folder for temporary files). Exit 0 if all agree.
"""
import os
import subprocess
import sys

import numpy as np

SHARED, TOOLS, WORK = (os.environ[k] for k in ("SHARED", "TOOLS", "WORK"))
sys.path.insert(0, SHARED + "/oracle")
import dietnet_ref as ref  # noqa: E402


def words(v):
    return " ".join(map(str, v))


def run_tool(x, spec):
    """Runs nettrace; returns its lines of numbers."""
    x.astype(np.int8).tofile(WORK + "/x.i8")
    with open(WORK + "/spec", "w") as f:
        for k, v in spec.items():
            f.write("%s %s\n" % (k, words(v) if hasattr(v, "__len__") and not isinstance(v, str) else v))
    out = subprocess.run([TOOLS + "/nettrace", WORK + "/x.i8", str(x.shape[0]), str(x.shape[1]), WORK + "/spec"],
                         capture_output=True, text=True)
    if out.returncode:
        sys.exit("nettrace failed: " + out.stderr)
    return np.array([[float(t) for t in line.split()] for line in out.stdout.splitlines()])


def read_dump(path):
    d = {}
    for line in open(path):
        t = line.split()
        d[t[0]] = np.array(t[2:], float)
    return d


def statistics(x, y, n_classes):
    """Mean, sd, embedding as upstream; flat SNPs (no variation or no call) marked by sd = inf, so that they give 0."""
    ok = x >= 0
    n = ok.sum(0)
    mean = np.where(n > 0, (x * ok).sum(0) / np.maximum(n, 1), 0)
    ss = (((x - mean) * ok) ** 2).sum(0)
    sd = np.sqrt(ss / np.maximum(n - 1, 1)) + 1e-6
    sd[(ss == 0) | (n < 2)] = np.inf
    emb = np.concatenate([[(x[y == c] == g).sum(0) / max((y == c).sum(), 1) for g in range(3)] for c in range(n_classes)]).T
    return mean, sd, emb


class RoundedBatchNorm(ref.BatchNorm):
    """BatchNorm whose results are rounded to float32."""

    def forward(self, x, train):
        out = super().forward(x.astype(np.float32).astype(float), train)
        if train:
            self.xh = self.xh.astype(np.float32).astype(float)
        return out.astype(np.float32).astype(float)

    def backward(self, d):
        f = np.float32
        d = d.astype(f)
        xh = self.xh.astype(f)
        self.dg, self.db = (d * xh).sum(0).astype(float), d.sum(0).astype(float)
        return (f(self.g) * f(self.inv) * (d - d.mean(0) - xh * (d * xh).mean(0))).astype(float)


def oracle(x, y, target, spec, epochs, batch, rounded=0):
    """Per epoch: train loss, valid loss, valid accuracy, as the tool's columns 1, 3, 4. rounded: with float32 in BatchNorm and
    in the initial weights (a seed), to see how much a result depends on rounding."""
    train, valid = np.array(spec["train"]), np.array(spec["valid"])
    mean, sd, emb = statistics(x[train], y[train], spec["classes"])
    cfg = {"nb_hidden_u_aux": list(spec["aux"]), "nb_hidden_u_main": list(spec["main"]), "uniform_init_limit": spec["limit"],
           "input_dropout": spec["input_dropout"], "dropout_main": spec["dropout_main"]}
    rng = ref.Torch(spec["seed"])
    with np.errstate(all="ignore"):
        net = ref.DietNet(emb, 1 if target is not None else spec["classes"], cfg, rng)
    net.e = np.nan_to_num(net.e, nan=0.0)
    if rounded:
        noise = np.random.RandomState(rounded)
        for w in net.aux + net.w[1:]:
            w *= 1 + 1e-7 * noise.randn(*w.shape)
        net.bn = [RoundedBatchNorm(len(b.g)) for b in net.bn]

    def std(i):
        return np.where(x[i] >= 0, (x[i] - mean) / sd, 0.0)

    def loss_of(z, i):
        if target is None:
            return ref.softmax_loss(z, y[i])
        d = z[:, 0] - target[i]
        return (d * d).sum(), (2 * d / len(i))[:, None]

    def evaluate(i):
        z = net.forward(std(i), False)
        return loss_of(z, i)[0] / len(i), 0.0 if target is not None else (z.argmax(1) == y[i]).mean()

    rng.int64()
    lines = [[0.0, *evaluate(valid)]]
    lra, lrm = spec["lr_aux"], spec["lr_main"]
    for _ in range(epochs):
        rng.int64()
        order = train[ref.Torch(rng.int64()).permutation(len(train))]
        total, i = 0.0, 0
        while i < len(order):
            n = min(batch, len(order) - i)
            if len(order) - i - n == 1:
                n += 1
            b = order[i:i + n]
            loss, d = loss_of(net.forward(std(b), True), b)
            total += loss
            net.step(net.backward(d), lra, lrm)
            i += n
        rng.int64(), rng.int64(), rng.int64()
        lra *= spec["annealing"]
        lrm *= spec["annealing"]
        lines.append([total / len(order), *evaluate(valid)])
    return np.array(lines)


def worst(mine, other):
    return float((np.abs(mine - other) / np.maximum(np.abs(other), 1e-3)).max())


def random_case(k):
    r = np.random.RandomState(1000 + k)
    n, m, c = r.randint(12, 90), r.choice([1, 3, 31, 32, 33, 129, 384, 385, 500, 1301]), r.randint(2, 7)
    freq = r.beta(0.4, 0.4, (c, m))
    y = np.concatenate([np.arange(c), r.randint(0, c, n - c)])
    x = r.binomial(2, freq[y])
    x[r.rand(n, m) < r.choice([0, 0.02, 0.4])] = -1
    for what in range(3):  # SNPs of one dosage, of no calls, of one call
        j = r.rand(m) < 0.05
        x[:, j] = what if what else -1
        if what == 2:
            x[1:, j] = -1
    order = r.permutation(n)
    n_train = max(4, int(n * 0.75))
    spec = {
        "label": y, "classes": c, "train": order[:n_train], "valid": order[n_train:],
        "aux": r.randint(1, 40, r.randint(0, 4)), "main": r.randint(2, 40, r.randint(0, 4)),
        "batch": int(r.choice([2, 7, 16, 33, 100])), "epochs": 2, "seed": int(r.randint(1, 2**31)), "lr_aux": 1e-3, "lr_main": 2e-3,
        "annealing": 0.97, "input_dropout": float(r.choice([0, 0.2, 0.5])), "dropout_main": float(r.choice([0, 0.25, 0.5])),
        "limit": 0.05, "threads": int(r.randint(1, 4)),
    }
    target = None
    if k % 4 == 3:
        target = spec["target"] = np.round(r.randn(n), 4)
    return x, y, target, spec


def random_cases(n):
    bad = clear = 0
    for k in range(n):
        x, y, target, spec = random_case(k)
        mine = run_tool(x, spec)
        other = oracle(x, y, target, spec, spec["epochs"], spec["batch"])
        # BatchNorm over two or three people passes on next to no gradient, and Adam blows up what is left, which is rounding: such a
        # case is judged by what rounding does to the oracle.
        diff, noise = worst(mine[:, [1, 3]], other[:, :2]), 0.0
        for seed in range(1, 5) if diff > 1e-5 else []:
            noise = max(noise, worst(oracle(x, y, target, spec, spec["epochs"], spec["batch"], seed)[:, :2], other[:, :2]))
        ok = diff < max(1e-5, 30 * noise)
        clear += diff < 1e-5
        print("%s case %d: M %d, aux %s, main %s, batch %d, dropout %g %g%s: differs by %.1e (rounding: %.1e)" % (
            "ok" if ok else "NOT OK", k, x.shape[1], list(spec["aux"]), list(spec["main"]), spec["batch"], spec["input_dropout"],
            spec["dropout_main"], ", regression" if target is not None else "", diff, noise))
        bad += not ok
    print("%d of %d cases agree to 1e-5" % (clear, n))
    # One in 20 may have met ReLU's kink, where no small disturbance tells.
    return bad > n // 20 or clear < 0.6 * n


def golden_data():
    g = SHARED + "/golden/kgp3"
    ids, x = ref.read_plink(SHARED + "/realdata/kgp3_26pop/kgp3_26pop_all")
    lab = dict(line.rstrip("\n").split("\t") for line in open(g + "/labels.tsv"))
    names = sorted(set(lab[i] for i in ids))
    y = np.array([names.index(lab[i]) for i in ids])
    train, valid, _ = np.load(g + "/upstream/partition_seed124.npz", allow_pickle=True)["folds_indexes"][0]
    return ids, x, y, len(names), train, valid


def golden_case(case):
    import yaml
    t = SHARED + "/golden/kgp3/train/" + case
    cfg = yaml.safe_load(open(t + "/config.yaml"))
    ids, x, y, c, train, valid = golden_data()
    spec = {"label": y, "classes": c, "train": train, "valid": valid, "aux": cfg["nb_hidden_u_aux"], "main": cfg["nb_hidden_u_main"],
            "batch": cfg["batch_size"], "epochs": cfg["epochs"], "seed": cfg["seed"], "lr_aux": cfg["lr_aux"], "lr_main": cfg["lr_main"],
            "annealing": cfg["learning_rate_annealing"], "input_dropout": cfg["input_dropout"], "dropout_main": cfg["dropout_main"],
            "limit": cfg["uniform_init_limit"], "threads": 2, "dump": WORK + "/dump"}
    target = None
    if case == "regression":
        rows = dict(line.split("\t") for line in open(t + "/latitude.tsv").read().splitlines()[1:])
        target = spec["target"] = np.array([float(rows[i]) for i in ids])
    mine = run_tool(x, spec)
    head, *log = [line.split("\t") for line in open(t + "/log.tsv").read().splitlines()]
    log = [dict(zip(head, line)) for line in log if line[0] != "test"]
    if case == "init":
        return compare_init(t)
    # Now and then a unit's input falls within rounding of ReLU's kink, and from there on two correct computations part: upstream
    # itself with another thread count, too. Which side a run takes is chance, so the late epochs are held only to what upstream's own
    # runs differ by; the oracle (float64) is printed beside. Until the second epoch nothing has been decided by rounding yet.
    exact = oracle(x, y, target, spec, spec["epochs"], spec["batch"])
    bad = 0
    for e, line in enumerate(log):
        cols = [(3, 1, "valid_loss")] + ([(1, 0, "train_loss")] if e else [])
        for col, ocol, name in cols:
            up, me, ex = float(line[name]), mine[e][col], exact[e][ocol]
            limit = 1e-6 if e <= 2 else 5e-2
            ok = abs(me / up - 1) < limit and abs(me / ex - 1) < limit
            print("%s epoch %d %s: upstream %.9f, ours %.9f (%.1e), exact %.9f (%.1e)" % (
                "ok" if ok else "NOT OK", e, name, up, me, me / up - 1, ex, ex / up - 1))
            bad += not ok
    return bad


def compare_init(t):
    """Initial weights against upstream's checkpoint (needs torch to read it)."""
    import torch
    state = torch.load(t + "/best_model.pt", map_location="cpu")["model_state_dict"]
    dump = read_dump(WORK + "/dump")
    names = {"aux/0/weight": "aux_net.hidden_layers.0.weight", "aux/1/weight": "aux_net.hidden_layers.1.weight",
             "main/0/bias": "main_net.fat_bias", "main/0/bn_gamma": "main_net.bn_fatLayer.weight",
             "main/1/weight": "main_net.hidden_layers.0.weight", "main/1/bias": "main_net.hidden_layers.0.bias",
             "main/1/bn_var": "main_net.bn.0.running_var", "main/2/weight": "main_net.out.weight", "main/2/bias": "main_net.out.bias"}
    bad = 0
    for ours, theirs in names.items():
        e = float(np.abs(dump[ours] - state[theirs].numpy().ravel()).max())
        print("%s %s: %.1e" % ("ok" if e <= 1e-7 else "NOT OK", ours, e))
        bad += e > 1e-7
    return bad


def threads():
    bad = 0
    for k in (0, 1, 3):
        x, _, _, spec = random_case(k)
        x = np.tile(x, (1, 5))
        spec["aux"] = [20, 17]
        got = []
        for t in (1, 2, 7):
            spec.update(threads=t, dump=WORK + "/dump%d" % t)
            lines = run_tool(x, spec)
            got.append((lines.tobytes(), open(spec["dump"], "rb").read()))
        if subprocess.run([TOOLS + "/nettrace"], env={**os.environ, "DN_ISA": "avx512"}, capture_output=True).returncode != 8:
            os.environ["DN_ISA"] = "avx2"
            got.append((run_tool(x, spec).tobytes(), open(spec["dump"], "rb").read()))
            del os.environ["DN_ISA"]
        same = all(g == got[0] for g in got)
        print("%s case %d" % ("ok" if same else "NOT OK", k))
        bad += not same
    return bad


if __name__ == "__main__":
    what = sys.argv[1]
    n_bad = random_cases(int(sys.argv[2])) if what == "random" else golden_case(sys.argv[2]) if what == "golden" else threads()
    sys.exit(1 if n_bad else 0)
