/* report.h: what snpmatch says about a match: the table on stderr, warnings, the floor, and the report file.
 */
#ifndef SNPMATCH_REPORT_H
#define SNPMATCH_REPORT_H

#include "io.h"
#include "match.h"
#include "model_list.h"

/* Counts per chromosome and in all, on stderr, and how the SNPs were found. */
void dn_report_summary(const dn_model_list *l, const dn_match *m);
/* Warnings that do not depend on genotypes: build, strand of A/T and C/G SNPs, alleles not looked at. */
void dn_report_warn(const dn_model_list *l, const dn_match *m, const dn_match_opts *opts);
/* Warns when a group of SNPs has frequencies that run against the model's. */
void dn_report_frequencies(const dn_match_freq *f);
/* Floor that applies when --min-overlap was not given: 1000, or half of a model under 2000 SNPs. */
uint64_t dn_report_floor(uint64_t n_model);
/* DN_EMISMATCH when nothing can be used; or, unless force, when fewer than `floor` SNPs can or hits look like
 * chance. */
DN_MUST_USE dn_status dn_report_check(const dn_model_list *l, const dn_match *m, uint64_t floor, bool force,
                                      dn_err *err);
/* The report: one line per model SNP (docs/snpmatch.md). */
DN_MUST_USE dn_status dn_report_write(dn_out *out, const dn_model_list *l, const dn_match *m, dn_err *err);

#endif
