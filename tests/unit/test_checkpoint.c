/* Checkpoints: round trip, every kind of damage refused, the previous one kept and fallen back to. */
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "checkpoint.h"

static char dir[256], path[300], prev[310];

static void write_bytes(const char *name, const void *p, size_t n)
{
    FILE *f = fopen(name, "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0) exit(1);
}

static size_t read_bytes(const char *name, unsigned char *buf, size_t cap)
{
    FILE *f = fopen(name, "rb");
    size_t n = f ? fread(buf, 1, cap, f) : 0;
    if (f) fclose(f);
    return n;
}

static void save(uint64_t epoch, bool keep)
{
    dn_err err = {0};
    float w[5] = {1, 2, 3, 4, (float)epoch};
    dn_ckpt_item items[] = {{"place", DN_CKPT_U64, &epoch, 1},
                            {"log", DN_CKPT_TEXT, "abc\n", 4},
                            {"net/w", DN_CKPT_F32, w, 5},
                            {"none", DN_CKPT_F64, NULL, 0}};
    CHECK_OK(dn_ckpt_write(path, items, 4, keep, &err), &err);
}

/* Epoch of the newest readable one; 0 for none. */
static uint64_t newest(char **warning, bool *good, dn_status want)
{
    dn_ckpt *c;
    dn_err err = {0};
    uint64_t e = 0;
    const void *p;
    dn_status st = dn_ckpt_read_newest(&c, path, warning, good, &err);
    CHECK_MSG(st == want, "status %d: %s", (int)st, err.msg);
    if (c) {
        CHECK_OK(dn_ckpt_get(c, "place", DN_CKPT_U64, 1, &p, NULL, &err), &err);
        e = *(const uint64_t *)p;
    }
    dn_ckpt_free(c);
    return e;
}

static void test_round_trip(void)
{
    dn_ckpt *c;
    dn_err err = {0};
    const void *p;
    uint64_t n;
    save(3, true);
    CHECK(access(prev, F_OK) != 0);
    CHECK_OK(dn_ckpt_read(&c, path, &err), &err);
    CHECK(dn_ckpt_count(c) == 4 && strcmp(dn_ckpt_name(c, 2), "net/w") == 0);
    CHECK_OK(dn_ckpt_get(c, "log", DN_CKPT_TEXT, UINT64_MAX, &p, &n, &err), &err);
    CHECK(n == 4 && strcmp(p, "abc\n") == 0);
    CHECK_OK(dn_ckpt_get(c, "net/w", DN_CKPT_F32, 5, &p, &n, &err), &err);
    CHECK(((const float *)p)[4] == 3 && (uintptr_t)p % 8 == 0);
    CHECK_OK(dn_ckpt_get(c, "none", DN_CKPT_F64, 0, &p, NULL, &err), &err);
    CHECK(dn_ckpt_get(c, "net/w", DN_CKPT_F64, 5, &p, &n, &err) == DN_EFORMAT &&
          strstr(err.msg, "net/w is f32, expected f64"));
    CHECK(dn_ckpt_get(c, "net/w", DN_CKPT_F32, 6, &p, &n, &err) == DN_EFORMAT &&
          strstr(err.msg, "has 5 items, expected 6"));
    CHECK(dn_ckpt_get(c, "net/x", DN_CKPT_F32, 6, &p, &n, &err) == DN_EFORMAT &&
          strstr(err.msg, "has no net/x"));
    dn_ckpt_free(c);
    unlink(path);
}

static void test_damage(void)
{
    unsigned char good[4096], bad[4096];
    dn_ckpt *c;
    dn_err err = {0};
    save(1, true);
    size_t n = read_bytes(path, good, sizeof good);
    CHECK(n > 64 && n < sizeof good);
    for (size_t cut = 0; cut < n; cut++) {
        write_bytes(path, good, cut);
        dn_status st = dn_ckpt_read(&c, path, &err);
        CHECK_MSG(st == DN_EFORMAT && !c, "cut at %zu: %d", cut, (int)st);
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(bad, good, n);
        bad[i] ^= 0x10;
        write_bytes(path, bad, n);
        dn_status st = dn_ckpt_read(&c, path, &err);
        CHECK_MSG((st == DN_EFORMAT || st == DN_EUNSUPPORTED) && !c, "byte %zu: %d", i, (int)st);
    }
    memcpy(bad, good, n);
    bad[n] = 0;
    write_bytes(path, bad, n + 1);
    CHECK(dn_ckpt_read(&c, path, &err) == DN_EFORMAT);
    memcpy(bad, good, n);
    bad[8] = 2;
    write_bytes(path, bad, n);
    CHECK(dn_ckpt_read(&c, path, &err) == DN_EUNSUPPORTED && strstr(err.msg, "format version 2."));
    write_bytes(path, "\x1f\x8b\x08 and so on and so on and so on and so on and so on and so on and so on",
                70);
    CHECK(dn_ckpt_read(&c, path, &err) == DN_EFORMAT && strstr(err.msg, "gzip"));
    CHECK(dn_ckpt_read(&c, "/nonexistent", &err) == DN_EOPEN);
    /* Correct checksums around wrong tables are refused, too. */
    for (size_t i = 64 + 64; i < 64 + 88; i++) {
        for (int b = 0; b < 8; b++) {
            memcpy(bad, good, n);
            bad[i] ^= (unsigned char)(1 << b);
            uint64_t h = dn_hash(bad + 64, n - 64);
            memcpy(bad + 32, &h, 8);
            h = dn_hash(bad, 56);
            memcpy(bad + 56, &h, 8);
            write_bytes(path, bad, n);
            dn_status st = dn_ckpt_read(&c, path, &err);
            if (st == DN_OK) {
                const void *p;
                CHECK(dn_ckpt_get(c, "place", DN_CKPT_U64, 1, &p, NULL, &err) != DN_OK || i >= 64 + 64 + 4);
            }
            dn_ckpt_free(c);
        }
    }
    unlink(path);
}

static void test_previous(void)
{
    char *w;
    bool good;
    CHECK(newest(&w, &good, DN_OK) == 0 && !w && !good);
    save(1, true);
    CHECK(newest(&w, &good, DN_OK) == 1 && !w && good);
    save(2, true);
    CHECK(newest(&w, &good, DN_OK) == 2 && !w && good && access(prev, F_OK) == 0);
    save(3, true);
    /* Damaged: the one before, with a warning; the next save must not push it out. */
    CHECK(truncate(path, 100) == 0);
    CHECK(newest(&w, &good, DN_OK) == 2 && w && strstr(w, "is damaged") && strstr(w, ".prev, is used") &&
          !good);
    free(w);
    save(4, false);
    CHECK(newest(&w, &good, DN_OK) == 4 && !w && good);
    CHECK(truncate(path, 0) == 0);
    CHECK(newest(&w, &good, DN_OK) == 2 && w);
    free(w);
    /* As if stopped between two renames. */
    unlink(path);
    CHECK(newest(&w, &good, DN_OK) == 2 && !w && !good);
    save(5, false);
    CHECK(newest(&w, &good, DN_OK) == 5);
    CHECK(truncate(path, 100) == 0 && truncate(prev, 100) == 0);
    CHECK(newest(&w, &good, DN_EFORMAT) == 0 && !w);
    unlink(prev);
    CHECK(newest(&w, &good, DN_EFORMAT) == 0 && !w);
    unlink(path);
    /* A folder that cannot be written: what is there stays. */
    save(6, true);
    if (geteuid() != 0) {
        dn_err err = {0};
        uint64_t e = 7;
        dn_ckpt_item item = {"place", DN_CKPT_U64, &e, 1};
        CHECK(chmod(dir, 0555) == 0);
        CHECK(dn_ckpt_write(path, &item, 1, true, &err) == DN_EWRITE);
        CHECK(chmod(dir, 0755) == 0);
        CHECK(newest(&w, &good, DN_OK) == 6);
    }
    unlink(path);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/dnckpt.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) return 1;
    snprintf(path, sizeof path, "%s/t.ckpt", dir);
    snprintf(prev, sizeof prev, "%s.prev", path);
    test_round_trip();
    test_damage();
    test_previous();
    rmdir(dir);
    return check_done();
}
