/* cuda_main.cu: memory and the main net on device 0: dense layers, BatchNorm after ReLU, dropout, losses,
 * Adam.
 *
 * Small beside the fat layer. Sums over people are made in double in two steps, so that a few columns still
 * fill the device and the order is fixed: per column and chunk of COL_ROWS rows, then the chunks in order. */
#include <math.h>
#include <string.h>

#include "cuda_backend.cuh"

#define BN_EPS      1e-5
#define BN_MOMENTUM 0.1
#define COL_ROWS    32

static gpu *main_gpu(dn_backend *be)
{
    return &((cuda_backend *)be)->g[0];
}

/* ---- memory ---- */

static dn_status main_alloc(dn_backend *be, float **p, uint64_t n, const char *what, dn_err *err)
{
    gpu *g = main_gpu(be);
    UP(gpu_alloc(g, p, n, what, err));
    cudaError_t e = cudaMemsetAsync(*p, 0, n * sizeof **p, g->stream);
    if (e == cudaSuccess) return DN_OK;
    gpu_free(g, *p);
    *p = NULL;
    return gpu_cuda_status(g, e, "cudaMemsetAsync", err);
}

static void main_release(dn_backend *be, float *p)
{
    gpu_free(main_gpu(be), p);
}

static dn_status main_upload(dn_backend *be, float *dst, const float *host, uint64_t n, dn_err *err)
{
    gpu *g = main_gpu(be);
    return gpu_upload(g, g->stream, dst, host, n * sizeof *dst, err);
}

static dn_status main_download(dn_backend *be, float *host, const float *src, uint64_t n, dn_err *err)
{
    return gpu_download(main_gpu(be), host, src, n * sizeof *host, err);
}

/* ---- sums of columns ---- */

static __device__ __forceinline__ float relu(float z)
{
    return z < 0 ? 0.0f : z; /* NaN passes, so that the loss shows it */
}

/* What is summed at element i, of column k. */
enum { TERM_PLAIN, TERM_RELU, TERM_DEVIATION, TERM_PRODUCT };
template <int WHAT>
static __device__ __forceinline__ double term(const float *a, const float *b, double mean, uint64_t i)
{
    if (WHAT == TERM_PLAIN) return a[i];
    if (WHAT == TERM_RELU) return relu(a[i]);
    if (WHAT == TERM_PRODUCT) return (double)a[i] * b[i];
    double d = relu(a[i]) - mean;
    return d * d;
}

/* An item: a column of a chunk. parts: chunks x cols. */
template <int WHAT>
static __global__ void k_col_parts(uint64_t n, const float *a, const float *b, const double *mean, uint64_t B,
                                   uint64_t cols, double *parts)
{
    EACH(i, n)
    {
        uint64_t k = i % cols, row = i / cols * COL_ROWS, end = row + COL_ROWS < B ? row + COL_ROWS : B;
        double sum = 0, m = WHAT == TERM_DEVIATION ? mean[k] : 0;
        UNROLL
        for (; row < end; row++) sum += term<WHAT>(a, b, m, row * cols + k);
        parts[i] = sum;
    }
}

static __device__ __forceinline__ double sum_parts(const double *parts, uint64_t chunks, uint64_t cols,
                                                   uint64_t k)
{
    double sum = 0;
    UNROLL
    for (uint64_t c = 0; c < chunks; c++) sum += parts[c * cols + k];
    return sum;
}

static uint64_t chunks_of(uint64_t B)
{
    return (B + COL_ROWS - 1) / COL_ROWS;
}

template <int WHAT>
static dn_status col_parts(gpu *g, int which, const float *a, const float *b, const double *mean, uint64_t B,
                           uint64_t cols, double **parts, dn_err *err)
{
    uint64_t n = chunks_of(B) * cols;
    UP(gpu_scratch(g, which, parts, n, "sums of columns", err));
    LAUNCH(g, k_col_parts<WHAT>, n, a, b, mean, B, cols, *parts);
    return DN_OK;
}

/* ---- dense layers ---- */

static __global__ void k_add_bias(uint64_t n, float *z, const float *bias, uint64_t cols)
{
    EACH(i, n) z[i] += bias[i % cols];
}

static __global__ void k_col_sum(uint64_t n, const double *parts, uint64_t chunks, float *out)
{
    EACH(k, n) out[k] = (float)sum_parts(parts, chunks, n, k);
}

static dn_status bias_forward(dn_backend *be, float *z, const float *bias, uint64_t B, uint64_t n,
                              dn_err *err)
{
    gpu *g = main_gpu(be);
    UP(gpu_use(g, err));
    LAUNCH(g, k_add_bias, B * n, z, bias, n);
    return DN_OK;
}

