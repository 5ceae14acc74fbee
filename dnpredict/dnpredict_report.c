/* dnpredict_report.c: counts of a cohort's predictions, and the page that shows them (see
 * dnpredict_report.h). */
#include "dnpredict_report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"

typedef unsigned long long ull;

enum {
    SHARE_BINS = 200, /* of call rates, over [0, 1]; those of confidence are a tenth of them */
    VALUE_BINS = 512, /* of a regression model's values */
    PLOT_BINS = 40,   /* most bars of a histogram on the page */
    CHROMOSOMES = 27, /* dn_chrom_code(); 0: none known */
    NAMED = 10,       /* people of a kind are named up to so many */
    MOST_BARS = 30
};

typedef struct {
    uint64_t n, unanimous, doubtful; /* doubtful: confidence below one half */
    double confidence;               /* summed */
} class_counts;

/* A histogram whose range follows the data: bins are [k, k + 1) * width for k in [first, last], kept at k mod
 * VALUE_BINS; the width doubles when they would be too many. */
typedef struct {
    uint64_t count[VALUE_BINS];
    double width, first, last; /* first and last are whole numbers */
} value_bins;

struct dn_cohort_report {
    dn_task task;
    size_t n_members;
    uint64_t n, no_call, low_call, unanimous, doubtful;
    double confidence, entropy; /* summed */
    dn_strs classes;
    class_counts *of_class; /* classes.n */
    size_t cap, last_class;
    uint64_t confidence_bins[SHARE_BINS], call_bins[SHARE_BINS];
    uint64_t *votes; /* n_members + 1 */
    value_bins values;
    double mean, squares, least, greatest, sd; /* of the values; sd: summed over people */
    dn_strs without, low;                      /* the first NAMED of them */
    bool has_overlap, by_chromosome, without_alleles;
    uint64_t model_snps, matched_snps, of_model[CHROMOSOMES], of_matched[CHROMOSOMES];
    double scale;
};

/* ---- counting ---- */

dn_status dn_cohort_report_new(dn_cohort_report **out, dn_task task, size_t n_members, dn_err *err)
{
    dn_status status;
    *out = NULL;
    dn_cohort_report *r = NULL;
    DN_TRY(dn_alloc(&r, 1, sizeof *r, "report", err));
    r->task = task;
    r->n_members = n_members;
    DN_TRY(dn_alloc(&r->votes, n_members + 1, sizeof *r->votes, "report", err));
    *out = r;
    r = NULL;
done:
    dn_cohort_report_free(r);
    return status;
}

static dn_status class_of(dn_cohort_report *r, const char *name, size_t *k, dn_err *err)
{
    dn_status status = DN_OK;
    /* People next to each other are often of one population. */
    for (size_t i = 0; i < r->classes.n; i++) {
        *k = (r->last_class + i) % r->classes.n;
        if (strcmp(dn_strs_get(&r->classes, *k), name) == 0) goto found;
    }
    *k = r->classes.n;
    DN_TRY(dn_grow(&r->of_class, &r->cap, *k + 1, sizeof *r->of_class, "report", err));
    r->of_class[*k] = (class_counts){0};
    DN_TRY(dn_strs_add(&r->classes, name, strlen(name), err));
found:
    r->last_class = *k;
done:
    return status;
}

dn_status dn_cohort_report_classes(dn_cohort_report *r, const dn_strs *classes, dn_err *err)
{
    size_t k;
    dn_status status = DN_OK;
    for (uint64_t i = 0; i < classes->n && status == DN_OK; i++)
        status = class_of(r, dn_strs_get(classes, i), &k, err);
    return status;
}

