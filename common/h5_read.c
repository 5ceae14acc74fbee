/* h5_read.c: numbers, strings and attributes out of HDF5 files that nobody vouches for (see h5.h). */
#include "h5_impl.h"

#include <stdlib.h>
#include <string.h>

/* Text that was too long to be an attribute or a name of ours. */
#define MAX_TEXT (1u << 26)

static dn_status fail_read(const dn_h5 *f, const char *name, dn_err *err)
{
    return dn_fail(err, DN_EFORMAT, "%s is damaged: cannot read '%s': %s", f->path, name, dn_h5_reason());
}

/* Numbers that do not fit end the read; HDF5 alone would clip them in silence. */
static H5T_conv_ret_t on_conversion(H5T_conv_except_t what, hid_t src, hid_t dst, void *from, void *to,
                                    void *ctx)
{
    (void)src, (void)from, (void)to;
    if ((what == H5T_CONV_EXCEPT_RANGE_HI || what == H5T_CONV_EXCEPT_RANGE_LOW) &&
        H5Tget_class(dst) == H5T_INTEGER) {
        *(bool *)ctx = true;
        return H5T_CONV_ABORT;
    }
    return H5T_CONV_UNHANDLED;
}

/* A plain machine type: 1, 2, 4 or 8 whole bytes, or an IEEE float or double. Types with odd bit fields,
 * which a damaged file may hold, must not reach HDF5's general conversion: it writes outside its buffers on
 * some of them. */
static bool is_plain(hid_t type)
{
    size_t size = H5Tget_size(type);
    if (H5Tget_class(type) == H5T_FLOAT) {
        return H5Tequal(type, H5T_IEEE_F32LE) > 0 || H5Tequal(type, H5T_IEEE_F64LE) > 0 ||
               H5Tequal(type, H5T_IEEE_F32BE) > 0 || H5Tequal(type, H5T_IEEE_F64BE) > 0;
    }
    return (size == 1 || size == 2 || size == 4 || size == 8) && H5Tget_precision(type) == 8 * size &&
           H5Tget_offset(type) == 0 &&
           (H5Tget_order(type) == H5T_ORDER_LE || H5Tget_order(type) == H5T_ORDER_BE || size == 1);
}

/* May `have` be read as t? Whole numbers go anywhere; real numbers only to real numbers. */
static dn_status check_type(const dn_h5 *f, const char *name, hid_t have, dn_type t, dn_err *err)
{
    H5T_class_t c = H5Tget_class(have);
    bool want_float = t == DN_F32 || t == DN_F64;
    const char *is = c == H5T_FLOAT    ? "real numbers"
                     : c == H5T_STRING ? "text"
                     : c == H5T_ENUM   ? "an enumeration"
                                       : "another type";
    if (c == H5T_INTEGER || (c == H5T_FLOAT && want_float)) {
        if (is_plain(have)) return DN_OK;
        is = "numbers of an unusual format";
    }
    return dn_fail(err, DN_EFORMAT, "%s: '%s' holds %s, expected %s", f->path, name, is,
                   want_float ? "numbers" : "whole numbers");
}

/* Reads the selection into buf, converted. */
static dn_status read_numbers(const dn_h5 *f, const char *name, const dn_h5_ds *ds, dn_type t,
                              hid_t mem_space, hid_t file_space, void *buf, dn_err *err)
{
    dn_status status;
    bool overflow = false;
    hid_t xfer = H5Pcreate(H5P_DATASET_XFER);
    if (xfer < 0 || H5Pset_type_conv_cb(xfer, on_conversion, &overflow) < 0) {
        DN_TRY(dn_fail(err, DN_ENOMEM, "HDF5: %s", dn_h5_reason()));
    }
    if (H5Dread(ds->id, dn_h5_mem_type(t), mem_space, file_space, xfer, buf) < 0) {
        if (overflow)
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s: '%s' holds a number that is out of range", f->path, name));
        DN_TRY(fail_read(f, name, err));
    }
    status = DN_OK;
done:
    if (xfer >= 0) H5Pclose(xfer);
    return status;
}

