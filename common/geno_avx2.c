/* geno_avx2.c: genotype kernels for AVX2 (see geno_impl.h). Called only where the CPU has it. */
#include "geno_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

/* Bits of b where m has ones, of a elsewhere. */
AVX2 static inline __m256i select_bits(__m256i m, __m256i a, __m256i b)
{
    return _mm256_xor_si256(a, _mm256_and_si256(m, _mm256_xor_si256(a, b)));
}

/* As recode() in geno_portable.c. */
AVX2 static inline __m256i recode(__m256i x, __m256i swap)
{
    const __m256i low = _mm256_set1_epi8(0x55), ones = _mm256_set1_epi8(-1);
    __m256i high = select_bits(swap, _mm256_xor_si256(x, ones), _mm256_add_epi8(x, x));
    return select_bits(low, high, _mm256_xor_si256(x, _mm256_srli_epi16(x, 1)));
}

AVX2 static inline __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const void *)p);
}

/* 16x16 bytes in each 128-bit half: byte c of v[r] -> byte r of v[c]. Each round interleaves v[k] with v[k +
 * 8]. */
AVX2 static inline void transpose_bytes(__m256i v[16])
{
    __m256i w[16];
    for (int k = 0; k < 8; k++) {
        w[2 * k] = _mm256_unpacklo_epi8(v[k], v[k + 8]);
        w[2 * k + 1] = _mm256_unpackhi_epi8(v[k], v[k + 8]);
    }
    for (int k = 0; k < 8; k++) {
        v[2 * k] = _mm256_unpacklo_epi8(w[k], w[k + 8]);
        v[2 * k + 1] = _mm256_unpackhi_epi8(w[k], w[k + 8]);
    }
    for (int k = 0; k < 8; k++) {
        w[2 * k] = _mm256_unpacklo_epi8(v[k], v[k + 8]);
        w[2 * k + 1] = _mm256_unpackhi_epi8(v[k], v[k + 8]);
    }
    for (int k = 0; k < 8; k++) {
        v[2 * k] = _mm256_unpacklo_epi8(w[k], w[k + 8]);
        v[2 * k + 1] = _mm256_unpackhi_epi8(w[k], w[k + 8]);
    }
}

AVX2 static void tile(const uint8_t *const *src, const uint8_t *swap, uint8_t *dst, uint64_t stride)
{
    /* by_residue[r]: byte b of vector g holds SNPs 4g..4g+3 of person 4b + r. */
    __m256i by_residue[4][GENO_TILE_SNPS / 4];
    const __m256i hi2 = _mm256_set1_epi8((char)0xCC), hi4 = _mm256_set1_epi8((char)0xF0);
    for (int g = 0; g < GENO_TILE_SNPS / 4; g++) {
        __m256i a = load(src[4 * g]), b = load(src[4 * g + 1]), c = load(src[4 * g + 2]),
                d = load(src[4 * g + 3]);
        __m256i s = _mm256_set1_epi8((char)swap[g]);
        __m256i a1 = select_bits(hi2, a, _mm256_slli_epi16(b, 2)),
                b1 = select_bits(hi2, _mm256_srli_epi16(a, 2), b);
        __m256i c1 = select_bits(hi2, c, _mm256_slli_epi16(d, 2)),
                d1 = select_bits(hi2, _mm256_srli_epi16(c, 2), d);
        by_residue[0][g] = recode(select_bits(hi4, a1, _mm256_slli_epi16(c1, 4)), s);
        by_residue[1][g] = recode(select_bits(hi4, b1, _mm256_slli_epi16(d1, 4)), s);
        by_residue[2][g] = recode(select_bits(hi4, _mm256_srli_epi16(a1, 4), c1), s);
        by_residue[3][g] = recode(select_bits(hi4, _mm256_srli_epi16(b1, 4), d1), s);
    }
    for (uint64_t r = 0; r < 4; r++) {
        transpose_bytes(by_residue[r]);
        for (uint64_t b = 0; b < 16; b++) {
            __m256i v = by_residue[r][b];
            _mm_storeu_si128((void *)(dst + (4 * b + r) * stride), _mm256_castsi256_si128(v));
            _mm_storeu_si128((void *)(dst + (4 * (b + 16) + r) * stride), _mm256_extracti128_si256(v, 1));
        }
    }
}

