/* gpubench: the GPU against the CPU, and against the clock, on simulated packed genotypes. tests/gpu.sh calls
 * it.
 *
 *   gpubench check            steps of training, and blocks of prediction, on both: differences, exit 1 if
 * too large gpubench train            people/s of training steps by batch size, and an epoch, genotypes
 * resident on the GPU gpubench predict          people/s of the fat layer of an ensemble, rows coming from
 * memory
 *
 * Genotypes are random (dosages 0, 1, 2 with 1/4, 1/2, 1/4; 1/64 missing), made by all threads from one seed:
 * the time of a kernel does not depend on their values. Lines are tab-separated: what, number, unit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device.h"
#include "geno.h"
#include "log.h"
#include "net.h"
#include "simrng.h"
#include "stats.h"

typedef unsigned long long ull;

typedef struct {
    dn_common common;
    dn_device_opts device;
    const char *batches;
    uint64_t n_people, n_snps, n_classes, units, models, folds, seed;
    double seconds, input_dropout;
} options;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void row(const char *what, double v, const char *unit_name)
{
    printf("%s\t%.6g\t%s\n", what, v, unit_name);
    fflush(stdout);
}

/* ---- genotypes ---- */

typedef struct {
    uint8_t *base;
    uint64_t n, n_snps, stride, seed;
} panel;

static void one_row(void *ctx, size_t i, size_t worker)
{
    (void)worker;
    const panel *p = ctx;
    uint8_t *out = p->base + i * p->stride;
    uint64_t s = p->seed * 1000003 + i, words = (p->n_snps + 31) / 32;
    const uint64_t low = 0x5555555555555555u;
    for (uint64_t w = 0; w < words; w++) {
        uint64_t a = next64(&s), b = next64(&s), one = a & low, two = (b & ~a) & low;
        uint64_t missing = (a >> 1) & (b >> 1) & low; /* 1/4 of them, thinned */
        missing &= next64(&s);
        missing &= s & (s >> 7) & (s >> 13);
        uint64_t code = one | two << 1 | missing | missing << 1;
        memcpy(out + 8 * w, &code, sizeof code);
    }
    /* Calls past the end are missing. */
    for (uint64_t j = p->n_snps; j < 4 * p->stride; j++) out[j / 4] |= (uint8_t)(3u << j % 4 * 2);
}

static dn_status make_panel(panel *p, uint64_t n, uint64_t n_snps, uint64_t seed, dn_pool *pool, dn_err *err)
{
    *p = (panel){.n = n, .n_snps = n_snps, .stride = (n_snps + 255) / 256 * 64, .seed = seed};
    dn_status status = dn_alloc_aligned(&p->base, n * p->stride, 1, "genotypes", err);
    if (status == DN_OK) dn_pool_run(pool, n, one_row, p);
    return status;
}

/* ---- training ---- */

typedef struct {
    panel p;
    dn_net_config cfg;
    double *mean, *sd;
    float *emb;
    int64_t *label;
    const uint8_t **rows; /* of a batch */
    int64_t *batch_label;
} training;

