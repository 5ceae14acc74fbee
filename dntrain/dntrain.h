/* dntrain.h: what the parts of dntrain share: its options, and the task that they name.
 *
 * Parts: dntrain_task (which fold and seed, and the files of that task), dntrain_data (people, labels and
 * packed rows), dntrain_state (all that a checkpoint holds), dntrain_run (epochs), dntrain_out (log, package,
 * "is it finished?"), dntrain_stop (signals). N people of a fold's set, M SNPs, C classes, B people in a
 * batch. */
#ifndef DNTRAIN_H
#define DNTRAIN_H

#include "config.h"
#include "device.h"
#include "dn.h"
#include "model.h"
#include "opt.h"

enum { SCALE_NONE, SCALE_SQRT, SCALE_LINEAR };
enum { RNG_UPSTREAM, RNG_FAST };
enum { INPUTS_AUTO, INPUTS_RAM, INPUTS_MEMMAP, INPUTS_PACKED };

typedef struct {
    dn_common common;
    const char *data, *split, *config, *out;
    uint64_t fold, seed, task;
    const char *folds, *seeds;
    int task_type;
    uint64_t epochs, patience, batch_size;
    int lr_scale, inputs, rng;
    dn_device_opts device;
    bool skip_train_eval;
    double checkpoint_minutes;
    bool fold_given, seed_given, task_given, epochs_given, patience_given, batch_given, memory_given;
} train_options;

/* One (fold, seed) and the names of its files: DIR/seed{S}_fold{F}.* */
typedef struct {
    uint64_t fold, seed;
    char *name; /* "seed78_fold0" */
    char *package, *log, *checkpoint, *lock;
} train_task;

/* Cross-option rules, and which task this process is: --fold [--seed], or --folds x --seeds with --task or
 * SLURM_ARRAY_TASK_ID (task n = fold n / seeds, seed n % seeds). Without a seed on the command line the
 * configuration's is taken. DN_EUSAGE. */
DN_MUST_USE dn_status train_task_resolve(train_task *t, const train_options *o, const dn_config *c,
                                         dn_err *err);
/* Makes the output folder if it is not there. DN_EWRITE when it cannot be written. */
DN_MUST_USE dn_status train_task_folder(const train_options *o, dn_err *err);
/* Removes temporary files that a killed run of this task left. Call it with the task's lock held. */
void train_task_sweep(const train_task *t, const train_options *o);
void train_task_free(train_task *t);

/* The configuration after all options that change it: epochs, patience, batch size with its learning rates,
 * seed. */
void train_config_apply(dn_config *c, const train_options *o, const train_task *t);

/* ---- signals (dntrain_stop.c) ---- */
/* SIGTERM, SIGINT, SIGUSR1 and SIGHUP ask the run to stop; more of them change nothing. Until
 * train_stop_armed() there is nothing to save: the process then removes its lock (told by train_stop_lock,
 * NULL for none) and exits 75 at once. */
void train_stop_install(void);
void train_stop_lock(const char *lock);
void train_stop_armed(void);
bool train_stop_asked(void *unused); /* dn_net_eval's callback as well */
const char *train_stop_signal(void); /* "SIGTERM", for messages */

#endif
