/* dataset_write.c: dataset.h5 in upstream's layout, a block of people at a time (see dataset.h). */
#include "dataset_impl.h"

#include <stdlib.h>
#include <string.h>

#include "fingerprint.h"
#include "geno.h"
#include "h5.h"

#define PIECE (1u << 20) /* bytes of int8 written at a time */

struct dn_dataset_writer {
    dn_h5 *f;
    char *path;
    uint64_t n_people, n_snps, n_written, stride;
    dn_row_hash *hash;
    uint8_t *row;   /* one row as it is hashed */
    int8_t *calls;  /* piece_rows x n_snps */
    uint64_t piece; /* rows in a piece */
};

bool dn_dataset_has_fids(const dn_people *p)
{
    for (uint64_t i = 0; i < p->fid.n; i++) {
        if (strcmp(dn_strs_get(&p->fid, i), "0") != 0) return true;
    }
    return false;
}

uint64_t dn_dataset_tables_hash(const dn_gpk_info *info, bool has_fids)
{
    uint64_t n = info->people.iid.n, m = info->snps.id.n;
    const uint64_t part[10] = {
        dn_strs_hash(&info->people.iid),
        has_fids ? dn_strs_hash(&info->people.fid) : 0,
        dn_strs_hash(&info->snps.id),
        info->snps.chrom.n ? dn_strs_hash(&info->snps.chrom) : 0,
        info->snps.pos ? dn_hash(info->snps.pos, m * sizeof *info->snps.pos) : 0,
        info->snps.a1.n ? dn_strs_hash(&info->snps.a1) : 0,
        info->snps.a2.n ? dn_strs_hash(&info->snps.a2) : 0,
        info->label ? dn_strs_hash(&info->class_names) : 0,
        info->label ? dn_hash(info->label, n * sizeof *info->label) : 0,
        info->target ? dn_hash(info->target, n * sizeof *info->target) : 0,
    };
    return dn_hash(part, sizeof part);
}

uint64_t dn_dataset_h5_bytes(const dn_gpk_info *info)
{
    uint64_t n = info->n_people, m = info->n_snps, all = 0;
    if (!dn_mul(n, m, &all)) return UINT64_MAX;
    all += n * (dn_strs_max_len(&info->people.iid) + dn_strs_max_len(&info->people.fid) + 16);
    all += m * (dn_strs_max_len(&info->snps.id) + dn_strs_max_len(&info->snps.chrom) + 8 +
                dn_strs_max_len(&info->snps.a1) + dn_strs_max_len(&info->snps.a2));
    return all + (1u << 14);
}

static dn_status check_info(const dn_gpk_info *info, const char *path, dn_err *err)
{
    uint64_t n = info->n_people, m = info->n_snps;
    if (n == 0 || m == 0 || info->people.iid.n != n || info->people.fid.n != n || info->snps.id.n != m ||
        (info->snps.chrom.n && info->snps.chrom.n != m) || info->snps.a1.n != info->snps.a2.n ||
        (info->snps.a1.n && info->snps.a1.n != m)) {
        return dn_fail(err, DN_EINTERNAL, "dataset %s: tables do not fit (%llu people, %llu SNPs)", path,
                       (unsigned long long)n, (unsigned long long)m);
    }
    return DN_OK;
}

static dn_status write_tables(dn_h5 *f, const dn_gpk_info *info, dn_err *err)
{
    dn_status status;
    bool has_fids = dn_dataset_has_fids(&info->people);
    uint64_t n = info->n_people, m = info->n_snps, major = DATASET_MAJOR, minor = DATASET_MINOR;
    DN_TRY(dn_h5_write_strs(f, "samples", &info->people.iid, err));
    DN_TRY(dn_h5_write_strs(f, "snp_names", &info->snps.id, err));
    if (info->label) {
        DN_TRY(dn_h5_write(f, "class_labels", DN_I64, 1, &n, info->label, err));
        DN_TRY(dn_h5_write_strs(f, "class_label_names", &info->class_names, err));
    }
    if (info->target) DN_TRY(dn_h5_write(f, "regression_labels", DN_F64, 1, &n, info->target, err));
    if (has_fids) DN_TRY(dn_h5_write_strs(f, "fids", &info->people.fid, err));
    if (info->snps.chrom.n) DN_TRY(dn_h5_write_strs(f, "snp_chrom", &info->snps.chrom, err));
    if (info->snps.pos) DN_TRY(dn_h5_write(f, "snp_pos", DN_I64, 1, &m, info->snps.pos, err));
    if (info->snps.a1.n) {
        DN_TRY(dn_h5_write_strs(f, "snp_a1", &info->snps.a1, err));
        DN_TRY(dn_h5_write_strs(f, "snp_a2", &info->snps.a2, err));
    }
    uint64_t sum = dn_dataset_tables_hash(info, has_fids);
    DN_TRY(dn_h5_write_attr_str(f, "/", "format", DATASET_FORMAT, err));
    DN_TRY(dn_h5_write_attr(f, "/", "version_major", DN_U64, &major, err));
    DN_TRY(dn_h5_write_attr(f, "/", "version_minor", DN_U64, &minor, err));
    DN_TRY(dn_h5_write_attr_str(f, "/", "program", "dnpipe " DN_VERSION, err));
    DN_TRY(dn_h5_write_attr(f, "/", "tables_xxh3", DN_U64, &sum, err));
done:
    return status;
}

