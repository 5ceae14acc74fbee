/* dntrain_out.h: what a task leaves for others: its log and its package, and whether it is finished. */
#ifndef DNTRAIN_OUT_H
#define DNTRAIN_OUT_H

#include "dntrain_data.h"
#include "dntrain_state.h"

/* The log's header line for this task, with its newline. */
const char *train_log_header(dn_task task);
/* One row into the state's log. Epoch 0 has no training pass: pass NAN, which leaves a field empty. */
typedef struct {
    uint64_t epoch;
    double train_loss, train_acc, valid_loss, valid_acc, eval_loss, eval_acc, lr_aux, lr_main;
} train_row;
DN_MUST_USE dn_status train_log_row(train_state *s, dn_task task, const train_row *r, dn_err *err);
/* The whole log with the test's line; free() it. */
DN_MUST_USE dn_status train_log_final(char **text, const train_state *s, dn_task task, dn_err *err);
/* Makes the file hold exactly `text`: leaves it, appends, or writes it anew, whichever is enough. */
DN_MUST_USE dn_status train_log_write(const char *path, const char *text, dn_err *err);

/* The configuration as it stands in a package. free() it. */
DN_MUST_USE dn_status train_package_config(char **text, const train_options *o, const dn_config *c,
                                           dn_err *err);
/* Writes the package of the net's present weights (the best model's). */
DN_MUST_USE dn_status train_package_write(const train_task *t, const train_options *o, const dn_config *c,
                                          const train_data *d, dn_net *net, const double *mean,
                                          const double *sd, const train_state *s, const char *log,
                                          dn_err *err);

/* Is there a package of this very run? *finished: yes, nothing is left to do. Otherwise, each free()d by the
 * caller: *damaged says why the package there cannot be read; *differs which of epochs and patience, and
 * nothing else, tell it apart (its checkpoint may be gone on from); both NULL when there is none.
 * DN_EMISMATCH: a package of another run, the first difference named. */
DN_MUST_USE dn_status train_package_check(const train_task *t, const train_options *o, const dn_config *c,
                                          uint64_t data_hash, uint64_t split_hash, bool *finished,
                                          char **damaged, char **differs, dn_err *err);
/* The message for a package that is another run's. */
dn_status train_other_package(const train_task *t, const char *why, dn_err *err);

#endif
