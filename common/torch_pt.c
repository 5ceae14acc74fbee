/* torch_pt.c: see torch_pt.h. */
#include "torch_pt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "pickle.h"
#include "zip_read.h"

#define MAX_PICKLE ((uint64_t)16 << 20) /* a state dict of 1,000 layers takes 200 kB */

struct dn_pt {
    char *path, *folder; /* folder: "best_model/" */
    dn_zip *zip;
    uint8_t *bytes;
    dn_pickle *pickle;
    dn_pk dict;
    dn_strs keys;
};

/* The one member "FOLDER/data.pkl"; *folder with its slash. */
static dn_status find_pickle(dn_pt *f, uint64_t *index, dn_err *err)
{
    static const char tail[] = "data.pkl";
    *index = UINT64_MAX;
    for (uint64_t i = 0; i < dn_zip_count(f->zip); i++) {
        const char *name = dn_zip_name(f->zip, i), *slash = strchr(name, '/');
        if (!slash || strcmp(slash + 1, tail) != 0) continue;
        if (*index != UINT64_MAX)
            return dn_fail(err, DN_EFORMAT, "%s holds two models: %s and %s%s", f->path, name, f->folder,
                           tail);
        *index = i;
        f->folder = strndup(name, (size_t)(slash + 1 - name));
        if (!f->folder) return dn_fail(err, DN_ENOMEM, "out of memory");
    }
    if (*index != UINT64_MAX) return DN_OK;
    return dn_fail(err, DN_EFORMAT, "%s is a zip archive but no PyTorch file: it has no FOLDER/data.pkl",
                   f->path);
}

static uint64_t find_member(const dn_pt *f, const char *name, size_t len)
{
    char full[2 * DN_MAX_ID];
    if (snprintf(full, sizeof full, "%s%.*s", f->folder, (int)len, name) >= (int)sizeof full)
        return UINT64_MAX;
    return dn_zip_find(f->zip, full);
}

/* Archives of big-endian machines say so in a member of this name; without it they are little-endian. */
static dn_status check_byteorder(dn_pt *f, dn_err *err)
{
    uint8_t *text = NULL;
    size_t n;
    uint64_t i = find_member(f, "byteorder", 9);
    if (i == UINT64_MAX) return DN_OK;
    dn_status status = dn_zip_read_all(f->zip, i, 64, &text, &n, err);
    if (status == DN_OK && (n < 6 || memcmp(text, "little", 6) != 0)) {
        status = dn_fail(err, DN_EUNSUPPORTED, "%s was written on a big-endian machine, which is not read",
                         f->path);
    }
    free(text);
    return status;
}

static dn_status find_dict(dn_pt *f, dn_err *err)
{
    const dn_pickle *p = f->pickle;
    dn_pk root = dn_pk_root(p);
    f->dict = root;
    if (!dn_pk_get(p, root, "model_state_dict", &f->dict) && !dn_pk_get(p, root, "state_dict", &f->dict))
        f->dict = root;
    if (dn_pk_type_of(p, f->dict) != DN_PK_DICT) {
        return dn_fail(err, DN_EFORMAT, "%s holds %s, not a model's weights (a state dict)", f->path,
                       dn_pk_type_name(dn_pk_type_of(p, f->dict)));
    }
    for (uint64_t i = 0; i < dn_pk_len(p, f->dict); i++) {
        dn_pk key, value;
        const char *s;
        size_t n;
        dn_pk_tensor t;
        dn_pk_pair(p, f->dict, i, &key, &value);
        if (!dn_pk_get_tensor(p, value, &t)) continue;
        if (!dn_pk_str(p, key, &s, &n) || n > DN_MAX_ID || memchr(s, 0, n)) {
            return dn_fail(err, DN_EFORMAT, "%s: a tensor without a proper name: the file is damaged",
                           f->path);
        }
        dn_status status = dn_strs_add(&f->keys, s, n, err);
        if (status != DN_OK) return status;
    }
    if (f->keys.n == 0)
        return dn_fail(err, DN_EFORMAT, "%s holds no tensors: it is not a model's weights", f->path);
    return DN_OK;
}

