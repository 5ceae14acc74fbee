/* dntrain_data.c: the people of one fold, their labels and their packed rows (see dntrain_data.h). */
#include "dntrain_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "stats.h"

enum { BLOCK = 1024 }; /* people at a time where order does not matter */

/* ---- opening ---- */

static void show_progress(void *ctx, uint64_t done)
{
    (void)ctx;
    dn_progress(done);
}

static dn_status check_fold(const train_data *d, const train_options *o, const train_task *t, dn_err *err)
{
    unsigned long long fold = (unsigned long long)t->fold;
    if (d->n[DN_SPLIT_TRAIN] < 2) {
        return dn_fail(
            err, DN_ENUMERIC,
            "%s: the training set of fold %llu is of size %llu: batch normalisation needs 2 people or more",
            o->split, fold, (unsigned long long)d->n[DN_SPLIT_TRAIN]);
    }
    if (d->n[DN_SPLIT_VALID] == 0) {
        return dn_fail(err, DN_ENUMERIC,
                       "%s: the validation set of fold %llu is empty: without it no best model can be chosen",
                       o->split, fold);
    }
    return DN_OK;
}

static dn_status load_split(train_data *d, const train_options *o, const train_task *t, dn_err *err)
{
    dn_status status;
    dn_split *split = NULL;
    DN_TRY(dn_split_read(&split, o->split, err));
    if (t->fold >= split->n_folds) {
        DN_TRY(dn_fail(err, DN_EUSAGE, "fold %llu: %s has %llu folds, numbered from 0",
                       (unsigned long long)t->fold, o->split, (unsigned long long)split->n_folds));
    }
    if (split->data_hash != d->data_hash) {
        DN_TRY(dn_fail(err, DN_EMISMATCH,
                       "%s was made for another dataset (fingerprint %016llx) than %s (%016llx): people, "
                       "SNPs, labels or genotypes "
                       "differ. Make a split of this one with dnsplit",
                       o->split, (unsigned long long)split->data_hash, o->data,
                       (unsigned long long)d->data_hash));
    }
    /* The fingerprint covers the people, so this cannot differ in an honest file. */
    if (split->n_people != d->info->n_people) {
        DN_TRY(dn_fail(err, DN_EMISMATCH, "%s is a split of %llu people, %s has %llu", o->split,
                       (unsigned long long)split->n_people, o->data, (unsigned long long)d->info->n_people));
    }
    d->split_hash = split->hash;
    dn_fold *f = &split->folds[t->fold];
    for (int s = 0; s < DN_SPLIT_SETS; s++) {
        d->n[s] = f->n[s];
        d->index[s] = f->index[s];
        f->index[s] = NULL;
    }
    status = DN_OK;
done:
    dn_split_free(split);
    return status;
}

/* For messages: "F1 S1 (person 12)". */
static dn_status bad_person(const train_data *d, uint64_t p, const char *path, const char *what, dn_err *err)
{
    return dn_fail(err, DN_EMISMATCH, "%s: %s %s (person %llu) %s", path,
                   dn_strs_get(&d->info->people.fid, p), dn_strs_get(&d->info->people.iid, p),
                   (unsigned long long)p + 1, what);
}

static dn_status check_classes(train_data *d, const train_options *o, dn_err *err)
{
    const dn_gpk_info *info = d->info;
    if (!info->label || info->class_names.n == 0) {
        return dn_fail(err, DN_EMISMATCH, "%s has no class labels%s", o->data,
                       info->target ? ": for its regression labels give --task-type regression" : "");
    }
    if (info->class_names.n < 2) {
        return dn_fail(err, DN_ENUMERIC, "%s has one class, \"%s\": there is nothing to learn", o->data,
                       dn_strs_get(&info->class_names, 0));
    }
    d->n_out = d->n_embed_classes = info->class_names.n;
    for (int s = 0; s < DN_SPLIT_SETS; s++) {
        for (uint64_t i = 0; i < d->n[s]; i++) {
            if (info->label[d->index[s][i]] < 0) {
                return bad_person(d, d->index[s][i], o->data, "has no class label, yet is in the fold", err);
            }
        }
    }
    return DN_OK;
}

