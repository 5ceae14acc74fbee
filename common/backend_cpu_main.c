/* backend_cpu_main.c: the main net on the CPU: dense layers, BatchNorm after ReLU, dropout, losses, Adam.
 * Small beside the fat layer, so plain loops, sums over people in double and in order; only the products use
 * the kernels, and the pool. */
#include "backend_cpu_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BN_EPS      1e-5
#define BN_MOMENTUM 0.1
#define ROWS        (10 * CPU_ROWS) /* of a product's item */

/* The first n floats of a backend's scratch array. */
static dn_status scratch(cpu_backend *cb, size_t n, float **p, dn_err *err)
{
    *p = NULL;
    if (n > cb->scratch_n) {
        free(cb->scratch);
        cb->scratch = NULL;
        cb->scratch_n = 0;
        dn_status status = dn_alloc_aligned(&cb->scratch, n, sizeof(float), "scratch", err);
        if (status != DN_OK) return status;
        cb->scratch_n = n;
    }
    *p = cb->scratch;
    return DN_OK;
}

typedef struct {
    const cpu_kernels *kern;
    const float *x, *b, *bias;
    float *y, *work; /* work: per worker, ROWS x (K + n_pad) */
    uint64_t B;
    size_t K, n, n_pad, each;
} product_job;

static void product_rows(void *ctx, size_t item, size_t worker)
{
    const product_job *q = ctx;
    uint64_t from = item * ROWS, rows = q->B - from < ROWS ? q->B - from : ROWS;
    float *x = q->work + worker * q->each, *y = x + ROWS * cpu_pad(q->K);
    size_t full = (rows + CPU_ROWS - 1) / CPU_ROWS * CPU_ROWS;
    memcpy(x, q->x + from * q->K, rows * q->K * sizeof *x);
    memset(x + rows * q->K, 0, (full - rows) * q->K * sizeof *x);
    q->kern->mul(x, q->K, q->b, full, q->K, q->n, q->n_pad, y, CPU_PLAIN, NULL, NULL, NULL, NULL, 0);
    for (uint64_t r = 0; r < rows; r++) {
        float *out = q->y + (from + r) * q->n;
        for (size_t k = 0; k < q->n; k++) out[k] = y[r * q->n_pad + k] + (q->bias ? q->bias[k] : 0.0f);
    }
}

/* y (B x n) = x (B x K) b + bias, b(k, j) = src[k * row + j * col]. y may be x: a block of rows is read
 * before it is written, but only if K == n. */
static dn_status product(cpu_backend *cb, const float *x, uint64_t B, size_t K, const float *src, size_t row,
                         size_t col, size_t n, const float *bias, float *y, dn_err *err)
{
    product_job q = {
        .kern = cb->kern, .x = x, .bias = bias, .y = y, .B = B, .K = K, .n = n, .n_pad = cpu_pad(n)};
    float *s;
    q.each = ROWS * (cpu_pad(K) + q.n_pad);
    dn_status status = scratch(cb, cpu_pad(K * q.n_pad) + dn_pool_threads(cb->pool) * q.each, &s, err);
    if (status != DN_OK) return status;
    cpu_pack(src, row, col, K, n, q.n_pad, cb->kern->panel, s);
    q.b = s;
    q.work = s + cpu_pad(K * q.n_pad);
    dn_pool_run(cb->pool, (size_t)((B + ROWS - 1) / ROWS), product_rows, &q);
    return DN_OK;
}

static dn_status dense_forward(dn_backend *be, const float *x, const float *w, const float *bias, uint64_t B,
                               uint64_t n_in, uint64_t n_out, float *y, dn_err *err)
{
    return product((cpu_backend *)be, x, B, n_in, w, 1, n_in, n_out, bias, y, err);
}

static dn_status bias_backward(dn_backend *be, const float *dz, uint64_t B, uint64_t n, float *db,
                               dn_err *err)
{
    (void)be, (void)err;
    for (uint64_t k = 0; k < n; k++) {
        double sum = 0;
        for (uint64_t b = 0; b < B; b++) sum += dz[b * n + k];
        db[k] = (float)sum;
    }
    return DN_OK;
}

