/* heldout.c: held-out accuracy, confusion and calibration (see heldout.h). */
#include "heldout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fat.h"
#include "mainnet.h"

typedef unsigned long long ull;

const double heldout_share[HELDOUT_SHARES] = {0, 0.1, 0.5, 0.9};

double stat_mean(const double *x, size_t n)
{
    double s = 0;
    for (size_t i = 0; i < n; i++) s += x[i];
    return n ? s / (double)n : NAN;
}

double stat_sd(const double *x, size_t n)
{
    double m = stat_mean(x, n), s = 0;
    for (size_t i = 0; i < n; i++) s += (x[i] - m) * (x[i] - m);
    return n > 1 ? sqrt(s / (double)(n - 1)) : 0;
}

double stat_t95(size_t df)
{
    /* Table to 30; beyond, the first terms of the Cornish-Fisher expansion around 1.959964 (error below
     * 1e-4). */
    static const double t[] = {0,      12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646,
                               2.3060, 2.2622,  2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314,
                               2.1199, 2.1098,  2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687,
                               2.0639, 2.0595,  2.0555, 2.0518, 2.0484, 2.0452, 2.0423};
    if (df == 0) return INFINITY;
    if (df <= 30) return t[df];
    double z = 1.959963985, n = (double)df;
    return z + (z * z * z + z) / (4 * n) + (5 * pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * n * n);
}

/* One fold at work: its test people, packed, and the members trained on it. */
typedef struct {
    heldout *h;
    const dn_gpk_info *info;
    dn_dataset *dataset;
    const dn_fold *fold;
    size_t *member, n_member; /* indices into h->m */
    dn_fat_member *fat;
    dn_mainnet **net;
    uint64_t n_units, row_bytes;
    uint8_t *rows; /* n_test x row_bytes */
    float *z, *out;
    double *scratch;
} work;

static void work_free(work *w)
{
    for (size_t i = 0; w->net && i < w->n_member; i++) dn_mainnet_free(w->net[i]);
    free(w->net);
    free(w->member);
    free(w->fat);
    free(w->rows);
    free(w->z);
    free(w->out);
    free(w->scratch);
}

static dn_status work_start(work *w, uint64_t fold, dn_err *err)
{
    dn_status status;
    size_t scratch = 0;
    uint64_t n = w->fold->n[DN_SPLIT_TEST];
    DN_TRY(dn_alloc(&w->member, w->h->n_members, sizeof *w->member, "members", err));
    for (size_t i = 0; i < w->h->n_members; i++) {
        if (w->h->m[i]->fold == fold) w->member[w->n_member++] = i;
    }
    DN_TRY(dn_alloc(&w->fat, w->n_member, sizeof *w->fat, "members", err));
    DN_TRY(dn_alloc(&w->net, w->n_member, sizeof *w->net, "members", err));
    for (size_t i = 0; i < w->n_member; i++) {
        const dn_package_in *p = w->h->m[w->member[i]]->package;
        dn_member as = {.n_layers = p->n_layers, .layer = p->layer, .fat = p->fat};
        w->fat[i] = (dn_fat_member){p->fat, p->units, p->mean, p->sd};
        w->n_units += p->units;
        status = dn_mainnet_new(&w->net[i], &as, p->task, err);
        if (status != DN_OK) {
            dn_fail_prefix(err, "%s: ", w->h->m[w->member[i]]->name);
            goto done;
        }
        if (dn_mainnet_scratch(w->net[i]) > scratch) scratch = dn_mainnet_scratch(w->net[i]);
    }
    w->row_bytes = dn_dataset_row_bytes(w->dataset);
    DN_TRY(dn_alloc_aligned(&w->rows, n, w->row_bytes, "rows of a test set", err));
    DN_TRY(dn_alloc_aligned(&w->z, n, w->n_units * sizeof *w->z, "sums of a test set", err));
    DN_TRY(dn_alloc(&w->out, n * w->n_member, w->h->n_out * sizeof *w->out, "probabilities", err));
    DN_TRY(dn_alloc(&w->scratch, scratch, sizeof *w->scratch, "scratch", err));
    for (uint64_t i = 0; i < n; i++) {
        uint64_t person = w->fold->index[DN_SPLIT_TEST][i];
        bool known = w->h->task == DN_TASK_REGRESSION ? isfinite(w->info->target[person])
                                                      : w->info->label[person] >= 0;
        if (!known) {
            DN_TRY(dn_fail(err, DN_EMISMATCH, "%s is in the test set of fold %llu, but has no label in %s",
                           dn_strs_get(&w->info->people.iid, person), (ull)fold,
                           dn_dataset_path(w->dataset)));
        }
        DN_TRY(dn_dataset_read(w->dataset, person, 1, w->rows + i * w->row_bytes, err));
    }
    status = DN_OK;
done:
    return status;
}

