/* stats.c: counts of dosages per SNP and class, and what follows from them (see stats.h).
 *
 * The table is filled without decoding: people are taken class by class, and three indicators (dosage 1,
 * dosage 2, missing) per call are added up in lanes that widen as they fill: 2 bits hold 3 people, 4 bits
 * hold 15, a byte holds 255. Dosage 0 is what is left of the class. */
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "geno.h"

enum {
    WORDS = 32,           /* 64-bit words of a tile of one row */
    TILE = WORDS * 8,     /* bytes */
    TILE_SNPS = TILE * 4, /* calls */
    N2 = 3,
    N4 = 15,
    N8 = 255 /* people that a lane of 2, 4, 8 bits can count */
};

/* Counters of one tile and one class. Lane order: kind k (0: dosage 1, 1: dosage 2, 2: missing); the calls at
 * even and odd places go to different words as lanes widen, so that acc8[k][s] has in byte b the count of
 * call 4b + s. */
typedef struct {
    uint64_t acc2[3][WORDS], acc4[3][2][WORDS], acc8[3][4][WORDS];
} tile_acc;

/* Everything below is compiled twice, for plain CPUs and for AVX2. */
#define INLINE static inline __attribute__((always_inline))

INLINE void widen2(tile_acc *a)
{
    const uint64_t m = 0x3333333333333333u;
    for (int k = 0; k < 3; k++) {
        for (int w = 0; w < WORDS; w++) {
            a->acc4[k][0][w] += a->acc2[k][w] & m;
            a->acc4[k][1][w] += a->acc2[k][w] >> 2 & m;
        }
    }
    memset(a->acc2, 0, sizeof a->acc2);
}

INLINE void widen4(tile_acc *a)
{
    const uint64_t m = 0x0f0f0f0f0f0f0f0fu;
    for (int k = 0; k < 3; k++) {
        for (int s = 0; s < 2; s++) {
            for (int w = 0; w < WORDS; w++) {
                a->acc8[k][s][w] += a->acc4[k][s][w] & m;
                a->acc8[k][s + 2][w] += a->acc4[k][s][w] >> 4 & m;
            }
        }
    }
    memset(a->acc4, 0, sizeof a->acc4);
}

/* n people's bytes added; counts points at [tile's first SNP][class], stride 3C per SNP. */
INLINE void flush8(tile_acc *a, uint32_t n, uint32_t *counts, size_t stride, size_t n_snps)
{
    for (int s = 0; s < 4; s++) {
        const uint8_t *c1 = (const uint8_t *)a->acc8[0][s], *c2 = (const uint8_t *)a->acc8[1][s];
        const uint8_t *mi = (const uint8_t *)a->acc8[2][s];
        uint32_t *out = counts + (size_t)s * stride;
        for (size_t j = (size_t)s, b = 0; j < n_snps; j += 4, b++, out += 4 * stride) {
            out[0] += n - c1[b] - c2[b] - mi[b];
            out[1] += c1[b];
            out[2] += c2[b];
        }
    }
    memset(a->acc8, 0, sizeof a->acc8);
}

INLINE void add_row(tile_acc *a, const uint8_t *p)
{
    const uint64_t m = 0x5555555555555555u;
    for (int w = 0; w < WORDS; w++) {
        uint64_t x;
        memcpy(&x, p + 8 * w, 8);
        uint64_t lo = x & m, hi = x >> 1 & m, mi = lo & hi;
        a->acc2[0][w] += lo ^ mi;
        a->acc2[1][w] += hi ^ mi;
        a->acc2[2][w] += mi;
    }
}

typedef struct {
    uint32_t *counts;
    uint64_t n_snps, n_classes;
    const uint8_t *const *rows;
    const uint64_t *order, *first; /* rows by class: order[first[c] .. first[c + 1]) */
} job;

/* One tile of SNPs for all people. Lanes never leave their byte, so the order of bytes in a word does not
 * matter. */
