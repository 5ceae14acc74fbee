/* labels.c: label files, and how they meet the people of a cohort (see labels.h). */
#include "labels.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "opt.h"

typedef unsigned long long ull;

/* One line that names somebody here. */
typedef struct {
    uint64_t person, line;
} entry;

typedef struct {
    dn_labels *out;
    const char *path;
    dn_labels_kind kind;
    int id_cols;
    const dn_people *people;
    const uint8_t *keep;
    dn_text *t;
    dn_strs keys;        /* with two ID columns: "FID\tIID" of everybody */
    dn_map *by_key;      /* key -> person */
    uint64_t *same;      /* with one: a second person of the same IID, or UINT64_MAX */
    uint64_t *of_person; /* N: that person's entry, or UINT64_MAX */
    entry *entries;
    size_t n_cap;
    dn_strs label; /* of each entry */
    bool any_line, header_is_label;
    char *header;         /* label column of the first line */
    char *first_id;       /* of the first data line, for messages */
    uint64_t header_twin; /* a line with the header's label */
} reader;

static bool kept(const reader *r, uint64_t i)
{
    return !r->keep || r->keep[i];
}

/* ---- people ---- */

static dn_status index_people(reader *r, dn_err *err)
{
    dn_status status;
    uint64_t n = r->people->iid.n, prev;
    DN_TRY(dn_map_new(&r->by_key, n, err));
    DN_TRY(dn_alloc(&r->of_person, n, sizeof *r->of_person, "labels", err));
    DN_TRY(dn_alloc(&r->same, n, sizeof *r->same, "labels", err));
    for (uint64_t i = 0; i < n; i++) r->of_person[i] = r->same[i] = UINT64_MAX;
    if (r->id_cols == 2) {
        char key[2 * DN_MAX_ID + 2];
        for (uint64_t i = 0; i < n; i++) {
            int len = snprintf(key, sizeof key, "%s\t%s", dn_strs_get(&r->people->fid, i),
                               dn_strs_get(&r->people->iid, i));
            DN_TRY(dn_strs_add(&r->keys, key, (size_t)len < sizeof key ? (size_t)len : sizeof key - 1, err));
        }
    }
    for (uint64_t i = 0; i < n; i++) {
        const char *key = dn_strs_get(r->id_cols == 2 ? &r->keys : &r->people->iid, i);
        DN_TRY(dn_map_add(r->by_key, key, strlen(key), i, &prev, err));
        if (prev != UINT64_MAX) r->same[prev] = i;
    }
    status = DN_OK;
done:
    return status;
}

/* The person that the ID fields name; UINT64_MAX for nobody here. */
static uint64_t find_person(const reader *r, char *const *field)
{
    if (r->id_cols == 1) return dn_map_get(r->by_key, field[0], strlen(field[0]));
    char key[2 * DN_MAX_ID + 2];
    int len = snprintf(key, sizeof key, "%s\t%s", field[0], field[1]);
    return (size_t)len < sizeof key ? dn_map_get(r->by_key, key, (size_t)len) : UINT64_MAX;
}

/* ---- lines ---- */

/* Takes blanks off both ends; true if there were any. */
static bool trim(char **s)
{
    char *p = *s, *end = p + strlen(p);
    while (*p == ' ' || *p == '\v' || *p == '\f') p++;
    bool cut = p != *s;
    while (end > p && (end[-1] == ' ' || end[-1] == '\r' || end[-1] == '\v' || end[-1] == '\f'))
        end--, cut = true;
    *end = 0;
    *s = p;
    return cut;
}

static bool is_blank(const char *line)
{
    return line[strspn(line, " \t\r\v\f")] == 0;
}

