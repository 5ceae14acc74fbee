/* .gpk: round trips over sizes, files and pipes, raw and compressed; damage of every kind; versions and
 * flags. */
#include "check.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpk.h"
#include "gpk_impl.h"

static char dir[] = "/tmp/dnpipe_gpk_XXXXXX";
static unsigned long long seed = 1;

typedef struct {
    uint64_t n, m;
    uint32_t level, block_rows;
    bool labels, targets, matched, bare; /* bare: SNP IDs alone */
} spec;

static void add(dn_strs *s, const char *prefix, uint64_t i)
{
    char buf[64];
    dn_err err;
    if (dn_strs_add(s, buf, (size_t)snprintf(buf, sizeof buf, "%s%llu", prefix, (unsigned long long)i),
                    &err) != DN_OK)
        abort();
}

static void make_info(dn_gpk_info *f, const spec *s)
{
    dn_err err;
    memset(f, 0, sizeof *f);
    f->n_people = s->n;
    f->n_snps = s->m;
    f->zstd_level = s->level;
    f->block_rows = s->block_rows;
    for (uint64_t i = 0; i < s->n; i++)
        add(&f->people.fid, "F", i / 2), add(&f->people.iid, "person \xc3\xa9 ", i);
    if (!s->bare) CHECK_OK(dn_alloc(&f->snps.pos, s->m, 8, "pos", &err), &err);
    for (uint64_t j = 0; j < s->m; j++) {
        add(&f->snps.id, "rs", j * 7);
        if (s->bare) continue;
        add(&f->snps.chrom, j % 3 ? "chr" : "", j % 26);
        if (dn_strs_add(&f->snps.a1, "ACGT" + j % 4, 1, &err) != DN_OK) abort();
        if (dn_strs_add(&f->snps.a2, "CAT" + j % 3, j % 3 ? 1 : 3, &err) != DN_OK) abort();
        f->snps.pos[j] = (int64_t)j * 1000 - 5;
    }
    if (s->labels) {
        for (uint64_t c = 0; c < 3; c++) add(&f->class_names, "class ", c);
        CHECK_OK(dn_alloc(&f->label, s->n, 8, "labels", &err), &err);
        for (uint64_t i = 0; i < s->n; i++) f->label[i] = (int64_t)(i % 4) - 1;
    }
    if (s->targets) {
        CHECK_OK(dn_alloc(&f->target, s->n, 8, "targets", &err), &err);
        for (uint64_t i = 0; i < s->n; i++) f->target[i] = i % 3 ? 0.25 * (double)i : -NAN;
    }
    if (s->matched) {
        f->model_snps = 2 * s->m + 1;
        f->model_hash = 0x123456789abcdefULL;
        CHECK_OK(dn_alloc(&f->place, s->m, 8, "places", &err), &err);
        for (uint64_t j = 0; j < s->m; j++) f->place[j] = 2 * j + 1;
    }
}

/* Rows of n people x m calls, padding 3; somewhat compressible. */
static uint8_t *make_rows(uint64_t n, uint64_t m)
{
    uint64_t stride = dn_gpk_row_bytes(m);
    uint8_t *rows = malloc(n * stride);
    memset(rows, 0xff, n * stride);
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t j = 0; j < m; j++) {
            unsigned code =
                check_rand(&seed) % 16 < 12 ? (unsigned)(j % 3) : (unsigned)(check_rand(&seed) >> 60) & 3;
            uint8_t *p = &rows[i * stride + j / 4];
            *p = (uint8_t)((*p & ~(3u << j % 4 * 2)) | code << j % 4 * 2);
        }
    }
    return rows;
}

static void path_of(char buf[64], const char *name)
{
    snprintf(buf, 64, "%s/%s", dir, name);
}

