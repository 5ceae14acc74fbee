/* backend_cpu_shares.c: a third less embedding for the auxiliary net's first layer.
 *
 * Features 3c, 3c + 1, 3c + 2 of a SNP are the shares of class c with dosage 0, 1, 2, each column divided by
 * its norm: n_0 e_0 + n_1 e_1 + n_2 e_2 = 1 - r, where r is the share of missing calls, 0 for most. So one of
 * the three, that of the largest norm, follows from the others:
 *     e_o = (1 - r - n_a e_a - n_b e_b) / n_o
 * and the layer's sums over 3C features are sums over 2C, with weights w_a - w_o n_a / n_o, plus the same
 * number for every SNP, minus r w_o / n_o where r is not 0; gradients likewise. The norms are fitted to the
 * embedding, and r is what is left: whatever the features are, the equation holds by definition of r, and
 * only if it is 0 almost everywhere is anything gained. */
#include "backend_cpu_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIT_SNPS 8192  /* that the norms are fitted to */
#define NOTHING  1e-6f /* |r| up to this is rounding: features are float */
#define MOST_R   4     /* r that are not 0, per SNP, up to which it pays */

/* Solves the 3 x 3 normal equations a n = b; rows that are 0 (a class with nobody, a dosage that does not
 * occur) give n = 0. */
static void solve(double a[3][3], double b[3], double n[3])
{
    bool done[3] = {false, false, false};
    for (int step = 0; step < 3; step++) {
        int p = -1;
        for (int i = 0; i < 3; i++) {
            if (!done[i] && (p < 0 || a[i][i] > a[p][p])) p = i;
        }
        done[p] = true;
        if (!(a[p][p] > 1e-12)) { /* nothing of it is left */
            for (int i = 0; i < 3; i++) a[i][p] = a[p][i] = 0;
            a[p][p] = 1;
            b[p] = 0;
            continue;
        }
        for (int i = 0; i < 3; i++) {
            if (i == p) continue;
            double f = a[i][p] / a[p][p];
            for (int k = 0; k < 3; k++) a[i][k] -= f * a[p][k];
            b[i] -= f * b[p];
        }
    }
    for (int i = 0; i < 3; i++) n[i] = b[i] / a[i][i];
}

/* The norms of a class's columns: least squares over SNPs, again and again without those whose sum is below
 * 1 by more than the rest's spread: they have missing calls. */
static void fit(const float *emb, uint64_t n_snps, uint64_t K, size_t c, double n[3])
{
    uint64_t step = (n_snps + FIT_SNPS - 1) / FIT_SNPS;
    double least = -1e30;
    memset(n, 0, 3 * sizeof *n);
    for (int round = 0; round < 20; round++) {
        double a[3][3] = {{0}}, b[3] = {0}, spread = 0;
        uint64_t used = 0;
        for (uint64_t j = 0; j < n_snps; j += step) {
            const float *e = emb + j * K + 3 * c;
            double left = n[0] * e[0] + n[1] * e[1] + n[2] * e[2] - 1;
            if (round && left < least) continue;
            for (int i = 0; i < 3; i++) {
                for (int k = 0; k < 3; k++) a[i][k] += (double)e[i] * e[k];
                b[i] += e[i];
            }
            spread += left * left;
            used++;
        }
        /* Columns of unit length have numbers of about 1 / sqrt(SNPs): brought to about 1. */
        for (int i = 0; i < 3; i++) {
            for (int k = 0; k < 3; k++) a[i][k] *= (double)n_snps;
            b[i] *= (double)n_snps;
        }
        solve(a, b, n);
        if (!used) return;
        spread = round ? sqrt(spread / (double)used) : 1;
        least = -(spread > NOTHING ? spread / 2 : NOTHING / 2);
    }
}

static double rest(const cpu_shares *s, const float *e, size_t c)
{
    return 1 - s->norm[3 * c] * e[0] - s->norm[3 * c + 1] * e[1] - s->norm[3 * c + 2] * e[2];
}

void cpu_shares_free(cpu_shares *s)
{
    free(s->norm);
    free(s->left_out);
    free(s->first);
    free(s->cls);
    free(s->r);
    free(s->w);
    free(s->add);
    memset(s, 0, sizeof *s);
}

