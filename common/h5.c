/* h5.c: HDF5 set up our way: no file locks, no plugins, no printing; opening, walking and checking (see
 * h5.h). Reading is in h5_read.c, writing in h5_write.c. */
#include "h5_impl.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A compressed chunk is at least a thousandth of its contents (deflate's limit is 1032:1): a dataset that
 * claims more than this many bytes per stored byte is a lie, and is refused before anything is allocated for
 * it. */
#define MAX_RATIO 1100u

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void set_up(void)
{
    /* Older libraries know only the variable, and take it over the property; it must be there before the
     * first call. */
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
    /* Files are closed by us; the library's own exit handler loops and prints after a full disk. */
    H5dont_atexit();
    H5open();
    /* A file must not be able to name code to load. */
    H5PLset_loading_state(0);
}

void dn_h5_enter(void)
{
    pthread_once(&once, set_up);
    pthread_mutex_lock(&mutex);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    H5Eclear2(H5E_DEFAULT);
}

void dn_h5_leave(void)
{
    pthread_mutex_unlock(&mutex);
}

static herr_t keep_first(unsigned n, const H5E_error2_t *e, void *ctx)
{
    char *buf = ctx;
    if (n == 0 && e->desc) snprintf(buf, 512, "%s", e->desc);
    return 0;
}

void dn_h5_forked(void)
{
    pthread_mutex_init(&mutex, NULL);
}

void dn_h5_set_access(hid_t fapl)
{
#if H5_VERSION_GE(1, 14, 0) || (H5_VERS_MINOR == 10 && H5_VERS_RELEASE >= 7) ||                              \
    (H5_VERS_MINOR == 12 && H5_VERS_RELEASE >= 1)
    H5Pset_file_locking(fapl, 0, 1);
#endif
    /* Objects that a failure left open must not keep the file open. */
    H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG);
}

const char *dn_h5_reason(void)
{
    static _Thread_local char buf[512];
    snprintf(buf, sizeof buf, "no reason given by HDF5");
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, buf);
    /* "file write failed: time = ..., errno = 28, error message = 'No space left on device', buf = 0x..." */
    char *m = strstr(buf, "error message = '");
    if (m) {
        m += strlen("error message = '");
        char *end = strchr(m, '\'');
        if (end) *end = 0;
        memmove(buf, m, strlen(m) + 1);
    }
    return buf;
}

size_t dn_type_size(dn_type t)
{
    static const size_t size[] = {1, 1, 4, 4, 8, 8, 4, 8};
    return size[t];
}

hid_t dn_h5_mem_type(dn_type t)
{
    switch (t) {
    case DN_I8: return H5T_NATIVE_INT8;
    case DN_U8: return H5T_NATIVE_UINT8;
    case DN_I32: return H5T_NATIVE_INT32;
    case DN_U32: return H5T_NATIVE_UINT32;
    case DN_I64: return H5T_NATIVE_INT64;
    case DN_U64: return H5T_NATIVE_UINT64;
    case DN_F32: return H5T_NATIVE_FLOAT;
    case DN_F64: break;
    }
    return H5T_NATIVE_DOUBLE;
}

hid_t dn_h5_file_type(dn_type t)
{
    switch (t) {
    case DN_I8: return H5T_STD_I8LE;
    case DN_U8: return H5T_STD_U8LE;
    case DN_I32: return H5T_STD_I32LE;
    case DN_U32: return H5T_STD_U32LE;
    case DN_I64: return H5T_STD_I64LE;
    case DN_U64: return H5T_STD_U64LE;
    case DN_F32: return H5T_IEEE_F32LE;
    case DN_F64: break;
    }
    return H5T_IEEE_F64LE;
}

void dn_h5_version(char buf[32])
{
    unsigned a = 0, b = 0, c = 0;
    dn_h5_enter();
    H5get_libversion(&a, &b, &c);
    dn_h5_leave();
    snprintf(buf, 32, "%u.%u.%u", a, b, c);
}

/* ---- opening ---- */

static void h5_free(dn_h5 *f)
{
    if (!f) return;
    if (f->file >= 0) H5Fclose(f->file);
    dn_out_abort(&f->out);
    free(f->path);
    free(f);
}