void dn_cohort_report_overlap(dn_cohort_report *r, const dn_model *model, const dn_matched *cohort)
{
    r->has_overlap = true;
    r->model_snps = model->n_snps;
    r->matched_snps = cohort->n_cols;
    r->scale = cohort->scale;
    r->without_alleles = cohort->without_alleles;
    r->by_chromosome = model->snps.chrom.n == model->n_snps;
    if (!r->by_chromosome) return;
    for (uint64_t j = 0; j < model->n_snps; j++)
        r->of_model[dn_chrom_code(dn_strs_get(&model->snps.chrom, j))]++;
    for (uint64_t j = 0; j < cohort->n_cols; j++) {
        uint64_t at = cohort->place ? cohort->place[j] : j;
        r->of_matched[dn_chrom_code(dn_strs_get(&model->snps.chrom, at))]++;
    }
}

static uint64_t share_bin(double x)
{
    double b = x * SHARE_BINS;
    return b < 0 ? 0 : b >= SHARE_BINS ? SHARE_BINS - 1 : (uint64_t)b;
}

static size_t ring(double k)
{
    return (size_t)(k - VALUE_BINS * floor(k / VALUE_BINS));
}

static void add_value(value_bins *b, double v)
{
    int power;
    if (b->width == 0) {
        frexp(v, &power);
        b->width = ldexp(1, v == 0 ? -20 : power - 20);
        b->first = b->last = floor(v / b->width);
    }
    double k = floor(v / b->width);
    while (fmax(b->last, k) - fmin(b->first, k) >= VALUE_BINS) {
        uint64_t half[VALUE_BINS] = {0};
        for (double i = b->first; i <= b->last; i++) half[ring(floor(i / 2))] += b->count[ring(i)];
        memcpy(b->count, half, sizeof half);
        b->width *= 2;
        b->first = floor(b->first / 2), b->last = floor(b->last / 2);
        k = floor(v / b->width);
    }
    b->first = fmin(b->first, k), b->last = fmax(b->last, k);
    b->count[ring(k)]++;
}

static dn_status name_person(dn_strs *list, const char *fid, const char *iid, dn_err *err)
{
    char name[2 * 4096 + 2];
    if (list->n >= NAMED) return DN_OK;
    snprintf(name, sizeof name, "%s %s", fid, iid);
    return dn_strs_add(list, name, strlen(name), err);
}

dn_status dn_cohort_report_row(dn_cohort_report *r, const char *fid, const char *iid,
                               const dn_row_result *row, dn_err *err)
{
    dn_status status;
    size_t k;
    r->n++;
    r->call_bins[share_bin(row->call_rate)]++;
    if (!(row->call_rate > 0)) {
        r->no_call++;
        return name_person(&r->without, fid, iid, err);
    }
    if (row->call_rate < DN_LOW_CALL_RATE) {
        r->low_call++;
        DN_TRY(name_person(&r->low, fid, iid, err));
    }
    if (r->task == DN_TASK_REGRESSION) {
        double n = (double)(r->n - r->no_call), d = row->value - r->mean;
        r->least = n == 1 ? row->value : fmin(r->least, row->value);
        r->greatest = n == 1 ? row->value : fmax(r->greatest, row->value);
        r->mean += d / n;
        r->squares += d * (row->value - r->mean);
        if (r->n_members > 1) r->sd += row->sd;
        add_value(&r->values, row->value);
        return DN_OK;
    }
    DN_TRY(class_of(r, row->prediction, &k, err));
    class_counts *c = &r->of_class[k];
    bool all = row->votes == r->n_members, doubt = row->confidence < 0.5;
    c->n++;
    c->unanimous += all, r->unanimous += all;
    c->doubtful += doubt, r->doubtful += doubt;
    c->confidence += row->confidence, r->confidence += row->confidence;
    r->entropy += row->entropy;
    r->confidence_bins[share_bin(row->confidence)]++;
    if (row->votes <= r->n_members) r->votes[row->votes]++;
    status = DN_OK;
done:
    return status;
}

void dn_cohort_report_free(dn_cohort_report *r)
{
    if (!r) return;
    dn_strs_free(&r->classes);
    dn_strs_free(&r->without);
    dn_strs_free(&r->low);
    free(r->of_class);
    free(r->votes);
    free(r);
}