static dn_status make_training(training *t, const options *o, uint64_t n, uint64_t n_snps, dn_pool *pool,
                               dn_err *err)
{
    dn_status status;
    uint64_t c = o->n_classes, some = n < 2000 ? n : 2000, s = o->seed;
    uint32_t *counts = NULL;
    uint64_t *size = NULL, flat, empty;
    double *raw = NULL;
    memset(t, 0, sizeof *t);
    DN_TRY(make_panel(&t->p, n, n_snps, o->seed, pool, err));
    DN_TRY(dn_alloc(&t->label, n, sizeof *t->label, "labels", err));
    DN_TRY(dn_alloc(&t->rows, n, sizeof *t->rows, "rows", err));
    DN_TRY(dn_alloc(&t->batch_label, n, sizeof *t->batch_label, "labels", err));
    for (uint64_t i = 0; i < n; i++) t->label[i] = (int64_t)(next64(&s) % c);
    /* Statistics of the first people: enough for a network of the right shape. */
    DN_TRY(dn_alloc(&counts, 3 * c * n_snps, sizeof *counts, "counts", err));
    DN_TRY(dn_alloc(&size, c, sizeof *size, "counts", err));
    for (uint64_t i = 0; i < some; i++) t->rows[i] = t->p.base + i * t->p.stride, size[t->label[i]]++;
    DN_TRY(dn_counts_add(counts, n_snps, c, t->rows, t->label, some, pool, err));
    DN_TRY(dn_alloc(&t->mean, n_snps, sizeof *t->mean, "means", err));
    DN_TRY(dn_alloc(&t->sd, n_snps, sizeof *t->sd, "deviations", err));
    dn_stats(counts, n_snps, c, t->mean, t->sd, &flat, &empty);
    DN_TRY(dn_alloc(&raw, 3 * c * n_snps, sizeof *raw, "embedding", err));
    dn_embedding(counts, n_snps, c, size, raw);
    DN_TRY(dn_alloc_aligned(&t->emb, 3 * c * n_snps, sizeof *t->emb, "embedding", err));
    dn_embedding_normalise(raw, n_snps, 3 * c, t->emb);
    t->cfg = (dn_net_config){.task = DN_TASK_CLASSIFICATION,
                             .n_snps = n_snps,
                             .n_features = 3 * c,
                             .n_out = c,
                             .n_aux = 2,
                             .n_main = 1,
                             .aux = {o->units, o->units},
                             .main = {o->units},
                             .input_dropout = o->input_dropout,
                             .dropout_main = 0.5,
                             .uniform_init_limit = 0.02};
    status = DN_OK;
done:
    free(counts);
    free(size);
    free(raw);
    return status;
}

static void free_training(training *t)
{
    free(t->p.base), free(t->mean), free(t->sd), free(t->emb), free(t->label), free(t->rows),
        free(t->batch_label);
}

static dn_status new_net(dn_net **net, const training *t, dn_backend *be, bool resident, dn_err *err)
{
    dn_rng rng;
    dn_status status;
    dn_rng_seed(&rng, 78);
    DN_TRY(dn_net_new(net, &t->cfg, t->emb, t->mean, t->sd, be, err));
    DN_TRY(dn_net_init(*net, &rng, err));
    if (resident) DN_TRY(dn_net_resident(*net, t->p.base, t->p.stride, t->p.n, err));
done:
    return status;
}

/* People of a batch, spread over the panel as a shuffled epoch's are. */
static dn_net_batch take(training *t, uint64_t size, uint64_t number)
{
    for (uint64_t i = 0; i < size; i++) {
        uint64_t s = number * size + i, who = next64(&s) % t->p.n;
        t->rows[i] = t->p.base + who * t->p.stride;
        t->batch_label[i] = t->label[who];
    }
    return (dn_net_batch){.n = size, .rows = t->rows, .label = t->batch_label};
}

/* What a step and nothing less costs: operations of the products, and bytes of the arrays that are too large
 * for a cache, each counted once per pass that must read or write it: embedding (forward, backward), two
 * activations (written, read by the next product; read again, and their gradients written and read,
 * backward), packed rows. */
static void floors(const training *t, uint64_t batch, double *flop, double *bytes)
{
    double m = (double)t->cfg.n_snps, k = (double)t->cfg.n_features, h = (double)t->cfg.aux[0],
           b = (double)batch;
    *flop = 2 * m * (k * h + h * h) + 2 * m * (2 * h * h + k * h) + 4 * b * m * h;
    *bytes = 4 * m * (2 * k + 5 * 2 * h) + b * m / 4;
}

/* Published rates of a device: float32 outside of tensor cores, dense TF32 with them, memory; 0: not known.
 */
