/* config.c: upstream's YAML configuration, read strictly (see config.h). */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "io.h"
#include "num.h"
#include "opt.h"

#define CONFIG_MAX_BYTES (1u << 20)

typedef enum { KEY_WHOLE, KEY_NUMBER, KEY_LIST } key_kind;

/* One row per key: the only place that knows it. Order = order of the canonical text. */
static const struct key {
    const char *name;
    key_kind kind;
    size_t at;   /* offset of the value in dn_config */
    size_t at_n; /* KEY_LIST: offset of its length */
    double min, max;
    bool open_min, open_max; /* min or max itself is not allowed */
    bool optional;
    const char *wanted;
} keys[] = {
    {"batch_size", KEY_WHOLE, offsetof(dn_config, batch_size), 0, 2, 1e9, false, false, false,
     "a whole number from 2 (batch normalisation has no variance in a batch of one)"},
    {"epochs", KEY_WHOLE, offsetof(dn_config, epochs), 0, 0, 1e6, false, false, false,
     "a whole number from 0 to 1000000"},
    {"input_dropout", KEY_NUMBER, offsetof(dn_config, input_dropout), 0, 0, 1, false, true, false,
     "a number from 0 to below 1"},
    {"dropout_main", KEY_NUMBER, offsetof(dn_config, dropout_main), 0, 0, 1, false, true, false,
     "a number from 0 to below 1"},
    {"lr_aux", KEY_NUMBER, offsetof(dn_config, lr_aux), 0, 0, 1e300, false, false, false,
     "a number from 0 up"},
    {"lr_main", KEY_NUMBER, offsetof(dn_config, lr_main), 0, 0, 1e300, false, false, false,
     "a number from 0 up"},
    {"learning_rate_annealing", KEY_NUMBER, offsetof(dn_config, learning_rate_annealing), 0, 0, 1e6, true,
     false, false, "a number above 0"},
    {"nb_hidden_u_aux", KEY_LIST, offsetof(dn_config, aux), offsetof(dn_config, n_aux), 0, 0, false, false,
     false, "a list of layer sizes such as [100, 100]"},
    {"nb_hidden_u_main", KEY_LIST, offsetof(dn_config, main), offsetof(dn_config, n_main), 0, 0, false, false,
     false, "a list of layer sizes such as [100], or [] for none"},
    {"uniform_init_limit", KEY_NUMBER, offsetof(dn_config, uniform_init_limit), 0, 0, 1e6, false, false,
     false, "a number from 0 up"},
    {"patience", KEY_WHOLE, offsetof(dn_config, patience), 0, 1, 1e6, false, false, false,
     "a whole number from 1 to 1000000"},
    {"seed", KEY_WHOLE, offsetof(dn_config, seed), 0, 0, 1.8e19, false, false, true,
     "a whole number from 0 up"},
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

typedef struct {
    yaml_parser_t yaml;
    const char *name;
    dn_config *c;
    size_t line_of[N_KEYS]; /* where each key was seen, 0 for not yet */
    dn_err *err;
} reader;

/* ---- events ---- */

static dn_status bad(reader *r, size_t line, const char *fmt, ...) DN_PRINTF(3, 4);
static dn_status bad(reader *r, size_t line, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return dn_fail(r->err, DN_EFORMAT, "%s, line %zu: %s", r->name, line, text);
}

static dn_status next_event(reader *r, yaml_event_t *ev)
{
    if (!yaml_parser_parse(&r->yaml, ev)) {
        size_t line = r->yaml.problem_mark.line + 1;
        /* Errors of the byte reader carry an offset and no mark. */
        if (r->yaml.error == YAML_READER_ERROR) {
            return dn_fail(r->err, DN_EFORMAT, "%s, byte %zu: %s: a configuration is UTF-8 text", r->name,
                           r->yaml.problem_offset, r->yaml.problem ? r->yaml.problem : "not readable");
        }
        return bad(r, line, "not YAML: %s%s%s", r->yaml.context ? r->yaml.context : "",
                   r->yaml.context ? ", " : "", r->yaml.problem ? r->yaml.problem : "it cannot be read");
    }
    return DN_OK;
}

static size_t line_of(const yaml_event_t *ev)
{
    return ev->start_mark.line + 1;
}

static const char *event_name(const yaml_event_t *ev)
{
    switch (ev->type) {
    case YAML_ALIAS_EVENT: return "an alias (*name)";
    case YAML_SEQUENCE_START_EVENT: return "a list";
    case YAML_MAPPING_START_EVENT: return "a mapping (key: value)";
    case YAML_SCALAR_EVENT: return "a value";
    default: return "nothing";
    }
}

/* Anchors and tags never change what a number means, and hide it: none is needed here. */
static dn_status check_plain(reader *r, const yaml_event_t *ev)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (ev->type == YAML_ALIAS_EVENT)
        return bad(r, line_of(ev), "aliases (*name) are not taken: write the value itself");
    if (ev->type == YAML_SCALAR_EVENT) anchor = ev->data.scalar.anchor, tag = ev->data.scalar.tag;
    if (ev->type == YAML_SEQUENCE_START_EVENT)
        anchor = ev->data.sequence_start.anchor, tag = ev->data.sequence_start.tag;
    if (ev->type == YAML_MAPPING_START_EVENT)
        anchor = ev->data.mapping_start.anchor, tag = ev->data.mapping_start.tag;
    if (anchor) return bad(r, line_of(ev), "anchors (&name) are not taken: write the value itself");
    if (tag) return bad(r, line_of(ev), "tags (!!type) are not taken: write the value itself");
    return DN_OK;
}

