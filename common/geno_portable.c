/* geno_portable.c: genotype kernels in 64-bit integers, for any CPU (see geno_impl.h). Little-endian. */
#include "geno_impl.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packed rows are handled as little-endian words");

static inline uint64_t load(const void *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}
static inline void store(void *p, uint64_t x)
{
    memcpy(p, &x, sizeof x);
}
#define EACH(byte) (0x0101010101010101u * (uint64_t)(byte))

/* .bed codes -> dosage codes, all 32 at once: low bit = high ^ low, high bit = not high; where swapped, high
 * bit = low. */
static inline uint64_t recode(uint64_t x, uint64_t swap)
{
    uint64_t high = (swap & x << 1) | (~swap & ~x);
    return ((x ^ x >> 1) & EACH(0x55)) | (high & EACH(0xAA));
}

/* 8x8 bytes: byte c of v[r] and byte r of v[c] change places. */
static inline void transpose_bytes(uint64_t v[8])
{
    static const uint64_t mask[3] = {0x00000000FFFFFFFFu, 0x0000FFFF0000FFFFu, 0x00FF00FF00FF00FFu};
    for (unsigned round = 0, half = 4; round < 3; round++, half /= 2) {
        for (unsigned k = 0; k < 8; k++) {
            if (k & half) continue;
            uint64_t t = (v[k] >> half * 8 ^ v[k + half]) & mask[round];
            v[k] ^= t << half * 8;
            v[k + half] ^= t;
        }
    }
}

static void tile(const uint8_t *const *src, const uint8_t *swap, uint8_t *dst, uint64_t stride)
{
    /* by_residue[r]: byte b of word g holds SNPs 4g..4g+3 of person 4b + r. */
    uint64_t by_residue[4][GENO_TILE_SNPS / 4];
    for (unsigned g = 0; g < GENO_TILE_SNPS / 4; g++) {
        uint64_t a = load(src[4 * g]), b = load(src[4 * g + 1]), c = load(src[4 * g + 2]),
                 d = load(src[4 * g + 3]);
        const uint64_t lo2 = EACH(0x33), lo4 = EACH(0x0F), s = EACH(swap[g]);
        uint64_t a1 = (a & lo2) | (b & lo2) << 2, b1 = (a >> 2 & lo2) | (b & ~lo2);
        uint64_t c1 = (c & lo2) | (d & lo2) << 2, d1 = (c >> 2 & lo2) | (d & ~lo2);
        by_residue[0][g] = recode((a1 & lo4) | (c1 & lo4) << 4, s);
        by_residue[1][g] = recode((b1 & lo4) | (d1 & lo4) << 4, s);
        by_residue[2][g] = recode((a1 >> 4 & lo4) | (c1 & ~lo4), s);
        by_residue[3][g] = recode((b1 >> 4 & lo4) | (d1 & ~lo4), s);
    }
    for (unsigned r = 0; r < 4; r++) {
        transpose_bytes(by_residue[r]);
        transpose_bytes(by_residue[r] + 8);
        for (unsigned b = 0; b < 8; b++) {
            uint8_t *to = dst + (4 * b + r) * stride;
            store(to, by_residue[r][b]);
            store(to + 8, by_residue[r][8 + b]);
        }
    }
}

/* The four calls of a byte, as int8 in memory order. */
#define CALL(x, k) ((uint32_t)(((x) >> (k)*2 & 3) == 3 ? 0xFF : ((x) >> (k)*2 & 3)) << (k)*8)
#define FOUR(x)    (CALL(x, 0) | CALL(x, 1) | CALL(x, 2) | CALL(x, 3))
#define FOURS4(x)  FOUR(x), FOUR((x) + 1), FOUR((x) + 2), FOUR((x) + 3)
#define FOURS16(x) FOURS4(x), FOURS4((x) + 4), FOURS4((x) + 8), FOURS4((x) + 12)
#define FOURS64(x) FOURS16(x), FOURS16((x) + 16), FOURS16((x) + 32), FOURS16((x) + 48)
static const uint32_t calls_of[256] = {FOURS64(0), FOURS64(64), FOURS64(128), FOURS64(192)};

static void unpack(const uint8_t *row, uint64_t n_bytes, int8_t *out)
{
    for (uint64_t i = 0; i < n_bytes; i++) memcpy(out + i * 4, &calls_of[row[i]], 4);
}

static void pack(const int8_t *calls, uint64_t n_bytes, uint8_t *row, unsigned *bad)
{
    uint64_t wrong = 0, i = 0;
    for (; i + 2 <= n_bytes; i += 2) {
        uint64_t x = load(calls + i * 4);
        /* -1 is the only call with bits above the lowest two, and it has all of them. */
        uint64_t three = x & x >> 1 & EACH(1);
        wrong |= (x & EACH(0xFC)) ^ three * 0xFC;
        x &= EACH(3);
        x = (x | x >> 6) & 0x000F000F000F000Fu;
        x = (x | x >> 12) & 0x000000FF000000FFu;
        row[i] = (uint8_t)x;
        row[i + 1] = (uint8_t)(x >> 32);
    }
    if (wrong) *bad = 1;
    if (i < n_bytes && dn_geno_pack_ref(calls + i * 4, 4, row + i) < 4) *bad = 1;
}

static uint64_t count_missing(const uint8_t *row, uint64_t n_bytes)
{
    uint64_t missing = 0, i = 0;
    for (; i + 8 <= n_bytes; i += 8) {
        uint64_t x = load(row + i), m = x & x >> 1 & EACH(0x55);
        m = (m & EACH(0x33)) + (m >> 2 & EACH(0x33));
        m = (m + (m >> 4)) & EACH(0x0F);
        missing += m * EACH(1) >> 56;
    }
    return missing + dn_geno_count_missing_ref(row + i, (n_bytes - i) * 4);
}

const dn_geno_ops dn_geno_portable = {tile, 8, unpack, pack, count_missing};
