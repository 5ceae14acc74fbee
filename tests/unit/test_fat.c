/* test_fat.c: the table kernel against the plain double reference, and bit for bit against itself under every
 * thread count, cut of people and instruction set. */
#include "check.h"
#include "fat.h"

typedef struct {
    dn_fat_problem p;
    dn_fat_member *members;
    uint64_t *place, n_people, row_bytes, model_snps;
    uint8_t *rows;
    size_t offset; /* of rows in their allocation */
} problem;

static float uniform(unsigned long long *s)
{
    return (float)(check_rand(s) >> 40) / (float)(1 << 24) - 0.5f;
}

/* missing: per mille of the calls; missing > 1000: a pattern (every 4th call of every 3rd person). */
static problem make(unsigned long long seed, uint64_t n_people, uint64_t n_cols, size_t n_members,
                    const uint64_t *units, unsigned missing, bool with_place, size_t offset)
{
    unsigned long long s = seed * 2654435761u + 88172645463325252ull;
    problem q = {.n_people = n_people, .offset = offset, .model_snps = with_place ? n_cols * 2 + 5 : n_cols};
    q.members = calloc(n_members, sizeof *q.members);
    double *mean = NULL, *sd = NULL;
    for (size_t m = 0; m < n_members; m++) {
        if (m % 3 == 0) { /* three members share a fold's statistics */
            mean = malloc((q.model_snps + 1) * sizeof *mean);
            sd = malloc((q.model_snps + 1) * sizeof *sd);
            for (uint64_t i = 0; i < q.model_snps; i++) {
                mean[i] = 1 + uniform(&s);
                sd[i] = 0.6 + uniform(&s) / 2 + 1e-6;
                if (i % 37 == 5) sd[i] = 1e-6; /* no variation */
                if (i % 41 == 7) mean[i] = NAN, sd[i] = NAN;
                if (i % 43 == 9) mean[i] = 0; /* dosage 0 contributes 0, the others do not */
            }
        }
        float *w = malloc((q.model_snps * units[m] + 1) * sizeof *w);
        for (uint64_t i = 0; i < q.model_snps * units[m]; i++) w[i] = uniform(&s);
        /* A weight that is not finite must not leak through a SNP that contributes nothing. */
        if (q.model_snps > 5) w[5 * units[m]] = INFINITY;
        q.members[m] = (dn_fat_member){w, units[m], mean, sd};
    }
    if (with_place) {
        q.place = malloc((n_cols + 1) * sizeof *q.place);
        for (uint64_t c = 0; c < n_cols; c++) q.place[c] = 2 * c + c % 2 + (c > 20 ? 3 : 0);
    }
    q.row_bytes = (n_cols + 255) / 256 * 64;
    if (q.row_bytes == 0) q.row_bytes = 64;
    q.rows = (uint8_t *)malloc(n_people * q.row_bytes + 64) + offset;
    for (uint64_t i = 0; i < n_people; i++) {
        uint8_t *row = q.rows + i * q.row_bytes;
        memset(row, 0xff, q.row_bytes);
        for (uint64_t c = 0; c < n_cols; c++) {
            unsigned long long r = check_rand(&s) >> 20;
            unsigned g = (unsigned)(r % 3);
            if (missing > 1000 ? c % 4 == 1 && i % 3 == 0 : (r >> 10) % 1000 < missing) g = 3;
            row[c / 4] = (uint8_t)((row[c / 4] & ~(3u << c % 4 * 2)) | g << c % 4 * 2);
        }
    }
    q.p = (dn_fat_problem){n_cols, q.place, 1.25, n_members, q.members};
    return q;
}

static void drop(problem *q)
{
    for (size_t m = 0; m < q->p.n_members; m++) {
        free((float *)q->members[m].weight);
        if (m % 3 == 0) free((double *)q->members[m].mean), free((double *)q->members[m].sd);
    }
    free(q->members);
    free(q->place);
    free(q->rows - q->offset);
}

static uint64_t total_units(const problem *q)
{
    uint64_t n = 0;
    for (size_t m = 0; m < q->p.n_members; m++) n += q->members[m].units;
    return n;
}

/* Runs people in calls of `cut` each. */
static float *run(const problem *q, size_t threads, dn_isa isa, uint64_t cut)
{
    dn_err err = {0};
    dn_pool *pool;
    uint64_t k = total_units(q);
    float *z = malloc((q->n_people * k + 1) * sizeof *z);
    for (uint64_t i = 0; i < q->n_people * k; i++) z[i] = NAN;
    CHECK_OK(dn_pool_new(&pool, threads, &err), &err);
    for (uint64_t i = 0; i < q->n_people; i += cut) {
        uint64_t n = q->n_people - i < cut ? q->n_people - i : cut;
        CHECK_OK(dn_fat_forward_isa(&q->p, q->rows + i * q->row_bytes, q->row_bytes, n, z + i * k, pool, isa,
                                    &err),
                 &err);
    }
    dn_pool_free(pool);
    return z;
}

