/* Counts against the plain version at all tile offsets, sizes and class shapes; statistics and embedding
 * against the formulas. */
#include "check.h"
#include "geno.h"
#include "stats.h"

#include <time.h>

static unsigned long long seed = 7;

typedef struct {
    uint64_t m, n, c, stride;
    uint8_t *data;
    const uint8_t **rows;
    int64_t *label;
} set;

static set make(uint64_t m, uint64_t n, uint64_t c, unsigned shift)
{
    set s = {m, n, c, (m + 3) / 4 + 1 + shift, NULL, NULL, NULL};
    s.data = malloc(s.stride * n + 8);
    s.rows = malloc(n * sizeof *s.rows + 8);
    s.label = malloc(n * sizeof *s.label + 8);
    for (uint64_t i = 0; i < s.stride * n; i++) s.data[i] = (uint8_t)check_rand(&seed);
    for (uint64_t i = 0; i < n; i++) {
        s.rows[i] = s.data + i * s.stride + (i * 7 + shift) % (shift + 2); /* any alignment */
        s.label[i] = (int64_t)(check_rand(&seed) % c);
    }
    return s;
}

static void drop(set *s)
{
    free(s->data);
    free((void *)s->rows);
    free(s->label);
}

static void check_counts(uint64_t m, uint64_t n, uint64_t c, unsigned shift, dn_pool *pool)
{
    dn_err err;
    set s = make(m, n, c, shift);
    uint32_t *a = malloc(m * c * 3 * 4 + 4), *b = malloc(m * c * 3 * 4 + 4);
    for (uint64_t i = 0; i <= m * c * 3; i++)
        a[i] = b[i] = (uint32_t)i; /* adds to what is there; one item of guard */
    CHECK_OK(dn_counts_add(a, m, c, s.rows, s.label, n, pool, &err), &err);
    dn_counts_add_ref(b, m, c, s.rows, s.label, n);
    CHECK_MSG(memcmp(a, b, m * c * 3 * 4 + 4) == 0, "M %llu N %llu C %llu", (unsigned long long)m,
              (unsigned long long)n, (unsigned long long)c);
    free(a);
    free(b);
    drop(&s);
}

static void check_all_shapes(void)
{
    dn_err err;
    size_t threads[] = {1, 2, 7};
    for (int t = 0; t < 3; t++) {
        dn_pool *pool;
        CHECK_OK(dn_pool_new(&pool, threads[t], &err), &err);
        for (uint64_t m = 1; m <= 40; m++) check_counts(m, 5, 2, (unsigned)m % 3, pool);
        uint64_t ms[] = {1023, 1024, 1025, 2047, 2048, 2049, 3001},
                 ns[] = {1, 2, 3, 4, 15, 16, 17, 254, 255, 256, 300, 600};
        for (int i = 0; i < 7; i++) {
            for (int k = 0; k < 12; k++)
                check_counts(ms[i], ns[k], k % 3 == 0 ? 1 : k % 3 == 1 ? 3 : 24, (unsigned)k % 5, pool);
        }
        check_counts(10, 0, 3, 0, pool);
        dn_pool_free(pool);
    }
}

static void check_bad_label(void)
{
    dn_err err;
    dn_pool *pool;
    CHECK_OK(dn_pool_new(&pool, 1, &err), &err);
    uint32_t counts[12] = {0};
    uint8_t row[1] = {0};
    const uint8_t *rows[] = {row};
    int64_t label = 2;
    CHECK(dn_counts_add(counts, 2, 2, rows, &label, 1, pool, &err) == DN_EINTERNAL);
    label = -1;
    CHECK(dn_counts_add(counts, 2, 2, rows, &label, 1, pool, &err) == DN_EINTERNAL);
    dn_pool_free(pool);
}