static void peaks(const char *name, bool tf32, double *flops, double *bytes)
{
    static const struct {
        const char *name;
        double f32, tf32, memory;
    } known[] = {{"H200", 67e12, 494e12, 4.8e12},
                 {"H100", 67e12, 494e12, 3.35e12},
                 {"A100", 19.5e12, 156e12, 2.039e12}};
    *flops = *bytes = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!strstr(name, known[i].name)) continue;
        *flops = tf32 ? known[i].tf32 : known[i].f32;
        *bytes = known[i].memory;
        return;
    }
}

static void shares(const char *what, const dn_device *dev, double flop, double bytes, double seconds)
{
    double pf, pb;
    char text[96];
    peaks(dev->list[0].name, dev->options.tf32, &pf, &pb);
    double n = (double)dev->options.n_devices;
    snprintf(text, sizeof text, "%s: operations", what);
    row(text, flop / seconds / 1e12, "TFLOP/s");
    if (pf > 0) {
        snprintf(text, sizeof text, "%s: operations over peak", what);
        row(text, 100 * flop / seconds / (pf * n), "%");
    }
    snprintf(text, sizeof text, "%s: memory, at least", what);
    row(text, bytes / seconds / 1e9, "GB/s");
    if (pb > 0) {
        snprintf(text, sizeof text, "%s: memory over peak", what);
        row(text, 100 * bytes / seconds / (pb * n), "%");
    }
}

static dn_status bench_train(const options *o, dn_device *dev, dn_backend *be, dn_pool *pool, dn_err *err)
{
    dn_status status;
    training t = {0};
    dn_net *net = NULL;
    dn_rng rng;
    uint64_t *sizes = NULL, correct = 0, taken = 0, left = 0;
    size_t n_sizes = 0;
    double loss = 0, start = now();
    dn_rng_seed(&rng, 5);
    DN_TRY(dn_parse_list("--batches", o->batches, &sizes, &n_sizes, err));
    DN_TRY(make_training(&t, o, o->n_people, o->n_snps, pool, err));
    row("simulated genotypes", (double)(t.p.n * t.p.stride) / 1e9, "GB");
    row("simulation", now() - start, "s");
    start = now();
    DN_TRY(new_net(&net, &t, be, true, err));
    dn_net_batch first = take(&t, t.p.n < 64 ? t.p.n : 64, 0);
    DN_TRY(dn_net_train_batch(net, &first, 1e-4, 1e-4, &rng, &loss, &correct, err));
    row("network and genotypes to the device, first step", now() - start, "s");
    if (dev->cuda) {
        DN_TRY(dn_device_taken(dev, &taken, &left, err));
        row("device memory taken", (double)taken / 1e9, "GB");
    }
    for (size_t k = 0; k < n_sizes; k++) {
        uint64_t size = sizes[k] < t.p.n ? sizes[k] : t.p.n, epoch = (t.p.n + size - 1) / size, n = 0;
        char what[96];
        double flop, bytes, seconds;
        for (int i = 0; i < 2; i++) { /* warm up */
            dn_net_batch b = take(&t, size, (uint64_t)i);
            DN_TRY(dn_net_train_batch(net, &b, 1e-4, 1e-4, &rng, &loss, &correct, err));
        }
        for (start = now(); n < epoch && (n < 3 || now() - start < o->seconds); n++) {
            dn_net_batch b = take(&t, size, n);
            DN_TRY(dn_net_train_batch(net, &b, 1e-4, 1e-4, &rng, &loss, &correct, err));
        }
        DN_TRY(dn_net_pull(net, err)); /* waits for the last step */
        seconds = now() - start;
        snprintf(what, sizeof what, "batch %llu: training", (ull)size);
        row(what, (double)(n * size) / seconds, "people/s");
        snprintf(what, sizeof what, "batch %llu: step", (ull)size);
        row(what, 1e3 * seconds / (double)n, "ms");
        snprintf(what, sizeof what, "batch %llu: epoch%s", (ull)size,
                 n < epoch ? ", scaled from a part of it" : "");
        row(what, seconds * (double)epoch / (double)n, "s");
        snprintf(what, sizeof what, "batch %llu", (ull)size);
        floors(&t, size, &flop, &bytes);
        if (dev->cuda) shares(what, dev, flop * (double)n, bytes * (double)n, seconds);
    }
    start = now();
    uint64_t done = 0, block = be->eval_block < t.p.n ? be->eval_block : t.p.n;
    while (done < t.p.n && (done == 0 || now() - start < o->seconds)) {
        uint64_t n = t.p.n - done < block ? t.p.n - done : block;
        for (uint64_t i = 0; i < n; i++) t.rows[i] = t.p.base + (done + i) * t.p.stride;
        dn_net_batch b = {.n = n, .rows = t.rows, .label = t.label + done};
        DN_TRY(dn_net_eval(net, &b, &loss, &correct, NULL, NULL, NULL, err));
        done += n;
    }
    row("evaluation", (double)done / (now() - start), "people/s");
    status = DN_OK;
done:
    dn_net_free(net);
    free_training(&t);
    free(sizes);
    return status;
}

