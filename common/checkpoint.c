/* checkpoint.c: named arrays that survive (see checkpoint.h and docs/format-checkpoint.md). */
#include "checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are written as they lie in memory, little-endian");

static const char magic[8] = {'\x89', 'D', 'N', 'C', 'K', 'P', 'T', '\n'};

/* Byte for byte the first 64 of the file. */
typedef struct {
    char magic[8];
    uint32_t major, minor;
    uint64_t file_bytes, n_items;
    uint64_t body_hash; /* XXH3-64 of all bytes after the header */
    uint64_t reserved[2];
    uint64_t header_hash; /* XXH3-64 of the 56 bytes before */
} header;
_Static_assert(sizeof(header) == 64, "header layout");

/* The table after it. */
typedef struct {
    char name[DN_CKPT_NAME];
    char type[8];
    uint64_t offset, n;
} entry;
_Static_assert(sizeof(entry) == 88, "table layout");

#define MAX_ITEMS 65536

struct dn_ckpt {
    char *path;
    unsigned char *bytes;
    uint64_t size, n_items;
    const entry *table;
};

static const struct {
    const char *name;
    size_t size;
} types[] = {[DN_CKPT_TEXT] = {"text", 1},
             [DN_CKPT_U32] = {"u32", 4},
             [DN_CKPT_U64] = {"u64", 8},
             [DN_CKPT_F32] = {"f32", 4},
             [DN_CKPT_F64] = {"f64", 8}};
enum { N_TYPES = sizeof types / sizeof types[0] };

/* Every array starts on 8 bytes and is followed by at least one zero byte, so that text is a C string in
 * place. */
static uint64_t padded(uint64_t bytes)
{
    return (bytes + 8) / 8 * 8;
}

/* ---- writing ---- */

/* Moves the present file to .prev without an instant at which neither name is whole: the second name comes
 * first. */
static dn_status rotate(const char *path, dn_err *err)
{
    dn_status status = DN_OK;
    char *prev = NULL;
    if (asprintf(&prev, "%s.prev", path) < 0) return dn_fail(err, DN_ENOMEM, "out of memory");
    if (access(path, F_OK) == 0) {
        unlink(prev);
        /* Where a file cannot have two names (some network and FUSE file systems) it is renamed: then .prev
         * is the whole one until the new one is in place. */
        if (link(path, prev) != 0 && rename(path, prev) != 0) {
            status = dn_fail(err, DN_EWRITE, "cannot rename %s to %s: %s", path, prev, strerror(errno));
        }
    }
    free(prev);
    return status;
}

static dn_status build(unsigned char **out, uint64_t *size, const dn_ckpt_item *items, size_t n, dn_err *err)
{
    uint64_t total = sizeof(header) + n * sizeof(entry);
    if (n > MAX_ITEMS) return dn_fail(err, DN_EINTERNAL, "%zu arrays in a checkpoint", n);
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes;
        if (!dn_mul(items[i].n, types[items[i].type].size, &bytes) || !dn_add(total, bytes, &total) ||
            !dn_add(total, 8, &total)) {
            return dn_fail(err, DN_EINTERNAL, "a checkpoint of more than 2^64 bytes");
        }
        total = total / 8 * 8;
    }
    unsigned char *buf;
    dn_status status = dn_alloc(&buf, total, 1, "checkpoint", err);
    if (status != DN_OK) return status;
    entry *table = (entry *)(buf + sizeof(header));
    uint64_t at = sizeof(header) + n * sizeof(entry);
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes = items[i].n * types[items[i].type].size;
        snprintf(table[i].name, sizeof table[i].name, "%s", items[i].name);
        snprintf(table[i].type, sizeof table[i].type, "%s", types[items[i].type].name);
        table[i].offset = at;
        table[i].n = items[i].n;
        if (bytes) memcpy(buf + at, items[i].data, bytes);
        at += padded(bytes);
    }
    header *h = (header *)buf;
    memcpy(h->magic, magic, sizeof magic);
    h->major = DN_CKPT_MAJOR;
    h->minor = DN_CKPT_MINOR;
    h->file_bytes = at;
    h->n_items = n;
    h->body_hash = dn_hash(buf + sizeof(header), at - sizeof(header));
    h->header_hash = dn_hash(buf, offsetof(header, header_hash));
    *out = buf;
    *size = at;
    return DN_OK;
}

