/* The network: gradients against finite differences of a plain network in double, Adam's step, evaluation,
 * threads, the state, and what it refuses. After the first step Adam's first moment is a tenth of the
 * gradient: that is how gradients are seen. */
#include "backend_cpu_impl.h"
#include "check.h"
#include "geno.h"
#include "net.h"
#include "stats.h"

static unsigned long long seed = 3;

typedef struct {
    dn_net_config cfg;
    bool fast;   /* dropout from the counter-based generator */
    bool shares; /* the CPU may leave features out that follow from others */
    uint64_t B;
    int8_t *calls; /* B x M */
    uint8_t *packed;
    const uint8_t **rows;
    int64_t *label;
    double *target, *mean, *sd;
    float *emb;
} problem;

static uint64_t missing_of = 7; /* of so many calls one is missing */

static problem make(dn_task task, uint64_t M, uint64_t B, uint64_t C, const char *aux, const char *main_,
                    double input_dropout, double dropout_main)
{
    problem p = {.B = B};
    p.cfg = (dn_net_config){.task = task,
                            .n_snps = M,
                            .n_features = 3 * C,
                            .n_out = task == DN_TASK_REGRESSION ? 1 : C,
                            .input_dropout = input_dropout,
                            .dropout_main = dropout_main,
                            .uniform_init_limit = 0.5};
    for (char *t, *s = (char *)aux; *s; s = t) p.cfg.aux[p.cfg.n_aux++] = strtoull(s, &t, 10);
    for (char *t, *s = (char *)main_; *s; s = t) p.cfg.main[p.cfg.n_main++] = strtoull(s, &t, 10);
    size_t bytes = dn_geno_bytes(M);
    p.calls = malloc(B * M);
    p.packed = malloc(B * bytes);
    p.rows = malloc(B * sizeof *p.rows);
    p.label = malloc(B * sizeof *p.label);
    p.target = malloc(B * sizeof *p.target);
    p.mean = malloc(M * sizeof *p.mean);
    p.sd = malloc(M * sizeof *p.sd);
    p.emb = malloc(M * 3 * C * sizeof *p.emb);
    uint32_t *counts = calloc(M * C * 3, sizeof *counts);
    uint64_t *size = calloc(C, sizeof *size);
    double *emb = malloc(M * 3 * C * sizeof *emb);
    for (uint64_t i = 0; i < B; i++) {
        for (uint64_t j = 0; j < M; j++) {
            uint64_t r = check_rand(&seed) >> 20;
            p.calls[i * M + j] = (int8_t)(j % 11 == 5           ? (j % 3 == 2 ? -1 : (int)(j % 3))
                                          : r % missing_of == 0 ? -1
                                                                : (int)(r % 3));
        }
        dn_geno_pack(p.calls + i * M, M, p.packed + i * bytes);
        if (M % 4)
            p.packed[(i + 1) * bytes - 1] &=
                (uint8_t)((1u << M % 4 * 2) - 1); /* padding is not to be trusted */
        p.rows[i] = p.packed + i * bytes;
        p.label[i] = (int64_t)(check_rand(&seed) % C);
        p.target[i] = (double)(check_rand(&seed) % 1000) / 300 - 1;
        size[p.label[i]]++;
    }
    dn_counts_add_ref(counts, M, C, p.rows, p.label, B);
    dn_stats(counts, M, C, p.mean, p.sd, NULL, NULL);
    dn_embedding(counts, M, C, size, emb);
    dn_embedding_normalise(emb, M, 3 * C, p.emb);
    free(counts), free(size), free(emb);
    return p;
}

static void drop(problem *p)
{
    free(p->calls), free(p->packed), free((void *)p->rows), free(p->label), free(p->target), free(p->mean),
        free(p->sd), free(p->emb);
}

static dn_net_batch batch_of(const problem *p)
{
    return (dn_net_batch){p->B, p->rows, p->label, p->target};
}

/* A batch's loss in double, from the parameters as listed by dn_net_params (values in `value`, one array
 * after another). rng NULL: evaluation. grads of nothing: this is the function to differentiate. */