static void pad_rows(const float *x, uint64_t B, size_t n, size_t ld, float *out)
{
    for (uint64_t b = 0; b < B; b++) {
        memcpy(out + b * ld, x + b * n, n * sizeof *x);
        memset(out + b * ld + n, 0, (ld - n) * sizeof *x);
    }
}

static dn_status dense_backward(dn_backend *be, const float *x, const float *w, const float *dy, uint64_t B,
                                uint64_t n_in, uint64_t n_out, float *dw, float *db, float *dx, dn_err *err)
{
    cpu_backend *cb = (cpu_backend *)be;
    size_t pi = cpu_pad(n_in), po = cpu_pad(n_out), rows = po + CPU_ROWS;
    float *s;
    dn_status status = scratch(cb, B * (pi + po) + rows * pi, &s, err);
    if (status != DN_OK) return status;
    float *xp = s, *dp = xp + B * pi, *wp = dp + B * po;
    pad_rows(x, B, n_in, pi, xp);
    pad_rows(dy, B, n_out, po, dp);
    memset(wp, 0, rows * pi * sizeof *wp);
    cb->kern->mul_t(dp, po, xp, B, n_out, n_in, pi, wp, NULL, 0);
    for (uint64_t o = 0; o < n_out; o++) memcpy(dw + o * n_in, wp + o * pi, n_in * sizeof *dw);
    bias_backward(be, dy, B, n_out, db, err);
    return product(cb, dy, B, n_out, w, n_in, 1, n_in, NULL, dx, err);
}

static dn_status bias_forward(dn_backend *be, float *z, const float *bias, uint64_t B, uint64_t n,
                              dn_err *err)
{
    (void)be, (void)err;
    for (uint64_t b = 0; b < B; b++) {
        for (uint64_t k = 0; k < n; k++) z[b * n + k] += bias[k];
    }
    return DN_OK;
}

static inline float relu(float z)
{
    return z < 0 ? 0 : z; /* NaN passes, so that the loss shows it */
}

static dn_status relu_bn_train(dn_backend *be, const float *z, const float *gamma, const float *beta,
                               uint64_t B, uint64_t n, float *run_mean, float *run_var, float *xhat,
                               float *inv, float *y, dn_err *err)
{
    (void)be, (void)err;
    for (uint64_t k = 0; k < n; k++) {
        double sum = 0, ss = 0;
        for (uint64_t b = 0; b < B; b++) sum += relu(z[b * n + k]);
        double mean = sum / (double)B;
        for (uint64_t b = 0; b < B; b++) {
            double d = relu(z[b * n + k]) - mean;
            ss += d * d;
        }
        inv[k] = (float)(1 / sqrt(ss / (double)B + BN_EPS));
        run_mean[k] = (float)((1 - BN_MOMENTUM) * run_mean[k] + BN_MOMENTUM * mean);
        run_var[k] = (float)((1 - BN_MOMENTUM) * run_var[k] + BN_MOMENTUM * ss / (double)(B - 1));
        float m = (float)mean;
        for (uint64_t b = 0; b < B; b++) {
            float h = (relu(z[b * n + k]) - m) * inv[k];
            xhat[b * n + k] = h;
            y[b * n + k] = h * gamma[k] + beta[k];
        }
    }
    return DN_OK;
}

static dn_status relu_bn_eval(dn_backend *be, const float *z, const float *gamma, const float *beta,
                              const float *run_mean, const float *run_var, uint64_t B, uint64_t n, float *y,
                              dn_err *err)
{
    (void)be, (void)err;
    for (uint64_t k = 0; k < n; k++) {
        float inv = (float)(1 / sqrt(run_var[k] + BN_EPS));
        for (uint64_t b = 0; b < B; b++)
            y[b * n + k] = (relu(z[b * n + k]) - run_mean[k]) * inv * gamma[k] + beta[k];
    }
    return DN_OK;
}

