/* cohort.h: the cohort as the command line chooses it. */
#ifndef SNPMATCH_COHORT_H
#define SNPMATCH_COHORT_H

#include "match.h"
#include "plink.h"

typedef struct {
    const char *keep, *remove, *samples; /* as given; NULL: not */
    uint64_t first, last;                /* of samples: people [first, last) */
} dn_cohort_choice;

/* --keep, --remove and --samples in one list of bytes, 1 = wanted; *keep stays NULL when everybody is
 * (free()). *n_kept: how many. Names that are not in the cohort are warned of. DN_EMISMATCH when nobody is
 * left. */
DN_MUST_USE dn_status dn_cohort_choose(const dn_plink *p, const dn_cohort_choice *o, uint8_t **keep,
                                       uint64_t *n_kept, dn_err *err);
/* Shows every .bim line to a matcher and gives its answer (dn_match_free()). */
DN_MUST_USE dn_status dn_cohort_match(const dn_plink *p, const dn_snps *model, const dn_match_opts *opts,
                                      dn_match *m, dn_err *err);

#endif
