/* cuda_rt.cu: see cuda_rt.cuh. */
#include "cuda_rt.cuh"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef DN_CUDA_MIN_CC /* oldest compute capability that there are kernels for, 80 for 8.0 */
#define DN_CUDA_MIN_CC 80
#endif

/* "cudaMalloc(p, n)" -> "cudaMalloc" */
static int name_length(const char *call)
{
    const char *p = strchr(call, '(');
    return (int)(p ? (size_t)(p - call) : strlen(call));
}

static dn_status fail(const gpu *g, const char *call, const char *why, dn_err *err)
{
    if (!g) return dn_fail(err, DN_EGPU, "GPU: %.*s: %s", name_length(call), call, why);
    return dn_fail(err, DN_EGPU, "GPU: %.*s on device %d (%s): %s", name_length(call), call, g->id, g->name,
                   why);
}

dn_status gpu_cuda_status(const gpu *g, cudaError_t e, const char *call, dn_err *err)
{
    if (e == cudaSuccess) return DN_OK;
    (void)cudaGetLastError(); /* it is told now: not once more by the next launch */
    return fail(g, call, cudaGetErrorString(e), err);
}

dn_status gpu_blas_status(const gpu *g, cublasStatus_t st, const char *call, dn_err *err)
{
    return st == CUBLAS_STATUS_SUCCESS ? DN_OK : fail(g, call, cublasGetStatusString(st), err);
}

unsigned gpu_blocks(const gpu *g, uint64_t n)
{
    uint64_t blocks = (n + GPU_THREADS - 1) / GPU_THREADS;
    return blocks < g->max_blocks ? (unsigned)blocks : g->max_blocks;
}

/* ---- devices ---- */

/* Whether the build has code for a device is asked of this kernel. */
static __global__ void k_probe(uint64_t n, float *x)
{
    EACH(i, n) x[i] = 0;
}

dn_status gpu_count(int *n, dn_err *err)
{
    int driver = 0;
    *n = 0;
    CU(NULL, cudaDriverGetVersion(&driver));
    if (driver == 0) {
        return dn_fail(
            err, DN_EGPU,
            "GPU: there is no NVIDIA driver on this machine (libcuda.so.1 is not there or does not load): "
            "use a machine with a GPU, or --device cpu");
    }
    cudaError_t e = cudaGetDeviceCount(n);
    if (e == cudaErrorNoDevice) {
        (void)cudaGetLastError();
        *n = 0;
        return DN_OK;
    }
    if (e == cudaErrorInsufficientDriver) {
        (void)cudaGetLastError();
        return dn_fail(
            err, DN_EGPU,
            "GPU: the NVIDIA driver is too old: it supports CUDA %d.%d, this build needs %d.%d or later",
            driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    }
    return gpu_cuda_status(NULL, e, "cudaGetDeviceCount", err);
}

/* May we have it? Makes a context on it. */
static dn_status try_device(const gpu *g, dn_cuda_device *d, dn_err *err)
{
    size_t mem_free = 0, mem_total = 0;
    cudaFuncAttributes attr;
    int mode = cudaComputeModeDefault;
    CU(g, cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, g->id));
    if (mode == cudaComputeModeProhibited) {
        return dn_fail(err, DN_EGPU, "its owner has forbidden computing on it (compute mode \"prohibited\")");
    }
    CU(g, cudaSetDevice(g->id));
    CU(g, cudaMemGetInfo(&mem_free, &mem_total));
    d->memory_free = mem_free;
    d->memory_total = mem_total;
    CU(g, cudaFuncGetAttributes(&attr, (const void *)k_probe));
    return DN_OK;
}