/* ---- the page ---- */

static dn_status fact(dn_out *out, dn_err *err, const char *what, const char *fmt, ...) DN_PRINTF(4, 5);
static dn_status fact(dn_out *out, dn_err *err, const char *what, const char *fmt, ...)
{
    char value[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    const char *cells[] = {what, value};
    return dn_page_row(out, cells, 2, "plain", err);
}

static double percent(uint64_t n, uint64_t of)
{
    return of ? 100 * (double)n / (double)of : 0;
}

static dn_status summary(dn_out *out, const dn_cohort_report *r, const dn_part *part, dn_err *err)
{
    dn_status status;
    static const char *const heads[] = {"what", "value"};
    uint64_t n = r->n - r->no_call;
    DN_TRY(dn_page_table_start(out, heads, 2, err));
    DN_TRY(fact(out, err, "people", "%llu", (ull)r->n));
    if (part) {
        DN_TRY(fact(out, err, "of the cohort", "shard %llu of %llu: people %llu to %llu of %llu",
                    (ull)part->shard, (ull)part->n_shards, (ull)part->first + 1, (ull)part->last,
                    (ull)part->n_people));
    }
    DN_TRY(fact(out, err, "people with a prediction", "%llu", (ull)n));
    DN_TRY(fact(out, err, "models in the ensemble", "%zu", r->n_members));
    if (r->has_overlap) {
        DN_TRY(fact(out, err, "SNPs of the model", "%llu", (ull)r->model_snps));
        DN_TRY(fact(out, err, "of them matched", "%llu (%.1f %%)", (ull)r->matched_snps,
                    percent(r->matched_snps, r->model_snps)));
        DN_TRY(fact(out, err, "scale", "%.6g", r->scale));
    }
    if (n && r->task == DN_TASK_REGRESSION) {
        DN_TRY(fact(out, err, "mean value", "%.6g", r->mean));
        if (n > 1)
            DN_TRY(
                fact(out, err, "standard deviation over people", "%.6g", sqrt(r->squares / (double)(n - 1))));
        DN_TRY(fact(out, err, "least and greatest value", "%.6g to %.6g", r->least, r->greatest));
        if (r->n_members > 1)
            DN_TRY(
                fact(out, err, "standard deviation over models, mean of people", "%.6g", r->sd / (double)n));
    } else if (n) {
        DN_TRY(fact(out, err, "mean confidence", "%.4f", r->confidence / (double)n));
        DN_TRY(fact(out, err, "mean entropy", "%.4f", r->entropy / (double)n));
        DN_TRY(fact(out, err, "all models agree", "%llu people (%.1f %%)", (ull)r->unanimous,
                    percent(r->unanimous, n)));
        DN_TRY(fact(out, err, "confidence below 0.5", "%llu people (%.1f %%)", (ull)r->doubtful,
                    percent(r->doubtful, n)));
    }
    DN_TRY(dn_page_table_end(out, err));
done:
    return status;
}

/* "FID IID, FID IID, ..." for a message; text of 1024 bytes. */
static const char *list_of(const dn_strs *names, uint64_t n, char text[1024])
{
    size_t used = 0;
    text[0] = 0;
    for (uint64_t i = 0; i < names->n && used < 900; i++)
        used += (size_t)snprintf(text + used, 1024 - used, "%s%.80s", i ? ", " : "", dn_strs_get(names, i));
    if (used < 1000) snprintf(text + used, 1024 - used, "%s", n > names->n ? ", ..." : "");
    return text;
}

static dn_status warning(dn_out *out, dn_err *err, bool *any, const char *what, const char *fmt, ...)
    DN_PRINTF(5, 6);
static dn_status warning(dn_out *out, dn_err *err, bool *any, const char *what, const char *fmt, ...)
{
    dn_status status;
    static const char *const heads[] = {"what", "detail"};
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!*any) DN_TRY(dn_page_table_start(out, heads, 2, err));
    *any = true;
    const char *cells[] = {what, text};
    DN_TRY(dn_page_row(out, cells, 2, "warning", err));
done:
    return status;
}