static void writer_free(dn_dataset_writer *w)
{
    if (!w) return;
    dn_h5_abort(&w->f);
    dn_row_hash_free(w->hash);
    free(w->row);
    free(w->calls);
    free(w->path);
    free(w);
}

dn_status dn_dataset_create(dn_dataset_writer **out, const char *path, const dn_gpk_info *info,
                            unsigned out_flags, dn_err *err)
{
    dn_status status;
    dn_dataset_writer *w = NULL;
    *out = NULL;
    DN_TRY(check_info(info, path, err));
    DN_TRY(dn_alloc(&w, 1, sizeof *w, "dataset", err));
    w->n_people = info->n_people;
    w->n_snps = info->n_snps;
    w->stride = dn_gpk_row_bytes(info->n_snps);
    w->piece = PIECE / info->n_snps ? PIECE / info->n_snps : 1;
    if (w->piece > w->n_people) w->piece = w->n_people;
    w->path = strdup(path);
    if (!w->path) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    DN_TRY(dn_row_hash_new(&w->hash, err));
    DN_TRY(dn_alloc_aligned(&w->row, w->stride, 1, "row", err));
    memset(w->row, 0xff, w->stride);
    DN_TRY(dn_alloc_aligned(&w->calls, w->piece * w->n_snps, 1, "rows of genotypes", err));
    DN_TRY(dn_h5_create(&w->f, path, out_flags, err));
    DN_TRY(dn_out_room(path, dn_dataset_h5_bytes(info), err));
    DN_TRY(dn_h5_create_rows(w->f, "inputs", DN_I8, w->n_people, w->n_snps, err));
    DN_TRY(write_tables(w->f, info, err));
    *out = w;
    w = NULL;
done:
    writer_free(w);
    return status;
}

dn_status dn_dataset_write(dn_dataset_writer *w, const uint8_t *rows, uint64_t row_bytes, uint64_t n,
                           dn_err *err)
{
    dn_status status;
    uint64_t used = dn_geno_bytes(w->n_snps), rest = w->n_snps % 4;
    if (n > w->n_people - w->n_written || row_bytes < used) {
        DN_TRY(dn_fail(err, DN_EINTERNAL, "dataset %s: %llu rows too many", w->path, (unsigned long long)n));
    }
    for (uint64_t done_rows = 0; done_rows < n;) {
        uint64_t now = n - done_rows < w->piece ? n - done_rows : w->piece;
        for (uint64_t i = 0; i < now; i++) {
            const uint8_t *row = rows + (done_rows + i) * row_bytes;
            memcpy(w->row, row, used);
            if (rest) w->row[used - 1] |= (uint8_t)(0xffu << 2 * rest);
            dn_row_hash_add(w->hash, w->row, w->stride);
            dn_geno_unpack(row, 0, w->n_snps, w->calls + i * w->n_snps);
        }
        DN_TRY(dn_h5_write_rows(w->f, "inputs", DN_I8, w->n_written, now, w->calls, err));
        done_rows += now;
        w->n_written += now;
    }
    status = DN_OK;
done:
    return status;
}

dn_status dn_dataset_commit(dn_dataset_writer **wp, dn_err *err)
{
    dn_status status;
    dn_dataset_writer *w = *wp;
    *wp = NULL;
    if (w->n_written != w->n_people) {
        DN_TRY(dn_fail(err, DN_EINTERNAL, "dataset %s: %llu of %llu people were written", w->path,
                       (unsigned long long)w->n_written, (unsigned long long)w->n_people));
    }
    uint64_t sum = dn_row_hash_get(w->hash);
    DN_TRY(dn_h5_write_attr(w->f, "inputs", "rows_xxh3", DN_U64, &sum, err));
    DN_TRY(dn_h5_commit(&w->f, err));
done:
    writer_free(w);
    return status;
}

void dn_dataset_abort(dn_dataset_writer **w)
{
    if (!w) return;
    writer_free(*w);
    *w = NULL;
}
