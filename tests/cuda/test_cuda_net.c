/* Training through the plugin: the network of net.h on the shim's devices against the CPU, the same run
 * twice, devices together, and states that move between CPU and GPU. */
#include "net.h"
#include "plugin.h"
#include "stats.h"

/* After STEPS steps of Adam the two differ by roundings that the steps have passed on; Adam's step has the
 * size of the learning rate whatever the gradient's, so weights whose gradient is near 0 may differ by a part
 * of it. */
#define STEPS      6
#define TOL_LOSS   2e-4 /* relative */
#define TOL_WEIGHT 2e-3
#define LR_AUX     1e-3
#define LR_MAIN    3e-3

static unsigned long long seed = 3;
static dn_err err;
static int steps = STEPS;

typedef struct {
    dn_net_config cfg;
    uint64_t people, B, stride;
    uint8_t *packed;
    int64_t *label;
    double *target, *mean, *sd;
    float *emb;
} problem;

static problem make(dn_task task, uint64_t M, uint64_t people, uint64_t B, uint64_t C, size_t n_aux,
                    size_t n_main)
{
    problem p = {.people = people, .B = B, .stride = (dn_geno_bytes(M) + 63) / 64 * 64};
    p.cfg = (dn_net_config){.task = task,
                            .n_snps = M,
                            .n_features = 3 * C,
                            .n_out = task == DN_TASK_REGRESSION ? 1 : C,
                            .n_aux = n_aux,
                            .n_main = n_main,
                            .aux = {12, 9, 11},
                            .main = {10, 7},
                            .input_dropout = 0.2,
                            .dropout_main = 0.3,
                            .uniform_init_limit = 0.1};
    p.packed = malloc(people * p.stride);
    p.label = malloc(people * sizeof *p.label);
    p.target = malloc(people * sizeof *p.target);
    p.mean = malloc(M * sizeof *p.mean);
    p.sd = malloc(M * sizeof *p.sd);
    p.emb = malloc(M * 3 * C * sizeof *p.emb);
    uint32_t *counts = calloc(M * C * 3, sizeof *counts);
    uint64_t *size = calloc(C, sizeof *size);
    double *emb = malloc(M * 3 * C * sizeof *emb);
    const uint8_t **rows = malloc(people * sizeof *rows);
    int8_t *calls = malloc(M);
    for (uint64_t i = 0; i < people; i++) {
        rows[i] = p.packed + i * p.stride;
        p.label[i] = (int64_t)(i % C);
        p.target[i] = (double)p.label[i] / 2 + (double)(check_rand(&seed) % 100) / 300;
        size[p.label[i]]++;
        for (uint64_t j = 0; j < M; j++) { /* frequencies differ between classes */
            uint64_t r = check_rand(&seed) >> 20;
            calls[j] =
                (int8_t)(r % 29 == 0                                           ? -1
                         : r % 10 < 3 + (j * 7 + (uint64_t)p.label[i] * 3) % 5 ? 0
                                                                               : 1 + (int)(r >> 8) % 2);
            if (j % 31 == 7) calls[j] = 1; /* flat */
        }
        dn_geno_pack(calls, M, p.packed + i * p.stride);
    }
    dn_counts_add_ref(counts, M, C, rows, p.label, people);
    dn_stats(counts, M, C, p.mean, p.sd, NULL, NULL);
    dn_embedding(counts, M, C, size, emb);
    dn_embedding_normalise(emb, M, 3 * C, p.emb);
    free(counts), free(size), free(emb), free(rows), free(calls);
    return p;
}
static void drop(problem *p)
{
    free(p->packed), free(p->label), free(p->target), free(p->mean), free(p->sd), free(p->emb);
}

/* What a run leaves. */
typedef struct {
    double loss[STEPS + 2];
    uint64_t correct[STEPS + 2];
    size_t n;
    float *state; /* values, m, v of all parameters, then the fat layer, then probabilities of everybody */
    dn_rng rng;
} result;

