/* plink_text.c: the text half of a fileset: .fam and .bim (see plink.h).
 * Both are six fields separated by any run of blanks and tabs. One rule for blank lines in both: at the end
 * they are ignored, inside they are an error with the line's number, so line k always is person or SNP k. */
#include "plink_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"
#include "opt.h"

enum { N_FIELDS = 6 };
static const char fam_fields[] = "family ID, person ID, father, mother, sex, phenotype";
static const char bim_fields[] = "chromosome, SNP ID, cM, position, A1, A2";

/* Cuts line at runs of blanks and tabs: *n fields, the first six in f. Returns the first other control byte,
 * or 0. */
static unsigned char split6(char *line, char **f, size_t *n)
{
    char *p = line;
    *n = 0;
    for (;;) {
        while (*p == ' ' || *p == '\t') p++;
        if (!*p) return 0;
        if (*n < N_FIELDS) f[*n] = p;
        ++*n;
        while ((unsigned char)*p > ' ') p++;
        if (!*p) return 0;
        if (*p != ' ' && *p != '\t') return (unsigned char)*p;
        if (*n <= N_FIELDS) *p = 0;
        p++;
    }
}

/* A tab-separated .bim line with nothing in its first column: the SNP has no chromosome, like 0. `line` was
 * cut by split6 into five fields; it qualifies when a tab stood first, single separators between the rest,
 * and the cM column is a number (so that a line that begins with a stray tab and lacks another column is not
 * taken for one). */
static bool lacks_chromosome(char *line, size_t len, char **f, size_t n)
{
    if (n != N_FIELDS - 1 || len == 0 || line[0] != '\t' || f[0] != line + 1) return false;
    size_t at = 1;
    for (size_t k = 0; k < n; k++) {
        if (f[k] != line + at) return false;
        at += strlen(f[k]) + 1;
    }
    double cm;
    return at == len + 1 && dn_parse_double(f[1], &cm);
}

static dn_status bad_width(const dn_text *t, const char *line, size_t n, bool fam, dn_err *err)
{
    const char *hint = "";
    if (line[0] == '#') {
        hint = fam ? ": it looks like a PLINK 2 .psam; make a .bed/.bim/.fam with plink2 --make-bed"
                   : ": it looks like a PLINK 2 .pvar or a VCF; make a .bed/.bim/.fam with plink2 --make-bed";
    } else if (n > N_FIELDS) {
        hint = ": IDs must not hold blanks; write _ instead, or the columns would shift";
    } else {
        hint = ": a column is missing";
    }
    return dn_fail(err, DN_EFORMAT, "%s, line %llu: %zu fields found, 6 expected (%s)%s", dn_text_path(t),
                   (unsigned long long)dn_text_line(t), n, fam ? fam_fields : bim_fields, hint);
}

static dn_status bad_byte(const dn_text *t, unsigned char c, dn_err *err)
{
    const char *hint =
        c == '\r' ? ": it has old Mac or doubled line ends; convert it with dos2unix or tr '\\r' '\\n'" : "";
    return dn_fail(err, DN_EFORMAT, "%s, line %llu: holds the control byte 0x%02x%s", dn_text_path(t),
                   (unsigned long long)dn_text_line(t), c, hint);
}

/* Next line that is not blank, cut into six fields; *line = NULL at the end. *blank remembers a blank line's
 * number. */
static dn_status next_line(dn_text *t, uint64_t *blank, bool fam, char **line, char **f, dn_err *err)
{
    size_t len, n;
    for (;;) {
        dn_status status = dn_text_next(t, line, &len, err);
        if (status != DN_OK || !*line) return status;
        unsigned char c = split6(*line, f, &n);
        if (c) return bad_byte(t, c, err);
        if (n > 0) break;
        if (!*blank) *blank = dn_text_line(t);
    }
    if (*blank) {
        return dn_fail(
            err, DN_EFORMAT,
            "%s, line %llu: blank line inside the file (more follows on line %llu): remove it, if nothing is "
            "missing there",
            dn_text_path(t), (unsigned long long)*blank, (unsigned long long)dn_text_line(t));
    }
    if (n == N_FIELDS) return DN_OK;
    if (!fam && lacks_chromosome(*line, len, f, n)) {
        memmove(f + 1, f, (N_FIELDS - 1) * sizeof *f);
        f[0] = *line;
        f[0][0] = 0;
        return DN_OK;
    }
    return bad_width(t, *line, n, fam, err);
}

/* ---- .fam ---- */

struct dn_fam {
    dn_text *text;
    uint64_t blank, n;
};

