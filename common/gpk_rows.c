/* gpk_rows.c: the rows of an open .gpk, in place, from compressed blocks, or from a stream; and the
 * whole-file check (see gpk.h). */
#include "gpk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "geno.h"
#include "gpk_impl.h"

#define ULL(x) ((unsigned long long)(x))

static dn_status bad_row(const dn_gpk *g, uint64_t row, const char *why, dn_err *err)
{
    return dn_fail(err, DN_EFORMAT, "%s: row %llu is damaged: %s: copy or make the file again", g->path,
                   ULL(row + 1), why);
}

bool dn_gpk_row_ok(const dn_gpk *g, uint64_t i, const uint8_t *row)
{
    const uint64_t *want = g->stream ? g->seen_hash : g->row_hash;
    return gpk_padding_ok(row, g->info.n_snps, g->head.row_bytes) &&
           gpk_row_hash(row, g->head.row_bytes) == want[i];
}

/* Which of rows [first, first + n) is damaged first: UINT64_MAX for none. */
static uint64_t first_bad(const dn_gpk *g, uint64_t first, uint64_t n, const uint8_t *rows)
{
    for (uint64_t i = 0; i < n; i++) {
        if (!dn_gpk_row_ok(g, first + i, rows + i * g->head.row_bytes)) return first + i;
    }
    return UINT64_MAX;
}

dn_status dn_gpk_check_rows(const dn_gpk *g, uint64_t first, uint64_t n, const uint8_t *rows, dn_err *err)
{
    uint64_t bad = first_bad(g, first, n, rows);
    if (bad == UINT64_MAX) return DN_OK;
    return dn_fail(
        err, DN_EFORMAT,
        "%s: the genotypes of person %llu (%s) are damaged: their checksum differs; copy or make the "
        "file again",
        g->path, ULL(bad + 1), dn_strs_get(&g->info.people.iid, bad));
}

/* ---- compressed blocks ---- */

void gpk_decoders_free(gpk_decoder *d)
{
    while (d) {
        gpk_decoder *next = d->next;
        ZSTD_freeDCtx(d->dctx);
        free(d->rows);
        free(d);
        d = next;
    }
}

/* Takes an idle decoder, one that holds `block` if there is one, or makes one. Give it back with
 * put_decoder(). */
static dn_status get_decoder(dn_gpk *g, uint64_t block, gpk_decoder **out, dn_err *err)
{
    dn_status status;
    gpk_decoder *d = NULL;
    *out = NULL;
    pthread_mutex_lock(&g->lock);
    gpk_decoder **p = &g->idle;
    for (gpk_decoder **q = p; *q; q = &(*q)->next) {
        if ((*q)->block == block) p = q;
    }
    if (*p) {
        *out = *p;
        *p = (*p)->next;
    }
    pthread_mutex_unlock(&g->lock);
    if (*out) return DN_OK;
    DN_TRY(dn_alloc(&d, 1, sizeof *d, "decompressor", err));
    d->block = UINT64_MAX;
    d->dctx = ZSTD_createDCtx();
    if (!d->dctx) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory: zstd decompressor"));
    DN_TRY(
        dn_alloc_aligned(&d->rows, g->head.block_rows, (size_t)g->head.row_bytes, "decompressed block", err));
    *out = d;
    d = NULL;
    status = DN_OK;
done:
    gpk_decoders_free(d);
    return status;
}

static void put_decoder(dn_gpk *g, gpk_decoder *d)
{
    pthread_mutex_lock(&g->lock);
    d->next = g->idle;
    g->idle = d;
    pthread_mutex_unlock(&g->lock);
}

/* p: a block as it lies in the file, `size` bytes with its length in front and padding behind. */
static dn_status decode(dn_gpk *g, ZSTD_DCtx *dctx, uint64_t block, const uint8_t *p, uint64_t size,
                        uint8_t *rows, dn_err *err)
{
    uint64_t packed, raw = gpk_rows_in_block(g, block) * g->head.row_bytes;
    memcpy(&packed, p, 8);
    bool ok = packed <= size - 8 && 8 + gpk_round_up(packed, 8) == size;
    for (uint64_t i = 8 + packed; ok && i < size; i++) ok = p[i] == 0;
    if (!ok)
        return dn_fail(err, DN_EFORMAT, "%s: block %llu is damaged: wrong length or padding", g->path,
                       ULL(block + 1));
    size_t got = ZSTD_decompressDCtx(dctx, rows, (size_t)raw, p + 8, (size_t)packed);
    if (ZSTD_isError(got) || got != raw) {
        return dn_fail(err, DN_EFORMAT, "%s: block %llu (rows %llu to %llu) is damaged: %s", g->path,
                       ULL(block + 1), ULL(block * g->head.block_rows + 1),
                       ULL(block * g->head.block_rows + gpk_rows_in_block(g, block)),
                       ZSTD_isError(got) ? ZSTD_getErrorName(got) : "it holds fewer rows");
    }
    return DN_OK;
}