static double plain_loss(const problem *p, const dn_net_param *param, size_t n_param, double *const *value,
                         const dn_rng *rng)
{
    const dn_net_config *c = &p->cfg;
    uint64_t M = c->n_snps, B = p->B;
    dn_rng r = rng ? *rng : (dn_rng){.next = 0};
    double *x = calloc(B * M, sizeof *x), keep_in = 1 - c->input_dropout, keep_main = 1 - c->dropout_main;
    uint8_t *kept = malloc(B * M + B * 4096);
    memset(kept, 1, B * M);
    if (rng && c->input_dropout > 0) dn_rng_bernoulli(&r, keep_in, kept, B * M);
    for (uint64_t i = 0; i < B * M; i++) {
        uint64_t j = i % M;
        if (p->calls[i] < 0 || dn_snp_is_flat(p->mean[j], p->sd[j]) || !kept[i]) continue;
        x[i] = (p->calls[i] - p->mean[j]) / p->sd[j] / (rng ? keep_in : 1);
    }
    size_t at = 0;
    uint64_t width = c->n_features;
    double *a = malloc(M * width * sizeof *a);
    for (uint64_t i = 0; i < M * width; i++) a[i] = p->emb[i];
    for (; at < n_param && param[at].kind == DN_NET_AUX_WEIGHT; at++) {
        uint64_t out = param[at].dims[0];
        double *next = calloc(M * out, sizeof *next);
        for (uint64_t j = 0; j < M; j++) {
            for (uint64_t o = 0; o < out; o++) {
                double s = 0;
                for (uint64_t k = 0; k < width; k++) s += a[j * width + k] * value[at][o * width + k];
                next[j * out + o] = tanh(s);
            }
        }
        free(a);
        a = next;
        width = out;
    }
    double *h = NULL, loss = 0; /* activations of the layer below */
    uint64_t n_in = 0;
    for (size_t l = 0; l <= c->n_main + 1; l++) {
        uint64_t n = l == 0 ? width : l <= c->n_main ? c->main[l - 1] : c->n_out;
        double *z = calloc(B * n, sizeof *z);
        const double *w = l ? value[at++] : NULL, *bias = value[at++];
        for (uint64_t b = 0; b < B; b++) {
            for (uint64_t k = 0; k < n; k++) {
                double s = bias[k];
                if (l == 0) {
                    for (uint64_t j = 0; j < M; j++) s += x[b * M + j] * a[j * n + k];
                } else {
                    for (uint64_t i = 0; i < n_in; i++) s += h[b * n_in + i] * w[k * n_in + i];
                }
                z[b * n + k] = s;
            }
        }
        free(h);
        h = z;
        n_in = n;
        if (l > c->n_main) break;
        const double *gamma = value[at], *beta = value[at + 1], *rm = value[at + 2], *rv = value[at + 3];
        at += 4;
        for (uint64_t k = 0; k < n; k++) {
            double mean = 0, var = 0;
            for (uint64_t b = 0; b < B; b++) mean += (z[b * n + k] = fmax(z[b * n + k], 0)) / (double)B;
            for (uint64_t b = 0; b < B; b++) var += (z[b * n + k] - mean) * (z[b * n + k] - mean) / (double)B;
            if (!rng) mean = rm[k], var = rv[k];
            for (uint64_t b = 0; b < B; b++)
                z[b * n + k] = (z[b * n + k] - mean) / sqrt(var + 1e-5) * gamma[k] + beta[k];
        }
        if (rng && c->dropout_main > 0) {
            dn_rng_bernoulli(&r, keep_main, kept, B * n);
            for (uint64_t i = 0; i < B * n; i++) z[i] *= kept[i] / keep_main;
        }
    }
    for (uint64_t b = 0; b < B; b++) {
        if (c->task == DN_TASK_REGRESSION) {
            loss += (h[b] - p->target[b]) * (h[b] - p->target[b]);
            continue;
        }
        double max = -1e300, sum;
        for (uint64_t k = 0; k < n_in; k++) max = fmax(max, h[b * n_in + k]);
        sum = exp(h[b * n_in] - max);
        for (uint64_t k = 1; k < n_in; k++) sum += exp(h[b * n_in + k] - max);
        loss += log(sum) + max - h[b * n_in + (uint64_t)p->label[b]];
    }
    free(x), free(kept), free(a), free(h);
    return loss;
}

