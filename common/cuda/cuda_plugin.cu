/* cuda_plugin.cu: the plugin's one exported symbol and its table (backend_cuda.h). */
#include <string.h>

#include "cuda_backend.cuh"
#include "cuda_ops.cuh"

#ifndef DN_CUDA_BUILT /* given by the Makefile */
#define DN_CUDA_BUILT "host shim"
#endif

dn_status gpu_want(size_t asked, int *n, dn_err *err)
{
    int there;
    if (asked == 0) asked = 1;
    UP(gpu_count(&there, err));
    if (there == 0) {
        return dn_fail(
            err, DN_EGPU,
            "GPU: no device: the driver sees none (is CUDA_VISIBLE_DEVICES empty, or was the job given no "
            "GPU?)");
    }
    if (asked > (size_t)there) {
        return dn_fail(err, DN_EGPU, "GPU: %llu devices are asked for, and there %s %d",
                       (unsigned long long)asked, there == 1 ? "is" : "are", there);
    }
    *n = (int)asked;
    return DN_OK;
}

static dn_status devices(dn_cuda_device *list, size_t max, size_t *n, dn_err *err)
{
    int there;
    *n = 0;
    UP(gpu_count(&there, err));
    for (int i = 0; i < there && (size_t)i < max; i++) UP(gpu_look(i, &list[i], err));
    *n = (size_t)there;
    return DN_OK;
}

extern "C" __attribute__((visibility("default"))) const dn_cuda_plugin *dn_cuda_plugin_get(void)
{
    static const dn_cuda_plugin p = {DN_CUDA_ABI,     DN_VERSION,       DN_CUDA_BUILT,
                                     devices,         cuda_backend_new, cuda_fat_new,
                                     cuda_fat_submit, cuda_fat_wait,    cuda_fat_free};
    return &p;
}
