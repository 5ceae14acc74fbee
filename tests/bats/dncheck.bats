#!/usr/bin/env bats
# dncheck: files, folders of models (each kind of damage found and named), releases, held-out accuracy, the report.
load ../lib

# One small trained grid for all tests: 2 folds x 2 seeds.
setup_file() {
    export D=$BATS_FILE_TMPDIR
    cd "$D"
    "$TOOLS/dnsim" -q -o panel -n 240 -m 1500 -k 4 --regions 4 -s 3 --fst-region 0.25
    "$BIN/gpack" -q --bfile panel --labels panel.labels.tsv -o panel.gpk
    "$BIN/dnsplit" -q panel.gpk --folds 2 --seed 7 -o split.h5 >/dev/null
    "$BIN/dnsplit" -q panel.gpk --folds 2 --seed 8 -o other.h5 >/dev/null
    cat >config.yaml <<'YAML'
batch_size: 32
epochs: 14
input_dropout: 0.0
dropout_main: 0.1
lr_aux: 0.002
lr_main: 0.01
learning_rate_annealing: 0.99
nb_hidden_u_aux: [20, 20]
nb_hidden_u_main: [20]
patience: 14
seed: 1
uniform_init_limit: 0.05
YAML
    for t in 0 1 2 3; do
        "$BIN/dntrain" -q --data panel.gpk --split split.h5 --config config.yaml --folds 0-1 --seeds 1,2 --task "$t" -o models
    done
}

setup() {
    cd "$BATS_TEST_TMPDIR"
    cp -r "$D/models" m
}

@test "a whole grid passes, quick and full, and held-out accuracy is recomputed" {
    run "$BIN/dncheck" m --folds 0-1 --seeds 1,2
    expect_exit 0
    expect_text "2 folds x 2 seeds, each there once" "no two of 4 members are equal"
    run "$BIN/dncheck" m --full --data "$D/panel.gpk" --split "$D/split.h5" --confusion c.tsv --report r.html
    expect_exit 0
    expect_text "every member was trained on its fold of this split" "every member was trained on this dataset" ensemble calibration missing-snps
    [ "$(wc -l <c.tsv)" -eq 5 ]
    [ "$(awk -F'\t' 'NR > 1 {for (i = 2; i <= NF; i++) n += $i} END {print n}' c.tsv)" -eq 240 ]
}

@test "recomputed accuracy is what an independent count over dnpredict's table gives" {
    run "$BIN/dncheck" m --data "$D/panel.gpk" --split "$D/split.h5"
    expect_exit 0
    said=$(sed -n 's/.*seed1_fold0\taccuracy \([0-9.]*\),.*/\1/p' <<<"$output")
    "$BIN/snpmatch" -q --bfile "$D/panel" --model m/seed1_fold0.h5 -f -o p.gpk
    "$BIN/dnpredict" -q --model m/seed1_fold0.h5 p.gpk -o p.tsv
    want=$("$PYTHON" - "$D" <<'PY'
import csv, h5py, sys
d = sys.argv[1]
split = h5py.File(d + '/split.h5', 'r')
def find(g):
    for k in g:
        o = g[k]
        if isinstance(o, h5py.Dataset):
            if o.name.rstrip('/').endswith('test') and '0' in o.name: return o[:]
        else:
            r = find(o)
            if r is not None: return r
test = find(split)
truth = [l.split('\t')[1].strip() for l in open(d + '/panel.labels.tsv')][1:]
rows = list(csv.DictReader(open('p.tsv'), delimiter='\t'))
print('%.4f' % (sum(rows[i]['model1'] == truth[i] for i in test) / len(test)))
PY
)
    [ "$said" = "$want" ] || { echo "dncheck $said, count $want"; false; }
}

@test "a missing member is named; the others are still judged" {
    rm m/seed2_fold1.h5 m/seed2_fold1.log.tsv
    rm -f m/seed2_fold1.ckpt*
    run "$BIN/dncheck" m --folds 0-1 --seeds 1,2
    expect_exit 5
    expect_text $'FAULT\tgrid\tseed2_fold1\tmissing'
    # Without --seeds the grid is what is there: every seed with every fold of the split.
    run "$BIN/dncheck" m --split "$D/split.h5"
    expect_exit 5
    expect_text seed2_fold1
}

@test "a task that only began is told from one that is missing" {
    rm m/seed2_fold1.h5
    echo x >m/seed2_fold1.ckpt
    run "$BIN/dncheck" m
    expect_exit 5
    expect_text $'FAULT\tunfinished\tseed2_fold1' "run its task again"
}

