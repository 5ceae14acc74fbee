/* Every operation of the CUDA backend against the CPU's, on shapes that fit no vector, block or chunk.
 * Tolerances are relative to the largest value of the CPU's result (or absolute, where that is below 1):
 * float32 sums of n terms in another order, and functions (tanh, exp) that differ in the last place. */
#include "net.h"
#include "plugin.h"
#include "stats.h"

#define TOL_EXACT   0.0
#define TOL_ELEMENT 4e-7 /* no sum, or one in double: a few roundings, fused or not */
#define TOL_DENSE   3e-6 /* sums of up to 552 products in float32 */
#define TOL_BN      2e-6 /* sums in double; differences of near values */
#define TOL_AUX     3e-6 /* up to three layers */
#define TOL_FAT     2e-5 /* sums over up to 2,600 SNPs of products with standardised dosages */
#define TOL_GRAD    1e-4 /* the same over people, then over SNPs, through up to three layers */
#define TOL_LOSS    1e-6

static unsigned long long seed = 9;
static dn_backend *cpu, *gpu;
static dn_err err;
static char what[200];

static float uniform(void)
{
    return (float)((double)(check_rand(&seed) >> 40) * 0x1p-24 - 0.5);
}

/* An array on both sides. */
typedef struct {
    uint64_t n;
    float *c, *g;
} both;

static both array(uint64_t n, float scale)
{
    both a = {n, NULL, NULL};
    float *h = malloc((n + 1) * sizeof *h);
    for (uint64_t i = 0; i < n; i++) h[i] = uniform() * scale;
    CHECK_OK(cpu->ops->alloc(cpu, &a.c, n, "test", &err), &err);
    CHECK_OK(gpu->ops->alloc(gpu, &a.g, n, "test", &err), &err);
    CHECK_OK(cpu->ops->upload(cpu, a.c, h, n, &err), &err);
    CHECK_OK(gpu->ops->upload(gpu, a.g, h, n, &err), &err);
    memset(h, 0x55, n * sizeof *h); /* ours again on return */
    free(h);
    return a;
}
static void drop(both a)
{
    cpu->ops->release(cpu, a.c);
    gpu->ops->release(gpu, a.g);
}

static void same_host(const char *name, const float *c, const float *g, uint64_t n, double tol)
{
    double worst = 0, top = 1;
    for (uint64_t i = 0; i < n; i++) {
        double d = fabs((double)c[i] - g[i]);
        if (!(d <= worst)) worst = d;
        if (fabsf(c[i]) > top) top = fabsf(c[i]);
    }
    CHECK_MSG(worst <= tol * top, "%s: %s: off by %g of %g", what, name, worst, top);
}

static void same(const char *name, both a, double tol)
{
    float *h = malloc((a.n + 1) * sizeof *h);
    CHECK_OK(gpu->ops->download(gpu, h, a.g, a.n, &err), &err);
    same_host(name, a.c, h, a.n, tol);
    free(h);
}

/* Calls an operation on both. */
#define BOTH(op, ...)                                                                                        \
    do {                                                                                                     \
        for (int side = 0; side < 2; side++) {                                                               \
            dn_backend *be = side ? gpu : cpu;                                                               \
            CHECK_OK(be->ops->op(be, __VA_ARGS__, &err), &err);                                              \
        }                                                                                                    \
    } while (0)
#define P(a) (side ? (a).g : (a).c)

static void check_memory(void)
{
    snprintf(what, sizeof what, "memory");
    both z = array(0, 1), a = array(5000000, 1); /* more than one pinned buffer */
    float *h;
    same("upload and download", a, TOL_EXACT);
    CHECK_OK(gpu->ops->alloc(gpu, &h, 1000, "test", &err), &err);
    float got[1000];
    CHECK_OK(gpu->ops->download(gpu, got, h, 1000, &err), &err);
    for (int i = 0; i < 1000; i++) CHECK(got[i] == 0);
    gpu->ops->release(gpu, h);
    gpu->ops->release(gpu, NULL);
    drop(a), drop(z);
}