/* Leaves SNPs out: the same for everyone, drawn anew for each share from a fixed seed. Returns how many are
 * left. */
static uint64_t leave_out(work *w, double share, uint8_t *mask)
{
    uint64_t s = 0x9E3779B97F4A7C15u, left = 0, m = w->info->n_snps;
    memset(mask, 0, w->row_bytes);
    for (uint64_t j = 0; j < m; j++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        if ((double)(s >> 11) * 0x1p-53 < share)
            mask[j / 4] |= (uint8_t)(3u << (j % 4 * 2));
        else
            left++;
    }
    for (uint64_t i = 0; i < w->fold->n[DN_SPLIT_TEST]; i++) {
        uint8_t *row = w->rows + i * w->row_bytes;
        for (uint64_t b = 0; b < w->row_bytes; b++) row[b] |= mask[b];
    }
    return left;
}

static dn_status forward(work *w, double scale, dn_pool *pool, dn_err *err)
{
    dn_fat_problem p = {w->info->n_snps, NULL, scale, w->n_member, w->fat};
    uint64_t n = w->fold->n[DN_SPLIT_TEST], at = 0;
    dn_status status = dn_fat_forward(&p, w->rows, w->row_bytes, n, w->z, pool, err);
    if (status != DN_OK) return status;
    for (size_t k = 0; k < w->n_member; k++) {
        for (uint64_t i = 0; i < n; i++) {
            float *out = w->out + (k * n + i) * w->h->n_out;
            dn_mainnet_eval(w->net[k], w->z + i * w->n_units + at, out, NULL, w->scratch);
        }
        at += w->fat[k].units;
    }
    return DN_OK;
}

static uint64_t argmax(const float *p, uint64_t n)
{
    uint64_t best = 0;
    for (uint64_t c = 1; c < n; c++) {
        if (p[c] > p[best]) best = c;
    }
    return best;
}

/* Accuracy and loss of member k of the fold, from w->out. */
static void judge(const work *w, size_t k, double *accuracy, double *loss)
{
    uint64_t n = w->fold->n[DN_SPLIT_TEST], right = 0;
    double sum = 0, y_sum = 0, y_sq = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t person = w->fold->index[DN_SPLIT_TEST][i];
        const float *out = w->out + (k * n + i) * w->h->n_out;
        if (w->h->task == DN_TASK_REGRESSION) {
            double y = w->info->target[person], d = y - out[0];
            sum += d * d, y_sum += y, y_sq += y * y;
        } else {
            int64_t y = w->info->label[person];
            right += argmax(out, w->h->n_out) == (uint64_t)y;
            sum -= log(out[y] > 1e-45 ? out[y] : 1e-45);
        }
    }
    *loss = n ? sum / (double)n : NAN;
    double total = n ? y_sq - y_sum * y_sum / (double)n : 0;
    if (w->h->task == DN_TASK_REGRESSION)
        *accuracy = total > 0 ? 1 - sum / total : NAN;
    else
        *accuracy = n ? (double)right / (double)n : NAN;
}

