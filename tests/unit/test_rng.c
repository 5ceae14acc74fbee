/* The generators against values printed by NumPy 1.24 and PyTorch 1.13 (built without MKL). */
#include "check.h"

#include "philox.h"
#include "rng.h"

/* Many draws at once against one at a time, from every place in the block, for limits near 0, 1 and a whole
 * number of 2^-53. */
static void check_bernoulli(void)
{
    const double ps[] = {0, 0x1p-53, 0x1.8p-53, 1e-9, 0.2, 0.5, 0.75, 1 - 0x1p-53, 1};
    static uint8_t keep[3001];
    for (int k = 0; k < 640; k += k < 10 || k > 615 ? 1 : 37) {
        for (size_t q = 0; q < sizeof ps / sizeof ps[0]; q++) {
            dn_rng a, b;
            uint64_t n = (uint64_t)(k * 131 + (int)q * 7) % 3000, same = 0;
            dn_rng_seed(&a, 99);
            for (int i = 0; i < k; i++) dn_rng_u32(&a);
            b = a;
            keep[n] = 77;
            dn_rng_bernoulli(&a, ps[q], keep, n);
            for (uint64_t i = 0; i < n; i++) {
                double u = (double)(dn_rng_u64(&b) & (((uint64_t)1 << 53) - 1)) * 0x1p-53;
                same += keep[i] == (u < ps[q]);
            }
            CHECK(same == n && keep[n] == 77 && dn_rng_u32(&a) == dn_rng_u32(&b));
            /* In two halves, in two pieces. */
            static uint32_t word[6000];
            static uint8_t halves[3001];
            dn_rng_seed(&a, 99);
            for (int i = 0; i < k; i++) dn_rng_u32(&a);
            dn_rng_words(&a, word, n / 3 * 2);
            dn_rng_words(&a, word + n / 3 * 2, (n - n / 3) * 2);
            dn_rng_words_bernoulli(word, ps[q], halves, n / 7);
            halves[n] = 77;
            dn_rng_words_bernoulli(word + n / 7 * 2, ps[q], halves + n / 7, n - n / 7);
            CHECK(memcmp(keep, halves, n) == 0 && halves[n] == 77);
            dn_rng_u32(&a);
            CHECK(dn_rng_u32(&a) == dn_rng_u32(&b));
        }
    }
}

/* The known answers of the authors' Random123 (kat_vectors), and the fast kind's draws against their
 * definition: from every place in a block, over 2^32 blocks and at the ends of p. */
static void check_philox(void)
{
    static const uint32_t known[3][10] = {{0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                          {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
                                           0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                          {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822,
                                           0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 3; i++) {
        uint32_t c[4];
        memcpy(c, known[i], sizeof c);
        dn_philox4x32(c, known[i][4], known[i][5]);
        CHECK(memcmp(c, known[i] + 6, sizeof c) == 0);
    }
    static const uint64_t ats[] = {0, 1, 2, 3, 4, 12345, 17179869184u - 200, UINT64_MAX - 999};
    static const double ps[] = {0, 0x1p-24, 0x1.8p-24, 1e-12, 0.2, 0.5, 0.8, 1 - 0x1p-24, 1 - 0x1p-25, 1};
    static uint8_t keep[1001];
    for (size_t q = 0; q < sizeof ats / sizeof ats[0]; q++) {
        for (size_t k = 0; k < sizeof ps / sizeof ps[0]; k++) {
            dn_rng r;
            uint64_t n = q < 7 ? 3 + 97 * k : 900, same = 0;
            dn_rng_seed(&r, 7);
            uint32_t first = dn_rng_u32(&r);
            dn_rng_use_fast(&r, 0x0123456789abcdef);
            r.at = ats[q];
            keep[n] = 77;
            dn_rng_bernoulli(&r, ps[k], keep, n / 3);
            dn_rng_bernoulli(&r, ps[k], keep + n / 3, n - n / 3);
            for (uint64_t i = 0; i < n; i++) {
                uint32_t w[4];
                dn_philox_block(0x0123456789abcdef, (ats[q] + i) / 4, w);
                same += keep[i] == ((w[(ats[q] + i) % 4] >> 8) * 0x1p-24 < ps[k]);
            }
            CHECK(same == n && keep[n] == 77 && r.at == ats[q] + n);
            /* The other draws go on where they were. */
            dn_rng s;
            dn_rng_seed(&s, 7);
            CHECK(dn_rng_u32(&s) == first && dn_rng_u32(&s) == dn_rng_u32(&r));
        }
    }
    uint64_t kept = 0;
    static uint8_t many[1 << 20];
    dn_rng_fast_bernoulli(78, 3, 0.8, many, sizeof many);
    for (size_t i = 0; i < sizeof many; i++) kept += many[i];
    CHECK(kept > 838860 - 2500 && kept < 838860 + 2500); /* six standard deviations */
}

int main(void)
{
    check_bernoulli();
    check_philox();
    dn_rng r;
    dn_rng_seed(&r, 78);
    CHECK(dn_rng_u32(&r) == 206936773u && dn_rng_u32(&r) == 3811066326u && dn_rng_u32(&r) == 2924713879u);
    dn_rng_seed(&r, 42);
    CHECK(dn_rng_np_random(&r) == 0.3745401188473625 && dn_rng_np_random(&r) == 0.9507143064099162);
    uint64_t v[1000], small[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const uint64_t want10[10] = {5, 8, 2, 9, 4, 7, 1, 0, 6, 3};
    dn_rng_seed(&r, 23);
    dn_rng_np_shuffle(&r, small, 10);
    CHECK(memcmp(small, want10, sizeof small) == 0);
    for (uint64_t i = 0; i < 1000; i++) v[i] = i;
    dn_rng_np_shuffle(&r, v, 1000);
    CHECK(v[0] == 844 && v[7] == 850 && v[997] == 891 && v[999] == 947);

    dn_rng_seed(&r, 78);
    float u[3];
    dn_rng_uniform(&r, -0.02f, 0.02f, u, 3);
    CHECK(u[0] == -0x1.b22114p-8f && u[1] == -0x1.c13e48p-7f && u[2] == -0x1.c6bc84p-8f);
    CHECK(dn_rng_int64(&r) == 1353208717951588457);
    dn_rng_seed(&r, 5);
    static const uint64_t perm[10] = {1, 4, 9, 6, 3, 5, 0, 2, 8, 7};
    static const uint8_t keep[12] = {0, 0, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1};
    uint8_t k[12];
    dn_rng_permutation(&r, 10, v);
    CHECK(memcmp(v, perm, sizeof perm) == 0);
    dn_rng_bernoulli(&r, 0.5, k, 12);
    CHECK(memcmp(k, keep, sizeof keep) == 0); /* also proves how many draws a permutation of 10 makes */
    return check_done();
}
