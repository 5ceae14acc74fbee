/* geno.c: genotype kernels: heads, tails and blocks around the per-instruction-set cores, and the choice of
 * the core (see geno.h, geno_impl.h). The plain twins are in geno_ref.c. */
#include "geno_impl.h"

#include <string.h>

const dn_geno_ops *dn_geno_ops_of(dn_isa isa)
{
#if defined(__x86_64__)
    if (isa == DN_ISA_AVX512) return &dn_geno_avx512;
    if (isa == DN_ISA_AVX2) return &dn_geno_avx2;
#endif
    (void)isa;
    return &dn_geno_portable;
}

static const dn_geno_ops *chosen(void)
{
    return dn_geno_ops_of(dn_isa_get());
}

/* ---- transposition ----
 * A tile is 64 SNPs x tile_bytes source bytes: 16 bytes for each of its people. Tiles are taken along the
 * SNPs within a band, so that neighbouring tiles finish the cache lines of the same people, then down the
 * people. */
enum { BAND_SNPS = 1024, TILE_PEOPLE_MAX = GENO_TILE_MAX * 4 };

/* 64 rows of one tile column, with absent ones replaced by a row of missing calls. */
typedef struct {
    const uint8_t *src[GENO_TILE_SNPS];
    bool absent[GENO_TILE_SNPS];
    uint8_t swap[GENO_TILE_SNPS / 4];
    uint64_t n_snps;
} column;

static const uint8_t all_missing[GENO_TILE_MAX] = {
    0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55,
    0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55,
    0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55,
    0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55};

static void fill_column(column *c, const uint8_t *const *src, const uint8_t *map, uint64_t n_snps)
{
    c->n_snps = n_snps;
    memset(c->swap, 0, sizeof c->swap);
    for (uint64_t j = 0; j < GENO_TILE_SNPS; j++) {
        c->absent[j] = j >= n_snps || !src[j];
        c->src[j] = c->absent[j] ? all_missing : src[j];
        if (j < n_snps && map[j] == DN_GENO_SWAP) c->swap[j / 4] |= (uint8_t)(3u << j % 4 * 2);
    }
}

/* One tile of a column: people [4 * at, 4 * at + n_people), into dst (that person's row, at the column's
 * first byte). */
static void do_tile(const dn_geno_ops *ops, const column *c, uint64_t at, uint64_t n_people, uint8_t *dst,
                    uint64_t stride)
{
    const uint8_t *src[GENO_TILE_SNPS];
    uint8_t edge[GENO_TILE_SNPS][GENO_TILE_MAX], out[TILE_PEOPLE_MAX * 16];
    uint64_t n_bytes = dn_geno_bytes(n_people), out_bytes = dn_geno_bytes(c->n_snps);
    bool whole = n_people == ops->tile_bytes * 4u;
    for (uint64_t j = 0; j < GENO_TILE_SNPS; j++) {
        src[j] = c->absent[j] ? all_missing : c->src[j] + at;
        if (whole || c->absent[j]) continue;
        memset(edge[j], 0, ops->tile_bytes);
        memcpy(edge[j], src[j], n_bytes);
        src[j] = edge[j];
    }
    if (whole && out_bytes == 16) {
        ops->tile(src, c->swap, dst, stride);
        return;
    }
    ops->tile(src, c->swap, out, 16);
    for (uint64_t i = 0; i < n_people; i++) memcpy(dst + i * stride, out + i * 16, out_bytes);
}

/* Asks for the source bytes of a tile before its turn: rows lie far apart, so the CPU does not see them
 * coming (measured: 1.9 times as fast on blocks larger than the cache). */
static void fetch(const uint8_t *const *src, uint64_t n_rows, uint64_t at)
{
    for (uint64_t j = 0; j < n_rows; j++) {
        if (src[j]) __builtin_prefetch(src[j] + at, 0, 2);
    }
}

