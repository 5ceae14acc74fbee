/* package_read.c: reading a package, as much of it as is asked for, and believing none of it (see package.h).
 */
#include "package_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5.h"

/* Where we are, and the checksums that the file claims for its datasets. */
typedef struct {
    dn_h5 *f;
    const char *path;
    dn_strs names; /* datasets in written order */
    uint64_t *sum;
} reader;

static dn_status damaged(const reader *r, const char *name, dn_err *err)
{
    return dn_fail(
        err, DN_EFORMAT,
        "package %s is damaged: the checksum of '%s' does not hold: copy it again or train it again", r->path,
        name);
}

/* The checksum that the file claims for a dataset. */
static dn_status claimed(const reader *r, const char *name, uint64_t *sum, dn_err *err)
{
    for (uint64_t i = 0; i < r->names.n; i++) {
        if (strcmp(dn_strs_get(&r->names, i), name) == 0) {
            *sum = r->sum[i];
            return DN_OK;
        }
    }
    return dn_fail(err, DN_EFORMAT, "package %s has no '%s'", r->path, name);
}

static bool lists(const reader *r, const char *name)
{
    uint64_t sum;
    return claimed(r, name, &sum, NULL) == DN_OK;
}

static dn_status check(const reader *r, const char *name, dn_type type, const void *data, uint64_t n,
                       dn_err *err)
{
    uint64_t sum, bad = n;
    dn_status status = claimed(r, name, &sum, err);
    if (status != DN_OK) return status;
    if (dn_hash(data, n * dn_type_size(type)) != sum) return damaged(r, name, err);
    if (type == DN_F32) bad = dn_first_bad_f32(data, n);
    if (type == DN_F64) bad = dn_first_bad_f64(data, n);
    if (bad < n) {
        return dn_fail(err, DN_EFORMAT, "package %s: value %llu of '%s' is not a finite number", r->path,
                       (unsigned long long)bad + 1, name);
    }
    return DN_OK;
}

/* n values of exactly this shape, checked. */
static dn_status get(const reader *r, const char *name, dn_type type, int rank, uint64_t n0, uint64_t n1,
                     void **out, dn_err *err)
{
    dn_status status;
    int have;
    uint64_t dims[4], n;
    *out = NULL;
    DN_TRY(dn_h5_shape(r->f, name, &have, dims, err));
    if (have != rank || dims[0] != n0 || (rank == 2 && dims[1] != n1)) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "package %s: '%s' has the wrong shape", r->path, name));
    }
    DN_TRY(dn_h5_read(r->f, name, type, UINT64_MAX, out, &n, err));
    DN_TRY(check(r, name, type, *out, n, err));
done:
    if (status != DN_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}
#define GET(r, name, type, rank, n0, n1, out, err) get(r, name, type, rank, n0, n1, (void **)(out), err)

static dn_status get_strs(const reader *r, const char *name, dn_strs *out, dn_err *err)
{
    dn_status status;
    uint64_t sum;
    DN_TRY(claimed(r, name, &sum, err));
    DN_TRY(dn_h5_read_strs(r->f, name, out, err));
    if (dn_strs_hash(out) != sum) DN_TRY(damaged(r, name, err));
done:
    return status;
}

static dn_status get_text(const reader *r, const char *name, char **out, dn_err *err)
{
    dn_status status;
    void *data = NULL;
    uint64_t n = 0;
    if (lists(r, name)) {
        DN_TRY(dn_h5_read(r->f, name, DN_U8, UINT64_MAX, &data, &n, err));
        DN_TRY(check(r, name, DN_U8, data, n, err));
    }
    DN_TRY(dn_alloc(out, n + 1, 1, name, err));
    if (n) memcpy(*out, data, n);
done:
    free(data);
    return status;
}

/* ---- attributes ---- */

static dn_status attr_u64(const reader *r, dn_package_sum *s, const char *name, uint64_t *v, dn_err *err)
{
    dn_status status = dn_h5_read_attr(r->f, "/", name, DN_U64, v, err);
    if (status == DN_OK) dn_package_sum_add(s, name, v, sizeof *v);
    return status;
}

static dn_status attr_f64(const reader *r, dn_package_sum *s, const char *name, double *v, dn_err *err)
{
    dn_status status = dn_h5_read_attr(r->f, "/", name, DN_F64, v, err);
    if (status == DN_OK) dn_package_sum_add(s, name, v, sizeof *v);
    return status;
}

static dn_status attr_str(const reader *r, dn_package_sum *s, const char *name, char **v, dn_err *err)
{
    dn_status status = dn_h5_read_attr_str(r->f, "/", name, v, err);
    if (status == DN_OK) dn_package_sum_add(s, name, *v, strlen(*v) + 1);
    return status;
}

