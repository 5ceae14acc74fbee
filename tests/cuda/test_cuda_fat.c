/* Prediction through the plugin: the fat layer against dn_fat_forward() and the plain version in double. */
#include "fat.h"
#include "plugin.h"

static unsigned long long seed = 5;
/* Sums of up to 10,000 products of a standardised dosage (up to 10) and a weight (up to 0.5), in float32. */
#define TOLERANCE 2e-4

typedef struct {
    dn_fat_problem p;
    dn_fat_member *member;
    uint64_t *place, total, row_bytes;
    float *weight;
    double *mean, *sd;
} problem;

static double uniform(void)
{
    return (double)(check_rand(&seed) >> 11) * 0x1p-53;
}

/* Members m and m + folds share mean and sd. A tenth of the SNPs are flat, with a weight that must not count.
 */
static problem make(uint64_t model_snps, uint64_t cols, size_t members, size_t folds, const uint64_t *units,
                    double scale)
{
    problem q = {.row_bytes = (dn_geno_bytes(cols) + 7) / 8 * 8 + 8};
    for (size_t m = 0; m < members; m++) q.total += units[m];
    q.member = calloc(members, sizeof *q.member);
    q.weight = calloc(model_snps * q.total + 1, sizeof *q.weight);
    q.mean = calloc(folds * model_snps, sizeof *q.mean);
    q.sd = calloc(folds * model_snps, sizeof *q.sd);
    q.place = calloc(cols + 1, sizeof *q.place);
    for (uint64_t i = 0; i < folds * model_snps; i++) {
        bool flat = check_rand(&seed) % 10 == 0;
        q.mean[i] = 2 * uniform();
        q.sd[i] = flat ? 1e-6 : 0.2 + uniform();
    }
    float *w = q.weight;
    for (size_t m = 0; m < members; m++) {
        double *mean = q.mean + m % folds * model_snps, *sd = q.sd + m % folds * model_snps;
        q.member[m] = (dn_fat_member){w, units[m], mean, sd};
        for (uint64_t j = 0; j < model_snps; j++) {
            for (uint64_t u = 0; u < units[m]; u++) {
                *w++ = dn_snp_is_flat(mean[j], sd[j]) ? (float)INFINITY : (float)(uniform() - 0.5);
            }
        }
    }
    for (uint64_t c = 0; c < cols; c++) q.place[c] = model_snps == cols ? c : check_rand(&seed) % model_snps;
    q.p = (dn_fat_problem){cols, model_snps == cols ? NULL : q.place, scale, members, q.member};
    return q;
}

static void drop(problem *q)
{
    free(q->member), free(q->weight), free(q->mean), free(q->sd), free(q->place);
}

/* Packed rows; what lies past the last column is anything. */
static uint8_t *genotypes(const problem *q, uint64_t people)
{
    uint8_t *rows = malloc(people * q->row_bytes + 1);
    for (uint64_t i = 0; i < people * q->row_bytes; i++) rows[i] = (uint8_t)check_rand(&seed);
    return rows;
}

static double distance(const problem *q, const float *z, const double *ref, uint64_t people)
{
    double worst = 0;
    for (uint64_t i = 0; i < people * q->total; i++) {
        double d = fabs(z[i] - ref[i]);
        if (!(d <= worst)) worst = d; /* NaN too */
    }
    return worst;
}

