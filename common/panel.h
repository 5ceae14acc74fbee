/* panel.h: a labelled panel chosen from PLINK filesets: who and what is taken, in what order, with which
 * labels; and its packed rows. Shared by bed2h5 and gpack --bfile, so that both make the same dataset from
 * the same inputs. */
#ifndef DN_PANEL_H
#define DN_PANEL_H

#include "dn.h"
#include "gpk.h"
#include "labels.h"
#include "par.h"
#include "plink.h"

typedef struct {
    const dn_strs *bfiles;           /* as dn_plink_open() */
    const char *keep, *remove;       /* files of people; each may be NULL */
    const char *extract, *exclude;   /* files of SNP IDs */
    const char *labels, *regression; /* label files (labels.h) */
    uint64_t id_cols;                /* of the label files: 1 or 2; 0 = 1 */
    bool strict;                     /* people without a label, or labels without a person, are an error */
} dn_panel_opts;

typedef struct {
    dn_plink *plink;
    dn_gpk_info info; /* people and SNPs taken, in the order of .fam and .bim, with their labels */
    uint8_t *keep;    /* one byte per person of the cohort: 1 = taken */
    uint64_t *snp;    /* info.n_snps: the cohort's number of each column */
    dn_strs notes;    /* what was taken and left out, one line each, for --verbose or normal output */
    dn_strs warnings; /* what the user should look at */
} dn_panel;

/* Reads .fam, .bim, lists and labels; no genotype. People without a label, when a label file is given, are
 * left out with a warning that counts and names them. Errors: those of the readers; DN_EMISMATCH when nobody
 * or no SNP is left, and under `strict`. Zero-initialised by this; dn_panel_close() in every case. */
DN_MUST_USE dn_status dn_panel_open(dn_panel *p, const dn_panel_opts *opts, dn_err *err);
/* The same choice of people, labels and SNPs for genotypes that come from elsewhere (text): people is taken
 * over, *keep_snp gets one byte per ID (allocated; NULL: all are taken). info.snps is the caller's to fill.
 */
DN_MUST_USE dn_status dn_panel_open_tables(dn_panel *p, const dn_panel_opts *opts, dn_people *people,
                                           const dn_strs *ids, uint8_t **keep_snp, dn_err *err);
/* Reads all genotypes once and hands packed rows (dn_gpk_row_bytes(n_snps) each) to rows(), in order. memory
 * bounds the buffers. The result does not depend on memory or threads. progress(ctx, people of the cohort
 * done) may be NULL. */
DN_MUST_USE dn_status dn_panel_rows(dn_panel *p, uint64_t memory, dn_pool *pool,
                                    dn_status (*rows)(void *ctx, const uint8_t *rows, uint64_t n,
                                                      dn_err *err),
                                    void *ctx, void (*progress)(void *ctx, uint64_t people), dn_err *err);
/* After dn_panel_rows(): the first .bed whose padding bits are not zero, or NULL. Worth one warning: they
 * were ignored. */
const char *dn_panel_dirty_bed(const dn_panel *p);
void dn_panel_close(dn_panel *p);

#endif
