/* npz_write.c: writing .npz (see npz.h): a zip archive with stored members, made by hand so that it goes
 * through dn_out and has no times in it. Sizes are known before, so only the checksum is filled in
 * afterwards; zip64 records where needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "npz.h"

#define BUF     (1u << 20)
#define LIMIT32 0xffffffffu
#define DATE    0x0021 /* 1 January 1980, the earliest that zip knows */

struct member {
    char *name;
    uint64_t offset, size;
    uint32_t crc;
};

struct dn_npz_writer {
    dn_out *out;
    struct member *member;
    size_t n, cap;
    uint64_t at, left; /* bytes handed to buf so far; bytes that the open array still wants */
    uint32_t crc;
    uint8_t *buf;
    size_t used;
    uint32_t table[8][256]; /* CRC-32, eight bytes at a time */
};

static void crc_init(uint32_t table[8][256])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
        table[0][i] = c;
    }
    for (int t = 1; t < 8; t++) {
        for (uint32_t i = 0; i < 256; i++)
            table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 255];
    }
}

static uint32_t crc_add(uint32_t table[8][256], uint32_t c, const uint8_t *p, size_t n)
{
    c = ~c;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t lo =
            c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        c = table[7][lo & 255] ^ table[6][lo >> 8 & 255] ^ table[5][lo >> 16 & 255] ^ table[4][lo >> 24] ^
            table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n; n--) c = table[0][(c ^ *p++) & 255] ^ c >> 8;
    return ~c;
}

/* ---- bytes out ---- */

static dn_status flush(dn_npz_writer *w, dn_err *err)
{
    size_t n = w->used;
    w->used = 0;
    return n ? dn_out_pwrite(w->out, w->buf, n, w->at - n, err) : DN_OK;
}

static dn_status emit(dn_npz_writer *w, const void *p, size_t n, dn_err *err)
{
    const uint8_t *from = p;
    while (n) {
        size_t k = BUF - w->used < n ? BUF - w->used : n;
        memcpy(w->buf + w->used, from, k);
        w->used += k;
        w->at += k;
        from += k;
        n -= k;
        if (w->used == BUF) {
            dn_status status = flush(w, err);
            if (status != DN_OK) return status;
        }
    }
    return DN_OK;
}

struct record {
    uint8_t b[256];
    size_t n;
};
static void put(struct record *r, int bytes, uint64_t x)
{
    for (int i = 0; i < bytes; i++) r->b[r->n++] = (uint8_t)(x >> (8 * i));
}

/* What local and central headers share, from "version needed" to the length of the name. */
static void put_common(struct record *r, const struct member *m, bool zip64)
{
    put(r, 2, zip64 ? 45 : 20);
    put(r, 2, 0); /* flags */
    put(r, 2, 0); /* stored */
    put(r, 2, 0); /* time */
    put(r, 2, DATE);
    put(r, 4, m->crc);
    put(r, 4, m->size >= LIMIT32 ? LIMIT32 : m->size);
    put(r, 4, m->size >= LIMIT32 ? LIMIT32 : m->size);
    put(r, 2, strlen(m->name));
}

/* ---- arrays ---- */

dn_status dn_npz_create(dn_npz_writer **out, const char *path, unsigned out_flags, dn_err *err)
{
    dn_status status;
    dn_npz_writer *w = NULL;
    *out = NULL;
    if (strcmp(path, "-") == 0)
        DN_TRY(dn_fail(err, DN_EUSAGE, "a .npz cannot be written to a pipe: give a file name"));
    DN_TRY(dn_alloc(&w, 1, sizeof *w, "npz", err));
    DN_TRY(dn_alloc(&w->buf, BUF, 1, "npz", err));
    crc_init(w->table);
    DN_TRY(dn_out_open(&w->out, path, out_flags | DN_OUT_BINARY, err));
    *out = w;
    w = NULL;
    status = DN_OK;
done:
    dn_npz_abort(&w);
    return status;
}

/* The .npy header: magic, version 1.0, a dict padded so that numbers start on a multiple of 64. */
static size_t npy_header(uint8_t *h, size_t cap, const char *descr, int ndim, const uint64_t *dim)
{
    char dict[512];
    int n = snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int k = 0; k < ndim; k++) {
        n += snprintf(dict + n, sizeof dict - (size_t)n, "%llu%s", (unsigned long long)dim[k],
                      k + 1 < ndim ? ", "
                      : ndim == 1  ? ","
                                   : "");
    }
    n += snprintf(dict + n, sizeof dict - (size_t)n, "), }");
    size_t total = (10 + (size_t)n + 1 + 63) / 64 * 64;
    if (total > cap) return 0;
    memcpy(h, "\x93NUMPY\x01\x00", 8);
    h[8] = (uint8_t)(total - 10);
    h[9] = (uint8_t)((total - 10) >> 8);
    memset(h + 10, ' ', total - 10);
    memcpy(h + 10, dict, (size_t)n);
    h[total - 1] = '\n';
    return total;
}

static dn_status finish_member(dn_npz_writer *w, dn_err *err)
{
    if (w->n == 0) return DN_OK;
    struct member *m = &w->member[w->n - 1];
    if (w->left)
        return dn_fail(err, DN_EINTERNAL, "%s: array %s lacks %llu bytes", dn_out_path(w->out), m->name,
                       (unsigned long long)w->left);
    m->crc = w->crc;
    dn_status status = flush(w, err);
    if (status != DN_OK) return status;
    uint8_t crc[4] = {(uint8_t)w->crc, (uint8_t)(w->crc >> 8), (uint8_t)(w->crc >> 16),
                      (uint8_t)(w->crc >> 24)};
    return dn_out_pwrite(w->out, crc, 4, m->offset + 14, err);
}

