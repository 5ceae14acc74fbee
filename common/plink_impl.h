/* plink_impl.h: what the plink_*.c files share and nobody else needs (the public side is plink.h). */
#ifndef DN_PLINK_IMPL_H
#define DN_PLINK_IMPL_H

#include "plink.h"

/* A .fam read line by line; *iid = NULL at the end. Pointers are valid until the next call. Duplicates are
 * not looked for, 0 people are DN_EFORMAT. The person returned last stands on the line of the same number. */
typedef struct dn_fam dn_fam;
DN_MUST_USE dn_status dn_fam_open(dn_fam **out, const char *path, dn_err *err);
DN_MUST_USE dn_status dn_fam_next(dn_fam *f, const char **fid, const char **iid, dn_err *err);
void dn_fam_close(dn_fam *f);

/* SNPs of a well-formed .bim by counting its lines (blank ones at the end left out) at reading speed, fields
 * unseen. */
DN_MUST_USE dn_status dn_bim_count(const char *path, uint64_t *n_lines, dn_err *err);

#endif
