/* blocks.c: .bed rows to packed rows of people (see blocks.h).
 *
 * A block of people is worked off in chunks of columns. While chunk k is transposed, chunk k + 1 is read:
 * both are items of one run of the pool, so that reading overlaps computing and no thread waits. Inside a
 * chunk, rows are read in the order of the file. When the model's order and the cohort's differ throughout (a
 * shuffled .bim), a chunk is the whole block, so that the file is still read front to back. */
#include "blocks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "geno.h"
#include "gpk.h"

typedef unsigned long long ull;

enum {
    OVERLAP = 2,         /* blocks when all of it would fit in one */
    CHUNK_COLS = 2048,   /* columns of a chunk: 512 bytes of each person's row */
    TILE_PEOPLE = 1024,  /* people of one item of transposition, or of reading from a sample-major .bed */
    READ_BYTES = 1 << 19 /* about what one item reads from a variant-major .bed */
};

/* Columns [first, first + n) of the result. */
typedef struct {
    uint64_t first, n;
    size_t n_want;       /* columns that have a SNP */
    uint64_t *snp;       /* n_want: SNPs to read, in the order of the file */
    uint64_t *col;       /* n_want: their columns */
    uint8_t **buf;       /* n_want: where their rows go, in the order of reading */
    const uint8_t **src; /* n: row of each column, NULL for none */
    uint8_t *bytes;      /* n_want x row */
} chunk;

typedef struct {
    const dn_blocks *b;
    uint64_t n_people, row_bytes, chunk_cols;
    bool two_buffers;
    bool people_tiles; /* read by tiles of people: some set is sample-major */
    chunk ch[2];
    uint64_t block;     /* capacity in people, a multiple of 4 */
    uint8_t *rows;      /* block x row_bytes */
    uint8_t *spare;     /* the same, when rows are handed on while the next block is made */
    uint8_t *mask;      /* of this block's people, for counting; NULL when all are wanted */
    uint64_t person, n; /* this block */
    size_t n_read_items, n_turn_items, n_cols_item;
    const chunk *reading, *turning;
    const uint8_t **tile_src; /* per worker: chunk_cols pointers */
    pthread_mutex_t lock;
    size_t failed_item;
    dn_status status;
    dn_err err;
} work;

/* A finished block on its way to the caller. */
typedef struct {
    const work *w;
    const uint8_t *rows;
    uint64_t person, n;
    bool running;
    pthread_t thread;
    dn_status status;
    dn_err err;
} handing;

/* ---- counting ---- */

void dn_bed_count(const uint8_t *row, const uint8_t *mask, uint64_t n, uint64_t *a1, uint64_t *called)
{
    const uint64_t low = 0x5555555555555555u;
    uint64_t het = 0, hom2 = 0, missing = 0, bytes = dn_geno_bytes(n);
    for (uint64_t at = 0; at < bytes; at += 8) {
        uint64_t w = low, m = 0, k = bytes - at < 8 ? bytes - at : 8; /* what is not filled is missing (01) */
        memcpy(&w, row + at, k);
        if (mask) {
            memcpy(&m, mask + at, k);
            w = (w & m) | (low & ~m);
        }
        uint64_t lo = w & low, hi = w >> 1 & low;
        missing += (uint64_t)__builtin_popcountll(lo & ~hi);
        het += (uint64_t)__builtin_popcountll(hi & ~lo);
        hom2 += (uint64_t)__builtin_popcountll(hi & lo);
    }
    uint64_t all = (bytes + 7) / 8 * 32;
    if (!mask && n % 4) { /* calls after the last person are missing only if the reader made them so */
        for (uint64_t i = n; i < bytes * 4; i++) {
            unsigned c = dn_geno_get(row, i);
            missing += (c != 1), het -= c == 2, hom2 -= c == 3;
        }
    }
    *called += all - missing;
    *a1 += 2 * (all - missing - het - hom2) + het;
}

/* ---- items of the pool ---- */

