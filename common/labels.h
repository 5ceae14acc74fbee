/* labels.h: label files and how they meet the people of a cohort. Shared by bed2h5 and gpack.
 *
 * A label file is text: a header line, then one line per person: sample ID, tab, label; with id_cols 2: FID,
 * tab, IID, tab, label. Blanks around fields are taken off (and counted); CR, BOM, a missing last newline and
 * blank lines at the end are fine. Names are byte strings: non-ASCII class names pass as they are. An empty
 * label and "NA" mean "no label". */
#ifndef DN_LABELS_H
#define DN_LABELS_H

#include "dn.h"
#include "tables.h"

#define DN_LABELS_NAMED 10 /* so many are named in messages; all are counted */

/* What reading a label file found. Zero-initialise; dn_labels_free(). N = people of the cohort. */
typedef struct {
    dn_strs class_names; /* classes: sorted by bytes, each with at least one kept person; regression: empty */
    int64_t *label;      /* N: index into class_names, -1 for none (or not kept); NULL for regression */
    double *target;      /* N: finite, NaN for none; NULL for classes */
    uint64_t n_labelled; /* kept people with a label */
    uint64_t n_without;  /* kept people without one, the first DN_LABELS_NAMED in `without` as "FID IID" */
    dn_strs without;
    uint64_t n_unknown; /* lines that name nobody in the cohort (kept or not), the first ones in `unknown` */
    dn_strs unknown;
    uint64_t n_trimmed;  /* lines with blanks around a field */
    uint64_t n_repeated; /* lines that repeat a person with the same label */
    uint64_t n_na;       /* lines whose label is NA */
    dn_strs near; /* pairs of class names that differ only by blanks or case: "'GBR' (92) and 'gbr' (3)" */
} dn_labels;

typedef enum { DN_LABELS_CLASS, DN_LABELS_TARGET } dn_labels_kind;

/* keep: N bytes, 1 = this person counts; NULL: all do. id_cols: 1 (by IID) or 2 (FID and IID).
 * DN_EFORMAT, with file and line: no header (the first line is data), wrong number of fields, a person twice
 * with different labels (both lines), an empty ID, no line at all; for numbers: not finite, decimal comma,
 * not a number. DN_EMISMATCH: an IID that several FIDs share (use two ID columns), or no line names anybody
 * in the cohort. */
DN_MUST_USE dn_status dn_labels_read(dn_labels *out, const char *path, dn_labels_kind kind, int id_cols,
                                     const dn_people *people, const uint8_t *keep, dn_err *err);
void dn_labels_free(dn_labels *l);

/* Joins both files into a decision: keep[i] becomes 0 for kept people who lack a label in any of the given
 * files (either may be NULL). Returns how many people stay. */
uint64_t dn_labels_apply(const dn_labels *classes, const dn_labels *targets, uint8_t *keep,
                         uint64_t n_people);
/* People of each class among keep (NULL: all): count has class_names.n entries. */
void dn_labels_count(const dn_labels *l, const uint8_t *keep, uint64_t n_people, uint64_t *count);

#endif
