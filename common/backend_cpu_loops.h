/* backend_cpu_loops.h: the kernels of backend_cpu_kernels.c, written once over vectors of KERN_VEC bytes
 * and included once per instruction set; no guard on purpose. The includer defines KERN_VEC, KERN_NV
 * (vectors of a panel: CPU_ROWS x KERN_NV sums and KERN_NV operands live in registers), KERN_NAME(x),
 * KERN_TARGET, and on vectors KERN_FMA(a, b, c) = a * b + c, KERN_MIN(a, b), KERN_MAX(a, b) = b where
 * either is NaN, KERN_STREAM(p, v): v to p past the caches,
 * KERN_FENCE(). */

typedef float KERN_NAME(vec) __attribute__((vector_size(KERN_VEC), may_alias));

#define VEC KERN_NAME(vec)

#define VL      (KERN_VEC / 4)
#define INLINE  static inline __attribute__((always_inline)) KERN_TARGET
#define UNROLL  _Pragma("GCC unroll 8")
#define SET1(x) ((x) - (VEC){0}) /* x in every lane; x + 0 would cost an addition, for the sake of -0 */

/* tanh by a rational function of degree 11 over 6, fitted here for the least relative error on [-7.9, 7.9];
 * within 3e-7 of tanh everywhere (4 units in the last place), odd, never above 1. NaN stays NaN. */
INLINE void KERN_NAME(tanh)(VEC *v)
{
    const VEC lim = SET1(7.9f);
    VEC x = KERN_MAX(-lim, KERN_MIN(lim, *v));
    VEC u = x * x, p = SET1(0x1.a815eep-36f), q = SET1(0x1.f34f64p-13f);
    p = KERN_FMA(p, u, SET1(-0x1.0018a4p-26f));
    p = KERN_FMA(p, u, SET1(0x1.4d8284p-17f));
    p = KERN_FMA(p, u, SET1(0x1.882ecep-9f));
    p = KERN_FMA(p, u, SET1(0x1.09ee6cp-3f));
    p = KERN_FMA(p, u, SET1(1.0f));
    q = KERN_FMA(q, u, SET1(0x1.8a1656p-6f));
    q = KERN_FMA(q, u, SET1(0x1.da4c82p-2f));
    q = KERN_FMA(q, u, SET1(1.0f));
    *v = x * p / q;
}

/* Operands and sums of a tile: nv whole vectors and, if half, one of half the width, whose other half is
 * padding. */
typedef float KERN_NAME(hvec) __attribute__((vector_size(KERN_VEC / 2), may_alias));
#define HVEC KERN_NAME(hvec)

/* y (CPU_ROWS rows) = x b; b: K rows of ldb floats. */
INLINE void KERN_NAME(mul_tile)(int nv, int half, const float *x, size_t ldx, const float *b, size_t ldb,
                                size_t K, float *y, size_t ldy, const char *ahead, size_t pace)
{
    VEC a[CPU_ROWS][KERN_NV];
    HVEC h[CPU_ROWS];
    UNROLL for (int r = 0; r < CPU_ROWS; r++)
    {
        h[r] = (HVEC){0};
        UNROLL for (int j = 0; j < nv; j++) a[r][j] = (VEC){0};
    }
    for (size_t k = 0; k < K; k++, b += ldb, ahead += pace) {
        __builtin_prefetch(ahead, 0, KERN_AHEAD);
        VEC bv[KERN_NV];
        HVEC bh = {0};
        UNROLL for (int j = 0; j < nv; j++) bv[j] = *(const VEC *)(b + j * VL);
        if (half) bh = *(const HVEC *)(b + nv * VL);
        UNROLL for (int r = 0; r < CPU_ROWS; r++)
        {
            VEC xv = SET1(x[(size_t)r * ldx + k]);
            UNROLL for (int j = 0; j < nv; j++) a[r][j] = KERN_FMA(xv, bv[j], a[r][j]);
            if (half) h[r] = KERN_HFMA(xv, bh, h[r]);
        }
    }
    UNROLL for (int r = 0; r < CPU_ROWS; r++)
    {
        UNROLL for (int j = 0; j < nv; j++) * (VEC *)(y + (size_t)r * ldy + j * VL) = a[r][j];
        if (half) *(HVEC *)(y + (size_t)r * ldy + nv * VL) = h[r];
    }
}