/* Rows go in `step` at a time. */
static void write_file(const char *path, const dn_gpk_info *f, const uint8_t *rows, uint64_t step,
                       dn_pool *pool)
{
    dn_err err = {0};
    dn_out *out;
    dn_gpk_writer *w;
    CHECK_OK(dn_out_open(&out, path, DN_OUT_FORCE, &err), &err);
    CHECK_OK(dn_gpk_write_start(&w, out, f, &err), &err);
    if (pool) dn_gpk_writer_use_pool(w, pool);
    for (uint64_t i = 0; i < f->n_people; i += step) {
        uint64_t k = f->n_people - i < step ? f->n_people - i : step;
        CHECK_OK(dn_gpk_write_rows(w, rows + i * dn_gpk_row_bytes(f->n_snps), k, &err), &err);
    }
    CHECK_OK(dn_gpk_write_end(&w, &err), &err);
    CHECK_OK(dn_out_commit(&out, &err), &err);
}

static uint8_t *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    uint8_t *p = malloc(*n + 1);
    CHECK(fread(p, 1, *n, f) == *n);
    fclose(f);
    return p;
}

static void spew(const char *path, const uint8_t *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    CHECK(fwrite(p, 1, n, f) == n && fclose(f) == 0);
}

static bool array_equal(const void *a, const void *b, uint64_t n)
{
    return !a == !b && (!a || memcmp(a, b, n * 8) == 0);
}

static bool info_equal(const dn_gpk_info *a, const dn_gpk_info *b)
{
    bool targets = !a->target == !b->target;
    for (uint64_t i = 0; targets && a->target && i < a->n_people; i++) {
        targets = a->target[i] == b->target[i] || (isnan(a->target[i]) && isnan(b->target[i]));
    }
    return a->n_people == b->n_people && a->n_snps == b->n_snps && dn_people_equal(&a->people, &b->people) &&
           dn_strs_equal(&a->snps.id, &b->snps.id) && dn_strs_equal(&a->snps.chrom, &b->snps.chrom) &&
           dn_strs_equal(&a->snps.a1, &b->snps.a1) && dn_strs_equal(&a->snps.a2, &b->snps.a2) &&
           array_equal(a->snps.pos, b->snps.pos, a->n_snps) &&
           dn_strs_equal(&a->class_names, &b->class_names) && array_equal(a->label, b->label, a->n_people) &&
           targets && a->model_snps == b->model_snps && a->model_hash == b->model_hash &&
           array_equal(a->place, b->place, a->n_snps);
}

/* Opens path (or a pipe that is fed the file's bytes), reads all rows in steps, compares. */
static void read_back(const char *path, const dn_gpk_info *f, const uint8_t *rows, uint64_t step, bool stream,
                      uint64_t fingerprint)
{
    dn_err err = {0};
    dn_gpk *g;
    uint64_t stride = dn_gpk_row_bytes(f->n_snps);
    uint8_t *buf = malloc(step * stride);
    CHECK_OK(dn_gpk_open(&g, path, &err), &err);
    CHECK(dn_gpk_is_stream(g) == stream && info_equal(f, dn_gpk_get_info(g)));
    CHECK(dn_gpk_fingerprint(g) == (stream ? 0 : fingerprint));
    bool same = true;
    for (uint64_t i = 0; i < f->n_people; i += step) {
        uint64_t k = f->n_people - i < step ? f->n_people - i : step;
        const uint8_t *r;
        CHECK_OK(dn_gpk_rows(g, i, k, buf, &r, &err), &err);
        same &= memcmp(r, rows + i * stride, k * stride) == 0;
    }
    CHECK(same);
    CHECK(dn_gpk_fingerprint(g) == fingerprint);
    if (!stream) {
        CHECK_OK(dn_gpk_verify(g, 2, &err), &err);
        for (int t = 0; t < 20; t++) { /* any row, in any order, some again */
            uint64_t first = check_rand(&seed) % f->n_people,
                     k = 1 + check_rand(&seed) % (f->n_people - first);
            const uint8_t *r;
            uint8_t *big = malloc(k * stride);
            CHECK_OK(dn_gpk_rows(g, first, k, big, &r, &err), &err);
            if (memcmp(r, rows + first * stride, k * stride) != 0 || !dn_gpk_row_ok(g, first, r)) CHECK(0);
            dn_gpk_release(g, first, k);
            free(big);
        }
    }
    const uint8_t *r;
    CHECK(dn_gpk_rows(g, f->n_people, 1, buf, &r, &err) == DN_EINTERNAL);
    dn_gpk_close(g);
    free(buf);
}

