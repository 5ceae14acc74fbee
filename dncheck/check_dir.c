/* check_dir.c: is a k-fold array run whole (see check_dir.h)? */
#include "check_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "opt.h"
#include "rng.h"

typedef unsigned long long ull;

/* "seed{S}_fold{F}EXT" without leading zeros -> S and F. */
static bool parse_name(const char *name, const char *ext, uint64_t *seed, uint64_t *fold)
{
    char back[96];
    ull s, f;
    if (sscanf(name, "seed%19llu_fold%19llu", &s, &f) != 2) return false;
    snprintf(back, sizeof back, "seed%llu_fold%llu%s", s, f, ext);
    *seed = s, *fold = f;
    return strcmp(back, name) == 0;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static size_t unique(uint64_t *v, size_t n)
{
    size_t k = 0;
    if (n) qsort(v, n, sizeof *v, by_number);
    for (size_t i = 0; i < n; i++) {
        if (k == 0 || v[k - 1] != v[i]) v[k++] = v[i];
    }
    return k;
}

static bool contains(const uint64_t *v, size_t n, uint64_t x)
{
    for (size_t i = 0; i < n; i++) {
        if (v[i] == x) return true;
    }
    return false;
}

/* What is in the folder: seeds and folds of its packages (and of tasks that only began), and names that are
 * neither. */
typedef struct {
    uint64_t *seed, *fold;
    size_t n, seed_cap, fold_cap;
} there;

static dn_status list(const char *dir, there *t, findings *f, dn_err *err)
{
    dn_status status = DN_OK;
    DIR *d = opendir(dir);
    if (!d) return dn_fail(err, DN_EOPEN, "cannot read folder %s: %s", dir, strerror(errno));
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        uint64_t seed, fold;
        bool begun =
            parse_name(e->d_name, ".ckpt", &seed, &fold) || parse_name(e->d_name, ".lock", &seed, &fold);
        if (begun || parse_name(e->d_name, ".h5", &seed, &fold)) {
            DN_TRY(dn_grow(&t->seed, &t->seed_cap, t->n + 1, sizeof *t->seed, "members", err));
            DN_TRY(dn_grow(&t->fold, &t->fold_cap, t->n + 1, sizeof *t->fold, "members", err));
            t->seed[t->n] = seed;
            t->fold[t->n++] = fold;
            continue;
        }
        size_t len = strlen(e->d_name);
        if (len > 3 && strcmp(e->d_name + len - 3, ".h5") == 0) {
            DN_TRY(found(f, err, FOUND_WARNING, DN_OK, "grid", e->d_name,
                         "an .h5 file whose name is not seed{S}_fold{F}.h5: not looked at"));
        }
    }
done:
    closedir(d);
    return status;
}

/* The grid that is expected: from the options, else the split's folds, else what is there. Owned arrays. */
static dn_status expected(const check_expect *want, const there *t, uint64_t **folds, size_t *n_folds,
                          uint64_t **seeds, size_t *n_seeds, dn_err *err)
{
    dn_status status;
    *n_folds = want->n_folds ? want->n_folds : want->split ? want->split->n_folds : t->n;
    *n_seeds = want->n_seeds ? want->n_seeds : t->n;
    DN_TRY(dn_alloc(folds, *n_folds, sizeof **folds, "folds", err));
    DN_TRY(dn_alloc(seeds, *n_seeds, sizeof **seeds, "seeds", err));
    for (size_t i = 0; i < *n_folds; i++)
        (*folds)[i] = want->n_folds ? want->folds[i] : want->split ? i : t->fold[i];
    for (size_t i = 0; i < *n_seeds; i++) (*seeds)[i] = want->n_seeds ? want->seeds[i] : t->seed[i];
    if (!want->n_folds && !want->split) *n_folds = unique(*folds, *n_folds);
    if (!want->n_seeds) *n_seeds = unique(*seeds, *n_seeds);
done:
    return status;
}