hid_t dn_h5_open_file(const char *path, uint64_t *size)
{
    struct stat sb;
    *size = stat(path, &sb) == 0 ? (uint64_t)sb.st_size : 0;
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    if (fapl < 0) return -1;
    dn_h5_set_access(fapl);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, fapl);
    if (file >= 0) H5Pclose(fapl); /* after a failure, closing would clear the reason */
    return file;
}

dn_status dn_h5_open(dn_h5 **out, const char *path, dn_err *err)
{
    dn_status status;
    dn_h5 *f = NULL;
    dn_kind kind;
    *out = NULL;
    dn_h5_enter();
    DN_TRY(dn_kind_of_file(path, &kind, err));
    if (kind != DN_KIND_HDF5) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s should be an HDF5 file, but it is %s", path, dn_kind_name(kind)));
    }
    DN_TRY(dn_h5_probe(path, err));
    DN_TRY(dn_alloc(&f, 1, sizeof *f, "HDF5 file", err));
    f->file = -1;
    f->path = strdup(path);
    if (!f->path) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    f->file = dn_h5_open_file(path, &f->size);
    if (f->file < 0) {
        const char *why = dn_h5_reason();
        if (strstr(why, "unable to lock")) {
            DN_TRY(dn_fail(err, DN_EOPEN, "cannot open %s: %s: set HDF5_USE_FILE_LOCKING=FALSE in the job",
                           path, why));
        }
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s is an HDF5 file, but damaged or truncated: %s", path, why));
    }
    *out = f;
    f = NULL;
    status = DN_OK;
done:
    h5_free(f);
    dn_h5_leave();
    return status;
}

void dn_h5_close(dn_h5 *f)
{
    if (!f) return;
    dn_h5_enter();
    h5_free(f);
    dn_h5_leave();
}

void dn_h5_abort(dn_h5 **f)
{
    if (!f || !*f) return;
    dn_h5_close(*f);
    *f = NULL;
}

const char *dn_h5_path(const dn_h5 *f)
{
    return f->path;
}

/* ---- walking ---- */

/* Is there an object of that path, reached by hard links only? 1 yes, 0 no, -1 damaged, -2 another kind of
 * link. */
static int walk(const dn_h5 *f, const char *name)
{
    char part[1024];
    while (*name == '/') name++;
    if (!*name) return 1;
    if (strlen(name) >= sizeof part) return 0;
    for (const char *p = name;;) {
        const char *slash = strchr(p, '/');
        size_t n = slash ? (size_t)(slash - name) : strlen(name);
        memcpy(part, name, n);
        part[n] = 0;
        htri_t there = H5Lexists(f->file, part, H5P_DEFAULT);
        if (there <= 0) return there < 0 ? -1 : 0;
        H5L_info_t info;
        if (H5Lget_info(f->file, part, &info, H5P_DEFAULT) < 0) return -1;
        if (info.type != H5L_TYPE_HARD) return -2;
        if (!slash) return 1;
        p = slash + 1;
    }
}

bool dn_h5_has(const dn_h5 *f, const char *name)
{
    dn_h5_enter();
    bool yes = walk(f, name) == 1;
    dn_h5_leave();
    return yes;
}

dn_status dn_h5_open_object(const dn_h5 *f, const char *name, hid_t *out, dn_err *err)
{
    *out = -1;
    switch (walk(f, name)) {
    case 1: break;
    case 0: return dn_fail(err, DN_EFORMAT, "%s holds no '%s'", f->path, name);
    case -2:
        return dn_fail(err, DN_EFORMAT,
                       "%s: '%s' is a soft or external link: only data inside the file are read", f->path,
                       name);
    default: return dn_fail(err, DN_EFORMAT, "%s is damaged at '%s': %s", f->path, name, dn_h5_reason());
    }
    *out = H5Oopen(f->file, *name ? name : "/", H5P_DEFAULT);
    if (*out < 0) return dn_fail(err, DN_EFORMAT, "%s is damaged at '%s': %s", f->path, name, dn_h5_reason());
    return DN_OK;
}

