/* rng.c: MT19937 (Matsumoto and Nishimura 1998) with PyTorch's and NumPy's ways of drawing from it, and
 * Bernoulli draws from Philox (see rng.h). */
#include "rng.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "geno.h"
#include "philox.h"

enum { MT_N = 624, MT_M = 397 };

void dn_rng_seed(dn_rng *r, uint64_t seed)
{
    r->mt[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < MT_N; i++) {
        r->mt[i] = 1812433253u * (r->mt[i - 1] ^ (r->mt[i - 1] >> 30)) + i;
    }
    r->next = MT_N;
    r->fast = 0;
    r->key = r->at = 0;
}

void dn_rng_use_fast(dn_rng *r, uint64_t key)
{
    r->fast = 1;
    r->key = key;
    r->at = 0;
}

/* The new block of words, and the drawing of many Bernoulli numbers (input dropout makes people x SNPs of
 * them per batch), are written over vectors of 8 words and compiled for plain CPUs and for AVX2. */
typedef uint32_t words8 __attribute__((vector_size(32), may_alias, aligned(4)));
typedef uint64_t pairs4 __attribute__((vector_size(32), may_alias, aligned(4)));
#define INLINE static inline __attribute__((always_inline))

INLINE uint32_t twist(uint32_t hi, uint32_t lo, uint32_t far)
{
    uint32_t y = (hi & 0x80000000u) | (lo & 0x7fffffffu);
    return far ^ (y >> 1) ^ ((lo & 1u) ? 0x9908b0dfu : 0u);
}

/* mt[k] for k in [from, to): far words are mt[k + far]. Eight at a time: none of them depends on another. */
INLINE void twist_run(uint32_t *mt, int from, int to, int far)
{
    int k = from;
    for (; k + 8 <= to; k += 8) {
        words8 hi = *(words8 *)(mt + k), lo = *(words8 *)(mt + k + 1), f = *(words8 *)(mt + k + far);
        words8 y = (hi & 0x80000000u) | (lo & 0x7fffffffu);
        *(words8 *)(mt + k) = f ^ (y >> 1) ^ (-(lo & 1u) & 0x9908b0dfu);
    }
    for (; k < to; k++) mt[k] = twist(mt[k], mt[k + 1], mt[k + far]);
}

INLINE void refill_all(dn_rng *r)
{
    uint32_t *mt = r->mt;
    twist_run(mt, 0, MT_N - MT_M, MT_M);
    twist_run(mt, MT_N - MT_M, MT_N - 1, MT_M - MT_N);
    mt[MT_N - 1] = twist(mt[MT_N - 1], mt[0], mt[MT_M - 1]);
    r->next = 0;
}

/* keep[i] = (64-bit draw i & (2^53 - 1)) < limit for n draws whose words are in the block already. */
INLINE void keep_run(const uint32_t *mt, uint64_t limit, uint8_t *keep, uint64_t n)
{
    const uint64_t low = ((uint64_t)1 << 53) - 1;
    for (uint64_t i = 0; i < n; i += 4) {
        words8 y = {0};
        if (i + 4 <= n)
            y = *(const words8 *)(mt + 2 * i);
        else
            memcpy(&y, mt + 2 * i, (size_t)(n - i) * 8);
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c5680u;
        y ^= (y << 15) & 0xefc60000u;
        y ^= y >> 18;
        pairs4 v = (pairs4)y;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        v = v << 32 | v >> 32; /* the first word is the high half */
#endif
        v = ((v & low) - limit) >> 63;
        for (uint64_t k = 0; k < 4 && i + k < n; k++) keep[i + k] = (uint8_t)v[k];
    }
}

static void refill_plain(dn_rng *r)
{
    refill_all(r);
}
static void keep_plain(const uint32_t *mt, uint64_t limit, uint8_t *keep, uint64_t n)
{
    keep_run(mt, limit, keep, n);
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void refill_avx2(dn_rng *r)
{
    refill_all(r);
}
__attribute__((target("avx2"))) static void keep_avx2(const uint32_t *mt, uint64_t limit, uint8_t *keep,
                                                      uint64_t n)
{
    const __m256i b = _mm256_set1_epi32((int)0x9d2c5680u), c = _mm256_set1_epi32((int)0xefc60000u),
                  low = _mm256_set1_epi64x((1LL << 53) - 1), lim = _mm256_set1_epi64x((long long)limit);
    uint64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        __m256i y = _mm256_loadu_si256((const __m256i *)(mt + 2 * i));
        y = _mm256_xor_si256(y, _mm256_srli_epi32(y, 11));
        y = _mm256_xor_si256(y, _mm256_and_si256(_mm256_slli_epi32(y, 7), b));
        y = _mm256_xor_si256(y, _mm256_and_si256(_mm256_slli_epi32(y, 15), c));
        y = _mm256_xor_si256(y, _mm256_srli_epi32(y, 18));
        y = _mm256_and_si256(_mm256_shuffle_epi32(y, 0xb1), low); /* the first word is the high half */
        unsigned m = (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_sub_epi64(y, lim)));
        uint32_t bytes = m * 0x00204081u & 0x01010101u; /* four bits to four bytes */
        memcpy(keep + i, &bytes, 4);
    }
    keep_run(mt + 2 * i, limit, keep + i, n - i);
}
#define BY_ISA(f) (dn_isa_get() >= DN_ISA_AVX2 ? f##_avx2 : f##_plain)
#else
#define BY_ISA(f) f##_plain
#endif

