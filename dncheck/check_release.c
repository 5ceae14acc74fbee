/* check_release.c: upstream's published release against itself and against its data (see check_release.h). */
#include "check_release.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model.h"
#include "npz.h"
#include "stats.h"

typedef unsigned long long ull;

bool check_is_release(const char *dir)
{
    char path[4096];
    struct stat sb;
    if ((size_t)snprintf(path, sizeof path, "%s/DN_MODELS", dir) >= sizeof path) return false;
    return stat(path, &sb) == 0 && S_ISDIR(sb.st_mode);
}

/* What a comparison of two arrays found. */
typedef struct {
    uint64_t n_bad, first; /* items that differ; the first one */
    double worst;          /* largest relative difference */
    uint64_t worst_at;
} difference;

static void compare(const double *here, const double *there, uint64_t n, double tolerance, difference *d)
{
    memset(d, 0, sizeof *d);
    for (uint64_t i = 0; i < n; i++) {
        double scale = fmax(fabs(here[i]), fabs(there[i]));
        double rel = scale > 0 ? fabs(here[i] - there[i]) / scale : 0;
        if (rel <= tolerance) continue;
        if (isnan(rel)) rel = INFINITY;
        if (d->n_bad++ == 0) d->first = i;
        if (rel > d->worst) d->worst = rel, d->worst_at = i;
    }
}

/* Compares one array of one npz with what was computed. per_snp: items per SNP. */
static dn_status check_array(findings *f, const char *path, const char *array, const double *here, uint64_t n,
                             uint64_t per_snp, const dn_snps *snps, dn_err *err)
{
    dn_status status;
    dn_npz *z = NULL;
    dn_npy_info info;
    double *there = NULL;
    difference d;
    dn_err e = {0};
    status = dn_npz_open(&z, path, &e);
    if (status == DN_OK) status = dn_npz_read(z, array, DN_F64, (void **)&there, &info, &e);
    if (status != DN_OK) {
        status = found_error(f, err, "release-npz", path, &e);
        goto done;
    }
    if (info.n_items != n) {
        status = found(f, err, FOUND_FAULT, DN_EMISMATCH, "release-npz", path,
                       "%s has %llu numbers; the data give %llu", array, (ull)info.n_items, (ull)n);
        goto done;
    }
    compare(here, there, n, info.item == 4 ? 1e-6 : 1e-10, &d);
    if (d.n_bad == 0) {
        status = found(f, err, FOUND_OK, DN_OK, "release-npz", path,
                       "%s: %llu numbers equal to the recomputed ones", array, (ull)n);
        goto done;
    }
    DN_TRY(found(f, err, FOUND_FAULT, DN_EMISMATCH, "release-npz", path,
                 "%s differs from the recomputed one in %llu of %llu numbers; worst: SNP %s "
                 "(number %llu): %.17g there, %.17g from the data",
                 array, (ull)d.n_bad, (ull)n, dn_strs_get(&snps->id, d.worst_at / per_snp),
                 (ull)(d.worst_at / per_snp), there[d.worst_at], here[d.worst_at]));
    uint64_t last = UINT64_MAX, named = 0;
    for (uint64_t i = d.first; i < n && named < 10; i++) {
        difference one;
        compare(here + i, there + i, 1, info.item == 4 ? 1e-6 : 1e-10, &one);
        if (!one.n_bad || i / per_snp == last) continue;
        last = i / per_snp;
        named++;
        DN_TRY(found(f, err, FOUND_NOTE, DN_OK, "release-npz", path,
                     "%s: SNP %s: %.17g there, %.17g from the data", array, dn_strs_get(&snps->id, last),
                     there[i], here[i]));
    }
done:
    free(there);
    dn_npz_close(z);
    return status;
}

/* Counts of the training set of a fold, a block of people at a time. */
static dn_status count_fold(uint32_t *counts, uint64_t *class_size, uint64_t n_classes, dn_dataset *dataset,
                            const dn_fold *fold, dn_pool *pool, dn_err *err)
{
    enum { STEP = 256 };
    dn_status status;
    const dn_gpk_info *info = dn_dataset_info(dataset);
    uint64_t stride = dn_dataset_row_bytes(dataset), n = fold->n[DN_SPLIT_TRAIN];
    uint8_t *buf = NULL;
    const uint8_t *rows[STEP];
    int64_t label[STEP];
    DN_TRY(dn_alloc_aligned(&buf, STEP, stride, "rows", err));
    for (uint64_t at = 0; at < n; at += STEP) {
        uint64_t k = n - at < STEP ? n - at : STEP;
        for (uint64_t i = 0; i < k; i++) {
            uint64_t person = fold->index[DN_SPLIT_TRAIN][at + i];
            if (info->label[person] < 0) {
                DN_TRY(dn_fail(err, DN_EMISMATCH, "%s is in a training set, but has no label",
                               dn_strs_get(&info->people.iid, person)));
            }
            DN_TRY(dn_dataset_read(dataset, person, 1, buf + i * stride, err));
            rows[i] = buf + i * stride;
            label[i] = info->label[person];
            class_size[label[i]]++;
        }
        DN_TRY(dn_counts_add(counts, info->n_snps, n_classes, rows, label, k, pool, err));
    }
    status = DN_OK;
done:
    free(buf);
    return status;
}

