/* plink.c: opening filesets: which files a prefix means, and that they fit one another (see plink.h). */
#include "plink_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "geno.h"
#include "io.h"

typedef unsigned long long ull;

static dn_status join(char **out, const char *a, const char *b, dn_err *err)
{
    if (asprintf(out, "%s%s", a, b) >= 0) return DN_OK;
    *out = NULL;
    return dn_fail(err, DN_ENOMEM, "out of memory: path");
}

static bool exists(const char *prefix, const char *suffix)
{
    char *path;
    struct stat sb;
    if (asprintf(&path, "%s%s", prefix, suffix) < 0) return false;
    bool yes = stat(path, &sb) == 0;
    free(path);
    return yes;
}

static bool any_exists(const char *prefix)
{
    return exists(prefix, ".bed") || exists(prefix, ".bim") || exists(prefix, ".fam");
}

/* ---- prefixes ---- */

/* "x.bed" (.bim, .fam) means "x", unless x.bed.bed is there. */
static size_t prefix_length(const char *s)
{
    size_t n = strlen(s);
    if (n > 4 && !any_exists(s)) {
        const char *tail = s + n - 4;
        if (strcmp(tail, ".bed") == 0 || strcmp(tail, ".bim") == 0 || strcmp(tail, ".fam") == 0) return n - 4;
    }
    return n;
}

/* Replaces the last '@' by every chromosome name for which one of the three files is there. */
static dn_status expand_at(const char *prefix, dn_strs *out, dn_err *err)
{
    static const char *const names[] = {"1",  "2",  "3",  "4",  "5",  "6",  "7",  "8",  "9",  "10",
                                        "11", "12", "13", "14", "15", "16", "17", "18", "19", "20",
                                        "21", "22", "23", "24", "25", "26", "X",  "Y",  "XY", "MT"};
    const char *at = strrchr(prefix, '@');
    uint64_t before = out->n;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *one;
        if (asprintf(&one, "%.*s%s%s", (int)(at - prefix), prefix, names[i], at + 1) < 0) {
            return dn_fail(err, DN_ENOMEM, "out of memory: path");
        }
        dn_status status = any_exists(one) ? dn_strs_add(out, one, strlen(one), err) : DN_OK;
        free(one);
        if (status != DN_OK) return status;
    }
    if (out->n > before) return DN_OK;
    return dn_fail(
        err, DN_EOPEN,
        "no fileset matches %s: with '@' replaced by 1 to 26, X, Y, XY or MT, there is no .bed, .bim or .fam",
        prefix);
}

static dn_status expand(const dn_strs *given, dn_strs *out, dn_err *err)
{
    dn_status status;
    char *s = NULL;
    if (given->n == 0) return dn_fail(err, DN_EUSAGE, "no PLINK fileset given: use --bfile PREFIX");
    for (uint64_t i = 0; i < given->n; i++) {
        const char *g = dn_strs_get(given, i);
        if (!*g) DN_TRY(dn_fail(err, DN_EUSAGE, "--bfile: the prefix is empty"));
        free(s);
        s = strndup(g, prefix_length(g));
        if (!s) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory: path"));
        if (strchr(s, '@') && !any_exists(s))
            DN_TRY(expand_at(s, out, err));
        else
            DN_TRY(dn_strs_add(out, s, strlen(s), err));
    }
    status = DN_OK;
done:
    free(s);
    return status;
}

/* ---- one set ---- */

