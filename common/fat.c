/* fat.c: the fat layer on packed genotypes (see fat.h): lays out the work of the table kernel, and the plain
 * reference.
 *
 * Columns are taken in chunks of DN_FAT_CHUNK. Per chunk, the people's words are first gathered tile by tile,
 * so that the kernel reads them in a line, and the byte values that occur are noted; then every (tile of
 * outputs, sub-block of people) is an item of its own: per tile of columns its table is built and each person
 * adds 8 of its rows. Letters: B people of a sub-block, T tiles of columns in the chunk, L members. */
#include "fat.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "fat_kernel.h"

#define CHUNK_TILES (DN_FAT_CHUNK / FAT_COLS)
#define MAX_SUB     4096 /* people of a sub-block: 256 KB of sums, in L2; fewer build tables too often */
#define MIN_SUB     256
#define GATHER      8 /* tiles gathered at once: one cache line of each row */

/* Lanes [lane, lane + n) of a tile of outputs are units [unit, unit + n) of a member. */
typedef struct {
    size_t member;
    uint64_t unit;
    size_t lane, n;
} segment;

typedef struct {
    const dn_fat_problem *p;
    const uint8_t *rows;
    uint64_t row_bytes, n_people;
    float *z;
    fat_kernels kernels;
    uint64_t n_units, n_out_tiles;
    segment *seg;
    size_t *seg_first; /* n_out_tiles + 1 */
    uint64_t n_sub, sub_people;
    size_t n_norms, *norm; /* L: members with the same mean and sd share their factors */
    size_t *norm_member;   /* n_norms: a member that has it */
    /* of the chunk at hand */
    uint64_t col, n_cols, n_tiles;
    uint64_t *word; /* T x n_people */
    fat_used *used; /* T x n_sub x 8 */
    bool *flat;     /* n_norms x CHUNK_TILES: a SNP of the tile contributes nothing */
    float *x;       /* n_norms x DN_FAT_CHUNK x 3: standardised and scaled dosages 0, 1, 2 */
    float *total;   /* n_out_tiles x n_people x 16: sums over chunks */
    float *scratch; /* per worker: sums (sub_people x 16), table, weights and factors */
    size_t scratch_floats;
} job;

static const float no_weight[FAT_LANES];

static uint64_t count_units(const dn_fat_problem *p)
{
    uint64_t n = 0;
    for (size_t i = 0; i < p->n_members; i++) n += p->members[i].units;
    return n;
}

static uint64_t place_of(const dn_fat_problem *p, uint64_t col)
{
    return p->place ? p->place[col] : col;
}

/* How many people a sub-block has: few enough for L2, and small enough that every thread has work. */
static uint64_t sub_people_of(uint64_t n_people, uint64_t n_out_tiles, size_t n_threads)
{
    uint64_t size = MAX_SUB;
    while (size > MIN_SUB && (n_people + size - 1) / size * n_out_tiles < 4 * (uint64_t)n_threads) size /= 2;
    uint64_t n_sub = (n_people + size - 1) / size;
    return n_sub ? (n_people + n_sub - 1) / n_sub : 0;
}

static size_t scratch_floats_of(uint64_t sub_people)
{
    return (size_t)sub_people * FAT_LANES + FAT_TABLE + FAT_COLS * 4 * FAT_LANES;
}

uint64_t dn_fat_scratch(const dn_fat_problem *p, uint64_t n_people, size_t n_threads)
{
    uint64_t tiles = (count_units(p) + FAT_LANES - 1) / FAT_LANES;
    uint64_t sub = sub_people_of(n_people, tiles, n_threads);
    uint64_t n_sub = sub ? (n_people + sub - 1) / sub : 0;
    return tiles * n_people * FAT_LANES * sizeof(float) + CHUNK_TILES * n_people * sizeof(uint64_t) +
           CHUNK_TILES * n_sub * FAT_GROUPS * sizeof(fat_used) + p->n_members * CHUNK_TILES +
           p->n_members * DN_FAT_CHUNK * 3 * sizeof(float) +
           n_threads * scratch_floats_of(sub) * sizeof(float);
}