/* Decodes block b of a file into rows and checks it. */
static dn_status read_block(dn_gpk *g, ZSTD_DCtx *dctx, uint64_t b, uint8_t *rows, dn_err *err)
{
    uint64_t at = g->block_offset[b];
    dn_status status = decode(g, dctx, b, g->map.base + at, g->block_offset[b + 1] - at, rows, err);
    if (status != DN_OK) return status;
    uint64_t bad = first_bad(g, b * g->head.block_rows, gpk_rows_in_block(g, b), rows);
    return bad == UINT64_MAX ? DN_OK : bad_row(g, bad, "its checksum or padding is wrong", err);
}

static dn_status file_blocks(dn_gpk *g, uint64_t first, uint64_t n, uint8_t *buf, dn_err *err)
{
    dn_status status = DN_OK;
    while (n) {
        gpk_decoder *d;
        uint64_t b = first / g->head.block_rows, at = first % g->head.block_rows,
                 k = gpk_rows_in_block(g, b) - at;
        if (k > n) k = n;
        status = get_decoder(g, b, &d, err);
        if (status != DN_OK) return status;
        if (at == 0 && k == gpk_rows_in_block(g, b)) {
            status = read_block(g, d->dctx, b, buf, err);
        } else {
            if (d->block != b) {
                d->block = UINT64_MAX;
                status = read_block(g, d->dctx, b, d->rows, err);
                if (status == DN_OK) d->block = b;
            }
            if (status == DN_OK)
                memcpy(buf, d->rows + at * g->head.row_bytes, (size_t)(k * g->head.row_bytes));
        }
        put_decoder(g, d);
        if (status != DN_OK) return status;
        buf += k * g->head.row_bytes;
        first += k;
        n -= k;
    }
    return status;
}

/* ---- streams ---- */

static dn_status stream_end(dn_gpk *g, dn_err *err)
{
    dn_status status;
    uint8_t *t = NULL, extra;
    uint64_t size = gpk_trailer_size(g), offset = g->pos;
    DN_TRY(dn_alloc_aligned(&t, size, 1, "trailer", err));
    DN_TRY(gpk_stream_take(g, t, size, "the trailer", err));
    DN_TRY(gpk_check_trailer(g, t, size, offset, g->seen_hash, err));
    if (g->rows_hash != dn_row_hash_get(g->seen_all) || g->n_missing != g->seen_missing) {
        g->fingerprint = 0;
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s: the trailer's checksum of all rows or its count of missing calls is wrong",
                       g->path));
    }
    if (g->n_blocks) {
        g->seen_offset[g->n_blocks] = offset;
        if (memcmp(t + sizeof(gpk_trailer) + g->info.n_people * 8, g->seen_offset, (g->n_blocks + 1) * 8) !=
            0) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s: the index of blocks disagrees with the blocks", g->path));
        }
    }
    ssize_t k;
    do k = read(g->fd, &extra, 1);
    while (k < 0 && errno == EINTR);
    if (k != 0) {
        g->fingerprint = 0;
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: more data follow the end of the .gpk data at byte %llu", g->path,
                       ULL(g->pos)));
    }
    g->at_end = true;
    status = DN_OK;
done:
    free(t);
    return status;
}

/* Reads the next block into the stream's decoder. */
static dn_status stream_block(dn_gpk *g, uint64_t b, dn_err *err)
{
    dn_status status;
    uint64_t size, raw = gpk_rows_in_block(g, b) * g->head.row_bytes;
    if (!g->idle) {
        gpk_decoder *d;
        DN_TRY(get_decoder(g, b, &d, err));
        put_decoder(g, d);
    }
    g->seen_offset[b] = g->pos;
    DN_TRY(gpk_stream_take(g, &size, 8, "the rows", err));
    if (size == 0 || size > ZSTD_compressBound((size_t)raw)) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: block %llu claims %llu bytes: the data are damaged", g->path,
                       ULL(b + 1), ULL(size)));
    }
    uint64_t whole = 8 + gpk_round_up(size, 8);
    if (whole > g->packed_cap) {
        free(g->packed);
        g->packed = NULL;
        g->packed_cap = 0;
        DN_TRY(dn_alloc_aligned(&g->packed, whole, 1, "compressed block", err));
        g->packed_cap = whole;
    }
    memcpy(g->packed, &size, 8);
    DN_TRY(gpk_stream_take(g, g->packed + 8, whole - 8, "the rows", err));
    DN_TRY(decode(g, g->idle->dctx, b, g->packed, whole, g->idle->rows, err));
    g->idle->block = b;
    status = DN_OK;
