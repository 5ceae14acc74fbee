/* zip_read.c: bounded reading of zip archives (see zip_read.h). */
#include "zip_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zip.h>

#include "io.h"
#include "tables.h"

/* Deflate packs at most 258 bytes into two bits: nothing unpacks to more than 1032 times its size. */
#define DEFLATE_MAX_RATIO 1032

struct dn_zip {
    zip_t *za;
    char *path;
    uint64_t n;
    uint64_t *size;
    dn_strs names;
    dn_map *by_name;
};

struct dn_zip_member {
    zip_file_t *zf;
    const dn_zip *z;
    uint64_t index;
};

/* libzip's codes for trouble with the system rather than with the archive. */
static dn_status status_of(int code)
{
    switch (code) {
    case ZIP_ER_OPEN:
    case ZIP_ER_READ:
    case ZIP_ER_SEEK:
    case ZIP_ER_NOENT: return DN_EOPEN;
    case ZIP_ER_MEMORY: return DN_ENOMEM;
    case ZIP_ER_COMPNOTSUPP:
    case ZIP_ER_ENCRNOTSUPP:
    case ZIP_ER_NOPASSWD: return DN_EUNSUPPORTED;
    default: return DN_EFORMAT;
    }
}

static dn_status check_member(dn_zip *z, uint64_t i, uint64_t file_size, dn_err *err)
{
    zip_stat_t st;
    const zip_uint64_t want = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD |
                              ZIP_STAT_ENCRYPTION_METHOD;
    if (zip_stat_index(z->za, i, ZIP_FL_ENC_RAW, &st) != 0 || (st.valid & want) != want) {
        return dn_fail(err, DN_EFORMAT,
                       "%s: member %llu of the zip archive cannot be read: the file is damaged", z->path,
                       (unsigned long long)i);
    }
    size_t len = strlen(st.name);
    if (len > DN_MAX_ID)
        return dn_fail(err, DN_EFORMAT, "%s: a member's name of %zu bytes is too long", z->path, len);
    if (st.encryption_method != ZIP_EM_NONE) {
        return dn_fail(err, DN_EUNSUPPORTED, "%s: member %s is encrypted", z->path, st.name);
    }
    if (st.comp_method != ZIP_CM_STORE && st.comp_method != ZIP_CM_DEFLATE) {
        return dn_fail(err, DN_EUNSUPPORTED,
                       "%s: member %s is packed by method %d; only stored and deflated members are read",
                       z->path, st.name, (int)st.comp_method);
    }
    uint64_t most = st.comp_size;
    bool fits = st.comp_size <= file_size;
    if (st.comp_method == ZIP_CM_DEFLATE &&
        (!dn_mul(most, DEFLATE_MAX_RATIO, &most) || !dn_add(most, 1024, &most))) {
        most = UINT64_MAX;
    }
    if (!fits || st.size > most) {
        return dn_fail(err, DN_EFORMAT,
                       "%s: member %s claims %llu bytes (%llu packed) in a file of %llu: it is damaged",
                       z->path, st.name, (unsigned long long)st.size, (unsigned long long)st.comp_size,
                       (unsigned long long)file_size);
    }
    z->size[i] = st.size;
    return dn_strs_add(&z->names, st.name, len, err);
}

dn_status dn_zip_open(dn_zip **out, const char *path, dn_err *err)
{
    dn_status status;
    dn_zip *z = NULL;
    dn_kind kind;
    int code = 0;
    *out = NULL;
    DN_TRY(dn_kind_of_file(path, &kind, err));
    if (kind != DN_KIND_ZIP) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s is not a zip archive, as .npz and .pt files are: it is %s", path,
                       dn_kind_name(kind)));
    }
    struct stat sb;
    if (stat(path, &sb) != 0) DN_TRY(dn_fail(err, DN_EOPEN, "cannot read %s: %s", path, strerror(errno)));
    const uint64_t file_size = (uint64_t)sb.st_size;
    DN_TRY(dn_alloc(&z, 1, sizeof *z, "zip archive", err));
    z->path = strdup(path);
    if (!z->path) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    z->za = zip_open(path, ZIP_RDONLY, &code);
    if (!z->za) {
        zip_error_t ze;
        zip_error_init_with_code(&ze, code);
        status = status_of(code);
        dn_fail(err, status, "%s: the zip archive cannot be opened (%s)%s", path, zip_error_strerror(&ze),
                status == DN_EFORMAT ? ": it is truncated or damaged; copy or download it again" : "");
        zip_error_fini(&ze);
        goto done;
    }
    zip_int64_t n = zip_get_num_entries(z->za, 0);
    if (n <= 0) DN_TRY(dn_fail(err, DN_EFORMAT, "%s: the zip archive is empty", path));
    z->n = (uint64_t)n;
    if (z->n > DN_ZIP_MAX_MEMBERS) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: %llu members in the zip archive are too many", path,
                       (unsigned long long)z->n));
    }
    DN_TRY(dn_alloc(&z->size, (size_t)z->n, sizeof *z->size, "zip directory", err));
    for (uint64_t i = 0; i < z->n; i++) DN_TRY(check_member(z, i, file_size, err));
    DN_TRY(dn_map_new(&z->by_name, z->n, err));
    for (uint64_t i = 0; i < z->n; i++) {
        uint64_t prev;
        const char *name = dn_strs_get(&z->names, i);
        DN_TRY(dn_map_add(z->by_name, name, strlen(name), i, &prev, err));
        if (prev != UINT64_MAX) DN_TRY(dn_fail(err, DN_EFORMAT, "%s: member %s is there twice", path, name));
    }
    *out = z;
    z = NULL;
    status = DN_OK;
