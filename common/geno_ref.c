/* geno_ref.c: the plain twins of the genotype kernels, call by call: what the fast ones are tested against
 * (see geno.h). */
#include "geno.h"

/* [map][.bed code] -> dosage code. */
static const uint8_t recode[2][4] = {{2, 3, 1, 0}, {0, 3, 1, 2}};

void dn_geno_transpose_ref(const uint8_t *const *src, const uint8_t *map, uint64_t n_snps, uint64_t n_people,
                           uint8_t *dst, uint64_t dst_stride, uint64_t dst_snp)
{
    for (uint64_t i = 0; i < n_people; i++) {
        uint8_t *row = dst + i * dst_stride + dst_snp / 4;
        for (uint64_t j = 0; j < n_snps; j += 4) {
            unsigned byte = 0;
            for (uint64_t k = 0; k < 4; k++) {
                unsigned code = 3;
                if (j + k < n_snps && src[j + k]) code = recode[map[j + k]][dn_geno_get(src[j + k], i)];
                byte |= code << k * 2;
            }
            row[j / 4] = (uint8_t)byte;
        }
    }
}

void dn_geno_unpack_ref(const uint8_t *row, uint64_t first, uint64_t n, int8_t *out)
{
    for (uint64_t i = 0; i < n; i++) {
        unsigned code = dn_geno_get(row, first + i);
        out[i] = code == 3 ? -1 : (int8_t)code;
    }
}

uint64_t dn_geno_pack_ref(const int8_t *calls, uint64_t n, uint8_t *row)
{
    uint64_t bad = n;
    for (uint64_t i = 0; i < dn_geno_bytes(n) * 4; i++) {
        int call = i < n ? calls[i] : -1;
        if ((call < -1 || call > 2) && bad == n) bad = i;
        if (i % 4 == 0) row[i / 4] = 0;
        row[i / 4] |= (uint8_t)(((unsigned)call & 3u) << i % 4 * 2);
    }
    return bad;
}

uint64_t dn_geno_count_missing_ref(const uint8_t *row, uint64_t n)
{
    uint64_t missing = 0;
    for (uint64_t i = 0; i < n; i++) missing += dn_geno_get(row, i) == 3;
    return missing;
}
