/* dntrain_state.c: the state of a run, saved and loaded (see dntrain_state.h). */
#include "dntrain_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Places in the two number arrays of a checkpoint. Pinned: docs/format-checkpoint.md. */
enum {
    P_EPOCH,
    P_BATCH,
    P_WAIT,
    P_BEST_EPOCH,
    P_STEP,
    P_FINISHED,
    P_CORRECT,
    P_SEEN,
    P_MAX_WAIT,
    P_ALL = 12
};
enum { S_LOSS, S_LR_AUX, S_LR_MAIN, S_BEST_LOSS, S_BEST_ACC, S_TEST_LOSS, S_TEST_ACC, S_ALL = 12 };
enum { RNG_WORDS = 625, RNG_FAST_WORDS = 2 };

/* ---- memory ---- */

dn_status train_arrays_new(float ***out, dn_net *net, dn_err *err)
{
    size_t n;
    dn_net_param *p = dn_net_params(net, &n);
    *out = NULL;
    float **a;
    dn_status status = dn_alloc(&a, n, sizeof *a, "copy of the model", err);
    if (status != DN_OK) return status;
    for (size_t i = 0; i < n; i++) {
        status = dn_alloc(&a[i], p[i].n, sizeof **a, "copy of the model", err);
        if (status != DN_OK) {
            train_arrays_free(a, i);
            return status;
        }
    }
    *out = a;
    return DN_OK;
}

void train_arrays_free(float **a, size_t n)
{
    for (size_t i = 0; a && i < n; i++) free(a[i]);
    free(a);
}

dn_status train_state_new(train_state *s, dn_net *net, uint64_t n_train, dn_err *err)
{
    memset(s, 0, sizeof *s);
    s->n_order = n_train;
    s->best_loss = s->best_acc = s->test_loss = s->test_acc = NAN;
    dn_net_params(net, &s->n_params);
    dn_status status = dn_alloc(&s->order, n_train, sizeof *s->order, "order of the samples", err);
    if (status == DN_OK) status = dn_alloc(&s->log, 1, 1, "log", err);
    if (status == DN_OK) status = train_arrays_new(&s->best, net, err);
    return status;
}

void train_state_free(train_state *s)
{
    free(s->order);
    free(s->log);
    train_arrays_free(s->best, s->n_params);
    memset(s, 0, sizeof *s);
}

dn_status train_state_log(train_state *s, const char *line, dn_err *err)
{
    size_t n = strlen(line);
    char *log = realloc(s->log, s->log_len + n + 1);
    if (!log) return dn_fail(err, DN_ENOMEM, "out of memory: log");
    memcpy(log + s->log_len, line, n + 1);
    s->log = log;
    s->log_len += n;
    return DN_OK;
}

/* ---- the best model ---- */

dn_status train_state_set_best(train_state *s, dn_net *net, dn_err *err)
{
    size_t n;
    dn_status status = dn_net_pull(net, err);
    if (status != DN_OK) return status;
    dn_net_param *p = dn_net_params(net, &n);
    for (size_t i = 0; i < n; i++) memcpy(s->best[i], p[i].value, p[i].n * sizeof(float));
    return DN_OK;
}

dn_status train_state_use_best(train_state *s, dn_net *net, float **kept, dn_err *err)
{
    size_t n;
    dn_status status = dn_net_pull(net, err);
    if (status != DN_OK) return status;
    dn_net_param *p = dn_net_params(net, &n);
    for (size_t i = 0; i < n; i++) {
        memcpy(kept[i], p[i].value, p[i].n * sizeof(float));
        memcpy(p[i].value, s->best[i], p[i].n * sizeof(float));
    }
    return dn_net_push(net, err);
}

dn_status train_state_restore(dn_net *net, float **kept, dn_err *err)
{
    size_t n;
    dn_net_param *p = dn_net_params(net, &n);
    for (size_t i = 0; i < n; i++) memcpy(p[i].value, kept[i], p[i].n * sizeof(float));
    return dn_net_push(net, err);
}

/* ---- identity ---- */

dn_status train_identity(char **text, const train_options *o, const train_task *t, const dn_config *c,
                         uint64_t data_hash, uint64_t split_hash, dn_err *err)
{
    char *config = NULL;
    *text = NULL;
    dn_status status = dn_config_text(c, &config, err);
    if (status != DN_OK) return status;
    int n =
        asprintf(text, "task: %s\nfold: %llu\ndataset: %016llx\nsplit: %016llx\ntrain_eval: %d\n%s%s%s",
                 o->task_type ? "regression" : "classification", (unsigned long long)t->fold,
                 (unsigned long long)data_hash, (unsigned long long)split_hash, o->skip_train_eval ? 0 : 1,
                 o->device.precision == DN_PRECISION_TF32 ? "precision: tf32\n" : "",
                 o->rng == RNG_FAST ? "rng: fast\n" : "", config);
    free(config);
    if (n < 0) {
        *text = NULL;
        return dn_fail(err, DN_ENOMEM, "out of memory");
    }
    return DN_OK;
}