/* dw (CPU_ROWS rows) += d^T x. */
INLINE void KERN_NAME(mul_t_tile)(int nv, int half, const float *d, size_t ldd, const float *x, size_t ldx,
                                  size_t S, float *dw, size_t ldw, const char *ahead, size_t pace)
{
    VEC a[CPU_ROWS][KERN_NV];
    HVEC h[CPU_ROWS];
    UNROLL for (int r = 0; r < CPU_ROWS; r++)
    {
        h[r] = (HVEC){0};
        UNROLL for (int j = 0; j < nv; j++) a[r][j] = *(const VEC *)(dw + (size_t)r * ldw + j * VL);
        if (half) h[r] = *(const HVEC *)(dw + (size_t)r * ldw + nv * VL);
    }
    for (size_t s = 0; s < S; s++, d += ldd, x += ldx, ahead += pace) {
        __builtin_prefetch(ahead, 0, KERN_AHEAD);
        VEC xv[KERN_NV];
        HVEC xh = {0};
        UNROLL for (int j = 0; j < nv; j++) xv[j] = *(const VEC *)(x + j * VL);
        if (half) xh = *(const HVEC *)(x + nv * VL);
        UNROLL for (int r = 0; r < CPU_ROWS; r++)
        {
            VEC dv = SET1(d[r]);
            UNROLL for (int j = 0; j < nv; j++) a[r][j] = KERN_FMA(dv, xv[j], a[r][j]);
            if (half) h[r] = KERN_HFMA(dv, xh, h[r]);
        }
    }
    UNROLL for (int r = 0; r < CPU_ROWS; r++)
    {
        UNROLL for (int j = 0; j < nv; j++) * (VEC *)(dw + (size_t)r * ldw + j * VL) = a[r][j];
        if (half) *(HVEC *)(dw + (size_t)r * ldw + nv * VL) = h[r];
    }
}

/* Calls TILE(nv, half) with constants, so that its loops unroll. */
#define TILE_OF(nv)                                                                                          \
    if (half) {                                                                                              \
        TILE((nv) % KERN_NV, KERN_HALF);                                                                     \
    } else {                                                                                                 \
        TILE(((nv)-1) % KERN_NV + 1, 0);                                                                     \
    }                                                                                                        \
    break
#define SWITCH_NV(nv)                                                                                        \
    switch (nv) {                                                                                            \
    case 0: TILE(0, KERN_HALF); break;                                                                       \
    case 1: TILE_OF(1);                                                                                      \
    case 2: TILE_OF(2);                                                                                      \
    case 3: TILE_OF(3);                                                                                      \
    default: TILE(KERN_NV, 0); break;                                                                        \
    }
/* Whole vectors and whether a half one follows, for columns [n, n + KERN_NV * VL) of n_cols. */
#define PANEL(n)                                                                                             \
    size_t left = n_cols - (n), nv = left / VL, rest = left % VL;                                            \
    bool half = KERN_HALF && rest > 0 && rest <= VL / 2;                                                     \
    if (rest && !half) nv++;                                                                                 \
    if (nv >= KERN_NV) nv = KERN_NV, half = false

INLINE void KERN_NAME(add_extra)(VEC *v, const cpu_extra *x, size_t s, size_t col, size_t n_pad)
{
    VEC sum = *v + *(const VEC *)(x->add + col);
    for (uint32_t i = x->first[s]; i < x->first[s + 1]; i++)
        sum = KERN_FMA(SET1(x->r[i]), *(const VEC *)(x->add + (1 + (size_t)x->cls[i]) * n_pad + col), sum);
    *v = sum;
}

KERN_TARGET static void KERN_NAME(sums)(const float *d, size_t S, size_t n_pad, const cpu_extra *x,
                                        float *out)
{
    enum { ROWS = 12 }; /* divides CPU_BLOCK */
    for (size_t s = 0; s < S; s += ROWS) {
        for (size_t u = 0; u < n_pad; u += VL) {
            VEC even = *(const VEC *)(out + u), odd = (VEC){0};
            for (size_t i = s; i < s + ROWS; i += 2) {
                even += *(const VEC *)(d + i * n_pad + u);
                odd += *(const VEC *)(d + (i + 1) * n_pad + u);
            }
            *(VEC *)(out + u) = even + odd;
        }
        for (size_t r = s; r < s + ROWS; r++) {
            for (uint32_t i = x->first[r]; i < x->first[r + 1]; i++) {
                float *to = out + (1 + (size_t)x->cls[i]) * n_pad;
                for (size_t u = 0; u < n_pad; u += VL) {
                    VEC *t = (VEC *)(to + u);
                    *t = KERN_FMA(SET1(x->r[i]), *(const VEC *)(d + r * n_pad + u), *t);
                }
            }
        }
    }
}