dn_status gpu_look(int id, dn_cuda_device *d, dn_err *err)
{
    cudaDeviceProp prop;
    memset(d, 0, sizeof *d);
    CU(NULL, cudaGetDeviceProperties(&prop, id));
    snprintf(d->name, sizeof d->name, "%.127s", prop.name);
    d->major = prop.major;
    d->minor = prop.minor;
    d->memory_total = prop.totalGlobalMem;
    if (prop.major * 10 + prop.minor < DN_CUDA_MIN_CC) {
        snprintf(d->why_not, sizeof d->why_not, "compute capability %d.%d; this build needs %d.%d or later",
                 prop.major, prop.minor, DN_CUDA_MIN_CC / 10, DN_CUDA_MIN_CC % 10);
        return DN_OK;
    }
    gpu g = {};
    g.id = id;
    snprintf(g.name, sizeof g.name, "%.127s", d->name);
    dn_err why;
    why.msg[0] = 0;
    d->usable = try_device(&g, d, &why) == DN_OK;
    if (!d->usable) snprintf(d->why_not, sizeof d->why_not, "%.*s", (int)sizeof d->why_not - 1, why.msg);
    return DN_OK;
}

dn_status gpu_use(const gpu *g, dn_err *err)
{
    CU(g, cudaSetDevice(g->id));
    return DN_OK;
}

dn_status gpu_open(gpu *g, int id, uint64_t memory, bool tf32, dn_err *err)
{
    memset(g, 0, sizeof *g);
    g->id = id;
    g->limit = memory;
    dn_cuda_device d;
    cudaDeviceProp prop;
    UP(gpu_look(id, &d, err));
    memcpy(g->name, d.name, sizeof g->name);
    if (!d.usable)
        return dn_fail(err, DN_EGPU, "GPU: device %d (%s) cannot be used: %s", id, d.name, d.why_not);
    g->total = d.memory_total;
    UP(gpu_use(g, err));
    g->open = true;
    CU(g, cudaGetDeviceProperties(&prop, id));
    g->max_blocks =
        (unsigned)prop.multiProcessorCount * 16; /* two rounds of 2,048 threads per multiprocessor */
    CU(g, cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking));
    CU(g, cudaStreamCreateWithFlags(&g->copy, cudaStreamNonBlocking));
    CU(g, cudaEventCreateWithFlags(&g->mark, cudaEventDisableTiming));
    BLAS(g, cublasCreate(&g->blas));
    BLAS(g, cublasSetStream(g->blas, g->stream));
    BLAS(g, cublasSetMathMode(g->blas, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH));
    for (int i = 0; i < GPU_RING; i++) {
        CU(g, cudaHostAlloc((void **)&g->ring[i].p, GPU_PINNED, cudaHostAllocDefault));
        CU(g, cudaEventCreateWithFlags(&g->ring[i].done, cudaEventDisableTiming));
    }
    CU(g, cudaHostAlloc((void **)&g->back, GPU_PINNED, cudaHostAllocDefault));
    return DN_OK;
}

void gpu_quiet(gpu *g)
{
    (void)cudaSetDevice(g->id);
    if (g->copy) (void)cudaStreamSynchronize(g->copy);
    if (g->stream) (void)cudaStreamSynchronize(g->stream);
}

/* Errors are not looked at: either one was reported before, or the work is done. */
void gpu_close(gpu *g)
{
    if (!g->open) return;
    gpu_quiet(g);
    while (g->n_taken) (void)cudaFree(g->taken[--g->n_taken].p);
    free(g->taken);
    for (int i = 0; i < GPU_RING; i++) {
        if (g->ring[i].p) (void)cudaFreeHost(g->ring[i].p);
        if (g->ring[i].done) (void)cudaEventDestroy(g->ring[i].done);
    }
    if (g->back) (void)cudaFreeHost(g->back);
    if (g->blas) (void)cublasDestroy(g->blas);
    if (g->mark) (void)cudaEventDestroy(g->mark);
    if (g->copy) (void)cudaStreamDestroy(g->copy);
    if (g->stream) (void)cudaStreamDestroy(g->stream);
    (void)cudaGetLastError();
    memset(g, 0, sizeof *g);
}

dn_status gpu_sync(gpu *g, dn_err *err)
{
    CU(g, cudaStreamSynchronize(g->stream));
    return DN_OK;
}

/* ---- memory ---- */

dn_status gpu_room(gpu *g, uint64_t *bytes, dn_err *err)
{
    size_t mem_free = 0, mem_total = 0;
    UP(gpu_use(g, err));
    CU(g, cudaMemGetInfo(&mem_free, &mem_total));
    *bytes = mem_free;
    if (g->limit && *bytes > g->limit - g->used) *bytes = g->limit - g->used;
    return DN_OK;
}