dn_status dn_fam_open(dn_fam **out, const char *path, dn_err *err)
{
    dn_status status;
    dn_fam *f = NULL;
    *out = NULL;
    DN_TRY(dn_alloc(&f, 1, sizeof *f, ".fam reader", err));
    DN_TRY(dn_text_open(&f->text, path, err));
    *out = f;
    f = NULL;
done:
    dn_fam_close(f);
    return status;
}

dn_status dn_fam_next(dn_fam *f, const char **fid, const char **iid, dn_err *err)
{
    char *line, *v[N_FIELDS];
    *fid = *iid = NULL;
    dn_status status = next_line(f->text, &f->blank, true, &line, v, err);
    if (status != DN_OK) return status;
    if (!line) {
        if (f->n > 0) return DN_OK;
        return dn_fail(err, DN_EFORMAT, "%s: 0 people: the file is empty; one line per person is expected",
                       dn_text_path(f->text));
    }
    if (strlen(v[0]) > DN_MAX_ID || strlen(v[1]) > DN_MAX_ID) {
        return dn_fail(err, DN_EFORMAT, "%s, line %llu: an ID of more than %d bytes", dn_text_path(f->text),
                       (unsigned long long)dn_text_line(f->text), DN_MAX_ID);
    }
    if (++f->n > DN_MAX_PEOPLE) {
        return dn_fail(err, DN_EUNSUPPORTED, "%s: more than %llu people", dn_text_path(f->text),
                       (unsigned long long)DN_MAX_PEOPLE);
    }
    *fid = v[0];
    *iid = v[1];
    return DN_OK;
}

void dn_fam_close(dn_fam *f)
{
    if (!f) return;
    dn_text_close(f->text);
    free(f);
}

/* Refuses the same FID+IID twice. Keys are "FID IID": neither part can hold a blank. */
static dn_status check_duplicates(const char *path, const dn_people *p, dn_err *err)
{
    dn_status status;
    dn_strs keys = {0};
    dn_map *map = NULL;
    char key[2 * DN_MAX_ID + 2];
    for (uint64_t i = 0; i < p->iid.n; i++) {
        int len = snprintf(key, sizeof key, "%s %s", dn_strs_get(&p->fid, i), dn_strs_get(&p->iid, i));
        DN_TRY(dn_strs_add(&keys, key, (size_t)len, err));
    }
    DN_TRY(dn_map_new(&map, keys.n, err));
    for (uint64_t i = 0; i < keys.n; i++) {
        uint64_t prev;
        const char *k = dn_strs_get(&keys, i);
        DN_TRY(dn_map_add(map, k, strlen(k), i, &prev, err));
        if (prev != UINT64_MAX) {
            DN_TRY(dn_fail(
                err, DN_EFORMAT,
                "%s, lines %llu and %llu: the same person twice (family ID %s, person ID %s): a person is "
                "family ID and person ID together; rename or remove one",
                path, (unsigned long long)prev + 1, (unsigned long long)i + 1, dn_strs_get(&p->fid, i),
                dn_strs_get(&p->iid, i)));
        }
    }
    status = DN_OK;
done:
    dn_map_free(map);
    dn_strs_free(&keys);
    return status;
}

dn_status dn_fam_read(const char *path, dn_people *people, dn_err *err)
{
    dn_status status;
    dn_fam *f = NULL;
    memset(people, 0, sizeof *people);
    DN_TRY(dn_fam_open(&f, path, err));
    for (;;) {
        const char *fid, *iid;
        DN_TRY(dn_fam_next(f, &fid, &iid, err));
        if (!iid) break;
        DN_TRY(dn_strs_add(&people->fid, fid, strlen(fid), err));
        DN_TRY(dn_strs_add(&people->iid, iid, strlen(iid), err));
    }
    DN_TRY(check_duplicates(path, people, err));
done:
    dn_fam_close(f);
    if (status != DN_OK) dn_people_free(people);
    return status;
}

/* ---- .bim ---- */

struct dn_bim {
    dn_text *text;
    uint64_t blank, n;
};

dn_status dn_bim_open(dn_bim **out, const char *path, dn_err *err)
{
    dn_status status;
    dn_bim *b = NULL;
    *out = NULL;
    DN_TRY(dn_alloc(&b, 1, sizeof *b, ".bim reader", err));
    DN_TRY(dn_text_open(&b->text, path, err));
    *out = b;
    b = NULL;
done:
    dn_bim_close(b);
    return status;
}

/* Up to 18 digits, so that nothing overflows: the common case. Anything else goes to the strict parser. */
static bool parse_pos(const char *s, int64_t *v)
{
    int64_t x = 0;
    const char *p = s;
    for (; *p >= '0' && *p <= '9' && p - s < 18; p++) x = x * 10 + (*p - '0');
    if (*p || p == s) return dn_parse_i64(s, v);
    *v = x;
    return true;
}

