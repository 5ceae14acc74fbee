/* write.c: from a match to a file (see write.h). */
#include "write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "blocks.h"
#include "fingerprint.h"
#include "geno.h"
#include "h5.h"
#include "io.h"
#include "log.h"
#include "matched.h"

typedef unsigned long long ull;

enum { H5_PIECE = 16 << 20 }; /* bytes of int8 unpacked at a time */

bool dn_match_is_h5(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".h5") == 0 || strcmp(dot, ".hdf5") == 0);
}

/* ---- memory ---- */

/* Bytes this process holds now. */
static uint64_t held_now(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%llu %llu", &size, &resident) != 2) resident = 0;
    if (f) fclose(f);
    if (resident) return resident * (uint64_t)sysconf(_SC_PAGESIZE);
    struct rusage ru;
    getrusage(RUSAGE_SELF, &ru);
    return (uint64_t)ru.ru_maxrss * 1024;
}

/* What is left of --memory for buffers, with a little kept back for stacks and the C library. */
static uint64_t memory_left(uint64_t memory)
{
    const uint64_t spare = (uint64_t)4 << 20;
    uint64_t held = held_now() + spare;
    return memory > held ? memory - held : 0;
}

/* ---- lists for the output ---- */

static dn_status add(dn_strs *to, const dn_strs *from, uint64_t i, dn_err *err)
{
    const char *s = dn_strs_get(from, i);
    return dn_strs_add(to, s, strlen(s), err);
}

static dn_status wanted_people(const dn_match_job *job, dn_people *out, dn_err *err)
{
    dn_status status;
    const dn_people *p = &job->cohort->people;
    for (uint64_t i = 0; i < p->iid.n; i++) {
        if (job->keep && !job->keep[i]) continue;
        DN_TRY(add(&out->fid, &p->fid, i, err));
        DN_TRY(add(&out->iid, &p->iid, i, err));
    }
    status = DN_OK;
done:
    return status;
}

/* Columns of the result. matched only: the used SNPs of the model, else all of them. */
typedef struct {
    uint64_t n, *place, *snp;
    uint8_t *map;
} columns;

static void columns_free(columns *c)
{
    free(c->place);
    free(c->snp);
    free(c->map);
}

static dn_status columns_of(const dn_match *m, bool matched_only, columns *c, dn_err *err)
{
    dn_status status;
    uint64_t n = matched_only ? m->n_used : m->n_model;
    DN_TRY(dn_alloc(&c->place, n, sizeof *c->place, "columns", err));
    DN_TRY(dn_alloc(&c->snp, n, sizeof *c->snp, "columns", err));
    DN_TRY(dn_alloc(&c->map, n, sizeof *c->map, "columns", err));
    for (uint64_t j = 0; j < m->n_model; j++) {
        bool used = dn_reason_used((dn_reason)m->reason[j]);
        if (matched_only && !used) continue;
        c->place[c->n] = j;
        c->snp[c->n] = used ? m->snp[j] : DN_NO_SNP;
        c->map[c->n] = m->map[j];
        c->n++;
    }
    status = DN_OK;
done:
    return status;
}

/* The model's SNPs at the columns' places: the letters are the model's, since the dosages are. */
static dn_status snps_of(const dn_match_job *job, const columns *c, dn_snps *out, dn_err *err)
{
    dn_status status;
    const dn_snps *s = job->model->snps;
    if (s->pos) DN_TRY(dn_alloc(&out->pos, c->n, sizeof *out->pos, "positions", err));
    for (uint64_t k = 0; k < c->n; k++) {
        uint64_t j = c->place[k];
        DN_TRY(add(&out->id, &s->id, j, err));
        if (s->chrom.n) DN_TRY(add(&out->chrom, &s->chrom, j, err));
        if (s->pos) out->pos[k] = s->pos[j];
        if (job->no_alleles || !dn_snps_have_alleles(s)) continue;
        DN_TRY(add(&out->a1, &s->a1, j, err));
        DN_TRY(add(&out->a2, &s->a2, j, err));
    }
    status = DN_OK;
done:
    return status;
}

