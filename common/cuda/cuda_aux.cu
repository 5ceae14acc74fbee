/* cuda_aux.cu: auxiliary net and fat layer on GPUs, a slice of SNPs at a time (see cuda_backend.cuh). */
#include <math.h>

#include "cuda_backend.cuh"

/* ---- kernels ---- */

static __global__ void k_tanh(uint64_t n, float *a)
{
    EACH(i, n) a[i] = tanhf(a[i]);
}

/* d *= derivative of tanh where it came to act. */
static __global__ void k_tanh_back(uint64_t n, float *d, const float *act)
{
    EACH(i, n) d[i] *= 1 - act[i] * act[i];
}

/* Items of `chunks` arrays of n, in order, on top of sum (first: of nothing); to out, if given, else back to
 * sum. */
static __global__ void k_sum_chunks(uint64_t n, const float *parts, uint64_t chunks, int first, double *sum,
                                    float *out)
{
    EACH(i, n)
    {
        double s = first ? 0 : sum[i];
        UNROLL
        for (uint64_t c = 0; c < chunks; c++) s += parts[c * n + i];
        if (out)
            out[i] = (float)s;
        else
            sum[i] = s;
    }
}

/* a += `devices` arrays of n, in order. */
static __global__ void k_sum_devices(uint64_t n, float *a, const float *in, uint64_t devices, uint64_t stride)
{
    EACH(i, n)
    {
        double s = a[i];
        for (uint64_t d = 0; d < devices; d++) s += in[d * stride + i];
        a[i] = (float)s;
    }
}

/* ---- slices ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t cuda_slice(const cuda_backend *cb, const dn_genome *g, const shard *s, uint64_t n)
{
    /* Bytes per chunk of x, of the products' parts, of two layers' gradients. DN_MAX_* keep them in 64 bits.
     */
    uint64_t part = n * g->width[g->n_aux];
    for (size_t l = 0; l < g->n_aux; l++) {
        uint64_t w = g->width[l] * g->width[l + 1];
        if (w > part) part = w;
    }
    uint64_t f = sizeof(float), chunks = s->pad / s->chunk;
    chunks = least(chunks, cb->x_bytes / (s->chunk * f * (n ? n : 1)));
    chunks = least(chunks, cb->x_bytes / 4 / (part * f + 1));
    chunks = least(chunks, cb->x_bytes / (2 * f * s->chunk * g->widest));
    chunks = least(chunks, MAX_BATCH);
    return (chunks ? chunks : 1) * s->chunk;
}

/* x of SNPs [at, at + rows). */
static dn_status decode_slice(dn_genome *g, shard *s, uint64_t at, uint64_t rows, dn_err *err)
{
    gpu *d = s->g;
    uint64_t floats;
    if (s->x_slice == at) return DN_OK;
    if (!dn_mul(g->n, s->slice, &floats)) return dn_fail(err, DN_EGPU, "GPU: the batch is too large");
    if (floats > s->x_floats) {
        gpu_free(d, s->x);
        s->x = NULL;
        s->x_floats = 0;
        UP(gpu_alloc(d, &s->x, floats, "genotypes of a slice", err));
        s->x_floats = floats;
    }
    UP(gpu_decode(d, &s->rows, g->n, at, rows, s->dosage, g->scale, s->x, s->slice, err));
    s->x_slice = at;
    return DN_OK;
}

/* ---- forward ---- */

static dn_status aux_slice(dn_genome *g, shard *s, uint64_t at, uint64_t rows, dn_err *err)
{
    for (size_t l = 0; l < g->n_aux; l++) {
        uint64_t in = g->width[l], out = g->width[l + 1];
        gpu_product q = {};
        q.count = 1;
        q.ta = true; /* A_{l+1}^T (out x rows) = w A_l^T */
        q.m = out, q.n = rows, q.k = in;
        q.a = s->w[l], q.lda = in;
        q.b = s->act[l] + at * in, q.ldb = in;
        q.c = s->act[l + 1] + at * out, q.ldc = out;
        UP(gpu_multiply(s->g, &q, err));
        LAUNCH(s->g, k_tanh, rows * out, q.c);
    }
    return DN_OK;
}

/* Adds up `chunks` arrays of n floats in GPU_PARTS. */
static dn_status sum_chunks(gpu *d, const float *parts, uint64_t n, uint64_t chunks, bool first, bool last,
                            double *sum, float *out, dn_err *err)
{
    LAUNCH(d, k_sum_chunks, n, parts, chunks, first, sum, last ? out : NULL);
    return DN_OK;
}

