/* release.c: upstream's published release directory as a model (DESIGN section 4):
 *
 *   DN_MODELS/weights_model{fold}_{repeat}.pt   state dict of one member
 *   DN_MODELS/snps_emb_model{fold}.npz          emb: M x K embedding of the fold, not normalised
 *   DN_MODELS/norm_stats_model{fold}.npz        mean, std: M each; std with upstream's + 1e-6
 *   DN_SNPS/dietnet_snps.txt                    M SNP IDs, in the model's order
 *   DN_SNPS/dummy.bim                           their alleles (column 5 is the counted one)
 *
 * The fat layer's weight is not in the files: it is the auxiliary net applied to the normalised embedding. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "auxnet.h"
#include "io.h"
#include "model_impl.h"
#include "npz.h"
#include "opt.h"
#include "par.h"
#include "plink.h"
#include "torch_pt.h"

/* The 24 populations of upstream's published models: 1000 Genomes with CEU + GBR and STU + ITU merged. */
static const char *const published_classes[] = {"ACB", "ASW", "BEB", "CDX", "CEUGBR", "CHB",    "CHS", "CLM",
                                                "ESN", "FIN", "GIH", "GWD", "IBS",    "JPT",    "KHV", "LWK",
                                                "MSL", "MXL", "PEL", "PJL", "PUR",    "STUITU", "TSI", "YRI"};
enum { N_PUBLISHED = sizeof published_classes / sizeof published_classes[0] };

struct cell {
    uint64_t fold, repeat;
};

/* "weights_model{fold}_{repeat}.pt", both from 1 and without leading zeros. */
static bool parse_name(const char *name, struct cell *c)
{
    static const char head[] = "weights_model", tail[] = ".pt";
    char a[32], b[32];
    if (strncmp(name, head, sizeof head - 1) != 0) return false;
    name += sizeof head - 1;
    const char *bar = strchr(name, '_'), *dot = bar ? strrchr(bar, '.') : NULL;
    if (!dot || strcmp(dot, tail) != 0 || bar - name >= 32 || dot - bar - 1 >= 32) return false;
    snprintf(a, sizeof a, "%.*s", (int)(bar - name), name);
    snprintf(b, sizeof b, "%.*s", (int)(dot - bar - 1), bar + 1);
    return a[0] != '0' && b[0] != '0' && dn_parse_u64(a, &c->fold) && dn_parse_u64(b, &c->repeat);
}

static int by_cell(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    if (x->fold != y->fold) return x->fold < y->fold ? -1 : 1;
    return x->repeat < y->repeat ? -1 : x->repeat > y->repeat;
}

/* The members there are, sorted; they must be all of folds 1..F times repeats 1..R. */
static dn_status list_members(const char *path, struct cell **cells, size_t *n, uint64_t *n_folds,
                              dn_err *err)
{
    dn_status status;
    size_t cap = 0;
    char *dir = NULL;
    DIR *d = NULL;
    *cells = NULL;
    *n = 0;
    if (asprintf(&dir, "%s/DN_MODELS", path) < 0) {
        dir = NULL;
        DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    }
    d = opendir(dir);
    if (!d) DN_TRY(dn_fail(err, DN_EOPEN, "cannot read folder %s: %s", dir, strerror(errno)));
    for (struct dirent *e; errno = 0, (e = readdir(d)) != NULL;) {
        struct cell c;
        if (!parse_name(e->d_name, &c)) continue;
        if (*n == DN_MAX_MEMBERS)
            DN_TRY(dn_fail(err, DN_EUNSUPPORTED, "%s: more than %d members", dir, DN_MAX_MEMBERS));
        DN_TRY(dn_grow(cells, &cap, *n + 1, sizeof **cells, "members", err));
        (*cells)[(*n)++] = c;
    }
    if (errno) DN_TRY(dn_fail(err, DN_EOPEN, "cannot read folder %s: %s", dir, strerror(errno)));
    if (*n == 0)
        DN_TRY(
            dn_fail(err, DN_EFORMAT, "%s holds no weights_model{fold}_{repeat}.pt: is it a release?", dir));
    qsort(*cells, *n, sizeof **cells, by_cell);
    uint64_t repeats = 0;
    for (size_t i = 0; i < *n; i++) repeats = (*cells)[i].repeat > repeats ? (*cells)[i].repeat : repeats;
    *n_folds = (*cells)[*n - 1].fold;
    uint64_t fold = 1, repeat = 1;
    for (size_t i = 0; i < *n || fold <= *n_folds; repeat++) {
        if (repeat > repeats) {
            fold++;
            repeat = 0;
        } else if (i < *n && (*cells)[i].fold == fold && (*cells)[i].repeat == repeat) {
            i++;
        } else {
            DN_TRY(
                dn_fail(err, DN_EFORMAT,
                        "%s/weights_model%llu_%llu.pt is missing: the release has %llu folds x %llu repeats, "
                        "and every one must be there",
                        dir, (unsigned long long)fold, (unsigned long long)repeat,
                        (unsigned long long)*n_folds, (unsigned long long)repeats));
        }
    }
    status = DN_OK;
done:
    if (d) closedir(d);
    free(dir);
    return status;
}