/* Cuts the members' outputs, side by side, into tiles of 16. */
static dn_status make_segments(job *j, dn_err *err)
{
    dn_status status;
    const dn_fat_problem *p = j->p;
    DN_TRY(dn_alloc(&j->seg, j->n_out_tiles + p->n_members, sizeof *j->seg, "fat layer", err));
    DN_TRY(dn_alloc(&j->seg_first, j->n_out_tiles + 1, sizeof *j->seg_first, "fat layer", err));
    size_t n = 0, tile = 0, lane = 0;
    for (size_t m = 0; m < p->n_members; m++) {
        for (uint64_t unit = 0; unit < p->members[m].units;) {
            uint64_t left = p->members[m].units - unit;
            size_t take = left < FAT_LANES - lane ? (size_t)left : FAT_LANES - lane;
            j->seg[n++] = (segment){m, unit, lane, take};
            unit += take;
            lane += take;
            if (lane == FAT_LANES) {
                lane = 0;
                j->seg_first[++tile] = n;
            }
        }
    }
    if (lane) j->seg_first[++tile] = n;
    status = DN_OK;
done:
    return status;
}

static dn_status find_norms(job *j, dn_err *err)
{
    dn_status status;
    const dn_fat_problem *p = j->p;
    DN_TRY(dn_alloc(&j->norm, p->n_members, sizeof *j->norm, "fat layer", err));
    DN_TRY(dn_alloc(&j->norm_member, p->n_members, sizeof *j->norm_member, "fat layer", err));
    for (size_t m = 0; m < p->n_members; m++) {
        const dn_fat_member *a = &p->members[m];
        size_t k = 0;
        while (k < j->n_norms &&
               (p->members[j->norm_member[k]].mean != a->mean || p->members[j->norm_member[k]].sd != a->sd))
            k++;
        if (k == j->n_norms) j->norm_member[j->n_norms++] = m;
        j->norm[m] = k;
    }
    status = DN_OK;
done:
    return status;
}

/* ---- Per chunk, first pass: words by tile, and the factors of each normalisation ---- */

static void gather(job *j, uint64_t first_tile, uint64_t sub)
{
    uint64_t n_tiles = j->n_tiles - first_tile < GATHER ? j->n_tiles - first_tile : GATHER;
    uint64_t from = sub * j->sub_people,
             to = from + j->sub_people < j->n_people ? from + j->sub_people : j->n_people;
    uint64_t byte = (j->col + first_tile * FAT_COLS) / 4;
    uint64_t *word = j->word + first_tile * j->n_people;
    for (uint64_t i = from; i < to; i++) {
        const uint8_t *src = j->rows + i * j->row_bytes + byte;
        for (uint64_t t = 0; t < n_tiles; t++) {
            uint64_t w;
            memcpy(&w, src + 8 * t, sizeof w);
            w = le64toh(w);
            word[t * j->n_people + i] = w;
        }
    }
    for (uint64_t t = 0; t < n_tiles; t++) {
        uint8_t seen[FAT_GROUPS][256];
        memset(seen, 0, sizeof seen);
        for (uint64_t i = from; i < to; i++) {
            uint64_t w = word[t * j->n_people + i];
            seen[0][w & 255] = 1, seen[1][w >> 8 & 255] = 1, seen[2][w >> 16 & 255] = 1,
                        seen[3][w >> 24 & 255] = 1;
            seen[4][w >> 32 & 255] = 1, seen[5][w >> 40 & 255] = 1, seen[6][w >> 48 & 255] = 1,
                              seen[7][w >> 56] = 1;
        }
        fat_used *used = j->used + ((first_tile + t) * j->n_sub + sub) * FAT_GROUPS;
        for (int g = 0; g < FAT_GROUPS; g++) {
            used[g].n = 0;
            for (int v = 0; v < 256; v++) {
                used[g].value[used[g].n & 255] = (uint8_t)v;
                used[g].n = (uint16_t)(used[g].n + seen[g][v]);
            }
        }
    }
}

