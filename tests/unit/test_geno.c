/* The genotype kernels of every instruction set of this CPU against their plain twins, at all small sizes and
 * offsets, between guard bytes; and the rates, printed when DN_BENCH is set. */
#include "check.h"

#include <time.h>

#include "geno_impl.h"

enum { GUARD = 0xA7, PAD = 64 };

/* Bytes of random codes. */
static void fill(uint8_t *p, size_t n, unsigned long long *seed)
{
    for (size_t i = 0; i < n; i++) p[i] = (uint8_t)(check_rand(seed) >> 32);
}

static size_t guards_broken(const uint8_t *p, size_t n)
{
    size_t bad = 0;
    for (size_t i = 0; i < n; i++) bad += p[i] != GUARD;
    return bad;
}

/* ---- transposition ---- */

/* One size. Source rows are heap blocks of exactly ceil(n_people / 4) bytes (so that sanitizers see a read
 * past them) at an odd address; everything around the written bytes must stay as it was. */
static void transpose_case(const dn_geno_ops *ops, uint64_t n_people, uint64_t n_snps,
                           unsigned long long *seed)
{
    enum { MAX_SNPS = 2200 };
    static uint8_t *block[MAX_SNPS], map[MAX_SNPS];
    static const uint8_t *src[MAX_SNPS];
    uint64_t bytes = dn_geno_bytes(n_people), dst_snp = check_rand(seed) % 5 * 4;
    uint64_t stride = dst_snp / 4 + dn_geno_bytes(n_snps) + check_rand(seed) % 9, odd = check_rand(seed) % 4;
    size_t size = PAD + n_people * stride + PAD;
    for (uint64_t j = 0; j < n_snps; j++) {
        bool absent = check_rand(seed) % 7 == 0;
        block[j] = malloc(bytes + odd);
        fill(block[j], bytes + odd, seed);
        src[j] = absent ? NULL : block[j] + odd;
        map[j] = check_rand(seed) % 2 ? DN_GENO_SWAP : DN_GENO_SAME;
    }
    uint8_t *got = malloc(size), *want = malloc(size);
    memset(got, GUARD, size);
    memset(want, GUARD, size);
    dn_geno_transpose_ref(src, map, n_snps, n_people, want + PAD, stride, dst_snp);
    dn_geno_transpose_with(ops, src, map, n_snps, n_people, got + PAD, stride, dst_snp);
    bool same = memcmp(got, want, size) == 0;
    if (!same || n_snps % 16 == 0)
        CHECK_MSG(same, "%llu people, %llu SNPs", (unsigned long long)n_people, (unsigned long long)n_snps);
    for (uint64_t j = 0; j < n_snps; j++) free(block[j]);
    free(got);
    free(want);
}

/* The plain twin itself, by hand: field report IP06 (01 is missing, 10 is het) and both maps. */
static void transpose_by_hand(void)
{
    const uint8_t snp0[] = {0x1B}, snp1[] = {0xE4}; /* people 0..3: 11 10 01 00 and 00 01 10 11 */
    const uint8_t *src[] = {snp0, snp1, NULL, snp0, snp1};
    const uint8_t map[] = {DN_GENO_SAME, DN_GENO_SAME, DN_GENO_SAME, DN_GENO_SWAP, DN_GENO_SWAP};
    static const uint8_t want[4][5] = {{0, 2, 3, 2, 0}, {1, 3, 3, 1, 3}, {3, 1, 3, 3, 1}, {2, 0, 3, 0, 2}};
    uint8_t dst[4][2];
    dn_geno_transpose_ref(src, map, 5, 4, dst[0], 2, 0);
    for (int i = 0; i < 4; i++) {
        for (unsigned j = 0; j < 8; j++) CHECK(dn_geno_get(dst[i], j) == (j < 5 ? want[i][j] : 3));
    }
}