/* Copies of all values in double. */
static double **values(const dn_net_param *param, size_t n)
{
    double **v = malloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++) {
        v[i] = malloc(param[i].n * sizeof **v);
        for (uint64_t k = 0; k < param[i].n; k++) v[i][k] = param[i].value[k];
    }
    return v;
}
static void free_values(double **v, size_t n)
{
    for (size_t i = 0; i < n; i++) free(v[i]);
    free(v);
}

static void check_gradients(const char *name, problem p)
{
    dn_err err = {0};
    dn_pool *pool;
    dn_backend *be;
    dn_net *net;
    dn_rng rng;
    size_t n;
    CHECK_OK(dn_pool_new(&pool, 2, &err), &err);
    CHECK_OK(dn_backend_cpu(&be, pool, &err), &err);
    if (p.shares) {
        dn_genome *g;
        dn_genome_spec spec = {p.cfg.n_snps, p.cfg.n_features, p.cfg.n_aux, {0}, p.emb, p.mean, p.sd};
        memcpy(spec.aux, p.cfg.aux, sizeof spec.aux);
        ((cpu_backend *)be)->shares_from = 0;
        CHECK_OK(be->ops->genome_new(be, &g, &spec, &err), &err);
        CHECK(g->shares.C == p.cfg.n_features / 3);
        be->ops->genome_free(be, g);
    }
    CHECK_OK(dn_net_new(&net, &p.cfg, p.emb, p.mean, p.sd, be, &err), &err);
    dn_rng_seed(&rng, 5);
    CHECK_OK(dn_net_init(net, &rng, &err), &err);
    if (p.fast) dn_rng_use_fast(&rng, 17);
    dn_net_param *param = dn_net_params(net, &n);
    for (size_t i = 0; i < n; i++) { /* biases and BatchNorm away from 0 and 1 */
        if (param[i].kind == DN_NET_AUX_WEIGHT || param[i].kind == DN_NET_WEIGHT) continue;
        for (uint64_t k = 0; k < param[i].n; k++)
            param[i].value[k] += (float)(check_rand(&seed) % 1000) / 2500.0f;
    }
    CHECK_OK(dn_net_push(net, &err), &err);
    double **v = values(param, n), loss = 0, want;
    dn_net_batch b = batch_of(&p);
    dn_rng before = rng;
    uint64_t right = 0;

    /* Evaluation first: it must not change a thing. */
    CHECK_OK(dn_net_eval(net, &b, &loss, &right, NULL, NULL, NULL, &err), &err);
    want = plain_loss(&p, param, n, v, NULL);
    CHECK_MSG(fabs(loss / want - 1) < 2e-6, "%s: evaluation: loss %.9g, plain %.9g", name, loss, want);
    loss = 0;
    CHECK_OK(dn_net_train_batch(net, &b, 1e-3, 1e-3, &rng, &loss, &right, &err), &err);
    want = plain_loss(&p, param, n, v, &before);
    CHECK_MSG(fabs(loss / want - 1) < 2e-6, "%s: training: loss %.9g, plain %.9g", name, loss, want);
    CHECK(*dn_net_step(net) == 1);
    CHECK_OK(dn_net_pull(net, &err), &err);
    for (size_t i = 0; i < n; i++) {
        if (!param[i].m) continue;
        double scale = 0, worst = 0, worst_step = 0;
        uint64_t stride = param[i].n > 40 ? param[i].n / 40 : 1;
        for (uint64_t k = 0; k < param[i].n; k++) scale = fmax(scale, fabs(param[i].m[k] * 10.0));
        for (uint64_t k = 0; k < param[i].n; k += stride) {
            double h = 1e-5, old = v[i][k], diff;
            v[i][k] = old + h;
            diff = plain_loss(&p, param, n, v, &before);
            v[i][k] = old - h;
            diff = (diff - plain_loss(&p, param, n, v, &before)) / (2 * h) / (double)p.B;
            v[i][k] = old;
            double g = (double)param[i].m[k] / (1 - 0.9), step = 1e-3 * g / (fabs(g) + 1e-8);
            worst = fmax(worst, fabs(g - diff));
            worst_step = fmax(worst_step, fabs(param[i].value[k] - (old - step)));
        }
        CHECK_MSG(worst < 2e-5 * (scale + 1e-3), "%s: %s: gradient off by %g of %g", name, param[i].name,
                  worst, scale);
        CHECK_MSG(worst_step < 1e-6, "%s: %s: step off by %g", name, param[i].name, worst_step);
    }
    free_values(v, n);
    dn_net_free(net);
    dn_backend_free(be);
    dn_pool_free(pool);
    drop(&p);
}

