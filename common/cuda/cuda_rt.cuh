/* cuda_rt.cuh: one device as the plugin sees it: streams, cuBLAS handle, memory, copies, launches, and the
 * one way in which errors of CUDA and cuBLAS become a dn_status.
 *
 * Every call goes through CU() or BLAS(), which return DN_EGPU with the call, the device and the reason.
 * Kernels run after the call that started them has returned; what goes wrong in one is reported by the next
 * call that waits for the device, and that call's name is then the one in the message. Functions return at
 * the first error; what they had taken belongs to a gpu, and gpu_close() gives it back. Memory, streams and
 * handle are used with the gpu's device as the current one: functions that take a gpu see to that themselves
 * (gpu_use()), kernels are launched after it.
 *
 * Results must be the same bytes on the same device: no kernel adds floats atomically, sums have a fixed
 * order, and a device has one cuBLAS handle on one stream. */
#ifndef DN_CUDA_RT_CUH
#define DN_CUDA_RT_CUH

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "backend_cuda.h"

#define GPU_RING    4                   /* pinned buffers of an upload */
#define GPU_PINNED  ((uint64_t)8 << 20) /* bytes of each */
#define GPU_THREADS 256                 /* of a block */

/* Growing buffers of a device, by what is in them. */
enum {
    GPU_COL_PARTS,  /* sums of columns, per chunk of rows */
    GPU_COL_PARTS2, /* a second set of them */
    GPU_COLS,       /* per column */
    GPU_HOST_ARG,   /* labels, targets, kept units */
    GPU_ROW_OUT,    /* losses by row */
    GPU_PROB,       /* probabilities */
    GPU_PARTS,      /* products by chunk of SNPs */
    GPU_SUMS,       /* their sums */
    GPU_GRAD,       /* gradients of a slice's activations, two layers */
    GPU_GRAD2,
    GPU_SCRATCH
};

struct gpu {
    int id;
    bool open;
    char name[128];
    cudaStream_t stream, copy; /* work; uploads that overlap with it */
    cudaEvent_t mark;          /* see gpu_after() */
    cublasHandle_t blas;
    unsigned max_blocks;         /* of a launch: kernels walk over their items */
    uint64_t total, limit, used; /* bytes: of the device; ours at most (0: no limit); taken */
    struct {
        void *p;
        uint64_t bytes;
    } * taken; /* what gpu_alloc() gave */
    size_t n_taken, cap_taken;
    struct {
        uint8_t *p;
        cudaEvent_t done; /* the copy out of it */
    } ring[GPU_RING];
    unsigned next;
    uint8_t *back; /* pinned: downloads */
    struct {
        void *p;
        uint64_t bytes;
    } scratch[GPU_SCRATCH];
};

dn_status gpu_cuda_status(const gpu *g, cudaError_t e, const char *call, dn_err *err);
dn_status gpu_blas_status(const gpu *g, cublasStatus_t st, const char *call, dn_err *err);

