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
    bool aux, fat;     /* which halves of the forward pass */
    uint64_t first, n; /* people [first, first + n) of the batch */
    float *const *w;
    float *const *dw;
    float *z;
    const float *dz;
    uint64_t n_ptiles; /* tiles of 32 people */
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
        p->cb->dense->mul(g->act[l] + block * CPU_BLOCK * g->pad[l], g->pad[l], g->packed[l], CPU_BLOCK,
                          g->width[l], g->pad[l + 1], g->act[l + 1] + block * CPU_BLOCK * g->pad[l + 1],
                          CPU_TANH, NULL);
    }
}

/* Adds a block's part to z: slices x n people x 16. */
static void fat_block(const pass *p, uint64_t block, float *table, float *z)
{
    const dn_genome *g = p->g;
    size_t H = g->pad[g->n_aux];
    float x[FAT_COLS * 3];
    fat_used used[FAT_GROUPS];
    for (uint64_t t = block * CPU_TILES; t < (block + 1) * CPU_TILES; t++) {
        const uint64_t *word = g->word + t * g->n + p->first;
        const float *w = g->act[g->n_aux] + t * FAT_COLS * H;
        if (t * FAT_COLS >= g->n_snps) break;
        cpu_used(word, p->n, used);
        for (int i = 0; i < FAT_COLS * 3; i++) x[i] = g->x[t * FAT_COLS * 3 + (uint64_t)i] * (float)g->scale;
        for (size_t h = 0; h < H; h += CPU_LANES) {
            fat_columns cols;
            for (size_t c = 0; c < FAT_COLS; c++) cols.w[c] = w + c * H + h;
            cols.x = x;
            cols.x_lanes = 1;
            p->cb->fat.build(&cols, used, table);
            p->cb->fat.add(table, word, p->n, z + h * p->n);
        }
    }
}

static void forward_chunk(void *ctx, size_t item, size_t worker)
{
    const pass *p = ctx;
    dn_genome *g = p->g;
    float *z = NULL, *table = g->worker + worker * g->worker_floats;
    if (p->fat) {
        uint64_t n = p->n * g->pad[g->n_aux];
        z = g->zpart + item * n;
        memset(z, 0, n * sizeof *z);
    }
    for (uint64_t b = chunk_first(g, item); b < chunk_first(g, item + 1); b++) {
        if (p->aux) aux_block(p, b);
        if (p->fat) fat_block(p, b, table, z);
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
            float sum[CPU_LANES] = {0};
            for (uint64_t c = 0; c < g->n_chunks; c++) {
                const float *z = g->zpart + c * p->n * pad + h * p->n + b * CPU_LANES;
                for (int i = 0; i < CPU_LANES; i++) sum[i] += z[i];
            }
            size_t n = H - h < CPU_LANES ? H - h : CPU_LANES;
            memcpy(p->z + (p->first + b) * H + h, sum, n * sizeof *sum);
        }
    }
}

