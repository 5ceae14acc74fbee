/* backend_cpu_kernels.c: the loops of backend_cpu_loops.h for each instruction set, packing, and the plain
 * versions. */
#include "backend_cpu_impl.h"

#include <string.h>

typedef float vec4 __attribute__((vector_size(16)));
typedef int32_t mask4 __attribute__((vector_size(16)));
static inline vec4 select4(mask4 m, vec4 a, vec4 b)
{
    return (vec4)((m & (mask4)a) | (~m & (mask4)b));
}

#define KERN_AHEAD   3 /* what is read ahead goes to the second-level cache */
#define KERN_VEC     16
#define KERN_NV      2
#define KERN_HALF    0
#define KERN_NAME(x) cpu_kern_portable_##x
#define KERN_TARGET
#define KERN_FMA(a, b, c)  ((a) * (b) + (c))
#define KERN_HFMA(a, b, c) ((c) + (b)*0)
#define KERN_MIN(a, b)     select4((a) < (b), a, b)
#define KERN_MAX(a, b)     select4((a) > (b), a, b)
#define KERN_STREAM(p, v)  (*(cpu_kern_portable_vec *)(p) = (v))
#define KERN_FENCE()       ((void)0)
#include "backend_cpu_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define KERN_VEC           32
#define KERN_NV            2
#define KERN_HALF          0
#define KERN_NAME(x)       cpu_kern_avx2_##x
#define KERN_TARGET        __attribute__((target("avx2,fma,prfchw")))
#define M256(x)            ((__m256)(x))
#define KERN_FMA(a, b, c)  ((cpu_kern_avx2_vec)_mm256_fmadd_ps(M256(a), M256(b), M256(c)))
#define KERN_HFMA(a, b, c) ((c) + (b)*0)
#define KERN_MIN(a, b)     ((cpu_kern_avx2_vec)_mm256_min_ps(M256(a), M256(b)))
#define KERN_MAX(a, b)     ((cpu_kern_avx2_vec)_mm256_max_ps(M256(a), M256(b)))
#define KERN_STREAM(p, v)  _mm256_stream_ps(p, M256(v))
#define KERN_FENCE()       _mm_sfence()
#include "backend_cpu_loops.h"

#define KERN_VEC          64
#define KERN_NV           4
#define KERN_HALF         1 /* where a 512-bit operation is two of 256 bits, this saves one */
#define KERN_NAME(x)      cpu_kern_avx512_##x
#define KERN_TARGET       __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma,prfchw")))
#define M512(x)           ((__m512)(x))
#define KERN_FMA(a, b, c) ((cpu_kern_avx512_vec)_mm512_fmadd_ps(M512(a), M512(b), M512(c)))
#define KERN_HFMA(a, b, c)                                                                                   \
    ((cpu_kern_avx512_hvec)_mm256_fmadd_ps(_mm512_castps512_ps256(M512(a)), M256(b), M256(c)))
#define KERN_MIN(a, b)    ((cpu_kern_avx512_vec)_mm512_min_ps(M512(a), M512(b)))
#define KERN_MAX(a, b)    ((cpu_kern_avx512_vec)_mm512_max_ps(M512(a), M512(b)))
#define KERN_STREAM(p, v) _mm512_stream_ps(p, M512(v))
#define KERN_FENCE()      _mm_sfence()
#include "backend_cpu_loops.h"
#endif

const cpu_kernels *cpu_kernels_of(dn_isa isa)
{
#if defined(__x86_64__)
    if (isa == DN_ISA_AVX512) return &cpu_kern_avx512_table;
    if (isa == DN_ISA_AVX2) return &cpu_kern_avx2_table;
#endif
    (void)isa;
    return &cpu_kern_portable_table;
}

void cpu_rows_of(const uint64_t used[CPU_GROUPS], cpu_rows *rows)
{
    rows->n = 0;
    for (unsigned g = 0; g < CPU_GROUPS; g++) {
        for (uint64_t m = used[g] & ~(uint64_t)0x77707770777u; m; m &= m - 1) {
            if (rows->n == CPU_MOST_ROWS) {
                rows->n = CPU_ALL_ROWS;
                return;
            }
            rows->row[rows->n++] = (uint16_t)(g * 64 + (unsigned)__builtin_ctzll(m));
        }
    }
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

/* ---- table kernels, plainly: doubles, no tables ---- */

void cpu_turn_ref(const uint64_t *src, size_t n, uint64_t *word, uint64_t *miss)
{
    for (size_t j = 0; j < CPU_BLOCK; j++) {
        uint64_t w = 0, m = 0;
        for (size_t i = 0; i < n; i++) {
            uint64_t code = src[i * CPU_TILES + j / CPU_COLS] >> j % CPU_COLS * 2 & 3;
            if (code == 3)
                m |= (uint64_t)1 << 2 * i;
            else
                w |= code << 2 * i;
        }
        word[cpu_place(j)] = w;
        miss[cpu_place(j)] = m;
    }
}

void cpu_fat_ref(const uint64_t *word, size_t n, const float *w, size_t stride, const float *x, double *acc)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < CPU_CODES; j++) {
            unsigned g = word[i] >> 2 * j & 3;
            for (size_t k = 0; k < CPU_LANES && g < 3; k++)
                acc[i * CPU_LANES + k] += (double)x[4 * j + g] * w[j * stride + k];
        }
    }
}
