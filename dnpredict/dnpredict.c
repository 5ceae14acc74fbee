/* dnpredict: the ensemble of a model over a matched cohort, into a table of predictions. Options, order of
 * work, exit. */
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "dnpredict_join.h"
#include "dnpredict_run.h"
#include "dnpredict_table.h"
#include "geno.h"
#include "io.h"
#include "log.h"
#include "matched.h"
#include "model.h"
#include "opt.h"
#include "par.h"

typedef unsigned long long ull;

typedef struct {
    dn_common common;
    const char *model, *out, *scores, *report, *classes, *shard;
    bool join;
    dn_device_opts device;
    uint64_t shard_i, shard_n; /* 0: everybody */
} options;

/* What one option alone cannot tell. */
static dn_status check_options(options *o, const dn_strs *operands, dn_err *err)
{
    if (!o->out)
        return dn_fail(err, DN_EUSAGE, "no output: give -o predictions.tsv, or -o - for standard output");
    if (o->report && strcmp(o->report, o->out) == 0)
        return dn_fail(err, DN_EUSAGE, "-o and --report name the same file");
    if (o->join) {
        if (operands->n == 0)
            return dn_fail(err, DN_EUSAGE,
                           "--join needs the parts: dnpredict --join part*.tsv -o predictions.tsv");
        const char *other = o->model                             ? "model"
                            : o->scores                          ? "scores"
                            : o->shard                           ? "shard"
                            : o->classes                         ? "classes"
                            : o->device.device != DN_DEVICE_AUTO ? "device"
                            : o->device.gpus_given               ? "gpus"
                            : o->device.precision                ? "precision"
                                                                 : NULL;
        if (other)
            return dn_fail(err, DN_EUSAGE, "--join takes parts, -o and --report only: not --%s", other);
        return DN_OK;
    }
    if (!o->model)
        return dn_fail(err, DN_EUSAGE, "no model: give --model with a folder of packages or a release");
    if (operands->n != 1) {
        return dn_fail(err, DN_EUSAGE, "%s: give one matched .gpk or .h5 from snpmatch, or - for a pipe",
                       operands->n ? "more than one input" : "no input");
    }
    if (o->scores && strcmp(o->scores, "-") == 0)
        return dn_fail(err, DN_EUSAGE, "--scores is an HDF5 file and cannot go to a pipe");
    if (o->scores && strcmp(o->scores, o->out) == 0)
        return dn_fail(err, DN_EUSAGE, "-o and --scores name the same file");
    if (o->report && o->scores && strcmp(o->scores, o->report) == 0)
        return dn_fail(err, DN_EUSAGE, "--report and --scores name the same file");
    if (o->shard) {
        char first[32];
        const char *slash = strchr(o->shard, '/');
        size_t n = slash ? (size_t)(slash - o->shard) : sizeof first;
        bool ok = n < sizeof first;
        if (ok) {
            memcpy(first, o->shard, n);
            first[n] = 0;
            ok = dn_parse_u64(first, &o->shard_i) && dn_parse_u64(slash + 1, &o->shard_n) &&
                 o->shard_i >= 1 && o->shard_i <= o->shard_n && o->shard_n <= 1000000;
        }
        if (!ok)
            return dn_fail(err, DN_EUSAGE, "--shard \"%s\" must be I/N with I from 1 to N, such as 3/10",
                           o->shard);
    }
    return DN_OK;
}

static dn_status run_join(const options *o, const dn_strs *parts, unsigned flags, dn_err *err)
{
    dn_join_stats st;
    dn_status status = dn_join(parts, o->out, o->report, flags, &st, err);
    if (status == DN_OK) {
        dn_info("joined %llu parts: every one of %llu people is in the table once", (ull)st.n_parts,
                (ull)st.n_people);
    }
    return status;
}

static void say_match(const dn_matched *c, const dn_model *model)
{
    double share = (double)c->n_cols / (double)model->n_snps;
    dn_info("%zu models, %llu SNPs; %llu of them matched (%.1f %%), scale %.6g", model->n_members,
            (ull)model->n_snps, (ull)c->n_cols, 100 * share, c->scale);
    if (share < 0.25) {
        dn_warn("only %llu of the model's %llu SNPs (%.1f %%) matched: predictions rest on little; see "
                "snpmatch's report",
                (ull)c->n_cols, (ull)model->n_snps, 100 * share);
    }
    if (c->without_alleles) {
        dn_warn("the cohort was matched by SNP IDs alone: if its A1/A2 are the other way round at some SNPs, "
                "predictions are wrong "
                "without any sign of it");
    }
}

