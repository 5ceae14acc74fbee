/* auxnet.h: the auxiliary net applied to a whole embedding: the fat layer's weight (DESIGN section 3). */
#ifndef DN_AUXNET_H
#define DN_AUXNET_H

#include "dn.h"
#include "model.h"
#include "par.h"

/* fat = tanh(... tanh(e * W1^T) ...), e = emb with each column divided by its norm (a column of norm 0 is 0).
 * emb: M x K doubles, row-major; norm: K; aux[i].weight: n_out x n_in, aux[0].n_in = K, no biases; n_aux = 0:
 * fat = e. fat: M x H floats, H = aux[n_aux-1].n_out (or K). SNPs go in fixed blocks, so that the result does
 * not depend on the number of threads. Scratch: about 1 MiB per thread for 100 units. Sets the BLAS to one
 * thread. */
DN_MUST_USE dn_status dn_auxnet_fat(const double *emb, const double *norm, uint64_t n_snps,
                                    uint64_t n_features, size_t n_aux, const dn_layer *aux, float *fat,
                                    dn_pool *pool, dn_err *err);
/* The plain version, in double. One SNP: e (K, normalised) -> out (H). scratch: 2 x the widest layer. */
void dn_auxnet_ref(const double *e, uint64_t n_features, size_t n_aux, const dn_layer *aux, double *out,
                   double *scratch);
/* Euclidean norm of each column. */
void dn_column_norms(const double *emb, uint64_t n_snps, uint64_t n_features, double *norm);

#endif
