/* Strict numbers, option tables, chromosome names, string tables, lines of text. */
#include "check.h"

#include <unistd.h>

#include "io.h"
#include "opt.h"
#include "par.h"
#include "tables.h"

static void numbers(void)
{
    uint64_t u, a, b;
    int64_t i;
    double d;
    CHECK(dn_parse_u64("0", &u) && u == 0);
    CHECK(dn_parse_u64("18446744073709551615", &u) && u == UINT64_MAX);
    CHECK(!dn_parse_u64("18446744073709551616", &u) && !dn_parse_u64("", &u) && !dn_parse_u64("-1", &u));
    CHECK(!dn_parse_u64(" 1", &u) && !dn_parse_u64("1x", &u) && !dn_parse_u64("1e5", &u));
    CHECK(dn_parse_i64("-5", &i) && i == -5);
    CHECK(!dn_parse_i64("1e+05", &i) && !dn_parse_i64("--5", &i) && !dn_parse_i64("100.0", &i));
    CHECK(dn_parse_double("1e30", &d) && d == 1e30);
    CHECK(!dn_parse_double("nan", &d) && !dn_parse_double("inf", &d) && !dn_parse_double("0x1p3", &d));
    CHECK(!dn_parse_double("1,5", &d) && !dn_parse_double("1e999", &d) && !dn_parse_double(" 1", &d));
    CHECK(dn_parse_bytes("2G", &u) && u == (uint64_t)2 << 30);
    CHECK(dn_parse_bytes("512MiB", &u) && u == (uint64_t)512 << 20);
    CHECK(dn_parse_bytes("1.5K", &u) && u == 1536);
    CHECK(dn_parse_bytes("77", &u) && u == 77);
    CHECK(!dn_parse_bytes("", &u) && !dn_parse_bytes("G", &u) && !dn_parse_bytes("1X", &u) &&
          !dn_parse_bytes("99999999999999T", &u));
    CHECK(dn_parse_range("1:10", &a, &b) && a == 0 && b == 10);
    CHECK(!dn_parse_range("0:10", &a, &b) && !dn_parse_range("5:4", &a, &b) && !dn_parse_range("5", &a, &b));
    uint64_t *v = NULL;
    size_t n = 0;
    dn_err err = {0};
    CHECK(dn_parse_list("--folds", "0-2,7", &v, &n, &err) == DN_OK && n == 4 && v[2] == 2 && v[3] == 7);
    free(v);
    v = NULL, n = 0;
    CHECK(dn_parse_list("--folds", "0-x", &v, &n, &err) == DN_EUSAGE && strstr(err.msg, "--folds"));
    free(v);
}

