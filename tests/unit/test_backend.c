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
        float *out = f == CPU_TANH && n % 2 ? fresh(S * n_pad) : NULL;
        k->mul(x, ldx, packed, S, K, n, n_pad, y, (cpu_epilogue)f, f == CPU_DTANH ? act : NULL, out, NULL,
               f == CPU_DTANH ? act : NULL, S * n_pad);
        for (size_t s = 0; s < S && out; s++)
            CHECK(memcmp(out + s * n_pad, y + s * n_pad, n * sizeof *y) == 0);
        if (out) {
            CHECK(guards_ok(out, S * n_pad));
            drop(out);
        }
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
    k->mul(x, 1, b, N, 1, 16, 16, y, CPU_TANH, NULL, NULL, NULL, NULL, 0);
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

/* missing: of 64 calls. */
static void check_tables(const cpu_kernels *k, size_t n, unsigned missing)
{
    size_t stride = 48;
    float *w = fresh(2 * CPU_CODES * stride), *x = fresh(2 * CPU_CODES * 4), *table = fresh(2 * CPU_TABLE),
          *acc = fresh(n * 16);
    float *start = malloc(n * 16 * sizeof *start);
    double *ref = malloc(n * 16 * sizeof *ref), worst = 0;
    uint64_t *word = malloc(2 * n * sizeof *word + 8), used[CPU_GROUPS];
    for (size_t i = 0; i < 2 * CPU_CODES; i++) x[4 * i + 3] = 0;
    for (size_t i = 0; i < 2 * n; i++) {
        word[i] = check_rand(&seed) << 48; /* bits above 48: anything */
        for (int j = 0; j < CPU_CODES; j++) {
            uint64_t r = check_rand(&seed) >> 20;
            word[i] |= (r % 64 < missing ? 3 : r / 64 % 3) << 2 * j;
        }
    }
    for (size_t i = 0; i < 2 * CPU_TABLE; i++) table[i] = NAN; /* rows that are not used must not be read */
    for (int t = 0; t < 2; t++) {
        uint64_t want[CPU_GROUPS] = {0};
        cpu_rows rows;
        for (size_t i = 0; i < n; i++) {
            for (int g = 0; g < CPU_GROUPS; g++) want[g] |= (uint64_t)1 << (word[t * n + i] >> 6 * g & 63);
        }
        k->used(word + t * n, n, used);
        CHECK(memcmp(used, want, sizeof used) == 0);
        cpu_rows_of(used, &rows);
        CHECK(missing ? n < 20 || rows.n : !rows.n);
        k->build(w + t * CPU_CODES * stride, stride, x + t * CPU_CODES * 4, &rows, table + t * CPU_TABLE);
    }
    for (int how = 0; how < 4; how++) {
        bool first = how & 1, two = how & 2;
        memcpy(start, acc, n * 16 * sizeof *start);
        for (size_t i = 0; i < n * 16; i++) ref[i] = first ? 0 : start[i];
        cpu_fat_ref(word, n, w, stride, x, ref);
        if (two) cpu_fat_ref(word + n, n, w + CPU_CODES * stride, stride, x + CPU_CODES * 4, ref);
        k->add(table, word, two ? word + n : NULL, n, acc, first);
        for (size_t i = 0; i < n * 16; i++) worst = fmax(worst, fabs(acc[i] - ref[i]));
        CHECK_MSG(worst < 5e-6, "n %zu, %s: %g", n, two ? "two sets" : "one set", worst);
    }
    CHECK(guards_ok(acc, n * 16) && guards_ok(table, 2 * CPU_TABLE) && guards_ok(w, 2 * CPU_CODES * stride));
    drop(w), drop(x), drop(table), drop(acc);
    free(start), free(ref), free(word);
}

