/* Label files: what is taken, what is counted, what is refused and in which words. */
#include "check.h"

#include <unistd.h>

#include "labels.h"

static char path[300];

static void people_add(dn_people *p, const char *fid, const char *iid)
{
    dn_err err;
    CHECK_OK(dn_strs_add(&p->fid, fid, strlen(fid), &err), &err);
    CHECK_OK(dn_strs_add(&p->iid, iid, strlen(iid), &err), &err);
}

static dn_status read_text(dn_labels *l, const char *text, dn_labels_kind kind, int id_cols,
                           const dn_people *p, const uint8_t *keep, dn_err *err)
{
    FILE *f = fopen(path, "wb");
    fputs(text, f);
    fclose(f);
    return dn_labels_read(l, path, kind, id_cols, p, keep, err);
}

static dn_people people;

static void refused(const char *text, dn_labels_kind kind, int id_cols, dn_status want, const char *words)
{
    dn_labels l;
    dn_err err = {0};
    dn_status st = read_text(&l, text, kind, id_cols, &people, NULL, &err);
    CHECK_MSG(st == want && strstr(err.msg, words) && strstr(err.msg, path), "%d %s", (int)st, err.msg);
}

static void classes(void)
{
    dn_labels l;
    dn_err err = {0};
    /* BOM, CRLF, blanks, a repeat, an unknown person, NA, empty, non-ASCII, no final newline. */
    CHECK_OK(read_text(&l,
                       "\xef\xbb\xbfsample\tlabel\r\nS2\tGBR\r\nS1\t YRI "
                       "\r\nS2\tGBR\r\nX9\tGBR\r\nS3\tNA\r\nS4\t\r\nS5\tC\xc3\xb4te d'Ivoire",
                       DN_LABELS_CLASS, 1, &people, NULL, &err),
             &err);
    CHECK(l.class_names.n == 3 && !strcmp(dn_strs_get(&l.class_names, 0), "C\xc3\xb4te d'Ivoire") &&
          !strcmp(dn_strs_get(&l.class_names, 2), "YRI"));
    CHECK(l.label[0] == 2 && l.label[1] == 1 && l.label[2] == -1 && l.label[3] == -1 && l.label[4] == 0);
    CHECK(l.n_labelled == 3 && l.n_without == 2 && l.n_unknown == 1 && l.n_trimmed == 1 &&
          l.n_repeated == 1 && l.n_na == 1 && l.near.n == 0);
    CHECK(!strcmp(dn_strs_get(&l.without, 0), "F3 S3") && !strcmp(dn_strs_get(&l.unknown, 0), "X9"));
    uint8_t keep[5] = {1, 1, 1, 1, 0};
    CHECK(dn_labels_apply(&l, NULL, keep, 5) == 2 && keep[0] && keep[1] && !keep[2] && !keep[3]);
    dn_labels_free(&l);

    /* Only classes of kept people count; a person left out is neither unknown nor without. */
    uint8_t two[5] = {1, 0, 1, 0, 0};
    CHECK_OK(read_text(&l, "id\tpop\nS1\tB\nS2\tA\nS3\tC\nS4\tA\nS5\tA\n\n\n", DN_LABELS_CLASS, 1, &people,
                       two, &err),
             &err);
    uint64_t count[2];
    CHECK(l.class_names.n == 2 && l.label[0] == 0 && l.label[1] == -1 && l.label[2] == 1 &&
          l.n_unknown == 0 && l.n_without == 0);
    dn_labels_count(&l, two, 5, count);
    CHECK(count[0] == 1 && count[1] == 1);
    dn_labels_free(&l);

    CHECK_OK(read_text(&l, "id\tpop\nS1\tgbr\nS2\tGBR\nS3\tG BR\nS4\tA\nS5\tA\n", DN_LABELS_CLASS, 1, &people,
                       NULL, &err),
             &err);
    CHECK(l.class_names.n == 4 && l.near.n == 2 && strstr(dn_strs_get(&l.near, 1), "'gbr' (1)"));
    dn_labels_free(&l);

    CHECK_OK(read_text(&l, "FID\tIID\tlabel\nF1\tS1\tA\nF2\tS2\tB\nF9\tS3\tB\n", DN_LABELS_CLASS, 2, &people,
                       NULL, &err),
             &err);
    CHECK(l.n_labelled == 2 && l.n_unknown == 1 && !strcmp(dn_strs_get(&l.unknown, 0), "F9 S3") &&
          l.n_without == 3);
    dn_labels_free(&l);
}

