/* Model packages: round trip, same bytes twice, partial and mapped reads, and no damage that goes unseen. */
#include "check.h"

#include <unistd.h>

#include "h5.h"
#include "package.h"

enum { M = 301, H = 7, D = 5, C = 3, HA = 4 };
static char dir[256], path[300], other[300];

static float *floats(size_t n, unsigned long long *seed)
{
    float *v = malloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = (float)((double)(check_rand(seed) >> 40) / (1 << 23) - 1);
    return v;
}

static void fill(dn_strs *t, const char *fmt, int n)
{
    dn_err err;
    char s[64];
    for (int i = 0; i < n; i++) {
        snprintf(s, sizeof s, fmt, i);
        CHECK_OK(dn_strs_add(t, s, strlen(s), &err), &err);
    }
}

static dn_snps snps;
static dn_strs classes;
static dn_layer layer[3], aux[2];
static dn_package pk;

static void make(void)
{
    static unsigned long long seed = 7;
    static double mean[M], sd[M];
    fill(&snps.id, "rs%d", M);
    fill(&snps.chrom, "%d", M);
    snps.pos = calloc(M, sizeof *snps.pos);
    for (int i = 0; i < M; i++) {
        dn_err err;
        snps.pos[i] = 100 * i;
        CHECK_OK(dn_strs_add(&snps.a1, i % 2 ? "A" : "ACG", i % 2 ? 1 : 3, &err), &err);
        CHECK_OK(dn_strs_add(&snps.a2, "T", 1, &err), &err);
        mean[i] = 1.0 / (i + 1);
        sd[i] = 0.5 + i;
    }
    fill(&classes, "pop%d", C);
    const uint64_t size[] = {M, H, D, C}, asize[] = {3 * C, HA, H};
    for (int i = 0; i < 3; i++) {
        dn_layer *l = &layer[i];
        l->n_in = size[i], l->n_out = size[i + 1];
        if (i) l->weight = floats(l->n_in * l->n_out, &seed);
        l->bias = floats(l->n_out, &seed);
        if (i == 2) continue;
        l->bn_gamma = floats(l->n_out, &seed), l->bn_beta = floats(l->n_out, &seed);
        l->bn_mean = floats(l->n_out, &seed), l->bn_var = floats(l->n_out, &seed);
    }
    for (int i = 0; i < 2; i++) {
        aux[i].n_in = asize[i], aux[i].n_out = asize[i + 1];
        aux[i].weight = floats(aux[i].n_in * aux[i].n_out, &seed);
    }
    pk = (dn_package){.task = DN_TASK_CLASSIFICATION,
                      .fold = 3,
                      .seed = 78,
                      .snps = &snps,
                      .freq = floats(M, &seed),
                      .classes = &classes,
                      .mean = mean,
                      .sd = sd,
                      .fat = floats(M * H, &seed),
                      .n_layers = 3,
                      .layer = layer,
                      .n_aux = 2,
                      .aux = aux,
                      .config_yaml = "batch_size: 138\n",
                      .log_tsv = "epoch\tloss\n0\t1.5\n",
                      .data_hash = 11,
                      .split_hash = UINT64_MAX,
                      .best_epoch = 9,
                      .test_loss = NAN,
                      .test_acc = 37.5};
}

static bool same_layer(const dn_layer *a, const dn_layer *b)
{
    size_t n = a->n_out * sizeof(float);
    return a->n_in == b->n_in && a->n_out == b->n_out && !a->weight == !b->weight && !a->bias == !b->bias &&
           (!a->weight || !memcmp(a->weight, b->weight, n * a->n_in)) &&
           (!a->bias || !memcmp(a->bias, b->bias, n)) && !a->bn_var == !b->bn_var &&
           (!a->bn_var || (!memcmp(a->bn_gamma, b->bn_gamma, n) && !memcmp(a->bn_beta, b->bn_beta, n) &&
                           !memcmp(a->bn_mean, b->bn_mean, n) && !memcmp(a->bn_var, b->bn_var, n)));
}

