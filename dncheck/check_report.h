/* check_report.h: what dncheck found, as one self-contained HTML page: tables, and plots as SVG. No script,
 * no network. */
#ifndef DNCHECK_CHECK_REPORT_H
#define DNCHECK_CHECK_REPORT_H

#include "check_dir.h"
#include "findings.h"
#include "heldout.h"
#include "published.h"

typedef struct {
    const char *what; /* the folder that was checked */
    const findings *found;
    const check_members *members; /* for learning curves: packages read with their logs */
    const heldout *heldout;       /* or NULL */
    const published *published;   /* or NULL */
} report_input;

DN_MUST_USE dn_status report_write(const char *path, unsigned out_flags, const report_input *in, dn_err *err);

#endif