/* PyTorch before 1.6 wrote bare pickles; say so rather than "not a zip". */
static dn_status check_kind(const char *path, dn_err *err)
{
    dn_kind kind;
    dn_status status = dn_kind_of_file(path, &kind, err);
    if (status != DN_OK || kind == DN_KIND_ZIP) return status;
    FILE *in = fopen(path, "rb");
    int first = in ? fgetc(in) : EOF;
    if (in) fclose(in);
    if (first == 0x80) {
        return dn_fail(err, DN_EUNSUPPORTED,
                       "%s is a bare pickle, as PyTorch wrote before version 1.6: load and save it again "
                       "with a newer one",
                       path);
    }
    return dn_fail(err, DN_EFORMAT, "%s is not a PyTorch file: it is %s", path, dn_kind_name(kind));
}

dn_status dn_pt_open(dn_pt **out, const char *path, dn_err *err)
{
    dn_status status;
    dn_pt *f = NULL;
    uint64_t i;
    size_t n;
    char *what = NULL;
    *out = NULL;
    DN_TRY(check_kind(path, err));
    DN_TRY(dn_alloc(&f, 1, sizeof *f, "PyTorch file", err));
    f->path = strdup(path);
    if (!f->path) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    DN_TRY(dn_zip_open(&f->zip, path, err));
    DN_TRY(find_pickle(f, &i, err));
    if (find_member(f, "constants.pkl", 13) != UINT64_MAX) {
        DN_TRY(dn_fail(err, DN_EUNSUPPORTED, "%s is a TorchScript program, not a model's weights", path));
    }
    DN_TRY(check_byteorder(f, err));
    DN_TRY(dn_zip_read_all(f->zip, i, MAX_PICKLE, &f->bytes, &n, err));
    if (asprintf(&what, "%s: %s", path, dn_zip_name(f->zip, i)) < 0) {
        what = NULL;
        DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    }
    DN_TRY(dn_pickle_parse(&f->pickle, f->bytes, n, what, err));
    DN_TRY(find_dict(f, err));
    *out = f;
    f = NULL;
    status = DN_OK;
done:
    free(what);
    dn_pt_close(f);
    return status;
}

void dn_pt_close(dn_pt *f)
{
    if (!f) return;
    dn_pickle_free(f->pickle);
    dn_zip_close(f->zip);
    dn_strs_free(&f->keys);
    free(f->bytes);
    free(f->folder);
    free(f->path);
    free(f);
}

const dn_strs *dn_pt_keys(const dn_pt *f)
{
    return &f->keys;
}

static bool get(const dn_pt *f, const char *key, dn_pk_tensor *t)
{
    dn_pk v;
    return dn_pk_get(f->pickle, f->dict, key, &v) && dn_pk_get_tensor(f->pickle, v, t);
}

bool dn_pt_has(const dn_pt *f, const char *key)
{
    dn_pk_tensor t;
    return get(f, key, &t);
}

dn_status dn_pt_shape(const dn_pt *f, const char *key, int *ndim, uint64_t dim[8], dn_err *err)
{
    dn_pk_tensor t;
    if (!get(f, key, &t))
        return dn_fail(err, DN_EFORMAT, "%s has no tensor %s: is it a Diet Network's weights?", f->path, key);
    *ndim = t.ndim;
    memcpy(dim, t.size, sizeof t.size);
    return DN_OK;
}

