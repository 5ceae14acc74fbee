/* dnsplit_group.h: who belongs together: families, relatives, households. */
#ifndef DNSPLIT_GROUP_H
#define DNSPLIT_GROUP_H

#include "dn.h"
#include "tables.h"

typedef struct {
    uint64_t n_groups;
    uint64_t *of;        /* group of each person of the dataset; people without one are groups of their own */
    uint64_t n_large;    /* groups of two or more */
    uint64_t n_in_large; /* people in them */
    uint64_t n_unknown;  /* lines that name nobody here, the first in `unknown` */
    dn_strs unknown;
} split_groups;

/* File: IID and group, or FID, IID and group, a line, in blank-separated columns; a first line that names
 * nobody is a header. path NULL: the group is the FID ("0" is none). DN_EFORMAT: width, or a person in two
 * groups, with the line. */
DN_MUST_USE dn_status split_groups_read(split_groups *g, const char *path, const dn_people *people,
                                        dn_err *err);
void split_groups_free(split_groups *g);

#endif
