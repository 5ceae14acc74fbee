/* dntrain: trains one Diet Network, (fold, seed), from packed genotypes; survives being stopped at any
 * moment.
 *
 * Order of the checks: command line, configuration, device, then files from the cheap to the costly; the
 * output folder and the task's lock before any genotype is read. */
#include "dntrain.h"

#include <stdlib.h>
#include <unistd.h>

#include "backend.h"
#include "dntrain_data.h"
#include "dntrain_out.h"
#include "dntrain_run.h"
#include "geno.h"
#include "io.h"
#include "lock.h"
#include "log.h"

enum { GPU_ROOM = 4096 }; /* people that an evaluation on a GPU may take at a time */

static const char about[] =
    "Trains the model of one fold and one seed and writes it as a package, DIR/seed{S}_fold{F}.h5, with a "
    "log (.log.tsv) and\n"
    "a checkpoint (.ckpt). Stopped by SIGTERM, SIGINT or SIGUSR1 it saves and exits 75; started again, it "
    "goes on where it\n"
    "was, and ends with the same bytes as if it had never been stopped. A finished task exits 0 at once.";
static const char tail[] =
    "Examples:\n"
    "  dntrain --data panel.gpk --split split.h5 --config config.yaml --fold 0 --seed 78 -o models\n"
    "  dntrain --data panel.gpk --split split.h5 --config config.yaml --folds 0-4 --seeds 78,23,124 --task 7 "
    "-o models\n"
    "Exit: 0 done, 2 usage, 3-5 inputs, 6 output, 7 memory, 9 GPU, 10 loss not finite, 75 stopped and saved "
    "(run again).\n"
    "Manual: docs/dntrain.md";

static dn_status check_options(const train_options *o, dn_err *err)
{
    const struct {
        const char *name, *value, *what;
    } needed[] = {{"--data", o->data, "the dataset, .gpk or .h5"},
                  {"--split", o->split, "the folds, from dnsplit"},
                  {"--config", o->config, "upstream's YAML configuration"},
                  {"-o", o->out, "the output folder"}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (!needed[i].value) {
            return dn_fail(err, DN_EUSAGE, "%s is missing: %s (see --help)", needed[i].name, needed[i].what);
        }
    }
    if (o->lr_scale != SCALE_NONE && !o->batch_given) {
        return dn_fail(
            err, DN_EUSAGE,
            "--lr-scale says how --batch-size changes the learning rates: give --batch-size as well");
    }
    return DN_OK;
}

/* Largest memory besides the genotypes, about: counts, embedding and its double form, activations and their
 * gradients of the auxiliary net, what the backend keeps per thread. */
static uint64_t memory_need(const train_data *d, const dn_config *c, const train_options *o)
{
    double m = (double)d->n_snps, k = 3 * (double)d->n_embed_classes, units = 0;
    for (size_t i = 0; i < c->n_aux; i++) units += (double)c->aux[i];
    double setup = m * k * 16, net = m * (k * 4 + units * 8 + 24);
    double need = (setup > net ? setup : net) + 64e6 + 4e6 * (double)o->common.threads;
    if (d->rows == ROWS_MEMORY) need += (double)d->stride * (double)d->info->n_people;
    return need < 1e18 ? (uint64_t)need : UINT64_MAX;
}

static dn_status check_memory(const train_data *d, const dn_config *c, const train_options *o, dn_err *err)
{
    uint64_t need = memory_need(d, c, o);
    dn_info("memory: about %.0f MiB", (double)need / 1048576.0);
    if (o->memory_given && need > o->common.memory) {
        return dn_fail(err, DN_ENOMEM, "about %.0f MiB are needed, --memory allows %.0f MiB",
                       (double)need / 1048576.0, (double)o->common.memory / 1048576.0);
    }
    return DN_OK;
}

/* --force: what is there of this task goes, all of it, before it starts anew. */
static void remove_old(const train_task *t)
{
    char prev[4096];
    snprintf(prev, sizeof prev, "%s.prev", t->checkpoint);
    const char *old[] = {t->package, t->checkpoint, prev, t->log};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        if (unlink(old[i]) == 0) dn_info("--force: %s removed", old[i]);
    }
}