static dn_status bias_backward(dn_backend *be, const float *dz, uint64_t B, uint64_t n, float *db,
                               dn_err *err)
{
    gpu *g = main_gpu(be);
    double *parts;
    UP(gpu_use(g, err));
    UP(col_parts<TERM_PLAIN>(g, GPU_COL_PARTS, dz, NULL, NULL, B, n, &parts, err));
    LAUNCH(g, k_col_sum, n, parts, chunks_of(B), db);
    return DN_OK;
}

static dn_status dense_forward(dn_backend *be, const float *x, const float *w, const float *bias, uint64_t B,
                               uint64_t n_in, uint64_t n_out, float *y, dn_err *err)
{
    gpu *g = main_gpu(be);
    gpu_product q = {};
    q.count = 1;
    q.ta = true; /* y^T (n_out x B) = w x^T */
    q.m = n_out, q.n = B, q.k = n_in;
    q.a = w, q.lda = n_in;
    q.b = x, q.ldb = n_in;
    q.c = y, q.ldc = n_out;
    UP(gpu_use(g, err));
    UP(gpu_multiply(g, &q, err));
    return bias ? bias_forward(be, y, bias, B, n_out, err) : DN_OK;
}

static dn_status dense_backward(dn_backend *be, const float *x, const float *w, const float *dy, uint64_t B,
                                uint64_t n_in, uint64_t n_out, float *dw, float *db, float *dx, dn_err *err)
{
    gpu *g = main_gpu(be);
    gpu_product q = {};
    q.count = 1;
    q.tb = true; /* dw^T (n_in x n_out) = x^T dy */
    q.m = n_in, q.n = n_out, q.k = B;
    q.a = x, q.lda = n_in;
    q.b = dy, q.ldb = n_out;
    q.c = dw, q.ldc = n_in;
    UP(gpu_use(g, err));
    UP(gpu_multiply(g, &q, err));
    UP(bias_backward(be, dy, B, n_out, db, err));
    q.tb = false; /* dx^T (n_in x B) = w^T dy^T */
    q.m = n_in, q.n = B, q.k = n_out;
    q.a = w, q.lda = n_in;
    q.b = dy, q.ldb = n_out;
    q.c = dx, q.ldc = n_in;
    return gpu_multiply(g, &q, err);
}

/* ---- BatchNorm after ReLU ---- */

static __global__ void k_bn_mean(uint64_t n, const double *parts, uint64_t chunks, double B, double *mean)
{
    EACH(k, n) mean[k] = sum_parts(parts, chunks, n, k) / B;
}

static __global__ void k_bn_stats(uint64_t n, const double *parts, uint64_t chunks, double B,
                                  const double *mean, float *run_mean, float *run_var, float *inv)
{
    EACH(k, n)
    {
        double ss = sum_parts(parts, chunks, n, k);
        inv[k] = (float)(1 / sqrt(ss / B + BN_EPS));
        run_mean[k] = (float)((1 - BN_MOMENTUM) * run_mean[k] + BN_MOMENTUM * mean[k]);
        run_var[k] = (float)((1 - BN_MOMENTUM) * run_var[k] + BN_MOMENTUM * ss / (B - 1));
    }
}

static __global__ void k_bn_apply(uint64_t n, const float *z, const double *mean, const float *inv,
                                  const float *gamma, const float *beta, uint64_t cols, float *xhat, float *y)
{
    EACH(i, n)
    {
        uint64_t k = i % cols;
        float h = (relu(z[i]) - (float)mean[k]) * inv[k];
        xhat[i] = h;
        y[i] = h * gamma[k] + beta[k];
    }
}

static dn_status relu_bn_train(dn_backend *be, const float *z, const float *gamma, const float *beta,
                               uint64_t B, uint64_t n, float *run_mean, float *run_var, float *xhat,
                               float *inv, float *y, dn_err *err)
{
    gpu *g = main_gpu(be);
    double *parts, *mean;
    UP(gpu_use(g, err));
    UP(gpu_scratch(g, GPU_COLS, &mean, n, "means of columns", err));
    UP(col_parts<TERM_RELU>(g, GPU_COL_PARTS, z, NULL, NULL, B, n, &parts, err));
    LAUNCH(g, k_bn_mean, n, parts, chunks_of(B), (double)B, mean);
    UP(col_parts<TERM_DEVIATION>(g, GPU_COL_PARTS, z, NULL, mean, B, n, &parts, err));
    LAUNCH(g, k_bn_stats, n, parts, chunks_of(B), (double)B, mean, run_mean, run_var, inv);
    LAUNCH(g, k_bn_apply, B * n, z, mean, inv, gamma, beta, n, xhat, y);
    return DN_OK;
}