/* Fields of the line; DN_EFORMAT unless there are just as many as expected. */
static dn_status split(const reader *r, char *line, char *field[3], bool *trimmed, dn_err *err)
{
    size_t want = (size_t)r->id_cols + 1;
    bool tab = strchr(line, '\t') != NULL;
    const char *hint = !tab && strchr(line, ',')   ? ": separate them by tabs, not commas"
                       : !tab && strchr(line, ' ') ? ": separate them by tabs, not blanks"
                                                   : "";
    size_t n = dn_split_tabs(line, field, 3);
    if (n == 3 && want == 2)
        hint = ": take the ID and label columns alone, or say --id-cols 2 if the first two are FID and IID";
    if (n == 2 && want == 3) hint = ": --id-cols 2 means FID, IID and label";
    if (n != want) {
        return dn_fail(err, DN_EFORMAT, "%s, line %llu: %zu fields found, %zu expected (%s)%s", r->path,
                       (ull)dn_text_line(r->t), n, want,
                       r->id_cols == 2 ? "FID, IID, label" : "sample ID, label", hint);
    }
    *trimmed = false;
    for (size_t k = 0; k < n; k++) *trimmed |= trim(&field[k]);
    for (size_t k = 0; k + 1 < n; k++) {
        if (!*field[k])
            return dn_fail(err, DN_EFORMAT, "%s, line %llu: the ID is empty", r->path,
                           (ull)dn_text_line(r->t));
        if (strlen(field[k]) > DN_MAX_ID) break;
    }
    for (size_t k = 0; k < n; k++) {
        if (strlen(field[k]) > DN_MAX_ID) {
            return dn_fail(err, DN_EFORMAT, "%s, line %llu: a field of %zu bytes, at most %d are allowed",
                           r->path, (ull)dn_text_line(r->t), strlen(field[k]), DN_MAX_ID);
        }
    }
    return DN_OK;
}

/* Is it a number, in any spelling? For recognising a first line that is data. */
static bool looks_numeric(const char *s)
{
    char *end;
    if (!*s) return false;
    strtod(s, &end);
    return *end == 0 || (*end == ',' && isdigit((unsigned char)end[1]));
}

static dn_status read_header(reader *r, dn_err *err)
{
    char *line, *field[3];
    size_t len;
    bool trimmed;
    dn_status status = dn_text_next(r->t, &line, &len, err);
    if (status != DN_OK) return status;
    if (!line || is_blank(line)) {
        return dn_fail(err, DN_EFORMAT,
                       "%s %s: a header line (such as sample<TAB>label) and one line per person are expected",
                       r->path, line ? "begins with an empty line" : "is empty");
    }
    status = split(r, line, field, &trimmed, err);
    if (status != DN_OK) return status;
    const char *label = field[r->id_cols];
    if (find_person(r, field) != UINT64_MAX || (r->kind == DN_LABELS_TARGET && looks_numeric(label))) {
        return dn_fail(err, DN_EFORMAT,
                       "%s, line 1: no header: it is data ('%s', '%s'); put a header line such as "
                       "sample<TAB>label before it",
                       r->path, field[r->id_cols - 1], label);
    }
    r->header = strdup(label);
    return r->header ? DN_OK : dn_fail(err, DN_ENOMEM, "out of memory");
}

/* A value of the regression file. */
static dn_status parse_target(const reader *r, const char *text, uint64_t line, double *v, dn_err *err)
{
    if (dn_parse_double(text, v)) return DN_OK;
    char *end;
    strtod(text, &end);
    const char *why = *end == ',' ? "write the decimal point as '.'"
                      : *end == 0 ? "only finite numbers can be learnt; leave it empty, or NA, for none"
                                  : "a number is expected; leave it empty, or NA, for none";
    return dn_fail(err, DN_EFORMAT, "%s, line %llu: the label '%s' is not a number: %s", r->path, (ull)line,
                   text, why);
}

/* A person once more: fine if the label is the same. */
static dn_status check_repeat(reader *r, uint64_t person, const char *label, dn_err *err)
{
    const entry *e = &r->entries[r->of_person[person]];
    const char *before = dn_strs_get(&r->label, r->of_person[person]);
    if (strcmp(before, label) == 0) {
        r->out->n_repeated++;
        return DN_OK;
    }
    return dn_fail(err, DN_EFORMAT, "%s: person %s has two labels: '%s' on line %llu, '%s' on line %llu",
                   r->path, dn_strs_get(&r->people->iid, person), before, (ull)e->line, label,
                   (ull)dn_text_line(r->t));
}

