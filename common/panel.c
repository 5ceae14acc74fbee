/* panel.c: choosing people, SNPs and labels from PLINK filesets (see panel.h). */
#include "panel.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blocks.h"
#include "geno.h"

typedef unsigned long long ull;

enum { FEW = 5 }; /* a class of fewer people cannot be in every set of the usual 5 folds */

static dn_status say(dn_strs *to, dn_err *err, const char *fmt, ...) DN_PRINTF(3, 4);

static dn_status say(dn_strs *to, dn_err *err, const char *fmt, ...)
{
    char *line = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&line, fmt, ap);
    va_end(ap);
    if (n < 0) return dn_fail(err, DN_ENOMEM, "out of memory");
    dn_status status = dn_strs_add(to, line, (size_t)n, err);
    free(line);
    return status;
}

/* The names collected, "a, b, c, ..." when there are more. */
static char *list_names(const dn_strs *names, uint64_t total)
{
    size_t size = 8;
    for (uint64_t i = 0; i < names->n; i++) size += strlen(dn_strs_get(names, i)) + 2;
    char *text = calloc(size, 1), *at = text;
    for (uint64_t i = 0; text && i < names->n && i < DN_LABELS_NAMED; i++) {
        at += sprintf(at, "%s%s", i ? ", " : "", dn_strs_get(names, i));
    }
    if (text && total > names->n) strcpy(at, ", ...");
    return text;
}

static dn_status say_names(dn_strs *to, const char *what, const char *file, uint64_t n, const dn_strs *names,
                           dn_err *err)
{
    if (!n) return DN_OK;
    char *list = list_names(names, n);
    dn_status status = say(to, err, "%llu %s%s: %s", (ull)n, what, file, list ? list : "?");
    free(list);
    return status;
}

/* ---- people and labels ---- */

static dn_status choose_listed(dn_panel *p, const dn_panel_opts *o, dn_err *err)
{
    dn_status status;
    dn_strs missing = {0};
    uint64_t n_missing = 0, n = p->plink->people.iid.n, left = 0;
    DN_TRY(dn_keep_people(&p->plink->people, o->keep, o->remove, &p->keep, &missing, &n_missing, err));
    DN_TRY(say_names(&p->warnings, "people listed for --keep or --remove are not in the cohort", "",
                     n_missing, &missing, err));
    for (uint64_t i = 0; i < n; i++) left += p->keep[i];
    if (left == 0) DN_TRY(dn_fail(err, DN_EMISMATCH, "no person is left after --keep and --remove"));
    if (left < n)
        DN_TRY(say(&p->notes, err, "%llu of %llu people chosen by --keep and --remove", (ull)left, (ull)n));
done:
    dn_strs_free(&missing);
    return status;
}

static dn_status strict_error(const dn_labels *l, const char *file, dn_err *err)
{
    const dn_strs *names = l->n_without ? &l->without : &l->unknown;
    uint64_t n = l->n_without ? l->n_without : l->n_unknown;
    char *list = list_names(names, n);
    dn_fail(err, DN_EMISMATCH,
            l->n_without ? "--strict: %llu people have no label in %s: %s"
                         : "--strict: %llu lines of %s name nobody in the cohort: %s",
            (ull)n, file, list ? list : "?");
    free(list);
    return DN_EMISMATCH;
}

static dn_status report_labels(dn_panel *p, const dn_labels *l, const char *file, bool strict, dn_err *err)
{
    dn_status status;
    if (strict && (l->n_without || l->n_unknown)) DN_TRY(strict_error(l, file, err));
    DN_TRY(say_names(&p->warnings, "people are left out, as they have no label in ", file, l->n_without,
                     &l->without, err));
    DN_TRY(say_names(&p->warnings, "labels name nobody in the cohort, in ", file, l->n_unknown, &l->unknown,
                     err));
    if (l->n_trimmed)
        DN_TRY(
            say(&p->notes, err, "blanks around fields removed on %llu lines of %s", (ull)l->n_trimmed, file));
    if (l->n_na)
        DN_TRY(say(&p->warnings, err,
                   "the label NA on %llu lines of %s is taken as no label; if it is a class, rename it",
                   (ull)l->n_na, file));
    if (l->n_repeated)
        DN_TRY(say(&p->warnings, err, "%llu lines of %s repeat a person with the same label",
                   (ull)l->n_repeated, file));
    for (uint64_t i = 0; i < l->near.n; i++) {
        DN_TRY(say(&p->warnings, err, "two classes of %s differ only by blanks or case: %s", file,
                   dn_strs_get(&l->near, i)));
    }
    status = DN_OK;
done:
    return status;
}

