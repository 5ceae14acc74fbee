/* model_package.c: a folder of our packages, or one package, as a model (see model.h). */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "model_impl.h"
#include "opt.h"
#include "package.h"

struct cell {
    uint64_t fold, seed;
    bool named; /* found by its name: the file must agree with it */
};

/* "seed{S}_fold{F}.h5", both without leading zeros. */
static bool parse_name(const char *name, struct cell *c)
{
    char a[32], b[32], back[80];
    if (sscanf(name, "seed%31[0-9]_fold%31[0-9]", a, b) != 2 || !dn_parse_u64(a, &c->seed) ||
        !dn_parse_u64(b, &c->fold))
        return false;
    snprintf(back, sizeof back, "seed%llu_fold%llu.h5", (unsigned long long)c->seed,
             (unsigned long long)c->fold);
    c->named = true;
    return strcmp(back, name) == 0;
}

static int by_cell(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    if (x->fold != y->fold) return x->fold < y->fold ? -1 : 1;
    return x->seed < y->seed ? -1 : x->seed > y->seed;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Every fold 0..F with every seed that there is. cells are sorted. */
static dn_status check_grid(const char *path, const struct cell *cells, size_t n, dn_err *err)
{
    dn_status status;
    uint64_t *seeds = NULL;
    size_t n_seeds = 0;
    DN_TRY(dn_alloc(&seeds, n, sizeof *seeds, "members", err));
    for (size_t i = 0; i < n; i++) seeds[i] = cells[i].seed;
    qsort(seeds, n, sizeof *seeds, by_number);
    for (size_t i = 0; i < n; i++) {
        if (n_seeds == 0 || seeds[n_seeds - 1] != seeds[i]) seeds[n_seeds++] = seeds[i];
    }
    uint64_t fold = 0;
    for (size_t i = 0, s = 0; i < n || s > 0; s++) {
        if (s == n_seeds) {
            fold++;
            if (i == n) break;
            s = 0;
        }
        if (i < n && cells[i].fold == fold && cells[i].seed == seeds[s]) {
            i++;
            continue;
        }
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s/seed%llu_fold%llu.h5 is missing: there are packages of %zu seeds and of fold "
                       "%llu, and every fold needs "
                       "every seed (one package alone can be given by its file name)",
                       path, (unsigned long long)seeds[s], (unsigned long long)fold, n_seeds,
                       (unsigned long long)cells[n - 1].fold));
    }
    status = DN_OK;
done:
    free(seeds);
    return status;
}

/* Was DN_MODELS or DN_SNPS itself given? */
static bool one_level_down(const char *path)
{
    static const char *const names[] = {"weights_model1_1.pt", "dietnet_snps.txt"};
    bool found = false;
    for (size_t i = 0; i < 2 && !found; i++) {
        char *file;
        struct stat sb;
        if (asprintf(&file, "%s/%s", path, names[i]) < 0) return false;
        found = stat(file, &sb) == 0;
        free(file);
    }
    return found;
}

static dn_status list_members(const char *path, struct cell **cells, size_t *n, dn_err *err)
{
    dn_status status;
    size_t cap = 0;
    DIR *d = opendir(path);
    if (!d) DN_TRY(dn_fail(err, DN_EOPEN, "cannot read folder %s: %s", path, strerror(errno)));
    for (struct dirent *e; errno = 0, (e = readdir(d)) != NULL;) {
        struct cell c;
        if (!parse_name(e->d_name, &c)) continue;
        if (*n == DN_MAX_MEMBERS)
            DN_TRY(dn_fail(err, DN_EUNSUPPORTED, "%s: more than %d members", path, DN_MAX_MEMBERS));
        DN_TRY(dn_grow(cells, &cap, *n + 1, sizeof **cells, "members", err));
        (*cells)[(*n)++] = c;
    }
    if (errno) DN_TRY(dn_fail(err, DN_EOPEN, "cannot read folder %s: %s", path, strerror(errno)));
    if (*n == 0) {
        const char *hint =
            one_level_down(path) ? ": give the folder above it, which holds DN_MODELS and DN_SNPS" : "";
        DN_TRY(
            dn_fail(err, DN_EFORMAT,
                    "%s holds no model: neither DN_MODELS and DN_SNPS, as a release does, nor packages named "
                    "seed{S}_fold{F}.h5%s",
                    path, hint));
    }
    qsort(*cells, *n, sizeof **cells, by_cell);
    status = check_grid(path, *cells, *n, err);
done:
    if (d) closedir(d);
    return status;
}