static void say_result(const dn_predict_stats *st, const dn_model *model, const dn_matched *c, bool cuda)
{
    uint64_t units = 0;
    for (size_t m = 0; m < model->n_members; m++) units += model->members[m].layer[0].n_out;
    if (st->no_call)
        dn_warn("%llu of %llu people have no call at any matched SNP: their predictions are NA",
                (ull)st->no_call, (ull)st->n_people);
    if (st->low_call) {
        dn_warn("%llu of %llu people have calls at less than half of the matched SNPs: see call_rate",
                (ull)st->low_call, (ull)st->n_people);
    }
    double fat = (double)st->n_people * (double)c->n_cols * (double)units;
    if (st->seconds > 0 && cuda) {
        dn_info("%llu people predicted: %.0f people/s; the GPU was waited for in %.2f of %.2f s",
                (ull)st->n_people, (double)st->n_people / st->seconds, st->fat_seconds, st->seconds);
    } else if (st->seconds > 0 && st->fat_cpu > 0) {
        dn_info("%llu people predicted: %.0f people/s, %.0f per CPU second; fat layer %.1f G multiply-add "
                "equivalents per CPU second",
                (ull)st->n_people, (double)st->n_people / st->seconds, (double)st->n_people / st->cpu,
                fat / st->fat_cpu / 1e9);
    }
}

static dn_status run_predict(const options *o, const char *input, unsigned flags, dn_err *err)
{
    dn_status status;
    dn_matched *cohort = NULL;
    dn_model *model = NULL;
    dn_pool *pool = NULL;
    dn_part part;
    dn_predict_plan plan;
    dn_predict_stats st;
    static dn_device dev; /* large */
    DN_TRY(dn_out_check(o->out, flags, err));
    if (o->scores) DN_TRY(dn_out_check(o->scores, flags | DN_OUT_BINARY, err));
    if (o->report) DN_TRY(dn_out_check(o->report, flags, err));
    DN_TRY(dn_device_choose(&dev, &o->device, o->common.threads, err));
    if (dev.loud)
        dn_warn("%s", dev.line);
    else
        dn_info("%s", dev.line);
    DN_TRY(dn_pool_new(&pool, o->common.threads, err));
    /* Files are looked at before the model is loaded, so that a wrong name costs nothing. */
    bool piped = strcmp(input, "-") == 0;
    if (!piped) DN_TRY(dn_matched_open(&cohort, input, err));
    dn_model_opts mo = {.classes_file = o->classes, .threads = o->common.threads, .memory = o->common.memory};
    DN_TRY(dn_model_open(&model, o->model, &mo, err));
    if (piped) DN_TRY(dn_matched_open(&cohort, input, err));
    DN_TRY(dn_matched_check(cohort, model, err));
    say_match(cohort, model);
    if (o->shard_n) {
        part = (dn_part){.shard = o->shard_i, .n_shards = o->shard_n, .n_people = cohort->n_people};
        dn_part_range(o->shard_i, o->shard_n, cohort->n_people, &part.first, &part.last);
        part.people_hash = dn_table_people_hash(&cohort->people);
        part.run = dn_predict_run_hash(model, cohort, dev.cuda && dev.options.tf32);
        dn_info("shard %llu of %llu: people %llu to %llu of %llu", (ull)o->shard_i, (ull)o->shard_n,
                (ull)part.first + 1, (ull)part.last, (ull)cohort->n_people);
    }
    uint64_t n = o->shard_n ? part.last - part.first : cohort->n_people;
    dn_predict_job job = {.model = model,
                          .cohort = cohort,
                          .out = o->out,
                          .scores = o->scores,
                          .report = o->report,
                          .name = piped ? "a cohort from a pipe" : input,
                          .out_flags = flags,
                          .part = o->shard_n ? &part : NULL,
                          .memory = o->common.memory,
                          .pool = pool,
                          .device = &dev,
                          .progress = dn_progress};
    DN_TRY(dn_predict_plan_make(&job, &plan, err));
    dn_info("memory: weights %.1f MiB, blocks of %llu people %.1f MiB, bound %.1f MiB",
            (double)plan.weights / 1048576, (ull)plan.people, (double)plan.block / 1048576,
            (double)o->common.memory / 1048576);
    /* From here on this process may hold CUDA: all HDF5 inputs are open (device.h). */
    DN_TRY(dn_device_load(&dev, err));
    if (dev.cuda)
        dn_info("memory on the GPU: about %.1f of %.1f MiB free", (double)plan.gpu / 1048576,
                (double)dn_device_memory(&dev) / 1048576);
    dn_progress_start("predicting", n, "people");
    status = dn_predict_run(&job, &plan, &st, err);
    dn_progress_end();
    if (status != DN_OK) goto done;
    say_result(&st, model, cohort, dev.cuda);
done:
    dn_matched_close(cohort);
    dn_model_free(model);
    dn_pool_free(pool);
    return status;
}