/* ---- SNPs ---- */

static dn_status read_ids(dn_snps *snps, dn_map **by_id, const char *path, dn_err *err)
{
    dn_status status;
    dn_text *t = NULL;
    uint64_t blank = 0;
    char *line;
    size_t len;
    DN_TRY(dn_text_open(&t, path, err));
    for (;;) {
        char *field[2];
        DN_TRY(dn_text_next(t, &line, &len, err));
        if (!line) break;
        size_t n = dn_split_blanks(line, field, 2);
        if (n == 0) {
            if (!blank) blank = dn_text_line(t);
            continue;
        }
        if (blank)
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s, line %llu: blank line inside the SNP list", path,
                           (unsigned long long)blank));
        if (n > 1) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s, line %llu: %zu fields found, one SNP ID per line expected",
                           path, (unsigned long long)dn_text_line(t), n));
        }
        if (snps->id.n >= DN_MAX_SNPS || strlen(field[0]) > DN_MAX_ID)
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s: too many or too long SNP IDs", path));
        DN_TRY(dn_strs_add(&snps->id, field[0], strlen(field[0]), err));
    }
    if (snps->id.n == 0) DN_TRY(dn_fail(err, DN_EFORMAT, "%s lists 0 SNPs", path));
    DN_TRY(dn_map_new(by_id, snps->id.n, err));
    for (uint64_t i = 0; i < snps->id.n; i++) {
        uint64_t prev;
        const char *id = dn_strs_get(&snps->id, i);
        DN_TRY(dn_map_add(*by_id, id, strlen(id), i, &prev, err));
        if (prev != UINT64_MAX) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s: SNP %s is listed twice, as number %llu and %llu", path, id,
                           (unsigned long long)prev + 1, (unsigned long long)i + 1));
        }
    }
    status = DN_OK;
done:
    dn_text_close(t);
    return status;
}

/* Brings dummy.bim's columns into the list's order. */
static dn_status read_alleles(dn_snps *snps, const dn_map *by_id, const char *bim_path, const char *list_path,
                              dn_err *err)
{
    dn_status status;
    dn_snps bim;
    uint64_t *row = NULL;
    memset(&bim, 0, sizeof bim);
    DN_TRY(dn_bim_read(bim_path, &bim, err));
    DN_TRY(dn_alloc(&row, snps->id.n, sizeof *row, "SNPs", err));
    memset(row, 0xff, snps->id.n * sizeof *row);
    for (uint64_t i = 0; i < bim.id.n; i++) {
        const char *id = dn_strs_get(&bim.id, i);
        uint64_t k = dn_map_get(by_id, id, strlen(id));
        if (k == UINT64_MAX) continue;
        if (row[k] != UINT64_MAX) DN_TRY(dn_fail(err, DN_EFORMAT, "%s: SNP %s is there twice", bim_path, id));
        row[k] = i;
    }
    DN_TRY(dn_alloc(&snps->pos, snps->id.n, sizeof *snps->pos, "positions", err));
    for (uint64_t k = 0; k < snps->id.n; k++) {
        if (row[k] == UINT64_MAX) {
            DN_TRY(dn_fail(err, DN_EMISMATCH,
                           "%s has no SNP %s, which %s lists: they are from different models", bim_path,
                           dn_strs_get(&snps->id, k), list_path));
        }
        const char *chrom = dn_strs_get(&bim.chrom, row[k]), *a1 = dn_strs_get(&bim.a1, row[k]),
                   *a2 = dn_strs_get(&bim.a2, row[k]);
        DN_TRY(dn_strs_add(&snps->chrom, chrom, strlen(chrom), err));
        DN_TRY(dn_strs_add(&snps->a1, a1, strlen(a1), err));
        DN_TRY(dn_strs_add(&snps->a2, a2, strlen(a2), err));
        snps->pos[k] = bim.pos[row[k]];
    }
    status = DN_OK;
done:
    free(row);
    dn_snps_free(&bim);
    return status;
}