@test "a truncated member is found, at any length" {
    size=$(stat -c %s m/seed1_fold1.h5)
    for n in 0 100 4096 $((size / 2)) $((size - 1)); do
        head -c "$n" "$D/models/seed1_fold1.h5" >m/seed1_fold1.h5
        run "$BIN/dncheck" m
        [ "$status" -eq 4 ] || { echo "$n bytes: exit $status: $output"; false; }
        expect_text $'FAULT\tpackage\tseed1_fold1'
    done
}

@test "a member of another fold, and one equal to another, are found" {
    cp "$D/models/seed1_fold0.h5" m/seed1_fold1.h5
    run "$BIN/dncheck" m
    expect_exit 5
    expect_text $'FAULT\tpackage\tseed1_fold1' "fold 0 of seed 1"
}

@test "two equal members are found although their names and marks differ" {
    # The same configuration and data under one seed twice, written as another seed: equal modulo 2^32.
    "$BIN/dntrain" -q --data "$D/panel.gpk" --split "$D/split.h5" --config "$D/config.yaml" --fold 0 --seed 4294967297 -o m
    run "$BIN/dncheck" m --folds 0 --seeds 1,4294967297
    expect_exit 5
    expect_text weights-distinct "the same weights as seed1_fold0"
}

@test "a member edited by one bit, anywhere in its numbers, is found" {
    size=$(stat -c %s m/seed2_fold0.h5)
    for at in $((size * 3 / 10)) $((size / 2)) $((size * 8 / 10)); do
        cp "$D/models/seed2_fold0.h5" m/seed2_fold0.h5
        "$PYTHON" -c "
import sys
f = open('m/seed2_fold0.h5', 'r+b'); f.seek($at); b = f.read(1)[0]; f.seek($at); f.write(bytes([b ^ 4]))"
        run "$BIN/dncheck" m --full
        [ "$status" -ne 0 ] || { echo "bit at $at was not seen"; false; }
        expect_text seed2_fold0
    done
}

@test "a log that was cut or edited is found under --full" {
    sed -i 's/^3\t/4\t/' m/seed1_fold0.log.tsv
    run "$BIN/dncheck" m --full
    expect_exit 5
    expect_text $'FAULT\tlog\tseed1_fold0'
}

@test "another split and another dataset are refused by name" {
    run "$BIN/dncheck" m --split "$D/other.h5"
    expect_exit 5
    expect_text $'FAULT\tsplit\tseed1_fold0' "another split than the one given"
    "$TOOLS/dnsim" -q -o p2 -n 240 -m 1500 -k 4 --regions 2 -s 4
    "$BIN/gpack" -q --bfile p2 --labels p2.labels.tsv -o p2.gpk
    run "$BIN/dncheck" m --data p2.gpk --split "$D/split.h5"
    expect_exit 5
    expect_text "was not made for"
}

@test "an untrained member is called out" {
    "$BIN/dntrain" -q --data "$D/panel.gpk" --split "$D/split.h5" --config "$D/config.yaml" --epochs 0 --fold 0 --seed 9 -o m9
    run "$BIN/dncheck" m9 --full
    expect_text $'warning\tweights-moved\tseed9_fold0'
}

@test "published accuracies are compared pair by pair, with an interval" {
    printf 'fold\tseed\ttest_acc\n0\t1\t0.3\n0\t2\t0.3\n1\t1\t0.3\n1\t2\t0.3\n' >pub.tsv
    run "$BIN/dncheck" m --data "$D/panel.gpk" --split "$D/split.h5" --published pub.tsv
    expect_exit 0
    expect_text "paired difference" "more than noise" "0.3000 published"
    printf 'fold\tseed\ttest_acc\n0\t1\t0.5\n' >short.tsv
    run "$BIN/dncheck" m --data "$D/panel.gpk" --split "$D/split.h5" --published short.tsv
    expect_exit 5
    expect_text "no line for fold 0, seed 2"
    printf 'a\tb\n1\t2\n' >bad.tsv
    run "$BIN/dncheck" m --data "$D/panel.gpk" --split "$D/split.h5" --published bad.tsv
    expect_exit 4
}