static void refill(dn_rng *r)
{
    BY_ISA(refill)(r);
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

/* ---- Philox: keep[4i + k] for blocks [block, block + n) ---- */

static void fast_plain(uint64_t key, uint64_t block, uint32_t limit, uint8_t *keep, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++, keep += 4) {
        uint32_t w[4];
        dn_philox_block(key, block + i, w);
        for (int k = 0; k < 4; k++) keep[k] = (uint8_t)dn_philox_keep(w[k], limit);
    }
}

#if defined(__x86_64__)
/* Eight blocks at a time, a block to a 64-bit lane. A word is in the low half of its lane; what is left in
 * the high half is neither multiplied nor looked at. */
__attribute__((target("avx2"))) static void fast_avx2(uint64_t key, uint64_t block, uint32_t limit,
                                                      uint8_t *keep, uint64_t n)
{
    const __m256i m0 = _mm256_set1_epi64x(DN_PHILOX_M0), m1 = _mm256_set1_epi64x(DN_PHILOX_M1),
                  one = _mm256_set1_epi8(1), least = _mm256_set1_epi32((int)limit);
    uint64_t i = 0;
    for (; i + 8 <= n; i += 8, keep += 32) {
        __m256i c[2][4], word[2];
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        _Pragma("GCC unroll 2") for (int u = 0; u < 2; u++)
        {
            c[u][0] = _mm256_add_epi64(_mm256_set1_epi64x((long long)(block + i) + 4 * u),
                                       _mm256_setr_epi64x(0, 1, 2, 3));
            c[u][1] = _mm256_srli_epi64(c[u][0], 32);
            c[u][2] = c[u][3] = _mm256_setzero_si256();
        }
        for (int round = 0; round < 10; round++, k0 += DN_PHILOX_W0, k1 += DN_PHILOX_W1) {
            __m256i v0 = _mm256_set1_epi32((int)k0), v1 = _mm256_set1_epi32((int)k1);
            _Pragma("GCC unroll 2") for (int u = 0; u < 2; u++)
            {
                __m256i x = _mm256_mul_epu32(c[u][0], m0), y = _mm256_mul_epu32(c[u][2], m1);
                c[u][0] = _mm256_xor_si256(_mm256_srli_epi64(y, 32), _mm256_xor_si256(c[u][1], v0));
                c[u][2] = _mm256_xor_si256(_mm256_srli_epi64(x, 32), _mm256_xor_si256(c[u][3], v1));
                c[u][1] = y;
                c[u][3] = x;
            }
        }
        for (int u = 0; u < 2;
             u++) { /* words 0, 1 and 2, 3 of a lane; compared; as 16 bits, block by block */
            __m256i w[2];
            _Pragma("GCC unroll 2") for (int q = 0; q < 2; q++)
            {
                w[q] = _mm256_blend_epi32(c[u][2 * q], _mm256_slli_epi64(c[u][2 * q + 1], 32), 0xaa);
                w[q] = _mm256_cmpgt_epi32(least, _mm256_srli_epi32(w[q], 8));
            }
            word[u] =
                _mm256_packs_epi32(_mm256_unpacklo_epi64(w[0], w[1]), _mm256_unpackhi_epi64(w[0], w[1]));
        }
        __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(word[0], word[1]), 0xd8);
        _mm256_storeu_si256((__m256i *)keep, _mm256_and_si256(bytes, one));
    }
    fast_plain(key, block + i, limit, keep, n - i);
}

