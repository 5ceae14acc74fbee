/* The CPU backend's kernels against their plain versions, for every instruction set that this machine has. */
#include "backend_cpu_impl.h"
#include "check.h"

static unsigned long long seed = 11;

static float uniform(void)
{
    return (float)((double)(check_rand(&seed) >> 40) * 0x1p-24 - 0.5);
}

/* n floats between guards; fresh() fills them, guards_ok() checks the guards. */
enum { GUARD = 32 };
static float *fresh(size_t n)
{
    float *p = aligned_alloc(64, ((n + 2 * GUARD) * sizeof *p + 63) / 64 * 64);
    for (size_t i = 0; i < n + 2 * GUARD; i++) p[i] = i < GUARD || i >= n + GUARD ? 12345.0f : uniform();
    return p + GUARD;
}
static bool guards_ok(const float *p, size_t n)
{
    for (size_t i = 0; i < GUARD; i++) {
        if (p[-1 - (ptrdiff_t)i] != 12345.0f || p[n + i] != 12345.0f) return false;
    }
    return true;
}
static void drop(float *p)
{
    free(p - GUARD);
}

static void check_mul(const cpu_kernels *k, size_t S, size_t K, size_t n)
{
    size_t n_pad = cpu_pad(n), ldx = K + 3;
    float *x = fresh((S + 2 * CPU_ROWS) * ldx), *b = fresh(K * n), *packed = fresh(K * n_pad),
          *y = fresh(S * n_pad);
    float *act = fresh(S * n_pad);
    double *ref = malloc(S * n * sizeof *ref);
    cpu_pack(b, n, 1, K, n, n_pad, k->panel, packed);
    CHECK(guards_ok(packed, K * n_pad));
    cpu_mul_ref(x, ldx, b, S, K, n, ref);
    for (int f = CPU_PLAIN; f <= CPU_DTANH; f++) {
        double worst = 0;
        k->mul(x, ldx, packed, S, K, n, n_pad, y, (cpu_epilogue)f, f == CPU_DTANH ? act : NULL,
               f == CPU_DTANH ? act : NULL);
        for (size_t s = 0; s < S; s++) {
            for (size_t j = 0; j < n; j++) {
                double a = act[s * n_pad + j], want = ref[s * n + j];
                if (f == CPU_TANH) want = tanh(want);
                if (f == CPU_DTANH) want *= 1 - a * a;
                worst = fmax(worst, fabs(y[s * n_pad + j] - want));
            }
        }
        CHECK_MSG(worst < 2e-7 * (double)(K + 4), "S %zu K %zu n %zu epilogue %d: %g", S, K, n, f, worst);
        CHECK(guards_ok(y, S * n_pad));
    }
    drop(x), drop(b), drop(packed), drop(y), drop(act);
    free(ref);
}

static void check_mul_t(const cpu_kernels *k, size_t S, size_t n_out, size_t n)
{
    size_t n_pad = cpu_pad(n), ldd = cpu_pad(n_out), rows = (n_out + CPU_ROWS - 1) / CPU_ROWS * CPU_ROWS;
    float *d = fresh(S * ldd), *x = fresh(S * n_pad), *dw = fresh(rows * n_pad),
          *before = malloc(rows * n_pad * sizeof *before);
    double *ref = malloc(n_out * n * sizeof *ref), worst = 0;
    memcpy(before, dw, rows * n_pad * sizeof *dw);
    cpu_mul_t_ref(d, ldd, x, n_pad, S, n_out, n, ref);
    k->mul_t(d, ldd, x, S, n_out, n, n_pad, dw, NULL, 0);
    for (size_t o = 0; o < n_out; o++) {
        for (size_t j = 0; j < n; j++)
            worst = fmax(worst, fabs(dw[o * n_pad + j] - before[o * n_pad + j] - ref[o * n + j]));
    }
    CHECK_MSG(worst < 2e-7 * (double)(S + 4), "S %zu n_out %zu n %zu: %g", S, n_out, n, worst);
    CHECK(guards_ok(dw, rows * n_pad));
    drop(d), drop(x), drop(dw);
    free(before), free(ref);
}

