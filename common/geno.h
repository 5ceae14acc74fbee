/* geno.h: genotypes in 2 bits: codes, rows, transposition, counts.
 *
 * Dosage = copies of the allele in .bim column 5 (A1): 0, 1, 2; missing = -1 as int8 and 3 as a 2-bit code.
 * A packed row holds four calls to a byte, first call in the low bits; calls past the end of a row are 3
 * (missing), so that kernels may run over them. A .bed row is the same with PLINK's codes: 00 -> 2, 01 ->
 * missing, 10 -> 1, 11 -> 0, and anything may stand in its padding. Every fast kernel has a plain twin named
 * ..._ref, its oracle.
 */
#ifndef DN_GENO_H
#define DN_GENO_H

#include "dn.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline uint64_t dn_geno_bytes(uint64_t n_calls)
{
    return (n_calls + 3) / 4;
}
static inline unsigned dn_geno_get(const uint8_t *row, uint64_t i)
{
    return row[i / 4] >> (i % 4 * 2) & 3u;
}

/* How a .bed code becomes a dosage code: as it is, or swapped (2 - g; missing stays). */
typedef enum { DN_GENO_SAME = 0, DN_GENO_SWAP = 1 } dn_geno_map;

/* Transposes n_snps .bed rows into packed rows of people, mapping codes.
 * src[j] (j < n_snps): byte 0 of SNP j's .bed data for this block of people (person 0 in the low bits), or
 * NULL: that SNP is missing for everyone. map[j] says how its codes become dosages. dst: person i's row
 * starts at dst + i * dst_stride; SNP j lands at call dst_snp + j of it. dst_snp % 4 == 0. Bytes [dst_snp/4,
 * dst_snp/4 + ceil(n_snps/4)) of every row are written; calls past n_snps in the last byte become 3. Source
 * bytes past ceil(n_people/4) are not read. Thread-safe: scratch is on the stack. */
void dn_geno_transpose(const uint8_t *const *src, const uint8_t *map, uint64_t n_snps, uint64_t n_people,
                       uint8_t *dst, uint64_t dst_stride, uint64_t dst_snp);
void dn_geno_transpose_ref(const uint8_t *const *src, const uint8_t *map, uint64_t n_snps, uint64_t n_people,
                           uint8_t *dst, uint64_t dst_stride, uint64_t dst_snp);

/* Packed dosage codes -> int8 (-1 = missing), n calls from call `first` of the row; and back. Pack fills the
 * tail of the last byte with 3 and returns the index of the first value outside -1..2, or n when all are
 * good. */
void dn_geno_unpack(const uint8_t *row, uint64_t first, uint64_t n, int8_t *out);
void dn_geno_unpack_ref(const uint8_t *row, uint64_t first, uint64_t n, int8_t *out);
uint64_t dn_geno_pack(const int8_t *calls, uint64_t n, uint8_t *row);
uint64_t dn_geno_pack_ref(const int8_t *calls, uint64_t n, uint8_t *row);

/* Missing calls (code 3) among the first n calls of a packed row. */
uint64_t dn_geno_count_missing(const uint8_t *row, uint64_t n);
uint64_t dn_geno_count_missing_ref(const uint8_t *row, uint64_t n);

/* Instruction set chosen at start ("avx512", "avx2", "portable"); DN_ISA= forces a lower one. */
typedef enum { DN_ISA_PORTABLE = 0, DN_ISA_AVX2 = 1, DN_ISA_AVX512 = 2 } dn_isa;
dn_isa dn_isa_get(void); /* decided once */
const char *dn_isa_name(dn_isa isa);
/* Checks DN_ISA= : DN_EUSAGE for an unknown name, DN_EUNSUPPORTED for one this CPU lacks. Call in main(). */
DN_MUST_USE dn_status dn_isa_check(dn_err *err);

#ifdef __cplusplus
}
#endif

#endif