static bool have_checkpoint(const train_task *t)
{
    char prev[4096];
    snprintf(prev, sizeof prev, "%s.prev", t->checkpoint);
    return access(t->checkpoint, F_OK) == 0 || access(prev, F_OK) == 0;
}

/* The task, with its lock held. */
static dn_status locked(train_options *o, const train_task *t, const dn_config *c, dn_device *dev,
                        dn_pool *pool, dn_err *err)
{
    dn_status status;
    train_data data = {0};
    dn_backend *be = NULL;
    bool finished = false;
    char *damaged = NULL, *differs = NULL;
    train_task_sweep(t, o);
    uint64_t room = dev->cuda && c->batch_size < GPU_ROOM ? GPU_ROOM : c->batch_size;
    DN_TRY(train_data_open(&data, o, t, room, pool, err));
    if (o->common.force) remove_old(t);
    DN_TRY(train_package_check(t, o, c, data.data_hash, data.split_hash, &finished, &damaged, &differs, err));
    if (finished) goto done;
    if (!have_checkpoint(t)) {
        if (differs) DN_TRY(train_other_package(t, differs, err));
        if (damaged) {
            DN_TRY(dn_fail(err, DN_EFORMAT,
                           "%s: there is no checkpoint to make it anew from; --force trains it again",
                           damaged));
        }
    }
    if (damaged) dn_warn("%s: it is written anew", damaged);
    train_data_report(&data, t);
    DN_TRY(train_data_load(&data, o, err));
    DN_TRY(check_memory(&data, c, o, err));
    /* From here on this process may hold CUDA: all HDF5 inputs are open (device.h). */
    DN_TRY(dn_device_load(dev, err));
    DN_TRY(dev->cuda ? dev->plugin->backend_new(&be, &dev->options, err) : dn_backend_cpu(&be, pool, err));
    DN_TRY(train_run(o, t, c, &data, be, dev, err));
    status = DN_OK;
done:
    dn_backend_free(be);
    train_data_close(&data);
    free(damaged);
    free(differs);
    return status;
}

static dn_status work(train_options *o, dn_err *err)
{
    dn_status status;
    dn_config c;
    train_task t = {0};
    static dn_device dev; /* large */
    dn_pool *pool = NULL;
    dn_lock *lock = NULL;
    char *took_over = NULL;
    DN_TRY(check_options(o, err));
    DN_TRY(dn_isa_check(err));
    DN_TRY(dn_config_read(&c, o->config, err));
    DN_TRY(train_task_resolve(&t, o, &c, err));
    train_config_apply(&c, o, &t);
    DN_TRY(dn_device_choose(&dev, &o->device, o->common.threads, err));
    if (dev.loud)
        dn_warn("%s", dev.line);
    else
        dn_info("%s", dev.line);
    DN_TRY(train_task_folder(o, err));
    DN_TRY(dn_lock_take(&lock, t.lock, &took_over, err));
    train_stop_lock(t.lock);
    if (took_over) dn_info("%s: the lock of %s, which no longer runs, is taken over", t.name, took_over);
    DN_TRY(dn_pool_new(&pool, o->common.threads, err));
    DN_TRY(locked(o, &t, &c, &dev, pool, err));
    status = DN_OK;
done:
    free(took_over);
    dn_pool_free(pool);
    train_stop_lock(NULL);
    train_stop_armed();
    dn_lock_release(&lock);
    train_task_free(&t);
    return status;
}

