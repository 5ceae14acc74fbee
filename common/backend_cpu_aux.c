/* backend_cpu_aux.c: auxiliary net and fat layer on the CPU: one pass over the SNPs forward, one back.
 *
 * Forward, per block of SNPs: A_{l+1} = tanh(A_l w_l^T) layer by layer, then the table kernel of
 * fat_kernel.h: per tile of 32 SNPs and 16 outputs the sums of every byte value (4 calls) that occurs, and 8
 * additions per person. Backward: the same kernel with people and SNPs changed about. Tables are over tiles
 * of 32 people, shared by all SNPs; words are the batch's, transposed. They give S = sum_b g_bj dz_b
 * (missing: 0); a person's missing calls take dz_b out of the sum that goes with the mean: dA_j = (S - mean_j
 * * (sum_b dz_b - sum_{b missing} dz_b)) / sd_j. Then the layers, last to first. Arrays over people are kept
 * in slices of 16 units: slice u, person b, unit 16u + i is at (u * B + b) * 16 + i. */
#include "backend_cpu_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    cpu_backend *cb;
    dn_genome *g;
    bool aux, fat;     /* which halves of a pass */
    uint64_t first, n; /* people [first, first + n) of the batch */
    float *const *w;
    float *const *dw;
    float *z;
    const float *dz;
    uint64_t n_people; /* in whole sets: row count of the backward pass's slices of dz */
    float *total;      /* pad(H): sums of dz over people */
} pass;

static uint64_t chunk_first(const dn_genome *g, uint64_t c)
{
    return c * g->n_blocks / g->n_chunks;
}

/* Makes *buf at least n floats; content is lost. */
static dn_status need(float **buf, uint64_t *have, uint64_t n, const char *what, dn_err *err)
{
    if (n <= *have) return DN_OK;
    free(*buf);
    *have = 0;
    dn_status status = dn_alloc_aligned(buf, n, sizeof **buf, what, err);
    if (status == DN_OK) *have = n;
    return status;
}

/* ---- forward ---- */

static void aux_block(const pass *p, uint64_t block)
{
    const dn_genome *g = p->g;
    for (size_t l = 0; l < g->n_aux; l++) {
        p->cb->kern->mul(g->act[l] + block * CPU_BLOCK * g->pad[l], g->pad[l], g->packed[l], CPU_BLOCK,
                         g->width[l], g->width[l + 1], g->pad[l + 1],
                         g->act[l + 1] + block * CPU_BLOCK * g->pad[l + 1], CPU_TANH, NULL, NULL);
    }
}

/* Adds a block's part to z: slices x n people x 16. */
static void fat_block(const pass *p, uint64_t block, float *table, uint64_t *word, float *z)
{
    const dn_genome *g = p->g;
    size_t H = g->pad[g->n_aux];
    const uint64_t *words = g->word + block * CPU_TILES * g->n + p->first;
    for (size_t k = 0; k < CPU_BLOCK / CPU_CODES; k++) {
        uint64_t snp = block * CPU_BLOCK + k * CPU_CODES, used[CPU_GROUPS];
        if (snp >= g->n_snps) break;
        for (uint64_t i = 0; i < p->n; i++) word[i] = cpu_set_word(words + i, g->n, k);
        p->cb->kern->used(word, p->n, used);
        float x[CPU_CODES * 3];
        for (int i = 0; i < CPU_CODES * 3; i++) x[i] = g->x[snp * 3 + (uint64_t)i] * (float)g->scale;
        for (size_t h = 0; h < H; h += CPU_LANES) {
            p->cb->kern->build(g->act[g->n_aux] + snp * H + h, H, x, used, table);
            p->cb->kern->add(table, word, p->n, z + h * p->n, false);
        }
    }
}

static void forward_chunk(void *ctx, size_t item, size_t worker)
{
    const pass *p = ctx;
    dn_genome *g = p->g;
    float *z = NULL, *table = g->worker + worker * g->worker_floats;
    uint64_t *word = g->set_word + worker * g->slab;
    if (p->fat) {
        uint64_t n = p->n * g->pad[g->n_aux];
        z = g->zpart + item * n;
        memset(z, 0, n * sizeof *z);
    }
    for (uint64_t b = chunk_first(g, item); b < chunk_first(g, item + 1); b++) {
        if (p->aux) aux_block(p, b);
        if (p->fat) fat_block(p, b, table, word, z);
    }
}

