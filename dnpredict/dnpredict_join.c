/* dnpredict_join.c: see dnpredict_join.h. */
#include "dnpredict_join.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dnpredict_report.h"
#include "dnpredict_table.h"
#include "fingerprint.h"
#include "io.h"
#include "opt.h"

typedef unsigned long long ull;

typedef struct {
    const char *path;
    dn_part head;
    char *columns; /* the header line */
    size_t n_columns;
} part;

typedef struct {
    part *part;
    size_t n;
    dn_out *out;
    dn_people people;         /* as joined so far */
    dn_cohort_report *report; /* or NULL */
    dn_task task;
    size_t n_models;
    char **field; /* columns of a row */
} join;

static size_t count_tabs(const char *s)
{
    size_t n = 0;
    for (; *s; s++) n += *s == '\t';
    return n;
}

/* dn_text takes CR and a byte order mark away; a table must have neither, or the hash would not be that of
 * its bytes. */
static dn_status next_line(dn_text *t, char **line, size_t *len, dn_err *err)
{
    dn_status status = dn_text_next(t, line, len, err);
    if (status == DN_OK && !*line) {
        status = dn_fail(
            err, DN_EFORMAT,
            "%s ends after line %llu, without its last line (%s ...): it is cut off: copy or make it again",
            dn_text_path(t), (ull)dn_text_line(t), DN_PART_END);
    }
    return status;
}

static dn_status read_head(part *p, const char *path, dn_err *err)
{
    dn_status status;
    dn_text *t = NULL;
    char *line;
    size_t len;
    p->path = path;
    DN_TRY(dn_text_open(&t, path, err));
    DN_TRY(next_line(t, &line, &len, err));
    DN_TRY(dn_part_parse(&p->head, line, path, err));
    DN_TRY(next_line(t, &line, &len, err));
    if (strncmp(line, "samples\t", 8) != 0 || strcmp(line + (len > 4 ? len - 4 : 0), "\tfid") != 0) {
        DN_TRY(
            dn_fail(err, DN_EFORMAT, "%s, line 2: expected the names of columns, from samples to fid", path));
    }
    p->columns = strdup(line);
    if (!p->columns) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    p->n_columns = count_tabs(line) + 1;
    status = DN_OK;
done:
    dn_text_close(t);
    return status;
}

static int by_shard(const void *a, const void *b)
{
    const part *x = a, *y = b;
    return (x->head.shard > y->head.shard) - (x->head.shard < y->head.shard);
}

/* The numbers of shards that are not there, for the message. */
static dn_status fail_missing(const join *j, dn_err *err)
{
    char list[256] = "";
    size_t used = 0, k = 0;
    uint64_t missing = 0, n_shards = j->part[0].head.n_shards;
    for (uint64_t s = 1; s <= n_shards; s++) {
        while (k < j->n && j->part[k].head.shard < s) k++;
        if (k < j->n && j->part[k].head.shard == s) continue;
        if (missing++ < 20)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%llu", missing > 1 ? ", " : "", (ull)s);
    }
    return dn_fail(
        err, DN_EMISMATCH,
        "%llu of %llu shards are missing: %s%s: give all parts, or run these shards (--shard %s/%llu)",
        (ull)missing, (ull)n_shards, list, missing > 20 ? ", ..." : "", "i", (ull)n_shards);
}

static dn_status check_together(const join *j, dn_err *err)
{
    const part *a = &j->part[0];
    for (size_t i = 1; i < j->n; i++) {
        const part *b = &j->part[i];
        const char *what = NULL;
        if (a->head.n_shards != b->head.n_shards)
            what = "they are cut into another number of shards";
        else if (a->head.n_people != b->head.n_people || a->head.people_hash != b->head.people_hash)
            what = "their cohorts differ";
        else if (a->head.run != b->head.run)
            what = "their models, or the matched data, differ";
        else if (strcmp(a->columns, b->columns) != 0)
            what = "their columns differ";
        if (what)
            return dn_fail(err, DN_EMISMATCH, "%s and %s are not parts of one table: %s", a->path, b->path,
                           what);
        if (j->part[i - 1].head.shard == b->head.shard) {
            return dn_fail(err, DN_EMISMATCH, "shard %llu/%llu is there twice: %s and %s", (ull)b->head.shard,
                           (ull)b->head.n_shards, j->part[i - 1].path, b->path);
        }
    }
    return j->n == a->head.n_shards ? DN_OK : fail_missing(j, err);
}

/* ---- the report: a row's columns back to numbers; where they stand follows from their order ---- */

static dn_status start_report(join *j, dn_err *err)
{
    const part *p = &j->part[0];
    size_t other = strstr(p->columns, "\tconfidence\t") ? 8 : 6;
    dn_status status;
    j->task = other == 8 ? DN_TASK_CLASSIFICATION : DN_TASK_REGRESSION;
    if (p->n_columns <= other)
        return dn_fail(err, DN_EFORMAT, "%s, line 2: these are not the columns of dnpredict", p->path);
    j->n_models = p->n_columns - other;
    DN_TRY(dn_alloc(&j->field, p->n_columns, sizeof *j->field, "columns", err));
    DN_TRY(dn_cohort_report_new(&j->report, j->task, j->n_models, err));
done:
    return status;
}

