/* check_file.c: one file, told apart by its first bytes and its type mark (see check_file.h). */
#include "check_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint.h"
#include "dataset.h"
#include "matched.h"
#include "gpk.h"
#include "h5.h"
#include "npz.h"
#include "package.h"
#include "split.h"
#include "torch_pt.h"

typedef unsigned long long ull;

dn_status check_is_folder(const char *path, bool *folder, dn_err *err)
{
    struct stat sb;
    if (stat(path, &sb) != 0) return dn_fail(err, DN_EOPEN, "cannot open %s: %s", path, strerror(errno));
    *folder = S_ISDIR(sb.st_mode);
    return DN_OK;
}

/* Each reader below returns through `e` what is wrong with the file, and adds one "ok" line when nothing is.
 */

static dn_status check_gpk(findings *f, const char *path, const check_opts *o, dn_err *e, dn_err *err)
{
    dn_status status;
    dn_gpk *g = NULL;
    DN_TRY(dn_gpk_open(&g, path, e));
    if (o->full) DN_TRY(dn_gpk_verify(g, o->threads, e));
    const dn_gpk_info *i = dn_gpk_get_info(g);
    status = found(f, err, FOUND_OK, DN_OK, "gpk", path, "%llu people x %llu SNPs%s%s%s%s", (ull)i->n_people,
                   (ull)i->n_snps, i->label ? ", labelled" : "", i->model_snps ? ", matched to a model" : "",
                   i->zstd_level ? ", compressed" : "",
                   o->full ? "; every checksum holds" : "; header and trailer hold");
done:
    dn_gpk_close(g);
    return status;
}

static dn_status check_package(findings *f, const char *path, const check_opts *o, dn_err *e, dn_err *err)
{
    dn_status status;
    dn_package_in *p = NULL;
    DN_TRY(dn_package_read(&p, path, o->full ? DN_PACKAGE_ALL : DN_PACKAGE_SNPS, e));
    status = found(
        f, err, FOUND_OK, DN_OK, "package", path, "fold %llu, seed %llu: %llu SNPs, %llu %s%s", (ull)p->fold,
        (ull)p->seed, (ull)p->n_snps, (ull)p->n_out, p->task == DN_TASK_REGRESSION ? "value" : "classes",
        o->full ? "; every checksum holds, every weight is finite" : "; header, SNPs and classes hold");
done:
    dn_package_free(p);
    return status;
}

static dn_status check_split(findings *f, const char *path, dn_err *e, dn_err *err)
{
    dn_status status;
    dn_split *s = NULL;
    DN_TRY(dn_split_read(&s, path, e));
    status = found(f, err, FOUND_OK, DN_OK, "split", path, "%llu folds of %llu people (%s); checksum holds",
                   (ull)s->n_folds, (ull)s->n_people, s->method);
done:
    dn_split_free(s);
    return status;
}

static dn_status check_dataset(findings *f, const char *path, const check_opts *o, dn_err *e, dn_err *err)
{
    dn_status status;
    dn_dataset *d = NULL;
    bool checked = false;
    DN_TRY(dn_dataset_open(&d, path, e));
    const dn_gpk_info *i = dn_dataset_info(d);
    if (o->full) DN_TRY(dn_dataset_verify(d, o->threads, &checked, NULL, NULL, e));
    status = found(f, err, FOUND_OK, DN_OK, "dataset", path, "%llu people x %llu SNPs, %s%s",
                   (ull)i->n_people, (ull)i->n_snps, i->label ? "labelled" : "without labels",
                   !o->full  ? "; tables and sizes hold"
                   : checked ? "; every genotype is there as it was written"
                             : "; every genotype is 0, 1, 2 or -1 (the file carries no checksum)");
done:
    dn_dataset_close(d);
    return status;
}

static dn_status check_matched_h5(findings *f, const char *path, dn_err *e, dn_err *err)
{
    dn_status status;
    dn_matched *m = NULL;
    DN_TRY(dn_matched_open(&m, path, e));
    status = found(f, err, FOUND_OK, DN_OK, "matched", path,
                   "%llu people x %llu SNPs of a model; tables and sizes hold", (ull)m->n_people,
                   (ull)(m->model_snps ? m->model_snps : m->snps.id.n));
done:
    dn_matched_close(m);
    return status;
}