done:
    dn_zip_close(z);
    return status;
}

void dn_zip_close(dn_zip *z)
{
    if (!z) return;
    if (z->za) zip_discard(z->za);
    dn_map_free(z->by_name);
    dn_strs_free(&z->names);
    free(z->size);
    free(z->path);
    free(z);
}

const char *dn_zip_path(const dn_zip *z)
{
    return z->path;
}

uint64_t dn_zip_count(const dn_zip *z)
{
    return z->n;
}

const char *dn_zip_name(const dn_zip *z, uint64_t i)
{
    return dn_strs_get(&z->names, i);
}

uint64_t dn_zip_size(const dn_zip *z, uint64_t i)
{
    return z->size[i];
}

uint64_t dn_zip_find(const dn_zip *z, const char *name)
{
    return dn_map_get(z->by_name, name, strlen(name));
}

dn_status dn_zip_member_open(dn_zip_member **out, dn_zip *z, uint64_t i, dn_err *err)
{
    dn_status status;
    dn_zip_member *m = NULL;
    *out = NULL;
    DN_TRY(dn_alloc(&m, 1, sizeof *m, "zip member", err));
    m->z = z;
    m->index = i;
    m->zf = zip_fopen_index(z->za, i, 0);
    if (!m->zf) {
        zip_error_t *ze = zip_get_error(z->za);
        DN_TRY(dn_fail(err, status_of(zip_error_code_zip(ze)), "%s: member %s cannot be opened (%s)", z->path,
                       dn_zip_name(z, i), zip_error_strerror(ze)));
    }
    *out = m;
    m = NULL;
    status = DN_OK;
done:
    dn_zip_member_close(m);
    return status;
}

static dn_status read_failed(dn_zip_member *m, dn_err *err)
{
    zip_error_t *ze = zip_file_get_error(m->zf);
    int code = zip_error_code_zip(ze);
    dn_status st = status_of(code);
    return dn_fail(err, st, "%s: member %s cannot be read (%s)%s", m->z->path, dn_zip_name(m->z, m->index),
                   zip_error_strerror(ze),
                   st == DN_EFORMAT ? ": the file is damaged; copy or download it again" : "");
}

dn_status dn_zip_member_read(dn_zip_member *m, void *buf, size_t n, dn_err *err)
{
    unsigned char *p = buf;
    while (n) {
        zip_int64_t k = zip_fread(m->zf, p, n > (1u << 30) ? (1u << 30) : n);
        if (k < 0) return read_failed(m, err);
        if (k == 0) {
            return dn_fail(err, DN_EFORMAT, "%s: member %s ends %zu bytes too early: the file is damaged",
                           m->z->path, dn_zip_name(m->z, m->index), n);
        }
        p += k;
        n -= (size_t)k;
    }
    return DN_OK;
}

dn_status dn_zip_member_end(dn_zip_member *m, dn_err *err)
{
    char c;
    zip_int64_t k = zip_fread(m->zf, &c, 1);
    if (k < 0) return read_failed(m, err);
    if (k > 0) {
        return dn_fail(err, DN_EFORMAT, "%s: member %s is longer than its contents say: the file is damaged",
                       m->z->path, dn_zip_name(m->z, m->index));
    }
    return DN_OK;
}

void dn_zip_member_close(dn_zip_member *m)
{
    if (!m) return;
    if (m->zf) zip_fclose(m->zf);
    free(m);
}

dn_status dn_zip_read_all(dn_zip *z, uint64_t i, uint64_t max, uint8_t **buf, size_t *n, dn_err *err)
{
    dn_status status;
    dn_zip_member *m = NULL;
    uint8_t *p = NULL;
    *buf = NULL;
    *n = 0;
    uint64_t size = z->size[i];
    if (size > max) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: member %s has %llu bytes, more than the %llu that it may have",
                       z->path, dn_zip_name(z, i), (unsigned long long)size, (unsigned long long)max));
    }
    DN_TRY(dn_alloc_aligned(&p, (size_t)size, 1, dn_zip_name(z, i), err));
    DN_TRY(dn_zip_member_open(&m, z, i, err));
    DN_TRY(dn_zip_member_read(m, p, (size_t)size, err));
    DN_TRY(dn_zip_member_end(m, err));
    *buf = p;
    *n = (size_t)size;
    p = NULL;
    status = DN_OK;
done:
    dn_zip_member_close(m);
    free(p);
    return status;
}