/* A child writes bytes into a pipe; path becomes its reading end. */
static pid_t feed(char path[64], int *fd, const uint8_t *p, size_t n)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        while (n) {
            ssize_t k = write(ends[1], p, n);
            if (k <= 0) _exit(1);
            p += k, n -= (size_t)k;
        }
        _exit(0);
    }
    close(ends[1]);
    *fd = ends[0];
    snprintf(path, 64, "/dev/fd/%d", ends[0]);
    return pid;
}

static void round_trip(const spec *s)
{
    dn_gpk_info f;
    char path[64], path2[64], piped[64];
    dn_err err = {0};
    make_info(&f, s);
    uint8_t *rows = make_rows(s->n, s->m);
    dn_row_hash *all;
    CHECK_OK(dn_row_hash_new(&all, &err), &err);
    dn_row_hash_add(all, rows, s->n * dn_gpk_row_bytes(s->m));
    uint64_t fp =
        dn_data_fingerprint(&f.people, &f.snps, &f.class_names, f.label, f.target, dn_row_hash_get(all));
    dn_row_hash_free(all);
    path_of(path, "a.gpk");
    path_of(path2, "b.gpk");
    write_file(path, &f, rows, s->n, NULL);
    read_back(path, &f, rows, 1, false, fp);
    read_back(path, &f, rows, 3, false, fp);
    /* Other steps and threads give the same bytes. */
    dn_pool *pool;
    CHECK_OK(dn_pool_new(&pool, 3, &err), &err);
    write_file(path2, &f, rows, 2, pool);
    dn_pool_free(pool);
    size_t n1, n2;
    uint8_t *b1 = slurp(path, &n1), *b2 = slurp(path2, &n2);
    CHECK(n1 == n2 && memcmp(b1, b2, n1) == 0);
    /* Through pipes, both ways. */
    int fd;
    pid_t pid = feed(piped, &fd, b1, n1);
    read_back(piped, &f, rows, 5, true, fp);
    close(fd);
    int rc;
    CHECK(waitpid(pid, &rc, 0) == pid && rc == 0);
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        snprintf(piped, sizeof piped, "/dev/fd/%d", ends[1]);
        write_file(piped, &f, rows, 4, NULL);
        _exit(check_failed != 0);
    }
    close(ends[1]);
    uint8_t *got = malloc(n1 + 1);
    size_t have = 0;
    for (ssize_t k; have <= n1 && (k = read(ends[0], got + have, n1 + 1 - have)) > 0;) have += (size_t)k;
    close(ends[0]);
    CHECK(waitpid(pid, &rc, 0) == pid && rc == 0);
    CHECK(have == n1 && memcmp(got, b1, n1) == 0);
    free(got), free(b1), free(b2), free(rows);
    dn_gpk_info_free(&f);
}

static void sizes(void)
{
    static const uint64_t ns[] = {1, 2, 3, 4, 5, 7, 8}, ms[] = {1, 3, 4, 5, 255, 256, 257, 1023, 1024, 1025};
    for (size_t a = 0; a < sizeof ns / sizeof *ns; a++) {
        for (size_t b = 0; b < sizeof ms / sizeof *ms; b++) {
            bool odd = (a + b) % 2;
            round_trip(&(spec){ns[a], ms[b], 0, 0, odd, !odd, b % 3 == 0, a % 3 == 2});
            round_trip(&(spec){ns[a], ms[b], 3, (uint32_t)(1 + (a + b) % 4), odd, a % 2, b % 3 == 1, false});
        }
    }
    round_trip(&(spec){300, 20000, 0, 0, true, true, false, false});
    round_trip(&(spec){300, 20000, 1, 0, true, true, false, false});
    round_trip(&(spec){100, 20000, 19, 7, false, false, true, false});
}

