/* matched.c: matched cohorts: what is common, and .gpk (see matched.h). */
#include "matched.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io.h"

typedef unsigned long long ull;

dn_status dn_matched_open(dn_matched **out, const char *path, dn_err *err)
{
    dn_status status;
    dn_matched *m = NULL;
    dn_kind kind = DN_KIND_GPK;
    struct stat sb;
    bool is_stdin = strcmp(path, "-") == 0;
    *out = NULL;
    DN_TRY(dn_alloc(&m, 1, sizeof *m, "matched cohort", err));
    m->path = strdup(is_stdin ? "standard input" : path);
    if (!m->path) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    /* A named pipe must not be read twice: the .gpk reader finds out what is in it. */
    if (!is_stdin && (stat(path, &sb) != 0 || S_ISREG(sb.st_mode) || S_ISDIR(sb.st_mode))) {
        DN_TRY(dn_kind_of_file(path, &kind, err));
    }
    if (kind == DN_KIND_GPK) {
        DN_TRY(dn_gpk_open(&m->gpk, path, err));
        m->people = dn_gpk_get_info(m->gpk)->people;
        m->is_stream = dn_gpk_is_stream(m->gpk);
        m->fingerprint = dn_gpk_fingerprint(m->gpk);
    } else if (kind == DN_KIND_HDF5) {
        DN_TRY(dn_matched_h5_open(m, path, err));
    } else if (kind == DN_KIND_BED) {
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s is a PLINK .bed: match it to the model first: snpmatch --bfile PREFIX --model DIR "
                       "-o matched.gpk",
                       path));
    } else {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s is %s: expected a matched .gpk or .h5 from snpmatch", path,
                       dn_kind_name(kind)));
    }
    m->n_people = m->people.iid.n;
    if (m->n_people == 0) DN_TRY(dn_fail(err, DN_EFORMAT, "%s holds 0 people", m->path));
    *out = m;
    m = NULL;
    status = DN_OK;
done:
    dn_matched_close(m);
    return status;
}

bool dn_matched_fits(const dn_model *model, uint64_t hash, bool *without)
{
    dn_snps ids = {.id = model->snps.id};
    *without = dn_snps_have_alleles(&model->snps) && hash != model->snps_hash && hash == dn_snps_hash(&ids);
    return hash == model->snps_hash || *without;
}

/* A .gpk that was not matched, such as a training set, fits if it has the model's SNPs, all and in order. */
static dn_status check_gpk(dn_matched *m, const dn_model *model, dn_err *err)
{
    const dn_gpk_info *info = dn_gpk_get_info(m->gpk);
    uint64_t hash = info->model_snps ? info->model_hash : dn_snps_hash(&info->snps);
    uint64_t snps = info->model_snps ? info->model_snps : info->n_snps;
    if (snps != model->n_snps || !dn_matched_fits(model, hash, &m->without_alleles)) {
        return dn_fail(
            err, DN_EMISMATCH,
            "%s %s: its SNP list has %llu SNPs and fingerprint %016llx, the model's %llu and %016llx: run "
            "snpmatch with this model",
            m->path, info->model_snps ? "was matched to another model" : "is not matched to a model",
            (ull)snps, (ull)hash, (ull)model->n_snps, (ull)model->snps_hash);
    }
    if (dn_snps_have_alleles(&model->snps) && !dn_snps_have_alleles(&info->snps)) m->without_alleles = true;
    m->n_cols = info->n_snps;
    m->place = info->model_snps ? info->place : NULL;
    m->scale = dn_gpk_scale(info);
    m->row_bytes = dn_gpk_row_bytes(m->n_cols);
    return DN_OK;
}

dn_status dn_matched_check(dn_matched *m, const dn_model *model, dn_err *err)
{
    m->model_snps = model->n_snps;
    dn_status status = m->gpk ? check_gpk(m, model, err) : dn_matched_h5_check(m, model, err);
    if (status == DN_OK && m->n_cols == 0) {
        status =
            dn_fail(err, DN_EMISMATCH, "%s: 0 of the model's %llu SNPs matched: nothing can be predicted",
                    m->path, (ull)model->n_snps);
    }
    return status;
}

static bool needs_buffer(const dn_matched *m)
{
    return m->h5 || m->is_stream || dn_gpk_get_info(m->gpk)->zstd_level > 0;
}

uint64_t dn_matched_buffer_bytes(const dn_matched *m, uint64_t n)
{
    return (needs_buffer(m) ? n * m->row_bytes : 0) +
           (m->h5 ? m->piece * (m->model_snps + m->wide_bytes) : 0);
}

dn_status dn_matched_reserve(dn_matched *m, uint64_t n, dn_err *err)
{
    dn_status status;
    if (needs_buffer(m)) DN_TRY(dn_alloc_aligned(&m->buf, n, m->row_bytes, "block of people", err));
    if (m->h5) DN_TRY(dn_matched_h5_reserve(m, err));
    m->buf_rows = n;
    status = DN_OK;
done:
    return status;
}

struct check {
    const dn_matched *m;
    uint64_t first;
    const uint8_t *rows;
    uint64_t bad; /* lowest person whose bytes are not those that were written; UINT64_MAX: none */
};

static void check_row(void *ctx, size_t item, size_t worker)
{
    struct check *c = ctx;
    uint64_t i = c->first + item, old = __atomic_load_n(&c->bad, __ATOMIC_RELAXED);
    (void)worker;
    if (dn_gpk_row_ok(c->m->gpk, i, c->rows + item * c->m->row_bytes)) return;
    while (i < old &&
           !__atomic_compare_exchange_n(&c->bad, &old, i, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

dn_status dn_matched_rows(dn_matched *m, uint64_t first, uint64_t n, dn_pool *pool, const uint8_t **rows,
                          dn_err *err)
{
    dn_status status;
    if (n > m->buf_rows) {
        return dn_fail(err, DN_EINTERNAL, "a block of %llu people was not reserved", (ull)n);
    }
    if (m->h5) {
        *rows = m->buf;
        return dn_matched_h5_rows(m, first, n, pool, err);
    }
    DN_TRY(dn_gpk_rows(m->gpk, first, n, m->buf, rows, err));
    if (!needs_buffer(m)) { /* streams and compressed blocks are checked by their reader */
        struct check c = {m, first, *rows, UINT64_MAX};
        dn_pool_run(pool, n, check_row, &c);
        if (c.bad != UINT64_MAX) {
            const uint8_t *row = *rows + (c.bad - first) * m->row_bytes;
            DN_TRY(dn_gpk_check_rows(m->gpk, c.bad, 1, row, err)); /* names it */
        }
    }
    status = DN_OK;
done:
    return status;
}

void dn_matched_release(dn_matched *m, uint64_t first, uint64_t n)
{
    if (m->gpk) dn_gpk_release(m->gpk, first, n);
}

void dn_matched_close(dn_matched *m)
{
    if (!m) return;
    if (m->h5) {
        dn_people_free(&m->people);
        dn_snps_free(&m->snps);
    }
    dn_gpk_close(m->gpk);
    dn_h5_close(m->h5);
    dn_row_hash_free(m->hash);
    free(m->own_place);
    free(m->buf);
    free(m->calls);
    free(m->wide);
    free(m->path);
    free(m);
}
