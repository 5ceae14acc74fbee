/* dn.c: errors, checked memory and content hashes (see dn.h). */
#include "dn.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Rewrites control bytes as \xNN; UTF-8 and other high bytes pass, since names are byte strings. */
static void escape_into(char *dst, size_t cap, const char *src)
{
    static const char hex[] = "0123456789abcdef";
    size_t o = 0;
    for (const unsigned char *p = (const unsigned char *)src; *p && o + 5 < cap; p++) {
        if ((*p < 0x20 && *p != '\n') || *p == 0x7f) {
            dst[o++] = '\\', dst[o++] = 'x', dst[o++] = hex[*p >> 4], dst[o++] = hex[*p & 15];
        } else {
            dst[o++] = (char)*p;
        }
    }
    dst[o] = 0;
}

dn_status dn_fail(dn_err *err, dn_status st, const char *fmt, ...)
{
    if (!err) return st;
    char raw[DN_ERR_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    err->status = st;
    escape_into(err->msg, sizeof err->msg, raw);
    return st;
}

dn_status dn_fail_prefix(dn_err *err, const char *fmt, ...)
{
    if (!err) return DN_EINTERNAL;
    char head[DN_ERR_MAX / 2], esc[DN_ERR_MAX / 2], tail[DN_ERR_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    escape_into(esc, sizeof esc, head);
    memcpy(tail, err->msg, sizeof tail);
    size_t n = strlen(esc);
    memcpy(err->msg, esc, n);
    size_t room = sizeof err->msg - n - 1, m = strlen(tail);
    if (m > room) m = room;
    memcpy(err->msg + n, tail, m);
    err->msg[n + m] = 0;
    return err->status;
}

dn_status dn_alloc_(void **out, size_t n, size_t size, const char *what, dn_err *err)
{
    *out = calloc(n ? n : 1, size ? size : 1);
    if (*out) return DN_OK;
    return dn_fail(err, DN_ENOMEM, "out of memory: %s needs %zu x %zu bytes", what, n, size);
}

dn_status dn_alloc_aligned_(void **out, size_t n, size_t size, const char *what, dn_err *err)
{
    uint64_t bytes;
    *out = NULL;
    if (dn_mul(n ? n : 1, size ? size : 1, &bytes) && bytes <= SIZE_MAX - 64) {
        *out = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    }
    if (*out) return DN_OK;
    return dn_fail(err, DN_ENOMEM, "out of memory: %s needs %zu x %zu bytes", what, n, size);
}

dn_status dn_grow_(void **buf, size_t *cap, size_t need, size_t size, const char *what, dn_err *err)
{
    if (need <= *cap) return DN_OK;
    size_t want = *cap ? *cap : 64;
    while (want < need && want <= SIZE_MAX / 2) want *= 2;
    uint64_t bytes;
    void *p = NULL;
    if (want >= need && dn_mul(want, size, &bytes) && bytes <= SIZE_MAX) p = realloc(*buf, (size_t)bytes);
    if (!p) return dn_fail(err, DN_ENOMEM, "out of memory: %s needs %zu x %zu bytes", what, need, size);
    *buf = p;
    *cap = want;
    return DN_OK;
}

uint64_t dn_hash(const void *p, size_t n)
{
    return XXH3_64bits(p, n);
}