AVX2 static void unpack(const uint8_t *row, uint64_t n_bytes, int8_t *out)
{
    const __m256i call =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m256i four = _mm256_set1_epi32(0x000F000F), two = _mm256_set1_epi32(0x03030303);
    uint64_t i = 0;
    for (; i + 8 <= n_bytes; i += 8) {
        __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(row + i)));
        x = _mm256_and_si256(_mm256_or_si256(x, _mm256_slli_epi32(x, 12)), four);
        x = _mm256_and_si256(_mm256_or_si256(x, _mm256_slli_epi32(x, 6)), two);
        _mm256_storeu_si256((void *)(out + i * 4), _mm256_shuffle_epi8(call, x));
    }
    dn_geno_portable.unpack(row + i, n_bytes - i, out + i * 4);
}

/* Four calls of each 32-bit lane -> one byte, as an int32. Notes calls outside -1..2 in *wrong. */
AVX2 static inline __m256i pack32(const int8_t *calls, __m256i *wrong)
{
    __m256i x = _mm256_loadu_si256((const void *)calls);
    *wrong = _mm256_or_si256(*wrong, _mm256_add_epi8(x, _mm256_set1_epi8(1))); /* good calls + 1 are 0..3 */
    x = _mm256_and_si256(x, _mm256_set1_epi8(3));
    x = _mm256_maddubs_epi16(x, _mm256_set1_epi16(0x0401));
    return _mm256_madd_epi16(x, _mm256_set1_epi32(0x00100001));
}

AVX2 static void pack(const int8_t *calls, uint64_t n_bytes, uint8_t *row, unsigned *bad)
{
    __m256i wrong = _mm256_setzero_si256();
    uint64_t i = 0;
    for (; i + 32 <= n_bytes; i += 32) {
        const int8_t *c = calls + i * 4;
        __m256i x = _mm256_packus_epi32(pack32(c, &wrong), pack32(c + 32, &wrong));
        __m256i y = _mm256_packus_epi32(pack32(c + 64, &wrong), pack32(c + 96, &wrong));
        x = _mm256_packus_epi16(x, y);
        x = _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((void *)(row + i), x);
    }
    if (!_mm256_testz_si256(wrong, _mm256_set1_epi8((char)0xFC))) *bad = 1;
    dn_geno_portable.pack(calls + i * 4, n_bytes - i, row + i, bad);
}

AVX2 static uint64_t count_missing(const uint8_t *row, uint64_t n_bytes)
{
    /* Nibbles of the mask are 0, 1, 4 or 5. */
    const __m256i ones =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m256i low4 = _mm256_set1_epi8(0x05);
    __m256i sum = _mm256_setzero_si256();
    uint64_t i = 0;
    for (; i + 32 <= n_bytes; i += 32) {
        __m256i x = _mm256_loadu_si256((const void *)(row + i));
        x = _mm256_and_si256(x, _mm256_srli_epi16(x, 1));
        __m256i lo = _mm256_shuffle_epi8(ones, _mm256_and_si256(x, low4));
        __m256i hi = _mm256_shuffle_epi8(ones, _mm256_and_si256(_mm256_srli_epi16(x, 4), low4));
        sum = _mm256_add_epi64(sum, _mm256_sad_epu8(_mm256_add_epi8(lo, hi), _mm256_setzero_si256()));
    }
    uint64_t part[4];
    _mm256_storeu_si256((void *)part, sum);
    return part[0] + part[1] + part[2] + part[3] + dn_geno_portable.count_missing(row + i, n_bytes - i);
}

const dn_geno_ops dn_geno_avx2 = {tile, 32, unpack, pack, count_missing};
#endif
