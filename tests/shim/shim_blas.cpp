/* shim_blas.cpp: cuBLAS of the shim (see shim.cpp): plain loops, in float; in TF32 mode of factors that are
 * cut to 10 bits, the worst that a device may do. */
#include <string.h>

#include "cublas_v2.h"
#include "shim_impl.h"

struct shim_blas {
    int device;
    shim_stream *stream;
    bool tf32;
};

static cublasStatus_t blas_enter(const char *call = __builtin_FUNCTION())
{
    return shim_enter(call) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasCreate(cublasHandle_t *h)
{
    *h = nullptr;
    cublasStatus_t st = blas_enter();
    if (st != CUBLAS_STATUS_SUCCESS) return st;
    *h = new shim_blas{shim_device(), nullptr, false};
    shim_live(1);
    return st;
}

cublasStatus_t cublasDestroy(cublasHandle_t h)
{
    cublasStatus_t st = blas_enter();
    delete h;
    shim_live(-1);
    return st;
}

cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t s)
{
    cublasStatus_t st = blas_enter();
    if (st == CUBLAS_STATUS_SUCCESS) h->stream = s;
    return st;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t mode)
{
    cublasStatus_t st = blas_enter();
    if (st == CUBLAS_STATUS_SUCCESS) h->tf32 = mode == CUBLAS_TF32_TENSOR_OP_MATH;
    return st;
}

/* A factor as the product sees it. */
static float seen(float x, bool tf32)
{
    uint32_t bits;
    if (!tf32) return x;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0xffffe000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Floats from the first to past the last item of a column-major rows x cols matrix. */
static size_t extent(int rows, int cols, int ld)
{
    return rows && cols ? (size_t)(cols - 1) * (size_t)ld + (size_t)rows : 0;
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                                         int n, int k, const float *alpha, const float *a, int lda,
                                         long long stride_a, const float *b, int ldb, long long stride_b,
                                         const float *beta, float *c, int ldc, long long stride_c, int count)
{
    cublasStatus_t st = blas_enter();
    if (st != CUBLAS_STATUS_SUCCESS) return st;
    if (!(h->stream && !h->stream->dead)) return CUBLAS_STATUS_NOT_INITIALIZED;
    int dev = h->stream->device, ra = ta ? k : m, rb = tb ? n : k;
    if (dev != shim_device() || dev != h->device)
        shim_fault("the handle is not the current device's", "cublasSgemm");
    if (m < 0 || n < 0 || k < 0 || count < 0 || lda < (ra > 1 ? ra : 1) || ldb < (rb > 1 ? rb : 1) ||
        ldc < (m > 1 ? m : 1)) {
        shim_fault("sizes that cuBLAS refuses", "cublasSgemm");
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (m == 0 || n == 0 || count == 0) return st;
    size_t last = (size_t)(count - 1) * sizeof(float);
    if (!shim_inside(a, last * (size_t)stride_a + extent(ra, ta ? m : k, lda) * sizeof *a, dev) ||
        !shim_inside(b, last * (size_t)stride_b + extent(rb, tb ? k : n, ldb) * sizeof *b, dev) ||
        !shim_inside(c, last * (size_t)stride_c + extent(m, n, ldc) * sizeof *c, dev)) {
        shim_fault("a matrix reaches outside its allocation", "cublasSgemm");
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    float al = *alpha, be = *beta;
    bool tf32 = h->tf32;
    shim_put(h->stream, [=] {
        for (int i = 0; i < count; i++) {
            const float *A = a + i * stride_a, *B = b + i * stride_b;
            float *C = c + i * stride_c;
            for (int col = 0; col < n; col++) {
                for (int row = 0; row < m; row++) {
                    float sum = 0;
                    for (int p = 0; p < k; p++) {
                        float u = A[ta ? p + (size_t)row * (size_t)lda : row + (size_t)p * (size_t)lda];
                        float v = B[tb ? col + (size_t)p * (size_t)ldb : p + (size_t)col * (size_t)ldb];
                        sum += seen(u, tf32) * seen(v, tf32);
                    }
                    float *out = C + row + (size_t)col * (size_t)ldc;
                    *out = be == 0 ? al * sum : al * sum + be * *out;
                }
            }
        }
    });
    return st;
}

cublasStatus_t cublasSgemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                           const float *alpha, const float *a, int lda, const float *b, int ldb,
                           const float *beta, float *c, int ldc)
{
    return cublasSgemmStridedBatched(h, ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);
}

const char *cublasGetStatusString(cublasStatus_t s)
{
    switch (s) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    default: return "CUBLAS_STATUS_EXECUTION_FAILED";
    }
}
