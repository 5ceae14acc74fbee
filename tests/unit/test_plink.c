/* Filesets: every way to read a block gives the genotypes that were written; lists of people and SNPs; and
 * 4,000 damaged copies of a small fileset, each of which must be read or refused with a sentence that names
 * its file. */
#include "check.h"

#include <sys/stat.h>
#include <unistd.h>

#include "geno.h"
#include "plink.h"

typedef unsigned long long ull;
static char dir[] = "/tmp/dnpipe_plink_XXXXXX";

static void put(const char *name, const void *p, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0) exit(1);
}

static void put_text(const char *name, const char *s)
{
    put(name, s, strlen(s));
}

static dn_status open_sets(dn_plink **p, const char *const *names, size_t n, dn_err *err)
{
    dn_strs list = {0};
    for (size_t i = 0; i < n; i++) {
        char path[256];
        int len = snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        CHECK_OK(dn_strs_add(&list, path, (size_t)len, err), err);
    }
    dn_status status = dn_plink_open(p, &list, err);
    dn_strs_free(&list);
    return status;
}

/* ---- a made-up set: code of SNP j, person i ---- */

static unsigned code_of(uint64_t j, uint64_t i)
{
    unsigned long long s = j * 1000003 + i * 7919 + 1;
    return (unsigned)(check_rand(&s) >> 40) & 3u;
}

/* Writes NAME.bed/.bim/.fam with SNPs [first, first + n_snps), padding set to ones. */
static void write_set(const char *name, uint64_t first, uint64_t n_snps, uint64_t n_people, bool snp_major)
{
    char path[64];
    uint64_t rows = snp_major ? n_snps : n_people, calls = snp_major ? n_people : n_snps,
             bytes = dn_geno_bytes(calls);
    uint8_t *bed = malloc(3 + rows * bytes);
    bed[0] = 0x6c, bed[1] = 0x1b, bed[2] = snp_major;
    memset(bed + 3, 0xFF, rows * bytes);
    for (uint64_t r = 0; r < rows; r++) {
        for (uint64_t c = 0; c < calls; c++) {
            uint8_t *b = &bed[3 + r * bytes + c / 4];
            unsigned code = snp_major ? code_of(first + r, c) : code_of(first + c, r);
            *b = (uint8_t)((*b & ~(3u << c % 4 * 2)) | code << c % 4 * 2);
        }
    }
    snprintf(path, sizeof path, "%s.bed", name);
    put(path, bed, 3 + rows * bytes);
    free(bed);
    char *text = malloc(64 * (n_snps + n_people) + 64), *t = text;
    for (uint64_t j = 0; j < n_snps; j++)
        t += sprintf(t, "1\trs%llu\t0\t%llu\tA\tG\n", (ull)(first + j), (ull)(j + 1));
    snprintf(path, sizeof path, "%s.bim", name);
    put(path, text, (size_t)(t - text));
    t = text;
    for (uint64_t i = 0; i < n_people; i++) t += sprintf(t, "F S%llu 0 0 1 -9\n", (ull)i);
    snprintf(path, sizeof path, "%s.fam", name);
    put(path, text, (size_t)(t - text));
    free(text);
}

/* Reads SNPs in the given order and compares with code_of; the tail of each buffer must be missing, and the
 * byte after it untouched. */
static size_t wrong_calls(dn_plink *p, const uint64_t *snp, size_t n, uint64_t person, uint64_t people)
{
    dn_err err = {0};
    uint64_t bytes = dn_geno_bytes(people);
    uint8_t **bufs = malloc(n * sizeof *bufs), one[512];
    size_t wrong = 0;
    for (size_t k = 0; k < n; k++) {
        bufs[k] = malloc(bytes + 1);
        memset(bufs[k], 0xEE, bytes + 1);
    }
    CHECK_OK(dn_plink_read_block(p, snp, n, person, people, bufs, &err), &err);
    for (size_t k = 0; k < n; k++) {
        for (uint64_t i = 0; i < bytes * 4; i++) {
            wrong += dn_geno_get(bufs[k], i) != (i < people ? code_of(snp[k], person + i) : 1);
        }
        wrong += bufs[k][bytes] != 0xEE;
        CHECK_OK(dn_plink_read_snp(p, snp[k], person, people, one, &err), &err);
        wrong += memcmp(one, bufs[k], bytes) != 0;
        free(bufs[k]);
    }
    free(bufs);
    return wrong;
}