/* Upstream's embedding is by class for regression too; without classes it is that of the whole training set.
 */
static dn_status check_targets(train_data *d, const train_options *o, dn_err *err)
{
    const dn_gpk_info *info = d->info;
    bool classes = info->label && info->class_names.n > 0;
    if (!info->target) {
        return dn_fail(err, DN_EMISMATCH, "%s has no regression labels%s", o->data,
                       info->label ? ": for its classes give --task-type classification" : "");
    }
    for (int s = 0; s < DN_SPLIT_SETS; s++) {
        for (uint64_t i = 0; i < d->n[s]; i++) {
            uint64_t p = d->index[s][i];
            if (!isfinite(info->target[p])) {
                return bad_person(d, p, o->data, "has no finite regression label, yet is in the fold", err);
            }
            if (classes && info->label[p] < 0) classes = false;
        }
    }
    d->n_out = 1;
    d->n_embed_classes = classes ? info->class_names.n : 1;
    return DN_OK;
}

static int64_t embed_class(const train_data *d, uint64_t person)
{
    return d->n_embed_classes > 1 ? d->info->label[person] : 0;
}

dn_status train_data_open(train_data *d, const train_options *o, const train_task *t, uint64_t n_room,
                          dn_pool *pool, dn_err *err)
{
    dn_status status;
    memset(d, 0, sizeof *d);
    d->pool = pool;
    d->task = o->task_type ? DN_TASK_REGRESSION : DN_TASK_CLASSIFICATION;
    DN_TRY(dn_dataset_open(&d->dataset, o->data, err));
    d->info = dn_dataset_info(d->dataset);
    d->n_snps = d->info->n_snps;
    d->stride = dn_dataset_row_bytes(d->dataset);
    d->n_room = n_room < BLOCK ? BLOCK : n_room;
    if (d->info->model_snps) {
        DN_TRY(
            dn_fail(err, DN_EMISMATCH,
                    "%s is a cohort matched to a model: training takes the panel that gpack or bed2h5 made",
                    o->data));
    }
    dn_progress_start("reading for the fingerprint", d->info->n_people, "people");
    DN_TRY(dn_dataset_fingerprint(d->dataset, &d->data_hash, show_progress, NULL, err));
    dn_progress_end();
    DN_TRY(load_split(d, o, t, err));
    DN_TRY(check_fold(d, o, t, err));
    if (d->task == DN_TASK_CLASSIFICATION)
        DN_TRY(check_classes(d, o, err));
    else
        DN_TRY(check_targets(d, o, err));
    for (int s = 0; s < DN_SPLIT_SETS; s++) {
        DN_TRY(dn_alloc(&d->class_size[s], d->n_embed_classes, sizeof(uint64_t), "class sizes", err));
        for (uint64_t i = 0; i < d->n[s]; i++) d->class_size[s][embed_class(d, d->index[s][i])]++;
    }
    DN_TRY(dn_alloc(&d->ptr, d->n_room, sizeof *d->ptr, "batch", err));
    DN_TRY(dn_alloc(&d->label, d->n_room, sizeof *d->label, "batch", err));
    DN_TRY(dn_alloc(&d->target, d->n_room, sizeof *d->target, "batch", err));
    status = DN_OK;
done:
    dn_progress_end();
    return status;
}

void train_data_close(train_data *d)
{
    for (int s = 0; s < DN_SPLIT_SETS; s++) {
        free(d->index[s]);
        free(d->class_size[s]);
    }
    free(d->memory);
    free(d->gather);
    free(d->ptr);
    free(d->label);
    free(d->target);
    dn_dataset_close(d->dataset);
    memset(d, 0, sizeof *d);
}

/* ---- rows ---- */

static dn_status read_into_memory(train_data *d, dn_err *err)
{
    dn_status status;
    uint64_t n = d->info->n_people, bytes;
    if (!dn_mul(n, d->stride, &bytes))
        return dn_fail(err, DN_ENOMEM, "packed genotypes of more than 2^64 bytes");
    DN_TRY(dn_alloc_aligned(&d->memory, bytes, 1, "packed genotypes", err));
    dn_progress_start("reading genotypes", n, "people");
    for (uint64_t i = 0; i < n; i += BLOCK) {
        uint64_t k = n - i < BLOCK ? n - i : BLOCK;
        DN_TRY(dn_dataset_read(d->dataset, i, k, d->memory + i * d->stride, err));
        dn_dataset_release(d->dataset, i, k);
        dn_progress(i + k);
    }
    d->base = d->memory;
    status = DN_OK;
done:
    dn_progress_end();
    return status;
}

