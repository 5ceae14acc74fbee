/* net.c: the Diet Network in terms of a backend's operations (see net.h, backend.h).
 *
 * All trained parameters lie in one array, the auxiliary net's first, then the main net's; gradients and
 * Adam's moments have the same layout, so that each optimiser is one call. Running statistics lie in an array
 * of their own. Where the backend's arrays are ordinary memory, the host's view of the state is those arrays
 * themselves. */
#include "net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One hidden layer of the main net or (out) the last one. Parameters point into the arenas, the rest into the
 * workspace. */
typedef struct {
    uint64_t n_in, n;
    float *weight, *bias, *gamma,
        *beta; /* weight: NULL for the fat layer; gamma, beta: NULL for the output */
    float *d_weight, *d_bias, *d_gamma, *d_beta;
    float *run_mean, *run_var;
    float *inv;                 /* n */
    float *z, *xhat, *y, *mask; /* B x n */
} layer;

struct dn_net {
    dn_net_config cfg;
    dn_backend *be;
    dn_genome *genome;
    uint64_t step;
    size_t n_hidden; /* n_main + 1; layer[n_hidden] is the output */
    layer *layer;
    uint64_t n_aux_param, n_param, n_run; /* items of the arenas: n_param counts both nets */
    float *param, *grad, *m, *v, *run;    /* the backend's */
    float *h_param, *h_m, *h_v, *h_run;   /* the host's; the same arrays under host_memory */
    float *aux_w[DN_MAX_LAYERS], *aux_dw[DN_MAX_LAYERS];
    size_t n_state;
    dn_net_param *state;
    bool fat_valid; /* the genome's activations belong to the present weights */
    /* workspace for `room` people: one array, cut into the layers' */
    uint64_t room, max_units;
    float *work;
    uint8_t *keep; /* room x max_units */
};

static dn_status check_config(const dn_net_config *c, dn_err *err)
{
    if (c->n_snps < 1 || c->n_snps > DN_MAX_SNPS) {
        return dn_fail(err, DN_EUSAGE, "network: %llu SNPs, expected 1 to %llu",
                       (unsigned long long)c->n_snps, (unsigned long long)DN_MAX_SNPS);
    }
    if (c->n_features < 1 || c->n_features > 3 * DN_MAX_CLASSES || c->n_out < 1 ||
        c->n_out > DN_MAX_CLASSES) {
        return dn_fail(err, DN_EUSAGE,
                       "network: %llu features and %llu outputs, expected 1 to %llu and 1 to %llu",
                       (unsigned long long)c->n_features, (unsigned long long)c->n_out,
                       (unsigned long long)(3 * DN_MAX_CLASSES), (unsigned long long)DN_MAX_CLASSES);
    }
    if (c->task == DN_TASK_REGRESSION && c->n_out != 1) {
        return dn_fail(err, DN_EUSAGE, "network: regression has 1 output, not %llu",
                       (unsigned long long)c->n_out);
    }
    if (c->n_aux > DN_MAX_LAYERS - 2 || c->n_main > DN_MAX_LAYERS - 2) {
        return dn_fail(err, DN_EUSAGE, "network: %zu auxiliary and %zu main layers, at most %d of each",
                       c->n_aux, c->n_main, DN_MAX_LAYERS - 2);
    }
    for (int side = 0; side < 2; side++) {
        size_t n = side ? c->n_main : c->n_aux;
        for (size_t l = 0; l < n; l++) {
            uint64_t u = side ? c->main[l] : c->aux[l];
            if (u < 1 || u > DN_MAX_UNITS) {
                return dn_fail(err, DN_EUSAGE, "network: %s layer %zu has %llu units, expected 1 to %llu",
                               side ? "main" : "auxiliary", l + 1, (unsigned long long)u,
                               (unsigned long long)DN_MAX_UNITS);
            }
        }
    }
    if (!(c->input_dropout >= 0 && c->input_dropout < 1) || !(c->dropout_main >= 0 && c->dropout_main < 1)) {
        return dn_fail(err, DN_EUSAGE,
                       "network: input_dropout %g and dropout_main %g, expected 0 or more and less than 1",
                       c->input_dropout, c->dropout_main);
    }
    if (!(fabs(c->uniform_init_limit) < 1e30)) {
        return dn_fail(err, DN_EUSAGE, "network: uniform_init_limit %g, expected a finite number",
                       c->uniform_init_limit);
    }
    return DN_OK;
}

