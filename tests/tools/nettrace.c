/* nettrace: trains a Diet Network on a matrix of dosages and prints its numbers, for comparison with other
 * implementations.
 *
 *   nettrace MATRIX.i8 N M SPEC
 *
 * MATRIX.i8: N x M int8 (-1 = missing). SPEC: lines "key value...":
 *   label i...   class of each person (0..C-1)          classes C
 *   target x...  regression target of each person: the task is then regression
 *   train i... / valid i...   row numbers; train in upstream's order
 *   aux u... / main u...      hidden units    batch B   epochs E   seed S
 *   lr_aux x   lr_main x   annealing x   input_dropout x   dropout_main x   limit x
 *   threads T
 *   dump FILE    parameters after the last epoch: lines "name n value..." (init_dump: before the first)
 *   raw_order 1  batches are consecutive runs of train (no shuffling)
 * Prints, per epoch from 0: epoch, train loss, train accuracy, valid loss, valid accuracy, evaluated train
 * loss and accuracy. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "geno.h"
#include "net.h"
#include "stats.h"

typedef struct {
    size_t n;
    double v[1 << 16];
} list;

static list label, target, train, valid, aux, main_;
static double classes = 0, batch = 8, epochs = 1, seed = 1, lr_aux = 1e-3, lr_main = 1e-3, annealing = 1,
              input_dropout = 0, dropout_main = 0, limit = 0.02, threads = 1, raw_order = 0;
static char dump[4096], init_dump[4096];

static struct {
    const char *key;
    double *one;
    list *many;
    char *text;
} keys[] = {{"label", NULL, &label, NULL},
            {"target", NULL, &target, NULL},
            {"train", NULL, &train, NULL},
            {"valid", NULL, &valid, NULL},
            {"aux", NULL, &aux, NULL},
            {"main", NULL, &main_, NULL},
            {"classes", &classes, NULL, NULL},
            {"batch", &batch, NULL, NULL},
            {"epochs", &epochs, NULL, NULL},
            {"seed", &seed, NULL, NULL},
            {"lr_aux", &lr_aux, NULL, NULL},
            {"lr_main", &lr_main, NULL, NULL},
            {"annealing", &annealing, NULL, NULL},
            {"input_dropout", &input_dropout, NULL, NULL},
            {"dropout_main", &dropout_main, NULL, NULL},
            {"limit", &limit, NULL, NULL},
            {"threads", &threads, NULL, NULL},
            {"raw_order", &raw_order, NULL, NULL},
            {"dump", NULL, NULL, dump},
            {"init_dump", NULL, NULL, init_dump}};

static void die(const char *what)
{
    fprintf(stderr, "nettrace: %s\n", what);
    exit(2);
}

static void check(dn_status st, const dn_err *err)
{
    if (st == DN_OK) return;
    fprintf(stderr, "nettrace: %s\n", err->msg);
    exit((int)st);
}

static void read_spec(const char *path)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    if (!f) die("cannot open SPEC");
    while (getline(&line, &cap, f) >= 0) {
        char *save, *key = strtok_r(line, " \n", &save), *tok;
        size_t k = 0, n_keys = sizeof keys / sizeof keys[0];
        if (!key) continue;
        while (k < n_keys && strcmp(keys[k].key, key) != 0) k++;
        if (k == n_keys) die(key);
        while ((tok = strtok_r(NULL, " \n", &save))) {
            if (keys[k].text)
                snprintf(keys[k].text, sizeof dump, "%s", tok);
            else if (keys[k].one)
                *keys[k].one = strtod(tok, NULL);
            else if (keys[k].many->n < sizeof label.v / sizeof label.v[0])
                keys[k].many->v[keys[k].many->n++] = strtod(tok, NULL);
        }
    }
    free(line);
    fclose(f);
}

static void dump_net(dn_net *net, const char *path)
{
    size_t n;
    dn_err err;
    if (!*path) return;
    FILE *f = fopen(path, "w");
    if (!f) die("cannot write the dump");
    check(dn_net_pull(net, &err), &err);
    dn_net_param *p = dn_net_params(net, &n);
    for (size_t i = 0; i < n; i++) {
        fprintf(f, "%s %llu", p[i].name, (unsigned long long)p[i].n);
        for (uint64_t k = 0; k < p[i].n; k++) fprintf(f, " %.9g", p[i].value[k]);
        fputc('\n', f);
    }
    fclose(f);
}

/* A batch of the people whose row numbers are given. */
static const uint8_t **rows;
static int64_t *labels;
static double *targets;
static dn_net_batch pick(const uint8_t *packed, size_t row_bytes, const double *idx, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t r = (size_t)idx[i];
        rows[i] = packed + r * row_bytes;
        labels[i] = label.n ? (int64_t)label.v[r] : 0;
        targets[i] = target.n ? target.v[r] : 0;
    }
    return (dn_net_batch){n, rows, labels, targets};
}

