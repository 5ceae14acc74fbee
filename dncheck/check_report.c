/* check_report.c: the page of a check (see check_report.h). */
#include "check_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"

typedef unsigned long long ull;

static dn_status findings_table(dn_out *out, const findings *f, bool only_faults, dn_err *err)
{
    dn_status status;
    static const char *const heads[] = {"level", "check", "where", "detail"};
    DN_TRY(dn_page_table_start(out, heads, 4, err));
    for (size_t i = 0; i < f->n; i++) {
        if (only_faults && f->level[i] < FOUND_WARNING) continue;
        const char *level = found_level_name((found_level)f->level[i]);
        const char *cells[] = {level, dn_strs_get(&f->check, i), dn_strs_get(&f->where, i),
                               dn_strs_get(&f->detail, i)};
        DN_TRY(dn_page_row(out, cells, 4, level, err));
    }
    DN_TRY(dn_page_table_end(out, err));
done:
    return status;
}

/* ---- learning curves, from the logs in the packages ---- */

typedef struct {
    size_t n;
    double *epoch, *column;
} curve;

/* Column `name` of a log against its epochs; empty when the log has no such column. */
static dn_status read_curve(curve *c, const char *log, const char *name, dn_err *err)
{
    dn_status status = DN_OK;
    size_t cap_x = 0, cap_y = 0, col = 0, want = SIZE_MAX;
    const char *p = log, *end = strchr(log, '\n');
    memset(c, 0, sizeof *c);
    if (!end) return DN_OK;
    for (; p <= end; col++) {
        size_t len = strcspn(p, "\t\n");
        if (len == strlen(name) && strncmp(p, name, len) == 0) want = col;
        p += len + 1;
    }
    if (want == SIZE_MAX) return DN_OK;
    for (p = end + 1; *p >= '0' && *p <= '9'; p = end + 1) {
        const char *field = p;
        end = strchr(p, '\n');
        if (!end) break;
        for (size_t k = 0; k < want && field < end; k++) field += strcspn(field, "\t\n") + 1;
        DN_TRY(dn_grow(&c->epoch, &cap_x, c->n + 1, sizeof *c->epoch, "a learning curve", err));
        DN_TRY(dn_grow(&c->column, &cap_y, c->n + 1, sizeof *c->column, "a learning curve", err));
        c->epoch[c->n] = strtod(p, NULL);
        c->column[c->n++] = field < end && *field != '\t' && *field != '\n' ? strtod(field, NULL) : NAN;
    }
done:
    return status;
}

static dn_status curves(dn_out *out, const report_input *in, const char *column, const char *title,
                        const char *label, dn_err *err)
{
    dn_status status;
    size_t n = 0, points = 0;
    curve *c = NULL;
    dn_page_series *s = NULL;
    DN_TRY(dn_alloc(&c, in->members->n, sizeof *c, "learning curves", err));
    DN_TRY(dn_alloc(&s, in->members->n, sizeof *s, "learning curves", err));
    for (size_t i = 0; i < in->members->n; i++) {
        const check_member *m = &in->members->members[i];
        if (!m->package || !m->package->log_tsv) continue;
        DN_TRY(read_curve(&c[n], m->package->log_tsv, column, err));
        s[n] = (dn_page_series){m->name, c[n].n, c[n].epoch, c[n].column};
        points += c[n++].n;
    }
    if (points) DN_TRY(dn_page_lines(out, title, "epoch", label, s, n, true, NAN, NAN, false, err));
    status = DN_OK;
done:
    for (size_t i = 0; c && i < in->members->n; i++) {
        free(c[i].epoch);
        free(c[i].column);
    }
    free(c);
    free(s);
    return status;
}

/* ---- held-out results ---- */

static size_t index_of(uint64_t *v, size_t *n, uint64_t x)
{
    for (size_t i = 0; i < *n; i++) {
        if (v[i] == x) return i;
    }
    v[*n] = x;
    return (*n)++;
}

