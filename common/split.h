/* split.h: folds of a dataset in one file (docs/format-split.md): for every fold the people of its training,
 * validation and test set, as row numbers of the dataset, in an order that training follows. */
#ifndef DN_SPLIT_H
#define DN_SPLIT_H

#include "dn.h"
#include "io.h"

#define DN_SPLIT_MAJOR 1 /* another major version is refused */
#define DN_SPLIT_MINOR 0
#define DN_MAX_FOLDS   ((uint64_t)1 << 12)

typedef enum { DN_SPLIT_TRAIN, DN_SPLIT_VALID, DN_SPLIT_TEST, DN_SPLIT_SETS } dn_split_set;
extern const char *const dn_split_set_name[DN_SPLIT_SETS]; /* "train", "valid", "test" */

typedef struct {
    uint64_t n[DN_SPLIT_SETS];
    uint64_t *index[DN_SPLIT_SETS]; /* n[s] row numbers, each < n_people; owned; a reader may take one over
                                       and set it to NULL */
} dn_fold;

typedef struct {
    uint64_t n_folds;
    dn_fold *folds;
    uint64_t n_people;  /* rows of the dataset */
    uint64_t data_hash; /* its fingerprint (fingerprint.h) */
    uint64_t seed;      /* 0 when it was not drawn here */
    char *method;  /* "balanced", "unbalanced", "npz": what drew it; "+groups" behind it when groups were kept
                      together; owned */
    double ratio;  /* training share of unbalanced folds; NaN: does not apply */
    uint64_t hash; /* identity of all of the above: dn_split_hash() */
} dn_split;

/* The identity, from everything but `hash`; never 0. Defined in docs/format-split.md. */
uint64_t dn_split_hash(const dn_split *s);
/* Whole or not at all; same split, same bytes. Checks what dn_split_read checks (DN_EINTERNAL). Sets s->hash.
 */
DN_MUST_USE dn_status dn_split_write(const char *path, dn_split *s, unsigned out_flags, dn_err *err);
/* DN_EFORMAT: not a split, damaged (checksum), a row number out of range, a person twice in one fold;
 * DN_EUNSUPPORTED: another major version. */
DN_MUST_USE dn_status dn_split_read(dn_split **out, const char *path, dn_err *err);
void dn_split_free(dn_split *s);
/* The rules between sets: row numbers below n_people, nobody twice within a fold. DN_EFORMAT, `what` naming
 * the file. */
DN_MUST_USE dn_status dn_split_check(const dn_split *s, const char *what, dn_err *err);

#endif