dn_status dn_h5_read(dn_h5 *f, const char *name, dn_type type, uint64_t want, void **data, uint64_t *n,
                     dn_err *err)
{
    dn_status status;
    dn_h5_ds ds;
    void *buf = NULL;
    *data = NULL;
    dn_h5_enter();
    DN_TRY(dn_h5_ds_open(f, name, &ds, err));
    DN_TRY(check_type(f, name, ds.type, type, err));
    if (want != UINT64_MAX && ds.n != want) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: '%s' holds %llu values, expected %llu", f->path, name,
                       (unsigned long long)ds.n, (unsigned long long)want));
    }
    DN_TRY(dn_alloc_aligned(&buf, ds.n, dn_type_size(type), name, err));
    if (ds.n > 0) DN_TRY(read_numbers(f, name, &ds, type, H5S_ALL, H5S_ALL, buf, err));
    *data = buf;
    buf = NULL;
    if (n) *n = ds.n;
    status = DN_OK;
done:
    free(buf);
    dn_h5_ds_close(&ds);
    dn_h5_leave();
    return status;
}

dn_status dn_h5_read_rows(dn_h5 *f, const char *name, dn_type type, uint64_t row, uint64_t n_rows, void *buf,
                          dn_err *err)
{
    dn_status status;
    dn_h5_ds ds;
    hid_t mem = -1;
    dn_h5_enter();
    DN_TRY(dn_h5_ds_open(f, name, &ds, err));
    DN_TRY(check_type(f, name, ds.type, type, err));
    if (ds.rank != 1 && ds.rank != 2)
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: '%s' has rank %d, expected 2", f->path, name, ds.rank));
    if (row > ds.dims[0] || n_rows > ds.dims[0] - row) {
        DN_TRY(dn_fail(err, DN_EINTERNAL, "%s: '%s' has %llu rows, asked for %llu from %llu", f->path, name,
                       (unsigned long long)ds.dims[0], (unsigned long long)n_rows, (unsigned long long)row));
    }
    hsize_t start[2] = {row, 0}, count[2] = {n_rows, ds.dims[1]};
    if (n_rows > 0 && (ds.rank == 1 || ds.dims[1] > 0)) {
        mem = H5Screate_simple(ds.rank, count, NULL);
        if (mem < 0 || H5Sselect_hyperslab(ds.space, H5S_SELECT_SET, start, NULL, count, NULL) < 0)
            DN_TRY(fail_read(f, name, err));
        DN_TRY(read_numbers(f, name, &ds, type, mem, ds.space, buf, err));
    }
    status = DN_OK;
done:
    if (mem >= 0) H5Sclose(mem);
    dn_h5_ds_close(&ds);
    dn_h5_leave();
    return status;
}

/* ---- strings ---- */

static dn_status add_string(const dn_h5 *f, const char *name, uint64_t i, const char *s, size_t len,
                            dn_strs *out, dn_err *err)
{
    if (len > DN_MAX_ID) {
        return dn_fail(err, DN_EFORMAT, "%s: '%s', entry %llu: %zu bytes long, at most %d are allowed",
                       f->path, name, (unsigned long long)i + 1, len, DN_MAX_ID);
    }
    if (memchr(s, 0, len)) {
        return dn_fail(err, DN_EFORMAT, "%s: '%s', entry %llu holds a NUL byte", f->path, name,
                       (unsigned long long)i + 1);
    }
    return dn_strs_add(out, s, len, err);
}

/* Length of a fixed-length string without its padding. */
static size_t fixed_len(const char *s, size_t size, H5T_str_t pad)
{
    size_t n = size;
    if (pad == H5T_STR_NULLTERM) return strnlen(s, size);
    while (n > 0 && s[n - 1] == 0) n--;
    if (pad == H5T_STR_SPACEPAD) {
        while (n > 0 && s[n - 1] == ' ') n--;
    }
    return n;
}