dn_status cpu_shares_new(cpu_shares *s, const float *emb, uint64_t n_snps, uint64_t rows, uint64_t K,
                         uint64_t H, dn_err *err)
{
    dn_status status;
    size_t C = (size_t)(K / 3);
    uint64_t n = 0;
    memset(s, 0, sizeof *s);
    if (K % 3 != 0) return DN_OK;
    DN_TRY(dn_alloc(&s->norm, K, sizeof *s->norm, "norms", err));
    DN_TRY(dn_alloc(&s->left_out, C, sizeof *s->left_out, "norms", err));
    for (size_t c = 0; c < C; c++) {
        double *norm = s->norm + 3 * c;
        fit(emb, n_snps, K, c, norm);
        for (unsigned i = 1; i < 3; i++) {
            if (norm[i] > norm[s->left_out[c]]) s->left_out[c] = (uint8_t)i;
        }
        s->useless = s->useless || !(norm[s->left_out[c]] > 0);
    }
    for (uint64_t j = 0; j < n_snps && !s->useless; j++) {
        for (size_t c = 0; c < C; c++) n += fabs(rest(s, emb + j * K + 3 * c, c)) > (double)NOTHING;
        s->useless = n > MOST_R * (n_snps + 16);
    }
    if (s->useless) {
        cpu_shares_free(s);
        return DN_OK;
    }
    DN_TRY(dn_alloc(&s->first, rows + 1, sizeof *s->first, "missing shares", err));
    DN_TRY(dn_alloc(&s->cls, n, sizeof *s->cls, "missing shares", err));
    DN_TRY(dn_alloc(&s->r, n, sizeof *s->r, "missing shares", err));
    n = 0;
    for (uint64_t j = 0; j < rows; j++) {
        s->first[j] = (uint32_t)n;
        for (size_t c = 0; c < C && j < n_snps; c++) {
            double r = rest(s, emb + j * K + 3 * c, c);
            if (!(fabs(r) > (double)NOTHING)) continue;
            s->cls[n] = (uint16_t)c;
            s->r[n++] = (float)r;
        }
    }
    s->first[rows] = (uint32_t)n;
    DN_TRY(dn_alloc(&s->w, 2 * C * H, sizeof *s->w, "auxiliary weights", err));
    DN_TRY(dn_alloc_aligned(&s->add, (1 + C) * cpu_pad(H), sizeof *s->add, "auxiliary weights", err));
    memset(s->add, 0, (1 + C) * cpu_pad(H) * sizeof *s->add);
    s->C = C;
    status = DN_OK;
done:
    if (status != DN_OK) cpu_shares_free(s);
    return status;
}

void cpu_shares_embedding(const cpu_shares *s, const float *e, float *out)
{
    for (size_t c = 0; c < s->C; c++, e += 3) {
        for (unsigned i = 0; i < 3; i++) {
            if (i != s->left_out[c]) *out++ = e[i];
        }
    }
}

void cpu_shares_weights(cpu_shares *s, const float *w, size_t H)
{
    size_t pad = cpu_pad(H);
    for (size_t h = 0; h < H; h++, w += 3 * s->C) {
        double same = 0;
        float *out = s->w + h * 2 * s->C;
        for (size_t c = 0; c < s->C; c++) {
            unsigned o = s->left_out[c];
            const double *norm = s->norm + 3 * c;
            double per = w[3 * c + o] / norm[o];
            same += per;
            s->add[(1 + c) * pad + h] = (float)-per;
            for (unsigned i = 0; i < 3; i++) {
                if (i != o) *out++ = (float)(w[3 * c + i] - per * norm[i]);
            }
        }
        s->add[h] = (float)same;
    }
}

void cpu_shares_gradient(const cpu_shares *s, const double *g, double sum, const double *missing, float *dw)
{
    for (size_t c = 0; c < s->C; c++, dw += 3) {
        unsigned o = s->left_out[c];
        const double *norm = s->norm + 3 * c;
        double left = sum - missing[c];
        for (unsigned i = 0; i < 3; i++) {
            if (i == o) continue;
            left -= norm[i] * *g;
            dw[i] = (float)*g++;
        }
        dw[o] = (float)(left / norm[o]);
    }
}