static void options(void)
{
    bool flag = false, z_given = false;
    const char *out = NULL;
    uint64_t epochs = 7, z = 3, mem = (uint64_t)1 << 30;
    int mode = 0;
    dn_strs list = {0}, ops = {0};
    dn_err err = {0};
    const dn_opt opts[] = {
        {DN_OPT_GROUP, "Main", 0, NULL, NULL, 0, 0, NULL, NULL},
        {DN_OPT_FLAG, "force", 'f', &flag, NULL, 0, 0, "replace", NULL},
        {DN_OPT_STR, "out", 'o', &out, "FILE", 0, 0, "output", NULL},
        {DN_OPT_U64, "epochs", 0, &epochs, "N", 1, 100, "epochs", NULL},
        {DN_OPT_U64, "compress", 'z', &z, "[LEVEL]", 1, 19, "compress", &z_given},
        {DN_OPT_CHOICE, "by", 0, &mode, "auto|id|pos", 0, 0, "key", NULL},
        {DN_OPT_LIST, "bfile", 'b', &list, "PREFIX", 0, 0, "input", NULL},
        {DN_OPT_BYTES, "memory", 0, &mem, "SIZE", 0, 0, "memory", NULL},
    };
    enum { N = sizeof opts / sizeof opts[0] };
    char *good[] = {"p",  "-fz5", "-ox",      "--epochs=9", "--by", "pos", "--bfile", "a",
                    "-b", "b",    "--memory", "2G",         "in",   "-",   "--",      "-x"};
    CHECK_OK(dn_opt_parse(16, good, opts, N, &ops, &err), &err);
    CHECK(flag && z == 5 && z_given && strcmp(out, "x") == 0 && epochs == 9 && mode == 2 &&
          mem == (uint64_t)2 << 30);
    CHECK(list.n == 2 && strcmp(dn_strs_get(&list, 1), "b") == 0);
    char *alone[] = {"p", "-zf"};
    flag = z_given = false;
    CHECK(dn_opt_parse(2, alone, opts, N, &ops, &err) == DN_OK && flag && z_given && z == 5);
    CHECK(ops.n == 3 && strcmp(dn_strs_get(&ops, 1), "-") == 0 && strcmp(dn_strs_get(&ops, 2), "-x") == 0);
    char *bad[][3] = {{"p", "--epoch", "5"},   {"p", "--epochs", "0"}, {"p", "--epochs", "x"},
                      {"p", "--epochs", NULL}, {"p", "--by", "name"},  {"p", "--force=1", NULL},
                      {"p", "-k", "0"},        {"p", "--out", ""},     {"p", "--memory", "0"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_MSG(dn_opt_parse(bad[i][2] ? 3 : 2, bad[i], opts, N, &ops, &err) == DN_EUSAGE, "case %zu", i);
        if (i == 0) CHECK_MSG(strstr(err.msg, "did you mean --epochs"), "%s", err.msg);
    }
    dn_strs_free(&list);
    dn_strs_free(&ops);
}

static void chromosomes(void)
{
    CHECK(dn_chrom_code("1") == 1 && dn_chrom_code("01") == 1 && dn_chrom_code("chr1") == 1 &&
          dn_chrom_code("CHR01") == 1);
    CHECK(dn_chrom_code("X") == 23 && dn_chrom_code("chrX") == 23 && dn_chrom_code("23") == 23 &&
          dn_chrom_code("Y") == 24);
    CHECK(dn_chrom_code("XY") == 25 && dn_chrom_code("PAR1") == 25 && dn_chrom_code("MT") == 26 &&
          dn_chrom_code("chrM") == 26);
    CHECK(dn_chrom_code("0") == 0 && dn_chrom_code("27") == 0 && dn_chrom_code("scaffold_3") == 0 &&
          dn_chrom_code("") == 0);
    CHECK(dn_chrom_code("chrUn_1") == 0 && dn_chrom_code("1_random") == 0);
}

static void maps(void)
{
    dn_map *m = NULL;
    dn_strs s = {0};
    dn_err err = {0};
    char buf[16];
    for (int i = 0; i < 5000; i++)
        CHECK_OK(dn_strs_add(&s, buf, (size_t)snprintf(buf, sizeof buf, "rs%d", i), &err), &err);
    CHECK_OK(dn_map_new(&m, 3, &err), &err);
    uint64_t prev;
    for (uint64_t i = 0; i < s.n; i++) {
        const char *k = dn_strs_get(&s, i);
        CHECK_OK(dn_map_add(m, k, strlen(k), i, &prev, &err), &err);
        if (prev != UINT64_MAX) CHECK(0);
    }
    CHECK(dn_map_get(m, "rs4999", 6) == 4999 && dn_map_get(m, "rs5000", 6) == UINT64_MAX &&
          dn_map_get(m, "", 0) == UINT64_MAX);
    CHECK(dn_map_add(m, "rs7", 3, 99, &prev, &err) == DN_OK && prev == 7 && dn_map_get(m, "rs7", 3) == 7);
    CHECK(dn_strs_max_len(&s) == 6);
    dn_map_free(m);
    dn_strs_free(&s);
}

static void lines(void)
{
    char path[] = "/tmp/dnpipe_text_XXXXXX";
    dn_err err = {0};
    int fd = mkstemp(path);
    static const char text[] = "\xef\xbb\xbfone\r\n\ntwo  words\tx\nlast";
    CHECK(write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1);
    dn_text *t;
    char *line, *f[3];
    size_t len;
    CHECK_OK(dn_text_open(&t, path, &err), &err);
    CHECK(dn_text_next(t, &line, &len, &err) == DN_OK && line && strcmp(line, "one") == 0 && len == 3);
    CHECK(dn_text_next(t, &line, &len, &err) == DN_OK && line && len == 0);
    CHECK(dn_text_next(t, &line, &len, &err) == DN_OK && line && dn_split_blanks(line, f, 2) == 3 &&
          strcmp(f[1], "words") == 0);
    CHECK(dn_text_next(t, &line, &len, &err) == DN_OK && line && strcmp(line, "last") == 0 &&
          dn_text_line(t) == 4);
    CHECK(dn_text_next(t, &line, &len, &err) == DN_OK && !line);
    dn_text_close(t);
    CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, "\x1f\x8b\x08", 3, 0) == 3);
    CHECK(dn_text_open(&t, path, &err) == DN_EFORMAT && strstr(err.msg, "gzip"));
    CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, "a\nb\0c\n", 6, 0) == 6);
    CHECK(dn_text_open(&t, path, &err) == DN_EFORMAT);
    close(fd);
    unlink(path);
    CHECK(dn_text_open(&t, path, &err) == DN_EOPEN && dn_text_open(&t, "/tmp", &err) == DN_EOPEN);
    char tabs[] = "a\t\tb", *g[4];
    CHECK(dn_split_tabs(tabs, g, 4) == 3 && g[1][0] == 0 && strcmp(g[2], "b") == 0);
}

static void count_item(void *ctx, size_t item, size_t worker)
{
    (void)worker;
    ((unsigned char *)ctx)[item]++;
}

static void pool(void)
{
    static unsigned char seen[1000];
    dn_err err = {0};
    for (size_t threads = 1; threads <= 7; threads += 3) {
        dn_pool *p;
        CHECK_OK(dn_pool_new(&p, threads, &err), &err);
        for (int round = 0; round < 200; round++) {
            memset(seen, 0, sizeof seen);
            size_t n = (size_t)round * 5;
            dn_pool_run(p, n, count_item, seen);
            size_t bad = 0;
            for (size_t i = 0; i < sizeof seen; i++) bad += seen[i] != (i < n);
            if (bad) CHECK(0);
        }
        CHECK(dn_pool_threads(p) == threads);
        dn_pool_free(p);
    }
}

static void messages(void)
{
    dn_err err = {0};
    CHECK(dn_fail(&err, DN_EFORMAT, "bad \033[1mname") == DN_EFORMAT &&
          strcmp(err.msg, "bad \\x1b[1mname") == 0);
    CHECK(dn_fail_prefix(&err, "%s: ", "member 1") == DN_EFORMAT &&
          strncmp(err.msg, "member 1: bad", 13) == 0);
}

int main(void)
{
    numbers();
    options();
    chromosomes();
    maps();
    lines();
    pool();
    messages();
    return check_done();
}