/* ---- values ---- */

static dn_status wrong_value(reader *r, size_t line, const char *key, const char *found, const char *wanted)
{
    return bad(r, line, "%s: found %.100s, wanted %s", key, found, wanted);
}

/* The text of a plain scalar; quoted ones are strings, whatever they look like. */
static dn_status plain_text(reader *r, const yaml_event_t *ev, const struct key *k, const char **text)
{
    size_t line = line_of(ev);
    if (ev->type != YAML_SCALAR_EVENT) return wrong_value(r, line, k->name, event_name(ev), k->wanted);
    *text = (const char *)ev->data.scalar.value;
    if (strlen(*text) != ev->data.scalar.length) return bad(r, line, "%s: a NUL byte in its value", k->name);
    if (ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) {
        return bad(r, line, "%s: found the string \"%.100s\", wanted %s: numbers are written without quotes",
                   k->name, *text, k->wanted);
    }
    if (!**text) return wrong_value(r, line, k->name, "no value", k->wanted);
    return DN_OK;
}

static dn_status set_whole(reader *r, const yaml_event_t *ev, const struct key *k, double min, double max,
                           uint64_t *out)
{
    const char *text;
    dn_status status = plain_text(r, ev, k, &text);
    if (status != DN_OK) return status;
    uint64_t v;
    if (!dn_parse_u64(text, &v) || (double)v < min || (double)v > max) {
        return wrong_value(r, line_of(ev), k->name, text, k->wanted);
    }
    *out = v;
    return DN_OK;
}

static dn_status set_number(reader *r, const yaml_event_t *ev, const struct key *k)
{
    const char *text;
    dn_status status = plain_text(r, ev, k, &text);
    if (status != DN_OK) return status;
    double v;
    if (!dn_parse_double(text, &v) || v < k->min || v > k->max || (k->open_min && v == k->min) ||
        (k->open_max && v == k->max)) {
        return wrong_value(r, line_of(ev), k->name, text, k->wanted);
    }
    *(double *)((char *)r->c + k->at) = v;
    return DN_OK;
}

