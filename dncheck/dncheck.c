/* dncheck.c: the command line of dncheck. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_dir.h"
#include "check_file.h"
#include "check_release.h"
#include "check_report.h"
#include "findings.h"
#include "geno.h"
#include "heldout.h"
#include "log.h"
#include "opt.h"
#include "published.h"

typedef struct {
    dn_common common;
    bool full, json;
    const char *folds, *seeds, *data, *split, *published, *confusion, *report;
    dn_strs paths;
} options;

typedef struct {
    findings found;
    dn_dataset *dataset;
    dn_split *split;
    dn_pool *pool;
    uint64_t *folds, *seeds;
    size_t n_folds, n_seeds;
    check_members members;
    heldout heldout;
    bool have_heldout, have_published;
    published published;
} state;

static dn_status check_options(const options *o, dn_err *err)
{
    if (o->paths.n == 0)
        return dn_fail(err, DN_EUSAGE,
                       "name what to check: a file, a folder of models, or a release (see --help)");
    bool needs_one = o->folds || o->seeds || o->data || o->split || o->published || o->confusion || o->report;
    if (needs_one && o->paths.n != 1) {
        return dn_fail(err, DN_EUSAGE,
                       "--folds, --seeds, --data, --split, --published, --confusion and --report go with one "
                       "folder; %llu were given",
                       (unsigned long long)o->paths.n);
    }
    if (o->published && !(o->data && o->split))
        return dn_fail(err, DN_EUSAGE, "--published needs --data and --split: accuracies are recomputed");
    if (o->confusion && !(o->data && o->split))
        return dn_fail(err, DN_EUSAGE, "--confusion needs --data and --split");
    if (o->data && !o->split)
        return dn_fail(err, DN_EUSAGE, "--data needs --split: without it nobody is known to be held out");
    return DN_OK;
}

static dn_status open_inputs(state *s, const options *o, dn_err *err)
{
    dn_status status = DN_OK;
    if (o->folds) DN_TRY(dn_parse_list("--folds", o->folds, &s->folds, &s->n_folds, err));
    if (o->seeds) DN_TRY(dn_parse_list("--seeds", o->seeds, &s->seeds, &s->n_seeds, err));
    DN_TRY(dn_pool_new(&s->pool, o->common.threads, err));
    if (o->split) DN_TRY(dn_split_read(&s->split, o->split, err));
    if (o->data) {
        uint64_t hash;
        DN_TRY(dn_dataset_open(&s->dataset, o->data, err));
        DN_TRY(dn_dataset_fingerprint(s->dataset, &hash, NULL, NULL, err));
        if (hash != s->split->data_hash) {
            DN_TRY(dn_fail(err, DN_EMISMATCH,
                           "%s was not made for %s: give the dataset that the split was drawn from", o->split,
                           o->data));
        }
    }
done:
    return status;
}

/* A folder of packages, with everything that can be asked of it. */
static dn_status check_models(state *s, const options *o, const char *dir, const check_opts *how, dn_err *err)
{
    dn_status status;
    check_expect want = {.folds = s->folds,
                         .seeds = s->seeds,
                         .n_folds = s->n_folds,
                         .n_seeds = s->n_seeds,
                         .split = s->split};
    if (s->dataset) {
        want.has_data = true;
        DN_TRY(dn_dataset_fingerprint(s->dataset, &want.data_hash, NULL, NULL, err));
    }
    DN_TRY(check_directory(&s->found, &s->members, dir, &want, how, err));
    if (!s->dataset) goto done;
    if (s->members.n_good == 0) {
        status = found(&s->found, err, FOUND_NOTE, DN_OK, "held-out", dir,
                       "no member could be read: nothing to judge");
        goto done;
    }
    dn_err e = {0};
    status = heldout_run(&s->heldout, &s->members, s->dataset, s->split, o->full || o->report, s->pool, &e);
    if (status != DN_OK) {
        status = found_error(&s->found, err, "held-out", dir, &e);
        goto done;
    }
    s->have_heldout = true;
    DN_TRY(heldout_report(&s->heldout, &s->found, err));
    if (o->confusion) {
        if (s->heldout.task != DN_TASK_CLASSIFICATION)
            DN_TRY(dn_fail(err, DN_EMISMATCH, "--confusion: these models predict a number, not a class"));
        DN_TRY(heldout_confusion(&s->heldout, o->confusion, o->common.force ? DN_OUT_FORCE : 0, err));
    }
    if (o->published) {
        DN_TRY(published_compare(&s->published, o->published, &s->heldout, err));
        s->have_published = true;
        DN_TRY(published_report(&s->published, &s->heldout, &s->found, err));
    }
done:
    return status;
}

static dn_status check_one(state *s, const options *o, const char *path, dn_err *err)
{
    bool folder = false;
    check_opts how = {.full = o->full || o->report, .threads = o->common.threads};
    dn_err e = {0};
    dn_status status = check_is_folder(path, &folder, &e);
    if (status != DN_OK) return found_error(&s->found, err, "file", path, &e);
    if (!folder) return check_file(&s->found, path, &how, err);
    if (check_is_release(path)) {
        if (s->dataset) how.full = true;
        return check_release(&s->found, path, s->dataset, s->split, &how, s->pool, err);
    }
    return check_models(s, o, path, &how, err);
}