static dn_status forward(pass *p, dn_err *err)
{
    dn_status status;
    dn_genome *g = p->g;
    if (p->aux) {
        for (size_t l = 0; l < g->n_aux; l++) {
            cpu_pack(p->w[l], 1, g->width[l], g->width[l], g->width[l + 1], g->pad[l + 1],
                     p->cb->dense->panel, g->packed[l]);
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

/* Table of people tile t, slice u: gtab + (t * slices + u) * FAT_TABLE. All 256 values of each byte: SNPs
 * take most of them. */
static void grad_tables(void *ctx, size_t item, size_t worker)
{
    (void)worker;
    const pass *p = ctx;
    const dn_genome *g = p->g;
    static const float x[FAT_COLS * 3] = {
#define X8 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2
        X8, X8, X8, X8};
    size_t slices = g->pad[g->n_aux] / CPU_LANES;
    uint64_t t = item / slices, u = item % slices;
    fat_used used[FAT_GROUPS];
    fat_columns cols = {.x = x, .x_lanes = 1};
    for (int k = 0; k < FAT_GROUPS; k++) {
        used[k].n = 256;
        for (int v = 0; v < 256; v++) used[k].value[v] = (uint8_t)v;
    }
    for (uint64_t i = 0; i < FAT_COLS; i++)
        cols.w[i] = g->dz + (u * p->n_ptiles * FAT_COLS + t * FAT_COLS + i) * CPU_LANES;
    p->cb->fat.build(&cols, used, g->gtab + item * FAT_TABLE);
}

/* Adds dz of the people whose call is missing; word: people tile t for SNPs of the block. */
static void add_missing(const pass *p, uint64_t t, const uint64_t *word, float *missing)
{
    const dn_genome *g = p->g;
    size_t slices = g->pad[g->n_aux] / CPU_LANES;
    for (uint64_t s = 0; s < CPU_BLOCK; s++) {
        for (uint64_t m = word[s] & word[s] >> 1 & 0x5555555555555555u; m; m &= m - 1) {
            uint64_t b = t * FAT_COLS + (uint64_t)__builtin_ctzll(m) / 2;
            for (size_t u = 0; u < slices; u++) {
                const float *dz = g->dz + (u * p->n_ptiles * FAT_COLS + b) * CPU_LANES;
                float *out = missing + (u * CPU_BLOCK + s) * CPU_LANES;
                for (int i = 0; i < CPU_LANES; i++) out[i] += dz[i];
            }
        }
    }
}

/* Sums over people for a block of SNPs, in slices: grad, and missing (true if there are any). */
static bool grad_block(const pass *p, uint64_t block, float *grad, float *missing)
{
    const dn_genome *g = p->g;
    size_t slices = g->pad[g->n_aux] / CPU_LANES;
    uint64_t word[CPU_BLOCK], in[FAT_COLS];
    bool any = false;
    memset(grad, 0, CPU_BLOCK * slices * CPU_LANES * sizeof *grad);
    for (uint64_t t = 0; t < p->n_ptiles; t++) {
        uint64_t b0 = t * FAT_COLS, nb = g->n - b0 < FAT_COLS ? g->n - b0 : FAT_COLS, miss = 0;
        for (uint64_t k = 0; k < CPU_TILES; k++) {
            const uint64_t *src = g->word + (block * CPU_TILES + k) * g->n + b0;
            for (uint64_t i = 0; i < FAT_COLS; i++) in[i] = i < nb ? src[i] : 0;
            cpu_transpose32(in, word + k * FAT_COLS);
        }
        for (uint64_t s = 0; s < CPU_BLOCK; s++) miss |= word[s] & word[s] >> 1 & 0x5555555555555555u;
        for (size_t u = 0; u < slices; u++) {
            p->cb->fat.add(g->gtab + (t * slices + u) * FAT_TABLE, word, CPU_BLOCK,
                           grad + u * CPU_BLOCK * CPU_LANES);
        }
        if (miss) {
            if (!any) memset(missing, 0, CPU_BLOCK * slices * CPU_LANES * sizeof *missing);
            any = true;
            add_missing(p, t, word, missing);
        }
    }
    return any;
}

/* Slices -> rows of SNPs, with standardisation and tanh's derivative. */
static void finish(const pass *p, uint64_t block, const float *grad, const float *missing, float *d)
{
    const dn_genome *g = p->g;
    size_t pad = g->pad[g->n_aux];
    const float *act = g->act[g->n_aux] + block * CPU_BLOCK * pad;
    for (uint64_t s = 0; s < CPU_BLOCK; s++) {
        float mean = g->mean[block * CPU_BLOCK + s], isd = g->isd[block * CPU_BLOCK + s] * (float)g->scale;
        for (size_t u = 0; u < pad / CPU_LANES; u++) {
            for (int i = 0; i < CPU_LANES; i++) {
                size_t at = (u * CPU_BLOCK + s) * CPU_LANES + (size_t)i, k = u * CPU_LANES + (size_t)i;
                float a = act[s * pad + k], t = p->total[k] - (missing ? missing[at] : 0.0f);
                d[s * pad + k] = (grad[at] - mean * t) * isd * (1.0f - a * a);
            }
        }
    }
}

static void backward_chunk(void *ctx, size_t item, size_t worker)
{
    const pass *p = ctx;
    dn_genome *g = p->g;
    const cpu_dense *k = p->cb->dense;
    size_t each = (g->worker_floats - FAT_TABLE) / 3;
    float *d0 = g->worker + worker * g->worker_floats + FAT_TABLE, *d1 = d0 + each, *missing = d1 + each;
    float *dw = g->dwpart + item * g->dw_floats;
    memset(dw, 0, g->dw_floats * sizeof *dw);
    for (uint64_t b = chunk_first(g, item); b < chunk_first(g, item + 1); b++) {
        bool any = grad_block(p, b, d1, missing);
        finish(p, b, d1, any ? missing : NULL, d0);
        float *d = d0, *below = d1, *dw_end = dw + g->dw_floats;
        for (size_t l = g->n_aux; l-- > 0;) {
            const float *act = g->act[l] + b * CPU_BLOCK * g->pad[l];
            dw_end -= g->pad[l] * g->pad[l + 1];
            k->mul_t(d, g->pad[l + 1], act, CPU_BLOCK, (g->width[l + 1] + 3) / 4 * 4, g->pad[l], dw_end);
            if (l == 0) break;
            k->mul(d, g->pad[l + 1], g->packed_t[l], CPU_BLOCK, g->width[l + 1], g->pad[l], below, CPU_DTANH,
                   act);
            float *t = d;
            d = below, below = t;
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
        at += g->pad[l] * g->pad[l + 1];
        l++;
    }
    float *out = p->dw[l] + row * g->width[l];
    memset(out, 0, g->width[l] * sizeof *out);
    for (uint64_t c = 0; c < g->n_chunks; c++) {
        const float *part = g->dwpart + c * g->dw_floats + at + row * g->pad[l];
        for (size_t k = 0; k < g->width[l]; k++) out[k] += part[k];
    }
}

dn_status cpu_aux_fat_backward(dn_backend *be, dn_genome *g, float *const *w, const float *dz,
                               float *const *dw, dn_err *err)
{
    dn_status status;
    if (g->n_aux == 0) return DN_OK;
    pass p = {.cb = (cpu_backend *)be, .g = g, .w = w, .dw = dw, .dz = dz};
    size_t H = g->width[g->n_aux], pad = g->pad[g->n_aux], slices = pad / CPU_LANES, rows = 0;
    p.n_ptiles = (g->n + FAT_COLS - 1) / FAT_COLS;
    uint64_t people = p.n_ptiles * FAT_COLS;
    DN_TRY(need(&g->dz, &g->dz_n, (people + 1) * pad, "gradients of a batch", err));
    DN_TRY(need(&g->gtab, &g->gtab_n, p.n_ptiles * slices * FAT_TABLE, "tables over people", err));
    p.total = g->dz + people * pad;
    memset(g->dz, 0, (people + 1) * pad * sizeof *g->dz);
    for (uint64_t b = 0; b < g->n; b++) {
        for (size_t k = 0; k < H; k++) {
            g->dz[(k / CPU_LANES * people + b) * CPU_LANES + k % CPU_LANES] = dz[b * H + k];
            p.total[k] += dz[b * H + k];
        }
    }
    for (size_t l = 0; l < g->n_aux; l++) {
        rows += g->width[l + 1];
        cpu_pack(w[l], g->width[l], 1, g->width[l + 1], g->width[l], g->pad[l], p.cb->dense->panel,
                 g->packed_t[l]);
    }
    dn_pool_run(p.cb->pool, (size_t)p.n_ptiles * slices, grad_tables, &p);
    dn_pool_run(p.cb->pool, (size_t)g->n_chunks, backward_chunk, &p);
    dn_pool_run(p.cb->pool, rows, sum_dw, &p);
    status = DN_OK;
done:
    return status;
}
