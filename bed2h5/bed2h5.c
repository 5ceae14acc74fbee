/* bed2h5: a labelled panel from PLINK filesets, or from a table of text, to dataset.h5. This file: options
 * and the order of the work. Who and what is taken is decided in common/panel.c, text is read in
 * bed2h5_text.c, the file is written by common/dataset_write.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bed2h5_text.h"
#include "dataset.h"
#include "geno.h"
#include "log.h"
#include "panel.h"

typedef unsigned long long ull;

typedef struct {
    dn_common common;
    dn_strs bfile;
    dn_panel_opts panel;
    const char *tsv, *raw, *bim, *out;
} options;

static dn_status check_options(const options *o, const dn_strs *operands, dn_err *err)
{
    int inputs = (o->bfile.n > 0) + (o->tsv != NULL) + (o->raw != NULL);
    if (operands->n) {
        return dn_fail(err, DN_EUSAGE,
                       "unexpected argument \"%s\": filesets are given with --bfile, the output with -o",
                       dn_strs_get(operands, 0));
    }
    if (inputs == 0)
        return dn_fail(err, DN_EUSAGE,
                       "no genotypes: give --bfile PREFIX, --tsv FILE or --raw FILE (see --help)");
    if (inputs > 1) return dn_fail(err, DN_EUSAGE, "give one of --bfile, --tsv and --raw");
    if (!o->out) return dn_fail(err, DN_EUSAGE, "no output: give -o dataset.h5");
    if (strcmp(o->out, "-") == 0) {
        return dn_fail(err, DN_EUSAGE,
                       "an HDF5 file cannot go to a pipe: give -o a file name, or make a .gpk with gpack");
    }
    if (o->bim && o->bfile.n)
        return dn_fail(err, DN_EUSAGE, "--bim goes with --tsv and --raw: a fileset has its own");
    return DN_OK;
}

/* --force must never let the output replace an input. */
static dn_status not_an_input(const options *o, const dn_plink *p, dn_err *err)
{
    struct stat a, b;
    if (stat(o->out, &a) != 0 || !S_ISREG(a.st_mode)) return DN_OK;
    for (size_t k = 0; k <= (p ? p->n_sets : 0); k++) {
        const dn_fileset *s = k > 0 ? &p->sets[k - 1] : NULL;
        const char *in[] = {s ? s->bed : o->tsv,
                            s ? s->bim : o->raw,
                            s ? s->fam : o->bim,
                            s ? NULL : o->panel.labels,
                            s ? NULL : o->panel.regression,
                            s ? NULL : o->panel.keep,
                            s ? NULL : o->panel.remove,
                            s ? NULL : o->panel.extract,
                            s ? NULL : o->panel.exclude};
        for (size_t i = 0; i < sizeof in / sizeof in[0]; i++) {
            if (in[i] && stat(in[i], &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
                return dn_fail(err, DN_EUSAGE, "-o %s is the input %s: choose another name", o->out, in[i]);
            }
        }
    }
    return DN_OK;
}

static void report(const dn_panel *p, const options *o)
{
    for (uint64_t i = 0; i < p->notes.n; i++) dn_info("%s", dn_strs_get(&p->notes, i));
    for (uint64_t i = 0; i < p->warnings.n; i++) dn_warn("%s", dn_strs_get(&p->warnings, i));
    if (!p->info.label && !p->info.target)
        dn_warn("no labels were given: %s can be predicted on, not split or trained on", o->out);
    else if (!p->info.label)
        dn_warn("no class labels were given: training needs them for the embedding, for regression too");
}

/* What --memory leaves for buffers now that the tables are there. */
static uint64_t memory_left(uint64_t memory)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f) {
        if (fscanf(f, "%*u %lu", &pages) != 1) pages = 0;
        fclose(f);
    }
    uint64_t used = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) + ((uint64_t)8 << 20);
    return memory > used ? memory - used : 0;
}

typedef struct {
    dn_dataset_writer *w;
    const dn_gpk_info *info;
    uint64_t row_bytes, done;
    uint64_t n_empty, first_empty; /* people without a single call */
} sink;

