/* shim.h: what tests ask of the shim beside the plugin. Found by dlsym() in backend_shim.so.
 *
 * The environment is read at the first call and at shim_reset():
 * - DN_SHIM_DEVICES=N: devices there are (1)
 * - DN_SHIM_CAPABILITY=X.Y: theirs (9.0); older than 8.0: they have no kernel image
 * - DN_SHIM_DRIVER=missing|old
 * - DN_SHIM_FORBIDDEN=1: their owner has forbidden computing on them
 * - DN_SHIM_MEMORY=BYTES: of each device (8 GiB)
 * - DN_SHIM_LAZY=N: 0: everything runs at once; 1: nothing before somebody waits for it (the default); 2 to
 *   127: but the N-th stream (modulo their number) runs at once; more: streams run ahead at random, N is the
 *   seed
 * - DN_SHIM_FAIL=N: the N-th call fails
 * - DN_SHIM_FAIL_KERNEL=N: the N-th kernel that runs breaks its device: seen at the next call that waits */
#ifndef SHIM_H
#define SHIM_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    void (*reset)(void); /* reads the environment again; counts from 0; a broken device is whole */
    long (*calls)(void); /* calls of CUDA and cuBLAS that can fail, since reset */
    long (*kernels)(void);
    void (*fail_at)(long call);       /* as DN_SHIM_FAIL, counted from now; 0: never */
    void (*fail_kernel)(long n);      /* as DN_SHIM_FAIL_KERNEL, counted from now */
    const char *(*failed)(void);      /* the call that was made to fail last, since reset; "" for none */
    long (*live)(void);               /* allocations, streams, events and handles that were not given back */
    long (*faults)(void);             /* damaged sentinels and misuse seen so far; looks at all sentinels */
    const char *(*fault)(void);       /* the first of them, in words */
    void (*last_blocks)(long n);      /* launches play their last n blocks alone; 0: all */
    unsigned long long (*peak)(void); /* most bytes that a device held at once, since reset */
} shim_control;

#define SHIM_SYMBOL "shim_control_get"
typedef const shim_control *shim_control_get_fn(void);

#ifdef __cplusplus
}
#endif

#endif
