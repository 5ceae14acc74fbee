/* bed2h5_text.c: reading tables of genotypes as text (see bed2h5_text.h). Two passes: who is there, then what
 * they have. */
#include "bed2h5_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "geno.h"
#include "io.h"
#include "plink.h"

typedef unsigned long long ull;

static const char *const raw_lead[6] = {"FID", "IID", "PAT", "MAT", "SEX", "PHENOTYPE"};

/* The next field of a line, NUL-terminated in place; NULL at the end. Runs of blanks are one separator, tabs
 * are not. */
static char *next_field(char **at, char sep)
{
    char *p = *at;
    if (!p) return NULL;
    if (sep == ' ') {
        while (*p == ' ') p++;
        if (!*p) return *at = NULL;
    }
    char *end = strchr(p, sep);
    if (end) *end = 0;
    *at = end ? end + 1 : NULL;
    return p;
}

/* ---- header ---- */

/* "rs1_A" or "rs1_A(/G)" -> ID and alleles. false when there is no allele. */
static bool cut_allele(char *name, const char **a1, const char **a2)
{
    char *cut = strrchr(name, '_'), *other = cut ? strstr(cut, "(/") : NULL;
    *a2 = "";
    if (!cut || cut == name || !cut[1]) return false;
    if (other) {
        size_t n = strlen(other);
        if (n < 4 || other[n - 1] != ')') return false;
        other[n - 1] = 0;
        *other = 0;
        *a2 = other + 2;
    }
    *cut = 0;
    *a1 = cut + 1;
    return true;
}

static dn_status add_str(dn_strs *t, const char *s, dn_err *err)
{
    return dn_strs_add(t, s, strlen(s), err);
}

static dn_status add_column(b2h_text *t, char *name, dn_err *err)
{
    dn_status status;
    const char *a1 = "", *a2 = "";
    if (!*name || strlen(name) > DN_MAX_ID) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s, line 1: the name of SNP %llu is %s", t->path,
                       (ull)t->snps.id.n + 1, *name ? "too long" : "empty"));
    }
    if (t->kind == B2H_RAW && !cut_allele(name, &a1, &a2)) {
        DN_TRY(
            dn_fail(err, DN_EFORMAT,
                    "%s, line 1: column '%s' names no allele (as rs123_A does): is it a .raw of --recode A?",
                    t->path, name));
    }
    if (t->kind == B2H_RAW && strcmp(a1, "HET") == 0) {
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s, line 1: column '%s_HET' is of --recode AD: make it with --recode A", t->path,
                       name));
    }
    DN_TRY(add_str(&t->snps.id, name, err));
    if (t->kind != B2H_RAW) return DN_OK;
    DN_TRY(add_str(&t->snps.a1, a1, err));
    DN_TRY(add_str(&t->snps.a2, a2, err));
    if (!*a2) t->all_a2 = false;
done:
    return status;
}

/* A first line that is data: its SNP "names" are genotypes. */
static bool is_genotype(const char *s)
{
    static const char *const known[] = {"0", "1", "2", "-1", "NA", "./."};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(s, known[i]) == 0) return true;
    }
    return false;
}

