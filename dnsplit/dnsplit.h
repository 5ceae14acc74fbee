/* dnsplit.h: what the user asked for. */
#ifndef DNSPLIT_H
#define DNSPLIT_H

#include "gpk.h"
#include "opt.h"
#include "split.h"

typedef unsigned long long ull;

typedef struct {
    dn_common common;
    const char *data, *out, *from_npz, *export_npz, *stats_npz, *embedding_npz, *group;
    bool balance, group_by_fid, folds_given, seed_given, ratio_given;
    uint64_t folds, seed;
    double ratio;
} split_options;

/* The folds that the options ask for, drawn or taken from upstream's file: fills s->folds, n_folds, method,
 * seed and ratio. Says on stderr what groups would have been torn, and who takes no part. */
DN_MUST_USE dn_status split_make(const split_options *o, const dn_gpk_info *info, dn_split *s, dn_err *err);

#endif
