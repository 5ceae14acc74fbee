/* mainnet.h: the main net of one member in evaluation mode (DESIGN section 3): from the fat layer's sums to
 * probabilities.
 *
 * h = BatchNorm(ReLU(z + b)) layer by layer, running statistics, no dropout; then the output layer, and
 * softmax for classification. Inside in double, sums in a fixed order, so that results do not depend on
 * blocks or threads. */
#ifndef DN_MAINNET_H
#define DN_MAINNET_H

#include "dn.h"
#include "model.h"

typedef struct dn_mainnet dn_mainnet;
/* Prepares a member's layers (weights transposed and in double; nothing of the member is kept). task decides
 * about softmax. DN_EFORMAT: layers that do not fit together; DN_ENUMERIC: a parameter that is not finite, or
 * a negative variance. Messages name layer and parameter, not the member. */
DN_MUST_USE dn_status dn_mainnet_new(dn_mainnet **out, const dn_member *m, dn_task task, dn_err *err);
void dn_mainnet_free(dn_mainnet *net);
uint64_t dn_mainnet_in(const dn_mainnet *net);     /* units of the fat layer */
uint64_t dn_mainnet_hidden(const dn_mainnet *net); /* units of the last hidden layer */
uint64_t dn_mainnet_out(const dn_mainnet *net);    /* C, or 1 */
/* Doubles of scratch that one call needs. */
size_t dn_mainnet_scratch(const dn_mainnet *net);

/* One person. z: dn_mainnet_in() sums of the fat layer without its bias. out: probabilities (C), or the
 * value; hidden: the last hidden layer after BatchNorm, or NULL. scratch: dn_mainnet_scratch() doubles.
 * Thread-safe. */
void dn_mainnet_eval(const dn_mainnet *net, const float *z, float *out, float *hidden, double *scratch);
/* The same written plainly from the member itself, as oracle: no transposition, no scratch layout. scratch:
 * twice the widest layer. */
void dn_mainnet_eval_ref(const dn_member *m, dn_task task, const float *z, double *out, double *hidden,
                         double *scratch);

#endif