dn_status gpu_alloc_bytes(gpu *g, void **p, uint64_t bytes, const char *what, dn_err *err)
{
    *p = NULL;
    if (bytes == 0) bytes = 1;
    UP(gpu_use(g, err));
    if (g->limit && bytes > g->limit - g->used) {
        return dn_fail(
            err, DN_EGPU,
            "GPU: %s need %llu bytes on device %d (%s), and %llu of the %llu allowed are taken: allow more, "
            "or use smaller batches or blocks",
            what, (unsigned long long)bytes, g->id, g->name, (unsigned long long)g->used,
            (unsigned long long)g->limit);
    }
    UP(dn_grow(&g->taken, &g->cap_taken, g->n_taken + 1, sizeof *g->taken, "list of allocations", err));
    cudaError_t e = cudaMalloc(p, bytes);
    if (e != cudaSuccess) {
        *p = NULL;
        dn_status status = gpu_cuda_status(g, e, "cudaMalloc", err);
        if (!err) return status;
        size_t n = strlen(err->msg);
        snprintf(err->msg + n, sizeof err->msg - n, ": %s need %llu bytes beside the %llu taken", what,
                 (unsigned long long)bytes, (unsigned long long)g->used);
        return status;
    }
    g->taken[g->n_taken].p = *p;
    g->taken[g->n_taken++].bytes = bytes;
    g->used += bytes;
    return DN_OK;
}

void gpu_free(gpu *g, void *p)
{
    if (!p) return;
    for (size_t i = 0; i < g->n_taken; i++) {
        if (g->taken[i].p != p) continue;
        gpu_quiet(g); /* cudaFree() waits too, but that is nowhere promised */
        (void)cudaFree(p);
        g->used -= g->taken[i].bytes;
        g->taken[i] = g->taken[--g->n_taken];
        return;
    }
}

dn_status gpu_scratch_bytes(gpu *g, int which, void **p, uint64_t bytes, const char *what, dn_err *err)
{
    *p = NULL;
    if (bytes > g->scratch[which].bytes || !g->scratch[which].p) {
        gpu_free(g, g->scratch[which].p);
        g->scratch[which].p = NULL;
        g->scratch[which].bytes = 0;
        UP(gpu_alloc_bytes(g, &g->scratch[which].p, bytes, what, err));
        g->scratch[which].bytes = bytes;
    }
    *p = g->scratch[which].p;
    return DN_OK;
}

/* ---- copies ---- */

/* The next pinned buffer, free to be filled. */
static dn_status ring_take(gpu *g, unsigned *slot, dn_err *err)
{
    *slot = g->next;
    g->next = (g->next + 1) % GPU_RING;
    CU(g, cudaEventSynchronize(g->ring[*slot].done));
    return DN_OK;
}

static dn_status ring_send(gpu *g, unsigned slot, cudaStream_t s, void *dst, uint64_t bytes, dn_err *err)
{
    CU(g, cudaMemcpyAsync(dst, g->ring[slot].p, bytes, cudaMemcpyHostToDevice, s));
    CU(g, cudaEventRecord(g->ring[slot].done, s));
    return DN_OK;
}

dn_status gpu_upload(gpu *g, cudaStream_t s, void *dst, const void *host, uint64_t bytes, dn_err *err)
{
    UP(gpu_use(g, err));
    for (uint64_t at = 0; at < bytes; at += GPU_PINNED) {
        uint64_t n = bytes - at < GPU_PINNED ? bytes - at : GPU_PINNED;
        unsigned slot;
        UP(ring_take(g, &slot, err));
        memcpy(g->ring[slot].p, (const uint8_t *)host + at, n);
        UP(ring_send(g, slot, s, (uint8_t *)dst + at, n, err));
    }
    return DN_OK;
}

static const uint8_t *row_at(const gpu_rows *r, uint64_t i)
{
    return (r->rows ? r->rows[i] : r->base + i * r->stride) + r->offset;
}

