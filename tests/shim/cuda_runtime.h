/* cuda_runtime.h of the shim: the part of CUDA's runtime that common/cuda/ uses, for a plain C++ compiler, so
 * that the very same sources run on the host (shim.cpp says how). Names and numbers are CUDA's. */
#ifndef SHIM_CUDA_RUNTIME_H
#define SHIM_CUDA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include <functional>

#define DN_SHIM        1
#define CUDART_VERSION 13000
#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))

typedef enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorIllegalAddress = 700,
    cudaErrorPeerAccessAlreadyEnabled = 704,
    cudaErrorLaunchFailure = 719,
    cudaErrorUnknown = 999
} cudaError_t;

typedef enum {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice
} cudaMemcpyKind;
typedef enum { cudaDevAttrComputeMode = 20 } cudaDeviceAttr;
enum { cudaComputeModeDefault = 0, cudaComputeModeProhibited = 2 };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0 };

typedef struct shim_stream *cudaStream_t;
typedef struct shim_event *cudaEvent_t;

struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
    size_t totalGlobalMem;
};
struct cudaFuncAttributes {
    int numRegs;
};
struct uint3 {
    unsigned x, y, z;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static inline float4 make_float4(float x, float y, float z, float w)
{
    return float4{x, y, z, w};
}

/* Of the thread that is being played. */
extern thread_local uint3 blockIdx, threadIdx, gridDim, blockDim;

cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr, int device);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *kernel);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total);
cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind, cudaStream_t s);
cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t bytes,
                                cudaStream_t s);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t e);

/* ---- kernels ---- */
/* Plays body for every thread of the launch, when the stream comes to it. */
void shim_run(unsigned blocks, unsigned threads, cudaStream_t s, std::function<void()> body);
/* A kernel's pointer must lie in a living allocation of the stream's device. */
void shim_arg(const void *p, cudaStream_t s);
template <class T> static inline void shim_seen(T *p, cudaStream_t s)
{
    shim_arg((const void *)p, s);
}
template <class T> static inline void shim_seen(const T &, cudaStream_t) {}
template <class F, class... A>
static inline void shim_launch(unsigned blocks, unsigned threads, cudaStream_t s, F kernel, A... args)
{
    (shim_seen(args, s), ...);
    shim_run(blocks, threads, s, [=] { kernel(args...); });
}

#endif
