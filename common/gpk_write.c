/* gpk_write.c: writing .gpk, to a file or a pipe, front to back (see gpk.h, docs/format-gpk.md). */
#include "gpk.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "geno.h"
#include "gpk_impl.h"

/* One block being compressed. */
typedef struct {
    uint8_t *out;
    size_t size; /* result, or a zstd error code */
    ZSTD_CCtx *cctx;
} block;

struct dn_gpk_writer {
    dn_out *out;
    uint64_t n_people, n_snps, row_bytes;
    uint64_t pos; /* bytes written so far */
    uint64_t n_rows, n_missing;
    uint64_t head_hash;
    uint64_t *row_hash; /* n_people */
    dn_row_hash *all_rows;
    /* Compressed rows only: rows wait in `wait` until n_slots blocks are full. */
    uint32_t level, block_rows;
    uint64_t *block_offset;
    uint64_t n_blocks;
    dn_pool *pool;
    size_t n_slots, bound;
    block *slots;
    uint8_t *wait;
    uint64_t n_wait; /* rows in it */
};

static dn_status put(dn_gpk_writer *w, const void *p, size_t n, dn_err *err)
{
    w->pos += n;
    return dn_out_write(w->out, p, n, err);
}

static dn_status put_zeros(dn_gpk_writer *w, uint64_t to, dn_err *err)
{
    static const uint8_t zeros[GPK_PAGE];
    return put(w, zeros, (size_t)(gpk_round_up(w->pos, to) - w->pos), err);
}

/* ---- sections ---- */

typedef struct {
    const char *tag;
    const void *data;
    uint64_t length;
} section;

static size_t list_sections(const dn_gpk_info *info, const double *target, const uint64_t model[2],
                            section s[12])
{
    size_t n = 0;
    const dn_snps *p = &info->snps;
    s[n++] = (section){"FID ", info->people.fid.buf, info->people.fid.used};
    s[n++] = (section){"IID ", info->people.iid.buf, info->people.iid.used};
    s[n++] = (section){"SNP ", p->id.buf, p->id.used};
    if (p->chrom.n) s[n++] = (section){"CHR ", p->chrom.buf, p->chrom.used};
    if (p->pos) s[n++] = (section){"POS ", p->pos, info->n_snps * 8};
    if (p->a1.n) s[n++] = (section){"A1  ", p->a1.buf, p->a1.used};
    if (p->a2.n) s[n++] = (section){"A2  ", p->a2.buf, p->a2.used};
    if (info->label) {
        s[n++] = (section){"CLAS", info->class_names.buf, info->class_names.used};
        s[n++] = (section){"LABL", info->label, info->n_people * 8};
    }
    if (target) s[n++] = (section){"TARG", target, info->n_people * 8};
    if (info->model_snps) {
        s[n++] = (section){"MODL", model, 16};
        s[n++] = (section){"PLAC", info->place, info->n_snps * 8};
    }
    return n;
}

static dn_status write_head(dn_gpk_writer *w, const dn_gpk_info *info, dn_err *err)
{
    dn_status status;
    section s[12];
    double *target = NULL;
    const uint64_t model[2] = {info->model_snps, info->model_hash};
    if (info->target) {
        DN_TRY(dn_alloc(&target, info->n_people, sizeof *target, "regression labels", err));
        for (uint64_t i = 0; i < info->n_people; i++) target[i] = gpk_plain_nan(info->target[i]);
    }
    size_t n = list_sections(info, target, model, s);
    uint64_t size = sizeof(gpk_header);
    for (size_t i = 0; i < n; i++) size += sizeof(gpk_section) + gpk_round_up(s[i].length, 8);
    gpk_header h = {.major = GPK_MAJOR,
                    .minor = GPK_MINOR,
                    .flags = w->level ? GPK_F_COMPRESSED : 0,
                    .n_people = info->n_people,
                    .n_snps = info->n_snps,
                    .row_bytes = w->row_bytes,
                    .rows_offset = gpk_round_up(size, GPK_PAGE),
                    .n_sections = (uint32_t)n,
                    .block_rows = w->block_rows,
                    .zstd_level = w->level};
    memcpy(h.magic, GPK_MAGIC, 8);
    h.hash = dn_hash(&h, offsetof(gpk_header, hash));
    w->head_hash = h.hash;
    DN_TRY(put(w, &h, sizeof h, err));
    for (size_t i = 0; i < n; i++) {
        gpk_section sec = {.flags = 0, .length = s[i].length};
        memcpy(sec.tag, s[i].tag, 4);
        sec.hash = gpk_section_hash(&sec, s[i].data);
        w->head_hash = gpk_chain(w->head_hash, sec.hash);
        DN_TRY(put(w, &sec, sizeof sec, err));
        DN_TRY(put(w, s[i].data, s[i].length, err));
        DN_TRY(put_zeros(w, 8, err));
    }
    DN_TRY(put_zeros(w, GPK_PAGE, err));
    status = DN_OK;
done:
    free(target);
    return status;
}

