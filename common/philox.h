/* philox.h: Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3" (SC'11): four words are a pure function of a counter and a key, so that any
 * thread, or a GPU, makes any draw without the ones before it. For C, C++ and CUDA; nothing else is needed.
 */
#ifndef DN_PHILOX_H
#define DN_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define DN_PHILOX_FN static __host__ __device__ __forceinline__
#else
#define DN_PHILOX_FN static inline
#endif

#define DN_PHILOX_M0 0xD2511F53u
#define DN_PHILOX_M1 0xCD9E8D57u
#define DN_PHILOX_W0 0x9E3779B9u /* what the two words of the key grow by from round to round */
#define DN_PHILOX_W1 0xBB67AE85u

/* c: 4 words, the counter; overwritten with its 4 random words. k0, k1: the key. */
DN_PHILOX_FN void dn_philox4x32(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)DN_PHILOX_M0 * c[0], b = (uint64_t)DN_PHILOX_M1 * c[2];
        c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k0;
        c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)b;
        c[3] = (uint32_t)a;
        k0 += DN_PHILOX_W0;
        k1 += DN_PHILOX_W1;
    }
}

/* ---- the draws of dn_rng's fast kind (rng.h) ---- */
/* Draws 4 * block .. 4 * block + 3 under a key: counter (block's low word, its high word, 0, 0), key (low
 * word, high word). */
DN_PHILOX_FN void dn_philox_block(uint64_t key, uint64_t block, uint32_t out[4])
{
    out[0] = (uint32_t)block;
    out[1] = (uint32_t)(block >> 32);
    out[2] = out[3] = 0;
    dn_philox4x32(out, (uint32_t)key, (uint32_t)(key >> 32));
}

/* A draw's word says keep when (word >> 8) * 2^-24 < p; in whole numbers: word >> 8 < dn_philox_limit(p). */
DN_PHILOX_FN uint32_t dn_philox_limit(double p)
{
    double x = p * 16777216.0; /* exact */
    if (!(x > 0)) return 0;
    if (x >= 16777216.0) return 16777216u;
    uint32_t whole = (uint32_t)x;
    return whole + ((double)whole < x);
}

DN_PHILOX_FN int dn_philox_keep(uint32_t word, uint32_t limit)
{
    return word >> 8 < limit;
}

#endif