static void note_failure(work *w, size_t item, dn_status status, const dn_err *err)
{
    pthread_mutex_lock(&w->lock);
    if (w->status == DN_OK || item < w->failed_item) {
        w->status = status;
        w->failed_item = item;
        w->err = *err;
    }
    pthread_mutex_unlock(&w->lock);
}

static void add_counts(work *w, const chunk *c, size_t from, size_t to, uint64_t skip, uint64_t n)
{
    if (!w->b->a1) return;
    for (size_t k = from; k < to; k++) {
        uint64_t a1 = 0, called = 0;
        dn_bed_count(c->buf[k] + skip / 4, w->mask ? w->mask + skip / 4 : NULL, n, &a1, &called);
        /* Sums of whole numbers: any order gives the same. */
        __atomic_fetch_add(&w->b->a1[c->col[k]], a1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&w->b->called[c->col[k]], called, __ATOMIC_RELAXED);
    }
}

static void read_item(work *w, size_t item)
{
    const chunk *c = w->reading;
    dn_err err = {0};
    dn_status status;
    if (w->people_tiles) {
        uint64_t skip = item * TILE_PEOPLE, n = w->n - skip < TILE_PEOPLE ? w->n - skip : TILE_PEOPLE;
        uint8_t **bufs = NULL;
        status = dn_alloc(&bufs, c->n_want, sizeof *bufs, "rows of a chunk", &err);
        for (size_t k = 0; status == DN_OK && k < c->n_want; k++) bufs[k] = c->buf[k] + skip / 4;
        if (status == DN_OK) {
            status = dn_plink_read_block(w->b->cohort, c->snp, c->n_want, w->person + skip, n, bufs, &err);
        }
        free(bufs);
        if (status == DN_OK) add_counts(w, c, 0, c->n_want, skip, n);
    } else {
        size_t from = item * w->n_cols_item, to = from + w->n_cols_item;
        if (to > c->n_want) to = c->n_want;
        status =
            dn_plink_read_block(w->b->cohort, c->snp + from, to - from, w->person, w->n, c->buf + from, &err);
        if (status == DN_OK) add_counts(w, c, from, to, 0, w->n);
    }
    if (status != DN_OK) note_failure(w, item, status, &err);
}

static void turn_item(work *w, size_t item, size_t worker)
{
    const chunk *c = w->turning;
    uint64_t skip = item * TILE_PEOPLE, n = w->n - skip < TILE_PEOPLE ? w->n - skip : TILE_PEOPLE;
    const uint8_t **src = w->tile_src + worker * w->chunk_cols;
    for (uint64_t j = 0; j < c->n; j++) src[j] = c->src[j] ? c->src[j] + skip / 4 : NULL;
    dn_geno_transpose(src, w->b->map + c->first, c->n, n, w->rows + skip * w->row_bytes, w->row_bytes,
                      c->first);
}

/* Both kinds are spread evenly over the run, so that some threads compute while others wait for the disk. */
static void run_item(void *ctx, size_t item, size_t worker)
{
    work *w = ctx;
    size_t turns = w->n_turn_items, all = w->n_read_items + turns;
    size_t before = item * turns / all, after = (item + 1) * turns / all;
    if (after > before)
        turn_item(w, before, worker);
    else if (__atomic_load_n(&w->status, __ATOMIC_RELAXED) == DN_OK)
        read_item(w, item - before);
}

/* ---- one chunk ---- */

static int by_snp(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : (x[1] > y[1]) - (x[1] < y[1]);
}

/* What chunk c reads: columns from `first` on, rows of `bytes` bytes each. */
static dn_status plan_chunk(work *w, chunk *c, uint64_t first, uint64_t bytes, dn_err *err)
{
    const dn_blocks *b = w->b;
    uint64_t(*order)[2] = NULL;
    c->first = first;
    c->n = b->n_cols - first < w->chunk_cols ? b->n_cols - first : w->chunk_cols;
    c->n_want = 0;
    dn_status status = dn_alloc(&order, c->n, sizeof *order, "order of a chunk", err);
    if (status != DN_OK) return status;
    for (uint64_t j = 0; j < c->n; j++) {
        c->src[j] = NULL;
        if (b->snp[first + j] == DN_NO_SNP) continue;
        order[c->n_want][0] = b->snp[first + j];
        order[c->n_want++][1] = j;
    }
    qsort(order, c->n_want, sizeof *order, by_snp);
    for (size_t k = 0; k < c->n_want; k++) {
        c->snp[k] = order[k][0];
        c->col[k] = first + order[k][1];
        c->buf[k] = c->bytes + k * bytes;
        c->src[order[k][1]] = c->buf[k];
    }
    free(order);
    return DN_OK;
}

