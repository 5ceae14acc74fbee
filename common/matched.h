/* matched.h: a cohort matched to a model, whichever file it comes in: a matched .gpk (file or pipe),
 * our matched.h5, or the matched.hdf5 that upstream's scripts write. All give the same columns: the model's
 * SNPs that matched, in model order, so that predictions are the same bytes from any of them. */
#ifndef DN_MATCHED_H
#define DN_MATCHED_H

#include "dn.h"
#include "fingerprint.h"
#include "gpk.h"
#include "h5.h"
#include "model.h"
#include "par.h"

typedef struct {
    dn_people people; /* of a .gpk: borrowed from its reader */
    uint64_t n_people, model_snps;
    uint64_t n_cols;       /* SNPs that matched */
    const uint64_t *place; /* n_cols: their place in the model; NULL: column j is SNP j */
    double scale;          /* model_snps / n_cols */
    uint64_t row_bytes;    /* of the rows handed out */
    uint64_t fingerprint;  /* of the data where the file knows it, else 0 */
    bool is_stream;
    bool without_alleles; /* matched by IDs alone, to this model without its alleles */
    /* private */
    char *path;
    dn_gpk *gpk;
    dn_h5 *h5;
    uint64_t *own_place;
    uint8_t *buf; /* rows handed out, where they are not the file's own */
    uint64_t buf_rows;
    /* HDF5: all SNPs of the model, as calls and packed */
    dn_snps snps;
    double file_scale;
    int8_t *calls; /* piece x model_snps */
    uint8_t *wide; /* piece x wide_bytes */
    uint64_t piece, wide_bytes;
    dn_row_hash *hash; /* of the rows so far, while they come in order */
    uint64_t hashed;
} dn_matched;

/* Opens by content; "-" is a .gpk on standard input. DN_EOPEN; DN_EFORMAT for a file of another kind (named,
 * with what to do). */
DN_MUST_USE dn_status dn_matched_open(dn_matched **out, const char *path, dn_err *err);
/* Compares with the model: SNP list, alleles, sizes, scale; finds which columns of an HDF5 file matched (for
 * upstream's file by reading rows until all have been seen with a call). DN_EMISMATCH names the first
 * difference. Call before dn_matched_rows(). */
DN_MUST_USE dn_status dn_matched_check(dn_matched *m, const dn_model *model, dn_err *err);
/* Bytes that dn_matched_rows() needs for blocks of n people, and makes them ready. */
uint64_t dn_matched_buffer_bytes(const dn_matched *m, uint64_t n);
DN_MUST_USE dn_status dn_matched_reserve(dn_matched *m, uint64_t n, dn_err *err);
/* Packed rows of people [first, first + n), stride row_bytes, valid until the next call. A stream in order,
 * all of it: its checksum is known at its end. DN_EFORMAT: damaged, with the person's number. */
DN_MUST_USE dn_status dn_matched_rows(dn_matched *m, uint64_t first, uint64_t n, dn_pool *pool,
                                      const uint8_t **rows, dn_err *err);
/* Lets go of rows that were used. */
void dn_matched_release(dn_matched *m, uint64_t first, uint64_t n);
void dn_matched_close(dn_matched *m);

/* Our matched.h5 (docs/format-matched.md): its marks, and the checksum of everything but the calls.
 * XXH3-64 of N, M, hash of FIDs, hash of IIDs, dn_snps_hash, XXH3-64 of the M bytes of snp_matched, the bits
 * of scale. */
#define DN_MATCHED_FORMAT "dnpipe matched"
#define DN_MATCHED_MAJOR  1
#define DN_MATCHED_MINOR  0
uint64_t dn_matched_tables_hash(const dn_people *people, const dn_snps *snps, const uint8_t *matched,
                                double scale);

/* The HDF5 side (matched_h5.c), for matched.c. */
DN_MUST_USE dn_status dn_matched_h5_open(dn_matched *m, const char *path, dn_err *err);
DN_MUST_USE dn_status dn_matched_h5_check(dn_matched *m, const dn_model *model, dn_err *err);
DN_MUST_USE dn_status dn_matched_h5_reserve(dn_matched *m, dn_err *err);
DN_MUST_USE dn_status dn_matched_h5_rows(dn_matched *m, uint64_t first, uint64_t n, dn_pool *pool,
                                         dn_err *err);
/* Does hash belong to the model, with its alleles or (*without = true) without them? */
bool dn_matched_fits(const dn_model *model, uint64_t hash, bool *without);

#endif
