/* fatbench.c: speed of the table kernel, per instruction set, beside this machine's sgemm on already decoded
 * floats. Usage: fatbench [PEOPLE [SNPS [MEMBERS [UNITS [THREADS [MISSING_PER_MILLE]]]]]] Prints one line per
 * measurement: what, seconds, G multiply-add equivalents per second and thread. */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fat.h"
#include "opt.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* others may use the machine too */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t next(uint64_t *s)
{
    *s ^= *s >> 12, *s ^= *s << 25, *s ^= *s >> 27;
    return *s * 0x2545F4914F6CDD1DULL;
}

static uint64_t arg(int argc, char **argv, int i, uint64_t otherwise)
{
    uint64_t v = otherwise;
    if (i < argc && !dn_parse_u64(argv[i], &v)) {
        fprintf(stderr, "fatbench: \"%s\" is not a number\n", argv[i]);
        exit(2);
    }
    return v;
}

static void check(dn_status status, const dn_err *err)
{
    if (status == DN_OK) return;
    fprintf(stderr, "fatbench: %s\n", err->msg);
    exit((int)status);
}

int main(int argc, char **argv)
{
    dn_err err = {0};
    uint64_t n_people = arg(argc, argv, 1, 2048), n_snps = arg(argc, argv, 2, 20480),
             n_members = arg(argc, argv, 3, 15);
    uint64_t units = arg(argc, argv, 4, 100), threads = arg(argc, argv, 5, 1),
             missing = arg(argc, argv, 6, 10);
    uint64_t s = 88172645463325252ull, row_bytes = (n_snps + 255) / 256 * 64, n_out = units * n_members;
    float *w = NULL, *z = NULL, *x = NULL;
    double *mean = NULL, *sd = NULL;
    uint8_t *rows = NULL;
    dn_fat_member *members = NULL;
    dn_pool *pool = NULL;
    check(dn_alloc_aligned(&w, n_snps * n_out, sizeof *w, "weights", &err), &err);
    check(dn_alloc(&mean, n_snps, sizeof *mean, "mean", &err), &err);
    check(dn_alloc(&sd, n_snps, sizeof *sd, "sd", &err), &err);
    check(dn_alloc_aligned(&rows, n_people, row_bytes, "rows", &err), &err);
    check(dn_alloc_aligned(&z, n_people * n_out, sizeof *z, "sums", &err), &err);
    check(dn_alloc(&members, n_members, sizeof *members, "members", &err), &err);
    check(dn_pool_new(&pool, threads, &err), &err);
    for (uint64_t i = 0; i < n_snps * n_out; i++)
        w[i] = (float)((double)(next(&s) >> 40) * 0x1p-24 - 0.5) * 0.05f;
    memset(rows, 0xff, n_people * row_bytes);
    for (uint64_t j = 0; j < n_snps; j++) {
        double f = 0.05 + 0.45 * (double)(next(&s) >> 40) * 0x1p-24;
        mean[j] = 2 * f;
        sd[j] = sqrt(2 * f * (1 - f)) + 1e-6;
        for (uint64_t i = 0; i < n_people; i++) {
            uint64_t r = next(&s);
            unsigned g = ((double)(r & 0xffff) < f * 65536) + ((double)(r >> 16 & 0xffff) < f * 65536);
            if ((r >> 32) % 1000 < missing) g = 3;
            uint8_t *b = &rows[i * row_bytes + j / 4];
            *b = (uint8_t)((*b & ~(3u << j % 4 * 2)) | g << j % 4 * 2);
        }
    }
    for (uint64_t m = 0; m < n_members; m++)
        members[m] = (dn_fat_member){w + m * n_snps * units, units, mean, sd};
    dn_fat_problem p = {.n_cols = n_snps, .scale = 1, .n_members = n_members, .members = members};
    double work = (double)n_people * (double)n_snps * (double)n_out;
    for (int isa = 0; isa <= (int)dn_isa_get(); isa++) {
        double best = 1e9;
        for (int rep = 0; rep < 3; rep++) {
            double t = now();
            check(dn_fat_forward_isa(&p, rows, row_bytes, n_people, z, pool, (dn_isa)isa, &err), &err);
            t = now() - t;
            if (t < best) best = t;
        }
        printf("table kernel, %-8s %8.3f s %7.1f G/s per core\n", dn_isa_name((dn_isa)isa), best,
               work / best / 1e9);
    }
    /* sgemm of one chunk of SNPs, scaled up: same product on floats. OpenBLAS runs as many threads as it
     * likes: set OPENBLAS_NUM_THREADS to compare like with like. */
    uint64_t k = n_snps < 2048 ? n_snps : 2048;
    check(dn_alloc_aligned(&x, n_people * k, sizeof *x, "decoded block", &err), &err);
    for (uint64_t i = 0; i < n_people * k; i++) x[i] = (float)(i % 3);
    double best = 1e9;
    for (int rep = 0; rep < 3; rep++) {
        double t = now();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n_people, (int)n_out, (int)k, 1, x,
                    (int)k, w, (int)n_out, 0, z, (int)n_out);
        t = now() - t;
        if (t < best) best = t;
    }
    printf("sgemm on floats (%s) %8.3f s %7.1f G/s per core\n", openblas_get_corename(),
           best * (double)n_snps / (double)k, (double)n_people * (double)k * (double)n_out / best / 1e9);
    dn_pool_free(pool);
    free(w);
    free(z);
    free(x);
    free(mean);
    free(sd);
    free(rows);
    free(members);
    return 0;
}