static dn_status one_block(work *w, dn_err *err)
{
    const dn_blocks *b = w->b;
    uint64_t bytes = dn_geno_bytes(w->n), n_chunks = (b->n_cols + w->chunk_cols - 1) / w->chunk_cols;
    size_t tiles = (size_t)((w->n + TILE_PEOPLE - 1) / TILE_PEOPLE);
    /* Rows start on 64 bytes, so that the transposition's loads do not straddle cache lines. */
    bytes = (bytes + 63) / 64 * 64;
    w->n_cols_item = bytes < READ_BYTES ? (size_t)(READ_BYTES / bytes) : 1;
    for (uint64_t k = 0; k <= n_chunks; k++) {
        w->n_read_items = 0;
        if (k < n_chunks) {
            chunk *c = &w->ch[k % 2];
            dn_status status = plan_chunk(w, c, k * w->chunk_cols, bytes, err);
            if (status != DN_OK) return status;
            w->reading = c;
            w->n_read_items =
                w->people_tiles ? (c->n_want ? tiles : 0) : (c->n_want + w->n_cols_item - 1) / w->n_cols_item;
        }
        w->turning = k > 0 ? &w->ch[(k - 1) % 2] : NULL;
        w->n_turn_items = w->turning && w->rows ? tiles : 0;
        dn_pool_run(b->pool, w->n_read_items + w->n_turn_items, run_item, w);
        if (w->status != DN_OK) {
            *err = w->err;
            return w->status;
        }
        if (b->progress) b->progress(b->ctx, w->person + w->n * k / (n_chunks + 1));
    }
    return DN_OK;
}

/* ---- the whole ---- */

static bool wanted(const dn_blocks *b, uint64_t person)
{
    return !b->keep || b->keep[person];
}

/* Columns whose SNP lies before the SNP of the column before: a few are normal, many mean another order. */
static bool other_order(const dn_blocks *b)
{
    uint64_t last = 0, back = 0, n = 0;
    for (uint64_t j = 0; j < b->n_cols; j++) {
        if (b->snp[j] == DN_NO_SNP) continue;
        back += b->snp[j] < last;
        last = b->snp[j];
        n++;
    }
    return back > n / 16 + 32;
}

/* Bytes of all buffers for blocks of n people, chunks of `cols` columns. */
static uint64_t need_for(const work *w, uint64_t n, uint64_t cols, size_t n_chunks)
{
    uint64_t row = (dn_geno_bytes(n) + 63) / 64 * 64;
    uint64_t per_col = row + sizeof(uint64_t) * 4 + 16; /* buffer, snp, col, buf, src; order while planning */
    return (w->b->rows ? n * w->row_bytes : 0) + n_chunks * cols * per_col + row +
           dn_pool_threads(w->b->pool) * cols * sizeof(void *) +
           (w->people_tiles ? (uint64_t)4 << 20 : 0) * dn_pool_threads(w->b->pool);
}

