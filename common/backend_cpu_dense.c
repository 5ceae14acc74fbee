/* backend_cpu_dense.c: the loops of backend_cpu_loops.h for each instruction set, packing, and the plain
 * versions. */
#include "backend_cpu_impl.h"

#include <string.h>

typedef float vec4 __attribute__((vector_size(16)));
typedef int32_t mask4 __attribute__((vector_size(16)));
static inline vec4 select4(mask4 m, vec4 a, vec4 b)
{
    return (vec4)((m & (mask4)a) | (~m & (mask4)b));
}

#define DENSE_VEC     16
#define DENSE_NV      3
#define DENSE_NAME(x) cpu_dense_portable_##x
#define DENSE_TARGET
#define DENSE_FMA(a, b, c) ((a) * (b) + (c))
#define DENSE_MIN(a, b)    select4((a) < (b), a, b)
#define DENSE_MAX(a, b)    select4((a) > (b), a, b)
#include "backend_cpu_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define DENSE_VEC          32
#define DENSE_NV           3
#define DENSE_NAME(x)      cpu_dense_avx2_##x
#define DENSE_TARGET       __attribute__((target("avx2,fma")))
#define DENSE_FMA(a, b, c) ((cpu_dense_avx2_vec)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define DENSE_MIN(a, b)    ((cpu_dense_avx2_vec)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define DENSE_MAX(a, b)    ((cpu_dense_avx2_vec)_mm256_max_ps((__m256)(a), (__m256)(b)))
#include "backend_cpu_loops.h"

#define DENSE_VEC          64
#define DENSE_NV           7
#define DENSE_NAME(x)      cpu_dense_avx512_##x
#define DENSE_TARGET       __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma")))
#define DENSE_FMA(a, b, c) ((cpu_dense_avx512_vec)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define DENSE_MIN(a, b)    ((cpu_dense_avx512_vec)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define DENSE_MAX(a, b)    ((cpu_dense_avx512_vec)_mm512_max_ps((__m512)(a), (__m512)(b)))
#include "backend_cpu_loops.h"
#endif

const cpu_dense *cpu_dense_of(dn_isa isa)
{
#if defined(__x86_64__)
    if (isa == DN_ISA_AVX512) return &cpu_dense_avx512_table;
    if (isa == DN_ISA_AVX2) return &cpu_dense_avx2_table;
#endif
    (void)isa;
    return &cpu_dense_portable_table;
}

void cpu_pack(const float *src, size_t row, size_t col, size_t K, size_t n, size_t n_pad, size_t panel,
              float *out)
{
    for (size_t p = 0; p < n_pad; p += panel) {
        size_t w = n_pad - p < panel ? n_pad - p : panel;
        for (size_t k = 0; k < K; k++) {
            for (size_t j = 0; j < w; j++) *out++ = p + j < n ? src[k * row + (p + j) * col] : 0.0f;
        }
    }
}

void cpu_mul_ref(const float *x, size_t ldx, const float *b, size_t S, size_t K, size_t n, double *y)
{
    for (size_t s = 0; s < S; s++) {
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t k = 0; k < K; k++) sum += (double)x[s * ldx + k] * b[k * n + j];
            y[s * n + j] = sum;
        }
    }
}

void cpu_mul_t_ref(const float *d, size_t ldd, const float *x, size_t ldx, size_t S, size_t n_out, size_t n,
                   double *dw)
{
    for (size_t o = 0; o < n_out; o++) {
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t s = 0; s < S; s++) sum += (double)d[s * ldd + o] * x[s * ldx + j];
            dw[o * n + j] = sum;
        }
    }
}