/* Adds an array of the state at *at of its arena. Layout first (arenas NULL), addresses later: see layout().
 */
static void add_state(dn_net *net, size_t *count, dn_net_kind kind, size_t l, uint64_t rows, uint64_t cols,
                      const char *what)
{
    dn_net_param *p = &net->state[(*count)++];
    *p = (dn_net_param){
        .kind = kind, .layer = l, .rank = cols ? 2 : 1, .dims = {rows, cols}, .n = cols ? rows * cols : rows};
    snprintf(p->name, sizeof p->name, "%s/%zu/%s", kind == DN_NET_AUX_WEIGHT ? "aux" : "main", l, what);
}

/* Lists the arrays of the state in arena order and counts the arenas. */
static void layout(dn_net *net)
{
    const dn_net_config *c = &net->cfg;
    size_t n = 0;
    for (size_t l = 0; l < c->n_aux; l++) {
        add_state(net, &n, DN_NET_AUX_WEIGHT, l, c->aux[l], l ? c->aux[l - 1] : c->n_features, "weight");
    }
    for (size_t l = 0; l <= net->n_hidden; l++) {
        const layer *a = &net->layer[l];
        if (l) add_state(net, &n, DN_NET_WEIGHT, l, a->n, a->n_in, "weight");
        add_state(net, &n, DN_NET_BIAS, l, a->n, 0, "bias");
        if (l == net->n_hidden) break;
        add_state(net, &n, DN_NET_BN_GAMMA, l, a->n, 0, "bn_gamma");
        add_state(net, &n, DN_NET_BN_BETA, l, a->n, 0, "bn_beta");
        add_state(net, &n, DN_NET_BN_MEAN, l, a->n, 0, "bn_mean");
        add_state(net, &n, DN_NET_BN_VAR, l, a->n, 0, "bn_var");
    }
    net->n_state = n;
    for (size_t i = 0; i < n; i++) {
        const dn_net_param *p = &net->state[i];
        if (p->kind == DN_NET_BN_MEAN || p->kind == DN_NET_BN_VAR)
            net->n_run += p->n;
        else
            net->n_param += p->n;
        if (p->kind == DN_NET_AUX_WEIGHT) net->n_aux_param += p->n;
    }
}

/* Gives every array its place in the arenas, here and on the backend. */
static void place(dn_net *net)
{
    uint64_t at = 0, run = 0;
    for (size_t i = 0; i < net->n_state; i++) {
        dn_net_param *p = &net->state[i];
        layer *a = p->kind == DN_NET_AUX_WEIGHT ? NULL : &net->layer[p->layer];
        if (p->kind == DN_NET_BN_MEAN || p->kind == DN_NET_BN_VAR) {
            p->value = net->h_run + run;
            *(p->kind == DN_NET_BN_MEAN ? &a->run_mean : &a->run_var) = net->run + run;
            run += p->n;
            continue;
        }
        p->value = net->h_param + at, p->m = net->h_m + at, p->v = net->h_v + at;
        float *w = net->param + at, *d = net->grad + at;
        switch (p->kind) {
        case DN_NET_AUX_WEIGHT: net->aux_w[p->layer] = w, net->aux_dw[p->layer] = d; break;
        case DN_NET_WEIGHT: a->weight = w, a->d_weight = d; break;
        case DN_NET_BIAS: a->bias = w, a->d_bias = d; break;
        case DN_NET_BN_GAMMA: a->gamma = w, a->d_gamma = d; break;
        default: a->beta = w, a->d_beta = d; break;
        }
        at += p->n;
    }
}

