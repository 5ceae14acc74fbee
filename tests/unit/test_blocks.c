/* .bed rows to packed rows of people: the same whatever the memory, threads, order of SNPs and layout of the
 * .bed; counts of alleles; errors on the way. */
#include "check.h"

#include <unistd.h>

#include "blocks.h"
#include "geno.h"
#include "gpk.h"

enum { N = 1203, M = 2500, SETS = 2 }; /* two blocks with a spare, two chunks; N mod 4 = 3 */

static dn_err err;
static char folder[] = "/tmp/dnpipe_blocks_XXXXXX";
static uint8_t truth[M][N]; /* PLINK codes */
static const unsigned dosage[4] = {2, 3, 1, 0};

static void path_of(char *path, size_t size, int set, const char *suffix)
{
    snprintf(path, size, "%s/s%d.%s", folder, set, suffix);
}

/* Writes SNPs [from, to) as set `set`. */
static void write_set(int set, int from, int to, int major)
{
    char path[256];
    path_of(path, sizeof path, set, "bim");
    FILE *f = fopen(path, "w");
    for (int j = from; j < to; j++) fprintf(f, "1\trs%d\t0\t%d\tA\tG\n", j, j + 1);
    fclose(f);
    path_of(path, sizeof path, set, "fam");
    f = fopen(path, "w");
    for (int i = 0; i < N; i++) fprintf(f, "F%d I%d 0 0 0 -9\n", i, i);
    fclose(f);
    path_of(path, sizeof path, set, "bed");
    f = fopen(path, "wb");
    fputc(0x6c, f), fputc(0x1b, f), fputc(major, f);
    int rows = major ? to - from : N, cols = major ? N : to - from;
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < cols; c += 4) {
            unsigned byte = 0;
            for (int k = 0; k < 4; k++) {
                int j = major ? from + r : from + c + k, i = major ? c + k : r;
                unsigned code = c + k < cols ? truth[j][i] : (unsigned)(r & 3); /* dirt in the padding */
                byte |= code << 2 * k;
            }
            fputc((int)byte, f);
        }
    }
    fclose(f);
}

static dn_plink *open_cohort(int major0, int major1)
{
    dn_plink *p;
    dn_strs prefixes = {0};
    char prefix[256];
    write_set(0, 0, 1001, major0);
    write_set(1, 1001, M, major1);
    for (int s = 0; s < SETS; s++) {
        int len = snprintf(prefix, sizeof prefix, "%s/s%d", folder, s);
        CHECK_OK(dn_strs_add(&prefixes, prefix, (size_t)len, &err), &err);
    }
    CHECK_OK(dn_plink_open(&p, &prefixes, &err), &err);
    dn_strs_free(&prefixes);
    return p;
}

typedef struct {
    const dn_blocks *b;
    uint64_t n, at, calls; /* rows seen; the person that follows; calls of take() */
    uint64_t bad, fail_at;
} taker;

/* Compares rows as they come with the truth. */
static dn_status take(void *ctx, const uint8_t *rows, uint64_t n, dn_err *e)
{
    taker *t = ctx;
    const dn_blocks *b = t->b;
    uint64_t row_bytes = dn_gpk_row_bytes(b->n_cols);
    if (++t->calls == t->fail_at) return dn_fail(e, DN_EWRITE, "full");
    for (uint64_t r = 0; r < n; r++, rows += row_bytes) {
        while (b->keep && !b->keep[t->at]) t->at++;
        for (uint64_t c = 0; c < row_bytes * 4; c++) {
            unsigned want = 3;
            if (c < b->n_cols && b->snp[c] != DN_NO_SNP) {
                want = dosage[truth[b->snp[c]][t->at]];
                if (want < 3 && b->map[c]) want = 2 - want;
            }
            t->bad += dn_geno_get(rows, c) != want;
        }
        t->at++;
        t->n++;
    }
    return DN_OK;
}

static uint64_t wanted(const uint8_t *keep)
{
    uint64_t n = 0;
    for (int i = 0; i < N; i++) n += !keep || keep[i];
    return n;
}

