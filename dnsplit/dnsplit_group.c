/* dnsplit_group.c: see dnsplit_group.h. */
#include "dnsplit_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"

enum { NAMED = 10 }; /* unknown people kept for the message */

/* Person of a line: by IID, which must then be unique, or by FID and IID. */
typedef struct {
    dn_map *iid, *both;
    dn_strs both_keys; /* FID, tab, IID */
    uint8_t *shared;   /* 1: another person has the same IID */
} finder;

static dn_status finder_make(finder *f, const dn_people *people, dn_err *err)
{
    dn_status status;
    const uint64_t n = people->iid.n;
    char key[2 * DN_MAX_ID + 2];
    DN_TRY(dn_map_new(&f->iid, n, err));
    DN_TRY(dn_map_new(&f->both, n, err));
    DN_TRY(dn_alloc(&f->shared, n, 1, "people", err));
    for (uint64_t i = 0; i < n; i++) {
        int len =
            snprintf(key, sizeof key, "%s\t%s", dn_strs_get(&people->fid, i), dn_strs_get(&people->iid, i));
        if (len < 0 || len >= (int)sizeof key)
            DN_TRY(dn_fail(err, DN_EFORMAT, "person %llu has an ID that is too long",
                           (unsigned long long)i + 1));
        DN_TRY(dn_strs_add(&f->both_keys, key, (size_t)len, err));
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t prev;
        const char *iid = dn_strs_get(&people->iid, i), *both = dn_strs_get(&f->both_keys, i);
        DN_TRY(dn_map_add(f->iid, iid, strlen(iid), i, &prev, err));
        if (prev != UINT64_MAX) f->shared[prev] = 1;
        DN_TRY(dn_map_add(f->both, both, strlen(both), i, &prev, err));
    }
    status = DN_OK;
done:
    return status;
}

static void finder_free(finder *f)
{
    dn_map_free(f->iid);
    dn_map_free(f->both);
    dn_strs_free(&f->both_keys);
    free(f->shared);
}

/* The group of every person named, as text: names[of[i]], UINT64_MAX for none. */
static dn_status read_file(split_groups *g, const char *path, const dn_people *people, dn_strs *text,
                           uint64_t *text_of, dn_err *err)
{
    dn_status status;
    dn_text *t = NULL;
    finder f = {0};
    char *line, *field[3], key[2 * DN_MAX_ID + 2];
    size_t len, width = 0;
    uint64_t known = 0;
    DN_TRY(finder_make(&f, people, err));
    DN_TRY(dn_text_open(&t, path, err));
    for (;;) {
        DN_TRY(dn_text_next(t, &line, &len, err));
        if (!line) break;
        size_t n = dn_split_blanks(line, field, 3);
        if (n == 0) continue;
        unsigned long long at = (unsigned long long)dn_text_line(t);
        if (n < 2 || n > 3 || (width && n != width)) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s, line %llu: %zu columns found; %s expected", path, at, n,
                           width == 2   ? "2 (IID and group)"
                           : width == 3 ? "3 (FID, IID and group)"
                                        : "2 (IID and group) or 3 (FID, IID and group)"));
        }
        width = n;
        uint64_t i;
        if (n == 2) {
            i = dn_map_get(f.iid, field[0], strlen(field[0]));
            if (i != UINT64_MAX && f.shared[i]) {
                DN_TRY(dn_fail(
                    err, DN_EMISMATCH,
                    "%s, line %llu: several people have the IID %s: give three columns, FID, IID and group",
                    path, at, field[0]));
            }
        } else {
            int k = snprintf(key, sizeof key, "%s\t%s", field[0], field[1]);
            i = k < 0 || k >= (int)sizeof key ? UINT64_MAX : dn_map_get(f.both, key, (size_t)k);
        }
        if (i == UINT64_MAX) {
            if (at == 1) continue; /* a header */
            g->n_unknown++;
            if (g->unknown.n < NAMED)
                DN_TRY(dn_strs_add(&g->unknown, field[n - 2], strlen(field[n - 2]), err));
            continue;
        }
        if (text_of[i] != UINT64_MAX && strcmp(dn_strs_get(text, text_of[i]), field[n - 1]) != 0) {
            DN_TRY(dn_fail(err, DN_EFORMAT,
                           "%s, line %llu: person %s is in group %s and in group %s: who is in two groups "
                           "joins them, so give both one name",
                           path, at, field[n - 2], dn_strs_get(text, text_of[i]), field[n - 1]));
        }
        text_of[i] = text->n;
        DN_TRY(dn_strs_add(text, field[n - 1], strlen(field[n - 1]), err));
        known++;
    }
    if (!known)
        DN_TRY(dn_fail(err, DN_EMISMATCH, "%s names nobody of the dataset: are these the IDs of its people?",
                       path));
    status = DN_OK;
done:
    dn_text_close(t);
    finder_free(&f);
    return status;
}

dn_status split_groups_read(split_groups *g, const char *path, const dn_people *people, dn_err *err)
{
    dn_status status;
    const uint64_t n = people->iid.n;
    dn_strs text = {0};
    uint64_t *text_of = NULL, *size = NULL;
    dn_map *by_name = NULL;
    memset(g, 0, sizeof *g);
    DN_TRY(dn_alloc(&text_of, n, sizeof *text_of, "groups", err));
    DN_TRY(dn_alloc(&g->of, n, sizeof *g->of, "groups", err));
    memset(text_of, 0xff, n * sizeof *text_of);
    if (path) DN_TRY(read_file(g, path, people, &text, text_of, err));
    DN_TRY(dn_map_new(&by_name, n, err));
    for (uint64_t i = 0; i < n; i++) {
        const char *name = path ? (text_of[i] == UINT64_MAX ? NULL : dn_strs_get(&text, text_of[i]))
                                : dn_strs_get(&people->fid, i);
        if (!path && strcmp(name, "0") == 0) name = NULL;
        uint64_t prev;
        if (name) {
            DN_TRY(dn_map_add(by_name, name, strlen(name), g->n_groups, &prev, err));
            g->of[i] = prev == UINT64_MAX ? g->n_groups++ : prev;
        } else {
            g->of[i] = g->n_groups++;
        }
    }
    DN_TRY(dn_alloc(&size, g->n_groups, sizeof *size, "groups", err));
    for (uint64_t i = 0; i < n; i++) size[g->of[i]]++;
    for (uint64_t k = 0; k < g->n_groups; k++) {
        if (size[k] < 2) continue;
        g->n_large++;
        g->n_in_large += size[k];
    }
    status = DN_OK;
done:
    dn_map_free(by_name);
    dn_strs_free(&text);
    free(text_of);
    free(size);
    return status;
}

void split_groups_free(split_groups *g)
{
    free(g->of);
    dn_strs_free(&g->unknown);
    memset(g, 0, sizeof *g);
}