dn_status dn_npz_start(dn_npz_writer *w, const char *name, const char *descr, int ndim, const uint64_t *dim,
                       uint64_t n_bytes, dn_err *err)
{
    dn_status status;
    uint8_t header[640];
    struct record r = {.n = 0};
    DN_TRY(finish_member(w, err));
    DN_TRY(dn_grow(&w->member, &w->cap, w->n + 1, sizeof *w->member, "npz", err));
    size_t n_header = npy_header(header, sizeof header, descr, ndim, dim);
    if (n_header == 0) DN_TRY(dn_fail(err, DN_EINTERNAL, "npz: header too long"));
    struct member m = {.offset = w->at};
    if (!dn_add(n_bytes, n_header, &m.size)) DN_TRY(dn_fail(err, DN_EINTERNAL, "npz: array too large"));
    if (asprintf(&m.name, "%s.npy", name) < 0) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    w->member[w->n++] = m;
    bool zip64 = m.size >= LIMIT32;
    put(&r, 4, 0x04034b50);
    put_common(&r, &m, zip64);
    put(&r, 2, zip64 ? 20 : 0);
    DN_TRY(emit(w, r.b, r.n, err));
    DN_TRY(emit(w, m.name, strlen(m.name), err));
    if (zip64) {
        r.n = 0;
        put(&r, 2, 1);
        put(&r, 2, 16);
        put(&r, 8, m.size);
        put(&r, 8, m.size);
        DN_TRY(emit(w, r.b, r.n, err));
    }
    w->crc = crc_add(w->table, 0, header, n_header);
    w->left = n_bytes;
    status = emit(w, header, n_header, err);
done:
    return status;
}

dn_status dn_npz_write(dn_npz_writer *w, const void *p, size_t n, dn_err *err)
{
    if (n > w->left) return dn_fail(err, DN_EINTERNAL, "%s: more bytes than announced", dn_out_path(w->out));
    w->left -= n;
    w->crc = crc_add(w->table, w->crc, p, n);
    return emit(w, p, n, err);
}

/* ---- the directory ---- */

static dn_status directory_entry(dn_npz_writer *w, const struct member *m, dn_err *err)
{
    struct record r = {.n = 0}, x = {.n = 0};
    if (m->size >= LIMIT32) {
        put(&x, 8, m->size);
        put(&x, 8, m->size);
    }
    if (m->offset >= LIMIT32) put(&x, 8, m->offset);
    bool zip64 = x.n > 0;
    put(&r, 4, 0x02014b50);
    put(&r, 2, 45 | 3 << 8); /* made by: Unix */
    put_common(&r, m, zip64);
    put(&r, 2, zip64 ? x.n + 4 : 0);
    put(&r, 2, 0); /* comment */
    put(&r, 2, 0); /* disk */
    put(&r, 2, 0); /* internal attributes */
    put(&r, 4, (uint64_t)0100644 << 16);
    put(&r, 4, m->offset >= LIMIT32 ? LIMIT32 : m->offset);
    dn_status status = emit(w, r.b, r.n, err);
    if (status == DN_OK) status = emit(w, m->name, strlen(m->name), err);
    if (status != DN_OK || !zip64) return status;
    r.n = 0;
    put(&r, 2, 1);
    put(&r, 2, x.n);
    status = emit(w, r.b, r.n, err);
    return status == DN_OK ? emit(w, x.b, x.n, err) : status;
}

dn_status dn_npz_commit(dn_npz_writer **wp, dn_err *err)
{
    dn_status status;
    dn_npz_writer *w = *wp;
    struct record r = {.n = 0};
    DN_TRY(finish_member(w, err));
    const uint64_t start = w->at;
    for (size_t i = 0; i < w->n; i++) DN_TRY(directory_entry(w, &w->member[i], err));
    const uint64_t end = w->at;
    if (start >= LIMIT32) {
        put(&r, 4, 0x06064b50); /* zip64 end of directory */
        put(&r, 8, 44);
        put(&r, 2, 45);
        put(&r, 2, 45);
        put(&r, 4, 0);
        put(&r, 4, 0);
        put(&r, 8, w->n);
        put(&r, 8, w->n);
        put(&r, 8, end - start);
        put(&r, 8, start);
        put(&r, 4, 0x07064b50); /* and where it is */
        put(&r, 4, 0);
        put(&r, 8, end);
        put(&r, 4, 1);
    }
    put(&r, 4, 0x06054b50);
    put(&r, 4, 0);
    put(&r, 2, w->n);
    put(&r, 2, w->n);
    put(&r, 4, end - start);
    put(&r, 4, start >= LIMIT32 ? LIMIT32 : start);
    put(&r, 2, 0);
    DN_TRY(emit(w, r.b, r.n, err));
    DN_TRY(flush(w, err));
    status = dn_out_commit(&w->out, err);
done:
    dn_npz_abort(wp);
    return status;
}

void dn_npz_abort(dn_npz_writer **wp)
{
    dn_npz_writer *w = wp ? *wp : NULL;
    if (!w) return;
    dn_out_abort(&w->out);
    for (size_t i = 0; i < w->n; i++) free(w->member[i].name);
    free(w->member);
    free(w->buf);
    free(w);
    *wp = NULL;
}