static dn_status bad_pos(const dn_text *t, const char *s, dn_err *err)
{
    double d;
    const char *hint = "";
    bool number = dn_parse_double(s, &d);
    if (number && strpbrk(s, "eE")) {
        hint = ": R writes 100000 as 1e+05; write the file again after options(scipen = 999)";
    } else if (number) {
        hint = ": are the cM and position columns exchanged?";
    }
    return dn_fail(err, DN_EFORMAT, "%s, line %llu: position '%.64s' is not a whole number%s",
                   dn_text_path(t), (unsigned long long)dn_text_line(t), s, hint);
}

dn_status dn_bim_next(dn_bim *b, dn_bim_rec *rec, bool *more, dn_err *err)
{
    char *line, *v[N_FIELDS];
    *more = false;
    dn_status status = next_line(b->text, &b->blank, false, &line, v, err);
    if (status != DN_OK) return status;
    if (!line) {
        if (b->n > 0) return DN_OK;
        return dn_fail(err, DN_EFORMAT, "%s: 0 SNPs: the file is empty; one line per SNP is expected",
                       dn_text_path(b->text));
    }
    *rec = (dn_bim_rec){.chrom = v[0], .id = v[1], .a1 = v[4], .a2 = v[5], .line = dn_text_line(b->text)};
    if (!parse_pos(v[3], &rec->pos)) return bad_pos(b->text, v[3], err);
    if (++b->n > DN_MAX_SNPS) {
        return dn_fail(err, DN_EUNSUPPORTED, "%s: more than %llu SNPs", dn_text_path(b->text),
                       (unsigned long long)DN_MAX_SNPS);
    }
    *more = true;
    return DN_OK;
}

void dn_bim_close(dn_bim *b)
{
    if (!b) return;
    dn_text_close(b->text);
    free(b);
}

dn_status dn_bim_read(const char *path, dn_snps *s, dn_err *err)
{
    dn_status status;
    dn_bim *b = NULL;
    size_t pos_cap = 0;
    memset(s, 0, sizeof *s);
    DN_TRY(dn_bim_open(&b, path, err));
    for (;;) {
        dn_bim_rec r;
        bool more;
        DN_TRY(dn_bim_next(b, &r, &more, err));
        if (!more) break;
        DN_TRY(dn_grow(&s->pos, &pos_cap, s->id.n + 1, sizeof *s->pos, "SNP positions", err));
        s->pos[s->id.n] = r.pos;
        DN_TRY(dn_strs_add(&s->id, r.id, strlen(r.id), err));
        DN_TRY(dn_strs_add(&s->chrom, r.chrom, strlen(r.chrom), err));
        DN_TRY(dn_strs_add(&s->a1, r.a1, strlen(r.a1), err));
        DN_TRY(dn_strs_add(&s->a2, r.a2, strlen(r.a2), err));
    }
done:
    dn_bim_close(b);
    if (status != DN_OK) dn_snps_free(s);
    return status;
}

/* ---- counting ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static uint64_t count_newlines(const char *p, const char *end)
{
    uint64_t n = 0;
    for (const char *nl; p < end && (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1) n++;
    return n;
}

dn_status dn_bim_count(const char *path, uint64_t *n_lines, dn_err *err)
{
    dn_status status;
    uint64_t newlines = 0, lines = 0, since = 0;
    bool first = true;
    enum { CHUNK = 1 << 18, LINE_MAX_BYTES = 1 << 28 };
    char *buf = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *n_lines = 0;
    if (fd < 0) DN_TRY(dn_fail(err, DN_EOPEN, "cannot open %s: %s", path, strerror(errno)));
    DN_TRY(dn_alloc(&buf, CHUNK, 1, "line counter", err));
    for (;;) {
        ssize_t got = read(fd, buf, CHUNK);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) DN_TRY(dn_fail(err, DN_EOPEN, "cannot read %s: %s", path, strerror(errno)));
        if (got == 0) break;
        const char *p = buf, *end = buf + got, *last = end;
        uint64_t before = newlines;
        if (first && got >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) p += 3;
        first = false;
        /* Lines count up to the one that holds the last byte other than blanks. */
        while (last > p && is_blank(last[-1])) last--;
        if (last > p) {
            newlines += count_newlines(p, last);
            lines = newlines + 1;
        }
        newlines += count_newlines(last, end);
        /* Not lines of text: what dn_bim_next says about it is told by whoever reads it. */
        since = newlines > before ? 0 : since + (uint64_t)got;
        if (since > LINE_MAX_BYTES) break;
    }
    *n_lines = lines;
done:
    if (fd >= 0) close(fd);
    free(buf);
    return status;
}