/* Chooses chunk and block sizes from the memory allowed. */
static dn_status plan(work *w, uint64_t span, size_t *n_chunks, dn_err *err)
{
    const dn_blocks *b = w->b;
    bool all = other_order(b) || b->n_cols <= CHUNK_COLS;
    w->chunk_cols = all ? b->n_cols : CHUNK_COLS;
    if (!b->rows && w->chunk_cols > CHUNK_COLS) w->chunk_cols = CHUNK_COLS;
    *n_chunks = w->chunk_cols < b->n_cols ? 2 : 1;
    uint64_t n = (span + 3) / 4 * 4, need;
    if (!b->rows) { /* whole rows, fewer at a time, are what a disk likes when nothing is transposed */
        while (w->chunk_cols > 64 && need_for(w, n, w->chunk_cols, *n_chunks) > b->memory)
            w->chunk_cols = w->chunk_cols / 8 * 4;
        *n_chunks = w->chunk_cols < b->n_cols ? 2 : 1;
    }
    while (need = need_for(w, n, w->chunk_cols, *n_chunks), need > b->memory && n > 4) {
        uint64_t less = (uint64_t)((double)n * (double)b->memory / (double)need), unit = less >= 64 ? 64 : 4;
        n = less / unit ? less / unit * unit : 4;
    }
    if (need > b->memory) {
        return dn_fail(err, DN_ENOMEM,
                       "--memory is too small by %llu MiB: what is left of it does not hold blocks of "
                       "%llu people x %llu SNPs",
                       (ull)((need - b->memory + ((1 << 20) - 1)) >> 20), (ull)n, (ull)b->n_cols);
    }
    uint64_t n_blocks = (span + n - 1) / n;
    /* When all would fit at once, two blocks in two buffers let the one be written while the other is made.
     * When not, one large block at a time: the longer the pieces of the .bed's rows, the fewer the reads, and
     * those are what a large cohort's time goes into. */
    if (n_blocks == 1 && b->rows && span >= 1024) {
        n_blocks = OVERLAP;
        w->two_buffers = true;
    }
    if (n_blocks > 1) { /* blocks of about the same size, whole cache lines of a .bed row */
        uint64_t even = ((span + n_blocks - 1) / n_blocks + 255) / 256 * 256;
        if (even < n) n = even;
    }
    w->block = n;
    return DN_OK;
}

/* A block's rows. The stride's padding is missing; transposition leaves it alone. */
static dn_status get_rows(const work *w, uint8_t **rows, dn_err *err)
{
    uint64_t used = dn_geno_bytes(w->b->n_cols);
    dn_status status =
        dn_alloc_aligned(rows, w->block, (size_t)w->row_bytes, "rows of a block of people", err);
    if (status != DN_OK) return status;
    for (uint64_t i = 0; i < w->block; i++)
        memset(*rows + i * w->row_bytes + used, 0xFF, w->row_bytes - used);
    return DN_OK;
}

static dn_status get_buffers(work *w, size_t n_chunks, dn_err *err)
{
    dn_status status;
    uint64_t row = (dn_geno_bytes(w->block) + 63) / 64 * 64, cols = w->chunk_cols;
    for (size_t k = 0; k < n_chunks; k++) {
        chunk *c = &w->ch[k];
        DN_TRY(dn_alloc_aligned(&c->bytes, cols, (size_t)row, "rows of a chunk", err));
        DN_TRY(dn_alloc(&c->snp, cols, sizeof *c->snp, "SNPs of a chunk", err));
        DN_TRY(dn_alloc(&c->col, cols, sizeof *c->col, "columns of a chunk", err));
        DN_TRY(dn_alloc(&c->buf, cols, sizeof *c->buf, "rows of a chunk", err));
        DN_TRY(dn_alloc(&c->src, cols, sizeof *c->src, "rows of a chunk", err));
    }
    DN_TRY(dn_alloc(&w->tile_src, cols * dn_pool_threads(w->b->pool), sizeof *w->tile_src, "rows of a tile",
                    err));
    if (w->b->keep) DN_TRY(dn_alloc(&w->mask, row, 1, "people of a block", err));
    if (w->b->rows) {
        DN_TRY(get_rows(w, &w->rows, err));
        if (w->two_buffers) DN_TRY(get_rows(w, &w->spare, err));
    }
    status = DN_OK;
done:
    return status;
}

/* The next block: from the first wanted person at or after `from`, at most as many as fit, ending with the
 * last wanted one and at any long gap. It begins at a whole byte, but never before the end of the last block:
 * that was at a multiple of 4, or nobody follows for a while. false at the end. */