int main(int argc, char **argv)
{
    train_options o = {.common = DN_COMMON_DEFAULT, .device = DN_DEVICE_DEFAULT, .checkpoint_minutes = 10};
    o.common.memory = 0;
    const dn_opt opts[] = {
        {DN_OPT_GROUP, "Input", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_STR, "data", 'd', &o.data, "FILE", 0, 0,
         "labelled panel: .gpk (packed, mapped in place) or .h5", NULL},
        {DN_OPT_STR, "split", 's', &o.split, "FILE", 0, 0, "folds of that panel, from dnsplit", NULL},
        {DN_OPT_STR, "config", 'c', &o.config, "FILE", 0, 0, "upstream's YAML configuration", NULL},
        {DN_OPT_CHOICE, "inputs", 0, &o.inputs, "auto|ram|memmap|packed", 0, 0,
         "where rows come from: packed = the mapped .gpk (a .h5 is packed into memory once); ram = packed "
         "into memory; memmap = "
         "read in place, from a .h5 int8 rows batch by batch; auto = packed. Results are the same",
         NULL},
        {DN_OPT_GROUP, "Which task", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_U64, "fold", 'F', &o.fold, "F", 0, 0, "fold of the split, from 0", &o.fold_given},
        {DN_OPT_U64, "seed", 'S', &o.seed, "S", 0, 0, "seed, instead of the configuration's", &o.seed_given},
        {DN_OPT_STR, "folds", 0, &o.folds, "LIST", 0, 0, "with --seeds and --task: folds, such as 0-4", NULL},
        {DN_OPT_STR, "seeds", 0, &o.seeds, "LIST", 0, 0, "seeds, such as 78,23,124", NULL},
        {DN_OPT_U64, "task", 0, &o.task, "N", 0, 0,
         "task N, from 0: fold number N / seeds, seed number N % seeds of the lists (default: "
         "SLURM_ARRAY_TASK_ID)",
         &o.task_given},
        {DN_OPT_GROUP, "Training", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_CHOICE, "task-type", 0, &o.task_type, "classification|regression", 0, 0, "what is learnt",
         NULL},
        {DN_OPT_U64, "epochs", 'e', &o.epochs, "N", 0, 1e6, "most epochs, instead of the configuration's",
         &o.epochs_given},
        {DN_OPT_U64, "patience", 0, &o.patience, "N", 1, 1e6,
         "epochs without a better model, instead of the configuration's", &o.patience_given},
        {DN_OPT_U64, "batch-size", 'b', &o.batch_size, "B", 2, 1e9,
         "people to a batch, instead of the configuration's", &o.batch_given},
        {DN_OPT_CHOICE, "lr-scale", 0, &o.lr_scale, "none|sqrt|linear", 0, 0,
         "how learning rates follow --batch-size: times its ratio to the configuration's, or the root of it",
         NULL},
        {DN_OPT_FLAG, "skip-train-eval", 0, &o.skip_train_eval, NULL, 0, 0,
         "leave out the evaluation pass over the training set (its draws are made: the model is the same)",
         NULL},
        {DN_OPT_CHOICE, "rng", 0, &o.rng, "upstream|fast", 0, 0,
         "how dropout is drawn: as upstream does, one draw after another; or from a counter-based generator "
         "(Philox), all at once, which spares a GPU or many threads the wait. All else is drawn as upstream "
         "does",
         NULL},
        DN_DEVICE_OPTS(o.device),
        {DN_OPT_GROUP, "Output", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_STR, "out", 'o', &o.out, "DIR", 0, 0, "folder for seed{S}_fold{F}.*; made if it is not there",
         NULL},
        {DN_OPT_DOUBLE, "checkpoint-minutes", 0, &o.checkpoint_minutes, "T", 0, 1e6,
         "save at least this often, also within an epoch; 0 = after every batch", NULL},
        DN_COMMON_OPTS(o.common),
    };
    enum { N = sizeof opts / sizeof opts[0] };
    dn_err err = {0};
    dn_strs operands = {0};
    dn_status status;
    dn_log_start("dntrain", argc, argv);
    dn_out_on_signal();
    train_stop_install();
    DN_TRY(dn_opt_parse(argc, argv, opts, N, &operands, &err));
    if (o.common.help) {
        dn_opt_help(stdout, "Usage: dntrain --data FILE --split FILE --config FILE --fold F -o DIR [options]",
                    about, opts, N, tail);
        o.common.quiet = true;
        goto done;
    }
    if (o.common.version) {
        DN_TRY(dn_isa_check(&err));
        dn_print_version();
        o.common.quiet = true;
        goto done;
    }
    o.memory_given = o.common.memory > 0;
    if (operands.n) {
        DN_TRY(
            dn_fail(&err, DN_EUSAGE,
                    "\"%s\" is not expected: files are given with --data, --split and --config (see --help)",
                    dn_strs_get(&operands, 0)));
    }
    DN_TRY(dn_common_finish(&o.common, &err));
    dn_log_level(o.common.quiet, o.common.verbose);
    status = work(&o, &err);
done:
    dn_log_level(o.common.quiet, o.common.verbose);
    dn_strs_free(&operands);
    return dn_finish(status, &err);
}