static void standardise(job *j, size_t norm)
{
    const dn_fat_member *m = &j->p->members[j->norm_member[norm]];
    float *x = j->x + norm * DN_FAT_CHUNK * 3;
    bool *any = j->flat + norm * CHUNK_TILES;
    memset(any, 0, CHUNK_TILES * sizeof *any);
    for (uint64_t c = 0; c < j->n_cols; c++, x += 3) {
        uint64_t at = place_of(j->p, j->col + c);
        bool flat = dn_snp_is_flat(m->mean[at], m->sd[at]);
        any[c / FAT_COLS] |= flat;
        for (int g = 0; g < 3; g++) x[g] = flat ? 0 : (float)((g - m->mean[at]) / m->sd[at] * j->p->scale);
    }
}

static void prepare_item(void *ctx, size_t item, size_t worker)
{
    job *j = ctx;
    (void)worker;
    if (item < j->n_norms) {
        standardise(j, item);
        return;
    }
    item -= j->n_norms;
    gather(j, item / j->n_sub * GATHER, item % j->n_sub);
}

/* ---- Second pass: one tile of outputs for one sub-block of people ---- */

static const float *weight_at(const job *j, const segment *seg, uint64_t col)
{
    const dn_fat_member *m = &j->p->members[seg->member];
    return m->weight + place_of(j->p, j->col + col) * m->units + seg->unit;
}

static const float *factors_at(const job *j, const segment *seg, uint64_t col)
{
    return j->x + (j->norm[seg->member] * DN_FAT_CHUNK + col) * 3;
}

/* Whatever the weight, infinite too. */
static bool is_nothing(const float *x)
{
    return x[0] == 0 && x[1] == 0 && x[2] == 0;
}

/* A tile that spans members, or has fewer outputs or columns than others, is put together in `stage` (32 x 16
 * weights, then 32 x 3 x 16 factors); n columns from `first`. */
static void stage_columns(const job *j, uint64_t out_tile, uint64_t first, uint64_t n, float *stage,
                          fat_columns *cols)
{
    float *xs = stage + FAT_COLS * FAT_LANES;
    memset(stage, 0, FAT_COLS * 4 * FAT_LANES * sizeof *stage);
    for (size_t s = j->seg_first[out_tile]; s < j->seg_first[out_tile + 1]; s++) {
        const segment *seg = &j->seg[s];
        for (uint64_t c = 0; c < n; c++) {
            const float *x = factors_at(j, seg, first + c);
            if (is_nothing(x)) continue;
            memcpy(stage + c * FAT_LANES + seg->lane, weight_at(j, seg, first + c), seg->n * sizeof *stage);
            for (size_t d = 0; d < 3; d++) {
                float *out = xs + (c * 3 + d) * FAT_LANES + seg->lane;
                for (size_t i = 0; i < seg->n; i++) out[i] = x[d];
            }
        }
    }
    for (size_t c = 0; c < FAT_COLS; c++) cols->w[c] = stage + c * FAT_LANES;
    cols->x = xs;
    cols->x_lanes = FAT_LANES;
}

/* Describes the columns of a tile for the kernel; most are used where they are. */
static void columns(const job *j, uint64_t out_tile, uint64_t tile, float *stage, fat_columns *cols)
{
    uint64_t first = tile * FAT_COLS, n = j->n_cols - first < FAT_COLS ? j->n_cols - first : FAT_COLS;
    const segment *seg = &j->seg[j->seg_first[out_tile]];
    if (n < FAT_COLS || seg->n < FAT_LANES) {
        stage_columns(j, out_tile, first, n, stage, cols);
        return;
    }
    cols->x = factors_at(j, seg, first);
    cols->x_lanes = 1;
    for (size_t c = 0; c < FAT_COLS; c++) cols->w[c] = weight_at(j, seg, first + c);
    if (!j->flat[j->norm[seg->member] * CHUNK_TILES + tile]) return;
    for (size_t c = 0; c < FAT_COLS; c++) {
        if (is_nothing(cols->x + c * 3)) cols->w[c] = no_weight;
    }
}

