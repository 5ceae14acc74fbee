/* auxnet.c: see auxnet.h. */
#include "auxnet.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "vmath.h"

enum { BLOCK = 1024 }; /* SNPs per matrix product: its result depends on the block's size, so it is fixed */

/* Present in OpenBLAS only; our own threads are the parallel ones, one product each. */
__attribute__((weak)) void openblas_set_num_threads(int n);

struct job {
    const double *emb, *norm;
    uint64_t n_snps, n_features, widest;
    size_t n_aux;
    const dn_layer *aux;
    float *fat;
    float **scratch; /* per worker: 2 x BLOCK x widest */
};

static void one_block(void *ctx, size_t item, size_t worker)
{
    const struct job *b = ctx;
    const uint64_t first = (uint64_t)item * BLOCK, K = b->n_features;
    const uint64_t n = b->n_snps - first < BLOCK ? b->n_snps - first : BLOCK;
    const uint64_t units = b->n_aux ? b->aux[b->n_aux - 1].n_out : K;
    float *in = b->scratch[worker], *out = in + BLOCK * b->widest;
    if (!b->n_aux) in = b->fat + first * units;
    for (uint64_t i = 0; i < n; i++) {
        const double *e = b->emb + (first + i) * K;
        for (uint64_t k = 0; k < K; k++) in[i * K + k] = b->norm[k] > 0 ? (float)(e[k] / b->norm[k]) : 0;
    }
    for (size_t l = 0; l < b->n_aux; l++) {
        const dn_layer *w = &b->aux[l];
        float *to = l + 1 == b->n_aux ? b->fat + first * units : out;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, (int)w->n_out, (int)w->n_in, 1.0f, in,
                    (int)w->n_in, w->weight, (int)w->n_in, 0.0f, to, (int)w->n_out);
        dn_tanh(to, (size_t)(n * w->n_out));
        out = in;
        in = to;
    }
}

dn_status dn_auxnet_fat(const double *emb, const double *norm, uint64_t n_snps, uint64_t n_features,
                        size_t n_aux, const dn_layer *aux, float *fat, dn_pool *pool, dn_err *err)
{
    dn_status status;
    struct job b = {emb, norm, n_snps, n_features, n_features, n_aux, aux, fat, NULL};
    const size_t n_threads = dn_pool_threads(pool);
    for (size_t l = 0; l < n_aux; l++) {
        if (aux[l].n_out > b.widest) b.widest = aux[l].n_out;
    }
    DN_TRY(dn_alloc(&b.scratch, n_threads, sizeof *b.scratch, "auxiliary net", err));
    for (size_t t = 0; t < n_threads; t++) {
        DN_TRY(dn_alloc_aligned(&b.scratch[t], (size_t)b.widest, 2 * BLOCK * sizeof(float), "auxiliary net",
                                err));
    }
    if (openblas_set_num_threads) openblas_set_num_threads(1);
    dn_pool_run(pool, (size_t)((n_snps + BLOCK - 1) / BLOCK), one_block, &b);
    status = DN_OK;
done:
    for (size_t t = 0; b.scratch && t < n_threads; t++) free(b.scratch[t]);
    free(b.scratch);
    return status;
}

void dn_auxnet_ref(const double *e, uint64_t n_features, size_t n_aux, const dn_layer *aux, double *out,
                   double *scratch)
{
    const double *in = e;
    uint64_t widest = 0;
    for (size_t l = 0; l < n_aux; l++) widest = aux[l].n_out > widest ? aux[l].n_out : widest;
    if (!n_aux) memcpy(out, e, n_features * sizeof *out);
    for (size_t l = 0; l < n_aux; l++) {
        double *dst = l + 1 == n_aux ? out : scratch + l % 2 * widest;
        for (uint64_t u = 0; u < aux[l].n_out; u++) {
            double s = 0;
            for (uint64_t k = 0; k < aux[l].n_in; k++)
                s += (double)aux[l].weight[u * aux[l].n_in + k] * in[k];
            dst[u] = tanh(s);
        }
        in = dst;
    }
}

void dn_column_norms(const double *emb, uint64_t n_snps, uint64_t n_features, double *norm)
{
    memset(norm, 0, n_features * sizeof *norm);
    for (uint64_t j = 0; j < n_snps; j++) {
        const double *e = emb + j * n_features;
        for (uint64_t k = 0; k < n_features; k++) norm[k] += e[k] * e[k];
    }
    for (uint64_t k = 0; k < n_features; k++) norm[k] = sqrt(norm[k]);
}
