/* geno_impl.h: what the geno_*.c files and their test share: one table of kernels per instruction set.
 *
 * Each kernel is the whole-block core of a function of geno.h; heads, tails and absent rows are handled once,
 * in geno.c, whatever the instruction set. */
#ifndef DN_GENO_IMPL_H
#define DN_GENO_IMPL_H

#include "geno.h"

enum { GENO_TILE_SNPS = 64, GENO_TILE_MAX = 64 };

typedef struct {
    /* Transposes 64 .bed rows x tile_bytes bytes (4 people each): person i's 16 bytes go to dst + i * stride.
     * src[j]: tile_bytes readable bytes; swap[g]: 11 in the bits of each SNP of 4g..4g+3 whose codes are
     * swapped. */
    void (*tile)(const uint8_t *const *src, const uint8_t *swap, uint8_t *dst, uint64_t stride);
    unsigned tile_bytes; /* <= GENO_TILE_MAX */
    /* n_bytes packed bytes -> 4 * n_bytes calls, and back; pack ORs into *bad a non-zero value if a call is
     * outside -1..2. */
    void (*unpack)(const uint8_t *row, uint64_t n_bytes, int8_t *out);
    void (*pack)(const int8_t *calls, uint64_t n_bytes, uint8_t *row, unsigned *bad);
    uint64_t (*count_missing)(const uint8_t *row, uint64_t n_bytes);
} dn_geno_ops;

extern const dn_geno_ops dn_geno_portable, dn_geno_avx2, dn_geno_avx512;
/* The table of one instruction set, which the CPU must have; what this build lacks falls back to the next
 * lower. */
const dn_geno_ops *dn_geno_ops_of(dn_isa isa);

/* The functions of geno.h with the table given. */
void dn_geno_transpose_with(const dn_geno_ops *ops, const uint8_t *const *src, const uint8_t *map,
                            uint64_t n_snps, uint64_t n_people, uint8_t *dst, uint64_t dst_stride,
                            uint64_t dst_snp);
void dn_geno_unpack_with(const dn_geno_ops *ops, const uint8_t *row, uint64_t first, uint64_t n, int8_t *out);
uint64_t dn_geno_pack_with(const dn_geno_ops *ops, const int8_t *calls, uint64_t n, uint8_t *row);
uint64_t dn_geno_count_missing_with(const dn_geno_ops *ops, const uint8_t *row, uint64_t n);

#endif