static dn_status read_header(b2h_text *t, char *line, dn_err *err)
{
    dn_status status;
    size_t n = 0;
    if (!line) return dn_fail(err, DN_EFORMAT, "%s is empty", t->path);
    t->sep = strchr(line, '\t') ? '\t' : ' ';
    t->n_lead = t->kind == B2H_RAW ? 6 : 1;
    if (t->kind == B2H_TSV && t->sep != '\t') {
        return dn_fail(
            err, DN_EFORMAT,
            "%s, line 1 has no tab: a header with the SNP names is expected, fields separated by tabs",
            t->path);
    }
    for (char *at = line, *f; (f = next_field(&at, t->sep)) != NULL; n++) {
        if (n < t->n_lead) {
            const char *name = *f == '#' ? f + 1 : f;
            if (t->kind == B2H_RAW && strcmp(name, raw_lead[n]) != 0) {
                return dn_fail(
                    err, DN_EFORMAT,
                    "%s, line 1: field %zu is '%s', '%s' is expected in a .raw: is it a .tsv (--tsv)?",
                    t->path, n + 1, f, raw_lead[n]);
            }
            continue;
        }
        if (t->kind == B2H_TSV && is_genotype(f)) {
            return dn_fail(err, DN_EFORMAT,
                           "%s, line 1: no header: field %zu is '%s', a SNP name is expected", t->path, n + 1,
                           f);
        }
        DN_TRY(add_column(t, f, err));
    }
    if (t->snps.id.n == 0) DN_TRY(dn_fail(err, DN_EFORMAT, "%s, line 1 names no SNP (0 SNPs)", t->path));
    status = DN_OK;
done:
    return status;
}

/* ---- people ---- */

static dn_status read_people(b2h_text *t, dn_text *in, dn_err *err)
{
    dn_status status;
    size_t cap = 0;
    uint64_t blank = 0;
    for (;;) {
        char *line, *id[2] = {0};
        size_t len;
        DN_TRY(dn_text_next(in, &line, &len, err));
        if (!line) break;
        uint64_t number = dn_text_line(in);
        if (line[strspn(line, " \t")] == 0) {
            if (!blank) blank = number;
            continue;
        }
        if (blank)
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s, line %llu is empty, with more lines after it", t->path,
                           (ull)blank));
        char *at = line;
        for (size_t k = 0; k < (t->n_lead > 1 ? 2u : 1u); k++) id[k] = next_field(&at, t->sep);
        const char *iid = t->n_lead > 1 ? id[1] : id[0], *fid = t->n_lead > 1 ? id[0] : "0";
        if (!iid || !*iid || !*fid || strlen(iid) > DN_MAX_ID || strlen(fid) > DN_MAX_ID) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s, line %llu has no usable sample ID", t->path, (ull)number));
        }
        DN_TRY(dn_grow(&t->line, &cap, t->people.iid.n + 1, sizeof *t->line, "people", err));
        t->line[t->people.iid.n] = number;
        DN_TRY(add_str(&t->people.fid, fid, err));
        DN_TRY(add_str(&t->people.iid, iid, err));
    }
    if (t->people.iid.n == 0)
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s holds a header but no people (0 people)", t->path));
    status = DN_OK;
done:
    return status;
}

static dn_status refuse_repeats(const b2h_text *t, dn_err *err)
{
    dn_status status;
    dn_map *m = NULL;
    dn_strs keys = {0};
    char key[2 * DN_MAX_ID + 2];
    uint64_t n = t->people.iid.n, prev;
    for (uint64_t i = 0; i < n; i++) {
        int len = snprintf(key, sizeof key, "%s %s", dn_strs_get(&t->people.fid, i),
                           dn_strs_get(&t->people.iid, i));
        DN_TRY(dn_strs_add(&keys, key, (size_t)len, err));
    }
    DN_TRY(dn_map_new(&m, n, err));
    for (uint64_t i = 0; i < n; i++) {
        const char *k = dn_strs_get(&keys, i);
        DN_TRY(dn_map_add(m, k, strlen(k), i, &prev, err));
        if (prev != UINT64_MAX) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s: person %s stands on lines %llu and %llu", t->path,
                           dn_strs_get(&t->people.iid, i), (ull)t->line[prev], (ull)t->line[i]));
        }
    }
    status = DN_OK;
done:
    dn_map_free(m);
    dn_strs_free(&keys);
    return status;
}

/* ---- alleles from a .bim ---- */

