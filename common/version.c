/* version.c: what --version says. Apart from log.c because it is the one place that asks every library its
 * version. */
#include "log.h"

#include <stdio.h>

#include <xxhash.h>
#include <yaml.h>
#include <zip.h>
#include <zstd.h>

#include "device.h"
#include "geno.h"
#include "h5.h"

/* Only OpenBLAS tells its build; any other CBLAS is named by what the build asked for. A program that does
 * not multiply with it is not linked to it. */
__attribute__((weak)) char *openblas_get_config(void);
__attribute__((weak)) void cblas_sgemm(void);

#ifndef DN_BLAS_NAME
#define DN_BLAS_NAME "CBLAS"
#endif

void dn_print_version(void)
{
    char h5[32];
    dn_h5_version(h5);
    printf("%s (dnpipe) %s\n", dn_log_prog(), DN_VERSION);
#if defined(__clang__)
    printf("compiler: clang %s\n", __clang_version__);
#else
    printf("compiler: gcc %s\n", __VERSION__);
#endif
    printf("instruction set: %s\n", dn_isa_name(dn_isa_get()));
    printf("libraries: HDF5 %s, zstd %s, libzip %s, libyaml %s, xxHash %u.%u.%u\n", h5, ZSTD_versionString(),
           zip_libzip_version(), yaml_get_version_string(), XXH_versionNumber() / 10000,
           XXH_versionNumber() / 100 % 100, XXH_versionNumber() % 100);
    printf("BLAS: %s\n", !cblas_sgemm          ? "not used by this program"
                         : openblas_get_config ? openblas_get_config()
                                               : DN_BLAS_NAME);
    dn_device_describe(stdout);
}