#define EPILOGUE 24 /* rows at a time: late enough for their stores to be done */
KERN_TARGET static void KERN_NAME(mul)(const float *x, size_t ldx, const float *b, size_t S, size_t K,
                                       size_t n_cols, size_t n_pad, float *y, cpu_epilogue f,
                                       const float *act, float *out, const cpu_extra *extra,
                                       const float *next, size_t next_floats)
{
    /* What is used next is on its way from memory while this is computed: one line at a time, not to fill
     * the queue of misses. */
    const char *ahead = (const char *)(next ? next : x);
    size_t tiles = (S / CPU_ROWS) * ((n_cols - 1) / (KERN_NV * VL) + 1),
           pace = next && K ? next_floats * sizeof(float) / (tiles * K) + 1 : 0;
    for (size_t n = 0; n < n_cols; n += KERN_NV * VL) {
        PANEL(n);
        size_t ldb = n_pad - n < KERN_NV * VL ? n_pad - n : KERN_NV * VL, width = (nv + half) * VL;
        for (size_t s = 0; s < S; s += CPU_ROWS, ahead += pace * K) {
            float *ys = y + s * n_pad + n;
#define TILE(v, h) KERN_NAME(mul_tile)(v, h, x + s * ldx, ldx, b + n * K, ldb, K, ys, n_pad, ahead, pace)
            SWITCH_NV(nv)
#undef TILE
            if (s % EPILOGUE != EPILOGUE - CPU_ROWS && s + CPU_ROWS < S) continue;
            size_t first = s / EPILOGUE * EPILOGUE;
            for (size_t r = first; r < s + CPU_ROWS && f != CPU_PLAIN; r++) {
                for (size_t j = 0; j < width; j += VL) {
                    VEC *v = (VEC *)(y + r * n_pad + n + j);
                    if (f == CPU_TANH) {
                        if (extra) KERN_NAME(add_extra)(v, extra, r, n + j, n_pad);
                        KERN_NAME(tanh)(v);
                        if (out) KERN_STREAM(out + r * n_pad + n + j, *v);
                    } else {
                        VEC t = *(const VEC *)(act + r * n_pad + n + j);
                        *v *= 1.0f - t * t;
                    }
                }
            }
        }
    }
    if (out) KERN_FENCE();
}

KERN_TARGET static void KERN_NAME(mul_t)(const float *d, size_t ldd, const float *x, size_t S, size_t n_out,
                                         size_t n_cols, size_t n_pad, float *dw, const float *next,
                                         size_t next_floats)
{
    const char *ahead = (const char *)(next ? next : x);
    size_t pace =
        next ? next_floats * 4 /
                       (S * ((n_out + CPU_ROWS - 1) / CPU_ROWS) * ((n_cols - 1) / (KERN_NV * VL) + 1)) +
                   1
             : 0;
    for (size_t n = 0; n < n_cols; n += KERN_NV * VL) {
        PANEL(n);
        for (size_t o = 0; o < n_out; o += CPU_ROWS) {
#define TILE(v, h)                                                                                           \
    KERN_NAME(mul_t_tile)(v, h, d + o, ldd, x + n, n_pad, S, dw + o * n_pad + n, n_pad, ahead, pace)
            SWITCH_NV(nv)
#undef TILE
            ahead += pace * S;
        }
    }
}

/* The values that each group of n words takes, as bits. */
KERN_TARGET static void KERN_NAME(used)(const uint64_t *word, size_t n, uint64_t used[CPU_GROUPS])
{
    typedef uint64_t u64s __attribute__((vector_size(CPU_GROUPS * 8)));
    const u64s shift = {0, 6, 12, 18, 24, 30, 36, 42}, one = (u64s){0} + 1;
    u64s seen = {0};
    for (size_t i = 0; i < n; i++) seen |= one << (((u64s){0} + word[i]) >> shift & 63);
    memcpy(used, &seen, sizeof seen);
}

#define NV_ROW (CPU_LANES / VL) /* vectors of a table row */

/* The rows of all groups in which each code is below n (3: not missing; 4: any), straight on: most occur, and
 * to ask which would cost more. */
