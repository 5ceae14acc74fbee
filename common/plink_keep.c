/* plink_keep.c: lists of people and SNPs to keep or to leave out (see plink.h). */
#include "plink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"

typedef unsigned long long ull;

/* A list read from a file: one key a line. For people a key is "FID IID" or, from lines of one field, "IID";
 * blanks cannot occur inside either. */
typedef struct {
    dn_strs keys;
    dn_map *map;
    uint8_t *hit; /* keys.n: named somebody */
} list;

static void list_free(list *l)
{
    dn_strs_free(&l->keys);
    dn_map_free(l->map);
    free(l->hit);
}

/* The key of one line in key[]; false for a header line. */
static bool person_key(char **f, size_t n, bool *iid_only, char *key, size_t size)
{
    if (f[0][0] == '#') { /* PLINK 2 headers say what the columns are; other comments are skipped too */
        if (strcmp(f[0], "#IID") == 0) *iid_only = true;
        return false;
    }
    if (n == 1 || *iid_only)
        snprintf(key, size, "%s", f[0]);
    else
        snprintf(key, size, "%s %s", f[0], f[1]);
    return true;
}

static dn_status list_read(list *l, const char *path, bool people, dn_err *err)
{
    dn_status status;
    dn_text *t = NULL;
    bool iid_only = false;
    memset(l, 0, sizeof *l);
    DN_TRY(dn_text_open(&t, path, err));
    for (;;) {
        char *line, *f[2], key[2 * DN_MAX_ID + 2];
        size_t len;
        DN_TRY(dn_text_next(t, &line, &len, err));
        if (!line) break;
        size_t n = dn_split_blanks(line, f, 2);
        if (n == 0) continue;
        if (strlen(f[0]) > DN_MAX_ID || (n > 1 && strlen(f[1]) > DN_MAX_ID)) {
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s, line %llu: an ID of more than %d bytes", path,
                           (ull)dn_text_line(t), DN_MAX_ID));
        }
        if (people) {
            if (!person_key(f, n, &iid_only, key, sizeof key)) continue;
        } else if (n > 1) {
            DN_TRY(dn_fail(err, DN_EFORMAT,
                           "%s, line %llu: %zu fields found, 1 expected (a SNP ID); from a .bim, take the "
                           "IDs with cut -f2",
                           path, (ull)dn_text_line(t), n));
        }
        const char *k = people ? key : f[0];
        DN_TRY(dn_strs_add(&l->keys, k, strlen(k), err));
    }
    DN_TRY(dn_map_new(&l->map, l->keys.n, err));
    DN_TRY(dn_alloc(&l->hit, l->keys.n, 1, "list", err));
    for (uint64_t i = 0; i < l->keys.n; i++) {
        uint64_t prev;
        const char *k = dn_strs_get(&l->keys, i);
        DN_TRY(dn_map_add(l->map, k, strlen(k), i, &prev, err));
        if (prev != UINT64_MAX) l->hit[i] = 2; /* a repeat: counts as found */
    }
    status = DN_OK;
done:
    dn_text_close(t);
    if (status != DN_OK) {
        list_free(l);
        memset(l, 0, sizeof *l);
    }
    return status;
}

/* Adds the keys that named nobody to the caller's count and to the first few names. */
static dn_status report(const list *l, dn_strs *missing, uint64_t *n_missing, dn_err *err)
{
    for (uint64_t i = 0; i < l->keys.n; i++) {
        if (l->hit[i]) continue;
        ++*n_missing;
        if (!missing || missing->n >= 10) continue;
        const char *k = dn_strs_get(&l->keys, i);
        dn_status status = dn_strs_add(missing, k, strlen(k), err);
        if (status != DN_OK) return status;
    }
    return DN_OK;
}

