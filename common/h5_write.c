/* h5_write.c: HDF5 files that appear whole or not at all, with the same bytes for the same contents (see
 * h5.h). */
#include "h5_impl.h"

#include <stdlib.h>
#include <string.h>

static dn_status fail_write(const dn_h5 *f, const char *name, dn_err *err)
{
    return dn_fail(err, DN_EWRITE, "cannot write '%s' of %s: %s", name, f->path, dn_h5_reason());
}

dn_status dn_h5_create(dn_h5 **out, const char *path, unsigned out_flags, dn_err *err)
{
    dn_status status;
    dn_h5 *f = NULL;
    hid_t fapl = -1, fcpl = -1;
    *out = NULL;
    dn_h5_enter();
    if (strcmp(path, "-") == 0) {
        DN_TRY(dn_fail(err, DN_EUSAGE,
                       "an HDF5 file cannot go to a pipe: give -o a file name (a .gpk can be piped)"));
    }
    DN_TRY(dn_alloc(&f, 1, sizeof *f, "HDF5 file", err));
    f->file = -1;
    f->path = strdup(path);
    if (!f->path) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    DN_TRY(dn_out_open(&f->out, path, out_flags | DN_OUT_BINARY, err));
    fapl = H5Pcreate(H5P_FILE_ACCESS);
    fcpl = H5Pcreate(H5P_FILE_CREATE);
    dn_h5_set_access(fapl);
    H5Pset_alignment(fapl, 512, 64); /* so that arrays can be used where they lie in a mapping */
    H5Pset_obj_track_times(fcpl, 0);
    f->file = H5Fcreate(dn_out_tmp_path(f->out), H5F_ACC_TRUNC, fcpl, fapl);
    if (f->file < 0) DN_TRY(dn_fail(err, DN_EWRITE, "cannot write %s: %s", path, dn_h5_reason()));
    *out = f;
    f = NULL;
    status = DN_OK;
done:
    if (fapl >= 0) H5Pclose(fapl);
    if (fcpl >= 0) H5Pclose(fcpl);
    dn_h5_leave();
    dn_h5_close(f);
    return status;
}

dn_status dn_h5_group(dn_h5 *f, const char *name, dn_err *err)
{
    dn_h5_enter();
    hid_t plist = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_obj_track_times(plist, 0);
    hid_t g = H5Gcreate2(f->file, name, H5P_DEFAULT, plist, H5P_DEFAULT);
    dn_status status = g < 0 ? fail_write(f, name, err) : DN_OK;
    if (g >= 0) H5Gclose(g);
    H5Pclose(plist);
    dn_h5_leave();
    return status;
}

/* Creates a contiguous dataset, its space allocated now and not filled. */
static dn_status create(dn_h5 *f, const char *name, hid_t type, int rank, const uint64_t *dims, hid_t *id,
                        dn_err *err)
{
    dn_status status;
    hsize_t h[4];
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE), space = -1;
    *id = -1;
    for (int i = 0; i < rank && i < 4; i++) h[i] = dims[i];
    space = rank ? H5Screate_simple(rank, h, NULL) : H5Screate(H5S_SCALAR);
    if (space < 0 || plist < 0 || H5Pset_layout(plist, H5D_CONTIGUOUS) < 0 ||
        H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY) < 0 ||
        H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER) < 0 || H5Pset_obj_track_times(plist, 0) < 0) {
        DN_TRY(dn_fail(err, DN_EINTERNAL, "cannot describe '%s' of %s: %s", name, f->path, dn_h5_reason()));
    }
    *id = H5Dcreate2(f->file, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    if (*id < 0) DN_TRY(fail_write(f, name, err));
    status = DN_OK;
done:
    if (space >= 0) H5Sclose(space);
    if (plist >= 0) H5Pclose(plist);
    return status;
}