static dn_status take_bim(b2h_text *t, const char *path, dn_err *err)
{
    dn_status status;
    dn_snps bim = {0}, out = {0};
    dn_map *m = NULL;
    uint64_t prev, n = t->snps.id.n;
    DN_TRY(dn_bim_read(path, &bim, err));
    DN_TRY(dn_map_new(&m, bim.id.n, err));
    for (uint64_t j = 0; j < bim.id.n; j++) {
        DN_TRY(dn_map_add(m, dn_strs_get(&bim.id, j), strlen(dn_strs_get(&bim.id, j)), j, &prev, err));
    }
    DN_TRY(dn_alloc(&out.pos, n, sizeof *out.pos, "positions", err));
    for (uint64_t j = 0; j < n; j++) {
        const char *id = dn_strs_get(&t->snps.id, j);
        uint64_t k = dn_map_get(m, id, strlen(id));
        if (k == UINT64_MAX)
            DN_TRY(dn_fail(err, DN_EMISMATCH, "SNP %s of %s is not in %s", id, t->path, path));
        const char *a1 = dn_strs_get(&bim.a1, k), *a2 = dn_strs_get(&bim.a2, k);
        const char *counted = t->snps.a1.n ? dn_strs_get(&t->snps.a1, j) : a1;
        if (strcmp(counted, a1) != 0 && strcmp(counted, a2) != 0) {
            DN_TRY(dn_fail(err, DN_EMISMATCH, "SNP %s: %s counts allele %s, %s has %s and %s", id, t->path,
                           counted, path, a1, a2));
        }
        bool swapped = strcmp(counted, a1) != 0;
        t->n_swapped += swapped;
        out.pos[j] = bim.pos[k];
        DN_TRY(add_str(&out.chrom, dn_strs_get(&bim.chrom, k), err));
        DN_TRY(add_str(&out.a1, swapped ? a2 : a1, err));
        DN_TRY(add_str(&out.a2, swapped ? a1 : a2, err));
    }
    dn_strs_free(&t->snps.a1);
    dn_strs_free(&t->snps.a2);
    t->snps.chrom = out.chrom, t->snps.a1 = out.a1, t->snps.a2 = out.a2, t->snps.pos = out.pos;
    memset(&out, 0, sizeof out);
    t->all_a2 = true;
    status = DN_OK;
done:
    dn_map_free(m);
    dn_snps_free(&bim);
    dn_snps_free(&out);
    return status;
}

dn_status b2h_text_open(b2h_text *t, const char *path, b2h_kind kind, const char *bim, dn_err *err)
{
    dn_status status;
    dn_text *in = NULL;
    char *line;
    size_t len;
    *t = (b2h_text){.kind = kind, .path = path, .all_a2 = kind == B2H_RAW};
    DN_TRY(dn_text_open(&in, path, err));
    DN_TRY(dn_text_next(in, &line, &len, err));
    DN_TRY(read_header(t, line, err));
    DN_TRY(read_people(t, in, err));
    DN_TRY(refuse_repeats(t, err));
    if (bim) DN_TRY(take_bim(t, bim, err));
    t->n_people = t->people.iid.n;
done:
    dn_text_close(in);
    if (status != DN_OK) b2h_text_close(t);
    return status;
}

dn_status b2h_text_snps(const b2h_text *t, const uint8_t *keep, dn_snps *to, dn_err *err)
{
    dn_status status = DN_OK;
    const dn_snps *from = &t->snps;
    bool alleles = t->all_a2 && from->a1.n;
    const dn_strs *src[] = {&from->id, &from->chrom, &from->a1, &from->a2};
    dn_strs *dst[] = {&to->id, &to->chrom, &to->a1, &to->a2};
    for (size_t k = 0; k < 4; k++) {
        if (src[k]->n == 0 || (k > 1 && !alleles)) continue;
        for (uint64_t j = 0; j < from->id.n; j++) {
            if (!keep || keep[j]) DN_TRY(add_str(dst[k], dn_strs_get(src[k], j), err));
        }
    }
    if (from->pos) {
        DN_TRY(dn_alloc(&to->pos, to->id.n, sizeof *to->pos, "positions", err));
        for (uint64_t j = 0, k = 0; j < from->id.n; j++) {
            if (!keep || keep[j]) to->pos[k++] = from->pos[j];
        }
    }
done:
    return status;
}