static dn_status report_classes(dn_panel *p, const dn_labels *l, dn_err *err)
{
    dn_status status;
    uint64_t *count = NULL;
    DN_TRY(dn_alloc(&count, l->class_names.n, sizeof *count, "classes", err));
    dn_labels_count(l, p->keep, p->plink->people.iid.n, count);
    DN_TRY(say(&p->notes, err, "%llu classes:", (ull)l->class_names.n));
    for (uint64_t c = 0; c < l->class_names.n; c++) {
        const char *name = dn_strs_get(&l->class_names, c);
        DN_TRY(say(&p->notes, err, "  %-12s %llu", name, (ull)count[c]));
        if (count[c] < FEW) {
            DN_TRY(say(&p->warnings, err, "class %s has %llu %s: with %d folds some sets will lack it", name,
                       (ull)count[c], count[c] == 1 ? "person" : "people", FEW));
        }
    }
    status = DN_OK;
done:
    free(count);
    return status;
}

/* Labels into info for the people kept; classes->class_names moves over. */
static dn_status take_labels(dn_panel *p, dn_labels *classes, const dn_labels *targets, dn_err *err)
{
    dn_status status;
    dn_gpk_info *f = &p->info;
    if (classes) DN_TRY(dn_alloc(&f->label, f->n_people, sizeof *f->label, "labels", err));
    if (targets) DN_TRY(dn_alloc(&f->target, f->n_people, sizeof *f->target, "regression labels", err));
    for (uint64_t i = 0, k = 0; i < p->plink->people.iid.n; i++) {
        if (!p->keep[i]) continue;
        if (classes) f->label[k] = classes->label[i];
        if (targets) f->target[k] = targets->target[i];
        k++;
    }
    if (classes) {
        f->class_names = classes->class_names;
        memset(&classes->class_names, 0, sizeof classes->class_names);
    }
    status = DN_OK;
done:
    return status;
}

static dn_status take_people(dn_panel *p, dn_err *err)
{
    const dn_people *all = &p->plink->people;
    for (uint64_t i = 0; i < all->iid.n; i++) {
        if (!p->keep[i]) continue;
        const char *fid = dn_strs_get(&all->fid, i), *iid = dn_strs_get(&all->iid, i);
        dn_status status = dn_strs_add(&p->info.people.fid, fid, strlen(fid), err);
        if (status == DN_OK) status = dn_strs_add(&p->info.people.iid, iid, strlen(iid), err);
        if (status != DN_OK) return status;
    }
    p->info.n_people = p->info.people.iid.n;
    return DN_OK;
}

static dn_status choose_people(dn_panel *p, const dn_panel_opts *o, dn_err *err)
{
    dn_status status;
    dn_labels classes = {0}, targets = {0};
    const dn_people *all = &p->plink->people;
    int cols = o->id_cols == 2 ? 2 : 1;
    DN_TRY(choose_listed(p, o, err));
    if (o->labels) {
        DN_TRY(dn_labels_read(&classes, o->labels, DN_LABELS_CLASS, cols, all, p->keep, err));
        DN_TRY(report_labels(p, &classes, o->labels, o->strict, err));
    }
    if (o->regression) {
        DN_TRY(dn_labels_read(&targets, o->regression, DN_LABELS_TARGET, cols, all, p->keep, err));
        DN_TRY(report_labels(p, &targets, o->regression, o->strict, err));
    }
    if (dn_labels_apply(o->labels ? &classes : NULL, o->regression ? &targets : NULL, p->keep, all->iid.n) ==
        0) {
        DN_TRY(dn_fail(err, DN_EMISMATCH, "no person is left: nobody has %s",
                       o->labels && o->regression ? "both labels" : "a label"));
    }
    if (o->labels && o->regression) { /* classes of people who are left only */
        dn_labels_free(&classes);
        DN_TRY(dn_labels_read(&classes, o->labels, DN_LABELS_CLASS, cols, all, p->keep, err));
    }
    DN_TRY(take_people(p, err));
    if (o->labels) DN_TRY(report_classes(p, &classes, err));
    DN_TRY(take_labels(p, o->labels ? &classes : NULL, o->regression ? &targets : NULL, err));
done:
    dn_labels_free(&classes);
    dn_labels_free(&targets);
    return status;
}

