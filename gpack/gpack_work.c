/* gpack_work.c: packing, unpacking, testing and listing (see gpack_work.h). */
#include "gpack_work.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "geno.h"
#include "log.h"

typedef unsigned long long ull;

static void show_progress(void *ctx, uint64_t people)
{
    (void)ctx;
    dn_progress(people);
}

/* What tables and index of the dataset take in memory: part of --memory like the rows. */
static uint64_t table_bytes(const dn_gpk_info *f)
{
    return f->people.fid.used + f->people.iid.used + f->snps.id.used + f->snps.chrom.used + f->snps.a1.used +
           f->snps.a2.used + f->n_people * (16 + 8 + (f->label ? 8 : 0) + (f->target ? 8 : 0)) +
           f->n_snps * (8 * 4 + (f->snps.pos ? 8 : 0) + (f->place ? 8 : 0));
}

static dn_status memory_left(const gpack_job *job, const dn_gpk_info *f, uint64_t *left, dn_err *err)
{
    uint64_t tables = table_bytes(f), fixed = (uint64_t)8 << 20;
    if (tables + fixed >= job->common->memory) {
        return dn_fail(
            err, DN_ENOMEM,
            "--memory %llu MiB is too small: the tables of %llu people and %llu SNPs take %llu MiB",
            (ull)(job->common->memory >> 20), (ull)f->n_people, (ull)f->n_snps,
            (ull)((tables + fixed) >> 20) + 1);
    }
    *left = job->common->memory - tables - fixed;
    return DN_OK;
}

static uint64_t int8_bytes(const dn_gpk_info *f)
{
    return f->n_people * f->n_snps;
}

static void say_written(const gpack_job *job, const dn_gpk_info *f)
{
    struct stat sb;
    if (strcmp(job->out, "-") == 0 || stat(job->out, &sb) != 0 || !S_ISREG(sb.st_mode)) {
        dn_info("%llu people x %llu SNPs", (ull)f->n_people, (ull)f->n_snps);
        return;
    }
    dn_info("%s: %llu people x %llu SNPs, %llu bytes, %.2f times smaller than int8", job->out,
            (ull)f->n_people, (ull)f->n_snps, (ull)sb.st_size, (double)int8_bytes(f) / (double)sb.st_size);
}

/* ---- pack ---- */

static dn_status put_gpk(void *ctx, const uint8_t *rows, uint64_t n, dn_err *err)
{
    return dn_gpk_write_rows(ctx, rows, n, err);
}

dn_status gpack_pack(gpack_source *s, const gpack_job *job, dn_err *err)
{
    dn_status status;
    dn_out *out = NULL;
    dn_gpk_writer *w = NULL;
    dn_pool *pool = NULL, *squeeze = NULL;
    uint64_t memory;
    dn_gpk_info info = *s->info; /* its tables stay the source's */
    info.zstd_level = (uint32_t)job->level;
    info.block_rows = (uint32_t)job->block_rows;
    unsigned flags = DN_OUT_BINARY | (job->common->force ? DN_OUT_FORCE : 0);
    DN_TRY(memory_left(job, &info, &memory, err));
    if (!job->level)
        DN_TRY(
            dn_out_room(job->out, info.n_people * dn_gpk_row_bytes(info.n_snps) + table_bytes(&info), err));
    DN_TRY(dn_pool_new(&pool, (size_t)job->common->threads, err));
    DN_TRY(dn_out_open(&out, job->out, flags, err));
    DN_TRY(dn_gpk_write_start(&w, out, &info, err));
    if (job->level) {
        uint64_t rows = info.block_rows ? info.block_rows : dn_gpk_block_rows(info.n_snps);
        uint64_t block = (rows < info.n_people ? rows : info.n_people) * dn_gpk_row_bytes(info.n_snps);
        /* Two blocks per thread, each before and after compression. */
        if (4 * job->common->threads * block > memory / 2) {
            DN_TRY(dn_fail(err, DN_ENOMEM,
                           "--memory is too small for blocks of %llu bytes on %llu threads: give fewer "
                           "--block-rows or --threads",
                           (ull)block, (ull)job->common->threads));
        }
        memory -= 4 * job->common->threads * block;
        /* Of its own: rows may be handed on while the other pool makes the next ones. */
        DN_TRY(dn_pool_new(&squeeze, (size_t)job->common->threads, err));
        dn_gpk_writer_use_pool(w, squeeze);
    }
    dn_progress_start("packing", s->panel ? s->panel->plink->people.iid.n : info.n_people, "people");
    status = gpack_source_rows(s, memory, pool, put_gpk, w, show_progress, err);
    dn_progress_end();
    DN_TRY(status);
    DN_TRY(dn_gpk_write_end(&w, err));
    DN_TRY(dn_out_commit(&out, err));
    say_written(job, &info);
done:
    dn_gpk_writer_free(w);
    dn_out_abort(&out);
    dn_pool_free(squeeze);
    dn_pool_free(pool);
    return status;
}

/* ---- unpack ---- */

struct unpack {
    dn_dataset_writer *w;
    uint64_t row_bytes;
};

static dn_status put_h5(void *ctx, const uint8_t *rows, uint64_t n, dn_err *err)
{
    struct unpack *u = ctx;
    return dn_dataset_write(u->w, rows, u->row_bytes, n, err);
}

