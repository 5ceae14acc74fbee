/* dnsplit_stats.c: see dnsplit_stats.h. */
#include "dnsplit_stats.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "npz.h"
#include "stats.h"

enum { SNPS_AT_A_TIME = 4096 }; /* of the embedding, on its way out */

typedef struct {
    dn_dataset *d;
    const dn_gpk_info *info;
    const dn_split *s;
    const split_stats_opts *o;
    dn_pool *pool;
    split_stats_found *found;
    uint64_t n_snps, n_classes;
    uint64_t block;      /* people read at a time */
    uint8_t *buf;        /* block x row_bytes */
    const uint8_t **row; /* block */
    int64_t *label;      /* block */
    uint8_t *in_train;   /* folds of this pass x N */
    uint32_t *counts;    /* folds of this pass x M x C x 3 */
    uint64_t per_pass;
    double *mean, *sd;    /* K x M */
    uint64_t *class_size; /* C */
    uint64_t rows_done;
} job;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int64_t class_of(const job *b, uint64_t person)
{
    return b->n_classes == 1 || !b->info->label ? 0 : b->info->label[person];
}

/* Cuts the memory into one buffer of rows and as many tables of counts as fit. */
static dn_status plan(job *b, dn_err *err)
{
    dn_status status;
    const uint64_t stride = dn_dataset_row_bytes(b->d), n = b->info->n_people, k = b->s->n_folds;
    uint64_t table, fixed, need;
    double most = (double)b->n_snps * (double)b->n_classes * 3 * sizeof(uint32_t);
    if (most > (double)(UINT64_MAX / 4))
        DN_TRY(dn_fail(err, DN_ENOMEM, "counts of %llu SNPs and %llu classes do not fit into memory",
                       (unsigned long long)b->n_snps, (unsigned long long)b->n_classes));
    table = b->n_snps * b->n_classes * 3 * sizeof(uint32_t) + n;
    b->block = (b->o->memory / 8) / (stride + 16);
    if (b->block > 65536) b->block = 65536;
    if (b->block > n) b->block = n;
    if (b->block < 1) b->block = 1;
    fixed = b->block * (stride + 16) + (b->o->stats_path ? 16 * k * b->n_snps : 16 * b->n_snps) +
            (uint64_t)SNPS_AT_A_TIME * b->n_classes * 3 * sizeof(double);
    need = fixed + table;
    if (need > b->o->memory) {
        DN_TRY(dn_fail(err, DN_ENOMEM,
                       "counting %llu SNPs x %llu classes x 3 dosages needs %llu MiB, --memory allows %llu: "
                       "give a larger --memory",
                       (unsigned long long)b->n_snps, (unsigned long long)b->n_classes,
                       (unsigned long long)(need >> 20) + 1, (unsigned long long)(b->o->memory >> 20)));
    }
    b->per_pass = (b->o->memory - fixed) / table;
    if (b->per_pass > k) b->per_pass = k;
    DN_TRY(dn_alloc_aligned(&b->buf, b->block, stride, "genotypes", err));
    DN_TRY(dn_alloc(&b->row, b->block, sizeof *b->row, "rows", err));
    DN_TRY(dn_alloc(&b->label, b->block, sizeof *b->label, "labels", err));
    DN_TRY(dn_alloc(&b->in_train, b->per_pass, n, "training sets", err));
    DN_TRY(
        dn_alloc(&b->counts, b->per_pass * b->n_snps, b->n_classes * 3 * sizeof *b->counts, "counts", err));
    DN_TRY(dn_alloc(&b->class_size, b->n_classes, sizeof *b->class_size, "classes", err));
    DN_TRY(dn_alloc(&b->mean, (b->o->stats_path ? k : 1) * b->n_snps, sizeof *b->mean, "means", err));
    status =
        dn_alloc(&b->sd, (b->o->stats_path ? k : 1) * b->n_snps, sizeof *b->sd, "standard deviations", err);
done:
    return status;
}

/* Counts folds [first, first + n) in one pass over the genotypes. */
static dn_status count_folds(job *b, uint64_t first, uint64_t n, dn_err *err)
{
    dn_status status;
    const uint64_t people = b->info->n_people, stride = dn_dataset_row_bytes(b->d),
                   table = b->n_snps * b->n_classes * 3;
    memset(b->in_train, 0, n * people);
    memset(b->counts, 0, n * table * sizeof *b->counts);
    for (uint64_t f = 0; f < n; f++) {
        const dn_fold *fold = &b->s->folds[first + f];
        for (uint64_t i = 0; i < fold->n[DN_SPLIT_TRAIN]; i++)
            b->in_train[f * people + fold->index[DN_SPLIT_TRAIN][i]] = 1;
    }
    for (uint64_t at = 0; at < people; at += b->block) {
        uint64_t k = people - at < b->block ? people - at : b->block;
        const uint8_t *rows;
        DN_TRY(dn_dataset_rows(b->d, at, k, b->buf, &rows, err));
        for (uint64_t f = 0; f < n; f++) {
            uint64_t m = 0;
            for (uint64_t i = 0; i < k; i++) {
                if (!b->in_train[f * people + at + i]) continue;
                b->row[m] = rows + i * stride;
                b->label[m++] = class_of(b, at + i);
            }
            double start = now();
            if (m)
                DN_TRY(dn_counts_add(b->counts + f * table, b->n_snps, b->n_classes, b->row, b->label, m,
                                     b->pool, err));
            b->found->count_seconds += now() - start;
            b->found->count_bytes += (double)m * (double)((b->n_snps + 3) / 4);
        }
        dn_dataset_release(b->d, at, k);
        b->rows_done += k;
        if (b->o->progress) b->o->progress(b->o->ctx, b->rows_done);
    }
    status = DN_OK;
done:
    return status;
}

