/* opt.c: table-driven command lines and strict numbers (see opt.h). */
#include "opt.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

bool dn_parse_u64(const char *s, uint64_t *v)
{
    uint64_t r = 0;
    if (!*s) return false;
    for (; *s; s++) {
        if (!isdigit((unsigned char)*s)) return false;
        if (!dn_mul(r, 10, &r) || !dn_add(r, (uint64_t)(*s - '0'), &r)) return false;
    }
    *v = r;
    return true;
}

bool dn_parse_i64(const char *s, int64_t *v)
{
    uint64_t r;
    bool neg = *s == '-';
    if (!dn_parse_u64(s + neg, &r) || r > INT64_MAX) return false;
    *v = neg ? -(int64_t)r : (int64_t)r;
    return true;
}

bool dn_parse_double(const char *s, double *v)
{
    char *end;
    const char *p = s + (*s == '-' || *s == '+');
    /* strtod also takes blanks, hex, "nan" and "inf": only plain decimal numbers are numbers here. */
    if (!isdigit((unsigned char)*p) && *p != '.') return false;
    for (const char *q = p; *q; q++) {
        if (!isdigit((unsigned char)*q) && !strchr(".eE+-", *q)) return false;
    }
    errno = 0;
    double r = strtod(s, &end);
    if (*end || end == s || !isfinite(r)) return false;
    *v = r;
    return true;
}

bool dn_parse_bytes(const char *s, uint64_t *v)
{
    size_t n = strlen(s);
    char num[32];
    int shift = 0;
    if (n == 0) return false;
    if (n >= 2 && toupper((unsigned char)s[n - 1]) == 'B' && !isdigit((unsigned char)s[n - 2])) n--;
    if (n >= 2 && s[n - 1] == 'i') n--;
    switch (toupper((unsigned char)s[n - 1])) {
    case 'K': shift = 10; break;
    case 'M': shift = 20; break;
    case 'G': shift = 30; break;
    case 'T': shift = 40; break;
    default: break;
    }
    if (shift) n--;
    if (n == 0 || n >= sizeof num) return false;
    memcpy(num, s, n);
    num[n] = 0;
    double d;
    uint64_t u;
    if (dn_parse_u64(num, &u)) return dn_mul(u, (uint64_t)1 << shift, v);
    if (!shift || !dn_parse_double(num, &d) || d < 0 || d > 1e6) return false;
    *v = (uint64_t)(d * (double)((uint64_t)1 << shift));
    return true;
}

bool dn_parse_range(const char *s, uint64_t *from, uint64_t *to)
{
    const char *colon = strchr(s, ':');
    char first[32];
    uint64_t a, b;
    if (!colon || (size_t)(colon - s) >= sizeof first) return false;
    memcpy(first, s, (size_t)(colon - s));
    first[colon - s] = 0;
    if (!dn_parse_u64(first, &a) || !dn_parse_u64(colon + 1, &b) || a < 1 || b < a) return false;
    *from = a - 1;
    *to = b;
    return true;
}

dn_status dn_parse_list(const char *what, const char *s, uint64_t **v, size_t *n, dn_err *err)
{
    dn_status status;
    size_t cap = *n; /* grown below; a first call has *v == NULL and *n == 0 */
    char *copy = strdup(s), *rest = copy, *item;
    if (!copy) return dn_fail(err, DN_ENOMEM, "out of memory");
    while ((item = strsep(&rest, ",")) != NULL) {
        uint64_t a, b;
        char *dash = strchr(item, '-');
        if (dash) *dash = 0;
        bool ok = dn_parse_u64(item, &a);
        b = a;
        if (ok && dash) ok = dn_parse_u64(dash + 1, &b) && b >= a && b - a < 1000000;
        if (!ok)
            DN_TRY(dn_fail(err, DN_EUSAGE, "%s \"%s\" is not a list of numbers such as 0-4 or 78,23,124",
                           what, s));
        for (uint64_t x = a; x <= b; x++) {
            DN_TRY(dn_grow(v, &cap, *n + 1, sizeof **v, what, err));
            (*v)[(*n)++] = x;
        }
    }
    status = DN_OK;
done:
    free(copy);
    return status;
}