/* z of 16 people: the chunks' parts in order. */
static void sum_z(void *ctx, size_t item, size_t worker)
{
    (void)worker;
    const pass *p = ctx;
    const dn_genome *g = p->g;
    size_t H = g->width[g->n_aux], pad = g->pad[g->n_aux];
    uint64_t from = item * 16, to = from + 16 < p->n ? from + 16 : p->n;
    for (uint64_t b = from; b < to; b++) {
        for (size_t h = 0; h < H; h += CPU_LANES) {
            double sum[CPU_LANES] = {0};
            for (uint64_t c = 0; c < g->n_chunks; c++) {
                const float *z = g->zpart + c * p->n * pad + h * p->n + b * CPU_LANES;
                for (int i = 0; i < CPU_LANES; i++) sum[i] += z[i];
            }
            size_t n = H - h < CPU_LANES ? H - h : CPU_LANES;
            for (size_t i = 0; i < n; i++) p->z[(p->first + b) * H + h + i] = (float)sum[i];
        }
    }
}

static dn_status forward(pass *p, dn_err *err)
{
    dn_status status;
    dn_genome *g = p->g;
    if (p->aux) {
        for (size_t l = 0; l < g->n_aux; l++) {
            cpu_pack(p->w[l], 1, g->width[l], g->width[l], g->width[l + 1], g->pad[l + 1], p->cb->kern->panel,
                     g->packed[l]);
        }
    }
    uint64_t n = p->fat ? g->n : 0;
    DN_TRY(need(&g->zpart, &g->zpart_n, g->n_chunks * (n < g->slab ? n : g->slab) * g->pad[g->n_aux],
                "sums over SNPs", err));
    do {
        p->n = n - p->first < g->slab ? n - p->first : g->slab;
        dn_pool_run(p->cb->pool, (size_t)g->n_chunks, forward_chunk, p);
        if (p->fat) dn_pool_run(p->cb->pool, (size_t)((p->n + 15) / 16), sum_z, p);
        p->aux = false; /* later slabs: the activations are there */
        p->first += p->n;
    } while (p->first < n);
    status = DN_OK;
done:
    return status;
}

dn_status cpu_aux_forward(dn_backend *be, dn_genome *g, float *const *w, dn_err *err)
{
    pass p = {.cb = (cpu_backend *)be, .g = g, .aux = true, .w = w};
    return forward(&p, err);
}

dn_status cpu_fat_forward(dn_backend *be, dn_genome *g, float *z, dn_err *err)
{
    pass p = {.cb = (cpu_backend *)be, .g = g, .fat = true, .z = z};
    return forward(&p, err);
}

dn_status cpu_aux_fat_forward(dn_backend *be, dn_genome *g, float *const *w, float *z, dn_err *err)
{
    pass p = {.cb = (cpu_backend *)be, .g = g, .aux = true, .fat = true, .w = w, .z = z};
    return forward(&p, err);
}

/* ---- backward ---- */

#define X8 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2
static const float dosage[CPU_CODES * 3] = {X8, X8, X8}; /* what a code counts when tables are over people */

/* Sums over people for n_blocks blocks of SNPs, in slices of n_blocks * CPU_BLOCK rows. A missing call counts
 * 0 in the tables, so that of each group of 3 people only 27 values occur. What it takes out of the sum that
 * goes with the mean is put into grad, mean times dz, where missing calls are few, and else into `missing`
 * (true: some are there). */