/* ---- .gpk ---- */

static dn_status put_gpk(void *ctx, const uint8_t *rows, uint64_t n, dn_err *err)
{
    return dn_gpk_write_rows(ctx, rows, n, err);
}

/* Bytes of a .gpk, about: rows, hashes, names. */
static uint64_t gpk_bytes(const dn_gpk_info *info)
{
    const dn_snps *s = &info->snps;
    return info->n_people * (dn_gpk_row_bytes(info->n_snps) + 8) + info->people.fid.used +
           info->people.iid.used + s->id.used + s->chrom.used + s->a1.used + s->a2.used + 16 * info->n_snps +
           8192;
}

static dn_status run_blocks(const dn_match_job *job, dn_blocks *b, const columns *c, dn_match_freq *freq,
                            dn_err *err)
{
    dn_status status;
    b->cohort = job->cohort;
    b->n_cols = c->n;
    b->snp = c->snp;
    b->map = c->map;
    b->keep = job->keep;
    b->pool = job->pool;
    b->progress = job->progress;
    if (job->model->freq) {
        DN_TRY(dn_alloc(&b->a1, c->n, sizeof *b->a1, "allele counts", err));
        DN_TRY(dn_alloc(&b->called, c->n, sizeof *b->called, "allele counts", err));
    }
    b->memory = memory_left(job->memory);
    dn_info("memory: %.1f MiB held, at most %.1f MiB more for blocks of people (--memory %.0f MiB)",
            (double)held_now() / 1048576, (double)b->memory / 1048576, (double)job->memory / 1048576);
    DN_TRY(dn_blocks_run(b, err));
    for (uint64_t k = 0; b->a1 && k < c->n; k++) {
        uint64_t j = c->place[k];
        if (c->snp[k] != DN_NO_SNP)
            dn_match_freq_add(freq, job->match, j, job->model->freq[j], b->a1[k], b->called[k]);
    }
    status = DN_OK;
done:
    free(b->a1);
    free(b->called);
    return status;
}

static dn_status write_gpk(const dn_match_job *job, const char *path, dn_match_freq *freq, dn_err *err)
{
    dn_status status;
    columns c = {0};
    dn_gpk_info info = {.model_snps = job->match->n_model, .model_hash = job->model->hash};
    dn_out *out = NULL;
    dn_gpk_writer *w = NULL;
    DN_TRY(columns_of(job->match, true, &c, err));
    DN_TRY(snps_of(job, &c, &info.snps, err));
    DN_TRY(wanted_people(job, &info.people, err));
    info.n_people = info.people.iid.n;
    info.n_snps = c.n;
    info.place = c.place;
    c.place = NULL;
    dn_info("writing %s: %llu people x %llu SNPs, %.1f MiB",
            strcmp(path, "-") == 0 ? "to standard output" : path, (ull)info.n_people, (ull)info.n_snps,
            (double)gpk_bytes(&info) / 1048576);
    DN_TRY(dn_out_room(path, gpk_bytes(&info), err));
    DN_TRY(dn_out_open(&out, path, job->out_flags | DN_OUT_BINARY, err));
    DN_TRY(dn_gpk_write_start(&w, out, &info, err));
    c.place = info.place;
    info.place = NULL;
    dn_gpk_info_free(&info);
    dn_blocks b = {.rows = put_gpk, .ctx = w};
    DN_TRY(run_blocks(job, &b, &c, freq, err));
    DN_TRY(dn_gpk_write_end(&w, err));
    DN_TRY(dn_out_commit(&out, err));
done:
    dn_gpk_writer_free(w);
    dn_out_abort(&out);
    dn_gpk_info_free(&info);
    columns_free(&c);
    return status;
}

/* ---- matched.h5 (docs/format-matched.md) ---- */

typedef struct {
    dn_h5 *f;
    dn_row_hash *hash;
    uint64_t n_snps, row_bytes, row; /* row: of the next person */
    int8_t *calls;                   /* H5_PIECE bytes, or one row */
    uint64_t piece;                  /* rows that fit */
} h5_sink;