dn_status dn_net_new(dn_net **out, const dn_net_config *cfg, const float *emb, const double *mean,
                     const double *sd, dn_backend *be, dn_err *err)
{
    dn_status status;
    dn_net *net = NULL;
    const dn_backend_ops *op = be->ops;
    *out = NULL;
    DN_TRY(check_config(cfg, err));
    DN_TRY(dn_alloc(&net, 1, sizeof *net, "network", err));
    net->cfg = *cfg;
    net->be = be;
    net->n_hidden = cfg->n_main + 1;
    DN_TRY(dn_alloc(&net->layer, net->n_hidden + 1, sizeof *net->layer, "layers", err));
    uint64_t n_in = cfg->n_aux ? cfg->aux[cfg->n_aux - 1] : cfg->n_features;
    for (size_t l = 0; l <= net->n_hidden; l++) {
        layer *a = &net->layer[l];
        a->n_in = n_in;
        a->n = l == 0 ? n_in : l == net->n_hidden ? cfg->n_out : cfg->main[l - 1];
        n_in = a->n;
        if (a->n > net->max_units) net->max_units = a->n;
    }
    DN_TRY(dn_alloc(&net->state, cfg->n_aux + 6 * (net->n_hidden + 1), sizeof *net->state,
                    "list of parameters", err));
    layout(net);
    DN_TRY(op->alloc(be, &net->param, net->n_param, "parameters", err));
    DN_TRY(op->alloc(be, &net->grad, net->n_param, "gradients", err));
    DN_TRY(op->alloc(be, &net->m, net->n_param, "Adam's first moments", err));
    DN_TRY(op->alloc(be, &net->v, net->n_param, "Adam's second moments", err));
    DN_TRY(op->alloc(be, &net->run, net->n_run, "running statistics", err));
    for (size_t l = 0; l < net->n_hidden; l++) {
        DN_TRY(op->alloc(be, &net->layer[l].inv, net->layer[l].n, "BatchNorm scales", err));
    }
    if (be->host_memory) {
        net->h_param = net->param, net->h_m = net->m, net->h_v = net->v, net->h_run = net->run;
    } else {
        DN_TRY(dn_alloc(&net->h_param, net->n_param, sizeof(float), "parameters", err));
        DN_TRY(dn_alloc(&net->h_m, net->n_param, sizeof(float), "Adam's first moments", err));
        DN_TRY(dn_alloc(&net->h_v, net->n_param, sizeof(float), "Adam's second moments", err));
        DN_TRY(dn_alloc(&net->h_run, net->n_run, sizeof(float), "running statistics", err));
    }
    place(net);
    dn_genome_spec spec = {cfg->n_snps, cfg->n_features, cfg->n_aux, {0}, emb, mean, sd};
    memcpy(spec.aux, cfg->aux, sizeof spec.aux);
    DN_TRY(op->genome_new(be, &net->genome, &spec, err));
    *out = net;
    net = NULL;
done:
    dn_net_free(net);
    return status;
}

void dn_net_free(dn_net *net)
{
    if (!net) return;
    const dn_backend_ops *op = net->be->ops;
    op->genome_free(net->be, net->genome);
    if (!net->be->host_memory) {
        free(net->h_param);
        free(net->h_m);
        free(net->h_v);
        free(net->h_run);
    }
    op->release(net->be, net->param);
    op->release(net->be, net->grad);
    op->release(net->be, net->m);
    op->release(net->be, net->v);
    op->release(net->be, net->run);
    op->release(net->be, net->work);
    for (size_t l = 0; net->layer && l <= net->n_hidden; l++) op->release(net->be, net->layer[l].inv);
    free(net->layer);
    free(net->state);
    free(net->keep);
    free(net);
}

const dn_net_config *dn_net_get_config(const dn_net *net)
{
    return &net->cfg;
}
dn_net_param *dn_net_params(dn_net *net, size_t *n)
{
    *n = net->n_state;
    return net->state;
}
uint64_t *dn_net_step(dn_net *net)
{
    return &net->step;
}
uint64_t dn_net_fat_units(const dn_net *net)
{
    return net->layer[0].n;
}

dn_status dn_net_resident(dn_net *net, const uint8_t *base, uint64_t stride, uint64_t n_rows, dn_err *err)
{
    return net->be->ops->resident(net->be, net->genome, base, stride, n_rows, err);
}

