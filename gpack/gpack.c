/* gpack: packs genotypes four to a byte, in the manner of the zstd tool. This file: options and the order of
 * the work; inputs are in gpack_source.c, packing, unpacking, testing and listing in gpack_work.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gpack_work.h"
#include "geno.h"
#include "io.h"
#include "log.h"
#include "opt.h"

typedef struct {
    dn_common common;
    bool unpack, test, list, to_stdout, squeeze, strict;
    uint64_t level, block_rows, id_cols;
    const char *out;
    dn_strs bfile;
    const char *labels, *regression, *keep, *remove, *extract, *exclude;
} options;

static bool panel_option(const options *o)
{
    return o->labels || o->regression || o->keep || o->remove || o->extract || o->exclude || o->strict ||
           o->id_cols;
}

/* Rules that one option alone does not show. */
static dn_status check_options(const options *o, const dn_strs *in, dn_err *err)
{
    if (o->unpack + o->test + o->list > 1)
        return dn_fail(err, DN_EUSAGE, "only one of -d, -t and -l can be given");
    if (o->bfile.n && in->n) {
        return dn_fail(err, DN_EUSAGE, "both --bfile and \"%s\" are given: one input at a time",
                       dn_strs_get(in, 0));
    }
    if (!o->bfile.n && !in->n) {
        return dn_fail(
            err, DN_EUSAGE,
            "no input: give a dataset.h5 or .gpk file, - for standard input, or --bfile PREFIX (see --help)");
    }
    if (o->bfile.n && (o->unpack || o->test || o->list)) {
        return dn_fail(err, DN_EUSAGE, "%s works on files that are packed, not on --bfile%s",
                       o->unpack ? "-d"
                       : o->test ? "-t"
                                 : "-l",
                       o->unpack ? ": for a .h5 from PLINK use bed2h5" : "");
    }
    if (!o->bfile.n && panel_option(o)) {
        return dn_fail(err, DN_EUSAGE,
                       "--labels, --regression-labels, --id-cols, --keep, --remove, --extract, --exclude and "
                       "--strict go with --bfile");
    }
    if ((o->test || o->list) && (o->out || o->to_stdout))
        return dn_fail(err, DN_EUSAGE, "%s writes no file: leave out -o", o->test ? "-t" : "-l");
    if (in->n > 1 && !o->test && !o->list) {
        return dn_fail(err, DN_EUSAGE, "%llu inputs: one at a time (only -t and -l take several)",
                       (unsigned long long)in->n);
    }
    if (o->out && o->to_stdout) return dn_fail(err, DN_EUSAGE, "only one of -o and -c can be given");
    if (o->squeeze && (o->unpack || o->test || o->list))
        return dn_fail(err, DN_EUSAGE, "-z goes with packing only");
    if (o->block_rows && !o->squeeze) return dn_fail(err, DN_EUSAGE, "--block-rows goes with -z");
    return DN_OK;
}

/* dataset.h5 -> dataset.gpk, and back under -d; standard input -> standard output. */
static dn_status default_name(const char *in, bool unpack, char **out, dn_err *err)
{
    size_t n = strlen(in);
    static const char *const h5[] = {".h5", ".hdf5", ".hdf"};
    *out = NULL;
    if (strcmp(in, "-") == 0 && !unpack) *out = strdup("-");
    for (size_t i = 0; !unpack && !*out && i < 3; i++) {
        size_t k = strlen(h5[i]);
        if (n > k && strcmp(in + n - k, h5[i]) == 0 && asprintf(out, "%.*s.gpk", (int)(n - k), in) < 0)
            *out = NULL;
    }
    if (unpack && n > 4 && strcmp(in + n - 4, ".gpk") == 0 && asprintf(out, "%.*s.h5", (int)(n - 4), in) < 0)
        *out = NULL;
    return *out ? DN_OK
                : dn_fail(err, DN_EUSAGE, "no output: give -o FILE%s",
                          unpack ? "" : ", or - for standard output");
}

/* --force must never let an output replace an input. */
static dn_status not_an_input(const char *out, const char *in, dn_err *err)
{
    struct stat a, b;
    if (!in || strcmp(out, "-") == 0 || stat(out, &a) != 0 || stat(in, &b) != 0) return DN_OK;
    if (!S_ISREG(a.st_mode) || a.st_dev != b.st_dev || a.st_ino != b.st_ino) return DN_OK;
    return dn_fail(err, DN_EUSAGE, "the output %s is the input %s: choose another name", out, in);
}