static void reading(bool snp_major)
{
    static const uint64_t people[] = {1, 3, 4, 5, 6, 7, 8, 61, 1029};
    for (size_t c = 0; c < sizeof people / sizeof people[0]; c++) {
        uint64_t n = people[c];
        const char *names[] = {"r1", "r2", "r3"};
        dn_plink *p;
        dn_err err = {0};
        write_set("r1", 0, 37, n, snp_major);
        write_set("r2", 37, 1, n, snp_major);
        write_set("r3", 38, 530, n, !snp_major); /* a mixture of both kinds */
        CHECK_OK(open_sets(&p, names, 3, &err), &err);
        CHECK(p->n_snps == 568 && p->people.iid.n == n && p->sets[2].first_snp == 38);
        uint64_t all[568], some[] = {567, 0, 36, 37, 38, 40, 39, 36, 200, 199, 37};
        for (uint64_t j = 0; j < 568; j++) all[j] = j;
        size_t wrong = 0;
        for (uint64_t from = 0; from < n; from += n < 100 ? 4 : 512) {
            for (uint64_t len = 1; len <= n - from; len += n < 100 ? 1 : 171)
                wrong += wrong_calls(p, some, 11, from, len);
        }
        wrong += wrong_calls(p, all, 568, 0, n);
        if (n > 4) wrong += wrong_calls(p, all, 568, 4, n - 4);
        CHECK_MSG(wrong == 0, "%llu people: %zu wrong calls", (ull)n, wrong);
        CHECK(p->sets[0].padding_dirty == (snp_major ? n % 4 != 0 : 37 % 4 != 0));
        uint8_t buf[4];
        CHECK(dn_plink_read_snp(p, 568, 0, 1, buf, &err) == DN_EINTERNAL &&
              dn_plink_read_snp(p, 0, 0, n + 1, buf, &err) == DN_EINTERNAL);
        dn_plink_close(p);
    }
}

/* A sample-major set wider and taller than one tile. */
static void large_sample_major(void)
{
    const char *name = "big";
    enum { SNPS = 4101, PEOPLE = 1030 };
    dn_plink *p;
    dn_err err = {0};
    write_set(name, 0, SNPS, PEOPLE, false);
    CHECK_OK(open_sets(&p, &name, 1, &err), &err);
    uint64_t *all = malloc(SNPS * sizeof *all);
    for (uint64_t j = 0; j < SNPS; j++) all[j] = j;
    CHECK(wrong_calls(p, all, SNPS, 0, PEOPLE) == 0);
    for (uint64_t j = 0; j < SNPS; j++) all[j] = SNPS - 1 - j;
    CHECK(wrong_calls(p, all, 7, 1024, 6) == 0);
    free(all);
    dn_plink_close(p);
}

/* ---- prefixes ---- */

static void prefixes(void)
{
    dn_plink *p;
    dn_err err = {0};
    write_set("c1", 0, 2, 5, true);
    write_set("c22", 2, 3, 5, true);
    write_set("cX", 5, 1, 5, false);
    const char *at = "c@", *bed = "c22.bed", *twice[] = {"c1", "c22", "c1.fam"}, *none = "nothing@";
    CHECK_OK(open_sets(&p, &at, 1, &err), &err);
    CHECK(p->n_sets == 3 && p->n_snps == 6 && strstr(p->sets[1].bed, "/c22.bed") &&
          strstr(p->sets[2].prefix, "/cX"));
    dn_plink_close(p);
    CHECK_OK(open_sets(&p, &bed, 1, &err), &err);
    CHECK(p->n_sets == 1 && p->n_snps == 3);
    dn_plink_close(p);
    CHECK(open_sets(&p, twice, 3, &err) == DN_EUSAGE && !p && strstr(err.msg, "twice"));
    CHECK(open_sets(&p, &none, 1, &err) == DN_EOPEN && strstr(err.msg, "nothing@"));
    CHECK(open_sets(&p, NULL, 0, &err) == DN_EUSAGE);
}

