/* blocks.h: genotypes of a cohort from .bed rows (one per SNP) to packed rows (one per person), a block of
 * people at a time, in bounded memory and with all threads; and counts of alleles on the way. */
#ifndef SNPMATCH_BLOCKS_H
#define SNPMATCH_BLOCKS_H

#include "dn.h"
#include "par.h"
#include "plink.h"

#define DN_NO_SNP UINT64_MAX

typedef struct {
    dn_plink *cohort;
    uint64_t n_cols; /* columns of the result */
    const uint64_t
        *snp; /* n_cols: the cohort's SNP of each column, DN_NO_SNP for one that is missing for everyone */
    const uint8_t *map;  /* n_cols: dn_geno_map */
    const uint8_t *keep; /* one byte per person of the cohort: 1 = wanted; NULL: all */
    uint64_t memory;     /* bytes for buffers; a block has as many people as fit */
    dn_pool *pool;
    /* Allele counts over the wanted people, from the cohort's own A1, added to: n_cols each; both NULL: not
     * wanted. */
    uint64_t *a1, *called;
    /* Gets n packed rows of dn_gpk_row_bytes(n_cols) each, in order, wanted people only. NULL: only count. */
    dn_status (*rows)(void *ctx, const uint8_t *rows, uint64_t n, dn_err *err);
    void *ctx;
    void (*progress)(void *ctx, uint64_t people); /* people done so far, of the cohort; NULL: none */
} dn_blocks;

/* Reads every wanted genotype once and hands on all rows. Rows and counts do not depend on memory or threads.
 * DN_ENOMEM says how much memory the smallest block needs; DN_EOPEN; what rows() returns. */
DN_MUST_USE dn_status dn_blocks_run(const dn_blocks *b, dn_err *err);

/* Counts over one .bed row of n people. mask: two bits per person, 11 = counted; NULL: all. Adds to *a1 and
 * *called. */
void dn_bed_count(const uint8_t *row, const uint8_t *mask, uint64_t n, uint64_t *a1, uint64_t *called);

#endif
