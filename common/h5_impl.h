/* h5_impl.h: what h5.c, h5_read.c and h5_write.c share; no other file includes it, or <hdf5.h>. */
#ifndef DN_H5_IMPL_H
#define DN_H5_IMPL_H

#include <hdf5.h>

#include "h5.h"

struct dn_h5 {
    hid_t file;
    char *path;    /* the final name, for messages */
    uint64_t size; /* reading: bytes of the file */
    dn_out *out;   /* writing: the temporary file */
};

/* Every public function runs between these two: the library may lack thread safety, and its error stack is
 * per thread. */
void dn_h5_enter(void);
void dn_h5_leave(void);

/* In a forked child: the lock that the parent held at the fork is free again. */
void dn_h5_forked(void);
/* No locks; closing the file closes everything in it. */
void dn_h5_set_access(hid_t fapl);
/* H5Fopen for reading, without locks; < 0 on failure. *size = bytes of the file. */
hid_t dn_h5_open_file(const char *path, uint64_t *size);
/* DN_EFORMAT when the library crashes on this file (h5_probe.c). */
DN_MUST_USE dn_status dn_h5_probe(const char *path, dn_err *err);

/* HDF5's innermost reason for its last failure, without its addresses and times; static text per thread. */
const char *dn_h5_reason(void);

hid_t dn_h5_mem_type(dn_type t);
hid_t dn_h5_file_type(dn_type t); /* little-endian */

/* Opens dataset (or any object) `name`, walking hard links only: soft and external links could lead out of
 * the file. DN_EFORMAT when absent. Close with H5Dclose / H5Oclose. */
DN_MUST_USE dn_status dn_h5_open_dataset(const dn_h5 *f, const char *name, hid_t *out, dn_err *err);
DN_MUST_USE dn_status dn_h5_open_object(const dn_h5 *f, const char *name, hid_t *out, dn_err *err);

/* What a dataset is made of. */
typedef struct {
    hid_t id, type, space;
    int rank;
    uint64_t dims[4], n; /* n = product of dims; 1 for a scalar */
} dn_h5_ds;
/* Opens it and checks what must hold before a byte is read: a simple shape of rank <= 4, storage inside this
 * file and large enough to hold what it claims, only filters this build has. */
DN_MUST_USE dn_status dn_h5_ds_open(const dn_h5 *f, const char *name, dn_h5_ds *ds, dn_err *err);
void dn_h5_ds_close(dn_h5_ds *ds);

#endif