/* ---- prediction ---- */

typedef struct {
    dn_fat_problem p;
    dn_fat_member *member;
    float *weight;
    double *mean, *sd;
    uint64_t total;
} ensemble;

static void one_weight(void *ctx, size_t j, size_t worker)
{
    (void)worker;
    ensemble *e = ctx;
    uint64_t s = j, m = e->p.n_cols;
    for (uint64_t k = 0; k < e->p.n_members; k++) {
        const dn_fat_member *a = &e->member[k];
        float *w = e->weight + m * a->units * k + j * a->units;
        for (uint64_t u = 0; u < a->units; u++) w[u] = (float)(0.1 * (unit(&s) - 0.5));
    }
}

static dn_status make_ensemble(ensemble *e, const options *o, uint64_t n_snps, uint64_t units, dn_pool *pool,
                               dn_err *err)
{
    dn_status status;
    uint64_t s = o->seed;
    memset(e, 0, sizeof *e);
    e->total = o->models * units;
    DN_TRY(dn_alloc(&e->member, o->models, sizeof *e->member, "members", err));
    DN_TRY(dn_alloc_aligned(&e->weight, n_snps * e->total, sizeof *e->weight, "weights", err));
    DN_TRY(dn_alloc(&e->mean, o->folds * n_snps, sizeof *e->mean, "means", err));
    DN_TRY(dn_alloc(&e->sd, o->folds * n_snps, sizeof *e->sd, "deviations", err));
    for (uint64_t i = 0; i < o->folds * n_snps; i++) e->mean[i] = 0.9 + 0.2 * unit(&s), e->sd[i] = 0.7;
    for (uint64_t k = 0; k < o->models; k++) {
        uint64_t fold = k % o->folds;
        e->member[k] = (dn_fat_member){e->weight + n_snps * units * k, units, e->mean + fold * n_snps,
                                       e->sd + fold * n_snps};
    }
    e->p = (dn_fat_problem){n_snps, NULL, 1.0, o->models, e->member};
    dn_pool_run(pool, n_snps, one_weight, e);
    status = DN_OK;
done:
    return status;
}

static void free_ensemble(ensemble *e)
{
    free(e->member), free(e->weight), free(e->mean), free(e->sd);
}