/* Type mark and version, before anything else is believed. */
static dn_status read_mark(const reader *r, dn_package_sum *s, dn_err *err)
{
    dn_status status;
    char *format = NULL;
    uint64_t major = 0, minor = 0;
    if (!dn_h5_has_attr(r->f, "/", "format") || attr_str(r, s, "format", &format, NULL) != DN_OK ||
        strcmp(format, DN_PACKAGE_FORMAT) != 0) {
        const char *what = dn_h5_has(r->f, "inputs") ? " (it is a dataset or a matched cohort)" : "";
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s is an HDF5 file, but not a model package%s", r->path, what));
    }
    DN_TRY(attr_u64(r, s, "version_major", &major, err));
    DN_TRY(attr_u64(r, s, "version_minor", &minor, err));
    if (major != DN_PACKAGE_MAJOR) {
        DN_TRY(dn_fail(err, DN_EUNSUPPORTED,
                       "%s is a package of version %llu.%llu, this program reads version %d: update dnpipe",
                       r->path, (unsigned long long)major, (unsigned long long)minor, DN_PACKAGE_MAJOR));
    }
done:
    free(format);
    return status;
}

/* All root attributes and the list of datasets, checked against the root checksum. */
static dn_status read_attributes(reader *r, dn_package_in *p, dn_err *err)
{
    dn_status status;
    dn_package_sum *s = NULL;
    char *task = NULL, *contents = NULL;
    uint64_t n_layers = 0, n_aux = 0, sum = 0;
    size_t cap = 0;
    DN_TRY(dn_package_sum_new(&s, err));
    DN_TRY(read_mark(r, s, err));
    DN_TRY(attr_str(r, s, "program", &p->program, err));
    DN_TRY(attr_str(r, s, "task", &task, err));
    DN_TRY(attr_u64(r, s, "fold", &p->fold, err));
    DN_TRY(attr_u64(r, s, "seed", &p->seed, err));
    DN_TRY(attr_u64(r, s, "best_epoch", &p->best_epoch, err));
    DN_TRY(attr_f64(r, s, "test_loss", &p->test_loss, err));
    DN_TRY(attr_f64(r, s, "test_accuracy", &p->test_acc, err));
    DN_TRY(attr_u64(r, s, "data_fingerprint", &p->data_hash, err));
    DN_TRY(attr_u64(r, s, "split_fingerprint", &p->split_hash, err));
    DN_TRY(attr_u64(r, s, "snps_fingerprint", &p->snps_hash, err));
    DN_TRY(attr_u64(r, s, "weight_fingerprint", &p->weight_hash, err));
    DN_TRY(attr_u64(r, s, "layers", &n_layers, err));
    DN_TRY(attr_u64(r, s, "aux_layers", &n_aux, err));
    DN_TRY(attr_str(r, s, "contents", &contents, err));
    for (char *name = contents; *name;) {
        char *end = strchr(name, '\n');
        if (!end || r->names.n >= 4096) DN_TRY(damaged(r, "contents", err));
        *end = 0;
        DN_TRY(dn_strs_add(&r->names, name, (size_t)(end - name), err));
        DN_TRY(dn_grow(&r->sum, &cap, r->names.n, sizeof *r->sum, "package", err));
        DN_TRY(dn_h5_read_attr(r->f, name, "xxh3", DN_U64, &r->sum[r->names.n - 1], err));
        dn_package_sum_add(s, name, &r->sum[r->names.n - 1], sizeof *r->sum);
        name = end + 1;
    }
    DN_TRY(dn_h5_read_attr(r->f, "/", "checksum", DN_U64, &sum, err));
    if (sum != dn_package_sum_get(s)) DN_TRY(damaged(r, "/", err));
    if (n_layers < 2 || n_layers > DN_MAX_LAYERS || n_aux > DN_MAX_LAYERS) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "package %s claims %llu layers and %llu auxiliary layers", r->path,
                       (unsigned long long)n_layers, (unsigned long long)n_aux));
    }
    p->n_layers = n_layers;
    p->n_aux = n_aux;
    p->task = strcmp(task, "regression") == 0 ? DN_TASK_REGRESSION : DN_TASK_CLASSIFICATION;
    if (p->task == DN_TASK_CLASSIFICATION && strcmp(task, "classification") != 0) {
        DN_TRY(dn_fail(err, DN_EUNSUPPORTED, "package %s is for the task '%s', unknown to this program",
                       r->path, task));
    }
done:
    dn_package_sum_free(s);
    free(task);
    free(contents);
    return status;
}

/* ---- tables and nets ---- */