/* The same with 16 blocks. */
__attribute__((target("avx512f"))) static void fast_avx512(uint64_t key, uint64_t block, uint32_t limit,
                                                           uint8_t *keep, uint64_t n)
{
    const __m512i m0 = _mm512_set1_epi64(DN_PHILOX_M0), m1 = _mm512_set1_epi64(DN_PHILOX_M1),
                  low = _mm512_set1_epi64(0xffffffff), least = _mm512_set1_epi64((long long)limit << 8);
    uint64_t i = 0;
    for (; i + 16 <= n; i += 16, keep += 64) {
        __m512i c[2][4];
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        _Pragma("GCC unroll 2") for (int u = 0; u < 2; u++)
        {
            c[u][0] = _mm512_add_epi64(_mm512_set1_epi64((long long)(block + i) + 8 * u),
                                       _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
            c[u][1] = _mm512_srli_epi64(c[u][0], 32);
            c[u][2] = c[u][3] = _mm512_setzero_si512();
        }
        for (int round = 0; round < 10; round++, k0 += DN_PHILOX_W0, k1 += DN_PHILOX_W1) {
            __m512i v0 = _mm512_set1_epi32((int)k0), v1 = _mm512_set1_epi32((int)k1);
            _Pragma("GCC unroll 2") for (int u = 0; u < 2; u++)
            {
                __m512i x = _mm512_mul_epu32(c[u][0], m0), y = _mm512_mul_epu32(c[u][2], m1);
                c[u][0] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(y, 32), c[u][1], v0, 0x96);
                c[u][2] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(x, 32), c[u][3], v1, 0x96);
                c[u][1] = y;
                c[u][3] = x;
            }
        }
        _Pragma("GCC unroll 2") for (int u = 0; u < 2; u++)
        {
            __m512i bytes = _mm512_setzero_si512(); /* byte k of a lane: its word k */
            _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)
            {
                __mmask8 m = _mm512_cmplt_epu64_mask(_mm512_and_si512(c[u][k], low), least);
                bytes = _mm512_mask_or_epi64(bytes, m, bytes, _mm512_set1_epi64(1LL << 8 * k));
            }
            _mm256_storeu_si256((__m256i *)(keep + 32 * u), _mm512_cvtepi64_epi32(bytes));
        }
    }
    fast_plain(key, block + i, limit, keep, n - i);
}
#endif

static void fast_blocks(uint64_t key, uint64_t block, uint32_t limit, uint8_t *keep, uint64_t n)
{
#if defined(__x86_64__)
    if (dn_isa_get() >= DN_ISA_AVX512) {
        fast_avx512(key, block, limit, keep, n);
        return;
    }
#endif
    BY_ISA(fast)(key, block, limit, keep, n);
}

void dn_rng_fast_bernoulli(uint64_t key, uint64_t at, double p, uint8_t *keep, uint64_t n)
{
    uint32_t limit = dn_philox_limit(p);
    uint64_t skip = at % 4;
    while (n > 0) {
        if (skip || n < 4) { /* part of a block */
            uint8_t part[4];
            uint64_t k = 4 - skip < n ? 4 - skip : n;
            fast_plain(key, at / 4, limit, part, 1);
            memcpy(keep, part + skip, k);
            keep += k, at += k, n -= k;
            skip = 0;
        } else {
            fast_blocks(key, at / 4, limit, keep, n / 4);
            keep += n / 4 * 4, at += n / 4 * 4, n %= 4;
        }
    }
}

/* u * 2^-53 < p as whole numbers: p * 2^53 is exact, and u < x means u < ceil(x). */
static uint64_t limit_of(double p)
{
    double x = p * 0x1p53;
    return x <= 0 || x != x ? 0 : x >= 0x1p53 ? (uint64_t)1 << 53 : (uint64_t)x + ((double)(uint64_t)x < x);
}

void dn_rng_words(dn_rng *r, uint32_t *word, uint64_t n)
{
    while (n > 0) {
        if (r->next >= MT_N) refill(r);
        uint64_t k = MT_N - r->next < n ? MT_N - r->next : n;
        memcpy(word, r->mt + r->next, k * sizeof *word);
        r->next += (uint32_t)k;
        word += k, n -= k;
    }
}

void dn_rng_words_bernoulli(const uint32_t *word, double p, uint8_t *keep, uint64_t n)
{
    BY_ISA(keep)(word, limit_of(p), keep, n);
}

void dn_rng_bernoulli(dn_rng *r, double p, uint8_t *keep, uint64_t n)
{
    if (r->fast) {
        dn_rng_fast_bernoulli(r->key, r->at, p, keep, n);
        r->at += n;
        return;
    }
    uint64_t limit = limit_of(p);
    while (n > 0) {
        uint64_t pairs = (MT_N - r->next) / 2;
        if (r->next == MT_N) {
            refill(r);
        } else if (pairs == 0) { /* one word left: this draw needs the next block too */
            *keep++ = (dn_rng_u64(r) & (((uint64_t)1 << 53) - 1)) < limit;
            n--;
        } else {
            if (pairs > n) pairs = n;
            BY_ISA(keep)(r->mt + r->next, limit, keep, pairs);
            r->next += (uint32_t)(2 * pairs);
            keep += pairs;
            n -= pairs;
        }
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
