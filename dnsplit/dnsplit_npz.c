/* dnsplit_npz.c: see dnsplit_npz.h. */
#include "dnsplit_npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npz.h"

/* ---- reading ---- */

/* Node of fold f, set s, in an array of shape (F, 3), or (F,) of lists of three. */
static bool cell_of(const dn_npy_objects *o, const dn_npy_info *info, uint64_t f, uint64_t s, dn_pk *v)
{
    if (info->ndim == 2) {
        *v = o->nodes[f * 3 + s];
        return true;
    }
    dn_pk_type type = dn_pk_type_of(o->pickle, o->nodes[f]);
    if ((type != DN_PK_LIST && type != DN_PK_TUPLE) || dn_pk_len(o->pickle, o->nodes[f]) != 3) return false;
    *v = dn_pk_item(o->pickle, o->nodes[f], s);
    return true;
}

static bool good_shape(const dn_npy_info *info)
{
    return (info->ndim == 2 && info->dim[1] == 3) || info->ndim == 1;
}

static dn_status take(const int64_t *x, uint64_t n, const char *path, uint64_t f, int s, uint64_t n_people,
                      dn_fold *fold, dn_err *err)
{
    dn_status status = dn_alloc(&fold->index[s], n, sizeof(uint64_t), "fold", err);
    if (status != DN_OK) return status;
    fold->n[s] = n;
    for (uint64_t i = 0; i < n; i++) {
        if (x[i] < 0 || (uint64_t)x[i] >= n_people) {
            return dn_fail(err, DN_EMISMATCH,
                           "%s: fold %llu, %s set, item %llu is person %lld, but the dataset has %llu people "
                           "(numbered from 0): "
                           "the partition is of other data",
                           path, (unsigned long long)f, dn_split_set_name[s], (unsigned long long)i,
                           (long long)x[i], (unsigned long long)n_people);
        }
        fold->index[s][i] = (uint64_t)x[i];
    }
    return DN_OK;
}

/* Lists of equal length everywhere make NumPy store one array of integers. */
static dn_status read_integers(dn_npz *z, const char *path, uint64_t n_people, dn_fold **folds,
                               uint64_t *n_folds, dn_err *err)
{
    dn_status status;
    dn_npy_info info;
    void *data = NULL;
    DN_TRY(dn_npz_read(z, "folds_indexes", DN_I64, &data, &info, err));
    if (info.ndim != 3 || info.dim[1] != 3 || info.dim[0] == 0 || info.dim[0] > DN_MAX_FOLDS) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: folds_indexes is not of shape (folds, 3)", path));
    }
    DN_TRY(dn_alloc(folds, (size_t)info.dim[0], sizeof **folds, "folds", err));
    *n_folds = info.dim[0];
    for (uint64_t f = 0; f < *n_folds; f++) {
        for (int s = 0; s < DN_SPLIT_SETS; s++) {
            DN_TRY(take((int64_t *)data + (f * 3 + (uint64_t)s) * info.dim[2], info.dim[2], path, f, s,
                        n_people, &(*folds)[f], err));
        }
    }
    status = DN_OK;
done:
    free(data);
    return status;
}

static dn_status read_objects(dn_npz *z, const char *path, uint64_t n_people, dn_fold **folds,
                              uint64_t *n_folds, dn_err *err)
{
    dn_status status;
    dn_npy_objects o;
    dn_npy_info info;
    int64_t *x = NULL;
    uint64_t n;
    char what[4200];
    DN_TRY(dn_npz_read_objects(z, "folds_indexes", &o, &info, err));
    if (!good_shape(&info) || info.dim[0] == 0 || info.dim[0] > DN_MAX_FOLDS) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: folds_indexes is not of shape (folds, 3)", path));
    }
    DN_TRY(dn_alloc(folds, (size_t)info.dim[0], sizeof **folds, "folds", err));
    *n_folds = info.dim[0];
    for (uint64_t f = 0; f < *n_folds; f++) {
        for (int s = 0; s < DN_SPLIT_SETS; s++) {
            dn_pk v;
            snprintf(what, sizeof what, "%s: folds_indexes, fold %llu, %s set", path, (unsigned long long)f,
                     dn_split_set_name[s]);
            if (!cell_of(&o, &info, f, (uint64_t)s, &v))
                DN_TRY(dn_fail(err, DN_EFORMAT, "%s: three lists (train, valid, test) are expected", what));
            DN_TRY(dn_pk_read_ints(o.pickle, v, what, &x, &n, err));
            DN_TRY(take(x, n, path, f, s, n_people, &(*folds)[f], err));
            free(x);
            x = NULL;
        }
    }
    status = DN_OK;