static dn_status read_snps(dn_snps *snps, const char *path, dn_err *err)
{
    dn_status status;
    char *list = NULL, *bim = NULL;
    dn_map *by_id = NULL;
    struct stat sb;
    if (asprintf(&list, "%s/DN_SNPS/dietnet_snps.txt", path) < 0) list = NULL;
    if (asprintf(&bim, "%s/DN_SNPS/dummy.bim", path) < 0) bim = NULL;
    if (!list || !bim) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    DN_TRY(read_ids(snps, &by_id, list, err));
    if (stat(bim, &sb) == 0 || errno != ENOENT) DN_TRY(read_alleles(snps, by_id, bim, list, err));
    status = DN_OK;
done:
    dn_map_free(by_id);
    free(list);
    free(bim);
    return status;
}

/* ---- standardisation and embedding of one fold ---- */

static dn_status read_norm(const char *path, uint64_t fold, uint64_t n_snps, double **mean, double **sd,
                           dn_err *err)
{
    dn_status status;
    dn_npz *z = NULL;
    char *file = NULL;
    double **to[2] = {mean, sd};
    static const char *const names[2] = {"mean", "std"};
    if (asprintf(&file, "%s/DN_MODELS/norm_stats_model%llu.npz", path, (unsigned long long)fold) < 0) {
        file = NULL;
        DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    }
    DN_TRY(dn_npz_open(&z, file, err));
    for (int k = 0; k < 2; k++) {
        dn_npy_info info;
        void *data;
        if (!to[k]) continue;
        DN_TRY(dn_npz_info(z, names[k], &info, err));
        if (info.ndim != 1 || info.dim[0] != n_snps) {
            DN_TRY(dn_fail(err, DN_EMISMATCH,
                           "%s: array %s has %llu numbers in %d dimension(s), but the SNP list has %llu "
                           "SNPs: they are from different models",
                           file, names[k], (unsigned long long)info.n_items, info.ndim,
                           (unsigned long long)n_snps));
        }
        DN_TRY(dn_npz_read(z, names[k], DN_F64, &data, &info, err));
        *to[k] = data;
    }
    status = DN_OK;
done:
    dn_npz_close(z);
    free(file);
    return status;
}

/* emb: M x K; *norm: K. */
static dn_status read_emb(const char *path, uint64_t fold, uint64_t n_snps, double **emb, double **norm,
                          uint64_t *n_features, dn_err *err)
{
    dn_status status;
    dn_npz *z = NULL;
    char *file = NULL;
    dn_npy_info info;
    void *data;
    if (asprintf(&file, "%s/DN_MODELS/snps_emb_model%llu.npz", path, (unsigned long long)fold) < 0) {
        file = NULL;
        DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    }
    DN_TRY(dn_npz_open(&z, file, err));
    DN_TRY(dn_npz_info(z, "emb", &info, err));
    if (info.ndim != 2 || info.dim[0] != n_snps || info.dim[1] == 0 || info.dim[1] > DN_MAX_UNITS) {
        DN_TRY(dn_fail(err, DN_EMISMATCH,
                       "%s: array emb is %llu x %llu in %d dimension(s), but the SNP list has %llu SNPs: "
                       "they are from different models",
                       file, (unsigned long long)(info.ndim > 0 ? info.dim[0] : 0),
                       (unsigned long long)(info.ndim > 1 ? info.dim[1] : 0), info.ndim,
                       (unsigned long long)n_snps));
    }
    *n_features = info.dim[1];
    DN_TRY(dn_npz_read(z, "emb", DN_F64, &data, &info, err));
    *emb = data;
    DN_TRY(dn_alloc(norm, *n_features, sizeof **norm, "embedding", err));
    dn_column_norms(*emb, n_snps, *n_features, *norm);
    for (uint64_t k = 0; k < *n_features; k++) {
        if (!isfinite((*norm)[k])) {
            DN_TRY(dn_fail(
                err, DN_ENUMERIC,
                "%s: column %llu of the embedding is not finite: was a class absent from the training set?",
                file, (unsigned long long)k));
        }
    }
    status = DN_OK;
done:
    dn_npz_close(z);
    free(file);
    return status;
}