dn_status dn_ckpt_write(const char *path, const dn_ckpt_item *items, size_t n, bool keep_previous,
                        dn_err *err)
{
    dn_status status;
    dn_out *o = NULL;
    unsigned char *buf = NULL;
    uint64_t size = 0;
    DN_TRY(build(&buf, &size, items, n, err));
    DN_TRY(dn_out_open(&o, path, DN_OUT_FORCE | DN_OUT_BINARY, err));
    DN_TRY(dn_out_write(o, buf, size, err));
    /* On the disk before anything is renamed: a full disk must not cost the checkpoint that is there. */
    DN_TRY(dn_out_sync(o, err));
    if (keep_previous) DN_TRY(rotate(path, err));
    DN_TRY(dn_out_commit(&o, err));
    status = DN_OK;
done:
    dn_out_abort(&o);
    free(buf);
    return status;
}

/* ---- reading ---- */

static dn_status damaged(const dn_ckpt *c, const char *what, dn_err *err)
{
    return dn_fail(err, DN_EFORMAT, "checkpoint %s is damaged: %s", c->path, what);
}

static int type_of(const entry *e)
{
    for (int i = 0; i < N_TYPES; i++) {
        if (memchr(e->type, 0, sizeof e->type) && strcmp(e->type, types[i].name) == 0) return i;
    }
    return -1;
}

static dn_status check_table(const dn_ckpt *c, dn_err *err)
{
    uint64_t body = sizeof(header) + c->n_items * sizeof(entry);
    for (uint64_t i = 0; i < c->n_items; i++) {
        const entry *e = &c->table[i];
        uint64_t bytes, end;
        int t = type_of(e);
        if (!memchr(e->name, 0, sizeof e->name)) return damaged(c, "a name without end", err);
        if (t < 0) continue; /* of a later minor version: skipped */
        if (!dn_mul(e->n, types[t].size, &bytes) || !dn_add(e->offset, bytes, &end) || end >= c->size ||
            e->offset < body || e->offset % 8 || c->bytes[end] != 0) {
            return damaged(c, "an array outside the file", err);
        }
    }
    return DN_OK;
}

static dn_status check(dn_ckpt *c, dn_err *err)
{
    if (c->size < sizeof(header)) {
        return dn_fail(err, DN_EFORMAT, "checkpoint %s is damaged: %llu bytes, its header alone has %zu",
                       c->path, (unsigned long long)c->size, sizeof(header));
    }
    const header *h = (const header *)c->bytes;
    if (memcmp(h->magic, magic, sizeof magic) != 0) {
        return dn_fail(err, DN_EFORMAT, "%s is no checkpoint: it is %s", c->path,
                       dn_kind_name(dn_kind_of_bytes(c->bytes, c->size)));
    }
    if (h->major != DN_CKPT_MAJOR) {
        return dn_fail(err, DN_EUNSUPPORTED,
                       "checkpoint %s has format version %u.%u, this program reads %d.x: use the program "
                       "that wrote it, or "
                       "start anew with --force",
                       c->path, h->major, h->minor, DN_CKPT_MAJOR);
    }
    if (h->header_hash != dn_hash(h, offsetof(header, header_hash)))
        return damaged(c, "the checksum of its header does not fit", err);
    if (h->file_bytes != c->size) {
        return dn_fail(err, DN_EFORMAT, "checkpoint %s is damaged: %llu bytes, expected %llu", c->path,
                       (unsigned long long)c->size, (unsigned long long)h->file_bytes);
    }
    if (h->n_items > MAX_ITEMS || sizeof(header) + h->n_items * sizeof(entry) > c->size)
        return damaged(c, "its table is too long", err);
    if (h->body_hash != dn_hash(c->bytes + sizeof(header), c->size - sizeof(header))) {
        return damaged(c, "its checksum does not fit", err);
    }
    c->n_items = h->n_items;
    c->table = (const entry *)(c->bytes + sizeof(header));
    return check_table(c, err);
}

