/* The pickle interpreter: what state dicts and index lists need is read, all else is refused with opcode and
 * offset, and no bytes whatever make it crash or run away. */
#include "check.h"
#include "pickle.h"

#define P(s) s, sizeof(s) - 1

static dn_status parse(dn_pickle **p, const char *bytes, size_t n, dn_err *err)
{
    snprintf(err->msg, sizeof err->msg, "(no message)");
    return dn_pickle_parse(p, (const uint8_t *)bytes, n, "x.pt: data.pkl", err);
}

static dn_pickle *good(const char *bytes, size_t n)
{
    dn_err err;
    dn_pickle *p;
    CHECK_OK(parse(&p, bytes, n, &err), &err);
    CHECK(dn_pickle_used(p) == n);
    return p;
}

static void bad_at(int line, const char *bytes, size_t n, const char *words, const char *more)
{
    dn_err err;
    dn_pickle *p;
    dn_status st = parse(&p, bytes, n, &err);
    CHECK_MSG(st == DN_EFORMAT && strstr(err.msg, words) && strstr(err.msg, more), "line %d: %d: %s", line,
              (int)st, err.msg);
    if (st == DN_OK) dn_pickle_free(p);
}

#define bad(...) bad_at(__LINE__, __VA_ARGS__)

static void test_values(void)
{
    int64_t i;
    double d;
    const char *s;
    size_t n;
    dn_pickle *p = good(P("\x80\x02}q\x00(X\x01\x00\x00\x00"
                          "aK\x07X\x01\x00\x00\x00"
                          "b]q\x01(M\x01\x02J\xff\xff\xff\xff\x8a\x03\x00\x00\x80\x8a\x00\x88\x89Neh\x00\x85"
                          "G\x3f\xf8\x00\x00\x00\x00\x00\x00u."));
    dn_pk root = dn_pk_root(p), v, w;
    CHECK(dn_pk_type_of(p, root) == DN_PK_DICT && dn_pk_len(p, root) == 3);
    CHECK(dn_pk_get(p, root, "a", &v) && dn_pk_int(p, v, &i) && i == 7);
    CHECK(dn_pk_get(p, root, "b", &v) && dn_pk_type_of(p, v) == DN_PK_LIST && dn_pk_len(p, v) == 7);
    static const int64_t want[] = {513, -1, -8388608, 0, 1, 0};
    for (uint64_t k = 0; k < 6; k++) CHECK(dn_pk_int(p, dn_pk_item(p, v, k), &i) && i == want[k]);
    CHECK(dn_pk_type_of(p, dn_pk_item(p, v, 6)) == DN_PK_NONE);
    CHECK(!dn_pk_get(p, root, "c", &v) && !dn_pk_get(p, v, "a", &w));
    dn_pk_pair(p, root, 2, &v, &w); /* a tuple that holds the dict itself: no harm */
    CHECK(dn_pk_type_of(p, v) == DN_PK_TUPLE && dn_pk_item(p, v, 0) == root && dn_pk_float(p, w, &d) &&
          d == 1.5);
    CHECK(!dn_pk_str(p, v, &s, &n) && dn_pk_len(p, w) == 0);
    dn_pickle_free(p);

    /* Protocol 4: frames, short strings, MEMOIZE; lists that grow by one. */
    p = good(P("\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00]\x94\x8c\x02xy\x94"
               "ah\x01"
               "aC\x02\x00\xff"
               "a\x8d\x01\x00\x00\x00\x00\x00\x00\x00za."));
    root = dn_pk_root(p);
    uint8_t raw[2];
    dn_err err;
    CHECK(dn_pk_len(p, root) == 4 && dn_pk_str_is(p, dn_pk_item(p, root, 1), "xy") &&
          dn_pk_str_is(p, dn_pk_item(p, root, 3), "z"));
    CHECK(dn_pk_bytes(p, dn_pk_item(p, root, 2), 0, 2, raw, &err) == DN_OK && raw[0] == 0 && raw[1] == 0xff);
    CHECK(dn_pk_bytes(p, dn_pk_item(p, root, 2), 1, 2, raw, &err) == DN_EFORMAT);
    dn_pickle_free(p);

    p = good(P("\x80\x02]."));
    CHECK(dn_pk_type_of(p, dn_pk_root(p)) == DN_PK_LIST && dn_pk_len(p, dn_pk_root(p)) == 0);
    dn_pickle_free(p);
}