INLINE void count_tile(const job *q, size_t item)
{
    uint64_t snp = (uint64_t)item * TILE_SNPS, left = q->n_snps - snp;
    size_t n_snps = left < TILE_SNPS ? left : TILE_SNPS, bytes = (n_snps + 3) / 4;
    tile_acc a;
    memset(&a, 0, sizeof a);
    uint8_t tail[TILE] = {0};
    for (uint64_t c = 0; c < q->n_classes; c++) {
        uint32_t *out = q->counts + (snp * q->n_classes + c) * 3;
        uint32_t n2 = 0, n4 = 0, n8 = 0;
        for (uint64_t i = q->first[c]; i < q->first[c + 1]; i++) {
            const uint8_t *p = q->rows[q->order[i]] + (size_t)item * TILE;
            if (bytes < TILE) p = memcpy(tail, p, bytes);
            add_row(&a, p);
            n2++, n4++, n8++;
            if (n2 == N2) widen2(&a), n2 = 0;
            if (n4 == N4) widen4(&a), n4 = 0;
            if (n8 == N8) flush8(&a, n8, out, 3 * q->n_classes, n_snps), n8 = 0;
        }
        if (n2) widen2(&a);
        if (n4) widen4(&a);
        if (n8) flush8(&a, n8, out, 3 * q->n_classes, n_snps);
    }
}
static void count_plain(void *ctx, size_t item, size_t worker)
{
    (void)worker;
    count_tile(ctx, item);
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void count_avx2(void *ctx, size_t item, size_t worker)
{
    (void)worker;
    count_tile(ctx, item);
}
#endif

_Static_assert(N4 % N2 == 0 && N8 % N4 == 0, "a lane is empty when the next wider one is emptied");

dn_status dn_counts_add(uint32_t *counts, uint64_t n_snps, uint64_t n_classes, const uint8_t *const *rows,
                        const int64_t *label, uint64_t n_rows, dn_pool *pool, dn_err *err)
{
    dn_status status;
    uint64_t *order = NULL, *first = NULL;
    DN_TRY(dn_alloc(&order, n_rows, sizeof *order, "rows by class", err));
    DN_TRY(dn_alloc(&first, n_classes + 2, sizeof *first, "class sizes", err));
    for (uint64_t i = 0; i < n_rows; i++) {
        if (label[i] < 0 || (uint64_t)label[i] >= n_classes) {
            DN_TRY(dn_fail(err, DN_EINTERNAL, "counting dosages: row %llu has label %lld, expected 0 to %llu",
                           (unsigned long long)i, (long long)label[i], (unsigned long long)n_classes - 1));
        }
        first[label[i] + 2]++;
    }
    for (uint64_t c = 2; c < n_classes + 2; c++) first[c] += first[c - 1];
    for (uint64_t i = 0; i < n_rows; i++) order[first[label[i] + 1]++] = i;
    job q = {counts, n_snps, n_classes, rows, order, first};
    void (*count)(void *, size_t, size_t) = count_plain;
#if defined(__x86_64__)
    if (dn_isa_get() >= DN_ISA_AVX2) count = count_avx2;
#endif
    dn_pool_run(pool, (size_t)((n_snps + TILE_SNPS - 1) / TILE_SNPS), count, &q);
    status = DN_OK;
done:
    free(order);
    free(first);
    return status;
}

void dn_counts_add_ref(uint32_t *counts, uint64_t n_snps, uint64_t n_classes, const uint8_t *const *rows,
                       const int64_t *label, uint64_t n_rows)
{
    for (uint64_t i = 0; i < n_rows; i++) {
        for (uint64_t j = 0; j < n_snps; j++) {
            unsigned g = dn_geno_get(rows[i], j);
            if (g < 3) counts[(j * n_classes + (uint64_t)label[i]) * 3 + g]++;
        }
    }
}

void dn_stats(const uint32_t *counts, uint64_t n_snps, uint64_t n_classes, double *mean, double *sd,
              uint64_t *n_flat, uint64_t *n_empty)
{
    uint64_t flat = 0, empty = 0;
    for (uint64_t j = 0; j < n_snps; j++) {
        uint64_t n[3] = {0, 0, 0};
        for (uint64_t c = 0; c < n_classes; c++) {
            for (int g = 0; g < 3; g++) n[g] += counts[(j * n_classes + c) * 3 + (uint64_t)g];
        }
        uint64_t calls = n[0] + n[1] + n[2];
        double m = calls ? (double)(n[1] + 2 * n[2]) / (double)calls : 0.0, ss = 0.0;
        for (int g = 0; g < 3; g++) ss += (double)n[g] * (g - m) * (g - m);
        mean[j] = m;
        sd[j] = (calls > 1 ? sqrt(ss / (double)(calls - 1)) : 0.0) + 1e-6;
        empty += calls == 0;
        flat += dn_snp_is_flat(mean[j], sd[j]);
    }
    if (n_flat) *n_flat = flat;
    if (n_empty) *n_empty = empty;
}

void dn_embedding(const uint32_t *counts, uint64_t n_snps, uint64_t n_classes, const uint64_t *class_size,
                  double *emb)
{
    for (uint64_t j = 0; j < n_snps; j++) {
        for (uint64_t c = 0; c < n_classes; c++) {
            uint64_t at = (j * n_classes + c) * 3;
            for (uint64_t g = 0; g < 3; g++) {
                emb[at + g] = class_size[c] ? (double)counts[at + g] / (double)class_size[c] : 0.0;
            }
        }
    }
}

void dn_embedding_normalise(const double *emb, uint64_t n_snps, uint64_t n_features, float *out)
{
    /* One column at a time would read M x K doubles K times over: sums of squares stand side by side instead.
     */
    enum { BLOCK = 64 };
    for (uint64_t k0 = 0; k0 < n_features; k0 += BLOCK) {
        uint64_t n = n_features - k0 < BLOCK ? n_features - k0 : BLOCK;
        double ss[BLOCK] = {0};
        for (uint64_t j = 0; j < n_snps; j++) {
            const double *e = emb + j * n_features + k0;
            for (uint64_t k = 0; k < n; k++) ss[k] += e[k] * e[k];
        }
        for (uint64_t k = 0; k < n; k++) ss[k] = sqrt(ss[k]);
        for (uint64_t j = 0; j < n_snps; j++) {
            const double *e = emb + j * n_features + k0;
            for (uint64_t k = 0; k < n; k++) {
                out[j * n_features + k0 + k] = ss[k] > 0 ? (float)(e[k] / ss[k]) : 0.0f;
            }
        }
    }
}