void dn_geno_transpose_with(const dn_geno_ops *ops, const uint8_t *const *src, const uint8_t *map,
                            uint64_t n_snps, uint64_t n_people, uint8_t *dst, uint64_t dst_stride,
                            uint64_t dst_snp)
{
    column band[BAND_SNPS / GENO_TILE_SNPS];
    const uint64_t tile_people = ops->tile_bytes * 4u;
    for (uint64_t j = 0; j < n_snps; j += BAND_SNPS) {
        size_t n_cols = 0;
        for (uint64_t k = j; k < n_snps && k < j + BAND_SNPS; k += GENO_TILE_SNPS) {
            uint64_t n = n_snps - k < GENO_TILE_SNPS ? n_snps - k : GENO_TILE_SNPS;
            fill_column(&band[n_cols++], src + k, map + k, n);
        }
        for (uint64_t i = 0; i < n_people; i += tile_people) {
            uint64_t n = n_people - i < tile_people ? n_people - i : tile_people;
            uint8_t *to = dst + i * dst_stride + (dst_snp + j) / 4;
            for (size_t k = 0; k < n_cols; k++) {
                /* The same column of the next people or, at the last people, of the next band. */
                uint64_t row = j + k * GENO_TILE_SNPS;
                if (i + n < n_people)
                    fetch(src + row, band[k].n_snps, (i + n) / 4);
                else if (row + BAND_SNPS + GENO_TILE_SNPS <= n_snps)
                    fetch(src + row + BAND_SNPS, GENO_TILE_SNPS, 0);
                do_tile(ops, &band[k], i / 4, n, to + k * 16, dst_stride);
            }
        }
    }
}

/* ---- unpack, pack, count ---- */

void dn_geno_unpack_with(const dn_geno_ops *ops, const uint8_t *row, uint64_t first, uint64_t n, int8_t *out)
{
    uint64_t head = (4 - first % 4) % 4;
    if (head > n) head = n;
    dn_geno_unpack_ref(row, first, head, out);
    uint64_t n_bytes = (n - head) / 4;
    ops->unpack(row + (first + head) / 4, n_bytes, out + head);
    uint64_t done = head + n_bytes * 4;
    dn_geno_unpack_ref(row, first + done, n - done, out + done);
}

uint64_t dn_geno_pack_with(const dn_geno_ops *ops, const int8_t *calls, uint64_t n, uint8_t *row)
{
    enum { BLOCK = 1024 }; /* bytes of the row between two looks at `bad` */
    uint64_t first_bad = n;
    for (uint64_t at = 0; at < n / 4; at += BLOCK) {
        uint64_t n_bytes = n / 4 - at < BLOCK ? n / 4 - at : BLOCK;
        unsigned bad = 0;
        ops->pack(calls + at * 4, n_bytes, row + at, &bad);
        if (bad && first_bad == n)
            first_bad = at * 4 + dn_geno_pack_ref(calls + at * 4, n_bytes * 4, row + at);
    }
    uint64_t done = n / 4 * 4;
    if (done < n) {
        uint64_t bad = dn_geno_pack_ref(calls + done, n - done, row + done / 4);
        if (first_bad == n) first_bad = done + bad;
    }
    return first_bad;
}

uint64_t dn_geno_count_missing_with(const dn_geno_ops *ops, const uint8_t *row, uint64_t n)
{
    uint64_t missing = ops->count_missing(row, n / 4);
    return missing + dn_geno_count_missing_ref(row + n / 4, n % 4);
}

/* ---- the public names ---- */

void dn_geno_transpose(const uint8_t *const *src, const uint8_t *map, uint64_t n_snps, uint64_t n_people,
                       uint8_t *dst, uint64_t dst_stride, uint64_t dst_snp)
{
    dn_geno_transpose_with(chosen(), src, map, n_snps, n_people, dst, dst_stride, dst_snp);
}
void dn_geno_unpack(const uint8_t *row, uint64_t first, uint64_t n, int8_t *out)
{
    dn_geno_unpack_with(chosen(), row, first, n, out);
}
uint64_t dn_geno_pack(const int8_t *calls, uint64_t n, uint8_t *row)
{
    return dn_geno_pack_with(chosen(), calls, n, row);
}
uint64_t dn_geno_count_missing(const uint8_t *row, uint64_t n)
{
    return dn_geno_count_missing_with(chosen(), row, n);
}