dn_status dn_h5_open_dataset(const dn_h5 *f, const char *name, hid_t *out, dn_err *err)
{
    dn_status status = dn_h5_open_object(f, name, out, err);
    if (status != DN_OK) return status;
    if (H5Iget_type(*out) == H5I_DATASET) return DN_OK;
    H5Oclose(*out);
    *out = -1;
    return dn_fail(err, DN_EFORMAT, "%s: '%s' is not a dataset", f->path, name);
}

/* Filters this build cannot undo, and data kept outside this file. */
static dn_status check_storage(const dn_h5 *f, const char *name, const dn_h5_ds *ds, dn_err *err)
{
    dn_status status;
    uint64_t bytes, stored, bound;
    bool filtered = false;
    hid_t plist = H5Dget_create_plist(ds->id);
    if (plist < 0)
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s is damaged at '%s': %s", f->path, name, dn_h5_reason()));
    H5D_layout_t layout = H5Pget_layout(plist);
    if (layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED && layout != H5D_COMPACT) {
        DN_TRY(dn_fail(err, DN_EUNSUPPORTED,
                       "%s: '%s' is a virtual dataset: copy the data into one file first", f->path, name));
    }
    if (layout == H5D_CONTIGUOUS && H5Pget_external_count(plist) != 0) {
        DN_TRY(dn_fail(err, DN_EUNSUPPORTED,
                       "%s: '%s' is kept in an external file: copy the data into one file first", f->path,
                       name));
    }
    int n_filters = layout == H5D_CHUNKED ? H5Pget_nfilters(plist) : 0;
    for (int i = 0; i < n_filters; i++) {
        unsigned flags = 0, config = 0;
        size_t n_values = 0;
        char filter_name[64] = "";
        H5Z_filter_t id = H5Pget_filter2(plist, (unsigned)i, &flags, &n_values, NULL, sizeof filter_name,
                                         filter_name, &config);
        filtered = true;
        if (id < 0 || H5Zfilter_avail(id) <= 0) {
            DN_TRY(dn_fail(err, DN_EUNSUPPORTED,
                           "%s: '%s' is compressed with '%s' (filter %d), which this HDF5 library lacks: "
                           "rewrite it with gzip or without compression",
                           f->path, name, filter_name, (int)id));
        }
    }
    size_t item = H5Tget_size(ds->type);
    if (!dn_mul(ds->n, item, &bytes)) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s is damaged: '%s' claims %llu items of %zu bytes", f->path, name,
                       (unsigned long long)ds->n, item));
    }
    stored = H5Dget_storage_size(ds->id);
    if (bytes > 0 && stored == 0) {
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s: '%s' was never written: the program that made the file did not finish", f->path,
                       name));
    }
    if (layout == H5D_CHUNKED) {
        if (!filtered)
            bound =
                stored; /* chunks at the edges are stored whole: stored >= bytes unless some are missing */
        else if (!dn_mul(stored, MAX_RATIO, &bound))
            bound = UINT64_MAX;
    } else {
        bound = stored;
    }
    if (stored > f->size || bytes > bound) {
        DN_TRY(dn_fail(
            err, DN_EFORMAT,
            "%s is damaged or incomplete: '%s' claims %llu bytes, the file (%llu bytes) holds %llu of them",
            f->path, name, (unsigned long long)bytes, (unsigned long long)f->size,
            (unsigned long long)stored));
    }
    if (layout == H5D_CONTIGUOUS && bytes > 0) {
        haddr_t at = H5Dget_offset(ds->id);
        uint64_t end;
        if (at == HADDR_UNDEF || !dn_add(at, bytes, &end) || end > f->size) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s is truncated: '%s' reaches past its end (%llu bytes)",
                           f->path, name, (unsigned long long)f->size));
        }
    }
    status = DN_OK;
done:
    if (plist >= 0) H5Pclose(plist);
    return status;
}

