/* The configuration reader: what it takes, what it refuses and how it says so. */
#include "check.h"
#include "config.h"
#include "num.h"

static const char base[] =
    "batch_size: 138\nepochs: 150\ninput_dropout: 0.0\ndropout_main: 0.5\nlr_aux: 0.001\nlr_main: 1e-3\n"
    "learning_rate_annealing: 0.999\nnb_hidden_u_aux:\n- 100\n- 100\nnb_hidden_u_main:\n- 100\n"
    "patience: 40\nseed: 78\nuniform_init_limit: 0.02\n";

/* base with its line `from` (to the end of that line) replaced. */
static char *with(const char *from, const char *to)
{
    static char buf[4096];
    const char *p = strstr(base, from);
    if (!p) {
        snprintf(buf, sizeof buf, "%s%s", base, to);
        return buf;
    }
    const char *end = strchr(p, '\n') + 1;
    snprintf(buf, sizeof buf, "%.*s%s%s", (int)(p - base), base, to, end);
    return buf;
}

static void refused(const char *text, const char *want)
{
    dn_config c;
    dn_err err = {0};
    dn_status st = dn_config_parse(&c, text, strlen(text), "c.yaml", &err);
    CHECK_MSG(st == DN_EFORMAT, "status %d for:\n%s", (int)st, text);
    CHECK_MSG(strstr(err.msg, want) != NULL, "\"%s\" is not in \"%s\"", want, err.msg);
    CHECK_MSG(strstr(err.msg, "c.yaml") != NULL, "%s", err.msg);
}

static void test_good(void)
{
    dn_config c, d;
    dn_err err = {0};
    CHECK_OK(dn_config_parse(&c, base, strlen(base), "c.yaml", &err), &err);
    CHECK(c.batch_size == 138 && c.epochs == 150 && c.patience == 40 && c.seed == 78 && c.has_seed);
    CHECK(c.dropout_main == 0.5 && c.lr_main == 0.001 && c.learning_rate_annealing == 0.999 &&
          c.uniform_init_limit == 0.02);
    CHECK(c.n_aux == 2 && c.aux[0] == 100 && c.aux[1] == 100 && c.n_main == 1 && c.main[0] == 100);
    char *t1, *t2;
    CHECK_OK(dn_config_text(&c, &t1, &err), &err);
    CHECK_OK(dn_config_parse(&d, t1, strlen(t1), "text", &err), &err);
    CHECK_OK(dn_config_text(&d, &t2, &err), &err);
    CHECK(strcmp(t1, t2) == 0);
    CHECK(memcmp(&c, &d, sizeof c) == 0);
    CHECK(strstr(t1, "nb_hidden_u_aux: [100, 100]\n") && strstr(t1, "lr_main: 0.001\n") &&
          strstr(t1, "input_dropout: 0.0\n"));
    uint64_t h1, h2;
    CHECK_OK(dn_config_hash(&c, &h1, &err), &err);
    d.lr_main *= 2;
    CHECK_OK(dn_config_hash(&d, &h2, &err), &err);
    CHECK(h1 != h2);
    free(t2);
    CHECK_OK(dn_config_text(&d, &t2, &err), &err);
    char why[256] = "";
    CHECK(!dn_config_differs(t1, t1, NULL, why, sizeof why));
    CHECK(dn_config_differs(t1, t2, NULL, why, sizeof why) &&
          strcmp(why, "lr_main: 0.001 there, 0.002 here") == 0);
    const char *skip[] = {"lr_main", NULL};
    CHECK(!dn_config_differs(t1, t2, skip, why, sizeof why));
    CHECK(dn_config_differs("a: 1\n", "a: 1\nb: 2\n", NULL, why, sizeof why) &&
          strcmp(why, "b: 2 here, not given there") == 0);
    CHECK(dn_config_differs("a: 1\nb: 2\n", "a: 1\n", NULL, why, sizeof why) &&
          strcmp(why, "b: 2 there, not given here") == 0);
    uint64_t v = 0;
    CHECK(dn_config_get_u64(t1, "epochs", &v) && v == 150);
    CHECK(!dn_config_get_u64(t1, "epoch", &v));
    free(t1), free(t2);

    /* Other spellings of the same thing. */
    static const char *good[] = {"--- # a comment\n", "\xef\xbb\xbf", "# tabs\tin a comment\n"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[4096];
        snprintf(text, sizeof text, "%s%s", good[i], base);
        CHECK_OK(dn_config_parse(&d, text, strlen(text), "c.yaml", &err), &err);
        CHECK(memcmp(&c, &d, sizeof c) == 0);
    }
    char *t = with("nb_hidden_u_main:\n- 100", "nb_hidden_u_main: [7, 3]\n# ");
    CHECK_OK(dn_config_parse(&d, t, strlen(t), "c.yaml", &err), &err);
    CHECK(d.n_main == 2 && d.main[0] == 7 && d.main[1] == 3);
    t = with("seed", "");
    CHECK_OK(dn_config_parse(&d, t, strlen(t), "c.yaml", &err), &err);
    CHECK(!d.has_seed);
    /* CRLF. */
    char crlf[4096];
    size_t n = 0;
    for (const char *p = base; *p; p++) {
        if (*p == '\n') crlf[n++] = '\r';
        crlf[n++] = *p;
    }
    CHECK_OK(dn_config_parse(&d, crlf, n, "c.yaml", &err), &err);
    CHECK(memcmp(&c, &d, sizeof c) == 0);
}

