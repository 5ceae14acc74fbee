/* dntrain_run.c: epochs, in exactly upstream's order of draws (DESIGN section 3), and saving them (section
 * 6).
 *
 * Draws of the run's generator: initial weights; then every pass over a loader draws one int64 (its base
 * seed) at its start, and one that shuffles draws another that seeds a generator of its own for the
 * permutation. Baseline: validation. Each epoch: training pass (and dropout, batch by batch), evaluation pass
 * over the training set (also shuffled; drawn for even when it is skipped), validation.
 *
 * Where a run may be stopped: after every batch, and between blocks of people of an evaluation. An evaluation
 * changes nothing but the generator, so a stop in it is saved as the state before it. */
#include "dntrain_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dntrain_out.h"
#include "dntrain_state.h"
#include "log.h"

/* People to a call in evaluations, at least: the same in every way of reading, so that sums are the same. */
enum { EVAL_BLOCK = 1024 };

typedef struct {
    const train_options *o;
    const train_task *t;
    const dn_config *c;
    train_data *d;
    dn_net *net;
    train_state s;
    char *identity;
    double *mean, *sd;
    uint64_t n_batches, eval_block;
    bool keep_previous; /* the checkpoint under its own name is whole */
    bool log_dirty;     /* the log could not be written; it is tried again at the next chance */
    double saved_at;
} run;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- saving ---- */

static dn_status save(run *r, dn_err *err)
{
    dn_status status = train_state_save(&r->s, r->net, r->identity, r->t->checkpoint, r->keep_previous, err);
    r->saved_at = now();
    if (status == DN_OK) r->keep_previous = true;
    return status;
}

/* A save that may fail: the run goes on, and what was saved before is still there. */
static dn_status save_or_warn(run *r, dn_err *err)
{
    dn_err local = {0};
    dn_status status = save(r, &local);
    if (status == DN_EWRITE) {
        dn_warn("%s: the run goes on; what was saved before is intact, and saving is tried again", local.msg);
        return DN_OK;
    }
    if (status != DN_OK && err) *err = local;
    return status;
}

static void log_or_warn(run *r)
{
    dn_err local = {0};
    bool was = r->log_dirty;
    r->log_dirty = train_log_write(r->t->log, r->s.log, &local) != DN_OK;
    if (r->log_dirty && !was) dn_warn("%s: the run goes on, and the log is written again later", local.msg);
}

/* After a signal. */
static dn_status stop(run *r, const char *where, dn_err *err)
{
    dn_status status = save(r, err);
    if (status != DN_OK) {
        dn_fail_prefix(err,
                       "stopped by %s, and the checkpoint could not be saved (the one before is intact): ",
                       train_stop_signal());
        return status;
    }
    return dn_fail(err, DN_ESTOPPED,
                   "stopped by %s %s of epoch %" PRIu64 "; saved in %s: run the same command again to go on",
                   train_stop_signal(), where, r->s.epoch, r->t->checkpoint);
}

/* ---- passes ---- */

/* loss and acc of a whole set. DN_ESTOPPED: asked to stop. */
static dn_status evaluate(run *r, dn_split_set set, double *loss, double *acc, dn_err *err)
{
    uint64_t n = r->d->n[set], correct = 0;
    double sum = 0;
    for (uint64_t i = 0; i < n; i += r->eval_block) {
        dn_net_batch b;
        uint64_t k = n - i < r->eval_block ? n - i : r->eval_block;
        dn_status status = train_data_batch(r->d, set, NULL, i, k, &b, err);
        if (status != DN_OK) return status;
        status = dn_net_eval(r->net, &b, &sum, &correct, NULL, train_stop_asked, NULL, err);
        if (status != DN_OK) return status;
        if (train_stop_asked(NULL)) return DN_ESTOPPED;
    }
    *loss = n ? sum / (double)n : NAN;
    *acc = n && r->d->task == DN_TASK_CLASSIFICATION ? (double)correct / (double)n : NAN;
    return DN_OK;
}