static void check_counts(const dn_blocks *b, const char *what)
{
    uint64_t bad = 0;
    for (uint64_t c = 0; c < b->n_cols; c++) {
        uint64_t a1 = 0, called = 0;
        for (int i = 0; b->snp[c] != DN_NO_SNP && i < N; i++) {
            unsigned g = dosage[truth[b->snp[c]][i]];
            if ((!b->keep || b->keep[i]) && g < 3) a1 += g, called++;
        }
        bad += b->a1[c] != a1 || b->called[c] != called;
    }
    CHECK_MSG(bad == 0, "%s: %llu columns", what, (unsigned long long)bad);
}

/* One case with the least memory that works, with some, and with plenty. */
static void run_case(dn_plink *p, const uint64_t *snp, const uint8_t *map, uint64_t n_cols,
                     const uint8_t *keep, dn_pool *pool, const char *what)
{
    uint64_t least = 1024;
    static uint64_t a1[M + 50], called[M + 50];
    for (int step = 0; step < 4;) {
        uint64_t memory = step == 0   ? least
                          : step == 1 ? least * 2
                          : step == 2 ? least * 20
                                      : (uint64_t)1 << 30;
        dn_blocks b = {.cohort = p,
                       .n_cols = n_cols,
                       .snp = snp,
                       .map = map,
                       .keep = keep,
                       .memory = memory,
                       .pool = pool,
                       .a1 = a1,
                       .called = called,
                       .rows = take};
        taker t = {.b = &b};
        b.ctx = &t;
        memset(a1, 0, sizeof a1);
        memset(called, 0, sizeof called);
        dn_status st = dn_blocks_run(&b, &err);
        if (st == DN_ENOMEM && step == 0 && least < (uint64_t)1 << 30) {
            least += least / 2;
            CHECK(t.calls == 0);
            continue;
        }
        CHECK_MSG(st == DN_OK && t.n == wanted(keep) && t.bad == 0,
                  "%s, memory %llu: %d %s, %llu rows, %llu wrong calls", what, (unsigned long long)memory,
                  (int)st, err.msg, (unsigned long long)t.n, (unsigned long long)t.bad);
        if (step == 0 && !keep) CHECK_MSG(t.calls > 1, "%s: %llu blocks", what, (unsigned long long)t.calls);
        check_counts(&b, what);
        b.rows = NULL; /* counting alone */
        memset(a1, 0, sizeof a1);
        memset(called, 0, sizeof called);
        CHECK_OK(dn_blocks_run(&b, &err), &err);
        check_counts(&b, "counting alone");
        step++;
    }
}

static void everything(void)
{
    unsigned long long seed = 77;
    static uint64_t in_order[M], shuffled[M], some[M];
    static uint8_t map[M], many[N], few[N], one[N];
    uint64_t n_some = 0;
    for (uint64_t j = 0; j < M; j++) {
        in_order[j] = shuffled[j] = j;
        map[j] = check_rand(&seed) % 2;
        if (j % 3) some[n_some++] = j % 7 ? j : DN_NO_SNP;
    }
    for (uint64_t j = M - 1; j > 0; j--) {
        uint64_t k = check_rand(&seed) % (j + 1), t = shuffled[j];
        shuffled[j] = shuffled[k], shuffled[k] = t;
    }
    for (int i = 0; i < N; i++) {
        many[i] = i > 1 && i < N - 2 && check_rand(&seed) % 3 > 0;
        few[i] = i == 5 || i == 6 || i == N - 1;
        one[i] = i == 1001;
    }
    for (int layout = 0; layout < 3; layout++) {
        dn_plink *p = open_cohort(layout != 1, layout == 0);
        for (size_t threads = 1; threads <= 3; threads += 2) {
            dn_pool *pool;
            CHECK_OK(dn_pool_new(&pool, threads, &err), &err);
            run_case(p, in_order, map, M, NULL, pool, "all in order");
            run_case(p, shuffled, map, M, many, pool, "shuffled, many people");
            run_case(p, some, map, n_some, few, pool, "some SNPs, few people");
            run_case(p, in_order, map, 1, one, pool, "one of each");
            dn_pool_free(pool);
        }
        for (int s = 0; s < SETS; s++) CHECK(p->sets[s].padding_dirty);
        dn_plink_close(p);
    }
}