static const char *chromosome_name(int code, char name[16])
{
    static const char *const special[] = {"X", "Y", "XY", "MT"};
    if (code >= 23)
        snprintf(name, 16, "%s", special[code - 23]);
    else if (code)
        snprintf(name, 16, "%d", code);
    else
        snprintf(name, 16, "other");
    return name;
}

static dn_status overlap_warnings(dn_out *out, const dn_cohort_report *r, bool *any, dn_err *err)
{
    dn_status status = DN_OK;
    char bare[256] = "", name[16];
    size_t used = 0, n = 0;
    if (!r->has_overlap) goto done;
    if (4 * r->matched_snps < r->model_snps) {
        DN_TRY(warning(out, err, any, "few SNPs",
                       "only %llu of the model's %llu SNPs (%.1f %%) matched: predictions rest on little. "
                       "snpmatch's --report says why each SNP is missing.",
                       (ull)r->matched_snps, (ull)r->model_snps, percent(r->matched_snps, r->model_snps)));
    }
    for (int c = 1; c < CHROMOSOMES; c++) {
        /* Where fewer than 5 would be expected, none is no sign of anything. */
        double expected = (double)r->of_model[c] * (double)r->matched_snps / (double)r->model_snps;
        if (r->of_matched[c] || expected < 5) continue;
        used += (size_t)snprintf(bare + used, sizeof bare - used, "%s%s", n++ ? ", " : "",
                                 chromosome_name(c, name));
    }
    if (n) {
        DN_TRY(warning(
            out, err, any, "chromosomes without a SNP",
            "no SNP matched on %zu of the model's chromosomes: %s. Were all filesets given to snpmatch?", n,
            bare));
    }
    if (r->without_alleles) {
        DN_TRY(warning(out, err, any, "alleles not compared",
                       "the cohort was matched by SNP IDs alone: where its A1/A2 are the other way round, "
                       "predictions are wrong without any sign of it."));
    }
done:
    return status;
}

static dn_status warnings(dn_out *out, const dn_cohort_report *r, dn_err *err)
{
    dn_status status;
    bool any = false;
    char names[1024];
    uint64_t n = r->n - r->no_call;
    DN_TRY(overlap_warnings(out, r, &any, err));
    if (r->no_call) {
        DN_TRY(warning(out, err, &any, "no call",
                       "%llu of %llu people have no call at any matched SNP; their prediction is NA: %s",
                       (ull)r->no_call, (ull)r->n, list_of(&r->without, r->no_call, names)));
    }
    if (r->low_call) {
        DN_TRY(warning(out, err, &any, "low call rate",
                       "%llu of %llu people have calls at less than half of the matched SNPs: %s",
                       (ull)r->low_call, (ull)r->n, list_of(&r->low, r->low_call, names)));
    }
    if (r->task == DN_TASK_CLASSIFICATION && r->doubtful * 10 > n) {
        DN_TRY(warning(out, err, &any, "low confidence",
                       "%.1f %% of the people have a confidence below 0.5: populations that the model tells "
                       "apart badly or does not know, or too few SNPs.",
                       percent(r->doubtful, n)));
    }
    if (any)
        DN_TRY(dn_page_table_end(out, err));
    else
        DN_TRY(dn_page_text(out, err, "Nothing to warn of."));
done:
    return status;
}

static const dn_cohort_report *sorting; /* qsort has no context; one page is written at a time */
static int by_count(const void *a, const void *b)
{
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    uint64_t x = sorting->of_class[i].n, y = sorting->of_class[j].n;
    if (x != y) return x < y ? 1 : -1;
    return strcmp(dn_strs_get(&sorting->classes, i), dn_strs_get(&sorting->classes, j));
}

