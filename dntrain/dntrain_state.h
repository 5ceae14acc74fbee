/* dntrain_state.h: all that changes while a task trains, and its way into a checkpoint and back
 * (docs/format-checkpoint.md). Weights and Adam's moments live in the net; everything else is here. */
#ifndef DNTRAIN_STATE_H
#define DNTRAIN_STATE_H

#include "checkpoint.h"
#include "dntrain.h"
#include "net.h"
#include "rng.h"

typedef struct {
    uint64_t epoch;    /* 0 before the first one; the running one while in_epoch, else the last whole one */
    bool in_epoch;     /* order is drawn, batches [0, batch) are done */
    uint64_t batch;    /* may equal the number of batches: then only the evaluation is left */
    uint64_t wait;     /* epochs since the best model */
    uint64_t max_wait; /* longest wait so far */
    uint64_t best_epoch;
    uint64_t n_correct, n_seen; /* of this epoch's training pass */
    double loss_sum;            /* of the same */
    double lr_aux, lr_main;     /* of the running or the next epoch */
    double best_loss, best_acc; /* on the validation set; acc NaN for regression */
    bool finished;
    double test_loss, test_acc; /* of the best model, when finished */
    dn_rng rng;
    uint64_t n_order;
    uint32_t *order; /* n_order training samples: places in the fold's list */
    char *log;       /* whole lines of the log, without the test's */
    size_t log_len;
    size_t n_params;
    float **best; /* the best model: one array per array of the net, same order */
} train_state;

/* n_train: training samples of the fold. */
DN_MUST_USE dn_status train_state_new(train_state *s, dn_net *net, uint64_t n_train, dn_err *err);
void train_state_free(train_state *s);
/* Adds a line (with its newline) to the log. */
DN_MUST_USE dn_status train_state_log(train_state *s, const char *line, dn_err *err);
/* The net's present weights become the best model. / The best model's weights go into the net; `kept` (an
 * array per array, from train_keep_new) receives what was there, train_restore puts it back. */
DN_MUST_USE dn_status train_state_set_best(train_state *s, dn_net *net, dn_err *err);
DN_MUST_USE dn_status train_state_use_best(train_state *s, dn_net *net, float **kept, dn_err *err);
DN_MUST_USE dn_status train_state_restore(dn_net *net, float **kept, dn_err *err);
DN_MUST_USE dn_status train_arrays_new(float ***out, dn_net *net, dn_err *err);
void train_arrays_free(float **a, size_t n);

/* What a run is made of, as "key: value" lines: task, fold, dataset, split, train_eval, then the
 * configuration. free() it. */
DN_MUST_USE dn_status train_identity(char **text, const train_options *o, const train_task *t,
                                     const dn_config *c, uint64_t data_hash, uint64_t split_hash,
                                     dn_err *err);

/* Through dn_ckpt_write. */
DN_MUST_USE dn_status train_state_save(const train_state *s, dn_net *net, const char *identity,
                                       const char *path, bool keep_previous, dn_err *err);
/* Fills s and the net. DN_EMISMATCH: it is another run's: the first thing that differs is named. epochs and
 * patience may differ as far as the run up to here would have been the same: see docs/format-checkpoint.md.
 */
DN_MUST_USE dn_status train_state_load(train_state *s, dn_net *net, const dn_ckpt *ckpt, const char *identity,
                                       const dn_config *c, const char *path, dn_err *err);

#endif
