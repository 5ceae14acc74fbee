/* npz.c: reading .npy and .npz (see npz.h). Writing is in npz_write.c. */
#include "npz.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"
#include "zip_read.h"

#define MAX_HEADER (1u << 20)
#define CHUNK      (1u << 16) /* bytes converted at a time */

struct dn_npz {
    char *path;
    dn_zip *zip; /* NULL: a plain .npy */
    int fd;
    uint64_t size;
};

struct dn_npy {
    dn_npz *z;
    char *what; /* "file: member" */
    dn_npy_info info;
    dn_zip_member *member;
    uint64_t pos, size; /* bytes of the .npy read and there */
    uint64_t items_left;
};

/* ---- the file ---- */

dn_status dn_npz_open(dn_npz **out, const char *path, dn_err *err)
{
    static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    dn_status status;
    dn_npz *z = NULL;
    dn_kind kind;
    *out = NULL;
    DN_TRY(dn_kind_of_file(path, &kind, err));
    DN_TRY(dn_alloc(&z, 1, sizeof *z, "npz", err));
    z->fd = -1;
    z->path = strdup(path);
    if (!z->path) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    if (kind == DN_KIND_ZIP) {
        DN_TRY(dn_zip_open(&z->zip, path, err));
    } else {
        unsigned char head[6];
        struct stat sb;
        z->fd = open(path, O_RDONLY | O_CLOEXEC);
        if (z->fd < 0 || fstat(z->fd, &sb) != 0)
            DN_TRY(dn_fail(err, DN_EOPEN, "cannot open %s: %s", path, strerror(errno)));
        z->size = (uint64_t)sb.st_size;
        ssize_t n = pread(z->fd, head, sizeof head, 0);
        if (n != (ssize_t)sizeof head || memcmp(head, magic, sizeof head) != 0) {
            DN_TRY(
                dn_fail(err, DN_EFORMAT, "%s is neither .npz nor .npy: it is %s", path, dn_kind_name(kind)));
        }
    }
    *out = z;
    z = NULL;
    status = DN_OK;
done:
    dn_npz_close(z);
    return status;
}

void dn_npz_close(dn_npz *z)
{
    if (!z) return;
    dn_zip_close(z->zip);
    if (z->fd >= 0) close(z->fd);
    free(z->path);
    free(z);
}

static uint64_t find(const dn_npz *z, const char *name)
{
    char member[DN_MAX_ID + 8];
    if (snprintf(member, sizeof member, "%s.npy", name) >= (int)sizeof member) return UINT64_MAX;
    uint64_t i = dn_zip_find(z->zip, member);
    return i != UINT64_MAX ? i : dn_zip_find(z->zip, name);
}

bool dn_npz_has(const dn_npz *z, const char *name)
{
    return !z->zip || find(z, name) != UINT64_MAX;
}

static dn_status absent(const dn_npz *z, const char *name, dn_err *err)
{
    char there[512];
    size_t used = 0;
    there[0] = 0;
    for (uint64_t i = 0; i < dn_zip_count(z->zip) && used + 1 < sizeof there; i++) {
        int n = snprintf(there + used, sizeof there - used, "%s%s", i ? ", " : "", dn_zip_name(z->zip, i));
        if (n < 0) break;
        used += (size_t)n;
    }
    return dn_fail(err, DN_EFORMAT, "%s has no array \"%s\"; it holds %s: is it the right file?", z->path,
                   name, there);
}

/* ---- the bytes of one array ---- */

static dn_status read_bytes(dn_npy *a, void *buf, uint64_t n, dn_err *err)
{
    dn_status status;
    if (n > a->size - a->pos) {
        return dn_fail(err, DN_EFORMAT, "%s ends at byte %llu, %llu bytes too early: it is truncated",
                       a->what, (unsigned long long)a->size, (unsigned long long)(n - (a->size - a->pos)));
    }
    if (a->member)
        status = dn_zip_member_read(a->member, buf, (size_t)n, err);
    else
        status = dn_pread_full(a->z->fd, buf, (size_t)n, a->pos, a->z->path, err);
    a->pos += n;
    return status;
}

