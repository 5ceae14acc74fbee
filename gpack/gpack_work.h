/* gpack_work.h: what gpack does once it knows what is wanted: pack, unpack, test, list. */
#ifndef GPACK_WORK_H
#define GPACK_WORK_H

#include "gpack_source.h"
#include "opt.h"

typedef struct {
    const dn_common *common;
    const char *out;
    uint64_t level, block_rows; /* level 0: raw rows; block_rows 0: the default */
} gpack_job;

/* Writes s as a .gpk at job->out (a file or "-"). */
DN_MUST_USE dn_status gpack_pack(gpack_source *s, const gpack_job *job, dn_err *err);
/* Writes s as a dataset.h5. */
DN_MUST_USE dn_status gpack_unpack(gpack_source *s, const gpack_job *job, dn_err *err);
/* Reads all of s and says on stderr that it is whole. */
DN_MUST_USE dn_status gpack_test(gpack_source *s, const gpack_job *job, dn_err *err);
/* A line about s on stdout; the heading first when `heading`. */
DN_MUST_USE dn_status gpack_list(gpack_source *s, const gpack_job *job, bool heading, dn_err *err);

#endif