static bool grad_blocks(const pass *p, uint64_t block, uint64_t n_blocks, float *table, float *grad,
                        float *missing)
{
    enum {
        WORDS = 3,
        SETS = 4,
        MAX_SNPS = CPU_BACK * CPU_BLOCK
    }; /* 96 people are whole words of 32 and whole sets of 24 */
    const dn_genome *g = p->g;
    const cpu_kernels *k = p->cb->kern;
    size_t slices = g->pad[g->n_aux] / CPU_LANES, S = n_blocks * CPU_BLOCK;
    uint64_t by_snp[WORDS][MAX_SNPS], word[MAX_SNPS], miss[MAX_SNPS], in[CPU_COLS], used[CPU_GROUPS];
    bool any = false;
    for (int i = 0; i < CPU_GROUPS; i++) used[i] = 0x77707770777u; /* values without a missing call */
    for (uint64_t b0 = 0; b0 < g->n; b0 += WORDS * CPU_COLS) {
        for (uint64_t q = 0; q < WORDS; q++) {
            uint64_t b = b0 + q * CPU_COLS, nb = b >= g->n ? 0 : g->n - b < CPU_COLS ? g->n - b : CPU_COLS;
            for (uint64_t t = 0; t < S / CPU_COLS && nb; t++) {
                const uint64_t *src = g->word + (block * CPU_TILES + t) * g->n + b;
                for (uint64_t i = 0; i < CPU_COLS; i++)
                    in[i] = i < nb ? src[i] : 0; /* nobody: dosage 0, dz 0 */
                cpu_transpose32(in, by_snp[q] + t * CPU_COLS);
            }
            if (!nb) memset(by_snp[q], 0, S * sizeof *by_snp[q]);
        }
        for (uint64_t q = 0; q < SETS && b0 + q * CPU_CODES < g->n; q++) {
            uint64_t set = b0 / CPU_CODES + q, n_missing = 0;
            for (uint64_t s = 0; s < S; s++) {
                uint64_t w = cpu_set_word(by_snp[0] + s, MAX_SNPS, q), m = w & w >> 1 & 0x555555555555u;
                word[s] = w & ~(m * 3);
                miss[s] = m;
                n_missing += m != 0;
            }
            bool dense = n_missing > S / 2; /* then code 1 of the same tables counts their dz */
            if (dense && !any) memset(missing, 0, slices * S * CPU_LANES * sizeof *missing);
            any = any || dense;
            for (size_t u = 0; u < slices; u++) {
                k->build(g->dz + (u * p->n_people + set * CPU_CODES) * CPU_LANES, CPU_LANES, dosage, used,
                         table);
                k->add(table, word, S, grad + u * S * CPU_LANES, set == 0);
                if (dense) k->add(table, miss, S, missing + u * S * CPU_LANES, false);
            }
            if (n_missing && !dense) {
                k->add_marked(g->dz + set * CPU_CODES * CPU_LANES, p->n_people * CPU_LANES, miss,
                              g->mean + block * CPU_BLOCK, S, slices, grad);
            }
        }
    }
    return any;
}

/* One block: from sums over people, in slices of S rows, to gradients of the layers' weights. */
static void backward_block(const pass *p, uint64_t block, const float *grad, const float *missing, size_t S,
                           float *d0, float *d1, float *dw)
{
    dn_genome *g = p->g;
    const cpu_kernels *k = p->cb->kern;
    uint64_t snp = block * CPU_BLOCK;
    float isd[CPU_BLOCK], *d = d0, *below = d1, *dw_end = dw + g->dw_floats;
    for (uint64_t s = 0; s < CPU_BLOCK; s++) isd[s] = g->isd[snp + s] * (float)g->scale;
    k->finish(grad, missing, S, isd, g->mean + snp, p->total, g->act[g->n_aux] + snp * g->pad[g->n_aux],
              CPU_BLOCK, g->pad[g->n_aux], d);
    for (size_t l = g->n_aux; l-- > 0 && p->aux;) {
        /* Memory is read ahead: the next layer's activations while this one's are used, then the next
         * block's. */
        const float *act = g->act[l] + snp * g->pad[l],
                    *next = l ? g->act[l - 1] + snp * g->pad[l - 1] : NULL;
        size_t n_next = l ? CPU_BLOCK * g->pad[l - 1] : CPU_BLOCK * g->pad[g->n_aux];
        if (l == 0) next = g->act[g->n_aux] + (snp + CPU_BLOCK) * g->pad[g->n_aux];
        dw_end -= cpu_dw_floats(g, l);
        k->mul_t(d, g->pad[l + 1], act, CPU_BLOCK, g->width[l + 1], g->width[l], g->pad[l], dw_end, next,
                 n_next);
        if (l == 0) break;
        k->mul(d, g->pad[l + 1], g->packed_t[l], CPU_BLOCK, g->width[l + 1], g->width[l], g->pad[l], below,
               CPU_DTANH, act, act + CPU_BLOCK * g->pad[l]);
        float *t = d;
        d = below, below = t;
    }
}