static void test_numpy(void)
{
    dn_err err;
    double d;
    dn_pk_array a;
    uint8_t raw[16];
    /* numpy.float64(1.5), protocol 2: bytes as latin1 text ("\xf8?" is f8 3f; two bytes of UTF-8 each above
     * 0x7f). */
    dn_pickle *p = good(P("\x80\x02"
                          "cnumpy.core.multiarray\nscalar\nq\x00"
                          "cnumpy\ndtype\nq\x01X\x02\x00\x00\x00"
                          "f8q\x02\x89\x88\x87q\x03Rq\x04(K\x03X\x01\x00\x00\x00<"
                          "q\x05NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x06"
                          "bc_codecs\nencode\nq\x07X\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00\xc3\xb8?"
                          "X\x06\x00\x00\x00latin1\x86R\x86R."));
    CHECK(dn_pk_float(p, dn_pk_root(p), &d) && d == 1.5);
    dn_pickle_free(p);
    /* array([1, -2], int16) by _frombuffer, as protocol 5 writes it, under NumPy 2's names. */
    p = good(P("\x80\x05\x8c\x13numpy._core.numeric\x8c\x0b_frombuffer\x93("
               "\x96\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\xfe\xff"
               "\x8c\x05numpy\x8c\x05"
               "dtype\x93\x8c\x02i2\x89\x88\x87R(K\x03\x8c\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
               "K\x02\x85\x8c\x01"
               "CtR."));
    CHECK(dn_pk_get_array(p, dn_pk_root(p), &a) && a.ndim == 1 && a.n_items == 2 && a.dtype.kind == 'i' &&
          a.dtype.item == 2 && !a.fortran);
    CHECK(dn_pk_bytes(p, a.data, 0, 4, raw, &err) == DN_OK && raw[2] == 0xfe);
    dn_pickle_free(p);
    bad(P("\x80\x05\x8c\x13numpy._core.numeric\x8c\x0b_frombuffer\x93("
          "C\x04"
          "abcd"
          "cnumpy\ndtype\nX\x02\x00\x00\x00i2\x85RK\x03\x85X\x01\x00\x00\x00"
          "CtR."),
        "opcode REDUCE", "does not fit its data");
    bad(P("\x80\x02"
          "cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nX\x02\x00\x00\x00i8\x85RC\x04"
          "abcd\x86R."),
        "opcode REDUCE", "not a NumPy number");
}

static void test_refused(void)
{
    /* What Python would run. Each names the opcode and where it is. */
    bad(P("\x80\x02"
          "cposix\nsystem\nX\x02\x00\x00\x00ls\x85R."),
        "opcode GLOBAL at byte 2", "posix system");
    bad(P("cos\nsystem\n(S'ls'\ntR."), "opcode GLOBAL at byte 0", "os system");
    bad(P("\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02ls\x85R."), "opcode STACK_GLOBAL at byte 17",
        "posix system");
    bad(P("(S'ls'\nios\nsystem\n."), "opcode STRING at byte 1", "");
    bad(P("\x80\x02(X\x02\x00\x00\x00lsios\nsystem\n."), "opcode INST at byte 10", "");
    bad(P("\x80\x02"
          "cbuiltins\neval\n."),
        "opcode GLOBAL at byte 2", "builtins eval");
    bad(P("\x80\x02"
          "ctorch\nload\n."),
        "opcode GLOBAL", "torch load");
    bad(P("\x80\x02"
          "ccollections\nOrderedDict\n)\x81."),
        "opcode NEWOBJ at byte 28", "");
    bad(P("\x80\x02\x82\x01."), "opcode EXT1 at byte 2", "");
    bad(P("\x80\x02\x8f."), "opcode EMPTY_SET", "");
    bad(P("\x80\x05\x97."), "opcode NEXT_BUFFER", "");
    bad(P("\x80\x02\xff."), "byte 0xff at byte 2", "");
    bad(P("\x80\x06N."), "opcode PROTO at byte 0", "protocol 6");
    bad(P("\x80\x01N."), "opcode PROTO at byte 0", "protocol 1");
    /* A whitelisted name used for what it is not. */
    bad(P("\x80\x02"
          "ccollections\nOrderedDict\n]\x85R."),
        "opcode REDUCE", "OrderedDict with arguments");
    bad(P("\x80\x02"
          "cnumpy\nndarray\n)R."),
        "opcode REDUCE", "not called");
    bad(P("\x80\x02K\x01)R."), "opcode REDUCE", "calls an integer");
    bad(P("\x80\x02]}b."), "opcode BUILD", "sets the state of a list");
    bad(P("\x80\x02)Q."), "opcode BINPERSID", "not a torch storage");
    bad(P("\x80\x02"
          "cnumpy\ndtype\nX\x02\x00\x00\x00V8\x85R."),
        "opcode REDUCE", "dtype");
    bad(P("\x80\x02"
          "cnumpy\ndtype\nX\x02\x00\x00\x00"
          "f8\x85R(K\x03X\x01\x00\x00\x00>tb."),
        "opcode BUILD", "big-endian");
    bad(P("\x80\x02"
          "c_codecs\nencode\nX\x01\x00\x00\x00"
          "aX\x03\x00\x00\x00hex\x86R."),
        "opcode REDUCE", "latin1");
}

