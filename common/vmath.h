/* vmath.h: elementwise functions over arrays, vectorised without intrinsics. Every instruction set gives the
 * same bits: only +, -, *, / and comparisons in one fixed order, no fused multiply-add. */
#ifndef DN_VMATH_H
#define DN_VMATH_H

#include "dn.h"

/* x[i] = tanh(x[i]), relative error below 3e-7; NaN stays NaN. */
void dn_tanh(float *x, size_t n);
void dn_tanh_ref(float *x, size_t n);

#endif