static dn_status start_blocks(dn_gpk_writer *w, const dn_gpk_info *info, dn_err *err)
{
    dn_status status;
    if (w->level > (uint32_t)ZSTD_maxCLevel()) {
        DN_TRY(dn_fail(err, DN_EUSAGE, "zstd level %u: the highest is %d", w->level, ZSTD_maxCLevel()));
    }
    w->block_rows = info->block_rows ? info->block_rows : dn_gpk_block_rows(w->n_snps);
    if (w->block_rows > w->n_people) w->block_rows = (uint32_t)w->n_people;
    if (w->block_rows > 1 && w->block_rows * w->row_bytes > GPK_MAX_BLOCK) {
        DN_TRY(dn_fail(err, DN_EUSAGE,
                       "blocks of %u rows x %llu bytes are larger than 64 MiB: use fewer rows", w->block_rows,
                       (unsigned long long)w->row_bytes));
    }
    w->bound = ZSTD_compressBound((size_t)(w->block_rows * w->row_bytes));
    DN_TRY(dn_alloc(&w->block_offset, gpk_n_blocks(w->n_people, w->block_rows) + 1, sizeof *w->block_offset,
                    "block index", err));
    status = DN_OK;
done:
    return status;
}

dn_status dn_gpk_write_start(dn_gpk_writer **wp, dn_out *out, const dn_gpk_info *info, dn_err *err)
{
    dn_status status;
    dn_gpk_writer *w = NULL;
    *wp = NULL;
    DN_TRY(dn_gpk_info_check(info, dn_out_path(out), err));
    DN_TRY(dn_alloc(&w, 1, sizeof *w, ".gpk writer", err));
    w->out = out;
    w->n_people = info->n_people;
    w->n_snps = info->n_snps;
    w->row_bytes = dn_gpk_row_bytes(info->n_snps);
    w->level = info->zstd_level;
    DN_TRY(dn_row_hash_new(&w->all_rows, err));
    DN_TRY(dn_alloc(&w->row_hash, w->n_people, sizeof *w->row_hash, "row hashes", err));
    if (w->level) DN_TRY(start_blocks(w, info, err));
    DN_TRY(write_head(w, info, err));
    *wp = w;
    w = NULL;
    status = DN_OK;
done:
    dn_gpk_writer_free(w);
    return status;
}

void dn_gpk_writer_use_pool(dn_gpk_writer *w, dn_pool *pool)
{
    if (!w->slots) w->pool = pool;
}

/* ---- compressed blocks ---- */

static dn_status need_slots(dn_gpk_writer *w, dn_err *err)
{
    dn_status status;
    if (w->slots) return DN_OK;
    /* Two blocks per thread even out unequal ones; large blocks are not doubled. */
    size_t threads = w->pool ? dn_pool_threads(w->pool) : 1;
    w->n_slots = threads == 1 || w->bound > ((size_t)8 << 20) ? threads : 2 * threads;
    DN_TRY(dn_alloc(&w->slots, w->n_slots, sizeof *w->slots, "compressor", err));
    DN_TRY(dn_alloc_aligned(&w->wait, w->n_slots * w->block_rows, (size_t)w->row_bytes, "rows to compress",
                            err));
    for (size_t i = 0; i < w->n_slots; i++) {
        DN_TRY(dn_alloc_aligned(&w->slots[i].out, w->bound, 1, "compressed block", err));
        w->slots[i].cctx = ZSTD_createCCtx();
        if (!w->slots[i].cctx) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory: zstd compressor"));
    }
    status = DN_OK;
done:
    return status;
}

static void compress_one(void *ctx, size_t item, size_t worker)
{
    (void)worker;
    dn_gpk_writer *w = ctx;
    block *b = &w->slots[item];
    uint64_t first = item * w->block_rows, n = w->n_wait - first;
    if (n > w->block_rows) n = w->block_rows;
    b->size = ZSTD_compressCCtx(b->cctx, b->out, w->bound, w->wait + first * w->row_bytes,
                                (size_t)(n * w->row_bytes), (int)w->level);
}

static dn_status flush_blocks(dn_gpk_writer *w, dn_err *err)
{
    dn_status status;
    size_t n = (size_t)gpk_n_blocks(w->n_wait, w->block_rows);
    if (w->pool) {
        dn_pool_run(w->pool, n, compress_one, w);
    } else {
        for (size_t i = 0; i < n; i++) compress_one(w, i, 0);
    }
    for (size_t i = 0; i < n; i++) {
        const block *b = &w->slots[i];
        if (ZSTD_isError(b->size)) DN_TRY(dn_fail(err, DN_EINTERNAL, "zstd: %s", ZSTD_getErrorName(b->size)));
        uint64_t size = b->size;
        w->block_offset[w->n_blocks++] = w->pos;
        DN_TRY(put(w, &size, sizeof size, err));
        DN_TRY(put(w, b->out, b->size, err));
        DN_TRY(put_zeros(w, 8, err));
    }
    w->n_wait = 0;
    status = DN_OK;
done:
    return status;
}