dn_status gpu_upload_rows(gpu *g, cudaStream_t s, uint8_t *dst, uint64_t dst_stride, gpu_rows from,
                          uint64_t n, uint64_t bytes, dn_err *err)
{
    if (bytes == 0) return DN_OK;
    UP(gpu_use(g, err));
    if (dst_stride > GPU_PINNED) { /* long rows one by one */
        for (uint64_t i = 0; i < n; i++)
            UP(gpu_upload(g, s, dst + i * dst_stride, row_at(&from, i), bytes, err));
        return DN_OK;
    }
    uint64_t at_once = GPU_PINNED / dst_stride;
    for (uint64_t i = 0; i < n; i += at_once) {
        uint64_t k = n - i < at_once ? n - i : at_once;
        unsigned slot;
        UP(ring_take(g, &slot, err));
        uint8_t *p = g->ring[slot].p;
        for (uint64_t r = 0; r < k; r++) memcpy(p + r * dst_stride, row_at(&from, i + r), bytes);
        UP(ring_send(g, slot, s, dst + i * dst_stride, k * dst_stride, err));
    }
    return DN_OK;
}

dn_status gpu_download(gpu *g, void *host, const void *src, uint64_t bytes, dn_err *err)
{
    UP(gpu_use(g, err));
    for (uint64_t at = 0; at < bytes; at += GPU_PINNED) {
        uint64_t n = bytes - at < GPU_PINNED ? bytes - at : GPU_PINNED;
        CU(g, cudaMemcpyAsync(g->back, (const uint8_t *)src + at, n, cudaMemcpyDeviceToHost, g->stream));
        CU(g, cudaStreamSynchronize(g->stream));
        memcpy((uint8_t *)host + at, g->back, n);
    }
    return DN_OK;
}

/* ---- several devices ---- */

dn_status gpu_after(gpu *g, gpu *other, dn_err *err)
{
    if (g == other) return DN_OK;
    UP(gpu_use(other, err));
    CU(other, cudaEventRecord(other->mark, other->stream));
    UP(gpu_use(g, err));
    CU(g, cudaStreamWaitEvent(g->stream, other->mark, 0));
    return DN_OK;
}

dn_status gpu_copy_from(gpu *g, void *dst, gpu *other, const void *src, uint64_t bytes, dn_err *err)
{
    UP(gpu_use(g, err));
    CU(g, cudaMemcpyPeerAsync(dst, g->id, src, other->id, bytes, g->stream));
    return DN_OK;
}

dn_status gpu_peer(gpu *g, const gpu *other, dn_err *err)
{
    int can = 0;
    UP(gpu_use(g, err));
    CU(g, cudaDeviceCanAccessPeer(&can, g->id, other->id));
    if (!can) return DN_OK;
    cudaError_t e = cudaDeviceEnablePeerAccess(other->id, 0);
    if (e == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
        return DN_OK;
    }
    return gpu_cuda_status(g, e, "cudaDeviceEnablePeerAccess", err);
}

/* ---- products ---- */

dn_status gpu_multiply(gpu *g, const gpu_product *p, dn_err *err)
{
    const uint64_t sizes[] = {p->m, p->n, p->k, p->lda, p->ldb, p->ldc, p->count};
    for (uint64_t s : sizes) {
        if (s > INT_MAX) return dn_fail(err, DN_EGPU, "GPU: a product of size %llu", (unsigned long long)s);
    }
    if (p->m == 0 || p->n == 0 || p->count == 0) return DN_OK;
    const float one = 1;
    cublasOperation_t ta = p->ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = p->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    int m = (int)p->m, n = (int)p->n, k = (int)p->k, lda = (int)p->lda, ldb = (int)p->ldb, ldc = (int)p->ldc;
    if (p->count == 1) {
        BLAS(g, cublasSgemm(g->blas, ta, tb, m, n, k, &one, p->a, lda, p->b, ldb, &p->beta, p->c, ldc));
    } else {
        BLAS(g, cublasSgemmStridedBatched(g->blas, ta, tb, m, n, k, &one, p->a, lda, (long long)p->stride_a,
                                          p->b, ldb, (long long)p->stride_b, &p->beta, p->c, ldc,
                                          (long long)p->stride_c, (int)p->count));
    }
    return DN_OK;
}