/* Some steps and an evaluation; returns all of the state. */
static float *run(const problem *p, size_t threads, bool host_memory, int steps, int split, size_t *n_floats,
                  double *loss)
{
    dn_err err = {0};
    dn_pool *pool;
    dn_backend *be;
    dn_net *net;
    dn_rng rng;
    size_t n, at = 0;
    uint64_t right = 0;
    CHECK_OK(dn_pool_new(&pool, threads, &err), &err);
    CHECK_OK(dn_backend_cpu(&be, pool, &err), &err);
    if (p->shares) ((cpu_backend *)be)->shares_from = 0;
    be->host_memory = host_memory; /* false: as if the arrays were on a device */
    CHECK_OK(dn_net_new(&net, &p->cfg, p->emb, p->mean, p->sd, be, &err), &err);
    dn_rng_seed(&rng, 9);
    CHECK_OK(dn_net_init(net, &rng, &err), &err);
    if (p->fast) dn_rng_use_fast(&rng, 17);
    dn_net_batch b = batch_of(p);
    *loss = 0;
    for (int s = 0; s < steps; s++) {
        if (s == split) { /* carry the state over to a new network */
            dn_net *other;
            CHECK_OK(dn_net_pull(net, &err), &err);
            CHECK_OK(dn_net_new(&other, &p->cfg, p->emb, p->mean, p->sd, be, &err), &err);
            dn_net_param *from = dn_net_params(net, &n), *to = dn_net_params(other, &n);
            for (size_t i = 0; i < n; i++) {
                memcpy(to[i].value, from[i].value, from[i].n * sizeof(float));
                if (from[i].m) memcpy(to[i].m, from[i].m, from[i].n * sizeof(float));
                if (from[i].v) memcpy(to[i].v, from[i].v, from[i].n * sizeof(float));
            }
            *dn_net_step(other) = *dn_net_step(net);
            CHECK_OK(dn_net_push(other, &err), &err);
            dn_net_free(net);
            net = other;
        }
        CHECK_OK(dn_net_train_batch(net, &b, 1e-3, 2e-3, &rng, loss, &right, &err), &err);
    }
    float *scores = malloc(p->B * p->cfg.n_out * sizeof *scores);
    CHECK_OK(dn_net_eval(net, &b, loss, &right, scores, NULL, NULL, &err), &err);
    CHECK_OK(dn_net_pull(net, &err), &err);
    dn_net_param *param = dn_net_params(net, &n);
    uint64_t fat = p->cfg.n_snps * dn_net_fat_units(net), total = p->B * p->cfg.n_out + fat;
    for (size_t i = 0; i < n; i++) total += 3 * param[i].n;
    float *all = calloc(total, sizeof *all);
    for (size_t i = 0; i < n; i++) {
        memcpy(all + at, param[i].value, param[i].n * sizeof *all), at += param[i].n;
        if (!param[i].m) continue;
        memcpy(all + at, param[i].m, param[i].n * sizeof *all), at += param[i].n;
        memcpy(all + at, param[i].v, param[i].n * sizeof *all), at += param[i].n;
    }
    memcpy(all + at, scores, p->B * p->cfg.n_out * sizeof *all), at += p->B * p->cfg.n_out;
    CHECK_OK(dn_net_fat(net, all + at, &err), &err);
    *n_floats = at + fat;
    free(scores);
    dn_net_free(net);
    dn_backend_free(be);
    dn_pool_free(pool);
    return all;
}

static void check_same_bytes(bool fast, bool shares)
{
    problem p = make(DN_TASK_CLASSIFICATION, 3111, 61, 4, "20 18", "9 8", 0.2, 0.25);
    p.fast = fast;
    p.shares = shares;
    size_t n, m;
    double loss, other;
    float *one = run(&p, 1, true, 4, -1, &n, &loss);
    CHECK(n > 3111 * 18);
    struct {
        size_t threads;
        bool host;
        int split;
    } how[] = {{1, true, -1}, {2, true, -1}, {7, true, -1}, {2, true, 2}, {2, false, -1}, {3, false, 1}};
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        float *two = run(&p, how[i].threads, how[i].host, 4, how[i].split, &m, &other);
        CHECK_MSG(m == n && memcmp(one, two, n * sizeof *one) == 0 && loss == other, "run %zu differs", i);
        free(two);
    }
    free(one);
    drop(&p);
}