dn_status dn_h5_ds_open(const dn_h5 *f, const char *name, dn_h5_ds *ds, dn_err *err)
{
    dn_status status;
    hsize_t dims[4] = {0};
    *ds = (dn_h5_ds){.id = -1, .type = -1, .space = -1, .n = 1};
    DN_TRY(dn_h5_open_dataset(f, name, &ds->id, err));
    ds->type = H5Dget_type(ds->id);
    ds->space = H5Dget_space(ds->id);
    if (ds->type < 0 || ds->space < 0) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s is damaged at '%s': %s", f->path, name, dn_h5_reason()));
    }
    H5S_class_t kind = H5Sget_simple_extent_type(ds->space);
    ds->rank = H5Sget_simple_extent_ndims(ds->space);
    if ((kind != H5S_SIMPLE && kind != H5S_SCALAR) || ds->rank < 0 || ds->rank > 4) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: '%s' has no usable shape (rank %d)", f->path, name, ds->rank));
    }
    if (ds->rank > 0 && H5Sget_simple_extent_dims(ds->space, dims, NULL) < 0) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s is damaged at '%s': %s", f->path, name, dn_h5_reason()));
    }
    for (int i = 0; i < ds->rank; i++) {
        ds->dims[i] = dims[i];
        if (!dn_mul(ds->n, dims[i], &ds->n)) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s is damaged: the size of '%s' does not fit in 64 bits",
                           f->path, name));
        }
    }
    DN_TRY(check_storage(f, name, ds, err));
done:
    if (status != DN_OK) dn_h5_ds_close(ds);
    return status;
}

void dn_h5_ds_close(dn_h5_ds *ds)
{
    if (ds->space >= 0) H5Sclose(ds->space);
    if (ds->type >= 0) H5Tclose(ds->type);
    if (ds->id >= 0) H5Dclose(ds->id);
    *ds = (dn_h5_ds){.id = -1, .type = -1, .space = -1};
}

dn_status dn_h5_shape(dn_h5 *f, const char *name, int *rank, uint64_t dims[4], dn_err *err)
{
    dn_h5_ds ds;
    dn_h5_enter();
    dn_status status = dn_h5_ds_open(f, name, &ds, err);
    if (status == DN_OK) {
        *rank = ds.rank;
        memcpy(dims, ds.dims, sizeof ds.dims);
        dn_h5_ds_close(&ds);
    }
    dn_h5_leave();
    return status;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

#define MAX_MEMBERS (1u << 16)

dn_status dn_h5_list(dn_h5 *f, const char *group, dn_strs *names, dn_err *err)
{
    dn_status status;
    hid_t g = -1;
    H5G_info_t info;
    char **name = NULL;
    uint64_t n = 0;
    dn_h5_enter();
    DN_TRY(dn_h5_open_object(f, group, &g, err));
    if (H5Iget_type(g) != H5I_GROUP)
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: '%s' is not a group", f->path, group));
    if (H5Gget_info(g, &info) < 0 || info.nlinks > MAX_MEMBERS) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s is damaged at group '%s'", f->path, group));
    }
    DN_TRY(dn_alloc(&name, info.nlinks, sizeof *name, "group members", err));
    for (; n < info.nlinks; n++) {
        ssize_t len = H5Lget_name_by_idx(g, ".", H5_INDEX_NAME, H5_ITER_NATIVE, n, NULL, 0, H5P_DEFAULT);
        if (len < 0 || len > DN_MAX_ID)
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s is damaged at group '%s'", f->path, group));
        DN_TRY(dn_alloc(&name[n], (size_t)len + 1, 1, "group member", err));
        if (H5Lget_name_by_idx(g, ".", H5_INDEX_NAME, H5_ITER_NATIVE, n, name[n], (size_t)len + 1,
                               H5P_DEFAULT) < 0) {
            n++;
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s is damaged at group '%s'", f->path, group));
        }
    }
    qsort(name, n, sizeof *name, by_bytes);
    for (uint64_t i = 0; i < n; i++) DN_TRY(dn_strs_add(names, name[i], strlen(name[i]), err));
    status = DN_OK;
done:
    if (name) {
        for (uint64_t i = 0; i < n; i++) free(name[i]);
    }
    free(name);
    if (g >= 0) H5Oclose(g);
    dn_h5_leave();
    return status;
}