static void transpose_all(const dn_geno_ops *ops)
{
    unsigned long long seed = 20240611;
    for (uint64_t n_people = 1; n_people <= 200; n_people++) {
        for (uint64_t n_snps = 1; n_snps <= 70; n_snps++) transpose_case(ops, n_people, n_snps, &seed);
    }
    static const uint64_t people[] = {255, 256, 257, 511, 513, 1025},
                          snps[] = {128, 1023, 1024, 1025, 1088, 2112};
    for (size_t i = 0; i < 6; i++) {
        for (size_t j = 0; j < 6; j++) transpose_case(ops, people[i], snps[j], &seed);
    }
}

/* ---- rows ---- */

static void rows(const dn_geno_ops *ops)
{
    enum { MAX = 700 };
    unsigned long long seed = 7;
    static uint8_t row[MAX + 8];
    int8_t got[MAX + 2 * PAD], want[MAX + 2 * PAD];
    size_t bad_unpack = 0, bad_pack = 0, bad_count = 0;
    fill(row, sizeof row, &seed);
    for (uint64_t n = 0; n <= MAX; n += n < 150 ? 1 : 11) {
        for (uint64_t first = 0; first < 9; first++) {
            unsigned shift = (unsigned)(check_rand(&seed) % 8);
            memset(got, GUARD, sizeof got);
            memset(want, GUARD, sizeof want);
            dn_geno_unpack_with(ops, row, first, n, got + PAD + shift);
            dn_geno_unpack_ref(row, first, n, want + PAD + shift);
            bad_unpack += memcmp(got, want, sizeof got) != 0;
            /* What was unpacked packs back. */
            uint8_t back[MAX / 4 + 2 * PAD], back_ref[MAX / 4 + 2 * PAD];
            memset(back, GUARD, sizeof back);
            memset(back_ref, GUARD, sizeof back_ref);
            uint64_t r1 = dn_geno_pack_with(ops, got + PAD + shift, n, back + PAD - shift);
            uint64_t r2 = dn_geno_pack_ref(got + PAD + shift, n, back_ref + PAD - shift);
            bad_pack += r1 != n || r2 != n || memcmp(back, back_ref, sizeof back) != 0;
            for (uint64_t i = 0; i < n; i++)
                bad_pack += dn_geno_get(back + PAD - shift, i) != dn_geno_get(row, first + i);
            bad_count += guards_broken(back, PAD - shift) != 0;
        }
        bad_count += dn_geno_count_missing_with(ops, row, n) != dn_geno_count_missing_ref(row, n);
        bad_count += dn_geno_count_missing_with(ops, row + 1, n) != dn_geno_count_missing_ref(row + 1, n);
    }
    CHECK_MSG(bad_unpack == 0, "%zu cases", bad_unpack);
    CHECK_MSG(bad_pack == 0, "%zu cases", bad_pack);
    CHECK_MSG(bad_count == 0, "%zu cases", bad_count);
    uint8_t all[512];
    memset(all, 0xFF, sizeof all);
    CHECK(dn_geno_count_missing_with(ops, all, 2048) == 2048 &&
          dn_geno_count_missing_with(ops, all, 2045) == 2045);
}

/* Every value outside -1..2, at every place of a row, is found, and the first of two. */
static void bad_calls(const dn_geno_ops *ops)
{
    enum { N = 9001 };
    static int8_t calls[N];
    static uint8_t row[N / 4 + 1];
    size_t wrong = 0;
    unsigned long long seed = 3;
    for (uint64_t i = 0; i < N; i++) calls[i] = (int8_t)(check_rand(&seed) % 4) - 1;
    for (int v = -128; v < 128; v++) {
        if (v >= -1 && v <= 2) continue;
        uint64_t at = check_rand(&seed) % N, later = at + check_rand(&seed) % (N - at);
        int8_t keep = calls[at], keep2 = calls[later];
        calls[at] = calls[later] = (int8_t)v;
        wrong += dn_geno_pack_with(ops, calls, N, row) != at;
        calls[at] = keep;
        if (later != at) wrong += dn_geno_pack_with(ops, calls, N, row) != later;
        calls[later] = keep2;
    }
    for (uint64_t at = 0; at < 300; at++) {
        int8_t keep = calls[at];
        calls[at] = 3;
        wrong += dn_geno_pack_with(ops, calls, 300, row) != at || dn_geno_pack_ref(calls, 300, row) != at;
        calls[at] = keep;
    }
    wrong += dn_geno_pack_with(ops, calls, N, row) != N;
    CHECK_MSG(wrong == 0, "%zu cases", wrong);
}