/* Everything that was written is there, bit for bit. */
static bool same(const dn_package_in *p)
{
    bool ok = p->task == pk.task && p->fold == 3 && p->seed == 78 && p->n_snps == M && p->n_out == C &&
              p->units == H && p->data_hash == 11 && p->split_hash == UINT64_MAX && p->best_epoch == 9 &&
              isnan(p->test_loss) && p->test_acc == 37.5 && !strcmp(p->program, "dnpipe " DN_VERSION) &&
              p->snps_hash == dn_snps_hash(&snps);
    ok = ok && dn_strs_equal(&p->snps.id, &snps.id) && dn_strs_equal(&p->snps.a1, &snps.a1) &&
         dn_strs_equal(&p->snps.a2, &snps.a2) && dn_strs_equal(&p->snps.chrom, &snps.chrom) &&
         !memcmp(p->snps.pos, snps.pos, sizeof(int64_t) * M) && dn_strs_equal(&p->classes, &classes) &&
         !memcmp(p->freq, pk.freq, sizeof(float) * M);
    ok = ok && !memcmp(p->mean, pk.mean, sizeof(double) * M) && !memcmp(p->sd, pk.sd, sizeof(double) * M) &&
         !memcmp(p->fat, pk.fat, sizeof(float) * M * H) && p->n_layers == 3 && p->n_aux == 2;
    for (int i = 0; ok && i < 3; i++) ok = same_layer(&p->layer[i], &layer[i]);
    for (int i = 0; ok && i < 2; i++) ok = same_layer(&p->aux[i], &aux[i]);
    return ok && !strcmp(p->config_yaml, pk.config_yaml) && !strcmp(p->log_tsv, pk.log_tsv);
}

static unsigned char *slurp(const char *name, size_t *n)
{
    FILE *f = fopen(name, "rb");
    unsigned char *p = malloc(1 << 20);
    *n = fread(p, 1, 1 << 20, f);
    fclose(f);
    return p;
}
static void spit(const char *name, const void *p, size_t n)
{
    FILE *f = fopen(name, "wb");
    if (!f || fwrite(p, 1, n, f) != n) exit(1);
    fclose(f);
}

static void round_trip(void)
{
    dn_err err = {0};
    dn_package_in *p;
    CHECK_OK(dn_package_write(path, &pk, 0, &err), &err);
    CHECK(dn_package_write(path, &pk, 0, &err) == DN_EUSAGE);
    CHECK_OK(dn_package_read(&p, path, DN_PACKAGE_ALL, &err), &err);
    CHECK(same(p) && !p->fat_mapped);
    uint64_t weights = p->weight_hash;
    dn_package_free(p);
    CHECK_OK(dn_package_read(&p, path, DN_PACKAGE_ALL | DN_PACKAGE_MAP, &err), &err);
    CHECK(same(p) && p->fat_mapped && (uintptr_t)p->fat % 64 == 0);
    dn_package_free(p);
    CHECK_OK(dn_package_read(&p, path, DN_PACKAGE_SNPS, &err), &err);
    CHECK(p->n_snps == M && p->classes.n == C && p->freq && !p->mean && !p->fat && !p->layer);
    dn_package_free(p);
    CHECK_OK(dn_package_read(&p, path, DN_PACKAGE_NET, &err), &err);
    CHECK(p->fat && p->layer && !p->aux);
    dn_package_free(p);
    CHECK(dn_package_is(path) && !dn_package_is(dir) && !dn_package_is("/nonexistent"));

    /* The same package is the same file; another seed keeps the fingerprint of the weights, another weight
     * does not. */
    size_t na, nb;
    sleep(1);
    CHECK_OK(dn_package_write(other, &pk, 0, &err), &err);
    unsigned char *a = slurp(path, &na), *b = slurp(other, &nb);
    CHECK(na == nb && !memcmp(a, b, na));
    free(a);
    free(b);
    dn_package twin = pk;
    twin.seed = 23;
    CHECK_OK(dn_package_write(other, &twin, DN_OUT_FORCE, &err), &err);
    CHECK_OK(dn_package_read(&p, other, DN_PACKAGE_SNPS, &err), &err);
    CHECK(p->weight_hash == weights && p->seed == 23);
    dn_package_free(p);
    layer[2].bias[0] += 1;
    CHECK_OK(dn_package_write(other, &pk, DN_OUT_FORCE, &err), &err);
    layer[2].bias[0] -= 1;
    CHECK_OK(dn_package_read(&p, other, DN_PACKAGE_SNPS, &err), &err);
    CHECK(p->weight_hash != weights);
    dn_package_free(p);
}

static void regression(void)
{
    dn_err err = {0};
    dn_package_in *p;
    dn_package r = pk;
    dn_layer l[3];
    memcpy(l, layer, sizeof l);
    l[2].n_out = 1;
    r.task = DN_TASK_REGRESSION, r.classes = NULL, r.layer = l, r.n_aux = 0, r.aux = NULL,
    r.config_yaml = NULL, r.log_tsv = "";
    CHECK_OK(dn_package_write(other, &r, DN_OUT_FORCE, &err), &err);
    CHECK_OK(dn_package_read(&p, other, DN_PACKAGE_ALL, &err), &err);
    CHECK(p->task == DN_TASK_REGRESSION && p->n_out == 1 && p->classes.n == 0 && p->n_aux == 0 &&
          !*p->config_yaml && !*p->log_tsv);
    dn_package_free(p);
}