dn_status gpack_unpack(gpack_source *s, const gpack_job *job, dn_err *err)
{
    dn_status status;
    struct unpack u = {.row_bytes = dn_gpk_row_bytes(s->info->n_snps)};
    dn_pool *pool = NULL;
    uint64_t memory;
    if (s->info->model_snps) {
        DN_TRY(dn_fail(
            err, DN_EUNSUPPORTED,
            "%s is matched to a model of %llu SNPs, not a dataset: for a matched .h5 run snpmatch -o NAME.h5",
            s->name, (ull)s->info->model_snps));
    }
    DN_TRY(memory_left(job, s->info, &memory, err));
    DN_TRY(dn_pool_new(&pool, (size_t)job->common->threads, err));
    DN_TRY(dn_dataset_create(&u.w, job->out, s->info, job->common->force ? DN_OUT_FORCE : 0, err));
    dn_progress_start("unpacking", s->info->n_people, "people");
    status = gpack_source_rows(s, memory, pool, put_h5, &u, show_progress, err);
    dn_progress_end();
    DN_TRY(status);
    DN_TRY(dn_dataset_commit(&u.w, err));
    say_written(job, s->info);
done:
    dn_dataset_abort(&u.w);
    dn_pool_free(pool);
    return status;
}

/* ---- test and list ---- */

struct tally {
    uint64_t n_snps, row_bytes, missing;
};

static dn_status count_rows(void *ctx, const uint8_t *rows, uint64_t n, dn_err *err)
{
    struct tally *t = ctx;
    (void)err;
    for (uint64_t i = 0; i < n; i++) t->missing += dn_geno_count_missing(rows + i * t->row_bytes, t->n_snps);
    return DN_OK;
}

/* Reads all rows, with their checks. A .gpk file has a faster way, and more to check. */
static dn_status read_all(gpack_source *s, const gpack_job *job, const char *what, uint64_t *missing,
                          dn_err *err)
{
    dn_status status;
    dn_pool *pool = NULL;
    uint64_t memory;
    struct tally t = {.n_snps = s->info->n_snps, .row_bytes = dn_gpk_row_bytes(s->info->n_snps)};
    DN_TRY(memory_left(job, s->info, &memory, err));
    DN_TRY(dn_pool_new(&pool, (size_t)job->common->threads, err));
    dn_progress_start(what, s->info->n_people, "people");
    status = gpack_source_rows(s, memory, pool, count_rows, &t, show_progress, err);
    dn_progress_end();
    *missing = t.missing;
done:
    dn_pool_free(pool);
    return status;
}

dn_status gpack_test(gpack_source *s, const gpack_job *job, dn_err *err)
{
    uint64_t missing;
    dn_status status = s->gpk && !dn_gpk_is_stream(s->gpk)
                           ? dn_gpk_verify(s->gpk, (size_t)job->common->threads, err)
                           : read_all(s, job, "testing", &missing, err);
    if (status == DN_OK)
        dn_info("%s: whole: %llu people x %llu SNPs", s->name, (ull)s->info->n_people, (ull)s->info->n_snps);
    return status;
}

dn_status gpack_list(gpack_source *s, const gpack_job *job, bool heading, dn_err *err)
{
    dn_status status = DN_OK;
    const dn_gpk_info *f = s->info;
    uint64_t missing = 0, fingerprint = 0;
    char rows[32] = "int8", matched[48] = "-", classes[32] = "-";
    bool file = s->gpk && !dn_gpk_is_stream(s->gpk);
    if (file)
        missing = dn_gpk_missing(s->gpk);
    else
        status = read_all(s, job, "reading", &missing, err);
    if (status != DN_OK) return status;
    if (s->gpk) {
        fingerprint = dn_gpk_fingerprint(s->gpk);
        if (f->zstd_level)
            snprintf(rows, sizeof rows, "zstd-%u/%u", f->zstd_level, f->block_rows);
        else
            snprintf(rows, sizeof rows, "raw");
    } else {
        status = dn_dataset_fingerprint(s->h5, &fingerprint, NULL, NULL, err);
        if (status != DN_OK) return status;
    }
    if (f->label)
        snprintf(classes, sizeof classes, "%llu", (ull)f->class_names.n);
    else if (f->target)
        snprintf(classes, sizeof classes, "numbers");
    if (f->model_snps) snprintf(matched, sizeof matched, "%llu", (ull)f->model_snps);
    if (heading) {
        printf("%10s %10s %8s %9s %10s %15s %7s %-10s %-16s  %s\n", "People", "SNPs", "Classes", "Missing",
               "Model", "Bytes", "Ratio", "Rows", "Fingerprint", "File");
    }
    printf("%10llu %10llu %8s %8.4f%% %10s ", (ull)f->n_people, (ull)f->n_snps, classes,
           100.0 * (double)missing / (double)int8_bytes(f), matched);
    if (s->file_bytes)
        printf("%15llu %7.2f", (ull)s->file_bytes, (double)int8_bytes(f) / (double)s->file_bytes);
    else
        printf("%15s %7s", "-", "-");
    printf(" %-10s %016llx  %s\n", rows, (ull)fingerprint, s->name);
    return DN_OK;
}