/* The header is a Python dict literal: {'descr': '<f8', 'fortran_order': False, 'shape': (5, 3), } */
static const char *skip_blanks(const char *s)
{
    while (*s == ' ' || *s == '\n' || *s == '\t') s++;
    return s;
}

/* A quoted string without escapes, into out[cap]; NULL on anything else. */
static const char *quoted(const char *s, char *out, size_t cap)
{
    char q = *s;
    if (q != '\'' && q != '"') return NULL;
    const char *end = strchr(++s, q);
    if (!end || (size_t)(end - s) >= cap || memchr(s, '\\', (size_t)(end - s))) return NULL;
    memcpy(out, s, (size_t)(end - s));
    out[end - s] = 0;
    return end + 1;
}

static const char *shape(const char *s, dn_npy_info *info)
{
    if (*s++ != '(') return NULL;
    for (info->ndim = 0;;) {
        s = skip_blanks(s);
        if (*s == ')') return s + 1;
        if (info->ndim == DN_PICKLE_MAX_NDIM || *s < '0' || *s > '9') return NULL;
        uint64_t x = 0;
        for (; *s >= '0' && *s <= '9'; s++) {
            if (!dn_mul(x, 10, &x) || !dn_add(x, (uint64_t)(*s - '0'), &x)) return NULL;
        }
        if (*s == 'L') s++; /* written by Python 2 */
        info->dim[info->ndim++] = x;
        s = skip_blanks(s);
        if (*s == ',')
            s++;
        else if (*s != ')')
            return NULL;
    }
}

static dn_status descr(const char *what, const char *s, dn_npy_info *info, dn_err *err)
{
    const char *p = s;
    if (*p == '>') return dn_fail(err, DN_EUNSUPPORTED, "%s: big-endian numbers (%s) are not read", what, s);
    if (*p == '<' || *p == '|' || *p == '=') p++;
    info->kind = *p ? *p++ : 0;
    uint64_t item = 0;
    for (; *p >= '0' && *p <= '9' && item < UINT32_MAX / 40; p++) item = item * 10 + (uint64_t)(*p - '0');
    if (info->kind == 'U') item *= 4;
    bool ok = *p == 0 && item <= 4 * DN_MAX_ID;
    switch (info->kind) {
    case 'b': ok = ok && item == 1; break;
    case 'i':
    case 'u': ok = ok && (item == 1 || item == 2 || item == 4 || item == 8); break;
    case 'f': ok = ok && (item == 2 || item == 4 || item == 8); break;
    case 'O': item = 8; break;
    case 'S':
    case 'U': break;
    default: ok = false;
    }
    if (!ok) return dn_fail(err, DN_EUNSUPPORTED, "%s: arrays of NumPy type \"%s\" are not read", what, s);
    info->item = (uint32_t)item;
    return DN_OK;
}

static dn_status parse_header(const char *what, const char *text, dn_npy_info *info, dn_err *err)
{
    bool have_descr = false, have_order = false, have_shape = false;
    const char *s = skip_blanks(text);
    if (*s++ != '{') goto bad;
    for (;;) {
        char key[32], value[64];
        s = skip_blanks(s);
        if (*s == '}') break;
        s = quoted(s, key, sizeof key);
        if (!s) goto bad;
        s = skip_blanks(s);
        if (*s++ != ':') goto bad;
        s = skip_blanks(s);
        if (strcmp(key, "descr") == 0) {
            if (*s == '[') return dn_fail(err, DN_EUNSUPPORTED, "%s: structured arrays are not read", what);
            s = quoted(s, value, sizeof value);
            if (!s) goto bad;
            dn_status status = descr(what, value, info, err);
            if (status != DN_OK) return status;
            have_descr = true;
        } else if (strcmp(key, "fortran_order") == 0) {
            info->fortran = strncmp(s, "True", 4) == 0;
            if (!info->fortran && strncmp(s, "False", 5) != 0) goto bad;
            s += info->fortran ? 4 : 5;
            have_order = true;
        } else if (strcmp(key, "shape") == 0) {
            s = shape(s, info);
            if (!s) goto bad;
            have_shape = true;
        } else {
            goto bad;
        }
        s = skip_blanks(s);
        if (*s == ',')
            s++;
        else if (*s != '}')
            goto bad;
    }
    if (have_descr && have_order && have_shape) return DN_OK;
bad:
    return dn_fail(err, DN_EFORMAT, "%s: the .npy header cannot be understood: the file is damaged", what);
}