static bool next_block(work *w, uint64_t from)
{
    enum { GAP = 4096 };
    while (from < w->n_people && !wanted(w->b, from)) from++;
    if (from >= w->n_people) return false;
    w->person = from / 4 * 4;
    uint64_t most = w->n_people - w->person < w->block ? w->n_people - w->person : w->block, last = from;
    for (uint64_t p = from; p < w->person + most && p - last < GAP; p++) {
        if (wanted(w->b, p)) last = p;
    }
    w->n = last + 1 - w->person;
    if (w->mask) {
        memset(w->mask, 0, dn_geno_bytes(w->n));
        for (uint64_t i = 0; i < w->n; i++) {
            if (w->b->keep[w->person + i]) w->mask[i / 4] |= (uint8_t)(3u << i % 4 * 2);
        }
    }
    return true;
}

/* Hands on the rows of wanted people, a run of neighbours at a time. */
static void *hand_on(void *arg)
{
    handing *h = arg;
    const work *w = h->w;
    h->status = DN_OK;
    for (uint64_t i = 0; i < h->n && h->status == DN_OK;) {
        uint64_t from = i;
        while (i < h->n && wanted(w->b, h->person + i)) i++;
        if (i > from) h->status = w->b->rows(w->b->ctx, h->rows + from * w->row_bytes, i - from, &h->err);
        while (i < h->n && !wanted(w->b, h->person + i)) i++;
    }
    return NULL;
}

/* Waits until the block before has been handed on. */
static dn_status wait_for(handing *h, dn_err *err)
{
    if (h->running) pthread_join(h->thread, NULL);
    h->running = false;
    if (h->status != DN_OK) *err = h->err;
    return h->status;
}

/* Hands on this block: with two row buffers by a thread of its own, while the next block is made. */
static dn_status start_handing(work *w, handing *h, dn_err *err)
{
    dn_status status = wait_for(h, err);
    if (status != DN_OK || !w->b->rows) return status;
    *h = (handing){.w = w, .rows = w->rows, .person = w->person, .n = w->n};
    if (w->spare) {
        h->running = pthread_create(&h->thread, NULL, hand_on, h) == 0;
        uint8_t *t = w->rows;
        w->rows = w->spare;
        w->spare = t;
    }
    if (h->running) return DN_OK;
    hand_on(h);
    return wait_for(h, err);
}

dn_status dn_blocks_run(const dn_blocks *b, dn_err *err)
{
    dn_status status;
    size_t n_chunks = 0;
    work w = {.b = b, .n_people = b->cohort->people.iid.n, .row_bytes = dn_gpk_row_bytes(b->n_cols)};
    handing h = {.status = DN_OK};
    uint64_t first = 0, last = w.n_people;
    pthread_mutex_init(&w.lock, NULL);
    while (first < last && !wanted(b, first)) first++;
    while (last > first && !wanted(b, last - 1)) last--;
    status = DN_OK;
    if (first == last || b->n_cols == 0) goto done;
    for (size_t k = 0; k < b->cohort->n_sets; k++) w.people_tiles |= !b->cohort->sets[k].snp_major;
    DN_TRY(plan(&w, last - first / 4 * 4, &n_chunks, err));
    DN_TRY(get_buffers(&w, n_chunks, err));
    for (uint64_t at = first; next_block(&w, at); at = w.person + w.n) {
        DN_TRY(one_block(&w, err));
        DN_TRY(start_handing(&w, &h, err));
        if (b->progress) b->progress(b->ctx, w.person + w.n);
    }
    DN_TRY(wait_for(&h, err));
done:
    if (h.running) pthread_join(h.thread, NULL);
    for (size_t k = 0; k < n_chunks; k++) {
        free(w.ch[k].bytes);
        free(w.ch[k].snp);
        free(w.ch[k].col);
        free(w.ch[k].buf);
        free(w.ch[k].src);
    }
    free(w.tile_src);
    free(w.mask);
    free(w.rows);
    free(w.spare);
    pthread_mutex_destroy(&w.lock);
    return status;
}
