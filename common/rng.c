/* rng.c: MT19937 (Matsumoto and Nishimura 1998) with PyTorch's and NumPy's ways of drawing from it (see
 * rng.h). */
#include "rng.h"

enum { MT_N = 624, MT_M = 397 };

void dn_rng_seed(dn_rng *r, uint64_t seed)
{
    r->mt[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < MT_N; i++) {
        r->mt[i] = 1812433253u * (r->mt[i - 1] ^ (r->mt[i - 1] >> 30)) + i;
    }
    r->next = MT_N;
}

static uint32_t twist(uint32_t hi, uint32_t lo, uint32_t far)
{
    uint32_t y = (hi & 0x80000000u) | (lo & 0x7fffffffu);
    return far ^ (y >> 1) ^ ((lo & 1u) ? 0x9908b0dfu : 0u);
}

static void refill(dn_rng *r)
{
    uint32_t *mt = r->mt;
    int k = 0;
    for (; k < MT_N - MT_M; k++) mt[k] = twist(mt[k], mt[k + 1], mt[k + MT_M]);
    for (; k < MT_N - 1; k++) mt[k] = twist(mt[k], mt[k + 1], mt[k + MT_M - MT_N]);
    mt[MT_N - 1] = twist(mt[MT_N - 1], mt[0], mt[MT_M - 1]);
    r->next = 0;
}

uint32_t dn_rng_u32(dn_rng *r)
{
    if (r->next >= MT_N) refill(r);
    uint32_t y = r->mt[r->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

uint64_t dn_rng_u64(dn_rng *r)
{
    uint64_t hi = dn_rng_u32(r);
    return hi << 32 | dn_rng_u32(r);
}

int64_t dn_rng_int64(dn_rng *r)
{
    return (int64_t)(dn_rng_u64(r) & INT64_MAX);
}

void dn_rng_uniform(dn_rng *r, float a, float b, float *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float u = (float)(dn_rng_u32(r) & 0xffffffu) * 0x1p-24f;
        if (out) out[i] = u * (b - a) + a;
    }
}

void dn_rng_bernoulli(dn_rng *r, double p, uint8_t *keep, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        double u = (double)(dn_rng_u64(r) & (((uint64_t)1 << 53) - 1)) * 0x1p-53;
        keep[i] = u < p;
    }
}

void dn_rng_permutation(dn_rng *r, uint64_t n, uint64_t *out)
{
    for (uint64_t i = 0; i < n; i++) out[i] = i;
    for (uint64_t i = 0; i + 1 < n; i++) {
        uint64_t j = i + dn_rng_u32(r) % (n - i), t = out[i];
        out[i] = out[j];
        out[j] = t;
    }
}

double dn_rng_np_random(dn_rng *r)
{
    uint32_t a = dn_rng_u32(r) >> 5, b = dn_rng_u32(r) >> 6;
    return (a * 67108864.0 + b) / 9007199254740992.0;
}

uint64_t dn_rng_np_interval(dn_rng *r, uint64_t max)
{
    if (max == 0) return 0;
    uint64_t mask = UINT64_MAX >> __builtin_clzll(max), v;
    do {
        if (max <= UINT32_MAX)
            v = dn_rng_u32(r) & mask;
        else
            v = dn_rng_u64(r) & mask;
    } while (v > max);
    return v;
}

void dn_rng_np_shuffle(dn_rng *r, uint64_t *v, uint64_t n)
{
    for (uint64_t i = n; i-- > 1;) {
        uint64_t j = dn_rng_np_interval(r, i), t = v[i];
        v[i] = v[j];
        v[j] = t;
    }
}