/* One member: its file, or why it is not there. */
static dn_status read_member(findings *f, check_member *m, const char *dir, const check_opts *o, dn_err *err)
{
    dn_status status;
    dn_err e = {0};
    struct stat sb;
    char *aside = NULL;
    if (asprintf(&m->name, "seed%llu_fold%llu", (ull)m->seed, (ull)m->fold) < 0) m->name = NULL;
    if (!m->name || asprintf(&m->path, "%s/%s.h5", dir, m->name) < 0) {
        m->path = NULL;
        DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    }
    if (stat(m->path, &sb) != 0) {
        if (asprintf(&aside, "%s/%s.ckpt", dir, m->name) < 0) {
            aside = NULL;
            DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
        }
        bool begun = stat(aside, &sb) == 0;
        status = found(f, err, FOUND_FAULT, DN_EMISMATCH, begun ? "unfinished" : "grid", m->name,
                       begun ? "started, but not finished: there is a checkpoint and no package; run its "
                               "task again to continue"
                             : "missing: there is neither a package nor a checkpoint; run its task");
        goto done;
    }
    m->bytes = (uint64_t)sb.st_size;
    status = dn_package_read(&m->package, m->path,
                             (o->full ? DN_PACKAGE_ALL : DN_PACKAGE_NET) | DN_PACKAGE_MAP, &e);
    if (status != DN_OK) {
        status = found_error(f, err, "package", m->name, &e);
        goto done;
    }
    const dn_package_in *p = m->package;
    if (p->fold != m->fold || p->seed != m->seed) {
        DN_TRY(found(f, err, FOUND_FAULT, DN_EMISMATCH, "package", m->name,
                     "the file says that it is fold %llu of seed %llu: it was renamed or copied over another",
                     (ull)p->fold, (ull)p->seed));
        dn_package_free(m->package);
        m->package = NULL;
        goto done;
    }
    status = found(f, err, FOUND_OK, DN_OK, "package", m->name, "%s; best epoch %llu",
                   o->full ? "whole: every checksum holds" : "whole", (ull)p->best_epoch);
done:
    free(aside);
    return status;
}

/* Members that must agree with the first good one, and weights that must not. */
static dn_status compare(findings *f, const check_members *all, dn_err *err)
{
    dn_status status = DN_OK;
    const check_member *first = NULL;
    size_t snps = 0, classes = 0, equal = 0, shape = 0;
    for (size_t i = 0; i < all->n; i++) {
        const check_member *m = &all->members[i];
        if (!m->package) continue;
        if (!first) first = m;
        if (m->package->snps_hash != first->package->snps_hash) {
            snps++;
            DN_TRY(found(f, err, FOUND_FAULT, DN_EMISMATCH, "same-snps", m->name,
                         "another SNP list than %s's", first->name));
        }
        if (m->package->task != first->package->task ||
            !dn_strs_equal(&m->package->classes, &first->package->classes)) {
            classes++;
            DN_TRY(found(f, err, FOUND_FAULT, DN_EMISMATCH, "same-classes", m->name,
                         "another list of classes than %s's", first->name));
        }
        if (m->package->units != first->package->units || m->package->n_layers != first->package->n_layers) {
            shape++;
            DN_TRY(found(f, err, FOUND_WARNING, DN_OK, "same-shape", m->name,
                         "another number of layers or units than %s", first->name));
        }
        for (size_t k = 0; k < i; k++) {
            const check_member *o = &all->members[k];
            if (!o->package || o->package->weight_hash != m->package->weight_hash) continue;
            equal++;
            DN_TRY(found(f, err, FOUND_FAULT, DN_EMISMATCH, "weights-distinct", m->name,
                         "the same weights as %s: two tasks wrote one model, or a file was copied", o->name));
        }
    }
    if (all->n_good > 1) {
        if (!snps)
            DN_TRY(
                found(f, err, FOUND_OK, DN_OK, "same-snps", "all", "%zu members, one SNP list", all->n_good));
        if (!classes)
            DN_TRY(found(f, err, FOUND_OK, DN_OK, "same-classes", "all", "%zu members, one list of classes",
                         all->n_good));
        if (!shape)
            DN_TRY(found(f, err, FOUND_OK, DN_OK, "same-shape", "all", "%zu members, one architecture",
                         all->n_good));
        if (!equal)
            DN_TRY(found(f, err, FOUND_OK, DN_OK, "weights-distinct", "all",
                         "no two of %zu members are equal", all->n_good));
    }
done:
    return status;
}

