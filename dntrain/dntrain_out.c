/* dntrain_out.c: log and package of a task (see dntrain_out.h). */
#include "dntrain_out.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "log.h"
#include "num.h"
#include "package.h"

/* ---- log ---- */

const char *train_log_header(dn_task task)
{
    return task == DN_TASK_REGRESSION ? "epoch\ttrain_loss\tvalid_loss\teval_train_loss\tlr_aux\tlr_main\n"
                                      : "epoch\ttrain_loss\ttrain_acc\tvalid_loss\tvalid_acc\teval_train_"
                                        "loss\teval_train_acc\tlr_aux\tlr_main\n";
}

/* NaN is an empty field: there is no such number in this row. */
static const char *field(double v, char buf[DN_NUM_MAX])
{
    return isnan(v) ? "" : dn_num_format(v, buf);
}

static void format_row(char *line, size_t cap, dn_task task, const char *epoch, const train_row *r)
{
    char b[8][DN_NUM_MAX];
    if (task == DN_TASK_REGRESSION) {
        snprintf(line, cap, "%s\t%s\t%s\t%s\t%s\t%s\n", epoch, field(r->train_loss, b[0]),
                 field(r->valid_loss, b[1]), field(r->eval_loss, b[2]), field(r->lr_aux, b[3]),
                 field(r->lr_main, b[4]));
    } else {
        snprintf(line, cap, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", epoch, field(r->train_loss, b[0]),
                 field(r->train_acc, b[1]), field(r->valid_loss, b[2]), field(r->valid_acc, b[3]),
                 field(r->eval_loss, b[4]), field(r->eval_acc, b[5]), field(r->lr_aux, b[6]),
                 field(r->lr_main, b[7]));
    }
}

dn_status train_log_row(train_state *s, dn_task task, const train_row *r, dn_err *err)
{
    char line[512], epoch[32];
    snprintf(epoch, sizeof epoch, "%llu", (unsigned long long)r->epoch);
    format_row(line, sizeof line, task, epoch, r);
    return train_state_log(s, line, err);
}

dn_status train_log_final(char **text, const train_state *s, dn_task task, dn_err *err)
{
    char line[512];
    train_row r = {0, NAN, NAN, s->test_loss, s->test_acc, NAN, NAN, NAN, NAN};
    format_row(line, sizeof line, task, "test", &r);
    if (asprintf(text, "%s%s", s->log, line) < 0) {
        *text = NULL;
        return dn_fail(err, DN_ENOMEM, "out of memory");
    }
    return DN_OK;
}

/* Adds to a file whose present content is known to be the start of the text. */
static dn_status append(const char *path, const char *p, size_t n, dn_err *err)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    bool ok = fd >= 0;
    while (ok && n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        ok = k > 0;
        if (ok) p += k, n -= (size_t)k;
    }
    if (ok) ok = fsync(fd) == 0;
    dn_status status = ok ? DN_OK : dn_fail(err, DN_EWRITE, "cannot write %s: %s", path, strerror(errno));
    if (fd >= 0 && close(fd) != 0 && ok)
        status = dn_fail(err, DN_EWRITE, "cannot write %s: %s", path, strerror(errno));
    return status;
}

dn_status train_log_write(const char *path, const char *text, dn_err *err)
{
    dn_status status;
    dn_out *o = NULL;
    dn_mapped m = {0};
    size_t n = strlen(text), have = 0;
    bool starts = false;
    if (access(path, F_OK) == 0) {
        DN_TRY(dn_mapped_open(&m, path, err));
        have = m.size;
        starts = have > 0 && have <= n && memcmp(m.base, text, have) == 0;
        dn_mapped_close(&m);
    }
    if (starts) return have == n ? DN_OK : append(path, text + have, n - have, err);
    DN_TRY(dn_out_open(&o, path, DN_OUT_FORCE, err));
    DN_TRY(dn_out_write(o, text, n, err));
    status = dn_out_commit(&o, err);
done:
    dn_out_abort(&o);
    dn_mapped_close(&m);
    return status;
}

/* ---- package ---- */

dn_status train_package_config(char **text, const train_options *o, const dn_config *c, dn_err *err)
{
    char *config = NULL;
    *text = NULL;
    dn_status status = dn_config_text(c, &config, err);
    if (status != DN_OK) return status;
    /* A comment, so that the text stays a configuration. */
    int n = asprintf(text, "%s%s%s%s", config, o->skip_train_eval ? "# train_eval: 0\n" : "",
                     o->device.precision == DN_PRECISION_TF32 ? "# precision: tf32\n" : "",
                     o->rng == RNG_FAST ? "# rng: fast\n" : "");
    free(config);
    if (n < 0) {
        *text = NULL;
        return dn_fail(err, DN_ENOMEM, "out of memory");
    }
    return DN_OK;
}

/* The net's arrays as the layers of a package. main: n_main + 2 layers, aux: n_aux; arrays stay the net's. */
static void layers_of(dn_net *net, dn_layer *main, dn_layer *aux)
{
    size_t n;
    const dn_net_config *c = dn_net_get_config(net);
    dn_net_param *p = dn_net_params(net, &n);
    main[0].n_in = c->n_snps;
    main[0].n_out = dn_net_fat_units(net);
    for (size_t i = 0; i < n; i++) {
        dn_layer *l = p[i].kind == DN_NET_AUX_WEIGHT ? &aux[p[i].layer] : &main[p[i].layer];
        switch (p[i].kind) {
        case DN_NET_AUX_WEIGHT:
        case DN_NET_WEIGHT:
            l->weight = p[i].value;
            l->n_out = p[i].dims[0];
            l->n_in = p[i].dims[1];
            break;
        case DN_NET_BIAS: l->bias = p[i].value; break;
        case DN_NET_BN_GAMMA: l->bn_gamma = p[i].value; break;
        case DN_NET_BN_BETA: l->bn_beta = p[i].value; break;
        case DN_NET_BN_MEAN: l->bn_mean = p[i].value; break;
        case DN_NET_BN_VAR: l->bn_var = p[i].value; break;
        }
    }
}

