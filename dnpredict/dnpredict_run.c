/* dnpredict_run.c: fat layer, main nets and outputs, block by block (see dnpredict_run.h). B people of a
 * block, L members, C outputs, H units of the last hidden layer. */
#include "dnpredict_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dnpredict_fat.h"
#include "dnpredict_report.h"
#include "geno.h"
#include "mainnet.h"

typedef unsigned long long ull;

#define GROUP 16 /* people of one item of the main nets */

/* A block of people between its reading and its end: DN_PREDICT_SLOTS of them, used in turn. */
typedef struct {
    uint64_t first, n;
    float *call_rate; /* n */
} slot;

typedef struct {
    const dn_predict_job *job;
    uint64_t n_block, n_units, n_out, hidden_units; /* hidden_units: 0 without scores */
    dn_predict_fat *fat;
    dn_mainnet **net; /* L */
    uint64_t *z_at;   /* L: first unit of a member in a row of z */
    float *z;         /* B x n_units */
    float *out;       /* L x B x C */
    float *hidden;    /* L x B x H */
    double *scratch;  /* per worker */
    size_t scratch_doubles;
    slot slots[DN_PREDICT_SLOTS];
    uint64_t n_read, n_back, n_ended; /* blocks so far: submitted, with z back, written */
    size_t depth;                     /* of them under way at most */
    dn_table *table;
    dn_h5 *scores;
    dn_cohort_report *report;
    uint64_t written;    /* people */
    uint64_t scores_sum; /* of what went into /scores: see docs/format-predictions.md */
    char *person;        /* scratch for it: row number, L x C floats */
    const uint8_t *rows; /* of the block that was read last */
    /* of the block whose z is back */
    uint64_t n;
    float *call_rate;
    uint64_t bad; /* person * L + member of the first number that is not finite; UINT64_MAX: none */
} run;

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t units_of(const dn_member *m)
{
    return m->layer[0].n_out;
}

/* ---- set-up ---- */

static dn_status make_nets(run *r, dn_err *err)
{
    dn_status status;
    const dn_model *model = r->job->model;
    DN_TRY(dn_alloc(&r->net, model->n_members, sizeof *r->net, "main nets", err));
    DN_TRY(dn_alloc(&r->z_at, model->n_members, sizeof *r->z_at, "main nets", err));
    for (size_t m = 0; m < model->n_members; m++) {
        status = dn_mainnet_new(&r->net[m], &model->members[m], model->task, err);
        if (status != DN_OK) {
            dn_fail_prefix(err, "model %s: ", model->members[m].name);
            goto done;
        }
        r->z_at[m] = r->n_units;
        r->n_units += units_of(&model->members[m]);
        size_t need = dn_mainnet_scratch(r->net[m]);
        r->scratch_doubles = need > r->scratch_doubles ? need : r->scratch_doubles;
    }
    r->scratch_doubles = (r->scratch_doubles + 7) / 8 * 8;
    status = DN_OK;
done:
    return status;
}

static dn_status add_name(dn_strs *t, const char *s, dn_err *err)
{
    return dn_strs_add(t, s, strlen(s), err);
}

