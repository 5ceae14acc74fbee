/* config.h: the training configuration, in upstream's YAML (docs/dntrain.md lists the keys).
 *
 * The file is one flat mapping; values are plain numbers or lists of whole numbers. Everything else that YAML
 * can say (quoted numbers, tags, anchors, aliases, nested mappings, a second document) is refused with its
 * line, and so is a key that is unknown, given twice or missing. */
#ifndef DN_CONFIG_H
#define DN_CONFIG_H

#include "dn.h"

/* Keys and ranges as upstream's train.py reads them. */
typedef struct {
    uint64_t batch_size; /* 2 or more: BatchNorm has no variance in a batch of one */
    uint64_t epochs;     /* 0: the initial model alone */
    uint64_t patience;   /* epochs without a better model before the run ends */
    uint64_t seed;       /* used modulo 2^32, as upstream's generators do */
    bool has_seed;       /* the file may leave `seed` out: it is then given on the command line */
    double input_dropout, dropout_main; /* [0, 1) */
    double lr_aux, lr_main;             /* >= 0 */
    double learning_rate_annealing;     /* > 0; both rates are multiplied by it after every epoch */
    double uniform_init_limit;          /* >= 0 */
    size_t n_aux, n_main; /* layers: auxiliary; hidden ones after the fat layer. Either may be 0 */
    uint64_t aux[DN_MAX_LAYERS], main[DN_MAX_LAYERS]; /* units */
} dn_config;

/* Reads and checks a file. Every message names the file, the line where there is one, what was found and what
 * is wanted. DN_EOPEN, or DN_EFORMAT. */
DN_MUST_USE dn_status dn_config_read(dn_config *c, const char *path, dn_err *err);
/* The same for text in memory; `name` stands for the file in messages. */
DN_MUST_USE dn_status dn_config_parse(dn_config *c, const char *text, size_t len, const char *name,
                                      dn_err *err);

/* The configuration as canonical text: upstream's keys in one order, a key per line, numbers in their
 * shortest exact form: two configurations are equal when their texts are, and dn_config_parse() reads it
 * back. free() it. */
DN_MUST_USE dn_status dn_config_text(const dn_config *c, char **text, dn_err *err);
/* dn_hash() of that text. */
DN_MUST_USE dn_status dn_config_hash(const dn_config *c, uint64_t *hash, dn_err *err);

/* Compares two texts of "key: value" lines: the first key whose line differs, as "epochs: 8 there, 10 here"
 * in why; false when they are the same. Keys in `skip` (names, NULL-terminated, may be NULL) are not
 * compared. */
bool dn_config_differs(const char *there, const char *here, const char *const *skip, char *why, size_t cap);
/* Value of a key in such a text as a whole number; false when it is not there. */
bool dn_config_get_u64(const char *text, const char *key, uint64_t *v);

#endif