static void writer_checks(void)
{
    dn_gpk_info f;
    dn_err err = {0};
    dn_out *out;
    dn_gpk_writer *w;
    char path[64];
    path_of(path, "w.gpk");
    make_info(&f, &(spec){.n = 3, .m = 5});
    uint8_t *rows = make_rows(3, 5);
    uint64_t stride = dn_gpk_row_bytes(5);
    for (int bad = 0; bad < 2; bad++) { /* a call after the last; a byte of padding */
        CHECK_OK(dn_out_open(&out, path, 0, &err), &err);
        CHECK_OK(dn_gpk_write_start(&w, out, &f, &err), &err);
        rows[stride + (bad ? 63 : 1)] ^= 0x40;
        CHECK(dn_gpk_write_rows(w, rows, 3, &err) == DN_EINTERNAL && strstr(err.msg, "row 2"));
        rows[stride + (bad ? 63 : 1)] ^= 0x40;
        dn_gpk_writer_free(w);
        dn_out_abort(&out);
    }
    CHECK_OK(dn_out_open(&out, path, 0, &err), &err);
    CHECK_OK(dn_gpk_write_start(&w, out, &f, &err), &err);
    CHECK_OK(dn_gpk_write_rows(w, rows, 2, &err), &err);
    CHECK(dn_gpk_write_rows(w, rows, 2, &err) == DN_EINTERNAL);
    CHECK(dn_gpk_write_end(&w, &err) == DN_EINTERNAL && !w);
    f.people.iid.n--;
    CHECK(dn_gpk_write_start(&w, out, &f, &err) == DN_EFORMAT && !w);
    f.people.iid.n++;
    f.n_snps = 0;
    CHECK(dn_gpk_write_start(&w, out, &f, &err) == DN_EFORMAT);
    f.n_snps = 5;
    f.zstd_level = 1000;
    CHECK(dn_gpk_write_start(&w, out, &f, &err) == DN_EUSAGE);
    dn_out_abort(&out);
    CHECK(access(path, F_OK) != 0);
    free(rows);
    dn_gpk_info_free(&f);
}

/* Opens and reads everything; DN_OK only if all of it is accepted. *same tells whether it equals the
 * original. */
static dn_status read_all(const char *path, const dn_gpk_info *f, const uint8_t *rows, bool *same,
                          dn_err *err)
{
    dn_status status;
    dn_gpk *g = NULL;
    uint8_t *buf = NULL;
    const uint8_t *r;
    err->msg[0] = 0;
    *same = false;
    DN_TRY(dn_gpk_open(&g, path, err));
    const dn_gpk_info *h = dn_gpk_get_info(g);
    if (!dn_gpk_is_stream(g)) DN_TRY(dn_gpk_verify(g, 1, err));
    buf = malloc(h->n_people * dn_gpk_row_bytes(h->n_snps));
    DN_TRY(dn_gpk_rows(g, 0, h->n_people, buf, &r, err));
    *same = info_equal(f, h) && memcmp(r, rows, h->n_people * dn_gpk_row_bytes(h->n_snps)) == 0;
done:
    dn_gpk_close(g);
    free(buf);
    return status;
}

static bool is_refusal(dn_status st)
{
    return st == DN_EFORMAT || st == DN_EUNSUPPORTED;
}

/* The file cut at every byte, with every byte flipped, and with more behind it; as a file and through a pipe.
 */
