/* opt.h: command lines, from one table per program. The table is the only place that knows a flag: parsing,
 * --help (with the defaults it finds in the struct), nearest-name hints and shell completion all come from
 * it. */
#ifndef DN_OPT_H
#define DN_OPT_H

#include <stdio.h>

#include "dn.h"
#include "tables.h"

typedef enum {
    DN_OPT_GROUP,  /* a heading in --help; name is its text */
    DN_OPT_FLAG,   /* bool *: set to true */
    DN_OPT_STR,    /* const char **: the argument itself, not copied */
    DN_OPT_LIST,   /* dn_strs *: each use adds one */
    DN_OPT_U64,    /* uint64_t *: within [min, max] */
    DN_OPT_DOUBLE, /* double *: within [min, max], finite */
    DN_OPT_BYTES,  /* uint64_t *: with K, M, G, T (powers of 1024) */
    DN_OPT_CHOICE  /* int *: index into choices "a|b|c" */
} dn_opt_kind;

typedef struct {
    dn_opt_kind kind;
    const char *name; /* long name without dashes */
    char letter;      /* short form, or 0 */
    void *value;
    const char *arg;  /* metavar for --help; for DN_OPT_CHOICE the choices "a|b|c"; NULL for flags.
                         "[X]" makes the argument optional (only as --name=X or -zX; U64 only): *value keeps
                         its default */
    double min, max;  /* for U64 and DOUBLE; both 0 = any */
    const char *help; /* one sentence; the default is added unless it is empty */
    bool *given;      /* set to true when the option is used, or NULL */
} dn_opt;

/* Parses argv[1..]; operands (not options; "-" is one; all after "--") go to operands in order. "--name
 * value",
 * "--name=value", "-n value", "-nvalue", "-abc" for flags. DN_EUSAGE names the option and, for an unknown
 * one, the nearest name. Stops early and returns DN_OK when --help or --version was seen, without checking
 * the rest. */
DN_MUST_USE dn_status dn_opt_parse(int argc, char **argv, const dn_opt *opts, size_t n, dn_strs *operands,
                                   dn_err *err);
/* Prints usage, description, grouped options with defaults, and the tail text, to f. */
void dn_opt_help(FILE *f, const char *usage, const char *about, const dn_opt *opts, size_t n,
                 const char *tail);

/* Nearest of n names to `word` by edit distance, or NULL when none is near. */
const char *dn_nearest(const char *word, const char *const *names, size_t n);

/* Strict numbers in the C locale: the whole string, no sign for unsigned, no blanks, nan/inf refused. false
 * on error. */
bool dn_parse_u64(const char *s, uint64_t *v);
bool dn_parse_i64(const char *s, int64_t *v);
bool dn_parse_double(const char *s, double *v);
bool dn_parse_bytes(const char *s, uint64_t *v);
/* "FIRST:LAST", 1-based and inclusive -> [*from, *to) from 0. false on error. */
bool dn_parse_range(const char *s, uint64_t *from, uint64_t *to);
/* "0-4" or "78,23,124" or a mix -> values in order, appended to *v (dn_grow'd; free with free()). */
DN_MUST_USE dn_status dn_parse_list(const char *what, const char *s, uint64_t **v, size_t *n, dn_err *err);

/* Options that every program has. */
typedef struct {
    uint64_t threads; /* 0 until dn_common_finish(): then SLURM_CPUS_PER_TASK, else the CPUs this process may
                         use */
    uint64_t memory;  /* bytes */
    bool quiet, verbose, help, version, force;
} dn_common;
#define DN_COMMON_DEFAULT                                                                                    \
    {                                                                                                        \
        .memory = (uint64_t)1 << 30                                                                          \
    }
#define DN_COMMON_OPTS(c)                                                                                    \
    {DN_OPT_GROUP, "Common", 0, NULL, NULL, 0, 0, NULL, NULL},                                               \
        {DN_OPT_U64, "threads",                                                                              \
         '@',        &(c).threads,                                                                           \
         "N",        1,                                                                                      \
         1024,       "worker threads (default: SLURM_CPUS_PER_TASK, else the CPUs this process may use)",    \
         NULL},                                                                                              \
        {DN_OPT_BYTES, "memory", 0, &(c).memory, "SIZE", 0, 0, "bound on working memory", NULL},             \
        {DN_OPT_FLAG, "force", 'f', &(c).force, NULL, 0, 0, "replace an existing output", NULL},             \
        {DN_OPT_FLAG, "quiet", 'q', &(c).quiet, NULL, 0, 0, "only warnings and errors on stderr", NULL},     \
        {DN_OPT_FLAG, "verbose", 'v', &(c).verbose, NULL, 0, 0, "more detail on stderr", NULL},              \
        {DN_OPT_FLAG, "help", 'h', &(c).help, NULL, 0, 0, "print this help and exit", NULL},                 \
    {                                                                                                        \
        DN_OPT_FLAG, "version", 'V', &(c).version, NULL, 0, 0,                                               \
            "print version, build and libraries and exit", NULL                                              \
    }
/* Fills threads; DN_EUSAGE when SLURM_CPUS_PER_TASK is set and is not a number. */
DN_MUST_USE dn_status dn_common_finish(dn_common *c, dn_err *err);

#endif
