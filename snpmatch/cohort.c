/* cohort.c: who of the cohort is wanted, and its .bim files shown to the matcher (see cohort.h). */
#include "cohort.h"

#include "log.h"

typedef unsigned long long ull;

dn_status dn_cohort_choose(const dn_plink *p, const dn_cohort_choice *o, uint8_t **keep, uint64_t *n_kept,
                           dn_err *err)
{
    dn_status status;
    dn_strs missing = {0};
    uint64_t n = p->people.iid.n, n_missing = 0;
    *n_kept = n;
    if (o->samples && o->last > n) {
        DN_TRY(dn_fail(err, DN_EMISMATCH, "--samples %s: the cohort has %llu people", o->samples, (ull)n));
    }
    if (!o->keep && !o->remove && !o->samples) return DN_OK;
    DN_TRY(dn_keep_people(&p->people, o->keep, o->remove, keep, &missing, &n_missing, err));
    if (n_missing) {
        dn_err text = {0}; /* names from a list are shown like those in errors, control bytes escaped */
        dn_fail(&text, DN_OK, "%llu people of %s%s%s are not in the cohort, the first: %s", (ull)n_missing,
                o->keep ? "--keep" : "", o->keep && o->remove ? " and " : "", o->remove ? "--remove" : "",
                missing.n ? dn_strs_get(&missing, 0) : "?");
        dn_warn("%s", text.msg);
    }
    *n_kept = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (o->samples && (i < o->first || i >= o->last)) (*keep)[i] = 0;
        *n_kept += (*keep)[i];
    }
    if (!*n_kept)
        DN_TRY(dn_fail(err, DN_EMISMATCH,
                       "no person is left: --samples, --keep and --remove have nobody in common"));
done:
    dn_strs_free(&missing);
    return status;
}

dn_status dn_cohort_match(const dn_plink *p, const dn_snps *model, const dn_match_opts *opts, dn_match *m,
                          dn_err *err)
{
    dn_status status;
    dn_matcher *k = NULL;
    dn_bim *b = NULL;
    DN_TRY(dn_matcher_new(&k, model, opts, err));
    for (size_t s = 0; s < p->n_sets; s++) {
        const dn_fileset *set = &p->sets[s];
        uint64_t i = 0;
        DN_TRY(dn_bim_open(&b, set->bim, err));
        for (;; i++) {
            dn_bim_rec r;
            bool more;
            DN_TRY(dn_bim_next(b, &r, &more, err));
            if (!more) break;
            if (i < set->n_snps)
                DN_TRY(dn_matcher_add(k, r.chrom, r.id, r.pos, r.a1, r.a2, set->first_snp + i, err));
        }
        dn_bim_close(b);
        b = NULL;
        if (i != set->n_snps) {
            DN_TRY(dn_fail(err, DN_EOPEN,
                           "%s has %llu SNPs now and had %llu a moment ago: it changes while it is read",
                           set->bim, (ull)i, (ull)set->n_snps));
        }
    }
    DN_TRY(dn_matcher_finish(k, m, err));
done:
    dn_bim_close(b);
    dn_matcher_free(k);
    return status;
}