int main(int argc, char **argv)
{
    dn_err err = {0};
    dn_status status;
    options o = {.common = DN_COMMON_DEFAULT, .device = DN_DEVICE_DEFAULT};
    dn_strs operands = {0};
    o.common.memory = (uint64_t)4 << 30;
    const dn_opt table[] = {
        {DN_OPT_GROUP, "Input", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_STR, "model", 'm', &o.model, "DIR", 0, 0,
         "folder of packages, one package, or a release directory", NULL},
        {DN_OPT_STR, "classes", 0, &o.classes, "FILE", 0, 0,
         "class names, one per line, instead of the model's (a release of other than 24 classes has none)",
         NULL},
        {DN_OPT_GROUP, "Output", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_STR, "out", 'o', &o.out, "FILE", 0, 0, "the table of predictions; - is standard output",
         NULL},
        {DN_OPT_STR, "scores", 's', &o.scores, "FILE.h5", 0, 0,
         "also every model's probabilities and last hidden layer", NULL},
        {DN_OPT_STR, "report", 'r', &o.report, "FILE.html", 0, 0,
         "also a page to look at: people per population, confidence, agreement, overlap, warnings", NULL},
        {DN_OPT_GROUP, "Array jobs", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_STR, "shard", 0, &o.shard, "I/N", 0, 0,
         "predict only the I-th of N equal parts of the people (I from 1)", NULL},
        {DN_OPT_FLAG, "join", 0, &o.join, NULL, 0, 0, "put the parts of all N shards together, checked",
         NULL},
        DN_DEVICE_OPTS(o.device),
        DN_COMMON_OPTS(o.common),
    };
    const size_t n = sizeof table / sizeof table[0];
    dn_log_start("dnpredict", argc, argv);
    dn_out_on_signal();
    DN_TRY(dn_opt_parse(argc, argv, table, n, &operands, &err));
    if (o.common.help) {
        dn_opt_help(stdout,
                    "Usage: dnpredict --model DIR MATCHED -o predictions.tsv [--scores scores.h5]\n"
                    "       snpmatch ... -o - | dnpredict --model DIR - -o predictions.tsv\n"
                    "       dnpredict --join PART... -o predictions.tsv",
                    "Predicts every person's population with an ensemble of Diet Networks. MATCHED is what "
                    "snpmatch wrote (.gpk or .h5,\n"
                    "or - for a pipe), or upstream's matched.hdf5.",
                    table, n,
                    "Columns and formats: docs/format-predictions.md. Exit codes: docs/exit-codes.md.");
        goto done;
    }
    if (o.common.version) {
        DN_TRY(dn_isa_check(&err));
        dn_print_version();
        goto done;
    }
    dn_log_level(o.common.quiet, o.common.verbose);
    DN_TRY(dn_isa_check(&err));
    DN_TRY(check_options(&o, &operands, &err));
    DN_TRY(dn_common_finish(&o.common, &err));
    unsigned flags = o.common.force ? DN_OUT_FORCE : 0;
    DN_TRY(o.join ? run_join(&o, &operands, flags, &err)
                  : run_predict(&o, dn_strs_get(&operands, 0), flags, &err));
done:
    if (o.common.help || o.common.version) dn_log_level(true, false);
    dn_strs_free(&operands);
    return dn_finish(status, &err);
}