static dn_status check_origin(findings *f, const check_members *all, const check_expect *want, dn_err *err)
{
    dn_status status = DN_OK;
    uint64_t split_hash = 0, data_hash = 0;
    const char *whose = NULL;
    size_t bad_split = 0, bad_data = 0;
    for (size_t i = 0; i < all->n; i++) {
        const check_member *m = &all->members[i];
        if (!m->package) continue;
        if (!whose) {
            whose = m->name;
            split_hash = want->split ? want->split->hash : m->package->split_hash;
            data_hash = want->has_data ? want->data_hash
                        : want->split  ? want->split->data_hash
                                       : m->package->data_hash;
        }
        if (m->package->split_hash != split_hash) {
            bad_split++;
            DN_TRY(found(f, err, FOUND_FAULT, DN_EMISMATCH, "split", m->name,
                         "trained on another split than %s (%016llx, not %016llx)",
                         want->split ? "the one given" : whose, (ull)m->package->split_hash,
                         (ull)split_hash));
        } else if (want->split && m->fold >= want->split->n_folds) {
            bad_split++;
            DN_TRY(found(f, err, FOUND_FAULT, DN_EMISMATCH, "split", m->name,
                         "fold %llu, but the split has %llu folds", (ull)m->fold, (ull)want->split->n_folds));
        }
        if (m->package->data_hash != data_hash) {
            bad_data++;
            DN_TRY(found(f, err, FOUND_FAULT, DN_EMISMATCH, "dataset", m->name,
                         "trained on another dataset than %s (%016llx, not %016llx)",
                         want->has_data ? "the one given"
                         : want->split  ? "the split's"
                                        : whose,
                         (ull)m->package->data_hash, (ull)data_hash));
        }
    }
    if (all->n_good && !bad_split) {
        DN_TRY(found(f, err, FOUND_OK, DN_OK, "split", "all",
                     want->split ? "every member was trained on its fold of this split"
                                 : "every member was trained on the same split"));
    }
    if (all->n_good && !bad_data) {
        DN_TRY(found(f, err, FOUND_OK, DN_OK, "dataset", "all",
                     want->has_data ? "every member was trained on this dataset"
                                    : "every member was trained on the same dataset"));
    }
done:
    return status;
}

/* Files of one run differ in size only by the length of their logs. */
static dn_status check_sizes(findings *f, const check_members *all, dn_err *err)
{
    dn_status status;
    uint64_t *bytes = NULL;
    size_t n = 0, odd = 0;
    DN_TRY(dn_alloc(&bytes, all->n, sizeof *bytes, "sizes", err));
    for (size_t i = 0; i < all->n; i++) {
        if (all->members[i].package) bytes[n++] = all->members[i].bytes;
    }
    if (n < 2) goto done;
    qsort(bytes, n, sizeof *bytes, by_number);
    uint64_t median = bytes[n / 2], slack = median / 10 > 65536 ? median / 10 : 65536;
    for (size_t i = 0; i < all->n; i++) {
        const check_member *m = &all->members[i];
        if (!m->package || (m->bytes + slack >= median && m->bytes <= median + slack)) continue;
        odd++;
        DN_TRY(found(f, err, FOUND_WARNING, DN_OK, "sizes", m->name,
                     "%llu bytes, where half of the members have %llu or more", (ull)m->bytes, (ull)median));
    }
    if (!odd)
        DN_TRY(found(f, err, FOUND_OK, DN_OK, "sizes", "all", "sizes alike: %llu to %llu bytes",
                     (ull)bytes[0], (ull)bytes[n - 1]));
done:
    free(bytes);
    return status;
}

/* ---- under --full ---- */

/* The log in the package: epochs 0, 1, 2, ... and a last line "test". */
static const char *log_fault(const char *log, uint64_t best_epoch, uint64_t *epochs)
{
    const char *p = strchr(log, '\n');
    bool test = false, best = false;
    *epochs = 0;
    if (!p) return "the log has no line";
    for (p++; *p;) {
        const char *end = strchr(p, '\n');
        ull e;
        if (!end) return "the log's last line is cut";
        if (test) return "the log goes on after the test";
        if (strncmp(p, "test\t", 5) == 0) {
            test = true;
        } else {
            if (sscanf(p, "%19llu\t", &e) != 1 || e != *epochs)
                return "the log's epochs are not 0, 1, 2, ...";
            best |= e == best_epoch;
            ++*epochs;
        }
        p = end + 1;
    }
    if (!test) return "the log does not reach the end: it has no line for the test";
    if (!best) return "the best epoch is not in the log";
    --*epochs;
    return NULL;
}

static dn_status check_log(findings *f, const check_member *m, const char *dir, dn_err *err)
{
    dn_status status;
    uint64_t epochs;
    const char *why = log_fault(m->package->log_tsv, m->package->best_epoch, &epochs);
    char *path = NULL, *text = NULL;
    FILE *in = NULL;
    if (why) return found(f, err, FOUND_FAULT, DN_EFORMAT, "log", m->name, "%s", why);
    if (asprintf(&path, "%s/%s.log.tsv", dir, m->name) < 0) {
        path = NULL;
        DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    }
    in = fopen(path, "rb");
    if (!in) {
        status = found(f, err, FOUND_WARNING, DN_OK, "log", m->name,
                       "%s is not there; the package's own copy is whole (%llu epochs)", path, (ull)epochs);
        goto done;
    }
    size_t want = strlen(m->package->log_tsv), n;
    DN_TRY(dn_alloc(&text, want + 2, 1, "a log", err));
    n = fread(text, 1, want + 1, in);
    if (n != want || memcmp(text, m->package->log_tsv, want) != 0) {
        status = found(f, err, FOUND_FAULT, DN_EMISMATCH, "log", m->name,
                       "%s is not what the package says its log was", path);
    } else {
        status = found(f, err, FOUND_OK, DN_OK, "log", m->name, "%llu epochs and the test", (ull)epochs);
    }
done:
    if (in) fclose(in);
    free(path);
    free(text);
    return status;
}

