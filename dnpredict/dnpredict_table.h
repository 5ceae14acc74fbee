/* dnpredict_table.h: the table of predictions (docs/format-predictions.md), written row by row, and its parts
 * under --shard.
 *
 * A part is the table of some people between two comment lines: a head that says which people of how many,
 * whose, and from which run, and an end with the number of rows and a hash of all bytes before it. dnpredict
 * --join strips both. */
#ifndef DNPREDICT_TABLE_H
#define DNPREDICT_TABLE_H

#include "dn.h"
#include "io.h"
#include "model.h"

/* Who is in a part, and of what. */
typedef struct {
    uint64_t shard, n_shards; /* 1-based */
    uint64_t first, last;     /* people [first, last) of the cohort */
    uint64_t n_people;        /* of the whole cohort */
    uint64_t people_hash;     /* dn_table_people_hash() of the whole cohort */
    uint64_t run;             /* model and matched data: equal in all parts of one run */
} dn_part;
#define DN_PART_HEAD "#dnpredict-part"
#define DN_PART_END  "#dnpredict-end"
uint64_t dn_table_people_hash(const dn_people *people);
/* People of shard i of n: [*first, *last), sizes differ by at most one. */
void dn_part_range(uint64_t shard, uint64_t n_shards, uint64_t n_people, uint64_t *first, uint64_t *last);
/* The head line, with its newline; buf of 512 bytes. And back: DN_EFORMAT unless it is a whole one. */
void dn_part_format(const dn_part *p, char buf[512]);
DN_MUST_USE dn_status dn_part_parse(dn_part *p, const char *line, const char *path, dn_err *err);

typedef struct dn_table dn_table;
/* part NULL: a whole table. Writes the header (and the part's head). The model must outlive the table. */
DN_MUST_USE dn_status dn_table_open(dn_table **out, const char *path, unsigned out_flags,
                                    const dn_model *model, const dn_part *part, dn_err *err);
/* Below this share of the matched SNPs, people are warned about. */
#define DN_LOW_CALL_RATE 0.5
/* What a row says, for who counts rows. */
typedef struct {
    const char *prediction; /* the model's own string; NULL without a call, or for regression */
    uint64_t votes;
    double confidence, entropy;
    double value, sd; /* regression; sd NaN with one member */
    double call_rate;
} dn_row_result;
/* One person, and what was written in *row unless that is NULL. scores: n_members x stride floats, of which
 * n_out are used: probabilities or values. call_rate 0: no call at all, NA in every column that would be a
 * guess. */
DN_MUST_USE dn_status dn_table_row(dn_table *t, const char *fid, const char *iid, const float *scores,
                                   uint64_t stride, double call_rate, dn_row_result *row, dn_err *err);
DN_MUST_USE dn_status dn_table_commit(dn_table **t, dn_err *err); /* frees *t whatever happens */
void dn_table_abort(dn_table *t);

#endif