static dn_status keep_state(const problem *p, dn_net *net, dn_net_batch *all, result *r)
{
    size_t n_param;
    dn_net_param *q = dn_net_params(net, &n_param);
    dn_status status;
    uint64_t H = dn_net_fat_units(net);
    DN_TRY(dn_net_pull(net, &err));
    r->n = p->cfg.n_snps * H + p->people * p->cfg.n_out;
    for (size_t i = 0; i < n_param; i++) r->n += q[i].n * 3;
    r->state = calloc(r->n, sizeof *r->state);
    float *s = r->state;
    for (size_t i = 0; i < n_param; i++) {
        memcpy(s, q[i].value, q[i].n * sizeof *s), s += q[i].n;
        if (q[i].m) memcpy(s, q[i].m, q[i].n * sizeof *s), s += q[i].n;
        if (q[i].v) memcpy(s, q[i].v, q[i].n * sizeof *s), s += q[i].n;
    }
    DN_TRY(dn_net_fat(net, s, &err));
    s += p->cfg.n_snps * H;
    r->loss[STEPS] = 0, r->correct[STEPS] = 0;
    DN_TRY(dn_net_eval(net, all, &r->loss[STEPS], &r->correct[STEPS], s, NULL, NULL, &err));
done:
    return status;
}

/* STEPS steps, then everything. second: from step STEPS / 2 on the training goes on there, from a state moved
 * over. */
static dn_status train(const problem *p, dn_backend *be, dn_backend *second, bool resident, bool fast,
                       result *r)
{
    dn_status status;
    dn_net *net = NULL, *other = NULL;
    const uint8_t **rows = malloc(p->people * sizeof *rows);
    int64_t *label = malloc(p->people * sizeof *label);
    double *target = malloc(p->people * sizeof *target);
    memset(r, 0, sizeof *r);
    dn_rng_seed(&r->rng, 11);
    DN_TRY(dn_net_new(&net, &p->cfg, p->emb, p->mean, p->sd, be, &err));
    DN_TRY(dn_net_init(net, &r->rng, &err));
    if (resident) DN_TRY(dn_net_resident(net, p->packed, p->stride, p->people, &err));
    if (fast) dn_rng_use_fast(&r->rng, 99);
    for (int step = 0; step < steps; step++) {
        if (second && step == STEPS / 2) {
            size_t n;
            DN_TRY(dn_net_new(&other, &p->cfg, p->emb, p->mean, p->sd, second, &err));
            DN_TRY(dn_net_pull(net, &err));
            dn_net_param *a = dn_net_params(net, &n), *b = dn_net_params(other, &n);
            for (size_t i = 0; i < n; i++) {
                memcpy(b[i].value, a[i].value, a[i].n * sizeof(float));
                if (a[i].m) memcpy(b[i].m, a[i].m, a[i].n * sizeof(float));
                if (a[i].v) memcpy(b[i].v, a[i].v, a[i].n * sizeof(float));
            }
            *dn_net_step(other) = *dn_net_step(net);
            DN_TRY(dn_net_push(other, &err));
            dn_net_free(net);
            net = other;
            other = NULL;
        }
        uint64_t n = step % 3 == 2 ? p->B - 3 : p->B; /* a shorter batch now and then */
        for (uint64_t b = 0; b < n; b++) {
            uint64_t i = ((uint64_t)step * p->B + b * 5) % p->people;
            rows[b] = p->packed + i * p->stride;
            label[b] = p->label[i], target[b] = p->target[i];
        }
        dn_net_batch batch = {n, rows, label, target};
        DN_TRY(dn_net_train_batch(net, &batch, LR_AUX, LR_MAIN, &r->rng, &r->loss[step], &r->correct[step],
                                  &err));
    }
    for (uint64_t i = 0; i < p->people; i++) rows[i] = p->packed + i * p->stride;
    dn_net_batch all = {p->people, rows, p->label, p->target};
    DN_TRY(keep_state(p, net, &all, r));
done:
    dn_net_free(net);
    dn_net_free(other);
    free(rows), free(label), free(target);
    return status;
}

