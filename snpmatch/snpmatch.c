/* snpmatch: aligns the SNPs of a PLINK cohort with those of a model, and writes the people's genotypes in the
 * model's terms. This file: options and the order of the work. The rules of matching are in match*.c,
 * genotypes in common/blocks.c, files in write.c, words in report.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cohort.h"
#include "geno.h"
#include "io.h"
#include "log.h"
#include "match.h"
#include "model_list.h"
#include "opt.h"
#include "par.h"
#include "plink.h"
#include "report.h"
#include "write.h"

typedef unsigned long long ull;

typedef struct {
    dn_common common;
    dn_strs bfile;
    const char *model, *out, *report, *keep, *remove, *samples;
    int by, ambiguous;
    bool no_strand_flip, no_alleles, min_given;
    uint64_t min_overlap;
    uint64_t first, last; /* of --samples: people [first, last) */
} options;

/* Rules that one option alone does not show. */
static dn_status check_options(options *o, const dn_strs *operands, dn_err *err)
{
    if (operands->n) {
        return dn_fail(err, DN_EUSAGE,
                       "unexpected argument \"%s\": filesets are given with --bfile, the model with --model",
                       dn_strs_get(operands, 0));
    }
    if (!o->bfile.n) return dn_fail(err, DN_EUSAGE, "no cohort: give --bfile PREFIX (see --help)");
    if (!o->model) return dn_fail(err, DN_EUSAGE, "no model: give --model DIR (see --help)");
    if (!o->out && !o->report) {
        return dn_fail(err, DN_EUSAGE,
                       "nothing to write: give -o FILE, or --report FILE alone to see what would match");
    }
    if (o->out && o->report && strcmp(o->out, o->report) == 0) {
        return dn_fail(err, DN_EUSAGE, "-o and --report are both \"%s\": give them different names", o->out);
    }
    if (o->out && strcmp(o->out, "-") == 0 && o->report && strcmp(o->report, "/dev/stdout") == 0) {
        return dn_fail(err, DN_EUSAGE, "-o - and --report /dev/stdout would mix: give the report a file");
    }
    if (o->samples && !dn_parse_range(o->samples, &o->first, &o->last)) {
        return dn_fail(
            err, DN_EUSAGE,
            "--samples \"%s\" must be FIRST:LAST, people of the .fam counted from 1, such as 1:1000",
            o->samples);
    }
    return DN_OK;
}

