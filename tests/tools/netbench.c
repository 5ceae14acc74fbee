/* netbench: one training step on simulated genotypes, with its parts against their floors.
 *
 *   netbench [SNPS [BATCH [THREADS [REPEATS [CLASSES [UNITS [INPUT_DROPOUT [STEP_ONLY [FAST_RNG]]]]]]]]]
 *   (229986 138 2 5 24 100 0 0 0)
 *
 * Every SNP has its own allele frequency, classes differ a little, 0.5 % of the calls are missing. Times are
 * the best of the repeats: wall, and CPU time per thread, which other users of the machine disturb less. The
 * floor of a part is its number of operations over what the same kernel does on data that stay in L1. */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend_cpu_impl.h"
#include "net.h"
#include "opt.h"
#include "stats.h"

static uint64_t M, B, threads, repeats, C, H;

static double clock_of(clockid_t c)
{
    struct timespec t;
    clock_gettime(c, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t next(uint64_t *s)
{
    *s ^= *s >> 12, *s ^= *s << 25, *s ^= *s >> 27;
    return *s * 0x2545F4914F6CDD1DULL;
}

static double arg(int argc, char **argv, int i, double otherwise)
{
    double v = otherwise;
    if (i < argc && !dn_parse_double(argv[i], &v)) {
        fprintf(stderr, "netbench: \"%s\" is not a number\n", argv[i]);
        exit(2);
    }
    return v;
}

static void check(dn_status status, const dn_err *err)
{
    if (status == DN_OK) return;
    fprintf(stderr, "netbench: %s\n", err->msg);
    exit((int)status);
}

/* What is timed. */
static dn_net *net;
static dn_backend *be;
static dn_genome *genome; /* of its own, for the parts */
static dn_net_batch batch;
static float *w[2], *dw[2], *z;
static dn_rng rng;
static dn_err err;
static double loss;
static uint64_t correct;

static void step(void)
{
    check(dn_net_train_batch(net, &batch, 1e-3, 1e-3, &rng, &loss, &correct, &err), &err);
}
static void load(void)
{
    check(be->ops->load_rows(be, genome, batch.rows, B, 1, NULL, &err), &err);
}
static void aux_forward(void)
{
    check(be->ops->aux_forward(be, genome, w, &err), &err);
}
static void fat_forward(void)
{
    check(be->ops->fat_forward(be, genome, z, &err), &err);
}
static void both_forward(void)
{
    check(be->ops->aux_fat_forward(be, genome, w, z, &err), &err);
}
static void fat_backward(void)
{
    check(cpu_backward(be, genome, w, z, dw, false, true, &err), &err);
}
static void aux_backward(void)
{
    check(cpu_backward(be, genome, w, z, dw, true, false, &err), &err);
}
static void both_backward(void)
{
    check(cpu_backward(be, genome, w, z, dw, true, true, &err), &err);
}
static void adam(void)
{
    uint64_t n = H * (3 * C + H);
    check(be->ops->adam(be, w[0], dw[0], dw[0] + n, dw[0] + 2 * n, n, 1e-9, 5, &err), &err);
}

/* Milliseconds: wall, and CPU per thread. */
static double time_of(const char *what, void (*f)(void), double floor_ms)
{
    double wall = 1e9, cpu = 1e9;
    for (uint64_t r = 0; r < repeats + 1; r++) {
        double t = clock_of(CLOCK_MONOTONIC), c = clock_of(CLOCK_PROCESS_CPUTIME_ID);
        f();
        t = clock_of(CLOCK_MONOTONIC) - t, c = (clock_of(CLOCK_PROCESS_CPUTIME_ID) - c) / (double)threads;
        if (r == 0) continue; /* warm-up */
        wall = t < wall ? t : wall;
        cpu = c < cpu ? c : cpu;
    }
    printf("%-28s %8.2f ms wall %8.2f ms cpu per thread", what, 1e3 * wall, 1e3 * cpu);
    if (floor_ms > 0) printf("   floor %7.2f ms (%.0f %%)", floor_ms, 100 * floor_ms / (1e3 * cpu));
    putchar('\n');
    return wall;
}

/* Multiply-adds per second of the dense kernel, and table rows (16 floats) added per second, both on data in
 * L1. */
static void hot_rates(double *gemm, double *tables)
{
    cpu_backend *cb = (cpu_backend *)be;
    static _Alignas(64) float x[6 * 128], y[6 * 128], b[128 * 128], acc[16 * 64];
    static _Alignas(64) float table[CPU_TABLE];
    uint64_t word[64] = {0}, s = 1;
    size_t panel = cb->kern->panel < 48 ? cb->kern->panel : 48;
    *gemm = *tables = 0;
    for (int i = 0; i < 64; i++) word[i] = next(&s) & 0x0303030303030303u;
    for (int rep = 0; rep < 8; rep++) {
        double t = clock_of(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < 20000; i++)
            cb->kern->mul(x, 128, b, 6, 100, panel, panel, y, CPU_PLAIN, NULL, NULL, NULL, NULL, 0);
        t = clock_of(CLOCK_PROCESS_CPUTIME_ID) - t;
        double rate = 20000.0 * 6 * 100 * (double)panel / t;
        *gemm = rate > *gemm ? rate : *gemm;
        t = clock_of(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < 20000; i++) cb->kern->add(table, word, NULL, 64, acc, false);
        t = clock_of(CLOCK_PROCESS_CPUTIME_ID) - t;
        rate = 20000.0 * 64 * CPU_GROUPS / t;
        *tables = rate > *tables ? rate : *tables;
    }
}

/* The same products by OpenBLAS (one thread, its own choice of kernels unless OPENBLAS_CORETYPE is set) and
 * by our kernels, block after block through memory: G multiply-adds per second. */
void openblas_set_num_threads(int n) __attribute__((weak));
static void against_blas(void)
{
    enum { N_BLOCKS = 128 };
    const cpu_kernels *k = ((cpu_backend *)be)->kern;
    size_t pad = cpu_pad(H), rows = N_BLOCKS * CPU_BLOCK;
    float *x, *y, *wt, *packed, *d;
    check(be->ops->alloc(be, &x, rows * pad, "x", &err), &err);
    check(be->ops->alloc(be, &y, rows * pad, "y", &err), &err);
    check(be->ops->alloc(be, &wt, H * H, "w", &err), &err);
    check(be->ops->alloc(be, &packed, H * pad, "w", &err), &err);
    check(be->ops->alloc(be, &d, (H + CPU_ROWS) * pad, "dw", &err), &err);
    dn_rng_uniform(&rng, -1, 1, x, rows * pad);
    dn_rng_uniform(&rng, -1, 1, wt, H * H);
    cpu_pack(wt, 1, H, H, H, pad, k->panel, packed);
    if (openblas_set_num_threads) openblas_set_num_threads(1);
    double best[4] = {1e9, 1e9, 1e9, 1e9};
    int h = (int)H, ld = (int)pad;
    for (int rep = 0; rep < 3; rep++) {
        for (int how = 0; how < 4; how++) {
            double t = clock_of(CLOCK_PROCESS_CPUTIME_ID);
            for (size_t b = 0; b < N_BLOCKS; b++) {
                float *xb = x + b * CPU_BLOCK * pad, *yb = y + b * CPU_BLOCK * pad;
                if (how == 0)
                    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, CPU_BLOCK, h, h, 1, xb, ld, wt, h, 0,
                                yb, ld);
                if (how == 1)
                    k->mul(xb, pad, packed, CPU_BLOCK, H, H, pad, yb, CPU_PLAIN, NULL, NULL, NULL, NULL, 0);
                if (how == 2)
                    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, h, h, CPU_BLOCK, 1, yb, ld, xb, ld,
                                1, d, ld);
                if (how == 3) k->mul_t(yb, pad, xb, CPU_BLOCK, H, H, pad, d, NULL, 0);
            }
            t = clock_of(CLOCK_PROCESS_CPUTIME_ID) - t;
            best[how] = t < best[how] ? t : best[how];
        }
    }
    double macs = (double)(rows * H * H) / 1e9;
    printf("products, one thread: x w: OpenBLAS %.1f, ours %.1f; d x: OpenBLAS %.1f, ours %.1f G "
           "multiply-adds/s\n",
           macs / best[0], macs / best[1], macs / best[2], macs / best[3]);
    be->ops->release(be, x), be->ops->release(be, y), be->ops->release(be, wt), be->ops->release(be, packed);
    be->ops->release(be, d);
}

