/* gpack_source.h: where gpack's rows come from: a dataset.h5, a .gpk (file or pipe), or PLINK filesets; one
 * way to go through any of them in bounded memory. */
#ifndef GPACK_SOURCE_H
#define GPACK_SOURCE_H

#include "dataset.h"
#include "dn.h"
#include "gpk.h"
#include "panel.h"
#include "par.h"

typedef struct {
    const char *name; /* for messages */
    const dn_gpk_info *info;
    uint64_t file_bytes; /* 0 for a pipe or PLINK */
    /* one of these */
    dn_gpk *gpk;
    dn_dataset *h5;
    dn_panel *panel;
} gpack_source;

/* path: "-" or a pipe (.gpk only), a .gpk or a dataset.h5; by first bytes, not by name. Other kinds are
 * DN_EFORMAT with what they are and how to give them; a matched.h5 is DN_EUNSUPPORTED. */
DN_MUST_USE dn_status gpack_source_open(gpack_source *s, const char *path, dn_err *err);
/* panel stays the caller's. */
void gpack_source_panel(gpack_source *s, dn_panel *panel);
/* Hands every row to rows() in order: packed, dn_gpk_row_bytes(n_snps) apart. Rows are checked on the way:
 * values of a .h5, checksums of a .gpk. memory bounds the buffers; progress(NULL, people done) may be NULL.
 */
DN_MUST_USE dn_status gpack_source_rows(gpack_source *s, uint64_t memory, dn_pool *pool,
                                        dn_status (*rows)(void *ctx, const uint8_t *rows, uint64_t n,
                                                          dn_err *err),
                                        void *ctx, void (*progress)(void *ctx, uint64_t people), dn_err *err);
void gpack_source_close(gpack_source *s);

#endif
