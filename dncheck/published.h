/* published.h: accuracies against a published table, pair by pair. */
#ifndef DNCHECK_PUBLISHED_H
#define DNCHECK_PUBLISHED_H

#include "heldout.h"

typedef struct {
    size_t n;                    /* pairs */
    double *there, *here;        /* n each, shares from 0 to 1, in the members' order */
    double mean_diff, low, high; /* here - there, with its 95 % interval by the paired t */
} published;

/* path: a TSV with a header that names the columns fold, seed and test_acc (or accuracy); test_acc may be in
 * percent when any value is above 1. Every member must be in it once. DN_EFORMAT; DN_EMISMATCH naming the
 * pair that is missing. */
DN_MUST_USE dn_status published_compare(published *p, const char *path, const heldout *h, dn_err *err);
DN_MUST_USE dn_status published_report(const published *p, const heldout *h, findings *f, dn_err *err);
void published_free(published *p);

#endif
