/* package_impl.h: the checksum that package.c (writing) and package_read.c share; docs/format-package.md
 * defines it. */
#ifndef DN_PACKAGE_IMPL_H
#define DN_PACKAGE_IMPL_H

#include "package.h"

#define DN_PACKAGE_FORMAT "dnpipe package"

/* Runs over root attributes (name, NUL, value) and then datasets (name, NUL, their checksum). */
typedef struct dn_package_sum dn_package_sum;
DN_MUST_USE dn_status dn_package_sum_new(dn_package_sum **out, dn_err *err);
void dn_package_sum_add(dn_package_sum *s, const char *name, const void *value, size_t n);
uint64_t dn_package_sum_get(const dn_package_sum *s);
void dn_package_sum_free(dn_package_sum *s);

/* Index of the first of n values that is not finite; n when all are. */
uint64_t dn_first_bad_f32(const float *v, uint64_t n);
uint64_t dn_first_bad_f64(const double *v, uint64_t n);

#endif
