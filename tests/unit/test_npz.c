/* .npy and .npz: what we write we read back, same arrays give the same bytes, and headers that lie are
 * refused before anything is allocated. */
#include "check.h"
#include "io.h"
#include "npz.h"
#include "zip_read.h"

#include <unistd.h>

static char dir[4096];

static const char *at(const char *name)
{
    static char path[4][5000];
    static int k;
    k = (k + 1) % 4;
    snprintf(path[k], sizeof path[k], "%s/%s", dir, name);
    return path[k];
}

static void spit(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0) exit(1);
}

static char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *buf = malloc(1 << 22);
    *n = f ? fread(buf, 1, 1 << 22, f) : 0;
    if (f) fclose(f);
    return buf;
}

static void write_sample(const char *path)
{
    dn_err err;
    dn_npz_writer *w;
    static double mean[3000], emb[40 * 7];
    int64_t label[5] = {3, -1, 0, 1LL << 40, 2};
    unsigned long long seed = 3;
    for (int i = 0; i < 3000; i++) mean[i] = (double)(check_rand(&seed) % 1000) / 7;
    for (int i = 0; i < 280; i++) emb[i] = i;
    CHECK_OK(dn_npz_create(&w, path, DN_OUT_FORCE, &err), &err);
    CHECK_OK(dn_npz_start(w, "mean", "<f8", 1, (uint64_t[]){3000}, sizeof mean, &err), &err);
    CHECK_OK(dn_npz_write(w, mean, sizeof mean, &err), &err);
    CHECK_OK(dn_npz_start(w, "emb", "<f8", 3, (uint64_t[]){2, 20, 7}, sizeof emb, &err), &err);
    for (int i = 0; i < 280; i++)
        CHECK_OK(dn_npz_write(w, &emb[i], 8, &err), &err); /* in pieces of an odd place */
    CHECK_OK(dn_npz_start(w, "label", "<i8", 1, (uint64_t[]){5}, sizeof label, &err), &err);
    CHECK_OK(dn_npz_write(w, label, sizeof label, &err), &err);
    CHECK_OK(dn_npz_start(w, "name", "|S4", 1, (uint64_t[]){2}, 8, &err), &err);
    CHECK_OK(dn_npz_write(w, "abcdx\0\0\0", 8, &err), &err);
    CHECK_OK(dn_npz_start(w, "none", "<f8", 2, (uint64_t[]){0, 4}, 0, &err), &err);
    CHECK_OK(dn_npz_commit(&w, &err), &err);
}

