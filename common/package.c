/* package.c: writing a trained model to one file (see package.h; the layout is in docs/format-package.md). */
#include "package_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "h5.h"

struct dn_package_sum {
    XXH3_state_t *state;
};

dn_status dn_package_sum_new(dn_package_sum **out, dn_err *err)
{
    *out = calloc(1, sizeof **out);
    if (*out) {
        (*out)->state = XXH3_createState();
        if ((*out)->state && XXH3_64bits_reset((*out)->state) == XXH_OK) return DN_OK;
    }
    dn_package_sum_free(*out);
    *out = NULL;
    return dn_fail(err, DN_ENOMEM, "out of memory: checksum state");
}

void dn_package_sum_add(dn_package_sum *s, const char *name, const void *value, size_t n)
{
    XXH3_64bits_update(s->state, name, strlen(name) + 1);
    XXH3_64bits_update(s->state, value, n);
}

uint64_t dn_package_sum_get(const dn_package_sum *s)
{
    return XXH3_64bits_digest(s->state);
}

void dn_package_sum_free(dn_package_sum *s)
{
    if (!s) return;
    if (s->state) XXH3_freeState(s->state);
    free(s);
}

uint64_t dn_first_bad_f32(const float *v, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) return i;
    }
    return n;
}

uint64_t dn_first_bad_f64(const double *v, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) return i;
    }
    return n;
}

/* The file being written and its running checksums. */
typedef struct {
    dn_h5 *f;
    const char *path;
    char *contents; /* names of datasets in written order, one a line */
    size_t used, cap;
    uint64_t *sum; /* their checksums */
    size_t n, n_cap;
    uint64_t weights; /* fingerprint of what predicts */
} writer;

static dn_status record(writer *w, const char *name, uint64_t sum, dn_err *err)
{
    dn_status status;
    size_t len = strlen(name);
    DN_TRY(dn_h5_write_attr(w->f, name, "xxh3", DN_U64, &sum, err));
    DN_TRY(dn_grow(&w->contents, &w->cap, w->used + len + 2, 1, "package", err));
    memcpy(w->contents + w->used, name, len);
    w->contents[w->used + len] = '\n';
    w->used += len + 1;
    w->contents[w->used] = 0;
    DN_TRY(dn_grow(&w->sum, &w->n_cap, w->n + 1, sizeof *w->sum, "package", err));
    w->sum[w->n++] = sum;
    if (strncmp(name, "fat/", 4) == 0 || strncmp(name, "main/", 5) == 0) {
        uint64_t both[2] = {w->weights, sum};
        w->weights = dn_hash(both, sizeof both);
    }
done:
    return status;
}

static dn_status put(writer *w, const char *name, dn_type type, int rank, uint64_t n0, uint64_t n1,
                     const void *data, dn_err *err)
{
    dn_status status;
    uint64_t dims[2] = {n0, n1}, n = rank == 2 ? n0 * n1 : n0, bad = n;
    if (type == DN_F32) bad = dn_first_bad_f32(data, n);
    if (type == DN_F64) bad = dn_first_bad_f64(data, n);
    if (bad < n) {
        DN_TRY(dn_fail(err, DN_ENUMERIC, "will not write %s: value %llu of '%s' is not a finite number",
                       w->path, (unsigned long long)bad + 1, name));
    }
    DN_TRY(dn_h5_write(w->f, name, type, rank, dims, data, err));
    DN_TRY(record(w, name, dn_hash(data, n * dn_type_size(type)), err));
done:
    return status;
}

static dn_status put_strs(writer *w, const char *name, const dn_strs *s, dn_err *err)
{
    dn_status status;
    if (!s || s->n == 0) return DN_OK;
    DN_TRY(dn_h5_write_strs(w->f, name, s, err));
    DN_TRY(record(w, name, dn_strs_hash(s), err));
done:
    return status;
}

static dn_status put_text(writer *w, const char *name, const char *text, dn_err *err)
{
    if (!text || !*text) return DN_OK;
    return put(w, name, DN_U8, 1, strlen(text), 0, text, err);
}

