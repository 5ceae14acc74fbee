/* mkmodel: makes a folder of packages with random weights, and a matched cohort for it, for tests and
 * benchmarks of any size.
 *
 * Weights are uniform; BatchNorm statistics are set to what the sums of random genotypes have, so that people
 * get different predictions. Everything follows from --seed. The cohort's genotypes are binomial(2, frequency
 * of the SNP). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gpk.h"
#include "io.h"
#include "log.h"
#include "opt.h"
#include "package.h"
#include "plink.h"
#include "simrng.h"

typedef struct {
    dn_common common;
    const char *out, *bim, *cohort;
    uint64_t n_snps, folds, repeats, units, hidden, n_hidden, classes, seed, n_people;
    double matched, missing;
    bool regression, flat, huge;
} options;

static dn_status floats(float **v, uint64_t n, double mean, double spread, uint64_t *s, dn_err *err)
{
    dn_status status = dn_alloc_aligned(v, n, sizeof **v, "weights", err);
    for (uint64_t i = 0; status == DN_OK && i < n; i++) (*v)[i] = (float)(mean + spread * (2 * unit(s) - 1));
    return status;
}

static dn_status make_snps(const options *o, dn_snps *snps, dn_err *err)
{
    static const char *const a1[] = {"A", "C", "A", "G"}, *const a2[] = {"G", "T", "C", "T"};
    dn_status status = DN_OK;
    if (o->bim) return dn_bim_read(o->bim, snps, err);
    DN_TRY(dn_alloc(&snps->pos, o->n_snps, sizeof *snps->pos, "positions", err));
    for (uint64_t j = 0; j < o->n_snps; j++) {
        char text[32];
        snprintf(text, sizeof text, "rs%llu", (unsigned long long)j + 1);
        DN_TRY(dn_strs_add(&snps->id, text, strlen(text), err));
        snprintf(text, sizeof text, "%llu", (unsigned long long)(j * 22 / o->n_snps) + 1);
        DN_TRY(dn_strs_add(&snps->chrom, text, strlen(text), err));
        DN_TRY(dn_strs_add(&snps->a1, a1[j % 4], 1, err));
        DN_TRY(dn_strs_add(&snps->a2, a2[j % 4], 1, err));
        snps->pos[j] = (int64_t)(1000 + j * 11);
    }
done:
    return status;
}

static dn_status write_member(const options *o, const dn_snps *snps, const dn_strs *classes,
                              const float *freq, uint64_t fold, uint64_t repeat, dn_err *err)
{
    dn_status status;
    static const uint64_t seeds[] = {78, 23, 124};
    uint64_t n = snps->id.n, n_layers = o->n_hidden + 2, s = o->seed * 1000003 + fold * 1009 + repeat,
             sf = o->seed + fold;
    double *mean = NULL, *sd = NULL, spread = 0.05;
    float *fat = NULL;
    dn_layer *layer = NULL;
    char path[4096];
    DN_TRY(dn_alloc(&mean, n, sizeof *mean, "means", err));
    DN_TRY(dn_alloc(&sd, n, sizeof *sd, "deviations", err));
    DN_TRY(floats(&fat, n * o->units, 0, spread, &s, err));
    /* Finite, and their sums are not. */
    for (uint64_t i = 0; o->huge && repeat == 1 && i < n * o->units; i++)
        fat[i] *= 1e38f, fat[i] *= 3 / (float)spread;
    DN_TRY(dn_alloc(&layer, n_layers, sizeof *layer, "layers", err));
    for (uint64_t j = 0; j < n; j++) {
        double f = freq[j] + 0.01 * (unit(&sf) - 0.5);
        mean[j] = 2 * f;
        sd[j] = o->flat && j % 10 == 3 ? 1e-6 : sqrt(2 * f * (1 - f)) + 1e-6;
    }
    for (uint64_t l = 0; l < n_layers; l++) {
        dn_layer *x = &layer[l];
        x->n_in = l == 0 ? n : layer[l - 1].n_out;
        x->n_out = l + 1 == n_layers ? o->classes : l == 0 ? o->units : o->hidden;
        if (l + 1 == n_layers && o->regression) x->n_out = 1;
        /* A sum of n_in terms of unit size; after BatchNorm(ReLU) the next layer's inputs are of unit size
         * again. */
        double size = l == 0 ? spread * sqrt((double)n / 3) : 1;
        if (l > 0) DN_TRY(floats(&x->weight, x->n_in * x->n_out, 0, 2 / sqrt((double)x->n_in), &s, err));
        DN_TRY(floats(&x->bias, x->n_out, 0, 0.1 * size, &s, err));
        if (l + 1 == n_layers) continue;
        DN_TRY(floats(&x->bn_gamma, x->n_out, 1, 0.2, &s, err));
        DN_TRY(floats(&x->bn_beta, x->n_out, 0, 0.2, &s, err));
        DN_TRY(floats(&x->bn_mean, x->n_out, 0.4 * size, 0.1 * size, &s, err));
        DN_TRY(floats(&x->bn_var, x->n_out, 0.34 * size * size, 0.1 * size * size, &s, err));
    }
    dn_package p = {.task = o->regression ? DN_TASK_REGRESSION : DN_TASK_CLASSIFICATION,
                    .fold = fold,
                    .seed = repeat < 3 ? seeds[repeat] : 1000 + repeat,
                    .snps = snps,
                    .freq = freq,
                    .classes = o->regression ? NULL : classes,
                    .mean = mean,
                    .sd = sd,
                    .fat = fat,
                    .n_layers = n_layers,
                    .layer = layer,
                    .test_loss = NAN,
                    .test_acc = NAN};
    snprintf(path, sizeof path, "%s/seed%llu_fold%llu.h5", o->out, (unsigned long long)p.seed,
             (unsigned long long)fold);
    DN_TRY(dn_package_write(path, &p, DN_OUT_FORCE, err));