static dn_status start_header(dn_npy *a, dn_err *err)
{
    dn_status status;
    char *text = NULL;
    uint8_t head[12];
    DN_TRY(read_bytes(a, head, 10, err));
    if (memcmp(head, "\x93NUMPY", 6) != 0)
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s is no .npy array: it does not begin with \\x93NUMPY", a->what));
    uint32_t len = (uint32_t)head[8] | (uint32_t)head[9] << 8;
    if (head[6] == 2 || head[6] == 3) {
        DN_TRY(read_bytes(a, head + 10, 2, err));
        len |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24;
    } else if (head[6] != 1) {
        DN_TRY(dn_fail(err, DN_EUNSUPPORTED, "%s: .npy version %d.%d is not known here", a->what, head[6],
                       head[7]));
    }
    if (len > MAX_HEADER)
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: a header of %u bytes is too long: the file is damaged", a->what,
                       len));
    DN_TRY(dn_alloc(&text, (size_t)len + 1, 1, ".npy header", err));
    DN_TRY(read_bytes(a, text, len, err));
    DN_TRY(parse_header(a->what, text, &a->info, err));
    uint64_t n = 1, bytes;
    bool ok = true;
    for (int k = 0; k < a->info.ndim; k++) ok = ok && dn_mul(n, a->info.dim[k], &n);
    a->info.n_items = a->items_left = n;
    if (a->info.kind == 'O') {
        ok = ok && n <= a->size - a->pos; /* every object costs a byte or more */
    } else {
        ok = ok && dn_mul(n, a->info.item, &bytes) && bytes == a->size - a->pos;
    }
    if (!ok) {
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s: the header's shape does not fit the %llu bytes that follow it: the file is "
                       "truncated or damaged",
                       a->what, (unsigned long long)(a->size - a->pos)));
    }
    status = DN_OK;
done:
    free(text);
    return status;
}

dn_status dn_npy_start(dn_npy **out, dn_npz *z, const char *name, dn_err *err)
{
    dn_status status;
    dn_npy *a = NULL;
    *out = NULL;
    DN_TRY(dn_alloc(&a, 1, sizeof *a, "npy", err));
    a->z = z;
    a->size = z->size;
    uint64_t i = UINT64_MAX;
    if (z->zip) {
        i = find(z, name);
        if (i == UINT64_MAX) DN_TRY(absent(z, name, err));
        DN_TRY(dn_zip_member_open(&a->member, z->zip, i, err));
        a->size = dn_zip_size(z->zip, i);
    }
    if (asprintf(&a->what, "%s%s%s", z->path, z->zip ? ": " : "", z->zip ? dn_zip_name(z->zip, i) : "") < 0) {
        a->what = NULL;
        DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    }
    DN_TRY(start_header(a, err));
    *out = a;
    a = NULL;
    status = DN_OK;
done:
    dn_npy_free(a);
    return status;
}

const dn_npy_info *dn_npy_get_info(const dn_npy *a)
{
    return &a->info;
}

void dn_npy_free(dn_npy *a)
{
    if (!a) return;
    dn_zip_member_close(a->member);
    free(a->what);
    free(a);
}

dn_status dn_npy_end(dn_npy **ap, dn_err *err)
{
    dn_npy *a = *ap;
    dn_status status = DN_OK;
    if (a->pos != a->size) {
        status = dn_fail(err, DN_EFORMAT, "%s: %llu bytes follow the array: the file is damaged", a->what,
                         (unsigned long long)(a->size - a->pos));
    } else if (a->member) {
        status = dn_zip_member_end(a->member, err);
    }
    dn_npy_free(a);
    *ap = NULL;
    return status;
}

