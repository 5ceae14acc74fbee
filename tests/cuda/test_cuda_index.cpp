/* Index arithmetic beyond 2^31 and 2^32 items: kernels of the plugin over sparse memory, of which the shim
 * plays the last blocks alone. What they must write lies at the far end; a 32-bit product anywhere would end
 * up elsewhere. */
#include <math.h>
#include <sys/mman.h>

#include "check.h"
#include "cuda_backend.cuh"
#include "shim.h"

extern "C" const shim_control *shim_control_get(void);
static const shim_control *shim;
static dn_err err;

/* UK Biobank's shape. */
static const uint64_t PEOPLE = 292048, SNPS = 169829, STRIDE = (SNPS + 63) / 64 * 16;

static void only_the_end(gpu *g, long blocks)
{
    g->max_blocks = UINT32_MAX; /* a thread per item */
    shim->last_blocks(blocks);
}

static unsigned code_at(const uint8_t *row, uint64_t snp)
{
    return row[snp / 4] >> (snp % 4 * 2) & 3u;
}

/* 32,768 people of 12.4 GB of rows to 22 GB of floats. */
static void check_decode(void)
{
    gpu g;
    uint8_t *rows;
    uint64_t *index, n = 32768, ld = STRIDE * 4, last[64];
    float4 *dosage;
    float *x;
    CHECK_OK(gpu_open(&g, 0, 0, false, &err), &err);
    CHECK_OK(gpu_alloc(&g, &rows, PEOPLE * STRIDE, "test", &err), &err);
    CHECK_OK(gpu_alloc(&g, &index, n, "test", &err), &err);
    CHECK_OK(gpu_alloc(&g, &dosage, ld, "test", &err), &err);
    CHECK_OK(gpu_alloc(&g, &x, n * ld, "test", &err), &err);
    for (uint64_t i = 0; i < 64; i++) last[i] = PEOPLE - 1 - i;
    CHECK_OK(gpu_upload(&g, g.stream, index + n - 64, last, sizeof last, &err), &err);
    CHECK_OK(gpu_sync(&g, &err), &err);
    for (uint64_t j = 0; j < ld; j++) dosage[j] = make_float4(1, (float)j, -(float)j, 0);
    for (uint64_t i = 0; i < 8; i++) rows[last[56 + i] * STRIDE + (SNPS - 1) / 4 - 5] = (uint8_t)(0xe4 + i);
    packed_rows r = {rows, STRIDE, (SNPS + 3) / 4, index};
    only_the_end(&g, 1);
    CHECK_OK(gpu_decode(&g, &r, n, 0, SNPS, dosage, 2, x, ld, &err), &err);
    CHECK_OK(gpu_sync(&g, &err), &err);
    for (uint64_t b = n - 8; b < n; b++) {
        for (uint64_t j = SNPS - 200; j < SNPS; j++) {
            unsigned c = code_at(rows + last[b - (n - 64)] * STRIDE, j);
            float want = c == 3 ? 0 : c == 2 ? -2.0f * (float)j : c == 1 ? 2.0f * (float)j : 2;
            CHECK_MSG(x[b * ld + j] == want, "row %llu, SNP %llu: %g, expected %g", (unsigned long long)b,
                      (unsigned long long)j, x[b * ld + j], want);
        }
    }
    gpu_close(&g);
    shim->last_blocks(0);
}

