/* dnsplit: deals the people of a labelled dataset into folds, each with a training, a validation and a test
 * set. This file: options and the order of the work. Folds are made in dnsplit_make.c; draws are in
 * dnsplit_draw.c, groups in dnsplit_group.c, upstream's files in dnsplit_npz.c and dnsplit_stats.c, the table
 * and its rules in dnsplit_table.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dataset.h"
#include "dnsplit.h"
#include "dnsplit_npz.h"
#include "dnsplit_stats.h"
#include "dnsplit_table.h"
#include "geno.h"
#include "log.h"
#include "par.h"

static const char about[] = "Deals the people of a dataset into folds: each fold has a training, a "
                            "validation and a test set. With one seed the folds are those\n"
                            "of upstream's partition_data.py. Prints, on standard output, how many people of "
                            "each class every set has.";
static const char tail[] = "Examples:\n"
                           "  dnsplit panel.gpk --folds 5 --seed 23 --balance-class -o split.h5\n"
                           "  dnsplit panel.gpk --folds 5 --balance-class --group families.txt -o split.h5\n"
                           "  dnsplit panel.h5 --from-npz partition.npz -o split.h5 --stats-npz stats.npz "
                           "--embedding-npz embedding.npz\n"
                           "Exit: 0 done, 2 usage, 3-5 inputs, 6 output, 7 memory, 10 a class or a set that "
                           "a model cannot be trained with.\n"
                           "Manual: docs/dnsplit.md";

static dn_status check_options(const split_options *o, const dn_strs *operands, dn_err *err)
{
    if (operands->n != 1) {
        return dn_fail(err, DN_EUSAGE,
                       operands->n ? "one dataset is expected, %llu were given (see --help)"
                                   : "no dataset: give a .gpk or .h5 file (see --help)",
                       (ull)operands->n);
    }
    if (!o->out && !o->export_npz && !o->stats_npz && !o->embedding_npz) {
        return dn_fail(err, DN_EUSAGE, "nothing to write: give -o split.h5 (see --help)");
    }
    if (o->balance && o->ratio_given) {
        return dn_fail(err, DN_EUSAGE,
                       "--balance-class and --train-valid-ratio exclude each other: balanced folds validate "
                       "on one part in --folds");
    }
    if (o->from_npz && (o->balance || o->ratio_given || o->folds_given || o->seed_given)) {
        return dn_fail(err, DN_EUSAGE,
                       "--from-npz takes the folds as they are in the file: leave out --folds, --seed, "
                       "--balance-class and --train-valid-ratio");
    }
    if (o->group && o->group_by_fid)
        return dn_fail(err, DN_EUSAGE, "--group and --group-by-fid exclude each other");
    const char *outs[] = {o->out, o->export_npz, o->stats_npz, o->embedding_npz};
    for (int i = 0; i < 4; i++) {
        if (outs[i] && strcmp(outs[i], "-") == 0)
            return dn_fail(err, DN_EUSAGE, "outputs are files here; standard output has the table");
        for (int k = 0; k < i; k++) {
            if (outs[i] && outs[k] && strcmp(outs[i], outs[k]) == 0)
                return dn_fail(err, DN_EUSAGE, "two outputs have the name %s", outs[i]);
        }
    }
    return DN_OK;
}

/* Outputs that cannot be written, or would replace an input, are found before anything is read. */
static dn_status check_outputs(const split_options *o, unsigned flags, dn_err *err)
{
    const char *outs[] = {o->out, o->export_npz, o->stats_npz, o->embedding_npz},
               *ins[] = {o->data, o->from_npz, o->group};
    for (int i = 0; i < 4; i++) {
        struct stat a, b;
        if (!outs[i]) continue;
        dn_status status = dn_out_check(outs[i], flags, err);
        if (status != DN_OK) return status;
        for (int k = 0; k < 3; k++) {
            if (ins[k] && stat(outs[i], &a) == 0 && stat(ins[k], &b) == 0 && S_ISREG(a.st_mode) &&
                a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
                return dn_fail(err, DN_EUSAGE, "output %s is the input %s: choose another name", outs[i],
                               ins[k]);
            }
        }
    }
    return DN_OK;
}