done:
    for (uint64_t l = 0; layer && l < n_layers; l++) {
        free(layer[l].weight), free(layer[l].bias), free(layer[l].bn_gamma);
        free(layer[l].bn_beta), free(layer[l].bn_mean), free(layer[l].bn_var);
    }
    free(layer);
    free(fat);
    free(mean);
    free(sd);
    return status;
}

/* The SNPs that matched: every SNP with probability --matched, at least one. */
static dn_status choose(const options *o, const dn_snps *snps, dn_gpk_info *info, dn_err *err)
{
    dn_status status;
    uint64_t s = o->seed ^ 0xc0ffee;
    DN_TRY(dn_alloc(&info->place, snps->id.n, sizeof *info->place, "places", err));
    DN_TRY(dn_alloc(&info->snps.pos, snps->id.n, sizeof *info->snps.pos, "positions", err));
    for (uint64_t j = 0; j < snps->id.n; j++) {
        bool take = unit(&s) < o->matched || (j + 1 == snps->id.n && info->n_snps == 0);
        if (!take) continue;
        const dn_strs *from[] = {&snps->id, &snps->chrom, &snps->a1, &snps->a2};
        dn_strs *to[] = {&info->snps.id, &info->snps.chrom, &info->snps.a1, &info->snps.a2};
        for (int k = 0; k < 4; k++) {
            const char *t = dn_strs_get(from[k], j);
            DN_TRY(dn_strs_add(to[k], t, strlen(t), err));
        }
        info->snps.pos[info->n_snps] = snps->pos[j];
        info->place[info->n_snps++] = j;
    }
    status = DN_OK;
done:
    return status;
}

static dn_status write_cohort(const options *o, const dn_snps *snps, const float *freq, dn_err *err)
{
    dn_status status;
    dn_gpk_info info = {.n_people = o->n_people, .model_snps = snps->id.n, .model_hash = dn_snps_hash(snps)};
    dn_out *out = NULL;
    dn_gpk_writer *w = NULL;
    uint8_t *row = NULL;
    uint16_t *limit = NULL; /* per SNP: below [0]: dosage 0; below [1]: 1; below [2]: 2; else missing */
    uint64_t s = o->seed ^ 0xdecade;
    DN_TRY(choose(o, snps, &info, err));
    for (uint64_t i = 0; i < o->n_people; i++) {
        char text[32];
        snprintf(text, sizeof text, "P%06llu", (unsigned long long)i + 1);
        DN_TRY(dn_strs_add(&info.people.iid, text, strlen(text), err));
        text[0] = 'F';
        DN_TRY(dn_strs_add(&info.people.fid, text, strlen(text), err));
    }
    uint64_t row_bytes = dn_gpk_row_bytes(info.n_snps);
    DN_TRY(dn_alloc_aligned(&row, row_bytes, 1, "row", err));
    DN_TRY(dn_alloc(&limit, info.n_snps, 3 * sizeof *limit, "limits", err));
    for (uint64_t k = 0; k < info.n_snps; k++) {
        double f = freq[info.place[k]], called = 65535 * (1 - o->missing);
        limit[3 * k] = (uint16_t)(called * (1 - f) * (1 - f));
        limit[3 * k + 1] = (uint16_t)(called * (1 - f * f));
        limit[3 * k + 2] = (uint16_t)called;
    }
    DN_TRY(dn_out_open(&out, o->cohort, DN_OUT_FORCE | DN_OUT_BINARY, err));
    DN_TRY(dn_gpk_write_start(&w, out, &info, err));
    for (uint64_t i = 0; i < o->n_people; i++) {
        uint64_t r = 0;
        memset(row, 0xff, row_bytes);
        for (uint64_t k = 0; k < info.n_snps; k++, r >>= 16) {
            if (k % 4 == 0) r = next64(&s);
            const uint16_t *l = &limit[3 * k];
            unsigned u = r & 0xffff, g = (u >= l[0]) + (u >= l[1]) + (u >= l[2]);
            row[k / 4] = (uint8_t)(row[k / 4] ^ (3u ^ g) << k % 4 * 2);
        }
        DN_TRY(dn_gpk_write_rows(w, row, 1, err));
    }
    DN_TRY(dn_gpk_write_end(&w, err));
    DN_TRY(dn_out_commit(&out, err));
done:
    dn_gpk_writer_free(w);
    dn_out_abort(&out);
    dn_gpk_info_free(&info);
    free(row);
    free(limit);
    return status;
}

