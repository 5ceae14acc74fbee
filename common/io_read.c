/* io_read.c: what a file is, mapping it, reading at an offset, and lines of text (see io.h). */
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

dn_kind dn_kind_of_bytes(const unsigned char *p, size_t n)
{
    static const struct {
        const char *magic;
        size_t len;
        dn_kind kind;
    } known[] = {
        {"\x1f\x8b", 2, DN_KIND_GZIP},         {"\x28\xb5\x2f\xfd", 4, DN_KIND_ZSTD},
        {"PK\x03\x04", 4, DN_KIND_ZIP},        {"PK\x05\x06", 4, DN_KIND_ZIP},
        {"\x6c\x1b", 2, DN_KIND_BED},          {"\x89HDF\r\n\x1a\n", 8, DN_KIND_HDF5},
        {"\x89GPK\r\n\x1a\n", 8, DN_KIND_GPK},
    };
    if (n == 0) return DN_KIND_EMPTY;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (n >= known[i].len && memcmp(p, known[i].magic, known[i].len) == 0) return known[i].kind;
    }
    for (size_t i = 0; i < n; i++) {
        if (p[i] < 0x20 && !strchr("\t\n\r\f\v", p[i])) return DN_KIND_UNKNOWN;
        if (p[i] == 0) return DN_KIND_UNKNOWN;
    }
    return DN_KIND_TEXT;
}

const char *dn_kind_name(dn_kind kind)
{
    switch (kind) {
    case DN_KIND_EMPTY: return "an empty file";
    case DN_KIND_TEXT: return "text";
    case DN_KIND_GZIP: return "gzip-compressed data (decompress it with gunzip)";
    case DN_KIND_ZSTD: return "zstd-compressed data (decompress it with unzstd)";
    case DN_KIND_ZIP: return "a zip archive (such as .npz or .pt)";
    case DN_KIND_BED: return "a PLINK .bed file";
    case DN_KIND_HDF5: return "an HDF5 file";
    case DN_KIND_GPK: return "a .gpk file";
    case DN_KIND_UNKNOWN: break;
    }
    return "unknown binary data";
}

static dn_status open_regular(const char *path, int *fd, uint64_t *size, dn_err *err)
{
    struct stat sb;
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0) return dn_fail(err, DN_EOPEN, "cannot open %s: %s", path, strerror(errno));
    if (fstat(*fd, &sb) != 0 || S_ISDIR(sb.st_mode)) {
        const char *why = S_ISDIR(sb.st_mode) ? "it is a folder" : strerror(errno);
        close(*fd);
        *fd = -1;
        return dn_fail(err, DN_EOPEN, "cannot read %s: %s", path, why);
    }
    *size = (uint64_t)sb.st_size;
    return DN_OK;
}

dn_status dn_kind_of_file(const char *path, dn_kind *kind, dn_err *err)
{
    unsigned char head[512];
    int fd;
    uint64_t size;
    *kind = DN_KIND_UNKNOWN;
    dn_status status = open_regular(path, &fd, &size, err);
    if (status != DN_OK) return status;
    ssize_t n = read(fd, head, sizeof head);
    if (n < 0)
        status = dn_fail(err, DN_EOPEN, "cannot read %s: %s", path, strerror(errno));
    else
        *kind = dn_kind_of_bytes(head, (size_t)n);
    close(fd);
    return status;
}

dn_status dn_mapped_open(dn_mapped *m, const char *path, dn_err *err)
{
    int fd;
    uint64_t size;
    memset(m, 0, sizeof *m);
    dn_status status = open_regular(path, &fd, &size, err);
    if (status != DN_OK) return status;
    if (size > SIZE_MAX) {
        status = dn_fail(err, DN_EUNSUPPORTED, "%s is too large to map", path);
    } else if (size > 0) {
        void *p = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            dn_status why = errno == ENOMEM ? DN_ENOMEM : DN_EOPEN;
            status = dn_fail(err, why, "cannot map %s (%llu bytes): %s", path, (unsigned long long)size,
                             strerror(errno));
        } else {
            m->base = p;
            m->size = (size_t)size;
        }
    }
    close(fd);
    return status;
}

void dn_mapped_close(dn_mapped *m)
{
    if (!m || !m->base) return;
    munmap((void *)m->base, m->size);
    memset(m, 0, sizeof *m);
}

dn_status dn_pread_full(int fd, void *buf, size_t n, uint64_t offset, const char *path, dn_err *err)
{
    unsigned char *p = buf;
    while (n) {
        ssize_t k = pread(fd, p, n > (1u << 30) ? (1u << 30) : n, (off_t)offset);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return dn_fail(err, DN_EOPEN, "cannot read %s: %s", path, strerror(errno));
        if (k == 0) {
            return dn_fail(err, DN_EFORMAT, "%s ends at byte %llu, %zu bytes too early: it is truncated",
                           path, (unsigned long long)offset, n);
        }
        p += k;
        n -= (size_t)k;
        offset += (uint64_t)k;
    }
    return DN_OK;
}

