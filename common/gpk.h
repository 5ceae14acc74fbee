/* gpk.h: .gpk, our packed genotypes: one format for files and pipes (docs/format-gpk.md).
 * Rows are people; a row is n_snps 2-bit dosage codes (geno.h), padded with missing to row_bytes, a multiple
 * of 64. */
#ifndef DN_GPK_H
#define DN_GPK_H

#include "dn.h"
#include "io.h"
#include "par.h"
#include "tables.h"

/* What a .gpk says about itself. Owned by whoever fills it; dn_gpk_info_free(). */
typedef struct {
    uint64_t n_people, n_snps;
    dn_people people;
    dn_snps snps; /* the SNPs of the columns, in column order */
    /* Labels, if any (training data): class_names sorted; label[i] in [0, class_names.n), or -1 for none.
     * NULL: no labels. */
    dn_strs class_names;
    int64_t *label;
    double *target; /* regression labels, n_people, NaN for none; NULL: none */
    /* Matched to a model, if model_snps > 0: column j is SNP place[j] of the model (strictly increasing),
     * model_hash = dn_snps_hash() of the model's SNP list, scale = model_snps / n_snps. */
    uint64_t model_snps, model_hash;
    uint64_t *place;
    uint32_t zstd_level; /* 0: rows as they are; else compressed blocks */
    uint32_t block_rows; /* rows per compressed block; 0: dn_gpk_block_rows() when writing */
} dn_gpk_info;
void dn_gpk_info_free(dn_gpk_info *info);
double dn_gpk_scale(const dn_gpk_info *info); /* model_snps / n_snps; 1 when not matched */
uint64_t dn_gpk_row_bytes(uint64_t n_snps);   /* stride: packed bytes rounded up to 64 */
uint32_t dn_gpk_block_rows(uint64_t n_snps);  /* default for compressed blocks: about 64 KiB of rows */

/* Checks what write_start checks, and what a reader checks after parsing: counts, lengths, ranges. DN_EFORMAT
 * names the item. */
DN_MUST_USE dn_status dn_gpk_info_check(const dn_gpk_info *info, const char *path, dn_err *err);

typedef struct dn_gpk_writer dn_gpk_writer;
/* Writes the header at once; info is not kept. out stays the caller's. Works without seeking, so also on a
 * pipe. */
DN_MUST_USE dn_status dn_gpk_write_start(dn_gpk_writer **w, dn_out *out, const dn_gpk_info *info,
                                         dn_err *err);
/* Compresses blocks on the pool's threads; the bytes written are the same. The pool must outlive the writer.
 */
void dn_gpk_writer_use_pool(dn_gpk_writer *w, dn_pool *pool);
/* n_rows rows of row_bytes each, in order. The tail of each row must be missing (3): checked. */
DN_MUST_USE dn_status dn_gpk_write_rows(dn_gpk_writer *w, const uint8_t *rows, uint64_t n_rows, dn_err *err);
/* Trailer; DN_EINTERNAL unless exactly n_people rows were written. Frees *w in every case. Commit `out`
 * afterwards. */
DN_MUST_USE dn_status dn_gpk_write_end(dn_gpk_writer **w, dn_err *err);
void dn_gpk_writer_free(dn_gpk_writer *w);

typedef struct dn_gpk dn_gpk;
/* A file (mapped; the trailer is checked at once: a truncated file is refused here) or "-" / a pipe
 * (streamed; checksum and trailer are checked when the last row has been read). */
DN_MUST_USE dn_status dn_gpk_open(dn_gpk **out, const char *path, dn_err *err);
const dn_gpk_info *dn_gpk_get_info(const dn_gpk *g);
/* Identity of a dataset for splits, packages and checkpoints: dn_data_fingerprint() (fingerprint.h) of what
 * the file holds, the same for raw and compressed rows. 0 for a stream that is not at its end yet. */
uint64_t dn_gpk_fingerprint(const dn_gpk *g);
uint64_t
dn_gpk_missing(const dn_gpk *g); /* missing calls of all people; UINT64_MAX for a stream not at its end */
bool dn_gpk_is_stream(const dn_gpk *g);
/* Rows [first, first + n): *rows points at them, stride row_bytes. For a raw file this is the mapping itself;
 * for compressed blocks and streams they are put into buf (n x row_bytes, caller's; must not be NULL then). A
 * stream must be read in order. Thread-safe for files, with a buffer each. */
DN_MUST_USE dn_status dn_gpk_rows(dn_gpk *g, uint64_t first, uint64_t n, uint8_t *buf, const uint8_t **rows,
                                  dn_err *err);
/* Whether row i's bytes are the ones that were written: compares with its hash in the trailer. Compressed
 * rows and streams are always checked as they are read; rows of a raw file are used in place and only checked
 * by this, dn_gpk_check_rows() and dn_gpk_verify(). */
bool dn_gpk_row_ok(const dn_gpk *g, uint64_t i, const uint8_t *row);
/* The same of rows [first, first + n), as dn_gpk_rows() gave them: DN_EFORMAT names the first damaged person.
 */
DN_MUST_USE dn_status dn_gpk_check_rows(const dn_gpk *g, uint64_t first, uint64_t n, const uint8_t *rows,
                                        dn_err *err);
/* Lets go of mapped pages of rows already used, so that RSS stays bounded on files larger than memory. */
void dn_gpk_release(dn_gpk *g, uint64_t first, uint64_t n);
/* Whole-file check: every checksum (header, sections, rows, index). For a file only. */
DN_MUST_USE dn_status dn_gpk_verify(dn_gpk *g, size_t threads, dn_err *err);
void dn_gpk_close(dn_gpk *g);

#endif