static dn_status check_fold(findings *f, const char *dir, uint64_t fold, dn_dataset *dataset,
                            const dn_split *split, dn_pool *pool, dn_err *err)
{
    dn_status status;
    const dn_gpk_info *info = dn_dataset_info(dataset);
    uint64_t m = info->n_snps, c = info->class_names.n, flat, empty, *size = NULL;
    uint32_t *counts = NULL;
    double *mean = NULL, *sd = NULL, *emb = NULL;
    char path[4096];
    DN_TRY(dn_alloc(&counts, m * c, 3 * sizeof *counts, "counts", err));
    DN_TRY(dn_alloc(&size, c, sizeof *size, "class sizes", err));
    DN_TRY(dn_alloc(&mean, m, sizeof *mean, "means", err));
    DN_TRY(dn_alloc(&sd, m, sizeof *sd, "standard deviations", err));
    DN_TRY(dn_alloc(&emb, m * c, 3 * sizeof *emb, "embedding", err));
    DN_TRY(count_fold(counts, size, c, dataset, &split->folds[fold], pool, err));
    dn_stats(counts, m, c, mean, sd, &flat, &empty);
    dn_embedding(counts, m, c, size, emb);
    snprintf(path, sizeof path, "%s/DN_MODELS/norm_stats_model%llu.npz", dir, (ull)fold + 1);
    DN_TRY(check_array(f, path, "mean", mean, m, 1, &info->snps, err));
    DN_TRY(check_array(f, path, "std", sd, m, 1, &info->snps, err));
    snprintf(path, sizeof path, "%s/DN_MODELS/snps_emb_model%llu.npz", dir, (ull)fold + 1);
    DN_TRY(check_array(f, path, "emb", emb, m * c * 3, c * 3, &info->snps, err));
done:
    free(counts);
    free(size);
    free(mean);
    free(sd);
    free(emb);
    return status;
}

dn_status check_release(findings *f, const char *dir, dn_dataset *dataset, const dn_split *split,
                        const check_opts *o, dn_pool *pool, dn_err *err)
{
    dn_status status;
    dn_model *model = NULL;
    dn_err e = {0};
    dn_model_opts opts = {.snps_only = !o->full, .number_classes = true, .threads = o->threads};
    status = dn_model_open(&model, dir, &opts, &e);
    if (status != DN_OK) {
        status = found_error(f, err, "release", dir, &e);
        goto done;
    }
    if (o->full) {
        DN_TRY(found(f, err, FOUND_OK, DN_OK, "release", dir,
                     "%zu members, %llu SNPs, %llu classes; every weight is finite, no two members are equal",
                     model->n_members, (ull)model->n_snps, (ull)model->n_out));
    } else {
        DN_TRY(found(f, err, FOUND_OK, DN_OK, "release", dir, "%llu SNPs%s; --full reads the weights",
                     (ull)model->n_snps,
                     dn_snps_have_alleles(&model->snps) ? " with alleles" : " without alleles"));
    }
    if (!dataset) goto done;
    const dn_gpk_info *info = dn_dataset_info(dataset);
    if (!info->label) DN_TRY(dn_fail(err, DN_EMISMATCH, "%s has no class labels", dn_dataset_path(dataset)));
    if (!dn_strs_equal(&info->snps.id, &model->snps.id)) {
        status = found(f, err, FOUND_FAULT, DN_EMISMATCH, "release-snps", dir,
                       "the release's SNPs are not those of %s, in this order", dn_dataset_path(dataset));
        goto done;
    }
    DN_TRY(found(f, err, FOUND_OK, DN_OK, "release-snps", dir, "the SNPs of %s, in the same order",
                 dn_dataset_path(dataset)));
    for (uint64_t fold = 0; fold < split->n_folds; fold++)
        DN_TRY(check_fold(f, dir, fold, dataset, split, pool, err));
done:
    dn_model_free(model);
    return status;
}
