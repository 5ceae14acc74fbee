/* dnpredict_table.c: rows of predictions.tsv, and the head and end of parts (see dnpredict_table.h). */
#include "dnpredict_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fingerprint.h"

struct dn_table {
    const dn_model *model;
    dn_out *out;
    bool is_part;
    uint64_t rows;
    dn_row_hash *hash; /* of all bytes so far, in a part */
    uint64_t *order;   /* C: classes by name, bytewise: the order of all_models */
    uint64_t *votes;   /* C */
    double *sum;       /* C: probabilities summed over members */
    uint64_t *choice;  /* L */
};

/* ---- parts ---- */

uint64_t dn_table_people_hash(const dn_people *people)
{
    uint64_t h[2] = {dn_strs_hash(&people->fid), dn_strs_hash(&people->iid)};
    return dn_hash(h, sizeof h);
}

/* n * i / n_shards without overflow: counts are below 2^32. */
void dn_part_range(uint64_t shard, uint64_t n_shards, uint64_t n_people, uint64_t *first, uint64_t *last)
{
    *first = n_people * (shard - 1) / n_shards;
    *last = n_people * shard / n_shards;
}

void dn_part_format(const dn_part *p, char buf[512])
{
    snprintf(buf, 512,
             DN_PART_HEAD " version=1 shard=%" PRIu64 "/%" PRIu64 " people=%" PRIu64 "-%" PRIu64
                          " of=%" PRIu64 " people_hash=%016" PRIx64 " run=%016" PRIx64 "\n",
             p->shard, p->n_shards, p->first, p->last, p->n_people, p->people_hash, p->run);
}

dn_status dn_part_parse(dn_part *p, const char *line, const char *path, dn_err *err)
{
    char again[512];
    if (strncmp(line, DN_PART_HEAD " ", sizeof DN_PART_HEAD) != 0) {
        return dn_fail(err, DN_EFORMAT,
                       "%s is not a part of a table: its first line does not begin with %s (dnpredict "
                       "--shard writes parts)",
                       path, DN_PART_HEAD);
    }
    if (strncmp(line + sizeof DN_PART_HEAD, "version=1 ", 10) != 0) {
        return dn_fail(err, DN_EUNSUPPORTED,
                       "%s: this version of dnpredict joins parts of version 1; found \"%.40s\"", path,
                       line + sizeof DN_PART_HEAD);
    }
    *p = (dn_part){0};
    int n = sscanf(line,
                   DN_PART_HEAD " version=1 shard=%" SCNu64 "/%" SCNu64 " people=%" SCNu64 "-%" SCNu64
                                " of=%" SCNu64 " people_hash=%" SCNx64 " run=%" SCNx64,
                   &p->shard, &p->n_shards, &p->first, &p->last, &p->n_people, &p->people_hash, &p->run);
    /* scanf is lenient: what it read must print as what was there. */
    dn_part_format(p, again);
    again[strcspn(again, "\n")] = 0;
    uint64_t first = 0, last = 0;
    bool ok = n == 7 && strcmp(again, line) == 0 && p->n_shards >= 1 && p->shard >= 1 &&
              p->shard <= p->n_shards && p->n_people >= 1 && p->n_people <= DN_MAX_PEOPLE &&
              p->n_shards <= DN_MAX_PEOPLE;
    if (ok) dn_part_range(p->shard, p->n_shards, p->n_people, &first, &last);
    if (!ok || first != p->first || last != p->last) {
        return dn_fail(err, DN_EFORMAT, "%s: the first line is damaged: \"%.200s\"", path, line);
    }
    return DN_OK;
}

/* ---- writing ---- */

static dn_status put(dn_table *t, dn_err *err, const char *fmt, ...) DN_PRINTF(3, 4);
static dn_status put(dn_table *t, dn_err *err, const char *fmt, ...)
{
    char stack[1024], *text = stack;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(stack, sizeof stack, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof stack) {
        va_start(ap, fmt);
        n = vasprintf(&text, fmt, ap);
        va_end(ap);
    }
    if (n < 0) return dn_fail(err, DN_ENOMEM, "out of memory");
    dn_status status = dn_out_write(t->out, text, (size_t)n, err);
    if (t->is_part) dn_row_hash_add(t->hash, (const uint8_t *)text, (size_t)n);
    if (text != stack) free(text);
    return status;
}

static dn_status sort_classes(dn_table *t, dn_err *err)
{
    const dn_strs *names = &t->model->classes;
    uint64_t n = names->n;
    dn_status status;
    DN_TRY(dn_alloc(&t->order, n, sizeof *t->order, "table", err));
    DN_TRY(dn_alloc(&t->votes, n, sizeof *t->votes, "table", err));
    DN_TRY(dn_alloc(&t->sum, n, sizeof *t->sum, "table", err));
    for (uint64_t i = 0; i < n; i++) {
        uint64_t k = i;
        for (; k > 0 && strcmp(dn_strs_get(names, t->order[k - 1]), dn_strs_get(names, i)) > 0; k--)
            t->order[k] = t->order[k - 1];
        t->order[k] = i;
    }
    status = DN_OK;
done:
    return status;
}

static bool is_classes(const dn_table *t)
{
    return t->model->task == DN_TASK_CLASSIFICATION;
}

