/* vmath.c: see vmath.h. */
#include "vmath.h"

#include <math.h>
#include <string.h>

#include "geno.h"

enum { W = 64 }; /* a fixed count, so that the compiler vectorises at -O2 */

static inline __attribute__((always_inline)) uint32_t to_bits(float x)
{
    uint32_t b;
    memcpy(&b, &x, 4);
    return b;
}
static inline __attribute__((always_inline)) float from_bits(uint32_t b)
{
    float x;
    memcpy(&x, &b, 4);
    return x;
}
/* cond ? a : b without a branch, which would keep the loop from being vectorised. */
static inline __attribute__((always_inline)) float choose(int cond, float a, float b)
{
    uint32_t m = -(uint32_t)cond;
    return from_bits((to_bits(a) & m) | (to_bits(b) & ~m));
}

/* |x| < 0.6: x + x^3 * P(x^2). Else 1 - 2 / (e^(2|x|) + 1), with e^y = 2^k * e^r, |r| <= ln(2) / 2. The
 * coefficients of both polynomials are Chebyshev fits: relative error 1.8e-8 and 1e-8. The rest is rounding.
 */
static inline __attribute__((always_inline)) void tanh_block(float *x)
{
    const float big = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    for (int i = 0; i < W; i++) {
        float v = x[i], z = v * v;
        uint32_t sign = to_bits(v) & 0x80000000u;
        float a = from_bits(to_bits(v) ^ sign);
        float p = -0.006108383818792349f;
        p = p * z + 0.021005987819361804f;
        p = p * z - 0.05385298805058175f;
        p = p * z + 0.13332785454084767f;
        p = p * z - 0.33333329130684475f;
        float small = v + v * z * p;
        float y = choose(a < 10.0f, a + a, 20.0f); /* tanh(10) is 1 in float */
        float k = (y * 1.44269504088896341f + big) - big;
        float r = (y - k * 0.693359375f) - k * -2.12194440054690583e-4f; /* ln 2 in two parts */
        float q = 0.0013933653540553134f;
        q = q * r + 0.008363180122095883f;
        q = q * r + 0.04166646486674142f;
        q = q * r + 0.1666657697579098f;
        q = q * r + 0.5000000013482742f;
        float e = 1.0f + (r + r * r * q);
        float scale = from_bits(((uint32_t)(int32_t)k + 127u) << 23);
        float large = 1.0f - 2.0f / (e * scale + 1.0f);
        large = from_bits(to_bits(large) | sign);
        x[i] = choose(v == v, choose(a < 0.6f, small, large), v);
    }
}

static inline __attribute__((always_inline)) void tanh_all(float *x, size_t n)
{
    for (; n >= W; n -= W, x += W) tanh_block(x);
    if (n) {
        float tail[W] = {0};
        memcpy(tail, x, n * sizeof *x);
        tanh_block(tail);
        memcpy(x, tail, n * sizeof *x);
    }
}

static void tanh_portable(float *x, size_t n)
{
    tanh_all(x, n);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void tanh_avx2(float *x, size_t n)
{
    tanh_all(x, n);
}
__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))) static void tanh_avx512(float *x, size_t n)
{
    tanh_all(x, n);
}
#endif

void dn_tanh(float *x, size_t n)
{
#if defined(__x86_64__)
    switch (dn_isa_get()) {
    case DN_ISA_AVX512: tanh_avx512(x, n); return;
    case DN_ISA_AVX2: tanh_avx2(x, n); return;
    case DN_ISA_PORTABLE: break;
    }
#endif
    tanh_portable(x, n);
}

void dn_tanh_ref(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = (float)tanh(x[i]);
}