static dn_status create_scores(run *r, uint64_t first, uint64_t last, dn_err *err)
{
    dn_status status;
    const dn_model *model = r->job->model;
    const dn_matched *c = r->job->cohort;
    dn_strs models = {0}, samples = {0}, fids = {0}, value = {0};
    uint64_t dims[3] = {model->n_members, last - first, model->n_out};
    DN_TRY(dn_alloc(&r->person, sizeof(uint64_t) + model->n_members * model->n_out * sizeof(float), 1,
                    "scores", err));
    DN_TRY(dn_h5_create(&r->scores, r->job->scores, r->job->out_flags, err));
    DN_TRY(dn_h5_create_empty(r->scores, "scores", DN_F32, 3, dims, err));
    dims[2] = r->hidden_units;
    DN_TRY(dn_h5_create_empty(r->scores, "hidden", DN_F32, 3, dims, err));
    DN_TRY(dn_h5_create_empty(r->scores, "call_rate", DN_F32, 1, &dims[1], err));
    for (size_t m = 0; m < model->n_members; m++) DN_TRY(add_name(&models, model->members[m].name, err));
    for (uint64_t i = first; i < last; i++) {
        DN_TRY(add_name(&samples, dn_strs_get(&c->people.iid, i), err));
        DN_TRY(add_name(&fids, dn_strs_get(&c->people.fid, i), err));
    }
    DN_TRY(add_name(&value, "value", err));
    DN_TRY(dn_h5_write_strs(r->scores, "models", &models, err));
    DN_TRY(dn_h5_write_strs(r->scores, "samples", &samples, err));
    DN_TRY(dn_h5_write_strs(r->scores, "fids", &fids, err));
    DN_TRY(dn_h5_write_strs(r->scores, "classes",
                            model->task == DN_TASK_CLASSIFICATION ? &model->classes : &value, err));
    DN_TRY(dn_h5_write_attr_str(r->scores, "/", "dnpipe_format", "scores", err));
    DN_TRY(dn_h5_write_attr(r->scores, "/", "dnpipe_version", DN_U32, &(uint32_t){1}, err));
    DN_TRY(dn_h5_write_attr(r->scores, "/", "model_snps", DN_U64, &model->n_snps, err));
    DN_TRY(dn_h5_write_attr(r->scores, "/", "matched_snps", DN_U64, &c->n_cols, err));
    DN_TRY(dn_h5_write_attr(r->scores, "/", "first_person", DN_U64, &first, err));
    DN_TRY(dn_h5_write_attr(r->scores, "/", "n_people", DN_U64, &c->n_people, err));
done:
    dn_strs_free(&models);
    dn_strs_free(&samples);
    dn_strs_free(&fids);
    dn_strs_free(&value);
    return status;
}

/* Names go into a table: what would break its lines is refused before work starts. */
static dn_status check_names(const run *r, dn_err *err)
{
    const dn_people *p = &r->job->cohort->people;
    const dn_strs *lists[] = {&p->iid, &p->fid, &r->job->model->classes};
    static const char *const what[] = {"sample", "family ID of sample", "class"};
    for (int k = 0; k < 3; k++) {
        for (uint64_t i = 0; i < lists[k]->n; i++) {
            const char *s = dn_strs_get(lists[k], i);
            if (s[strcspn(s, "\t\n\r")] || (!*s && k != 1)) {
                return dn_fail(err, DN_EFORMAT, "%s %llu has %s, which a table cannot hold: \"%s\"", what[k],
                               (ull)i + 1, *s ? "a tab or a line break in its name" : "no name", s);
            }
        }
    }
    return DN_OK;
}

/* ---- one block ---- */

