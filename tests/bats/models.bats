#!/usr/bin/env bats
# Files of other people: .pt and .npz that Python would run, that are cut, or that come from other versions.

load ../lib

setup() {
    PY=$PYTHON
    cd "$BATS_TEST_TMPDIR" || return 1
}

need_golden() { need_shared; }
need_numpy() { "$PY" -c 'import numpy' 2>/dev/null || skip "no NumPy"; }

@test "a .pt that would run os.system when PyTorch loads it is refused, by every protocol, and nothing runs" {
    "$PY" - <<'PY'
import os, pickle, zipfile
class Bad:
    def __reduce__(self):
        return os.system, ("touch ran-it",)
for proto in range(6):
    with zipfile.ZipFile(f"bad{proto}.pt", "w") as z:
        z.writestr("archive/data.pkl", pickle.dumps({"epoch": 1, "model_state_dict": Bad()}, proto))
        z.writestr("archive/version", "3\n")
PY
    for proto in 0 1 2 3 4 5; do
        run "$TOOLS/inspect" pt "bad$proto.pt"
        [ "$status" -eq 4 ] || { echo "$proto: $status $output"; false; }
        [[ $output == *"opcode"*"at byte"* ]] || { echo "$proto: $output"; false; }
    done
    run "$TOOLS/inspect" pt bad2.pt
    [[ $output == *"GLOBAL"*"posix system"*"refused"* ]]
    # The trap is real: Python does run it.
    "$PY" -c 'import pickle, zipfile; pickle.loads(zipfile.ZipFile("bad2.pt").read("archive/data.pkl"))'
    [ -e ran-it ]
    rm ran-it
    for proto in 0 1 2 3 4 5; do "$TOOLS/inspect" pt "bad$proto.pt" || true; done
    [ ! -e ran-it ]
}

@test "a release with such a member is refused as a whole" {
    need_golden
    cp -r "$SHARED/golden/kgp3/release" r && chmod -R u+w r
    "$PY" - <<'PY'
import os, pickle, zipfile
class Bad:
    def __reduce__(self):
        return os.system, ("touch ran-it",)
src = zipfile.ZipFile("r/DN_MODELS/weights_model2_2.pt")
with zipfile.ZipFile("new.pt", "w") as z:
    for n in src.namelist():
        z.writestr(n, pickle.dumps(Bad(), 2) if n.endswith("data.pkl") else src.read(n))
os.replace("new.pt", "r/DN_MODELS/weights_model2_2.pt")
PY
    run "$TOOLS/inspect" model r
    [ "$status" -eq 4 ]
    [[ $output == *"weights_model2_2.pt"*"GLOBAL"*"posix system"* ]]
    [ ! -e ran-it ]
}

@test "CS10: a half-copied .pt or .npz, cut in every section, is refused as damaged" {
    need_golden
    m=$SHARED/golden/kgp3/release/DN_MODELS
    for f in weights_model1_1.pt norm_stats_model1.npz; do
        size=$(stat -c %s "$m/$f")
        for cut in 0 1 3 10 29 60 300 2000 $((size / 4)) $((size / 2)) $((size * 3 / 4)) $((size - 2000)) $((size - 500)) $((size - 23)) $((size - 21)) $((size - 1)); do
            head -c "$cut" "$m/$f" >"cut.${f##*.}"
            if [[ $f == *.pt ]]; then run "$TOOLS/inspect" pt cut.pt; else run "$TOOLS/inspect" npz cut.npz mean; fi
            [ "$status" -eq 4 ] || { echo "$f at $cut: $status $output"; false; }
            [[ $output == *"cut."* ]] || { echo "$f at $cut: $output"; false; }
        done
    done
}

@test "CS10: one byte of a weight flipped is found by the checksum" {
    need_golden
    "$PY" - "$SHARED/golden/kgp3/release/DN_MODELS/weights_model1_1.pt" <<'PY'
import sys
b = bytearray(open(sys.argv[1], "rb").read())
b[60000] ^= 1
open("flip.pt", "wb").write(b)
PY
    run "$TOOLS/inspect" pt flip.pt
    [ "$status" -eq 4 ]
    [[ $output == *"best_model/data/"*"damaged"* ]]
}

