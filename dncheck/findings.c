/* findings.c: the list of what was found (see findings.h). */
#include "findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *found_level_name(found_level l)
{
    static const char *const names[] = {"ok", "note", "warning", "FAULT"};
    return names[l];
}

dn_status found(findings *f, dn_err *err, found_level level, dn_status fault, const char *check,
                const char *where, const char *fmt, ...)
{
    dn_status status;
    char text[DN_ERR_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    DN_TRY(dn_grow(&f->level, &f->cap, f->n + 1, 1, "findings", err));
    DN_TRY(dn_strs_add(&f->check, check, strlen(check), err));
    DN_TRY(dn_strs_add(&f->where, where, strlen(where), err));
    DN_TRY(dn_strs_add(&f->detail, text, strlen(text), err));
    f->level[f->n++] = (uint8_t)level;
    f->n_warnings += level == FOUND_WARNING;
    if (level == FOUND_FAULT && f->n_faults++ == 0) f->worst = fault;
done:
    return status;
}

dn_status found_error(findings *f, dn_err *err, const char *check, const char *where, const dn_err *e)
{
    if (e->status == DN_ENOMEM || e->status == DN_EINTERNAL || e->status == DN_EUSAGE) {
        return dn_fail(err, e->status, "%s", e->msg);
    }
    return found(f, err, FOUND_FAULT, e->status, check, where, "%s", e->msg);
}

dn_status findings_tsv(const findings *f, dn_out *out, dn_err *err)
{
    dn_status status;
    DN_TRY(dn_out_printf(out, err, "level\tcheck\twhere\tdetail\n"));
    for (size_t i = 0; i < f->n; i++) {
        const dn_strs *cols[] = {&f->check, &f->where, &f->detail};
        DN_TRY(dn_out_printf(out, err, "%s", found_level_name((found_level)f->level[i])));
        for (int c = 0; c < 3; c++) {
            DN_TRY(dn_out_write(out, "\t", 1, err));
            for (const char *p = dn_strs_get(cols[c], i); *p; p++) {
                char ch = *p == '\t' || *p == '\n' || *p == '\r' ? ' ' : *p;
                DN_TRY(dn_out_write(out, &ch, 1, err));
            }
        }
        DN_TRY(dn_out_write(out, "\n", 1, err));
    }
    status = DN_OK;
done:
    return status;
}

/* A JSON string. Bytes that are not valid UTF-8 would make the document invalid: they become U+FFFD. */
static dn_status json_string(dn_out *out, const char *s, dn_err *err)
{
    dn_status status;
    DN_TRY(dn_out_write(out, "\"", 1, err));
    for (const unsigned char *p = (const unsigned char *)s; *p;) {
        int len = *p < 0x80                 ? 1
                  : *p >= 0xc2 && *p < 0xe0 ? 2
                  : *p >= 0xe0 && *p < 0xf0 ? 3
                  : *p >= 0xf0 && *p < 0xf5 ? 4
                                            : 0;
        bool ok = len > 0;
        for (int k = 1; k < len && ok; k++) ok = (p[k] & 0xc0) == 0x80;
        if (!ok) {
            DN_TRY(dn_out_printf(out, err, "\\ufffd"));
            p++;
        } else if (*p == '"' || *p == '\\') {
            DN_TRY(dn_out_printf(out, err, "\\%c", *p++));
        } else if (*p < 0x20) {
            DN_TRY(dn_out_printf(out, err, "\\u%04x", *p++));
        } else {
            DN_TRY(dn_out_write(out, p, (size_t)len, err));
            p += len;
        }
    }
    DN_TRY(dn_out_write(out, "\"", 1, err));
done:
    return status;
}

dn_status findings_json(const findings *f, dn_out *out, dn_err *err)
{
    dn_status status;
    DN_TRY(dn_out_printf(out, err, "{\"ok\": %s, \"faults\": %zu, \"warnings\": %zu, \"findings\": [",
                         f->n_faults ? "false" : "true", f->n_faults, f->n_warnings));
    for (size_t i = 0; i < f->n; i++) {
        DN_TRY(dn_out_printf(out, err, "%s\n  {\"level\": \"%s\", \"check\": ", i ? "," : "",
                             found_level_name((found_level)f->level[i])));
        DN_TRY(json_string(out, dn_strs_get(&f->check, i), err));
        DN_TRY(dn_out_printf(out, err, ", \"where\": "));
        DN_TRY(json_string(out, dn_strs_get(&f->where, i), err));
        DN_TRY(dn_out_printf(out, err, ", \"detail\": "));
        DN_TRY(json_string(out, dn_strs_get(&f->detail, i), err));
        DN_TRY(dn_out_printf(out, err, "}"));
    }
    DN_TRY(dn_out_printf(out, err, "%s]}\n", f->n ? "\n" : ""));
done:
    return status;
}

void findings_free(findings *f)
{
    if (!f) return;
    free(f->level);
    dn_strs_free(&f->check);
    dn_strs_free(&f->where);
    dn_strs_free(&f->detail);
    memset(f, 0, sizeof *f);
}