static dn_status put_layer(writer *w, const char *group, size_t i, const dn_layer *l, dn_err *err)
{
    dn_status status;
    const struct {
        const char *name;
        const float *v;
    } part[] = {{"bias", l->bias},
                {"bn_gamma", l->bn_gamma},
                {"bn_beta", l->bn_beta},
                {"bn_mean", l->bn_mean},
                {"bn_var", l->bn_var}};
    char name[64];
    snprintf(name, sizeof name, "%s/%zu", group, i);
    DN_TRY(dn_h5_group(w->f, name, err));
    if (l->weight) {
        snprintf(name, sizeof name, "%s/%zu/weight", group, i);
        DN_TRY(put(w, name, DN_F32, 2, l->n_out, l->n_in, l->weight, err));
    }
    for (size_t k = 0; k < sizeof part / sizeof part[0]; k++) {
        snprintf(name, sizeof name, "%s/%zu/%s", group, i, part[k].name);
        if (part[k].v) DN_TRY(put(w, name, DN_F32, 1, l->n_out, 0, part[k].v, err));
    }
    status = DN_OK;
done:
    return status;
}

/* Shapes that fit together; a fault here is the caller's. */
static const char *misfit(const dn_package *p)
{
    uint64_t m = p->snps->id.n, n_out = p->task == DN_TASK_REGRESSION ? 1 : p->classes ? p->classes->n : 0;
    if (m == 0) return "no SNPs";
    if (n_out == 0) return "no classes";
    if (p->snps->a1.n != p->snps->a2.n || (p->snps->a1.n && p->snps->a1.n != m)) return "alleles";
    if (p->snps->chrom.n && p->snps->chrom.n != m) return "chromosomes";
    if (p->n_layers < 2 || p->n_layers > DN_MAX_LAYERS || p->n_aux > DN_MAX_LAYERS) return "number of layers";
    if (p->layer[0].weight) return "the fat layer has a weight of its own";
    for (size_t i = 0; i < p->n_layers; i++) {
        const dn_layer *l = &p->layer[i];
        bool last = i + 1 == p->n_layers, bn = l->bn_gamma && l->bn_beta && l->bn_mean && l->bn_var;
        if (!l->bias || l->n_out == 0 || l->n_out > DN_MAX_UNITS) return "a layer's bias or size";
        if (i > 0 && (!l->weight || l->n_in != p->layer[i - 1].n_out))
            return "a layer's weight or input size";
        if (last ? (l->bn_gamma || l->n_out != n_out) : !bn) return "BatchNorm or the output layer";
    }
    for (size_t i = 0; i < p->n_aux; i++) {
        if (!p->aux[i].weight || p->aux[i].bias || p->aux[i].bn_gamma) return "an auxiliary layer";
        if (i > 0 && p->aux[i].n_in != p->aux[i - 1].n_out) return "an auxiliary layer's input size";
    }
    if (p->n_aux && p->aux[p->n_aux - 1].n_out != p->layer[0].n_out) return "the auxiliary net's output size";
    return NULL;
}

static dn_status attr_u64(writer *w, dn_package_sum *s, const char *name, uint64_t v, dn_err *err)
{
    dn_package_sum_add(s, name, &v, sizeof v);
    return dn_h5_write_attr(w->f, "/", name, DN_U64, &v, err);
}

static dn_status attr_f64(writer *w, dn_package_sum *s, const char *name, double v, dn_err *err)
{
    if (v != v) v = NAN; /* one NaN of all */
    dn_package_sum_add(s, name, &v, sizeof v);
    return dn_h5_write_attr(w->f, "/", name, DN_F64, &v, err);
}

static dn_status attr_str(writer *w, dn_package_sum *s, const char *name, const char *v, dn_err *err)
{
    dn_package_sum_add(s, name, v, strlen(v) + 1);
    return dn_h5_write_attr_str(w->f, "/", name, v, err);
}