static void check_dense(uint64_t B, uint64_t n_in, uint64_t n_out)
{
    snprintf(what, sizeof what, "B %llu, %llu -> %llu", (unsigned long long)B, (unsigned long long)n_in,
             (unsigned long long)n_out);
    both x = array(B * n_in, 2), w = array(n_out * n_in, 1), bias = array(n_out, 1), y = array(B * n_out, 1);
    both dw = array(n_out * n_in, 1), db = array(n_out, 1), dx = array(B * n_in, 1);
    BOTH(dense_forward, P(x), P(w), P(bias), B, n_in, n_out, P(y));
    same("dense_forward", y, TOL_DENSE);
    BOTH(dense_backward, P(x), P(w), P(y), B, n_in, n_out, P(dw), P(db), P(dx));
    same("dense_backward dw", dw, TOL_DENSE * 4);
    same("dense_backward db", db, TOL_ELEMENT * 4);
    same("dense_backward dx", dx, TOL_DENSE);
    BOTH(dense_backward, P(x), P(w), P(y), B, n_in, n_out, P(dw), P(db), P(x)); /* dx over x */
    same("dense_backward in place", x, TOL_DENSE);
    BOTH(bias_forward, P(y), P(bias), B, n_out);
    same("bias_forward", y, TOL_DENSE);
    BOTH(bias_backward, P(y), B, n_out, P(db));
    same("bias_backward", db, TOL_DENSE);
    drop(x), drop(w), drop(bias), drop(y), drop(dw), drop(db), drop(dx);
}

static void check_bn(uint64_t B, uint64_t n)
{
    snprintf(what, sizeof what, "BatchNorm, B %llu, n %llu", (unsigned long long)B, (unsigned long long)n);
    both z = array(B * n, 4), gamma = array(n, 1), beta = array(n, 1), mean = array(n, 1), var = array(n, 0);
    both xhat = array(B * n, 1), inv = array(n, 1), y = array(B * n, 1), dgamma = array(n, 1),
         dbeta = array(n, 1);
    if (B >= 2) {
        BOTH(relu_bn_train, P(z), P(gamma), P(beta), B, n, P(mean), P(var), P(xhat), P(inv), P(y));
        same("running mean", mean, TOL_BN), same("running variance", var, TOL_BN);
        same("xhat", xhat, TOL_BN), same("1/sd", inv, TOL_BN), same("y", y, TOL_BN);
        BOTH(relu_bn_backward, P(y), P(z), P(gamma), P(xhat), P(inv), B, n, P(dgamma), P(dbeta), P(y));
        same("dgamma", dgamma, TOL_BN * 4), same("dbeta", dbeta, TOL_BN * 4), same("dz", y, TOL_BN * 4);
    }
    BOTH(relu_bn_eval, P(z), P(gamma), P(beta), P(mean), P(var), B, n, P(z));
    same("relu_bn_eval", z, TOL_BN * 4);
    drop(z), drop(gamma), drop(beta), drop(mean), drop(var), drop(xhat), drop(inv), drop(y), drop(dgamma),
        drop(dbeta);
}

static void check_elements(uint64_t n)
{
    snprintf(what, sizeof what, "n %llu", (unsigned long long)n);
    both mask = array(n, 1), y = array(n, 1);
    uint8_t *keep = malloc(n);
    for (uint64_t i = 0; i < n; i++) keep[i] = check_rand(&seed) >> 40 & 1;
    BOTH(dropout_mask, P(mask), keep, n, 1.25f);
    same("dropout_mask", mask, TOL_EXACT);
    BOTH(multiply, P(y), P(mask), n);
    same("multiply", y, TOL_EXACT);
    both w = array(n, 1), m = array(n, 0), v = array(n, 0), d = array(n, 1);
    for (uint64_t t = 1; t <= 3; t++) BOTH(adam, P(w), P(d), P(m), P(v), n, 1e-2, t);
    same("adam w", w, TOL_ELEMENT), same("adam m", m, TOL_ELEMENT), same("adam v", v, TOL_ELEMENT);
    drop(mask), drop(y), drop(w), drop(m), drop(v), drop(d);
    free(keep);
}