done:
    free(x);
    dn_npy_objects_free(&o);
    return status;
}

/* Item i of a list of IDs: strings, or a NumPy array of bytes or characters. False when it is neither. */
static bool id_at(const dn_pickle *p, dn_pk v, const uint8_t *raw, const dn_pk_array *a, uint64_t i,
                  char *out, size_t cap)
{
    const char *s;
    size_t n = 0;
    if (!raw) {
        dn_pk item = dn_pk_item(p, v, i);
        if (!dn_pk_str(p, item, &s, &n) || n >= cap) return false;
        memcpy(out, s, n);
    } else if (a->dtype.kind == 'S') {
        const uint8_t *from = raw + i * a->dtype.item;
        while (n < a->dtype.item && from[n]) n++;
        if (n >= cap) return false;
        memcpy(out, from, n);
    } else {
        const uint8_t *from = raw + i * a->dtype.item;
        for (; 4 * n < a->dtype.item && from[4 * n]; n++) {
            if (n + 1 >= cap || from[4 * n] > 0x7e || from[4 * n + 1] || from[4 * n + 2] || from[4 * n + 3])
                return false; /* ASCII is enough */
            out[n] = (char)from[4 * n];
        }
    }
    out[n] = 0;
    return true;
}

/* Compares one list of IDs with the people that the indexes name. */
static dn_status check_ids(const dn_pickle *p, dn_pk v, const char *path, uint64_t f, int s,
                           const dn_fold *fold, const dn_people *people, bool *checked, dn_err *err)
{
    dn_status status;
    dn_pk_array a = {0};
    uint8_t *raw = NULL;
    char id[DN_MAX_ID + 1];
    dn_pk_type type = dn_pk_type_of(p, v);
    uint64_t n = dn_pk_len(p, v);
    if (dn_pk_get_array(p, v, &a)) {
        if (a.ndim != 1 || (a.dtype.kind != 'S' && a.dtype.kind != 'U')) {
            *checked = false;
            return DN_OK;
        }
        n = a.n_items;
        DN_TRY(dn_alloc(&raw, (size_t)n + 1, a.dtype.item ? a.dtype.item : 1, "sample IDs", err));
        DN_TRY(dn_pk_bytes(p, a.data, 0, n * a.dtype.item, raw, err));
    } else if (type != DN_PK_LIST && type != DN_PK_TUPLE) {
        *checked = false;
        return DN_OK;
    }
    if (n != fold->n[s]) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: fold %llu, %s set: %llu indexes but %llu sample IDs", path,
                       (unsigned long long)f, dn_split_set_name[s], (unsigned long long)fold->n[s],
                       (unsigned long long)n));
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!id_at(p, v, raw, &a, i, id, sizeof id)) {
            *checked = false;
            break;
        }
        const char *ours = dn_strs_get(&people->iid, fold->index[s][i]);
        if (strcmp(id, ours) != 0) {
            DN_TRY(dn_fail(err, DN_EMISMATCH,
                           "%s: person %llu is %s there and %s in the dataset: the partition is of other "
                           "people, or of another order of them",
                           path, (unsigned long long)fold->index[s][i], id, ours));
        }
    }
    status = DN_OK;
done:
    free(raw);
    return status;
}