/* ---- lines ---- */

#define TEXT_BUF      (1u << 18)
#define TEXT_LINE_MAX (1u << 28) /* so that a file without line ends does not fill the memory */

struct dn_text {
    int fd;
    char *path, *buf;
    size_t cap, start, end; /* unread bytes are buf[start..end) */
    uint64_t line;
    bool eof;
};

static dn_status refill(dn_text *t, dn_err *err)
{
    if (t->start > 0) {
        memmove(t->buf, t->buf + t->start, t->end - t->start);
        t->end -= t->start;
        t->start = 0;
    }
    if (t->end > TEXT_LINE_MAX) {
        return dn_fail(err, DN_EFORMAT, "%s, line %llu: longer than %u MiB: it is not a text file of lines",
                       t->path, (unsigned long long)t->line + 1, TEXT_LINE_MAX >> 20);
    }
    /* One byte is kept for the terminating NUL of a last line without newline. */
    dn_status status = dn_grow(&t->buf, &t->cap, t->end + TEXT_BUF + 1, 1, "line buffer", err);
    if (status != DN_OK) return status;
    ssize_t n;
    do n = read(t->fd, t->buf + t->end, TEXT_BUF);
    while (n < 0 && errno == EINTR);
    if (n < 0) return dn_fail(err, DN_EOPEN, "cannot read %s: %s", t->path, strerror(errno));
    t->eof = n == 0;
    t->end += (size_t)n;
    return DN_OK;
}

dn_status dn_text_open(dn_text **out, const char *path, dn_err *err)
{
    dn_status status;
    dn_text *t = NULL;
    uint64_t size;
    *out = NULL;
    DN_TRY(dn_alloc(&t, 1, sizeof *t, "text reader", err));
    t->fd = -1;
    t->path = strdup(path);
    if (!t->path) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    DN_TRY(open_regular(path, &t->fd, &size, err));
    DN_TRY(refill(t, err));
    dn_kind kind = dn_kind_of_bytes((unsigned char *)t->buf, t->end < 512 ? t->end : 512);
    if (t->end >= 2 && (memcmp(t->buf, "\xff\xfe", 2) == 0 || memcmp(t->buf, "\xfe\xff", 2) == 0)) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s is UTF-16 text: save it as UTF-8 or plain ASCII", path));
    }
    if (kind != DN_KIND_TEXT && kind != DN_KIND_EMPTY) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s should be plain text, but it is %s", path, dn_kind_name(kind)));
    }
    if (t->end >= 3 && memcmp(t->buf, "\xef\xbb\xbf", 3) == 0) t->start = 3;
    *out = t;
    t = NULL;
    status = DN_OK;
done:
    dn_text_close(t);
    return status;
}

dn_status dn_text_next(dn_text *t, char **line, size_t *len, dn_err *err)
{
    size_t scanned = 0;
    *line = NULL;
    *len = 0;
    for (;;) {
        char *nl = memchr(t->buf + t->start + scanned, '\n', t->end - t->start - scanned);
        if (!nl && !t->eof) {
            scanned = t->end - t->start;
            dn_status status = refill(t, err);
            if (status != DN_OK) return status;
            continue;
        }
        if (!nl && t->start == t->end) return DN_OK;
        char *p = t->buf + t->start;
        size_t n = nl ? (size_t)(nl - p) : t->end - t->start;
        t->start += n + (nl ? 1 : 0);
        t->line++;
        if (n > 0 && p[n - 1] == '\r') n--;
        p[n] = 0;
        if (memchr(p, 0, n)) {
            return dn_fail(err, DN_EFORMAT,
                           "%s, line %llu: holds a NUL byte: it is not a text file, or it is damaged",
                           t->path, (unsigned long long)t->line);
        }
        *line = p;
        *len = n;
        return DN_OK;
    }
}

uint64_t dn_text_line(const dn_text *t)
{
    return t->line;
}

const char *dn_text_path(const dn_text *t)
{
    return t->path;
}

void dn_text_close(dn_text *t)
{
    if (!t) return;
    if (t->fd >= 0) close(t->fd);
    free(t->path);
    free(t->buf);
    free(t);
}

size_t dn_split_blanks(char *line, char **field, size_t max)
{
    size_t n = 0;
    for (char *p = line;;) {
        while (*p == ' ' || *p == '\t') p++;
        if (!*p) return n;
        if (n < max) field[n] = p;
        n++;
        while (*p && *p != ' ' && *p != '\t') p++;
        if (!*p) return n;
        if (n <= max) *p = 0;
        p++;
    }
}

size_t dn_split_tabs(char *line, char **field, size_t max)
{
    size_t n = 0;
    for (char *p = line;;) {
        if (n < max) field[n] = p;
        n++;
        p = strchr(p, '\t');
        if (!p) return n;
        if (n <= max) *p = 0;
        p++;
    }
}