static dn_status note_unknown(reader *r, char *const *field, dn_err *err)
{
    char name[2 * DN_MAX_ID + 2];
    if (r->out->n_unknown++ >= DN_LABELS_NAMED) return DN_OK;
    int len = r->id_cols == 2 ? snprintf(name, sizeof name, "%s %s", field[0], field[1])
                              : snprintf(name, sizeof name, "%s", field[0]);
    return dn_strs_add(&r->out->unknown, name, (size_t)len < sizeof name ? (size_t)len : sizeof name - 1,
                       err);
}

static dn_status take_line(reader *r, char *line, dn_err *err)
{
    dn_status status;
    char *field[3];
    bool trimmed;
    DN_TRY(split(r, line, field, &trimmed, err));
    const char *label = field[r->id_cols];
    r->out->n_trimmed += trimmed;
    r->any_line = true;
    if (!r->first_id && !(r->first_id = strdup(field[r->id_cols - 1])))
        DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    if (strcmp(label, "NA") == 0) {
        r->out->n_na++;
        label = "";
    }
    if (*label && !r->header_is_label && strcmp(label, r->header) == 0) {
        r->header_is_label = true;
        r->header_twin = dn_text_line(r->t);
    }
    uint64_t person = find_person(r, field);
    if (r->kind == DN_LABELS_TARGET && *label) {
        double v;
        DN_TRY(parse_target(r, label, dn_text_line(r->t), &v, err));
    }
    if (person == UINT64_MAX) {
        DN_TRY(note_unknown(r, field, err));
        goto done;
    }
    if (r->id_cols == 1 && r->same[person] != UINT64_MAX) {
        DN_TRY(dn_fail(
            err, DN_EMISMATCH,
            "%s, line %llu: ID %s is shared by families %s and %s: give FID and IID, with --id-cols 2",
            r->path, (ull)dn_text_line(r->t), field[0], dn_strs_get(&r->people->fid, person),
            dn_strs_get(&r->people->fid, r->same[person])));
    }
    if (r->of_person[person] != UINT64_MAX) {
        DN_TRY(check_repeat(r, person, label, err));
        goto done;
    }
    DN_TRY(dn_grow(&r->entries, &r->n_cap, r->label.n + 1, sizeof *r->entries, "labels", err));
    r->entries[r->label.n] = (entry){person, dn_text_line(r->t)};
    r->of_person[person] = r->label.n;
    DN_TRY(dn_strs_add(&r->label, label, strlen(label), err));
done:
    return status;
}

static dn_status read_lines(reader *r, dn_err *err)
{
    dn_status status;
    uint64_t blank = 0;
    for (;;) {
        char *line;
        size_t len;
        DN_TRY(dn_text_next(r->t, &line, &len, err));
        if (!line) break;
        if (is_blank(line)) {
            if (!blank) blank = dn_text_line(r->t);
            continue;
        }
        if (blank)
            DN_TRY(dn_fail(err, DN_EFORMAT, "%s, line %llu is empty, with more lines after it", r->path,
                           (ull)blank));
        DN_TRY(take_line(r, line, err));
    }
    if (!r->any_line) DN_TRY(dn_fail(err, DN_EFORMAT, "%s holds a header but no labels", r->path));
    if (r->header_is_label && r->kind == DN_LABELS_CLASS) {
        DN_TRY(dn_fail(
            err, DN_EFORMAT,
            "%s, line 1: no header: its label '%s' is that of line %llu too; put a header line such as "
            "sample<TAB>label before it",
            r->path, r->header, (ull)r->header_twin));
    }
    if (r->label.n == 0) {
        const char *hint = r->first_id[0] == '"' ? ": the IDs of the file stand in quotes" : "";
        DN_TRY(dn_fail(err, DN_EMISMATCH,
                       "%s: no line names a person of the cohort: its first ID is '%s', the cohort's is '%s' "
                       "(FID '%s')%s",
                       r->path, r->first_id, dn_strs_get(&r->people->iid, 0), dn_strs_get(&r->people->fid, 0),
                       hint));
    }
    status = DN_OK;
done:
    return status;
}