/* Levenshtein distance of two short names. */
static size_t distance(const char *a, const char *b)
{
    size_t row[65], la = strlen(a), lb = strlen(b);
    if (la > 64 || lb > 64) return SIZE_MAX;
    for (size_t j = 0; j <= lb; j++) row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t diag = row[0];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = diag + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diag = row[j];
            row[j] = best;
        }
    }
    return row[lb];
}

const char *dn_nearest(const char *word, const char *const *names, size_t n)
{
    size_t best = SIZE_MAX, len = strlen(word);
    const char *hit = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, names[i]);
        /* A prefix is what people type when they guess at a longer name. */
        if (len >= 3 && strncmp(word, names[i], len) == 0 && d > 1) d = 1;
        if (d < best) best = d, hit = names[i];
    }
    return hit && best <= 1 + len / 3 ? hit : NULL;
}

static dn_status unknown_option(const char *shown, const char *name, const dn_opt *opts, size_t n,
                                dn_err *err)
{
    const char *names[256];
    size_t k = 0;
    for (size_t i = 0; i < n && k < 256; i++) {
        if (opts[i].kind != DN_OPT_GROUP) names[k++] = opts[i].name;
    }
    const char *near = name ? dn_nearest(name, names, k) : NULL;
    if (near)
        return dn_fail(err, DN_EUSAGE, "unknown option %s: did you mean --%s? (see --help)", shown, near);
    return dn_fail(err, DN_EUSAGE, "unknown option %s (see --help)", shown);
}

static bool takes_value(const dn_opt *o)
{
    return o->kind != DN_OPT_FLAG;
}

static dn_status range_error(const dn_opt *o, const char *text, dn_err *err)
{
    if (o->min == 0 && o->max == 0) {
        return dn_fail(err, DN_EUSAGE, "--%s \"%s\" is not a %s", o->name, text,
                       o->kind == DN_OPT_U64 ? "whole number" : "number");
    }
    return dn_fail(err, DN_EUSAGE, "--%s \"%s\" must be a %snumber from %g to %g", o->name, text,
                   o->kind == DN_OPT_U64 ? "whole " : "", o->min, o->max);
}

static dn_status set_choice(const dn_opt *o, const char *text, dn_err *err)
{
    char list[256];
    const char *names[32];
    size_t n = 0;
    snprintf(list, sizeof list, "%s", o->arg);
    for (char *rest = list, *item; (item = strsep(&rest, "|")) != NULL && n < 32;) names[n++] = item;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(text, names[i]) == 0) {
            *(int *)o->value = (int)i;
            return DN_OK;
        }
    }
    const char *near = dn_nearest(text, names, n);
    return dn_fail(err, DN_EUSAGE, "--%s \"%s\" must be one of %s%s%s%s", o->name, text, o->arg,
                   near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
}

static dn_status set_value(const dn_opt *o, const char *text, dn_err *err)
{
    bool any = o->min == 0 && o->max == 0;
    switch (o->kind) {
    case DN_OPT_FLAG: *(bool *)o->value = true; break;
    case DN_OPT_STR:
        if (!*text) return dn_fail(err, DN_EUSAGE, "--%s needs a value that is not empty", o->name);
        *(const char **)o->value = text;
        break;
    case DN_OPT_LIST:
        if (!*text) return dn_fail(err, DN_EUSAGE, "--%s needs a value that is not empty", o->name);
        return dn_strs_add(o->value, text, strlen(text), err);
    case DN_OPT_U64: {
        uint64_t v;
        if (!dn_parse_u64(text, &v) || (!any && ((double)v < o->min || (double)v > o->max)))
            return range_error(o, text, err);
        *(uint64_t *)o->value = v;
        break;
    }
    case DN_OPT_DOUBLE: {
        double v;
        if (!dn_parse_double(text, &v) || (!any && (v < o->min || v > o->max)))
            return range_error(o, text, err);
        *(double *)o->value = v;
        break;
    }
    case DN_OPT_BYTES:
        if (!dn_parse_bytes(text, o->value) || *(uint64_t *)o->value == 0) {
            return dn_fail(err, DN_EUSAGE, "--%s \"%s\" is not a size such as 512M or 2G", o->name, text);
        }
        break;
    case DN_OPT_CHOICE: return set_choice(o, text, err);
    case DN_OPT_GROUP: break;
    }
    return DN_OK;
}

