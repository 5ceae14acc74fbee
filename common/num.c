/* num.c: numbers as text (see num.h). */
#include "num.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *dn_num_format(double v, char buf[DN_NUM_MAX])
{
    if (isnan(v)) {
        snprintf(buf, DN_NUM_MAX, "nan");
        return buf;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(buf, DN_NUM_MAX, "%.*g", digits, v);
        if (isinf(v) || strtod(buf, NULL) == v) break;
    }
    return buf;
}