static void test_damaged(void)
{
    bad("", 0, "ends at byte 0", "truncated");
    bad(P("\x80\x02"), "ends at byte 2", "truncated");
    bad(P("\x80\x02K"), "opcode BININT1 at byte 2", "truncated");
    bad(P("\x80\x02X\xff\xff\xff\x7f"), "opcode BINUNICODE at byte 2", "needs 2147483647 bytes");
    bad(P("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff"), "opcode BINUNICODE8", "needs");
    bad(P("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff"), "opcode FRAME", "needs");
    bad(P("\x80\x02."), "opcode STOP", "nothing is on the stack");
    bad(P("\x80\x02K\x01K\x02."), "opcode STOP", "left on the stack");
    bad(P("\x80\x02(K\x01."), "opcode STOP", "left on the stack");
    bad(P("\x80\x02t."), "opcode TUPLE", "no MARK");
    bad(P("\x80\x02K\x01(\x85."), "opcode TUPLE1", "fewer than 1");
    bad(P("\x80\x02K\x01(R."), "opcode REDUCE", "nothing is on the stack");
    bad(P("\x80\x02h\x00."), "opcode BINGET", "memo 0 was never stored");
    bad(P("\x80\x02Nr\xff\xff\xff\xff."), "opcode LONG_BINPUT", "memo number 4294967295");
    bad(P("\x80\x02K\x01(K\x02"
          "e."),
        "opcode APPENDS", "not a list");
    bad(P("\x80\x02(K\x01"
          "e."),
        "opcode APPENDS", "not a list");
    bad(P("\x80\x02}(K\x01u."), "opcode SETITEMS", "no value");
    bad(P("\x80\x02K\x01"
          "a."),
        "opcode APPEND", "not");
    bad(P("\x80\x02\x8a\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09."), "opcode LONG1", "9 bytes");
    bad(P("\x80\x02"
          "cnumpy"),
        "opcode GLOBAL", "does not end");
    /* Deep nesting ends in an error, not in a full stack. */
    char *deep = malloc(5000);
    memset(deep, '(', 5000);
    bad(deep, 5000, "opcode MARK at byte 1000", "nested");
    free(deep);
}

/* A tensor whose strides leave its storage, or that claims more than it has. */
static void tensor(uint8_t numel, uint8_t offset, uint8_t rows, uint8_t cols, uint8_t step, bool fine)
{
    char b[400];
    size_t n = 0;
    static const char head[] =
        "\x80\x02"
        "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x00"
        "0X\x03\x00\x00\x00"
        "cpuK";
    memcpy(b, head, sizeof head - 1);
    n = sizeof head - 1;
    b[n++] = (char)numel;
    b[n++] = 't', b[n++] = 'Q';
    b[n++] = 'K', b[n++] = (char)offset;
    b[n++] = 'K', b[n++] = (char)rows, b[n++] = 'K', b[n++] = (char)cols, b[n++] = '\x86';
    b[n++] = 'K', b[n++] = (char)step, b[n++] = 'K', b[n++] = 1, b[n++] = '\x86';
    b[n++] = '\x89', b[n++] = 'N', b[n++] = 't', b[n++] = 'R', b[n++] = '.';
    if (!fine) {
        bad(b, n, "opcode REDUCE", "outside of its storage");
        return;
    }
    dn_pickle *p = good(b, n);
    dn_pk_tensor t;
    CHECK(dn_pk_get_tensor(p, dn_pk_root(p), &t) && t.ndim == 2 && t.size[0] == rows && t.offset == offset &&
          t.key_len == 1 && t.key[0] == '0');
    dn_pickle_free(p);
}

