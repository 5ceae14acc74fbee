/* heldout.h: how good the members are on people that they were not trained on, recomputed from genotypes.
 *
 * L members, N people, C classes. A member is judged on the test set of its fold. The ensemble is judged
 * person by person with those members only that have the person in their test set: no member that votes has
 * seen the person. */
#ifndef DNCHECK_HELDOUT_H
#define DNCHECK_HELDOUT_H

#include "check_dir.h"
#include "par.h"

enum { HELDOUT_BINS = 10, HELDOUT_SHARES = 4 };
extern const double heldout_share[HELDOUT_SHARES]; /* of SNPs left out: 0, 0.1, 0.5, 0.9 */

typedef struct {
    dn_task task;
    uint64_t n_out; /* C, or 1 */
    const dn_strs *classes;
    size_t n_members;       /* L: those of the grid that could be read */
    const check_member **m; /* L */
    uint64_t *n_test;       /* L: people of the member's test set */
    double *accuracy;       /* L: share right; regression: the coefficient of determination R2 */
    double *loss;           /* L: mean cross-entropy, or mean squared error */
    double mean, sd;        /* of accuracy over members; sd with n - 1 */
    double share_mean[HELDOUT_SHARES],
        share_sd[HELDOUT_SHARES]; /* accuracy with SNPs left out, over members */
    /* the ensemble; classification */
    uint64_t n_people, n_right;
    double macro_f1;
    uint64_t *confusion; /* C x C: row = true class, column = predicted */
    uint64_t bin_n[HELDOUT_BINS];
    double bin_confidence[HELDOUT_BINS], bin_accuracy[HELDOUT_BINS]; /* means of each bin of confidence */
    double ece;                                                      /* expected calibration error */
} heldout;

/* dataset: the one that the members were trained on. shares: also with SNPs left out (four times the work).
 * DN_EMISMATCH: no labels, or members do not fit the dataset. */
DN_MUST_USE dn_status heldout_run(heldout *h, const check_members *members, dn_dataset *dataset,
                                  const dn_split *split, bool shares, dn_pool *pool, dn_err *err);
/* Findings: accuracy (each member, against what its package says), and the summary. */
DN_MUST_USE dn_status heldout_report(const heldout *h, findings *f, dn_err *err);
/* The confusion matrix as TSV: header "true" and the class names, a row per true class. */
DN_MUST_USE dn_status heldout_confusion(const heldout *h, const char *path, unsigned out_flags, dn_err *err);
void heldout_free(heldout *h);

/* ---- statistics ---- */
double stat_mean(const double *x, size_t n);
double stat_sd(const double *x, size_t n); /* with n - 1; 0 for n < 2 */
/* Two-sided 95 % point of Student's t with df degrees of freedom (df >= 1). */
double stat_t95(size_t df);

#endif
