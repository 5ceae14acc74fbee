/* HDF5 files: round trips, same bytes twice, what the checks refuse, and damaged files. Odd files are made
 * with HDF5 itself. */
#include "check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "h5_impl.h"

static char dir[256];
static char *in_dir(const char *name)
{
    static char buf[8][512];
    static int k;
    k = (k + 1) % 8;
    snprintf(buf[k], sizeof buf[k], "%s/%s", dir, name);
    return buf[k];
}

static unsigned char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    unsigned char *p = malloc(1 << 20);
    *n = fread(p, 1, 1 << 20, f);
    fclose(f);
    return p;
}

static void spit(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(p, 1, n, f) != n) exit(1);
    fclose(f);
}

static void add(dn_strs *t, const char *s)
{
    dn_err err;
    CHECK_OK(dn_strs_add(t, s, strlen(s), &err), &err);
}

/* A file with everything in it. */
static void make(const char *path)
{
    dn_err err = {0};
    dn_h5 *f;
    dn_strs names = {0};
    add(&names, "HG00096");
    add(&names, "");
    add(&names, "\xc3\xa9t\xc3\xa9 x");
    int8_t rows[12] = {0, 1, 2, -1, 2, 1, 0, -1, 1, 1, 1, 1};
    double d[3] = {1.5, -2, 1e-300};
    int64_t one = -7;
    uint64_t dims[2] = {3, 1};
    CHECK_OK(dn_h5_create(&f, path, DN_OUT_FORCE, &err), &err);
    CHECK_OK(dn_h5_create_rows(f, "inputs", DN_I8, 3, 4, &err), &err);
    CHECK_OK(dn_h5_write_strs(f, "samples", &names, &err), &err);
    CHECK_OK(dn_h5_group(f, "main", &err), &err);
    CHECK_OK(dn_h5_group(f, "main/0", &err), &err);
    CHECK_OK(dn_h5_write(f, "main/0/weight", DN_F64, 2, dims, d, &err), &err);
    CHECK_OK(dn_h5_write(f, "scalar", DN_I64, 0, NULL, &one, &err), &err);
    CHECK_OK(dn_h5_write_attr(f, "/", "version", DN_I64, &one, &err), &err);
    CHECK_OK(dn_h5_write_attr_str(f, "main", "type", "a package", &err), &err);
    CHECK_OK(dn_h5_write_attr_str(f, "main", "empty", "", &err), &err);
    CHECK_OK(dn_h5_write_rows(f, "inputs", DN_I8, 1, 2, rows + 4, &err), &err);
    CHECK_OK(dn_h5_write_rows(f, "inputs", DN_I8, 0, 1, rows, &err), &err);
    CHECK(dn_h5_write_rows(f, "inputs", DN_I8, 2, 2, rows, &err) == DN_EINTERNAL);
    CHECK(access(path, F_OK) != 0);
    CHECK_OK(dn_h5_commit(&f, &err), &err);
    CHECK(access(path, F_OK) == 0);
    dn_strs_free(&names);
}