/* ---- SNPs ---- */

static dn_status add_snp(dn_snps *s, size_t *pos_cap, const dn_bim_rec *r, dn_err *err)
{
    dn_status status;
    DN_TRY(dn_grow(&s->pos, pos_cap, s->id.n + 1, sizeof *s->pos, "positions", err));
    s->pos[s->id.n] = r->pos;
    DN_TRY(dn_strs_add(&s->id, r->id, strlen(r->id), err));
    DN_TRY(dn_strs_add(&s->chrom, r->chrom, strlen(r->chrom), err));
    DN_TRY(dn_strs_add(&s->a1, r->a1, strlen(r->a1), err));
    DN_TRY(dn_strs_add(&s->a2, r->a2, strlen(r->a2), err));
done:
    return status;
}

static dn_status read_ids(const dn_plink *p, dn_strs *ids, dn_err *err)
{
    dn_status status = DN_OK;
    dn_bim *b = NULL;
    for (size_t s = 0; s < p->n_sets; s++) {
        DN_TRY(dn_bim_open(&b, p->sets[s].bim, err));
        for (;;) {
            dn_bim_rec r;
            bool more;
            DN_TRY(dn_bim_next(b, &r, &more, err));
            if (!more) break;
            DN_TRY(dn_strs_add(ids, r.id, strlen(r.id), err));
        }
        dn_bim_close(b);
        b = NULL;
    }
done:
    dn_bim_close(b);
    return status;
}

/* keep: one byte per SNP of the cohort, or NULL for all. */
static dn_status take_snps(dn_panel *p, const uint8_t *keep, dn_err *err)
{
    dn_status status = DN_OK;
    dn_bim *b = NULL;
    size_t pos_cap = 0, snp_cap = 0;
    for (size_t s = 0; s < p->plink->n_sets; s++) {
        const dn_fileset *set = &p->plink->sets[s];
        uint64_t k = 0;
        DN_TRY(dn_bim_open(&b, set->bim, err));
        for (;; k++) {
            dn_bim_rec r;
            bool more;
            DN_TRY(dn_bim_next(b, &r, &more, err));
            if (!more || k == set->n_snps) break;
            if (keep && !keep[set->first_snp + k]) continue;
            DN_TRY(dn_grow(&p->snp, &snp_cap, p->info.snps.id.n + 1, sizeof *p->snp, "SNP numbers", err));
            p->snp[p->info.snps.id.n] = set->first_snp + k;
            DN_TRY(add_snp(&p->info.snps, &pos_cap, &r, err));
        }
        dn_bim_close(b);
        b = NULL;
        if (k != set->n_snps) {
            DN_TRY(dn_fail(err, DN_EOPEN,
                           "%s has %llu SNPs now and had %llu a moment ago: it changes while it is read",
                           set->bim, (ull)k, (ull)set->n_snps));
        }
    }
    p->info.n_snps = p->info.snps.id.n;
done:
    dn_bim_close(b);
    return status;
}

/* A model trained on SNPs that share an ID could not be matched to them by ID. */
static dn_status warn_repeated_ids(dn_panel *p, const dn_strs *id, dn_err *err)
{
    dn_status status;
    dn_map *m = NULL;
    uint64_t n = 0, prev, first = 0;
    DN_TRY(dn_map_new(&m, id->n, err));
    for (uint64_t j = 0; j < id->n; j++) {
        const char *s = dn_strs_get(id, j);
        DN_TRY(dn_map_add(m, s, strlen(s), j, &prev, err));
        if (prev != UINT64_MAX && n++ == 0) first = j;
    }
    if (n) {
        DN_TRY(say(&p->warnings, err,
                   "%llu SNPs have the ID of a SNP before them, the first: %s. They are kept; a model "
                   "trained on them matches other "
                   "cohorts by position only",
                   (ull)n, dn_strs_get(id, first)));
    }
done:
    dn_map_free(m);
    return status;
}