/* The table on stdout, and the rules; --force turns errors into warnings. */
static dn_status report(const split_options *o, const dn_split *s, const dn_gpk_info *info, dn_err *err)
{
    uint64_t *counts, n_classes, thin = 0;
    dn_status status = split_table(s, info, &counts, &n_classes, err);
    if (status != DN_OK) return status;
    split_table_print(stdout, s, info, counts, n_classes);
    fflush(stdout); /* before what is said of it on stderr */
    if (info->label && n_classes == 1) dn_warn("there is one class: nothing can be learnt");
    for (uint64_t k = 0; info->label && k < s->n_folds * DN_SPLIT_SETS; k++) {
        for (uint64_t c = 0; c < n_classes; c++)
            thin += k % DN_SPLIT_SETS != DN_SPLIT_TRAIN && !counts[k * n_classes + c];
    }
    if (thin)
        dn_warn(
            "in %llu cases a class has nobody in a validation or test set: its accuracy there cannot be told",
            (ull)thin);
    status = split_table_check(s, info, counts, n_classes, err);
    if (status == DN_ENUMERIC && o->common.force) {
        dn_warn("%s", err->msg);
        status = DN_OK;
    }
    free(counts);
    return status;
}

static void show_progress(void *ctx, uint64_t done)
{
    (void)ctx;
    dn_progress(done);
}

static dn_status write_stats(const split_options *o, dn_dataset *d, const dn_split *s, unsigned flags,
                             dn_err *err)
{
    dn_status status;
    dn_pool *pool = NULL;
    split_stats_found found = {0};
    const split_stats_opts so = {o->stats_npz,     o->embedding_npz, flags,
                                 o->common.memory, show_progress,    NULL};
    DN_TRY(dn_alloc(&found.n_flat, s->n_folds, sizeof *found.n_flat, "folds", err));
    DN_TRY(dn_alloc(&found.n_empty, s->n_folds, sizeof *found.n_empty, "folds", err));
    DN_TRY(dn_pool_new(&pool, o->common.threads, err));
    dn_progress_start("counting dosages", dn_dataset_info(d)->n_people, "people");
    status = split_stats_write(d, s, &so, pool, &found, err);
    dn_progress_end();
    if (status != DN_OK) goto done;
    for (uint64_t f = 0; f < s->n_folds; f++) {
        if (!found.n_flat[f]) continue;
        dn_warn("fold %llu: %llu SNPs do not vary in the training set (%llu have no call there): they "
                "contribute nothing",
                (ull)f, (ull)found.n_flat[f], (ull)found.n_empty[f]);
    }
    dn_info("counted %.0f MB of packed genotypes at %.2f GB/s", found.count_bytes / 1e6,
            found.count_bytes / fmax(found.count_seconds, 1e-9) / 1e9);
done:
    dn_pool_free(pool);
    free(found.n_flat);
    free(found.n_empty);
    return status;
}

