/* backend_cpu_loops.h: the dense kernels of backend_cpu_dense.c, written once over vectors of DENSE_VEC bytes
 * and included once per instruction set; no guard on purpose. The includer defines DENSE_VEC, DENSE_NV
 * (vectors of a panel: 4 rows x DENSE_NV sums and DENSE_NV operands live in registers), DENSE_NAME(x),
 * DENSE_TARGET, and on vectors DENSE_FMA(a, b, c) = a * b + c, DENSE_MIN(a, b), DENSE_MAX(a, b) = b where
 * either is NaN. */

typedef float DENSE_NAME(vec) __attribute__((vector_size(DENSE_VEC), may_alias));

#define VEC DENSE_NAME(vec)

#define VL     (DENSE_VEC / 4)
#define INLINE static inline __attribute__((always_inline)) DENSE_TARGET
#define UNROLL _Pragma("GCC unroll 8")

/* tanh by a rational function of degree 11 over 6, fitted here for the least relative error on [-7.9, 7.9];
 * within 3e-7 of tanh everywhere (4 units in the last place), odd, never above 1. NaN stays NaN. */
INLINE void DENSE_NAME(tanh)(VEC *v)
{
    const VEC lim = (VEC){0} + 7.9f;
    VEC x = DENSE_MAX(-lim, DENSE_MIN(lim, *v));
    VEC u = x * x, p = (VEC){0} + 0x1.a815eep-36f, q = (VEC){0} + 0x1.f34f64p-13f;
    p = DENSE_FMA(p, u, (VEC){0} - 0x1.0018a4p-26f);
    p = DENSE_FMA(p, u, (VEC){0} + 0x1.4d8284p-17f);
    p = DENSE_FMA(p, u, (VEC){0} + 0x1.882ecep-9f);
    p = DENSE_FMA(p, u, (VEC){0} + 0x1.09ee6cp-3f);
    p = DENSE_FMA(p, u, (VEC){0} + 1.0f);
    q = DENSE_FMA(q, u, (VEC){0} + 0x1.8a1656p-6f);
    q = DENSE_FMA(q, u, (VEC){0} + 0x1.da4c82p-2f);
    q = DENSE_FMA(q, u, (VEC){0} + 1.0f);
    *v = x * p / q;
}

/* 4 rows x nv vectors of y; b: K rows of nv vectors. */
INLINE void DENSE_NAME(mul_tile)(int nv, const float *x, size_t ldx, const float *b, size_t K, float *y,
                                 size_t ldy, cpu_epilogue f, const float *act)
{
    VEC a[4][DENSE_NV];
    UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < nv; j++) a[r][j] = (VEC){0};
    for (size_t k = 0; k < K; k++, b += nv * VL) {
        VEC bv[DENSE_NV];
        UNROLL for (int j = 0; j < nv; j++) bv[j] = *(const VEC *)(b + j * VL);
        UNROLL for (int r = 0; r < 4; r++)
        {
            VEC xv = (VEC){0} + x[(size_t)r * ldx + k];
            UNROLL for (int j = 0; j < nv; j++) a[r][j] = DENSE_FMA(xv, bv[j], a[r][j]);
        }
    }
    UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < nv; j++)
    {
        size_t at = (size_t)r * ldy + (size_t)j * VL;
        if (f == CPU_TANH) DENSE_NAME(tanh)(&a[r][j]);
        if (f == CPU_DTANH) {
            VEC t = *(const VEC *)(act + at);
            a[r][j] *= 1.0f - t * t;
        }
        *(VEC *)(y + at) = a[r][j];
    }
}