static dn_status apply(const dn_opt *o, const char *text, dn_err *err)
{
    dn_status status = set_value(o, text, err);
    if (status == DN_OK && o->given) *o->given = true;
    return status;
}

static bool is_info(const dn_opt *o)
{
    return strcmp(o->name, "help") == 0 || strcmp(o->name, "version") == 0;
}

static dn_status parse_long(char *arg, char *next, bool *used_next, const dn_opt *opts, size_t n,
                            const dn_opt **hit, dn_err *err)
{
    char name[128];
    char *eq = strchr(arg, '=');
    size_t len = eq ? (size_t)(eq - arg) : strlen(arg);
    *used_next = false;
    *hit = NULL;
    snprintf(name, sizeof name, "%.*s", (int)(len < 120 ? len : 120), arg + 0);
    for (size_t i = 0; i < n; i++) {
        const dn_opt *o = &opts[i];
        if (o->kind == DN_OPT_GROUP || strcmp(o->name, name + 2) != 0) continue;
        *hit = o;
        if (!takes_value(o)) {
            if (eq) return dn_fail(err, DN_EUSAGE, "--%s takes no value", o->name);
            return apply(o, NULL, err);
        }
        if (eq) return apply(o, eq + 1, err);
        if (o->arg && o->arg[0] == '[') {
            if (o->given) *o->given = true;
            return DN_OK;
        }
        if (!next) return dn_fail(err, DN_EUSAGE, "--%s needs a value: %s", o->name, o->arg);
        *used_next = true;
        return apply(o, next, err);
    }
    return unknown_option(name, name + 2, opts, n, err);
}

static dn_status parse_short(char *arg, char *next, bool *used_next, const dn_opt *opts, size_t n,
                             const dn_opt **hit, dn_err *err)
{
    *used_next = false;
    *hit = NULL;
    for (char *p = arg + 1; *p; p++) {
        const dn_opt *o = NULL;
        for (size_t i = 0; i < n; i++) {
            if (opts[i].kind != DN_OPT_GROUP && opts[i].letter == *p) o = &opts[i];
        }
        if (!o) {
            char shown[3] = {'-', *p, 0};
            /* "-epochs" for "--epochs" is worth a hint too. */
            return unknown_option(p == arg + 1 && p[1] ? arg : shown, arg + 1, opts, n, err);
        }
        *hit = o;
        if (takes_value(o)) {
            if (o->arg && o->arg[0] == '[') {
                if (isdigit((unsigned char)p[1])) return apply(o, p + 1, err);
                if (o->given) *o->given = true;
                continue; /* "-zq": no value, and more letters */
            }
            if (p[1]) return apply(o, p + 1, err);
            if (!next) return dn_fail(err, DN_EUSAGE, "-%c (--%s) needs a value: %s", *p, o->name, o->arg);
            *used_next = true;
            return apply(o, next, err);
        }
        dn_status status = apply(o, NULL, err);
        if (status != DN_OK || is_info(o)) return status;
    }
    return DN_OK;
}

dn_status dn_opt_parse(int argc, char **argv, const dn_opt *opts, size_t n, dn_strs *operands, dn_err *err)
{
    bool only_operands = false;
    for (int i = 1; i < argc; i++) {
        char *a = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        const dn_opt *hit = NULL;
        bool used = false;
        dn_status status;
        if (only_operands || a[0] != '-' || a[1] == 0) {
            status = dn_strs_add(operands, a, strlen(a), err);
        } else if (strcmp(a, "--") == 0) {
            only_operands = true;
            continue;
        } else if (a[1] == '-') {
            status = parse_long(a, next, &used, opts, n, &hit, err);
        } else {
            status = parse_short(a, next, &used, opts, n, &hit, err);
        }
        if (status != DN_OK) return status;
        if (hit && is_info(hit)) return DN_OK;
        i += used;
    }
    return DN_OK;
}

