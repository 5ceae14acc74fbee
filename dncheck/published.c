/* published.c: held-out accuracies beside published ones (see published.h). */
#include "published.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "opt.h"

typedef unsigned long long ull;

dn_status published_compare(published *p, const char *path, const heldout *h, dn_err *err)
{
    enum { MAX_COLS = 64 };
    dn_status status;
    dn_text *t = NULL;
    char *line, *field[MAX_COLS];
    size_t len, fold_col = MAX_COLS, seed_col = MAX_COLS, acc_col = MAX_COLS, n_cols = 0;
    bool percent = false;
    memset(p, 0, sizeof *p);
    DN_TRY(dn_alloc(&p->there, h->n_members, sizeof *p->there, "published accuracies", err));
    DN_TRY(dn_alloc(&p->here, h->n_members, sizeof *p->here, "published accuracies", err));
    for (size_t i = 0; i < h->n_members; i++) p->there[i] = NAN;
    DN_TRY(dn_text_open(&t, path, err));
    for (;;) {
        uint64_t fold, seed;
        double acc;
        DN_TRY(dn_text_next(t, &line, &len, err));
        if (!line) break;
        if (!len) continue;
        size_t n = dn_split_tabs(line, field, MAX_COLS);
        if (n_cols == 0) {
            n_cols = n;
            for (size_t c = 0; c < n && c < MAX_COLS; c++) {
                if (strcmp(field[c], "fold") == 0) fold_col = c;
                if (strcmp(field[c], "seed") == 0) seed_col = c;
                if (strcmp(field[c], "test_acc") == 0 || strcmp(field[c], "accuracy") == 0) acc_col = c;
            }
            if (fold_col < MAX_COLS && seed_col < MAX_COLS && acc_col < MAX_COLS) continue;
            DN_TRY(dn_fail(err, DN_EFORMAT,
                           "%s: its first line must name the columns fold, seed and test_acc", path));
        }
        if (n != n_cols || !dn_parse_u64(field[fold_col], &fold) || !dn_parse_u64(field[seed_col], &seed) ||
            !dn_parse_double(field[acc_col], &acc) || acc < 0 || acc > 100) {
            DN_TRY(dn_fail(err, DN_EFORMAT,
                           "%s, line %llu: %zu columns with a fold, a seed and an accuracy were expected",
                           path, (ull)dn_text_line(t), n_cols));
        }
        percent |= acc > 1;
        for (size_t i = 0; i < h->n_members; i++) {
            if (h->m[i]->fold != fold || h->m[i]->seed != seed) continue;
            if (!isnan(p->there[i])) {
                DN_TRY(dn_fail(err, DN_EFORMAT, "%s, line %llu: fold %llu, seed %llu stands there twice",
                               path, (ull)dn_text_line(t), (ull)fold, (ull)seed));
            }
            p->there[i] = acc;
        }
    }
    p->n = h->n_members;
    double *diff = p->here; /* first the differences, for their spread */
    for (size_t i = 0; i < p->n; i++) {
        if (isnan(p->there[i]))
            DN_TRY(dn_fail(err, DN_EMISMATCH, "%s has no line for fold %llu, seed %llu", path,
                           (ull)h->m[i]->fold, (ull)h->m[i]->seed));
        if (percent) p->there[i] /= 100;
        diff[i] = h->accuracy[i] - p->there[i];
    }
    double half = p->n > 1 ? stat_t95(p->n - 1) * stat_sd(diff, p->n) / sqrt((double)p->n) : INFINITY;
    p->mean_diff = stat_mean(diff, p->n);
    p->low = p->mean_diff - half;
    p->high = p->mean_diff + half;
    for (size_t i = 0; i < p->n; i++) p->here[i] = h->accuracy[i];
    status = DN_OK;
done:
    dn_text_close(t);
    return status;
}

dn_status published_report(const published *p, const heldout *h, findings *f, dn_err *err)
{
    dn_status status;
    for (size_t i = 0; i < p->n; i++) {
        DN_TRY(found(f, err, FOUND_OK, DN_OK, "published", h->m[i]->name, "%.4f here, %.4f published: %+.4f",
                     p->here[i], p->there[i], p->here[i] - p->there[i]));
    }
    /* Not a fault: whether a difference matters is for the reader; whether it is more than noise is said. */
    bool noise = p->low <= 0 && p->high >= 0;
    DN_TRY(found(f, err, noise ? FOUND_OK : FOUND_WARNING, DN_OK, "published", "all",
                 "mean %.4f (sd %.4f) here, %.4f (sd %.4f) published; paired difference %+.4f, 95 %% "
                 "interval %+.4f to %+.4f: %s",
                 stat_mean(p->here, p->n), stat_sd(p->here, p->n), stat_mean(p->there, p->n),
                 stat_sd(p->there, p->n), p->mean_diff, p->low, p->high,
                 noise ? "within noise" : "more than noise"));
done:
    return status;
}

void published_free(published *p)
{
    if (!p) return;
    free(p->there);
    free(p->here);
    memset(p, 0, sizeof *p);
}