static void check_loss(uint64_t B, uint64_t C)
{
    snprintf(what, sizeof what, "loss, B %llu, C %llu", (unsigned long long)B, (unsigned long long)C);
    both z = array(B * C, 20), dz = array(B * C, 1), col = array(B, 3), dcol = array(B, 1);
    int64_t *label = malloc(B * sizeof *label);
    double *target = malloc(B * sizeof *target), loss[2];
    float *prob[2] = {malloc(B * C * sizeof **prob), malloc(B * C * sizeof **prob)};
    uint64_t correct[2];
    for (uint64_t b = 0; b < B; b++) label[b] = (int64_t)(check_rand(&seed) % C), target[b] = 2 * uniform();
    BOTH(softmax_loss, P(z), label, B, C, P(dz), prob[side], &loss[side], &correct[side]);
    CHECK_MSG(fabs(loss[0] - loss[1]) <= TOL_LOSS * (1 + loss[0]), "%s: %g and %g", what, loss[0], loss[1]);
    CHECK(correct[0] == correct[1]);
    same("softmax_loss dz", dz, TOL_ELEMENT);
    same_host("probabilities", prob[0], prob[1], B * C, TOL_ELEMENT);
    loss[1] = 0;
    BOTH(softmax_loss, P(z), label, B, C, NULL, NULL, &loss[side], &correct[side]);
    CHECK(fabs(loss[0] - loss[1]) <= TOL_LOSS * (1 + loss[0]) && correct[0] == correct[1]);
    BOTH(mse_loss, P(col), target, B, P(dcol), prob[side], &loss[side]);
    CHECK_MSG(fabs(loss[0] - loss[1]) <= TOL_LOSS * (1 + loss[0]), "%s: %g and %g", what, loss[0], loss[1]);
    same("mse_loss dz", dcol, TOL_ELEMENT);
    same_host("values", prob[0], prob[1], B, TOL_EXACT);
    BOTH(mse_loss, P(col), target, B, NULL, NULL, &loss[side]);
    /* A loss that is not finite is seen. */
    float nan_row = NAN;
    CHECK_OK(gpu->ops->upload(gpu, z.g, &nan_row, 1, &err), &err);
    CHECK_OK(gpu->ops->softmax_loss(gpu, z.g, label, B, C, NULL, NULL, &loss[1], &correct[1], &err), &err);
    CHECK(!isfinite(loss[1]));
    drop(z), drop(dz), drop(col), drop(dcol);
    free(label), free(target), free(prob[0]), free(prob[1]);
}

/* ---- genotypes and the auxiliary net ---- */

typedef struct {
    uint64_t M, B, K, H;
    dn_genome_spec spec;
    uint8_t *packed;
    uint64_t stride;
    const uint8_t **rows;
} genome;

static genome make_genome(uint64_t M, uint64_t B, uint64_t K, size_t n_aux, const uint64_t *aux)
{
    genome p = {.M = M, .B = B, .K = K, .H = n_aux ? aux[n_aux - 1] : K, .stride = dn_geno_bytes(M) + 3};
    p.packed = malloc(3 * B * p.stride);
    p.rows = malloc(B * sizeof *p.rows);
    float *emb = malloc(M * K * sizeof *emb);
    double *mean = malloc(M * sizeof *mean), *sd = malloc(M * sizeof *sd);
    for (uint64_t i = 0; i < 3 * B * p.stride; i++) /* a tenth of the calls missing; padding is anything */
        p.packed[i] = (uint8_t)(check_rand(&seed) >> 20) & (uint8_t)(check_rand(&seed) % 5 ? 0x56 : 0xff);
    for (uint64_t i = 0; i < B; i++) p.rows[i] = p.packed + (i * 7 + 2) % (3 * B) * p.stride;
    for (uint64_t i = 0; i < M * K; i++) emb[i] = uniform();
    for (uint64_t j = 0; j < M; j++) {
        bool flat = check_rand(&seed) % 9 == 0;
        mean[j] = flat && j % 2 ? NAN : 1 + uniform();
        sd[j] = flat ? 1e-6 : 0.7 + uniform();
    }
    p.spec = (dn_genome_spec){M, K, n_aux, {0}, emb, mean, sd};
    for (size_t l = 0; l < n_aux; l++) p.spec.aux[l] = aux[l];
    return p;
}
static void drop_genome(genome *p)
{
    free((void *)p->spec.emb), free((void *)p->spec.mean), free((void *)p->spec.sd), free(p->packed),
        free(p->rows);
}

