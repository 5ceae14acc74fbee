/* The generators against values printed by NumPy 1.24 and PyTorch 1.13 (built without MKL). */
#include "check.h"

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
        }
    }
}

int main(void)
{
    check_bernoulli();
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