dn_status dn_h5_write(dn_h5 *f, const char *name, dn_type type, int rank, const uint64_t *dims,
                      const void *data, dn_err *err)
{
    dn_status status;
    hid_t id = -1;
    uint64_t n = 1;
    dn_h5_enter();
    if (rank < 0 || rank > 4) DN_TRY(dn_fail(err, DN_EINTERNAL, "'%s' of %s: rank %d", name, f->path, rank));
    for (int i = 0; i < rank; i++) n = dims[i] ? n : 0;
    DN_TRY(create(f, name, dn_h5_file_type(type), rank, dims, &id, err));
    if (n > 0 && H5Dwrite(id, dn_h5_mem_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
        DN_TRY(fail_write(f, name, err));
    status = DN_OK;
done:
    if (id >= 0 && H5Dclose(id) < 0 && status == DN_OK) status = fail_write(f, name, err);
    dn_h5_leave();
    return status;
}

dn_status dn_h5_create_empty(dn_h5 *f, const char *name, dn_type type, int rank, const uint64_t *dims,
                             dn_err *err)
{
    dn_status status;
    hid_t id = -1;
    dn_h5_enter();
    if (rank < 1 || rank > 4) DN_TRY(dn_fail(err, DN_EINTERNAL, "'%s' of %s: rank %d", name, f->path, rank));
    DN_TRY(create(f, name, dn_h5_file_type(type), rank, dims, &id, err));
done:
    if (id >= 0 && H5Dclose(id) < 0 && status == DN_OK) status = fail_write(f, name, err);
    dn_h5_leave();
    return status;
}

dn_status dn_h5_create_rows(dn_h5 *f, const char *name, dn_type type, uint64_t n_rows, uint64_t n_cols,
                            dn_err *err)
{
    uint64_t dims[2] = {n_rows, n_cols};
    return dn_h5_create_empty(f, name, type, 2, dims, err);
}

/* count == NULL: n_rows whole rows of a dataset of rank 2 from row *start. */
static dn_status write_box(dn_h5 *f, const char *name, dn_type type, const uint64_t *start,
                           const uint64_t *count, uint64_t n_rows, const void *data, dn_err *err)
{
    dn_status status;
    hid_t id = -1, space = -1, mem = -1;
    hsize_t dims[4] = {0}, from[4] = {0}, size[4] = {0};
    dn_h5_enter();
    id = H5Dopen2(f->file, name, H5P_DEFAULT);
    if (id >= 0) space = H5Dget_space(id);
    int rank = space >= 0 ? H5Sget_simple_extent_ndims(space) : -1;
    bool fits = rank >= 1 && rank <= 4 && (count || rank == 2) &&
                H5Sget_simple_extent_dims(space, dims, NULL) >= 0,
         empty = false;
    for (int i = 0; fits && i < rank; i++) {
        from[i] = count || i == 0 ? start[i] : 0;
        size[i] = count ? count[i] : i == 0 ? n_rows : dims[i];
        if (from[i] > dims[i] || size[i] > dims[i] - from[i]) fits = false;
        if (size[i] == 0) empty = true;
    }
    if (!fits) {
        DN_TRY(dn_fail(err, DN_EINTERNAL, "'%s' of %s: rows from %llu do not fit", name, f->path,
                       (unsigned long long)start[0]));
    }
    if (!empty) {
        mem = H5Screate_simple(rank, size, NULL);
        if (mem < 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, from, NULL, size, NULL) < 0 ||
            H5Dwrite(id, dn_h5_mem_type(type), mem, space, H5P_DEFAULT, data) < 0) {
            DN_TRY(fail_write(f, name, err));
        }
    }
    status = DN_OK;
done:
    if (mem >= 0) H5Sclose(mem);
    if (space >= 0) H5Sclose(space);
    if (id >= 0 && H5Dclose(id) < 0 && status == DN_OK) status = fail_write(f, name, err);
    dn_h5_leave();
    return status;
}

dn_status dn_h5_write_rows(dn_h5 *f, const char *name, dn_type type, uint64_t row, uint64_t n_rows,
                           const void *data, dn_err *err)
{
    return write_box(f, name, type, &row, NULL, n_rows, data, err);
}

dn_status dn_h5_write_box(dn_h5 *f, const char *name, dn_type type, const uint64_t *start,
                          const uint64_t *count, const void *data, dn_err *err)
{
    return write_box(f, name, type, start, count, 0, data, err);
}

/* A string type like h5py's 'S<size>'. */
static hid_t fixed_string(size_t size)
{
    hid_t t = H5Tcopy(H5T_C_S1);
    H5Tset_size(t, size ? size : 1);
    H5Tset_strpad(t, H5T_STR_NULLPAD);
    return t;
}

dn_status dn_h5_write_strs(dn_h5 *f, const char *name, const dn_strs *s, dn_err *err)
{
    dn_status status;
    hid_t id = -1, space = -1, mem = -1, type = -1;
    char *buf = NULL;
    size_t size = dn_strs_max_len(s);
    if (size == 0) size = 1;
    dn_h5_enter();
    type = fixed_string(size);
    DN_TRY(create(f, name, type, 1, &s->n, &id, err));
    /* In pieces: 500,000 IDs with one of 4,096 bytes would take 2 GB at once. */
    uint64_t block = (1u << 20) / size + 1;
    DN_TRY(dn_alloc(&buf, block, size, name, err));
    space = H5Dget_space(id);
    for (hsize_t at = 0; at < s->n; at += block) {
        hsize_t count = s->n - at < block ? s->n - at : block;
        memset(buf, 0, count * size);
        for (hsize_t i = 0; i < count; i++) {
            const char *p = dn_strs_get(s, at + i);
            memcpy(buf + i * size, p, strlen(p));
        }
        mem = H5Screate_simple(1, &count, NULL);
        if (mem < 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, NULL, &count, NULL) < 0 ||
            H5Dwrite(id, type, mem, space, H5P_DEFAULT, buf) < 0) {
            DN_TRY(fail_write(f, name, err));
        }
        H5Sclose(mem);
        mem = -1;
    }
    status = DN_OK;
done:
    free(buf);
    if (mem >= 0) H5Sclose(mem);
    if (space >= 0) H5Sclose(space);
    if (type >= 0) H5Tclose(type);
    if (id >= 0 && H5Dclose(id) < 0 && status == DN_OK) status = fail_write(f, name, err);
    dn_h5_leave();
    return status;
}