static void check_problem(const char *name, problem q)
{
    uint64_t k = total_units(&q), n = q.n_people * k;
    double *ref = malloc((n + 1) * sizeof *ref), worst = 0;
    dn_fat_forward_ref(&q.p, q.rows, q.row_bytes, q.n_people, ref);
    float *z = run(&q, 1, DN_ISA_PORTABLE, UINT64_MAX / 2);
    /* The error of a float sum grows with the root of its length; contributions are up to 3 in size. */
    double bound = 4e-6 * sqrt((double)q.p.n_cols + 4);
    for (uint64_t i = 0; i < n; i++) {
        double d = fabs(z[i] - ref[i]);
        if (!(d <= worst)) worst = d;
    }
    CHECK_MSG(worst <= bound, "%s: off by %g, bound %g", name, worst, bound);
    static const size_t threads[] = {1, 2, 7};
    for (int isa = 0; isa <= (int)dn_isa_get(); isa++) {
        for (size_t t = 0; t < 3; t++) {
            float *z2 = run(&q, threads[t], (dn_isa)isa, UINT64_MAX / 2);
            CHECK_MSG(memcmp(z, z2, n * sizeof *z) == 0, "%s: %s, %zu threads", name,
                      dn_isa_name((dn_isa)isa), threads[t]);
            free(z2);
        }
        float *z3 = run(&q, 2, (dn_isa)isa, 1 + q.n_people / 3);
        CHECK_MSG(memcmp(z, z3, n * sizeof *z) == 0, "%s: %s, people cut", name, dn_isa_name((dn_isa)isa));
        free(z3);
    }
    free(z);
    free(ref);
    drop(&q);
}

int main(void)
{
    static const uint64_t one[] = {1}, hundred[] = {100, 100, 100, 100, 100},
                          odd[] = {5, 1, 16, 17, 3, 33, 2}, sixteen[] = {16, 32};
    char name[128];
    /* Every length around the borders of a byte, a tile and a chunk. */
    static const uint64_t lengths[] = {1,  2,  3,   4,   5,   7,    31,   32,   33,   63,
                                       64, 65, 255, 256, 257, 2048, 4095, 4096, 4097, 8200};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        snprintf(name, sizeof name, "%d columns", (int)lengths[i]);
        check_problem(name, make(i, 5, lengths[i], 7, odd, 100, i % 2, i % 3));
    }
    static const uint64_t people[] = {1, 2, 3, 8, 255, 256, 257, 600};
    for (size_t i = 0; i < sizeof people / sizeof *people; i++) {
        snprintf(name, sizeof name, "%d people", (int)people[i]);
        check_problem(name, make(100 + i, people[i], 100, 5, hundred, 20, i % 2, 0));
    }
    check_problem("one output", make(1, 9, 500, 1, one, 20, false, 1));
    check_problem("whole tiles of outputs", make(2, 9, 500, 2, sixteen, 20, true, 5));
    check_problem("nothing missing", make(3, 300, 700, 5, hundred, 0, false, 0));
    check_problem("half missing", make(4, 300, 700, 5, hundred, 500, false, 0));
    check_problem("all missing", make(5, 30, 700, 5, hundred, 1000, false, 0));
    check_problem("missing in a pattern", make(6, 30, 700, 5, hundred, 2000, true, 3));
    check_problem("more than one sub-block", make(7, 4200, 40, 2, sixteen, 20, false, 0));

    /* All missing gives exactly 0. */
    problem q = make(8, 3, 100, 2, sixteen, 1000, false, 0);
    float *z = run(&q, 1, dn_isa_get(), 3);
    bool all_zero = true;
    for (uint64_t i = 0; i < 3 * 48; i++) all_zero &= z[i] == 0;
    CHECK(all_zero);
    free(z);
    /* What stands in the padding does not matter. */
    float *a = run(&q, 1, dn_isa_get(), 3);
    memset(q.rows + 25, 0, 39);
    float *b = run(&q, 1, dn_isa_get(), 3);
    CHECK(memcmp(a, b, 3 * 48 * sizeof *a) == 0);
    free(a);
    free(b);
    /* Rows too short for the columns are an error, not a read past them. */
    dn_err err = {0};
    dn_pool *pool;
    float out[3 * 48];
    CHECK_OK(dn_pool_new(&pool, 1, &err), &err);
    q.p.n_cols = 257;
    CHECK(dn_fat_forward(&q.p, q.rows, 64, 3, out, pool, &err) == DN_EINTERNAL);
    dn_pool_free(pool);
    q.p.n_cols = 100;
    drop(&q);

    CHECK(dn_snp_is_flat(1, 1e-6) && dn_snp_is_flat(NAN, 1) && dn_snp_is_flat(1, NAN) &&
          dn_snp_is_flat(1, INFINITY));
    CHECK(!dn_snp_is_flat(0, 1e-3) && !dn_snp_is_flat(2, 0.001));
    return check_done();
}