int main(int argc, char **argv)
{
    options o = {.common = DN_COMMON_DEFAULT,
                 .n_snps = 1000,
                 .folds = 5,
                 .repeats = 3,
                 .units = 100,
                 .hidden = 100,
                 .n_hidden = 1,
                 .classes = 24,
                 .seed = 1,
                 .n_people = 100,
                 .matched = 1,
                 .missing = 0.01};
    const dn_opt opts[] = {
        {DN_OPT_STR, "out", 'o', &o.out, "DIR", 0, 0, "folder for the packages; made if absent", NULL},
        {DN_OPT_STR, "bim", 0, &o.bim, "FILE", 0, 0,
         "take SNPs and alleles from a .bim instead of making --snps up", NULL},
        {DN_OPT_U64, "snps", 0, &o.n_snps, "M", 1, 1e8, "SNPs", NULL},
        {DN_OPT_U64, "folds", 0, &o.folds, "N", 1, 100, "folds", NULL},
        {DN_OPT_U64, "repeats", 0, &o.repeats, "N", 1, 100, "seeds per fold", NULL},
        {DN_OPT_U64, "units", 0, &o.units, "N", 1, 4096, "units of the fat layer", NULL},
        {DN_OPT_U64, "hidden", 0, &o.hidden, "N", 1, 4096, "units of further hidden layers", NULL},
        {DN_OPT_U64, "layers", 0, &o.n_hidden, "N", 0, 8, "further hidden layers", NULL},
        {DN_OPT_U64, "classes", 0, &o.classes, "C", 2, 1000, "classes", NULL},
        {DN_OPT_FLAG, "regression", 0, &o.regression, NULL, 0, 0, "a model of one number", NULL},
        {DN_OPT_FLAG, "huge", 0, &o.huge, NULL, 0, 0, "sums of each fold's second model overflow", NULL},
        {DN_OPT_FLAG, "flat", 0, &o.flat, NULL, 0, 0, "every tenth SNP without variation in training", NULL},
        {DN_OPT_U64, "seed", 0, &o.seed, "S", 0, 4294967295.0, "seed", NULL},
        {DN_OPT_STR, "cohort", 0, &o.cohort, "FILE.gpk", 0, 0, "also a matched cohort", NULL},
        {DN_OPT_U64, "people", 0, &o.n_people, "N", 1, 4e6, "people of the cohort", NULL},
        {DN_OPT_DOUBLE, "matched", 0, &o.matched, "P", 0, 1, "share of SNPs that matched", NULL},
        {DN_OPT_DOUBLE, "missing", 0, &o.missing, "P", 0, 1, "share of missing calls", NULL},
        DN_COMMON_OPTS(o.common),
    };
    enum { N = sizeof opts / sizeof opts[0] };
    dn_err err = {0};
    dn_strs operands = {0}, classes = {0};
    dn_snps snps = {0};
    float *freq = NULL;
    dn_status status;
    dn_log_start("mkmodel", argc, argv);
    dn_log_level(true, false);
    DN_TRY(dn_opt_parse(argc, argv, opts, N, &operands, &err));
    if (o.common.help) {
        dn_opt_help(stdout, "mkmodel -o DIR [options]",
                    "Packages with random weights, and a cohort matched to them.", opts, N, "");
        goto done;
    }
    if (!o.out) DN_TRY(dn_fail(&err, DN_EUSAGE, "no output: give -o DIR"));
    DN_TRY(make_snps(&o, &snps, &err));
    DN_TRY(dn_alloc(&freq, snps.id.n, sizeof *freq, "frequencies", &err));
    uint64_t s = o.seed;
    for (uint64_t j = 0; j < snps.id.n; j++) freq[j] = (float)(0.05 + 0.45 * unit(&s));
    for (uint64_t c = 0; c < o.classes; c++) {
        char text[16];
        snprintf(text, sizeof text, "POP%02u", (unsigned)c + 1);
        DN_TRY(dn_strs_add(&classes, text, strlen(text), &err));
    }
    mkdir(o.out, 0777);
    for (uint64_t f = 0; f < o.folds; f++) {
        for (uint64_t r = 0; r < o.repeats; r++) DN_TRY(write_member(&o, &snps, &classes, freq, f, r, &err));
    }
    if (o.cohort) DN_TRY(write_cohort(&o, &snps, freq, &err));
    status = DN_OK;
done:
    dn_strs_free(&operands);
    dn_strs_free(&classes);
    dn_snps_free(&snps);
    free(freq);
    return dn_finish(status, &err);
}
