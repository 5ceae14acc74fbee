/* npz.h: NumPy's .npy and .npz files. Numbers are converted as they are read; arrays of Python objects go
 * through the restricted interpreter of pickle.h. What a header claims is compared with the bytes that are
 * there before anything is allocated. Little-endian only. */
#ifndef DN_NPZ_H
#define DN_NPZ_H

#include "dn.h"
#include "h5.h" /* dn_type */
#include "pickle.h"
#include "tables.h"

typedef struct {
    char kind;     /* as NumPy's: 'f' 'i' 'u' 'b' numbers, 'S' 'U' strings, 'O' objects */
    uint32_t item; /* bytes per item; 'U': 4 per character */
    bool fortran;  /* column-major in the file */
    int ndim;
    uint64_t dim[DN_PICKLE_MAX_NDIM];
    uint64_t n_items;
} dn_npy_info;

typedef struct dn_npz dn_npz;
/* A .npz, or a single .npy (which answers to any name). DN_EFORMAT: neither, truncated or damaged. One thread
 * at a time. */
DN_MUST_USE dn_status dn_npz_open(dn_npz **out, const char *path, dn_err *err);
void dn_npz_close(dn_npz *z);
bool dn_npz_has(const dn_npz *z, const char *name);
/* Header of array `name`. DN_EFORMAT, with the names that are there, when it is absent. */
DN_MUST_USE dn_status dn_npz_info(dn_npz *z, const char *name, dn_npy_info *info, dn_err *err);
/* The whole array in row-major order, converted to DN_F32, DN_F64 or DN_I64 (numbers with a fraction become
 * DN_I64 never: DN_EFORMAT). *data: info->n_items items from dn_alloc_aligned, owned by the caller. */
DN_MUST_USE dn_status dn_npz_read(dn_npz *z, const char *name, dn_type type, void **data, dn_npy_info *info,
                                  dn_err *err);
/* An array of strings ('S', or 'U' as UTF-8). */
DN_MUST_USE dn_status dn_npz_read_strs(dn_npz *z, const char *name, dn_strs *out, dn_npy_info *info,
                                       dn_err *err);

/* An array of objects: info->n_items nodes in row-major order at nodes. */
typedef struct {
    dn_pickle *pickle;
    dn_pk *nodes;
    uint8_t *bytes;
} dn_npy_objects;
DN_MUST_USE dn_status dn_npz_read_objects(dn_npz *z, const char *name, dn_npy_objects *o, dn_npy_info *info,
                                          dn_err *err);
void dn_npy_objects_free(dn_npy_objects *o);
/* Whole numbers of a node of such an array: a list or tuple of integers, or a one-dimensional NumPy array of
 * them. *v from dn_alloc, owned by the caller. DN_EFORMAT for anything else, "what" naming the place. */
DN_MUST_USE dn_status dn_pk_read_ints(const dn_pickle *p, dn_pk v, const char *what, int64_t **x, uint64_t *n,
                                      dn_err *err);

/* Sequential reading in the file's order, for arrays larger than memory. */
typedef struct dn_npy dn_npy;
DN_MUST_USE dn_status dn_npy_start(dn_npy **out, dn_npz *z, const char *name, dn_err *err);
const dn_npy_info *dn_npy_get_info(const dn_npy *a);
/* The next n items, converted. */
DN_MUST_USE dn_status dn_npy_next(dn_npy *a, dn_type type, uint64_t n, void *out, dn_err *err);
/* Checks that the array ends here, and its checksum. Frees *a in every case. */
DN_MUST_USE dn_status dn_npy_end(dn_npy **a, dn_err *err);
void dn_npy_free(dn_npy *a);

/* ---- writing ----
 * .npz with stored members and no times in it: same arrays, same bytes. Through dn_out: whole or not at all.
 */
typedef struct dn_npz_writer dn_npz_writer;
DN_MUST_USE dn_status dn_npz_create(dn_npz_writer **out, const char *path, unsigned out_flags, dn_err *err);
/* Starts array `name` ("emb" becomes member emb.npy). descr: NumPy's ("<f8", "|O"); n_bytes: exactly what
 * dn_npz_write will bring. */
DN_MUST_USE dn_status dn_npz_start(dn_npz_writer *w, const char *name, const char *descr, int ndim,
                                   const uint64_t *dim, uint64_t n_bytes, dn_err *err);
DN_MUST_USE dn_status dn_npz_write(dn_npz_writer *w, const void *p, size_t n, dn_err *err);
/* Frees *w in every case; on failure nothing is left. */
DN_MUST_USE dn_status dn_npz_commit(dn_npz_writer **w, dn_err *err);
void dn_npz_abort(dn_npz_writer **w);

#endif