static void damage(const spec *s)
{
    dn_gpk_info f;
    dn_err err = {0};
    char path[64], piped[64];
    size_t n;
    bool same;
    make_info(&f, s);
    uint8_t *rows = make_rows(s->n, s->m);
    path_of(path, "d.gpk");
    write_file(path, &f, rows, s->n, NULL);
    uint8_t *b = slurp(path, &n);
    int fd = open(path, O_RDWR);
    for (size_t cut = n; cut-- > 0;) {
        CHECK(ftruncate(fd, (off_t)cut) == 0);
        dn_status st = read_all(path, &f, rows, &same, &err);
        if (st != DN_EFORMAT || !err.msg[0])
            CHECK_MSG(0, "cut at %zu of %zu: status %d %s", cut, n, st, err.msg);
        if (cut % 61 != 0 && n - cut > 100) continue;
        int in;
        pid_t pid = feed(piped, &in, b, cut);
        st = read_all(piped, &f, rows, &same, &err);
        close(in);
        waitpid(pid, NULL, 0);
        if (st != DN_EFORMAT || !err.msg[0])
            CHECK_MSG(0, "pipe cut at %zu of %zu: status %d %s", cut, n, st, err.msg);
    }
    size_t harmless = 0;
    for (size_t at = 0; at < n; at++) {
        uint8_t was = b[at];
        b[at] ^= (uint8_t)(1u << check_rand(&seed) % 8);
        CHECK(pwrite(fd, b, n, 0) == (ssize_t)n);
        dn_status st = read_all(path, &f, rows, &same, &err);
        harmless += st == DN_OK;
        if (st == DN_OK ? !same : !is_refusal(st)) CHECK_MSG(0, "flip at %zu: status %d %s", at, st, err.msg);
        if (at % 61 == 0 || n - at < 100) {
            int in;
            pid_t pid = feed(piped, &in, b, n);
            st = read_all(piped, &f, rows, &same, &err);
            close(in);
            waitpid(pid, NULL, 0);
            if (st == DN_OK ? !same : !is_refusal(st))
                CHECK_MSG(0, "pipe flip at %zu: status %d %s", at, st, err.msg);
        }
        b[at] = was;
    }
    /* Only zstd itself may have bits that mean nothing. */
    CHECK_MSG(s->level ? harmless < 20 : harmless == 0, "%zu flips made no difference", harmless);
    b[n] = 0;
    spew(path, b, n + 1);
    CHECK(read_all(path, &f, rows, &same, &err) == DN_EFORMAT);
    CHECK_MSG(strstr(err.msg, "1 bytes of something else"), "%s", err.msg);
    int in;
    pid_t pid = feed(piped, &in, b, n + 1);
    CHECK(read_all(piped, &f, rows, &same, &err) == DN_EFORMAT && strstr(err.msg, "more data follow"));
    close(in);
    waitpid(pid, NULL, 0);
    CHECK(pwrite(fd, b, n, 0) == (ssize_t)n && ftruncate(fd, (off_t)n) == 0);
    CHECK(read_all(path, &f, rows, &same, &err) == DN_OK && same);
    close(fd);
    free(b), free(rows);
    dn_gpk_info_free(&f);
}

/* ---- what other versions may contain ---- */

/* Makes the checksums of header and trailer right again, as a writer of that version would have. */
static void fix_header(uint8_t *b, size_t n)
{
    gpk_header h;
    gpk_section s;
    gpk_trailer t;
    gpk_footer f;
    memcpy(&h, b, sizeof h);
    h.hash = dn_hash(&h, offsetof(gpk_header, hash));
    memcpy(b, &h, sizeof h);
    memcpy(&f, b + n - sizeof f, sizeof f);
    memcpy(&t, b + f.trailer_offset, sizeof t);
    t.head_hash = h.hash;
    size_t at = sizeof h;
    for (uint32_t i = 0; i < h.n_sections && at + sizeof s <= f.trailer_offset; i++) {
        memcpy(&s, b + at, sizeof s);
        t.head_hash = gpk_chain(t.head_hash, s.hash);
        if (s.length > n) break;
        at += sizeof s + gpk_round_up(s.length, 8);
    }
    memcpy(b + f.trailer_offset, &t, sizeof t);
    f.hash = dn_hash(b + f.trailer_offset, n - sizeof f + offsetof(gpk_footer, hash) - f.trailer_offset);
    memcpy(b + n - sizeof f, &f, sizeof f);
}