INLINE void KERN_NAME(build_below)(size_t n, const float *w, size_t stride, const float *x, float *table)
{
    for (size_t g = 0; g < CPU_GROUPS; g++, w += 3 * stride, x += 12, table += CPU_PITCH * CPU_LANES) {
        for (size_t k = 0; k < CPU_LANES; k += VL) {
            VEC wa = *(const VEC *)(w + k), wb = *(const VEC *)(w + stride + k),
                wc = *(const VEC *)(w + 2 * stride + k);
            const VEC a0 = wa * x[0], a1 = wa * x[1], a2 = wa * x[2], a3 = wa * x[3];
            const VEC b0 = wb * x[4], b1 = wb * x[5], b2 = wb * x[6], b3 = wb * x[7];
            UNROLL for (size_t c = 0; c < n; c++)
            {
                VEC e = wc * x[8 + c];
                UNROLL for (size_t b = 0; b < n; b++)
                {
                    VEC bc = (b == 0 ? b0 : b == 1 ? b1 : b == 2 ? b2 : b3) + e;
                    VEC *row = (VEC *)(table + (16 * c + 4 * b) * CPU_LANES + k);
                    row[0] = a0 + bc, row[NV_ROW] = a1 + bc, row[2 * NV_ROW] = a2 + bc;
                    if (n > 3) row[3 * NV_ROW] = a3 + bc;
                }
            }
        }
    }
}

/* See cpu_kernels. A row is a + (b + c), whichever way it is made. */
KERN_TARGET static void KERN_NAME(build)(const float *w, size_t stride, const float *x, const cpu_rows *rows,
                                         float *table)
{
    if (rows->n == CPU_ALL_ROWS) {
        KERN_NAME(build_below)(4, w, stride, x, table);
        return;
    }
    KERN_NAME(build_below)(3, w, stride, x, table);
    for (size_t i = 0; i < rows->n; i++) {
        size_t g = rows->row[i] >> 6, v = rows->row[i] & 63;
        const float *wg = w + 3 * g * stride, *xg = x + 12 * g;
        VEC *row = (VEC *)(table + (g * CPU_PITCH + v) * CPU_LANES);
        for (size_t k = 0; k < NV_ROW; k++) {
            VEC bc = *(const VEC *)(wg + stride + k * VL) * xg[4 + (v >> 2 & 3)] +
                     *(const VEC *)(wg + 2 * stride + k * VL) * xg[8 + (v >> 4)];
            row[k] = *(const VEC *)(wg + k * VL) * xg[v & 3] + bc;
        }
    }
}

/* Row of word's field g in group g: the field times the floats of a row, by one shift and one mask. */
#define ROW(t, w, g)                                                                                         \
    ((const VEC *)((t) + (g)*CPU_PITCH * CPU_LANES + (((g) ? (w) >> (6 * (g) + 60) % 64 : (w) << 4) & 0x3f0)))
/* As a tree: the running sum is rounded once per word, not eight times. */
INLINE VEC KERN_NAME(row_sum)(const float *t, uint64_t w, size_t k)
{
    VEC low = (ROW(t, w, 0)[k] + ROW(t, w, 1)[k]) + (ROW(t, w, 2)[k] + ROW(t, w, 3)[k]),
        high = (ROW(t, w, 4)[k] + ROW(t, w, 5)[k]) + (ROW(t, w, 6)[k] + ROW(t, w, 7)[k]);
    return low + high;
}
KERN_TARGET static void KERN_NAME(add)(const float *table, const uint64_t *word, const uint64_t *second,
                                       size_t n, float *acc, bool first)
{
    VEC *z = (VEC *)acc;
    for (size_t i = 0; i < n && !second; i++, z += NV_ROW) {
        uint64_t w = word[i];
        UNROLL for (size_t k = 0; k < NV_ROW; k++)
        {
            VEC sum = KERN_NAME(row_sum)(table, w, k);
            if (!first) sum += z[k];
            z[k] = sum;
        }
    }
    for (size_t i = 0; i < n && second; i++, z += NV_ROW) {
        uint64_t w = word[i], v = second[i];
        UNROLL for (size_t k = 0; k < NV_ROW; k++)
        {
            VEC sum = KERN_NAME(row_sum)(table, w, k);
            if (!first) sum += z[k];
            z[k] = sum + KERN_NAME(row_sum)(table + CPU_TABLE, v, k);
        }
    }
}

/* Tiles side by side, so that every round of the transposition is between whole vectors: see
 * cpu_turn_ref for what it does. */
KERN_TARGET static void KERN_NAME(turn)(const uint64_t *src, size_t n, uint64_t *word, uint64_t *miss)
{
    typedef uint64_t u64s __attribute__((vector_size(32), aligned(8), may_alias));
    static const uint64_t mask[5] = {0x00000000ffffffffu, 0x0000ffff0000ffffu, 0x00ff00ff00ff00ffu,
                                     0x0f0f0f0f0f0f0f0fu, 0x3333333333333333u};
    for (size_t t = 0; t < CPU_TILES; t += 4) {
        u64s v[32];
        for (size_t i = 0; i < 32; i++) {
            v[i] = (u64s){0};
            if (i < n) v[i] = *(const u64s *)(src + i * CPU_TILES + t);
        }
        for (int r = 0; r < 5; r++) {
            int w = 16 >> r, shift = 2 * w;
            for (int base = 0; base < 32; base += 2 * w) {
                for (int i = base; i < base + w; i++) {
                    u64s x = (v[i] >> shift ^ v[i + w]) & mask[r];
                    v[i] ^= x << shift;
                    v[i + w] ^= x;
                }
            }
        }
        for (size_t i = 0; i < 32; i++) {
            u64s m = v[i] & v[i] >> 1 & 0x5555555555555555u;
            *(u64s *)(word + i * CPU_TILES + t) = v[i] & ~(m | m << 1);
            *(u64s *)(miss + i * CPU_TILES + t) = m;
        }
    }
}

