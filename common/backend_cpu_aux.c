/* backend_cpu_aux.c: auxiliary net and fat layer on the CPU: one pass over the SNPs forward, one back.
 *
 * Forward, per block of SNPs: A_{l+1} = tanh(A_l w_l^T) layer by layer, then tables: per set of 24 SNPs and
 * 16 outputs the sums of every value that three calls take, and 8 additions per person. Backward: the same
 * kernel with people and SNPs changed about. Tables are over sets of 24 people, shared by all SNPs; words are
 * the batch's, transposed. They give S = sum_b g_bj dz_b (missing: 0); a person's missing calls take dz_b out
 * of the sum that goes with the mean: dA_j = (S - mean_j * (sum_b dz_b - sum_{b missing} dz_b)) / sd_j. Then
 * the layers, last to first. Sums for many people or SNPs are kept in slices of 16 units, so that the slice
 * that is added to stays in L1: slice u of B rows, row b, unit 16u + i is at (u * B + b) * 16 + i. */
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
    uint64_t sets; /* backward: of people */
    float *total;  /* pad(H): sums of dz over people */
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

/* Makes the words per worker at least n. */
static dn_status need_codes(dn_genome *g, uint64_t n, dn_err *err)
{
    if (n * g->n_workers <= g->codes_n) return DN_OK;
    free(g->codes);
    g->codes_n = 0;
    dn_status status = dn_alloc_aligned(&g->codes, n * g->n_workers, sizeof *g->codes, "scratch", err);
    if (status == DN_OK) g->codes_n = n * g->n_workers;
    return status;
}

/* What the first layer's sums get besides the features that are kept; NULL where all are. */
static const cpu_extra *extra_of(const dn_genome *g, uint64_t block, cpu_extra *x)
{
    const cpu_shares *s = &g->shares;
    if (!s->C) return NULL;
    *x = (cpu_extra){s->add, s->first + block * CPU_BLOCK, s->cls, s->r};
    return x;
}

/* ---- forward ---- */

/* Makes a block's activations, in `hot` (a block's rows per layer), from which the next operations read them,
 * and past the caches in their place: all of them are more than caches hold. */
static void aux_block(const pass *p, uint64_t block, float *hot)
{
    const dn_genome *g = p->g;
    const float *x = g->act[0] + block * CPU_BLOCK * g->pad[0];
    cpu_extra extra;
    for (size_t l = 0; l < g->n_aux; l++) {
        size_t pad = g->pad[l + 1];
        const float *next = l + 1 == g->n_aux && block + 1 < g->n_blocks
                                ? g->act[0] + (block + 1) * CPU_BLOCK * g->pad[0]
                                : NULL;
        p->cb->kern->mul(x, g->pad[l], g->packed[l], CPU_BLOCK, g->width[l], g->width[l + 1], pad, hot,
                         CPU_TANH, NULL, g->act[l + 1] + block * CPU_BLOCK * pad,
                         l == 0 ? extra_of(g, block, &extra) : NULL, next, CPU_BLOCK * g->pad[0]);
        x = hot;
        hot += CPU_BLOCK * pad;
    }
}

/* Adds a block's part to z: slices x n people x 16; fat: the block's rows of the fat layer's weight; next:
 * what is to be read from memory ahead, as much, or NULL. Slice by slice, so that its sums and tables stay in
 * L1; word: CPU_SETS x n. */
static void fat_block(const pass *p, uint64_t block, const float *fat, const float *next, float *table,
                      uint64_t *word, float *z)
{
    const dn_genome *g = p->g;
    const cpu_kernels *k = p->cb->kern;
    size_t H = g->pad[g->n_aux], n = (size_t)p->n;
    uint64_t snp = block * CPU_BLOCK, used[CPU_GROUPS];
    const uint64_t *words = g->word + (block * g->n + p->first) * CPU_TILES;
    size_t left = (size_t)(g->n_snps - snp),
           sets = left < CPU_BLOCK ? (left + CPU_CODES - 1) / CPU_CODES : CPU_SETS;
    cpu_rows rows[CPU_SETS];
    float x[CPU_BLOCK * 4];
    sets += sets % 2;
    for (size_t s = 0; s < sets; s++) {
        for (size_t i = 0; i < n; i++) word[s * n + i] = cpu_set_word(words + i * CPU_TILES, s);
        k->used(word + s * n, n, used);
        cpu_rows_of(used, &rows[s]);
    }
    for (size_t j = 0; j < sets * CPU_CODES; j++) {
        for (size_t d = 0; d < 3; d++) x[4 * j + d] = g->x[(snp + j) * 3 + d] * (float)g->scale;
        x[4 * j + 3] = 0;
    }
    for (size_t h = 0; h < H; h += CPU_LANES) {
        const float *w = fat + h;
        for (size_t s = 0; s < sets; s += 2) {
            for (size_t t = s; t < s + 2; t++) {
                for (size_t i = 0; next && i < CPU_CODES; i++, next += CPU_LANES)
                    __builtin_prefetch(next, 0, 2);
                k->build(w + t * CPU_CODES * H, H, x + t * CPU_CODES * 4, &rows[t],
                         table + t % 2 * CPU_TABLE);
            }
            k->add(table, word + s * n, word + (s + 1) * n, n, z + h * n, false);
        }
    }
}

