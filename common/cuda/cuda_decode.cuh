/* cuda_decode.cuh: packed rows on a device, decoded and standardised. */
#ifndef DN_CUDA_DECODE_CUH
#define DN_CUDA_DECODE_CUH

#include "cuda_rt.cuh"

/* Packed rows (geno.h) on the device: row i starts at base + (index ? index[i] : i) * stride; calls past 4 *
 * bytes are missing. */
typedef struct {
    const uint8_t *base;
    uint64_t stride, bytes;
    const uint64_t *index;
} packed_rows;

/* What the codes of a SNP count: .x, .y, .z for 0, 1, 2 copies; missing: 0. On the host: 4 floats per SNP, n
 * rounded up to whole bytes (the rest 0). */
void gpu_dosages(const double *mean, const double *sd, const uint64_t *place, uint64_t first, uint64_t n,
                 double scale, float *dosage);

/* x (n_rows x n_snps rounded up to whole bytes, row stride ld floats, ld % 4 == 0) = values of the calls
 * [first, first + n_snps) of each row, times scale. first % 4 == 0; dosage: of all SNPs, in whole bytes. */
dn_status gpu_decode(gpu *g, const packed_rows *rows, uint64_t n_rows, uint64_t first, uint64_t n_snps,
                     const float4 *dosage, float scale, float *x, uint64_t ld, dn_err *err);

#endif
