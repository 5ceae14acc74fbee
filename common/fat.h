/* fat.h: the fat layer on packed genotypes, prediction side: the table kernel (DESIGN section 8).
 *
 * z[i][k] = sum over columns j of x(g_ij) * W[place_j][k], with x = (g - mean_j) / sd_j * scale for g in {0,1,2}, and 0 for a
 * missing call or a SNP that contributes nothing. Members' outputs stand side by side. SNPs are taken in groups of 3; per
 * group and output a table of 64 partial sums is built, and each person adds one table row per group: exact in float,
 * missing calls free, no decoding. */
#ifndef DN_FAT_H
#define DN_FAT_H

#include "dn.h"
#include "par.h"

/* One member's share of the outputs. */
typedef struct {
    const float *weight; /* model_snps x units, row-major */
    uint64_t units;
    const double *mean, *sd; /* model_snps */
} dn_fat_member;

typedef struct {
    uint64_t n_cols;       /* columns of the packed rows (matched SNPs) */
    const uint64_t *place; /* column -> row of weight/mean/sd; NULL: column j is SNP j */
    double scale;          /* multiplies the standardised genotype */
    size_t n_members;
    const dn_fat_member *members;
} dn_fat_problem;

/* rows: n_people packed rows, row_bytes apart, row_bytes a multiple of 64; padding calls are 3.
 * z: n_people x total_units row-major (total = sum of units), overwritten. Result does not depend on the number of threads
 * nor on how people are cut into calls: each sum is made in a fixed order. */
DN_MUST_USE dn_status dn_fat_forward(const dn_fat_problem *p, const uint8_t *rows, uint64_t row_bytes, uint64_t n_people,
                                     float *z, dn_pool *pool, dn_err *err);
/* The plain version, in double: decode, standardise, multiply. */
void dn_fat_forward_ref(const dn_fat_problem *p, const uint8_t *rows, uint64_t row_bytes, uint64_t n_people, double *z);

#endif