static dn_status other_run(const char *path, const char *why, dn_err *err)
{
    return dn_fail(err, DN_EMISMATCH,
                   "checkpoint %s is of another run: %s. Give another output folder, or --force to drop what "
                   "is there and start anew",
                   path, why);
}

/* epochs and patience only say when to stop: a run may go on under others if up to here it would have been
 * the same. */
static dn_status check_identity(const train_state *s, const char *there, const char *here, const dn_config *c,
                                const char *path, dn_err *err)
{
    static const char *const stopping[] = {"epochs", "patience", NULL};
    char why[512];
    uint64_t patience;
    if (dn_config_differs(there, here, stopping, why, sizeof why)) return other_run(path, why, err);
    if (c->epochs < s->epoch) {
        snprintf(why, sizeof why, "epochs: %llu here, and epoch %llu has been reached there",
                 (unsigned long long)c->epochs, (unsigned long long)s->epoch);
        return other_run(path, why, err);
    }
    if (!dn_config_get_u64(there, "patience", &patience))
        return other_run(path, "patience: not given there", err);
    if (patience != c->patience && c->patience <= s->max_wait) {
        snprintf(why, sizeof why, "patience: %llu there, %llu here, which would have ended it earlier",
                 (unsigned long long)patience, (unsigned long long)c->patience);
        return other_run(path, why, err);
    }
    return DN_OK;
}

/* ---- saving ---- */

static void add_item(dn_ckpt_item *items, size_t *n, const char *prefix, const char *name, dn_ckpt_type type,
                     const void *data, uint64_t count)
{
    dn_ckpt_item *it = &items[(*n)++];
    snprintf(it->name, sizeof it->name, "%s%s", prefix, name);
    it->type = type;
    it->data = data;
    it->n = count;
}

dn_status train_state_save(const train_state *s, dn_net *net, const char *identity, const char *path,
                           bool keep_previous, dn_err *err)
{
    dn_status status;
    size_t n_params, n = 0;
    dn_ckpt_item *items = NULL;
    uint64_t place[P_ALL] = {0};
    double sums[S_ALL] = {0};
    uint32_t rng[RNG_WORDS];
    uint64_t fast[RNG_FAST_WORDS] = {s->rng.key, s->rng.at};
    DN_TRY(dn_net_pull(net, err));
    dn_net_param *p = dn_net_params(net, &n_params);
    DN_TRY(dn_alloc(&items, 9 + 4 * n_params, sizeof *items, "checkpoint", err));
    place[P_EPOCH] = s->epoch, place[P_BATCH] = s->batch, place[P_WAIT] = s->wait,
    place[P_BEST_EPOCH] = s->best_epoch;
    place[P_STEP] = *dn_net_step(net), place[P_FINISHED] = s->finished, place[P_CORRECT] = s->n_correct;
    place[P_SEEN] = s->n_seen, place[P_MAX_WAIT] = s->max_wait;
    sums[S_LOSS] = s->loss_sum, sums[S_LR_AUX] = s->lr_aux, sums[S_LR_MAIN] = s->lr_main;
    sums[S_BEST_LOSS] = s->best_loss, sums[S_BEST_ACC] = s->best_acc;
    sums[S_TEST_LOSS] = s->test_loss, sums[S_TEST_ACC] = s->test_acc;
    memcpy(rng, s->rng.mt, sizeof s->rng.mt);
    rng[RNG_WORDS - 1] = s->rng.next;
    add_item(items, &n, "", "identity", DN_CKPT_TEXT, identity, strlen(identity));
    add_item(items, &n, "", "place", DN_CKPT_U64, place, P_ALL);
    add_item(items, &n, "", "sums", DN_CKPT_F64, sums, S_ALL);
    add_item(items, &n, "", "log", DN_CKPT_TEXT, s->log, s->log_len);
    add_item(items, &n, "", "rng", DN_CKPT_U32, rng, RNG_WORDS);
    if (s->rng.fast) add_item(items, &n, "", "rng_fast", DN_CKPT_U64, fast, RNG_FAST_WORDS);
    add_item(items, &n, "", "order", DN_CKPT_U32, s->order, s->in_epoch ? s->n_order : 0);
    for (size_t i = 0; i < n_params; i++) {
        add_item(items, &n, "net/", p[i].name, DN_CKPT_F32, p[i].value, p[i].n);
        add_item(items, &n, "best/", p[i].name, DN_CKPT_F32, s->best[i], p[i].n);
        if (p[i].m) add_item(items, &n, "adam_m/", p[i].name, DN_CKPT_F32, p[i].m, p[i].n);
        if (p[i].v) add_item(items, &n, "adam_v/", p[i].name, DN_CKPT_F32, p[i].v, p[i].n);
    }
    status = dn_ckpt_write(path, items, n, keep_previous, err);
done:
    free(items);
    return status;
}

/* ---- loading ---- */