/* Element by element: 2^32 + 777 of them. */
static void check_elements(dn_backend *be, gpu *g)
{
    uint64_t n = ((uint64_t)1 << 32) + 777;
    float *y, *mask;
    CHECK_OK(gpu_alloc(g, &y, n, "test", &err), &err);
    CHECK_OK(gpu_alloc(g, &mask, n, "test", &err), &err);
    only_the_end(g, 3);
    for (uint64_t i = n - 300; i < n; i++) y[i] = (float)(i - n + 400), mask[i] = 3;
    CHECK_OK(be->ops->multiply(be, y, mask, n, &err), &err);
    CHECK_OK(gpu_sync(g, &err), &err);
    for (uint64_t i = n - 300; i < n; i++) CHECK(y[i] == 3 * (float)(i - n + 400));
    uint64_t cols = 333, B = n / cols; /* bias_forward, relu_bn_eval: columns by division */
    float bias[333], *b;
    for (int k = 0; k < 333; k++) bias[k] = (float)(k + 1);
    CHECK_OK(gpu_alloc(g, &b, cols, "test", &err), &err);
    CHECK_OK(gpu_upload(g, g->stream, b, bias, sizeof bias, &err), &err);
    for (uint64_t k = 0; k < cols; k++) y[(B - 1) * cols + k] = 0;
    shim->last_blocks(3);
    CHECK_OK(be->ops->bias_forward(be, y, b, B, cols, &err), &err);
    CHECK_OK(gpu_sync(g, &err), &err);
    for (uint64_t k = 0; k < cols; k++) CHECK(y[(B - 1) * cols + k] == (float)(k + 1));
    gpu_free(g, y), gpu_free(g, mask), gpu_free(g, b);
    shim->last_blocks(0);
}

