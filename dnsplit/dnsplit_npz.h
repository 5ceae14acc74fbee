/* dnsplit_npz.h: upstream's partition file: folds_indexes, a (folds x 3) array of pickled lists (train,
 * valid, test), and folds_samples, the same with sample IDs. */
#ifndef DNSPLIT_NPZ_H
#define DNSPLIT_NPZ_H

#include "dn.h"
#include "split.h"
#include "tables.h"

/* Takes the folds as they stand, order kept: *folds (allocated, n_folds of them; the caller frees). Where the
 * file has folds_samples, every ID is compared with the dataset's: *checked tells. DN_EMISMATCH: the file is
 * of other people. DN_EFORMAT: damaged or not such a file. */
DN_MUST_USE dn_status split_npz_read(const char *path, const dn_people *people, dn_fold **folds,
                                     uint64_t *n_folds, bool *checked, dn_err *err);
/* Writes both arrays, so that numpy.load(path, allow_pickle=True)["folds_indexes"] gives upstream's train.py
 * its lists. */
DN_MUST_USE dn_status split_npz_write(const char *path, const dn_people *people, const dn_fold *folds,
                                      uint64_t n_folds, unsigned out_flags, dn_err *err);

#endif