/* Columns [first, last) of the chunk: their weights are far apart (one row of a matrix per column), and asked
 * for while people are being added. */
static void prefetch_weights(const job *j, uint64_t out_tile, uint64_t first, uint64_t last)
{
    for (size_t s = j->seg_first[out_tile]; s < j->seg_first[out_tile + 1]; s++) {
        const segment *seg = &j->seg[s];
        for (uint64_t c = first; c < last && c < j->n_cols; c++) {
            const float *w = weight_at(j, seg, c);
            __builtin_prefetch(w, 0, 2);
            __builtin_prefetch(w + seg->n - 1, 0, 2);
        }
    }
}

static void forward_item(void *ctx, size_t item, size_t worker)
{
    job *j = ctx;
    uint64_t out_tile = item / j->n_sub, sub = item % j->n_sub, from = sub * j->sub_people;
    uint64_t n = j->n_people - from < j->sub_people ? j->n_people - from : j->sub_people;
    float *acc = j->scratch + worker * j->scratch_floats, *table = acc + j->sub_people * FAT_LANES,
          *stage = table + FAT_TABLE;
    const uint64_t quarter = FAT_COLS / 4;
    for (uint64_t t = 0; t < j->n_tiles; t++) {
        const uint64_t *word = j->word + t * j->n_people + from;
        fat_columns cols;
        columns(j, out_tile, t, stage, &cols);
        j->kernels.build(&cols, j->used + (t * j->n_sub + sub) * FAT_GROUPS, table);
        for (uint64_t q = 0; q < 4; q++) { /* a few lines at a time: a core has about 20 misses in flight */
            uint64_t next = (t + 1) * FAT_COLS + q * quarter, i = n * q / 4;
            prefetch_weights(j, out_tile, next, next + quarter);
            j->kernels.add(table, word + i, n * (q + 1) / 4 - i, acc + i * FAT_LANES);
        }
    }
    j->kernels.drain(acc, n, j->total + (out_tile * j->n_people + from) * FAT_LANES);
}

/* Sums by tile of outputs -> z, a block of people. */
static void output_item(void *ctx, size_t item, size_t worker)
{
    job *j = ctx;
    (void)worker;
    uint64_t from = item * MIN_SUB, to = from + MIN_SUB < j->n_people ? from + MIN_SUB : j->n_people;
    for (uint64_t t = 0; t < j->n_out_tiles; t++) {
        uint64_t n = j->n_units - t * FAT_LANES < FAT_LANES ? j->n_units - t * FAT_LANES : FAT_LANES;
        for (uint64_t i = from; i < to; i++) {
            memcpy(j->z + i * j->n_units + t * FAT_LANES, j->total + (t * j->n_people + i) * FAT_LANES,
                   n * sizeof *j->z);
        }
    }
}