static void test_round_trip(void)
{
    dn_err err;
    dn_npz *z;
    dn_npy_info info;
    void *data;
    dn_strs strs = {0};
    write_sample(at("a.npz"));
    write_sample(at("b.npz"));
    size_t na, nb;
    char *a = slurp(at("a.npz"), &na), *b = slurp(at("b.npz"), &nb);
    CHECK(na == nb && memcmp(a, b, na) == 0);
    CHECK_OK(dn_npz_open(&z, at("a.npz"), &err), &err);
    CHECK(dn_npz_has(z, "emb") && !dn_npz_has(z, "std"));
    CHECK_OK(dn_npz_read(z, "emb", DN_F32, &data, &info, &err), &err);
    CHECK(info.ndim == 3 && info.dim[1] == 20 && info.n_items == 280 && ((float *)data)[279] == 279);
    free(data);
    CHECK_OK(dn_npz_read(z, "label", DN_I64, &data, &info, &err), &err);
    CHECK(((int64_t *)data)[1] == -1 && ((int64_t *)data)[3] == 1LL << 40);
    free(data);
    CHECK_OK(dn_npz_read(z, "label", DN_F64, &data, &info, &err), &err);
    CHECK(((double *)data)[1] == -1);
    free(data);
    CHECK_OK(dn_npz_read_strs(z, "name", &strs, &info, &err), &err);
    CHECK(strs.n == 2 && strcmp(dn_strs_get(&strs, 0), "abcd") == 0 &&
          strcmp(dn_strs_get(&strs, 1), "x") == 0);
    dn_strs_free(&strs);
    CHECK_OK(dn_npz_read(z, "none", DN_F64, &data, &info, &err), &err);
    CHECK(info.n_items == 0);
    free(data);
    CHECK(dn_npz_read(z, "std", DN_F64, &data, &info, &err) == DN_EFORMAT &&
          strstr(err.msg, "mean.npy, emb.npy"));
    CHECK(dn_npz_read(z, "mean", DN_I64, &data, &info, &err) == DN_EFORMAT && strstr(err.msg, "fractions"));
    CHECK(dn_npz_read(z, "name", DN_F64, &data, &info, &err) == DN_EFORMAT && strstr(err.msg, "no numbers"));
    CHECK(dn_npz_read_strs(z, "mean", &strs, &info, &err) == DN_EFORMAT);
    dn_npy_objects o;
    CHECK(dn_npz_read_objects(z, "mean", &o, &info, &err) == DN_EFORMAT && strstr(err.msg, "not lists"));
    dn_npz_close(z);

    /* Cut anywhere, or with any bit turned: an error, or the same numbers. */
    for (size_t cut = 0; cut < na; cut += cut < 200 || cut > na - 400 ? 1 : 211) {
        spit(at("cut.npz"), a, cut);
        dn_status st = dn_npz_open(&z, at("cut.npz"), &err);
        CHECK_MSG(st == DN_EFORMAT, "cut at %zu of %zu: %d", cut, na, (int)st);
        if (st == DN_OK) dn_npz_close(z);
    }
    static const char *const names[] = {"mean", "emb", "label", "none"};
    for (size_t i = 0; i < na; i += i < 300 || i > na - 600 ? 1 : 97) {
        a[i] ^= (char)(1 << i % 8);
        spit(at("flip.npz"), a, na);
        a[i] ^= (char)(1 << i % 8);
        if (dn_npz_open(&z, at("flip.npz"), &err) != DN_OK) continue;
        for (int k = 0; k < 4; k++) {
            dn_status st = dn_npz_read(z, names[k], DN_F64, &data, &info, &err);
            if (st == DN_OK)
                free(data);
            else
                CHECK_MSG(st == DN_EFORMAT || st == DN_EUNSUPPORTED, "flip at %zu: %d %s", i, (int)st,
                          err.msg);
        }
        dn_npz_close(z);
    }
    free(a);
    free(b);
}

/* A .npy with this header text and n bytes of data 0, 1, 2, ... */
static dn_status npy(int version, const char *text, size_t n, dn_type type, void **data, dn_npy_info *info,
                     dn_err *err)
{
    char b[4096] = "\x93NUMPY";
    size_t len = strlen(text), k = 6;
    dn_npz *z;
    b[k++] = (char)version, b[k++] = 0;
    b[k++] = (char)len, b[k++] = (char)(len >> 8);
    if (version > 1) b[k++] = 0, b[k++] = 0;
    memcpy(b + k, text, len);
    k += len;
    for (size_t i = 0; i < n; i++) b[k++] = (char)i;
    spit(at("x.npy"), b, k);
    snprintf(err->msg, sizeof err->msg, "(no message)");
    dn_status status = dn_npz_open(&z, at("x.npy"), err);
    if (status != DN_OK) return status;
    status = dn_npz_read(z, "anything", type, data, info, err);
    dn_npz_close(z);
    return status;
}