/* Runs a call on device g (NULL: none yet); returns from the function if it fails. */
#define CU(g, call)                                                                                          \
    do {                                                                                                     \
        cudaError_t cu_ = (call);                                                                            \
        if (cu_ != cudaSuccess) return gpu_cuda_status(g, cu_, #call, err);                                  \
    } while (0)
#define BLAS(g, call)                                                                                        \
    do {                                                                                                     \
        cublasStatus_t blas_ = (call);                                                                       \
        if (blas_ != CUBLAS_STATUS_SUCCESS) return gpu_blas_status(g, blas_, #call, err);                    \
    } while (0)
/* DN_TRY() for C++: returns. */
#define UP(expr)                                                                                             \
    do {                                                                                                     \
        dn_status up_ = (expr);                                                                              \
        if (up_ != DN_OK) return up_;                                                                        \
    } while (0)

/* ---- kernels ---- */
/* A kernel's first argument is its number of items; its body is one EACH loop, an item per turn. The only
 * place where the plugin for GPUs and the one for tests (tests/shim) part ways is here. */
#define EACH(i, n)                                                                                           \
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                              \
         i += (uint64_t)gridDim.x * blockDim.x)
#ifdef DN_SHIM
#define GPU_LAUNCH_(blocks, g, kernel, ...) shim_launch(blocks, GPU_THREADS, (g)->stream, kernel, __VA_ARGS__)
#define UNROLL
#else
#define GPU_LAUNCH_(blocks, g, kernel, ...) kernel<<<blocks, GPU_THREADS, 0, (g)->stream>>>(__VA_ARGS__)
#define UNROLL                              _Pragma("unroll 8") /* before a loop that adds up: loads go ahead of the sum */
#endif
/* Starts kernel(n, ...) on g's stream; n == 0: nothing to do. */
#define LAUNCH(g, kernel, n, ...)                                                                            \
    do {                                                                                                     \
        uint64_t items_ = (n);                                                                               \
        if (items_ == 0) break;                                                                              \
        GPU_LAUNCH_(gpu_blocks(g, items_), g, kernel, items_, __VA_ARGS__);                                  \
        cudaError_t cu_ = cudaGetLastError();                                                                \
        if (cu_ != cudaSuccess) return gpu_cuda_status(g, cu_, "launch of " #kernel, err);                   \
    } while (0)
unsigned gpu_blocks(const gpu *g, uint64_t n);

/* ---- devices ---- */
dn_status gpu_count(int *n, dn_err *err);
/* What there is to know about device id. d->usable and why_not: capability too old, no kernels for it in this
 * build, forbidden or taken by its owner. */
dn_status gpu_look(int id, dn_cuda_device *d, dn_err *err);
/* *g is zeroed first; whatever happens, gpu_close() it. memory: bytes to use at most, 0: no limit of ours.
 * DN_EGPU also when the device is not usable. */
dn_status gpu_open(gpu *g, int id, uint64_t memory, bool tf32, dn_err *err);
void gpu_close(gpu *g);
void gpu_quiet(gpu *g);                       /* waits until it has nothing to do, whatever happens */
dn_status gpu_use(const gpu *g, dn_err *err); /* makes it the current device */
dn_status gpu_sync(gpu *g, dn_err *err);
/* How much more could be allocated. */
dn_status gpu_room(gpu *g, uint64_t *bytes, dn_err *err);

/* ---- memory ---- */
/* *p = NULL on failure. Contents are anything. `what` is for the message. bytes == 0: a byte. */
dn_status gpu_alloc_bytes(gpu *g, void **p, uint64_t bytes, const char *what, dn_err *err);
template <class T> static inline dn_status gpu_alloc(gpu *g, T **p, uint64_t n, const char *what, dn_err *err)
{
    uint64_t bytes;
    *p = NULL;
    if (!dn_mul(n, sizeof **p, &bytes)) return dn_fail(err, DN_EGPU, "GPU: %s are too large", what);
    return gpu_alloc_bytes(g, (void **)p, bytes, what, err);
}
void gpu_free(gpu *g, void *p); /* waits for g, which is the current device then; NULL is fine */
/* Scratch buffer `which`, at least n items; contents are lost when it grows. In order on g's stream, like all
 * else. */
dn_status gpu_scratch_bytes(gpu *g, int which, void **p, uint64_t bytes, const char *what, dn_err *err);
template <class T>
static inline dn_status gpu_scratch(gpu *g, int which, T **p, uint64_t n, const char *what, dn_err *err)
{
    uint64_t bytes;
    *p = NULL;
    if (!dn_mul(n, sizeof **p, &bytes)) return dn_fail(err, DN_EGPU, "GPU: %s are too large", what);
    return gpu_scratch_bytes(g, which, (void **)p, bytes, what, err);
}

/* ---- copies ---- */
/* host may be reused at once: the bytes go through pinned buffers. Done in the order of stream s. */
dn_status gpu_upload(gpu *g, cudaStream_t s, void *dst, const void *host, uint64_t bytes, dn_err *err);
/* Rows on the host: rows[i] + offset, or base + i * stride + offset where rows is NULL. */
typedef struct {
    const uint8_t *const *rows;
    const uint8_t *base;
    uint64_t stride, offset;
} gpu_rows;
/* `bytes` of each of rows [0, n) to dst + i * dst_stride (dst_stride >= bytes; dst: n * dst_stride bytes).
 * Bytes between them: anything. */
dn_status gpu_upload_rows(gpu *g, cudaStream_t s, uint8_t *dst, uint64_t dst_stride, gpu_rows from,
                          uint64_t n, uint64_t bytes, dn_err *err);
/* Waits for g's stream. */
dn_status gpu_download(gpu *g, void *host, const void *src, uint64_t bytes, dn_err *err);

/* ---- several devices ---- */
/* What is given to g's stream from now on runs after what `other` has been given so far. */
dn_status gpu_after(gpu *g, gpu *other, dn_err *err);
/* bytes from another device's memory, in the order of g's stream. */
dn_status gpu_copy_from(gpu *g, void *dst, gpu *other, const void *src, uint64_t bytes, dn_err *err);
/* Lets g read other's memory directly where the machine can. */
dn_status gpu_peer(gpu *g, const gpu *other, dn_err *err);

/* ---- products, column-major as cuBLAS has them: C (m x n) = A B + beta C ---- */
/* A row-major r x c matrix is a column-major c x r one. `count` products, the next one's matrices stride_
 * items on. */
typedef struct {
    bool ta, tb;
    uint64_t m, n, k;
    const float *a;
    uint64_t lda, stride_a;
    const float *b;
    uint64_t ldb, stride_b;
    float beta;
    float *c;
    uint64_t ldc, stride_c;
    uint64_t count;
} gpu_product;
dn_status gpu_multiply(gpu *g, const gpu_product *p, dn_err *err);

#endif
