/* model.c: an ensemble from either source, and the checks between its members (see model.h). */
#include "model_impl.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io.h"
#include "package.h"

void dn_layers_free(dn_layer *layer, size_t n_layers)
{
    for (size_t l = 0; layer && l < n_layers; l++) {
        free(layer[l].weight);
        free(layer[l].bias);
        free(layer[l].bn_gamma);
        free(layer[l].bn_beta);
        free(layer[l].bn_mean);
        free(layer[l].bn_var);
    }
    free(layer);
}

void dn_model_free(dn_model *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->n_norms; i++) {
        free(m->norms[i].mean);
        free(m->norms[i].sd);
    }
    for (size_t i = 0; i < m->n_members; i++) {
        free(m->members[i].name);
        if (m->members[i].keep)
            dn_package_free(m->members[i].keep);
        else
            free(m->members[i].fat);
        dn_layers_free(m->members[i].layer, m->members[i].n_layers);
    }
    free(m->norms);
    free(m->members);
    free(m->freq);
    dn_snps_free(&m->snps);
    dn_strs_free(&m->classes);
    free(m);
}

uint64_t dn_layers_hash(const dn_layer *layer, size_t n_layers)
{
    uint64_t h = dn_hash(NULL, 0);
    for (size_t l = 0; l < n_layers; l++) {
        const dn_layer *x = &layer[l];
        const float *arrays[] = {x->weight, x->bias, x->bn_gamma, x->bn_beta, x->bn_mean, x->bn_var};
        for (size_t k = 0; k < sizeof arrays / sizeof arrays[0]; k++) {
            uint64_t n = arrays[k] ? x->n_out * (k == 0 ? x->n_in : 1) : 0;
            uint64_t mix[3] = {h, n, dn_hash(arrays[k], (size_t)n * sizeof(float))};
            h = dn_hash(mix, sizeof mix);
        }
    }
    return h;
}

dn_status dn_classes_read(dn_strs *out, const char *path, uint64_t n_out, dn_err *err)
{
    dn_status status;
    dn_text *t = NULL;
    char *line;
    size_t len;
    DN_TRY(dn_text_open(&t, path, err));
    for (;;) {
        DN_TRY(dn_text_next(t, &line, &len, err));
        if (!line) break;
        while (len && (line[len - 1] == ' ' || line[len - 1] == '\t')) line[--len] = 0;
        if (!len) continue;
        if (len > DN_MAX_ID || out->n >= DN_MAX_CLASSES)
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s: too many or too long class names", path));
        for (uint64_t i = 0; i < out->n; i++) {
            if (strcmp(dn_strs_get(out, i), line) == 0) {
                DN_TRY(dn_fail(err, DN_EFORMAT, "%s, line %llu: class %s is there twice", path,
                               (unsigned long long)dn_text_line(t), line));
            }
        }
        DN_TRY(dn_strs_add(out, line, len, err));
    }
    if (out->n != n_out) {
        DN_TRY(dn_fail(err, DN_EMISMATCH, "%s names %llu classes, but the model has %llu", path,
                       (unsigned long long)out->n, (unsigned long long)n_out));
    }
    status = DN_OK;
done:
    dn_text_close(t);
    return status;
}

static uint64_t outputs(const dn_member *x)
{
    return x->layer[x->n_layers - 1].n_out;
}

/* Members must agree in what they predict, and no two may be the same model under two names. */
static dn_status check_members(const dn_model *m, const char *path, dn_err *err)
{
    for (size_t i = 0; i < m->n_members; i++) {
        const dn_member *x = &m->members[i];
        if (outputs(x) != m->n_out) {
            return dn_fail(
                err, DN_EMISMATCH,
                "%s: member %s has %llu outputs but member %s has %llu: they are not of one ensemble", path,
                x->name, (unsigned long long)outputs(x), m->members[0].name, (unsigned long long)m->n_out);
        }
        for (size_t k = 0; k < i; k++) {
            if (m->members[k].weight_hash == x->weight_hash) {
                return dn_fail(err, DN_EMISMATCH,
                               "%s: members %s and %s have equal weights: one is a copy of the other, and "
                               "would vote twice",
                               path, m->members[k].name, x->name);
            }
        }
    }
    return DN_OK;
}

static dn_status check_norms(dn_model *m, const char *path, dn_err *err)
{
    for (size_t f = 0; f < m->n_norms; f++) {
        for (uint64_t j = 0; j < m->n_snps; j++) {
            double *mean = &m->norms[f].mean[j], *sd = &m->norms[f].sd[j];
            /* A SNP without a call in the training set: upstream's NaN. It contributes nothing. */
            if (isnan(*mean) || isnan(*sd)) *mean = *sd = 0;
            if (isinf(*mean) || isinf(*sd) || *sd < 0) {
                return dn_fail(err, DN_ENUMERIC, "%s: fold %zu: SNP %s has mean %g and standard deviation %g",
                               path, f + 1, dn_strs_get(&m->snps.id, j), *mean, *sd);
            }
        }
    }
    return DN_OK;
}

dn_status dn_model_open(dn_model **out, const char *path, const dn_model_opts *opts, dn_err *err)
{
    dn_status status;
    dn_model *m = NULL;
    char *sub = NULL;
    struct stat sb;
    *out = NULL;
    DN_TRY(dn_alloc(&m, 1, sizeof *m, "model", err));
    if (stat(path, &sb) != 0)
        DN_TRY(dn_fail(err, DN_EOPEN, "cannot open model %s: %s", path, strerror(errno)));
    if (asprintf(&sub, "%s/DN_MODELS", path) < 0) {
        sub = NULL;
        DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    }
    if (S_ISDIR(sb.st_mode) && stat(sub, &sb) == 0) {
        DN_TRY(dn_release_load(m, path, opts, err));
    } else {
        DN_TRY(dn_packages_load(m, path, opts, err));
    }
    m->snps_hash = dn_snps_hash(&m->snps); /* before alleles are dropped: a model has one identity */
    if (opts->no_alleles) {
        dn_strs_free(&m->snps.a1);
        dn_strs_free(&m->snps.a2);
    }
    if (!opts->snps_only) {
        DN_TRY(check_norms(m, path, err));
        DN_TRY(check_members(m, path, err));
    }
    *out = m;
    m = NULL;
    status = DN_OK;
done:
    free(sub);
    dn_model_free(m);
    return status;
}