/* ---- one member ---- */

static dn_status check_units(const char *file, const char *key, uint64_t n, dn_err *err)
{
    if (n > 0 && n <= DN_MAX_UNITS) return DN_OK;
    return dn_fail(err, DN_EFORMAT, "%s: tensor %s: %llu units", file, key, (unsigned long long)n);
}

static dn_status vec(dn_pt *pt, const char *base, const char *what, uint64_t n, float **out, dn_err *err)
{
    char key[128];
    snprintf(key, sizeof key, "%s%s", base, what);
    return dn_pt_read(pt, key, 1, &n, out, err);
}

static dn_status batchnorm(dn_pt *pt, const char *file, const char *base, dn_layer *l, dn_err *err)
{
    dn_status status;
    DN_TRY(vec(pt, base, ".weight", l->n_out, &l->bn_gamma, err));
    DN_TRY(vec(pt, base, ".bias", l->n_out, &l->bn_beta, err));
    DN_TRY(vec(pt, base, ".running_mean", l->n_out, &l->bn_mean, err));
    DN_TRY(vec(pt, base, ".running_var", l->n_out, &l->bn_var, err));
    for (uint64_t k = 0; k < l->n_out; k++) {
        if (l->bn_var[k] < 0) {
            DN_TRY(dn_fail(err, DN_ENUMERIC, "%s: %s.running_var: number %llu is negative (%g)", file, base,
                           (unsigned long long)k, (double)l->bn_var[k]));
        }
    }
    status = DN_OK;
done:
    return status;
}

/* Weight and, if wanted, bias of a dense layer; n_in is known, n_out found. */
static dn_status dense(dn_pt *pt, const char *file, const char *base, bool with_bias, dn_layer *l,
                       dn_err *err)
{
    dn_status status;
    char key[128];
    int ndim;
    uint64_t dim[8];
    snprintf(key, sizeof key, "%s.weight", base);
    DN_TRY(dn_pt_shape(pt, key, &ndim, dim, err));
    if (ndim != 2 || dim[1] != l->n_in) {
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s: tensor %s should have %llu inputs, but has %llu in %d dimension(s): layers do "
                       "not fit together",
                       file, key, (unsigned long long)l->n_in, (unsigned long long)(ndim > 1 ? dim[1] : 0),
                       ndim));
    }
    l->n_out = dim[0];
    DN_TRY(check_units(file, key, l->n_out, err));
    DN_TRY(dn_pt_read(pt, key, 2, dim, &l->weight, err));
    if (with_bias) DN_TRY(vec(pt, base, ".bias", l->n_out, &l->bias, err));
    status = DN_OK;
done:
    return status;
}

/* How many of prefix0suffix, prefix1suffix, ... there are. */
static size_t count_layers(const dn_pt *pt, const char *prefix, const char *suffix)
{
    size_t n = 0;
    for (char key[128]; n < DN_MAX_LAYERS; n++) {
        snprintf(key, sizeof key, "%s%zu%s", prefix, n, suffix);
        if (!dn_pt_has(pt, key)) break;
    }
    return n;
}

/* A tensor that nothing above reads would mean another architecture, and wrong predictions in silence. */
static dn_status check_count(const dn_pt *pt, const char *file, size_t n_aux, size_t n_hidden, dn_err *err)
{
    const dn_strs *keys = dn_pt_keys(pt);
    uint64_t used = n_aux + 5 + 6 * n_hidden + 2;
    for (uint64_t i = 0; i < keys->n; i++) {
        const char *key = dn_strs_get(keys, i), *tail = ".num_batches_tracked";
        size_t n = strlen(key), m = strlen(tail);
        if (n > m && strcmp(key + n - m, tail) == 0) used++;
    }
    if (used == keys->n) return DN_OK;
    return dn_fail(err, DN_EUNSUPPORTED,
                   "%s: %llu tensors found, %llu expected of a Diet Network with %zu auxiliary and %zu "
                   "hidden layers: another architecture?",
                   file, (unsigned long long)keys->n, (unsigned long long)used, n_aux, n_hidden);
}