/* ---- rates ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* others may share the machine */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* GB/s, best of several runs: packed bytes for transpose and count, int8 bytes for pack and unpack. Two
 * transpositions: a block that stays in cache, and 2,048 people x 65,536 SNPs (33.5 MB in and out), the shape
 * of snpmatch's work. */
static void bench(const char *name, const dn_geno_ops *ops)
{
    enum { N = 1 << 20, SNPS = 65536, PEOPLE = 2048 };
    int8_t *calls = malloc(N);
    uint8_t *row = malloc(N / 4), *src = malloc((size_t)SNPS * PEOPLE / 4),
            *dst = aligned_alloc(64, (size_t)SNPS * PEOPLE / 4 + 64 * PEOPLE);
    const uint8_t **rows_of = malloc(SNPS * sizeof *rows_of);
    uint8_t *map = calloc(SNPS, 1);
    unsigned long long seed = 1;
    double best[5] = {0};
    fill(row, N / 4, &seed);
    memset(src, 0x1B, (size_t)SNPS * PEOPLE / 4);
    memset(dst, 0, (size_t)SNPS * PEOPLE / 4 + 64 * PEOPLE);
    for (uint64_t j = 0; j < SNPS; j++) rows_of[j] = src + j * (PEOPLE / 4), map[j] = j % 3 == 0;
    volatile uint64_t sink = 0;
    for (int rep = 0; rep < 7; rep++) {
        double t[6];
        t[0] = now();
        for (int k = 0; k < 40; k++) dn_geno_transpose_with(ops, rows_of, map, 1024, 512, dst, 320, 0);
        t[1] = now();
        dn_geno_transpose_with(ops, rows_of, map, SNPS, PEOPLE, dst, SNPS / 4 + 64, 0);
        t[2] = now();
        for (int k = 0; k < 4; k++) dn_geno_unpack_with(ops, row, 0, N, calls);
        t[3] = now();
        for (int k = 0; k < 4; k++) sink += dn_geno_pack_with(ops, calls, N, row);
        t[4] = now();
        for (int k = 0; k < 4; k++) sink += dn_geno_count_missing_with(ops, row, N);
        t[5] = now();
        const double bytes[5] = {40 * 1024.0 * 512 / 4, (double)SNPS * PEOPLE / 4, 4.0 * N, 4.0 * N,
                                 4.0 * N / 4};
        for (int k = 0; k < 5; k++) best[k] = fmax(best[k], bytes[k] / (t[k + 1] - t[k]) * 1e-9);
    }
    printf("%-8s transpose %.1f GB/s in cache, %.1f over 33 MB; unpack %.1f, pack %.1f GB/s of int8; count "
           "missing %.1f GB/s\n",
           name, best[0], best[1], best[2], best[3], best[4]);
    free(calls);
    free(row);
    free(src);
    free(dst);
    free(rows_of);
    free(map);
}

int main(void)
{
    transpose_by_hand();
    for (dn_isa isa = DN_ISA_PORTABLE; isa <= dn_isa_get(); isa++) {
        const dn_geno_ops *ops = dn_geno_ops_of(isa);
        transpose_all(ops);
        rows(ops);
        bad_calls(ops);
        if (getenv("DN_BENCH")) bench(dn_isa_name(isa), ops);
    }
    dn_err err = {0};
    CHECK(strcmp(dn_isa_name(DN_ISA_AVX2), "avx2") == 0);
    setenv("DN_ISA", "avx9000", 1);
    CHECK(dn_isa_check(&err) == DN_EUSAGE && strstr(err.msg, "avx9000"));
    setenv("DN_ISA", "portable", 1);
    CHECK(dn_isa_check(&err) == DN_OK);
    return check_done();
}