dn_status dn_ckpt_read(dn_ckpt **out, const char *path, dn_err *err)
{
    dn_status status;
    dn_ckpt *c = NULL;
    dn_mapped m = {0};
    *out = NULL;
    DN_TRY(dn_alloc(&c, 1, sizeof *c, "checkpoint", err));
    c->path = strdup(path);
    if (!c->path) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    DN_TRY(dn_mapped_open(&m, path, err));
    /* A copy: the file is replaced while the run goes on. */
    DN_TRY(dn_alloc_aligned(&c->bytes, m.size, 1, "checkpoint", err));
    if (m.size) memcpy(c->bytes, m.base, m.size);
    c->size = m.size;
    DN_TRY(check(c, err));
    *out = c;
    c = NULL;
    status = DN_OK;
done:
    dn_mapped_close(&m);
    dn_ckpt_free(c);
    return status;
}

void dn_ckpt_free(dn_ckpt *c)
{
    if (!c) return;
    free(c->bytes);
    free(c->path);
    free(c);
}

dn_status dn_ckpt_read_newest(dn_ckpt **out, const char *path, char **warning, bool *current_good,
                              dn_err *err)
{
    dn_status status;
    char *prev = NULL;
    dn_err second = {0};
    *out = NULL;
    *warning = NULL;
    *current_good = false;
    if (asprintf(&prev, "%s.prev", path) < 0) return dn_fail(err, DN_ENOMEM, "out of memory");
    bool have = access(path, F_OK) == 0, have_prev = access(prev, F_OK) == 0;
    status = DN_OK;
    if (have) {
        status = dn_ckpt_read(out, path, err);
        *current_good = status == DN_OK;
        if (status != DN_EFORMAT && status != DN_EOPEN) goto done;
    }
    if (!have_prev) goto done;
    dn_status st2 = dn_ckpt_read(out, prev, &second);
    if (st2 == DN_OK) {
        if (have && asprintf(warning, "%s: the previous one, %s, is used", err->msg, prev) < 0)
            *warning = NULL;
        if (err) err->status = DN_OK, err->msg[0] = 0;
        status = DN_OK;
    } else if (have) {
        status = dn_fail(err, status,
                         "%s; and the previous one cannot be used either: %s. Start anew with --force",
                         strdupa(err->msg), second.msg);
    } else {
        status = dn_fail(err, st2, "%s. Start anew with --force", second.msg);
    }
done:
    if (status != DN_OK && have && !have_prev && status == DN_EFORMAT) {
        status =
            dn_fail(err, status, "%s. There is no previous one: start anew with --force", strdupa(err->msg));
    }
    free(prev);
    return status;
}

size_t dn_ckpt_count(const dn_ckpt *c)
{
    return c->n_items;
}

const char *dn_ckpt_name(const dn_ckpt *c, size_t i)
{
    return c->table[i].name;
}

dn_status dn_ckpt_get(const dn_ckpt *c, const char *name, dn_ckpt_type type, uint64_t want, const void **data,
                      uint64_t *n, dn_err *err)
{
    for (uint64_t i = 0; i < c->n_items; i++) {
        const entry *e = &c->table[i];
        if (strcmp(e->name, name) != 0) continue;
        if (type_of(e) != (int)type) {
            return dn_fail(err, DN_EFORMAT, "checkpoint %s: %s is %.8s, expected %s", c->path, name, e->type,
                           types[type].name);
        }
        if (want != UINT64_MAX && e->n != want) {
            return dn_fail(err, DN_EFORMAT, "checkpoint %s: %s has %llu items, expected %llu", c->path, name,
                           (unsigned long long)e->n, (unsigned long long)want);
        }
        *data = c->bytes + e->offset;
        if (n) *n = e->n;
        return DN_OK;
    }
    return dn_fail(err, DN_EFORMAT, "checkpoint %s has no %s", c->path, name);
}