static dn_status read_member(dn_member *m, dn_layer **aux, size_t *n_aux, const char *file,
                             uint64_t n_features, dn_err *err)
{
    dn_status status;
    dn_pt *pt = NULL;
    char base[128];
    DN_TRY(dn_pt_open(&pt, file, err));
    *n_aux = count_layers(pt, "aux_net.hidden_layers.", ".weight");
    size_t n_hidden = count_layers(pt, "main_net.hidden_layers.", ".weight");
    DN_TRY(check_count(pt, file, *n_aux, n_hidden, err));
    DN_TRY(dn_alloc(aux, *n_aux, sizeof **aux, "auxiliary net", err));
    uint64_t units = n_features;
    for (size_t l = 0; l < *n_aux; l++) {
        snprintf(base, sizeof base, "aux_net.hidden_layers.%zu", l);
        (*aux)[l].n_in = units;
        DN_TRY(dense(pt, file, base, false, &(*aux)[l], err));
        units = (*aux)[l].n_out;
    }
    m->n_layers = n_hidden + 2;
    DN_TRY(dn_alloc(&m->layer, m->n_layers, sizeof *m->layer, "main net", err));
    m->layer[0].n_out = units;
    DN_TRY(vec(pt, "main_net.fat_bias", "", units, &m->layer[0].bias, err));
    DN_TRY(batchnorm(pt, file, "main_net.bn_fatLayer", &m->layer[0], err));
    for (size_t l = 1; l <= n_hidden + 1; l++) {
        m->layer[l].n_in = units;
        if (l <= n_hidden) snprintf(base, sizeof base, "main_net.hidden_layers.%zu", l - 1);
        DN_TRY(dense(pt, file, l <= n_hidden ? base : "main_net.out", true, &m->layer[l], err));
        snprintf(base, sizeof base, "main_net.bn.%zu", l - 1);
        if (l <= n_hidden) DN_TRY(batchnorm(pt, file, base, &m->layer[l], err));
        units = m->layer[l].n_out;
    }
    uint64_t h[2] = {dn_layers_hash(*aux, *n_aux), dn_layers_hash(m->layer, m->n_layers)};
    m->weight_hash = dn_hash(h, sizeof h);
    status = DN_OK;
done:
    dn_pt_close(pt);
    return status;
}

static dn_status check_memory(const dn_model *m, const char *path, uint64_t units, uint64_t memory,
                              dn_err *err)
{
    uint64_t need;
    if (memory == 0) return DN_OK;
    if (dn_mul(m->n_members, m->n_snps, &need) && dn_mul(need, units * sizeof(float), &need) &&
        need <= memory)
        return DN_OK;
    return dn_fail(err, DN_ENOMEM,
                   "--memory %llu MiB is too little for %s: the fat weights of %zu models of %llu SNPs x "
                   "%llu units take %llu MiB",
                   (unsigned long long)(memory >> 20), path, m->n_members, (unsigned long long)m->n_snps,
                   (unsigned long long)units, (unsigned long long)(need >> 20) + 1);
}