@test "random damage to .pt and .npz: an error or the same numbers, never a crash" {
    need_golden
    "$PY" - "$SHARED/golden" <<'PY'
import random, sys
random.seed(5)
def damage(name, out, n):
    src = open(name, "rb").read()
    for k in range(n):
        b = bytearray(src)
        for _ in range(random.choice((1, 1, 2, 5))):
            # half of the hits in the directory at the end and in the pickle
            i = random.randrange(len(b)) if random.random() < .4 else random.choice((random.randrange(3000), len(b) - 1 - random.randrange(1800)))
            b[i] = random.randrange(256)
        if random.random() < .2:
            a = random.randrange(len(b)); del b[a:a + random.randrange(1, 50)]
        open(f"{out}{k}", "wb").write(b)
damage(sys.argv[1] + "/kgp3/release/DN_MODELS/weights_model1_1.pt", "w", 40)
damage(sys.argv[1] + "/kgp1/upstream/partition_seed124.npz", "p", 40)
PY
    for k in $(seq 0 39); do
        run timeout 20 "$TOOLS/inspect" pt "w$k"
        [ "$status" -eq 0 ] || [ "$status" -eq 4 ] || [ "$status" -eq 8 ] || [ "$status" -eq 10 ] || { echo "w$k: $status $output"; false; }
        run timeout 20 "$TOOLS/inspect" npz "p$k" folds_indexes
        [ "$status" -eq 0 ] || [ "$status" -eq 4 ] || [ "$status" -eq 8 ] || { echo "p$k: $status $output"; false; }
    done
}

@test "index lists pickled by every protocol, as lists, tuples and arrays, stored and deflated" {
    need_numpy
    "$PY" - <<'PY'
import io, pickle, zipfile, numpy as np
lists = [[3, 1, 2], [], list(range(1500)), [70000, 5], [2**40]]
kinds = {"list": lambda x: x, "tuple": tuple, "i64": lambda x: np.array(x, np.int64), "u4": lambda x: np.array(x, np.uint64)}
want = "\n".join(",".join(map(str, x)) for x in lists)
open("want", "w").write(want + "\n")
for kind, f in kinds.items():
    a = np.empty(5, object)
    for i, x in enumerate(lists):
        a[i] = f(x)
    for proto in (2, 3, 4, 5):
        buf = io.BytesIO()
        np.lib.format._write_array_header(buf, np.lib.format.header_data_from_array_1_0(a), None)
        pickle.dump(a, buf, proto)
        for m in (0, 8):
            with zipfile.ZipFile(f"{kind}{proto}_{m}.npz", "w", m) as z:
                z.writestr("x.npy", buf.getvalue())
PY
    for f in *.npz; do
        run "$TOOLS/inspect" npz "$f" x
        [ "$status" -eq 0 ] || { echo "$f: $output"; false; }
        [ "$(tail -n +2 <<<"$output")" = "$(cat want)" ] || { echo "$f: $output"; false; }
    done
}

@test "arrays of every number type, in C and Fortran order, .npy and .npz, equal NumPy's" {
    need_numpy
    "$PY" - <<'PY'
import numpy as np
rng = np.random.RandomState(1)
a = rng.randint(0, 100, (3, 4, 5))
for t in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"):
    for order in "CF":
        x = np.asarray(a, t, order)
        np.save(f"{t}{order}.npy", x)
        np.savez(f"{t}{order}_s.npz", y=np.zeros(2), x=x)
        np.savez_compressed(f"{t}{order}_d.npz", x=x)
np.savetxt("want", a.ravel(), "%d")
np.save("empty.npy", np.zeros((0, 3)))
np.save("big.npy", np.zeros(3, ">f8"))
PY
    for f in *[CF].npy *[CF]_?.npz; do
        run "$TOOLS/inspect" npz "$f" x
        [ "$status" -eq 0 ] || { echo "$f: $output"; false; }
        [ "$(tail -n +2 <<<"$output")" = "$(cat want)" ] || { echo "$f: $output"; false; }
    done
    run "$TOOLS/inspect" npz empty.npy x
    [ "$status" -eq 0 ] && [ "$output" = "f8 0 3" ]
    run "$TOOLS/inspect" npz big.npy x
    [ "$status" -eq 8 ]
}