static dn_status relu_bn_backward(dn_backend *be, const float *dy, const float *z, const float *gamma,
                                  const float *xhat, const float *inv, uint64_t B, uint64_t n, float *dgamma,
                                  float *dbeta, float *dz, dn_err *err)
{
    (void)be, (void)err;
    for (uint64_t k = 0; k < n; k++) {
        double sd = 0, sx = 0;
        for (uint64_t b = 0; b < B; b++) {
            sd += dy[b * n + k];
            sx += (double)dy[b * n + k] * xhat[b * n + k];
        }
        dgamma[k] = (float)sx;
        dbeta[k] = (float)sd;
        float md = (float)(sd / (double)B), mx = (float)(sx / (double)B), f = gamma[k] * inv[k];
        for (uint64_t b = 0; b < B; b++) {
            float d = f * (dy[b * n + k] - md - xhat[b * n + k] * mx);
            dz[b * n + k] = z[b * n + k] > 0 ? d : 0;
        }
    }
    return DN_OK;
}

static dn_status dropout_mask(dn_backend *be, float *mask, const uint8_t *keep, uint64_t n, float scale,
                              dn_err *err)
{
    (void)be, (void)err;
    for (uint64_t i = 0; i < n; i++) mask[i] = keep[i] ? scale : 0;
    return DN_OK;
}

static dn_status multiply(dn_backend *be, float *y, const float *mask, uint64_t n, dn_err *err)
{
    (void)be, (void)err;
    for (uint64_t i = 0; i < n; i++) y[i] *= mask[i];
    return DN_OK;
}

static dn_status softmax_loss(dn_backend *be, const float *z, const int64_t *label, uint64_t B, uint64_t C,
                              float *dz, float *prob, double *loss, uint64_t *correct, dn_err *err)
{
    double *p;
    (void)be;
    dn_status status = dn_alloc(&p, C, sizeof *p, "probabilities", err);
    if (status != DN_OK) return status;
    *loss = 0;
    *correct = 0;
    for (uint64_t b = 0; b < B; b++) {
        const float *row = z + b * C;
        uint64_t y = (uint64_t)label[b], best = 0;
        for (uint64_t c = 1; c < C; c++) best = row[c] > row[best] ? c : best;
        double max = row[best], sum = p[0] = exp(row[0] - max);
        for (uint64_t c = 1; c < C; c++) sum += p[c] = exp(row[c] - max);
        *loss += log(sum) - (row[y] - max);
        *correct += best == y;
        for (uint64_t c = 0; c < C; c++) {
            p[c] /= sum;
            if (dz) dz[b * C + c] = (float)((p[c] - (c == y)) / (double)B);
            if (prob) prob[b * C + c] = (float)p[c];
        }
    }
    free(p);
    return DN_OK;
}

static dn_status mse_loss(dn_backend *be, const float *z, const double *target, uint64_t B, float *dz,
                          float *value, double *loss, dn_err *err)
{
    (void)be, (void)err;
    *loss = 0;
    for (uint64_t b = 0; b < B; b++) {
        double d = z[b] - target[b];
        *loss += d * d;
        if (dz) dz[b] = (float)(2 * d / (double)B);
        if (value) value[b] = z[b];
    }
    return DN_OK;
}

/* PyTorch's order of operations, in float. */
static dn_status adam(dn_backend *be, float *w, const float *grad, float *m, float *v, uint64_t n, double lr,
                      uint64_t t, dn_err *err)
{
    (void)be, (void)err;
    const float b1 = 0.9f, b2 = 0.999f, c1 = (float)(1 - 0.9), c2 = (float)(1 - 0.999), eps = 1e-8f;
    float step = (float)(lr / (1 - pow(0.9, (double)t))), root = (float)sqrt(1 - pow(0.999, (double)t));
    for (uint64_t i = 0; i < n; i++) {
        float g = grad[i];
        m[i] = m[i] * b1 + c1 * g;
        v[i] = v[i] * b2 + c2 * g * g;
        w[i] -= step * (m[i] / (sqrtf(v[i]) / root + eps));
    }
    return DN_OK;
}

const dn_backend_ops cpu_main_ops = {.dense_forward = dense_forward,
                                     .dense_backward = dense_backward,
                                     .bias_forward = bias_forward,
                                     .bias_backward = bias_backward,
                                     .relu_bn_train = relu_bn_train,
                                     .relu_bn_eval = relu_bn_eval,
                                     .relu_bn_backward = relu_bn_backward,
                                     .dropout_mask = dropout_mask,
                                     .multiply = multiply,
                                     .softmax_loss = softmax_loss,
                                     .mse_loss = mse_loss,
                                     .adam = adam};
