/* fat_loops.h: the loops of fat_kernel.c, written once over vectors of FAT_VEC bytes. Included once per
 * instruction set with FAT_VEC, FAT_NAME(x) and FAT_TARGET defined; no guard on purpose. All pointers are
 * 64-byte aligned. */

#define FAT_NV    (FAT_LANES * 4 / FAT_VEC) /* vectors in 16 floats */
#define FAT_WIDTH (FAT_VEC / 4)
typedef float FAT_NAME(vec) __attribute__((vector_size(FAT_VEC), may_alias));
#define VEC FAT_NAME(vec)

FAT_TARGET static void FAT_NAME(build)(const fat_columns *cols, const fat_used *used, float *table)
{
    /* Sums of the calls in the low and the high half of a byte, for all 16 values of each; a missing call
     * adds 0. */
    VEC half[2][16 * FAT_NV];
    for (size_t g = 0; g < FAT_GROUPS; g++) {
        for (size_t h = 0; h < 2; h++) {
            size_t c = g * 4 + h * 2;
            for (size_t k = 0; k < FAT_NV; k++) {
                VEC e[2][4];
                for (size_t i = 0; i < 2; i++) {
                    VEC w;
                    memcpy(&w, cols->w[c + i] + k * FAT_WIDTH, sizeof w);
                    for (size_t d = 0; d < 3; d++) {
                        const float *x = cols->x + ((c + i) * 3 + d) * cols->x_lanes;
                        e[i][d] = cols->x_lanes == 1 ? *x * w : *((const VEC *)x + k) * w;
                    }
                    e[i][3] = (VEC){0};
                }
                VEC *out = half[h] + k;
                for (size_t v = 0; v < 4; v++, out += 4 * FAT_NV) {
                    out[0] = e[0][0] + e[1][v];
                    out[FAT_NV] = e[0][1] + e[1][v];
                    out[2 * FAT_NV] = e[0][2] + e[1][v];
                    out[3 * FAT_NV] = e[0][3] + e[1][v];
                }
            }
        }
        VEC *tg = (VEC *)(table + g * FAT_PITCH * FAT_LANES);
        const uint8_t *value = used[g].value, *end = value + used[g].n;
        for (; value < end; value++) {
            size_t v = *value;
            const VEC *a = half[0] + (v & 15) * FAT_NV, *b = half[1] + (v >> 4) * FAT_NV;
            for (size_t k = 0; k < FAT_NV; k++) tg[v * FAT_NV + k] = a[k] + b[k];
        }
    }
}

/* Byte offset of the row of word's byte g: the byte times 64, by one rotation and one mask. */
#define ROW(w, g)                                                                                            \
    ((const VEC *)((const char *)table + (size_t)(g)*FAT_PITCH * 64 + (ROT(w, (8 * (g) + 58) % 64) & 0x3fc0)))
#define ROT(w, n) ((w) >> (n) | (w) << (64 - (n)))
#define ADD(g)                                                                                               \
    do {                                                                                                     \
        const VEC *r = ROW(w, g);                                                                            \
        a0 += r[0];                                                                                          \
        if (FAT_NV > 1) a1 += r[1 % FAT_NV];                                                                 \
        if (FAT_NV > 2) a2 += r[2 % FAT_NV], a3 += r[3 % FAT_NV];                                            \
    } while (0)

FAT_TARGET static void FAT_NAME(add)(const float *table, const uint64_t *word, size_t n, float *acc)
{
    for (size_t i = 0; i < n; i++) {
        VEC *z = (VEC *)(acc + i * FAT_LANES);
        uint64_t w = word[i];
        VEC a0 = z[0], a1 = z[1 % FAT_NV], a2 = z[2 % FAT_NV], a3 = z[3 % FAT_NV];
        ADD(0);
        ADD(1);
        ADD(2);
        ADD(3);
        ADD(4);
        ADD(5);
        ADD(6);
        ADD(7);
        z[0] = a0;
        if (FAT_NV > 1) z[1 % FAT_NV] = a1;
        if (FAT_NV > 2) z[2 % FAT_NV] = a2, z[3 % FAT_NV] = a3;
    }
}

/* total += acc; acc = 0, for n people */
FAT_TARGET static void FAT_NAME(drain)(float *acc, size_t n, float *total)
{
    VEC *a = (VEC *)acc, *t = (VEC *)total;
    for (size_t i = 0; i < n * FAT_NV; i++) {
        t[i] += a[i];
        a[i] = (VEC){0};
    }
}

#undef ADD
#undef ROT
#undef ROW
#undef VEC
#undef FAT_NV
#undef FAT_WIDTH
#undef FAT_VEC
#undef FAT_NAME
#undef FAT_TARGET