/* /scores against its checksum (docs/format-predictions.md); files of before it had one pass. */
static dn_status check_scores_sum(dn_h5 *h, const char *path, const float *v, const uint64_t *dims, dn_err *e)
{
    dn_status status = DN_OK;
    uint64_t said, sum = 0, bytes = dims[2] * sizeof *v;
    char *person = NULL;
    if (!dn_h5_has_attr(h, "scores", "people_xxh3_sum")) return DN_OK;
    DN_TRY(dn_h5_read_attr(h, "scores", "people_xxh3_sum", DN_U64, &said, e));
    DN_TRY(dn_alloc(&person, sizeof said + dims[0] * bytes, 1, "scores", e));
    for (uint64_t i = 0; i < dims[1]; i++) {
        memcpy(person, &i, sizeof i);
        for (uint64_t m = 0; m < dims[0]; m++) {
            memcpy(person + sizeof i + m * bytes, v + (m * dims[1] + i) * dims[2], bytes);
        }
        sum += dn_hash(person, sizeof i + dims[0] * bytes);
    }
    if (sum != said) {
        status =
            dn_fail(e, DN_EFORMAT, "%s: /scores does not match its checksum: it is damaged or edited", path);
    }
done:
    free(person);
    return status;
}

/* scores.h5: shapes fit together; under --full no number is infinite (NaN stands for people without a call).
 */
static dn_status check_scores(findings *f, const char *path, const check_opts *o, dn_err *e, dn_err *err)
{
    dn_status status;
    dn_h5 *h = NULL;
    dn_strs models = {0}, samples = {0}, classes = {0};
    int rank;
    uint64_t dims[4], n, n_nan = 0;
    float *v = NULL;
    DN_TRY(dn_h5_open(&h, path, e));
    DN_TRY(dn_h5_shape(h, "scores", &rank, dims, e));
    DN_TRY(dn_h5_read_strs(h, "models", &models, e));
    DN_TRY(dn_h5_read_strs(h, "samples", &samples, e));
    DN_TRY(dn_h5_read_strs(h, "classes", &classes, e));
    if (rank != 3 || dims[0] != models.n || dims[1] != samples.n || dims[2] != classes.n) {
        DN_TRY(dn_fail(e, DN_EFORMAT,
                       "%s: /scores does not have the shape models x samples x classes (%llu x %llu x %llu)",
                       path, (ull)models.n, (ull)samples.n, (ull)classes.n));
    }
    if (o->full) {
        DN_TRY(dn_h5_read(h, "scores", DN_F32, dims[0] * dims[1] * dims[2], (void **)&v, &n, e));
        for (uint64_t i = 0; i < n; i++) {
            if (isinf(v[i]))
                DN_TRY(dn_fail(e, DN_ENUMERIC, "%s: /scores holds an infinite number at item %llu", path,
                               (ull)i));
            n_nan += isnan(v[i]) != 0;
        }
        DN_TRY(check_scores_sum(h, path, v, dims, e));
    }
    status = found(f, err, FOUND_OK, DN_OK, "scores", path,
                   "%llu models x %llu people x %llu classes; %llu people-scores without a call",
                   (ull)models.n, (ull)samples.n, (ull)classes.n, (ull)(classes.n ? n_nan / classes.n : 0));
done:
    free(v);
    dn_strs_free(&models);
    dn_strs_free(&samples);
    dn_strs_free(&classes);
    dn_h5_close(h);
    return status;
}

static dn_status check_h5(findings *f, const char *path, const check_opts *o, dn_err *e, dn_err *err)
{
    dn_h5 *h = NULL;
    dn_status status = dn_h5_open(&h, path, e);
    if (status != DN_OK) return status;
    bool folds = dn_h5_has(h, "folds") || dn_h5_has(h, "fold0") || dn_h5_has_attr(h, "/", "n_folds");
    bool scale = dn_h5_has(h, "scale"), inputs = dn_h5_has(h, "inputs"), scores = dn_h5_has(h, "scores");
    dn_h5_close(h);
    if (dn_package_is(path)) return check_package(f, path, o, e, err);
    if (inputs && scale) return check_matched_h5(f, path, e, err);
    if (inputs) return check_dataset(f, path, o, e, err);
    if (scores) return check_scores(f, path, o, e, err);
    if (folds) return check_split(f, path, e, err);
    return dn_fail(
        e, DN_EFORMAT,
        "%s is an HDF5 file, but none of ours: no package, split, dataset, matched cohort or scores", path);
}

static dn_status check_npz(findings *f, const char *path, dn_err *e, dn_err *err)
{
    dn_status status;
    dn_npz *z = NULL;
    static const char *const known[] = {"emb", "mean", "std", "means_by_fold", "sd_by_fold", "folds_indexes"};
    size_t seen = 0;
    DN_TRY(dn_npz_open(&z, path, e));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        dn_npy_info info;
        double *v = NULL;
        if (!dn_npz_has(z, known[i])) continue;
        seen++;
        DN_TRY(dn_npz_info(z, known[i], &info, e));
        if (info.kind == 'O') continue;
        status = dn_npz_read(z, known[i], DN_F64, (void **)&v, &info, e);
        for (uint64_t k = 0; status == DN_OK && k < info.n_items; k++) {
            if (!isfinite(v[k])) {
                status =
                    dn_fail(e, DN_ENUMERIC, "%s: array %s holds a number that is not finite, at item %llu",
                            path, known[i], (ull)k);
            }
        }
        free(v);
        if (status != DN_OK) goto done;
    }
    if (!seen)
        DN_TRY(dn_fail(
            e, DN_EFORMAT,
            "%s holds none of upstream's arrays (emb, mean, std, means_by_fold, sd_by_fold, folds_indexes)",
            path));
    status = found(f, err, FOUND_OK, DN_OK, "npz", path, "%zu arrays of upstream's, whole and finite", seen);