dn_status dn_table_open(dn_table **out, const char *path, unsigned out_flags, const dn_model *model,
                        const dn_part *part, dn_err *err)
{
    dn_status status;
    dn_table *t = NULL;
    char head[512];
    *out = NULL;
    DN_TRY(dn_alloc(&t, 1, sizeof *t, "table", err));
    t->model = model;
    t->is_part = part != NULL;
    DN_TRY(dn_row_hash_new(&t->hash, err));
    DN_TRY(dn_alloc(&t->choice, model->n_members, sizeof *t->choice, "table", err));
    DN_TRY(sort_classes(t, err));
    DN_TRY(dn_out_open(&t->out, path, out_flags, err));
    if (part) {
        dn_part_format(part, head);
        DN_TRY(put(t, err, "%s", head));
    }
    DN_TRY(put(t, err, "samples"));
    for (size_t m = 0; m < model->n_members; m++) DN_TRY(put(t, err, "\tmodel%zu", m + 1));
    DN_TRY(put(t, err,
               is_classes(t) ? "\tall_models\tprediction\tvotes\tconfidence\tentropy\tcall_rate\tfid\n"
                             : "\tall_models\tprediction\tsd\tcall_rate\tfid\n"));
    *out = t;
    t = NULL;
    status = DN_OK;
done:
    dn_table_abort(t);
    return status;
}

/* First of the largest. */
static uint64_t top_of(const float *p, uint64_t n)
{
    uint64_t best = 0;
    for (uint64_t c = 1; c < n; c++) {
        if (p[c] > p[best]) best = c;
    }
    return best;
}

static dn_status row_of_classes(dn_table *t, const float *scores, uint64_t stride, dn_row_result *row,
                                dn_err *err)
{
    dn_status status;
    const dn_model *model = t->model;
    const dn_strs *names = &model->classes;
    uint64_t n = model->n_out, win = 0;
    double entropy = 0, members = (double)model->n_members;
    for (uint64_t c = 0; c < n; c++) t->votes[c] = 0, t->sum[c] = 0;
    for (size_t m = 0; m < model->n_members; m++) {
        const float *p = scores + m * stride;
        t->choice[m] = top_of(p, n);
        t->votes[t->choice[m]]++;
        for (uint64_t c = 0; c < n; c++) t->sum[c] += p[c];
        DN_TRY(put(t, err, "\t%s", dn_strs_get(names, t->choice[m])));
    }
    for (uint64_t c = 0; c < n; c++) {
        if (t->votes[c] > t->votes[win] || (t->votes[c] == t->votes[win] && t->sum[c] > t->sum[win])) win = c;
        double mean = t->sum[c] / members;
        if (mean > 0) entropy -= mean * log(mean);
    }
    char sep = '\t';
    for (uint64_t k = 0; k < n; k++) {
        uint64_t c = t->order[k];
        if (t->votes[c] == 0) continue;
        DN_TRY(put(t, err, "%c%s(%" PRIu64 ")", sep, dn_strs_get(names, c), t->votes[c]));
        sep = ',';
    }
    row->prediction = dn_strs_get(names, win);
    row->votes = t->votes[win];
    row->confidence = t->sum[win] / members;
    row->entropy = entropy > 0 ? entropy : 0;
    DN_TRY(put(t, err, "\t%s\t%" PRIu64 "\t%.6f\t%.6f", row->prediction, row->votes, row->confidence,
               row->entropy));
done:
    return status;
}

static dn_status row_of_values(dn_table *t, const float *scores, uint64_t stride, dn_row_result *row,
                               dn_err *err)
{
    dn_status status;
    double sum = 0, squares = 0, n = (double)t->model->n_members;
    for (size_t m = 0; m < t->model->n_members; m++) {
        DN_TRY(put(t, err, "\t%.7g", (double)scores[m * stride]));
        sum += scores[m * stride];
    }
    for (size_t m = 0; m < t->model->n_members; m++) {
        squares += (scores[m * stride] - sum / n) * (scores[m * stride] - sum / n);
    }
    row->value = sum / n;
    row->sd = n > 1 ? sqrt(squares / (n - 1)) : NAN;
    DN_TRY(put(t, err, "\t%.7g\t%.7g", row->value, row->value));
    if (n > 1)
        DN_TRY(put(t, err, "\t%.7g", row->sd));
    else
        DN_TRY(put(t, err, "\tNA"));
done:
    return status;
}

dn_status dn_table_row(dn_table *t, const char *fid, const char *iid, const float *scores, uint64_t stride,
                       double call_rate, dn_row_result *row, dn_err *err)
{
    dn_status status;
    dn_row_result unwanted;
    if (!row) row = &unwanted;
    *row = (dn_row_result){.call_rate = call_rate};
    DN_TRY(put(t, err, "%s", iid));
    if (call_rate > 0) {
        DN_TRY(is_classes(t) ? row_of_classes(t, scores, stride, row, err)
                             : row_of_values(t, scores, stride, row, err));
    } else {
        for (size_t m = 0; m < t->model->n_members; m++) DN_TRY(put(t, err, "\tNA"));
        DN_TRY(put(t, err, is_classes(t) ? "\tNA\tNA\t0\tNA\tNA" : "\tNA\tNA\tNA"));
    }
    DN_TRY(put(t, err, "\t%.6f\t%s\n", call_rate, fid));
    t->rows++;
done:
    return status;
}

dn_status dn_table_commit(dn_table **tp, dn_err *err)
{
    dn_status status;
    dn_table *t = *tp;
    *tp = NULL;
    if (t->is_part) {
        uint64_t hash = dn_row_hash_get(t->hash);
        DN_TRY(put(t, err, DN_PART_END " rows=%" PRIu64 " hash=%016" PRIx64 "\n", t->rows, hash));
    }
    DN_TRY(dn_out_commit(&t->out, err));
    status = DN_OK;
done:
    dn_table_abort(t);
    return status;
}

void dn_table_abort(dn_table *t)
{
    if (!t) return;
    dn_out_abort(&t->out);
    dn_row_hash_free(t->hash);
    free(t->order);
    free(t->votes);
    free(t->sum);
    free(t->choice);
    free(t);
}
