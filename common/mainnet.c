/* mainnet.c: evaluation of a member's main net (see mainnet.h). */
#include "mainnet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BN_EPS 1e-5
/* ifunc resolvers run before the sanitizers are ready. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) &&             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif
#define LANES 8 /* outputs summed side by side; a layer's row is padded to a multiple */

typedef struct {
    uint64_t n_in, n_out, width; /* width: n_out rounded up to LANES */
    double *weight;              /* n_in x width, transposed; NULL for the fat layer */
    double *bias;                /* n_out */
    double *scale, *shift;       /* BatchNorm as h * scale + shift; NULL for the output layer */
} layer;

struct dn_mainnet {
    dn_task task;
    size_t n_layers;
    layer *layer;
    uint64_t widest;
};

static dn_status check_finite(const float *v, uint64_t n, const char *what, size_t at, dn_err *err)
{
    for (uint64_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) {
            return dn_fail(
                err, DN_ENUMERIC,
                "main net, layer %zu: %s %llu is %g: the model is damaged or its training diverged", at, what,
                (unsigned long long)i, (double)v[i]);
        }
    }
    return DN_OK;
}

static dn_status prepare(layer *to, const dn_layer *from, size_t at, bool last, dn_err *err)
{
    dn_status status;
    *to =
        (layer){.n_in = from->n_in, .n_out = from->n_out, .width = (from->n_out + LANES - 1) / LANES * LANES};
    DN_TRY(dn_alloc(&to->bias, from->n_out, sizeof *to->bias, "main net", err));
    DN_TRY(check_finite(from->bias, from->n_out, "bias", at, err));
    for (uint64_t i = 0; i < from->n_out; i++) to->bias[i] = from->bias[i];
    if (at > 0) {
        DN_TRY(dn_alloc_aligned(&to->weight, from->n_in * to->width, sizeof *to->weight, "main net", err));
        DN_TRY(check_finite(from->weight, from->n_in * from->n_out, "weight", at, err));
        memset(to->weight, 0, from->n_in * to->width * sizeof *to->weight);
        for (uint64_t o = 0; o < from->n_out; o++) {
            for (uint64_t i = 0; i < from->n_in; i++)
                to->weight[i * to->width + o] = from->weight[o * from->n_in + i];
        }
    }
    if (!last) {
        DN_TRY(dn_alloc(&to->scale, from->n_out, sizeof *to->scale, "main net", err));
        DN_TRY(dn_alloc(&to->shift, from->n_out, sizeof *to->shift, "main net", err));
        DN_TRY(check_finite(from->bn_gamma, from->n_out, "BatchNorm weight", at, err));
        DN_TRY(check_finite(from->bn_beta, from->n_out, "BatchNorm bias", at, err));
        DN_TRY(check_finite(from->bn_mean, from->n_out, "BatchNorm mean", at, err));
        DN_TRY(check_finite(from->bn_var, from->n_out, "BatchNorm variance", at, err));
        for (uint64_t i = 0; i < from->n_out; i++) {
            if (from->bn_var[i] < 0) {
                DN_TRY(dn_fail(err, DN_ENUMERIC,
                               "main net, layer %zu: BatchNorm variance %llu is negative (%g)", at,
                               (unsigned long long)i, (double)from->bn_var[i]));
            }
            to->scale[i] = from->bn_gamma[i] / sqrt(from->bn_var[i] + BN_EPS);
            to->shift[i] = from->bn_beta[i] - from->bn_mean[i] * to->scale[i];
        }
    }
    status = DN_OK;
done:
    return status;
}

dn_status dn_mainnet_new(dn_mainnet **out, const dn_member *m, dn_task task, dn_err *err)
{
    dn_status status;
    dn_mainnet *net = NULL;
    *out = NULL;
    if (m->n_layers < 2)
        return dn_fail(err, DN_EFORMAT,
                       "the main net has %zu layers: at least a hidden and an output layer are needed",
                       m->n_layers);
    DN_TRY(dn_alloc(&net, 1, sizeof *net, "main net", err));
    net->task = task;
    DN_TRY(dn_alloc(&net->layer, m->n_layers, sizeof *net->layer, "main net", err));
    for (size_t i = 0; i < m->n_layers; i++) {
        const dn_layer *from = &m->layer[i];
        if (from->n_out == 0 || (i > 0 && from->n_in != m->layer[i - 1].n_out)) {
            DN_TRY(dn_fail(err, DN_EFORMAT,
                           "main net, layer %zu: %llu x %llu weights do not fit a layer of %llu units", i,
                           (unsigned long long)from->n_out, (unsigned long long)from->n_in,
                           (unsigned long long)(i > 0 ? m->layer[i - 1].n_out : from->n_out)));
        }
        net->n_layers = i + 1;
        DN_TRY(prepare(&net->layer[i], from, i, i + 1 == m->n_layers, err));
        if (net->layer[i].width > net->widest) net->widest = net->layer[i].width;
    }
    *out = net;
    net = NULL;
    status = DN_OK;
done:
    dn_mainnet_free(net);
    return status;
}