done:
    dn_npz_close(z);
    return status;
}

static dn_status check_zip(findings *f, const char *path, dn_err *e, dn_err *err)
{
    size_t len = strlen(path);
    if (len > 3 && strcmp(path + len - 3, ".pt") == 0) {
        dn_pt *pt = NULL;
        dn_status status = dn_pt_open(&pt, path, e);
        if (status != DN_OK) return status;
        status = found(f, err, FOUND_OK, DN_OK, "pt", path, "a state dict of %llu tensors, nothing but data",
                       (ull)dn_pt_keys(pt)->n);
        dn_pt_close(pt);
        return status;
    }
    return check_npz(f, path, e, err);
}

/* A table of predictions: a header that starts with "samples", as many tabs in every line. */
static dn_status check_table(findings *f, const char *path, dn_err *e, dn_err *err)
{
    dn_status status;
    dn_text *t = NULL;
    char *line;
    size_t len, want = 0;
    uint64_t rows = 0;
    bool part = false, ended = false;
    DN_TRY(dn_text_open(&t, path, e));
    for (;;) {
        DN_TRY(dn_text_next(t, &line, &len, e));
        if (!line) break;
        if (line[0] == '#') {
            part = true;
            ended = strncmp(line, "#dnpredict-end", 14) == 0;
            continue;
        }
        size_t tabs = 0;
        for (size_t i = 0; i < len; i++) tabs += line[i] == '\t';
        if (!want) {
            if (strncmp(line, "samples\t", 8) != 0) {
                DN_TRY(dn_fail(
                    e, DN_EFORMAT,
                    "%s is text, but no table of predictions (its first column is not \"samples\") and "
                    "nothing else that can be checked",
                    path));
            }
            want = tabs;
        } else if (tabs != want) {
            DN_TRY(dn_fail(e, DN_EFORMAT,
                           "%s, line %llu: %zu columns where the header has %zu: it is cut or edited", path,
                           (ull)dn_text_line(t), tabs + 1, want + 1));
        } else {
            rows++;
        }
    }
    if (part && !ended)
        DN_TRY(
            dn_fail(e, DN_EFORMAT, "%s is a part of a sharded run without its last line: it is cut", path));
    status = found(f, err, FOUND_OK, DN_OK, "predictions", path, "%llu people, %zu columns%s", (ull)rows,
                   want + 1, part ? " (one shard: put the shards together with dnpredict --join)" : "");
done:
    dn_text_close(t);
    return status;
}

static dn_status check_checkpoint(findings *f, const char *path, dn_err *e, dn_err *err)
{
    dn_ckpt *c = NULL;
    dn_status status = dn_ckpt_read(&c, path, e);
    if (status != DN_OK) return status;
    status =
        found(f, err, FOUND_OK, DN_OK, "checkpoint", path, "%zu arrays; checksum holds", dn_ckpt_count(c));
    dn_ckpt_free(c);
    return status;
}

static bool is_checkpoint(const char *path)
{
    unsigned char head[8] = {0};
    FILE *in = fopen(path, "rb");
    bool yes = in && fread(head, 1, 8, in) == 8 &&
               memcmp(head,
                      "\x89"
                      "DNCKPT\n",
                      8) == 0;
    if (in) fclose(in);
    return yes;
}

dn_status check_file(findings *f, const char *path, const check_opts *o, dn_err *err)
{
    dn_kind kind;
    dn_err e = {0};
    dn_status status = dn_kind_of_file(path, &kind, &e);
    if (status == DN_OK) {
        switch (kind) {
        case DN_KIND_GPK: status = check_gpk(f, path, o, &e, err); break;
        case DN_KIND_HDF5: status = check_h5(f, path, o, &e, err); break;
        case DN_KIND_ZIP: status = check_zip(f, path, &e, err); break;
        case DN_KIND_TEXT: status = check_table(f, path, &e, err); break;
        default:
            if (is_checkpoint(path))
                status = check_checkpoint(f, path, &e, err);
            else
                status =
                    dn_fail(&e, DN_EFORMAT, "%s is %s: nothing that dncheck knows", path, dn_kind_name(kind));
        }
    }
    if (status == DN_OK || e.status == DN_OK)
        return status; /* all well, or a failure of the findings themselves */
    return found_error(f, err, "file", path, &e);
}