/* People and SNPs changed about, and what comes of the sums over people. missing: of 64 calls. */
static void check_back(const cpu_kernels *k, size_t sets, size_t n_pad, unsigned missing)
{
    enum { ROWS = 2 * CPU_BLOCK }; /* as two blocks have it; only the second is looked at */
    uint64_t *src = malloc(CPU_CODES * CPU_TILES * sizeof *src), *word = calloc(sets * ROWS, sizeof *word),
             *miss = calloc(sets * ROWS, sizeof *miss), want[2][CPU_BLOCK];
    for (size_t q = 0; q < sets; q++) {
        size_t n = q + 1 < sets ? CPU_CODES : 1 + q * 7 % CPU_CODES, at = q * ROWS + CPU_BLOCK;
        for (size_t i = 0; i < n * CPU_TILES; i++) {
            src[i] = 0;
            for (int j = 0; j < CPU_COLS; j++) {
                uint64_t r = check_rand(&seed) >> 20;
                src[i] |= (r % 64 < missing ? 3 : r / 64 % 3) << 2 * j;
            }
        }
        k->turn(src, n, word + at, miss + at);
        cpu_turn_ref(src, n, want[0], want[1]);
        CHECK(memcmp(word + at, want[0], sizeof want[0]) == 0);
        CHECK(memcmp(miss + at, want[1], sizeof want[1]) == 0);
    }
    size_t people = sets * CPU_CODES;
    float *grad = fresh(ROWS * n_pad), *dz = fresh(people * n_pad), *isd = fresh(CPU_BLOCK),
          *mean = fresh(CPU_BLOCK), *total = fresh(n_pad), *act = fresh((CPU_BLOCK + 16) * n_pad),
          *d = fresh(CPU_BLOCK * n_pad);
    double worst = 0;
    k->finish(grad + CPU_BLOCK * CPU_LANES, NULL, ROWS, miss + CPU_BLOCK, sets, dz, isd, mean, total, act,
              n_pad, d);
    for (size_t s = 0; s < CPU_BLOCK; s++) {
        for (size_t j = 0; j < n_pad; j++) {
            double t = total[j], a = act[s * n_pad + j],
                   g = grad[(j / 16 * ROWS + CPU_BLOCK + cpu_place(s)) * 16 + j % 16];
            for (size_t b = 0; b < people; b++) {
                if (miss[b / CPU_CODES * ROWS + CPU_BLOCK + cpu_place(s)] >> 2 * (b % CPU_CODES) & 1)
                    t -= dz[b * n_pad + j];
            }
            worst = fmax(worst, fabs(d[s * n_pad + j] - isd[s] * (g - mean[s] * t) * (1 - a * a)));
        }
    }
    CHECK_MSG(worst < 1e-6, "finish: %g", worst);
    /* With sums that are known already. */
    float *known = fresh(ROWS * n_pad);
    worst = 0;
    k->finish(grad + CPU_BLOCK * CPU_LANES, known + CPU_BLOCK * CPU_LANES, ROWS, miss + CPU_BLOCK, sets, dz,
              isd, mean, total, act, n_pad, d);
    for (size_t s = 0; s < CPU_BLOCK; s++) {
        for (size_t j = 0; j < n_pad; j++) {
            size_t at = (j / 16 * ROWS + CPU_BLOCK + cpu_place(s)) * 16 + j % 16;
            double a = act[s * n_pad + j], t = (double)total[j] - known[at];
            worst = fmax(worst, fabs(d[s * n_pad + j] - isd[s] * (grad[at] - mean[s] * t) * (1 - a * a)));
        }
    }
    CHECK_MSG(worst < 1e-6, "finish: %g", worst);
    drop(known);
    CHECK(guards_ok(d, CPU_BLOCK * n_pad));
    drop(grad), drop(dz), drop(isd), drop(mean), drop(total), drop(act), drop(d);
    free(src), free(word), free(miss);
}

/* Features left out: sums and gradients as with all of them. size: people of a class, of whom one in
 * missing_of has no call; some classes have nobody, some never the dosage 2. */
