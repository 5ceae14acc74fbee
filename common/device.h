/* device.h: which device a program computes on, and the CUDA plugin behind it (backend_cuda.h,
 * docs/gpu.md).
 *
 * Two steps, for the sake of fork(): every HDF5 file is first opened in a forked child (h5_probe.c), and
 * CUDA does not work in a child of a process that has begun to use it. So dn_device_choose() looks at plugin,
 * driver and devices in a child of its own, before any data are read, and this process stays free of CUDA;
 * dn_device_load() brings the plugin into this process when all input files are open. A child that dies or
 * hangs in a broken driver is a message, not the end of the program. */
#ifndef DN_DEVICE_H
#define DN_DEVICE_H

#include <stdio.h>

#include "backend_cuda.h"
#include "opt.h"

enum { DN_DEVICE_AUTO, DN_DEVICE_CPU, DN_DEVICE_CUDA };
enum { DN_PRECISION_FLOAT32, DN_PRECISION_TF32 };

/* What the command line asks for. */
typedef struct {
    int device, precision;
    uint64_t gpus;
    bool gpus_given;
} dn_device_opts;
#define DN_DEVICE_DEFAULT                                                                                    \
    {                                                                                                        \
        .gpus = 1                                                                                            \
    }
#define DN_DEVICE_OPTS(d)                                                                                    \
    {DN_OPT_GROUP, "Device", 0, NULL, NULL, 0, 0, NULL, NULL},                                               \
        {DN_OPT_CHOICE,                                                                                      \
         "device",                                                                                           \
         0,                                                                                                  \
         &(d).device,                                                                                        \
         "auto|cpu|cuda",                                                                                    \
         0,                                                                                                  \
         0,                                                                                                  \
         "where to compute: auto takes a GPU if it can and says what it took",                               \
         NULL},                                                                                              \
        {DN_OPT_U64,                                                                                         \
         "gpus",                                                                                             \
         0,                                                                                                  \
         &(d).gpus,                                                                                          \
         "N",                                                                                                \
         1,                                                                                                  \
         64,                                                                                                 \
         "GPUs that work together, the first N that are visible",                                            \
         &(d).gpus_given},                                                                                   \
    {                                                                                                        \
        DN_OPT_CHOICE, "precision", 0, &(d).precision, "float32|tf32", 0, 0,                                 \
            "of products on a GPU: tf32 is faster and rounds to 10 bits", NULL                               \
    }

#define DN_DEVICE_MAX 64

typedef struct {
    bool cuda; /* else the CPU */
    bool loud; /* line is to be shown even under --quiet: a GPU was to be expected, and is not used */
    char line[DN_ERR_MAX];              /* what was chosen and why, for the log */
    dn_cuda_options options;            /* for the plugin */
    dn_cuda_device list[DN_DEVICE_MAX]; /* of this machine: n_found were looked at, the first
                                           options.n_devices are used */
    size_t n_found;
    char path[4096];              /* of the plugin; empty: none */
    const dn_cuda_plugin *plugin; /* after dn_device_load() */
} dn_device;

/* Chooses, without beginning to use CUDA in this process. n_threads: for the line. DN_EUSAGE: options that
 * contradict each other. DN_EGPU: what was asked for is not there: which of plugin, its libraries, driver,
 * device, compute capability, number of devices, and what to do. --device auto falls back to the CPU, unless
 * --gpus or
 * --precision tf32 says that a GPU is meant. Takes as long as the driver does: up to a second per device; a
 * driver that does not answer within DNPIPE_CUDA_TIMEOUT (60) seconds counts as none. */
DN_MUST_USE dn_status dn_device_choose(dn_device *d, const dn_device_opts *o, uint64_t n_threads,
                                       dn_err *err);
/* d->cuda: loads the plugin into this process, for good. Call it when all HDF5 inputs are open. DN_EGPU. */
DN_MUST_USE dn_status dn_device_load(dn_device *d, dn_err *err);
/* Least memory, in bytes, that is free on the devices in use, as seen by dn_device_choose(). */
uint64_t dn_device_memory(const dn_device *d);

/* With the plugin loaded: most bytes that were taken on one of the devices in use since dn_device_choose(),
 * CUDA's own share and other processes' included, and least that are free. */
DN_MUST_USE dn_status dn_device_taken(const dn_device *d, uint64_t *taken, uint64_t *left, dn_err *err);

/* For --version: the plugin and the devices of this machine, or why there are none, as lines that begin with
 * "CUDA: " and "GPU ". Asks the driver for 10 seconds at most. */
void dn_device_describe(FILE *f);

#endif
