/* dnpredict_run.c: fat layer, main nets and outputs, block by block (see dnpredict_run.h). B people of a
 * block, L members, C outputs, H units of the last hidden layer. */
#include "dnpredict_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dnpredict_report.h"
#include "fat.h"
#include "geno.h"
#include "mainnet.h"

typedef unsigned long long ull;

#define BLOCK     4096 /* people: the table kernel builds its tables once for so many */
#define MIN_BLOCK 16
#define GROUP     16 /* people of one item of the main nets */

typedef struct {
    const dn_predict_job *job;
    uint64_t n_block, n_units, n_out, hidden_units; /* hidden_units: 0 without scores */
    dn_fat_problem fat;
    dn_fat_member *fat_members;
    dn_mainnet **net; /* L */
    uint64_t *z_at;   /* L: first unit of a member in a row of z */
    float *z;         /* B x n_units */
    float *out;       /* L x B x C */
    float *hidden;    /* L x B x H */
    double *scratch;  /* per worker */
    size_t scratch_doubles;
    float *call_rate; /* B */
    dn_table *table;
    dn_h5 *scores;
    dn_cohort_report *report;
    uint64_t written;    /* people */
    uint64_t scores_sum; /* of what went into /scores: see docs/format-predictions.md */
    char *person;        /* scratch for it: row number, L x C floats */
    /* of the block at hand */
    const uint8_t *rows;
    uint64_t n;
    uint64_t bad; /* person * L + member of the first number that is not finite; UINT64_MAX: none */
} run;

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t hidden_units_of(const dn_model *model)
{
    uint64_t widest = 0;
    for (size_t m = 0; m < model->n_members; m++) {
        uint64_t n = model->members[m].layer[model->members[m].n_layers - 2].n_out;
        widest = n > widest ? n : widest;
    }
    return widest;
}

static uint64_t units_of(const dn_member *m)
{
    return m->layer[0].n_out;
}

/* ---- memory ---- */

static uint64_t weight_bytes(const dn_model *model)
{
    uint64_t bytes = model->n_norms * model->n_snps * 2 * sizeof(double) + model->n_snps * sizeof(float) +
                     model->snps.id.used + model->snps.chrom.used + model->snps.a1.used +
                     model->snps.a2.used + 40 * model->n_snps;
    for (size_t m = 0; m < model->n_members; m++)
        bytes += model->n_snps * units_of(&model->members[m]) * sizeof(float);
    return bytes;
}

static dn_status make_fat(const dn_model *model, const dn_matched *cohort, dn_fat_member **members,
                          dn_fat_problem *fat, dn_err *err)
{
    dn_status status = dn_alloc(members, model->n_members, sizeof **members, "members", err);
    if (status != DN_OK) return status;
    for (size_t m = 0; m < model->n_members; m++) {
        const dn_member *x = &model->members[m];
        const dn_norm *norm = &model->norms[x->norm];
        (*members)[m] = (dn_fat_member){x->fat, units_of(x), norm->mean, norm->sd};
    }
    *fat = (dn_fat_problem){cohort->n_cols, cohort->place, cohort->scale, model->n_members, *members};
    return DN_OK;
}

static uint64_t block_bytes(const dn_predict_job *job, const dn_fat_problem *fat, uint64_t n)
{
    const dn_model *model = job->model;
    uint64_t units = 0;
    for (size_t m = 0; m < model->n_members; m++) units += units_of(&model->members[m]);
    uint64_t hidden = job->scores ? hidden_units_of(model) : 0;
    uint64_t rows = dn_gpk_row_bytes(job->cohort->n_cols) * n; /* mapped pages count too */
    uint64_t buffer = dn_matched_buffer_bytes(job->cohort, n);
    return (units + model->n_members * (model->n_out + hidden) + 1) * n * sizeof(float) +
           dn_fat_scratch(fat, n, dn_pool_threads(job->pool)) + (buffer > rows ? buffer : rows);
}

dn_status dn_predict_plan_make(const dn_predict_job *job, dn_predict_plan *plan, dn_err *err)
{
    dn_status status;
    dn_fat_member *members = NULL;
    dn_fat_problem fat;
    const dn_matched *c = job->cohort;
    uint64_t n_people = job->part ? job->part->last - job->part->first : c->n_people;
    uint64_t fixed = c->people.iid.used + c->people.fid.used + 16 * c->n_people + ((uint64_t)16 << 20);
    DN_TRY(make_fat(job->model, c, &members, &fat, err));
    plan->weights = weight_bytes(job->model);
    /* Every 8 threads want a sub-block of their own. */
    plan->people = BLOCK * ((dn_pool_threads(job->pool) + 7) / 8);
    if (plan->people > n_people) plan->people = n_people ? n_people : 1;
    while (plan->people > MIN_BLOCK &&
           plan->weights + fixed + block_bytes(job, &fat, plan->people) > job->memory) {
        plan->people = (plan->people + 1) / 2;
    }
    plan->block = fixed + block_bytes(job, &fat, plan->people);
    if (plan->weights + plan->block > job->memory) {
        DN_TRY(dn_fail(err, DN_ENOMEM,
                       "--memory %llu MiB is too little: the model's weights take %llu MiB and a block of "
                       "%llu people %llu MiB: "
                       "give --memory %lluM",
                       (ull)(job->memory >> 20), (ull)(plan->weights >> 20), (ull)plan->people,
                       (ull)(plan->block >> 20) + 1, (ull)((plan->weights + plan->block) >> 20) + 1));
    }
    status = DN_OK;
done:
    free(members);
    return status;
}