static void test_headers(void)
{
    dn_err err;
    dn_npy_info info;
    void *data;
    CHECK_OK(npy(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (6,), }   \n", 6, DN_F64, &data, &info,
                 &err),
             &err);
    CHECK(info.ndim == 1 && info.n_items == 6 && ((double *)data)[5] == 5);
    free(data);
    CHECK_OK(npy(3, "{\"shape\": (2, 3), \"fortran_order\": True, \"descr\": \"|i1\"}", 6, DN_I64, &data,
                 &info, &err),
             &err);
    static const int64_t want[] = {0, 2, 4, 1, 3, 5}; /* columns first in the file */
    CHECK(info.fortran && memcmp(data, want, sizeof want) == 0);
    free(data);
    CHECK_OK(npy(1, "{'descr': '<i2', 'fortran_order': False, 'shape': (), }", 2, DN_I64, &data, &info, &err),
             &err);
    CHECK(info.ndim == 0 && info.n_items == 1 && ((int64_t *)data)[0] == 256);
    free(data);
    CHECK_OK(npy(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (2L, 1L), }", 4, DN_F32, &data, &info,
                 &err),
             &err);
    CHECK(fabsf(((float *)data)[0] - 1.52587890625e-05f) < 1e-12f); /* 0x0100: a subnormal half */
    free(data);
    static const struct {
        const char *text;
        size_t n;
        dn_status want;
        const char *words;
    } bad[] = {
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", 23, DN_EFORMAT, "does not fit"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", 25, DN_EFORMAT, "does not fit"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 24, DN_EFORMAT,
         "does not fit"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,), }", 0, DN_EFORMAT,
         "does not fit"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999,), }", 24, DN_EFORMAT,
         "cannot be understood"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }", 24, DN_EFORMAT,
         "cannot be understood"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,3), }", 24, DN_EFORMAT,
         "cannot be understood"},
        {"{'descr': '<f8', 'fortran_order': False}", 24, DN_EFORMAT, "cannot be understood"},
        {"{'descr': '<f8', 'fortran_order': Maybe, 'shape': (3,), }", 24, DN_EFORMAT, "cannot be understood"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'more': 1}", 24, DN_EFORMAT,
         "cannot be understood"},
        {"__import__('os').system('ls')", 24, DN_EFORMAT, "cannot be understood"},
        {"", 24, DN_EFORMAT, "cannot be understood"},
        {"{'descr': '>f8', 'fortran_order': False, 'shape': (3,), }", 24, DN_EUNSUPPORTED, "big-endian"},
        {"{'descr': '<c16', 'fortran_order': False, 'shape': (3,), }", 48, DN_EUNSUPPORTED, "<c16"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (3,), }", 48, DN_EUNSUPPORTED, "<f16"},
        {"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }", 24, DN_EUNSUPPORTED,
         "structured"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (300,), }", 24, DN_EFORMAT, "does not fit"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        dn_status st = npy(1, bad[i].text, bad[i].n, DN_F64, &data, &info, &err);
        CHECK_MSG(st == bad[i].want && strstr(err.msg, bad[i].words), "%zu: %d %s", i, (int)st, err.msg);
        if (st == DN_OK) free(data);
    }
    CHECK(npy(9, "{}", 0, DN_F64, &data, &info, &err) == DN_EUNSUPPORTED);
    CHECK(npy(1, "{'descr': '<u8', 'fortran_order': False, 'shape': (2,), }", 16, DN_I64, &data, &info,
              &err) == DN_OK);
    free(data);
    dn_npz *z;
    spit(at("t.npz"), "just text\n", 10);
    CHECK(dn_npz_open(&z, at("t.npz"), &err) == DN_EFORMAT && strstr(err.msg, "text"));
    spit(at("t.npz"), "", 0);
    CHECK(dn_npz_open(&z, at("t.npz"), &err) == DN_EFORMAT && strstr(err.msg, "empty"));
    CHECK(dn_npz_open(&z, at("nowhere.npz"), &err) == DN_EOPEN);
    CHECK(dn_npz_open(&z, dir, &err) == DN_EOPEN && strstr(err.msg, "folder"));
}

static void test_write_faults(void)
{
    dn_err err;
    dn_npz_writer *w;
    static char zeros[3 << 20];
    CHECK(dn_npz_create(&w, "-", 0, &err) == DN_EUSAGE);
    CHECK(dn_npz_create(&w, at("no/such/x.npz"), 0, &err) == DN_EWRITE);
    CHECK_OK(dn_npz_create(&w, at("y.npz"), 0, &err), &err);
    CHECK_OK(dn_npz_start(w, "a", "|u1", 1, (uint64_t[]){4}, 4, &err), &err);
    CHECK(dn_npz_write(w, "abcde", 5, &err) == DN_EINTERNAL);
    CHECK_OK(dn_npz_write(w, "abc", 3, &err), &err);
    CHECK(dn_npz_commit(&w, &err) == DN_EINTERNAL && !w);
    CHECK(access(at("y.npz"), F_OK) != 0);
    CHECK_OK(dn_npz_create(&w, "/dev/full", 0, &err), &err);
    CHECK_OK(dn_npz_start(w, "a", "|u1", 1, (uint64_t[]){sizeof zeros}, sizeof zeros, &err), &err);
    CHECK(dn_npz_write(w, zeros, sizeof zeros, &err) == DN_EWRITE);
    dn_npz_abort(&w);
}

