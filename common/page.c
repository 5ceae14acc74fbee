/* page.c: the HTML page and its tables (see page.h). Plots are in page_plot.c. */
#include "page.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page_impl.h"

dn_status dn_page_escape(dn_out *out, const char *s, dn_err *err)
{
    dn_status status = DN_OK;
    for (; *s && status == DN_OK; s++) {
        switch (*s) {
        case '<': status = dn_out_write(out, "&lt;", 4, err); break;
        case '>': status = dn_out_write(out, "&gt;", 4, err); break;
        case '&': status = dn_out_write(out, "&amp;", 5, err); break;
        case '"': status = dn_out_write(out, "&quot;", 6, err); break;
        default: status = dn_out_write(out, s, 1, err);
        }
    }
    return status;
}

dn_status dn_page_start(dn_out *out, const char *title, dn_err *err)
{
    dn_status status;
    DN_TRY(
        dn_out_printf(out, err,
                      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>"));
    DN_TRY(dn_page_escape(out, title, err));
    DN_TRY(dn_out_printf(
        out, err,
        "</title>\n<style>\n"
        "body{font:15px/1.45 sans-serif;color:#111;background:#fff;max-width:960px;margin:2em auto;padding:0 "
        "1em}\n"
        "h1{font-size:1.6em}h2{font-size:1.2em;margin-top:2em;border-bottom:1px solid #999}\n"
        "table{border-collapse:collapse;font-size:13px;margin:1em 0}td,th{padding:2px 10px;border-bottom:1px "
        "solid #ddd;"
        "text-align:left;vertical-align:top}td.n{text-align:right;font-variant-numeric:tabular-nums}\n"
        "tr.plain td.n{text-align:left}"
        "tr.FAULT td{background:#fbd9d0;font-weight:bold}tr.warning td{background:#fdf1c4}tr.note "
        "td{color:#444}\n"
        "svg{max-width:100%%;height:auto;display:block;margin:1em 0}svg "
        "text{font-family:sans-serif;fill:#111}\n"
        "@media print{h2{break-after:avoid}svg,tr{break-inside:avoid}}\n"
        "</style></head><body>\n<h1>"));
    DN_TRY(dn_page_escape(out, title, err));
    DN_TRY(dn_out_printf(out, err, "</h1>\n"));
done:
    return status;
}

dn_status dn_page_end(dn_out *out, dn_err *err)
{
    return dn_out_printf(out, err, "<p style=\"color:#555\">Written by dnpipe %s.</p>\n</body></html>\n",
                         DN_VERSION);
}

dn_status dn_page_heading(dn_out *out, const char *text, dn_err *err)
{
    dn_status status;
    DN_TRY(dn_out_printf(out, err, "<h2>"));
    DN_TRY(dn_page_escape(out, text, err));
    DN_TRY(dn_out_printf(out, err, "</h2>\n"));
done:
    return status;
}

dn_status dn_page_text(dn_out *out, dn_err *err, const char *fmt, ...)
{
    dn_status status;
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0) return dn_fail(err, DN_ENOMEM, "out of memory");
    DN_TRY(dn_out_printf(out, err, "<p>"));
    DN_TRY(dn_page_escape(out, text, err));
    DN_TRY(dn_out_printf(out, err, "</p>\n"));
done:
    free(text);
    return status;
}

dn_status dn_page_table_start(dn_out *out, const char *const *heads, size_t n, dn_err *err)
{
    dn_status status;
    DN_TRY(dn_out_printf(out, err, "<table><thead><tr>"));
    for (size_t i = 0; i < n; i++) {
        DN_TRY(dn_out_printf(out, err, "<th>"));
        DN_TRY(dn_page_escape(out, heads[i], err));
        DN_TRY(dn_out_printf(out, err, "</th>"));
    }
    DN_TRY(dn_out_printf(out, err, "</tr></thead><tbody>\n"));
done:
    return status;
}

dn_status dn_page_row(dn_out *out, const char *const *cells, size_t n, const char *css_class, dn_err *err)
{
    dn_status status;
    DN_TRY(dn_out_printf(out, err, "<tr class=\"%s\">", css_class ? css_class : ""));
    for (size_t i = 0; i < n; i++) {
        const char *c = cells[i];
        char *end;
        bool number =
            isdigit((unsigned char)*c) || ((*c == '-' || *c == '+') && isdigit((unsigned char)c[1]));
        if (number) {
            (void)strtod(c, &end);
            number = *end == 0;
        }
        DN_TRY(dn_out_printf(out, err, number ? "<td class=\"n\">" : "<td>"));
        DN_TRY(dn_page_escape(out, c, err));
        DN_TRY(dn_out_printf(out, err, "</td>"));
    }
    DN_TRY(dn_out_printf(out, err, "</tr>\n"));
done:
    return status;
}

dn_status dn_page_table_end(dn_out *out, dn_err *err)
{
    return dn_out_printf(out, err, "</tbody></table>\n");
}
