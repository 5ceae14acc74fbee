/* page_plot.c: SVG plots (see page.h). Coordinates are pixels of a view box; y grows downwards. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page_impl.h"

/* Okabe and Ito's colours, darkest first for text-sized marks; then the same with dashes. */
static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                      "#000000", "#E69F00", "#56B4E9"};
static const char *const dashes[] = {"", "6 3", "2 2", "8 3 2 3"};
enum { N_COLOURS = 7, N_DASHES = 4 };

static const char *colour(size_t i)
{
    return colours[i % N_COLOURS];
}

static const char *dash(size_t i)
{
    return dashes[i / N_COLOURS % N_DASHES];
}

typedef struct {
    double x0, y0, w, h;               /* the plotting area */
    double x_from, x_to, y_from, y_to; /* what it shows */
} frame;

static double px(const frame *f, double x)
{
    return f->x0 + (x - f->x_from) / (f->x_to - f->x_from) * f->w;
}

static double py(const frame *f, double y)
{
    return f->y0 + f->h - (y - f->y_from) / (f->y_to - f->y_from) * f->h;
}

/* Distance of ticks: 1, 2 or 5 times a power of ten, at most about `most` of them. */
static double tick_step(double span, int most)
{
    double raw = span / most, p = pow(10, floor(log10(raw))), m = raw / p;
    return (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10) * p;
}

static dn_status svg_start(dn_out *out, const char *title, double w, double h, dn_err *err)
{
    dn_status status;
    DN_TRY(dn_out_printf(out, err,
                         "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
                         "height=\"%.0f\" role=\"img\"><title>",
                         w, h, w, h));
    DN_TRY(dn_page_escape(out, title, err));
    DN_TRY(dn_out_printf(out, err, "</title><text x=\"8\" y=\"18\" font-size=\"14\" font-weight=\"bold\">"));
    DN_TRY(dn_page_escape(out, title, err));
    DN_TRY(dn_out_printf(out, err, "</text>\n"));
done:
    return status;
}

static dn_status text(dn_out *out, double x, double y, double size, const char *anchor, const char *extra,
                      const char *s, dn_err *err)
{
    dn_status status;
    DN_TRY(dn_out_printf(out, err, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" text-anchor=\"%s\"%s>", x,
                         y, size, anchor, extra));
    DN_TRY(dn_page_escape(out, s, err));
    DN_TRY(dn_out_printf(out, err, "</text>\n"));
done:
    return status;
}

/* The first `room` characters of a name, never half of one (bytes of UTF-8 that go on have the bits 10). */
static void shorten(char *to, size_t size, const char *name, size_t room)
{
    size_t n = 0, chars = 0, len = strlen(name);
    while (n < len && n + 8 < size) {
        size_t next = n + 1;
        while (next < len && ((unsigned char)name[next] & 0xc0) == 0x80 && next < n + 4) next++;
        if (++chars > room) break;
        n = next;
    }
    memcpy(to, name, n);
    strcpy(to + n, n < len ? "\u2026" : "");
}

static dn_status y_axis(dn_out *out, const frame *f, const char *label, dn_err *err)
{
    dn_status status;
    char buf[64], turn[96];
    double step = tick_step(f->y_to - f->y_from, 6);
    for (double v = ceil(f->y_from / step - 1e-9) * step; v <= f->y_to + step * 1e-9; v += step) {
        DN_TRY(dn_out_printf(out, err,
                             "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
                             f->x0, py(f, v), f->x0 + f->w, py(f, v)));
        snprintf(buf, sizeof buf, "%.8g", fabs(v) < step * 1e-6 ? 0 : v);
        DN_TRY(text(out, f->x0 - 6, py(f, v) + 4, 11, "end", "", buf, err));
    }
    snprintf(turn, sizeof turn, " transform=\"rotate(-90 14 %.1f)\"", f->y0 + f->h / 2);
    DN_TRY(text(out, 14, f->y0 + f->h / 2, 12, "middle", turn, label, err));
    DN_TRY(dn_out_printf(out, err, "<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#333\"/>\n",
                         f->x0, f->y0, f->y0 + f->h, f->x0 + f->w));
done:
    return status;
}