/* The golden files: pickled index lists, deflated and stored arrays. */
static void test_golden(const char *shared)
{
    dn_err err;
    char path[5000];
    dn_npz *z;
    dn_npy_info info;
    dn_npy_objects o;
    int64_t *x;
    uint64_t n, all[3] = {0};
    void *data;
    snprintf(path, sizeof path, "%s/golden/kgp3/upstream/partition_seed124.npz", shared);
    CHECK_OK(dn_npz_open(&z, path, &err), &err);
    CHECK_OK(dn_npz_read_objects(z, "folds_indexes", &o, &info, &err), &err);
    CHECK(info.ndim == 2 && info.dim[0] == 5 && info.dim[1] == 3 && info.n_items == 15);
    for (int i = 0; i < 15; i++) {
        CHECK_OK(dn_pk_read_ints(o.pickle, o.nodes[i], path, &x, &n, &err), &err);
        all[i % 3] += n;
        for (uint64_t k = 0; k < n; k++) CHECK(x[k] >= 0 && x[k] < 2504);
        free(x);
    }
    CHECK(all[0] + all[1] + all[2] == 5 * 2504 && all[2] == 2504);
    dn_npy_objects_free(&o);
    CHECK_OK(dn_npz_read_objects(z, "folds_samples", &o, &info, &err), &err);
    dn_pk_array arr;
    CHECK(dn_pk_get_array(o.pickle, o.nodes[0], &arr) && arr.dtype.kind == 'S' && arr.dtype.item == 7 &&
          arr.ndim == 1);
    CHECK(dn_pk_read_ints(o.pickle, o.nodes[0], "x", &x, &n, &err) == DN_EFORMAT);
    dn_npy_objects_free(&o);
    CHECK(dn_npz_read(z, "folds_indexes", DN_F64, &data, &info, &err) == DN_EFORMAT);
    dn_npz_close(z);
    snprintf(path, sizeof path, "%s/golden/kgp3/train/d0/test_results.npz", shared);
    CHECK_OK(dn_npz_open(&z, path, &err), &err);
    dn_strs s = {0};
    CHECK_OK(dn_npz_read_strs(z, "class_label_names", &s, &info, &err), &err); /* '<U6' */
    CHECK(s.n == 24 && strcmp(dn_strs_get(&s, 4), "CEUGBR") == 0);
    dn_strs_free(&s);
    dn_npz_close(z);
    /* Every section of a real partition, cut. */
    snprintf(path, sizeof path, "%s/golden/kgp1/upstream/partition_seed124.npz", shared);
    size_t size;
    char *b = slurp(path, &size);
    for (size_t cut = 0; cut < size; cut += 487) {
        spit(at("cut.npz"), b, cut);
        CHECK(dn_npz_open(&z, at("cut.npz"), &err) == DN_EFORMAT);
    }
    free(b);
}

int main(void)
{
    char cmd[5000];
    snprintf(dir, sizeof dir, "%s/test_npz.%ld", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
             (long)getpid());
    snprintf(cmd, sizeof cmd, "mkdir -p %s", dir);
    CHECK(system(cmd) == 0);
    dn_out_on_signal();
    test_round_trip();
    test_headers();
    test_write_faults();
    const char *shared = getenv("SHARED");
    if (shared && *shared)
        test_golden(shared);
    else
        printf("golden files are not there: their tests are skipped\n");
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    CHECK(system(cmd) == 0);
    return check_done();
}
