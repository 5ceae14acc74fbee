/* gpack_source.c: rows from any of gpack's inputs (see gpack_source.h). */
#include "gpack_source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "h5.h"

/* A matched.h5 has the layout of a dataset, but its columns are a model's SNPs and it knows a scale. */
static dn_status refuse_matched(const char *path, dn_err *err)
{
    dn_h5 *f;
    dn_status status = dn_h5_open(&f, path, err);
    if (status != DN_OK) return status;
    if (dn_h5_has(f, "scale")) {
        status = dn_fail(
            err, DN_EUNSUPPORTED,
            "%s is matched to a model, not a dataset: give it to dnpredict, or let snpmatch write .gpk",
            path);
    }
    dn_h5_close(f);
    return status;
}

static dn_status open_file(gpack_source *s, const char *path, dn_err *err)
{
    dn_kind kind;
    dn_status status = dn_kind_of_file(path, &kind, err);
    if (status != DN_OK) return status;
    switch (kind) {
    case DN_KIND_HDF5:
        status = refuse_matched(path, err);
        return status == DN_OK ? dn_dataset_open(&s->h5, path, err) : status;
    case DN_KIND_BED:
        return dn_fail(err, DN_EFORMAT, "%s is a PLINK .bed file: give its fileset with --bfile", path);
    case DN_KIND_TEXT:
        return dn_fail(err, DN_EFORMAT,
                       "%s is text: gpack reads .h5 and .gpk files, and PLINK filesets with --bfile", path);
    default: return dn_gpk_open(&s->gpk, path, err);
    }
}

dn_status gpack_source_open(gpack_source *s, const char *path, dn_err *err)
{
    struct stat sb;
    memset(s, 0, sizeof *s);
    bool pipe =
        strcmp(path, "-") == 0 || (stat(path, &sb) == 0 && !S_ISREG(sb.st_mode) && !S_ISDIR(sb.st_mode));
    dn_status status = pipe ? dn_gpk_open(&s->gpk, path, err) : open_file(s, path, err);
    if (status != DN_OK) return status;
    s->name = strcmp(path, "-") == 0 ? "standard input" : path;
    if (!pipe && stat(path, &sb) == 0) s->file_bytes = (uint64_t)sb.st_size;
    s->info = s->gpk ? dn_gpk_get_info(s->gpk) : dn_dataset_info(s->h5);
    return DN_OK;
}

void gpack_source_panel(gpack_source *s, dn_panel *panel)
{
    memset(s, 0, sizeof *s);
    s->panel = panel;
    s->info = &panel->info;
    s->name = panel->plink->sets[0].bed;
}

/* A batch of units: each is read, packed or decompressed, and checked by one thread; then the batch is handed
 * on in order. */
typedef struct {
    gpack_source *s;
    uint64_t unit, first, n; /* rows of a unit; first row of the batch, rows in it */
    uint64_t stride;
    uint8_t *buf;
    const uint8_t **rows; /* per unit: where its rows are */
    dn_status *status;
    dn_err *err;
} batch;

static void read_unit(void *ctx, size_t item, size_t worker)
{
    (void)worker;
    batch *b = ctx;
    gpack_source *s = b->s;
    uint64_t at = item * b->unit, first = b->first + at, n = b->n - at < b->unit ? b->n - at : b->unit;
    uint8_t *buf = b->buf ? b->buf + at * b->stride : NULL;
    if (s->h5) {
        b->status[item] = dn_dataset_rows(s->h5, first, n, buf, &b->rows[item], &b->err[item]);
        dn_dataset_release(s->h5, first, n);
        return;
    }
    b->status[item] = dn_gpk_rows(s->gpk, first, n, buf, &b->rows[item], &b->err[item]);
    /* Rows used in place have not been checked yet. */
    if (b->status[item] == DN_OK && !b->buf)
        b->status[item] = dn_gpk_check_rows(s->gpk, first, n, b->rows[item], &b->err[item]);
}

static dn_status one_batch(batch *b, dn_pool *pool,
                           dn_status (*rows)(void *, const uint8_t *, uint64_t, dn_err *), void *ctx,
                           dn_err *err)
{
    size_t units = (size_t)((b->n + b->unit - 1) / b->unit);
    dn_pool_run(pool, units, read_unit, b);
    for (size_t u = 0; u < units; u++) {
        uint64_t at = u * b->unit, n = b->n - at < b->unit ? b->n - at : b->unit;
        if (b->status[u] != DN_OK) {
            *err = b->err[u];
            return b->status[u];
        }
        dn_status status = rows(ctx, b->rows[u], n, err);
        if (status != DN_OK) return status;
        if (b->s->gpk) dn_gpk_release(b->s->gpk, b->first + at, n);
    }
    return DN_OK;
}

dn_status gpack_source_rows(gpack_source *s, uint64_t memory, dn_pool *pool,
                            dn_status (*rows)(void *ctx, const uint8_t *rows, uint64_t n, dn_err *err),
                            void *ctx, void (*progress)(void *ctx, uint64_t people), dn_err *err)
{
    enum { UNIT_BYTES = 1 << 20, PER_THREAD = 4 };
    dn_status status;
    uint64_t n_people = s->info->n_people;
    batch b = {.s = s, .stride = dn_gpk_row_bytes(s->info->n_snps)};
    if (s->panel) return dn_panel_rows(s->panel, memory, pool, rows, ctx, progress, err);
    /* A stream is read by one thread, in order: then a batch is one unit. */
    size_t units = s->gpk && dn_gpk_is_stream(s->gpk) ? 1 : PER_THREAD * dn_pool_threads(pool);
    b.unit = UNIT_BYTES / b.stride ? UNIT_BYTES / b.stride : 1;
    if (s->gpk && s->info->zstd_level)
        b.unit = (b.unit + s->info->block_rows - 1) / s->info->block_rows * s->info->block_rows;
    while (units > 1 && units * b.unit * b.stride > memory) units--;
    while (b.unit > 1 && b.unit * b.stride > memory) b.unit /= 2;
    if (b.unit * b.stride > memory) {
        DN_TRY(dn_fail(err, DN_ENOMEM, "--memory is too small: one row takes %llu bytes",
                       (unsigned long long)b.stride));
    }
    bool in_place = s->gpk && !dn_gpk_is_stream(s->gpk) && !s->info->zstd_level;
    if (!in_place) DN_TRY(dn_alloc_aligned(&b.buf, units * b.unit, (size_t)b.stride, "rows", err));
    DN_TRY(dn_alloc(&b.rows, units, sizeof *b.rows, "rows", err));
    DN_TRY(dn_alloc(&b.status, units, sizeof *b.status, "rows", err));
    DN_TRY(dn_alloc(&b.err, units, sizeof *b.err, "rows", err));
    for (; b.first < n_people; b.first += b.n) {
        b.n = n_people - b.first < units * b.unit ? n_people - b.first : units * b.unit;
        DN_TRY(one_batch(&b, pool, rows, ctx, err));
        if (progress) progress(ctx, b.first + b.n);
    }
    status = DN_OK;
done:
    free(b.buf);
    free(b.rows);
    free(b.status);
    free(b.err);
    return status;
}

void gpack_source_close(gpack_source *s)
{
    dn_gpk_close(s->gpk);
    dn_dataset_close(s->h5);
    memset(s, 0, sizeof *s);
}