/* The auxiliary net's first layer as its seed draws it (DESIGN section 3, "Draws in order"): Kaiming numbers
 * that are thrown away, then uniform ones. A trained net is elsewhere. */
static dn_status check_moved(findings *f, const check_member *m, dn_err *err)
{
    dn_status status;
    dn_rng rng;
    float *w = NULL;
    const dn_package_in *p = m->package;
    if (!p->n_aux || !*p->config_yaml) return DN_OK;
    /* Keys of ours may follow upstream's in a package; the limit is all that is needed. */
    const char *line = strstr(p->config_yaml, "uniform_init_limit:");
    double limit = 0;
    char value[64] = "";
    if (!line || sscanf(line, "uniform_init_limit: %63s", value) != 1 || !dn_parse_double(value, &limit))
        return DN_OK;
    uint64_t n = p->aux[0].n_in * p->aux[0].n_out, same = 0;
    DN_TRY(dn_alloc(&w, n, sizeof *w, "initial weights", err));
    dn_rng_seed(&rng, p->seed);
    dn_rng_uniform(&rng, 0, 1, NULL, n);
    dn_rng_uniform(&rng, (float)-limit, (float)limit, w, n);
    for (uint64_t i = 0; i < n; i++) same += w[i] == p->aux[0].weight[i];
    if (same == n) {
        status = found(
            f, err, p->best_epoch == 0 ? FOUND_WARNING : FOUND_FAULT, DN_EMISMATCH, "weights-moved", m->name,
            "its weights are those that its seed starts with: the best epoch is %llu", (ull)p->best_epoch);
    } else {
        status = found(f, err, FOUND_OK, DN_OK, "weights-moved", m->name,
                       "trained: its weights are not the initial ones");
    }
done:
    free(w);
    return status;
}

dn_status check_directory(findings *f, check_members *out, const char *dir, const check_expect *want,
                          const check_opts *o, dn_err *err)
{
    dn_status status;
    there t = {0};
    uint64_t *folds = NULL, *seeds = NULL;
    size_t n_folds = 0, n_seeds = 0;
    memset(out, 0, sizeof *out);
    DN_TRY(list(dir, &t, f, err));
    DN_TRY(expected(want, &t, &folds, &n_folds, &seeds, &n_seeds, err));
    if (n_folds == 0 || n_seeds == 0) {
        DN_TRY(dn_fail(err, DN_EOPEN,
                       "%s holds no package (seed{S}_fold{F}.h5): is it the folder that dntrain wrote to?",
                       dir));
    }
    DN_TRY(dn_alloc(&out->members, n_folds * n_seeds, sizeof *out->members, "members", err));
    for (size_t i = 0; i < n_folds; i++) {
        for (size_t k = 0; k < n_seeds; k++) {
            check_member *m = &out->members[out->n++];
            m->fold = folds[i];
            m->seed = seeds[k];
            DN_TRY(read_member(f, m, dir, o, err));
            out->n_good += m->package != NULL;
        }
    }
    for (size_t i = 0; i < t.n; i++) {
        char name[96];
        if (contains(folds, n_folds, t.fold[i]) && contains(seeds, n_seeds, t.seed[i])) continue;
        snprintf(name, sizeof name, "seed%llu_fold%llu", (ull)t.seed[i], (ull)t.fold[i]);
        DN_TRY(found(f, err, FOUND_WARNING, DN_OK, "grid", name,
                     "is in the folder, but not among the folds and seeds expected"));
    }
    if (out->n_good == out->n) {
        DN_TRY(found(f, err, FOUND_OK, DN_OK, "grid", "all", "%zu folds x %zu seeds, each there once",
                     n_folds, n_seeds));
    }
    DN_TRY(compare(f, out, err));
    DN_TRY(check_origin(f, out, want, err));
    DN_TRY(check_sizes(f, out, err));
    for (size_t i = 0; o->full && i < out->n; i++) {
        if (!out->members[i].package) continue;
        DN_TRY(check_log(f, &out->members[i], dir, err));
        DN_TRY(check_moved(f, &out->members[i], err));
    }
    status = DN_OK;
done:
    free(t.seed);
    free(t.fold);
    free(folds);
    free(seeds);
    return status;
}

void check_members_free(check_members *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->n; i++) {
        dn_package_free(m->members[i].package);
        free(m->members[i].name);
        free(m->members[i].path);
    }
    free(m->members);
    memset(m, 0, sizeof *m);
}