/* The permutation of a shuffled pass: base seed, then the seed of a generator of its own. */
static dn_status draw_order(run *r, uint32_t *order, dn_err *err)
{
    uint64_t n = r->s.n_order, *perm;
    dn_rng own;
    (void)dn_rng_int64(&r->s.rng);
    dn_rng_seed(&own, (uint64_t)dn_rng_int64(&r->s.rng));
    dn_status status = dn_alloc(&perm, n, sizeof *perm, "permutation", err);
    if (status != DN_OK) return status;
    dn_rng_permutation(&own, n, perm);
    for (uint64_t i = 0; i < n; i++) order[i] = (uint32_t)perm[i];
    free(perm);
    return DN_OK;
}

static dn_status not_finite(run *r, const char *pass, dn_err *err)
{
    dn_fail_prefix(err, "epoch %" PRIu64 ", %s: ", r->s.epoch, pass);
    return dn_fail(err, DN_ENUMERIC,
                   "%s. Training ends here; the best model so far (epoch %" PRIu64
                   ") and the checkpoint are as they were. Lower "
                   "learning rates may help",
                   strdupa(err->msg), r->s.best_epoch);
}

/* A last batch of one is joined to the one before. */
static uint64_t count_batches(uint64_t n, uint64_t size)
{
    uint64_t k = (n + size - 1) / size;
    return k > 1 && n % size == 1 ? k - 1 : k;
}

static dn_status train_pass(run *r, dn_err *err)
{
    train_state *s = &r->s;
    uint64_t n = s->n_order, size = r->c->batch_size;
    while (s->batch < r->n_batches) {
        dn_net_batch b;
        uint64_t first = s->batch * size, end = s->batch + 1 == r->n_batches ? n : first + size;
        dn_status status = train_data_batch(r->d, DN_SPLIT_TRAIN, s->order, first, end - first, &b, err);
        if (status != DN_OK) return status;
        status =
            dn_net_train_batch(r->net, &b, s->lr_aux, s->lr_main, &s->rng, &s->loss_sum, &s->n_correct, err);
        if (status == DN_ENUMERIC) {
            char where[96];
            snprintf(where, sizeof where, "batch %" PRIu64 " of %" PRIu64, s->batch + 1, r->n_batches);
            return not_finite(r, where, err);
        }
        if (status != DN_OK) return status;
        s->batch++;
        s->n_seen += end - first;
        dn_progress(s->n_seen);
        if (train_stop_asked(NULL)) {
            char where[96];
            snprintf(where, sizeof where, "after batch %" PRIu64 " of %" PRIu64, s->batch, r->n_batches);
            return stop(r, where, err);
        }
        if (now() - r->saved_at >= r->o->checkpoint_minutes * 60) {
            status = save_or_warn(r, err);
            if (status != DN_OK) return status;
        }
    }
    return DN_OK;
}

static bool is_better(const run *r, double loss, double acc)
{
    if (r->d->task == DN_TASK_REGRESSION) return loss < r->s.best_loss;
    return acc > r->s.best_acc || (acc == r->s.best_acc && loss < r->s.best_loss);
}

static dn_status set_best(run *r, double loss, double acc, dn_err *err)
{
    r->s.best_epoch = r->s.epoch;
    r->s.best_loss = loss;
    r->s.best_acc = acc;
    r->s.wait = 0;
    return train_state_set_best(&r->s, r->net, err);
}