/* ---- numbers ---- */

static double half_to_double(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double x = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -x : x;
}

static uint64_t le(const uint8_t *p, uint32_t n)
{
    uint64_t x = 0;
    for (uint32_t i = 0; i < n; i++) x |= (uint64_t)p[i] << (8 * i);
    return x;
}

static double to_double(const uint8_t *p, char kind, uint32_t item)
{
    uint64_t x = le(p, item);
    if (kind == 'f') {
        double d;
        float f;
        uint32_t low = (uint32_t)x;
        if (item == 2) return half_to_double((uint16_t)x);
        if (item == 4) return memcpy(&f, &low, 4), (double)f;
        return memcpy(&d, &x, 8), d;
    }
    if (kind == 'i' && item < 8 && x >> (8 * item - 1)) x |= UINT64_MAX << (8 * item);
    return kind == 'i' ? (double)(int64_t)x : (double)x;
}

/* n items of raw into out; false when an integer does not fit. The usual cases are copies. */
static bool convert(const uint8_t *raw, char kind, uint32_t item, uint64_t n, dn_type type, void *out)
{
    if (type == DN_F64 && kind == 'f' && item == 8) {
        memcpy(out, raw, (size_t)n * 8);
    } else if (type == DN_F32 && kind == 'f' && item == 4) {
        memcpy(out, raw, (size_t)n * 4);
    } else if (type == DN_F64) {
        for (uint64_t i = 0; i < n; i++) ((double *)out)[i] = to_double(raw + i * item, kind, item);
    } else if (type == DN_F32) {
        for (uint64_t i = 0; i < n; i++) ((float *)out)[i] = (float)to_double(raw + i * item, kind, item);
    } else {
        for (uint64_t i = 0; i < n; i++) {
            uint64_t x = le(raw + i * item, item);
            if (kind == 'i' && item < 8 && x >> (8 * item - 1)) x |= UINT64_MAX << (8 * item);
            if (kind == 'u' && x > INT64_MAX) return false;
            ((int64_t *)out)[i] = (int64_t)x;
        }
    }
    return true;
}

static dn_status check_numeric(const dn_npy *a, dn_type type, dn_err *err)
{
    if (type != DN_F32 && type != DN_F64 && type != DN_I64)
        return dn_fail(err, DN_EINTERNAL, "npz: cannot convert to type %d", (int)type);
    if (!memchr("biuf", a->info.kind, 4))
        return dn_fail(err, DN_EFORMAT, "%s holds no numbers (NumPy kind %c)", a->what, a->info.kind);
    if (type == DN_I64 && a->info.kind == 'f')
        return dn_fail(err, DN_EFORMAT, "%s holds fractions where whole numbers are needed", a->what);
    return DN_OK;
}

dn_status dn_npy_next(dn_npy *a, dn_type type, uint64_t n, void *out, dn_err *err)
{
    uint8_t raw[CHUNK];
    const size_t width = dn_type_size(type);
    uint8_t *to = out;
    dn_status status = check_numeric(a, type, err);
    if (status == DN_OK && n > a->items_left) {
        status = dn_fail(err, DN_EFORMAT, "%s: fewer numbers than expected (%llu)", a->what,
                         (unsigned long long)a->info.n_items);
    }
    bool direct = a->info.kind == 'f' && a->info.item == width;
    while (status == DN_OK && n) {
        uint64_t k = direct ? n : CHUNK / a->info.item;
        if (k > n) k = n;
        status = read_bytes(a, direct ? to : raw, k * a->info.item, err);
        if (status == DN_OK && !direct && !convert(raw, a->info.kind, a->info.item, k, type, to)) {
            status = dn_fail(err, DN_EFORMAT, "%s: an integer is too large", a->what);
        }
        to += k * width;
        n -= k;
        a->items_left -= k;
    }
    return status;
}

dn_status dn_npz_info(dn_npz *z, const char *name, dn_npy_info *info, dn_err *err)
{
    dn_npy *a;
    dn_status status = dn_npy_start(&a, z, name, err);
    if (status == DN_OK) *info = a->info;
    dn_npy_free(a);
    return status;
}