/* --extract and --exclude: one byte per ID; NULL when there is neither. */
static dn_status list_snps(dn_panel *p, const dn_panel_opts *o, const dn_strs *ids, uint8_t **keep,
                           dn_err *err)
{
    dn_status status = DN_OK;
    dn_strs missing = {0};
    uint64_t n_missing = 0, left = 0;
    if (!o->extract && !o->exclude) return DN_OK;
    DN_TRY(dn_keep_snps(ids, o->extract, o->exclude, keep, &missing, &n_missing, err));
    DN_TRY(say_names(&p->warnings, "SNPs listed for --extract or --exclude are not in the cohort", "",
                     n_missing, &missing, err));
    for (uint64_t j = 0; j < ids->n; j++) left += (*keep)[j];
    if (left == 0) DN_TRY(dn_fail(err, DN_EMISMATCH, "no SNP is left after --extract and --exclude"));
    DN_TRY(
        say(&p->notes, err, "%llu of %llu SNPs chosen by --extract and --exclude", (ull)left, (ull)ids->n));
done:
    dn_strs_free(&missing);
    return status;
}

static dn_status choose_snps(dn_panel *p, const dn_panel_opts *o, dn_err *err)
{
    dn_status status;
    dn_strs ids = {0};
    uint8_t *keep = NULL;
    if (o->extract || o->exclude) {
        DN_TRY(read_ids(p->plink, &ids, err));
        if (ids.n != p->plink->n_snps) DN_TRY(dn_fail(err, DN_EOPEN, "a .bim file changes while it is read"));
        DN_TRY(list_snps(p, o, &ids, &keep, err));
    }
    DN_TRY(take_snps(p, keep, err));
    DN_TRY(warn_repeated_ids(p, &p->info.snps.id, err));
done:
    dn_strs_free(&ids);
    free(keep);
    return status;
}

/* ---- the whole ---- */

dn_status dn_panel_open(dn_panel *p, const dn_panel_opts *opts, dn_err *err)
{
    dn_status status;
    memset(p, 0, sizeof *p);
    DN_TRY(dn_plink_open(&p->plink, opts->bfiles, err));
    DN_TRY(choose_people(p, opts, err));
    DN_TRY(choose_snps(p, opts, err));
    DN_TRY(say(&p->notes, err, "%llu people x %llu SNPs", (ull)p->info.n_people, (ull)p->info.n_snps));
done:
    if (status != DN_OK) dn_panel_close(p);
    return status;
}

dn_status dn_panel_open_tables(dn_panel *p, const dn_panel_opts *opts, dn_people *people, const dn_strs *ids,
                               uint8_t **keep_snp, dn_err *err)
{
    dn_status status;
    memset(p, 0, sizeof *p);
    *keep_snp = NULL;
    DN_TRY(dn_alloc(&p->plink, 1, sizeof *p->plink, "people", err));
    p->plink->people = *people;
    memset(people, 0, sizeof *people);
    DN_TRY(choose_people(p, opts, err));
    DN_TRY(list_snps(p, opts, ids, keep_snp, err));
    DN_TRY(warn_repeated_ids(p, ids, err));
done:
    if (status != DN_OK) dn_panel_close(p);
    return status;
}

dn_status dn_panel_rows(dn_panel *p, uint64_t memory, dn_pool *pool,
                        dn_status (*rows)(void *ctx, const uint8_t *rows, uint64_t n, dn_err *err), void *ctx,
                        void (*progress)(void *ctx, uint64_t people), dn_err *err)
{
    uint8_t *map = NULL;
    dn_status status = dn_alloc(&map, p->info.n_snps, 1, "map of SNPs", err);
    if (status != DN_OK) return status;
    memset(map, DN_GENO_SAME, p->info.n_snps);
    bool everybody = p->info.n_people == p->plink->people.iid.n;
    const dn_blocks b = {.cohort = p->plink,
                         .n_cols = p->info.n_snps,
                         .snp = p->snp,
                         .map = map,
                         .keep = everybody ? NULL : p->keep,
                         .memory = memory,
                         .pool = pool,
                         .rows = rows,
                         .ctx = ctx,
                         .progress = progress};
    status = dn_blocks_run(&b, err);
    free(map);
    return status;
}

const char *dn_panel_dirty_bed(const dn_panel *p)
{
    for (size_t s = 0; s < p->plink->n_sets; s++) {
        if (p->plink->sets[s].padding_dirty) return p->plink->sets[s].bed;
    }
    return NULL;
}

void dn_panel_close(dn_panel *p)
{
    if (!p) return;
    dn_plink_close(p->plink);
    dn_gpk_info_free(&p->info);
    free(p->keep);
    free(p->snp);
    dn_strs_free(&p->notes);
    dn_strs_free(&p->warnings);
    memset(p, 0, sizeof *p);
}