static void errors(void)
{
    dn_plink *p = open_cohort(1, 1);
    dn_pool *pool;
    uint64_t snp[M];
    uint8_t map[M] = {0}, nobody[N] = {0};
    char path[256];
    for (uint64_t j = 0; j < M; j++) snp[j] = j;
    CHECK_OK(dn_pool_new(&pool, 2, &err), &err);
    dn_blocks b = {
        .cohort = p, .n_cols = M, .snp = snp, .map = map, .memory = 1 << 20, .pool = pool, .rows = take};
    for (uint64_t at = 1; at < 4; at++) {
        taker t = {.b = &b, .fail_at = at};
        b.ctx = &t;
        CHECK(dn_blocks_run(&b, &err) == DN_EWRITE && strcmp(err.msg, "full") == 0 && t.calls == at);
    }
    b.memory = (uint64_t)1 << 30; /* the spare buffer: the first block fails while the second is made */
    taker u = {.b = &b, .fail_at = 1};
    b.ctx = &u;
    CHECK(dn_blocks_run(&b, &err) == DN_EWRITE && u.calls == 1);
    b.keep = nobody;
    taker v = {.b = &b};
    b.ctx = &v;
    CHECK(dn_blocks_run(&b, &err) == DN_OK && v.calls == 0);
    b.keep = NULL;
    /* Cut while it is open. */
    path_of(path, sizeof path, 1, "bed");
    CHECK(truncate(path, 3 + 300 * 100) == 0);
    taker w = {.b = &b};
    b.ctx = &w;
    dn_status st = dn_blocks_run(&b, &err);
    CHECK_MSG((st == DN_EFORMAT || st == DN_EOPEN) && strstr(err.msg, "s1.bed"), "%d %s", (int)st, err.msg);
    dn_plink_close(p);
    dn_pool_free(pool);
}

/* Against counting one by one, at every length and with masks. */
static void counts(void)
{
    unsigned long long seed = 5;
    uint8_t row[40], mask[40];
    for (uint64_t n = 0; n <= 150; n++) {
        for (size_t k = 0; k < sizeof row; k++) row[k] = (uint8_t)check_rand(&seed);
        memset(mask, 0, sizeof mask);
        uint64_t want[2][2] = {{0}}, got[2][2] = {{0}};
        for (uint64_t i = 0; i < n; i++) {
            unsigned g = dosage[dn_geno_get(row, i)];
            bool in = check_rand(&seed) % 2;
            if (in) mask[i / 4] |= (uint8_t)(3u << i % 4 * 2);
            if (g == 3) continue;
            want[0][0] += g, want[0][1]++;
            if (in) want[1][0] += g, want[1][1]++;
        }
        dn_bed_count(row, NULL, n, &got[0][0], &got[0][1]);
        dn_bed_count(row, mask, n, &got[1][0], &got[1][1]);
        CHECK_MSG(memcmp(want, got, sizeof want) == 0, "n = %llu", (unsigned long long)n);
    }
}

int main(void)
{
    unsigned long long seed = 3;
    char path[256];
    if (!mkdtemp(folder)) return 1;
    for (int j = 0; j < M; j++) {
        for (int i = 0; i < N; i++) truth[j][i] = (uint8_t)(check_rand(&seed) >> 20 & 3);
    }
    counts();
    everything();
    errors();
    for (int s = 0; s < SETS; s++) {
        static const char *const suffix[] = {"bed", "bim", "fam"};
        for (int k = 0; k < 3; k++) {
            path_of(path, sizeof path, s, suffix[k]);
            unlink(path);
        }
    }
    rmdir(folder);
    return check_done();
}