static dn_status set_list(reader *r, const yaml_event_t *first, const struct key *k)
{
    uint64_t *units = (uint64_t *)((char *)r->c + k->at);
    size_t n = 0, line = line_of(first);
    if (first->type != YAML_SEQUENCE_START_EVENT) {
        const char *found =
            first->type == YAML_SCALAR_EVENT ? (const char *)first->data.scalar.value : event_name(first);
        return wrong_value(r, line, k->name, *found ? found : "no value", k->wanted);
    }
    for (;;) {
        yaml_event_t ev;
        dn_status status = next_event(r, &ev);
        if (status != DN_OK) return status;
        bool end = ev.type == YAML_SEQUENCE_END_EVENT;
        if (!end) {
            status = check_plain(r, &ev);
            if (status == DN_OK && n == DN_MAX_LAYERS) {
                status = bad(r, line_of(&ev), "%s: more than %d layers", k->name, DN_MAX_LAYERS);
            }
            if (status == DN_OK) {
                struct key item = *k;
                char wanted[64];
                snprintf(wanted, sizeof wanted, "a layer size from 1 to %llu",
                         (unsigned long long)DN_MAX_UNITS);
                item.wanted = wanted;
                status = set_whole(r, &ev, &item, 1, (double)DN_MAX_UNITS, &units[n]);
            }
            n++;
        }
        yaml_event_delete(&ev);
        if (status != DN_OK) return status;
        if (end) break;
    }
    if ((double)n < k->min) return bad(r, line, "%s: the list is empty, wanted %s", k->name, k->wanted);
    *(size_t *)((char *)r->c + k->at_n) = n;
    return DN_OK;
}

static dn_status read_value(reader *r, const struct key *k)
{
    yaml_event_t ev;
    dn_status status = next_event(r, &ev);
    if (status != DN_OK) return status;
    status = check_plain(r, &ev);
    if (status == DN_OK) {
        switch (k->kind) {
        case KEY_WHOLE:
            status = set_whole(r, &ev, k, k->min, k->max, (uint64_t *)((char *)r->c + k->at));
            break;
        case KEY_NUMBER: status = set_number(r, &ev, k); break;
        case KEY_LIST: status = set_list(r, &ev, k); break;
        }
    }
    yaml_event_delete(&ev);
    return status;
}

static dn_status find_key(reader *r, const yaml_event_t *ev, size_t *which)
{
    const char *names[N_KEYS];
    size_t line = line_of(ev);
    if (ev->type != YAML_SCALAR_EVENT)
        return bad(r, line, "found %s where a key was expected", event_name(ev));
    const char *name = (const char *)ev->data.scalar.value;
    for (size_t i = 0; i < N_KEYS; i++) {
        names[i] = keys[i].name;
        if (strcmp(name, keys[i].name) != 0) continue;
        if (r->line_of[i])
            return bad(r, line, "%s is given twice, first in line %zu: keep one", name, r->line_of[i]);
        r->line_of[i] = line;
        *which = i;
        return DN_OK;
    }
    const char *near = dn_nearest(name, names, N_KEYS);
    return bad(r, line, "unknown key \"%.100s\"%s%s%s", name,
               near ? ": did you mean "
                    : ": the keys are those of upstream's "
                      "configuration (docs/dntrain.md)",
               near ? near : "", near ? "?" : "");
}

static dn_status missing_keys(reader *r)
{
    char list[512] = "";
    size_t n = 0, used = 0;
    for (size_t i = 0; i < N_KEYS; i++) {
        if (r->line_of[i] || keys[i].optional) continue;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", n++ ? ", " : "", keys[i].name);
    }
    if (!n) return DN_OK;
    return dn_fail(r->err, DN_EFORMAT, "%s lacks %s: every key of upstream's configuration must be there",
                   r->name, list);
}

/* Reads events up to the one that opens the mapping (or the end of an empty file). */
static dn_status open_mapping(reader *r, bool *empty)
{
    *empty = false;
    for (;;) {
        yaml_event_t ev;
        dn_status status = next_event(r, &ev);
        if (status != DN_OK) return status;
        yaml_event_type_t type = ev.type;
        if (type == YAML_MAPPING_START_EVENT || type == YAML_SEQUENCE_START_EVENT ||
            type == YAML_ALIAS_EVENT) {
            status = check_plain(r, &ev);
        }
        size_t line = line_of(&ev);
        bool blank = type == YAML_SCALAR_EVENT && ev.data.scalar.length == 0;
        yaml_event_delete(&ev);
        if (status != DN_OK) return status;
        if (type == YAML_MAPPING_START_EVENT) return DN_OK;
        if (type == YAML_STREAM_END_EVENT || blank) {
            *empty = true;
            return DN_OK;
        }
        if (type == YAML_SCALAR_EVENT || type == YAML_SEQUENCE_START_EVENT) {
            return bad(r, line, "a configuration is lines of \"key: value\"");
        }
    }
}