uint64_t dn_predict_run_hash(const dn_model *model, const dn_matched *cohort)
{
    uint64_t v[8] = {model->snps_hash,      dn_strs_hash(&model->classes),
                     (uint64_t)model->task, model->n_members,
                     cohort->n_cols,        cohort->fingerprint};
    memcpy(&v[6], &cohort->scale, sizeof v[6]);
    v[7] = cohort->place ? dn_hash(cohort->place, cohort->n_cols * sizeof *cohort->place) : 0;
    uint64_t h = dn_hash(v, sizeof v);
    for (size_t m = 0; m < model->n_members; m++) {
        uint64_t w[3] = {h, model->members[m].weight_hash,
                         dn_hash(model->members[m].name, strlen(model->members[m].name))};
        h = dn_hash(w, sizeof w);
    }
    return h;
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
    const dn_matched *c = r->job->cohort;
    uint64_t from = item * GROUP, to = from + GROUP < r->n ? from + GROUP : r->n;
    for (uint64_t i = from; i < to; i++) {
        uint64_t calls = c->n_cols - dn_geno_count_missing(r->rows + i * c->row_bytes, c->n_cols);
        r->call_rate[i] = (float)((double)calls / (double)c->n_cols);
    }
    for (size_t m = 0; m < r->job->model->n_members; m++) {
        member_of_people(r, m, from, to, r->scratch + worker * r->scratch_doubles);
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

static dn_status one_block(run *r, uint64_t first, uint64_t n, dn_predict_stats *stats, dn_err *err)
{
    dn_status status;
    const dn_predict_job *job = r->job;
    r->n = n;
    r->bad = UINT64_MAX;
    DN_TRY(dn_matched_rows(job->cohort, first, n, job->pool, &r->rows, err));
    double t = seconds(CLOCK_PROCESS_CPUTIME_ID);
    DN_TRY(dn_fat_forward(&r->fat, r->rows, job->cohort->row_bytes, n, r->z, job->pool, err));
    stats->fat_cpu += seconds(CLOCK_PROCESS_CPUTIME_ID) - t;
    dn_pool_run(job->pool, (n + GROUP - 1) / GROUP, people_item, r);
    if (r->bad != UINT64_MAX) {
        uint64_t person = first + r->bad / job->model->n_members;
        DN_TRY(dn_fail(err, DN_ENUMERIC,
                       "model %s gives numbers that are not finite for sample %s (%llu): its weights are "
                       "damaged or its training "
                       "diverged; nothing was written",
                       job->model->members[r->bad % job->model->n_members].name,
                       dn_strs_get(&job->cohort->people.iid, person), (ull)person + 1));
    }
    DN_TRY(write_block(r, first, stats, err));
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
    if (job->scores) r.hidden_units = hidden_units_of(model);
    DN_TRY(make_fat(model, c, &r.fat_members, &r.fat, err));
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
    DN_TRY(dn_alloc(&r.call_rate, plan->people, sizeof *r.call_rate, "block of people", err));
    if (r.hidden_units) {
        DN_TRY(dn_alloc_aligned(&r.hidden, plan->people * model->n_members * r.hidden_units, sizeof *r.hidden,
                                "block of people", err));
    }
    DN_TRY(dn_alloc_aligned(&r.scratch, r.scratch_doubles * dn_pool_threads(job->pool), sizeof *r.scratch,
                            "main nets", err));
    double began = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    DN_TRY(pass_by(&r, 0, first, err));
    for (uint64_t i = first; i < last; i += plan->people) {
        uint64_t n = last - i < plan->people ? last - i : plan->people;
        DN_TRY(one_block(&r, i, n, stats, err));
        dn_matched_release(c, i, n);
        if (job->progress) job->progress(i + n - first);
    }
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
    free(r.fat_members);
    free(r.z);
    free(r.out);
    free(r.hidden);
    free(r.person);
    free(r.call_rate);
    free(r.scratch);
    return status;
}
