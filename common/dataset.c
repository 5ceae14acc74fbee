/* dataset.c: opening dataset.h5 and dataset.gpk alike, and packed rows out of either (see dataset.h). */
#include "dataset_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fingerprint.h"
#include "geno.h"
#include "h5.h"

#define PIECE (1u << 20) /* bytes of int8 read at a time */

struct dn_dataset {
    char *path;
    dn_gpk *gpk; /* one of the two */
    dn_h5 *h5;
    dn_gpk_info own; /* of a .h5 */
    const dn_gpk_info *info;
    uint64_t stride;
    int fd; /* of a .h5 whose `inputs` can be read in place, at `offset`; else -1 */
    uint64_t offset;
    bool has_sum; /* the .h5 carries rows_xxh3 */
    uint64_t rows_sum, fingerprint;
};

/* ---- opening a .h5 ---- */

static dn_status wrong_count(const dn_dataset *d, const char *name, uint64_t have, uint64_t want,
                             const char *of, dn_err *err)
{
    return dn_fail(err, DN_EFORMAT, "dataset %s: '%s' has %llu entries for %llu %s", d->path, name,
                   (unsigned long long)have, (unsigned long long)want, of);
}

static dn_status read_strs(dn_dataset *d, const char *name, dn_strs *to, uint64_t want, const char *of,
                           dn_err *err)
{
    dn_status status = dn_h5_read_strs(d->h5, name, to, err);
    if (status == DN_OK && to->n != want) status = wrong_count(d, name, to->n, want, of, err);
    return status;
}

static dn_status read_inputs_shape(dn_dataset *d, dn_err *err)
{
    dn_status status;
    int rank;
    uint64_t dims[4];
    bool ok;
    const char *why;
    int8_t *row = NULL;
    if (!dn_h5_has(d->h5, "inputs")) {
        const char *what =
            dn_h5_has(d->h5, "snps") || dn_h5_has(d->h5, "fat") ? " (it looks like a model package)" : "";
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s is an HDF5 file without 'inputs', so not a dataset%s", d->path,
                       what));
    }
    DN_TRY(dn_h5_shape(d->h5, "inputs", &rank, dims, err));
    if (rank != 2 || dims[0] == 0 || dims[1] == 0 || dims[0] > DN_MAX_PEOPLE || dims[1] > DN_MAX_SNPS) {
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "dataset %s: 'inputs' should be people x SNPs, but has rank %d and shape %llu x %llu",
                       d->path, rank, (unsigned long long)(rank > 0 ? dims[0] : 0),
                       (unsigned long long)(rank > 1 ? dims[1] : 0)));
    }
    d->own.n_people = dims[0];
    d->own.n_snps = dims[1];
    DN_TRY(dn_h5_locate(d->h5, "inputs", DN_I8, &d->offset, &ok, &why, err));
    if (ok) {
        d->fd = open(d->path, O_RDONLY | O_CLOEXEC);
        if (d->fd < 0) DN_TRY(dn_fail(err, DN_EOPEN, "cannot open %s: %s", d->path, strerror(errno)));
    } else {
        /* A type that cannot become int8 is found now, not in mid-run. */
        DN_TRY(dn_alloc(&row, dims[1], 1, "row of genotypes", err));
        DN_TRY(dn_h5_read_rows(d->h5, "inputs", DN_I8, 0, 1, row, err));
    }
done:
    free(row);
    return status;
}

static dn_status read_labels(dn_dataset *d, dn_err *err)
{
    dn_status status = DN_OK;
    uint64_t n = d->own.n_people;
    bool labels = dn_h5_has(d->h5, "class_labels"), names = dn_h5_has(d->h5, "class_label_names");
    if (labels != names) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "dataset %s has '%s' without '%s'", d->path,
                       labels ? "class_labels" : "class_label_names",
                       labels ? "class_label_names" : "class_labels"));
    }
    if (labels) {
        void *data;
        DN_TRY(dn_h5_read_strs(d->h5, "class_label_names", &d->own.class_names, err));
        uint64_t c = d->own.class_names.n;
        if (c == 0 || c > DN_MAX_CLASSES) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "dataset %s has %llu classes, expected 1 to %llu", d->path,
                           (unsigned long long)c, (unsigned long long)DN_MAX_CLASSES));
        }
        for (uint64_t i = 1; i < c; i++) {
            for (uint64_t j = 0; j < i; j++) {
                if (strcmp(dn_strs_get(&d->own.class_names, i), dn_strs_get(&d->own.class_names, j)) == 0) {
                    DN_TRY(dn_fail(err, DN_EFORMAT, "dataset %s: two classes are named '%s'", d->path,
                                   dn_strs_get(&d->own.class_names, i)));
                }
            }
        }
        DN_TRY(dn_h5_read(d->h5, "class_labels", DN_I64, n, &data, NULL, err));
        d->own.label = data;
        for (uint64_t i = 0; i < n; i++) {
            if (d->own.label[i] < -1 || d->own.label[i] >= (int64_t)c) {
                DN_TRY(
                    dn_fail(err, DN_EFORMAT,
                            "dataset %s: 'class_labels' of person %s (row %llu) is %lld, expected 0 to %llu",
                            d->path, dn_strs_get(&d->own.people.iid, i), (unsigned long long)i + 1,
                            (long long)d->own.label[i], (unsigned long long)c - 1));
            }
        }
    }
    if (dn_h5_has(d->h5, "regression_labels")) {
        void *data;
        DN_TRY(dn_h5_read(d->h5, "regression_labels", DN_F64, n, &data, NULL, err));
        d->own.target = data;
        for (uint64_t i = 0; i < n; i++) {
            if (isinf(d->own.target[i])) {
                DN_TRY(dn_fail(err, DN_EFORMAT,
                               "dataset %s: 'regression_labels' of person %s (row %llu) is infinite", d->path,
                               dn_strs_get(&d->own.people.iid, i), (unsigned long long)i + 1));
            }
        }
    }