done:
    return status;
}

static dn_status stream_rows(dn_gpk *g, uint64_t first, uint64_t n, uint8_t *buf, dn_err *err)
{
    dn_status status;
    uint64_t stride = g->head.row_bytes;
    if (first != g->next_row) {
        DN_TRY(dn_fail(err, DN_EINTERNAL, "%s: row %llu asked for after row %llu of a stream", g->path,
                       ULL(first + 1), ULL(g->next_row)));
    }
    if (!g->n_blocks) {
        DN_TRY(gpk_stream_take(g, buf, n * stride, "the rows", err));
    } else {
        for (uint64_t i = 0; i < n;) {
            uint64_t b = (first + i) / g->head.block_rows, at = (first + i) % g->head.block_rows,
                     k = gpk_rows_in_block(g, b) - at;
            if (at == 0) DN_TRY(stream_block(g, b, err));
            if (k > n - i) k = n - i;
            memcpy(buf + i * stride, g->idle->rows + at * stride, (size_t)(k * stride));
            i += k;
        }
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!gpk_padding_ok(buf + i * stride, g->info.n_snps, stride))
            DN_TRY(bad_row(g, first + i, "its padding is wrong", err));
        g->seen_hash[first + i] = gpk_row_hash(buf + i * stride, stride);
        g->seen_missing += dn_geno_count_missing(buf + i * stride, g->info.n_snps);
    }
    dn_row_hash_add(g->seen_all, buf, (size_t)(n * stride));
    g->next_row += n;
    status = g->next_row == g->info.n_people && !g->at_end ? stream_end(g, err) : DN_OK;
done:
    return status;
}

/* ---- for both ---- */

dn_status dn_gpk_rows(dn_gpk *g, uint64_t first, uint64_t n, uint8_t *buf, const uint8_t **rows, dn_err *err)
{
    *rows = buf;
    if (first > g->info.n_people || n > g->info.n_people - first) {
        return dn_fail(err, DN_EINTERNAL, "%s: rows %llu to %llu asked for; it has %llu", g->path,
                       ULL(first + 1), ULL(first + n), ULL(g->info.n_people));
    }
    if (!g->stream && !g->n_blocks) {
        *rows = g->map.base + g->head.rows_offset + first * g->head.row_bytes;
        return DN_OK;
    }
    if (!buf) return dn_fail(err, DN_EINTERNAL, "%s: its rows need a buffer", g->path);
    return g->stream ? stream_rows(g, first, n, buf, err) : file_blocks(g, first, n, buf, err);
}

static void release_bytes(const dn_gpk *g, uint64_t from, uint64_t to)
{
    /* Whole pages inside the range only. Unneeded pages are a matter of memory, not of correctness: no error.
     */
    from = gpk_round_up(from, GPK_PAGE);
    to = to / GPK_PAGE * GPK_PAGE;
    if (to > from) (void)madvise((void *)(g->map.base + from), (size_t)(to - from), MADV_DONTNEED);
}

void dn_gpk_release(dn_gpk *g, uint64_t first, uint64_t n)
{
    if (g->stream || n == 0 || first >= g->info.n_people || n > g->info.n_people - first) return;
    if (g->n_blocks) {
        release_bytes(g, g->block_offset[first / g->head.block_rows],
                      g->block_offset[(first + n - 1) / g->head.block_rows + 1]);
    } else {
        release_bytes(g, g->head.rows_offset + first * g->head.row_bytes,
                      g->head.rows_offset + (first + n) * g->head.row_bytes);
    }
}

/* ---- the whole file ---- */

/* Units of rows are checked (and decompressed) a batch at a time on all threads; then the batch goes through
 * the checksum over all rows, which has an order. */
