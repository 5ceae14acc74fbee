/* write.h: the matched cohort as a .gpk (file or pipe) or as upstream's matched.h5. */
#ifndef SNPMATCH_WRITE_H
#define SNPMATCH_WRITE_H

#include "match.h"
#include "model_list.h"
#include "par.h"
#include "plink.h"

typedef struct {
    dn_plink *cohort;
    const dn_model_list *model;
    const dn_match *match;
    const uint8_t *keep; /* one byte per person of the cohort; NULL: all */
    bool no_alleles;     /* then no alleles are written: the cohort's may be others than the model's */
    uint64_t memory;     /* --memory: bound on what the program holds in all */
    dn_pool *pool;
    unsigned out_flags; /* DN_OUT_FORCE or 0 */
    void (*progress)(void *ctx, uint64_t people);
} dn_match_job;

/* Is this name an HDF5 file's (.h5, .hdf5)? Everything else, "-" too, is written as .gpk. */
bool dn_match_is_h5(const char *path);
/* Writes path whole or not at all. freq gets the frequency sums when the model has frequencies. */
DN_MUST_USE dn_status dn_match_write(const dn_match_job *job, const char *path, dn_match_freq *freq,
                                     dn_err *err);
/* --ambiguous freq: reads the rows of the A/T and C/G SNPs, for everybody in the cohort, and decides them. */
DN_MUST_USE dn_status dn_match_resolve(const dn_match_job *job, dn_match *m, bool no_strand_flip,
                                       dn_err *err);

#endif