static void backward_chunk(void *ctx, size_t item, size_t worker)
{
    const pass *p = ctx;
    dn_genome *g = p->g;
    size_t each = (g->worker_floats - CPU_TABLE) / (2 * CPU_BACK + 2);
    float *table = g->worker + worker * g->worker_floats, *d0 = table + CPU_TABLE, *d1 = d0 + each,
          *grad = d1 + each;
    float *missing = grad + CPU_BACK * each, *dw = g->dwpart + item * g->dw_floats;
    memset(dw, 0, g->dw_floats * sizeof *dw);
    uint64_t end = chunk_first(g, item + 1);
    for (uint64_t b = chunk_first(g, item); b < end; b += CPU_BACK) {
        uint64_t n = end - b < CPU_BACK ? end - b : CPU_BACK;
        bool any = p->fat && grad_blocks(p, b, n, table, grad, missing);
        for (uint64_t i = 0; i < n; i++) {
            size_t at = i * CPU_BLOCK * CPU_LANES;
            backward_block(p, b + i, grad + at, any ? missing + at : NULL, n * CPU_BLOCK, d0, d1, dw);
        }
    }
}

/* Layer `item`'s gradient: the chunks' parts in order. */
static void sum_dw(void *ctx, size_t item, size_t worker)
{
    (void)worker;
    const pass *p = ctx;
    const dn_genome *g = p->g;
    uint64_t at = 0, l = 0, row = item;
    while (row >= g->width[l + 1]) { /* items are the rows of all layers' weights */
        row -= g->width[l + 1];
        at += cpu_dw_floats(g, l);
        l++;
    }
    float *out = p->dw[l] + row * g->width[l];
    memset(out, 0, g->width[l] * sizeof *out);
    for (uint64_t c = 0; c < g->n_chunks; c++) {
        const float *part = g->dwpart + c * g->dw_floats + at + row * g->pad[l];
        for (size_t k = 0; k < g->width[l]; k++) out[k] += part[k];
    }
}

dn_status cpu_backward(dn_backend *be, dn_genome *g, float *const *w, const float *dz, float *const *dw,
                       bool aux, bool fat, dn_err *err)
{
    dn_status status;
    if (g->n_aux == 0) return DN_OK;
    pass p = {.cb = (cpu_backend *)be, .g = g, .aux = aux, .fat = fat, .w = w, .dw = dw, .dz = dz};
    size_t H = g->width[g->n_aux], pad = g->pad[g->n_aux], rows = 0;
    uint64_t sets = (g->n + CPU_CODES - 1) / CPU_CODES, people = sets * CPU_CODES;
    p.n_people = people;
    DN_TRY(need(&g->dz, &g->dz_n, (people + 1) * pad, "gradients of a batch", err));
    p.total = g->dz + people * pad;
    memset(g->dz, 0, (people + 1) * pad * sizeof *g->dz);
    for (size_t k = 0; k < H; k++) {
        double total = 0;
        for (uint64_t b = 0; b < g->n; b++) {
            g->dz[(k / CPU_LANES * people + b) * CPU_LANES + k % CPU_LANES] = dz[b * H + k];
            total += dz[b * H + k];
        }
        p.total[k] = (float)total;
    }
    for (size_t l = 0; l < g->n_aux; l++) {
        rows += g->width[l + 1];
        cpu_pack(w[l], g->width[l], 1, g->width[l + 1], g->width[l], g->pad[l], p.cb->kern->panel,
                 g->packed_t[l]);
    }
    dn_pool_run(p.cb->pool, (size_t)g->n_chunks, backward_chunk, &p);
    dn_pool_run(p.cb->pool, rows, sum_dw, &p);
    status = DN_OK;
done:
    return status;
}

dn_status cpu_aux_fat_backward(dn_backend *be, dn_genome *g, float *const *w, const float *dz,
                               float *const *dw, dn_err *err)
{
    return cpu_backward(be, g, w, dz, dw, true, true, err);
}