struct verify {
    dn_gpk *g;
    uint64_t unit_rows, first_unit; /* of the batch */
    uint8_t *buf;                   /* compressed: decompressed units, side by side */
    dn_status *status;
    dn_err *err;       /* per unit of the batch, */
    uint64_t *missing; /* and so this */
};

static uint64_t unit_size(const struct verify *v, uint64_t first)
{
    uint64_t left = v->g->info.n_people - first;
    return left < v->unit_rows ? left : v->unit_rows;
}

static const uint8_t *raw_row(const dn_gpk *g, uint64_t row)
{
    return g->map.base + g->head.rows_offset + row * g->head.row_bytes;
}

static void verify_unit(void *ctx, size_t item, size_t worker)
{
    (void)worker;
    struct verify *v = ctx;
    dn_gpk *g = v->g;
    uint64_t unit = v->first_unit + item, first = unit * v->unit_rows, n = unit_size(v, first);
    const uint8_t *rows = raw_row(g, first);
    if (g->n_blocks) {
        gpk_decoder *d;
        v->status[item] = get_decoder(g, UINT64_MAX, &d, &v->err[item]);
        if (v->status[item] != DN_OK) return;
        uint8_t *to = v->buf + item * v->unit_rows * g->head.row_bytes;
        v->status[item] = read_block(g, d->dctx, unit, to, &v->err[item]);
        put_decoder(g, d);
        rows = to;
    } else {
        uint64_t bad = first_bad(g, first, n, rows);
        v->status[item] =
            bad == UINT64_MAX ? DN_OK : bad_row(g, bad, "its checksum or padding is wrong", &v->err[item]);
    }
    v->missing[item] = 0;
    for (uint64_t i = 0; i < n && v->status[item] == DN_OK; i++) {
        v->missing[item] += dn_geno_count_missing(rows + i * g->head.row_bytes, g->info.n_snps);
    }
}

dn_status dn_gpk_verify(dn_gpk *g, size_t threads, dn_err *err)
{
    dn_status status;
    dn_pool *pool = NULL;
    dn_row_hash *all = NULL;
    struct verify v = {.g = g};
    uint64_t stride = g->head.row_bytes, n_missing = 0;
    if (g->stream) return dn_fail(err, DN_EINTERNAL, "%s: a stream is checked as it is read", g->path);
    v.unit_rows = g->n_blocks ? g->head.block_rows : (((uint64_t)1 << 20) + stride - 1) / stride;
    size_t batch = 2 * threads;
    DN_TRY(dn_pool_new(&pool, threads, err));
    DN_TRY(dn_row_hash_new(&all, err));
    DN_TRY(dn_alloc(&v.status, batch, sizeof *v.status, "check", err));
    DN_TRY(dn_alloc(&v.err, batch, sizeof *v.err, "check", err));
    DN_TRY(dn_alloc(&v.missing, batch, sizeof *v.missing, "check", err));
    if (g->n_blocks)
        DN_TRY(dn_alloc_aligned(&v.buf, batch * v.unit_rows, (size_t)stride, "decompressed blocks", err));
    uint64_t n_units = gpk_n_blocks(g->info.n_people, v.unit_rows);
    for (; v.first_unit < n_units; v.first_unit += batch) {
        size_t n = n_units - v.first_unit < batch ? (size_t)(n_units - v.first_unit) : batch;
        dn_pool_run(pool, n, verify_unit, &v);
        for (size_t i = 0; i < n; i++) {
            if (v.status[i] != DN_OK) {
                *err = v.err[i];
                DN_TRY(v.status[i]);
            }
            n_missing += v.missing[i];
            uint64_t first = (v.first_unit + i) * v.unit_rows;
            dn_row_hash_add(all, g->n_blocks ? v.buf + i * v.unit_rows * stride : raw_row(g, first),
                            (size_t)(unit_size(&v, first) * stride));
            dn_gpk_release(g, first, unit_size(&v, first));
        }
    }
    if (dn_row_hash_get(all) != g->rows_hash) {
        DN_TRY(
            dn_fail(err, DN_EFORMAT,
                    "%s: the checksum of all rows is wrong, though each row's is right: make the file again",
                    g->path));
    }
    if (n_missing != g->n_missing) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: the trailer counts %llu missing calls; there are %llu", g->path,
                       ULL(g->n_missing), ULL(n_missing)));
    }
    status = DN_OK;
done:
    dn_pool_free(pool);
    dn_row_hash_free(all);
    free(v.missing);
    free(v.status);
    free(v.err);
    free(v.buf);
    return status;
}
