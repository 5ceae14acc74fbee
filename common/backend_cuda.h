/* backend_cuda.h: the CUDA backend is a plugin, backend_cuda.so, that is loaded when a program is asked for a
 * GPU: one installation serves machines with and without one. This header is all that the programs and the
 * plugin know of each other; no CUDA header is needed for it. */
#ifndef DN_BACKEND_CUDA_H
#define DN_BACKEND_CUDA_H

#include "backend.h"
#include "fat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with every change of this header or of one it includes: a plugin of another build is refused. */
#define DN_CUDA_ABI "dnpipe cuda 1"

/* A device of this machine, usable or not. */
typedef struct {
    char name[128]; /* "NVIDIA H200" */
    int major, minor;
    uint64_t memory_total, memory_free; /* bytes */
    bool usable;
    char why_not[256]; /* if not usable: "compute capability 6.1; this build needs 7.0 or later" */
} dn_cuda_device;

typedef struct {
    size_t n_devices; /* devices 0 .. n_devices - 1 work together */
    bool tf32;        /* products in TF32 instead of full float32 */
    uint64_t memory;  /* bytes to use on each device at most; 0: what is free */
} dn_cuda_options;

/* The fat layer of prediction on the GPU: dn_fat_forward() in two halves, so that the host can work on one
 * block while the devices work on the next. */
typedef struct dn_cuda_fat dn_cuda_fat;

typedef struct {
    const char *abi;     /* DN_CUDA_ABI */
    const char *version; /* DN_VERSION */
    const char *built;   /* "CUDA 13.0; sm_80 sm_90 and PTX compute_80" */
    /* Fills list[0 .. min(*n, max)). No driver, or one too old: DN_EGPU with the call and the reason. No
     * device: *n = 0. */
    dn_status (*devices)(dn_cuda_device *list, size_t max, size_t *n, dn_err *err);
    /* Training (backend.h). Every error is DN_EGPU (DN_ENOMEM for host memory) with call, device and reason.
     */
    dn_status (*backend_new)(dn_backend **out, const dn_cuda_options *o, dn_err *err);
    /* p is copied to the devices; blocks have at most max_people rows. DN_EGPU if that does not fit. */
    dn_status (*fat_new)(dn_cuda_fat **out, const dn_fat_problem *p, uint64_t max_people,
                         const dn_cuda_options *o, dn_err *err);
    /* Takes a block as dn_fat_forward() does; rows may be reused on return. At most two blocks are under way:
     * a third is refused (DN_EINTERNAL). DN_ENUMERIC, from fat_new: a weight that is not finite. */
    dn_status (*fat_submit)(dn_cuda_fat *f, const uint8_t *rows, uint64_t row_bytes, uint64_t n_people,
                            dn_err *err);
    /* Waits for the oldest block submitted; z (host): its n_people x total_units. */
    dn_status (*fat_wait)(dn_cuda_fat *f, float *z, dn_err *err);
    void (*fat_free)(dn_cuda_fat *f);
} dn_cuda_plugin;

/* The plugin's one exported symbol. */
#define DN_CUDA_SYMBOL "dn_cuda_plugin_get"
typedef const dn_cuda_plugin *dn_cuda_plugin_get_fn(void);

#ifdef __cplusplus
}
#endif

#endif
