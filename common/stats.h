/* stats.h: per-SNP statistics of a training set, all from one exact integer table (DESIGN section 3).
 * counts[(j * C + c) * 3 + g] = training samples of class c with dosage g at SNP j; class sizes count all
 * samples, missing calls too. For regression C = 1. */
#ifndef DN_STATS_H
#define DN_STATS_H

#include "dn.h"
#include "par.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adds a block of packed rows (geno.h) to the table. label[i] in [0, C) is row i's class. counts: M x C x 3.
 * rows need not be consecutive: rows[i] points at person i's packed row. */
DN_MUST_USE dn_status dn_counts_add(uint32_t *counts, uint64_t n_snps, uint64_t n_classes,
                                    const uint8_t *const *rows, const int64_t *label, uint64_t n_rows,
                                    dn_pool *pool, dn_err *err);
void dn_counts_add_ref(uint32_t *counts, uint64_t n_snps, uint64_t n_classes, const uint8_t *const *rows,
                       const int64_t *label, uint64_t n_rows);

/* mean_j over non-missing; sd_j = sqrt(sum (x - mean)^2 / (n - 1)) + 1e-6. Without a call: mean 0, sd 1e-6;
 * with one call: sd 1e-6 (upstream: NaN). mean, sd: M doubles. *n_flat = SNPs that contribute nothing
 * (dn_snp_is_flat), *n_empty of them without a call. */
void dn_stats(const uint32_t *counts, uint64_t n_snps, uint64_t n_classes, double *mean, double *sd,
              uint64_t *n_flat, uint64_t *n_empty);
/* The one rule for "contributes 0": sd without its + 1e-6 is 0 up to rounding, or a value is not finite. */
static inline bool dn_snp_is_flat(double mean, double sd)
{
    return !(sd > 1e-6 * (1 + 1e-9)) || !(sd < 1e300) || !(mean >= -1e300 && mean <= 1e300);
}

/* e[j * 3C + 3c + g] = counts / class size (0 for a class of size 0); M x 3C doubles: upstream's embedding,
 * before normalisation. */
void dn_embedding(const uint32_t *counts, uint64_t n_snps, uint64_t n_classes, const uint64_t *class_size,
                  double *emb);
/* Divides each column by its Euclidean norm over SNPs (a column of norm 0 stays 0), into float: the auxiliary
 * net's input. */
void dn_embedding_normalise(const double *emb, uint64_t n_snps, uint64_t n_features, float *out);

#ifdef __cplusplus
}
#endif

#endif
