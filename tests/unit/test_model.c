/* Models: upstream's releases give upstream's probabilities, and a damaged, mixed or incomplete one is
 * refused by name. The golden releases are needed for most of it; without them only the auxiliary net is
 * tested. */
#include "auxnet.h"
#include "check.h"
#include "h5.h"
#include "io.h"
#include "model.h"
#include "package.h"
#include "par.h"
#include "stats.h"
#include "vmath.h"

#include <unistd.h>

static const char *shared;
static char tmp[4096]; /* a folder of ours */

static void sh(const char *fmt, const char *a, const char *b)
{
    char cmd[16384];
    // cppcheck-suppress wrongPrintfScanfArgNum ; formats use as many of the three as they like
    snprintf(cmd, sizeof cmd, fmt, tmp, a, b);
    if (system(cmd) != 0) {
        fprintf(stderr, "failed: %s\n", cmd);
        exit(1);
    }
}

static void test_auxnet(void)
{
    dn_err err;
    enum { M = 2500, K = 9, H1 = 20, H2 = 7 };
    unsigned long long seed = 11;
    static double emb[M * K], norm[K];
    static float w1[H1 * K], w2[H2 * H1], fat[2][M * H2];
    for (int i = 0; i < M * K; i++) emb[i] = (double)(check_rand(&seed) % 1000) / 1000;
    for (int i = 0; i < M; i++) emb[i * K + 4] = 0; /* a dosage that no one has */
    for (int i = 0; i < H1 * K; i++) w1[i] = (float)(check_rand(&seed) % 2000) / 20 - 50;
    for (int i = 0; i < H2 * H1; i++) w2[i] = (float)(check_rand(&seed) % 2000) / 1000 - 1;
    dn_layer aux[2] = {{.n_in = K, .n_out = H1, .weight = w1}, {.n_in = H1, .n_out = H2, .weight = w2}};
    dn_column_norms(emb, M, K, norm);
    for (int t = 0; t < 2; t++) {
        dn_pool *pool;
        CHECK_OK(dn_pool_new(&pool, t ? 7 : 1, &err), &err);
        CHECK_OK(dn_auxnet_fat(emb, norm, M, K, 2, aux, fat[t], pool, &err), &err);
        dn_pool_free(pool);
    }
    CHECK(memcmp(fat[0], fat[1], sizeof fat[0]) == 0);
    double worst = 0;
    for (int i = 0; i < M; i++) {
        double e[K], want[H2], scratch[2 * H1];
        for (int k = 0; k < K; k++) e[k] = norm[k] > 0 ? emb[i * K + k] / norm[k] : 0;
        dn_auxnet_ref(e, K, 2, aux, want, scratch);
        for (int h = 0; h < H2; h++) worst = fmax(worst, fabs(want[h] - (double)fat[0][i * H2 + h]));
    }
    CHECK_MSG(worst < 2e-6, "%g", worst);
}

static void test_tanh(void)
{
    enum { N = 5000 };
    static float x[N], y[N];
    unsigned long long seed = 5;
    for (size_t n = 0; n < 200; n++) {
        for (size_t i = 0; i < n; i++)
            x[i] = y[i] = (float)((double)(check_rand(&seed) % 2000001) / 1e6 - 1) * (i % 3 ? 2 : 12);
        dn_tanh(x, n);
        dn_tanh_ref(y, n);
        double worst = 0;
        for (size_t i = 0; i < n; i++)
            worst = fmax(worst, fabs((double)x[i] - (double)y[i]) / fmax(fabs((double)y[i]), 1e-30));
        CHECK_MSG(worst < 3e-7, "n %zu: %g", n, worst);
    }
    float odd[3] = {NAN, INFINITY, -INFINITY};
    dn_tanh(odd, 3);
    CHECK(isnan(odd[0]) && odd[1] == 1 && odd[2] == -1);
}

