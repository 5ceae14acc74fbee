/* h5.h: the only door to HDF5. Files are opened for reading without locks (many readers on NFS and Lustre),
 * written through dn_out (whole or not at all), and never trusted: types, ranks, sizes and layout are checked
 * before use. Writing is deterministic: no times are stored. HDF5's own error printing is off; its reason
 * goes into dn_err. */
#ifndef DN_H5_H
#define DN_H5_H

#include "dn.h"
#include "io.h"
#include "tables.h"

typedef struct dn_h5 dn_h5;

typedef enum { DN_I8, DN_U8, DN_I32, DN_U32, DN_I64, DN_U64, DN_F32, DN_F64 } dn_type;
size_t dn_type_size(dn_type t);

/* ---- reading ---- */
DN_MUST_USE dn_status dn_h5_open(dn_h5 **out, const char *path,
                                 dn_err *err); /* refuses non-HDF5 by what it is */
void dn_h5_close(dn_h5 *f);
const char *dn_h5_path(const dn_h5 *f);
bool dn_h5_has(const dn_h5 *f, const char *name); /* an object of that path, such as "main/0/weight" */
/* Shape of a numeric or string dataset: rank (<= 4) and dims. DN_EFORMAT when absent. */
DN_MUST_USE dn_status dn_h5_shape(dn_h5 *f, const char *name, int *rank, uint64_t dims[4], dn_err *err);
/* Whole dataset, converted to `type` (HDF5 converts between numeric types; float -> int is refused). *data is
 * allocated with dn_alloc_aligned and owned by the caller. n = number of items; want == UINT64_MAX: any, else
 * must be equal. */
DN_MUST_USE dn_status dn_h5_read(dn_h5 *f, const char *name, dn_type type, uint64_t want, void **data,
                                 uint64_t *n, dn_err *err);
/* Rows [row, row + n_rows) of a dataset of rank 2 (or 1), converted, into the caller's buffer of n_rows x
 * dims[1] items. */
DN_MUST_USE dn_status dn_h5_read_rows(dn_h5 *f, const char *name, dn_type type, uint64_t row, uint64_t n_rows,
                                      void *buf, dn_err *err);
/* Strings: fixed length (null- or space-padded, ASCII or UTF-8) or variable length. Rank 1. */
DN_MUST_USE dn_status dn_h5_read_strs(dn_h5 *f, const char *name, dn_strs *out, dn_err *err);
/* Attributes of the root or of an object (obj "/" for the root). DN_EFORMAT when absent or of another kind.
 */
bool dn_h5_has_attr(const dn_h5 *f, const char *obj, const char *name);
DN_MUST_USE dn_status dn_h5_read_attr(dn_h5 *f, const char *obj, const char *name, dn_type type, void *value,
                                      dn_err *err);
DN_MUST_USE dn_status dn_h5_read_attr_str(dn_h5 *f, const char *obj, const char *name, char **value,
                                          dn_err *err); /* free() */
/* Where the bytes of a dataset lie in the file, for mapping in place: only if contiguous, allocated,
 * unfiltered, of exactly `type` in native byte order, and inside the file; else *ok = false and *why says
 * which failed (static text). */
DN_MUST_USE dn_status dn_h5_locate(dn_h5 *f, const char *name, dn_type type, uint64_t *offset, bool *ok,
                                   const char **why, dn_err *err);
/* Names of the members of a group, sorted. */
DN_MUST_USE dn_status dn_h5_list(dn_h5 *f, const char *group, dn_strs *names, dn_err *err);

/* ---- writing ---- */
DN_MUST_USE dn_status dn_h5_create(dn_h5 **out, const char *path, unsigned out_flags,
                                   dn_err *err); /* dn_out flags; "-" is DN_EUSAGE */
DN_MUST_USE dn_status dn_h5_group(dn_h5 *f, const char *name, dn_err *err);
/* Contiguous dataset of the given shape, file type = `type` little-endian, written at once. */
DN_MUST_USE dn_status dn_h5_write(dn_h5 *f, const char *name, dn_type type, int rank, const uint64_t *dims,
                                  const void *data, dn_err *err);
/* The same, but empty: fill it with dn_h5_write_rows in any order. Space is allocated at once and never
 * filled first. */
DN_MUST_USE dn_status dn_h5_create_rows(dn_h5 *f, const char *name, dn_type type, uint64_t n_rows,
                                        uint64_t n_cols, dn_err *err);
DN_MUST_USE dn_status dn_h5_write_rows(dn_h5 *f, const char *name, dn_type type, uint64_t row,
                                       uint64_t n_rows, const void *data, dn_err *err);
/* Empty like that, of any rank from 1 to 4, and a box of it: items [start, start + count) in every dimension.
 */
DN_MUST_USE dn_status dn_h5_create_empty(dn_h5 *f, const char *name, dn_type type, int rank,
                                         const uint64_t *dims, dn_err *err);
DN_MUST_USE dn_status dn_h5_write_box(dn_h5 *f, const char *name, dn_type type, const uint64_t *start,
                                      const uint64_t *count, const void *data, dn_err *err);
DN_MUST_USE dn_status dn_h5_write_strs(dn_h5 *f, const char *name, const dn_strs *s,
                                       dn_err *err); /* fixed length, null-padded, ASCII: as h5py 'S' */
DN_MUST_USE dn_status dn_h5_write_attr(dn_h5 *f, const char *obj, const char *name, dn_type type,
                                       const void *value, dn_err *err);
DN_MUST_USE dn_status dn_h5_write_attr_str(dn_h5 *f, const char *obj, const char *name, const char *value,
                                           dn_err *err);
/* Flushes, closes, fsyncs and renames into place. Frees *f in every case; on failure nothing is left. */
DN_MUST_USE dn_status dn_h5_commit(dn_h5 **f, dn_err *err);
void dn_h5_abort(dn_h5 **f);
/* Library version for --version: "1.10.8". */
void dn_h5_version(char buf[32]);

#endif