static dn_status populations(dn_out *out, const dn_cohort_report *r, dn_err *err)
{
    dn_status status;
    static const char *const heads[] = {
        "predicted population", "people", "share, %", "mean confidence", "all models agree, %",
        "confidence below 0.5"};
    size_t *order = NULL, n = r->classes.n, shown = 0;
    uint64_t *count = NULL;
    dn_strs names = {0};
    DN_TRY(dn_alloc(&order, n, sizeof *order, "report", err));
    DN_TRY(dn_alloc(&count, n, sizeof *count, "report", err));
    for (size_t i = 0; i < n; i++) order[i] = i;
    sorting = r;
    qsort(order, n, sizeof *order, by_count);
    for (; shown < n && r->of_class[order[shown]].n; shown++) {
        const char *name = dn_strs_get(&r->classes, order[shown]);
        DN_TRY(dn_strs_add(&names, name, strlen(name), err));
        count[shown] = r->of_class[order[shown]].n;
    }
    DN_TRY(dn_page_bars(out, "People per predicted population", &names, count, NULL, err));
    DN_TRY(dn_page_table_start(out, heads, 6, err));
    for (size_t i = 0; i < n; i++) {
        const class_counts *c = &r->of_class[order[i]];
        char cell[5][32];
        snprintf(cell[0], 32, "%llu", (ull)c->n);
        snprintf(cell[1], 32, "%.2f", percent(c->n, r->n - r->no_call));
        if (c->n)
            snprintf(cell[2], 32, "%.4f", c->confidence / (double)c->n);
        else
            snprintf(cell[2], 32, " ");
        snprintf(cell[3], 32, c->n ? "%.1f" : " ", percent(c->unanimous, c->n));
        snprintf(cell[4], 32, "%llu", (ull)c->doubtful);
        const char *cells[] = {
            dn_strs_get(&r->classes, order[i]), cell[0], cell[1], cell[2], cell[3], cell[4]};
        DN_TRY(dn_page_row(out, cells, 6, NULL, err));
    }
    DN_TRY(dn_page_table_end(out, err));
done:
    dn_strs_free(&names);
    free(order);
    free(count);
    return status;
}

/* How many of the models agree, from all of them down. */
static dn_status agreement(dn_out *out, const dn_cohort_report *r, dn_err *err)
{
    dn_status status;
    dn_strs names = {0};
    uint64_t count[MOST_BARS];
    static const char title[] = "People by the number of models that vote for the prediction";
    if (r->n_members > MOST_BARS) {
        DN_TRY(dn_page_histogram(out, title, "votes", r->votes + 1, r->n_members, 0.5,
                                 (double)r->n_members + 0.5, err));
        goto done;
    }
    for (size_t v = r->n_members; v >= 1; v--) {
        char name[48];
        int len = snprintf(name, sizeof name, "%zu of %zu", v, r->n_members);
        DN_TRY(dn_strs_add(&names, name, (size_t)len, err));
        count[r->n_members - v] = r->votes[v];
    }
    DN_TRY(dn_page_bars(out, title, &names, count, NULL, err));
done:
    dn_strs_free(&names);
    return status;
}

/* Call rates: the part of [0, 1] where people are, so that 0.995 and 1 can be told apart. */
static dn_status call_rates(dn_out *out, const dn_cohort_report *r, dn_err *err)
{
    size_t from = 0;
    uint64_t count[PLOT_BINS] = {0};
    while (from < SHARE_BINS - PLOT_BINS / 2 && !r->call_bins[from]) from++;
    size_t each = (SHARE_BINS - from + PLOT_BINS - 1) / PLOT_BINS, n = (SHARE_BINS - from + each - 1) / each;
    from = SHARE_BINS - n * each < SHARE_BINS ? SHARE_BINS - n * each : 0;
    for (size_t i = from; i < SHARE_BINS; i++) count[(i - from) / each] += r->call_bins[i];
    return dn_page_histogram(out, "Call rate: share of the matched SNPs that a person has a call for",
                             "call rate", count, n, (double)from / SHARE_BINS, 1, err);
}

