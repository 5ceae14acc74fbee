/* rng.h: the generators that upstream draws from, draw for draw (DESIGN section 3, "Same numbers as
 * upstream"). One core, MT19937; on it PyTorch's CPU draws (dn_rng_*) and NumPy's legacy ones (dn_rng_np_*).
 * Dropout, which makes people x SNPs draws per batch, can be drawn from a counter-based generator instead,
 * Philox (philox.h): one draw does not wait for another there. Everything else is MT19937's in both kinds. */
#ifndef DN_RNG_H
#define DN_RNG_H

#include "dn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The whole state: plain data, so that a checkpoint can hold it. next == 624: a new block is due. fast:
 * dn_rng_bernoulli draws number at, at + 1 ... of Philox under key. */
typedef struct {
    uint32_t mt[624];
    uint32_t next;
    uint32_t fast; /* 0 or 1 */
    uint64_t key, at;
} dn_rng;

/* init_genrand(seed mod 2^32), as torch.manual_seed and numpy.random.seed(int) do. Not fast. */
void dn_rng_seed(dn_rng *r, uint64_t seed);
/* From here on Bernoulli draws are the fast kind's, from number 0 on under this key. */
void dn_rng_use_fast(dn_rng *r, uint64_t key);
uint32_t dn_rng_u32(dn_rng *r);
/* 64-bit draw of PyTorch: the first 32-bit draw is the high half. */
uint64_t dn_rng_u64(dn_rng *r);
/* torch random_() for int64: 64-bit & (2^63 - 1). */
int64_t dn_rng_int64(dn_rng *r);
/* torch uniform_(a, b) in float: (u32 & (2^24 - 1)) * 2^-24 * (b - a) + a, n numbers in order. out NULL: only
 * draws. */
void dn_rng_uniform(dn_rng *r, float a, float b, float *out, uint64_t n);
/* torch bernoulli_(p) without MKL: keep[i] = (64-bit & (2^53 - 1)) * 2^-53 < p, n draws in order. Fast kind:
 * keep[i] = (word >> 8) * 2^-24 < p, the word being output (at + i) % 4 of Philox's block (at + i) / 4; at
 * grows by n. */
void dn_rng_bernoulli(dn_rng *r, double p, uint8_t *keep, uint64_t n);
/* The same draws (not the fast kind's) in two halves, of which the second may be made on any thread: the
 * generator's next n words as they lie in its state; and from 2n such words n draws. */
void dn_rng_words(dn_rng *r, uint32_t *word, uint64_t n);
void dn_rng_words_bernoulli(const uint32_t *word, double p, uint8_t *keep, uint64_t n);
/* The fast kind's draws number at .. at + n - 1 under key: what dn_rng_bernoulli gives there. Any thread. */
void dn_rng_fast_bernoulli(uint64_t key, uint64_t at, double p, uint8_t *keep, uint64_t n);
/* torch.randperm(n): for i in 0..n-2 swap r[i] with r[i + u32 mod (n - i)]. (n - 1 draws.) */
void dn_rng_permutation(dn_rng *r, uint64_t n, uint64_t *out);

/* numpy.random.RandomState: random() with 53 bits; integer in [0, max] by masked rejection; shuffle from the
 * end. */
double dn_rng_np_random(dn_rng *r);
uint64_t dn_rng_np_interval(dn_rng *r, uint64_t max);
void dn_rng_np_shuffle(dn_rng *r, uint64_t *v, uint64_t n);

#ifdef __cplusplus
}
#endif

#endif