static dn_status run(const split_options *o, dn_err *err)
{
    dn_status status;
    dn_dataset *d = NULL;
    dn_split *s = NULL;
    const unsigned flags = o->common.force ? DN_OUT_FORCE : 0;
    DN_TRY(check_outputs(o, flags, err));
    DN_TRY(dn_dataset_open(&d, o->data, err));
    const dn_gpk_info *info = dn_dataset_info(d);
    dn_info("%s: %llu people, %llu SNPs, %llu classes", o->data, (ull)info->n_people, (ull)info->n_snps,
            (ull)(info->label ? info->class_names.n : 0));
    DN_TRY(dn_alloc(&s, 1, sizeof *s, "split", err));
    s->n_people = info->n_people;
    DN_TRY(split_make(o, info, s, err));
    DN_TRY(report(o, s, info, err));
    if (o->out) {
        dn_progress_start("reading the dataset's fingerprint", info->n_people, "people");
        status = dn_dataset_fingerprint(d, &s->data_hash, show_progress, NULL, err);
        dn_progress_end();
        if (status != DN_OK) goto done;
    }
    if (o->stats_npz || o->embedding_npz) DN_TRY(write_stats(o, d, s, flags, err));
    if (o->export_npz)
        DN_TRY(split_npz_write(o->export_npz, &info->people, s->folds, s->n_folds, flags, err));
    if (o->out) {
        DN_TRY(dn_split_write(o->out, s, flags, err));
        dn_info("%s: %llu folds, dataset %016llx, split %016llx", o->out, (ull)s->n_folds, (ull)s->data_hash,
                (ull)s->hash);
    }
    status = DN_OK;
done:
    dn_split_free(s);
    dn_dataset_close(d);
    return status;
}

int main(int argc, char **argv)
{
    dn_err err = {0};
    dn_status status;
    dn_strs operands = {0};
    split_options o = {.common = DN_COMMON_DEFAULT, .folds = 5, .seed = 23, .ratio = 0.75};
    const dn_opt opts[] = {
        {DN_OPT_GROUP, "Folds", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_U64, "folds", 'k', &o.folds, "K", 2, (double)DN_MAX_FOLDS, "number of folds", &o.folds_given},
        {DN_OPT_U64, "seed", 's', &o.seed, "S", 0, 4294967295.0, "seed of the draw", &o.seed_given},
        {DN_OPT_FLAG, "balance-class", 'b', &o.balance, NULL, 0, 0, "spread each class evenly over the folds",
         NULL},
        {DN_OPT_DOUBLE, "train-valid-ratio", 0, &o.ratio, "R", 0.0001, 0.9999,
         "share of the people not tested who train, without --balance-class", &o.ratio_given},
        {DN_OPT_STR, "from-npz", 0, &o.from_npz, "FILE", 0, 0,
         "take upstream's partition as it is instead of drawing", NULL},
        {DN_OPT_STR, "group", 'g', &o.group, "FILE", 0, 0,
         "keep people of one group in one set: a line each, IID and group, or FID, IID and group", NULL},
        {DN_OPT_FLAG, "group-by-fid", 0, &o.group_by_fid, NULL, 0, 0,
         "the same, with the family ID as group (0 is none)", NULL},
        {DN_OPT_GROUP, "Output", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_STR, "out", 'o', &o.out, "FILE", 0, 0, "the split, for dntrain and dncheck", NULL},
        {DN_OPT_STR, "export-npz", 0, &o.export_npz, "FILE", 0, 0, "the partition for upstream's train.py",
         NULL},
        {DN_OPT_STR, "stats-npz", 0, &o.stats_npz, "FILE", 0, 0,
         "upstream's means and standard deviations of each training set", NULL},
        {DN_OPT_STR, "embedding-npz", 0, &o.embedding_npz, "FILE", 0, 0,
         "upstream's embedding of each training set", NULL},
        DN_COMMON_OPTS(o.common)};
    const size_t n_opts = sizeof opts / sizeof *opts;
    dn_log_start("dnsplit", argc, argv);
    DN_TRY(dn_isa_check(&err));
    DN_TRY(dn_opt_parse(argc, argv, opts, n_opts, &operands, &err));
    if (o.common.help) {
        dn_opt_help(stdout, "Usage: dnsplit DATASET [options] -o split.h5", about, opts, n_opts, tail);
        goto done;
    }
    if (o.common.version) {
        dn_print_version();
        goto done;
    }
    DN_TRY(check_options(&o, &operands, &err));
    DN_TRY(dn_common_finish(&o.common, &err));
    dn_log_level(o.common.quiet, o.common.verbose);
    dn_out_on_signal();
    o.data = dn_strs_get(&operands, 0);
    status = run(&o, &err);
done:
    dn_strs_free(&operands);
    return dn_finish(status, &err);
}