@test "PyTorch's own files: float, double and bfloat16 weights, views and transposes; other kinds by name" {
    "$PY" -c 'import torch' 2>/dev/null || skip "no PyTorch"
    "$PY" - <<'PY'
import torch, collections
torch.manual_seed(1)
a = torch.randn(5, 4)
d = collections.OrderedDict(a=a, t=a.t(), v=a[1:4, 2:], d=a.double(), s=a[2], z=torch.zeros(0, 3), c=torch.nn.Linear(3, 2).weight.detach())
torch.save(d, "bare.pt")
torch.save({"epoch": 3, "model_state_dict": d, "more": {"list": [1, 2.5, None, True, "x"]}}, "wrapped.pt")
torch.save({"b": a.bfloat16()}, "bf16.pt")
torch.save({"i": a.long()}, "long.pt")
torch.save({"f": a, "g": torch.tensor([1.0, float("inf")])}, "inf.pt")
torch.save({"f": a}, "legacy.pt", _use_new_zipfile_serialization=False)
torch.save(torch.nn.Linear(2, 2), "module.pt")
torch.save([1, 2], "list.pt")
def show(d):
    for k, v in d.items():
        f = v.float().contiguous().view(-1).double()
        s = float((f * torch.arange(1, f.numel() + 1).double()).sum())
        print(k, *v.shape, "=", "%.9g" % s)
import sys
sys.stdout = open("want", "w")
show(d)
sys.stdout = open("want16", "w")
show({"b": a.bfloat16()})
PY
    for f in bare wrapped; do
        run "$TOOLS/inspect" pt $f.pt
        [ "$status" -eq 0 ] && [ "$output" = "$(cat want)" ] || { echo "$f: $output"; cat want; false; }
    done
    run "$TOOLS/inspect" pt bf16.pt
    [ "$status" -eq 0 ] && [ "$output" = "$(cat want16)" ]
    run "$TOOLS/inspect" pt long.pt
    [ "$status" -eq 8 ]
    run "$TOOLS/inspect" pt inf.pt
    [ "$status" -eq 10 ]
    [[ $output == *"tensor g: number 1 is not finite"* ]]
    run "$TOOLS/inspect" pt legacy.pt
    [ "$status" -eq 8 ]
    [[ $output == *"before version 1.6"* ]]
    run "$TOOLS/inspect" pt module.pt
    [ "$status" -eq 4 ]
    [[ $output == *"torch.nn.modules.linear Linear"* ]]
    run "$TOOLS/inspect" pt list.pt
    [ "$status" -eq 4 ]
}

@test "NU02: a release whose weights or statistics are not finite is refused" {
    need_golden
    need_numpy
    cp -r "$SHARED/golden/kgp3/release" r && chmod -R u+w r
    "$PY" - <<'PY'
import numpy as np
p = "r/DN_MODELS/norm_stats_model3.npz"
d = dict(np.load(p)); d["std"][7] = np.inf
np.savez(p, **d)
PY
    run "$TOOLS/inspect" model r
    [ "$status" -eq 10 ]
    [[ $output == *"fold 3"*"SNP "* ]]
    # A SNP without a call in the training fold is upstream's NaN: it contributes nothing, and the model is fine.
    "$PY" - <<'PY'
import numpy as np
p = "r/DN_MODELS/norm_stats_model3.npz"
d = dict(np.load(p)); d["std"][7] = np.nan; d["mean"][7] = np.nan
np.savez_compressed(p, **d)
PY
    run "$TOOLS/inspect" model r
    [ "$status" -eq 0 ]
}

@test "a release gives the same fat weights with 1, 2 and 7 threads, and through deflated .npz" {
    need_golden
    need_numpy
    "$TOOLS/inspect" model "$SHARED/golden/kgp3/release" --threads 1 >t1
    "$TOOLS/inspect" model "$SHARED/golden/kgp3/release" --threads 2 >t2
    "$TOOLS/inspect" model "$SHARED/golden/kgp3/release" --threads 7 >t7
    cmp t1 t2 && cmp t1 t7
    cp -r "$SHARED/golden/kgp3/release" r && chmod -R u+w r
    "$PY" - <<'PY'
import glob, numpy as np
for p in glob.glob("r/DN_MODELS/*.npz"):
    np.savez_compressed(p, **{k: np.asfortranarray(v) for k, v in np.load(p).items()})
PY
    "$TOOLS/inspect" model r --threads 2 >td
    cmp t1 td
}

@test "class names of a release: the published 24, a file, numbers on request, or a question" {
    need_golden
    r=$SHARED/golden/kgp1/release
    run "$TOOLS/inspect" model "$r"
    [ "$status" -eq 2 ]
    [[ $output == *"14 classes"*"--classes FILE"* ]]
    cut -f2 "$SHARED/realdata/kgp1_14k.labels.tsv" 2>/dev/null >l || cut -f2 "$(find "$SHARED/realdata" -name kgp1_14k.labels.tsv | head -1)" >l
    tail -n +2 l | sort -u >classes
    run "$TOOLS/inspect" model "$r" --classes classes
    [ "$status" -eq 0 ]
    [[ $output == *"class ASW"*"class YRI"* ]]
    head -13 classes >few
    run "$TOOLS/inspect" model "$r" --classes few
    [ "$status" -eq 5 ]
    [[ $output == *"names 13 classes"*"has 14"* ]]
    (head -13 classes; head -1 classes) >twice
    run "$TOOLS/inspect" model "$r" --classes twice
    [ "$status" -eq 4 ]
    run "$TOOLS/inspect" model "$r" --number
    [ "$status" -eq 0 ]
    [[ $output == *"class class0"* ]]
}