static dn_status pack_plink(const options *o, const gpack_job *job, dn_err *err)
{
    dn_status status;
    dn_panel panel = {0};
    gpack_source s;
    const dn_panel_opts opts = {.bfiles = &o->bfile,
                                .keep = o->keep,
                                .remove = o->remove,
                                .extract = o->extract,
                                .exclude = o->exclude,
                                .labels = o->labels,
                                .regression = o->regression,
                                .id_cols = o->id_cols,
                                .strict = o->strict};
    const char *files[] = {o->labels, o->regression, o->keep, o->remove, o->extract, o->exclude};
    for (size_t i = 0; i < 6; i++) DN_TRY(not_an_input(job->out, files[i], err));
    DN_TRY(dn_panel_open(&panel, &opts, err));
    for (size_t k = 0; k < panel.plink->n_sets; k++) {
        const dn_fileset *f = &panel.plink->sets[k];
        const char *in[] = {f->bed, f->bim, f->fam};
        for (size_t i = 0; i < 3; i++) DN_TRY(not_an_input(job->out, in[i], err));
    }
    for (uint64_t i = 0; i < panel.warnings.n; i++) dn_warn("%s", dn_strs_get(&panel.warnings, i));
    for (uint64_t i = 0; i < panel.notes.n; i++) dn_info("%s", dn_strs_get(&panel.notes, i));
    gpack_source_panel(&s, &panel);
    DN_TRY(gpack_pack(&s, job, err));
    const char *dirty = dn_panel_dirty_bed(&panel);
    if (dirty)
        dn_warn("%s: bits after the last person are set; they were ignored, but some programs read them",
                dirty);
done:
    dn_panel_close(&panel);
    return status;
}

static dn_status pack_file(const options *o, const char *in, const gpack_job *job, dn_err *err)
{
    dn_status status;
    gpack_source s = {0};
    DN_TRY(not_an_input(job->out, in, err));
    DN_TRY(gpack_source_open(&s, in, err));
    DN_TRY(o->unpack ? gpack_unpack(&s, job, err) : gpack_pack(&s, job, err));
done:
    gpack_source_close(&s);
    return status;
}

/* -t and -l go on to the next file after a bad one. */
static dn_status look_at_files(const options *o, const dn_strs *in, const gpack_job *job, dn_err *err)
{
    dn_status first = DN_OK;
    unsigned long long n_bad = 0;
    bool heading = true;
    for (uint64_t i = 0; i < in->n; i++) {
        gpack_source s = {0};
        dn_status status = gpack_source_open(&s, dn_strs_get(in, i), err);
        if (status == DN_OK) status = o->test ? gpack_test(&s, job, err) : gpack_list(&s, job, heading, err);
        gpack_source_close(&s);
        if (status == DN_OK) {
            heading = false;
            continue;
        }
        if (first == DN_OK) first = status;
        n_bad++;
        if (in->n > 1) dn_warn("%s", err->msg);
    }
    if (n_bad && in->n > 1)
        dn_fail(err, first, "%llu of %llu files are not whole: see above", n_bad, (unsigned long long)in->n);
    return first;
}

static dn_status run(const options *o, const dn_strs *in, dn_err *err)
{
    dn_status status;
    char *name = NULL;
    gpack_job job = {.common = &o->common,
                     .out = o->to_stdout ? "-" : o->out,
                     .level = o->squeeze ? o->level : 0,
                     .block_rows = o->block_rows};
    if (o->test || o->list) return look_at_files(o, in, &job, err);
    if (!job.out) {
        DN_TRY(default_name(o->bfile.n ? "" : dn_strs_get(in, 0), o->unpack, &name, err));
        job.out = name;
    }
    if (o->unpack && strcmp(job.out, "-") == 0)
        DN_TRY(dn_fail(err, DN_EUSAGE, "a .h5 file cannot be written to a pipe: give -o FILE"));
    DN_TRY(dn_out_check(job.out, DN_OUT_BINARY | (o->common.force ? DN_OUT_FORCE : 0), err));
    DN_TRY(o->bfile.n ? pack_plink(o, &job, err) : pack_file(o, dn_strs_get(in, 0), &job, err));
done:
    free(name);
    return status;
}