/* ---- lists ---- */

static void lists(void)
{
    dn_people people;
    dn_err err = {0};
    dn_strs missing = {0}, ids = {0};
    uint8_t *keep;
    uint64_t n_missing;
    char fam[256], a[256], b[256];
    put_text("l.fam", "F1 S1 0 0 1 1\nF2 S1 0 0 1 1\nF2 S2 0 0 1 1\n0 S3 0 0 1 1\n");
    snprintf(fam, sizeof fam, "%s/l.fam", dir);
    snprintf(a, sizeof a, "%s/a.txt", dir);
    snprintf(b, sizeof b, "%s/b.txt", dir);
    CHECK_OK(dn_fam_read(fam, &people, &err), &err);
    put_text("a.txt", "F2\tS1\textra\r\nS3\nS3\nF9 S9\n\n");
    CHECK_OK(dn_keep_people(&people, a, NULL, &keep, &missing, &n_missing, &err), &err);
    CHECK(!keep[0] && keep[1] && !keep[2] && keep[3] && n_missing == 1 && missing.n == 1);
    CHECK(missing.n == 1 && strcmp(dn_strs_get(&missing, 0), "F9 S9") == 0);
    free(keep);
    put_text("b.txt", "#IID sex\nS3 1\n");
    CHECK_OK(dn_keep_people(&people, a, b, &keep, NULL, &n_missing, &err), &err);
    CHECK(!keep[0] && keep[1] && !keep[2] && !keep[3]);
    free(keep);
    put_text("b.txt", "");
    CHECK_OK(dn_keep_people(&people, NULL, b, &keep, NULL, &n_missing, &err), &err);
    CHECK(keep[0] && keep[3] && n_missing == 0);
    free(keep);
    CHECK(dn_keep_people(&people, b, NULL, &keep, NULL, &n_missing, &err) == DN_EFORMAT && !keep &&
          strstr(err.msg, "empty"));
    put_text("b.txt", "S1\n");
    CHECK(dn_keep_people(&people, b, NULL, &keep, NULL, &n_missing, &err) == DN_EMISMATCH &&
          strstr(err.msg, "several families"));
    put_text("b.txt", "F1_S1\n");
    CHECK(dn_keep_people(&people, b, NULL, &keep, NULL, &n_missing, &err) == DN_EMISMATCH &&
          strstr(err.msg, "'F1_S1'"));
    CHECK_OK(dn_keep_people(&people, NULL, NULL, &keep, NULL, &n_missing, &err), &err);
    CHECK(keep[0] && keep[1] && keep[2] && keep[3] && n_missing == 0);
    free(keep);
    static const char *const names[] = {"rs1", "---", "rs2", "---"};
    for (int i = 0; i < 4; i++) CHECK_OK(dn_strs_add(&ids, names[i], strlen(names[i]), &err), &err);
    put_text("a.txt", "---\nrs2\nrs77\n");
    put_text("b.txt", "rs2");
    dn_strs_free(&missing);
    CHECK_OK(dn_keep_snps(&ids, a, b, &keep, &missing, &n_missing, &err), &err);
    CHECK(!keep[0] && keep[1] && !keep[2] && keep[3] && n_missing == 1 &&
          strcmp(dn_strs_get(&missing, 0), "rs77") == 0);
    free(keep);
    put_text("a.txt", "1 rs1 0 1 A G\n");
    CHECK(dn_keep_snps(&ids, a, NULL, &keep, NULL, &n_missing, &err) == DN_EFORMAT &&
          strstr(err.msg, "cut -f2"));
    dn_strs_free(&missing);
    dn_strs_free(&ids);
    dn_people_free(&people);
}