static dn_status read_snps(const reader *r, dn_package_in *p, dn_err *err)
{
    dn_status status;
    const struct {
        const char *name;
        dn_strs *to;
    } list[] = {{"snps/chrom", &p->snps.chrom}, {"snps/a1", &p->snps.a1}, {"snps/a2", &p->snps.a2}};
    DN_TRY(get_strs(r, "snps/id", &p->snps.id, err));
    p->n_snps = p->snps.id.n;
    if (p->n_snps == 0 || p->n_snps > DN_MAX_SNPS)
        DN_TRY(dn_fail(err, DN_EFORMAT, "package %s holds no SNPs", r->path));
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (!lists(r, list[i].name)) continue;
        DN_TRY(get_strs(r, list[i].name, list[i].to, err));
        if (list[i].to->n != p->n_snps) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "package %s: '%s' has %llu entries for %llu SNPs", r->path,
                           list[i].name, (unsigned long long)list[i].to->n, (unsigned long long)p->n_snps));
        }
    }
    if (p->snps.a1.n != p->snps.a2.n)
        DN_TRY(dn_fail(err, DN_EFORMAT, "package %s has one allele of two", r->path));
    if (lists(r, "snps/pos")) DN_TRY(GET(r, "snps/pos", DN_I64, 1, p->n_snps, 0, &p->snps.pos, err));
    DN_TRY(GET(r, "snps/freq", DN_F32, 1, p->n_snps, 0, &p->freq, err));
    if (dn_snps_hash(&p->snps) != p->snps_hash) DN_TRY(damaged(r, "snps", err));
    p->n_out = 1;
    if (p->task == DN_TASK_CLASSIFICATION) {
        DN_TRY(get_strs(r, "classes", &p->classes, err));
        p->n_out = p->classes.n;
        if (p->n_out > DN_MAX_CLASSES)
            DN_TRY(dn_fail(err, DN_EFORMAT, "package %s claims too many classes", r->path));
    }
done:
    return status;
}

static dn_status read_fat(const reader *r, dn_package_in *p, bool map, dn_err *err)
{
    dn_status status;
    int rank;
    uint64_t dims[4], offset, n;
    bool ok = false;
    const char *why;
    DN_TRY(dn_h5_shape(r->f, "fat/weight", &rank, dims, err));
    if (rank != 2 || dims[0] != p->n_snps || dims[1] == 0 || dims[1] > DN_MAX_UNITS) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "package %s: 'fat/weight' has the wrong shape", r->path));
    }
    p->units = dims[1];
    if (map) DN_TRY(dn_h5_locate(r->f, "fat/weight", DN_F32, &offset, &ok, &why, err));
    if (ok && offset % sizeof(float) == 0) {
        DN_TRY(dn_mapped_open(&p->map, r->path, err));
        uint64_t bytes = dims[0] * dims[1] * sizeof(float);
        if (offset > p->map.size || bytes > p->map.size - offset) DN_TRY(damaged(r, "fat/weight", err));
        p->fat = (float *)(uintptr_t)(p->map.base + offset);
        p->fat_mapped = true;
        DN_TRY(check(r, "fat/weight", DN_F32, p->fat, dims[0] * dims[1], err));
    } else {
        void *data;
        DN_TRY(dn_h5_read(r->f, "fat/weight", DN_F32, dims[0] * dims[1], &data, &n, err));
        p->fat = data;
        DN_TRY(check(r, "fat/weight", DN_F32, p->fat, n, err));
    }
done:
    return status;
}

/* One layer; bn: with BatchNorm; weight: with a weight of n_out x n_in (n_out == 0: found out here). */
static dn_status read_layer(const reader *r, const char *group, size_t i, bool weight, bool bias, bool bn,
                            dn_layer *l, dn_err *err)
{
    dn_status status;
    char name[64];
    int rank;
    uint64_t dims[4];
    const struct {
        const char *name;
        float **to;
        bool wanted;
    } part[] = {{"bias", &l->bias, bias},
                {"bn_gamma", &l->bn_gamma, bn},
                {"bn_beta", &l->bn_beta, bn},
                {"bn_mean", &l->bn_mean, bn},
                {"bn_var", &l->bn_var, bn}};
    snprintf(name, sizeof name, "%s/%zu/%s", group, i, weight ? "weight" : "bias");
    DN_TRY(dn_h5_shape(r->f, name, &rank, dims, err));
    if (rank != (weight ? 2 : 1) || dims[0] == 0 || dims[0] > DN_MAX_UNITS) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "package %s: '%s' has the wrong shape", r->path, name));
    }
    l->n_out = dims[0];
    if (weight) {
        l->n_in = dims[1];
        DN_TRY(GET(r, name, DN_F32, 2, l->n_out, l->n_in, &l->weight, err));
    }
    for (size_t k = 0; k < sizeof part / sizeof part[0]; k++) {
        snprintf(name, sizeof name, "%s/%zu/%s", group, i, part[k].name);
        if (part[k].wanted) DN_TRY(GET(r, name, DN_F32, 1, l->n_out, 0, part[k].to, err));
    }
    status = DN_OK;