/* Why a file that must be there is not: looks for what people mistake for it. */
static dn_status not_there(const char *prefix, const char *path, int why, dn_err *err)
{
    static const char *const squeezed[] = {".gz", ".zst", ".bgz"};
    if (why != ENOENT) return dn_fail(err, DN_EOPEN, "cannot open %s: %s", path, strerror(why));
    for (size_t i = 0; i < sizeof squeezed / sizeof squeezed[0]; i++) {
        if (exists(path, squeezed[i])) {
            return dn_fail(err, DN_EOPEN,
                           "cannot open %s: it does not exist, but %s%s does: decompress it first", path,
                           path, squeezed[i]);
        }
    }
    if (exists(prefix, ".pgen")) {
        return dn_fail(err, DN_EOPEN,
                       "cannot open %s: it does not exist, but %s.pgen does: that is a PLINK 2 fileset; run "
                       "plink2 --pfile %s "
                       "--make-bed --out %s",
                       path, prefix, prefix, prefix);
    }
    if (exists(prefix, ".ped")) {
        return dn_fail(err, DN_EOPEN,
                       "cannot open %s: it does not exist, but %s.ped does: that is a text fileset; run "
                       "plink1.9 --file %s "
                       "--make-bed --out %s",
                       path, prefix, prefix, prefix);
    }
    dn_kind kind;
    struct stat sb;
    if (stat(prefix, &sb) == 0 && S_ISREG(sb.st_mode) && dn_kind_of_file(prefix, &kind, NULL) == DN_OK) {
        return dn_fail(err, DN_EOPEN,
                       "cannot open %s: it does not exist; %s itself is a file (%s), but the name of a "
                       "fileset is needed: PREFIX "
                       "of PREFIX.bed, PREFIX.bim and PREFIX.fam",
                       path, prefix, dn_kind_name(kind));
    }
    return dn_fail(err, DN_EOPEN, "cannot open %s: %s", path, strerror(why));
}

/* All three files must be regular ones: .bim is read twice and .bed at any place. */
static dn_status check_there(const char *prefix, const char *path, struct stat *sb, dn_err *err)
{
    if (stat(path, sb) != 0) return not_there(prefix, path, errno, err);
    if (S_ISDIR(sb->st_mode)) return dn_fail(err, DN_EOPEN, "cannot read %s: it is a folder", path);
    if (S_ISREG(sb->st_mode)) return DN_OK;
    return dn_fail(err, DN_EOPEN,
                   "cannot read %s: it is not a regular file (a pipe?), and it is read more than once", path);
}

/* Bytes 0 to 2 of the .bed. */
static dn_status check_magic(dn_fileset *s, dn_err *err)
{
    unsigned char head[512];
    ssize_t n = pread(s->fd, head, sizeof head, 0);
    if (n < 0) return dn_fail(err, DN_EOPEN, "cannot read %s: %s", s->bed, strerror(errno));
    dn_kind kind = dn_kind_of_bytes(head, (size_t)n);
    if (kind != DN_KIND_BED) {
        char found[64] = "";
        if (kind == DN_KIND_UNKNOWN) {
            snprintf(found, sizeof found, " (first bytes %02x %02x)", head[0], n > 1 ? head[1] : 0);
        }
        return dn_fail(err, DN_EFORMAT, "%s is not a PLINK 1 .bed (which begins with 6c 1b): it is %s%s",
                       s->bed, dn_kind_name(kind), found);
    }
    if (n < 3)
        return dn_fail(err, DN_EFORMAT, "%s has %d bytes: a .bed begins with three, so it is truncated",
                       s->bed, (int)n);
    if (head[2] > 1) {
        return dn_fail(err, DN_EFORMAT,
                       "%s: byte 3 is 0x%02x; 0x01 (variant-major) or 0x00 (sample-major) is expected: it is "
                       "damaged, or not a "
                       "PLINK 1 .bed",
                       s->bed, head[2]);
    }
    s->snp_major = head[2] == 1;
    return DN_OK;
}

/* Reads the whole .bim for its errors; what it counts is what dn_bim_next would deliver. */
static dn_status check_bim(const char *path, uint64_t *n, dn_err *err)
{
    dn_bim *b;
    dn_status status = dn_bim_open(&b, path, err);
    bool more = true;
    for (*n = 0; status == DN_OK && more; *n += more) {
        dn_bim_rec rec;
        status = dn_bim_next(b, &rec, &more, err);
    }
    dn_bim_close(b);
    return status;
}