static void format_bytes(char *buf, size_t cap, uint64_t v)
{
    static const char unit[] = "\0KMGT";
    int u = 0;
    while (u < 4 && v && v % 1024 == 0) v /= 1024, u++;
    snprintf(buf, cap, "%llu%.1s", (unsigned long long)v, u ? &unit[u] : "");
}

static void default_of(const dn_opt *o, char *buf, size_t cap)
{
    buf[0] = 0;
    switch (o->kind) {
    case DN_OPT_STR:
        if (*(const char **)o->value) snprintf(buf, cap, "%s", *(const char **)o->value);
        break;
    case DN_OPT_U64:
        if (*(uint64_t *)o->value) snprintf(buf, cap, "%llu", (unsigned long long)*(uint64_t *)o->value);
        break;
    case DN_OPT_DOUBLE: snprintf(buf, cap, "%g", *(double *)o->value); break;
    case DN_OPT_BYTES:
        if (*(uint64_t *)o->value) format_bytes(buf, cap, *(uint64_t *)o->value);
        break;
    case DN_OPT_CHOICE: {
        const char *p = o->arg;
        for (int k = *(int *)o->value; k > 0 && p; k--) p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL;
        if (p && *(int *)o->value >= 0) snprintf(buf, cap, "%.*s", (int)strcspn(p, "|"), p);
        break;
    }
    default: break;
    }
}

/* Prints text wrapped at column 100, continuation lines indented. */
static void wrap(FILE *f, const char *text, int at, int indent)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        if (at + (int)n > 100 && at > indent) {
            fprintf(f, "\n%*s", indent, "");
            at = indent;
        }
        fprintf(f, "%.*s", (int)n, text);
        at += (int)n;
        text += n;
        if (*text == ' ') {
            text++;
            if (at + 1 + (int)strcspn(text, " ") <= 100)
                fputc(' ', f), at++;
            else
                fprintf(f, "\n%*s", indent, ""), at = indent;
        }
    }
    fputc('\n', f);
}

void dn_opt_help(FILE *f, const char *usage, const char *about, const dn_opt *opts, size_t n,
                 const char *tail)
{
    fprintf(f, "%s\n\n%s\n", usage, about);
    for (size_t i = 0; i < n; i++) {
        const dn_opt *o = &opts[i];
        char left[128], text[1024], def[256];
        if (o->kind == DN_OPT_GROUP) {
            fprintf(f, "\n%s:\n", o->name);
            continue;
        }
        bool opt_arg = o->arg && o->arg[0] == '[';
        int k = snprintf(left, sizeof left, o->letter ? "  -%c, " : "      ", o->letter);
        snprintf(left + k, sizeof left - (size_t)k, "--%s%s%s", o->name,
                 !o->arg   ? ""
                 : opt_arg ? ""
                           : " ",
                 o->arg ? o->arg : "");
        default_of(o, def, sizeof def);
        snprintf(text, sizeof text, "%s%s%s%s", o->help, *def ? " [" : "", def, *def ? "]" : "");
        int w = fprintf(f, "%s", left);
        if (w < 30)
            w += fprintf(f, "%*s", 30 - w, "");
        else
            w = fprintf(f, "\n%*s", 30, "") - 1;
        wrap(f, text, w, 30);
    }
    if (tail && *tail) fprintf(f, "\n%s\n", tail);
}

dn_status dn_common_finish(dn_common *c, dn_err *err)
{
    if (c->threads) return DN_OK;
    const char *slurm = getenv("SLURM_CPUS_PER_TASK");
    if (slurm && *slurm) {
        if (!dn_parse_u64(slurm, &c->threads) || c->threads < 1 || c->threads > 1024) {
            return dn_fail(
                err, DN_EUSAGE,
                "SLURM_CPUS_PER_TASK \"%s\" is not a number from 1 to 1024: unset it or give --threads",
                slurm);
        }
        return DN_OK;
    }
    cpu_set_t set;
    c->threads = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        c->threads = (uint64_t)CPU_COUNT(&set);
    return DN_OK;
}