static dn_status get_floats(const dn_ckpt *c, const char *prefix, const char *name, float *to, uint64_t n,
                            dn_err *err)
{
    char full[DN_CKPT_NAME];
    const void *data;
    snprintf(full, sizeof full, "%s%s", prefix, name);
    dn_status status = dn_ckpt_get(c, full, DN_CKPT_F32, n, &data, NULL, err);
    if (status == DN_OK) memcpy(to, data, n * sizeof(float));
    return status;
}

static dn_status load_net(train_state *s, dn_net *net, const dn_ckpt *ckpt, dn_err *err)
{
    size_t n;
    dn_status status;
    dn_net_param *p = dn_net_params(net, &n);
    for (size_t i = 0; i < n; i++) {
        DN_TRY(get_floats(ckpt, "net/", p[i].name, p[i].value, p[i].n, err));
        DN_TRY(get_floats(ckpt, "best/", p[i].name, s->best[i], p[i].n, err));
        if (p[i].m) DN_TRY(get_floats(ckpt, "adam_m/", p[i].name, p[i].m, p[i].n, err));
        if (p[i].v) DN_TRY(get_floats(ckpt, "adam_v/", p[i].name, p[i].v, p[i].n, err));
    }
    status = dn_net_push(net, err);
done:
    return status;
}

static dn_status load_order(train_state *s, const dn_ckpt *ckpt, const char *path, dn_err *err)
{
    const void *data;
    uint64_t n;
    dn_status status = dn_ckpt_get(ckpt, "order", DN_CKPT_U32, UINT64_MAX, &data, &n, err);
    if (status != DN_OK) return status;
    if (n != 0 && n != s->n_order) {
        return dn_fail(err, DN_EFORMAT, "checkpoint %s: order of %llu samples, the fold has %llu", path,
                       (unsigned long long)n, (unsigned long long)s->n_order);
    }
    s->in_epoch = n > 0;
    if (n) memcpy(s->order, data, n * sizeof *s->order);
    for (uint64_t i = 0; i < n; i++) {
        if (s->order[i] >= s->n_order)
            return dn_fail(err, DN_EFORMAT, "checkpoint %s: a sample outside the fold", path);
    }
    return DN_OK;
}

dn_status train_state_load(train_state *s, dn_net *net, const dn_ckpt *ckpt, const char *identity,
                           const dn_config *c, const char *path, dn_err *err)
{
    dn_status status;
    const void *there, *place_at, *sums_at, *rng_at, *log;
    uint64_t log_len;
    DN_TRY(dn_ckpt_get(ckpt, "identity", DN_CKPT_TEXT, UINT64_MAX, &there, NULL, err));
    DN_TRY(dn_ckpt_get(ckpt, "place", DN_CKPT_U64, P_ALL, &place_at, NULL, err));
    const uint64_t *place = place_at;
    s->epoch = place[P_EPOCH], s->batch = place[P_BATCH], s->wait = place[P_WAIT],
    s->best_epoch = place[P_BEST_EPOCH];
    s->finished = place[P_FINISHED] != 0, s->n_correct = place[P_CORRECT], s->n_seen = place[P_SEEN];
    s->max_wait = place[P_MAX_WAIT];
    DN_TRY(check_identity(s, there, identity, c, path, err));
    DN_TRY(dn_ckpt_get(ckpt, "sums", DN_CKPT_F64, S_ALL, &sums_at, NULL, err));
    const double *sums = sums_at;
    s->loss_sum = sums[S_LOSS], s->lr_aux = sums[S_LR_AUX], s->lr_main = sums[S_LR_MAIN];
    s->best_loss = sums[S_BEST_LOSS], s->best_acc = sums[S_BEST_ACC];
    s->test_loss = sums[S_TEST_LOSS], s->test_acc = sums[S_TEST_ACC];
    DN_TRY(dn_ckpt_get(ckpt, "rng", DN_CKPT_U32, RNG_WORDS, &rng_at, NULL, err));
    memcpy(s->rng.mt, rng_at, sizeof s->rng.mt);
    s->rng.next = ((const uint32_t *)rng_at)[RNG_WORDS - 1];
    if (s->rng.next > RNG_WORDS - 1)
        DN_TRY(dn_fail(err, DN_EFORMAT, "checkpoint %s: a generator out of bounds", path));
    s->rng.fast = strstr(identity, "\nrng: fast\n") != NULL;
    if (s->rng.fast) {
        DN_TRY(dn_ckpt_get(ckpt, "rng_fast", DN_CKPT_U64, RNG_FAST_WORDS, &rng_at, NULL, err));
        s->rng.key = ((const uint64_t *)rng_at)[0];
        s->rng.at = ((const uint64_t *)rng_at)[1];
    }
    DN_TRY(load_order(s, ckpt, path, err));
    DN_TRY(dn_ckpt_get(ckpt, "log", DN_CKPT_TEXT, UINT64_MAX, &log, &log_len, err));
    s->log_len = 0;
    s->log[0] = 0;
    DN_TRY(train_state_log(s, log, err));
    *dn_net_step(net) = place[P_STEP];
    DN_TRY(load_net(s, net, ckpt, err));
    status = DN_OK;
done:
    return status;
}