static void test_tensors(void)
{
    tensor(12, 0, 3, 4, 4, true);
    tensor(12, 0, 4, 3, 3, true);
    tensor(13, 1, 3, 4, 4, true);
    tensor(12, 1, 3, 4, 4, false);
    tensor(12, 0, 3, 4, 5, false);
    tensor(12, 0, 200, 4, 0, false); /* 800 items out of 4: a broadcast */
    tensor(0, 0, 0, 4, 4, true);
    tensor(12, 200, 0, 4, 4, true);
}

/* Memory must stay within a small multiple of the input: 2 MB of each opcode that makes something of nothing.
 */
static void test_bombs(void)
{
    const size_t n = 2 << 20;
    char *b = malloc(n + 8);
    static const char *const units[] = {"]", "}", ")", "N", "N\x94", "K\x01", "h\x00"};
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        size_t len = strlen(units[u]) + (units[u][0] == 'h'), at = 0;
        memcpy(b, "\x80\x02]q\x00(", 6);
        for (at = 6; at + len <= n; at += len) memcpy(b + at, units[u], len);
        b[at++] = 'e', b[at++] = '.';
        dn_pickle_free(good(b, at));
    }
    /* The same megabyte encoded again and again. */
    static const char head[] =
        "\x80\x02(c_codecs\nencode\nq\x00X\x06\x00\x00\x00latin1q\x01X\x00\x00\x10\x00";
    size_t at = sizeof head - 1;
    memcpy(b, head, at);
    memset(b + at, 'a', 1 << 20);
    at += 1 << 20;
    b[at++] = 'q', b[at++] = 2;
    while (at + 9 < n) {
        memcpy(b + at, "h\x00h\x02h\x01\x86R", 8);
        at += 8;
    }
    bad(b, at, "opcode REDUCE", "too often");
    free(b);
}

/* Mutations of good pickles: any status, no crash, no leak (the sanitizers look on). */
static void test_mutations(void)
{
    static const char base[] =
        "\x80\x02}q\x00(X\x05\x00\x00\x00"
        "epochq\x01K\x05X\x01\x00\x00\x00mccollections\nOrderedDict\nq\x03)Rq\x04(X\x01\x00\x00\x00wctorch._"
        "utils\n_rebuild_tensor_v2\nq\x06"
        "((X\x07\x00\x00\x00storageq\x07"
        "ctorch\nFloatStorage\nq\x08X\x01\x00\x00\x00"
        "0X\x03\x00\x00\x00"
        "cpuK\x0ctQK\x00K\x03K\x04\x86K\x04K\x01\x86\x89h\x03)RtRX\x01\x00\x00\x00scnumpy.core."
        "multiarray\nscalar\ncnumpy\ndtype\n"
        "X\x02\x00\x00\x00"
        "f8\x89\x88\x87R(K\x03X\x01\x00\x00\x00<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tbc_"
        "codecs\nencode\nX\x08\x00\x00\x00"
        "aaaaaaaaX\x06\x00\x00\x00latin1\x86R\x86Ruu.";
    const size_t n = sizeof base - 1;
    unsigned long long seed = 42;
    char buf[sizeof base];
    dn_err err;
    dn_pickle *p;
    size_t fine = 0;
    for (size_t cut = 0; cut < n; cut++) bad(base, cut, "", "");
    for (int k = 0; k < 40000; k++) {
        memcpy(buf, base, n);
        for (unsigned long long m = 1 + check_rand(&seed) % 4; m; m--) {
            unsigned long long r = check_rand(&seed);
            if (r & 1)
                buf[r % n] ^= (char)(1 << (r >> 20 & 7));
            else
                buf[r % n] = base[(r >> 24) % n];
        }
        if (parse(&p, buf, n, &err) == DN_OK) {
            fine++;
            dn_pickle_free(p);
        }
    }
    CHECK_MSG(fine > 100 && fine < 39000, "%zu", fine);
}

int main(void)
{
    test_values();
    test_numpy();
    test_refused();
    test_damaged();
    test_tensors();
    test_bombs();
    test_mutations();
    return check_done();
}