static dn_status fat_slice(dn_genome *g, shard *s, uint64_t at, uint64_t rows, float *z, dn_err *err)
{
    gpu *d = s->g;
    uint64_t H = g->width[g->n_aux], chunks = rows / s->chunk;
    float *parts;
    double *sum;
    UP(decode_slice(g, s, at, rows, err));
    UP(gpu_scratch(d, GPU_PARTS, &parts, s->slice / s->chunk * g->n * H, "parts of sums over SNPs", err));
    UP(gpu_scratch(d, GPU_SUMS, &sum, g->n * H, "sums over SNPs", err));
    gpu_product q = {}; /* z^T (H x B) = A^T x^T, per chunk */
    q.m = H, q.n = g->n, q.k = s->chunk;
    q.a = s->act[g->n_aux] + at * H, q.lda = H, q.stride_a = s->chunk * H;
    q.b = s->x, q.ldb = s->slice, q.stride_b = s->chunk;
    q.c = parts, q.ldc = H, q.stride_c = g->n * H;
    q.count = chunks;
    UP(gpu_multiply(d, &q, err));
    return sum_chunks(d, parts, g->n * H, chunks, at == 0, at + rows == s->pad, sum, z, err);
}

static dn_status forward_shard(cuda_backend *cb, dn_genome *g, shard *s, bool aux, float *z, dn_err *err)
{
    uint64_t slice = z ? s->slice : cuda_slice(cb, g, s, 1);
    UP(gpu_use(s->g, err));
    for (uint64_t at = 0; at < s->pad; at += slice) {
        uint64_t rows = least(slice, s->pad - at);
        if (aux) UP(aux_slice(g, s, at, rows, err));
        if (z) UP(fat_slice(g, s, at, rows, z, err));
    }
    return DN_OK;
}

/* w: the auxiliary net's weights, if it is to be computed; z: sums, if they are. */
static dn_status forward(dn_backend *be, dn_genome *g, float *const *w, float *z, dn_err *err)
{
    cuda_backend *cb = (cuda_backend *)be;
    gpu *g0 = &cb->g[0];
    uint64_t n = g->n * g->width[g->n_aux], others = 0;
    if (z && g->n == 0) return DN_OK;
    if (z && g->n_shards > 1 && (g->n_shards - 1) * n > g->z_in_floats) {
        gpu_free(g0, g->z_in);
        g->z_in = NULL;
        g->z_in_floats = 0;
        UP(gpu_alloc(g0, &g->z_in, (g->n_shards - 1) * n, "other devices' sums", err));
        g->z_in_floats = (g->n_shards - 1) * n;
    }
    for (size_t i = 0; i < g->n_shards; i++) {
        shard *s = &g->s[i];
        if (s->n == 0) continue;
        UP(gpu_after(s->g, g0, err));
        for (size_t l = 0; w && l < g->n_aux; l++) {
            if (i == 0)
                s->w[l] = w[l];
            else
                UP(gpu_copy_from(s->g, s->w[l], g0, w[l], g->width[l] * g->width[l + 1] * sizeof(float),
                                 err));
        }
        UP(forward_shard(cb, g, s, w != NULL, z && i > 0 ? s->z : z, err));
    }
    /* Device 0 goes on when all have done their part, also where it takes nothing from them: what they read
     * of it must not change before. */
    for (size_t i = 1; i < g->n_shards; i++) {
        if (g->s[i].n == 0) continue;
        UP(gpu_after(g0, g->s[i].g, err));
        if (z) UP(gpu_copy_from(g0, g->z_in + others * n, g->s[i].g, g->s[i].z, n * sizeof *z, err));
        others++;
    }
    UP(gpu_use(g0, err));
    if (z && others) LAUNCH(g0, k_sum_devices, n, z, g->z_in, others, n);
    return DN_OK;
}

dn_status cuda_aux_forward(dn_backend *be, dn_genome *g, float *const *w, dn_err *err)
{
    return g->n_aux ? forward(be, g, w, NULL, err) : DN_OK;
}

dn_status cuda_fat_forward(dn_backend *be, dn_genome *g, float *z, dn_err *err)
{
    return forward(be, g, NULL, z, err);
}

dn_status cuda_aux_fat_forward(dn_backend *be, dn_genome *g, float *const *w, float *z, dn_err *err)
{
    return forward(be, g, w, z, err);
}

/* ---- backward ---- */