/* All members of one fold: they share its embedding, which is let go of afterwards. */
static dn_status load_fold(dn_model *m, const char *path, const struct cell *cells, size_t first, size_t n,
                           uint64_t memory, dn_pool *pool, dn_err *err)
{
    dn_status status;
    double *emb = NULL, *norm = NULL;
    dn_layer *aux = NULL;
    size_t n_aux = 0;
    uint64_t n_features;
    char *file = NULL;
    DN_TRY(read_emb(path, cells[first].fold, m->n_snps, &emb, &norm, &n_features, err));
    for (size_t i = first; i < first + n; i++) {
        dn_member *mem = &m->members[i];
        free(file);
        if (asprintf(&file, "%s/DN_MODELS/weights_model%llu_%llu.pt", path, (unsigned long long)cells[i].fold,
                     (unsigned long long)cells[i].repeat) < 0 ||
            asprintf(&mem->name, "%llu_%llu", (unsigned long long)cells[i].fold,
                     (unsigned long long)cells[i].repeat) < 0) {
            file = NULL;
            mem->name = NULL;
            DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
        }
        mem->fold = cells[i].fold;
        mem->seed = cells[i].repeat;
        mem->norm = (size_t)cells[i].fold - 1;
        DN_TRY(read_member(mem, &aux, &n_aux, file, n_features, err));
        DN_TRY(check_memory(m, path, mem->layer[0].n_out, memory, err));
        DN_TRY(dn_alloc_aligned(&mem->fat, (size_t)(m->n_snps * mem->layer[0].n_out), sizeof(float),
                                "fat weights", err));
        DN_TRY(dn_auxnet_fat(emb, norm, m->n_snps, n_features, n_aux, aux, mem->fat, pool, err));
        dn_layers_free(aux, n_aux);
        aux = NULL;
    }
    status = DN_OK;
done:
    dn_layers_free(aux, n_aux);
    free(emb);
    free(norm);
    free(file);
    return status;
}

static dn_status name_classes(dn_model *m, const char *path, const dn_model_opts *opts, dn_err *err)
{
    if (m->task == DN_TASK_REGRESSION) return DN_OK;
    if (opts->classes_file) return dn_classes_read(&m->classes, opts->classes_file, m->n_out, err);
    if (m->n_out != N_PUBLISHED && !opts->number_classes) {
        return dn_fail(err, DN_EUSAGE,
                       "%s has %llu classes, not the %d of the published models, and a release does not hold "
                       "their names: "
                       "give them with --classes FILE, one per line in the order of training (sorted labels)",
                       path, (unsigned long long)m->n_out, (int)N_PUBLISHED);
    }
    for (uint64_t c = 0; c < m->n_out; c++) {
        char text[32];
        snprintf(text, sizeof text, "class%llu", (unsigned long long)c);
        const char *name = m->n_out == N_PUBLISHED ? published_classes[c] : text;
        dn_status status = dn_strs_add(&m->classes, name, strlen(name), err);
        if (status != DN_OK) return status;
    }
    return DN_OK;
}

dn_status dn_release_load(dn_model *m, const char *path, const dn_model_opts *opts, dn_err *err)
{
    dn_status status;
    struct cell *cells = NULL;
    dn_pool *pool = NULL;
    double *mean = NULL;
    size_t n;
    uint64_t n_folds;
    m->is_release = true;
    DN_TRY(list_members(path, &cells, &n, &n_folds, err));
    DN_TRY(read_snps(&m->snps, path, err));
    m->n_snps = m->snps.id.n;
    DN_TRY(read_norm(path, 1, m->n_snps, &mean, NULL, err));
    DN_TRY(dn_alloc(&m->freq, m->n_snps, sizeof *m->freq, "frequencies", err));
    for (uint64_t j = 0; j < m->n_snps; j++) m->freq[j] = (float)(mean[j] / 2);
    if (opts->snps_only) goto done;
    DN_TRY(dn_pool_new(&pool, opts->threads, err));
    DN_TRY(dn_alloc(&m->norms, (size_t)n_folds, sizeof *m->norms, "folds", err));
    m->n_norms = (size_t)n_folds;
    DN_TRY(dn_alloc(&m->members, n, sizeof *m->members, "members", err));
    m->n_members = n;
    for (size_t f = 0, per = n / (size_t)n_folds; f < n_folds; f++) {
        DN_TRY(read_norm(path, f + 1, m->n_snps, &m->norms[f].mean, &m->norms[f].sd, err));
        DN_TRY(load_fold(m, path, cells, f * per, per, opts->memory, pool, err));
    }
    const dn_member *one = &m->members[0];
    m->n_out = one->layer[one->n_layers - 1].n_out;
    m->task = m->n_out == 1 ? DN_TASK_REGRESSION : DN_TASK_CLASSIFICATION;
    status = name_classes(m, path, opts, err);
done:
    dn_pool_free(pool);
    free(mean);
    free(cells);
    return status;
}