/* Accuracy of every (fold, seed), and the published ones as marks of their own. */
static dn_status accuracy_plot(dn_out *out, const report_input *in, dn_err *err)
{
    dn_status status;
    const heldout *h = in->heldout;
    size_t n_folds = 0, n_seeds = 0, n = h->n_members;
    uint64_t *folds = NULL, *seeds = NULL;
    char(*group)[32] = NULL, (*name)[64] = NULL;
    const char **groups = NULL, **names = NULL;
    double *value = NULL;
    DN_TRY(dn_alloc(&folds, n, sizeof *folds, "plot", err));
    DN_TRY(dn_alloc(&seeds, n, sizeof *seeds, "plot", err));
    for (size_t i = 0; i < n; i++)
        index_of(folds, &n_folds, h->m[i]->fold), index_of(seeds, &n_seeds, h->m[i]->seed);
    /* Each seed's published accuracies follow it, as hollow marks. */
    size_t each = in->published ? 2 : 1, n_series = n_seeds * each;
    DN_TRY(dn_alloc(&group, n_folds, sizeof *group, "plot", err));
    DN_TRY(dn_alloc(&groups, n_folds, sizeof *groups, "plot", err));
    DN_TRY(dn_alloc(&name, n_series, sizeof *name, "plot", err));
    DN_TRY(dn_alloc(&names, n_series, sizeof *names, "plot", err));
    DN_TRY(dn_alloc(&value, n_series * n_folds, sizeof *value, "plot", err));
    for (size_t i = 0; i < n_series * n_folds; i++) value[i] = NAN;
    for (size_t g = 0; g < n_folds; g++) {
        snprintf(group[g], sizeof group[g], "fold %llu", (ull)folds[g]);
        groups[g] = group[g];
    }
    for (size_t s = 0; s < n_series; s++) {
        snprintf(name[s], sizeof name[s], "seed %llu%s", (ull)seeds[s / each], s % each ? ", published" : "");
        names[s] = name[s];
    }
    for (size_t i = 0; i < n; i++) {
        size_t g = index_of(folds, &n_folds, h->m[i]->fold), s = index_of(seeds, &n_seeds, h->m[i]->seed);
        value[s * each * n_folds + g] = h->accuracy[i];
        if (in->published) value[(s * each + 1) * n_folds + g] = in->published->there[i];
    }
    status = dn_page_points(out, "Held-out accuracy per fold and seed",
                            h->task == DN_TASK_REGRESSION ? "R2" : "accuracy", groups, n_folds, names,
                            n_series, each == 2, value, err);
done:
    free(folds);
    free(seeds);
    free(group);
    free(groups);
    free(name);
    free(names);
    free(value);
    return status;
}

static dn_status member_table(dn_out *out, const heldout *h, const published *p, dn_err *err)
{
    dn_status status;
    const char *heads[] = {"model", "held-out people", h->task == DN_TASK_REGRESSION ? "R2" : "accuracy",
                           "loss",  "best epoch",      "published"};
    size_t n_cols = p ? 6 : 5;
    DN_TRY(dn_page_table_start(out, heads, n_cols, err));
    for (size_t i = 0; i < h->n_members; i++) {
        char cell[5][32];
        snprintf(cell[0], 32, "%llu", (ull)h->n_test[i]);
        snprintf(cell[1], 32, "%.4f", h->accuracy[i]);
        snprintf(cell[2], 32, "%.4f", h->loss[i]);
        snprintf(cell[3], 32, "%llu", (ull)h->m[i]->package->best_epoch);
        snprintf(cell[4], 32, "%.4f", p ? p->there[i] : 0);
        const char *cells[] = {h->m[i]->name, cell[0], cell[1], cell[2], cell[3], cell[4]};
        DN_TRY(dn_page_row(out, cells, n_cols, NULL, err));
    }
    DN_TRY(dn_page_table_end(out, err));
done:
    return status;
}