/* ---- damage ---- */

/* Opens and reads everything, as a program would. */
static dn_status read_everything(const char *name, dn_err *err)
{
    dn_plink *p;
    dn_status status = open_sets(&p, &name, 1, err);
    if (status != DN_OK) return status;
    uint8_t buf[64];
    for (size_t k = 0; k < p->n_sets && status == DN_OK; k++) {
        dn_snps snps;
        status = dn_bim_read(p->sets[k].bim, &snps, err);
        if (status != DN_OK) break;
        CHECK(snps.id.n == p->sets[k].n_snps && snps.chrom.n == snps.id.n && snps.a2.n == snps.id.n);
        dn_snps_free(&snps);
    }
    uint64_t n = p->people.iid.n < 256 ? p->people.iid.n : 256;
    for (uint64_t j = 0; j < p->n_snps && status == DN_OK; j++)
        status = dn_plink_read_snp(p, j, 0, n, buf, err);
    dn_plink_close(p);
    return status;
}

static size_t load_file(const char *name, char *buf, size_t cap)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    if (!f) exit(1);
    size_t n = fread(buf, 1, cap, f);
    fclose(f);
    return n;
}

/* One random change: a byte, a cut, an insertion of something awkward, a doubled piece. Returns the new
 * length. */
static size_t damage(char *p, size_t n, unsigned long long *seed)
{
    static const char awkward[] = "\n\r \t\0#\xff"
                                  "e.-@9";
    size_t at = n ? check_rand(seed) % n : 0, len;
    switch (check_rand(seed) % 5) {
    case 0:
        if (n) p[at] = (char)check_rand(seed);
        return n;
    case 1: return at;
    case 2:
        memmove(p + at + 1, p + at, n - at);
        p[at] = awkward[check_rand(seed) % (sizeof awkward - 1)];
        return n + 1;
    case 3:
        len = check_rand(seed) % (n - at + 1);
        memmove(p + at, p + at + len, n - at - len);
        return n - len;
    default:
        len = check_rand(seed) % (n - at + 1);
        memmove(p + at + len, p + at, n - at);
        return n + len;
    }
}

static void mutations(void)
{
    static const char *const names[] = {"m.bed", "m.bim", "m.fam"};
    static char good[3][4096], bad[3 * 4096];
    size_t size[3], refused = 0, read = 0, unclear = 0;
    unsigned long long seed = 99;
    write_set("m", 0, 9, 7, true);
    for (int k = 0; k < 3; k++) size[k] = load_file(names[k], good[k], sizeof good[k]);
    for (int round = 0; round < 4000; round++) {
        int k = (int)(check_rand(&seed) % 3);
        memcpy(bad, good[k], size[k]);
        size_t n = damage(bad, size[k], &seed);
        put(names[k], bad, n);
        dn_err err = {0};
        dn_status status = read_everything("m", &err);
        if (status == DN_OK)
            read++;
        else
            refused++;
        bool clear =
            status == DN_OK || ((status == DN_EFORMAT || status == DN_EMISMATCH) && strstr(err.msg, "/m."));
        if (!clear) unclear++, fprintf(stderr, "round %d: %d %s\n", round, (int)status, err.msg);
        put(names[k], good[k], size[k]);
    }
    CHECK(unclear == 0);
    CHECK_MSG(refused > 1500 && read > 200, "%zu refused, %zu read", refused, read);
}

int main(void)
{
    if (!mkdtemp(dir)) return 1;
    reading(true);
    reading(false);
    large_sample_major();
    prefixes();
    lists();
    mutations();
    char cmd[64];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    CHECK(system(cmd) == 0);
    return check_done();
}