static void refused(void)
{
    dn_err err = {0};
    dn_package bad = pk;
    float *fat = malloc(sizeof(float) * M * H);
    memcpy(fat, pk.fat, sizeof(float) * M * H);
    fat[5] = INFINITY;
    bad.fat = fat;
    CHECK(dn_package_write(other, &bad, DN_OUT_FORCE, &err) == DN_ENUMERIC &&
          strstr(err.msg, "value 6 of 'fat/weight'"));
    free(fat);
    bad = pk;
    bad.n_layers = 2;
    CHECK(dn_package_write(other, &bad, DN_OUT_FORCE, &err) == DN_EINTERNAL);
    bad = pk;
    bad.n_aux = 1;
    CHECK(dn_package_write(other, &bad, DN_OUT_FORCE, &err) == DN_EINTERNAL);

    /* Another HDF5 file, and a package from the future. */
    dn_h5 *f;
    dn_package_in *p;
    uint64_t two = 2, dims[1] = {1};
    CHECK_OK(dn_h5_create(&f, other, DN_OUT_FORCE, &err), &err);
    CHECK_OK(dn_h5_write(f, "inputs", DN_U64, 1, dims, &two, &err), &err);
    CHECK_OK(dn_h5_commit(&f, &err), &err);
    CHECK(dn_package_read(&p, other, DN_PACKAGE_SNPS, &err) == DN_EFORMAT &&
          strstr(err.msg, "not a model package (it is a dataset"));
    CHECK(!dn_package_is(other));
    CHECK_OK(dn_h5_create(&f, other, DN_OUT_FORCE, &err), &err);
    CHECK_OK(dn_h5_write_attr_str(f, "/", "format", "dnpipe package", &err), &err);
    CHECK_OK(dn_h5_write_attr(f, "/", "version_major", DN_U64, &two, &err), &err);
    CHECK_OK(dn_h5_write_attr(f, "/", "version_minor", DN_U64, &two, &err), &err);
    CHECK_OK(dn_h5_commit(&f, &err), &err);
    CHECK(dn_package_read(&p, other, DN_PACKAGE_SNPS, &err) == DN_EUNSUPPORTED &&
          strstr(err.msg, "version 2.2"));
}

/* CS10: half a package, a flipped bit. What reads without an error is what was written. */
static void damaged(void)
{
    dn_err err = {0};
    dn_package_in *p;
    size_t n;
    unsigned char *good = slurp(path, &n), *bad = malloc(n);
    unsigned long long seed = 3;
    for (int i = 0; i < 40; i++) {
        size_t cut = i ? check_rand(&seed) % n : n / 2;
        spit(other, good, cut);
        CHECK_MSG(dn_package_read(&p, other, DN_PACKAGE_ALL, &err) == DN_EFORMAT && strstr(err.msg, other),
                  "cut at %zu: %s", cut, err.msg);
    }
    int seen = 0, rounds = getenv("H5_ROUNDS") ? atoi(getenv("H5_ROUNDS")) : 300;
    for (int i = 0; i < rounds; i++) {
        memcpy(bad, good, n);
        bad[check_rand(&seed) % n] ^= (unsigned char)(1u << check_rand(&seed) % 8);
        spit(other, bad, n);
        dn_status st = dn_package_read(&p, other, DN_PACKAGE_ALL | (i % 2 ? DN_PACKAGE_MAP : 0), &err);
        if (st == DN_OK) {
            CHECK_MSG(same(p), "round %d: damage was not seen", i);
            dn_package_free(p);
        } else {
            seen++;
            CHECK_MSG((st == DN_EFORMAT || st == DN_EUNSUPPORTED) && strstr(err.msg, other),
                      "round %d: %d %s", i, (int)st, err.msg);
        }
    }
    CHECK_MSG(seen > rounds / 2, "%d of %d flips were seen", seen, rounds);
    free(bad);
    free(good);
}

int main(void)
{
    snprintf(dir, sizeof dir, "%s/test_package.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(dir)) return 1;
    snprintf(path, sizeof path, "%s/seed78_fold3.h5", dir);
    snprintf(other, sizeof other, "%s/other.h5", dir);
    make();
    round_trip();
    regression();
    refused();
    damaged();
    unlink(path);
    unlink(other);
    CHECK(rmdir(dir) == 0);
    return check_done();
}