static dn_status read_mapping(reader *r)
{
    for (;;) {
        yaml_event_t ev;
        size_t which = 0;
        dn_status status = next_event(r, &ev);
        if (status != DN_OK) return status;
        bool end = ev.type == YAML_MAPPING_END_EVENT;
        if (!end) {
            status = check_plain(r, &ev);
            if (status == DN_OK) status = find_key(r, &ev, &which);
        }
        yaml_event_delete(&ev);
        if (status != DN_OK) return status;
        if (end) return DN_OK;
        status = read_value(r, &keys[which]);
        if (status != DN_OK) return status;
    }
}

static dn_status read_end(reader *r)
{
    for (;;) {
        yaml_event_t ev;
        dn_status status = next_event(r, &ev);
        if (status != DN_OK) return status;
        bool more = ev.type == YAML_DOCUMENT_START_EVENT, end = ev.type == YAML_STREAM_END_EVENT;
        size_t line = line_of(&ev);
        yaml_event_delete(&ev);
        if (more) return bad(r, line, "a second document (---): one configuration to a file");
        if (end) return DN_OK;
    }
}

/* libyaml takes tabs in some places and not in others; editors show them as blanks. */
static dn_status check_tabs(const char *text, size_t len, const char *name, dn_err *err)
{
    size_t line = 1;
    bool comment = false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n')
            line++, comment = false;
        else if (text[i] == '#')
            comment = true;
        else if (text[i] == '\t' && !comment) {
            return dn_fail(err, DN_EFORMAT,
                           "%s, line %zu: a tab: YAML is indented and spaced with blanks only", name, line);
        }
    }
    return DN_OK;
}

dn_status dn_config_parse(dn_config *c, const char *text, size_t len, const char *name, dn_err *err)
{
    dn_status status;
    bool empty = false;
    reader r = {.name = name, .c = c, .err = err};
    memset(c, 0, sizeof *c);
    if (!yaml_parser_initialize(&r.yaml)) return dn_fail(err, DN_ENOMEM, "out of memory");
    DN_TRY(check_tabs(text, len, name, err));
    yaml_parser_set_input_string(&r.yaml, (const unsigned char *)text, len);
    DN_TRY(open_mapping(&r, &empty));
    if (!empty) {
        DN_TRY(read_mapping(&r));
        DN_TRY(read_end(&r));
    }
    DN_TRY(missing_keys(&r));
    c->has_seed = r.line_of[N_KEYS - 1] > 0;
    status = DN_OK;
done:
    yaml_parser_delete(&r.yaml);
    return status;
}

dn_status dn_config_read(dn_config *c, const char *path, dn_err *err)
{
    dn_kind kind;
    dn_mapped m = {0};
    dn_status status = dn_kind_of_file(path, &kind, err);
    if (status != DN_OK) return status;
    if (kind != DN_KIND_TEXT && kind != DN_KIND_EMPTY && kind != DN_KIND_UNKNOWN) {
        return dn_fail(err, DN_EFORMAT, "%s is %s: a configuration is a text file (YAML)", path,
                       dn_kind_name(kind));
    }
    DN_TRY(dn_mapped_open(&m, path, err));
    if (m.size > CONFIG_MAX_BYTES) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s has %zu bytes: too many for a configuration", path, m.size));
    }
    status = dn_config_parse(c, m.base ? (const char *)m.base : "", m.size, path, err);
done:
    dn_mapped_close(&m);
    return status;
}

/* ---- canonical text ---- */