/* Where two tables of SNPs differ first, for the message. */
static dn_status snps_differ(const char *file, const char *first, const dn_snps *a, const dn_snps *b,
                             dn_err *err)
{
    if (a->id.n != b->id.n) {
        return dn_fail(err, DN_EMISMATCH, "%s has %llu SNPs, but %s has %llu: they are not of one ensemble",
                       file, (unsigned long long)b->id.n, first, (unsigned long long)a->id.n);
    }
    for (uint64_t j = 0; j < a->id.n; j++) {
        const char *x = dn_strs_get(&a->id, j), *y = dn_strs_get(&b->id, j);
        if (strcmp(x, y) != 0) {
            return dn_fail(err, DN_EMISMATCH,
                           "%s and %s have other SNPs: number %llu is %s in the one and %s in the other",
                           file, first, (unsigned long long)j + 1, y, x);
        }
        if (dn_snps_have_alleles(a) && dn_snps_have_alleles(b) &&
            (strcasecmp(dn_strs_get(&a->a1, j), dn_strs_get(&b->a1, j)) != 0 ||
             strcasecmp(dn_strs_get(&a->a2, j), dn_strs_get(&b->a2, j)) != 0)) {
            return dn_fail(err, DN_EMISMATCH,
                           "%s and %s count other alleles: SNP %s is %s/%s in the one and %s/%s in the other",
                           file, first, x, dn_strs_get(&b->a1, j), dn_strs_get(&b->a2, j),
                           dn_strs_get(&a->a1, j), dn_strs_get(&a->a2, j));
        }
    }
    return dn_fail(err, DN_EMISMATCH,
                   "%s and %s differ in whether they know alleles: they are not of one ensemble", file,
                   first);
}

/* A package that joins the model must predict the same classes from the same SNPs. */
static dn_status check_joins(const dn_model *m, const dn_package_in *p, uint64_t snps_hash, const char *file,
                             const char *first, dn_err *err)
{
    if (p->task != m->task)
        return dn_fail(err, DN_EMISMATCH, "%s and %s are for different tasks (classification and regression)",
                       file, first);
    if (p->snps_hash != snps_hash) return snps_differ(file, first, &m->snps, &p->snps, err);
    if (p->classes.n != m->classes.n) {
        return dn_fail(err, DN_EMISMATCH,
                       "%s has %llu classes, but %s has %llu: they are not of one ensemble", file,
                       (unsigned long long)p->classes.n, first, (unsigned long long)m->classes.n);
    }
    for (uint64_t c = 0; c < p->classes.n; c++) {
        if (strcmp(dn_strs_get(&p->classes, c), dn_strs_get(&m->classes, c)) != 0) {
            return dn_fail(err, DN_EMISMATCH,
                           "%s and %s have other classes: number %llu is %s in the one and %s in the other",
                           file, first, (unsigned long long)c + 1, dn_strs_get(&p->classes, c),
                           dn_strs_get(&m->classes, c));
        }
    }
    return DN_OK;
}

/* Finds or adds the standardisation of p: packages of one fold share it. */
static dn_status share_norm(dn_model *m, dn_package_in *p, size_t *index)
{
    const size_t bytes = (size_t)m->n_snps * sizeof(double);
    for (size_t i = 0; i < m->n_norms; i++) {
        if (memcmp(m->norms[i].mean, p->mean, bytes) == 0 && memcmp(m->norms[i].sd, p->sd, bytes) == 0) {
            *index = i;
            return DN_OK;
        }
    }
    *index = m->n_norms;
    m->norms[m->n_norms++] = (dn_norm){p->mean, p->sd};
    p->mean = p->sd = NULL;
    return DN_OK;
}