enum { FAST = 1, RESIDENT = 2 };

static void check_genome(genome *p, double keep, int how)
{
    const uint64_t *aux = p->spec.aux;
    size_t n_aux = p->spec.n_aux;
    snprintf(what, sizeof what, "M %llu, B %llu, %zu aux layers, keep %g%s%s, %s", (unsigned long long)p->M,
             (unsigned long long)p->B, n_aux, keep, how & FAST ? ", fast" : "",
             how & RESIDENT ? ", resident" : "", gpu->name);
    dn_genome *g[2];
    both w[4], dw[4], z = array(p->B * p->H, 1), dz = array(p->B * p->H, 1);
    for (size_t l = 0, in = p->K; l < n_aux; in = aux[l++])
        w[l] = array(aux[l] * in, 0.6f), dw[l] = array(aux[l] * in, 1);
    float *W[2][4], *dW[2][4], *fat[2];
    for (size_t l = 0; l < n_aux; l++)
        W[0][l] = w[l].c, W[1][l] = w[l].g, dW[0][l] = dw[l].c, dW[1][l] = dw[l].g;
    BOTH(genome_new, &g[side], &p->spec);
    if (how & RESIDENT) {
        BOTH(resident, g[side], p->packed, p->stride, 3 * p->B);
        CHECK_MSG(strstr(gpu->name, "resident"), "%s", gpu->name);
    }
    dn_rng rng[2];
    dn_rng_seed(&rng[0], 5);
    if (how & FAST) dn_rng_use_fast(&rng[0], 0x123456789abcdefu), rng[0].at = ((uint64_t)1 << 33) + 3;
    rng[1] = rng[0];
    for (int round = 0; round < 3; round++) { /* staging buffers change places */
        uint64_t n = round == 1 ? (p->B + 1) / 2 : p->B;
        const uint8_t **copy = malloc(n * sizeof *copy);
        memcpy(copy, p->rows + (p->B - n), n * sizeof *copy);
        BOTH(load_rows, g[side], copy, n, keep, &rng[side]);
        memset(copy, 0, n * sizeof *copy);
        free(copy);
        CHECK(memcmp(&rng[0], &rng[1], sizeof rng[0]) == 0);
        if (round == 1) {
            BOTH(aux_forward, g[side], W[side]);
            BOTH(fat_forward, g[side], P(z));
        } else {
            BOTH(aux_fat_forward, g[side], W[side], P(z));
        }
        both part = {n * p->H, z.c, z.g};
        same(round == 1 ? "fat_forward" : "aux_fat_forward", part, TOL_FAT);
        if (round == 1) continue;
        BOTH(aux_fat_backward, g[side], W[side], P(dz), dW[side]);
        for (size_t l = 0; l < n_aux; l++) {
            char name[50];
            snprintf(name, sizeof name, "aux_fat_backward layer %zu", l);
            same(name, dw[l], TOL_GRAD);
        }
    }
    fat[0] = malloc(p->M * p->H * sizeof **fat), fat[1] = malloc(p->M * p->H * sizeof **fat);
    BOTH(fat_download, g[side], fat[side]);
    same_host("aux_forward", fat[0], fat[1], p->M * p->H, TOL_AUX);
    BOTH(fat_forward, g[side], P(z)); /* again: nothing was used up */
    same("fat_forward once more", z, TOL_FAT);
    /* Batches that come before this one's sums are looked at, into the same buffers. */
    const uint8_t **other = malloc(p->B * sizeof *other);
    for (uint64_t b = 0; b < p->B; b++) other[b] = p->rows[p->B - 1 - b];
    BOTH(load_rows, g[side], p->rows, p->B, keep, &rng[side]);
    BOTH(fat_forward, g[side], P(z));
    for (int i = 0; i < 3; i++) BOTH(load_rows, g[side], other, p->B, keep, &rng[side]);
    same("fat_forward, with later batches loaded", z, TOL_FAT);
    BOTH(fat_forward, g[side], P(z));
    same("fat_forward of a later batch", z, TOL_FAT);
    free(other);
    cpu->ops->genome_free(cpu, g[0]);
    gpu->ops->genome_free(gpu, g[1]);
    for (size_t l = 0; l < n_aux; l++) drop(w[l]), drop(dw[l]);
    drop(z), drop(dz);
    free(fat[0]), free(fat[1]);
}