dn_status dn_config_text(const dn_config *c, char **text, dn_err *err)
{
    size_t size = 0;
    *text = NULL;
    FILE *f = open_memstream(text, &size);
    if (!f) return dn_fail(err, DN_ENOMEM, "out of memory");
    for (size_t i = 0; i < N_KEYS; i++) {
        const void *at = (const char *)c + keys[i].at;
        char num[DN_NUM_MAX];
        fprintf(f, "%s: ", keys[i].name);
        if (keys[i].kind == KEY_WHOLE) {
            fprintf(f, "%llu", (unsigned long long)*(const uint64_t *)at);
        } else if (keys[i].kind == KEY_NUMBER) {
            /* A point, so that YAML 1.1 readers (PyYAML) see a number in 1e-05 as well. */
            const char *s = dn_num_format(*(const double *)at, num);
            const char *e = strchr(s, 'e');
            if (e && !strchr(s, '.'))
                fprintf(f, "%.*s.0%s", (int)(e - s), s, e);
            else
                fprintf(f, "%s%s", s, strchr(s, '.') ? "" : ".0");
        } else {
            size_t n = *(const size_t *)((const char *)c + keys[i].at_n);
            fputc('[', f);
            for (size_t k = 0; k < n; k++)
                fprintf(f, "%s%llu", k ? ", " : "", (unsigned long long)((const uint64_t *)at)[k]);
            fputc(']', f);
        }
        fputc('\n', f);
    }
    bool ok = !ferror(f);
    if (fclose(f) != 0 || !ok) {
        free(*text);
        *text = NULL;
        return dn_fail(err, DN_ENOMEM, "out of memory");
    }
    return DN_OK;
}

dn_status dn_config_hash(const dn_config *c, uint64_t *hash, dn_err *err)
{
    char *text;
    dn_status status = dn_config_text(c, &text, err);
    if (status == DN_OK) *hash = dn_hash(text, strlen(text));
    free(text);
    return status;
}

/* Value of `key` in a text of "key: value" lines: *len bytes at the returned place, or NULL. */
static const char *value_of(const char *text, const char *key, size_t key_len, size_t *len)
{
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        if (n > key_len + 1 && strncmp(p, key, key_len) == 0 && p[key_len] == ':' && p[key_len + 1] == ' ') {
            *len = n - key_len - 2;
            return p + key_len + 2;
        }
        p += n + (p[n] == '\n');
    }
    return NULL;
}

static bool skipped(const char *key, size_t len, const char *const *skip)
{
    for (; skip && *skip; skip++) {
        if (strlen(*skip) == len && strncmp(*skip, key, len) == 0) return true;
    }
    return false;
}

/* Lines of a that b lacks or has otherwise. */
static bool one_way(const char *a, const char *b, bool a_is_there, const char *const *skip, char *why,
                    size_t cap)
{
    for (const char *p = a; *p;) {
        size_t n = strcspn(p, "\n"), key = strcspn(p, ":\n"), len = 0;
        if (key < n && p[key + 1] == ' ' && !skipped(p, key, skip)) {
            const char *mine = p + key + 2, *other = value_of(b, p, key, &len);
            size_t mine_len = n - key - 2;
            if (!other) {
                snprintf(why, cap, "%.*s: %.*s %s, not given %s", (int)key, p, (int)mine_len, mine,
                         a_is_there ? "there" : "here", a_is_there ? "here" : "there");
                return true;
            }
            if (len != mine_len || strncmp(mine, other, len) != 0) {
                if (a_is_there)
                    snprintf(why, cap, "%.*s: %.*s there, %.*s here", (int)key, p, (int)mine_len, mine,
                             (int)len, other);
                else
                    snprintf(why, cap, "%.*s: %.*s there, %.*s here", (int)key, p, (int)len, other,
                             (int)mine_len, mine);
                return true;
            }
        }
        p += n + (p[n] == '\n');
    }
    return false;
}

bool dn_config_differs(const char *there, const char *here, const char *const *skip, char *why, size_t cap)
{
    return one_way(there, here, true, skip, why, cap) || one_way(here, there, false, skip, why, cap);
}

bool dn_config_get_u64(const char *text, const char *key, uint64_t *v)
{
    char num[32];
    size_t len = 0;
    const char *s = value_of(text, key, strlen(key), &len);
    if (!s || len >= sizeof num) return false;
    memcpy(num, s, len);
    num[len] = 0;
    return dn_parse_u64(num, v);
}