dn_status dn_h5_read_strs(dn_h5 *f, const char *name, dn_strs *out, dn_err *err)
{
    dn_status status;
    dn_h5_ds ds;
    hid_t mem = -1, type = -1;
    char *buf = NULL;
    dn_strs got = {0};
    dn_h5_enter();
    DN_TRY(dn_h5_ds_open(f, name, &ds, err));
    if (H5Tget_class(ds.type) != H5T_STRING)
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: '%s' does not hold text", f->path, name));
    if (ds.rank != 1)
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: '%s' has rank %d, expected a list", f->path, name, ds.rank));
    bool variable = H5Tis_variable_str(ds.type) > 0;
    size_t item = H5Tget_size(ds.type);
    H5T_str_t pad = H5Tget_strpad(ds.type);
    if (item == 0 || (!variable && item > 16 * DN_MAX_ID)) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: '%s' holds texts of %zu bytes, at most %d are allowed", f->path,
                       name, item, DN_MAX_ID));
    }
    type = H5Tcopy(ds.type);
    uint64_t block = (1u << 20) / item;
    if (block == 0) block = 1;
    if (block > ds.n) block = ds.n;
    DN_TRY(dn_alloc(&buf, block, item, name, err));
    for (hsize_t at = 0; at < ds.n; at += block) {
        hsize_t count = ds.n - at < block ? ds.n - at : block;
        mem = H5Screate_simple(1, &count, NULL);
        if (mem < 0 || H5Sselect_hyperslab(ds.space, H5S_SELECT_SET, &at, NULL, &count, NULL) < 0 ||
            H5Dread(ds.id, type, mem, ds.space, H5P_DEFAULT, buf) < 0) {
            DN_TRY(fail_read(f, name, err));
        }
        status = DN_OK;
        for (hsize_t i = 0; i < count && status == DN_OK; i++) {
            if (variable) {
                const char *s = ((char **)(void *)buf)[i];
                status = add_string(f, name, at + i, s ? s : "", s ? strlen(s) : 0, &got, err);
            } else {
                const char *s = buf + i * item;
                status = add_string(f, name, at + i, s, fixed_len(s, item, pad), &got, err);
            }
        }
        if (variable) H5Dvlen_reclaim(type, mem, H5P_DEFAULT, buf);
        H5Sclose(mem);
        mem = -1;
        if (status != DN_OK) goto done;
    }
    dn_strs_free(out);
    *out = got;
    memset(&got, 0, sizeof got);
    status = DN_OK;
done:
    dn_strs_free(&got);
    free(buf);
    if (mem >= 0) H5Sclose(mem);
    if (type >= 0) H5Tclose(type);
    dn_h5_ds_close(&ds);
    dn_h5_leave();
    return status;
}

/* ---- attributes ---- */

bool dn_h5_has_attr(const dn_h5 *f, const char *obj, const char *name)
{
    hid_t o;
    dn_h5_enter();
    bool yes = dn_h5_open_object(f, obj, &o, NULL) == DN_OK && H5Aexists(o, name) > 0;
    if (o >= 0) H5Oclose(o);
    dn_h5_leave();
    return yes;
}

/* Opens a scalar (or one-item) attribute. */
static dn_status open_attr(const dn_h5 *f, const char *obj, const char *name, hid_t *o, hid_t *a, hid_t *type,
                           dn_err *err)
{
    *a = *type = -1;
    dn_status status = dn_h5_open_object(f, obj, o, err);
    if (status != DN_OK) return status;
    htri_t there = H5Aexists(*o, name);
    if (there == 0) return dn_fail(err, DN_EFORMAT, "%s: '%s' has no attribute '%s'", f->path, obj, name);
    if (there > 0) *a = H5Aopen(*o, name, H5P_DEFAULT);
    if (*a >= 0) *type = H5Aget_type(*a);
    hid_t space = *a >= 0 ? H5Aget_space(*a) : -1;
    hssize_t n = space >= 0 ? H5Sget_simple_extent_npoints(space) : -1;
    if (space >= 0) H5Sclose(space);
    if (*type < 0 || n < 0)
        return dn_fail(err, DN_EFORMAT, "%s is damaged at attribute '%s' of '%s': %s", f->path, name, obj,
                       dn_h5_reason());
    if (n != 1)
        return dn_fail(err, DN_EFORMAT, "%s: attribute '%s' of '%s' holds %lld values, expected 1", f->path,
                       name, obj, (long long)n);
    return DN_OK;
}