static bool stop_at_once(void *arg)
{
    return *(bool *)arg;
}

static void check_refusals(void)
{
    dn_err err = {0};
    dn_pool *pool;
    dn_backend *be;
    dn_net *net;
    dn_rng rng;
    size_t n;
    double loss = 0;
    uint64_t right = 0;
    problem p = make(DN_TASK_CLASSIFICATION, 40, 12, 3, "5", "6", 0, 0);
    dn_net_batch b = batch_of(&p);
    CHECK_OK(dn_pool_new(&pool, 1, &err), &err);
    CHECK_OK(dn_backend_cpu(&be, pool, &err), &err);
    dn_net_config bad[8];
    for (int i = 0; i < 8; i++) bad[i] = p.cfg;
    bad[0].n_snps = 0;
    bad[1].n_out = DN_MAX_CLASSES + 1;
    bad[2].aux[0] = 0;
    bad[3].main[0] = DN_MAX_UNITS + 1;
    bad[4].input_dropout = 1;
    bad[5].dropout_main = NAN;
    bad[6].uniform_init_limit = INFINITY;
    bad[7].task = DN_TASK_REGRESSION;
    for (int i = 0; i < 8; i++)
        CHECK(dn_net_new(&net, &bad[i], p.emb, p.mean, p.sd, be, &err) == DN_EUSAGE && !net);
    CHECK_OK(dn_net_new(&net, &p.cfg, p.emb, p.mean, p.sd, be, &err), &err);
    dn_rng_seed(&rng, 1);
    CHECK_OK(dn_net_init(net, &rng, &err), &err);
    CHECK_OK(dn_net_resident(net, p.packed, 10, p.B, &err), &err);
    dn_net_batch one = b;
    one.n = 1;
    CHECK(dn_net_train_batch(net, &one, 1e-3, 1e-3, &rng, &loss, &right, &err) == DN_ENUMERIC);
    p.label[3] = 3;
    CHECK(dn_net_train_batch(net, &b, 1e-3, 1e-3, &rng, &loss, &right, &err) == DN_EINTERNAL);
    CHECK(dn_net_eval(net, &b, &loss, &right, NULL, NULL, NULL, &err) == DN_EINTERNAL);
    p.label[3] = 0;
    CHECK_OK(dn_net_eval(net, &one, &loss, &right, NULL, NULL, NULL, &err),
             &err); /* one person is fine here */
    bool stop = true;
    CHECK(dn_net_eval(net, &b, &loss, &right, NULL, stop_at_once, &stop, &err) == DN_ESTOPPED);
    stop = false;
    CHECK_OK(dn_net_eval(net, &b, &loss, &right, NULL, stop_at_once, &stop, &err), &err);
    one.n = 0;
    loss = 0;
    CHECK_OK(dn_net_eval(net, &one, &loss, &right, NULL, NULL, NULL, &err), &err);
    CHECK(loss == 0);

    /* NU03: a learning rate of 1e30: the loss turns infinite or NaN and says so; that step changes neither
     * weights nor optimisers. */
    dn_net_param *param = dn_net_params(net, &n);
    dn_status st = DN_OK;
    int steps = 0;
    float saved = 0, saved_m = 0;
    uint64_t saved_step = 0;
    while (st == DN_OK && steps++ < 5) {
        saved = param[0].value[0], saved_m = param[0].m[0], saved_step = *dn_net_step(net);
        st = dn_net_train_batch(net, &b, 1e30, 1e30, &rng, &loss, &right, &err);
    }
    CHECK_MSG(st == DN_ENUMERIC, "status %d after %d steps", (int)st, steps);
    CHECK(memcmp(&saved, &param[0].value[0], 4) == 0 && memcmp(&saved_m, &param[0].m[0], 4) == 0 &&
          saved_step == *dn_net_step(net));
    CHECK(strstr(err.msg, "not finite") != NULL);
    /* A network may be used again after its weights have been put back. */
    CHECK_OK(dn_net_init(net, &rng, &err), &err);
    CHECK_OK(dn_net_train_batch(net, &b, 1e-3, 1e-3, &rng, &loss, &right, &err), &err);
    dn_net_free(net);
    dn_net_free(NULL);
    dn_backend_free(be);
    dn_backend_free(NULL);
    dn_pool_free(pool);
    drop(&p);
}

