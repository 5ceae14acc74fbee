/* dnpredict_join.h: parts of a table -> the table, with proof that every person is in it exactly once. */
#ifndef DNPREDICT_JOIN_H
#define DNPREDICT_JOIN_H

#include "dn.h"
#include "tables.h"

typedef struct {
    uint64_t n_parts, n_people;
} dn_join_stats;

/* parts: file names in any order. Checked: every part is whole (rows, columns, hash); all are of one run,
 * with the same columns; every shard is there once; and the people, put together, are the cohort that each
 * part names by hash. Writes `out` whole or not at all; report: a page about it (dnpredict_report.h), or
 * NULL. DN_EOPEN, DN_EFORMAT: a part is damaged; DN_EMISMATCH: parts do not belong together, one is missing
 * or there twice; DN_EWRITE. */
DN_MUST_USE dn_status dn_join(const dn_strs *parts, const char *out, const char *report, unsigned out_flags,
                              dn_join_stats *stats, dn_err *err);

#endif
