/* fat.h: the fat layer on packed genotypes, prediction side: the table kernel (DESIGN section 8;
 * docs/dnpredict.md).
 *
 * z[i][k] = sum over columns j of x(g_ij) * W[place_j][k], with x = (g - mean_j) / sd_j * scale for g in
 * {0,1,2}, and 0 for a missing call or a SNP that contributes nothing. Members' outputs stand side by side.
 * SNPs are taken in groups of 4, a byte of the packed row; per group and output a table of the partial sums
 * of the bytes that occur is built, and each person adds one table row per group: exact in float, missing
 * calls free, no decoding. */
#ifndef DN_FAT_H
#define DN_FAT_H

#include "dn.h"
#include "geno.h"
#include "par.h"
#include "stats.h" /* dn_snp_is_flat() */

#ifdef __cplusplus
extern "C" {
#endif

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

/* rows: n_people packed rows, row_bytes apart, row_bytes a multiple of 8 that holds n_cols calls; calls past
 * n_cols count for nothing. z: n_people x total_units row-major (total = sum of units), overwritten. The
 * result is the same, bit for bit, for any number of threads, any way of cutting people into calls and any
 * instruction set: per output the sum runs over
 * ((e0 + e1) + (e2 + e3)) of each group in column order, from 0 anew every DN_FAT_CHUNK columns, and the
 * chunks' sums are added in order. DN_ENOMEM. Uses dn_fat_scratch() bytes beyond its arguments. */
DN_MUST_USE dn_status dn_fat_forward(const dn_fat_problem *p, const uint8_t *rows, uint64_t row_bytes,
                                     uint64_t n_people, float *z, dn_pool *pool, dn_err *err);
#define DN_FAT_CHUNK 4096
/* The same with an instruction set named by the caller, for tests; not above dn_isa_get(). */
DN_MUST_USE dn_status dn_fat_forward_isa(const dn_fat_problem *p, const uint8_t *rows, uint64_t row_bytes,
                                         uint64_t n_people, float *z, dn_pool *pool, dn_isa isa, dn_err *err);
uint64_t dn_fat_scratch(const dn_fat_problem *p, uint64_t n_people, size_t n_threads);
/* The plain version, in double: decode, standardise, multiply. */
void dn_fat_forward_ref(const dn_fat_problem *p, const uint8_t *rows, uint64_t row_bytes, uint64_t n_people,
                        double *z);

#ifdef __cplusplus
}
#endif

#endif