static void check_stats(void)
{
    /* SNP 0: 0 1 2 . ; SNP 1: no call; SNP 2: all het; SNP 3: one call; SNP 4: 0 0 2 2 */
    const char *calls[4] = {"0.1.0", "1.1.0", "2.112", "..1.2"};
    uint8_t rows_[4][2];
    const uint8_t *rows[4];
    for (int i = 0; i < 4; i++) {
        rows_[i][0] = rows_[i][1] = 0xff;
        for (int j = 0; j < 5; j++) {
            unsigned g = calls[i][j] == '.' ? 3u : (unsigned)(calls[i][j] - '0');
            rows_[i][j / 4] = (uint8_t)((rows_[i][j / 4] & ~(3u << (j % 4 * 2))) | g << (j % 4 * 2));
        }
        rows[i] = rows_[i];
    }
    int64_t label[4] = {0, 1, 0, 1};
    uint32_t counts[5 * 2 * 3] = {0};
    dn_counts_add_ref(counts, 5, 2, rows, label, 4);
    double mean[5], sd[5], emb[30];
    uint64_t flat, empty, size[2] = {2, 2};
    dn_stats(counts, 5, 2, mean, sd, &flat, &empty);
    CHECK(mean[0] == 1.0 && fabs(sd[0] - 1.000001) < 1e-15);
    CHECK(mean[1] == 0.0 && sd[1] == 1e-6);
    CHECK(mean[2] == 1.0 && sd[2] == 1e-6);
    CHECK(mean[3] == 1.0 && sd[3] == 1e-6);
    CHECK(mean[4] == 1.0 && fabs(sd[4] - sqrt(4.0 / 3) - 1e-6) < 1e-15);
    CHECK(flat == 3 && empty == 1);
    dn_embedding(counts, 5, 2, size, emb);
    CHECK(emb[0] == 0.5 && emb[1] == 0 && emb[2] == 0.5 && emb[3] == 0 && emb[4] == 0.5 && emb[5] == 0);
    CHECK(emb[2 * 6 + 1] == 1.0 && emb[2 * 6 + 4] == 1.0);
    size[1] = 0;
    dn_embedding(counts, 5, 2, size, emb);
    CHECK(emb[3] == 0 && emb[4] == 0);
    float e[30];
    dn_embedding_normalise(emb, 5, 6, e);
    for (int k = 0; k < 6; k++) {
        double ss = 0, se = 0;
        for (int j = 0; j < 5; j++) ss += (double)e[j * 6 + k] * e[j * 6 + k], se += emb[j * 6 + k];
        CHECK(se == 0 ? ss == 0 : fabs(ss - 1) < 1e-6);
    }
    /* 70 features: more than one block of columns. */
    double big[3 * 70];
    float out[3 * 70];
    for (int i = 0; i < 210; i++) big[i] = (double)(check_rand(&seed) % 100);
    dn_embedding_normalise(big, 3, 70, out);
    for (int k = 0; k < 70; k++) {
        double s = sqrt(big[k] * big[k] + big[70 + k] * big[70 + k] + big[140 + k] * big[140 + k]);
        CHECK(s == 0 || out[70 + k] == (float)(big[70 + k] / s));
    }
}

/* Prints packed GB/s on one core: not checked, machines differ. DN_BENCH=1 runs it. */
static void rate(void)
{
    dn_err err;
    dn_pool *pool;
    CHECK_OK(dn_pool_new(&pool, 1, &err), &err);
    set s = make(229986, 1502, 24, 0);
    uint32_t *counts = calloc(s.m * s.c * 3, 4);
    for (int rep = 0; rep < 6; rep++) {
        struct timespec a, b;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
        CHECK_OK(dn_counts_add(counts, s.m, s.c, s.rows, s.label, s.n, pool, &err), &err);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
        double t = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
        fprintf(stderr, "counts: %.2f GB/s of packed bytes on one core (%.3f s)\n",
                (double)(s.m / 4 * s.n) / t / 1e9, t);
    }
    free(counts);
    drop(&s);
    dn_pool_free(pool);
}

int main(void)
{
    check_all_shapes();
    check_bad_label();
    check_stats();
    if (getenv("DN_BENCH")) rate();
    return check_done();
}