static dn_status check_samples(dn_npz *z, const char *path, const dn_people *people, const dn_fold *folds,
                               uint64_t n_folds, bool *checked, dn_err *err)
{
    dn_status status;
    dn_npy_objects o;
    dn_npy_info info;
    *checked = false;
    if (!dn_npz_has(z, "folds_samples")) return DN_OK;
    DN_TRY(dn_npz_info(z, "folds_samples", &info, err));
    if (info.kind != 'O') return DN_OK;
    DN_TRY(dn_npz_read_objects(z, "folds_samples", &o, &info, err));
    *checked = good_shape(&info) && info.dim[0] == n_folds;
    for (uint64_t f = 0; *checked && f < n_folds; f++) {
        for (int s = 0; *checked && s < DN_SPLIT_SETS; s++) {
            dn_pk v;
            if (!cell_of(&o, &info, f, (uint64_t)s, &v))
                *checked = false;
            else
                DN_TRY(check_ids(o.pickle, v, path, f, s, &folds[f], people, checked, err));
        }
    }
    status = DN_OK;
done:
    dn_npy_objects_free(&o);
    return status;
}

dn_status split_npz_read(const char *path, const dn_people *people, dn_fold **folds, uint64_t *n_folds,
                         bool *checked, dn_err *err)
{
    dn_status status;
    dn_npz *z = NULL;
    dn_npy_info info;
    *folds = NULL;
    *n_folds = 0;
    DN_TRY(dn_npz_open(&z, path, err));
    DN_TRY(dn_npz_info(z, "folds_indexes", &info, err));
    if (info.kind == 'O')
        DN_TRY(read_objects(z, path, people->iid.n, folds, n_folds, err));
    else
        DN_TRY(read_integers(z, path, people->iid.n, folds, n_folds, err));
    status = check_samples(z, path, people, *folds, *n_folds, checked, err);
done:
    dn_npz_close(z);
    return status;
}

/* ---- writing: the pickle that numpy.save makes of an array of objects, protocol 3, without its memo ---- */

typedef struct {
    uint8_t *b;
    size_t n, cap;
} bytes;

static dn_status add(bytes *o, const void *p, size_t n, dn_err *err)
{
    dn_status status = dn_grow(&o->b, &o->cap, o->n + n, 1, "pickle", err);
    if (status != DN_OK) return status;
    memcpy(o->b + o->n, p, n);
    o->n += n;
    return DN_OK;
}
#define ADD(o, text) add((o), (text), sizeof(text) - 1, err)

static dn_status add_le(bytes *o, char code, uint64_t x, int n, dn_err *err)
{
    uint8_t b[9] = {(uint8_t)code};
    for (int i = 0; i < n; i++) b[i + 1] = (uint8_t)(x >> (8 * i));
    return add(o, b, (size_t)n + 1, err);
}

static dn_status add_int(bytes *o, uint64_t x, dn_err *err)
{
    if (x < 256) return add_le(o, 'K', x, 1, err);
    if (x < 65536) return add_le(o, 'M', x, 2, err);
    if (x < 0x80000000u) return add_le(o, 'J', x, 4, err);
    return add(o,
               (uint8_t[]){0x8a, 5, (uint8_t)x, (uint8_t)(x >> 8), (uint8_t)(x >> 16), (uint8_t)(x >> 24),
                           (uint8_t)(x >> 32)},
               7, err);
}

/* numpy.ndarray of a shape, up to its dtype; what follows is the dtype's state, then data, then END. */
#define NEW_ARRAY                                                                                            \
    "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"                                       \
    "C\x01"                                                                                                  \
    "b\x87R(K\x01"
#define DTYPE(len, text) "cnumpy\ndtype\nX" len "\x00\x00\x00" text "\x89\x88\x87R(K\x03X\x01\x00\x00\x00|NNN"