static void note_bad(run *r, uint64_t person, size_t member)
{
    uint64_t at = person * r->job->model->n_members + member,
             old = __atomic_load_n(&r->bad, __ATOMIC_RELAXED);
    while (at < old &&
           !__atomic_compare_exchange_n(&r->bad, &old, at, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/* Main net of one member for people [from, to): its weights stay in the cache. */
static void member_of_people(run *r, size_t m, uint64_t from, uint64_t to, double *scratch)
{
    uint64_t n_hidden = dn_mainnet_hidden(r->net[m]);
    for (uint64_t i = from; i < to; i++) {
        float *out = r->out + (m * r->n + i) * r->n_out;
        float *hidden = r->hidden ? r->hidden + (m * r->n + i) * r->hidden_units : NULL;
        dn_mainnet_eval(r->net[m], r->z + i * r->n_units + r->z_at[m], out, hidden, scratch);
        bool ok = true, none = r->call_rate[i] == 0;
        for (uint64_t k = 0; k < r->n_out; k++) ok &= isfinite(out[k]) != 0;
        for (uint64_t k = 0; hidden && k < n_hidden; k++) ok &= isfinite(hidden[k]) != 0;
        if (!ok) note_bad(r, i, m);
        /* Somebody without any call has no ancestry: what the net would say of nobody is not a result. */
        for (uint64_t k = 0; none && k < r->n_out; k++) out[k] = NAN;
        /* Members may differ in width: what a narrow one lacks is not a number. */
        for (uint64_t k = none ? 0 : n_hidden; hidden && k < r->hidden_units; k++) hidden[k] = NAN;
    }
}

static void people_item(void *ctx, size_t item, size_t worker)
{
    run *r = ctx;
    uint64_t from = item * GROUP, to = from + GROUP < r->n ? from + GROUP : r->n;
    for (size_t m = 0; m < r->job->model->n_members; m++) {
        member_of_people(r, m, from, to, r->scratch + worker * r->scratch_doubles);
    }
}

/* The slot of a block by its number. */
static slot *slot_of(run *r, uint64_t block)
{
    return &r->slots[block % DN_PREDICT_SLOTS];
}

static void count_item(void *ctx, size_t item, size_t worker)
{
    (void)worker;
    run *r = ctx;
    const dn_matched *c = r->job->cohort;
    const slot *b = slot_of(r, r->n_read);
    uint64_t from = item * GROUP, to = from + GROUP < b->n ? from + GROUP : b->n;
    for (uint64_t i = from; i < to; i++) {
        uint64_t calls = c->n_cols - dn_geno_count_missing(r->rows + i * c->row_bytes, c->n_cols);
        b->call_rate[i] = (float)((double)calls / (double)c->n_cols);
    }
}

/* A sum over people of a hash of each, so that it does not depend on how people are cut into blocks. */
static void add_scores(run *r)
{
    size_t n_members = r->job->model->n_members, bytes = r->n_out * sizeof *r->out;
    for (uint64_t i = 0; i < r->n; i++) {
        uint64_t row = r->written + i;
        memcpy(r->person, &row, sizeof row);
        for (size_t m = 0; m < n_members; m++) {
            memcpy(r->person + sizeof row + m * bytes, r->out + (m * r->n + i) * r->n_out, bytes);
        }
        r->scores_sum += dn_hash(r->person, sizeof row + n_members * bytes);
    }
}

static dn_status write_block(run *r, uint64_t first, dn_predict_stats *stats, dn_err *err)
{
    dn_status status;
    const dn_model *model = r->job->model;
    const dn_people *p = &r->job->cohort->people;
    for (uint64_t i = 0; i < r->n; i++) {
        stats->no_call += r->call_rate[i] == 0;
        stats->low_call += r->call_rate[i] > 0 && r->call_rate[i] < DN_LOW_CALL_RATE;
        const char *fid = dn_strs_get(&p->fid, first + i), *iid = dn_strs_get(&p->iid, first + i);
        dn_row_result row;
        DN_TRY(dn_table_row(r->table, fid, iid, r->out + i * r->n_out, r->n * r->n_out, r->call_rate[i], &row,
                            err));
        if (r->report) DN_TRY(dn_cohort_report_row(r->report, fid, iid, &row, err));
    }
    if (r->scores) {
        add_scores(r);
        uint64_t start[3] = {0, r->written, 0}, count[3] = {model->n_members, r->n, r->n_out};
        DN_TRY(dn_h5_write_box(r->scores, "scores", DN_F32, start, count, r->out, err));
        count[2] = r->hidden_units;
        DN_TRY(dn_h5_write_box(r->scores, "hidden", DN_F32, start, count, r->hidden, err));
        DN_TRY(dn_h5_write_box(r->scores, "call_rate", DN_F32, &start[1], &count[1], r->call_rate, err));
    }
    r->written += r->n;
    status = DN_OK;
done:
    return status;
}

/* Reads a block and hands it to the fat layer. All threads count its calls first, which brings a mapped file
 * into memory at their joint speed. */
static dn_status begin_block(run *r, uint64_t first, uint64_t n, dn_err *err)
{
    dn_status status;
    const dn_predict_job *job = r->job;
    slot *b = slot_of(r, r->n_read);
    b->first = first;
    b->n = n;
    DN_TRY(dn_matched_rows(job->cohort, first, n, job->pool, &r->rows, err));
    dn_pool_run(job->pool, (n + GROUP - 1) / GROUP, count_item, r);
    DN_TRY(dn_predict_fat_submit(r->fat, r->rows, n, err));
    if (r->depth > 1) dn_matched_release(job->cohort, first, n); /* a GPU has its own copy by now */
    r->n_read++;
done:
    return status;
}

/* Waits for z of the oldest block under way. */
static dn_status await_block(run *r, dn_predict_stats *stats, dn_err *err)
{
    dn_status status;
    const slot *b = slot_of(r, r->n_back);
    double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
    DN_TRY(dn_predict_fat_wait(r->fat, r->z, err));
    stats->fat_cpu += seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    stats->fat_seconds += seconds(CLOCK_MONOTONIC) - wall;
    if (r->depth == 1) dn_matched_release(r->job->cohort, b->first, b->n);
    r->n_back++;
done:
    return status;
}

/* Main nets and outputs of the block whose z is back. */
static dn_status end_block(run *r, dn_predict_stats *stats, dn_err *err)
{
    dn_status status;
    const dn_predict_job *job = r->job;
    const slot *b = slot_of(r, r->n_ended);
    r->n = b->n;
    r->call_rate = b->call_rate;
    r->bad = UINT64_MAX;
    dn_pool_run(job->pool, (r->n + GROUP - 1) / GROUP, people_item, r);
    if (r->bad != UINT64_MAX) {
        uint64_t person = b->first + r->bad / job->model->n_members;
        DN_TRY(dn_fail(err, DN_ENUMERIC,
                       "model %s gives numbers that are not finite for sample %s (%llu): its weights are "
                       "damaged or its training "
                       "diverged; nothing was written",
                       job->model->members[r->bad % job->model->n_members].name,
                       dn_strs_get(&job->cohort->people.iid, person), (ull)person + 1));
    }
    DN_TRY(write_block(r, b->first, stats, err));
    r->n_ended++;
    if (job->progress) job->progress(r->written);
    status = DN_OK;
done:
    return status;
}

/* People [first, last). With GPUs, two blocks are under way while this process works on the one before. */
static dn_status all_blocks(run *r, uint64_t first, uint64_t last, dn_predict_stats *stats, dn_err *err)
{
    dn_status status;
    r->depth = dn_predict_fat_depth(r->job->device);
    for (uint64_t i = first; i < last; i += r->n_block) {
        DN_TRY(begin_block(r, i, last - i < r->n_block ? last - i : r->n_block, err));
        if (r->n_ended < r->n_back) DN_TRY(end_block(r, stats, err));
        if (r->n_read - r->n_back == r->depth) DN_TRY(await_block(r, stats, err));
    }
    while (r->n_ended < r->n_read) {
        if (r->n_ended < r->n_back) DN_TRY(end_block(r, stats, err));
        if (r->n_back < r->n_read) DN_TRY(await_block(r, stats, err));
    }
    status = DN_OK;
done:
    return status;
}

/* A stream is read to its end whatever the shard: its checksum stands there, and its writer must not meet a
 * closed pipe. */
static dn_status pass_by(run *r, uint64_t first, uint64_t last, dn_err *err)
{
    dn_status status = DN_OK;
    const uint8_t *rows;
    for (uint64_t i = first; r->job->cohort->is_stream && i < last && status == DN_OK; i += r->n_block) {
        uint64_t n = last - i < r->n_block ? last - i : r->n_block;
        status = dn_matched_rows(r->job->cohort, i, n, r->job->pool, &rows, err);
    }
    return status;
}

static uint64_t scores_bytes(const run *r, uint64_t n)
{
    return r->job->model->n_members * n * (r->n_out + r->hidden_units) * sizeof(float);
}

static dn_status make_report(run *r, dn_err *err)
{
    dn_status status;
    const dn_model *model = r->job->model;
    DN_TRY(dn_cohort_report_new(&r->report, model->task, model->n_members, err));
    DN_TRY(dn_cohort_report_classes(r->report, &model->classes, err));
    dn_cohort_report_overlap(r->report, model, r->job->cohort);
done:
    return status;
}

/* All outputs, the table last: who sees it sees the others too. */
static dn_status commit(run *r, dn_out **page, dn_err *err)
{
    dn_status status;
    const dn_predict_job *job = r->job;
    bool scores = false, report = false;
    if (*page) {
        DN_TRY(dn_cohort_report_write(r->report, *page, job->name, job->part, err));
        DN_TRY(dn_out_sync(*page, err));
    }
    if (r->scores) {
        DN_TRY(dn_h5_write_attr(r->scores, "scores", "people_xxh3_sum", DN_U64, &r->scores_sum, err));
        DN_TRY(dn_h5_commit(&r->scores, err));
        scores = true;
    }
    if (*page) {
        DN_TRY(dn_out_commit(page, err));
        report = strcmp(job->report, "-") != 0;
    }
    DN_TRY(dn_table_commit(&r->table, err));
    return DN_OK;
done:
    if (scores) unlink(job->scores); /* no half of the results */
    if (report) unlink(job->report);
    return status;
}

dn_status dn_predict_run(const dn_predict_job *job, const dn_predict_plan *plan, dn_predict_stats *stats,
                         dn_err *err)
{
    dn_status status;
    const dn_model *model = job->model;
    dn_matched *c = job->cohort;
    uint64_t first = job->part ? job->part->first : 0, last = job->part ? job->part->last : c->n_people;
    run r = {.job = job, .n_block = plan->people, .n_out = model->n_out};
    dn_out *page = NULL;
    memset(stats, 0, sizeof *stats);
    DN_TRY(check_names(&r, err));
    DN_TRY(make_nets(&r, err));
    if (job->scores) r.hidden_units = dn_predict_hidden_units(model);
    DN_TRY(dn_table_open(&r.table, job->out, job->out_flags, model, job->part, err));
    if (job->report) {
        DN_TRY(make_report(&r, err));
        DN_TRY(dn_out_open(&page, job->report, job->out_flags, err));
    }
    if (job->scores) {
        DN_TRY(dn_out_room(job->scores, scores_bytes(&r, last - first), err));
        DN_TRY(create_scores(&r, first, last, err));
    }
    DN_TRY(dn_matched_reserve(c, plan->people, err));
    DN_TRY(dn_alloc_aligned(&r.z, plan->people * r.n_units, sizeof *r.z, "block of people", err));
    DN_TRY(dn_alloc_aligned(&r.out, plan->people * model->n_members * r.n_out, sizeof *r.out,
                            "block of people", err));
    for (size_t k = 0; k < DN_PREDICT_SLOTS; k++) {
        DN_TRY(dn_alloc(&r.slots[k].call_rate, plan->people, sizeof(float), "block of people", err));
    }
    DN_TRY(dn_predict_fat_new(&r.fat, model, c, plan->people, job->device, job->pool, err));
    if (r.hidden_units) {
        DN_TRY(dn_alloc_aligned(&r.hidden, plan->people * model->n_members * r.hidden_units, sizeof *r.hidden,
                                "block of people", err));
    }
    DN_TRY(dn_alloc_aligned(&r.scratch, r.scratch_doubles * dn_pool_threads(job->pool), sizeof *r.scratch,
                            "main nets", err));
    double began = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    DN_TRY(pass_by(&r, 0, first, err));
    DN_TRY(all_blocks(&r, first, last, stats, err));
    DN_TRY(pass_by(&r, last, c->n_people, err));
    stats->n_people = last - first;
    stats->seconds = seconds(CLOCK_MONOTONIC) - began;
    stats->cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    DN_TRY(commit(&r, &page, err));
done:
    if (r.scores) dn_h5_abort(&r.scores);
    dn_out_abort(&page);
    dn_cohort_report_free(r.report);
    dn_table_abort(r.table);
    for (size_t m = 0; r.net && m < model->n_members; m++) dn_mainnet_free(r.net[m]);
    free(r.net);
    free(r.z_at);
    dn_predict_fat_free(r.fat);
    free(r.z);
    free(r.out);
    free(r.hidden);
    free(r.person);
    for (size_t k = 0; k < DN_PREDICT_SLOTS; k++) free(r.slots[k].call_rate);
    free(r.scratch);
    return status;
}
