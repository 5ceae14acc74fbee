/* check_file.h: one file of ours or of upstream's, whichever it is. */
#ifndef DNCHECK_CHECK_FILE_H
#define DNCHECK_CHECK_FILE_H

#include "findings.h"

typedef struct {
    bool full;      /* read everything: every checksum, every number finite; else headers, sizes, trailers */
    size_t threads; /* for reading */
} check_opts;

/* Adds findings about `path`: what it is and what is wrong with it. Fails only on DN_ENOMEM and the like; a
 * bad file is a finding. */
DN_MUST_USE dn_status check_file(findings *f, const char *path, const check_opts *o, dn_err *err);
/* Is it a folder? DN_EOPEN when it is not there. */
DN_MUST_USE dn_status check_is_folder(const char *path, bool *folder, dn_err *err);

#endif
