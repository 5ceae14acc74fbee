/* dnpredict_report.h: what a table of predictions holds, as one self-contained HTML page: counted while rows
 * are written, in memory that does not depend on the number of people. */
#ifndef DNPREDICT_REPORT_H
#define DNPREDICT_REPORT_H

#include "dn.h"
#include "dnpredict_table.h"
#include "io.h"
#include "matched.h"
#include "model.h"

typedef struct dn_cohort_report dn_cohort_report;

/* n_members: columns model1 ... of the table. */
DN_MUST_USE dn_status dn_cohort_report_new(dn_cohort_report **out, dn_task task, size_t n_members,
                                           dn_err *err);
/* Classes that somebody could be predicted to be, so that those with nobody are listed too. */
DN_MUST_USE dn_status dn_cohort_report_classes(dn_cohort_report *r, const dn_strs *classes, dn_err *err);
/* The model's SNPs and those of them that matched, per chromosome. Without this the page has no such part. */
void dn_cohort_report_overlap(dn_cohort_report *r, const dn_model *model, const dn_matched *cohort);
/* One person of the table. DN_ENOMEM. */
DN_MUST_USE dn_status dn_cohort_report_row(dn_cohort_report *r, const char *fid, const char *iid,
                                           const dn_row_result *row, dn_err *err);
/* The page, into `out` (opened and committed by the caller). what: the cohort's name, for the title. part: as
 * in dn_table_open(), or NULL. */
DN_MUST_USE dn_status dn_cohort_report_write(const dn_cohort_report *r, dn_out *out, const char *what,
                                             const dn_part *part, dn_err *err);
void dn_cohort_report_free(dn_cohort_report *r);

#endif