static dn_status put_h5(void *ctx, const uint8_t *rows, uint64_t n, dn_err *err)
{
    h5_sink *s = ctx;
    dn_row_hash_add(s->hash, rows, n * s->row_bytes);
    for (uint64_t i = 0; i < n; i += s->piece) {
        uint64_t k = n - i < s->piece ? n - i : s->piece;
        for (uint64_t r = 0; r < k; r++)
            dn_geno_unpack(rows + (i + r) * s->row_bytes, 0, s->n_snps, s->calls + r * s->n_snps);
        dn_status status = dn_h5_write_rows(s->f, "inputs", DN_I8, s->row, k, s->calls, err);
        if (status != DN_OK) return status;
        s->row += k;
    }
    return DN_OK;
}

static dn_status put_names(dn_h5 *f, const dn_match_job *job, const dn_people *people, const dn_snps *snps,
                           dn_err *err)
{
    dn_status status;
    bool family = false;
    uint8_t *matched = NULL;
    uint64_t n = job->match->n_model;
    double scale = (double)n / (double)job->match->n_used;
    for (uint64_t i = 0; i < people->fid.n; i++) family |= strcmp(dn_strs_get(&people->fid, i), "0") != 0;
    DN_TRY(dn_h5_write_strs(f, "samples", &people->iid, err));
    DN_TRY(dn_h5_write_strs(f, "snp_names", &snps->id, err));
    DN_TRY(dn_h5_write(f, "scale", DN_F64, 1, (const uint64_t[]){1}, &scale, err));
    if (family) DN_TRY(dn_h5_write_strs(f, "fids", &people->fid, err));
    if (snps->chrom.n) DN_TRY(dn_h5_write_strs(f, "snp_chrom", &snps->chrom, err));
    if (snps->pos) DN_TRY(dn_h5_write(f, "snp_pos", DN_I64, 1, &n, snps->pos, err));
    if (snps->a1.n) DN_TRY(dn_h5_write_strs(f, "snp_a1", &snps->a1, err));
    if (snps->a2.n) DN_TRY(dn_h5_write_strs(f, "snp_a2", &snps->a2, err));
    DN_TRY(dn_alloc(&matched, n, 1, "list of matched SNPs", err));
    for (uint64_t j = 0; j < n; j++) matched[j] = dn_reason_used((dn_reason)job->match->reason[j]);
    DN_TRY(dn_h5_write(f, "snp_matched", DN_U8, 1, &n, matched, err));
    uint64_t sum = dn_matched_tables_hash(people, snps, matched, scale);
    DN_TRY(dn_h5_write_attr_str(f, "/", "format", DN_MATCHED_FORMAT, err));
    DN_TRY(dn_h5_write_attr(f, "/", "version_major", DN_U64, &(uint64_t){DN_MATCHED_MAJOR}, err));
    DN_TRY(dn_h5_write_attr(f, "/", "version_minor", DN_U64, &(uint64_t){DN_MATCHED_MINOR}, err));
    DN_TRY(dn_h5_write_attr_str(f, "/", "program", "dnpipe " DN_VERSION, err));
    DN_TRY(dn_h5_write_attr(f, "/", "tables_xxh3", DN_U64, &sum, err));
    DN_TRY(dn_h5_write_attr(f, "/", "model_hash", DN_U64, &job->model->hash, err));
done:
    free(matched);
    return status;
}