/* The initial model on the validation set. */
static dn_status baseline(run *r, dn_err *err)
{
    train_row row = {0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    dn_status status;
    dn_rng_seed(&r->s.rng, r->c->seed);
    DN_TRY(dn_net_init(r->net, &r->s.rng, err));
    if (r->o->rng == RNG_FAST) dn_rng_use_fast(&r->s.rng, r->c->seed);
    r->s.lr_aux = r->c->lr_aux;
    r->s.lr_main = r->c->lr_main;
    (void)dn_rng_int64(&r->s.rng);
    status = evaluate(r, DN_SPLIT_VALID, &row.valid_loss, &row.valid_acc, err);
    if (status == DN_ENUMERIC) return not_finite(r, "validation of the initial model", err);
    if (status == DN_ESTOPPED) {
        return dn_fail(err, DN_ESTOPPED, "stopped by %s before the first epoch: run the same command again",
                       train_stop_signal());
    }
    if (status != DN_OK) return status;
    DN_TRY(set_best(r, row.valid_loss, row.valid_acc, err));
    DN_TRY(train_state_log(&r->s, train_log_header(r->d->task), err));
    DN_TRY(train_log_row(&r->s, r->d->task, &row, err));
    dn_info("initial model: validation loss %.6g", row.valid_loss);
    DN_TRY(save(r, err)); /* here a folder that cannot be written ends the run, before any work is lost */
    log_or_warn(r);
    status = DN_OK;
done:
    return status;
}

static void report_epoch(const run *r, const train_row *row, double seconds, uint64_t people)
{
    char accuracy[64] = "";
    if (r->d->task == DN_TASK_CLASSIFICATION)
        snprintf(accuracy, sizeof accuracy, ", accuracy %.4f", row->valid_acc);
    dn_info("epoch %" PRIu64 ": training loss %.6g, validation loss %.6g%s%s; %.2f s, %.0f people/s",
            row->epoch, row->train_loss, row->valid_loss, accuracy, r->s.wait == 0 ? " (best)" : "", seconds,
            seconds > 0 ? (double)people / seconds : 0);
}

static dn_status one_epoch(run *r, dn_err *err)
{
    dn_status status;
    train_state *s = &r->s;
    bool regression = r->d->task == DN_TASK_REGRESSION;
    if (!s->in_epoch) {
        DN_TRY(draw_order(r, s->order, err));
        s->epoch++;
        s->in_epoch = true;
        s->batch = s->n_seen = s->n_correct = 0;
        s->loss_sum = 0;
    }
    double start = now();
    uint64_t before = s->n_seen;
    char what[48];
    snprintf(what, sizeof what, "epoch %" PRIu64, s->epoch);
    dn_progress_start(what, s->n_order, "people");
    status = train_pass(r, err);
    dn_progress_end();
    if (status != DN_OK) return status;

    train_row row = {s->epoch, NAN, NAN, NAN, NAN, NAN, NAN, s->lr_aux, s->lr_main};
    double seconds = now() - start;
    row.train_loss = s->loss_sum / (double)s->n_seen;
    if (!regression) row.train_acc = (double)s->n_correct / (double)s->n_seen;
    dn_rng rng_before = s->rng;
    const char *pass = "evaluation of the training set";
    (void)dn_rng_int64(&s->rng); /* the evaluation pass over the training set shuffles too */
    (void)dn_rng_int64(&s->rng);
    status = r->o->skip_train_eval ? DN_OK : evaluate(r, DN_SPLIT_TRAIN, &row.eval_loss, &row.eval_acc, err);
    if (status == DN_OK) {
        pass = "validation";
        (void)dn_rng_int64(&s->rng);
        status = evaluate(r, DN_SPLIT_VALID, &row.valid_loss, &row.valid_acc, err);
    }
    if (status != DN_OK) s->rng = rng_before;
    if (status == DN_ESTOPPED)
        return stop(r, strcmp(pass, "validation") == 0 ? "in the validation" : "in the evaluation", err);
    if (status == DN_ENUMERIC) return not_finite(r, pass, err);
    if (status != DN_OK) return status;

    if (is_better(r, row.valid_loss, row.valid_acc)) {
        DN_TRY(set_best(r, row.valid_loss, row.valid_acc, err));
    } else {
        s->wait++;
        if (s->wait > s->max_wait) s->max_wait = s->wait;
    }
    s->lr_aux *= r->c->learning_rate_annealing;
    s->lr_main *= r->c->learning_rate_annealing;
    s->in_epoch = false;
    DN_TRY(train_log_row(s, r->d->task, &row, err));
    report_epoch(r, &row, seconds, s->n_seen - before);
    DN_TRY(save_or_warn(r, err));
    log_or_warn(r);
    /* Asked in the last moment: the epoch is saved, unless that failed. */
    if (train_stop_asked(NULL)) return stop(r, "at the end", err);
    status = DN_OK;
done:
    return status;
}

/* ---- the end: test, log, package, mark ---- */

static dn_status finish(run *r, dn_err *err)
{
    dn_status status;
    train_state *s = &r->s;
    float **kept = NULL;
    char *log = NULL;
    DN_TRY(train_arrays_new(&kept, r->net, err));
    DN_TRY(train_state_use_best(s, r->net, kept, err));
    status = evaluate(r, DN_SPLIT_TEST, &s->test_loss, &s->test_acc, err);
    if (status == DN_ESTOPPED) {
        DN_TRY(train_state_restore(r->net, kept, err));
        s->test_loss = s->test_acc = NAN;
        DN_TRY(stop(r, "in the test pass, after the end", err));
    }
    if (status == DN_ENUMERIC) status = not_finite(r, "test pass", err);
    if (status != DN_OK) goto done;
    DN_TRY(train_log_final(&log, s, r->d->task, err));
    DN_TRY(train_log_write(r->t->log, log, err));
    DN_TRY(train_package_write(r->t, r->o, r->c, r->d, r->net, r->mean, r->sd, s, log, err));
    if (r->d->task == DN_TASK_CLASSIFICATION) {
        dn_info("best epoch %" PRIu64 " of %" PRIu64
                ": validation accuracy %.4f, test loss %.6g, test accuracy %.4f; %s written",
                s->best_epoch, s->epoch, s->best_acc, s->test_loss, s->test_acc, r->t->package);
    } else {
        dn_info("best epoch %" PRIu64 " of %" PRIu64 ": validation loss %.6g, test loss %.6g; %s written",
                s->best_epoch, s->epoch, s->best_loss, s->test_loss, r->t->package);
    }
    /* The package is what counts as finished; the mark in the checkpoint is for those who look at it. */
    s->finished = true;
    DN_TRY(train_state_restore(r->net, kept, err));
    DN_TRY(save_or_warn(r, err));
    status = DN_OK;
done:
    train_arrays_free(kept, s->n_params);
    free(log);
    return status;
}

/* ---- the beginning: nothing, or a checkpoint ---- */

static dn_status resume(run *r, bool *resumed, dn_err *err)
{
    dn_status status;
    dn_ckpt *ckpt = NULL;
    char *warning = NULL;
    *resumed = false;
    DN_TRY(dn_ckpt_read_newest(&ckpt, r->t->checkpoint, &warning, &r->keep_previous, err));
    if (warning) dn_warn("%s", warning);
    if (ckpt) {
        train_state *s = &r->s;
        DN_TRY(train_state_load(s, r->net, ckpt, r->identity, r->c, r->t->checkpoint, err));
        if (s->batch > r->n_batches)
            DN_TRY(dn_fail(err, DN_EFORMAT, "checkpoint %s: batch out of bounds", r->t->checkpoint));
        s->finished = false;
        *resumed = true;
        if (s->in_epoch) {
            dn_info("going on from the checkpoint: epoch %" PRIu64 ", after batch %" PRIu64 " of %" PRIu64,
                    s->epoch, s->batch, r->n_batches);
        } else {
            dn_info("going on from the checkpoint: after epoch %" PRIu64, s->epoch);
        }
    }
    status = DN_OK;
done:
    free(warning);
    dn_ckpt_free(ckpt);
    return status;
}

static dn_status new_net(run *r, const float *emb, dn_backend *be, dn_err *err)
{
    const dn_config *c = r->c;
    dn_net_config nc = {.task = r->d->task,
                        .n_snps = r->d->n_snps,
                        .n_features = 3 * r->d->n_embed_classes,
                        .n_out = r->d->n_out,
                        .n_aux = c->n_aux,
                        .n_main = c->n_main,
                        .input_dropout = c->input_dropout,
                        .dropout_main = c->dropout_main,
                        .uniform_init_limit = c->uniform_init_limit};
    memcpy(nc.aux, c->aux, sizeof nc.aux);
    memcpy(nc.main, c->main, sizeof nc.main);
    dn_status status = dn_net_new(&r->net, &nc, emb, r->mean, r->sd, be, err);
    if (status != DN_OK || !r->d->base) return status;
    return dn_net_resident(r->net, r->d->base, r->d->stride, r->d->info->n_people, err);
}

dn_status train_run(const train_options *o, const train_task *t, const dn_config *c, train_data *data,
                    dn_backend *be, const dn_device *dev, dn_err *err)
{
    dn_status status;
    run r = {.o = o, .t = t, .c = c, .d = data, .eval_block = EVAL_BLOCK};
    float *emb = NULL;
    uint64_t n_flat = 0, n_empty = 0;
    bool resumed;
    r.n_batches = count_batches(data->n[DN_SPLIT_TRAIN], c->batch_size);
    if (c->batch_size > data->n[DN_SPLIT_TRAIN]) {
        dn_warn("batch_size %" PRIu64 " is more than the %" PRIu64
                " people to train: every epoch is one batch of all of them",
                c->batch_size, data->n[DN_SPLIT_TRAIN]);
    } else if (data->n[DN_SPLIT_TRAIN] % c->batch_size == 1) {
        dn_info("the last batch of an epoch would be one person, who joins the batch before");
    }
    DN_TRY(train_identity(&r.identity, o, t, c, data->data_hash, data->split_hash, err));
    DN_TRY(train_data_stats(data, &r.mean, &r.sd, &emb, &n_flat, &n_empty, err));
    if (n_flat) {
        dn_info("%" PRIu64 " of %" PRIu64
                " SNPs do not vary in the training set and contribute nothing (%" PRIu64
                " of them have no call)",
                n_flat, data->n_snps, n_empty);
    }
    if (n_flat == data->n_snps)
        DN_TRY(dn_fail(err, DN_ENUMERIC, "no SNP varies in the training set of %s", t->name));
    /* A GPU likes more people at a time, as far as there is room for a batch. */
    if (be->eval_block > EVAL_BLOCK)
        r.eval_block = be->eval_block < data->n_room ? be->eval_block : data->n_room;
    DN_TRY(new_net(&r, emb, be, err));
    if (dev->cuda) {
        uint64_t taken, left;
        DN_TRY(dn_device_taken(dev, &taken, &left, err));
        dn_info("memory on the GPU: %.1f MiB taken, %.1f MiB free", (double)taken / 1048576,
                (double)left / 1048576);
        if (c->input_dropout > 0 && o->rng != RNG_FAST) {
            dn_info("dropout of genotypes is drawn by one thread of the processor, %.1f million draws a "
                    "batch, and "
                    "the GPU waits for it: --rng fast draws on the GPU",
                    (double)c->batch_size * (double)data->n_snps / 1e6);
        }
    }
    DN_TRY(train_state_new(&r.s, r.net, data->n[DN_SPLIT_TRAIN], err));
    train_stop_armed();
    r.saved_at = now();
    DN_TRY(resume(&r, &resumed, err));
    if (resumed)
        log_or_warn(&r);
    else
        DN_TRY(baseline(&r, err));
    while (r.s.in_epoch || (r.s.epoch < c->epochs && r.s.wait < c->patience)) DN_TRY(one_epoch(&r, err));
    if (r.s.epoch < c->epochs) {
        dn_info("no better model in %" PRIu64 " epochs: training ends with epoch %" PRIu64, r.s.wait,
                r.s.epoch);
    }
    DN_TRY(finish(&r, err));
    status = DN_OK;
done:
    train_state_free(&r.s);
    dn_net_free(r.net);
    free(r.identity);
    free(r.mean);
    free(r.sd);
    free(emb);
    return status;
}