static void round_trip(void)
{
    dn_err err = {0};
    dn_h5 *f;
    const char *path = in_dir("a.h5");
    make(path);
    CHECK_OK(dn_h5_open(&f, path, &err), &err);
    CHECK(dn_h5_has(f, "main/0/weight") && dn_h5_has(f, "/") && !dn_h5_has(f, "main/1") &&
          !dn_h5_has(f, "x/y"));
    int rank;
    uint64_t dims[4], n, off;
    CHECK(dn_h5_shape(f, "inputs", &rank, dims, &err) == DN_OK && rank == 2 && dims[0] == 3 && dims[1] == 4);
    CHECK(dn_h5_shape(f, "scalar", &rank, dims, &err) == DN_OK && rank == 0);
    void *p;
    CHECK_OK(dn_h5_read(f, "inputs", DN_I32, 12, &p, &n, &err), &err);
    CHECK(n == 12 && ((int32_t *)p)[3] == -1 && ((int32_t *)p)[4] == 2);
    free(p);
    int8_t two[8];
    CHECK_OK(dn_h5_read_rows(f, "inputs", DN_I8, 1, 2, two, &err), &err);
    CHECK(two[0] == 2 && two[3] == -1 && two[7] == 1);
    CHECK(dn_h5_read_rows(f, "inputs", DN_I8, 2, 2, two, &err) == DN_EINTERNAL);
    CHECK_OK(dn_h5_read(f, "main/0/weight", DN_F64, UINT64_MAX, &p, &n, &err), &err);
    CHECK(n == 3 && ((double *)p)[2] == 1e-300);
    free(p);
    CHECK(dn_h5_read(f, "main/0/weight", DN_I64, UINT64_MAX, &p, &n, &err) == DN_EFORMAT &&
          strstr(err.msg, "whole numbers"));
    CHECK(dn_h5_read(f, "inputs", DN_I8, 11, &p, &n, &err) == DN_EFORMAT &&
          strstr(err.msg, "12 values, expected 11"));
    CHECK(dn_h5_read(f, "inputs", DN_U8, 12, &p, &n, &err) == DN_EFORMAT && strstr(err.msg, "out of range"));
    CHECK(dn_h5_read(f, "samples", DN_I8, 3, &p, &n, &err) == DN_EFORMAT && p == NULL);
    CHECK(dn_h5_read(f, "main", DN_I8, 3, &p, &n, &err) == DN_EFORMAT && strstr(err.msg, "not a dataset"));
    CHECK(dn_h5_read(f, "nothing", DN_I8, 3, &p, &n, &err) == DN_EFORMAT && strstr(err.msg, "nothing") &&
          strstr(err.msg, path));
    dn_strs s = {0};
    CHECK_OK(dn_h5_read_strs(f, "samples", &s, &err), &err);
    CHECK(s.n == 3 && !strcmp(dn_strs_get(&s, 0), "HG00096") && !*dn_strs_get(&s, 1) &&
          !strcmp(dn_strs_get(&s, 2), "\xc3\xa9t\xc3\xa9 x"));
    CHECK(dn_h5_read_strs(f, "inputs", &s, &err) == DN_EFORMAT);
    dn_strs_free(&s);
    CHECK(dn_h5_list(f, "/", &s, &err) == DN_OK && s.n == 4 && !strcmp(dn_strs_get(&s, 0), "inputs"));
    CHECK(dn_h5_list(f, "inputs", &s, &err) == DN_EFORMAT);
    dn_strs_free(&s);
    int64_t v;
    char *text;
    CHECK(dn_h5_read_attr(f, "/", "version", DN_I64, &v, &err) == DN_OK && v == -7);
    CHECK(dn_h5_read_attr(f, "main", "type", DN_I64, &v, &err) == DN_EFORMAT);
    CHECK(dn_h5_read_attr(f, "main", "none", DN_I64, &v, &err) == DN_EFORMAT &&
          strstr(err.msg, "no attribute 'none'"));
    CHECK(dn_h5_has_attr(f, "main", "type") && !dn_h5_has_attr(f, "main", "x") &&
          !dn_h5_has_attr(f, "nix", "x"));
    CHECK_OK(dn_h5_read_attr_str(f, "main", "type", &text, &err), &err);
    CHECK(!strcmp(text, "a package"));
    free(text);
    CHECK_OK(dn_h5_read_attr_str(f, "main", "empty", &text, &err), &err);
    CHECK(!*text);
    free(text);
    bool ok;
    const char *why;
    CHECK(dn_h5_locate(f, "inputs", DN_I8, &off, &ok, &why, &err) == DN_OK && ok);
    size_t size;
    unsigned char *raw = slurp(path, &size);
    CHECK(off + 12 <= size && (int8_t)raw[off + 3] == -1 && raw[off + 4] == 2);
    free(raw);
    CHECK(dn_h5_locate(f, "inputs", DN_U8, &off, &ok, &why, &err) == DN_OK && !ok && strstr(why, "type"));
    dn_h5_close(f);
}