/* PyTorch's nn.Linear draws these at its construction; upstream then draws its own weights over them. */
static void discard_kaiming(dn_rng *rng, uint64_t n_in, uint64_t n_out, bool bias)
{
    dn_rng_uniform(rng, 0, 1, NULL, n_in * n_out);
    if (bias) dn_rng_uniform(rng, 0, 1, NULL, n_out);
}

dn_status dn_net_init(dn_net *net, dn_rng *rng, dn_err *err)
{
    float lim = (float)net->cfg.uniform_init_limit;
    for (size_t i = 0; i < net->n_state; i++) {
        dn_net_param *p = &net->state[i];
        bool one = p->kind == DN_NET_BN_GAMMA || p->kind == DN_NET_BN_VAR;
        for (uint64_t k = 0; k < p->n; k++) p->value[k] = one ? 1.0f : 0.0f;
        if (p->m) memset(p->m, 0, p->n * sizeof(float));
        if (p->v) memset(p->v, 0, p->n * sizeof(float));
        if (p->kind == DN_NET_AUX_WEIGHT) {
            discard_kaiming(rng, p->dims[1], p->dims[0], false);
            dn_rng_uniform(rng, -lim, lim, p->value, p->n);
        } else if (p->kind == DN_NET_WEIGHT) {
            double x = sqrt(3.0) * sqrt(2.0 / (double)(p->dims[0] + p->dims[1])); /* Xavier */
            discard_kaiming(rng, p->dims[1], p->dims[0], true);
            dn_rng_uniform(rng, (float)-x, (float)x, p->value, p->n);
        }
    }
    dn_rng_uniform(rng, 0, 1, NULL,
                   net->layer[0].n); /* upstream's rand(H) for the fat bias, set to 0 afterwards */
    net->step = 0;
    return dn_net_push(net, err);
}

dn_status dn_net_pull(dn_net *net, dn_err *err)
{
    if (net->be->host_memory) return DN_OK;
    dn_status status;
    const dn_backend_ops *op = net->be->ops;
    DN_TRY(op->download(net->be, net->h_param, net->param, net->n_param, err));
    DN_TRY(op->download(net->be, net->h_m, net->m, net->n_param, err));
    DN_TRY(op->download(net->be, net->h_v, net->v, net->n_param, err));
    DN_TRY(op->download(net->be, net->h_run, net->run, net->n_run, err));
done:
    return status;
}

dn_status dn_net_push(dn_net *net, dn_err *err)
{
    net->fat_valid = false;
    if (net->be->host_memory) return DN_OK;
    dn_status status;
    const dn_backend_ops *op = net->be->ops;
    DN_TRY(op->upload(net->be, net->param, net->h_param, net->n_param, err));
    DN_TRY(op->upload(net->be, net->m, net->h_m, net->n_param, err));
    DN_TRY(op->upload(net->be, net->v, net->h_v, net->n_param, err));
    DN_TRY(op->upload(net->be, net->run, net->h_run, net->n_run, err));
done:
    return status;
}

static dn_status need_fat(dn_net *net, dn_err *err)
{
    if (net->fat_valid) return DN_OK;
    dn_status status = net->be->ops->aux_forward(net->be, net->genome, net->aux_w, err);
    net->fat_valid = status == DN_OK;
    return status;
}

dn_status dn_net_fat(dn_net *net, float *fat, dn_err *err)
{
    dn_status status = need_fat(net, err);
    return status != DN_OK ? status : net->be->ops->fat_download(net->be, net->genome, fat, err);
}

/* Workspace for B people at least. */
static dn_status need_room(dn_net *net, uint64_t B, dn_err *err)
{
    if (B <= net->room) return DN_OK;
    dn_status status;
    const dn_backend_ops *op = net->be->ops;
    op->release(net->be, net->work);
    net->work = NULL;
    free(net->keep);
    net->keep = NULL;
    net->room = 0;
    uint64_t units = 0, total = 0; /* of each layer z, xhat, y, mask */
    for (size_t l = 0; l <= net->n_hidden; l++) units += 4 * net->layer[l].n;
    B = (B + 15) / 16 * 16; /* keeps the pieces aligned to 64 bytes */
    if (B > DN_MAX_PEOPLE || !dn_mul(units, B, &total)) {
        DN_TRY(dn_fail(err, DN_ENOMEM,
                       "network: a batch of %llu people is too large: give a smaller batch_size",
                       (unsigned long long)B));
    }
    DN_TRY(op->alloc(net->be, &net->work, total, "activations of a batch", err));
    DN_TRY(dn_alloc(&net->keep, B * net->max_units, 1, "dropout mask", err));
    float *p = net->work;
    for (size_t l = 0; l <= net->n_hidden; l++) {
        layer *a = &net->layer[l];
        a->z = p, p += B * a->n;
        a->xhat = p, p += B * a->n;
        a->y = p, p += B * a->n;
        a->mask = p, p += B * a->n;
    }
    net->room = B;
    status = DN_OK;
done:
    return status;
}