static void test_bad(void)
{
    refused(with("patience", "patiense: 40\n"), "line 13: unknown key \"patiense\": did you mean patience?");
    refused(with("patience", ""), "lacks patience");
    refused("", "lacks batch_size, epochs");
    refused("---\n", "lacks batch_size, epochs");
    refused("# nothing\n", "lacks batch_size, epochs");
    refused(with("xx", "epochs: 3\n"), "line 16: epochs is given twice, first in line 2");
    refused(with("lr_aux", "lr_aux: \"0.001\"\n"), "line 5: lr_aux: found the string \"0.001\"");
    refused(with("lr_aux", "lr_aux: '0.001'\n"), "numbers are written without quotes");
    refused(with("lr_aux", "lr_aux: fast\n"), "line 5: lr_aux: found fast, wanted a number");
    refused(with("lr_aux", "lr_aux: nan\n"), "found nan");
    refused(with("lr_aux", "lr_aux: .inf\n"), "found .inf");
    refused(with("lr_aux", "lr_aux: 0x10\n"), "found 0x10");
    refused(with("lr_aux", "lr_aux:\n"), "line 5: lr_aux: found no value");
    refused(with("lr_aux", "lr_aux: -1\n"), "found -1");
    refused(with("lr_aux", "lr_aux: 1 000\n"), "found 1 000");
    refused(with("lr_aux", "lr_aux: 0,001\n"), "found 0,001");
    refused(with("lr_aux", "lr_aux: [0.1]\n"), "line 5: lr_aux: found a list");
    refused(with("lr_aux", "lr_aux: {a: 1}\n"), "line 5: lr_aux: found a mapping");
    refused(with("lr_aux", "lr_aux: &x 0.1\n"), "line 5: anchors");
    refused(with("lr_aux", "lr_aux: *x\n"), "line 5: aliases");
    refused(with("lr_aux", "lr_aux: !!float 0.1\n"), "line 5: tags");
    refused(with("lr_aux", "lr_aux:\t0.1\n"), "line 5: a tab");
    refused(with("lr_aux", "\tlr_aux: 0.1\n"), "line 5: a tab");
    refused(with("lr_aux", "lr_aux: 0.1\n - 5\n"), "c.yaml, line");
    refused(with("epochs", "epochs: 1.5\n"), "line 2: epochs: found 1.5, wanted a whole number");
    refused(with("epochs", "epochs: -1\n"), "found -1");
    refused(with("epochs", "epochs: 99999999999999999999\n"), "found 99999999999999999999");
    refused(with("batch_size", "batch_size: 1\n"),
            "line 1: batch_size: found 1, wanted a whole number from 2");
    refused(with("batch_size", "batch_size: true\n"), "found true");
    refused(with("patience", "patience: 0\n"), "found 0");
    refused(with("dropout_main", "dropout_main: 1\n"), "found 1, wanted a number from 0 to below 1");
    refused(with("learning_rate_annealing", "learning_rate_annealing: 0\n"), "wanted a number above 0");
    refused(with("nb_hidden_u_main:\n- 100", "nb_hidden_u_main: 100\n#"), "found 100, wanted a list");
    refused(with("nb_hidden_u_main:\n- 100", "nb_hidden_u_main: [1, 0]\n#"),
            "found 0, wanted a layer size from 1");
    refused(with("nb_hidden_u_main:\n- 100", "nb_hidden_u_main: [1, [2]]\n#"), "found a list");
    refused(with("nb_hidden_u_main:\n- 100", "nb_hidden_u_main: [1, 70000]\n#"), "found 70000");
    refused(with("nb_hidden_u_main:\n- 100", "nb_hidden_u_main: [1, x\n#"), "c.yaml, line");
    refused(with("xx", "---\nepochs: 3\n"), "a second document");
    refused("- 1\n- 2\n", "line 1: a configuration is lines of");
    refused("hello\n", "line 1: a configuration is lines of");
    refused("[a, b]: 3\n", "line 1: found a list where a key");
    refused("a: \xff\xfe\n", "byte");
    char deep[2000];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    refused(deep, "c.yaml");
    dn_config c;
    dn_err err = {0};
    CHECK(dn_config_read(&c, "/nonexistent/c.yaml", &err) == DN_EOPEN);
    CHECK(dn_config_read(&c, "/", &err) == DN_EOPEN);
    /* Any cut of the good text is refused or, where only `seed` and later keys matter, read; it never
     * crashes. */
    for (size_t n = 0; n < strlen(base); n++) {
        char *cut = strndup(base, n);
        dn_status st = dn_config_parse(&c, cut, n, "c.yaml", &err);
        CHECK(st == DN_EFORMAT || (st == DN_OK && n > 200));
        free(cut);
    }
}

int main(void)
{
    test_good();
    test_bad();
    static const double v[] = {0.1, 1e-5, 1.0 / 3, 3.1716966414879897, 1e300, -0.0, 5e-324, 1234567, 0.5};
    char buf[DN_NUM_MAX];
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) CHECK(strtod(dn_num_format(v[i], buf), NULL) == v[i]);
    CHECK(strcmp(dn_num_format(0.001, buf), "0.001") == 0);
    return check_done();
}