static dn_status write_embedding(job *b, const uint32_t *counts, uint64_t fold, dn_npz_writer *w, dn_err *err)
{
    dn_status status;
    double *emb = NULL;
    const dn_fold *f = &b->s->folds[fold];
    const uint64_t k = b->n_classes * 3;
    DN_TRY(dn_alloc(&emb, SNPS_AT_A_TIME, k * sizeof *emb, "embedding", err));
    memset(b->class_size, 0, b->n_classes * sizeof *b->class_size);
    for (uint64_t i = 0; i < f->n[DN_SPLIT_TRAIN]; i++)
        b->class_size[class_of(b, f->index[DN_SPLIT_TRAIN][i])]++;
    for (uint64_t j = 0; j < b->n_snps; j += SNPS_AT_A_TIME) {
        uint64_t n = b->n_snps - j < SNPS_AT_A_TIME ? b->n_snps - j : SNPS_AT_A_TIME;
        dn_embedding(counts + j * k, n, b->n_classes, b->class_size, emb);
        DN_TRY(dn_npz_write(w, emb, n * k * sizeof *emb, err));
    }
    status = DN_OK;
done:
    free(emb);
    return status;
}

static dn_status write_stats(job *b, dn_err *err)
{
    dn_status status;
    dn_npz_writer *w = NULL;
    const uint64_t dim[2] = {b->s->n_folds, b->n_snps}, bytes = dim[0] * dim[1] * sizeof(double);
    DN_TRY(dn_npz_create(&w, b->o->stats_path, b->o->out_flags, err));
    DN_TRY(dn_npz_start(w, "means_by_fold", "<f8", 2, dim, bytes, err));
    DN_TRY(dn_npz_write(w, b->mean, bytes, err));
    DN_TRY(dn_npz_start(w, "sd_by_fold", "<f8", 2, dim, bytes, err));
    DN_TRY(dn_npz_write(w, b->sd, bytes, err));
    status = dn_npz_commit(&w, err);
done:
    dn_npz_abort(&w);
    return status;
}

dn_status split_stats_write(dn_dataset *d, const dn_split *s, const split_stats_opts *o, dn_pool *pool,
                            split_stats_found *found, dn_err *err)
{
    dn_status status;
    const dn_gpk_info *info = dn_dataset_info(d);
    job b = {.d = d, .info = info, .s = s, .o = o, .pool = pool, .found = found, .n_snps = info->n_snps};
    dn_npz_writer *emb = NULL;
    b.n_classes = info->label && info->class_names.n ? info->class_names.n : 1;
    found->count_seconds = found->count_bytes = 0;
    DN_TRY(plan(&b, err));
    const uint64_t k = b.n_classes * 3, table = b.n_snps * k, emb_bytes = s->n_folds * table * sizeof(double);
    if (o->stats_path) DN_TRY(dn_out_room(o->stats_path, 2 * s->n_folds * b.n_snps * sizeof(double), err));
    if (o->emb_path) {
        DN_TRY(dn_out_room(o->emb_path, emb_bytes, err));
        DN_TRY(dn_npz_create(&emb, o->emb_path, o->out_flags, err));
        DN_TRY(dn_npz_start(emb, "emb", "<f8", 3, (uint64_t[]){s->n_folds, b.n_snps, k}, emb_bytes, err));
    }
    for (uint64_t first = 0; first < s->n_folds; first += b.per_pass) {
        uint64_t n = s->n_folds - first < b.per_pass ? s->n_folds - first : b.per_pass;
        DN_TRY(count_folds(&b, first, n, err));
        for (uint64_t f = 0; f < n; f++) {
            uint64_t at = o->stats_path ? (first + f) * b.n_snps : 0;
            dn_stats(b.counts + f * table, b.n_snps, b.n_classes, b.mean + at, b.sd + at,
                     &found->n_flat[first + f], &found->n_empty[first + f]);
            if (emb) DN_TRY(write_embedding(&b, b.counts + f * table, first + f, emb, err));
        }
    }
    if (o->stats_path) DN_TRY(write_stats(&b, err));
    status = emb ? dn_npz_commit(&emb, err) : DN_OK;
done:
    dn_npz_abort(&emb);
    free(b.buf);
    free(b.row);
    free(b.label);
    free(b.in_train);
    free(b.counts);
    free(b.class_size);
    free(b.mean);
    free(b.sd);
    return status;
}