/* The fold's members together, person by person. */
static void judge_ensemble(const work *w)
{
    heldout *h = w->h;
    uint64_t n = w->fold->n[DN_SPLIT_TEST];
    for (uint64_t i = 0; i < n; i++) {
        uint64_t y = (uint64_t)w->info->label[w->fold->index[DN_SPLIT_TEST][i]], best = 0;
        double best_p = -1;
        for (uint64_t c = 0; c < h->n_out; c++) {
            double p = 0;
            for (size_t k = 0; k < w->n_member; k++) p += w->out[(k * n + i) * h->n_out + c];
            if (p > best_p) best_p = p, best = c;
        }
        best_p /= (double)w->n_member;
        int bin = (int)(best_p * HELDOUT_BINS);
        bin = bin < 0 ? 0 : bin >= HELDOUT_BINS ? HELDOUT_BINS - 1 : bin;
        h->n_people++;
        h->n_right += best == y;
        h->confusion[y * h->n_out + best]++;
        h->bin_n[bin]++;
        h->bin_confidence[bin] += best_p;
        h->bin_accuracy[bin] += best == y;
    }
}

static dn_status one_fold(heldout *h, uint64_t fold, dn_dataset *dataset, const dn_split *split,
                          double *share_acc, bool shares, dn_pool *pool, dn_err *err)
{
    dn_status status;
    work w = {.h = h, .info = dn_dataset_info(dataset), .dataset = dataset, .fold = &split->folds[fold]};
    uint8_t *mask = NULL;
    if (w.fold->n[DN_SPLIT_TEST] == 0) return DN_OK;
    DN_TRY(work_start(&w, fold, err));
    if (w.n_member == 0) goto done;
    DN_TRY(dn_alloc(&mask, w.row_bytes, 1, "mask", err));
    for (int s = 0; s < (shares ? HELDOUT_SHARES : 1); s++) {
        /* Shares grow and are drawn from one sequence: what is out at 10 % is out at 50 % too. */
        uint64_t left = s ? leave_out(&w, heldout_share[s], mask) : w.info->n_snps;
        if (left == 0) break;
        DN_TRY(forward(&w, (double)w.info->n_snps / (double)left, pool, err));
        for (size_t k = 0; k < w.n_member; k++) {
            size_t i = w.member[k];
            double loss, acc;
            judge(&w, k, &acc, &loss);
            share_acc[(size_t)s * h->n_members + i] = acc;
            if (s == 0) h->accuracy[i] = acc, h->loss[i] = loss, h->n_test[i] = w.fold->n[DN_SPLIT_TEST];
        }
        if (s == 0 && h->task == DN_TASK_CLASSIFICATION) judge_ensemble(&w);
    }
    status = DN_OK;
done:
    free(mask);
    work_free(&w);
    return status;
}

static void finish(heldout *h, const double *share_acc, bool shares)
{
    h->mean = stat_mean(h->accuracy, h->n_members);
    h->sd = stat_sd(h->accuracy, h->n_members);
    for (int s = 0; s < HELDOUT_SHARES; s++) {
        bool have = s == 0 || shares;
        h->share_mean[s] = have ? stat_mean(share_acc + (size_t)s * h->n_members, h->n_members) : NAN;
        h->share_sd[s] = have ? stat_sd(share_acc + (size_t)s * h->n_members, h->n_members) : NAN;
    }
    for (int b = 0; b < HELDOUT_BINS; b++) {
        if (!h->bin_n[b]) continue;
        h->bin_confidence[b] /= (double)h->bin_n[b];
        h->bin_accuracy[b] /= (double)h->bin_n[b];
        h->ece += fabs(h->bin_confidence[b] - h->bin_accuracy[b]) * (double)h->bin_n[b] / (double)h->n_people;
    }
    double f1 = 0;
    uint64_t n_classes = 0;
    for (uint64_t c = 0; h->confusion && c < h->n_out; c++) {
        uint64_t of = 0, as = 0, hit = h->confusion[c * h->n_out + c];
        for (uint64_t k = 0; k < h->n_out; k++)
            of += h->confusion[c * h->n_out + k], as += h->confusion[k * h->n_out + c];
        if (!of) continue; /* a class that nobody in a test set has says nothing */
        n_classes++;
        f1 += 2.0 * (double)hit / (double)(of + as);
    }
    h->macro_f1 = n_classes ? f1 / (double)n_classes : NAN;
}

