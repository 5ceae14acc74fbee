/* page.h: one self-contained HTML page with tables and SVG plots: no script, no network, legible in print, in
 * black and white and to colour-blind readers (Okabe and Ito's colours; series also differ in dash and mark).
 * All text is escaped. */
#ifndef DN_PAGE_H
#define DN_PAGE_H

#include "dn.h"
#include "io.h"
#include "tables.h"

/* All functions write to `out` and return DN_EWRITE or DN_ENOMEM. */
DN_MUST_USE dn_status dn_page_start(dn_out *out, const char *title, dn_err *err);
DN_MUST_USE dn_status dn_page_end(dn_out *out, dn_err *err);
DN_MUST_USE dn_status dn_page_heading(dn_out *out, const char *text, dn_err *err);
DN_MUST_USE dn_status dn_page_text(dn_out *out, dn_err *err, const char *fmt, ...) DN_PRINTF(3, 4);
/* A table: heads and cells are escaped; a cell that is a number is set to the right, but in rows of the class
 * "plain". Other classes: "FAULT", "warning", "note". */
DN_MUST_USE dn_status dn_page_table_start(dn_out *out, const char *const *heads, size_t n, dn_err *err);
DN_MUST_USE dn_status dn_page_row(dn_out *out, const char *const *cells, size_t n, const char *css_class,
                                  dn_err *err);
DN_MUST_USE dn_status dn_page_table_end(dn_out *out, dn_err *err);

/* One curve of dn_page_lines. */
typedef struct {
    const char *name;
    size_t n;
    const double *x, *y; /* points with a y that is not finite are left out */
} dn_page_series;
/* Curves over x. legend: names are listed (up to 24). y_from, y_to: NAN for the data's own range. diagonal:
 * the line y = x. */
DN_MUST_USE dn_status dn_page_lines(dn_out *out, const char *title, const char *x_label, const char *y_label,
                                    const dn_page_series *series, size_t n, bool legend, double y_from,
                                    double y_to, bool diagonal, dn_err *err);
/* Points in groups (groups along x, points of one series share a mark): value[s * n_groups + g], NAN for
 * none. pairs: series 2k + 1 has the mark of series 2k, hollow. */
DN_MUST_USE dn_status dn_page_points(dn_out *out, const char *title, const char *y_label,
                                     const char *const *groups, size_t n_groups, const char *const *series,
                                     size_t n_series, bool pairs, const double *value, dn_err *err);
/* Horizontal bars, one per name, with the number written at its end. of: each bar is a part of of[i], shown
 * in grey behind it, and gets its percentage of that; NULL: percentages are of the sum of all bars. */
DN_MUST_USE dn_status dn_page_bars(dn_out *out, const char *title, const dn_strs *names,
                                   const uint64_t *count, const uint64_t *of, dn_err *err);
/* Vertical bars of a histogram: n bins over [from, to]. */
DN_MUST_USE dn_status dn_page_histogram(dn_out *out, const char *title, const char *x_label,
                                        const uint64_t *count, size_t n, double from, double to, dn_err *err);
/* A square table of counts as a heat map, shaded by the share of each row; counts are written in the cells.
 */
DN_MUST_USE dn_status dn_page_heat(dn_out *out, const char *title, const char *row_label,
                                   const char *col_label, const dn_strs *names, const uint64_t *count,
                                   dn_err *err);

#endif