/* tanh alone: products with 1. Within 5 units in the last place, odd, bounded; infinities and NaN. */
static void check_tanh(const cpu_kernels *k)
{
    enum { N = CPU_ROWS * 4000 };
    float *x = fresh(N + 2 * CPU_ROWS), *b = fresh(16), *y = fresh(N * 16);
    const float special[] = {0.0f,     -0.0f, 1e-30f, -1e-10f,  7.9f,      -7.9f,
                             7.90001f, 20.0f, -1e30f, INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 16; i++) b[i] = 1;
    for (int i = 0; i < N; i++)
        x[i] = i < 12 ? special[i] : uniform() * (i % 3 == 0 ? 20.0f : i % 3 == 1 ? 2.0f : 0.02f);
    k->mul(x, 1, b, N, 1, 16, 16, y, CPU_TANH, NULL, NULL);
    double worst = 0, worst_abs = 0;
    for (int i = 0; i < N; i++) {
        float t = y[i * 16 + 7];
        if (isnan(x[i])) {
            CHECK(isnan(t));
            continue;
        }
        double want = tanh((double)x[i]),
               ulp = fabs((double)nextafterf((float)want, 2.0f) - (double)(float)want) + 1e-45;
        worst = fmax(worst, fabs(t - want) / ulp);
        worst_abs = fmax(worst_abs, fabs(t - want));
        if (!(fabsf(t) <= 1.0f)) CHECK_MSG(false, "tanh(%g) = %g", x[i], t);
    }
    CHECK_MSG(worst < 5.5, "%g units in the last place", worst);
    CHECK_MSG(worst_abs < 3e-7, "%g", worst_abs);
    drop(x), drop(b), drop(y);
}

static void check_tables(const cpu_kernels *k, size_t n, bool all)
{
    size_t stride = 48;
    float *w = fresh(CPU_CODES * stride), *x = fresh(CPU_CODES * 3), *table = fresh(CPU_TABLE),
          *acc = fresh(n * 16);
    float *start = malloc(n * 16 * sizeof *start);
    double *ref = malloc(n * 16 * sizeof *ref), worst = 0;
    uint64_t *word = malloc(n * sizeof *word + 8), used[CPU_GROUPS], want[CPU_GROUPS] = {0};
    for (size_t i = 0; i < n; i++) {
        word[i] = check_rand(&seed); /* bits above 48 too */
        for (int g = 0; g < CPU_GROUPS; g++) want[g] |= (uint64_t)1 << (word[i] >> 6 * g & 63);
    }
    k->used(word, n, used);
    CHECK(memcmp(used, want, sizeof used) == 0);
    if (all) memset(used, 0xff, sizeof used);
    for (size_t i = 0; i < CPU_TABLE; i++) table[i] = NAN; /* rows that are not used must not be read */
    for (int first = 0; first < 2; first++) {
        memcpy(start, acc, n * 16 * sizeof *start);
        for (size_t i = 0; i < n * 16; i++) ref[i] = first ? 0 : start[i];
        cpu_fat_ref(word, n, w, stride, x, ref);
        k->build(w, stride, x, used, table);
        k->add(table, word, n, acc, first);
        for (size_t i = 0; i < n * 16; i++) worst = fmax(worst, fabs(acc[i] - ref[i]));
        CHECK_MSG(worst < 5e-6, "n %zu: %g", n, worst);
    }
    CHECK(guards_ok(acc, n * 16) && guards_ok(table, CPU_TABLE) && guards_ok(w, CPU_CODES * stride));
    drop(w), drop(x), drop(table), drop(acc);
    free(start), free(ref), free(word);
}

