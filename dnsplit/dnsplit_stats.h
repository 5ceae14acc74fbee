/* dnsplit_stats.h: upstream's two other inputs, from the integer counts of each fold's training set
 * (stats.h). */
#ifndef DNSPLIT_STATS_H
#define DNSPLIT_STATS_H

#include "dataset.h"
#include "dn.h"
#include "par.h"
#include "split.h"

typedef struct {
    const char *stats_path, *emb_path; /* either may be NULL */
    unsigned out_flags;
    uint64_t memory;
    void (*progress)(void *ctx, uint64_t done); /* rows done, of n_folds x n_people at most */
    void *ctx;
} split_stats_opts;

/* What was found and how fast. n_flat, n_empty: per fold (the caller's arrays). */
typedef struct {
    uint64_t *n_flat, *n_empty;
    double count_seconds; /* in dn_counts_add() alone */
    double count_bytes;   /* packed bytes that it went over */
} split_stats_found;

/* stats.npz: means_by_fold, sd_by_fold (K x M); embedding.npz: emb (K x M x 3C), not normalised. Reads the
 * genotypes once, or once for as many folds as fit into memory. For regression C = 1. DN_ENOMEM when one
 * fold's counts do not fit. */
DN_MUST_USE dn_status split_stats_write(dn_dataset *d, const dn_split *s, const split_stats_opts *o,
                                        dn_pool *pool, split_stats_found *found, dn_err *err);

#endif