static void open_gpu(size_t n)
{
    const dn_cuda_options o = {n, false, 0};
    CHECK_OK(plug->backend_new(&gpu, &o, &err), &err);
}
static void close_gpu(void)
{
    dn_backend_free(gpu);
    check_clean(what);
}

int main(void)
{
    const uint64_t sizes[] = {1, 7, 8, 9, 31, 33, 138, 552};
    enum { N = sizeof sizes / sizeof *sizes };
    dn_pool *pool;
    load_plugin();
    CHECK_OK(dn_pool_new(&pool, 1, &err), &err);
    CHECK_OK(dn_backend_cpu(&cpu, pool, &err), &err);
    open_gpu(1);
    CHECK(!gpu->host_memory && gpu->eval_block >= 512 && strstr(gpu->name, real ? "cuda (" : "cuda (Shim 0"));
    check_memory();
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < 3; k++) {
            check_dense(sizes[i], sizes[(i + k) % 7], sizes[(i + 3 * k) % 7]);
            check_bn(sizes[i], sizes[(i + 2 * k) % 7]);
        }
        check_elements(sizes[i] * 31);
        check_loss(sizes[i], i % 2 ? 24 : 5);
    }
    check_loss(33, 1);
    check_loss(9, 300);
    close_gpu();

    const uint64_t aux[] = {10, 13, 7};
    for (size_t i = 0; i < N; i++) {
        for (int v = 0; v < 4; v++) {
            genome p = make_genome(sizes[(i * 3 + 5) % N] + (uint64_t)v, sizes[i], 9, (size_t)v, aux);
            open_gpu(1);
            check_genome(&p, v % 2 ? 0.7 : 1, v == 3 ? FAST : i % 2 ? RESIDENT : 0);
            close_gpu();
            drop_genome(&p);
        }
    }
    /* Several chunks, and, where memory is little, several slices; several devices. */
    shim_set("DN_SHIM_DEVICES", "4");
    genome p = make_genome(2593, 33, 6, 2, aux), tiny = make_genome(70, 8, 6, 2, aux);
    size_t most = devices_of(4);
    for (size_t devices = 1; devices <= most; devices++) {
        for (int v = 0; v < 6; v++) {
            const char *const modes[] = {"3", "2", "1", "128", "1", "3"};
            shim_set("DN_SHIM_LAZY", modes[v]);
            shim_set("DN_SHIM_MEMORY", v % 3 == 2 ? "3000000" : NULL);
            open_gpu(devices);
            check_genome(&p, v == 0 ? 1 : 0.8,
                         v == 4   ? FAST | RESIDENT
                         : v == 3 ? FAST
                         : v == 1 ? RESIDENT
                                  : 0);
            check_genome(&tiny, 0.8, v == 4 ? FAST : 0); /* some devices have no SNP */
            close_gpu();
        }
    }
    drop_genome(&p), drop_genome(&tiny);
    dn_backend_free(cpu);
    dn_pool_free(pool);
    return check_done();
}