dn_status train_data_load(train_data *d, const train_options *o, dn_err *err)
{
    bool gpk = dn_dataset_is_gpk(d->dataset), raw = gpk && d->info->zstd_level == 0;
    double mib = (double)d->info->n_people * (double)d->stride / 1048576.0;
    switch (o->inputs) {
    case INPUTS_RAM: d->rows = ROWS_MEMORY; break;
    case INPUTS_MEMMAP:
        if (gpk && !raw) {
            return dn_fail(err, DN_EUNSUPPORTED,
                           "--inputs memmap: the rows of %s are compressed and cannot be used in place: give "
                           "--inputs ram, or unpack "
                           "it with gpack",
                           o->data);
        }
        d->rows = gpk ? ROWS_MAPPED : ROWS_GATHER;
        break;
    default: d->rows = raw ? ROWS_MAPPED : ROWS_MEMORY; break;
    }
    if (d->rows == ROWS_GATHER) {
        dn_info("genotypes: int8 rows gathered from %s, batch by batch", o->data);
        return dn_alloc_aligned(&d->gather, d->n_room, d->stride, "gathered rows", err);
    }
    if (d->rows == ROWS_MAPPED) {
        dn_info("genotypes: %s mapped in place, 2 bits each (%.1f MiB)", o->data, mib);
        return dn_dataset_rows(d->dataset, 0, d->info->n_people, NULL, &d->base, err);
    }
    dn_info("genotypes: %s packed into memory, 2 bits each (%.1f MiB)", o->data, mib);
    return read_into_memory(d, err);
}

typedef struct {
    train_data *d;
    const uint64_t *person;
    dn_err *errs; /* one per worker */
} gather_job;

static void gather_one(void *ctx, size_t item, size_t worker)
{
    gather_job *j = ctx;
    if (j->errs[worker].status != DN_OK) return;
    dn_status status = dn_dataset_read(j->d->dataset, j->person[item], 1, j->d->gather + item * j->d->stride,
                                       &j->errs[worker]);
    if (status != DN_OK) j->errs[worker].status = status;
}

static dn_status gather_rows(train_data *d, const uint64_t *person, uint64_t n, dn_err *err)
{
    dn_status status;
    gather_job j = {.d = d, .person = person};
    size_t threads = dn_pool_threads(d->pool);
    DN_TRY(dn_alloc(&j.errs, threads, sizeof *j.errs, "gather", err));
    dn_pool_run(d->pool, n, gather_one, &j);
    for (size_t w = 0; w < threads; w++) {
        if (j.errs[w].status != DN_OK) DN_TRY(dn_fail(err, j.errs[w].status, "%s", j.errs[w].msg));
    }
    status = DN_OK;
done:
    free(j.errs);
    return status;
}

/* Rows of the given people in d->ptr. */
static dn_status point_at(train_data *d, const uint64_t *person, uint64_t n, dn_err *err)
{
    if (d->rows == ROWS_GATHER) {
        for (uint64_t i = 0; i < n; i++) d->ptr[i] = d->gather + i * d->stride;
        return gather_rows(d, person, n, err);
    }
    for (uint64_t i = 0; i < n; i++) d->ptr[i] = d->base + person[i] * d->stride;
    return DN_OK;
}

