/* backend_cpu_genome.c: the genotype side of a net on the CPU: memory, the batch's words, input dropout. */
#include "backend_cpu_impl.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "stats.h"

#define MAX_CHUNKS  64
#define SUM_FLOATS  ((uint64_t)8 << 20) /* of sums kept per chunk: 32 MB */
#define GATHER      3                   /* blocks gathered at once: four or five cache lines of each row */
#define GATHER_ITEM (8 * GATHER)

/* n zeroed floats; large ones on huge pages where the system grants them: rows of activations are few per 4
 * KB page. */
static dn_status big_alloc(float **p, uint64_t n, const char *what, dn_err *err)
{
    dn_status status = dn_alloc_aligned(p, n, sizeof **p, what, err);
    if (status != DN_OK) return status;
    const uintptr_t huge = (uintptr_t)2 << 20;
    uintptr_t from = ((uintptr_t)*p + huge - 1) & ~(huge - 1), to = (uintptr_t)(*p + n) & ~(huge - 1);
    if (to > from) (void)madvise((void *)from, to - from, MADV_HUGEPAGE); /* a hint */
    memset(*p, 0, n * sizeof **p);
    return DN_OK;
}

dn_status cpu_genome_new(dn_backend *be, dn_genome **out, const dn_genome_spec *spec, dn_err *err)
{
    cpu_backend *cb = (cpu_backend *)be;
    dn_status status;
    dn_genome *g = NULL;
    *out = NULL;
    DN_TRY(dn_alloc(&g, 1, sizeof *g, "network", err));
    g->n_snps = spec->n_snps;
    g->n_blocks = (spec->n_snps + CPU_BLOCK - 1) / CPU_BLOCK;
    g->n_aux = spec->n_aux;
    uint64_t rows = g->n_blocks * CPU_BLOCK, widest = 0, hot = 0;
    if (g->n_aux && spec->n_snps >= cb->shares_from)
        DN_TRY(
            cpu_shares_new(&g->shares, spec->emb, spec->n_snps, rows, spec->n_features, spec->aux[0], err));
    for (size_t l = 0; l <= g->n_aux; l++) {
        g->width[l] = (size_t)(l ? spec->aux[l - 1] : g->shares.C ? 2 * g->shares.C : spec->n_features);
        g->pad[l] = cpu_pad(g->width[l]);
    }
    for (size_t l = 0; l <= g->n_aux; l++) {
        DN_TRY(big_alloc(&g->act[l], rows * g->pad[l], l ? "activations of the auxiliary net" : "embedding",
                         err));
        if (g->pad[l] > widest) widest = g->pad[l];
        if (l) hot += g->pad[l];
        if (l) {
            uint64_t n = g->pad[l - 1] * g->pad[l];
            DN_TRY(dn_alloc_aligned(&g->packed[l - 1], n, sizeof(float), "auxiliary weights", err));
            DN_TRY(dn_alloc_aligned(&g->packed_t[l - 1], n, sizeof(float), "auxiliary weights", err));
            g->dw_floats += cpu_dw_floats(g, l - 1);
        }
    }
    if (g->shares.C) {
        g->sum_floats = (1 + g->shares.C) * g->pad[1];
        g->dw_floats += g->sum_floats;
    }
    for (uint64_t j = 0; j < g->n_snps; j++) {
        const float *e = spec->emb + j * spec->n_features;
        if (g->shares.C)
            cpu_shares_embedding(&g->shares, e, g->act[0] + j * g->pad[0]);
        else
            memcpy(g->act[0] + j * g->pad[0], e, g->width[0] * sizeof(float));
    }
    DN_TRY(dn_alloc(&g->x, rows * 3, sizeof(float), "standardised dosages", err));
    DN_TRY(dn_alloc(&g->mean, rows, sizeof(float), "means", err));
    DN_TRY(dn_alloc(&g->isd, rows, sizeof(float), "standard deviations", err));
    for (uint64_t j = 0; j < g->n_snps; j++) {
        if (dn_snp_is_flat(spec->mean[j], spec->sd[j])) continue;
        g->mean[j] = (float)spec->mean[j];
        g->isd[j] = (float)(1 / spec->sd[j]);
        for (int d = 0; d < 3; d++) g->x[j * 3 + (uint64_t)d] = (float)((d - spec->mean[j]) / spec->sd[j]);
    }
    g->n_chunks = g->n_blocks < MAX_CHUNKS ? g->n_blocks : MAX_CHUNKS;
    while (g->n_chunks > 4 && g->dw_floats * g->n_chunks > SUM_FLOATS) g->n_chunks /= 2;
    g->slab = SUM_FLOATS / (g->n_chunks * g->pad[g->n_aux]) / CPU_LANES * CPU_LANES;
    if (g->slab < 64) g->slab = 64;
    DN_TRY(dn_alloc_aligned(&g->dwpart, g->dw_floats * g->n_chunks, sizeof(float),
                            "gradients of the auxiliary net", err));
    /* Per worker: two tables, two gradients of a block, and sums over people of CPU_BACK blocks: all, and of
     * the missing calls. */
    g->n_workers = dn_pool_threads(cb->pool);
    if (hot < (2 * CPU_BACK + 2) * widest) hot = (2 * CPU_BACK + 2) * widest;
    g->each = CPU_BLOCK * widest;
    g->worker_floats = 2 * CPU_TABLE + CPU_BLOCK * hot;
    DN_TRY(big_alloc(&g->worker, g->n_workers * g->worker_floats, "scratch", err));
    *out = g;
    g = NULL;
done:
    cpu_genome_free(be, g);
    return status;
}