static dn_status write_attr(dn_h5 *f, const char *obj, const char *name, hid_t file_type, hid_t mem_type,
                            const void *value, dn_err *err)
{
    dn_status status;
    hid_t o = -1, space = -1, a = -1;
    o = H5Oopen(f->file, obj, H5P_DEFAULT);
    space = H5Screate(H5S_SCALAR);
    if (o >= 0 && space >= 0) a = H5Acreate2(o, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (a < 0 || H5Awrite(a, mem_type, value) < 0) DN_TRY(fail_write(f, name, err));
    status = DN_OK;
done:
    if (a >= 0) H5Aclose(a);
    if (space >= 0) H5Sclose(space);
    if (o >= 0) H5Oclose(o);
    return status;
}

dn_status dn_h5_write_attr(dn_h5 *f, const char *obj, const char *name, dn_type type, const void *value,
                           dn_err *err)
{
    dn_h5_enter();
    dn_status status = write_attr(f, obj, name, dn_h5_file_type(type), dn_h5_mem_type(type), value, err);
    dn_h5_leave();
    return status;
}

dn_status dn_h5_write_attr_str(dn_h5 *f, const char *obj, const char *name, const char *value, dn_err *err)
{
    dn_h5_enter();
    hid_t type = fixed_string(strlen(value));
    dn_status status = write_attr(f, obj, name, type, type, value, err);
    H5Tclose(type);
    dn_h5_leave();
    return status;
}

dn_status dn_h5_commit(dn_h5 **fp, dn_err *err)
{
    dn_status status;
    dn_h5 *f = *fp;
    *fp = NULL;
    dn_h5_enter();
    if (H5Fflush(f->file, H5F_SCOPE_GLOBAL) < 0)
        DN_TRY(dn_fail(err, DN_EWRITE, "cannot write %s: %s", f->path, dn_h5_reason()));
    hid_t file = f->file;
    f->file = -1;
    if (H5Fclose(file) < 0) DN_TRY(dn_fail(err, DN_EWRITE, "cannot write %s: %s", f->path, dn_h5_reason()));
    DN_TRY(dn_out_commit(&f->out, err));
done:
    dn_h5_leave();
    dn_h5_close(f);
    return status;
}