void dn_mainnet_free(dn_mainnet *net)
{
    if (!net) return;
    for (size_t i = 0; i < net->n_layers; i++) {
        free(net->layer[i].weight);
        free(net->layer[i].bias);
        free(net->layer[i].scale);
        free(net->layer[i].shift);
    }
    free(net->layer);
    free(net);
}

uint64_t dn_mainnet_in(const dn_mainnet *net)
{
    return net->layer[0].n_out;
}

uint64_t dn_mainnet_hidden(const dn_mainnet *net)
{
    return net->layer[net->n_layers - 2].n_out;
}

uint64_t dn_mainnet_out(const dn_mainnet *net)
{
    return net->layer[net->n_layers - 1].n_out;
}

size_t dn_mainnet_scratch(const dn_mainnet *net)
{
    return 2 * (size_t)net->widest;
}

/* next (width) = weight x h + bias. Compiled for several instruction sets; lanes are apart and nothing is
 * contracted, so all give the same bits. */
CLONES static void product(const layer *l, const double *h, double *next)
{
    for (uint64_t o = 0; o < l->width; o += LANES) {
        double sum[LANES];
        for (int k = 0; k < LANES; k++) sum[k] = o + (uint64_t)k < l->n_out ? l->bias[o + (uint64_t)k] : 0;
        const double *w = l->weight + o;
        for (uint64_t i = 0; i < l->n_in; i++, w += l->width) {
            for (int k = 0; k < LANES; k++) sum[k] += h[i] * w[k];
        }
        for (int k = 0; k < LANES; k++) next[o + (uint64_t)k] = sum[k];
    }
}

static void softmax(double *v, uint64_t n)
{
    double top = v[0], sum = 0;
    for (uint64_t i = 1; i < n; i++) top = v[i] > top ? v[i] : top;
    for (uint64_t i = 0; i < n; i++) sum += v[i] = exp(v[i] - top);
    for (uint64_t i = 0; i < n; i++) v[i] /= sum;
}

void dn_mainnet_eval(const dn_mainnet *net, const float *z, float *out, float *hidden, double *scratch)
{
    double *h = scratch, *next = scratch + net->widest;
    const layer *l = &net->layer[0];
    for (uint64_t i = 0; i < l->n_out; i++) h[i] = z[i] + l->bias[i];
    for (size_t k = 0; k + 1 < net->n_layers; k++) {
        for (uint64_t i = 0; i < l->n_out; i++) {
            /* Written so that NaN stays NaN: it must be seen at the end, not turned into 0. */
            double a = h[i] < 0 ? 0 : h[i];
            h[i] = a * l->scale[i] + l->shift[i];
        }
        if (hidden && k + 2 == net->n_layers) {
            for (uint64_t i = 0; i < l->n_out; i++) hidden[i] = (float)h[i];
        }
        l = &net->layer[k + 1];
        product(l, h, next);
        double *t = h;
        h = next;
        next = t;
    }
    if (net->task == DN_TASK_CLASSIFICATION) softmax(h, l->n_out);
    for (uint64_t i = 0; i < l->n_out; i++) out[i] = (float)h[i];
}

void dn_mainnet_eval_ref(const dn_member *m, dn_task task, const float *z, double *out, double *hidden,
                         double *scratch)
{
    uint64_t widest = 0;
    for (size_t k = 0; k < m->n_layers; k++) widest = m->layer[k].n_out > widest ? m->layer[k].n_out : widest;
    double *h = scratch, *a = scratch + widest, sum = 0;
    for (size_t k = 0; k < m->n_layers; k++) {
        const dn_layer *l = &m->layer[k];
        for (uint64_t o = 0; o < l->n_out; o++) {
            double v = k == 0 ? z[o] : 0;
            for (uint64_t i = 0; k > 0 && i < l->n_in; i++) v += (double)l->weight[o * l->n_in + i] * a[i];
            h[o] = v + l->bias[o];
        }
        for (uint64_t o = 0; k + 1 < m->n_layers && o < l->n_out; o++) {
            a[o] = ((h[o] > 0 ? h[o] : 0) - l->bn_mean[o]) / sqrt(l->bn_var[o] + BN_EPS) * l->bn_gamma[o] +
                   l->bn_beta[o];
            if (hidden && k + 2 == m->n_layers) hidden[o] = a[o];
        }
    }
    const uint64_t n = m->layer[m->n_layers - 1].n_out;
    double top = h[0];
    for (uint64_t o = 1; o < n; o++) top = h[o] > top ? h[o] : top;
    for (uint64_t o = 0; o < n; o++) sum += exp(h[o] - top);
    for (uint64_t o = 0; o < n; o++) out[o] = task == DN_TASK_CLASSIFICATION ? exp(h[o] - top) / sum : h[o];
}