static dn_status add_member(dn_model *m, dn_package_in *p, const char *file, dn_err *err)
{
    dn_status status;
    dn_member *x = &m->members[m->n_members];
    if (asprintf(&x->name, "seed%llu_fold%llu", (unsigned long long)p->seed, (unsigned long long)p->fold) <
        0) {
        x->name = NULL;
        DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    }
    m->n_members++;
    x->fold = p->fold;
    x->seed = p->seed;
    x->weight_hash = p->weight_hash;
    x->n_layers = p->n_layers;
    x->layer = p->layer;
    p->layer = NULL;
    x->fat = p->fat;
    if (x->n_layers < 2 ||
        x->layer[x->n_layers - 1].n_out != (m->task == DN_TASK_REGRESSION ? 1 : m->classes.n)) {
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s: the output layer does not fit the classes: the package is damaged", file));
    }
    status = share_norm(m, p, &x->norm);
done:
    return status;
}

/* Takes the SNPs and classes of the first package. */
static void take_tables(dn_model *m, dn_package_in *p)
{
    m->task = p->task;
    m->n_snps = p->n_snps;
    m->n_out = p->n_out;
    m->snps = p->snps;
    m->classes = p->classes;
    m->freq = p->freq;
    p->freq = NULL;
    memset(&p->snps, 0, sizeof p->snps);
    memset(&p->classes, 0, sizeof p->classes);
}

dn_status dn_packages_load(dn_model *m, const char *path, const dn_model_opts *opts, dn_err *err)
{
    dn_status status;
    struct cell *cells = NULL;
    dn_package_in *p = NULL;
    char *file = NULL, *first = NULL;
    size_t n = 0;
    uint64_t snps_hash = 0;
    struct stat sb;
    bool folder = stat(path, &sb) == 0 && S_ISDIR(sb.st_mode);
    if (opts->classes_file) {
        DN_TRY(dn_fail(err, DN_EUSAGE,
                       "--classes is for releases without class names; the packages in %s carry their own",
                       path));
    }
    if (folder) {
        DN_TRY(list_members(path, &cells, &n, err));
    } else {
        n = 1;
    }
    DN_TRY(dn_alloc(&m->norms, n, sizeof *m->norms, "folds", err));
    DN_TRY(dn_alloc(&m->members, n, sizeof *m->members, "members", err));
    for (size_t i = 0; i < n; i++) {
        free(file);
        int len = folder ? asprintf(&file, "%s/seed%llu_fold%llu.h5", path, (unsigned long long)cells[i].seed,
                                    (unsigned long long)cells[i].fold)
                         : asprintf(&file, "%s", path);
        if (len < 0) {
            file = NULL;
            DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
        }
        DN_TRY(dn_package_read(&p, file, opts->snps_only ? DN_PACKAGE_SNPS : DN_PACKAGE_NET | DN_PACKAGE_MAP,
                               err));
        if (folder && (p->fold != cells[i].fold || p->seed != cells[i].seed)) {
            DN_TRY(dn_fail(err, DN_EMISMATCH,
                           "%s holds the model of seed %llu, fold %llu: was it renamed or copied?", file,
                           (unsigned long long)p->seed, (unsigned long long)p->fold));
        }
        if (i == 0) {
            snps_hash = p->snps_hash;
            first = strdup(file);
            if (!first) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
            take_tables(m, p);
        } else {
            DN_TRY(check_joins(m, p, snps_hash, file, first, err));
        }
        if (opts->snps_only) break;
        DN_TRY(add_member(m, p, file, err));
        if (p->fat_mapped) {
            dn_snps_free(&p->snps); /* 15 copies of it would be a quarter of a gigabyte */
            m->members[m->n_members - 1].keep = p;
        } else {
            p->fat = NULL;
            dn_package_free(p);
        }
        p = NULL;
    }
    status = DN_OK;
done:
    /* A member half made must not leave its package's array to two owners. */
    if (p && m->n_members && m->members[m->n_members - 1].fat == p->fat)
        m->members[m->n_members - 1].fat = NULL;
    dn_package_free(p);
    free(cells);
    free(file);
    free(first);
    return status;
}