/* The numbers of a storage, unpacked; its size must be the archive member's. */
static dn_status read_storage(dn_pt *f, const char *key, const dn_pk_tensor *t, uint8_t **raw, dn_err *err)
{
    char name[DN_MAX_ID + 8];
    uint64_t bytes;
    size_t n;
    if (t->key_len > DN_MAX_ID)
        return dn_fail(err, DN_EFORMAT, "%s: tensor %s: a storage's name is too long", f->path, key);
    int len = snprintf(name, sizeof name, "data/%.*s", (int)t->key_len, t->key);
    uint64_t i = find_member(f, name, (size_t)len);
    if (i == UINT64_MAX)
        return dn_fail(err, DN_EFORMAT, "%s: tensor %s: its numbers (%s%s) are missing from the archive",
                       f->path, key, f->folder, name);
    if (!dn_mul(t->numel, t->dtype.item, &bytes) || bytes != dn_zip_size(f->zip, i)) {
        return dn_fail(err, DN_EFORMAT,
                       "%s: tensor %s: %s%s has %llu bytes where %llu numbers of %u bytes are expected: the "
                       "file is damaged",
                       f->path, key, f->folder, name, (unsigned long long)dn_zip_size(f->zip, i),
                       (unsigned long long)t->numel, t->dtype.item);
    }
    return dn_zip_read_all(f->zip, i, bytes, raw, &n, err);
}

static bool to_float(const uint8_t *p, dn_pk_dtype type, float *x)
{
    uint16_t h;
    uint32_t b;
    double d;
    switch (type.kind == 'f' ? type.item : type.kind == 'B' ? 1 : 0) {
    case 1: /* bfloat16: the upper half of a float */
        memcpy(&h, p, 2);
        b = (uint32_t)h << 16;
        memcpy(x, &b, 4);
        return true;
    case 4: memcpy(x, p, 4); return true;
    case 8:
        memcpy(&d, p, 8);
        *x = (float)d;
        return true;
    default: return false;
    }
}

static void shape_text(int ndim, const uint64_t *dim, char out[128])
{
    size_t used = 0;
    out[0] = 0;
    for (int k = 0; k < ndim; k++) {
        int n = snprintf(out + used, 128 - used, "%s%llu", k ? " x " : "", (unsigned long long)dim[k]);
        if (n < 0 || (used += (size_t)n) >= 128) return;
    }
}

dn_status dn_pt_read(dn_pt *f, const char *key, int ndim, const uint64_t *dim, float **data, dn_err *err)
{
    dn_status status;
    dn_pk_tensor t;
    uint8_t *raw = NULL;
    float *out = NULL;
    *data = NULL;
    if (!get(f, key, &t))
        DN_TRY(
            dn_fail(err, DN_EFORMAT, "%s has no tensor %s: is it a Diet Network's weights?", f->path, key));
    if (t.ndim != ndim || memcmp(t.size, dim, (size_t)ndim * sizeof *dim) != 0) {
        char found[128], want[128];
        shape_text(t.ndim, t.size, found);
        shape_text(ndim, dim, want);
        DN_TRY(
            dn_fail(err, DN_EFORMAT, "%s: tensor %s is %s where %s is expected", f->path, key, found, want));
    }
    DN_TRY(read_storage(f, key, &t, &raw, err));
    DN_TRY(dn_alloc_aligned(&out, (size_t)t.n_items, sizeof *out, key, err));
    uint64_t index[DN_PICKLE_MAX_NDIM] = {0}, at = t.offset;
    for (uint64_t i = 0; i < t.n_items; i++) {
        if (!to_float(raw + at * t.dtype.item, t.dtype, &out[i])) {
            DN_TRY(
                dn_fail(err, DN_EUNSUPPORTED,
                        "%s: tensor %s: weights of kind %c%u are not read (float, double and bfloat16 are)",
                        f->path, key, t.dtype.kind, 8 * t.dtype.item));
        }
        if (!isfinite(out[i])) {
            DN_TRY(dn_fail(err, DN_ENUMERIC,
                           "%s: tensor %s: number %llu is not finite (%g): this model cannot predict",
                           f->path, key, (unsigned long long)i, (double)out[i]));
        }
        for (int k = t.ndim; k-- > 0;) { /* next index in row-major order */
            at += t.stride[k];
            if (++index[k] < t.size[k]) break;
            at -= t.size[k] * t.stride[k];
            index[k] = 0;
        }
    }
    *data = out;
    out = NULL;
    status = DN_OK;
done:
    free(raw);
    free(out);
    return status;
}