/* From d (rows x out), the gradient with respect to layer l's activation before tanh: its part of dw[l]. */
static dn_status weight_slice(dn_genome *g, shard *s, size_t l, uint64_t at, uint64_t rows, const float *d,
                              double *sum, float *dw, dn_err *err)
{
    uint64_t in = g->width[l], out = g->width[l + 1], chunks = rows / s->chunk;
    float *parts;
    UP(gpu_scratch(s->g, GPU_PARTS, &parts, s->slice / s->chunk * in * out, "parts of sums over SNPs", err));
    gpu_product q = {}; /* dw^T (in x out) = A_l^T d, per chunk */
    q.tb = true;
    q.m = in, q.n = out, q.k = s->chunk;
    q.a = s->act[l] + at * in, q.lda = in, q.stride_a = s->chunk * in;
    q.b = d, q.ldb = out, q.stride_b = s->chunk * out;
    q.c = parts, q.ldc = in, q.stride_c = in * out;
    q.count = chunks;
    UP(gpu_multiply(s->g, &q, err));
    return sum_chunks(s->g, parts, in * out, chunks, at == 0, at + rows == s->pad, sum, dw, err);
}

static dn_status backward_slice(dn_genome *g, shard *s, uint64_t at, uint64_t rows, const float *dz,
                                double *sum, float *const *dw, dn_err *err)
{
    gpu *dev = s->g;
    uint64_t H = g->width[g->n_aux];
    float *d, *below;
    UP(gpu_scratch(dev, GPU_GRAD, &d, s->slice * g->widest, "gradients of a slice", err));
    UP(gpu_scratch(dev, GPU_GRAD2, &below, s->slice * g->widest, "gradients of a slice", err));
    UP(decode_slice(g, s, at, rows, err));
    gpu_product q = {}; /* dA^T (H x rows) = dz^T x */
    q.count = 1;
    q.tb = true;
    q.m = H, q.n = rows, q.k = g->n;
    q.a = dz, q.lda = H;
    q.b = s->x, q.ldb = s->slice;
    q.c = d, q.ldc = H;
    UP(gpu_multiply(dev, &q, err));
    uint64_t w_end = g->n_weights;
    for (size_t l = g->n_aux; l-- > 0;) {
        uint64_t in = g->width[l], out = g->width[l + 1];
        LAUNCH(dev, k_tanh_back, rows * out, d, s->act[l + 1] + at * out);
        w_end -= in * out;
        UP(weight_slice(g, s, l, at, rows, d, sum + w_end, dw[l], err));
        if (l == 0) break;
        gpu_product p = {}; /* dA_l^T (in x rows) = w^T d^T */
        p.count = 1;
        p.m = in, p.n = rows, p.k = out;
        p.a = s->w[l], p.lda = in;
        p.b = d, p.ldb = out;
        p.c = below, p.ldc = in;
        UP(gpu_multiply(dev, &p, err));
        float *t = d;
        d = below, below = t;
    }
    return DN_OK;
}

static dn_status backward_shard(dn_genome *g, shard *s, const float *dz, float *const *dw, dn_err *err)
{
    double *sum;
    UP(gpu_use(s->g, err));
    UP(gpu_scratch(s->g, GPU_SUMS, &sum, g->n_weights, "sums over SNPs", err));
    for (uint64_t at = 0; at < s->pad; at += s->slice)
        UP(backward_slice(g, s, at, least(s->slice, s->pad - at), dz, sum, dw, err));
    return DN_OK;
}

dn_status cuda_aux_fat_backward(dn_backend *be, dn_genome *g, float *const *w, const float *dz,
                                float *const *dw, dn_err *err)
{
    cuda_backend *cb = (cuda_backend *)be;
    gpu *g0 = &cb->g[0];
    uint64_t others = 0;
    (void)w; /* as the forward pass had them */
    if (g->n_aux == 0) return DN_OK;
    for (size_t i = 0; i < g->n_shards; i++) {
        shard *s = &g->s[i];
        if (s->n == 0) continue;
        float *own[DN_MAX_LAYERS];
        for (size_t l = 0, at = 0; l < g->n_aux; at += g->width[l] * g->width[l + 1], l++)
            own[l] = i ? s->dw_copy + at : dw[l];
        UP(gpu_after(s->g, g0, err));
        if (i > 0) UP(gpu_copy_from(s->g, s->dz, g0, dz, g->n * g->width[g->n_aux] * sizeof *dz, err));
        UP(backward_shard(g, s, i ? s->dz : dz, own, err));
    }
    for (size_t i = 1; i < g->n_shards; i++) {
        shard *s = &g->s[i];
        if (s->n == 0) continue;
        UP(gpu_after(g0, s->g, err));
        UP(gpu_copy_from(g0, g->dw_in + others++ * g->n_weights, s->g, s->dw_copy,
                         g->n_weights * sizeof(float), err));
    }
    UP(gpu_use(g0, err));
    for (size_t l = 0, at = 0; l < g->n_aux && others; at += g->width[l] * g->width[l + 1], l++)
        LAUNCH(g0, k_sum_devices, g->width[l] * g->width[l + 1], dw[l], g->dw_in + at, others, g->n_weights);
    return DN_OK;
}
