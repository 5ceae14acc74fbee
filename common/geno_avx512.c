/* geno_avx512.c: genotype kernels for AVX-512 F+BW (see geno_impl.h). Called only where the CPU has it. */
#include "geno_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw")))

/* Bits of b where m has ones, of a elsewhere. */
AVX512 static inline __m512i select_bits(__m512i m, __m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi64(m, a, b, 0xAC);
}

/* As recode() in geno_portable.c; 0xA3: x << 1 where swap has ones, else not x. */
AVX512 static inline __m512i recode(__m512i x, __m512i swap)
{
    __m512i high = _mm512_ternarylogic_epi64(swap, x, _mm512_add_epi8(x, x), 0xA3);
    return select_bits(_mm512_set1_epi8(0x55), high, _mm512_xor_si512(x, _mm512_srli_epi16(x, 1)));
}

AVX512 static inline __m512i load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

/* 16x16 bytes in each 128-bit quarter: byte c of v[r] -> byte r of v[c]. */
AVX512 static inline void transpose_bytes(__m512i v[16])
{
    __m512i w[16];
    for (int k = 0; k < 8; k++) {
        w[2 * k] = _mm512_unpacklo_epi8(v[k], v[k + 8]);
        w[2 * k + 1] = _mm512_unpackhi_epi8(v[k], v[k + 8]);
    }
    for (int k = 0; k < 8; k++) {
        v[2 * k] = _mm512_unpacklo_epi8(w[k], w[k + 8]);
        v[2 * k + 1] = _mm512_unpackhi_epi8(w[k], w[k + 8]);
    }
    for (int k = 0; k < 8; k++) {
        w[2 * k] = _mm512_unpacklo_epi8(v[k], v[k + 8]);
        w[2 * k + 1] = _mm512_unpackhi_epi8(v[k], v[k + 8]);
    }
    for (int k = 0; k < 8; k++) {
        v[2 * k] = _mm512_unpacklo_epi8(w[k], w[k + 8]);
        v[2 * k + 1] = _mm512_unpackhi_epi8(w[k], w[k + 8]);
    }
}

AVX512 static void tile(const uint8_t *const *src, const uint8_t *swap, uint8_t *dst, uint64_t stride)
{
    /* by_residue[r]: byte b of vector g holds SNPs 4g..4g+3 of person 4b + r. */
    __m512i by_residue[4][GENO_TILE_SNPS / 4];
    const __m512i hi2 = _mm512_set1_epi8((char)0xCC), hi4 = _mm512_set1_epi8((char)0xF0);
    for (int g = 0; g < GENO_TILE_SNPS / 4; g++) {
        __m512i a = load(src[4 * g]), b = load(src[4 * g + 1]), c = load(src[4 * g + 2]),
                d = load(src[4 * g + 3]);
        __m512i s = _mm512_set1_epi8((char)swap[g]);
        __m512i a1 = select_bits(hi2, a, _mm512_slli_epi16(b, 2)),
                b1 = select_bits(hi2, _mm512_srli_epi16(a, 2), b);
        __m512i c1 = select_bits(hi2, c, _mm512_slli_epi16(d, 2)),
                d1 = select_bits(hi2, _mm512_srli_epi16(c, 2), d);
        by_residue[0][g] = recode(select_bits(hi4, a1, _mm512_slli_epi16(c1, 4)), s);
        by_residue[1][g] = recode(select_bits(hi4, b1, _mm512_slli_epi16(d1, 4)), s);
        by_residue[2][g] = recode(select_bits(hi4, _mm512_srli_epi16(a1, 4), c1), s);
        by_residue[3][g] = recode(select_bits(hi4, _mm512_srli_epi16(b1, 4), d1), s);
    }
    for (uint64_t r = 0; r < 4; r++) {
        transpose_bytes(by_residue[r]);
        for (uint64_t b = 0; b < 16; b++) {
            __m512i v = by_residue[r][b];
            _mm_storeu_si128((void *)(dst + (4 * b + r) * stride), _mm512_castsi512_si128(v));
            _mm_storeu_si128((void *)(dst + (4 * (b + 16) + r) * stride), _mm512_extracti32x4_epi32(v, 1));
            _mm_storeu_si128((void *)(dst + (4 * (b + 32) + r) * stride), _mm512_extracti32x4_epi32(v, 2));
            _mm_storeu_si128((void *)(dst + (4 * (b + 48) + r) * stride), _mm512_extracti32x4_epi32(v, 3));
        }
    }
}

AVX512 static void unpack(const uint8_t *row, uint64_t n_bytes, int8_t *out)
{
    const __m512i call =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m512i four = _mm512_set1_epi32(0x000F000F), two = _mm512_set1_epi32(0x03030303);
    uint64_t i = 0;
    for (; i + 16 <= n_bytes; i += 16) {
        __m512i x = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(row + i)));
        x = _mm512_and_si512(_mm512_or_si512(x, _mm512_slli_epi32(x, 12)), four);
        x = _mm512_and_si512(_mm512_or_si512(x, _mm512_slli_epi32(x, 6)), two);
        _mm512_storeu_si512(out + i * 4, _mm512_shuffle_epi8(call, x));
    }
    dn_geno_portable.unpack(row + i, n_bytes - i, out + i * 4);
}

AVX512 static void pack(const int8_t *calls, uint64_t n_bytes, uint8_t *row, unsigned *bad)
{
    __m512i wrong = _mm512_setzero_si512();
    uint64_t i = 0;
    for (; i + 16 <= n_bytes; i += 16) {
        __m512i x = _mm512_loadu_si512(calls + i * 4);
        wrong = _mm512_or_si512(wrong, _mm512_add_epi8(x, _mm512_set1_epi8(1))); /* good calls + 1 are 0..3 */
        x = _mm512_and_si512(x, _mm512_set1_epi8(3));
        x = _mm512_madd_epi16(_mm512_maddubs_epi16(x, _mm512_set1_epi16(0x0401)),
                              _mm512_set1_epi32(0x00100001));
        _mm_storeu_si128((void *)(row + i), _mm512_cvtepi32_epi8(x));
    }
    if (_mm512_test_epi8_mask(wrong, _mm512_set1_epi8((char)0xFC))) *bad = 1;
    dn_geno_portable.pack(calls + i * 4, n_bytes - i, row + i, bad);
}

AVX512 static uint64_t count_missing(const uint8_t *row, uint64_t n_bytes)
{
    /* Nibbles of the mask are 0, 1, 4 or 5. */
    const __m512i ones =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m512i low4 = _mm512_set1_epi8(0x05);
    __m512i sum = _mm512_setzero_si512();
    uint64_t i = 0;
    for (; i + 64 <= n_bytes; i += 64) {
        __m512i x = _mm512_loadu_si512(row + i);
        x = _mm512_and_si512(x, _mm512_srli_epi16(x, 1));
        __m512i lo = _mm512_shuffle_epi8(ones, _mm512_and_si512(x, low4));
        __m512i hi = _mm512_shuffle_epi8(ones, _mm512_and_si512(_mm512_srli_epi16(x, 4), low4));
        sum = _mm512_add_epi64(sum, _mm512_sad_epu8(_mm512_add_epi8(lo, hi), _mm512_setzero_si512()));
    }
    return (uint64_t)_mm512_reduce_add_epi64(sum) + dn_geno_portable.count_missing(row + i, n_bytes - i);
}

const dn_geno_ops dn_geno_avx512 = {tile, 64, unpack, pack, count_missing};
#endif
