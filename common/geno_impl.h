/* geno_impl.h: what the geno_*.c files and their test share: one table of kernels per instruction set. */
#ifndef DN_GENO_IMPL_H
#define DN_GENO_IMPL_H

#include "geno.h"

/* A third map, for callers inside common/: codes as they are (rows of a sample-major .bed). */
#define DN_GENO_RAW 2

#endif