@test "single files: each kind is known, damage is found, strangers are refused" {
    "$BIN/snpmatch" -q --bfile "$D/panel" --model m -o c.gpk
    "$BIN/dnpredict" -q --model m c.gpk -o c.tsv --scores c.h5
    run "$BIN/dncheck" --full "$D/panel.gpk" "$D/split.h5" m/seed1_fold0.h5 c.gpk c.tsv c.h5
    expect_exit 0
    for k in gpk split package predictions scores; do expect_text $'ok\t'"$k"$'\t'; done
    # One edited probability, and one edited genotype.
    "$PYTHON" -c "
import h5py
f = h5py.File('c.h5', 'r+'); f['scores'][1, 2, 0] += 0.001"
    run "$BIN/dncheck" --full c.h5
    expect_exit 4
    expect_text "does not match its checksum"
    "$BIN/gpack" -q -d "$D/panel.gpk" -o d.h5
    run "$BIN/dncheck" --full d.h5
    expect_exit 0
    "$PYTHON" -c "
import h5py
f = h5py.File('d.h5', 'r+'); f['inputs'][7, 9] = (f['inputs'][7, 9] + 1) % 3"
    run "$BIN/dncheck" --full d.h5
    expect_exit 4
    sed -i '5s/\t/ /' c.tsv
    run "$BIN/dncheck" c.tsv
    expect_exit 4
    expect_text "line 5"
    head -c 5000 c.gpk >cut.gpk
    run "$BIN/dncheck" cut.gpk
    expect_exit 4
    run "$BIN/dncheck" /nowhere
    expect_exit 3
    echo hello >x.txt
    run "$BIN/dncheck" x.txt
    expect_exit 4
}

@test "--json is JSON, with the same findings" {
    rm m/seed2_fold1.h5
    run bash -c "'$BIN/dncheck' -q --json m 2>/dev/null | '$PYTHON' -c '
import json, sys
d = json.load(sys.stdin)
assert d[\"ok\"] is False and d[\"faults\"] == len([f for f in d[\"findings\"] if f[\"level\"] == \"FAULT\"]) > 0
print(\"fine\")'"
    expect_text fine
}

@test "the report is one page with all its parts, well formed, without scripts or addresses" {
    run "$BIN/dncheck" -q m --data "$D/panel.gpk" --split "$D/split.h5" --report r.html
    expect_exit 0
    run "$PYTHON" - <<'PY'
import html.parser, re
t = open('r.html', encoding='utf-8').read()
class P(html.parser.HTMLParser):
    void = {'meta', 'br', 'line', 'rect', 'circle', 'path'}
    def __init__(s):
        super().__init__(); s.stack = []; s.tags = []
    def handle_starttag(s, tag, a):
        s.tags.append(tag)
        if tag not in s.void: s.stack.append(tag)
    def handle_startendtag(s, tag, a): s.tags.append(tag)
    def handle_endtag(s, tag):
        assert s.stack and s.stack[-1] == tag, (tag, s.stack[-3:]); s.stack.pop()
p = P(); p.feed(t); assert not p.stack, p.stack
assert p.tags.count('svg') == 7, p.tags.count('svg')
assert 'script' not in p.tags and not re.search(r'(src|href)=', t)
for w in ['Confusion matrix', 'Learning curves', 'Reliability', 'Held-out accuracy', 'SNPs left out', 'All findings']: assert w in t, w
assert 'NaN' not in t and '>nan' not in t and ' inf' not in t
print('fine')
PY
    expect_text fine
}

@test "outputs: refused when there, never half-written; options are checked" {
    touch r.html
    run "$BIN/dncheck" m --report r.html
    expect_exit 2
    run "$BIN/dncheck" m --data "$D/panel.gpk"
    expect_exit 2
    run "$BIN/dncheck" m m --folds 0
    expect_exit 2
    run bash -c "'$BIN/dncheck' m >/dev/full"
    expect_exit 6
    run "$BIN/dncheck" m --report /dev/full
    expect_exit 6
}

@test "upstream's releases pass, with statistics recomputed; one changed value is found" {
    need_shared
    for k in kgp3 kgp1; do
        set=$SHARED/realdata/kgp3_26pop/kgp3_26pop_all labels=$SHARED/golden/kgp3/labels.tsv
        if [ $k = kgp1 ]; then set=$SHARED/realdata/kgp1_14k/kgp1_14k labels=$set.labels.tsv; fi
        "$BIN/gpack" -q --bfile "$set" --labels "$labels" -o $k.gpk
        "$BIN/dnsplit" -q $k.gpk --from-npz "$SHARED/golden/$k/upstream/partition_seed124.npz" -o $k.split.h5 >/dev/null
        run "$BIN/dncheck" "$SHARED/golden/$k/release" --data $k.gpk --split $k.split.h5
        expect_exit 0
        [ "$(grep -c 'equal to the recomputed ones' <<<"$output")" -eq 15 ]
    done
    cp -r "$SHARED/golden/kgp3/release" rel
    chmod -R u+w rel
    "$PYTHON" -c "
import numpy as np
z = np.load('rel/DN_MODELS/norm_stats_model2.npz'); m = z['mean'].copy(); m[17] *= 1 + 1e-7
np.savez('rel/DN_MODELS/norm_stats_model2.npz', mean=m, std=z['std'])"
    run "$BIN/dncheck" rel --data kgp3.gpk --split kgp3.split.h5
    expect_exit 5
    expect_text "norm_stats_model2.npz" "differs from the recomputed one in 1 of 2659" "number 17"
}