void cpu_genome_free(dn_backend *be, dn_genome *g)
{
    (void)be;
    if (!g) return;
    for (size_t l = 0; l <= g->n_aux; l++) free(g->act[l]);
    for (size_t l = 0; l < g->n_aux; l++) {
        free(g->packed[l]);
        free(g->packed_t[l]);
    }
    cpu_shares_free(&g->shares);
    free(g->x);
    free(g->mean);
    free(g->isd);
    free(g->word);
    free(g->worker);
    free(g->codes);
    free(g->zpart);
    free(g->dwpart);
    free(g->dz);
    free(g);
}

dn_status cpu_fat_download(dn_backend *be, dn_genome *g, float *host, dn_err *err)
{
    (void)be, (void)err;
    size_t H = g->width[g->n_aux], ld = g->pad[g->n_aux];
    for (uint64_t j = 0; j < g->n_snps; j++)
        memcpy(host + j * H, g->act[g->n_aux] + j * ld, H * sizeof *host);
    return DN_OK;
}

/* ---- the batch ---- */

typedef struct {
    dn_genome *g;
    const uint8_t *const *rows;
} gather_job;

/* Words of GATHER_ITEM blocks for all people, a few blocks of each row at a time. */
static void gather(void *ctx, size_t item, size_t worker)
{
    (void)worker;
    const gather_job *q = ctx;
    dn_genome *g = q->g;
    const uint64_t row_bytes = dn_geno_bytes(g->n_snps), block_bytes = CPU_BLOCK / 4;
    uint64_t from = (uint64_t)item * GATHER_ITEM,
             to = from + GATHER_ITEM < g->n_blocks ? from + GATHER_ITEM : g->n_blocks;
    for (uint64_t k0 = from; k0 < to; k0 += GATHER) {
        uint64_t k1 = k0 + GATHER < to ? k0 + GATHER : to;
        for (uint64_t b = 0; b < g->n; b++) {
            for (uint64_t k = k0; k < k1; k++) {
                uint64_t *word = g->word + (k * g->n + b) * CPU_TILES, at = k * block_bytes,
                         left = row_bytes - at;
                if (left < block_bytes) memset(word, 0xff, block_bytes);
                memcpy(word, q->rows[b] + at, left < block_bytes ? left : block_bytes);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
                for (int t = 0; t < CPU_TILES; t++) word[t] = le64toh(word[t]);
#endif
                uint64_t snps =
                    g->n_snps - k * CPU_BLOCK; /* calls past the last SNP of the row's last byte */
                if (snps < CPU_BLOCK && snps % CPU_COLS)
                    word[snps / CPU_COLS] |= UINT64_MAX << 2 * (snps % CPU_COLS);
            }
        }
    }
}

/* Bit 2i of the result: kept[i] is 0; i < 32. */
static uint64_t dropped(const uint8_t *kept)
{
    uint64_t m = 0;
    for (int q = 0; q < 4;
         q++) { /* eight bytes of 0 or 1 to eight bits: a product moves byte i's bit to bit 56 + i */
        uint64_t x;
        memcpy(&x, kept + 8 * q, 8);
        m |= (htole64(x) * 0x0102040810204080u >> 56) << 8 * q;
    }
    m ^= 0xffffffffu;
    m = (m | m << 16) & 0x0000ffff0000ffffu; /* bit i to bit 2i */
    m = (m | m << 8) & 0x00ff00ff00ff00ffu;
    m = (m | m << 4) & 0x0f0f0f0f0f0f0f0fu;
    m = (m | m << 2) & 0x3333333333333333u;
    return (m | m << 1) & 0x5555555555555555u;
}

enum { PIECE = 64 * CPU_COLS, DROP_ITEM = 8 * PIECE }; /* draws at a time, and per item of work */