static dn_status write_h5(const dn_match_job *job, const char *path, dn_match_freq *freq, dn_err *err)
{
    dn_status status;
    columns c = {0};
    dn_people people = {0};
    dn_snps snps = {0};
    uint64_t n = job->match->n_model, bytes;
    h5_sink s = {.n_snps = n, .row_bytes = dn_gpk_row_bytes(n)};
    DN_TRY(columns_of(job->match, false, &c, err));
    DN_TRY(snps_of(job, &c, &snps, err));
    DN_TRY(wanted_people(job, &people, err));
    if (!dn_mul(people.iid.n, n, &bytes))
        DN_TRY(dn_fail(err, DN_EUNSUPPORTED, "%s: the sizes overflow", path));
    dn_info("writing %s: %llu people x %llu SNPs, %.1f MiB", path, (ull)people.iid.n, (ull)n,
            (double)bytes / 1048576);
    DN_TRY(dn_out_room(path, bytes, err));
    DN_TRY(dn_h5_create(&s.f, path, job->out_flags, err));
    DN_TRY(put_names(s.f, job, &people, &snps, err));
    DN_TRY(dn_h5_create_rows(s.f, "inputs", DN_I8, people.iid.n, n, err));
    DN_TRY(dn_row_hash_new(&s.hash, err));
    s.piece = (uint64_t)(job->memory / 16 < H5_PIECE ? job->memory / 16 : H5_PIECE) / n;
    if (s.piece == 0) s.piece = 1;
    if (s.piece > people.iid.n) s.piece = people.iid.n;
    DN_TRY(dn_alloc_aligned(&s.calls, s.piece, n, "unpacked rows", err));
    memset(s.calls, 0, s.piece * n); /* so that the pages count as held */
    dn_snps_free(&snps);
    dn_people_free(&people);
    dn_blocks b = {.rows = put_h5, .ctx = &s};
    DN_TRY(run_blocks(job, &b, &c, freq, err));
    uint64_t rows_hash = dn_row_hash_get(s.hash);
    DN_TRY(dn_h5_write_attr(s.f, "inputs", "rows_xxh3", DN_U64, &rows_hash, err));
    DN_TRY(dn_h5_commit(&s.f, err));
done:
    dn_h5_abort(&s.f);
    dn_row_hash_free(s.hash);
    free(s.calls);
    dn_snps_free(&snps);
    dn_people_free(&people);
    columns_free(&c);
    return status;
}

dn_status dn_match_write(const dn_match_job *job, const char *path, dn_match_freq *freq, dn_err *err)
{
    memset(freq, 0, sizeof *freq);
    return dn_match_is_h5(path) ? write_h5(job, path, freq, err) : write_gpk(job, path, freq, err);
}

/* ---- --ambiguous freq ---- */

dn_status dn_match_resolve(const dn_match_job *job, dn_match *m, bool no_strand_flip, dn_err *err)
{
    dn_status status;
    const float *freq = job->model->freq;
    uint64_t n = m->count[DN_REASON_AMBIGUOUS_KEPT], k = 0;
    columns c = {0};
    dn_blocks b = {.cohort = job->cohort, .pool = job->pool};
    if (n == 0) return DN_OK;
    if (!freq) {
        return dn_fail(
            err, DN_EMISMATCH,
            "--ambiguous freq needs a model with allele frequencies, and a %s has none: use keep or drop",
            job->model->what);
    }
    DN_TRY(dn_alloc(&c.place, n, sizeof *c.place, "A/T and C/G SNPs", err));
    DN_TRY(dn_alloc(&c.snp, n, sizeof *c.snp, "A/T and C/G SNPs", err));
    DN_TRY(dn_alloc(&c.map, n, sizeof *c.map, "A/T and C/G SNPs", err));
    DN_TRY(dn_alloc(&b.a1, n, sizeof *b.a1, "allele counts", err));
    DN_TRY(dn_alloc(&b.called, n, sizeof *b.called, "allele counts", err));
    for (uint64_t j = 0; j < m->n_model; j++) {
        if (m->reason[j] == DN_REASON_AMBIGUOUS_KEPT) c.place[k] = j, c.snp[k++] = m->snp[j];
    }
    b.n_cols = n;
    b.snp = c.snp;
    b.map = c.map;
    b.memory = memory_left(job->memory);
    if (b.memory > (uint64_t)128 << 20) b.memory = (uint64_t)128 << 20;
    DN_TRY(dn_blocks_run(&b, err));
    for (k = 0; k < n; k++)
        dn_match_decide(m, c.place[k], freq[c.place[k]], b.a1[k], b.called[k], no_strand_flip);
    status = DN_OK;
done:
    free(b.a1);
    free(b.called);
    columns_free(&c);
    return status;
}