/* Adds a section of 5 bytes after the last one, in the padding before the rows. */
static void add_section(uint8_t *b, const char *tag, uint32_t flags)
{
    gpk_header h;
    gpk_section s = {.flags = flags, .length = 5}, t;
    memcpy(&h, b, sizeof h);
    size_t at = sizeof h;
    for (uint32_t i = 0; i < h.n_sections; i++) {
        memcpy(&t, b + at, sizeof t);
        at += sizeof t + gpk_round_up(t.length, 8);
    }
    memcpy(s.tag, tag, 4);
    s.hash = gpk_section_hash(&s, "hello");
    memcpy(b + at, &s, sizeof s);
    memcpy(b + at + sizeof s, "hello\0\0\0", 8);
    h.n_sections++;
    memcpy(b, &h, sizeof h);
}

static void versions(void)
{
    dn_gpk_info f;
    dn_err err = {0};
    char path[64];
    size_t n;
    bool same;
    make_info(&f, &(spec){.n = 3, .m = 5, .labels = true});
    uint8_t *rows = make_rows(3, 5);
    path_of(path, "v.gpk");
    write_file(path, &f, rows, 3, NULL);
    uint8_t *good = slurp(path, &n), *b = malloc(n);
    gpk_header *h = (gpk_header *)(void *)b;
#define TRY(change)                                                                                          \
    (memcpy(b, good, n), change, fix_header(b, n), spew(path, b, n), read_all(path, &f, rows, &same, &err))
    CHECK(TRY(h->major = 2) == DN_EUNSUPPORTED);
    CHECK_MSG(strstr(err.msg, "version 2.0") && strstr(err.msg, "version 1.x"), "%s", err.msg);
    CHECK(TRY(h->major = 0) == DN_EUNSUPPORTED);
    CHECK(TRY(h->minor = 7) == DN_OK && same);
    CHECK(TRY(h->flags |= 1u << 20) == DN_OK && same); /* unused */
    CHECK(TRY(h->unused = 77) == DN_OK && same);
    for (int bit = 1; bit < 16; bit++) { /* reserved */
        CHECK(TRY(h->flags |= 1u << bit) == DN_EUNSUPPORTED && strstr(err.msg, "reserved"));
    }
    CHECK(TRY(add_section(b, "NEW!", GPK_S_OPTIONAL)) == DN_OK && same);
    CHECK(TRY(add_section(b, "NEW!", GPK_S_OPTIONAL | 1u << 16)) == DN_OK && same);
    CHECK(TRY(add_section(b, "NEW!", GPK_S_OPTIONAL | 2)) == DN_EUNSUPPORTED);
    CHECK(TRY(add_section(b, "NEW!", 0)) == DN_EUNSUPPORTED);
    CHECK_MSG(strstr(err.msg, "'NEW!'") && strstr(err.msg, "1.0"), "%s", err.msg);
    CHECK(TRY(add_section(b, "SNP ", 0)) == DN_EFORMAT && strstr(err.msg, "twice"));
    CHECK(TRY(add_section(b, "MODL", 0)) == DN_EFORMAT);
    CHECK(TRY(add_section(b, "POS ", 0)) == DN_EFORMAT);
    /* Claims beyond the file's size, each with a good checksum. */
    CHECK(TRY(h->n_people = (uint64_t)1 << 32) == DN_EFORMAT);
    CHECK(TRY(h->n_people = UINT64_MAX) == DN_EFORMAT);
    CHECK(TRY(h->n_people = 0) == DN_EFORMAT);
    CHECK(TRY((h->n_snps = (uint64_t)1 << 31, h->row_bytes = (uint64_t)1 << 29)) == DN_EFORMAT);
    CHECK(TRY(h->n_snps = 6) == DN_EFORMAT);
    CHECK(TRY(h->row_bytes = 128) == DN_EFORMAT);
    CHECK(TRY(h->rows_offset = 8192) == DN_EFORMAT);
    CHECK(TRY(h->rows_offset = 4097) == DN_EFORMAT);
    CHECK(TRY(h->rows_offset = (uint64_t)1 << 60) == DN_EFORMAT);
    CHECK(TRY(h->n_sections = 1) == DN_EFORMAT);
    CHECK(TRY(h->n_sections = 1u << 31) == DN_EFORMAT);
    CHECK(TRY((h->flags |= 1, h->block_rows = 1)) == DN_EFORMAT);
    CHECK(TRY((h->flags |= 1, h->block_rows = 0)) == DN_EFORMAT);
    CHECK(TRY(((gpk_section *)(void *)(b + sizeof *h))->length = UINT64_MAX) == DN_EFORMAT);
    CHECK(TRY(((gpk_section *)(void *)(b + sizeof *h))->length = (uint64_t)1 << 40) == DN_EFORMAT);
    /* Not .gpk at all. */
    spew(path, (const uint8_t *)"\x1f\x8b\x08", 3);
    CHECK(read_all(path, &f, rows, &same, &err) == DN_EFORMAT && strstr(err.msg, "gzip"));
    spew(path, (const uint8_t *)"\x89GPK\n\x1a\n", 7);
    CHECK(read_all(path, &f, rows, &same, &err) == DN_EFORMAT && strstr(err.msg, "starts like"));
    CHECK(read_all("/nonexistent", &f, rows, &same, &err) == DN_EOPEN &&
          read_all("/tmp", &f, rows, &same, &err) == DN_EOPEN);
    free(b), free(good), free(rows);
    dn_gpk_info_free(&f);
}