static dn_status write_report(const state *s, const options *o, dn_err *err)
{
    report_input in = {.what = dn_strs_get(&o->paths, 0),
                       .found = &s->found,
                       .members = &s->members,
                       .heldout = s->have_heldout ? &s->heldout : NULL,
                       .published = s->have_published ? &s->published : NULL};
    return report_write(o->report, o->common.force ? DN_OUT_FORCE : 0, &in, err);
}

static dn_status run(state *s, const options *o, dn_err *err)
{
    dn_status status;
    dn_out *out = NULL;
    if (o->report) DN_TRY(dn_out_check(o->report, o->common.force ? DN_OUT_FORCE : 0, err));
    if (o->confusion) DN_TRY(dn_out_check(o->confusion, o->common.force ? DN_OUT_FORCE : 0, err));
    DN_TRY(open_inputs(s, o, err));
    for (uint64_t i = 0; i < o->paths.n; i++) DN_TRY(check_one(s, o, dn_strs_get(&o->paths, i), err));
    DN_TRY(dn_out_open(&out, "-", 0, err));
    DN_TRY(o->json ? findings_json(&s->found, out, err) : findings_tsv(&s->found, out, err));
    DN_TRY(dn_out_commit(&out, err));
    if (o->report) DN_TRY(write_report(s, o, err));
    if (s->found.n_faults) {
        status = dn_fail(err, s->found.worst,
                         "%zu fault%s and %zu warning%s were found: see the lines that begin with FAULT",
                         s->found.n_faults, s->found.n_faults == 1 ? "" : "s", s->found.n_warnings,
                         s->found.n_warnings == 1 ? "" : "s");
    } else {
        dn_info("all holds; %zu warning%s", s->found.n_warnings, s->found.n_warnings == 1 ? "" : "s");
    }
done:
    dn_out_abort(&out);
    return status;
}

static void state_free(state *s)
{
    published_free(&s->published);
    heldout_free(&s->heldout);
    check_members_free(&s->members);
    findings_free(&s->found);
    dn_dataset_close(s->dataset);
    dn_split_free(s->split);
    dn_pool_free(s->pool);
    free(s->folds);
    free(s->seeds);
}

int main(int argc, char **argv)
{
    options o = {.common = DN_COMMON_DEFAULT};
    const dn_opt opts[] = {
        {DN_OPT_GROUP, "What to check", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_FLAG, "full", 0, &o.full, NULL, 0, 0,
         "read everything: every checksum, every number finite, logs to their end", NULL},
        {DN_OPT_STR, "folds", 0, &o.folds, "LIST", 0, 0,
         "folds that must be there, as 0-4 (default: the split's, else those found)", NULL},
        {DN_OPT_STR, "seeds", 0, &o.seeds, "LIST", 0, 0,
         "seeds that must be there, as 78,23,124 (default: those found)", NULL},
        {DN_OPT_STR, "data", 0, &o.data, "FILE", 0, 0,
         "dataset (.gpk or .h5): held-out accuracy, recomputed; for a release, its statistics", NULL},
        {DN_OPT_STR, "split", 0, &o.split, "FILE", 0, 0, "split.h5 that the models were trained on", NULL},
        {DN_OPT_STR, "published", 0, &o.published, "FILE", 0, 0,
         "TSV of published accuracies (fold, seed, test_acc) to compare with", NULL},
        {DN_OPT_GROUP, "Output", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_FLAG, "json", 0, &o.json, NULL, 0, 0, "findings as JSON instead of TSV", NULL},
        {DN_OPT_STR, "confusion", 0, &o.confusion, "FILE", 0, 0,
         "confusion matrix of the held-out ensemble, as TSV", NULL},
        {DN_OPT_STR, "report", 0, &o.report, "FILE", 0, 0,
         "one HTML page with tables and plots (reads everything, as --full)", NULL},
        DN_COMMON_OPTS(o.common),
    };
    enum { N = sizeof opts / sizeof opts[0] };
    dn_err err = {0};
    dn_status status;
    state s;
    memset(&s, 0, sizeof s);
    dn_log_start("dncheck", argc, argv);
    DN_TRY(dn_opt_parse(argc, argv, opts, N, &o.paths, &err));
    if (o.common.help) {
        dn_opt_help(stdout, "Usage: dncheck PATH [--full] [--data FILE --split FILE] [options]",
                    "Checks what the other programs wrote and read: any of their files, a folder of trained "
                    "models, or upstream's\n"
                    "release. One line per finding on stdout; exit code 0 only if all holds.",
                    opts, N,
                    "Exit codes: docs/exit-codes.md. Example, after a training:\n"
                    "  dncheck models --folds 0-4 --seeds 78,23,124 --data panel.gpk --split split.h5 --full "
                    "--report report.html");
        goto done;
    }
    DN_TRY(dn_isa_check(&err));
    if (o.common.version) {
        dn_print_version();
        goto done;
    }
    DN_TRY(dn_common_finish(&o.common, &err));
    DN_TRY(check_options(&o, &err));
    dn_log_level(o.common.quiet, o.common.verbose);
    dn_out_on_signal();
    status = run(&s, &o, &err);
done:
    state_free(&s);
    dn_strs_free(&o.paths);
    return dn_finish(status, &err);
}