static double loss_distance(const result *a, const result *b)
{
    double worst = 0;
    for (int i = 0; i <= STEPS; i++) {
        double d = fabs(a->loss[i] - b->loss[i]) / (1 + fabs(a->loss[i]));
        if (!(d <= worst)) worst = d;
    }
    return worst;
}
static double state_distance(const result *a, const result *b)
{
    double worst = 0;
    for (size_t i = 0; i < a->n; i++) {
        double d = fabs((double)a->state[i] - b->state[i]);
        if (!(d <= worst)) worst = d;
    }
    return worst;
}
static bool same_bytes(const result *a, const result *b)
{
    return a->n == b->n && memcmp(a->state, b->state, a->n * sizeof(float)) == 0 &&
           memcmp(a->loss, b->loss, sizeof a->loss) == 0;
}
static void check_near(const char *what, const result *a, const result *b)
{
    CHECK(a->n == b->n && memcmp(&a->rng, &b->rng, sizeof a->rng) == 0);
    double l = loss_distance(a, b), s = state_distance(a, b);
    CHECK_MSG(l < TOL_LOSS, "%s: losses differ by %g", what, l);
    CHECK_MSG(s < TOL_WEIGHT, "%s: weights differ by %g", what, s);
    for (int i = 0; i <= STEPS; i++) CHECK(a->correct[i] == b->correct[i]);
}

static dn_status train_on(const problem *p, size_t devices, bool resident, bool fast, result *r)
{
    dn_backend *be;
    const dn_cuda_options o = {devices, false, 0};
    memset(r, 0, sizeof *r);
    dn_status status = plug->backend_new(&be, &o, &err);
    if (status != DN_OK) return status;
    status = train(p, be, NULL, resident, fast, r);
    dn_backend_free(be);
    return status;
}

static void check_training(const char *what, const problem *p, dn_backend *cpu)
{
    for (int fast = 0; fast < 2; fast++) {
        result c, g[5];
        CHECK_OK(train(p, cpu, NULL, false, fast, &c), &err);
        CHECK(c.loss[0] > 0 && isfinite(c.loss[STEPS]));
        size_t runs = 2 + devices_of(3); /* twice the same; staged; two and three devices */
        for (size_t i = 0; i < runs; i++) {
            CHECK_OK(train_on(p, i < 3 ? 1 : i - 1, i != 2, fast, &g[i]), &err);
            check_near(what, &c, &g[i]);
            check_clean(what);
        }
        CHECK_MSG(same_bytes(&g[0], &g[1]), "GP04: %s: the same run twice", what);
        CHECK_MSG(same_bytes(&g[0], &g[2]), "%s: rows resident or staged", what);
        free(c.state);
        for (size_t i = 0; i < runs; i++) free(g[i].state);
    }
}

/* A run may move from one to the other. */
static void check_moves(const problem *p, dn_backend *cpu)
{
    result c, there, back, whole, twice;
    dn_backend *gpu;
    const dn_cuda_options o = {1, false, 0};
    CHECK_OK(plug->backend_new(&gpu, &o, &err), &err);
    CHECK_OK(train(p, cpu, NULL, true, false, &c), &err);
    CHECK_OK(train(p, cpu, gpu, true, false, &there), &err);
    CHECK_OK(train(p, gpu, cpu, true, false, &back), &err);
    CHECK_OK(train(p, gpu, NULL, true, false, &whole), &err);
    CHECK_OK(train(p, gpu, gpu, true, false, &twice), &err);
    check_near("CPU to GPU", &c, &there);
    check_near("GPU to CPU", &c, &back);
    CHECK_MSG(same_bytes(&whole, &twice), "a state saved and loaded on the GPU");
    dn_backend_free(gpu);
    check_clean("moves");
    free(c.state), free(there.state), free(back.state), free(whole.state), free(twice.state);
}