/* Row-major position of each item of a column-major array, by counting in mixed radix. */
static dn_status to_row_major(void **data, const dn_npy_info *info, size_t width, dn_err *err)
{
    uint8_t *in = *data, *out;
    dn_status status = dn_alloc_aligned(&out, (size_t)info->n_items, width, "array", err);
    if (status != DN_OK) return status;
    uint64_t index[DN_PICKLE_MAX_NDIM] = {0}, stride[DN_PICKLE_MAX_NDIM] = {0}, step = 1;
    for (int k = info->ndim; k-- > 0;) {
        stride[k] = step;
        step *= info->dim[k];
    }
    for (uint64_t i = 0; i < info->n_items; i++) {
        uint64_t to = 0;
        for (int k = 0; k < info->ndim; k++) to += index[k] * stride[k];
        memcpy(out + to * width, in + i * width, width);
        for (int k = 0; k < info->ndim && ++index[k] == info->dim[k]; k++) index[k] = 0;
    }
    free(in);
    *data = out;
    return DN_OK;
}

dn_status dn_npz_read(dn_npz *z, const char *name, dn_type type, void **data, dn_npy_info *info, dn_err *err)
{
    dn_status status;
    dn_npy *a = NULL;
    void *buf = NULL;
    *data = NULL;
    DN_TRY(dn_npy_start(&a, z, name, err));
    DN_TRY(check_numeric(a, type, err));
    *info = a->info;
    DN_TRY(dn_alloc_aligned(&buf, (size_t)info->n_items, dn_type_size(type), a->what, err));
    DN_TRY(dn_npy_next(a, type, info->n_items, buf, err));
    DN_TRY(dn_npy_end(&a, err));
    if (info->fortran && info->ndim > 1) DN_TRY(to_row_major(&buf, info, dn_type_size(type), err));
    *data = buf;
    buf = NULL;
    status = DN_OK;
done:
    free(buf);
    dn_npy_free(a);
    return status;
}

/* ---- strings ---- */

/* UTF-32 (zero-padded) to UTF-8 in out (4 bytes per character); false on an invalid character. */
static bool utf8(const uint8_t *raw, uint32_t n_chars, char *out, size_t *len)
{
    *len = 0;
    for (uint32_t i = 0; i < n_chars; i++) {
        uint32_t c = (uint32_t)le(raw + 4 * i, 4);
        if (c == 0) break;
        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return false;
        int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        static const uint8_t lead[4] = {0, 0xc0, 0xe0, 0xf0};
        out[(*len)++] = (char)(lead[more] | c >> (6 * more));
        while (more-- > 0) out[(*len)++] = (char)(0x80 | (c >> (6 * more) & 0x3f));
    }
    return true;
}

dn_status dn_npz_read_strs(dn_npz *z, const char *name, dn_strs *out, dn_npy_info *info, dn_err *err)
{
    dn_status status;
    dn_npy *a = NULL;
    uint8_t raw[4 * DN_MAX_ID];
    char text[4 * DN_MAX_ID];
    DN_TRY(dn_npy_start(&a, z, name, err));
    *info = a->info;
    if (info->kind != 'S' && info->kind != 'U')
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s holds no strings", a->what));
    if (info->fortran && info->ndim > 1)
        DN_TRY(dn_fail(err, DN_EUNSUPPORTED, "%s: strings in Fortran order are not read", a->what));
    for (uint64_t i = 0; i < info->n_items; i++) {
        size_t len = 0;
        DN_TRY(read_bytes(a, raw, info->item, err));
        if (info->kind == 'S') {
            len = strnlen((const char *)raw, info->item);
            memcpy(text, raw, len);
        } else if (!utf8(raw, info->item / 4, text, &len)) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s: string %llu is not text: the file is damaged", a->what,
                           (unsigned long long)i));
        }
        DN_TRY(dn_strs_add(out, text, len, err));
    }
    status = dn_npy_end(&a, err);
done:
    dn_npy_free(a);
    return status;
}

/* ---- objects ---- */

