/* num.h: numbers as text that reads back as the same number. */
#ifndef DN_NUM_H
#define DN_NUM_H

#include "dn.h"

#define DN_NUM_MAX 32
/* Shortest decimal form that strtod() reads back as v, in the C locale ("0.001", "1e-05",
 * "3.1716966414879897"); "nan", "inf", "-inf" for the others. Returns buf. */
const char *dn_num_format(double v, char buf[DN_NUM_MAX]);

#endif