static dn_status check_labels(const dn_net *net, const dn_net_batch *b, dn_err *err)
{
    if (net->cfg.task == DN_TASK_REGRESSION) return DN_OK;
    for (uint64_t i = 0; i < b->n; i++) {
        if (b->label[i] < 0 || (uint64_t)b->label[i] >= net->cfg.n_out) {
            return dn_fail(
                err, DN_EINTERNAL, "network: person %llu of the batch has label %lld, expected 0 to %llu",
                (unsigned long long)i, (long long)b->label[i], (unsigned long long)net->cfg.n_out - 1);
        }
    }
    return DN_OK;
}

/* Loss of the output layer's z for people [at, at + n) of b. */
static dn_status loss_of(dn_net *net, const dn_net_batch *b, uint64_t at, uint64_t n, float *dz,
                         float *scores, double *loss, uint64_t *correct, dn_err *err)
{
    const layer *out = &net->layer[net->n_hidden];
    dn_status status;
    *correct = 0;
    if (net->cfg.task == DN_TASK_REGRESSION) {
        status = net->be->ops->mse_loss(net->be, out->z, b->target + at, n, dz, scores, loss, err);
    } else {
        status = net->be->ops->softmax_loss(net->be, out->z, b->label + at, n, out->n, dz, scores, loss,
                                            correct, err);
    }
    if (status == DN_OK && !isfinite(*loss)) {
        status =
            dn_fail(err, DN_ENUMERIC, "the loss is not finite (%g): a smaller learning rate may help", *loss);
    }
    return status;
}

static dn_status forward_train(dn_net *net, const dn_net_batch *b, dn_rng *rng, dn_err *err)
{
    dn_status status;
    dn_backend *be = net->be;
    const dn_backend_ops *op = be->ops;
    const dn_net_config *c = &net->cfg;
    DN_TRY(op->load_rows(be, net->genome, b->rows, b->n, 1.0 - c->input_dropout, rng, err));
    net->fat_valid = false;
    DN_TRY(op->aux_fat_forward(be, net->genome, net->aux_w, net->layer[0].z, err));
    net->fat_valid = true;
    for (size_t l = 0; l <= net->n_hidden; l++) {
        layer *a = &net->layer[l];
        if (l == 0)
            DN_TRY(op->bias_forward(be, a->z, a->bias, b->n, a->n, err));
        else
            DN_TRY(op->dense_forward(be, a[-1].y, a->weight, a->bias, b->n, a->n_in, a->n, a->z, err));
        if (l == net->n_hidden) break;
        DN_TRY(op->relu_bn_train(be, a->z, a->gamma, a->beta, b->n, a->n, a->run_mean, a->run_var, a->xhat,
                                 a->inv, a->y, err));
        if (c->dropout_main > 0) {
            double keep = 1.0 - c->dropout_main;
            dn_rng_bernoulli(rng, keep, net->keep, b->n * a->n);
            DN_TRY(op->dropout_mask(be, a->mask, net->keep, b->n * a->n, (float)(1.0 / keep), err));
            DN_TRY(op->multiply(be, a->y, a->mask, b->n * a->n, err));
        }
    }
done:
    return status;
}

/* From the gradient of the output's z, in the output layer's y, to all gradients. A layer's y is overwritten
 * by its gradient. */