/* Sets calls [at, at + n) of person b that are drawn 0 to missing; kept: room for PIECE. */
static void drop_piece(dn_genome *g, uint64_t b, uint64_t at, uint64_t n, uint8_t *kept)
{
    for (uint64_t k = 0; k < n; k += CPU_COLS) {
        uint64_t w = n - k < CPU_COLS ? n - k : CPU_COLS;
        memset(kept + k + w, 1, CPU_COLS - w); /* past the last SNP */
        uint64_t m = 3 * dropped(kept + k);
        uint64_t tile = (at + k) / CPU_COLS;
        g->word[(tile / CPU_TILES * g->n + b) * CPU_TILES + tile % CPU_TILES] |= m;
    }
}

typedef struct {
    dn_genome *g;
    double keep;
    dn_rng *rng;
    uint64_t first;    /* person whose words are in word[0] */
    uint32_t *word[2]; /* two words per draw, of this person and of the next */
} drop_job;

/* The fast kind's draws wait for nobody: a piece of every person. */
static void drop_fast(void *ctx, size_t item, size_t worker)
{
    (void)worker;
    const drop_job *q = ctx;
    dn_genome *g = q->g;
    uint8_t kept[PIECE];
    uint64_t at = item * PIECE, n = g->n_snps - at < PIECE ? g->n_snps - at : PIECE;
    for (uint64_t b = 0; b < g->n; b++) {
        dn_rng_fast_bernoulli(q->rng->key, q->rng->at + b * g->n_snps + at, q->keep, kept, n);
        drop_piece(g, b, at, n, kept);
    }
}

/* Upstream's generator makes words one after another: item 0 makes the next person's, while the others make
 * draws of this one's. */
static void drop_item(void *ctx, size_t item, size_t worker)
{
    (void)worker;
    const drop_job *q = ctx;
    dn_genome *g = q->g;
    if (item == 0) {
        if (q->first + 1 < g->n) dn_rng_words(q->rng, q->word[1], 2 * g->n_snps);
        return;
    }
    uint8_t kept[PIECE];
    uint64_t from = (item - 1) * DROP_ITEM, to = from + DROP_ITEM < g->n_snps ? from + DROP_ITEM : g->n_snps;
    for (uint64_t at = from; at < to; at += PIECE) {
        uint64_t n = to - at < PIECE ? to - at : PIECE;
        dn_rng_words_bernoulli(q->word[0] + 2 * at, q->keep, kept, n);
        drop_piece(g, q->first, at, n, kept);
    }
}

/* Input dropout. Draws are made person after person, as upstream's over the batch. */
static dn_status drop_calls(cpu_backend *cb, dn_genome *g, double keep, dn_rng *rng, dn_err *err)
{
    drop_job q = {.g = g, .keep = keep, .rng = rng};
    if (rng->fast) {
        dn_pool_run(cb->pool, (size_t)((g->n_snps + PIECE - 1) / PIECE), drop_fast, &q);
        rng->at += g->n * g->n_snps;
        return DN_OK;
    }
    uint32_t *word;
    dn_status status = dn_alloc(&word, 4 * g->n_snps, sizeof *word, "input dropout", err);
    if (status != DN_OK) return status;
    q.word[0] = word, q.word[1] = word + 2 * g->n_snps;
    dn_rng_words(rng, q.word[0], 2 * g->n_snps);
    for (; q.first < g->n; q.first++) {
        dn_pool_run(cb->pool, (size_t)(1 + (g->n_snps + DROP_ITEM - 1) / DROP_ITEM), drop_item, &q);
        uint32_t *t = q.word[0];
        q.word[0] = q.word[1], q.word[1] = t;
    }
    free(word);
    return DN_OK;
}

dn_status cpu_load_rows(dn_backend *be, dn_genome *g, const uint8_t *const *rows, uint64_t n, double keep,
                        dn_rng *rng, dn_err *err)
{
    cpu_backend *cb = (cpu_backend *)be;
    dn_status status;
    uint64_t n_tiles = g->n_blocks * CPU_TILES;
    if (n > g->room) {
        free(g->word);
        g->word = NULL;
        g->room = 0;
        uint64_t words;
        if (n > DN_MAX_PEOPLE || !dn_mul(n, n_tiles, &words)) {
            return dn_fail(err, DN_ENOMEM, "a batch of %llu people is too large", (unsigned long long)n);
        }
        DN_TRY(dn_alloc_aligned(&g->word, words, sizeof *g->word, "genotypes of a batch", err));
        g->room = n;
    }
    g->n = n;
    g->scale = 1.0;
    gather_job q = {g, rows};
    dn_pool_run(cb->pool, (size_t)((g->n_blocks + GATHER_ITEM - 1) / GATHER_ITEM), gather, &q);
    if (keep < 1.0) {
        g->scale = 1.0 / keep;
        DN_TRY(drop_calls(cb, g, keep, rng, err));
    }
    status = DN_OK;
done:
    return status;
}