static void check_finish(const cpu_kernels *k, size_t S, size_t rows, size_t n_pad)
{
    float *grad = fresh(rows * n_pad), *missing = fresh(rows * n_pad), *isd = fresh(S), *mean = fresh(S),
          *total = fresh(n_pad);
    float *act = fresh(S * n_pad), *d = fresh(S * n_pad);
    for (int with = 0; with < 2; with++) {
        double worst = 0;
        k->finish(grad, with ? missing : NULL, rows, isd, mean, total, act, S, n_pad, d);
        for (size_t s = 0; s < S; s++) {
            for (size_t j = 0; j < n_pad; j++) {
                size_t at = (j / 16 * rows + s) * 16 + j % 16;
                double t = (double)total[j] - (with ? missing[at] : 0), a = act[s * n_pad + j];
                worst = fmax(worst, fabs(d[s * n_pad + j] - isd[s] * (grad[at] - mean[s] * t) * (1 - a * a)));
            }
        }
        CHECK_MSG(worst < 1e-6, "finish: %g", worst);
        CHECK(guards_ok(d, S * n_pad));
    }
    /* add_marked */
    uint64_t *marks = malloc(S * sizeof *marks);
    float *rows_of = fresh(n_pad / 16 * 40 * 16), *acc = fresh(n_pad * S),
          *want = malloc(n_pad * S * sizeof *want);
    memcpy(want, acc, n_pad * S * sizeof *want);
    for (size_t s = 0; s < S; s++) {
        marks[s] = check_rand(&seed) & check_rand(&seed) & 0x555555555555u;
        for (size_t i = 0; i < CPU_CODES; i++) {
            for (size_t j = 0; j < n_pad && (marks[s] >> 2 * i & 1); j++) {
                want[(j / 16 * S + s) * 16 + j % 16] += rows_of[(j / 16 * 40 + i) * 16 + j % 16] * mean[s];
            }
        }
    }
    k->add_marked(rows_of, 40 * 16, marks, mean, S, n_pad / 16, acc);
    CHECK(memcmp(acc, want, n_pad * S * sizeof *want) == 0 && guards_ok(acc, n_pad * S));
    drop(grad), drop(missing), drop(isd), drop(mean), drop(total), drop(act), drop(d), drop(rows_of),
        drop(acc);
    free(marks), free(want);
}

static void check_bits(void)
{
    uint64_t in[32], a[32], b[32];
    for (int rep = 0; rep < 50; rep++) {
        for (int i = 0; i < 32; i++) in[i] = check_rand(&seed);
        cpu_transpose32(in, a);
        cpu_transpose32_ref(in, b);
        CHECK(memcmp(a, b, sizeof a) == 0);
    }
    /* Sets of 24 codes of a row of words. */
    for (size_t k = 0; k < 32 * 32 / CPU_CODES; k++) {
        uint64_t w = cpu_set_word(in, 1, k);
        bool same = true;
        for (size_t i = 0; i < CPU_CODES; i++) {
            size_t at = k * CPU_CODES + i;
            same = same && (w >> 2 * i & 3) == (in[at / 32] >> at % 32 * 2 & 3);
        }
        CHECK(same);
    }
}

int main(void)
{
    for (int isa = DN_ISA_PORTABLE; isa <= (int)dn_isa_get(); isa++) {
        const cpu_kernels *k = cpu_kernels_of((dn_isa)isa);
        size_t Ss[] = {6, 12, 30, 384}, Ks[] = {1, 3, 24, 72, 100};
        for (size_t n = 1; n <= 130; n += n < 40 ? 1 : 7) {
            for (int i = 0; i < 4; i++) {
                if (i == 3 && n % 5 != 0) continue;
                check_mul(k, Ss[i], Ks[(n + (size_t)i) % 5], n);
                check_mul_t(k, Ss[i], 1 + (n * 7 + (size_t)i) % 105, n);
            }
        }
        check_tanh(k);
        for (size_t n = 0; n <= 40; n++) check_tables(k, n, n % 2);
        check_tables(k, 138, false);
        check_tables(k, 552, true);
        check_finish(k, 6, 6, 16);
        check_finish(k, 33, 66, 112);
    }
    check_bits();
    return check_done();
}