done:
    return status;
}

static dn_status read_snps(dn_dataset *d, dn_err *err)
{
    dn_status status;
    uint64_t m = d->own.n_snps;
    dn_snps *s = &d->own.snps;
    const struct {
        const char *name;
        dn_strs *to;
    } ours[] = {{"snp_chrom", &s->chrom}, {"snp_a1", &s->a1}, {"snp_a2", &s->a2}};
    DN_TRY(read_strs(d, "snp_names", &s->id, m, "SNPs", err));
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        if (dn_h5_has(d->h5, ours[i].name)) DN_TRY(read_strs(d, ours[i].name, ours[i].to, m, "SNPs", err));
    }
    if (s->a1.n != s->a2.n)
        DN_TRY(dn_fail(err, DN_EFORMAT, "dataset %s has one of 'snp_a1' and 'snp_a2' alone", d->path));
    if (dn_h5_has(d->h5, "snp_pos")) {
        void *data;
        DN_TRY(dn_h5_read(d->h5, "snp_pos", DN_I64, m, &data, NULL, err));
        s->pos = data;
    }
    status = DN_OK;
done:
    return status;
}

/* Our own files carry a version and checksums; upstream's do not. */
static dn_status check_marks(dn_dataset *d, bool has_fids, dn_err *err)
{
    dn_status status = DN_OK;
    char *format = NULL;
    uint64_t major, sum;
    if (!dn_h5_has_attr(d->h5, "/", "format")) return DN_OK;
    DN_TRY(dn_h5_read_attr_str(d->h5, "/", "format", &format, err));
    if (strcmp(format, DATASET_FORMAT) != 0) goto done;
    DN_TRY(dn_h5_read_attr(d->h5, "/", "version_major", DN_U64, &major, err));
    if (major != DATASET_MAJOR) {
        DN_TRY(dn_fail(err, DN_EUNSUPPORTED,
                       "%s is a dataset of version %llu, this program reads version %d: update dnpipe",
                       d->path, (unsigned long long)major, DATASET_MAJOR));
    }
    if (dn_h5_has_attr(d->h5, "/", "tables_xxh3")) {
        DN_TRY(dn_h5_read_attr(d->h5, "/", "tables_xxh3", DN_U64, &sum, err));
        if (sum != dn_dataset_tables_hash(&d->own, has_fids)) {
            DN_TRY(dn_fail(
                err, DN_EFORMAT,
                "dataset %s: the checksum of its names and labels does not hold: it is damaged, or was "
                "edited (then delete the attribute 'tables_xxh3' of '/')",
                d->path));
        }
    }
    if (dn_h5_has_attr(d->h5, "inputs", "rows_xxh3")) {
        DN_TRY(dn_h5_read_attr(d->h5, "inputs", "rows_xxh3", DN_U64, &d->rows_sum, err));
        d->has_sum = true;
    }
done:
    free(format);
    return status;
}

static dn_status open_h5(dn_dataset *d, dn_err *err)
{
    dn_status status;
    DN_TRY(dn_h5_open(&d->h5, d->path, err));
    DN_TRY(read_inputs_shape(d, err));
    uint64_t n = d->own.n_people;
    DN_TRY(read_strs(d, "samples", &d->own.people.iid, n, "people", err));
    bool has_fids = dn_h5_has(d->h5, "fids");
    if (has_fids)
        DN_TRY(read_strs(d, "fids", &d->own.people.fid, n, "people", err));
    else
        for (uint64_t i = 0; i < n; i++) DN_TRY(dn_strs_add(&d->own.people.fid, "0", 1, err));
    DN_TRY(read_snps(d, err));
    DN_TRY(read_labels(d, err));
    DN_TRY(check_marks(d, has_fids, err));
    d->info = &d->own;
done:
    return status;
}