static dn_status x_axis(dn_out *out, const frame *f, const char *label, dn_err *err)
{
    dn_status status = DN_OK;
    char buf[64];
    double step = tick_step(f->x_to - f->x_from, 8);
    for (double v = ceil(f->x_from / step - 1e-9) * step; v <= f->x_to + step * 1e-9; v += step) {
        snprintf(buf, sizeof buf, "%.8g", fabs(v) < step * 1e-6 ? 0 : v);
        DN_TRY(text(out, px(f, v), f->y0 + f->h + 16, 11, "middle", "", buf, err));
    }
    DN_TRY(text(out, f->x0 + f->w / 2, f->y0 + f->h + 34, 12, "middle", "", label, err));
done:
    return status;
}

static void widen(double *from, double *to)
{
    if (!(*from <= *to)) *from = 0, *to = 1;
    if (*from == *to) *from -= 0.5, *to += 0.5;
}

dn_status dn_page_lines(dn_out *out, const char *title, const char *x_label, const char *y_label,
                        const dn_page_series *series, size_t n, bool legend, double y_from, double y_to,
                        bool diagonal, dn_err *err)
{
    dn_status status;
    size_t named = legend ? n < 24 ? n : 24 : 0;
    frame f = {62, 34, 640, 300, INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (size_t s = 0; s < n; s++) {
        for (size_t i = 0; i < series[s].n; i++) {
            if (!isfinite(series[s].y[i])) continue;
            f.x_from = fmin(f.x_from, series[s].x[i]), f.x_to = fmax(f.x_to, series[s].x[i]);
            f.y_from = fmin(f.y_from, series[s].y[i]), f.y_to = fmax(f.y_to, series[s].y[i]);
        }
    }
    if (isfinite(y_from)) f.y_from = y_from;
    if (isfinite(y_to)) f.y_to = y_to;
    if (diagonal) f.x_from = 0, f.x_to = 1;
    widen(&f.x_from, &f.x_to);
    widen(&f.y_from, &f.y_to);
    double h = f.y0 + f.h + 46, legend_h = 34 + 16.0 * (double)named;
    DN_TRY(svg_start(out, title, named ? 900 : 720, h > legend_h ? h : legend_h, err));
    DN_TRY(y_axis(out, &f, y_label, err));
    DN_TRY(x_axis(out, &f, x_label, err));
    if (diagonal) {
        DN_TRY(dn_out_printf(out, err,
                             "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#888\" "
                             "stroke-dasharray=\"4 4\"/>\n",
                             px(&f, 0), py(&f, 0), px(&f, 1), py(&f, 1)));
    }
    for (size_t s = 0; s < n; s++) {
        bool first = true;
        DN_TRY(dn_out_printf(
            out, err, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" stroke-dasharray=\"%s\" d=\"",
            colour(s), dash(s)));
        for (size_t i = 0; i < series[s].n; i++) {
            if (!isfinite(series[s].y[i])) continue;
            DN_TRY(dn_out_printf(out, err, "%s%.1f %.1f", first ? "M" : "L", px(&f, series[s].x[i]),
                                 py(&f, series[s].y[i])));
            first = false;
        }
        DN_TRY(dn_out_printf(out, err, "\"/>\n"));
        for (size_t i = 0; series[s].n <= 12 && i < series[s].n; i++) {
            if (!isfinite(series[s].y[i])) continue;
            DN_TRY(dn_out_printf(out, err, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n",
                                 px(&f, series[s].x[i]), py(&f, series[s].y[i]), colour(s)));
        }
    }
    for (size_t s = 0; s < named; s++) {
        double y = 40 + 16.0 * (double)s;
        DN_TRY(dn_out_printf(out, err,
                             "<line x1=\"718\" y1=\"%.1f\" x2=\"742\" y2=\"%.1f\" stroke=\"%s\" "
                             "stroke-width=\"2\" stroke-dasharray=\"%s\"/>\n",
                             y, y, colour(s), dash(s)));
        DN_TRY(text(out, 748, y + 4, 11, "start", "", series[s].name, err));
    }
    DN_TRY(dn_out_printf(out, err, "</svg>\n"));
done:
    return status;
}

/* Marks that differ in shape as well as in colour; a hollow one is the partner of the same one filled. */
static dn_status mark(dn_out *out, size_t s, bool hollow, double x, double y, dn_err *err)
{
    char paint[96];
    const char *c = colour(s);
    snprintf(paint, sizeof paint, "fill=\"%s\" stroke=\"%s\" stroke-width=\"1.5\"", hollow ? "#fff" : c, c);
    switch (s % 4) {
    case 0: return dn_out_printf(out, err, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" %s/>\n", x, y, paint);
    case 1:
        return dn_out_printf(out, err, "<rect x=\"%.1f\" y=\"%.1f\" width=\"7\" height=\"7\" %s/>\n", x - 3.5,
                             y - 3.5, paint);
    case 2: return dn_out_printf(out, err, "<path d=\"M%.1f %.1fl5 8.5h-10z\" %s/>\n", x, y - 5.5, paint);
    default: return dn_out_printf(out, err, "<path d=\"M%.1f %.1fl5 5-5 5-5-5z\" %s/>\n", x, y - 5, paint);
    }
}

dn_status dn_page_points(dn_out *out, const char *title, const char *y_label, const char *const *groups,
                         size_t n_groups, const char *const *series, size_t n_series, bool pairs,
                         const double *value, dn_err *err)
{
    dn_status status;
    frame f = {62, 34, 640, 280, 0, (double)n_groups, INFINITY, -INFINITY};
    for (size_t i = 0; i < n_series * n_groups; i++) {
        if (isfinite(value[i])) f.y_from = fmin(f.y_from, value[i]), f.y_to = fmax(f.y_to, value[i]);
    }
    widen(&f.y_from, &f.y_to);
    double pad = (f.y_to - f.y_from) * 0.08;
    f.y_from -= pad, f.y_to += pad;
    DN_TRY(svg_start(out, title, 900, f.y0 + f.h + 46, err));
    DN_TRY(y_axis(out, &f, y_label, err));
    size_t every = n_groups / 20 + 1;
    for (size_t g = 0; g < n_groups; g++) {
        if (g % every == 0)
            DN_TRY(text(out, px(&f, (double)g + 0.5), f.y0 + f.h + 16, 11, "middle", "", groups[g], err));
        for (size_t s = 0; s < n_series; s++) {
            double v = value[s * n_groups + g],
                   at = (double)g + 0.15 + 0.7 * ((double)s + 0.5) / (double)n_series;
            if (isfinite(v)) DN_TRY(mark(out, pairs ? s / 2 : s, pairs && s % 2, px(&f, at), py(&f, v), err));
        }
    }
    for (size_t s = 0; s < n_series && s < 18; s++) {
        double y = 40 + 16.0 * (double)s;
        DN_TRY(mark(out, pairs ? s / 2 : s, pairs && s % 2, 730, y, err));
        DN_TRY(text(out, 742, y + 4, 11, "start", "", series[s], err));
    }
    DN_TRY(dn_out_printf(out, err, "</svg>\n"));
done:
    return status;
}

dn_status dn_page_bars(dn_out *out, const char *title, const dn_strs *names, const uint64_t *count,
                       const uint64_t *of, dn_err *err)
{
    dn_status status;
    uint64_t most = 1, total = 0;
    for (uint64_t i = 0; i < names->n; i++) {
        uint64_t longest = of ? of[i] : count[i];
        most = longest > most ? longest : most;
        total += count[i];
    }
    DN_TRY(svg_start(out, title, 900, 40 + 20.0 * (double)names->n, err));
    for (uint64_t i = 0; i < names->n; i++) {
        double y = 32 + 20.0 * (double)i, w = 540.0 * (double)count[i] / (double)most, end = w;
        char buf[96], name[128];
        shorten(name, sizeof name, dn_strs_get(names, i), 24);
        DN_TRY(text(out, 172, y + 12, 12, "end", "", name, err));
        if (of) {
            end = 540.0 * (double)of[i] / (double)most;
            DN_TRY(dn_out_printf(out, err,
                                 "<rect x=\"180\" y=\"%.1f\" width=\"%.1f\" height=\"15\" fill=\"#ddd\"/>\n",
                                 y, end));
        }
        DN_TRY(dn_out_printf(out, err,
                             "<rect x=\"180\" y=\"%.1f\" width=\"%.1f\" height=\"15\" fill=\"%s\"/>\n", y, w,
                             colours[0]));
        double whole = of ? (double)of[i] : (double)total;
        double share = whole > 0 ? 100.0 * (double)count[i] / whole : 0;
        if (of)
            snprintf(buf, sizeof buf, "%llu of %llu (%.1f %%)", (unsigned long long)count[i],
                     (unsigned long long)of[i], share);
        else
            snprintf(buf, sizeof buf, "%llu (%.1f %%)", (unsigned long long)count[i], share);
        DN_TRY(text(out, 186 + end, y + 12, 12, "start", "", buf, err));
    }
    DN_TRY(dn_out_printf(out, err, "</svg>\n"));
done:
    return status;
}

dn_status dn_page_histogram(dn_out *out, const char *title, const char *x_label, const uint64_t *count,
                            size_t n, double from, double to, dn_err *err)
{
    dn_status status;
    frame f = {72, 34, 640, 240, from, to, 0, 1};
    for (size_t i = 0; i < n; i++) f.y_to = fmax(f.y_to, (double)count[i]);
    DN_TRY(svg_start(out, title, 740, f.y0 + f.h + 46, err));
    DN_TRY(y_axis(out, &f, "people", err));
    DN_TRY(x_axis(out, &f, x_label, err));
    for (size_t i = 0; i < n; i++) {
        double a = px(&f, from + (to - from) * (double)i / (double)n),
               b = px(&f, from + (to - from) * (double)(i + 1) / (double)n);
        if (!count[i]) continue;
        DN_TRY(dn_out_printf(
            out, err, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", a + 0.5,
            py(&f, (double)count[i]), b - a - 1, f.y0 + f.h - py(&f, (double)count[i]), colours[0]));
    }
    DN_TRY(dn_out_printf(out, err, "</svg>\n"));
done:
    return status;
}

dn_status dn_page_heat(dn_out *out, const char *title, const char *row_label, const char *col_label,
                       const dn_strs *names, const uint64_t *count, dn_err *err)
{
    dn_status status;
    uint64_t n = names->n;
    double cell = n <= 12 ? 44 : n <= 30 ? 28 : n <= 60 ? 14 : 6, left = 120, top = 110;
    double size = cell > 16 ? 11 : cell > 10 ? 8 : 0; /* no room for words in a very large table */
    char turn[96];
    DN_TRY(svg_start(out, title, fmax(640, left + cell * (double)n + 20), top + cell * (double)n + 30, err));
    DN_TRY(text(out, left + cell * (double)n / 2, 36, 12, "middle", "", col_label, err));
    snprintf(turn, sizeof turn, " transform=\"rotate(-90 14 %.1f)\"", top + cell * (double)n / 2);
    DN_TRY(text(out, 14, top + cell * (double)n / 2, 12, "middle", turn, row_label, err));
    for (uint64_t r = 0; r < n; r++) {
        uint64_t total = 0;
        char name[64];
        double y = top + cell * (double)r;
        for (uint64_t c = 0; c < n; c++) total += count[r * n + c];
        shorten(name, sizeof name, dn_strs_get(names, r), 12);
        if (size > 0) {
            DN_TRY(text(out, left - 6, y + cell / 2 + 4, size, "end", "", name, err));
            double x = left + cell * ((double)r + 0.5) + 4;
            snprintf(turn, sizeof turn, " transform=\"rotate(-90 %.1f %.1f)\"", x, top - 6);
            DN_TRY(text(out, x, top - 6, size, "start", turn, name, err));
        }
        for (uint64_t c = 0; c < n; c++) {
            double share = total ? (double)count[r * n + c] / (double)total : 0, x = left + cell * (double)c;
            char number[24];
            /* From white to dark blue: lightness alone carries the value. */
            int red = (int)(255 - share * 247), green = (int)(255 - share * 190),
                blue = (int)(255 - share * 120);
            DN_TRY(dn_out_printf(out, err,
                                 "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                                 "fill=\"rgb(%d,%d,%d)\" stroke=\"#ccc\" "
                                 "stroke-width=\"0.5\"/>\n",
                                 x, y, cell, cell, red, green, blue));
            if (!count[r * n + c] || cell < 20) continue;
            snprintf(number, sizeof number, "%llu", (unsigned long long)count[r * n + c]);
            size_t digits = strlen(number);
            double fit = fmin(11, (cell - 3) / (0.6 * (double)digits));
            DN_TRY(text(out, x + cell / 2, y + cell / 2 + fit / 3, fit, "middle",
                        share > 0.55 ? " style=\"fill:#fff\"" : "", number, err));
        }
    }
    DN_TRY(dn_out_printf(out, err, "</svg>\n"));
done:
    return status;
}