/* --force must never let an output replace an input. */
static dn_status not_an_input(const char *option, const char *out, const options *o, const dn_plink *p,
                              dn_err *err)
{
    struct stat a, b;
    if (!out || strcmp(out, "-") == 0 || stat(out, &a) != 0 || !S_ISREG(a.st_mode)) return DN_OK;
    for (size_t k = 0; k <= p->n_sets; k++) {
        const dn_fileset *s = k < p->n_sets ? &p->sets[k] : NULL;
        const char *in[] = {s ? s->bed : o->model, s ? s->bim : o->keep, s ? s->fam : o->remove};
        for (size_t i = 0; i < 3; i++) {
            if (in[i] && stat(in[i], &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
                return dn_fail(err, DN_EUSAGE, "%s %s is the input %s: choose another name", option, out,
                               in[i]);
            }
        }
    }
    return DN_OK;
}

static void show_progress(void *ctx, uint64_t people)
{
    (void)ctx;
    dn_progress(people);
}

static dn_status run(const options *o, dn_err *err)
{
    dn_status status;
    dn_model_list model = {0};
    dn_plink *cohort = NULL;
    dn_match match = {0};
    dn_match_freq freq = {0};
    dn_pool *pool = NULL;
    dn_out *report = NULL;
    uint8_t *keep = NULL;
    uint64_t n_kept;
    unsigned out_flags = o->common.force ? DN_OUT_FORCE : 0;
    const dn_match_opts opts = {(dn_match_by)o->by, (dn_match_ambiguous)o->ambiguous, o->no_strand_flip,
                                o->no_alleles};

    /* What can be refused early is. */
    if (o->out) DN_TRY(dn_out_check(o->out, out_flags | DN_OUT_BINARY, err));
    if (o->report) DN_TRY(dn_out_check(o->report, out_flags, err));
    DN_TRY(dn_pool_new(&pool, (size_t)o->common.threads, err));
    DN_TRY(dn_model_list_open(&model, o->model, (size_t)o->common.threads, err));
    DN_TRY(dn_plink_open(&cohort, &o->bfile, err));
    DN_TRY(not_an_input("-o", o->out, o, cohort, err));
    DN_TRY(not_an_input("--report", o->report, o, cohort, err));
    DN_TRY(dn_cohort_choose(cohort, &(dn_cohort_choice){o->keep, o->remove, o->samples, o->first, o->last},
                            &keep, &n_kept, err));
    dn_info("cohort: %llu people%s x %llu SNPs in %zu fileset%s; model: %llu SNPs (%s)", (ull)n_kept,
            keep ? " (chosen)" : "", (ull)cohort->n_snps, cohort->n_sets, cohort->n_sets == 1 ? "" : "s",
            (ull)model.snps->id.n, model.what);

    DN_TRY(dn_cohort_match(cohort, model.snps, &opts, &match, err));
    dn_match_job job = {.cohort = cohort,
                        .model = &model,
                        .match = &match,
                        .keep = keep,
                        .no_alleles = o->no_alleles,
                        .memory = o->common.memory,
                        .pool = pool,
                        .out_flags = out_flags,
                        .progress = show_progress};
    if (o->ambiguous == DN_AMBIGUOUS_FREQ) DN_TRY(dn_match_resolve(&job, &match, o->no_strand_flip, err));
    dn_report_summary(&model, &match);
    dn_report_warn(&model, &match, &opts);

    /* A report alone is how one looks into a match that is refused, so then it is only said. */
    uint64_t floor = o->min_given ? o->min_overlap : dn_report_floor(match.n_model);
    status = dn_report_check(&model, &match, floor, o->common.force, err);
    if (o->out)
        DN_TRY(status);
    else if (status != DN_OK)
        dn_warn("with -o this would stop: %s", err->msg);
    if (o->report) {
        DN_TRY(dn_out_open(&report, o->report, out_flags, err));
        DN_TRY(dn_report_write(report, &model, &match, err));
        DN_TRY(dn_out_sync(report, err)); /* a disk that is full shows before the long part, not after */
    }
    if (o->out) {
        dn_progress_start("matching", cohort->people.iid.n, "people");
        status = dn_match_write(&job, o->out, &freq, err);
        dn_progress_end();
        DN_TRY(status);
        dn_report_frequencies(&freq);
        for (size_t k = 0; k < cohort->n_sets; k++) {
            if (!cohort->sets[k].padding_dirty) continue;
            dn_warn("%s: bits after the last person are set; they were ignored, but some programs read them",
                    cohort->sets[k].bed);
            break;
        }
    }
    if (report) DN_TRY(dn_out_commit(&report, err));
    status = DN_OK;
done:
    dn_out_abort(&report);
    dn_match_free(&match);
    free(keep);
    dn_plink_close(cohort);
    dn_model_list_close(&model);
    dn_pool_free(pool);
    return status;
}

static const char about[] =
    "Aligns a PLINK cohort with a model's SNPs: finds each SNP by ID or position, turns dosages round where "
    "A1 and A2 are\n"
    "swapped or the other strand was typed, and writes the people's genotypes in the model's terms.";
static const char tail[] =
    "A SNP that cannot be used is missing for everyone; --report names the reason for each. --force also "
    "goes on below the\n"
    "floor and against signs of another genome build. Exit codes: docs/exit-codes.md. Example:\n"
    "  snpmatch --bfile cohort --model release/ -o cohort.gpk --report cohort.report.tsv";

int main(int argc, char **argv)
{
    options o = {.common = DN_COMMON_DEFAULT};
    const dn_opt opts[] = {
        {DN_OPT_GROUP, "Input", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_LIST, "bfile", 'b', &o.bfile, "PREFIX", 0, 0,
         "PLINK 1 fileset PREFIX.bed/.bim/.fam; may be repeated, or hold '@' for the chromosome", NULL},
        {DN_OPT_STR, "model", 'm', &o.model, "PATH", 0, 0,
         "release or package folder, package, or a bare SNP list: .bim or .gpk", NULL},
        {DN_OPT_STR, "keep", 0, &o.keep, "FILE", 0, 0, "only these people: FID IID, or IID, per line", NULL},
        {DN_OPT_STR, "remove", 0, &o.remove, "FILE", 0, 0, "all but these people", NULL},
        {DN_OPT_STR, "samples", 0, &o.samples, "FIRST:LAST", 0, 0,
         "only people FIRST to LAST of the .fam, counted from 1", NULL},
        {DN_OPT_GROUP, "Output", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_STR, "out", 'o', &o.out, "FILE", 0, 0,
         ".h5 or .hdf5: upstream's matched.hdf5; any other name, and - for a pipe: .gpk", NULL},
        {DN_OPT_STR, "report", 'r', &o.report, "FILE", 0, 0,
         "TSV with the reason for every SNP of the model; without -o nothing else is written", NULL},
        {DN_OPT_GROUP, "Matching", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_CHOICE, "by", 0, &o.by, "auto|id|pos", 0, 0,
         "find SNPs by variant ID, by chromosome and position, or whichever finds more", NULL},
        {DN_OPT_CHOICE, "ambiguous", 0, &o.ambiguous, "keep|drop|freq", 0, 0,
         "A/T and C/G SNPs: take as on the model's strand, leave out, or decide by allele frequency", NULL},
        {DN_OPT_FLAG, "no-strand-flip", 0, &o.no_strand_flip, NULL, 0, 0,
         "leave out SNPs that fit only on the other strand", NULL},
        {DN_OPT_FLAG, "no-alleles", 0, &o.no_alleles, NULL, 0, 0,
         "do not look at alleles (risky: see docs/snpmatch.md)", NULL},
        {DN_OPT_U64, "min-overlap", 0, &o.min_overlap, "N", 1, 4e9,
         "stop when fewer SNPs can be used (default: 1000, or half of a model under 2000 SNPs)",
         &o.min_given},
        DN_COMMON_OPTS(o.common),
    };
    enum { N = sizeof opts / sizeof opts[0] };
    dn_err err = {0};
    dn_strs operands = {0};
    dn_status status;
    dn_log_start("snpmatch", argc, argv);
    DN_TRY(dn_isa_check(&err));
    DN_TRY(dn_opt_parse(argc, argv, opts, N, &operands, &err));
    if (o.common.help) {
        dn_opt_help(stdout, "Usage: snpmatch --bfile PREFIX --model PATH -o FILE [options]", about, opts, N,
                    tail);
        goto done;
    }
    if (o.common.version) {
        dn_print_version();
        goto done;
    }
    dn_log_level(o.common.quiet, o.common.verbose);
    DN_TRY(check_options(&o, &operands, &err));
    DN_TRY(dn_common_finish(&o.common, &err));
    dn_out_on_signal();
    DN_TRY(run(&o, &err));
done:
    dn_strs_free(&operands);
    dn_strs_free(&o.bfile);
    return dn_finish(status, &err);
}