/* 4 rows x nv vectors of dw. */
INLINE void DENSE_NAME(mul_t_tile)(int nv, const float *d, size_t ldd, const float *x, size_t ldx, size_t S,
                                   float *dw, size_t ldw)
{
    VEC a[4][DENSE_NV];
    UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < nv; j++) a[r][j] =
        *(const VEC *)(dw + (size_t)r * ldw + j * VL);
    for (size_t s = 0; s < S; s++, d += ldd, x += ldx) {
        VEC xv[DENSE_NV];
        UNROLL for (int j = 0; j < nv; j++) xv[j] = *(const VEC *)(x + j * VL);
        UNROLL for (int r = 0; r < 4; r++)
        {
            VEC dv = (VEC){0} + d[r];
            UNROLL for (int j = 0; j < nv; j++) a[r][j] = DENSE_FMA(dv, xv[j], a[r][j]);
        }
    }
    UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < nv; j++) *
        (VEC *)(dw + (size_t)r * ldw + j * VL) = a[r][j];
}

/* Calls TILE(nv) with nv a constant, so that its loops unroll. */
#define SWITCH_NV(n)                                                                                         \
    switch (n) {                                                                                             \
    case 1: TILE(1); break;                                                                                  \
    case 2: TILE(2); break;                                                                                  \
    case 3: TILE(3); break;                                                                                  \
    case 4: TILE(4 % (DENSE_NV + 1)); break;                                                                 \
    case 5: TILE(5 % (DENSE_NV + 1)); break;                                                                 \
    case 6: TILE(6 % (DENSE_NV + 1)); break;                                                                 \
    default: TILE(DENSE_NV); break;                                                                          \
    }

DENSE_TARGET static void DENSE_NAME(mul)(const float *x, size_t ldx, const float *b, size_t S, size_t K,
                                         size_t n_pad, float *y, cpu_epilogue f, const float *act)
{
    for (size_t n = 0; n < n_pad; n += DENSE_NV * VL) {
        size_t nv = (n_pad - n) / VL < DENSE_NV ? (n_pad - n) / VL : DENSE_NV;
        for (size_t s = 0; s < S; s += 4) {
            const float *act_s = act ? act + s * n_pad + n : NULL;
#define TILE(v) DENSE_NAME(mul_tile)(v, x + s * ldx, ldx, b + n * K, K, y + s * n_pad + n, n_pad, f, act_s)
            SWITCH_NV(nv)
#undef TILE
        }
    }
}

DENSE_TARGET static void DENSE_NAME(mul_t)(const float *d, size_t ldd, const float *x, size_t S, size_t n_out,
                                           size_t n_pad, float *dw)
{
    for (size_t n = 0; n < n_pad; n += DENSE_NV * VL) {
        size_t nv = (n_pad - n) / VL < DENSE_NV ? (n_pad - n) / VL : DENSE_NV;
        for (size_t o = 0; o < n_out; o += 4) {
#define TILE(v) DENSE_NAME(mul_t_tile)(v, d + o, ldd, x + n, n_pad, S, dw + o * n_pad + n, n_pad)
            SWITCH_NV(nv)
#undef TILE
        }
    }
}

DENSE_TARGET static void DENSE_NAME(finish_grad)(float *d, const float *isd, const float *mean,
                                                 const float *total, const float *missing, const float *act,
                                                 size_t S, size_t n_pad)
{
    for (size_t s = 0; s < S; s++) {
        VEC mv = (VEC){0} + mean[s], iv = (VEC){0} + isd[s];
        for (size_t k = 0; k < n_pad; k += VL) {
            size_t at = s * n_pad + k;
            VEC t = *(const VEC *)(total + k), a = *(const VEC *)(act + at), g = *(const VEC *)(d + at);
            if (missing) t -= *(const VEC *)(missing + at);
            *(VEC *)(d + at) = (g - mv * t) * iv * (1.0f - a * a);
        }
    }
}

static const cpu_dense DENSE_NAME(table) = {DENSE_NV * VL, DENSE_NAME(mul), DENSE_NAME(mul_t),
                                            DENSE_NAME(finish_grad)};

#undef SWITCH_NV
#undef VEC

#undef VL
#undef INLINE
#undef UNROLL
#undef DENSE_VEC
#undef DENSE_NV
#undef DENSE_NAME
#undef DENSE_TARGET
#undef DENSE_FMA
#undef DENSE_MIN
#undef DENSE_MAX