dn_status heldout_run(heldout *h, const check_members *members, dn_dataset *dataset, const dn_split *split,
                      bool shares, dn_pool *pool, dn_err *err)
{
    dn_status status;
    const dn_gpk_info *info = dn_dataset_info(dataset);
    double *share_acc = NULL;
    memset(h, 0, sizeof *h);
    DN_TRY(dn_alloc(&h->m, members->n, sizeof *h->m, "members", err));
    for (size_t i = 0; i < members->n; i++) {
        if (members->members[i].package) h->m[h->n_members++] = &members->members[i];
    }
    if (!h->n_members)
        DN_TRY(dn_fail(err, DN_EMISMATCH, "no member could be read: there is nothing to judge"));
    const dn_package_in *p = h->m[0]->package;
    h->task = p->task;
    h->n_out = p->n_out;
    h->classes = &p->classes;
    if (split->n_people != info->n_people || p->n_snps != info->n_snps) {
        DN_TRY(dn_fail(
            err, DN_EMISMATCH,
            "%s has %llu people x %llu SNPs; the split was made for %llu people, the models for %llu SNPs",
            dn_dataset_path(dataset), (ull)info->n_people, (ull)info->n_snps, (ull)split->n_people,
            (ull)p->n_snps));
    }
    if (h->task == DN_TASK_CLASSIFICATION ? !info->label : !info->target) {
        DN_TRY(dn_fail(err, DN_EMISMATCH, "%s has no labels of the kind that the models predict",
                       dn_dataset_path(dataset)));
    }
    if (h->task == DN_TASK_CLASSIFICATION && !dn_strs_equal(&info->class_names, &p->classes)) {
        DN_TRY(dn_fail(err, DN_EMISMATCH, "%s has other classes than the models", dn_dataset_path(dataset)));
    }
    for (size_t i = 0; i < h->n_members; i++) {
        const dn_package_in *q = h->m[i]->package;
        if (q->n_snps == p->n_snps && q->n_out == p->n_out && q->task == p->task &&
            h->m[i]->fold < split->n_folds)
            continue;
        DN_TRY(dn_fail(err, DN_EMISMATCH, "%s does not fit the other members or the split: see the findings",
                       h->m[i]->name));
    }
    DN_TRY(dn_alloc(&h->n_test, h->n_members, sizeof *h->n_test, "results", err));
    DN_TRY(dn_alloc(&h->accuracy, h->n_members, sizeof *h->accuracy, "results", err));
    DN_TRY(dn_alloc(&h->loss, h->n_members, sizeof *h->loss, "results", err));
    DN_TRY(dn_alloc(&share_acc, h->n_members * HELDOUT_SHARES, sizeof *share_acc, "results", err));
    if (h->task == DN_TASK_CLASSIFICATION)
        DN_TRY(dn_alloc(&h->confusion, h->n_out * h->n_out, sizeof *h->confusion, "confusion matrix", err));
    for (uint64_t fold = 0; fold < split->n_folds; fold++)
        DN_TRY(one_fold(h, fold, dataset, split, share_acc, shares, pool, err));
    finish(h, share_acc, shares);
    status = DN_OK;
done:
    free(share_acc);
    return status;
}

