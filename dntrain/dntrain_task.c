/* dntrain_task.c: which (fold, seed) this process trains, and its files (see dntrain.h). */
#include "dntrain.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static dn_status refuse_twice(const char *what, const uint64_t *v, size_t n, dn_err *err)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            if (v[i] == v[k])
                return dn_fail(err, DN_EUSAGE, "%s names %llu twice", what, (unsigned long long)v[i]);
        }
    }
    return DN_OK;
}

/* --folds x --seeds and a number. */
static dn_status from_grid(train_task *t, const train_options *o, dn_err *err)
{
    dn_status status;
    uint64_t *folds = NULL, *seeds = NULL, n = o->task;
    size_t n_folds = 0, n_seeds = 0;
    const char *from = "--task", *env = getenv("SLURM_ARRAY_TASK_ID");
    DN_TRY(dn_parse_list("--folds", o->folds, &folds, &n_folds, err));
    DN_TRY(dn_parse_list("--seeds", o->seeds, &seeds, &n_seeds, err));
    DN_TRY(refuse_twice("--folds", folds, n_folds, err));
    DN_TRY(refuse_twice("--seeds", seeds, n_seeds, err));
    unsigned long long total = (unsigned long long)(n_folds * n_seeds);
    if (!o->task_given) {
        from = "SLURM_ARRAY_TASK_ID";
        if (!env || !*env) {
            DN_TRY(dn_fail(err, DN_EUSAGE,
                           "which of the %llu tasks (fold x seed)? Give --task N, from 0 to %llu, or start "
                           "this as a SLURM array",
                           total, total - 1));
        }
        if (!dn_parse_u64(env, &n))
            DN_TRY(dn_fail(err, DN_EUSAGE, "SLURM_ARRAY_TASK_ID \"%s\" is not a whole number", env));
    }
    if (n >= total) {
        DN_TRY(dn_fail(err, DN_EUSAGE,
                       "%s %llu: there are %llu tasks (%zu folds x %zu seeds), numbered 0 to %llu", from,
                       (unsigned long long)n, total, n_folds, n_seeds, total - 1));
    }
    t->fold = folds[n / n_seeds];
    t->seed = seeds[n % n_seeds];
    status = DN_OK;
done:
    free(folds);
    free(seeds);
    return status;
}

static dn_status name_files(train_task *t, const char *dir, dn_err *err)
{
    size_t n = strlen(dir);
    const char *slash = n && dir[n - 1] == '/' ? "" : "/";
    if (asprintf(&t->name, "seed%llu_fold%llu", (unsigned long long)t->seed, (unsigned long long)t->fold) < 0)
        t->name = NULL;
    if (!t->name) return dn_fail(err, DN_ENOMEM, "out of memory");
    const struct {
        char **to;
        const char *end;
    } files[] = {{&t->package, "h5"}, {&t->log, "log.tsv"}, {&t->checkpoint, "ckpt"}, {&t->lock, "lock"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (asprintf(files[i].to, "%s%s%s.%s", dir, slash, t->name, files[i].end) < 0) {
            *files[i].to = NULL;
            return dn_fail(err, DN_ENOMEM, "out of memory");
        }
    }
    return DN_OK;
}

dn_status train_task_resolve(train_task *t, const train_options *o, const dn_config *c, dn_err *err)
{
    memset(t, 0, sizeof *t);
    if (o->folds || o->seeds) {
        if (!o->folds || !o->seeds) {
            return dn_fail(err, DN_EUSAGE,
                           "--folds and --seeds go together (or --fold and --seed for one task)");
        }
        if (o->fold_given || o->seed_given) {
            return dn_fail(
                err, DN_EUSAGE,
                "give either --fold and --seed for one task, or --folds, --seeds and --task for one of many");
        }
        dn_status status = from_grid(t, o, err);
        if (status != DN_OK) return status;
    } else {
        if (o->task_given) return dn_fail(err, DN_EUSAGE, "--task needs --folds and --seeds");
        if (!o->fold_given)
            return dn_fail(err, DN_EUSAGE, "which fold? Give --fold F, or --folds, --seeds and --task");
        if (!o->seed_given && !c->has_seed) {
            return dn_fail(err, DN_EUSAGE, "no seed: give --seed S, or put `seed` into %s", o->config);
        }
        t->fold = o->fold;
        t->seed = o->seed_given ? o->seed : c->seed;
    }
    return name_files(t, o->out, err);
}

void train_task_free(train_task *t)
{
    free(t->name);
    free(t->package);
    free(t->log);
    free(t->checkpoint);
    free(t->lock);
    memset(t, 0, sizeof *t);
}

dn_status train_task_folder(const train_options *o, dn_err *err)
{
    struct stat sb;
    /* Many tasks start at once: whoever makes the folder, it is there. */
    if (mkdir(o->out, 0777) != 0 && errno != EEXIST) {
        return dn_fail(err, DN_EWRITE, "cannot make the output folder %s: %s", o->out, strerror(errno));
    }
    if (stat(o->out, &sb) != 0) {
        return dn_fail(err, DN_EWRITE, "cannot use the output folder %s: %s", o->out, strerror(errno));
    }
    if (!S_ISDIR(sb.st_mode)) return dn_fail(err, DN_EUSAGE, "-o %s is a file: give a folder", o->out);
    if (access(o->out, W_OK | X_OK) != 0) {
        return dn_fail(err, DN_EWRITE, "cannot write into the output folder %s: %s", o->out, strerror(errno));
    }
    return DN_OK;
}

void train_task_sweep(const train_task *t, const train_options *o)
{
    size_t n = strlen(t->name);
    DIR *dir = opendir(o->out);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        char *path;
        if (strncmp(e->d_name, t->name, n) != 0 || e->d_name[n] != '.' || !strstr(e->d_name, ".tmp."))
            continue;
        if (asprintf(&path, "%s/%s", o->out, e->d_name) < 0) break;
        unlink(path);
        free(path);
    }
    if (dir) closedir(dir);
}

void train_config_apply(dn_config *c, const train_options *o, const train_task *t)
{
    if (o->epochs_given) c->epochs = o->epochs;
    if (o->patience_given) c->patience = o->patience;
    if (o->batch_given) {
        double factor = (double)o->batch_size / (double)c->batch_size;
        if (o->lr_scale == SCALE_NONE) factor = 1;
        if (o->lr_scale == SCALE_SQRT) factor = sqrt(factor);
        c->lr_aux *= factor;
        c->lr_main *= factor;
        c->batch_size = o->batch_size;
    }
    c->seed = t->seed;
    c->has_seed = true;
}