static dn_status take_rows(void *ctx, const uint8_t *rows, uint64_t n, dn_err *err)
{
    sink *s = ctx;
    uint64_t m = s->info->n_snps;
    for (uint64_t i = 0; i < n; i++, s->done++) {
        const uint8_t *row = rows + i * s->row_bytes;
        if (row[0] != 0xff || dn_geno_count_missing(row, m) < m) continue;
        if (s->n_empty++ == 0) s->first_empty = s->done;
    }
    return dn_dataset_write(s->w, rows, s->row_bytes, n, err);
}

static dn_status take_row(void *ctx, const uint8_t *row, dn_err *err)
{
    dn_status status = take_rows(ctx, row, 1, err);
    dn_progress(((sink *)ctx)->done);
    return status;
}

static void show_progress(void *ctx, uint64_t people)
{
    (void)ctx;
    dn_progress(people);
}

static dn_status finish(const options *o, sink *s, dn_err *err)
{
    const dn_gpk_info *info = s->info;
    if (s->n_empty) {
        dn_warn("%llu people have no genotype at all, the first: %s %s", (ull)s->n_empty,
                dn_strs_get(&info->people.fid, s->first_empty),
                dn_strs_get(&info->people.iid, s->first_empty));
    }
    dn_status status = dn_dataset_commit(&s->w, err);
    if (status == DN_OK) {
        dn_info("%s: %llu people x %llu SNPs, %llu classes", o->out, (ull)info->n_people, (ull)info->n_snps,
                (ull)info->class_names.n);
    }
    return status;
}

static dn_status from_plink(const options *o, unsigned out_flags, dn_err *err)
{
    dn_status status;
    dn_panel p = {0};
    dn_pool *pool = NULL;
    sink s = {.info = &p.info};
    DN_TRY(dn_panel_open(&p, &o->panel, err));
    DN_TRY(not_an_input(o, p.plink, err));
    report(&p, o);
    DN_TRY(dn_pool_new(&pool, (size_t)o->common.threads, err));
    DN_TRY(dn_dataset_create(&s.w, o->out, &p.info, out_flags, err));
    s.row_bytes = dn_gpk_row_bytes(p.info.n_snps);
    dn_progress_start("converting", p.plink->people.iid.n, "people");
    status = dn_panel_rows(&p, memory_left(o->common.memory), pool, take_rows, &s, show_progress, err);
    dn_progress_end();
    if (status != DN_OK) goto done;
    if (dn_panel_dirty_bed(&p)) {
        dn_warn("%s: bits after the last person are set; they were ignored, but some programs read them",
                dn_panel_dirty_bed(&p));
    }
    DN_TRY(finish(o, &s, err));
done:
    dn_dataset_abort(&s.w);
    dn_pool_free(pool);
    dn_panel_close(&p);
    return status;
}

static dn_status from_text(const options *o, unsigned out_flags, dn_err *err)
{
    dn_status status;
    dn_panel p = {0};
    b2h_text t = {0};
    uint8_t *keep_snp = NULL;
    sink s = {.info = &p.info};
    const char *path = o->tsv ? o->tsv : o->raw;
    DN_TRY(not_an_input(o, NULL, err));
    DN_TRY(b2h_text_open(&t, path, o->tsv ? B2H_TSV : B2H_RAW, o->bim, err));
    DN_TRY(dn_panel_open_tables(&p, &o->panel, &t.people, &t.snps.id, &keep_snp, err));
    DN_TRY(b2h_text_snps(&t, keep_snp, &p.info.snps, err));
    p.info.n_snps = p.info.snps.id.n;
    report(&p, o);
    dn_info("%llu people x %llu SNPs", (ull)p.info.n_people, (ull)p.info.n_snps);
    if (!p.info.snps.a1.n) {
        dn_warn("%s does not name both alleles: a model trained on it is matched by SNP ID alone; give --bim",
                path);
    }
    if (t.n_swapped) dn_info("%llu SNPs count allele 2 of %s: taken so", (ull)t.n_swapped, o->bim);
    DN_TRY(dn_dataset_create(&s.w, o->out, &p.info, out_flags, err));
    s.row_bytes = dn_gpk_row_bytes(p.info.n_snps);
    dn_progress_start("converting", p.info.n_people, "people");
    status = b2h_text_rows(&t, p.keep, keep_snp, s.row_bytes, take_row, &s, err);
    dn_progress_end();
    if (status != DN_OK) goto done;
    DN_TRY(finish(o, &s, err));
done:
    dn_dataset_abort(&s.w);
    free(keep_snp);
    b2h_text_close(&t);
    dn_panel_close(&p);
    return status;
}