dn_status heldout_report(const heldout *h, findings *f, dn_err *err)
{
    dn_status status;
    bool reg = h->task == DN_TASK_REGRESSION;
    const char *what = reg ? "R2" : "accuracy";
    for (size_t i = 0; i < h->n_members; i++) {
        const dn_package_in *p = h->m[i]->package;
        double said = reg ? p->test_loss : p->test_acc, is = reg ? h->loss[i] : h->accuracy[i];
        bool same = !isfinite(said) ||
                    fabs(said - is) <= (reg ? 1e-3 * fabs(said) + 1e-6 : 0.5 / (double)h->n_test[i] + 1e-9);
        DN_TRY(found(f, err, same ? FOUND_OK : FOUND_FAULT, DN_EMISMATCH, "held-out", h->m[i]->name,
                     "%s %.4f, loss %.4f on %llu people%s", what, h->accuracy[i], h->loss[i],
                     (ull)h->n_test[i], same ? "" : "; the package says something else"));
        if (!same)
            DN_TRY(
                found(f, err, FOUND_NOTE, DN_OK, "held-out", h->m[i]->name, "the package says %.6f", said));
    }
    DN_TRY(found(f, err, FOUND_OK, DN_OK, "held-out", "all", "%s %.4f (sd %.4f) over %zu members", what,
                 h->mean, h->sd, h->n_members));
    if (reg) goto done;
    DN_TRY(found(
        f, err, FOUND_OK, DN_OK, "ensemble", "all",
        "accuracy %.4f on %llu people, each judged by members that did not train on them; macro F1 %.4f",
        h->n_people ? (double)h->n_right / (double)h->n_people : NAN, (ull)h->n_people, h->macro_f1));
    DN_TRY(found(f, err, FOUND_OK, DN_OK, "calibration", "all", "expected calibration error %.4f", h->ece));
    for (int b = 0; b < HELDOUT_BINS; b++) {
        if (!h->bin_n[b]) continue;
        DN_TRY(found(f, err, FOUND_OK, DN_OK, "calibration", "all",
                     "confidence %.1f-%.1f: %llu people, mean confidence %.4f, accuracy %.4f",
                     (double)b / HELDOUT_BINS, (double)(b + 1) / HELDOUT_BINS, (ull)h->bin_n[b],
                     h->bin_confidence[b], h->bin_accuracy[b]));
    }
    for (int s = 1; s < HELDOUT_SHARES; s++) {
        if (isnan(h->share_mean[s])) continue;
        DN_TRY(found(f, err, FOUND_OK, DN_OK, "missing-snps", "all",
                     "%.0f %% of the SNPs left out: accuracy %.4f (sd %.4f)", heldout_share[s] * 100,
                     h->share_mean[s], h->share_sd[s]));
    }
done:
    return status;
}

dn_status heldout_confusion(const heldout *h, const char *path, unsigned out_flags, dn_err *err)
{
    dn_status status;
    dn_out *out = NULL;
    DN_TRY(dn_out_open(&out, path, out_flags, err));
    DN_TRY(dn_out_printf(out, err, "true"));
    for (uint64_t c = 0; c < h->n_out; c++)
        DN_TRY(dn_out_printf(out, err, "\t%s", dn_strs_get(h->classes, c)));
    DN_TRY(dn_out_printf(out, err, "\n"));
    for (uint64_t r = 0; r < h->n_out; r++) {
        DN_TRY(dn_out_printf(out, err, "%s", dn_strs_get(h->classes, r)));
        for (uint64_t c = 0; c < h->n_out; c++)
            DN_TRY(dn_out_printf(out, err, "\t%llu", (ull)h->confusion[r * h->n_out + c]));
        DN_TRY(dn_out_printf(out, err, "\n"));
    }
    status = dn_out_commit(&out, err);
done:
    dn_out_abort(&out);
    return status;
}

void heldout_free(heldout *h)
{
    if (!h) return;
    free(h->m);
    free(h->n_test);
    free(h->accuracy);
    free(h->loss);
    free(h->confusion);
    memset(h, 0, sizeof *h);
}