dn_status dn_h5_read_attr(dn_h5 *f, const char *obj, const char *name, dn_type type, void *value, dn_err *err)
{
    dn_status status;
    hid_t o = -1, a = -1, have = -1;
    dn_h5_enter();
    DN_TRY(open_attr(f, obj, name, &o, &a, &have, err));
    DN_TRY(check_type(f, name, have, type, err));
    if (H5Aread(a, dn_h5_mem_type(type), value) < 0) DN_TRY(fail_read(f, name, err));
    status = DN_OK;
done:
    if (have >= 0) H5Tclose(have);
    if (a >= 0) H5Aclose(a);
    if (o >= 0) H5Oclose(o);
    dn_h5_leave();
    return status;
}

dn_status dn_h5_read_attr_str(dn_h5 *f, const char *obj, const char *name, char **value, dn_err *err)
{
    dn_status status;
    hid_t o = -1, a = -1, have = -1;
    char *buf = NULL, *vl = NULL;
    *value = NULL;
    dn_h5_enter();
    DN_TRY(open_attr(f, obj, name, &o, &a, &have, err));
    if (H5Tget_class(have) != H5T_STRING)
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: attribute '%s' of '%s' is not text", f->path, name, obj));
    if (H5Tis_variable_str(have) > 0) {
        if (H5Aread(a, have, &vl) < 0) DN_TRY(fail_read(f, name, err));
        buf = strdup(vl ? vl : "");
        if (!buf) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    } else {
        size_t n = H5Tget_size(have);
        if (n > MAX_TEXT || n > f->size)
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s is damaged at attribute '%s' of '%s'", f->path, name, obj));
        DN_TRY(dn_alloc(&buf, n + 1, 1, name, err));
        if (H5Aread(a, have, buf) < 0) DN_TRY(fail_read(f, name, err));
        buf[fixed_len(buf, n, H5Tget_strpad(have))] = 0;
    }
    *value = buf;
    buf = NULL;
    status = DN_OK;
done:
    if (vl) H5free_memory(vl);
    free(buf);
    if (have >= 0) H5Tclose(have);
    if (a >= 0) H5Aclose(a);
    if (o >= 0) H5Oclose(o);
    dn_h5_leave();
    return status;
}

/* ---- where the bytes are ---- */

dn_status dn_h5_locate(dn_h5 *f, const char *name, dn_type type, uint64_t *offset, bool *ok, const char **why,
                       dn_err *err)
{
    dn_status status;
    dn_h5_ds ds;
    hid_t plist = -1;
    uint64_t bytes = 0, end = 0;
    *ok = false;
    *why = "";
    *offset = 0;
    dn_h5_enter();
    DN_TRY(dn_h5_ds_open(f, name, &ds, err));
    plist = H5Dget_create_plist(ds.id);
    if (plist < 0) DN_TRY(fail_read(f, name, err));
    haddr_t at = H5Dget_offset(ds.id);
    if (H5Tequal(ds.type, dn_h5_mem_type(type)) <= 0) {
        *why = "its type or byte order is another one";
    } else if (H5Pget_layout(plist) != H5D_CONTIGUOUS) {
        *why = H5Pget_nfilters(plist) > 0 ? "it is stored in compressed chunks" : "it is stored in chunks";
    } else if (at == HADDR_UNDEF) {
        *why = "it was never written";
    } else if (!dn_mul(ds.n, dn_type_size(type), &bytes) || !dn_add(at, bytes, &end) || end > f->size) {
        *why = "it reaches past the end of the file";
    } else {
        *ok = true;
        *offset = at;
    }
    status = DN_OK;
done:
    if (plist >= 0) H5Pclose(plist);
    dn_h5_ds_close(&ds);
    dn_h5_leave();
    return status;
}