static void same_bytes(void)
{
    size_t na, nb;
    make(in_dir("d1.h5"));
    sleep(1); /* a stored time would show */
    void *dirt = malloc(100000);
    memset(dirt, 0xaa, 100000);
    free(dirt);
    make(in_dir("d2.h5"));
    unsigned char *a = slurp(in_dir("d1.h5"), &na), *b = slurp(in_dir("d2.h5"), &nb);
    CHECK(na == nb && memcmp(a, b, na) == 0);
    free(a);
    free(b);
}

/* The ways a dataset may be stored other than plainly (field report PE03). */
static void odd_layouts(void)
{
    dn_err err = {0};
    const char *path = in_dir("odd.h5");
    hsize_t dims[2] = {4, 6}, chunk[2] = {1, 6}, one = 2;
    uint16_t v[24];
    for (int i = 0; i < 24; i++) v[i] = (uint16_t)i;
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
          sp = H5Screate_simple(2, dims, NULL);
    hid_t chunked = H5Pcreate(H5P_DATASET_CREATE), gz = H5Pcreate(H5P_DATASET_CREATE),
          ext = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(chunked, 2, chunk);
    H5Pset_chunk(gz, 2, chunk);
    H5Pset_deflate(gz, 9);
    H5Pset_external(ext, "/etc/passwd", 0, 48);
    struct {
        const char *name;
        hid_t type, plist;
        bool write;
    } ds[] = {{"plain", H5T_NATIVE_UINT16, H5P_DEFAULT, true},
              {"chunked", H5T_NATIVE_UINT16, chunked, true},
              {"gzip", H5T_NATIVE_UINT16, gz, true},
              {"bigendian", H5T_STD_U16BE, H5P_DEFAULT, true},
              {"never", H5T_NATIVE_UINT16, H5P_DEFAULT, false},
              {"never_chunked", H5T_NATIVE_UINT16, chunked, false},
              {"external", H5T_NATIVE_UINT16, ext, false},
              {"bytes", H5T_NATIVE_INT8, H5P_DEFAULT, true}};
    for (size_t i = 0; i < sizeof ds / sizeof ds[0]; i++) {
        hid_t d = H5Dcreate2(file, ds[i].name, ds[i].type, sp, H5P_DEFAULT, ds[i].plist, H5P_DEFAULT);
        CHECK(d >= 0);
        if (ds[i].write) H5Dwrite(d, H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, v);
        H5Dclose(d);
    }
    H5Lcreate_external("other.h5", "/x", file, "link", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/plain", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
    hid_t vl = H5Tcopy(H5T_C_S1), vs = H5Screate_simple(1, &one, NULL);
    H5Tset_size(vl, H5T_VARIABLE);
    const char *text[2] = {"rs1", "a longer name"};
    hid_t d = H5Dcreate2(file, "vlen", vl, vs, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(d, vl, H5S_ALL, H5S_ALL, H5P_DEFAULT, text);
    H5Dclose(d);
    hid_t fl = H5Tcopy(H5T_C_S1);
    H5Tset_size(fl, 4);
    H5Tset_strpad(fl, H5T_STR_SPACEPAD);
    d = H5Dcreate2(file, "padded", fl, vs, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(d, fl, H5S_ALL, H5S_ALL, H5P_DEFAULT, "ab  a\0b ");
    H5Dclose(d);
    hsize_t huge[2] = {(hsize_t)1 << 40, (hsize_t)1 << 20};
    hid_t hs = H5Screate_simple(2, huge, NULL);
    hsize_t hc[2] = {1, 1024};
    H5Pset_chunk(chunked, 2, hc);
    d = H5Dcreate2(file, "huge", H5T_NATIVE_INT8, hs, H5P_DEFAULT, chunked, H5P_DEFAULT);
    CHECK(d >= 0);
    hsize_t at[2] = {0, 0}, cnt[2] = {1, 1024};
    hid_t ms = H5Screate_simple(2, cnt, NULL);
    H5Sselect_hyperslab(hs, H5S_SELECT_SET, at, NULL, cnt, NULL);
    char zeros[1024] = {0};
    H5Dwrite(d, H5T_NATIVE_INT8, ms, hs, H5P_DEFAULT, zeros);
    H5Dclose(d);
    H5Sclose(ms), H5Sclose(hs), H5Tclose(fl), H5Tclose(vl), H5Sclose(vs), H5Pclose(chunked), H5Pclose(gz),
        H5Pclose(ext), H5Sclose(sp);
    H5Fclose(file);

    dn_h5 *f;
    CHECK_OK(dn_h5_open(&f, path, &err), &err);
    const struct {
        const char *name, *why;
    } where[] = {{"plain", ""},
                 {"chunked", "chunks"},
                 {"gzip", "compressed"},
                 {"bigendian", "byte order"},
                 {"bytes", "type"}};
    for (size_t i = 0; i < sizeof where / sizeof where[0]; i++) {
        uint64_t off, n;
        bool ok;
        const char *why;
        void *p;
        CHECK(dn_h5_locate(f, where[i].name, DN_U32, &off, &ok, &why, &err) == DN_OK &&
              !ok); /* no such type here */
        uint16_t rows[12];
        CHECK_OK(dn_h5_read(f, where[i].name, DN_I32, 24, &p, &n, &err), &err);
        CHECK_MSG(((int32_t *)p)[23] == 23, "%s", where[i].name);
        free(p);
        CHECK_OK(dn_h5_read_rows(f, where[i].name, DN_I8, 2, 2, rows, &err), &err);
        CHECK(((int8_t *)rows)[0] == 12);
        CHECK(dn_h5_locate(f, where[i].name, DN_I8, &off, &ok, &why, &err) == DN_OK &&
              ok == !strcmp(where[i].name, "bytes"));
        if (where[i].why[0] && !ok) CHECK_MSG(why[0] != 0, "%s", where[i].name);
    }
    void *p;
    uint64_t n, off;
    bool ok;
    const char *why;
    CHECK(dn_h5_read(f, "never", DN_I32, 24, &p, &n, &err) == DN_EFORMAT && strstr(err.msg, "never written"));
    CHECK(dn_h5_locate(f, "never", DN_I32, &off, &ok, &why, &err) == DN_EFORMAT && !ok);
    CHECK(dn_h5_read(f, "never_chunked", DN_I32, 24, &p, &n, &err) == DN_EFORMAT &&
          strstr(err.msg, "never written"));
    CHECK(dn_h5_read(f, "external", DN_I32, 24, &p, &n, &err) == DN_EUNSUPPORTED &&
          strstr(err.msg, "external"));
    CHECK(dn_h5_read(f, "link", DN_I32, 24, &p, &n, &err) == DN_EFORMAT && strstr(err.msg, "link"));
    CHECK(dn_h5_read(f, "soft", DN_I32, 24, &p, &n, &err) == DN_EFORMAT && strstr(err.msg, "link"));
    CHECK(dn_h5_read(f, "huge", DN_I8, UINT64_MAX, &p, &n, &err) == DN_EFORMAT &&
          strstr(err.msg, "incomplete"));
    dn_strs s = {0};
    CHECK_OK(dn_h5_read_strs(f, "vlen", &s, &err), &err);
    CHECK(s.n == 2 && !strcmp(dn_strs_get(&s, 1), "a longer name"));
    CHECK(dn_h5_read_strs(f, "padded", &s, &err) == DN_EFORMAT && strstr(err.msg, "entry 2"));
    dn_strs_free(&s);
    dn_h5_close(f);
}

static void reads_everything(const char *path)
{
    static const char *const names[] = {"inputs", "samples", "main/0/weight", "scalar"};
    dn_err err = {0};
    dn_h5 *f;
    if (dn_h5_open(&f, path, &err) != DN_OK) {
        CHECK_MSG(err.status == DN_EFORMAT && strstr(err.msg, path), "%s", err.msg);
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *p;
        uint64_t n, off;
        bool ok;
        const char *why;
        dn_strs s = {0};
        if (dn_h5_read(f, names[i], DN_F64, UINT64_MAX, &p, &n, &err) != DN_OK)
            CHECK_MSG(strstr(err.msg, path), "%s", err.msg);
        free(p);
        if (dn_h5_read_strs(f, names[i], &s, &err) != DN_OK) CHECK_MSG(strstr(err.msg, path), "%s", err.msg);
        dn_strs_free(&s);
        (void)!dn_h5_locate(f, names[i], DN_I8, &off, &ok, &why, &err);
    }
    int64_t v;
    char *text;
    dn_strs s = {0};
    (void)!dn_h5_read_attr(f, "/", "version", DN_I64, &v, &err);
    if (dn_h5_read_attr_str(f, "main", "type", &text, &err) == DN_OK) free(text);
    (void)!dn_h5_list(f, "/", &s, &err);
    dn_strs_free(&s);
    dn_h5_close(f);
}

/* Every cut and many flipped bytes: an error with the file's name or good data, never a crash. */
static void damaged(void)
{
    size_t n;
    unsigned char *good = slurp(in_dir("a.h5"), &n);
    const char *path = in_dir("bad.h5");
    dn_err err = {0};
    dn_h5 *f;
    for (size_t cut = 0; cut < n; cut += cut < 200 ? 1 : 97) {
        spit(path, good, cut);
        CHECK_MSG(dn_h5_open(&f, path, &err) == DN_EFORMAT && strstr(err.msg, path), "cut at %zu of %zu: %s",
                  cut, n, err.msg);
    }
    unsigned long long seed = 42;
    unsigned char *bad = malloc(n);
    int rounds = getenv("H5_ROUNDS") ? atoi(getenv("H5_ROUNDS")) : 300;
    for (int i = 0; i < rounds; i++) {
        memcpy(bad, good, n);
        int k = 1 + (int)(check_rand(&seed) % 3);
        for (int j = 0; j < k; j++)
            bad[check_rand(&seed) % n] ^= (unsigned char)(1u << check_rand(&seed) % 8);
        spit(path, bad, n);
        reads_everything(path);
    }
    free(bad);
    free(good);
    spit(path, "plain text\n", 11);
    CHECK(dn_h5_open(&f, path, &err) == DN_EFORMAT && strstr(err.msg, "it is text"));
    spit(path, "\x1f\x8b\x08", 3);
    CHECK(dn_h5_open(&f, path, &err) == DN_EFORMAT && strstr(err.msg, "gzip"));
    CHECK(dn_h5_open(&f, in_dir("absent.h5"), &err) == DN_EOPEN);
    CHECK(dn_h5_open(&f, dir, &err) == DN_EOPEN);
}

/* Field report CL10: another process holds a lock. */
static void locked(void)
{
    dn_err err = {0};
    dn_h5 *f;
    const char *path = in_dir("a.h5");
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    CHECK(dn_h5_open(&f, path, &err) == DN_OK);
    dn_h5_close(f);
    close(fd);
}

static void outputs(void)
{
    dn_err err = {0};
    dn_h5 *f;
    CHECK(dn_h5_create(&f, "-", 0, &err) == DN_EUSAGE);
    CHECK(dn_h5_create(&f, in_dir("a.h5"), 0, &err) == DN_EUSAGE && strstr(err.msg, "exists"));
    CHECK(dn_h5_create(&f, in_dir("no/x.h5"), 0, &err) == DN_EWRITE);
    /* Aborted: nothing is left. */
    CHECK_OK(dn_h5_create(&f, in_dir("gone.h5"), 0, &err), &err);
    dn_h5_abort(&f);
    CHECK(f == NULL && access(in_dir("gone.h5"), F_OK) != 0);
    /* CS03: a full device, and a file size limit. */
    dn_status st = dn_h5_create(&f, "/dev/full", 0, &err);
    if (st == DN_OK) {
        st = dn_h5_create_rows(f, "x", DN_I8, 1000, 1000, &err);
        st = dn_h5_commit(&f, &err);
    }
    CHECK_MSG(st == DN_EWRITE, "%d %s", (int)st, err.msg);
    if (fork() == 0) {
        signal(SIGXFSZ, SIG_IGN);
        struct rlimit lim = {100000, 100000};
        setrlimit(RLIMIT_FSIZE, &lim);
        char *big = calloc(1000, 1000);
        st = dn_h5_create(&f, in_dir("limit.h5"), 0, &err);
        if (st == DN_OK) st = dn_h5_create_rows(f, "x", DN_I8, 1000, 1000, &err);
        if (st == DN_OK) st = dn_h5_write_rows(f, "x", DN_I8, 0, 1000, big, &err);
        if (st == DN_OK)
            st = dn_h5_commit(&f, &err);
        else
            dn_h5_abort(&f);
        free(big);
        _exit(st == DN_EWRITE && strstr(err.msg, "File too large") ? 0 : 1);
    }
    int ws = 0;
    wait(&ws);
    CHECK(WIFEXITED(ws) && WEXITSTATUS(ws) == 0);
    CHECK(access(in_dir("limit.h5"), F_OK) != 0);
    char v[32];
    dn_h5_version(v);
    CHECK(strchr(v, '.') != NULL);
}

static void boxes(void)
{
    dn_err err = {0};
    dn_h5 *f;
    const char *path = in_dir("box.h5");
    uint64_t dims[3] = {2, 5, 3}, start[3] = {0, 3, 0}, count[3] = {2, 2, 3}, n;
    float a[12], b[18], *p;
    for (int i = 0; i < 12; i++) a[i] = (float)i;
    for (int i = 0; i < 18; i++) b[i] = (float)(100 + i);
    CHECK_OK(dn_h5_create(&f, path, DN_OUT_FORCE, &err), &err);
    CHECK(dn_h5_create_empty(f, "bad", DN_F32, 5, dims, &err) == DN_EINTERNAL);
    CHECK_OK(dn_h5_create_empty(f, "scores", DN_F32, 3, dims, &err), &err);
    CHECK_OK(dn_h5_write_box(f, "scores", DN_F32, start, count, a, &err), &err);
    CHECK(dn_h5_write_box(f, "scores", DN_F32, start, dims, a, &err) == DN_EINTERNAL);
    start[1] = 0, count[1] = 3;
    CHECK_OK(dn_h5_write_box(f, "scores", DN_F32, start, count, b, &err), &err);
    start[1] = 5, count[1] = 0; /* nothing at the end */
    CHECK_OK(dn_h5_write_box(f, "scores", DN_F32, start, count, b, &err), &err);
    CHECK_OK(dn_h5_commit(&f, &err), &err);
    CHECK_OK(dn_h5_open(&f, path, &err), &err);
    CHECK_OK(dn_h5_read(f, "scores", DN_F32, 30, (void **)&p, &n, &err), &err);
    CHECK(p[0] == 100 && p[8] == 108 && p[9] == 0 && p[14] == 5 && p[15] == 109 && p[29] == 11);
    free(p);
    dn_h5_close(f);
}

int main(void)
{
    snprintf(dir, sizeof dir, "%s/test_h5.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(dir)) return 1;
    round_trip();
    boxes();
    same_bytes();
    odd_layouts();
    locked();
    outputs();
    damaged();
    char cmd[600];
    snprintf(cmd, sizeof cmd, "ls -A %s | grep -c tmp; rm -rf %s", dir, dir);
    FILE *p = popen(cmd, "r");
    int left = -1;
    if (fscanf(p, "%d", &left) != 1) left = -1;
    pclose(p);
    CHECK_MSG(left == 0, "%d temporary files are left", left);
    return check_done();
}