static void forward_chunk(void *ctx, size_t item, size_t worker)
{
    const pass *p = ctx;
    dn_genome *g = p->g;
    float *z = NULL, *table = g->worker + worker * g->worker_floats, *hot = table + 2 * CPU_TABLE;
    uint64_t *word = g->codes + worker * (g->codes_n / g->n_workers);
    size_t last = g->n_aux, H = g->pad[last];
    const float *hot_fat = hot;
    for (size_t l = 1; l < last; l++) hot_fat += CPU_BLOCK * g->pad[l];
    if (p->fat) {
        uint64_t n = p->n * H;
        z = g->zpart + item * n;
        memset(z, 0, n * sizeof *z);
    }
    for (uint64_t b = chunk_first(g, item); b < chunk_first(g, item + 1); b++) {
        const float *fat = g->act[last] + b * CPU_BLOCK * H,
                    *next = b + 1 < g->n_blocks ? fat + CPU_BLOCK * H : NULL;
        if (p->aux) {
            aux_block(p, b, hot);
            next = NULL;
            if (last) fat = hot_fat;
        }
        if (p->fat) fat_block(p, b, fat, next, table, word, z);
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
        if (g->shares.C) cpu_shares_weights(&g->shares, p->w[0], g->width[1]);
        for (size_t l = 0; l < g->n_aux; l++) {
            cpu_pack(l == 0 && g->shares.C ? g->shares.w : p->w[l], 1, g->width[l], g->width[l],
                     g->width[l + 1], g->pad[l + 1], p->cb->kern->panel, g->packed[l]);
        }
    }
    uint64_t n = p->fat ? g->n : 0;
    DN_TRY(need_codes(g, CPU_SETS * (n < g->slab ? n : g->slab), err));
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

#define X8 0, 1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 0
static const float dosage[CPU_CODES * 4] = {X8, X8, X8}; /* what a code counts when tables are over people */

/* Sums over people for n_blocks blocks of SNPs, in slices of n_blocks * CPU_BLOCK rows. A missing call counts
 * 0 in the tables, so that of each group of 3 people only 27 values occur. word, miss: sets x rows. true:
 * more than a tenth of the calls are missing (input dropout), and `missing` has the sums of dz over them:
 * code 1 of the same tables. */
static bool grad_blocks(const pass *p, uint64_t block, uint64_t n_blocks, float *table, float *grad,
                        float *missing, uint64_t *word, uint64_t *miss)
{
    static const cpu_rows none;
    const dn_genome *g = p->g;
    const cpu_kernels *k = p->cb->kern;
    size_t H = g->pad[g->n_aux], S = (size_t)n_blocks * CPU_BLOCK;
    for (uint64_t q = 0; q < p->sets; q++) {
        uint64_t b = q * CPU_CODES, n = g->n - b < CPU_CODES ? g->n - b : CPU_CODES;
        for (uint64_t i = 0; i < n_blocks; i++) {
            size_t at = (size_t)q * S + (size_t)i * CPU_BLOCK;
            k->turn(g->word + ((block + i) * g->n + b) * CPU_TILES, (size_t)n, word + at, miss + at);
        }
    }
    uint64_t sample = 0;
    for (uint64_t i = 0; i < p->sets * S; i += 8) sample += (uint64_t)__builtin_popcountll(miss[i]);
    bool dense = 8 * 10 * sample > p->sets * S * CPU_CODES;
    for (size_t h = 0; h < H; h += CPU_LANES) {
        for (uint64_t q = 0; q < p->sets; q += 2) {
            bool two = q + 1 < p->sets;
            for (uint64_t t = q; t < q + 1 + two; t++)
                k->build(g->dz + t * CPU_CODES * H + h, H, dosage, &none, table + t % 2 * CPU_TABLE);
            k->add(table, word + q * S, two ? word + (q + 1) * S : NULL, S, grad + h * S, q == 0);
            if (dense)
                k->add(table, miss + q * S, two ? miss + (q + 1) * S : NULL, S, missing + h * S, q == 0);
        }
    }
    return dense;
}

/* One block: from sums over people, in slices of S rows, to gradients of the layers' weights. */
static void backward_block(const pass *p, uint64_t block, const float *grad, const float *missing,
                           const uint64_t *miss, size_t S, float *d0, float *d1, float *dw)
{
    dn_genome *g = p->g;
    const cpu_kernels *k = p->cb->kern;
    uint64_t snp = block * CPU_BLOCK;
    float isd[CPU_BLOCK], *d = d0, *below = d1, *dw_end = dw + g->dw_floats - g->sum_floats;
    cpu_extra extra;
    for (uint64_t s = 0; s < CPU_BLOCK; s++) isd[s] = g->isd[snp + s] * (float)g->scale;
    k->finish(grad, missing, S, miss, p->fat ? p->sets : 0, g->dz, isd, g->mean + snp, p->total,
              g->act[g->n_aux] + snp * g->pad[g->n_aux], g->pad[g->n_aux], d);
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
        if (l == 0) {
            if (g->shares.C)
                k->sums(d, CPU_BLOCK, g->pad[1], extra_of(g, block, &extra),
                        dw + g->dw_floats - g->sum_floats);
            break;
        }
        k->mul(d, g->pad[l + 1], g->packed_t[l], CPU_BLOCK, g->width[l + 1], g->width[l], g->pad[l], below,
               CPU_DTANH, act, NULL, NULL, act + CPU_BLOCK * g->pad[l], CPU_BLOCK * g->pad[l]);
        float *t = d;
        d = below, below = t;
    }
}