/* ---- genotypes ---- */

/* A field -> dosage; 9 for anything else. */
static int8_t dosage(const char *f)
{
    if (f[0] >= '0' && f[0] <= '2' && (f[1] == 0 || (f[1] == '.' && f[2] == '0' && f[3] == 0)))
        return (int8_t)(f[0] - '0');
    if (strcmp(f, "NA") == 0 || strcmp(f, "-1") == 0 || strcmp(f, "./.") == 0 || strcmp(f, ".\\.") == 0 ||
        strcmp(f, "-1.0") == 0) {
        return -1;
    }
    return 9;
}

static dn_status wrong_width(const b2h_text *t, uint64_t number, uint64_t found, dn_err *err)
{
    return dn_fail(err, DN_EFORMAT,
                   "%s, line %llu: %llu fields found, %llu expected (the header has as many)", t->path,
                   (ull)number, (ull)found, (ull)(t->snps.id.n + t->n_lead));
}

/* One line into calls (of the columns kept). */
static dn_status parse_line(const b2h_text *t, char *line, uint64_t number, const uint8_t *keep_snp,
                            int8_t *calls, dn_err *err)
{
    uint64_t m = t->snps.id.n, n = 0, k = 0;
    for (char *at = line, *f; (f = next_field(&at, t->sep)) != NULL; n++) {
        if (n < t->n_lead) continue;
        uint64_t j = n - t->n_lead;
        if (j >= m) continue;
        int8_t v = dosage(f);
        if (v == 9) {
            return dn_fail(err, DN_EFORMAT,
                           "%s, line %llu, field %llu (SNP %s): '%s' is no genotype; 0, 1, 2 or missing (NA, "
                           "./., -1) is expected",
                           t->path, (ull)number, (ull)n + 1, dn_strs_get(&t->snps.id, j), f);
        }
        if (!keep_snp || keep_snp[j]) calls[k++] = v;
    }
    return n == m + t->n_lead ? DN_OK : wrong_width(t, number, n, err);
}

dn_status b2h_text_rows(const b2h_text *t, const uint8_t *keep, const uint8_t *keep_snp, uint64_t row_bytes,
                        dn_status (*row)(void *, const uint8_t *, dn_err *), void *ctx, dn_err *err)
{
    dn_status status;
    dn_text *in = NULL;
    int8_t *calls = NULL;
    uint8_t *packed = NULL;
    char *line;
    size_t len;
    uint64_t n_cols = 0, i = 0;
    for (uint64_t j = 0; j < t->snps.id.n; j++) n_cols += !keep_snp || keep_snp[j];
    DN_TRY(dn_alloc(&calls, n_cols, 1, "row of genotypes", err));
    DN_TRY(dn_alloc_aligned(&packed, row_bytes, 1, "row of genotypes", err));
    memset(packed, 0xff, row_bytes);
    DN_TRY(dn_text_open(&in, t->path, err));
    for (;;) {
        DN_TRY(dn_text_next(in, &line, &len, err));
        if (!line || i == t->n_people) break;
        if (dn_text_line(in) != t->line[i]) continue; /* header */
        if (keep[i++]) {
            DN_TRY(parse_line(t, line, dn_text_line(in), keep_snp, calls, err));
            dn_geno_pack(calls, n_cols, packed);
            DN_TRY(row(ctx, packed, err));
        }
    }
    if (i != t->n_people) DN_TRY(dn_fail(err, DN_EOPEN, "%s changes while it is read", t->path));
    status = DN_OK;
done:
    dn_text_close(in);
    free(calls);
    free(packed);
    return status;
}

void b2h_text_close(b2h_text *t)
{
    if (!t) return;
    dn_people_free(&t->people);
    dn_snps_free(&t->snps);
    free(t->line);
    memset(t, 0, sizeof *t);
}