/* d (n_pad) = or += the sum of rows of z (n_pad apart), four vectors at a time in registers. */
INLINE void KERN_NAME(sum_rows)(const float *z, const uint32_t *row, size_t n, size_t n_pad, bool first,
                                float *d)
{
    const VEC zero = {0};
    size_t u = 0;
    for (; u + 4 * VL <= n_pad; u += 4 * VL) {
        VEC a[4];
        UNROLL for (size_t k = 0; k < 4; k++) a[k] = first ? zero : *(VEC *)(d + u + k * VL);
        for (size_t i = 0; i < n; i++) {
            const VEC *r = (const VEC *)(z + row[i] * n_pad + u);
            UNROLL for (size_t k = 0; k < 4; k++) a[k] += r[k];
        }
        UNROLL for (size_t k = 0; k < 4; k++) * (VEC *)(d + u + k * VL) = a[k];
    }
    for (; u < n_pad; u += VL) {
        VEC a = first ? zero : *(VEC *)(d + u);
        for (size_t i = 0; i < n; i++) a += *(const VEC *)(z + row[i] * n_pad + u);
        *(VEC *)(d + u) = a;
    }
}

KERN_TARGET static void KERN_NAME(finish)(const float *grad, const float *missing, size_t rows,
                                          const uint64_t *miss, size_t sets, const float *dz,
                                          const float *isd, const float *mean, const float *total,
                                          const float *act, size_t n_pad, float *d)
{
    enum { LIST = 256 };
    uint32_t list[LIST];
    for (size_t s = 0; s < CPU_BLOCK; s++, act += n_pad, d += n_pad) {
        size_t at = cpu_place(s), n = 0;
        float m = mean[s], f = isd[s];
        bool any = false;
        for (size_t q = 0; q < sets && !missing; q++) {
            for (uint64_t b = miss[q * rows + at]; b; b &= b - 1) {
                if (n == LIST) {
                    KERN_NAME(sum_rows)(dz, list, n, n_pad, !any, d);
                    any = true;
                    n = 0;
                }
                list[n++] = (uint32_t)(q * CPU_CODES + (size_t)__builtin_ctzll(b) / 2);
            }
        }
        if (n) KERN_NAME(sum_rows)(dz, list, n, n_pad, !any, d);
        any = any || n;
        for (size_t u = 0; u < n_pad; u += CPU_LANES) {
            __builtin_prefetch(act + 16 * n_pad + u, 0); /* from memory */
            for (size_t k = u; k < u + CPU_LANES; k += VL) {
                VEC sum = *(const VEC *)(total + k), a = *(const VEC *)(act + k);
                if (any) sum -= *(const VEC *)(d + k);
                if (missing) sum -= *(const VEC *)(missing + u * rows + at * CPU_LANES + (k - u));
                VEC g = *(const VEC *)(grad + u * rows + at * CPU_LANES + (k - u));
                *(VEC *)(d + k) = (g - sum * m) * f * (1.0f - a * a);
            }
        }
    }
}

static const cpu_kernels KERN_NAME(table) = {KERN_NV * VL,    KERN_NAME(mul),  KERN_NAME(mul_t),
                                             KERN_NAME(sums), KERN_NAME(used), KERN_NAME(build),
                                             KERN_NAME(add),  KERN_NAME(turn), KERN_NAME(finish)};

#undef SWITCH_NV
#undef TILE_OF
#undef PANEL
#undef HVEC
#undef KERN_HFMA
#undef KERN_HALF
#undef NV_ROW
#undef ROW
#undef VEC

#undef VL
#undef INLINE
#undef UNROLL
#undef SET1
#undef EPILOGUE
#undef KERN_VEC
#undef KERN_NV
#undef KERN_NAME
#undef KERN_TARGET
#undef KERN_FMA
#undef KERN_MIN
#undef KERN_MAX
#undef KERN_STREAM
#undef KERN_FENCE