/* In the order of docs/format-package.md. */
static dn_status put_attributes(writer *w, const dn_package *p, dn_err *err)
{
    dn_status status;
    dn_package_sum *s = NULL;
    DN_TRY(dn_package_sum_new(&s, err));
    DN_TRY(attr_str(w, s, "format", DN_PACKAGE_FORMAT, err));
    DN_TRY(attr_u64(w, s, "version_major", DN_PACKAGE_MAJOR, err));
    DN_TRY(attr_u64(w, s, "version_minor", DN_PACKAGE_MINOR, err));
    DN_TRY(attr_str(w, s, "program", "dnpipe " DN_VERSION, err));
    DN_TRY(attr_str(w, s, "task", p->task == DN_TASK_REGRESSION ? "regression" : "classification", err));
    DN_TRY(attr_u64(w, s, "fold", p->fold, err));
    DN_TRY(attr_u64(w, s, "seed", p->seed, err));
    DN_TRY(attr_u64(w, s, "best_epoch", p->best_epoch, err));
    DN_TRY(attr_f64(w, s, "test_loss", p->test_loss, err));
    DN_TRY(attr_f64(w, s, "test_accuracy", p->test_acc, err));
    DN_TRY(attr_u64(w, s, "data_fingerprint", p->data_hash, err));
    DN_TRY(attr_u64(w, s, "split_fingerprint", p->split_hash, err));
    DN_TRY(attr_u64(w, s, "snps_fingerprint", dn_snps_hash(p->snps), err));
    DN_TRY(attr_u64(w, s, "weight_fingerprint", w->weights, err));
    DN_TRY(attr_u64(w, s, "layers", p->n_layers, err));
    DN_TRY(attr_u64(w, s, "aux_layers", p->n_aux, err));
    DN_TRY(attr_str(w, s, "contents", w->contents, err));
    const char *name = w->contents;
    for (size_t i = 0; i < w->n; i++) {
        char one[64];
        size_t len = (size_t)(strchr(name, '\n') - name);
        memcpy(one, name, len);
        one[len] = 0;
        dn_package_sum_add(s, one, &w->sum[i], sizeof w->sum[i]);
        name += len + 1;
    }
    uint64_t sum = dn_package_sum_get(s);
    DN_TRY(dn_h5_write_attr(w->f, "/", "checksum", DN_U64, &sum, err));
done:
    dn_package_sum_free(s);
    return status;
}

dn_status dn_package_write(const char *path, const dn_package *p, unsigned out_flags, dn_err *err)
{
    dn_status status;
    writer w = {.path = path};
    const char *wrong = misfit(p);
    if (wrong) return dn_fail(err, DN_EINTERNAL, "package %s: parts do not fit together: %s", path, wrong);
    uint64_t m = p->snps->id.n;
    DN_TRY(dn_h5_create(&w.f, path, out_flags, err));
    static const char *const groups[] = {"snps", "norm", "fat", "main"};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) DN_TRY(dn_h5_group(w.f, groups[i], err));
    DN_TRY(put_strs(&w, "snps/id", &p->snps->id, err));
    DN_TRY(put_strs(&w, "snps/chrom", &p->snps->chrom, err));
    if (p->snps->pos) DN_TRY(put(&w, "snps/pos", DN_I64, 1, m, 0, p->snps->pos, err));
    DN_TRY(put_strs(&w, "snps/a1", &p->snps->a1, err));
    DN_TRY(put_strs(&w, "snps/a2", &p->snps->a2, err));
    DN_TRY(put(&w, "snps/freq", DN_F32, 1, m, 0, p->freq, err));
    if (p->task == DN_TASK_CLASSIFICATION) DN_TRY(put_strs(&w, "classes", p->classes, err));
    DN_TRY(put(&w, "norm/mean", DN_F64, 1, m, 0, p->mean, err));
    DN_TRY(put(&w, "norm/sd", DN_F64, 1, m, 0, p->sd, err));
    DN_TRY(put(&w, "fat/weight", DN_F32, 2, m, p->layer[0].n_out, p->fat, err));
    for (size_t i = 0; i < p->n_layers; i++) DN_TRY(put_layer(&w, "main", i, &p->layer[i], err));
    if (p->n_aux) DN_TRY(dn_h5_group(w.f, "aux", err));
    for (size_t i = 0; i < p->n_aux; i++) DN_TRY(put_layer(&w, "aux", i, &p->aux[i], err));
    DN_TRY(put_text(&w, "config_yaml", p->config_yaml, err));
    DN_TRY(put_text(&w, "log_tsv", p->log_tsv, err));
    DN_TRY(put_attributes(&w, p, err));
    DN_TRY(dn_h5_commit(&w.f, err));
done:
    dn_h5_abort(&w.f);
    free(w.contents);
    free(w.sum);
    return status;
}