/* Large numbers of people: more than a slab of sums, more than an evaluation's block; a row alone gives the
 * same as among others. */
static void check_many_people(void)
{
    dn_err err = {0};
    problem p = make(DN_TASK_CLASSIFICATION, 130, 1300, 3, "70", "6", 0, 0);
    dn_pool *pool;
    dn_backend *be;
    dn_net *net;
    dn_rng rng;
    double loss = 0, alone = 0;
    uint64_t right = 0, right_alone = 0;
    dn_net_batch b = batch_of(&p);
    float *scores = malloc(1300 * 3 * sizeof *scores), one[3];
    CHECK_OK(dn_pool_new(&pool, 3, &err), &err);
    CHECK_OK(dn_backend_cpu(&be, pool, &err), &err);
    CHECK_OK(dn_net_new(&net, &p.cfg, p.emb, p.mean, p.sd, be, &err), &err);
    dn_rng_seed(&rng, 1);
    CHECK_OK(dn_net_init(net, &rng, &err), &err);
    CHECK_OK(dn_net_train_batch(net, &b, 1e-3, 1e-3, &rng, &loss, &right, &err), &err);
    loss = 0, right = 0;
    CHECK_OK(dn_net_eval(net, &b, &loss, &right, scores, NULL, NULL, &err), &err);
    for (uint64_t i = 0; i < p.B; i += 97) {
        dn_net_batch x = {1, p.rows + i, p.label + i, NULL};
        CHECK_OK(dn_net_eval(net, &x, &alone, &right_alone, one, NULL, NULL, &err), &err);
        CHECK(memcmp(one, scores + i * 3, sizeof one) == 0);
        CHECK(fabs(one[0] + one[1] + one[2] - 1) < 1e-6);
    }
    alone = 0, right_alone = 0;
    for (uint64_t i = 0; i < p.B; i++) {
        const float *s = scores + i * 3;
        alone -= log(s[p.label[i]]);
        int best = 0;
        for (int k = 1; k < 3; k++) best = s[k] > s[best] ? k : best;
        right_alone += best == p.label[i];
    }
    CHECK(fabs(alone / loss - 1) < 1e-6 && right == right_alone);
    free(scores);
    dn_net_free(net);
    dn_backend_free(be);
    dn_pool_free(pool);
    drop(&p);
}

int main(void)
{
    const dn_task cls = DN_TASK_CLASSIFICATION, reg = DN_TASK_REGRESSION;
    check_gradients("plain", make(cls, 61, 13, 3, "7 5", "6", 0, 0));
    check_gradients("dropout", make(cls, 430, 29, 4, "9 17", "8 5", 0.3, 0.25));
    check_gradients("regression", make(reg, 200, 17, 2, "6 5 4", "7", 0.2, 0));
    check_gradients("no hidden layer", make(cls, 97, 31, 3, "18", "", 0, 0.5));
    check_gradients("no auxiliary layer", make(reg, 33, 14, 2, "", "5 6 4", 0.1, 0));
    check_gradients("more than two blocks of SNPs", make(cls, 1201, 12, 2, "3 4", "5", 0, 0));
    check_gradients("a hundred people", make(cls, 25, 100, 2, "3 4", "5", 0.4, 0));
    check_gradients("one SNP", make(cls, 1, 9, 2, "3", "2", 0, 0));
    problem fast = make(cls, 2101, 19, 4, "9 17", "8 5", 0.3, 0.25);
    fast.fast = true;
    check_gradients("dropout from the fast generator", fast);
    check_same_bytes(false, false);
    check_same_bytes(true, false);
    missing_of = 900;
    problem shares = make(cls, 1201, 60, 4, "9 17", "8 5", 0.3, 0.25);
    shares.shares = true;
    check_gradients("features left out", shares);
    shares = make(reg, 430, 25, 2, "5", "", 0, 0);
    shares.shares = true;
    check_gradients("features left out, one auxiliary layer", shares);
    check_same_bytes(false, true);
    missing_of = 7;
    check_many_people();
    check_refusals();
    return check_done();
}