static void bad_classes(void)
{
    refused("", DN_LABELS_CLASS, 1, DN_EFORMAT, "is empty");
    refused("sample\tlabel\n", DN_LABELS_CLASS, 1, DN_EFORMAT, "no labels");
    refused("S1\tGBR\nS2\tYRI\n", DN_LABELS_CLASS, 1, DN_EFORMAT, "no header");
    refused("X1\tGBR\nS2\tGBR\n", DN_LABELS_CLASS, 1, DN_EFORMAT, "that of line 2");
    refused("sample\tlabel\nS1\tA\n\nS2\tB\n", DN_LABELS_CLASS, 1, DN_EFORMAT, "line 3 is empty");
    refused("sample\tlabel\nS1\tA\nS2\tB\nS1\tB\n", DN_LABELS_CLASS, 1, DN_EFORMAT,
            "'A' on line 2, 'B' on line 4");
    refused("sample label\nS1 A\n", DN_LABELS_CLASS, 1, DN_EFORMAT, "tabs, not blanks");
    refused("sample,label\nS1,A\n", DN_LABELS_CLASS, 1, DN_EFORMAT, "tabs, not commas");
    refused("sample\tlabel\nS1\tA\tx\n", DN_LABELS_CLASS, 1, DN_EFORMAT,
            "line 2: 3 fields found, 2 expected");
    refused("sample\tlabel\nS1\tA\n", DN_LABELS_CLASS, 2, DN_EFORMAT, "--id-cols 2 means");
    refused("sample\tlabel\n\tA\n", DN_LABELS_CLASS, 1, DN_EFORMAT, "ID is empty");
    refused("sample\tlabel\n\"S1\"\tA\n", DN_LABELS_CLASS, 1, DN_EMISMATCH, "in quotes");
    refused("sample\tlabel\nS1\tNA\n", DN_LABELS_CLASS, 1, DN_EMISMATCH, "no person that is kept");
    dn_labels l;
    dn_err err = {0};
    CHECK(dn_labels_read(&l, "/nowhere", DN_LABELS_CLASS, 1, &people, NULL, &err) == DN_EOPEN);
    dn_people twins = {0};
    people_add(&twins, "F1", "S1");
    people_add(&twins, "F2", "S1");
    people_add(&twins, "F2", "S2");
    CHECK(read_text(&l, "id\tx\nS2\tA\nS1\tA\n", DN_LABELS_CLASS, 1, &twins, NULL, &err) == DN_EMISMATCH &&
          strstr(err.msg, "families F1 and F2"));
    CHECK_OK(read_text(&l, "id\tx\nS2\tA\n", DN_LABELS_CLASS, 1, &twins, NULL, &err), &err);
    dn_labels_free(&l);
    dn_people_free(&twins);
}

static void targets(void)
{
    dn_labels l;
    dn_err err = {0};
    CHECK_OK(read_text(&l, "sample\tlatitude\nS1\t1.5\nS2\t-2e3\nS3\tNA\nS4\t\n", DN_LABELS_TARGET, 1,
                       &people, NULL, &err),
             &err);
    CHECK(l.target[0] == 1.5 && l.target[1] == -2000 && isnan(l.target[2]) && isnan(l.target[4]) &&
          l.n_labelled == 2 && l.n_without == 3);
    CHECK(!l.label && l.class_names.n == 0);
    uint8_t keep[5] = {1, 1, 1, 1, 1};
    CHECK(dn_labels_apply(NULL, &l, keep, 5) == 2);
    dn_labels_free(&l);
    refused("sample\tx\nS1\tnan\n", DN_LABELS_TARGET, 1, DN_EFORMAT, "only finite numbers");
    refused("sample\tx\nS1\t1\nS2\tinf\n", DN_LABELS_TARGET, 1, DN_EFORMAT, "line 3");
    refused("sample\tx\nS1\t-Infinity\n", DN_LABELS_TARGET, 1, DN_EFORMAT, "only finite");
    refused("sample\tx\nS1\t1,5\n", DN_LABELS_TARGET, 1, DN_EFORMAT, "decimal point");
    refused("sample\tx\nS1\ttall\n", DN_LABELS_TARGET, 1, DN_EFORMAT, "a number is expected");
    refused("S9\t1.5\nS1\t2\n", DN_LABELS_TARGET, 1, DN_EFORMAT, "no header");
    refused("sample\tx\nS1\t1\nS1\t2\n", DN_LABELS_TARGET, 1, DN_EFORMAT, "two labels");
    refused("sample\tx\nX\tnan\nS1\t2\n", DN_LABELS_TARGET, 1, DN_EFORMAT, "line 2");
}

int main(void)
{
    snprintf(path, sizeof path, "%s/test_labels.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    for (int i = 1; i <= 5; i++) {
        char f[8], s[8];
        snprintf(f, sizeof f, "F%d", i);
        snprintf(s, sizeof s, "S%d", i);
        people_add(&people, f, s);
    }
    classes();
    bad_classes();
    targets();
    dn_people_free(&people);
    unlink(path);
    return check_done();
}