/* Labels, places and the rest that a reader must not believe: written past the writer's own check. */
static void bad_values(void)
{
    dn_gpk_info f;
    dn_err err = {0};
    make_info(&f, &(spec){.n = 3, .m = 5, .labels = true, .targets = true, .matched = true});
    CHECK(dn_gpk_info_check(&f, "x", &err) == DN_OK);
#define BAD(change, back)                                                                                    \
    (change,                                                                                                 \
     dn_gpk_info_check(&f, "x", &err) == DN_EFORMAT && (back, dn_gpk_info_check(&f, "x", &err) == DN_OK))
    CHECK(BAD(f.label[1] = 3, f.label[1] = 2));
    CHECK(BAD(f.label[1] = -2, f.label[1] = -1));
    CHECK(BAD(f.place[2] = f.place[1], f.place[2] = 5));
    CHECK(BAD(f.place[4] = f.model_snps, f.place[4] = 9));
    CHECK(BAD(f.model_snps = 4, f.model_snps = 11));
    CHECK(BAD(f.target[0] = INFINITY, f.target[0] = 1));
    CHECK(BAD(f.snps.a2.n = 2, f.snps.a2.n = 5));
    CHECK(dn_gpk_scale(&f) == 11.0 / 5.0);
    dn_gpk_info_free(&f);
}

int main(void)
{
    if (!mkdtemp(dir)) return 1;
    sizes();
    writer_checks();
    damage(&(spec){.n = 5, .m = 9, .labels = true, .matched = true});
    damage(&(spec){.n = 3, .m = 300, .level = 3, .block_rows = 2, .targets = true});
    versions();
    bad_values();
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    CHECK(system(cmd) == 0);
    return check_done();
}