@test "any number of layers and units: no auxiliary net, three of it, no hidden layer, three of them; regression" {
    "$PY" -c 'import torch' 2>/dev/null || skip "no PyTorch"
    "$PY" - <<'PY'
import collections, os, numpy as np, torch
torch.manual_seed(4)
rng = np.random.RandomState(4)
def release(name, aux, main, n_out, m=2300, k=9):
    os.makedirs(name + "/DN_MODELS"), os.makedirs(name + "/DN_SNPS")
    open(name + "/DN_SNPS/dietnet_snps.txt", "w").write("".join("rs%d\n" % j for j in range(m)))
    e = rng.rand(m, k)
    e[:, 2] = 0  # a dosage that nobody has: upstream divides by zero, here it is 0
    np.savez(name + "/DN_MODELS/snps_emb_model1.npz", emb=e)
    np.savez(name + "/DN_MODELS/norm_stats_model1.npz", mean=rng.rand(m), std=rng.rand(m) + 1e-6)
    d, n = collections.OrderedDict(), k
    norm = np.sqrt((e ** 2).sum(0))
    a = e / np.where(norm > 0, norm, 1)
    for i, u in enumerate(aux):
        w = d["aux_net.hidden_layers.%d.weight" % i] = torch.randn(u, n)
        a, n = np.tanh(a @ w.numpy().T.astype(float)), u
    np.savetxt(name + "/fat", a.ravel(), "%.9g")
    def bn(p, u):
        for s in ("weight", "bias", "running_mean", "running_var"):
            d["%s.%s" % (p, s)] = torch.rand(u)
        d[p + ".num_batches_tracked"] = torch.tensor(3)
    d["main_net.fat_bias"] = torch.randn(n)
    bn("main_net.bn_fatLayer", n)
    for i, u in enumerate(main):
        d["main_net.hidden_layers.%d.weight" % i], d["main_net.hidden_layers.%d.bias" % i] = torch.randn(u, n), torch.randn(u)
        bn("main_net.bn.%d" % i, u)
        n = u
    d["main_net.out.weight"], d["main_net.out.bias"] = torch.randn(n_out, n), torch.randn(n_out)
    torch.save({"epoch": 1, "model_state_dict": d}, name + "/DN_MODELS/weights_model1_1.pt")
    return d
release("none", [], [7], 3)
release("three", [20, 5, 11], [6, 4, 3], 4)
release("bare", [8], [], 2)
release("wide", [130], [200], 5)
release("trait", [6], [5], 1)
d = release("odd", [6], [5], 2)
d["main_net.skip.weight"] = torch.ones(2, 2)
torch.save({"model_state_dict": d}, "odd/DN_MODELS/weights_model1_1.pt")
del d["main_net.skip.weight"]
d["main_net.bn.0.running_var"][1] = -1
os.makedirs("neg"), os.system("cp -r odd/. neg")
torch.save({"model_state_dict": d}, "neg/DN_MODELS/weights_model1_1.pt")
PY
    for r in none:9:7:3 three:11:6:4:3:4 bare:8:2 wide:130:200:5 trait:6:5:1; do
        name=${r%%:*} units=${r#*:}
        run "$TOOLS/inspect" model "$name" --number --fat --threads 2
        expect_exit 0
        expect_text "units ${units//:/ } fat"
        grep -v '[a-z]*[g-z] ' <<<"$output" | grep -E '^-?[0-9]' >got
        run "$PY" -c '
import numpy as np, sys
a, b = np.loadtxt("got"), np.loadtxt(sys.argv[1] + "/fat")
assert a.shape == b.shape and np.abs(a - b).max() < 3e-6, np.abs(a - b).max()' "$name"
        expect_exit 0
    done
    run "$TOOLS/inspect" model trait
    expect_exit 0
    expect_text "task 1"
    refute=$(grep -c '^class' <<<"$output" || true)
    [ "$refute" -eq 0 ]
    run "$TOOLS/inspect" model odd --number
    expect_exit 8
    expect_text "another architecture"
    run "$TOOLS/inspect" model neg --number
    expect_exit 10
    expect_text "running_var" "negative"
}