static dn_status bad_size(const dn_fileset *s, uint64_t n_people, uint64_t want, dn_err *err)
{
    const char *unit = s->snp_major ? "variants" : "people";
    uint64_t found = s->size, diff = found > want ? found - want : want - found;
    const char *sign = found > want ? "more" : "fewer";
    char fits[160] = "";
    /* Rows that would have one whole number of bytes tell for how many people the .bed was made. */
    uint64_t n_rows = s->snp_major ? s->n_snps : n_people, body = found < 3 ? 0 : found - 3;
    if (n_rows > 0 && body > 0 && body % n_rows == 0) {
        ull q = body / n_rows;
        snprintf(fits, sizeof fits, " (the size would fit %llu to %llu %s)", q * 4 - 3, q * 4,
                 s->snp_major ? "people" : "variants");
    }
    if (diff % s->row_bytes == 0) {
        return dn_fail(err, DN_EMISMATCH,
                       "%s has %llu bytes, but %llu people (%s) and %llu SNPs (%s) make %llu: %llu whole %s "
                       "%s than expected%s: "
                       "these files do not belong together, or one was cut",
                       s->bed, (ull)found, (ull)n_people, s->fam, (ull)s->n_snps, s->bim, (ull)want,
                       (ull)(diff / s->row_bytes), unit, sign, fits);
    }
    return dn_fail(
        err, DN_EFORMAT,
        "%s has %llu bytes, but %llu people (%s) and %llu SNPs (%s) make %llu: %llu bytes %s than expected, "
        "not a whole "
        "number of %s (%llu bytes each)%s: it was cut or damaged, or these files do not belong together",
        s->bed, (ull)found, (ull)n_people, s->fam, (ull)s->n_snps, s->bim, (ull)want, (ull)diff, sign, unit,
        (ull)s->row_bytes, fits);
}

static dn_status check_size(dn_fileset *s, uint64_t n_people, dn_err *err)
{
    for (int pass = 0;; pass++) {
        uint64_t rows = s->snp_major ? s->n_snps : n_people, want;
        s->row_bytes = dn_geno_bytes(s->snp_major ? n_people : s->n_snps);
        if (!dn_mul(rows, s->row_bytes, &want) || !dn_add(want, 3, &want)) {
            return dn_fail(err, DN_EUNSUPPORTED, "%s: the sizes overflow", s->bed);
        }
        if (s->n_snps > 0 && want == s->size) return DN_OK;
        if (pass == 1) return bad_size(s, n_people, want, err);
        /* The lines were only counted. Before the .bed is blamed, the .bim is read in earnest. */
        dn_status status = check_bim(s->bim, &s->n_snps, err);
        if (status != DN_OK) return status;
    }
}

/* The .fam of a further set against the first set's people. */
static dn_status same_people(const dn_plink *p, const dn_fileset *s, dn_err *err)
{
    dn_status status;
    dn_fam *f = NULL;
    const char *first = p->sets[0].fam;
    uint64_t n = p->people.iid.n, i = 0;
    DN_TRY(dn_fam_open(&f, s->fam, err));
    for (;; i++) {
        const char *fid, *iid;
        DN_TRY(dn_fam_next(f, &fid, &iid, err));
        if (!iid) break;
        if (i >= n) {
            DN_TRY(
                dn_fail(err, DN_EMISMATCH,
                        "%s and %s disagree: %s has a person more on line %llu (%s %s), and the first ends "
                        "after %llu; all filesets must have the same people in the same order",
                        first, s->fam, s->fam, (ull)i + 1, fid, iid, (ull)n));
        }
        const char *fid1 = dn_strs_get(&p->people.fid, i), *iid1 = dn_strs_get(&p->people.iid, i);
        if (strcmp(fid, fid1) == 0 && strcmp(iid, iid1) == 0) continue;
        char where[96] = "the second person is not in the first file";
        for (uint64_t k = 0; k < n; k++) {
            if (strcmp(iid, dn_strs_get(&p->people.iid, k)) == 0 &&
                strcmp(fid, dn_strs_get(&p->people.fid, k)) == 0) {
                snprintf(where, sizeof where, "the second stands on line %llu of the first file", (ull)k + 1);
                break;
            }
        }
        DN_TRY(dn_fail(err, DN_EMISMATCH,
                       "%s and %s disagree on line %llu: %s %s in the one, %s %s in the other (%s); all "
                       "filesets must have the "
                       "same people in the same order",
                       first, s->fam, (ull)i + 1, fid1, iid1, fid, iid, where));
    }
    if (i < n) {
        DN_TRY(dn_fail(err, DN_EMISMATCH,
                       "%s and %s disagree: %llu people in the one, %llu in the other, which lacks %s %s; "
                       "all filesets must have "
                       "the same people in the same order",
                       first, s->fam, (ull)n, (ull)i, dn_strs_get(&p->people.fid, i),
                       dn_strs_get(&p->people.iid, i)));
    }
    status = DN_OK;
done:
    dn_fam_close(f);
    return status;
}