/* Probabilities of one person, in double: the plain forward pass. */
static void predict(const dn_model *m, const dn_member *x, const int8_t *g, double scale, double *prob,
                    double *hidden)
{
    static double a[1 << 10], b[1 << 10];
    const dn_norm *s = &m->norms[x->norm];
    uint64_t units = x->layer[0].n_out;
    for (uint64_t h = 0; h < units; h++) a[h] = x->layer[0].bias[h];
    for (uint64_t j = 0; j < m->n_snps; j++) {
        if (g[j] < 0 || dn_snp_is_flat(s->mean[j], s->sd[j])) continue;
        double v = (g[j] - s->mean[j]) / s->sd[j] * scale;
        for (uint64_t h = 0; h < units; h++) a[h] += v * (double)x->fat[j * units + h];
    }
    for (size_t l = 0; l + 1 < x->n_layers; l++) {
        const dn_layer *y = &x->layer[l], *next = y + 1;
        for (uint64_t h = 0; h < y->n_out; h++) {
            a[h] = (fmax(a[h], 0) - (double)y->bn_mean[h]) / sqrt((double)y->bn_var[h] + 1e-5) *
                       (double)y->bn_gamma[h] +
                   (double)y->bn_beta[h];
        }
        if (l + 2 == x->n_layers && hidden) memcpy(hidden, a, y->n_out * sizeof *a);
        for (uint64_t o = 0; o < next->n_out; o++) {
            b[o] = next->bias[o];
            for (uint64_t h = 0; h < next->n_in; h++) b[o] += (double)next->weight[o * next->n_in + h] * a[h];
        }
        memcpy(a, b, next->n_out * sizeof *a);
    }
    double top = a[0], sum = 0;
    for (uint64_t c = 1; c < m->n_out; c++) top = fmax(top, a[c]);
    for (uint64_t c = 0; c < m->n_out; c++) sum += prob[c] = exp(a[c] - top);
    for (uint64_t c = 0; c < m->n_out; c++) prob[c] /= sum;
}

static void test_kgp3(void)
{
    dn_err err;
    dn_model *m;
    char path[4096], name[64];
    dn_h5 *f;
    void *data;
    int8_t *g;
    uint64_t n;
    double scale, prob[64];
    snprintf(path, sizeof path, "%s/golden/kgp3/release", shared);
    dn_model_opts o = {.threads = 2};
    CHECK_OK(dn_model_open(&m, path, &o, &err), &err);
    CHECK(m->n_members == 15 && m->n_norms == 5 && m->n_snps == 2659 && m->n_out == 24 && m->is_release);
    CHECK(m->task == DN_TASK_CLASSIFICATION && dn_snps_have_alleles(&m->snps) && dn_snps_have_pos(&m->snps));
    CHECK(m->classes.n == 24 && strcmp(dn_strs_get(&m->classes, 4), "CEUGBR") == 0 &&
          strcmp(dn_strs_get(&m->classes, 21), "STUITU") == 0);
    CHECK(strcmp(m->members[0].name, "1_1") == 0 && strcmp(m->members[14].name, "5_3") == 0);
    snprintf(path, sizeof path, "%s/golden/kgp3/infer/matched.hdf5", shared);
    CHECK_OK(dn_h5_open(&f, path, &err), &err);
    CHECK_OK(dn_h5_read(f, "inputs", DN_I8, 203 * m->n_snps, &data, &n, &err), &err);
    g = data;
    CHECK_OK(dn_h5_read(f, "scale", DN_F64, 1, &data, &n, &err), &err);
    scale = *(double *)data;
    free(data);
    dn_h5_close(f);
    snprintf(path, sizeof path, "%s/golden/kgp3/infer/scores.tsv", shared);
    FILE *in = fopen(path, "r");
    CHECK(in != NULL);
    if (!in) exit(1);
    char *line = NULL;
    size_t cap = 0;
    double worst = 0;
    (void)!getline(&line, &cap, in);
    for (int i = 0; i < 15 * 203; i++) {
        if (getline(&line, &cap, in) < 0) break;
        if (i % 203 >= 12) continue; /* twelve people of each member are enough */
        const dn_member *x = &m->members[i / 203];
        char *save, *field = strtok_r(line, "\t", &save);
        snprintf(name, sizeof name, "%s", field);
        CHECK(strcmp(name, x->name) == 0);
        strtok_r(NULL, "\t", &save);
        strtok_r(NULL, "\t", &save);
        predict(m, x, g + (uint64_t)(i % 203) * m->n_snps, scale, prob, NULL);
        for (int c = 0; c < 24; c++)
            worst = fmax(worst, fabs(strtod(strtok_r(NULL, "\t", &save), NULL) - prob[c]));
    }
    CHECK_MSG(worst < 1e-5, "largest difference from upstream's probabilities: %g", worst);
    printf("kgp3: largest difference from upstream's probabilities %.2g\n", worst);
    free(line);
    fclose(in);
    free(g);
    dn_model_free(m);

    /* What snpmatch needs comes without the rest. */
    snprintf(path, sizeof path, "%s/golden/kgp3/release", shared);
    o = (dn_model_opts){.snps_only = true, .no_alleles = true, .threads = 1};
    CHECK_OK(dn_model_open(&m, path, &o, &err), &err);
    CHECK(m->n_members == 0 && m->n_snps == 2659 && !dn_snps_have_alleles(&m->snps) && m->freq[0] > 0 &&
          m->freq[0] < 1);
    dn_model_free(m);
}

