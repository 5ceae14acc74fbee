/* backend.h: where the arithmetic is done. net.c says what, through this table of functions; a backend says
 * how. The CPU's is in backend_cpu*.c; another one (a GPU's) fills the same table and net.c does not change.
 *
 * Arrays of a backend are float, row-major, 64-byte aligned, and made by alloc(): their addresses mean
 * something only to the backend, unless host_memory says that they are ordinary memory. Pointers marked
 * `host` below are ordinary memory always. Letters as in dn.h: M SNPs, B people of the batch, K features, H
 * units of the fat layer, n units of a layer. A function returns when its host arguments may be reused;
 * whether the work itself is done then is the backend's affair, and download(), softmax_loss() and mse_loss()
 * wait for what they need. Sums are made in an order that depends on shapes alone, so that results are the
 * same, byte for byte, for any number of threads. Not thread-safe: one caller per backend. */
#ifndef DN_BACKEND_H
#define DN_BACKEND_H

#include "dn.h"
#include "par.h"
#include "rng.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dn_backend dn_backend;

/* The genotype side of a net: embedding and statistics (host, copied), and the auxiliary
 * net's sizes. A SNP that dn_snp_is_flat() contributes 0. */
typedef struct {
    uint64_t n_snps, n_features; /* M, K */
    size_t n_aux;
    uint64_t aux[DN_MAX_LAYERS]; /* units of each auxiliary layer; the last is H. n_aux == 0: H = K */
    const float *emb;            /* M x K */
    const double *mean, *sd;     /* M */
} dn_genome_spec;
/* Made from it: what the backend keeps per net: embedding, statistics, activations of the auxiliary net, the
 * batch's genotypes. */
typedef struct dn_genome dn_genome;