/* Blocks of people (0-terminated sizes), two under way, all against the reference. */
static void run(const problem *q, const uint64_t *blocks, uint64_t max_people, const dn_cuda_options *o,
                float **out)
{
    dn_err err = {0};
    dn_cuda_fat *f;
    dn_pool *pool;
    uint64_t people = 0, at = 0, done = 0;
    size_t n = 0;
    while (blocks[n]) people += blocks[n++];
    uint8_t *rows = genotypes(q, people);
    double *ref = malloc((people * q->total + 1) * sizeof *ref);
    float *z = malloc((people * q->total + 1) * sizeof *z),
          *cpu = malloc((people * q->total + 1) * sizeof *cpu);
    dn_fat_forward_ref(&q->p, rows, q->row_bytes, people, ref);
    CHECK_OK(dn_pool_new(&pool, 1, &err), &err);
    CHECK_OK(dn_fat_forward(&q->p, rows, q->row_bytes, people, cpu, pool, &err), &err);
    CHECK_OK(plug->fat_new(&f, &q->p, max_people, o, &err), &err);
    for (size_t b = 0, w = 0; w < n; b++) {
        if (b < n) {
            /* The caller's rows are its own again on return. */
            uint8_t *copy = malloc(blocks[b] * q->row_bytes + 1);
            memcpy(copy, rows + at * q->row_bytes, blocks[b] * q->row_bytes);
            CHECK_OK(plug->fat_submit(f, copy, q->row_bytes, blocks[b], &err), &err);
            memset(copy, 0x55, blocks[b] * q->row_bytes);
            free(copy);
            at += blocks[b];
        }
        if (b >= 1 || n == 1) {
            CHECK_OK(plug->fat_wait(f, z + done * q->total, &err), &err);
            done += blocks[w++];
        }
    }
    plug->fat_free(f);
    check_clean("prediction");
    double gpu_off = distance(q, z, ref, people), cpu_off = distance(q, cpu, ref, people);
    CHECK_MSG(gpu_off < TOLERANCE, "%llu columns, %zu members: off by %g (the CPU by %g)",
              (unsigned long long)q->p.n_cols, q->p.n_members, gpu_off, cpu_off);
    free(ref), free(cpu), free(rows);
    dn_pool_free(pool);
    if (out)
        *out = z;
    else
        free(z);
}

/* Every call that can fail, and every kernel, in a prediction of three blocks: DN_EGPU with the call, and
 * everything given back. */
static void check_failures(const problem *q, size_t devices)
{
    dn_err err;
    const dn_cuda_options o = {devices, false, 0};
    uint8_t *rows = genotypes(q, 9);
    float *z = malloc(9 * q->total * sizeof *z);
    for (int kernels = 0; kernels < 2; kernels++) {
        for (long k = 1;; k++) {
            dn_cuda_fat *f = NULL;
            shim->reset();
            (kernels ? shim->fail_kernel : shim->fail_at)(k);
            memset(&err, 0, sizeof err);
            dn_status st = plug->fat_new(&f, &q->p, 3, &o, &err);
            for (int b = 0; b < 4 && st == DN_OK; b++) {
                if (b < 3)
                    st = plug->fat_submit(f, rows + (uint64_t)b * 3 * q->row_bytes, q->row_bytes, 3, &err);
                if (b > 0 && st == DN_OK) st = plug->fat_wait(f, z, &err);
            }
            long before = shim->calls();
            plug->fat_free(f);
            check_clean("a call that fails");
            if ((kernels ? shim->kernels() : shim->calls()) < k) {
                CHECK_OK(st, &err);
                CHECK(k > (kernels ? 8 : 100));
                break;
            }
            bool done = !kernels && before < k; /* the results were there */
            CHECK_MSG(done ? st == DN_OK : st == DN_EGPU, "%s %ld (%s): status %d",
                      kernels ? "kernel" : "call", k, shim->failed(), (int)st);
            if (!done) CHECK_MSG(strncmp(err.msg, "GPU: ", 5) == 0, "%s", err.msg);
        }
    }
    shim->reset();
    free(rows), free(z);
}