static __global__ void k_bn_eval(uint64_t n, const float *z, const float *gamma, const float *beta,
                                 const float *run_mean, const float *run_var, uint64_t cols, float *y)
{
    EACH(i, n)
    {
        uint64_t k = i % cols;
        float inv = (float)(1 / sqrt(run_var[k] + BN_EPS));
        y[i] = (relu(z[i]) - run_mean[k]) * inv * gamma[k] + beta[k];
    }
}

static dn_status relu_bn_eval(dn_backend *be, const float *z, const float *gamma, const float *beta,
                              const float *run_mean, const float *run_var, uint64_t B, uint64_t n, float *y,
                              dn_err *err)
{
    gpu *g = main_gpu(be);
    UP(gpu_use(g, err));
    LAUNCH(g, k_bn_eval, B * n, z, gamma, beta, run_mean, run_var, n, y);
    return DN_OK;
}

/* sums: 2 x n: means of dy and of dy xhat. */
static __global__ void k_bn_grads(uint64_t n, const double *dy, const double *product, uint64_t chunks,
                                  double B, float *dgamma, float *dbeta, double *means)
{
    EACH(k, n)
    {
        double d = sum_parts(dy, chunks, n, k), x = sum_parts(product, chunks, n, k);
        dgamma[k] = (float)x;
        dbeta[k] = (float)d;
        means[k] = d / B;
        means[n + k] = x / B;
    }
}

static __global__ void k_bn_dz(uint64_t n, const float *dy, const float *z, const float *gamma,
                               const float *xhat, const float *inv, const double *means, uint64_t cols,
                               float *dz)
{
    EACH(i, n)
    {
        uint64_t k = i % cols;
        float d = gamma[k] * inv[k] * (dy[i] - (float)means[k] - xhat[i] * (float)means[cols + k]);
        dz[i] = z[i] > 0 ? d : 0.0f;
    }
}

static dn_status relu_bn_backward(dn_backend *be, const float *dy, const float *z, const float *gamma,
                                  const float *xhat, const float *inv, uint64_t B, uint64_t n, float *dgamma,
                                  float *dbeta, float *dz, dn_err *err)
{
    gpu *g = main_gpu(be);
    double *parts, *product, *means;
    UP(gpu_use(g, err));
    UP(gpu_scratch(g, GPU_COLS, &means, 2 * n, "means of columns", err));
    UP(col_parts<TERM_PLAIN>(g, GPU_COL_PARTS, dy, NULL, NULL, B, n, &parts, err));
    UP(col_parts<TERM_PRODUCT>(g, GPU_COL_PARTS2, dy, xhat, NULL, B, n, &product, err));
    LAUNCH(g, k_bn_grads, n, parts, product, chunks_of(B), (double)B, dgamma, dbeta, means);
    LAUNCH(g, k_bn_dz, B * n, dy, z, gamma, xhat, inv, means, n, dz);
    return DN_OK;
}

/* ---- dropout ---- */

static __global__ void k_mask(uint64_t n, float *mask, const uint8_t *keep, float scale)
{
    EACH(i, n) mask[i] = keep[i] ? scale : 0.0f;
}

static __global__ void k_multiply(uint64_t n, float *y, const float *mask)
{
    EACH(i, n) y[i] *= mask[i];
}

static dn_status dropout_mask(dn_backend *be, float *mask, const uint8_t *keep, uint64_t n, float scale,
                              dn_err *err)
{
    gpu *g = main_gpu(be);
    uint8_t *bytes;
    UP(gpu_use(g, err));
    UP(gpu_scratch(g, GPU_HOST_ARG, &bytes, n, "kept units", err));
    UP(gpu_upload(g, g->stream, bytes, keep, n, err));
    LAUNCH(g, k_mask, n, mask, bytes, scale);
    return DN_OK;
}

static dn_status multiply(dn_backend *be, float *y, const float *mask, uint64_t n, dn_err *err)
{
    gpu *g = main_gpu(be);
    UP(gpu_use(g, err));
    LAUNCH(g, k_multiply, n, y, mask);
    return DN_OK;
}

/* ---- losses ---- */

/* An item: a row. out: B losses, then B times whether it is right. */
static __global__ void k_softmax(uint64_t n, const float *z, const int64_t *label, uint64_t C, float *dz,
                                 float *prob, double *out)
{
    EACH(b, n)
    {
        const float *row = z + b * C;
        uint64_t y = (uint64_t)label[b], best = 0;
        for (uint64_t c = 1; c < C; c++) best = row[c] > row[best] ? c : best;
        double max = row[best], sum = 0;
        for (uint64_t c = 0; c < C; c++) sum += exp(row[c] - max);
        out[b] = log(sum) - (row[y] - max);
        out[n + b] = best == y;
        for (uint64_t c = 0; c < C; c++) {
            double p = exp(row[c] - max) / sum;
            if (dz) dz[b * C + c] = (float)((p - (c == y)) / (double)n);
            if (prob) prob[b * C + c] = (float)p;
        }
    }
}