static dn_status bench_predict(const options *o, dn_device *dev, dn_pool *pool, dn_err *err)
{
    dn_status status;
    ensemble e = {0};
    panel p = {0};
    dn_cuda_fat *f = NULL;
    float *z = NULL;
    const uint64_t block = 4096, people = 486748;
    uint64_t n = o->n_people / block * block, submitted = 0, back = 0;
    double start = now();
    if (n == 0) n = o->n_people;
    uint64_t each = n < block ? n : block, blocks = n / each;
    DN_TRY(make_panel(&p, n, o->n_snps, o->seed, pool, err));
    DN_TRY(make_ensemble(&e, o, o->n_snps, o->units, pool, err));
    DN_TRY(dn_alloc_aligned(&z, each * e.total, sizeof *z, "z", err));
    row("simulation", now() - start, "s");
    start = now();
    DN_TRY(dev->plugin->fat_new(&f, &e.p, each, &dev->options, err));
    row("weights to the device", now() - start, "s");
    /* Rows are used again and again, until the time is up: the last rounds count. */
    double begun = 0;
    uint64_t counted = 0;
    for (uint64_t i = 0; i < 2 || now() - begun < o->seconds; i++) {
        if (i == 2) begun = now(), counted = back;
        DN_TRY(dev->plugin->fat_submit(f, p.base + i % blocks * each * p.stride, p.stride, each, err));
        submitted++;
        if (submitted - back == 2) {
            DN_TRY(dev->plugin->fat_wait(f, z, err));
            back++;
        }
        if (i < 2) begun = now();
    }
    double seconds = now() - begun, n_done = (double)((back - counted) * each);
    while (back < submitted) {
        DN_TRY(dev->plugin->fat_wait(f, z, err));
        back++;
    }
    double flop = 2 * n_done * (double)o->n_snps * (double)e.total;
    row("fat layer, rows from memory", n_done / seconds, "people/s");
    row("the same for 486,748 people, scaled from a part of them", (double)people * seconds / n_done, "s");
    row("rows over PCIe", n_done * (double)o->n_snps / 4 / seconds / 1e9, "GB/s");
    shares("fat layer", dev, flop, 8 * (double)o->folds * n_done * (double)o->n_snps, seconds);
    status = DN_OK;
done:
    if (f) dev->plugin->fat_free(f);
    free_ensemble(&e);
    free(p.base);
    free(z);
    return status;
}

/* ---- comparison ---- */

static int bad;

static void compare(const char *what, double differs, double tolerance)
{
    bool ok = differs <= tolerance; /* false for NaN */
    printf("%s\t%.3g\t%s (%.0e)\n", what, differs, ok ? "within tolerance" : "TOO LARGE", tolerance);
    fflush(stdout);
    if (!ok) bad++;
}

static double largest(const float *a, const float *b, uint64_t n)
{
    double worst = 0, size = 1;
    for (uint64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - b[i]), s = fabs((double)b[i]);
        if (!(d <= worst)) worst = d;
        if (s > size) size = s;
    }
    return worst / size;
}

/* Three steps with dropout and an evaluation on both backends, by batch size. */
static dn_status check_train(const options *o, dn_backend *be, dn_backend *cpu, double tolerance,
                             dn_pool *pool, dn_err *err)
{
    dn_status status;
    static const uint64_t sizes[] = {7, 8, 9, 31, 33, 138, 552};
    training t;
    dn_net *net[3] = {NULL};
    char what[96];
    DN_TRY(make_training(&t, o, 600, o->n_snps < 5001 ? o->n_snps : 5001, pool, err));
    t.cfg.input_dropout = 0.1;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        double loss[3] = {0}, eval[3] = {0};
        uint64_t correct[3] = {0};
        for (int d = 0; d < 3; d++) { /* the CPU, the GPU with resident rows, the GPU with rows that come */
            dn_rng rng;
            dn_rng_seed(&rng, sizes[k]);
            DN_TRY(new_net(&net[d], &t, d ? be : cpu, d == 1, err));
            for (uint64_t i = 0; i < 3; i++) {
                dn_net_batch b = take(&t, sizes[k], i);
                DN_TRY(dn_net_train_batch(net[d], &b, 1e-3, 1e-3, &rng, &loss[d], &correct[d], err));
            }
            dn_net_batch all = take(&t, sizes[k] - 6, 9);
            DN_TRY(dn_net_eval(net[d], &all, &eval[d], &correct[d], NULL, NULL, NULL, err));
            DN_TRY(dn_net_pull(net[d], err));
        }
        snprintf(what, sizeof what, "batch %llu: loss of 3 steps", (ull)sizes[k]);
        compare(what, fabs(loss[1] / loss[0] - 1), tolerance);
        snprintf(what, sizeof what, "batch %llu: loss of an evaluation", (ull)sizes[k]);
        compare(what, fabs(eval[1] / eval[0] - 1), tolerance);
        size_t n;
        double worst = 0;
        bool same = loss[1] == loss[2] && eval[1] == eval[2];
        dn_net_param *a = dn_net_params(net[0], &n), *b = dn_net_params(net[1], &n),
                     *c = dn_net_params(net[2], &n);
        for (size_t i = 0; i < n; i++) {
            double x = largest(b[i].value, a[i].value, a[i].n);
            if (!(x <= worst)) worst = x;
            same = same && memcmp(b[i].value, c[i].value, b[i].n * sizeof(float)) == 0;
        }
        /* Adam divides by the root of squares: a gradient near zero may go either way, by a step of 1e-3.
         * Running statistics have the products' rounding, up to 1.5e-2 with TF32's factors cut to 10 bits
         * (tests/shim). */
        snprintf(what, sizeof what, "batch %llu: weights after 3 steps", (ull)sizes[k]);
        compare(what, worst, tolerance > 1e-3 ? 5e-2 : 7e-3);
        snprintf(what, sizeof what, "batch %llu: rows resident or not, other bytes", (ull)sizes[k]);
        compare(what, same ? 0 : 1, 0);
        for (int d = 0; d < 3; d++) dn_net_free(net[d]), net[d] = NULL;
    }
    status = DN_OK;