int main(int argc, char **argv)
{
    dn_err err;
    check(dn_isa_check(&err), &err);
    if (argc != 5) die("usage: nettrace MATRIX.i8 N M SPEC");
    size_t N = strtoul(argv[2], NULL, 10), M = strtoul(argv[3], NULL, 10), row_bytes = dn_geno_bytes(M);
    read_spec(argv[4]);
    FILE *f = fopen(argv[1], "rb");
    int8_t *calls = malloc(M);
    uint8_t *packed = malloc(N * row_bytes);
    if (!f || !calls || !packed) die("cannot open MATRIX");
    for (size_t i = 0; i < N; i++) {
        if (fread(calls, 1, M, f) != M) die("MATRIX is too short");
        dn_geno_pack(calls, M, packed + i * row_bytes);
    }
    fclose(f);
    size_t C = classes > 0 ? (size_t)classes : 1;
    rows = malloc(N * sizeof *rows);
    labels = malloc(N * sizeof *labels);
    targets = malloc(N * sizeof *targets);

    dn_pool *pool;
    dn_backend *be;
    check(dn_pool_new(&pool, (size_t)threads, &err), &err);
    check(dn_backend_cpu(&be, pool, &err), &err);
    uint32_t *counts = calloc(M * C * 3, sizeof *counts);
    uint64_t *size = calloc(C, sizeof *size);
    double *mean = malloc(M * sizeof *mean), *sd = malloc(M * sizeof *sd),
           *emb = malloc(M * C * 3 * sizeof *emb);
    float *e = malloc(M * C * 3 * sizeof *e);
    dn_net_batch all = pick(packed, row_bytes, train.v, train.n);
    check(dn_counts_add(counts, M, C, all.rows, all.label, all.n, pool, &err), &err);
    for (size_t i = 0; i < train.n; i++) size[all.label[i]]++;
    dn_stats(counts, M, C, mean, sd, NULL, NULL);
    dn_embedding(counts, M, C, size, emb);
    dn_embedding_normalise(emb, M, C * 3, e);

    dn_net_config cfg = {.task = target.n ? DN_TASK_REGRESSION : DN_TASK_CLASSIFICATION,
                         .n_snps = M,
                         .n_features = C * 3,
                         .n_out = target.n ? 1 : C,
                         .n_aux = aux.n,
                         .n_main = main_.n,
                         .input_dropout = input_dropout,
                         .dropout_main = dropout_main,
                         .uniform_init_limit = limit};
    for (size_t l = 0; l < aux.n; l++) cfg.aux[l] = (uint64_t)aux.v[l];
    for (size_t l = 0; l < main_.n; l++) cfg.main[l] = (uint64_t)main_.v[l];
    dn_net *net;
    dn_rng rng;
    dn_rng_seed(&rng, (uint64_t)seed);
    check(dn_net_new(&net, &cfg, e, mean, sd, be, &err), &err);
    check(dn_net_init(net, &rng, &err), &err);
    dump_net(net, init_dump);
    uint64_t *perm = malloc(train.n * sizeof *perm);
    double *order = malloc(train.n * sizeof *order);
    for (int epoch = 0; epoch <= (int)epochs; epoch++) {
        double loss = 0, v_loss = 0, t_loss = 0;
        uint64_t right = 0, v_right = 0, t_right = 0;
        if (epoch) {
            dn_rng_int64(&rng);
            dn_rng shuffle;
            dn_rng_seed(&shuffle, (uint64_t)dn_rng_int64(&rng));
            dn_rng_permutation(&shuffle, train.n, perm);
            for (size_t i = 0; i < train.n; i++) order[i] = train.v[raw_order ? i : perm[i]];
            for (size_t i = 0; i < train.n;) {
                size_t n = train.n - i < (size_t)batch ? train.n - i : (size_t)batch;
                if (train.n - i - n == 1) n++; /* a last batch of one is joined to the one before */
                dn_net_batch b = pick(packed, row_bytes, order + i, n);
                check(dn_net_train_batch(net, &b, lr_aux, lr_main, &rng, &loss, &right, &err), &err);
                i += n;
            }
            lr_aux *= annealing;
            lr_main *= annealing;
            dn_rng_int64(&rng);
            dn_rng_int64(&rng);
            dn_net_batch t = pick(packed, row_bytes, train.v, train.n);
            check(dn_net_eval(net, &t, &t_loss, &t_right, NULL, NULL, NULL, &err), &err);
        }
        dn_rng_int64(&rng);
        dn_net_batch v = pick(packed, row_bytes, valid.v, valid.n);
        check(dn_net_eval(net, &v, &v_loss, &v_right, NULL, NULL, NULL, &err), &err);
        double nt = (double)train.n, nv = (double)valid.n;
        printf("%d %.17g %.17g %.17g %.17g %.17g %.17g\n", epoch, loss / nt, (double)right / nt, v_loss / nv,
               (double)v_right / nv, t_loss / nt, (double)t_right / nt);
    }
    dump_net(net, dump);
    dn_net_free(net);
    dn_backend_free(be);
    dn_pool_free(pool);
    free(calls), free(packed), free((void *)rows), free(labels), free(targets), free(counts), free(size),
        free(mean), free(sd);
    free(emb), free(e), free(perm), free(order);
    return 0;
}