/* ---- classes ---- */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Class names of kept people, sorted, and everybody's index. */
static dn_status make_classes(reader *r, dn_err *err)
{
    dn_status status;
    dn_map *m = NULL;
    const char **name = NULL;
    size_t n = 0, cap = 0;
    uint64_t prev;
    dn_labels *out = r->out;
    DN_TRY(dn_map_new(&m, 64, err));
    for (uint64_t e = 0; e < r->label.n; e++) {
        const char *label = dn_strs_get(&r->label, e);
        if (!*label || !kept(r, r->entries[e].person)) continue;
        DN_TRY(dn_map_add(m, label, strlen(label), 0, &prev, err));
        if (prev != UINT64_MAX) continue;
        if (n == DN_MAX_CLASSES) {
            DN_TRY(
                dn_fail(err, DN_EFORMAT,
                        "%s holds more than %llu different labels: is it the right column? For numbers, use "
                        "--regression-labels",
                        r->path, (ull)DN_MAX_CLASSES));
        }
        DN_TRY(dn_grow(&name, &cap, n + 1, sizeof *name, "classes", err));
        name[n++] = label;
    }
    if (n) qsort(name, n, sizeof *name, by_bytes);
    dn_map_free(m);
    m = NULL;
    DN_TRY(dn_map_new(&m, n, err));
    for (size_t c = 0; c < n; c++) {
        DN_TRY(dn_strs_add(&out->class_names, name[c], strlen(name[c]), err));
        DN_TRY(dn_map_add(m, name[c], strlen(name[c]), c, &prev, err));
    }
    for (uint64_t e = 0; e < r->label.n; e++) {
        const char *label = dn_strs_get(&r->label, e);
        if (!*label || !kept(r, r->entries[e].person)) continue;
        out->label[r->entries[e].person] = (int64_t)dn_map_get(m, label, strlen(label));
    }
    status = DN_OK;
done:
    dn_map_free(m);
    free(name);
    return status;
}

typedef struct {
    char *norm; /* lower case, without blanks */
    uint64_t index;
} plain_name;

static int by_norm(const void *a, const void *b)
{
    const plain_name *x = a, *y = b;
    int c = strcmp(x->norm, y->norm);
    return c ? c : (x->index > y->index) - (x->index < y->index);
}

/* Pairs of names that differ only by blanks or case. */
static dn_status find_near(reader *r, dn_err *err)
{
    dn_status status;
    dn_labels *out = r->out;
    uint64_t c = out->class_names.n, *count = NULL;
    plain_name *p = NULL;
    DN_TRY(dn_alloc(&p, c, sizeof *p, "classes", err));
    DN_TRY(dn_alloc(&count, c, sizeof *count, "classes", err));
    dn_labels_count(out, r->keep, r->people->iid.n, count);
    for (uint64_t i = 0; i < c; i++) {
        const char *s = dn_strs_get(&out->class_names, i);
        DN_TRY(dn_alloc(&p[i].norm, strlen(s) + 1, 1, "class name", err));
        p[i].index = i;
        char *to = p[i].norm;
        for (; *s; s++) {
            if (*s != ' ') *to++ = (char)tolower((unsigned char)*s);
        }
    }
    qsort(p, c, sizeof *p, by_norm);
    for (uint64_t i = 1; i < c; i++) {
        if (strcmp(p[i].norm, p[i - 1].norm) != 0) continue;
        char *text = NULL;
        int len = asprintf(&text, "'%s' (%llu) and '%s' (%llu)",
                           dn_strs_get(&out->class_names, p[i - 1].index), (ull)count[p[i - 1].index],
                           dn_strs_get(&out->class_names, p[i].index), (ull)count[p[i].index]);
        if (len < 0) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
        status = dn_strs_add(&out->near, text, (size_t)len, err);
        free(text);
        if (status != DN_OK) goto done;
    }
    status = DN_OK;
done:
    for (uint64_t i = 0; p && i < c; i++) free(p[i].norm);
    free(p);
    free(count);
    return status;
}