done:
    for (int d = 0; d < 3; d++) dn_net_free(net[d]);
    free_training(&t);
    return status;
}

static dn_status check_predict(const options *o, dn_device *dev, double tolerance, dn_pool *pool, dn_err *err)
{
    dn_status status;
    static const uint64_t sizes[] = {1, 7, 8, 9, 31, 33, 138, 552};
    ensemble e = {0};
    panel p = {0};
    dn_cuda_fat *f = NULL;
    float *want = NULL, *got = NULL, *again = NULL;
    uint64_t m = o->n_snps < 9999 ? o->n_snps : 9999, most = sizes[7];
    char what[96];
    DN_TRY(make_panel(&p, most, m, o->seed, pool, err));
    DN_TRY(make_ensemble(&e, o, m, 17, pool, err));
    DN_TRY(dn_alloc_aligned(&want, most * e.total, sizeof *want, "z", err));
    DN_TRY(dn_alloc_aligned(&got, most * e.total, sizeof *got, "z", err));
    DN_TRY(dn_alloc_aligned(&again, most * e.total, sizeof *again, "z", err));
    DN_TRY(dev->plugin->fat_new(&f, &e.p, most, &dev->options, err));
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        uint64_t n = sizes[k];
        DN_TRY(dn_fat_forward(&e.p, p.base, p.stride, n, want, pool, err));
        DN_TRY(dev->plugin->fat_submit(f, p.base, p.stride, n, err));
        DN_TRY(dev->plugin->fat_submit(f, p.base, p.stride, n, err));
        DN_TRY(dev->plugin->fat_wait(f, got, err));
        DN_TRY(dev->plugin->fat_wait(f, again, err));
        snprintf(what, sizeof what, "%llu people: fat layer of %llu models", (ull)n, (ull)o->models);
        compare(what, largest(got, want, n * e.total), tolerance);
        snprintf(what, sizeof what, "%llu people: twice, other bytes", (ull)n);
        compare(what, memcmp(got, again, n * e.total * sizeof *got) != 0, 0);
    }
    status = DN_OK;
done:
    if (f) dev->plugin->fat_free(f);
    free_ensemble(&e);
    free(p.base), free(want), free(got), free(again);
    return status;
}