static __global__ void k_squares(uint64_t n, const float *z, const double *target, float *dz, double *out)
{
    EACH(b, n)
    {
        double d = z[b] - target[b];
        out[b] = d * d;
        if (dz) dz[b] = (float)(2 * d / (double)n);
    }
}

/* Sums of `sums` x B rows' numbers, in order. */
static dn_status row_sums(gpu *g, const double *out, uint64_t B, double *sum, int sums, dn_err *err)
{
    double *host;
    UP(dn_alloc(&host, (uint64_t)sums * B, sizeof *host, "losses", err));
    dn_status status = gpu_download(g, host, out, (uint64_t)sums * B * sizeof *host, err);
    for (int s = 0; s < sums && status == DN_OK; s++) {
        sum[s] = 0;
        for (uint64_t b = 0; b < B; b++) sum[s] += host[(uint64_t)s * B + b];
    }
    free(host);
    return status;
}

static dn_status softmax_loss(dn_backend *be, const float *z, const int64_t *label, uint64_t B, uint64_t C,
                              float *dz, float *prob, double *loss, uint64_t *correct, dn_err *err)
{
    gpu *g = main_gpu(be);
    int64_t *labels;
    double *out, sum[2];
    float *p = NULL;
    UP(gpu_use(g, err));
    UP(gpu_scratch(g, GPU_HOST_ARG, &labels, B, "labels", err));
    UP(gpu_scratch(g, GPU_ROW_OUT, &out, 2 * B, "losses", err));
    if (prob) UP(gpu_scratch(g, GPU_PROB, &p, B * C, "probabilities", err));
    UP(gpu_upload(g, g->stream, labels, label, B * sizeof *label, err));
    LAUNCH(g, k_softmax, B, z, labels, C, dz, p, out);
    UP(row_sums(g, out, B, sum, 2, err));
    *loss = sum[0];
    *correct = (uint64_t)sum[1];
    return prob ? gpu_download(g, prob, p, B * C * sizeof *prob, err) : DN_OK;
}

static dn_status mse_loss(dn_backend *be, const float *z, const double *target, uint64_t B, float *dz,
                          float *value, double *loss, dn_err *err)
{
    gpu *g = main_gpu(be);
    double *targets, *out;
    UP(gpu_use(g, err));
    UP(gpu_scratch(g, GPU_HOST_ARG, &targets, B, "targets", err));
    UP(gpu_scratch(g, GPU_ROW_OUT, &out, B, "losses", err));
    UP(gpu_upload(g, g->stream, targets, target, B * sizeof *target, err));
    LAUNCH(g, k_squares, B, z, targets, dz, out);
    UP(row_sums(g, out, B, loss, 1, err));
    return value ? gpu_download(g, value, z, B * sizeof *value, err) : DN_OK;
}

/* ---- optimiser ---- */

/* PyTorch's order of operations, in float. */
static __global__ void k_adam(uint64_t n, float *w, const float *grad, float *m, float *v, float step,
                              float root)
{
    const float b1 = 0.9f, b2 = 0.999f, c1 = (float)(1 - 0.9), c2 = (float)(1 - 0.999), eps = 1e-8f;
    EACH(i, n)
    {
        float d = grad[i];
        m[i] = m[i] * b1 + c1 * d;
        v[i] = v[i] * b2 + c2 * d * d;
        w[i] -= step * (m[i] / (sqrtf(v[i]) / root + eps));
    }
}

static dn_status adam(dn_backend *be, float *w, const float *grad, float *m, float *v, uint64_t n, double lr,
                      uint64_t t, dn_err *err)
{
    gpu *g = main_gpu(be);
    float step = (float)(lr / (1 - pow(0.9, (double)t))), root = (float)sqrt(1 - pow(0.999, (double)t));
    UP(gpu_use(g, err));
    LAUNCH(g, k_adam, n, w, grad, m, v, step, root);
    return DN_OK;
}

void cuda_main_ops(dn_backend_ops *t)
{
    t->alloc = main_alloc;
    t->release = main_release;
    t->upload = main_upload;
    t->download = main_download;
    t->dense_forward = dense_forward;
    t->dense_backward = dense_backward;
    t->bias_forward = bias_forward;
    t->bias_backward = bias_backward;
    t->relu_bn_train = relu_bn_train;
    t->relu_bn_eval = relu_bn_eval;
    t->relu_bn_backward = relu_bn_backward;
    t->dropout_mask = dropout_mask;
    t->multiply = multiply;
    t->softmax_loss = softmax_loss;
    t->mse_loss = mse_loss;
    t->adam = adam;
}
