/* plugin.h: the shim's plugin for tests: loads it, sets its environment, and looks after leaks and sentinels.
 */
#ifndef PLUGIN_H
#define PLUGIN_H

#include <dlfcn.h>

#include "backend_cuda.h"
#include "check.h"
#include "shim.h"

static const dn_cuda_plugin *plug;
static const shim_control *shim;
static bool real; /* not the shim */

/* In the shim's place. */
static inline void real_nothing(void) {}
static inline long real_zero(void)
{
    return 0;
}
static inline const char *real_text(void)
{
    return "";
}
static inline void real_long(long n)
{
    (void)n;
}

static inline void load_plugin(void)
{
    const char *path = getenv("SHIM");
    if (!path) fprintf(stderr, "SHIM is not set: run tests/cuda/run.sh\n"), exit(1);
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so) fprintf(stderr, "%s\n", dlerror()), exit(1);
    dn_cuda_plugin_get_fn *get;
    shim_control_get_fn *control;
    *(void **)&get = dlsym(so, DN_CUDA_SYMBOL);
    *(void **)&control = dlsym(so, SHIM_SYMBOL);
    if (!get) fprintf(stderr, "%s is not a plugin\n", path), exit(1);
    static const shim_control nothing = {.reset = real_nothing,
                                         .calls = real_zero,
                                         .kernels = real_zero,
                                         .fail_at = real_long,
                                         .fail_kernel = real_long,
                                         .failed = real_text,
                                         .live = real_zero,
                                         .faults = real_zero,
                                         .fault = real_text,
                                         .last_blocks = real_long};
    plug = get();
    real = !control;
    shim = real ? &nothing : control();
    CHECK(strcmp(plug->abi, DN_CUDA_ABI) == 0 && strcmp(plug->version, DN_VERSION) == 0);
}

/* Sets or (value NULL) unsets a variable of the shim, and starts it anew. */
static inline void shim_set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    shim->reset();
}

/* How many of the devices asked for there are. */
static inline size_t devices_of(size_t asked)
{
    static dn_cuda_device list[16];
    size_t n = 0;
    dn_err err;
    if (plug->devices(list, 16, &n, &err) != DN_OK) return 0;
    return n < asked ? n : asked;
}

/* Nothing is left, and nothing was written where it should not. */
static inline void check_clean(const char *where)
{
    CHECK_MSG(shim->live() == 0, "%s: %ld allocations, streams, events or handles are left", where,
              shim->live());
    CHECK_MSG(shim->faults() == 0, "%s: %s", where, shim->fault());
}

#endif
