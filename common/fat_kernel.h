/* fat_kernel.h: the two inner loops of the table kernel, between fat.c, which lays out the work, and
 * fat_kernel.c, which compiles them once per instruction set.
 *
 * A tile is 32 columns (one 64-bit word of each packed row, 8 bytes = 8 groups of 4 calls) x 16 outputs. Its
 * table has, per group, one row of 16 floats for every byte value that occurs: 8 x 81 rows of 64 bytes when
 * nothing is missing (41 KB, about one L1 cache; rows of rare calls stay cold). Groups are 263 rows apart,
 * not 256, so that the same byte of two groups does not fall into the same cache set. */
#ifndef DN_FAT_KERNEL_H
#define DN_FAT_KERNEL_H

#include "geno.h"

#define FAT_LANES  16 /* outputs of a tile */
#define FAT_COLS   32 /* columns of a tile */
#define FAT_GROUPS 8
#define FAT_PITCH  263                                  /* table rows from one group to the next */
#define FAT_TABLE  (FAT_GROUPS * FAT_PITCH * FAT_LANES) /* floats */

/* The byte values that occur in one group of a tile, among the people at hand. */
typedef struct {
    uint16_t n;
    uint8_t value[256];
} fat_used;

/* What the columns of a tile contribute: dosage d of column c gives x[(c * 3 + d) * x_lanes + lane * (x_lanes
 * > 1)] * w[c][lane] to output lane. x_lanes is 1 (the outputs share their factors) or 16 (each has its own;
 * x aligned). */
typedef struct {
    const float *w[FAT_COLS]; /* 16 each, of any alignment */
    const float *x;
    size_t x_lanes;
} fat_columns;

/* Fills the rows of `table` that `used` (8 groups) names. */
typedef void fat_build_fn(const fat_columns *cols, const fat_used *used, float *table);
/* acc[i] (16 floats) += the table rows of word[i], group by group, for n people. */
typedef void fat_add_fn(const float *table, const uint64_t *word, size_t n, float *acc);
/* total += acc, then acc = 0, for n people. */
typedef void fat_drain_fn(float *acc, size_t n, float *total);
typedef struct {
    fat_build_fn *build;
    fat_add_fn *add;
    fat_drain_fn *drain;
} fat_kernels;
fat_kernels fat_kernels_for(dn_isa isa);

#endif