dn_status train_data_batch(train_data *d, dn_split_set set, const uint32_t *pos, uint64_t first, uint64_t n,
                           dn_net_batch *b, dn_err *err)
{
    dn_status status;
    const uint64_t *list = d->index[set];
    uint64_t *person = NULL;
    if (n > d->n_room) return dn_fail(err, DN_EINTERNAL, "a batch of %llu people", (unsigned long long)n);
    DN_TRY(dn_alloc(&person, n, sizeof *person, "batch", err));
    for (uint64_t i = 0; i < n; i++) {
        person[i] = list[pos ? pos[first + i] : first + i];
        if (d->task == DN_TASK_CLASSIFICATION)
            d->label[i] = d->info->label[person[i]];
        else
            d->target[i] = d->info->target[person[i]];
    }
    DN_TRY(point_at(d, person, n, err));
    *b = (dn_net_batch){.n = n, .rows = d->ptr, .label = d->label, .target = d->target};
    status = DN_OK;
done:
    free(person);
    return status;
}

/* ---- statistics ---- */

dn_status train_data_stats(train_data *d, double **mean, double **sd, float **emb, uint64_t *n_flat,
                           uint64_t *n_empty, dn_err *err)
{
    dn_status status;
    uint64_t m = d->n_snps, c = d->n_embed_classes, n = d->n[DN_SPLIT_TRAIN], cells;
    uint32_t *counts = NULL;
    double *raw = NULL;
    if (!dn_mul(m, 3 * c, &cells))
        return dn_fail(err, DN_ENOMEM, "a table of %llu x %llu x 3", (unsigned long long)m,
                       (unsigned long long)c);
    DN_TRY(dn_alloc(&counts, cells, sizeof *counts, "counts of dosages", err));
    dn_progress_start("counting dosages", n, "people");
    for (uint64_t i = 0; i < n; i += BLOCK) {
        uint64_t k = n - i < BLOCK ? n - i : BLOCK;
        for (uint64_t j = 0; j < k; j++) d->label[j] = embed_class(d, d->index[DN_SPLIT_TRAIN][i + j]);
        DN_TRY(point_at(d, d->index[DN_SPLIT_TRAIN] + i, k, err));
        DN_TRY(dn_counts_add(counts, m, c, d->ptr, d->label, k, d->pool, err));
        dn_progress(i + k);
    }
    dn_progress_end();
    DN_TRY(dn_alloc(mean, m, sizeof **mean, "means", err));
    DN_TRY(dn_alloc(sd, m, sizeof **sd, "standard deviations", err));
    dn_stats(counts, m, c, *mean, *sd, n_flat, n_empty);
    DN_TRY(dn_alloc(&raw, cells, sizeof *raw, "embedding", err));
    dn_embedding(counts, m, c, d->class_size[DN_SPLIT_TRAIN], raw);
    DN_TRY(dn_alloc_aligned(emb, cells, sizeof **emb, "embedding", err));
    dn_embedding_normalise(raw, m, 3 * c, *emb);
    status = DN_OK;
done:
    dn_progress_end();
    free(counts);
    free(raw);
    return status;
}

void train_data_report(const train_data *d, const train_task *t)
{
    dn_info("%s: %llu people to train, %llu to validate, %llu to test; %llu SNPs", t->name,
            (unsigned long long)d->n[DN_SPLIT_TRAIN], (unsigned long long)d->n[DN_SPLIT_VALID],
            (unsigned long long)d->n[DN_SPLIT_TEST], (unsigned long long)d->n_snps);
    if (d->n[DN_SPLIT_TEST] == 0)
        dn_warn("the test set of fold %llu is empty: no test accuracy will be known",
                (unsigned long long)t->fold);
    if (d->task == DN_TASK_REGRESSION) {
        if (d->n_embed_classes == 1)
            dn_info("no classes for everybody: the embedding is that of the training set as one class");
        return;
    }
    for (uint64_t c = 0; c < d->n_embed_classes; c++) {
        const char *name = dn_strs_get(&d->info->class_names, c);
        unsigned long long n[DN_SPLIT_SETS];
        for (int s = 0; s < DN_SPLIT_SETS; s++) n[s] = d->class_size[s][c];
        dn_info("class %s: %llu to train, %llu to validate, %llu to test", name, n[DN_SPLIT_TRAIN],
                n[DN_SPLIT_VALID], n[DN_SPLIT_TEST]);
        if (n[DN_SPLIT_TRAIN] == 0) {
            dn_warn("class %s has nobody in the training set of fold %llu: the model keeps its place but "
                    "cannot learn it",
                    name, (unsigned long long)t->fold);
        }
    }
}