dn_status dn_dataset_open(dn_dataset **out, const char *path, dn_err *err)
{
    dn_status status;
    dn_dataset *d = NULL;
    dn_kind kind;
    struct stat sb;
    *out = NULL;
    if (strcmp(path, "-") == 0 || (stat(path, &sb) == 0 && (S_ISFIFO(sb.st_mode) || S_ISSOCK(sb.st_mode)))) {
        DN_TRY(dn_fail(err, DN_EUSAGE,
                       "a dataset cannot come through a pipe: it is read more than once; give a file name"));
    }
    DN_TRY(dn_alloc(&d, 1, sizeof *d, "dataset", err));
    d->fd = -1;
    d->path = strdup(path);
    if (!d->path) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    DN_TRY(dn_kind_of_file(path, &kind, err));
    if (kind == DN_KIND_GPK) {
        DN_TRY(dn_gpk_open(&d->gpk, path, err));
        d->info = dn_gpk_get_info(d->gpk);
    } else if (kind == DN_KIND_HDF5) {
        DN_TRY(open_h5(d, err));
    } else {
        const char *what = kind == DN_KIND_BED ? ": make a dataset of it with bed2h5, or gpack --bfile" : "";
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s should be a dataset (.h5 or .gpk), but it is %s%s", path,
                       dn_kind_name(kind), what));
    }
    d->stride = dn_gpk_row_bytes(d->info->n_snps);
    *out = d;
    d = NULL;
done:
    dn_dataset_close(d);
    return status;
}

void dn_dataset_close(dn_dataset *d)
{
    if (!d) return;
    dn_gpk_close(d->gpk);
    dn_h5_close(d->h5);
    dn_gpk_info_free(&d->own);
    if (d->fd >= 0) close(d->fd);
    free(d->path);
    free(d);
}

const dn_gpk_info *dn_dataset_info(const dn_dataset *d)
{
    return d->info;
}
const char *dn_dataset_path(const dn_dataset *d)
{
    return d->path;
}
bool dn_dataset_is_gpk(const dn_dataset *d)
{
    return d->gpk != NULL;
}
uint64_t dn_dataset_row_bytes(const dn_dataset *d)
{
    return d->stride;
}

/* ---- rows ---- */

static dn_status bad_value(const dn_dataset *d, uint64_t person, uint64_t snp, int value, dn_err *err)
{
    return dn_fail(
        err, DN_EFORMAT,
        "dataset %s: 'inputs' holds %d at row %llu (person %s), column %llu (SNP %s); only 0, 1, 2 and "
        "-1 (missing) are genotypes",
        d->path, value, (unsigned long long)person + 1, dn_strs_get(&d->info->people.iid, person),
        (unsigned long long)snp + 1, dn_strs_get(&d->info->snps.id, snp));
}

/* People [first, first + n), columns [col, col + n_cols), col % 4 == 0, into the packed rows at buf. calls:
 * scratch. */
static dn_status read_part(dn_dataset *d, uint64_t first, uint64_t n, uint64_t col, uint64_t n_cols,
                           int8_t *calls, uint8_t *buf, dn_err *err)
{
    dn_status status;
    uint64_t m = d->info->n_snps;
    if (d->fd >= 0)
        DN_TRY(dn_pread_full(d->fd, calls, n * n_cols, d->offset + first * m + col, d->path, err));
    else
        DN_TRY(dn_h5_read_rows(d->h5, "inputs", DN_I8, first, n, calls, err));
    for (uint64_t i = 0; i < n; i++) {
        const int8_t *row = calls + i * n_cols;
        uint64_t bad = dn_geno_pack(row, n_cols, buf + i * d->stride + col / 4);
        if (bad < n_cols) DN_TRY(bad_value(d, first + i, col + bad, row[bad], err));
    }
    status = DN_OK;
done:
    return status;
}

static dn_status read_h5(dn_dataset *d, uint64_t first, uint64_t n, uint8_t *buf, dn_err *err)
{
    dn_status status;
    int8_t *calls = NULL;
    uint64_t m = d->info->n_snps, used = dn_geno_bytes(m);
    /* HDF5 would undo a compressed chunk once per piece: larger pieces there. */
    uint64_t piece = d->fd >= 0 ? PIECE : 32 * (uint64_t)PIECE, rows = piece / m, cols = m;
    if (rows == 0) {
        rows = 1;
        if (d->fd >= 0) cols = piece;
    }
    if (rows > n) rows = n;
    DN_TRY(dn_alloc_aligned(&calls, rows * cols, 1, "rows of genotypes", err));
    for (uint64_t i = 0; i < n; i += rows) {
        uint64_t k = n - i < rows ? n - i : rows;
        uint8_t *to = buf + i * d->stride;
        for (uint64_t c = 0; c < m; c += cols) {
            DN_TRY(read_part(d, first + i, k, c, m - c < cols ? m - c : cols, calls, to, err));
        }
        for (uint64_t r = 0; r < k; r++) memset(to + r * d->stride + used, 0xff, d->stride - used);
    }
    status = DN_OK;
done:
    free(calls);
    return status;
}