/* Input dropout of 131,072 people, the last ones of the resident rows: 5.6 GB. */
static void check_dropout(dn_backend *be, gpu *g)
{
    const uint64_t M = SNPS, n = 131072;
    float *emb;
    double *mean, *sd;
    dn_genome_spec spec = {};
    spec.n_snps = M, spec.n_features = 1;
    CHECK_OK(dn_alloc(&emb, M, sizeof *emb, "test", &err), &err);
    CHECK_OK(dn_alloc(&mean, M, sizeof *mean, "test", &err), &err);
    CHECK_OK(dn_alloc(&sd, M, sizeof *sd, "test", &err), &err);
    spec.emb = emb, spec.mean = mean, spec.sd = sd;
    dn_genome *q;
    CHECK_OK(be->ops->genome_new(be, &q, &spec, &err), &err);
    /* As resident() leaves it: the rows on the host are named, not read. */
    shard *s = &q->s[0];
    void *host = mmap(NULL, PEOPLE * STRIDE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(host != MAP_FAILED && s->stride == STRIDE);
    CHECK_OK(gpu_alloc(g, &s->resident, PEOPLE * STRIDE, "test", &err), &err);
    q->base = (const uint8_t *)host, q->base_stride = STRIDE, q->base_rows = PEOPLE;
    const uint8_t **rows = (const uint8_t **)malloc(n * sizeof *rows);
    for (uint64_t b = 0; b < n; b++) rows[b] = q->base + (PEOPLE - n + b) * STRIDE;
    uint8_t *last = s->resident + (PEOPLE - 1) * STRIDE, kept[64];
    for (uint64_t i = 0; i < STRIDE; i++) last[i] = (uint8_t)(i * 37);
    dn_rng rng;
    dn_rng_seed(&rng, 1);
    dn_rng_use_fast(&rng, 42);
    rng.at = ((uint64_t)1 << 40) + 1;
    uint64_t at = rng.at + (n - 1) * M;
    only_the_end(g, 1);
    CHECK_OK(be->ops->load_rows(be, q, rows, n, 0.5, &rng, &err), &err);
    CHECK_OK(gpu_sync(g, &err), &err);
    CHECK(rng.at == ((uint64_t)1 << 40) + 1 + n * M);
    for (uint64_t j = M - 640; j < M; j++) {
        if ((j - (M - 640)) % 64 == 0) dn_rng_fast_bernoulli(42, at + j, 0.5, kept, 64);
        unsigned c = code_at(last, j), want = kept[(j - (M - 640)) % 64] ? c : 3;
        CHECK_MSG(code_at(s->dropped + (n - 1) * STRIDE, j) == want, "SNP %llu", (unsigned long long)j);
    }
    shim->last_blocks(0);
    munmap(host, PEOPLE * STRIDE);
    be->ops->genome_free(be, q);
    free(rows), free(emb), free(mean), free(sd);
}

/* Sums of columns of 16.8 million rows: 5e9 items. */
static void check_columns(dn_backend *be, gpu *g)
{
    uint64_t B = (1 << 24) + 5, n = 300;
    float *z, *db, sums[300];
    CHECK_OK(gpu_alloc(g, &z, B * n, "test", &err), &err);
    CHECK_OK(gpu_alloc(g, &db, n, "test", &err), &err);
    for (uint64_t k = 0; k < n; k++) z[(B - 1) * n + k] = (float)k;
    double *parts; /* of which all but the last are zero pages */
    CHECK_OK(gpu_scratch(g, GPU_COL_PARTS, &parts, (B + 31) / 32 * n, "test", &err), &err);
    only_the_end(g, 2);
    CHECK_OK(be->ops->bias_backward(be, z, B, n, db, &err), &err);
    CHECK_OK(gpu_download(g, sums, db, sizeof sums, &err), &err);
    for (uint64_t k = 0; k < n; k++)
        CHECK_MSG(sums[k] == (float)k, "column %llu: %g", (unsigned long long)k, sums[k]);
    shim->last_blocks(0);
    gpu_free(g, z), gpu_free(g, db);
}

/* Rows longer than a pinned buffer, and many short ones. */
static void check_rows(void)
{
    const uint64_t sizes[][3] = {{GPU_PINNED + 4096, GPU_PINNED + 1001, 3}, {48, 33, 400000}, {16, 16, 5}};
    for (const uint64_t *z : sizes) {
        gpu g;
        uint64_t stride = z[0], bytes = z[1], n = z[2], bad = 0;
        uint8_t *host, *dev;
        CHECK_OK(gpu_open(&g, 0, 0, false, &err), &err);
        CHECK_OK(dn_alloc(&host, (bytes + 7) * n, 1, "test", &err), &err);
        CHECK_OK(gpu_alloc(&g, &dev, stride * n, "test", &err), &err);
        for (uint64_t i = 0; i < (bytes + 7) * n; i++) host[i] = (uint8_t)(i * 2654435761u >> 13);
        gpu_rows from = {NULL, host, bytes + 7, 3};
        CHECK_OK(gpu_upload_rows(&g, g.copy, dev, stride, from, n, bytes, &err), &err);
        CHECK(cudaStreamSynchronize(g.copy) == cudaSuccess);
        for (uint64_t i = 0; i < n; i++)
            bad += memcmp(dev + i * stride, host + i * (bytes + 7) + 3, bytes) != 0;
        CHECK_MSG(bad == 0, "%llu of %llu rows", (unsigned long long)bad, (unsigned long long)n);
        gpu_close(&g);
        free(host);
    }
}

int main(void)
{
    shim = shim_control_get();
    setenv("DN_SHIM_MEMORY", "100000000000", 1);
    shim->reset();
    check_rows();
    void *sparse = mmap(NULL, (size_t)64 << 30, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sparse == MAP_FAILED) {
        fprintf(stderr, "no 64 GiB of address space here (ulimit -v, vm.overcommit_memory): large indices "
                        "are not tested\n");
        return check_done();
    }
    munmap(sparse, (size_t)64 << 30);
    check_decode();
    dn_backend *be;
    const dn_cuda_options o = {1, false, 0};
    CHECK_OK(cuda_backend_new(&be, &o, &err), &err);
    gpu *g = &((cuda_backend *)be)->g[0];
    check_elements(be, g);
    check_dropout(be, g);
    check_columns(be, g);
    dn_backend_free(be);
    CHECK_MSG(shim->live() == 0 && shim->faults() == 0, "%ld left; %s", shim->live(), shim->fault());
    return check_done();
}
