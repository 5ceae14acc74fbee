/* simrng.h: the random numbers of the simulators: splitmix64 (Steele, Lea, Flood 2014), one 64-bit state,
 * good enough for simulated genotypes and weights, and seeded anywhere. */
#ifndef DN_SIMRNG_H
#define DN_SIMRNG_H

#include <stdint.h>

static inline uint64_t next64(uint64_t *s)
{
    uint64_t z = (*s += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Uniform in [0, 1), 53 bits. */
static inline double unit(uint64_t *s)
{
    return (double)(next64(s) >> 11) * 0x1p-53;
}

#endif