/* Rows used in place are checked here, for nobody else reads all of a row before its calls count; those of
 * compressed blocks were checked by their reader. */
static dn_status gpk_rows(dn_dataset *d, uint64_t first, uint64_t n, uint8_t *buf, const uint8_t **rows,
                          dn_err *err)
{
    dn_status status = dn_gpk_rows(d->gpk, first, n, buf, rows, err);
    if (status != DN_OK || d->info->zstd_level > 0) return status;
    return dn_gpk_check_rows(d->gpk, first, n, *rows, err);
}

dn_status dn_dataset_rows(dn_dataset *d, uint64_t first, uint64_t n, uint8_t *buf, const uint8_t **rows,
                          dn_err *err)
{
    if (first > d->info->n_people || n > d->info->n_people - first) {
        return dn_fail(err, DN_EINTERNAL, "dataset %s has %llu people, asked for %llu from %llu", d->path,
                       (unsigned long long)d->info->n_people, (unsigned long long)n,
                       (unsigned long long)first);
    }
    if (d->gpk) return gpk_rows(d, first, n, buf, rows, err);
    *rows = buf;
    return read_h5(d, first, n, buf, err);
}

dn_status dn_dataset_read(dn_dataset *d, uint64_t first, uint64_t n, uint8_t *buf, dn_err *err)
{
    const uint8_t *rows;
    dn_status status = dn_dataset_rows(d, first, n, buf, &rows, err);
    if (status == DN_OK && rows != buf) memcpy(buf, rows, n * d->stride);
    return status;
}

void dn_dataset_release(dn_dataset *d, uint64_t first, uint64_t n)
{
    if (d->gpk) dn_gpk_release(d->gpk, first, n);
}

/* ---- identity ---- */

static dn_status hash_rows(dn_dataset *d, uint64_t *sum, void (*progress)(void *, uint64_t), void *ctx,
                           dn_err *err)
{
    dn_status status;
    dn_row_hash *h = NULL;
    uint8_t *buf = NULL;
    uint64_t n = d->info->n_people, block = (4u << 20) / d->stride + 1;
    DN_TRY(dn_row_hash_new(&h, err));
    DN_TRY(dn_alloc_aligned(&buf, block * d->stride, 1, "rows of genotypes", err));
    for (uint64_t i = 0; i < n; i += block) {
        uint64_t k = n - i < block ? n - i : block;
        DN_TRY(dn_dataset_read(d, i, k, buf, err));
        dn_row_hash_add(h, buf, k * d->stride);
        if (progress) progress(ctx, i + k);
    }
    *sum = dn_row_hash_get(h);
    status = DN_OK;
done:
    dn_row_hash_free(h);
    free(buf);
    return status;
}

dn_status dn_dataset_fingerprint(dn_dataset *d, uint64_t *fingerprint, void (*progress)(void *, uint64_t),
                                 void *ctx, dn_err *err)
{
    dn_status status;
    if (!d->fingerprint && d->gpk) d->fingerprint = dn_gpk_fingerprint(d->gpk);
    if (!d->fingerprint) {
        uint64_t sum = d->rows_sum;
        if (!d->has_sum) DN_TRY(hash_rows(d, &sum, progress, ctx, err));
        d->fingerprint = dn_data_fingerprint(&d->info->people, &d->info->snps, &d->info->class_names,
                                             d->info->label, d->info->target, sum);
    }
    *fingerprint = d->fingerprint;
    status = DN_OK;
done:
    return status;
}

dn_status dn_dataset_verify(dn_dataset *d, size_t threads, bool *checked, void (*progress)(void *, uint64_t),
                            void *ctx, dn_err *err)
{
    dn_status status;
    uint64_t sum;
    *checked = d->gpk || d->has_sum;
    if (d->gpk) return dn_gpk_verify(d->gpk, threads, err);
    DN_TRY(hash_rows(d, &sum, progress, ctx, err)); /* also finds values that are no genotypes */
    if (d->has_sum && sum != d->rows_sum) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "dataset %s is damaged: the checksum of its genotypes does not hold",
                       d->path));
    }
done:
    return status;
}
