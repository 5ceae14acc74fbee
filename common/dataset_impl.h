/* dataset_impl.h: what dataset.c (reading) and dataset_write.c share of dataset.h5 (docs/format-dataset.md).
 */
#ifndef DN_DATASET_IMPL_H
#define DN_DATASET_IMPL_H

#include "dataset.h"

#define DATASET_FORMAT "dnpipe dataset"
#define DATASET_MAJOR  1
#define DATASET_MINOR  0

/* Checksum of all tables (not the genotypes): XXH3-64 over ten 64-bit numbers, see docs/format-dataset.md. */
uint64_t dn_dataset_tables_hash(const dn_gpk_info *info, bool has_fids);
bool dn_dataset_has_fids(const dn_people *p); /* false when every FID is "0" */

#endif