done:
    return status;
}

static dn_status read_net(const reader *r, dn_package_in *p, bool map, dn_err *err)
{
    dn_status status;
    DN_TRY(GET(r, "norm/mean", DN_F64, 1, p->n_snps, 0, &p->mean, err));
    DN_TRY(GET(r, "norm/sd", DN_F64, 1, p->n_snps, 0, &p->sd, err));
    DN_TRY(read_fat(r, p, map, err));
    DN_TRY(dn_alloc(&p->layer, p->n_layers, sizeof *p->layer, "layers", err));
    for (size_t i = 0; i < p->n_layers; i++) {
        bool last = i + 1 == p->n_layers;
        DN_TRY(read_layer(r, "main", i, i > 0, true, !last, &p->layer[i], err));
        uint64_t in = i ? p->layer[i - 1].n_out : p->n_snps, out = i == 0 ? p->units
                                                                   : last ? p->n_out
                                                                          : p->layer[i].n_out;
        if (i == 0) p->layer[0].n_in = p->n_snps;
        if (p->layer[i].n_in != in || p->layer[i].n_out != out) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "package %s: layer %zu is %llu x %llu, expected %llu x %llu",
                           r->path, i, (unsigned long long)p->layer[i].n_out,
                           (unsigned long long)p->layer[i].n_in, (unsigned long long)out,
                           (unsigned long long)in));
        }
    }
    status = DN_OK;
done:
    return status;
}

static dn_status read_audit(const reader *r, dn_package_in *p, dn_err *err)
{
    dn_status status;
    DN_TRY(dn_alloc(&p->aux, p->n_aux, sizeof *p->aux, "auxiliary layers", err));
    for (size_t i = 0; i < p->n_aux; i++) {
        DN_TRY(read_layer(r, "aux", i, true, false, false, &p->aux[i], err));
        if (i > 0 && p->aux[i].n_in != p->aux[i - 1].n_out) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "package %s: auxiliary layer %zu does not fit on the one before",
                           r->path, i));
        }
    }
    if (p->n_aux && p->aux[p->n_aux - 1].n_out != p->units) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "package %s: the auxiliary net's output does not fit the fat layer",
                       r->path));
    }
    DN_TRY(get_text(r, "config_yaml", &p->config_yaml, err));
    DN_TRY(get_text(r, "log_tsv", &p->log_tsv, err));
done:
    return status;
}

dn_status dn_package_read(dn_package_in **out, const char *path, unsigned what, dn_err *err)
{
    dn_status status;
    dn_package_in *p = NULL;
    reader r = {.path = path};
    unsigned level = what & 3u;
    *out = NULL;
    DN_TRY(dn_alloc(&p, 1, sizeof *p, "package", err));
    DN_TRY(dn_h5_open(&r.f, path, err));
    DN_TRY(read_attributes(&r, p, err));
    DN_TRY(read_snps(&r, p, err));
    if (level >= DN_PACKAGE_NET) DN_TRY(read_net(&r, p, what & DN_PACKAGE_MAP, err));
    if (level >= DN_PACKAGE_ALL) DN_TRY(read_audit(&r, p, err));
    *out = p;
    p = NULL;
    status = DN_OK;
done:
    dn_h5_close(r.f);
    dn_strs_free(&r.names);
    free(r.sum);
    dn_package_free(p);
    return status;
}

static void free_layers(dn_layer *l, size_t n)
{
    for (size_t i = 0; l && i < n; i++) {
        free(l[i].weight);
        free(l[i].bias);
        free(l[i].bn_gamma);
        free(l[i].bn_beta);
        free(l[i].bn_mean);
        free(l[i].bn_var);
    }
    free(l);
}

void dn_package_free(dn_package_in *p)
{
    if (!p) return;
    dn_snps_free(&p->snps);
    free(p->freq);
    dn_strs_free(&p->classes);
    free(p->mean);
    free(p->sd);
    if (!p->fat_mapped) free(p->fat);
    dn_mapped_close(&p->map);
    free_layers(p->layer, p->n_layers);
    free_layers(p->aux, p->n_aux);
    free(p->config_yaml);
    free(p->log_tsv);
    free(p->program);
    free(p);
}

bool dn_package_is(const char *path)
{
    dn_h5 *f;
    char *format = NULL;
    bool yes = false;
    dn_kind kind;
    if (dn_kind_of_file(path, &kind, NULL) != DN_OK || kind != DN_KIND_HDF5 ||
        dn_h5_open(&f, path, NULL) != DN_OK)
        return false;
    if (dn_h5_has_attr(f, "/", "format") && dn_h5_read_attr_str(f, "/", "format", &format, NULL) == DN_OK) {
        yes = strcmp(format, DN_PACKAGE_FORMAT) == 0;
    }
    free(format);
    dn_h5_close(f);
    return yes;
}