static dn_status put_compressed(dn_gpk_writer *w, const uint8_t *rows, uint64_t n, dn_err *err)
{
    dn_status status;
    DN_TRY(need_slots(w, err));
    while (n) {
        uint64_t k = w->n_slots * w->block_rows - w->n_wait;
        if (k > n) k = n;
        memcpy(w->wait + w->n_wait * w->row_bytes, rows, (size_t)(k * w->row_bytes));
        w->n_wait += k;
        rows += k * w->row_bytes;
        n -= k;
        if (w->n_wait == w->n_slots * w->block_rows) DN_TRY(flush_blocks(w, err));
    }
    status = DN_OK;
done:
    return status;
}

/* ---- rows and the end ---- */

dn_status dn_gpk_write_rows(dn_gpk_writer *w, const uint8_t *rows, uint64_t n_rows, dn_err *err)
{
    if (n_rows > w->n_people - w->n_rows) {
        return dn_fail(err, DN_EINTERNAL, "%s: more rows than its %llu people", dn_out_path(w->out),
                       (unsigned long long)w->n_people);
    }
    for (uint64_t i = 0; i < n_rows; i++) {
        const uint8_t *row = rows + i * w->row_bytes;
        if (!gpk_padding_ok(row, w->n_snps, w->row_bytes)) {
            return dn_fail(err, DN_EINTERNAL, "%s: padding of row %llu is not 3", dn_out_path(w->out),
                           (unsigned long long)(w->n_rows + i) + 1);
        }
        w->row_hash[w->n_rows + i] = gpk_row_hash(row, w->row_bytes);
        dn_row_hash_add(w->all_rows, row, (size_t)w->row_bytes);
        w->n_missing += dn_geno_count_missing(row, w->n_snps);
    }
    w->n_rows += n_rows;
    return w->level ? put_compressed(w, rows, n_rows, err)
                    : put(w, rows, (size_t)(n_rows * w->row_bytes), err);
}

dn_status dn_gpk_write_end(dn_gpk_writer **wp, dn_err *err)
{
    dn_status status;
    dn_gpk_writer *w = *wp;
    uint8_t *t = NULL;
    if (w->n_rows != w->n_people) {
        DN_TRY(dn_fail(err, DN_EINTERNAL, "%s: %llu rows for %llu people", dn_out_path(w->out),
                       (unsigned long long)w->n_rows, (unsigned long long)w->n_people));
    }
    if (w->n_wait) DN_TRY(flush_blocks(w, err));
    uint64_t n_index = w->level ? w->n_blocks + 1 : 0;
    size_t hashes = (size_t)w->n_people * 8, index = (size_t)n_index * 8;
    if (n_index) w->block_offset[w->n_blocks] = w->pos;
    gpk_trailer head = {.n_rows = w->n_rows,
                        .n_index = n_index,
                        .head_hash = w->head_hash,
                        .rows_hash = dn_row_hash_get(w->all_rows),
                        .n_missing = w->n_missing};
    memcpy(head.magic, GPK_TRAILER_MAGIC, 8);
    size_t body = sizeof head + hashes + index;
    gpk_footer foot = {.trailer_offset = w->pos, .file_size = w->pos + body + sizeof foot};
    memcpy(foot.magic, GPK_END_MAGIC, 8);
    DN_TRY(dn_alloc(&t, body + sizeof foot, 1, "trailer", err));
    memcpy(t, &head, sizeof head);
    memcpy(t + sizeof head, w->row_hash, hashes);
    if (index) memcpy(t + sizeof head + hashes, w->block_offset, index);
    memcpy(t + body, &foot, sizeof foot);
    foot.hash = dn_hash(t, body + offsetof(gpk_footer, hash));
    memcpy(t + body, &foot, sizeof foot);
    status = put(w, t, body + sizeof foot, err);
done:
    free(t);
    dn_gpk_writer_free(w);
    *wp = NULL;
    return status;
}

void dn_gpk_writer_free(dn_gpk_writer *w)
{
    if (!w) return;
    for (size_t i = 0; w->slots && i < w->n_slots; i++) {
        free(w->slots[i].out);
        ZSTD_freeCCtx(w->slots[i].cctx);
    }
    free(w->slots);
    free(w->wait);
    free(w->block_offset);
    dn_row_hash_free(w->all_rows);
    free(w->row_hash);
    free(w);
}