static void backward_chunk(void *ctx, size_t item, size_t worker)
{
    const pass *p = ctx;
    dn_genome *g = p->g;
    size_t each = g->each;
    float *table = g->worker + worker * g->worker_floats, *d0 = table + 2 * CPU_TABLE, *d1 = d0 + each,
          *grad = d1 + each, *missing = grad + CPU_BACK * each, *dw = g->dwpart + item * g->dw_floats;
    uint64_t *word = g->codes + worker * (g->codes_n / g->n_workers),
             *miss = word + g->codes_n / g->n_workers / 2;
    memset(dw, 0, g->dw_floats * sizeof *dw);
    uint64_t end = chunk_first(g, item + 1);
    for (uint64_t b = chunk_first(g, item); b < end; b += CPU_BACK) {
        uint64_t n = end - b < CPU_BACK ? end - b : CPU_BACK;
        bool dense = p->fat && grad_blocks(p, b, n, table, grad, missing, word, miss);
        for (uint64_t i = 0; i < n; i++) {
            size_t at = i * CPU_BLOCK * CPU_LANES;
            backward_block(p, b + i, grad + at, dense ? missing + at : NULL, miss + i * CPU_BLOCK,
                           (size_t)n * CPU_BLOCK, d0, d1, dw);
        }
    }
}

/* Unit h's gradient in the first layer, where features were left out. */
static void sum_shares(const pass *p, uint64_t h)
{
    const dn_genome *g = p->g;
    double kept[2 * DN_MAX_CLASSES] = {0}, missing[DN_MAX_CLASSES] = {0}, all = 0;
    size_t C = g->shares.C, pad = g->pad[1];
    for (uint64_t c = 0; c < g->n_chunks; c++) {
        const float *part = g->dwpart + c * g->dw_floats, *sums = part + g->dw_floats - g->sum_floats + h;
        for (size_t k = 0; k < 2 * C; k++) kept[k] += part[h * g->pad[0] + k];
        all += sums[0];
        for (size_t k = 0; k < C; k++) missing[k] += sums[(1 + k) * pad];
    }
    cpu_shares_gradient(&g->shares, kept, all, missing, p->dw[0] + h * 3 * C);
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
    if (l == 0 && g->shares.C) {
        sum_shares(p, row);
        return;
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
    p.sets = (g->n + CPU_CODES - 1) / CPU_CODES;
    uint64_t people = p.sets * CPU_CODES;
    DN_TRY(need_codes(g, 2 * p.sets * CPU_BACK * CPU_BLOCK, err));
    DN_TRY(need(&g->dz, &g->dz_n, (people + 1) * pad, "gradients of a batch", err));
    p.total = g->dz + people * pad;
    memset(g->dz, 0, (people + 1) * pad * sizeof *g->dz);
    for (size_t k = 0; k < H; k++) {
        double total = 0;
        for (uint64_t b = 0; b < g->n; b++) {
            g->dz[b * pad + k] = dz[b * H + k];
            total += dz[b * H + k];
        }
        p.total[k] = (float)total;
    }
    for (size_t l = 0; l < g->n_aux; l++) {
        rows += g->width[l + 1];
        if (l == 0) continue; /* nothing goes back to the embedding */
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
