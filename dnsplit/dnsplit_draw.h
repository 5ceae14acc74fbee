/* dnsplit_draw.h: how people are dealt into folds. N people of the dataset, of whom those in `who` take part;
 * K folds. */
#ifndef DNSPLIT_DRAW_H
#define DNSPLIT_DRAW_H

#include "dn.h"
#include "split.h"

typedef struct {
    uint64_t n_who;
    const uint64_t *who;  /* row numbers that take part, increasing */
    const int64_t *label; /* per row of the dataset; NULL for regression or unbalanced folds */
    uint64_t n_classes;
    uint64_t n_folds, seed;
    double ratio; /* unbalanced: training share of what is not tested */
    bool balanced;
} split_draw;

/* Upstream's partition_data.py, draw for draw. Fills folds[0..K) (zeroed before; the caller frees the lists).
 * Unbalanced: the shuffled people are cut into K test sets, the last one takes what is left over; of the
 * people after (and then before) a test set the first ones validate and the last floor(ratio * n) train.
 * Balanced: the shuffled people of each class stand on a wheel, which one number u in [0, 1), drawn after the
 * shuffle, turns: fold f validates on the part [u + f/K, u + (f+1)/K), tests on the part after it, and trains
 * on the others, in the wheel's order. DN_ENUMERIC: too few people or folds. */
DN_MUST_USE dn_status split_draw_plain(const split_draw *d, dn_fold *folds, dn_err *err);

/* The same with groups kept whole. group[i], i < n_who: number of who[i]'s group, in [0, n_groups). Groups
 * are dealt in the order of a shuffle, large ones first, each to the fold that has least of its classes
 * (unbalanced: fewest people). */
DN_MUST_USE dn_status split_draw_grouped(const split_draw *d, const uint64_t *group, uint64_t n_groups,
                                         dn_fold *folds, dn_err *err);

/* How many of the groups with two or more people some fold tears between its sets. label as above. */
DN_MUST_USE dn_status split_count_torn(const split_draw *d, const uint64_t *group, uint64_t n_groups,
                                       const dn_fold *folds, uint64_t n_people, uint64_t *torn, dn_err *err);

#endif