static const char about[] =
    "Packs genotypes four to a byte into a .gpk file, and unpacks, tests and lists such files.";
static const char tail[] =
    "Without -o, dataset.h5 becomes dataset.gpk (and back with -d), and standard input goes to standard "
    "output.\n"
    "Nothing is deleted and nothing is replaced without --force. Exit codes: docs/exit-codes.md. Examples:\n"
    "  gpack --bfile panel --labels labels.tsv -o dataset.gpk\n"
    "  gpack -z dataset.h5 -o dataset.gpk\n"
    "  gpack -d dataset.gpk -o dataset.h5";

int main(int argc, char **argv)
{
    options o = {.common = DN_COMMON_DEFAULT, .level = 3};
    const dn_opt opts[] = {
        {DN_OPT_GROUP, "What to do (pack, unless one of these is given)", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_FLAG, "unpack", 'd', &o.unpack, NULL, 0, 0, "write a dataset.h5 from a .gpk", NULL},
        {DN_OPT_FLAG, "test", 't', &o.test, NULL, 0, 0, "check every checksum and value; write nothing",
         NULL},
        {DN_OPT_FLAG, "list", 'l', &o.list, NULL, 0, 0,
         "print people, SNPs, classes, missing rate, size, ratio", NULL},
        {DN_OPT_GROUP, "Output", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_STR, "out", 'o', &o.out, "FILE", 0, 0, "output; - is standard output", NULL},
        {DN_OPT_FLAG, "stdout", 'c', &o.to_stdout, NULL, 0, 0, "the same as -o -", NULL},
        {DN_OPT_U64, "compress", 'z', &o.level, "[LEVEL]", 1, 22, "compress blocks of rows with zstd",
         &o.squeeze},
        {DN_OPT_U64, "block-rows", 0, &o.block_rows, "N", 1, 4294967295.0,
         "rows in a compressed block: more compress better, fewer are quicker to read singly (default: about "
         "64 KiB)",
         NULL},
        {DN_OPT_GROUP, "PLINK input", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_LIST, "bfile", 'b', &o.bfile, "PREFIX", 0, 0,
         "PLINK 1 fileset PREFIX.bed/.bim/.fam; may be repeated, or hold '@' for the chromosome", NULL},
        {DN_OPT_STR, "labels", 0, &o.labels, "FILE", 0, 0,
         "TSV with a header: sample ID, class; people without one are left out", NULL},
        {DN_OPT_STR, "regression-labels", 0, &o.regression, "FILE", 0, 0,
         "the same with a number for each person", NULL},
        {DN_OPT_U64, "id-cols", 0, &o.id_cols, "1|2", 1, 2,
         "ID columns of the label files: IID, or FID and IID (default: 1)", NULL},
        {DN_OPT_STR, "keep", 0, &o.keep, "FILE", 0, 0, "only these people: FID IID, or IID, per line", NULL},
        {DN_OPT_STR, "remove", 0, &o.remove, "FILE", 0, 0, "all but these people", NULL},
        {DN_OPT_STR, "extract", 0, &o.extract, "FILE", 0, 0, "only these SNPs, an ID per line", NULL},
        {DN_OPT_STR, "exclude", 0, &o.exclude, "FILE", 0, 0, "all but these SNPs", NULL},
        {DN_OPT_FLAG, "strict", 0, &o.strict, NULL, 0, 0,
         "people without a label, and labels without a person, are an error", NULL},
        DN_COMMON_OPTS(o.common),
    };
    enum { N = sizeof opts / sizeof opts[0] };
    dn_err err = {0};
    dn_strs operands = {0};
    dn_status status;
    dn_log_start("gpack", argc, argv);
    DN_TRY(dn_isa_check(&err));
    DN_TRY(dn_opt_parse(argc, argv, opts, N, &operands, &err));
    if (o.common.help) {
        dn_opt_help(stdout, "Usage: gpack [-d|-t|-l] [-z[LEVEL]] FILE|--bfile PREFIX [-o FILE] [options]",
                    about, opts, N, tail);
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
    DN_TRY(run(&o, &operands, &err));
done:
    dn_strs_free(&operands);
    dn_strs_free(&o.bfile);
    return dn_finish(status, &err);
}