static const char *path_in_tmp(const char *name)
{
    static char path[8192];
    snprintf(path, sizeof path, "%s/%s", tmp, name);
    return path;
}

/* Opens tmp/name and expects this status and these words. */
static void refused(const char *name, dn_status want, const char *words, const char *more)
{
    dn_err err;
    dn_model *m;
    dn_model_opts o = {.threads = 1};
    snprintf(err.msg, sizeof err.msg, "(no message)");
    dn_status st = dn_model_open(&m, path_in_tmp(name), &o, &err);
    CHECK_MSG(st == want && strstr(err.msg, words) && strstr(err.msg, more), "%s: %d: %s", name, (int)st,
              err.msg);
    if (st == DN_OK) dn_model_free(m);
}

/* The release with one thing wrong at a time. */
static void test_bad_releases(void)
{
    sh("mkdir %1$s/r; cp -r %2$s/golden/kgp3/release/. %1$s/r; chmod -R u+w %1$s/r", shared, "");
    sh("cd %s/r/DN_MODELS; mv weights_model3_2.pt ../kept", "", "");
    refused("r", DN_EFORMAT, "weights_model3_2.pt is missing", "5 folds x 3 repeats");
    sh("cd %s/r/DN_MODELS; cp weights_model1_1.pt weights_model3_2.pt", "", "");
    refused("r", DN_EMISMATCH, "members 1_1 and 3_2 have equal weights", "");
    sh("cd %s/r/DN_MODELS; mv ../kept weights_model3_2.pt; mv snps_emb_model2.npz ../kept", "", "");
    refused("r", DN_EOPEN, "snps_emb_model2.npz", "");
    sh("cd %s/r/DN_MODELS; cp %s/golden/kgp1/release/DN_MODELS/snps_emb_model2.npz .", shared, "");
    refused("r", DN_EMISMATCH, "snps_emb_model2.npz", "2659 SNPs");
    sh("cd %s/r/DN_MODELS; rm -f snps_emb_model2.npz; mv ../kept snps_emb_model2.npz; mv weights_model5_3.pt "
       "../kept; "
       "cp %s/golden/kgp1/release/DN_MODELS/weights_model5_3.pt .",
       shared, "");
    refused("r", DN_EFORMAT, "weights_model5_3.pt", "layers do not fit together");
    sh("cd %s/r/DN_MODELS; rm -f weights_model5_3.pt; cp %s/golden/kgp3/train/regression/best_model.pt "
       "weights_model5_3.pt",
       shared, "");
    refused("r", DN_EMISMATCH, "member 5_3 has 1 outputs but member 1_1 has 24", "");
    sh("cd %s/r/DN_MODELS; rm -f weights_model5_3.pt; mv ../kept weights_model5_3.pt", "", "");
    sh("cd %s/r/DN_SNPS; cp dietnet_snps.txt ../kept; sed -i 100d dietnet_snps.txt", "", "");
    refused("r", DN_EMISMATCH, "norm_stats_model1.npz", "2658 SNPs");
    sh("cd %s/r/DN_SNPS; sed '100s/.*/rsNEW/' ../kept >dietnet_snps.txt", "", "");
    refused("r", DN_EMISMATCH, "dummy.bim has no SNP rsNEW", "");
    sh("cd %s/r/DN_SNPS; sed '100{p;p}' ../kept >dietnet_snps.txt", "", "");
    refused("r", DN_EFORMAT, "listed twice, as number 100 and 101", "");
    sh("cd %s/r/DN_SNPS; : >dietnet_snps.txt", "", "");
    refused("r", DN_EFORMAT, "lists 0 SNPs", "");
    /* Alleles in another order, Windows line ends, or none at all: all fine. */
    sh("cd %s/r/DN_SNPS; sed 's/$/\r/' ../kept >dietnet_snps.txt; sort -k4n dummy.bim >x; mv -f x dummy.bim",
       "", "");
    dn_err err;
    dn_model *m, *n;
    dn_model_opts o = {.snps_only = true};
    char golden[8192];
    snprintf(golden, sizeof golden, "%s/golden/kgp3/release", shared);
    CHECK_OK(dn_model_open(&m, path_in_tmp("r"), &o, &err), &err);
    CHECK_OK(dn_model_open(&n, golden, &o, &err), &err);
    CHECK(m->snps_hash == n->snps_hash &&
          strcmp(dn_strs_get(&m->snps.a1, 77), dn_strs_get(&n->snps.a1, 77)) == 0);
    dn_model_free(m);
    o.no_alleles = true;
    CHECK_OK(dn_model_open(&m, golden, &o, &err), &err);
    CHECK(m->snps_hash == n->snps_hash && !dn_snps_have_alleles(&m->snps));
    dn_model_free(m);
    dn_model_free(n);
    sh("rm %s/r/DN_SNPS/dummy.bim", "", "");
    o.no_alleles = false;
    CHECK_OK(dn_model_open(&m, path_in_tmp("r"), &o, &err), &err);
    CHECK(!dn_snps_have_alleles(&m->snps) && !dn_snps_have_pos(&m->snps));
    dn_model_free(m);
    refused("r/DN_MODELS", DN_EFORMAT, "holds no model", "give the folder above it");
    refused("r/DN_SNPS", DN_EFORMAT, "holds no model", "give the folder above it");
    sh("cd %s/r/DN_MODELS; rm weights*", "", "");
    refused("r", DN_EFORMAT, "weights_model{fold}_{repeat}.pt", "");
}