static dn_status make_targets(reader *r, dn_err *err)
{
    for (uint64_t i = 0; i < r->people->iid.n; i++) r->out->target[i] = NAN;
    for (uint64_t e = 0; e < r->label.n; e++) {
        const char *label = dn_strs_get(&r->label, e);
        uint64_t person = r->entries[e].person;
        if (!*label || !kept(r, person)) continue;
        dn_status status = parse_target(r, label, r->entries[e].line, &r->out->target[person], err);
        if (status != DN_OK) return status;
    }
    return DN_OK;
}

/* Counts kept people with and without a label, and names the first of those without. */
static dn_status count_people(reader *r, dn_err *err)
{
    dn_labels *out = r->out;
    for (uint64_t i = 0; i < r->people->iid.n; i++) {
        if (!kept(r, i)) continue;
        if (out->label ? out->label[i] >= 0 : !isnan(out->target[i])) {
            out->n_labelled++;
            continue;
        }
        if (out->n_without++ >= DN_LABELS_NAMED) continue;
        char name[2 * DN_MAX_ID + 2];
        int len = snprintf(name, sizeof name, "%s %s", dn_strs_get(&r->people->fid, i),
                           dn_strs_get(&r->people->iid, i));
        dn_status status =
            dn_strs_add(&out->without, name, (size_t)len < sizeof name ? (size_t)len : sizeof name - 1, err);
        if (status != DN_OK) return status;
    }
    if (out->n_labelled == 0)
        return dn_fail(err, DN_EMISMATCH, "%s: no person that is kept has a label", r->path);
    return DN_OK;
}

dn_status dn_labels_read(dn_labels *out, const char *path, dn_labels_kind kind, int id_cols,
                         const dn_people *people, const uint8_t *keep, dn_err *err)
{
    dn_status status;
    reader r = {.out = out, .path = path, .kind = kind, .id_cols = id_cols, .people = people, .keep = keep};
    uint64_t n = people->iid.n;
    memset(out, 0, sizeof *out);
    if (id_cols != 1 && id_cols != 2) DN_TRY(dn_fail(err, DN_EINTERNAL, "labels: %d ID columns", id_cols));
    DN_TRY(index_people(&r, err));
    DN_TRY(dn_text_open(&r.t, path, err));
    DN_TRY(read_header(&r, err));
    DN_TRY(read_lines(&r, err));
    if (kind == DN_LABELS_CLASS) {
        DN_TRY(dn_alloc(&out->label, n, sizeof *out->label, "labels", err));
        for (uint64_t i = 0; i < n; i++) out->label[i] = -1;
        DN_TRY(make_classes(&r, err));
        DN_TRY(find_near(&r, err));
    } else {
        DN_TRY(dn_alloc(&out->target, n, sizeof *out->target, "regression labels", err));
        DN_TRY(make_targets(&r, err));
    }
    DN_TRY(count_people(&r, err));
done:
    dn_text_close(r.t);
    dn_strs_free(&r.keys);
    dn_map_free(r.by_key);
    free(r.same);
    free(r.of_person);
    free(r.entries);
    dn_strs_free(&r.label);
    free(r.header);
    free(r.first_id);
    if (status != DN_OK) dn_labels_free(out);
    return status;
}

void dn_labels_free(dn_labels *l)
{
    if (!l) return;
    dn_strs_free(&l->class_names);
    free(l->label);
    free(l->target);
    dn_strs_free(&l->without);
    dn_strs_free(&l->unknown);
    dn_strs_free(&l->near);
    memset(l, 0, sizeof *l);
}

uint64_t dn_labels_apply(const dn_labels *classes, const dn_labels *targets, uint8_t *keep, uint64_t n_people)
{
    uint64_t left = 0;
    for (uint64_t i = 0; i < n_people; i++) {
        if (classes && classes->label[i] < 0) keep[i] = 0;
        if (targets && isnan(targets->target[i])) keep[i] = 0;
        left += keep[i] != 0;
    }
    return left;
}

void dn_labels_count(const dn_labels *l, const uint8_t *keep, uint64_t n_people, uint64_t *count)
{
    for (uint64_t c = 0; c < l->class_names.n; c++) count[c] = 0;
    for (uint64_t i = 0; i < n_people; i++) {
        if ((!keep || keep[i]) && l->label[i] >= 0) count[l->label[i]]++;
    }
}
