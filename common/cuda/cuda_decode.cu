/* cuda_decode.cu: see cuda_decode.cuh.
 *
 * Floor: a call is 2 bits in and 4 bytes out, so writing x is all that matters: 4 bytes per person and SNP at
 * the memory's rate, and cuBLAS reads them once. A thread has one byte column (4 SNPs) of ROWS people: it
 * reads the 4 SNPs' values once, then per person one byte, and writes one float4; neighbours in a warp have
 * neighbouring byte columns, so reads and writes run along the rows. */
#include "cuda_decode.cuh"

#include <string.h>

#define ROWS 8 /* people of a thread */

void gpu_dosages(const double *mean, const double *sd, const uint64_t *place, uint64_t first, uint64_t n,
                 double scale, float *dosage)
{
    memset(dosage, 0, (n + 3) / 4 * 16 * sizeof *dosage);
    for (uint64_t j = 0; j < n; j++) {
        uint64_t at = place ? place[first + j] : first + j;
        if (dn_snp_is_flat(mean[at], sd[at])) continue;
        for (int d = 0; d < 3; d++) dosage[j * 4 + (uint64_t)d] = (float)((d - mean[at]) / sd[at] * scale);
    }
}

static __device__ __forceinline__ float value(unsigned code, float4 v, float scale)
{
    code &= 3;
    float d = code == 0 ? v.x : code == 1 ? v.y : code == 2 ? v.z : 0.0f;
    return d * scale;
}

/* An item is a byte column of ROWS people. */
static __global__ void k_decode(uint64_t n, const uint8_t *__restrict__ base, uint64_t stride, uint64_t bytes,
                                const uint64_t *__restrict__ index, uint64_t n_rows, uint64_t first_byte,
                                uint64_t n_bytes, const float4 *__restrict__ dosage, float scale,
                                float *__restrict__ x, uint64_t ld)
{
    EACH(i, n)
    {
        uint64_t byte = first_byte + i % n_bytes, row = i / n_bytes * ROWS;
        const float4 *v = dosage + byte * 4;
        float4 v0 = v[0], v1 = v[1], v2 = v[2], v3 = v[3];
        float *out = x + row * ld + i % n_bytes * 4;
        unsigned c[ROWS];
        int rows = n_rows - row < ROWS ? (int)(n_rows - row) : ROWS;
        UNROLL
        for (int r = 0; r < ROWS; r++) { /* all reads first: they are far away */
            c[r] = 255;
            if (r < rows && byte < bytes) c[r] = base[(index ? index[row + r] : row + r) * stride + byte];
        }
        UNROLL
        for (int r = 0; r < ROWS; r++) {
            if (r < rows) {
                *(float4 *)(out + r * ld) =
                    make_float4(value(c[r], v0, scale), value(c[r] >> 2, v1, scale),
                                value(c[r] >> 4, v2, scale), value(c[r] >> 6, v3, scale));
            }
        }
    }
}

dn_status gpu_decode(gpu *g, const packed_rows *rows, uint64_t n_rows, uint64_t first, uint64_t n_snps,
                     const float4 *dosage, float scale, float *x, uint64_t ld, dn_err *err)
{
    uint64_t n_bytes = (n_snps + 3) / 4, groups = (n_rows + ROWS - 1) / ROWS;
    LAUNCH(g, k_decode, n_bytes * groups, rows->base, rows->stride, rows->bytes, rows->index, n_rows,
           first / 4, n_bytes, dosage, scale, x, ld);
    return DN_OK;
}