static dn_status calibration_plot(dn_out *out, const heldout *h, dn_err *err)
{
    double x[HELDOUT_BINS], y[HELDOUT_BINS];
    size_t n = 0;
    for (int b = 0; b < HELDOUT_BINS; b++) {
        if (h->bin_n[b]) x[n] = h->bin_confidence[b], y[n++] = h->bin_accuracy[b];
    }
    dn_page_series s = {"ensemble", n, x, y};
    return dn_page_lines(out, "Reliability: how often a confidence is right",
                         "mean confidence of the prediction", "share right", &s, 1, false, 0, 1, true, err);
}

static dn_status missing_plot(dn_out *out, const heldout *h, dn_err *err)
{
    double x[HELDOUT_SHARES], y[HELDOUT_SHARES];
    size_t n = 0;
    for (int i = 0; i < HELDOUT_SHARES; i++) {
        if (isfinite(h->share_mean[i])) x[n] = 100 * heldout_share[i], y[n++] = h->share_mean[i];
    }
    if (n < 2) return DN_OK;
    dn_page_series s = {"members", n, x, y};
    return dn_page_lines(out, "With SNPs left out: mean accuracy of the members", "SNPs left out, %",
                         "accuracy", &s, 1, false, 0, 1, false, err);
}

static dn_status heldout_part(dn_out *out, const report_input *in, dn_err *err)
{
    dn_status status;
    const heldout *h = in->heldout;
    DN_TRY(dn_page_heading(out, "On people held out", err));
    DN_TRY(dn_page_text(
        out, err,
        "%s of each member on the test set of its fold: mean %.4f, standard deviation %.4f over %zu members.",
        h->task == DN_TASK_REGRESSION ? "R2" : "Accuracy", h->mean, h->sd, h->n_members));
    if (in->published) {
        DN_TRY(dn_page_text(
            out, err,
            "Against the published accuracies: paired difference %+.4f, 95 %% interval %+.4f to %+.4f.",
            in->published->mean_diff, in->published->low, in->published->high));
    }
    DN_TRY(accuracy_plot(out, in, err));
    DN_TRY(member_table(out, h, in->published, err));
    if (h->task == DN_TASK_REGRESSION) goto done;
    DN_TRY(dn_page_text(out, err,
                        "The ensemble, each person judged only by members that did not train on them: "
                        "accuracy %.4f on %llu people; "
                        "macro F1 %.4f; expected calibration error %.4f.",
                        h->n_people ? (double)h->n_right / (double)h->n_people : NAN, (ull)h->n_people,
                        h->macro_f1, h->ece));
    DN_TRY(dn_page_heat(out, "Confusion matrix of the held-out ensemble (shaded by share of the row)",
                        "true population", "predicted population", h->classes, h->confusion, err));
    DN_TRY(calibration_plot(out, h, err));
    DN_TRY(missing_plot(out, h, err));
done:
    return status;
}

dn_status report_write(const char *path, unsigned out_flags, const report_input *in, dn_err *err)
{
    dn_status status;
    dn_out *out = NULL;
    char title[512];
    snprintf(title, sizeof title, "dncheck: %.400s", in->what);
    DN_TRY(dn_out_open(&out, path, out_flags, err));
    DN_TRY(dn_page_start(out, title, err));
    DN_TRY(dn_page_text(out, err, "%zu findings; faults: %zu, warnings: %zu.%s", in->found->n,
                        in->found->n_faults, in->found->n_warnings,
                        in->found->n_faults ? "" : " All holds."));
    if (in->found->n_faults || in->found->n_warnings) DN_TRY(findings_table(out, in->found, true, err));
    if (in->heldout) DN_TRY(heldout_part(out, in, err));
    if (in->members->n) {
        DN_TRY(dn_page_heading(out, "Learning curves", err));
        DN_TRY(curves(out, in, "valid_loss", "Validation loss", "loss", err));
        DN_TRY(curves(out, in, "valid_acc", "Validation accuracy", "accuracy", err));
        DN_TRY(curves(out, in, "train_loss", "Training loss", "loss", err));
    }
    DN_TRY(dn_page_heading(out, "All findings", err));
    DN_TRY(findings_table(out, in->found, false, err));
    DN_TRY(dn_page_end(out, err));
    status = dn_out_commit(&out, err);
done:
    dn_out_abort(&out);
    return status;
}