/* Opens set k; the first one also fills p->people. */
static dn_status open_set(dn_plink *p, size_t k, const char *prefix, dn_err *err)
{
    dn_status status;
    dn_fileset *s = &p->sets[k];
    struct stat sb, other;
    s->prefix = strdup(prefix);
    if (!s->prefix) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory: path"));
    DN_TRY(join(&s->bed, prefix, ".bed", err));
    DN_TRY(join(&s->bim, prefix, ".bim", err));
    DN_TRY(join(&s->fam, prefix, ".fam", err));
    DN_TRY(check_there(prefix, s->bed, &sb, err));
    DN_TRY(check_there(prefix, s->bim, &other, err));
    DN_TRY(check_there(prefix, s->fam, &other, err));
    s->fd = open(s->bed, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0 || fstat(s->fd, &sb) != 0)
        DN_TRY(dn_fail(err, DN_EOPEN, "cannot open %s: %s", s->bed, strerror(errno)));
    s->size = (uint64_t)sb.st_size;
    for (size_t i = 0; i < k; i++) {
        if (fstat(p->sets[i].fd, &other) == 0 && other.st_dev == sb.st_dev && other.st_ino == sb.st_ino) {
            DN_TRY(dn_fail(err, DN_EUSAGE, "the fileset %s is given twice", prefix));
        }
    }
    DN_TRY(check_magic(s, err));
    if (k == 0)
        DN_TRY(dn_fam_read(s->fam, &p->people, err));
    else
        DN_TRY(same_people(p, s, err));
    DN_TRY(dn_bim_count(s->bim, &s->n_snps, err));
    DN_TRY(check_size(s, p->people.iid.n, err));
    s->first_snp = p->n_snps;
    p->n_snps += s->n_snps;
    if (p->n_snps > DN_MAX_SNPS) {
        DN_TRY(dn_fail(err, DN_EUNSUPPORTED, "%s: more than %llu SNPs in all", prefix, (ull)DN_MAX_SNPS));
    }
    status = DN_OK;
done:
    return status;
}

dn_status dn_plink_open(dn_plink **out, const dn_strs *prefixes, dn_err *err)
{
    dn_status status;
    dn_plink *p = NULL;
    dn_strs list = {0};
    *out = NULL;
    DN_TRY(expand(prefixes, &list, err));
    DN_TRY(dn_alloc(&p, 1, sizeof *p, "filesets", err));
    DN_TRY(dn_alloc(&p->sets, list.n, sizeof *p->sets, "filesets", err));
    for (uint64_t k = 0; k < list.n; k++) p->sets[k].fd = -1;
    for (uint64_t k = 0; k < list.n; k++) {
        p->n_sets = k + 1;
        DN_TRY(open_set(p, k, dn_strs_get(&list, k), err));
    }
    *out = p;
    p = NULL;
done:
    dn_plink_close(p);
    dn_strs_free(&list);
    return status;
}

void dn_plink_close(dn_plink *p)
{
    if (!p) return;
    for (size_t k = 0; k < p->n_sets; k++) {
        dn_fileset *s = &p->sets[k];
        if (s->fd >= 0) close(s->fd);
        free(s->prefix);
        free(s->bed);
        free(s->bim);
        free(s->fam);
    }
    free(p->sets);
    dn_people_free(&p->people);
    free(p);
}