typedef struct {
    void (*free)(dn_backend *be);

    /* ---- memory ---- */
    /* n zeroed floats. *p = NULL on failure. */
    dn_status (*alloc)(dn_backend *be, float **p, uint64_t n, const char *what, dn_err *err);
    void (*release)(dn_backend *be, float *p); /* NULL is fine */
    dn_status (*upload)(dn_backend *be, float *dst, const float *host, uint64_t n, dn_err *err);
    dn_status (*download)(dn_backend *be, float *host, const float *src, uint64_t n, dn_err *err);

    /* ---- genotypes and the auxiliary net ---- */
    dn_status (*genome_new)(dn_backend *be, dn_genome **out, const dn_genome_spec *spec, dn_err *err);
    void (*genome_free)(dn_backend *be, dn_genome *g);
    /* Hint: rows of later batches are base + i * stride, i < n_rows (host), and stay as they are. */
    dn_status (*resident)(dn_backend *be, dn_genome *g, const uint8_t *base, uint64_t stride, uint64_t n_rows,
                          dn_err *err);
    /* Takes a batch: rows[b] (host) is a packed row of geno.h; its padding is ignored. keep < 1: input
     * dropout: M Bernoulli(keep) draws per row, row after row; a call drawn 0 becomes missing, and genotypes
     * count 1/keep times in what follows. */
    dn_status (*load_rows)(dn_backend *be, dn_genome *g, const uint8_t *const *rows, uint64_t n, double keep,
                           dn_rng *rng, dn_err *err);
    /* w[l]: aux layer l's out x in weights. A_0 = emb; A_{l+1} = tanh(A_l w_l^T); the last A is the fat
     * layer's weight. */
    dn_status (*aux_forward)(dn_backend *be, dn_genome *g, float *const *w, dn_err *err);
    /* z = x A, B x H overwritten: x = (g - mean) / sd, 0 where missing, of the loaded batch; A as aux_forward
     * left it. */
    dn_status (*fat_forward)(dn_backend *be, dn_genome *g, float *z, dn_err *err);
    /* Both, in one pass over memory. */
    dn_status (*aux_fat_forward)(dn_backend *be, dn_genome *g, float *const *w, float *z, dn_err *err);
    /* dz: B x H, the loss's gradient with respect to z. dw[l]: overwritten with that for w[l]. Activations
     * and batch as aux_fat_forward left them; w must not have changed since. n_aux == 0: nothing to do. */
    dn_status (*aux_fat_backward)(dn_backend *be, dn_genome *g, float *const *w, const float *dz,
                                  float *const *dw, dn_err *err);
    /* The fat layer's weight, M x H, to the host. */
    dn_status (*fat_download)(dn_backend *be, dn_genome *g, float *host, dn_err *err);

    /* ---- main net; B rows ---- */
    /* y = x w^T + bias. x: B x n_in, w: n_out x n_in. */
    dn_status (*dense_forward)(dn_backend *be, const float *x, const float *w, const float *bias, uint64_t B,
                               uint64_t n_in, uint64_t n_out, float *y, dn_err *err);
    /* dw = dy^T x, db = column sums of dy, dx = dy w; all overwritten. dx may be x (it is written last). */
    dn_status (*dense_backward)(dn_backend *be, const float *x, const float *w, const float *dy, uint64_t B,
                                uint64_t n_in, uint64_t n_out, float *dw, float *db, float *dx, dn_err *err);
    dn_status (*bias_forward)(dn_backend *be, float *z, const float *bias, uint64_t B, uint64_t n,
                              dn_err *err); /* z += bias */
    dn_status (*bias_backward)(dn_backend *be, const float *dz, uint64_t B, uint64_t n, float *db,
                               dn_err *err);
    /* y = gamma * xhat + beta, xhat = (relu(z) - batch mean) * inv; inv (n) = 1 / sqrt(batch variance +
     * 1e-5). Running mean and variance move by 0.1 towards the batch's (unbiased variance). B >= 2. */
    dn_status (*relu_bn_train)(dn_backend *be, const float *z, const float *gamma, const float *beta,
                               uint64_t B, uint64_t n, float *run_mean, float *run_var, float *xhat,
                               float *inv, float *y, dn_err *err);
    /* The same with the running statistics. y may be z. */
    dn_status (*relu_bn_eval)(dn_backend *be, const float *z, const float *gamma, const float *beta,
                              const float *run_mean, const float *run_var, uint64_t B, uint64_t n, float *y,
                              dn_err *err);
    /* From dy: dgamma, dbeta (n) and dz (may be dy). */
    dn_status (*relu_bn_backward)(dn_backend *be, const float *dy, const float *z, const float *gamma,
                                  const float *xhat, const float *inv, uint64_t B, uint64_t n, float *dgamma,
                                  float *dbeta, float *dz, dn_err *err);
    /* mask[i] = keep[i] (host, 0 or 1) ? scale : 0. */
    dn_status (*dropout_mask)(dn_backend *be, float *mask, const uint8_t *keep, uint64_t n, float scale,
                              dn_err *err);
    dn_status (*multiply)(dn_backend *be, float *y, const float *mask, uint64_t n,
                          dn_err *err); /* y *= mask */

    /* ---- losses ---- */
    /* z: B x C; label: host. *loss = sum of cross-entropies; *correct = rows whose first largest z is their
     * label. dz (may be NULL) = gradient of the mean loss; prob (host, may be NULL): B x C probabilities. */
    dn_status (*softmax_loss)(dn_backend *be, const float *z, const int64_t *label, uint64_t B, uint64_t C,
                              float *dz, float *prob, double *loss, uint64_t *correct, dn_err *err);
    /* z: B x 1; target: host. *loss = sum of squared errors; dz and value (host: z as it is) may be NULL. */
    dn_status (*mse_loss)(dn_backend *be, const float *z, const double *target, uint64_t B, float *dz,
                          float *value, double *loss, dn_err *err);

    /* ---- optimiser ---- */
    /* Step t (1, 2, ...) of Adam (0.9, 0.999, 1e-8) on n parameters. */
    dn_status (*adam)(dn_backend *be, float *w, const float *grad, float *m, float *v, uint64_t n, double lr,
                      uint64_t t, dn_err *err);
} dn_backend_ops;

struct dn_backend {
    const dn_backend_ops *ops;
    bool host_memory;    /* arrays of alloc() are ordinary memory */
    uint64_t eval_block; /* people that evaluation should load at a time */
    char name[64];       /* "cpu (avx512, 2 threads)" */
};

/* The CPU, on the threads of pool (borrowed, must outlive the backend; nobody else runs on it during a call).
 */
DN_MUST_USE dn_status dn_backend_cpu(dn_backend **out, dn_pool *pool, dn_err *err);
void dn_backend_free(dn_backend *be); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
