/* split.h5: round trip, same bytes, and a damaged or foreign file is refused. */
#include "check.h"
#include "h5.h"
#include "split.h"

#include <unistd.h>

static char dir[4096];

static dn_split *sample(void)
{
    dn_err err;
    dn_split *s;
    CHECK_OK(dn_alloc(&s, 1, sizeof *s, "split", &err), &err);
    s->n_folds = 2;
    s->n_people = 7;
    s->data_hash = 0xfedcba9876543210u;
    s->seed = 23;
    s->ratio = NAN;
    s->method = strdup("balanced");
    CHECK_OK(dn_alloc(&s->folds, 2, sizeof *s->folds, "folds", &err), &err);
    static const uint64_t people[2][7] = {{6, 2, 0, 4, 1, 3, 5}, {5, 4, 3, 2, 1, 0, 6}};
    for (int f = 0; f < 2; f++) {
        const uint64_t n[3] = {4, 3, 0}; /* an empty test set is kept */
        for (int k = 0, at = 0; k < 3; k++) {
            s->folds[f].n[k] = n[k];
            CHECK_OK(dn_alloc(&s->folds[f].index[k], n[k], 8, "set", &err), &err);
            memcpy(s->folds[f].index[k], people[f] + at, n[k] * 8);
            at += (int)n[k];
        }
    }
    return s;
}

static char *path_of(const char *name)
{
    static char path[2][5000];
    static int k;
    k ^= 1;
    snprintf(path[k], sizeof path[k], "%s/%s", dir, name);
    return path[k];
}

static void *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *buf = malloc(1 << 20);
    *n = f ? fread(buf, 1, 1 << 20, f) : 0;
    if (f) fclose(f);
    return buf;
}

int main(void)
{
    dn_err err;
    dn_split *s = sample(), *t;
    snprintf(dir, sizeof dir, "%s/test_split.%ld", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
             (long)getpid());
    char cmd[5000];
    snprintf(cmd, sizeof cmd, "mkdir -p %s", dir);
    CHECK(system(cmd) == 0);
    CHECK_OK(dn_split_write(path_of("a.h5"), s, 0, &err), &err);
    CHECK_OK(dn_split_write(path_of("b.h5"), s, 0, &err), &err);
    size_t na, nb;
    char *a = slurp(path_of("a.h5"), &na), *b = slurp(path_of("b.h5"), &nb);
    CHECK(na == nb && memcmp(a, b, na) == 0);
    CHECK_OK(dn_split_read(&t, path_of("a.h5"), &err), &err);
    CHECK(t->n_folds == 2 && t->n_people == 7 && t->seed == 23 && t->data_hash == s->data_hash &&
          isnan(t->ratio) && t->hash == s->hash);
    CHECK(strcmp(t->method, "balanced") == 0 && t->folds[1].n[2] == 0 && t->folds[0].index[0][0] == 6 &&
          t->folds[1].index[1][2] == 6);
    dn_split_free(t);

    /* Every cut and every flipped byte: refused, or read as what was written (HDF5 has bytes that mean
     * nothing). */
    for (size_t cut = 0; cut < na; cut += na / 40 + 1) {
        FILE *f = fopen(path_of("cut.h5"), "wb");
        fwrite(a, 1, cut, f);
        fclose(f);
        dn_status st = dn_split_read(&t, path_of("cut.h5"), &err);
        CHECK_MSG(st == DN_EFORMAT || st == DN_EOPEN, "cut at %zu: %d %s", cut, (int)st, err.msg);
    }
    for (size_t at = 0; at < na; at += 37) {
        a[at] ^= 0x41;
        FILE *f = fopen(path_of("flip.h5"), "wb");
        fwrite(a, 1, na, f);
        fclose(f);
        a[at] ^= 0x41;
        dn_status st = dn_split_read(&t, path_of("flip.h5"), &err);
        CHECK_MSG(st != DN_OK || t->hash == s->hash, "flip at %zu", at);
        if (st == DN_OK) dn_split_free(t);
    }
    /* Rules between sets. */
    s->folds[1].index[0][0] = 4;
    CHECK(dn_split_write(path_of("c.h5"), s, 0, &err) == DN_EFORMAT && strstr(err.msg, "twice"));
    s->folds[1].index[0][0] = 7;
    CHECK(dn_split_write(path_of("c.h5"), s, 0, &err) == DN_EFORMAT && strstr(err.msg, "has 7 people"));
    CHECK(access(path_of("c.h5"), F_OK) != 0);
    CHECK(dn_split_read(&t, "/dev/null", &err) != DN_OK);
    dn_split_free(s);
    free(a);
    free(b);
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    CHECK(system(cmd) == 0);
    return check_done();
}