/* samples, models, all_models, prediction, votes, confidence, entropy | sd, call_rate, fid. Cuts the line. */
static dn_status report_row(join *j, const part *p, uint64_t line_number, char *line, dn_err *err)
{
    char **f = j->field, **tail = f + 2 + j->n_models;
    dn_row_result row = {0};
    bool classes = j->task == DN_TASK_CLASSIFICATION, ok;
    dn_split_tabs(line, f, p->n_columns);
    const char *fid = f[p->n_columns - 1], *rate = f[p->n_columns - 2];
    ok = dn_parse_double(rate, &row.call_rate);
    if (ok && row.call_rate > 0 && classes) {
        row.prediction = tail[0];
        ok = dn_parse_u64(tail[1], &row.votes) && dn_parse_double(tail[2], &row.confidence) &&
             dn_parse_double(tail[3], &row.entropy);
    } else if (ok && row.call_rate > 0) {
        ok = dn_parse_double(tail[0], &row.value) && (j->n_models < 2 || dn_parse_double(tail[1], &row.sd));
    }
    if (!ok)
        return dn_fail(err, DN_EFORMAT, "%s, line %llu: a column that should be a number is not", p->path,
                       (ull)line_number);
    return dn_cohort_report_row(j->report, fid, f[0], &row, err);
}

static dn_status add_line(join *j, dn_row_hash *hash, const char *line, size_t len, bool copy, dn_err *err)
{
    dn_row_hash_add(hash, (const uint8_t *)line, len);
    dn_row_hash_add(hash, (const uint8_t *)"\n", 1);
    if (!copy) return DN_OK;
    dn_status status = dn_out_write(j->out, line, len, err);
    return status == DN_OK ? dn_out_write(j->out, "\n", 1, err) : status;
}

static dn_status add_part(join *j, const part *p, dn_err *err)
{
    dn_status status;
    dn_text *t = NULL;
    dn_row_hash *hash = NULL;
    char *line, want[128];
    size_t len;
    DN_TRY(dn_row_hash_new(&hash, err));
    DN_TRY(dn_text_open(&t, p->path, err));
    DN_TRY(next_line(t, &line, &len, err));
    DN_TRY(add_line(j, hash, line, len, false, err));
    DN_TRY(next_line(t, &line, &len, err));
    DN_TRY(add_line(j, hash, line, len, false, err));
    for (uint64_t i = p->head.first; i < p->head.last; i++) {
        DN_TRY(next_line(t, &line, &len, err));
        if (count_tabs(line) + 1 != p->n_columns) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s, line %llu: %zu columns, expected %zu", p->path,
                           (ull)dn_text_line(t), count_tabs(line) + 1, p->n_columns));
        }
        DN_TRY(add_line(j, hash, line, len, true, err));
        const char *fid = strrchr(line, '\t') + 1;
        DN_TRY(dn_strs_add(&j->people.iid, line, strcspn(line, "\t"), err));
        DN_TRY(dn_strs_add(&j->people.fid, fid, strlen(fid), err));
        if (j->report) DN_TRY(report_row(j, p, dn_text_line(t), line, err));
    }
    snprintf(want, sizeof want, DN_PART_END " rows=%" PRIu64 " hash=%016" PRIx64,
             p->head.last - p->head.first, dn_row_hash_get(hash));
    DN_TRY(next_line(t, &line, &len, err));
    if (strcmp(line, want) != 0) {
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s, line %llu: found \"%.100s\", expected \"%s\": the part was changed or damaged: "
                       "make it again",
                       p->path, (ull)dn_text_line(t), line, want));
    }
    DN_TRY(dn_text_next(t, &line, &len, err));
    if (line)
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s, line %llu: text after the last line of the part", p->path,
                       (ull)dn_text_line(t)));
    status = DN_OK;
done:
    dn_text_close(t);
    dn_row_hash_free(hash);
    return status;
}

dn_status dn_join(const dn_strs *parts, const char *out, const char *report, unsigned out_flags,
                  dn_join_stats *stats, dn_err *err)
{
    dn_status status;
    dn_out *page = NULL;
    join j = {.n = parts->n};
    memset(stats, 0, sizeof *stats);
    DN_TRY(dn_alloc(&j.part, j.n, sizeof *j.part, "parts", err));
    for (size_t i = 0; i < j.n; i++) DN_TRY(read_head(&j.part[i], dn_strs_get(parts, i), err));
    qsort(j.part, j.n, sizeof *j.part, by_shard);
    DN_TRY(check_together(&j, err));
    DN_TRY(dn_out_open(&j.out, out, out_flags, err));
    if (report) {
        DN_TRY(start_report(&j, err));
        DN_TRY(dn_out_open(&page, report, out_flags, err));
    }
    DN_TRY(dn_out_write(j.out, j.part[0].columns, strlen(j.part[0].columns), err));
    DN_TRY(dn_out_write(j.out, "\n", 1, err));
    for (size_t i = 0; i < j.n; i++) DN_TRY(add_part(&j, &j.part[i], err));
    if (dn_table_people_hash(&j.people) != j.part[0].head.people_hash) {
        DN_TRY(dn_fail(
            err, DN_EMISMATCH,
            "the joined people are not those of the cohort: a part was changed, or is of another run"));
    }
    stats->n_parts = j.n;
    stats->n_people = j.people.iid.n;
    if (report) {
        DN_TRY(dn_cohort_report_write(j.report, page, out, NULL, err));
        DN_TRY(dn_out_sync(page, err));
    }
    DN_TRY(dn_out_commit(&j.out, err));
    if (report) DN_TRY(dn_out_commit(&page, err));
done:
    dn_out_abort(&j.out);
    dn_out_abort(&page);
    dn_cohort_report_free(j.report);
    free(j.field);
    for (size_t i = 0; j.part && i < j.n; i++) free(j.part[i].columns);
    free(j.part);
    dn_people_free(&j.people);
    return status;
}