int main(void)
{
    load_plugin();
    const uint64_t units[] = {5, 1, 16, 7, 3, 9}, one[] = {12}, none[] = {4, 0, 6};
    const uint64_t few[] = {1, 0}, some[] = {7, 33, 1, 8, 9, 31, 0}, more[] = {138, 100, 0};
    const dn_cuda_options single = {1, false, 0};
    const char *const modes[] = {"0", "1", "2", "3", "128", "129"}; /* who runs when: see shim.h */
    for (size_t lazy = real ? 1 : 0; lazy < (real ? 2 : sizeof modes / sizeof *modes); lazy++) {
        shim_set("DN_SHIM_LAZY", modes[lazy]);
        const uint64_t cols[] = {1, 7, 8, 9, 31, 33, 138, 552, 4096, 4101};
        for (size_t i = 0; i < sizeof cols / sizeof *cols; i++) {
            problem q = make(cols[i], cols[i], 6, 3, units, 1.0);
            run(&q, cols[i] > 600 ? few : some, 40, &single, NULL);
            drop(&q);
            q = make(700, cols[i] < 700 ? cols[i] : 700, 6, i % 6 + 1, units, 1.25);
            run(&q, few, 1, &single, NULL);
            drop(&q);
        }
        problem q = make(300, 290, 1, 1, one, 2.0);
        run(&q, more, 138, &single, NULL);
        drop(&q);
        q = make(50, 50, 3, 2, none, 1.0); /* a member without units */
        run(&q, some, 33, &single, NULL);
        drop(&q);
        q = make(50, 0, 6, 3, units, 1.0); /* no column: zeros */
        run(&q, some, 33, &single, NULL);
        drop(&q);
    }

    /* Devices share a block's people. */
    shim_set("DN_SHIM_DEVICES", "3");
    problem q = make(600, 552, 6, 3, units, 1.1);
    float *z[4] = {0};
    size_t most = devices_of(3);
    for (size_t n = 1; n <= most; n++) {
        dn_cuda_options o = {n, false, 0};
        seed = 77;
        run(&q, some, 40, &o, &z[n]);
        CHECK(real ||
              memcmp(z[1], z[n], 89 * q.total * sizeof(float)) == 0); /* real: fewer people, another kernel */
    }
    free(z[1]), free(z[2]), free(z[3]);
    if (!real) {
        problem small = make(60, 50, 6, 3, units, 1.1);
        check_failures(&small, 1);
        check_failures(&small, 2);
        drop(&small);
    }
    shim_set("DN_SHIM_DEVICES", NULL);

    /* Memory: none to spare is an error with numbers in it, and gives back what was taken. */
    dn_err err = {0};
    dn_cuda_fat *f;
    if (!real) {
        shim_set("DN_SHIM_MEMORY", "100000");
        CHECK(plug->fat_new(&f, &q.p, 40, &single, &err) == DN_EGPU && !f);
        CHECK_MSG(strstr(err.msg, "out of memory") && strstr(err.msg, "Shim 0"), "%s", err.msg);
        check_clean("no memory");
        shim_set("DN_SHIM_MEMORY", NULL);
    }
    const dn_cuda_options little = {1, false, 100000};
    CHECK(plug->fat_new(&f, &q.p, 40, &little, &err) == DN_EGPU && !f);
    CHECK_MSG(strstr(err.msg, "of the 100000 allowed"), "%s", err.msg);
    check_clean("little memory");

    /* What is the caller's fault. */
    CHECK_OK(plug->fat_new(&f, &q.p, 10, &single, &err), &err);
    uint8_t *rows = genotypes(&q, 11);
    float *out = malloc(11 * q.total * sizeof *out);
    CHECK(plug->fat_wait(f, out, &err) == DN_EINTERNAL);
    CHECK(plug->fat_submit(f, rows, q.row_bytes, 11, &err) == DN_EINTERNAL);
    CHECK(plug->fat_submit(f, rows, 8, 2, &err) == DN_EINTERNAL);
    CHECK_OK(plug->fat_submit(f, rows, q.row_bytes, 10, &err), &err);
    CHECK_OK(plug->fat_submit(f, rows, q.row_bytes, 0, &err), &err);
    CHECK(plug->fat_submit(f, rows, q.row_bytes, 1, &err) == DN_EINTERNAL);
    CHECK_OK(plug->fat_wait(f, out, &err), &err);
    CHECK_OK(plug->fat_wait(f, out, &err), &err);
    CHECK_OK(plug->fat_submit(f, rows, q.row_bytes, 1, &err), &err); /* and is dropped */
    plug->fat_free(f);
    plug->fat_free(NULL);
    check_clean("misuse");
    for (uint64_t j = 0; j < 600; j++) { /* a weight that is not finite would make missing calls count */
        if (!dn_snp_is_flat(q.member[2].mean[j], q.member[2].sd[j]))
            ((float *)q.member[2].weight)[j * 16] = (float)NAN;
    }
    CHECK(plug->fat_new(&f, &q.p, 10, &single, &err) == DN_ENUMERIC);
    CHECK_MSG(strstr(err.msg, "member 2"), "%s", err.msg);
    check_clean("not finite");
    free(rows), free(out);
    drop(&q);
    return check_done();
}