/* A release's members as packages: the same model, and the same rules. */
static void write_packages(const dn_model *m)
{
    dn_err err;
    sh("mkdir -p %s/p", "", "");
    for (size_t i = 0; i < m->n_members; i++) {
        const dn_member *x = &m->members[i];
        char name[64];
        dn_package p = {.task = m->task,
                        .fold = x->fold - 1,
                        .seed = x->seed * 10,
                        .snps = &m->snps,
                        .freq = m->freq,
                        .classes = &m->classes,
                        .mean = m->norms[x->norm].mean,
                        .sd = m->norms[x->norm].sd,
                        .fat = x->fat,
                        .n_layers = x->n_layers,
                        .layer = x->layer,
                        .test_loss = NAN,
                        .test_acc = NAN};
        snprintf(name, sizeof name, "p/seed%d_fold%d.h5", (int)p.seed, (int)p.fold);
        CHECK_OK(dn_package_write(path_in_tmp(name), &p, 0, &err), &err);
    }
}

static void test_packages(void)
{
    dn_err err;
    dn_model *m, *n;
    char golden[8192];
    snprintf(golden, sizeof golden, "%s/golden/kgp3/release", shared);
    dn_model_opts o = {.threads = 2};
    CHECK_OK(dn_model_open(&m, golden, &o, &err), &err);
    write_packages(m);
    CHECK_OK(dn_model_open(&n, path_in_tmp("p"), &o, &err), &err);
    CHECK(n->n_members == 15 && n->n_norms == 5 && n->snps_hash == m->snps_hash && !n->is_release &&
          n->n_out == 24);
    CHECK(dn_strs_equal(&m->classes, &n->classes) && strcmp(n->members[4].name, "seed20_fold1") == 0);
    for (size_t i = 0; i < 15; i++) {
        const dn_member *x = &m->members[i], *y = &n->members[i];
        CHECK(memcmp(x->fat, y->fat, (size_t)(m->n_snps * x->layer[0].n_out) * sizeof(float)) == 0);
        CHECK(memcmp(m->norms[x->norm].sd, n->norms[y->norm].sd, (size_t)m->n_snps * sizeof(double)) == 0);
        CHECK(memcmp(x->layer[2].weight, y->layer[2].weight, 2400 * sizeof(float)) == 0);
    }
    dn_model_free(n);
    o.snps_only = true;
    CHECK_OK(dn_model_open(&n, path_in_tmp("p"), &o, &err), &err);
    CHECK(n->snps_hash == m->snps_hash && n->n_members == 0 &&
          memcmp(n->freq, m->freq, (size_t)m->n_snps * sizeof(float)) == 0);
    dn_model_free(n);
    o.snps_only = false;
    CHECK_OK(dn_model_open(&n, path_in_tmp("p/seed20_fold3.h5"), &o, &err), &err);
    CHECK(n->n_members == 1 && n->members[0].fold == 3 && n->members[0].seed == 20);
    dn_model_free(n);
    o.classes_file = "/dev/null";
    CHECK(dn_model_open(&n, path_in_tmp("p"), &o, &err) == DN_EUSAGE);

    sh("cd %s/p; mv seed20_fold3.h5 ../kept.h5", "", "");
    refused("p", DN_EFORMAT, "seed20_fold3.h5 is missing", "3 seeds");
    sh("cd %s/p; cp seed20_fold2.h5 seed20_fold3.h5", "", "");
    refused("p", DN_EMISMATCH, "holds the model of seed 20, fold 2", "");
    sh("cd %s/p; rm -f seed20_fold3.h5; head -c 100000 ../kept.h5 >seed20_fold3.h5", "", "");
    refused("p", DN_EFORMAT, "seed20_fold3.h5", "");
    sh("cd %s/p; rm -f seed20_fold3.h5; mv ../kept.h5 seed20_fold3.h5; rm *_fold0.h5", "", "");
    refused("p", DN_EFORMAT, "seed10_fold0.h5 is missing", "");

    /* One more package that does not belong. */
    dn_package p = {.task = m->task,
                    .fold = 0,
                    .seed = 10,
                    .snps = &m->snps,
                    .freq = m->freq,
                    .classes = &m->classes,
                    .mean = m->norms[0].mean,
                    .sd = m->norms[0].sd,
                    .fat = m->members[0].fat,
                    .n_layers = 3,
                    .layer = m->members[0].layer,
                    .test_loss = NAN,
                    .test_acc = NAN};
    sh("mkdir %s/q", "", "");
    CHECK_OK(dn_package_write(path_in_tmp("q/seed10_fold0.h5"), &p, 0, &err), &err);
    p.fold = 1;
    CHECK_OK(dn_package_write(path_in_tmp("q/seed10_fold1.h5"), &p, 0, &err), &err);
    refused("q", DN_EMISMATCH, "seed10_fold0 and seed10_fold1 have equal weights", "");
    p.fat = m->members[3].fat;
    p.layer = m->members[3].layer;
    char *a1 = m->snps.a1.buf + m->snps.a1.off[5], was = *a1;
    *a1 = was == 'A' ? 'C' : 'A';
    CHECK_OK(dn_package_write(path_in_tmp("q/seed10_fold1.h5"), &p, DN_OUT_FORCE, &err), &err);
    refused("q", DN_EMISMATCH, "count other alleles", dn_strs_get(&m->snps.id, 5));
    *a1 = was;
    m->snps.id.buf[m->snps.id.off[7]] = 'X';
    CHECK_OK(dn_package_write(path_in_tmp("q/seed10_fold1.h5"), &p, DN_OUT_FORCE, &err), &err);
    refused("q", DN_EMISMATCH, "have other SNPs: number 8", dn_strs_get(&m->snps.id, 7));
    m->snps.id.buf[m->snps.id.off[7]] = 'r';
    m->classes.buf[m->classes.off[3]] = 'X';
    CHECK_OK(dn_package_write(path_in_tmp("q/seed10_fold1.h5"), &p, DN_OUT_FORCE, &err), &err);
    refused("q", DN_EMISMATCH, "have other classes: number 4", "XDX");
    dn_model_free(m);
    sh("mkdir %s/empty", "", "");
    refused("empty", DN_EFORMAT, "holds no model", "DN_MODELS");
    refused("nowhere", DN_EOPEN, "nowhere", "");
}

static void test_kgp1(void)
{
    dn_err err;
    dn_model *m;
    char path[4096];
    snprintf(path, sizeof path, "%s/golden/kgp1/release", shared);
    dn_model_opts o = {.threads = 2};
    CHECK(dn_model_open(&m, path, &o, &err) == DN_EUSAGE && strstr(err.msg, "--classes FILE") &&
          strstr(err.msg, "14 classes"));
    o.number_classes = true;
    CHECK_OK(dn_model_open(&m, path, &o, &err), &err);
    CHECK(m->n_members == 15 && m->n_snps == 14079 && m->n_out == 14 &&
          strcmp(dn_strs_get(&m->classes, 13), "class13") == 0);
    dn_model_free(m);
}

int main(void)
{
    shared = getenv("SHARED");
    test_tanh();
    test_auxnet();
    if (shared && *shared) {
        test_kgp3();
        test_kgp1();
        snprintf(tmp, sizeof tmp, "%s/test_model.%ld", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
                 (long)getpid());
        sh("mkdir -p %s", "", "");
        test_bad_releases();
        test_packages();
        sh("rm -r %s", "", "");
    } else {
        printf("golden releases are not there: their tests are skipped\n");
    }
    return check_done();
}