static const char about[] =
    "Writes a labelled panel to dataset.h5, in the layout that upstream's scripts and h5py read.\n"
    "Genotypes count copies of the allele in .bim column 5 (A1), as plink --recode A does.";
static const char tail[] = "A label file has a header line, then sample ID, tab, label on each line; an "
                           "empty label or NA is none. Exit codes:\n"
                           "docs/exit-codes.md. Example:\n"
                           "  bed2h5 --bfile panel --labels panel.labels.tsv -o dataset.h5";

int main(int argc, char **argv)
{
    options o = {.common = DN_COMMON_DEFAULT, .panel = {.id_cols = 1}};
    const dn_opt opts[] = {
        {DN_OPT_GROUP, "Genotypes", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_LIST, "bfile", 'b', &o.bfile, "PREFIX", 0, 0,
         "PLINK 1 fileset PREFIX.bed/.bim/.fam; may be repeated, or hold '@' for the chromosome", NULL},
        {DN_OPT_STR, "tsv", 0, &o.tsv, "FILE", 0, 0,
         "instead: tab-separated, a header with SNP names, a line per person; missing is NA, ./. or -1",
         NULL},
        {DN_OPT_STR, "raw", 0, &o.raw, "FILE", 0, 0, "instead: .raw of plink --recode A", NULL},
        {DN_OPT_STR, "bim", 0, &o.bim, "FILE", 0, 0,
         "with --tsv or --raw: chromosome, position and alleles by SNP ID", NULL},
        {DN_OPT_GROUP, "Labels", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_STR, "labels", 'l', &o.panel.labels, "FILE", 0, 0, "classes; people without one are left out",
         NULL},
        {DN_OPT_STR, "regression-labels", 0, &o.panel.regression, "FILE", 0, 0, "numbers to learn; the same",
         NULL},
        {DN_OPT_U64, "id-cols", 0, &o.panel.id_cols, "N", 1, 2,
         "ID columns of label files: 1 = IID, 2 = FID and IID", NULL},
        {DN_OPT_FLAG, "strict", 0, &o.panel.strict, NULL, 0, 0,
         "people without a label, or labels without a person, are an error", NULL},
        {DN_OPT_GROUP, "Choice", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_STR, "keep", 0, &o.panel.keep, "FILE", 0, 0, "only these people: FID IID, or IID, per line",
         NULL},
        {DN_OPT_STR, "remove", 0, &o.panel.remove, "FILE", 0, 0, "all but these people", NULL},
        {DN_OPT_STR, "extract", 0, &o.panel.extract, "FILE", 0, 0, "only these SNPs: an ID per line", NULL},
        {DN_OPT_STR, "exclude", 0, &o.panel.exclude, "FILE", 0, 0, "all but these SNPs", NULL},
        {DN_OPT_GROUP, "Output", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_STR, "out", 'o', &o.out, "FILE", 0, 0, "the dataset", NULL},
        DN_COMMON_OPTS(o.common),
    };
    enum { N = sizeof opts / sizeof opts[0] };
    dn_err err = {0};
    dn_strs operands = {0};
    dn_status status;
    dn_log_start("bed2h5", argc, argv);
    DN_TRY(dn_isa_check(&err));
    DN_TRY(dn_opt_parse(argc, argv, opts, N, &operands, &err));
    if (o.common.help) {
        dn_opt_help(stdout, "Usage: bed2h5 --bfile PREFIX [--labels FILE] -o dataset.h5 [options]", about,
                    opts, N, tail);
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
    unsigned out_flags = (o.common.force ? DN_OUT_FORCE : 0) | DN_OUT_BINARY;
    DN_TRY(dn_out_check(o.out, out_flags, &err));
    o.panel.bfiles = &o.bfile;
    DN_TRY(o.bfile.n ? from_plink(&o, out_flags, &err) : from_text(&o, out_flags, &err));
done:
    dn_strs_free(&operands);
    dn_strs_free(&o.bfile);
    return dn_finish(status, &err);
}
