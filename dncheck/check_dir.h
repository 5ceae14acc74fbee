/* check_dir.h: a directory of packages: is an array of (fold, seed) tasks whole, and each what it should be?
 */
#ifndef DNCHECK_CHECK_DIR_H
#define DNCHECK_CHECK_DIR_H

#include "check_file.h"
#include "dataset.h"
#include "findings.h"
#include "package.h"
#include "split.h"

/* One package of the directory, or what is there instead of it. */
typedef struct {
    uint64_t fold, seed;
    char *name; /* "seed78_fold0" */
    char *path; /* DIR/seed78_fold0.h5 */
    uint64_t bytes;
    dn_package_in *package; /* NULL: absent or unreadable */
} check_member;

typedef struct {
    size_t n;
    check_member *members; /* of the expected grid, fold by fold, each fold's seeds in the order given */
    size_t n_good;         /* with a package that could be read */
} check_members;

typedef struct {
    const uint64_t *folds,
        *seeds; /* expected; n_folds == 0: from the split, else those that are there; the same for seeds */
    size_t n_folds, n_seeds;
    const dn_split *split; /* or NULL */
    bool has_data;
    uint64_t data_hash; /* of the dataset, when has_data */
} check_expect;

/* Adds findings about every expected member and about the whole; *out holds what could be read (its aux nets,
 * logs and configurations only under o->full). Findings: package (each), grid, unfinished, log, sizes,
 * weights-distinct, weights-moved, same-snps, same-classes, split, dataset. */
DN_MUST_USE dn_status check_directory(findings *f, check_members *out, const char *dir,
                                      const check_expect *want, const check_opts *o, dn_err *err);
void check_members_free(check_members *m);

#endif