int main(int argc, char **argv)
{
    options o = {.common = DN_COMMON_DEFAULT,
                 .device = {.device = DN_DEVICE_CUDA, .gpus = 1},
                 .batches = "138,512,2048",
                 .n_people = 292048,
                 .n_snps = 169829,
                 .n_classes = 24,
                 .units = 100,
                 .models = 15,
                 .folds = 5,
                 .seed = 1,
                 .seconds = 5};
    const dn_opt opts[] = {
        {DN_OPT_U64, "people", 'n', &o.n_people, "N", 8, 1e8, "people", NULL},
        {DN_OPT_U64, "snps", 'm', &o.n_snps, "M", 8, 1e8, "SNPs", NULL},
        {DN_OPT_U64, "classes", 'k', &o.n_classes, "C", 2, 1000, "classes", NULL},
        {DN_OPT_U64, "units", 'u', &o.units, "H", 1, 10000, "units of every hidden layer", NULL},
        {DN_OPT_U64, "models", 0, &o.models, "L", 1, 1000, "members of the ensemble", NULL},
        {DN_OPT_U64, "folds", 0, &o.folds, "F", 1, 1000, "of which so many have statistics of their own",
         NULL},
        {DN_OPT_STR, "batches", 'b', &o.batches, "LIST", 0, 0, "batch sizes", NULL},
        {DN_OPT_DOUBLE, "input-dropout", 0, &o.input_dropout, "P", 0, 0.99, "share of genotypes dropped",
         NULL},
        {DN_OPT_DOUBLE, "seconds", 0, &o.seconds, "S", 0, 1000, "for each figure, about", NULL},
        {DN_OPT_U64, "seed", 's', &o.seed, "S", 0, 0, "seed", NULL},
        DN_DEVICE_OPTS(o.device),
        DN_COMMON_OPTS(o.common),
    };
    dn_err err = {0};
    dn_status status;
    dn_strs operands = {0};
    static dn_device dev;
    dn_pool *pool = NULL;
    dn_backend *be = NULL, *cpu = NULL;
    dn_log_start("gpubench", argc, argv);
    DN_TRY(dn_opt_parse(argc, argv, opts, sizeof opts / sizeof *opts, &operands, &err));
    if (o.common.help) {
        dn_opt_help(stdout, "Usage: gpubench check|train|predict [options]",
                    "The GPU against the CPU, and against the clock.", opts, sizeof opts / sizeof *opts, "");
        goto done;
    }
    const char *what = operands.n == 1 ? dn_strs_get(&operands, 0) : "";
    bool train = strcmp(what, "train") == 0, predict = strcmp(what, "predict") == 0;
    if (!train && !predict && strcmp(what, "check") != 0)
        DN_TRY(dn_fail(&err, DN_EUSAGE, "say what: check, train or predict (see --help)"));
    DN_TRY(dn_common_finish(&o.common, &err));
    dn_log_level(o.common.quiet, o.common.verbose);
    DN_TRY(dn_device_choose(&dev, &o.device, o.common.threads, &err));
    dn_info("%s", dev.line);
    DN_TRY(dn_pool_new(&pool, o.common.threads, &err));
    DN_TRY(dn_device_load(&dev, &err));
    if (!dev.cuda && !train) DN_TRY(dn_fail(&err, DN_EUSAGE, "%s is for a GPU", what));
    if (!predict) DN_TRY(dn_backend_cpu(&cpu, pool, &err));
    if (!predict && dev.cuda) DN_TRY(dev.plugin->backend_new(&be, &dev.options, &err));
    if (train) DN_TRY(bench_train(&o, &dev, be ? be : cpu, pool, &err));
    if (predict) DN_TRY(bench_predict(&o, &dev, pool, &err));
    if (!train && !predict) {
        double tolerance = dev.options.tf32 ? 1e-2 : 1e-4;
        DN_TRY(check_predict(&o, &dev, tolerance, pool, &err));
        DN_TRY(check_train(&o, be, cpu, tolerance, pool, &err));
        if (bad) DN_TRY(dn_fail(&err, DN_ENUMERIC, "%d differences are too large", bad));
    }
    status = DN_OK;
done:
    dn_backend_free(be);
    dn_backend_free(cpu);
    dn_pool_free(pool);
    dn_strs_free(&operands);
    return dn_finish(status, &err);
}
