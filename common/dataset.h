/* dataset.h: a labelled panel, whichever of our two files it is in: dataset.h5 (upstream's layout,
 * docs/format-dataset.md) or dataset.gpk (docs/format-gpk.md). One reader for both, and the writer of
 * dataset.h5.
 *
 * dataset.h5, at the root: `inputs` int8 (N x M: 0, 1, 2, -1 = missing), `samples` (IIDs), `snp_names`;
 * optional `class_labels` int64 with `class_label_names`, `regression_labels` float64; ours, optional:
 * `fids`, `snp_chrom`, `snp_pos`, `snp_a1`, `snp_a2`. What the file holds is described by a dn_gpk_info
 * (gpk.h), with model_snps = 0. */
#ifndef DN_DATASET_H
#define DN_DATASET_H

#include "dn.h"
#include "gpk.h"

/* ---- reading ---- */
typedef struct dn_dataset dn_dataset;
/* A .h5 or .gpk file, told apart by its first bytes (a pipe or "-" is DN_EUSAGE). People and SNP names are
 * read, sizes, labels and types are checked; no genotype is read yet. A .h5 without FIDs gives every person
 * the FID "0". DN_EOPEN; DN_EFORMAT naming the file and the dataset in it that is absent, misshapen or not
 * what it should be. */
DN_MUST_USE dn_status dn_dataset_open(dn_dataset **out, const char *path, dn_err *err);
void dn_dataset_close(dn_dataset *d);
/* People, SNPs, labels (label NULL: none; class index per person, -1 for none), target (NULL: none). Owned by
 * d. */
const dn_gpk_info *dn_dataset_info(const dn_dataset *d);
const char *dn_dataset_path(const dn_dataset *d);
bool dn_dataset_is_gpk(const dn_dataset *d);
/* Stride of packed rows: dn_gpk_row_bytes(n_snps). */
uint64_t dn_dataset_row_bytes(const dn_dataset *d);
/* Packed rows of people [first, first + n) at *rows, stride dn_dataset_row_bytes: for a raw .gpk the mapping
 * itself, else put into buf (caller's: n x row_bytes, 64-aligned; must not be NULL). Padding calls are 3.
 * DN_EFORMAT for a value outside -1..2, with person, SNP, row and column, and for a row of a .gpk whose
 * checksum differs. Thread-safe with a buffer each; rows of a .h5 are read and packed in pieces of a few MiB,
 * so memory beyond buf stays small. */
DN_MUST_USE dn_status dn_dataset_rows(dn_dataset *d, uint64_t first, uint64_t n, uint8_t *buf,
                                      const uint8_t **rows, dn_err *err);
/* The same, always copied into buf. */
DN_MUST_USE dn_status dn_dataset_read(dn_dataset *d, uint64_t first, uint64_t n, uint8_t *buf, dn_err *err);
/* Lets go of mapped pages of rows that were used. */
void dn_dataset_release(dn_dataset *d, uint64_t first, uint64_t n);
/* dn_data_fingerprint() (fingerprint.h): the same for the .h5 and the .gpk of one dataset. A .gpk knows it;
 * our .h5 carries the hash of its rows (attribute `rows_xxh3` of `inputs`); for other .h5 files every row is
 * read once, with progress(ctx, rows done) called now and then (NULL: none). The value is kept: a second call
 * is free. Not thread-safe. */
DN_MUST_USE dn_status dn_dataset_fingerprint(dn_dataset *d, uint64_t *fingerprint,
                                             void (*progress)(void *ctx, uint64_t done), void *ctx,
                                             dn_err *err);

/* Reads every row and compares it with the checksum in the file: DN_EFORMAT when it does not hold, DN_OK with
 * *checked = false when the file (upstream's) carries none. progress as above. */
DN_MUST_USE dn_status dn_dataset_verify(dn_dataset *d, size_t threads, bool *checked,
                                        void (*progress)(void *ctx, uint64_t done), void *ctx, dn_err *err);

/* ---- writing dataset.h5 ---- */
typedef struct dn_dataset_writer dn_dataset_writer;
/* Everything but the genotypes is written at once; info is not kept. Room on the disk is checked first
 * (DN_EWRITE with need and free). out_flags: as dn_out_open; "-" is DN_EUSAGE. label -1 is written as -1,
 * absent tables are left out; `fids` is left out when every FID is "0". */
DN_MUST_USE dn_status dn_dataset_create(dn_dataset_writer **out, const char *path, const dn_gpk_info *info,
                                        unsigned out_flags, dn_err *err);
/* Next n packed rows, stride row_bytes (>= ceil(n_snps/4)), in order. They are unpacked in pieces. */
DN_MUST_USE dn_status dn_dataset_write(dn_dataset_writer *w, const uint8_t *rows, uint64_t row_bytes,
                                       uint64_t n, dn_err *err);
/* Whole or not at all; DN_EINTERNAL unless all people were written. Frees *w in every case. */
DN_MUST_USE dn_status dn_dataset_commit(dn_dataset_writer **w, dn_err *err);
void dn_dataset_abort(dn_dataset_writer **w);
/* Bytes that the finished file takes, about (for messages). */
uint64_t dn_dataset_h5_bytes(const dn_gpk_info *info);

#endif