dn_status train_package_write(const train_task *t, const train_options *o, const dn_config *c,
                              const train_data *d, dn_net *net, const double *mean, const double *sd,
                              const train_state *s, const char *log, dn_err *err)
{
    dn_status status;
    const dn_net_config *nc = dn_net_get_config(net);
    uint64_t m = d->n_snps, cells;
    float *fat = NULL, *freq = NULL;
    dn_layer *main = NULL, *aux = NULL;
    char *config = NULL;
    if (!dn_mul(m, dn_net_fat_units(net), &cells))
        return dn_fail(err, DN_ENOMEM, "fat weights of more than 2^64 numbers");
    DN_TRY(dn_alloc_aligned(&fat, cells, sizeof *fat, "fat weights", err));
    DN_TRY(dn_alloc(&freq, m, sizeof *freq, "frequencies", err));
    DN_TRY(dn_alloc(&main, nc->n_main + 2, sizeof *main, "layers", err));
    DN_TRY(dn_alloc(&aux, nc->n_aux, sizeof *aux, "layers", err));
    DN_TRY(train_package_config(&config, o, c, err));
    DN_TRY(dn_net_fat(net, fat, err));
    for (uint64_t j = 0; j < m; j++) freq[j] = (float)(mean[j] / 2);
    layers_of(net, main, aux);
    dn_package p = {.task = d->task,
                    .fold = t->fold,
                    .seed = t->seed,
                    .snps = &d->info->snps,
                    .freq = freq,
                    .classes = d->task == DN_TASK_CLASSIFICATION ? &d->info->class_names : NULL,
                    .mean = mean,
                    .sd = sd,
                    .fat = fat,
                    .n_layers = nc->n_main + 2,
                    .layer = main,
                    .n_aux = nc->n_aux,
                    .aux = aux,
                    .config_yaml = config,
                    .log_tsv = log,
                    .data_hash = d->data_hash,
                    .split_hash = d->split_hash,
                    .best_epoch = s->best_epoch,
                    .test_loss = s->test_loss,
                    .test_acc = s->test_acc};
    DN_TRY(dn_package_write(t->package, &p, DN_OUT_FORCE, err));
    status = DN_OK;
done:
    free(fat);
    free(freq);
    free(main);
    free(aux);
    free(config);
    return status;
}

/* ---- is it finished? ---- */

dn_status train_other_package(const train_task *t, const char *why, dn_err *err)
{
    return dn_fail(err, DN_EMISMATCH,
                   "package %s is of another run: %s. Give another output folder, or --force to drop what is "
                   "there and start anew",
                   t->package, why);
}

static dn_status compare(const dn_package_in *p, const train_task *t, const train_options *o,
                         const char *config, uint64_t data_hash, uint64_t split_hash, char **differs,
                         dn_err *err)
{
    static const char *const stopping[] = {"epochs", "patience", NULL};
    char why[512];
    const char *const task[] = {"classification", "regression"};
    int there = p->task == DN_TASK_REGRESSION;
    if (there != o->task_type) {
        snprintf(why, sizeof why, "task: %s there, %s here", task[there], task[o->task_type]);
        return train_other_package(t, why, err);
    }
    const struct {
        const char *name;
        uint64_t there, here;
    } facts[] = {{"fold", p->fold, t->fold},
                 {"seed", p->seed, t->seed},
                 {"dataset", p->data_hash, data_hash},
                 {"split", p->split_hash, split_hash}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        if (facts[i].there == facts[i].here) continue;
        snprintf(why, sizeof why, i < 2 ? "%s: %llu there, %llu here" : "%s: %016llx there, %016llx here",
                 facts[i].name, (unsigned long long)facts[i].there, (unsigned long long)facts[i].here);
        return train_other_package(t, why, err);
    }
    if (dn_config_differs(p->config_yaml, config, stopping, why, sizeof why))
        return train_other_package(t, why, err);
    if (!dn_config_differs(p->config_yaml, config, NULL, why, sizeof why)) return DN_OK;
    *differs = strdup(why);
    if (!*differs) return dn_fail(err, DN_ENOMEM, "out of memory");
    return DN_OK;
}

dn_status train_package_check(const train_task *t, const train_options *o, const dn_config *c,
                              uint64_t data_hash, uint64_t split_hash, bool *finished, char **damaged,
                              char **differs, dn_err *err)
{
    dn_status status;
    dn_package_in *p = NULL;
    char *config = NULL;
    *finished = false;
    *damaged = *differs = NULL;
    if (access(t->package, F_OK) != 0) return DN_OK;
    status = dn_package_read(&p, t->package, DN_PACKAGE_ALL | DN_PACKAGE_MAP, err);
    if (status == DN_EFORMAT || status == DN_EOPEN) {
        *damaged = strdup(err->msg);
        return DN_OK;
    }
    if (status != DN_OK) return status;
    DN_TRY(train_package_config(&config, o, c, err));
    DN_TRY(compare(p, t, o, config, data_hash, split_hash, differs, err));
    *finished = !*differs;
    if (*finished) {
        if (isnan(p->test_acc))
            dn_info("%s is finished already: best epoch %llu", t->name, (unsigned long long)p->best_epoch);
        else {
            dn_info("%s is finished already: best epoch %llu, test accuracy %.4f", t->name,
                    (unsigned long long)p->best_epoch, p->test_acc);
        }
    }
    status = DN_OK;
done:
    free(config);
    dn_package_free(p);
    return status;
}