static dn_status backward(dn_net *net, uint64_t B, dn_err *err)
{
    dn_status status;
    dn_backend *be = net->be;
    const dn_backend_ops *op = be->ops;
    float *d = net->layer[net->n_hidden].y;
    for (size_t l = net->n_hidden; l > 0; l--) {
        layer *a = &net->layer[l], *below = a - 1;
        DN_TRY(op->dense_backward(be, below->y, a->weight, d, B, a->n_in, a->n, a->d_weight, a->d_bias,
                                  below->y, err));
        d = below->y;
        if (net->cfg.dropout_main > 0) DN_TRY(op->multiply(be, d, below->mask, B * below->n, err));
        DN_TRY(op->relu_bn_backward(be, d, below->z, below->gamma, below->xhat, below->inv, B, below->n,
                                    below->d_gamma, below->d_beta, d, err));
    }
    const layer *fat = &net->layer[0];
    DN_TRY(op->bias_backward(be, d, B, fat->n, fat->d_bias, err));
    DN_TRY(op->aux_fat_backward(be, net->genome, net->aux_w, d, net->aux_dw, err));
done:
    return status;
}

dn_status dn_net_train_batch(dn_net *net, const dn_net_batch *b, double lr_aux, double lr_main, dn_rng *rng,
                             double *loss_sum, uint64_t *n_correct, dn_err *err)
{
    dn_status status;
    dn_backend *be = net->be;
    double loss;
    uint64_t correct;
    if (b->n < 2) {
        return dn_fail(err, DN_ENUMERIC, "a training batch of %llu: BatchNorm needs two people at least",
                       (unsigned long long)b->n);
    }
    DN_TRY(check_labels(net, b, err));
    DN_TRY(need_room(net, b->n, err));
    DN_TRY(forward_train(net, b, rng, err));
    DN_TRY(loss_of(net, b, 0, b->n, net->layer[net->n_hidden].y, NULL, &loss, &correct, err));
    DN_TRY(backward(net, b->n, err));
    net->step++;
    uint64_t na = net->n_aux_param;
    DN_TRY(be->ops->adam(be, net->param, net->grad, net->m, net->v, na, lr_aux, net->step, err));
    DN_TRY(be->ops->adam(be, net->param + na, net->grad + na, net->m + na, net->v + na, net->n_param - na,
                         lr_main, net->step, err));
    net->fat_valid = false;
    *loss_sum += loss;
    *n_correct += correct;
done:
    return status;
}

dn_status dn_net_eval(dn_net *net, const dn_net_batch *b, double *loss_sum, uint64_t *n_correct,
                      float *scores, bool (*stop)(void *), void *stop_arg, dn_err *err)
{
    dn_status status;
    dn_backend *be = net->be;
    const dn_backend_ops *op = be->ops;
    uint64_t block = be->eval_block;
    DN_TRY(check_labels(net, b, err));
    DN_TRY(need_fat(net, err));
    DN_TRY(need_room(net, b->n < block ? b->n : block, err));
    for (uint64_t at = 0; at < b->n; at += block) {
        uint64_t n = b->n - at < block ? b->n - at : block, correct;
        double loss;
        if (stop && stop(stop_arg)) DN_TRY(dn_fail(err, DN_ESTOPPED, "stopped during an evaluation"));
        DN_TRY(op->load_rows(be, net->genome, b->rows + at, n, 1.0, NULL, err));
        DN_TRY(op->fat_forward(be, net->genome, net->layer[0].z, err));
        for (size_t l = 0; l <= net->n_hidden; l++) {
            layer *a = &net->layer[l];
            if (l == 0)
                DN_TRY(op->bias_forward(be, a->z, a->bias, n, a->n, err));
            else
                DN_TRY(op->dense_forward(be, a[-1].y, a->weight, a->bias, n, a->n_in, a->n, a->z, err));
            if (l == net->n_hidden) break;
            DN_TRY(
                op->relu_bn_eval(be, a->z, a->gamma, a->beta, a->run_mean, a->run_var, n, a->n, a->y, err));
        }
        DN_TRY(
            loss_of(net, b, at, n, NULL, scores ? scores + at * net->cfg.n_out : NULL, &loss, &correct, err));
        *loss_sum += loss;
        *n_correct += correct;
    }
    status = DN_OK;
done:
    return status;
}
