/* fingerprint.h: one identity for a dataset whatever file it is in, so that a split, a checkpoint or a
 * package made from dataset.h5 is accepted with the dataset.gpk of the same data, and refused with any other.
 */
#ifndef DN_FINGERPRINT_H
#define DN_FINGERPRINT_H

#include "dn.h"
#include "tables.h"

/* XXH3-64 (seed 0) of all packed rows in order, each dn_gpk_row_bytes(n_snps) long: dosage codes first, then
 * missing codes (all bits set) up to the stride. Fed in pieces of any size; pieces do not change the result.
 */
typedef struct dn_row_hash dn_row_hash;
DN_MUST_USE dn_status dn_row_hash_new(dn_row_hash **out, dn_err *err);
void dn_row_hash_add(dn_row_hash *h, const uint8_t *rows, size_t n_bytes);
uint64_t dn_row_hash_get(const dn_row_hash *h);
void dn_row_hash_free(dn_row_hash *h);

/* The dataset's fingerprint. people: N; snps: M, of which IDs and alleles count (dn_snps_hash), not
 * positions; class_names and label (N, -1 for none) or NULL/NULL; target (N, any NaN for none) or NULL;
 * rows_hash as above. Defined as XXH3-64 of these 64-bit little-endian numbers: N, M, hash of FIDs, hash of
 * IIDs (dn_strs_hash), dn_snps_hash, rows_hash, label ? hash of class names : 0, label ? XXH3-64 of the N
 * int64 : 0, target ? XXH3-64 of the N doubles, every NaN as 0x7ff8000000000000 : 0. A file without FIDs
 * counts as one whose FIDs are all "0", PLINK's "no family". Never 0. */
uint64_t dn_data_fingerprint(const dn_people *people, const dn_snps *snps, const dn_strs *class_names,
                             const int64_t *label, const double *target, uint64_t rows_hash);

#endif