static void check_shares(const cpu_kernels *k, size_t C, size_t H, size_t size, unsigned missing_of)
{
    enum { M = 700, ROWS = 768 };
    dn_err err = {0};
    cpu_shares s;
    size_t K = 3 * C, pad = cpu_pad(H), kpad = cpu_pad(2 * C), n_missing = 0;
    float *emb = calloc(M * K, sizeof *emb), *w = fresh(H * K), *d = fresh(ROWS * pad);
    double *norm = calloc(K, sizeof *norm);
    for (size_t j = 0; j < M; j++) {
        for (size_t c = 0; c < C; c++) {
            unsigned n[4] = {0};
            uint64_t f = check_rand(&seed) >> 20;
            for (size_t i = 0; i < size && c % 7 != 6; i++) {
                uint64_t r = check_rand(&seed) >> 20;
                n[r / 64 % missing_of == 0 ? 3
                                           : (r % 64 < f % 64) + (c % 5 != 4 && r / 4096 % 64 < f % 64)]++;
            }
            n_missing += n[3] != 0;
            for (size_t i = 0; i < 3; i++) {
                emb[j * K + 3 * c + i] = (float)((double)n[i] / (double)size);
                norm[3 * c + i] += (double)emb[j * K + 3 * c + i] * emb[j * K + 3 * c + i];
            }
        }
    }
    for (size_t i = 0; i < M * K; i++) {
        if (norm[i % K] > 0) emb[i] = (float)(emb[i] / sqrt(norm[i % K]));
    }
    CHECK_OK(cpu_shares_new(&s, emb, M, ROWS, K, H, &err), &err);
    bool nobody = C > 6, many = n_missing > M * 4;
    CHECK_MSG((s.C == C) == (!nobody && !many), "%zu classes, %zu missing", C, n_missing);
    if (s.C) {
        float *e = fresh(ROWS * kpad), *packed = fresh(kpad * pad), *y = fresh(ROWS * pad),
              *sums = fresh((1 + C) * pad);
        double *full = malloc(M * H * sizeof *full), worst = 0, scale = 0;
        CHECK_MSG(s.first[M] <= n_missing && s.first[M] + M / 50 >= n_missing && s.first[ROWS] == s.first[M],
                  "%u of %zu", s.first[M], n_missing);
        memset(e, 0, ROWS * kpad * sizeof *e);
        for (size_t j = 0; j < M; j++) cpu_shares_embedding(&s, emb + j * K, e + j * kpad);
        cpu_shares_weights(&s, w, H);
        cpu_pack(s.w, 1, 2 * C, 2 * C, H, pad, k->panel, packed);
        cpu_extra extra = {s.add, s.first, s.cls, s.r};
        k->mul(e, kpad, packed, ROWS, 2 * C, H, pad, y, CPU_TANH, NULL, NULL, &extra, NULL, 0);
        for (size_t j = 0; j < M; j++) {
            for (size_t h = 0; h < H; h++) {
                double sum = 0;
                for (size_t i = 0; i < K; i++) sum += (double)emb[j * K + i] * w[h * K + i];
                full[j * H + h] = sum;
                worst = fmax(worst, fabs(y[j * pad + h] - tanh(sum)));
            }
        }
        CHECK_MSG(worst < 1e-6, "features left out: %g", worst);
        /* The gradient of sum over j, h of d[j][h] * full[j][h]. */
        for (size_t j = M; j < ROWS; j++) memset(d + j * pad, 0, pad * sizeof *d);
        memset(sums, 0, (1 + C) * pad * sizeof *sums);
        k->sums(d, ROWS, pad, &extra, sums);
        worst = 0;
        for (size_t h = 0; h < H; h++) {
            double g[2 * 64] = {0}, miss[64];
            float dw[3 * 64];
            for (size_t j = 0; j < M; j++) {
                for (size_t i = 0; i < 2 * C; i++) g[i] += (double)d[j * pad + h] * e[j * kpad + i];
            }
            for (size_t c = 0; c < C; c++) miss[c] = sums[(1 + c) * pad + h];
            cpu_shares_gradient(&s, g, sums[h], miss, dw);
            for (size_t i = 0; i < K; i++) {
                double want = 0;
                for (size_t j = 0; j < M; j++) want += (double)d[j * pad + h] * emb[j * K + i];
                worst = fmax(worst, fabs(dw[i] - want));
                scale = fmax(scale, fabs(want));
            }
        }
        CHECK_MSG(worst < 3e-6 * scale, "gradient: %g of %g", worst, scale);
        CHECK(guards_ok(y, ROWS * pad) && guards_ok(sums, (1 + C) * pad));
        drop(e), drop(packed), drop(y), drop(sums);
        free(full);
    }
    cpu_shares_free(&s);
    drop(w), drop(d);
    free(emb), free(norm);
}

static void check_set_word(void)
{
    uint64_t in[32];
    for (int i = 0; i < 32; i++) in[i] = check_rand(&seed);
    for (size_t k = 0; k < 32 * 32 / CPU_CODES; k++) {
        uint64_t w = cpu_set_word(in, k);
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
        for (size_t n = 0; n <= 40; n++) check_tables(k, n, n % 3 * 2);
        check_tables(k, 138, 0);
        check_tables(k, 138, 1);
        check_tables(k, 552, 20);
        check_back(k, 1, 16, 0);
        check_back(k, 6, 112, 1);
        check_back(k, 7, 48, 30);
        check_shares(k, 3, 17, 60, 1000000);
        check_shares(k, 6, 100, 60, 1000);
        check_shares(k, 6, 9, 7, 100);
        check_shares(k, 6, 9, 60, 10);
        check_shares(k, 8, 9, 60, 1000);
    }
    check_set_word();
    return check_done();
}