/* Sets mark[i] for the people whom the list names. */
static dn_status mark_people(list *l, const char *path, const dn_people *p, uint8_t *mark, dn_err *err)
{
    char key[2 * DN_MAX_ID + 2];
    for (uint64_t i = 0; i < p->iid.n; i++) {
        const char *fid = dn_strs_get(&p->fid, i), *iid = dn_strs_get(&p->iid, i);
        int len = snprintf(key, sizeof key, "%s %s", fid, iid);
        uint64_t k = dn_map_get(l->map, key, (size_t)len < sizeof key ? (size_t)len : sizeof key - 1);
        if (k != UINT64_MAX) mark[i] = l->hit[k] = 1;
        k = dn_map_get(l->map, iid, strlen(iid));
        if (k == UINT64_MAX) continue;
        if (l->hit[k]) {
            return dn_fail(err, DN_EMISMATCH,
                           "%s: the person ID %s alone names people of several families here: give family ID "
                           "and person ID",
                           path, iid);
        }
        mark[i] = l->hit[k] = 1;
    }
    return DN_OK;
}

static void mark_snps(list *l, const dn_strs *ids, uint8_t *mark)
{
    for (uint64_t i = 0; i < ids->n; i++) {
        const char *id = dn_strs_get(ids, i);
        uint64_t k = dn_map_get(l->map, id, strlen(id));
        if (k != UINT64_MAX) mark[i] = l->hit[k] = 1;
    }
}

/* One list: keep[i] is cleared where the list (or, for wanted = false, its complement) leaves i out. */
static dn_status apply(const dn_people *people, const dn_strs *ids, const char *path, bool wanted,
                       uint8_t *keep, uint64_t n, dn_strs *missing, uint64_t *n_missing, dn_err *err)
{
    dn_status status;
    list l = {0};
    uint8_t *mark = NULL;
    DN_TRY(list_read(&l, path, people != NULL, err));
    if (l.keys.n == 0 && wanted) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: the list is empty: one %s per line is expected", path,
                       people ? "person (family ID and person ID, or person ID)" : "SNP ID"));
    }
    DN_TRY(dn_alloc(&mark, n, 1, "list", err));
    if (people)
        DN_TRY(mark_people(&l, path, people, mark, err));
    else
        mark_snps(&l, ids, mark);
    DN_TRY(report(&l, missing, n_missing, err));
    bool any = false;
    for (uint64_t i = 0; i < n; i++) {
        keep[i] = keep[i] && (mark[i] != 0) == wanted;
        any |= keep[i];
    }
    if (!any && n > 0) {
        const char *seen = l.keys.n ? dn_strs_get(&l.keys, 0) : "";
        if (people) {
            DN_TRY(dn_fail(
                err, DN_EMISMATCH,
                "no person is left after %s; its first entry is '%s', the first person here is '%s %s'", path,
                seen, dn_strs_get(&people->fid, 0), dn_strs_get(&people->iid, 0)));
        }
        DN_TRY(dn_fail(err, DN_EMISMATCH,
                       "no SNP is left after %s; its first entry is '%s', the first SNP here is '%s'", path,
                       seen, dn_strs_get(ids, 0)));
    }
    status = DN_OK;
done:
    list_free(&l);
    free(mark);
    return status;
}

static dn_status keep_both(const dn_people *people, const dn_strs *ids, uint64_t n, const char *yes,
                           const char *no, uint8_t **keep, dn_strs *missing, uint64_t *n_missing, dn_err *err)
{
    dn_status status;
    *n_missing = 0;
    DN_TRY(dn_alloc(keep, n, 1, "list of what is kept", err));
    memset(*keep, 1, n);
    if (yes) DN_TRY(apply(people, ids, yes, true, *keep, n, missing, n_missing, err));
    if (no) DN_TRY(apply(people, ids, no, false, *keep, n, missing, n_missing, err));
done:
    if (status != DN_OK) {
        free(*keep);
        *keep = NULL;
    }
    return status;
}

dn_status dn_keep_people(const dn_people *p, const char *keep_file, const char *remove_file, uint8_t **keep,
                         dn_strs *missing, uint64_t *n_missing, dn_err *err)
{
    return keep_both(p, NULL, p->iid.n, keep_file, remove_file, keep, missing, n_missing, err);
}

dn_status dn_keep_snps(const dn_strs *ids, const char *extract_file, const char *exclude_file, uint8_t **keep,
                       dn_strs *missing, uint64_t *n_missing, dn_err *err)
{
    return keep_both(NULL, ids, ids->n, extract_file, exclude_file, keep, missing, n_missing, err);
}