/* Every call that can fail, and every kernel: DN_EGPU with the call, and everything given back. */
static void check_failures(const problem *p, size_t devices, bool resident)
{
    long n_calls = 0, n_kernels = 0;
    steps = 2;
    for (int kernels = 0; kernels < 2; kernels++) {
        for (long k = 1;; k++) {
            result r;
            shim->reset();
            (kernels ? shim->fail_kernel : shim->fail_at)(k);
            memset(&err, 0, sizeof err);
            dn_status st = train_on(p, devices, resident, k % 2 == 0, &r);
            free(r.state);
            check_clean("a call that fails");
            if ((kernels ? shim->kernels() : shim->calls()) < k) {
                CHECK_OK(st, &err);
                *(kernels ? &n_kernels : &n_calls) = k - 1;
                break;
            }
            bool given_back = !strcmp(shim->failed(), "cudaFree") || strstr(shim->failed(), "Destroy") ||
                              !strcmp(shim->failed(), "cudaFreeHost");
            bool closing =
                st == DN_OK && r.loss[STEPS] > 0; /* gpu_close() looks at no error: the work was done */
            CHECK_MSG(st == DN_EGPU || (!kernels && (given_back || closing)), "%s %ld (%s): status %d",
                      kernels ? "kernel" : "call", k, shim->failed(), (int)st);
            if (st == DN_EGPU)
                CHECK_MSG(strncmp(err.msg, "GPU: ", 5) == 0 &&
                              (strstr(err.msg, "cuda") || strstr(err.msg, "cublas") ||
                               strstr(err.msg, "launch of k_")),
                          "%s", err.msg);
        }
    }
    CHECK_MSG(n_calls > 300 && n_kernels > 50, "%ld calls, %ld kernels", n_calls, n_kernels);
    shim->reset();
    steps = STEPS;
}

int main(void)
{
    dn_pool *pool;
    dn_backend *cpu;
    load_plugin();
    CHECK_OK(dn_pool_new(&pool, 1, &err), &err);
    CHECK_OK(dn_backend_cpu(&cpu, pool, &err), &err);
    shim_set("DN_SHIM_DEVICES", "3");
    const char *const modes[] = {"0", "1", "2", "3", "128", "129"}; /* who runs when: see shim.h */
    for (size_t lazy = real ? 1 : 0; lazy < (real ? 2 : sizeof modes / sizeof *modes); lazy++) {
        shim_set("DN_SHIM_LAZY", modes[lazy]);
        problem p = make(DN_TASK_CLASSIFICATION, 701, 60, 17, 4, 2, 1);
        check_training("two auxiliary layers", &p, cpu);
        if (lazy == 1) check_moves(&p, cpu);
        drop(&p);
        p = make(DN_TASK_CLASSIFICATION, 138, 40, 9, 3, 0, 2);
        check_training("no auxiliary layer", &p, cpu);
        drop(&p);
        p = make(DN_TASK_REGRESSION, 333, 40, 12, 2, 1, 0);
        check_training("regression", &p, cpu);
        drop(&p);
    }
    problem p = make(DN_TASK_CLASSIFICATION, 130, 12, 6, 2, 2, 1);
    if (!real) {
        check_failures(&p, 1, true);
        check_failures(&p, 2, false);
        /* Too little memory is said with numbers. */
        result r;
        shim_set("DN_SHIM_MEMORY", "20000");
        CHECK(train_on(&p, 1, true, false, &r) == DN_EGPU);
        CHECK_MSG(strstr(err.msg, "out of memory") && strstr(err.msg, "bytes"), "%s", err.msg);
        free(r.state);
        check_clean("too little memory");
        shim_set("DN_SHIM_MEMORY", NULL);
    }
    drop(&p);
    dn_backend_free(cpu);
    dn_pool_free(pool);
    return check_done();
}