int main(int argc, char **argv)
{
    M = (uint64_t)arg(argc, argv, 1, 229986), B = (uint64_t)arg(argc, argv, 2, 138),
    threads = (uint64_t)arg(argc, argv, 3, 2);
    repeats = (uint64_t)arg(argc, argv, 4, 5), C = (uint64_t)arg(argc, argv, 5, 24),
    H = (uint64_t)arg(argc, argv, 6, 100);
    double input_dropout = arg(argc, argv, 7, 0);
    uint64_t s = 88172645463325252ull, row_bytes = (M + 255) / 256 * 64;
    dn_pool *pool;
    uint8_t *data;
    const uint8_t **rows;
    int64_t *label;
    uint32_t *counts;
    uint64_t *size;
    double *mean, *sd, *emb;
    float *e;
    check(dn_pool_new(&pool, (size_t)threads, &err), &err);
    check(dn_backend_cpu(&be, pool, &err), &err);
    check(dn_alloc_aligned(&data, B, (size_t)row_bytes, "rows", &err), &err);
    check(dn_alloc(&rows, B, sizeof *rows, "rows", &err), &err);
    check(dn_alloc(&label, B, sizeof *label, "labels", &err), &err);
    check(dn_alloc(&counts, M * C * 3, sizeof *counts, "counts", &err), &err);
    check(dn_alloc(&size, C, sizeof *size, "sizes", &err), &err);
    check(dn_alloc(&mean, M, sizeof *mean, "mean", &err), &err);
    check(dn_alloc(&sd, M, sizeof *sd, "sd", &err), &err);
    check(dn_alloc(&emb, M * C * 3, sizeof *emb, "embedding", &err), &err);
    check(dn_alloc(&e, M * C * 3, sizeof *e, "embedding", &err), &err);
    memset(data, 0xff, B * row_bytes);
    for (uint64_t i = 0; i < B; i++) {
        label[i] = (int64_t)(i % C);
        rows[i] = data + i * row_bytes;
        size[label[i]]++;
    }
    for (uint64_t j = 0; j < M; j++) {
        double u = (double)(next(&s) >> 40) * 0x1p-24, f0 = 0.02 + 0.48 * u * u;
        for (uint64_t i = 0; i < B; i++) {
            uint64_t r = next(&s);
            double f = f0 * (0.6 + 0.8 * (double)(((uint64_t)label[i] * 2654435761u + j * 40503u) % 97) / 97);
            unsigned g = ((double)(r & 0xffff) < f * 65536) + ((double)(r >> 16 & 0xffff) < f * 65536);
            if ((r >> 32) % 1000 < 5) g = 3;
            uint8_t *b = &data[i * row_bytes + j / 4];
            *b = (uint8_t)((*b & ~(3u << j % 4 * 2)) | g << j % 4 * 2);
        }
    }
    check(dn_counts_add(counts, M, C, rows, label, B, pool, &err), &err);
    dn_stats(counts, M, C, mean, sd, NULL, NULL);
    dn_embedding(counts, M, C, size, emb);
    dn_embedding_normalise(emb, M, C * 3, e);
    free(counts);
    free(emb);

    dn_net_config cfg = {.task = DN_TASK_CLASSIFICATION,
                         .n_snps = M,
                         .n_features = 3 * C,
                         .n_out = C,
                         .n_aux = 2,
                         .n_main = 1,
                         .aux = {H, H},
                         .main = {H},
                         .uniform_init_limit = 0.02,
                         .input_dropout = input_dropout};
    dn_rng_seed(&rng, 1);
    check(dn_net_new(&net, &cfg, e, mean, sd, be, &err), &err);
    check(dn_net_init(net, &rng, &err), &err);
    dn_genome_spec spec = {M, 3 * C, 2, {H, H}, e, mean, sd};
    check(be->ops->genome_new(be, &genome, &spec, &err), &err);
    uint64_t n0 = 3 * C * H, n1 = H * H;
    check(be->ops->alloc(be, &w[0], n0 + n1, "weights", &err), &err);
    check(be->ops->alloc(be, &dw[0], 3 * (n0 + n1), "gradients", &err), &err);
    check(be->ops->alloc(be, &z, B * H, "sums", &err), &err);
    w[1] = w[0] + n0, dw[1] = dw[0] + n0;
    dn_rng_uniform(&rng, -0.02f, 0.02f, w[0], n0 + n1);
    if (arg(argc, argv, 9, 0) != 0) dn_rng_use_fast(&rng, 78);
    batch = (dn_net_batch){B, rows, label, NULL};

    double gemm, tables, per = (double)threads;
    hot_rates(&gemm, &tables);
    printf("%s; %llu SNPs x %llu people, %llu classes, %llu units; in L1: %.0f G multiply-adds/s, %.0f G "
           "table adds/s (x 16)\n",
           be->name, (unsigned long long)M, (unsigned long long)B, (unsigned long long)C,
           (unsigned long long)H, gemm / 1e9, tables / 1e9);
    uint64_t kept = genome->shares.C ? 2 * C : 3 * C;
    double macs_f = (double)M * (double)(kept * H + H * H),
           macs_b = (double)M * (double)(kept * H + 2 * H * H);
    double slices = (double)((H + 15) / 16), adds_f = (double)M / 3 * (double)B * slices,
           adds_b = (double)M * ((double)B / 3) * slices;
    double gf = 1e3 / gemm / per, gt = 1e3 / tables / per;
    double t = time_of("step", step, (macs_f + macs_b) * gf + (adds_f + adds_b) * gt);
    if (arg(argc, argv, 8, 0) != 0) {
        printf("%.0f samples/s\n", (double)B / t);
        return 0;
    }
    time_of("  load rows", load, 0);
    time_of("  forward", both_forward, macs_f * gf + adds_f * gt);
    time_of("    auxiliary net, tanh", aux_forward, macs_f * gf);
    time_of("    tables", fat_forward, adds_f * gt);
    time_of("  backward", both_backward, macs_b * gf + adds_b * gt);
    time_of("    tables", fat_backward, adds_b * gt);
    time_of("    auxiliary net", aux_backward, macs_b * gf);
    time_of("  Adam (auxiliary net)", adam, 0);
    printf("%.0f samples/s\n", (double)B / t);
    against_blas();
    dn_net_free(net);
    be->ops->genome_free(be, genome);
    be->ops->release(be, w[0]);
    be->ops->release(be, dw[0]);
    be->ops->release(be, z);
    dn_backend_free(be);
    dn_pool_free(pool);
    free(data), free((void *)rows), free(label), free(size), free(mean), free(sd), free(e);
    return 0;
}