static dn_status overlap(dn_out *out, const dn_cohort_report *r, dn_err *err)
{
    dn_status status;
    dn_strs names = {0};
    uint64_t of[CHROMOSOMES], matched[CHROMOSOMES];
    char name[16];
    DN_TRY(dn_page_heading(out, "SNPs of the model", err));
    DN_TRY(dn_page_text(
        out, err,
        "%llu of the model's %llu SNPs matched (%.1f %%). The others count as missing for everyone.",
        (ull)r->matched_snps, (ull)r->model_snps, percent(r->matched_snps, r->model_snps)));
    if (!r->by_chromosome) {
        DN_TRY(dn_page_text(out, err, "The model does not say which chromosomes its SNPs are on."));
        goto done;
    }
    for (int c = 1; c <= CHROMOSOMES; c++) {
        int code = c % CHROMOSOMES; /* "other" comes last */
        if (!r->of_model[code]) continue;
        chromosome_name(code, name);
        of[names.n] = r->of_model[code], matched[names.n] = r->of_matched[code];
        DN_TRY(dn_strs_add(&names, name, strlen(name), err));
    }
    DN_TRY(
        dn_page_bars(out, "SNPs matched, of those of the model, per chromosome", &names, matched, of, err));
done:
    dn_strs_free(&names);
    return status;
}

static dn_status values(dn_out *out, const dn_cohort_report *r, dn_err *err)
{
    const value_bins *b = &r->values;
    uint64_t count[PLOT_BINS] = {0};
    if (b->width == 0) return DN_OK;
    double span = b->last - b->first + 1, each = ceil(span / PLOT_BINS);
    double from = floor(b->first / each) * each;
    if (b->last - from >= each * PLOT_BINS) each++, from = floor(b->first / each) * each;
    if (b->last - from >= each * PLOT_BINS) from = b->first;
    size_t n = 1;
    for (double k = b->first; k <= b->last; k++) {
        size_t i = (size_t)((k - from) / each);
        count[i] += b->count[ring(k)];
        n = i + 1;
    }
    return dn_page_histogram(out, "Predicted values: mean over models", "value", count, n, from * b->width,
                             (from + each * (double)n) * b->width, err);
}

dn_status dn_cohort_report_write(const dn_cohort_report *r, dn_out *out, const char *what,
                                 const dn_part *part, dn_err *err)
{
    dn_status status;
    char title[512];
    uint64_t bins[SHARE_BINS / 10] = {0};
    snprintf(title, sizeof title, "dnpredict: %.400s", what);
    DN_TRY(dn_page_start(out, title, err));
    DN_TRY(summary(out, r, part, err));
    DN_TRY(dn_page_heading(out, "Warnings", err));
    DN_TRY(warnings(out, r, err));
    if (r->task == DN_TASK_REGRESSION) {
        DN_TRY(dn_page_heading(out, "Predicted values", err));
        DN_TRY(values(out, r, err));
    } else {
        DN_TRY(dn_page_heading(out, "Predicted populations", err));
        DN_TRY(populations(out, r, err));
        DN_TRY(dn_page_heading(out, "Confidence and agreement", err));
        DN_TRY(dn_page_text(
            out, err,
            "Confidence is the mean over the models of the probability that each gives to the prediction. It "
            "is "
            "about populations that the model knows: somebody from any other one is placed among them, often "
            "with a high confidence and with all models in agreement."));
        for (size_t i = 0; i < SHARE_BINS; i++) bins[i / 10] += r->confidence_bins[i];
        DN_TRY(dn_page_histogram(out, "Confidence of the prediction", "confidence", bins, SHARE_BINS / 10, 0,
                                 1, err));
        DN_TRY(agreement(out, r, err));
    }
    DN_TRY(dn_page_heading(out, "Call rates", err));
    DN_TRY(call_rates(out, r, err));
    if (r->has_overlap) DN_TRY(overlap(out, r, err));
    DN_TRY(dn_page_end(out, err));
done:
    return status;
}
