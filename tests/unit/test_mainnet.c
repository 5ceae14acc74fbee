/* test_mainnet.c: a member's main net against the plain version, odd shapes, and what must be refused. */
#include "check.h"
#include "mainnet.h"

static float uniform(unsigned long long *s)
{
    return (float)(check_rand(s) >> 40) / (float)(1 << 24) - 0.5f;
}

static float *random_floats(uint64_t n, float offset, unsigned long long *s)
{
    float *v = malloc((n + 1) * sizeof *v);
    for (uint64_t i = 0; i < n; i++) v[i] = uniform(s) + offset;
    return v;
}

static dn_member make(const uint64_t *units, size_t n_layers, unsigned long long seed)
{
    unsigned long long s = seed * 7919 + 12345;
    dn_member m = {.n_layers = n_layers, .layer = calloc(n_layers, sizeof *m.layer)};
    for (size_t k = 0; k < n_layers; k++) {
        dn_layer *l = &m.layer[k];
        l->n_out = units[k];
        l->n_in = k ? units[k - 1] : 1000;
        l->weight = k ? random_floats(l->n_in * l->n_out, 0, &s) : NULL;
        l->bias = random_floats(l->n_out, 0, &s);
        if (k + 1 == n_layers) continue;
        l->bn_gamma = random_floats(l->n_out, 1, &s);
        l->bn_beta = random_floats(l->n_out, 0, &s);
        l->bn_mean = random_floats(l->n_out, 0, &s);
        l->bn_var = random_floats(l->n_out, 0.6f, &s);
    }
    return m;
}

static void drop(dn_member *m)
{
    for (size_t k = 0; k < m->n_layers; k++) {
        dn_layer *l = &m->layer[k];
        free(l->weight), free(l->bias), free(l->bn_gamma), free(l->bn_beta), free(l->bn_mean),
            free(l->bn_var);
    }
    free(m->layer);
}

static void check_net(const uint64_t *units, size_t n_layers, dn_task task)
{
    dn_err err = {0};
    dn_member m = make(units, n_layers, n_layers + units[0]);
    dn_mainnet *net;
    CHECK_OK(dn_mainnet_new(&net, &m, task, &err), &err);
    uint64_t n_out = units[n_layers - 1], n_hidden = units[n_layers - 2];
    CHECK(dn_mainnet_in(net) == units[0] && dn_mainnet_hidden(net) == n_hidden &&
          dn_mainnet_out(net) == n_out);
    double *scratch = malloc((dn_mainnet_scratch(net) + 1) * sizeof *scratch), ref_scratch[512], ref[256],
           ref_hidden[256];
    float out[256], out2[256], hidden[256];
    unsigned long long s = 99;
    for (int person = 0; person < 5; person++) {
        float *z = random_floats(units[0], 0, &s);
        for (uint64_t i = 0; i < units[0]; i++) z[i] *= 8;
        dn_mainnet_eval(net, z, out, hidden, scratch);
        dn_mainnet_eval(net, z, out2, NULL, scratch);
        dn_mainnet_eval_ref(&m, task, z, ref, ref_hidden, ref_scratch);
        double worst = 0, sum = 0;
        for (uint64_t i = 0; i < n_out; i++)
            worst = fmax(worst, fabs(out[i] - ref[i]) / (1 + fabs(ref[i]))), sum += out[i];
        for (uint64_t i = 0; i < n_hidden; i++)
            worst = fmax(worst, fabs(hidden[i] - ref_hidden[i]) / (1 + fabs(ref_hidden[i])));
        CHECK_MSG(worst < 1e-6, "%zu layers: off by %g", n_layers, worst);
        CHECK(memcmp(out, out2, n_out * sizeof *out) == 0);
        if (task == DN_TASK_CLASSIFICATION) CHECK_MSG(fabs(sum - 1) < 1e-5, "sum %g", sum);
        /* A sum that is not a number must be seen at the end. */
        z[units[0] / 2] = NAN;
        dn_mainnet_eval(net, z, out, hidden, scratch);
        CHECK(isnan(out[0]));
        free(z);
    }
    free(scratch);
    dn_mainnet_free(net);
    drop(&m);
}

static void check_refused(void (*spoil)(dn_member *), dn_status want, const char *word)
{
    static const uint64_t units[] = {10, 7, 3};
    dn_err err = {0};
    dn_mainnet *net;
    dn_member m = make(units, 3, 5);
    spoil(&m);
    dn_status st = dn_mainnet_new(&net, &m, DN_TASK_CLASSIFICATION, &err);
    CHECK_MSG(st == want && strstr(err.msg, word), "%d: %s", (int)st, err.msg);
    CHECK(net == NULL);
    drop(&m);
}

static void inf_weight(dn_member *m)
{
    m->layer[1].weight[3] = INFINITY;
}
static void nan_bias(dn_member *m)
{
    m->layer[2].bias[0] = NAN;
}
static void negative_variance(dn_member *m)
{
    m->layer[0].bn_var[1] = -1;
}
static void wrong_shape(dn_member *m)
{
    m->layer[2].n_in = 8;
}

int main(void)
{
    check_net((uint64_t[]){100, 100, 24}, 3, DN_TASK_CLASSIFICATION);
    check_net((uint64_t[]){5, 2}, 2, DN_TASK_CLASSIFICATION);
    check_net((uint64_t[]){1, 1, 1}, 3, DN_TASK_REGRESSION);
    check_net((uint64_t[]){33, 17, 9, 65, 1}, 5, DN_TASK_REGRESSION);
    check_net((uint64_t[]){8, 16, 8, 26}, 4, DN_TASK_CLASSIFICATION);
    check_refused(inf_weight, DN_ENUMERIC, "weight 3");
    check_refused(nan_bias, DN_ENUMERIC, "layer 2: bias 0");
    check_refused(negative_variance, DN_ENUMERIC, "variance 1 is negative");
    check_refused(wrong_shape, DN_EFORMAT, "do not fit");
    return check_done();
}
