/* fake_plugin.c: a plugin that is wrong in one way, named by FAKE_CUDA, to see what programs say of it. Built
 * by device.bats; the real one's kernels are tested through the shim (make check-cuda). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend_cuda.h"

static bool is(const char *what)
{
    const char *s = getenv("FAKE_CUDA");
    return s && strcmp(s, what) == 0;
}

static dn_status fail(dn_err *err, const char *text)
{
    if (err) snprintf(err->msg, sizeof err->msg, "%s", text);
    return DN_EGPU;
}

static dn_status devices(dn_cuda_device *list, size_t max, size_t *n, dn_err *err)
{
    static const dn_cuda_device good = {"Fake 9000", 9, 0, 80ull << 30, 79ull << 30, true, ""};
    static const dn_cuda_device bad = {
        "Fake 61", 6, 1, 8ull << 30, 0, false, "compute capability 6.1; this build needs 7.0 or later"};
    *n = 0;
    if (is("driver"))
        return fail(err, "cudaGetDeviceCount: the driver is of CUDA 11.4, this build needs 12.0");
    if (is("crash")) abort();
    if (is("exit")) _exit(0);
    if (is("hang")) sleep(600);
    if (is("none")) return DN_OK;
    if (max > 0) list[0] = is("old") || is("old first") ? bad : good;
    if (max > 1) list[1] = is("old second") ? bad : good;
    *n = is("old") ? 1 : 2;
    return DN_OK;
}

static dn_status backend_new(dn_backend **out, const dn_cuda_options *o, dn_err *err)
{
    (void)o;
    *out = NULL;
    return fail(err, "cudaMalloc on GPU 0, Fake 9000: out of memory");
}

static dn_status fat_new(dn_cuda_fat **out, const dn_fat_problem *p, uint64_t max_people,
                         const dn_cuda_options *o, dn_err *err)
{
    (void)p, (void)max_people, (void)o;
    *out = NULL;
    return fail(err, "cudaMalloc on GPU 0, Fake 9000: out of memory");
}

const dn_cuda_plugin *dn_cuda_plugin_get(void);
const dn_cuda_plugin *dn_cuda_plugin_get(void)
{
    static dn_cuda_plugin p = {.abi = DN_CUDA_ABI,
                               .version = DN_VERSION,
                               .built = "nothing",
                               .devices = devices,
                               .backend_new = backend_new,
                               .fat_new = fat_new};
    if (is("abi")) p.abi = "dnpipe cuda 0";
    if (is("version")) p.version = "0.0.1";
    return is("null") ? NULL : &p;
}