void dn_npy_objects_free(dn_npy_objects *o)
{
    if (!o) return;
    dn_pickle_free(o->pickle);
    free(o->nodes);
    free(o->bytes);
    memset(o, 0, sizeof *o);
}

dn_status dn_npz_read_objects(dn_npz *z, const char *name, dn_npy_objects *o, dn_npy_info *info, dn_err *err)
{
    dn_status status;
    dn_npy *a = NULL;
    dn_pk_array arr;
    memset(o, 0, sizeof *o);
    DN_TRY(dn_npy_start(&a, z, name, err));
    *info = a->info;
    uint64_t n = a->size - a->pos;
    if (info->kind != 'O') DN_TRY(dn_fail(err, DN_EFORMAT, "%s holds numbers, not lists", a->what));
    if (n > DN_PICKLE_MAX_BYTES)
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: a pickle of %llu bytes is too large", a->what,
                       (unsigned long long)n));
    DN_TRY(dn_alloc_aligned(&o->bytes, (size_t)n, 1, "pickle", err));
    DN_TRY(read_bytes(a, o->bytes, n, err));
    DN_TRY(dn_pickle_parse(&o->pickle, o->bytes, (size_t)n, a->what, err));
    if (!dn_pk_get_array(o->pickle, dn_pk_root(o->pickle), &arr) || arr.dtype.kind != 'O' ||
        arr.n_items != info->n_items || dn_pickle_used(o->pickle) != n) {
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s: the pickle is not the array that the header announces: the file is damaged",
                       a->what));
    }
    DN_TRY(dn_alloc(&o->nodes, (size_t)info->n_items, sizeof *o->nodes, "objects", err));
    for (uint64_t i = 0; i < info->n_items; i++) o->nodes[i] = dn_pk_item(o->pickle, arr.data, i);
    if (info->fortran && info->ndim > 1) {
        void *nodes = o->nodes;
        status = to_row_major(&nodes, info, sizeof *o->nodes, err);
        o->nodes = nodes;
        if (status != DN_OK) goto done;
    }
    status = dn_npy_end(&a, err);
done:
    dn_npy_free(a);
    if (status != DN_OK) dn_npy_objects_free(o);
    return status;
}

dn_status dn_pk_read_ints(const dn_pickle *p, dn_pk v, const char *what, int64_t **x, uint64_t *n,
                          dn_err *err)
{
    dn_status status;
    dn_pk_array arr;
    int64_t *out = NULL;
    uint8_t *raw = NULL;
    *x = NULL;
    *n = 0;
    dn_pk_type type = dn_pk_type_of(p, v);
    if (type == DN_PK_LIST || type == DN_PK_TUPLE) {
        *n = dn_pk_len(p, v);
        DN_TRY(dn_alloc(&out, (size_t)*n, sizeof *out, what, err));
        for (uint64_t i = 0; i < *n; i++) {
            dn_pk item = dn_pk_item(p, v, i);
            if (!dn_pk_int(p, item, &out[i])) {
                DN_TRY(dn_fail(err, DN_EFORMAT, "%s: item %llu is %s, not a whole number", what,
                               (unsigned long long)i, dn_pk_type_name(dn_pk_type_of(p, item))));
            }
        }
    } else if (dn_pk_get_array(p, v, &arr) && arr.ndim == 1 && memchr("biu", arr.dtype.kind, 3)) {
        *n = arr.n_items;
        DN_TRY(dn_alloc(&out, (size_t)*n, sizeof *out, what, err));
        DN_TRY(dn_alloc(&raw, (size_t)*n, arr.dtype.item, what, err));
        DN_TRY(dn_pk_bytes(p, arr.data, 0, *n * arr.dtype.item, raw, err));
        if (!convert(raw, arr.dtype.kind, arr.dtype.item, *n, DN_I64, out))
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s: an integer is too large", what));
    } else {
        DN_TRY(
            dn_fail(err, DN_EFORMAT, "%s is %s, not a list of whole numbers", what, dn_pk_type_name(type)));
    }
    *x = out;
    out = NULL;
    status = DN_OK;
done:
    free(raw);
    free(out);
    return status;
}
