/* dnsplit_table.h: who is in which set, and what is wrong with it. */
#ifndef DNSPLIT_TABLE_H
#define DNSPLIT_TABLE_H

#include <stdio.h>

#include "dn.h"
#include "gpk.h"
#include "split.h"

/* counts[(fold * 3 + set) * C + class]; C = number of classes, at least 1 (regression: all in one). From
 * dn_alloc, the caller's. */
DN_MUST_USE dn_status split_table(const dn_split *s, const dn_gpk_info *info, uint64_t **counts,
                                  uint64_t *n_classes, dn_err *err);
/* fold, set, people, then one column per class; tab-separated. */
void split_table_print(FILE *f, const dn_split *s, const dn_gpk_info *info, const uint64_t *counts,
                       uint64_t n_classes);
/* DN_ENUMERIC: a training or validation set is empty, or a class is absent from a training set, with fold and
 * class, and how many more. */
DN_MUST_USE dn_status split_table_check(const dn_split *s, const dn_gpk_info *info, const uint64_t *counts,
                                        uint64_t n_classes, dn_err *err);

#endif