static dn_status begin_objects(bytes *o, uint64_t n_folds, dn_err *err)
{
    dn_status status;
    DN_TRY(ADD(o, "\x80\x03" NEW_ARRAY));
    DN_TRY(add_int(o, n_folds, err));
    status = ADD(o, "K\x03\x86" DTYPE("\x02", "O8") "J\xff\xff\xff\xffJ\xff\xff\xff\xffK?tb\x89](");
done:
    return status;
}

static dn_status pickle_indexes(bytes *o, const dn_fold *folds, uint64_t n_folds, dn_err *err)
{
    dn_status status;
    DN_TRY(begin_objects(o, n_folds, err));
    for (uint64_t f = 0; f < n_folds; f++) {
        for (int s = 0; s < DN_SPLIT_SETS; s++) {
            DN_TRY(ADD(o, "]("));
            for (uint64_t i = 0; i < folds[f].n[s]; i++) DN_TRY(add_int(o, folds[f].index[s][i], err));
            DN_TRY(ADD(o, "e"));
        }
    }
    status = ADD(o, "etb.");
done:
    return status;
}

/* One list of IDs as a NumPy array of bytes, "S" and the longest ID of the dataset, as h5py gives upstream.
 */
static dn_status pickle_ids(bytes *o, const dn_strs *iid, size_t width, const uint64_t *index, uint64_t n,
                            dn_err *err)
{
    dn_status status;
    char type[32];
    int len = snprintf(type, sizeof type, "S%zu", width);
    static const uint8_t zeros[DN_MAX_ID] = {0};
    DN_TRY(ADD(o, NEW_ARRAY));
    DN_TRY(add_int(o, n, err));
    DN_TRY(ADD(o, "\x85"
                  "cnumpy\ndtype\n"));
    DN_TRY(add_le(o, 'X', (uint64_t)len, 4, err));
    DN_TRY(add(o, type, (size_t)len, err));
    DN_TRY(ADD(o, "\x89\x88\x87R(K\x03X\x01\x00\x00\x00|NNN"));
    DN_TRY(add_int(o, width, err));
    DN_TRY(ADD(o, "K\x01K\x00tb\x89"));
    DN_TRY(add_le(o, 'B', n * width, 4, err));
    for (uint64_t i = 0; i < n; i++) {
        const char *id = dn_strs_get(iid, index[i]);
        size_t k = strlen(id);
        DN_TRY(add(o, id, k, err));
        DN_TRY(add(o, zeros, width - k, err));
    }
    status = ADD(o, "tb");
done:
    return status;
}

static dn_status pickle_samples(bytes *o, const dn_people *people, const dn_fold *folds, uint64_t n_folds,
                                dn_err *err)
{
    dn_status status;
    size_t width = dn_strs_max_len(&people->iid);
    DN_TRY(begin_objects(o, n_folds, err));
    for (uint64_t f = 0; f < n_folds; f++) {
        for (int s = 0; s < DN_SPLIT_SETS; s++)
            DN_TRY(pickle_ids(o, &people->iid, width ? width : 1, folds[f].index[s], folds[f].n[s], err));
    }
    status = ADD(o, "etb.");
done:
    return status;
}

dn_status split_npz_write(const char *path, const dn_people *people, const dn_fold *folds, uint64_t n_folds,
                          unsigned out_flags, dn_err *err)
{
    dn_status status;
    dn_npz_writer *w = NULL;
    bytes o = {0};
    DN_TRY(dn_npz_create(&w, path, out_flags, err));
    for (int k = 0; k < 2; k++) {
        o.n = 0;
        DN_TRY(k ? pickle_samples(&o, people, folds, n_folds, err) : pickle_indexes(&o, folds, n_folds, err));
        DN_TRY(dn_npz_start(w, k ? "folds_samples" : "folds_indexes", "|O", 2, (uint64_t[]){n_folds, 3}, o.n,
                            err));
        DN_TRY(dn_npz_write(w, o.b, o.n, err));
    }
    status = dn_npz_commit(&w, err);
done:
    dn_npz_abort(&w);
    free(o.b);
    return status;
}
