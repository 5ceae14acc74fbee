/* isa.c: which instruction set the kernels use (see geno.h). */
#include "geno.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"portable", "avx2", "avx512"};
enum { N_ISA = sizeof names / sizeof names[0] };

static dn_isa best(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return DN_ISA_PORTABLE;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
        return DN_ISA_AVX512;
    }
    return DN_ISA_AVX2;
#else
    return DN_ISA_PORTABLE;
#endif
}

/* What DN_ISA asks for: an index into names, -1 when it is unset or empty, N_ISA when it is no such name. */
static int asked(const char **text)
{
    *text = getenv("DN_ISA");
    if (!*text || !**text) return -1;
    for (int i = 0; i < N_ISA; i++) {
        if (strcmp(*text, names[i]) == 0) return i;
    }
    return N_ISA;
}

dn_isa dn_isa_get(void)
{
    static int decided; /* isa + 1; every thread that decides comes to the same answer */
    int d = __atomic_load_n(&decided, __ATOMIC_RELAXED);
    if (d == 0) {
        const char *text;
        int want = asked(&text), have = (int)best();
        d = (want >= 0 && want < have ? want : have) + 1;
        __atomic_store_n(&decided, d, __ATOMIC_RELAXED);
    }
    return (dn_isa)(d - 1);
}

const char *dn_isa_name(dn_isa isa)
{
    return (unsigned)isa < N_ISA ? names[isa] : "unknown";
}

dn_status dn_isa_check(dn_err *err)
{
    const char *text;
    int want = asked(&text);
    if (want == N_ISA) {
        return dn_fail(err, DN_EUSAGE,
                       "DN_ISA=%s: unknown instruction set; use portable, avx2 or avx512, or unset it", text);
    }
    if (want > (int)best()) {
        return dn_fail(err, DN_EUNSUPPORTED, "DN_ISA=%s: this CPU lacks it (it has %s); unset DN_ISA", text,
                       names[best()]);
    }
    return DN_OK;
}