dn_status dn_fat_forward_isa(const dn_fat_problem *p, const uint8_t *rows, uint64_t row_bytes,
                             uint64_t n_people, float *z, dn_pool *pool, dn_isa isa, dn_err *err)
{
    dn_status status;
    size_t n_threads = dn_pool_threads(pool);
    job j = {.p = p,
             .rows = rows,
             .row_bytes = row_bytes,
             .n_people = n_people,
             .z = z,
             .kernels = fat_kernels_for(isa)};
    j.n_units = count_units(p);
    if (n_people == 0 || j.n_units == 0) return DN_OK;
    if (row_bytes % 8 || dn_geno_bytes(p->n_cols) > row_bytes) {
        return dn_fail(err, DN_EINTERNAL, "packed rows of %llu bytes cannot hold %llu calls",
                       (unsigned long long)row_bytes, (unsigned long long)p->n_cols);
    }
    j.n_out_tiles = (j.n_units + FAT_LANES - 1) / FAT_LANES;
    j.sub_people = sub_people_of(n_people, j.n_out_tiles, n_threads);
    j.n_sub = (n_people + j.sub_people - 1) / j.sub_people;
    j.scratch_floats = scratch_floats_of(j.sub_people);
    DN_TRY(make_segments(&j, err));
    DN_TRY(find_norms(&j, err));
    DN_TRY(dn_alloc_aligned(&j.word, CHUNK_TILES * n_people, sizeof *j.word, "fat layer", err));
    DN_TRY(dn_alloc_aligned(&j.used, CHUNK_TILES * j.n_sub * FAT_GROUPS, sizeof *j.used, "fat layer", err));
    DN_TRY(dn_alloc(&j.flat, j.n_norms * CHUNK_TILES, sizeof *j.flat, "fat layer", err));
    DN_TRY(dn_alloc_aligned(&j.x, j.n_norms * DN_FAT_CHUNK * 3, sizeof *j.x, "fat layer", err));
    DN_TRY(
        dn_alloc_aligned(&j.total, j.n_out_tiles * n_people * FAT_LANES, sizeof *j.total, "fat layer", err));
    DN_TRY(dn_alloc_aligned(&j.scratch, n_threads * j.scratch_floats, sizeof *j.scratch, "fat layer", err));
    memset(j.scratch, 0, n_threads * j.scratch_floats * sizeof *j.scratch);
    memset(j.total, 0, j.n_out_tiles * n_people * FAT_LANES * sizeof *j.total);
    for (j.col = 0; j.col < p->n_cols; j.col += DN_FAT_CHUNK) {
        j.n_cols = p->n_cols - j.col < DN_FAT_CHUNK ? p->n_cols - j.col : DN_FAT_CHUNK;
        j.n_tiles = (j.n_cols + FAT_COLS - 1) / FAT_COLS;
        dn_pool_run(pool, j.n_norms + (j.n_tiles + GATHER - 1) / GATHER * j.n_sub, prepare_item, &j);
        dn_pool_run(pool, j.n_out_tiles * j.n_sub, forward_item, &j);
    }
    dn_pool_run(pool, (n_people + MIN_SUB - 1) / MIN_SUB, output_item, &j);
    status = DN_OK;
done:
    free(j.seg);
    free(j.seg_first);
    free(j.norm);
    free(j.norm_member);
    free(j.word);
    free(j.used);
    free(j.flat);
    free(j.x);
    free(j.total);
    free(j.scratch);
    return status;
}

dn_status dn_fat_forward(const dn_fat_problem *p, const uint8_t *rows, uint64_t row_bytes, uint64_t n_people,
                         float *z, dn_pool *pool, dn_err *err)
{
    return dn_fat_forward_isa(p, rows, row_bytes, n_people, z, pool, dn_isa_get(), err);
}

void dn_fat_forward_ref(const dn_fat_problem *p, const uint8_t *rows, uint64_t row_bytes, uint64_t n_people,
                        double *z)
{
    uint64_t n_units = count_units(p);
    memset(z, 0, n_people * n_units * sizeof *z);
    for (uint64_t i = 0; i < n_people; i++) {
        for (uint64_t c = 0; c < p->n_cols; c++) {
            unsigned g = dn_geno_get(rows + i * row_bytes, c);
            uint64_t at = place_of(p, c);
            double *out = z + i * n_units;
            for (size_t k = 0; k < p->n_members; out += p->members[k++].units) {
                const dn_fat_member *m = &p->members[k];
                if (g == 3 || dn_snp_is_flat(m->mean[at], m->sd[at])) continue;
                double x = (g - m->mean[at]) / m->sd[at] * p->scale;
                for (uint64_t u = 0; u < m->units; u++) out[u] += x * m->weight[at * m->units + u];
            }
        }
    }
}
