/* fat_kernel.c: the loops of fat_loops.h for each instruction set. */
#include "fat_kernel.h"

#include <string.h>

#define FAT_VEC     16
#define FAT_NAME(x) portable_##x
#define FAT_TARGET
#include "fat_loops.h"

#if defined(__x86_64__)
#define FAT_VEC     32
#define FAT_NAME(x) avx2_##x
#define FAT_TARGET  __attribute__((target("avx2,bmi2")))
#include "fat_loops.h"

#define FAT_VEC     64
#define FAT_NAME(x) avx512_##x
#define FAT_TARGET  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,bmi2")))
#include "fat_loops.h"
#endif

fat_kernels fat_kernels_for(dn_isa isa)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("bmi2")) isa = DN_ISA_PORTABLE; /* same bits, only slower */
    if (isa == DN_ISA_AVX512) return (fat_kernels){avx512_build, avx512_add, avx512_drain};
    if (isa == DN_ISA_AVX2) return (fat_kernels){avx2_build, avx2_add, avx2_drain};
#endif
    (void)isa;
    return (fat_kernels){portable_build, portable_add, portable_drain};
}
