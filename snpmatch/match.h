/* match.h: which SNP of a cohort is which SNP of a model, and how its dosages become the model's (DESIGN
 * section 2).
 *
 * Pure: SNP lists in, one answer per model SNP out; no files, no printing, so every rule is tested by itself.
 * M is the number of the model's SNPs. The cohort's SNPs are given one at a time and not kept: memory grows
 * with M alone, and the answer does not depend on the order in which they are given.
 */
#ifndef SNPMATCH_MATCH_H
#define SNPMATCH_MATCH_H

#include "dn.h"
#include "tables.h"

/* ---- alleles ---- */

/* How a cohort SNP's allele letters relate to the model's. AMB_*: A/T and C/G SNPs, which look the same on
 * both strands; SAME or SWAP then says what the letters alone say, that is with both sides on one strand. */
typedef enum {
    DN_FIT_NONE = 0,
    DN_FIT_SAME,
    DN_FIT_SWAP,
    DN_FIT_FLIP,
    DN_FIT_FLIP_SWAP,
    DN_FIT_AMB_SAME,
    DN_FIT_AMB_SWAP
} dn_fit;

/* m1, m2: the model's A1 and A2; c1, c2: the cohort's. Letters are compared in upper case. "0" and "." stand
 * for an allele that was never seen (PLINK writes that for a SNP without variation): it agrees with anything
 * as long as the other allele decides. The other strand is tried for single letters A, C, G, T alone. */
dn_fit dn_match_alleles(const char *m1, const char *m2, const char *c1, const char *c2);

/* ---- matching ---- */

typedef enum { DN_BY_AUTO = 0, DN_BY_ID = 1, DN_BY_POS = 2 } dn_match_by;
typedef enum { DN_AMBIGUOUS_KEEP = 0, DN_AMBIGUOUS_DROP = 1, DN_AMBIGUOUS_FREQ = 2 } dn_match_ambiguous;

typedef struct {
    dn_match_by by;
    dn_match_ambiguous ambiguous;
    bool no_strand_flip; /* a SNP that fits only on the other strand counts as alleles-differ */
    bool no_alleles;     /* do not look at alleles, as when the model has none */
} dn_match_opts;

/* Exactly one per model SNP; the order is that of the summary's columns. */
typedef enum {
    DN_REASON_MATCHED = 0,
    DN_REASON_SWAPPED,
    DN_REASON_FLIPPED,
    DN_REASON_FLIPPED_SWAPPED,
    DN_REASON_AMBIGUOUS_KEPT,
    DN_REASON_AMBIGUOUS_DROPPED,
    DN_REASON_ALLELES_DIFFER,
    DN_REASON_DUPLICATE,
    DN_REASON_ABSENT,
    DN_N_REASONS
} dn_reason;
const char *dn_reason_name(dn_reason r); /* "flipped+swapped" */
/* Do genotypes of such a SNP reach the output? */
static inline bool dn_reason_used(dn_reason r)
{
    return r <= DN_REASON_AMBIGUOUS_KEPT;
}

/* Signs of another genome build. */
typedef enum {
    DN_BUILD_FINE = 0,
    DN_BUILD_MOVED,  /* IDs are found, but at other positions */
    DN_BUILD_CHANCE, /* few positions are found, and about half of those are swapped or flipped, as in chance
                        hits */
} dn_build_sign;

/* The answer. Arrays have M entries and belong to this struct: dn_match_free(). */
typedef struct {
    uint64_t n_model;
    dn_match_by by;       /* DN_BY_ID or DN_BY_POS: what was used */
    uint64_t n_id, n_pos; /* SNPs that each way would have used */
    uint8_t *reason;      /* dn_reason */
    uint8_t *map;         /* dn_geno_map of a used SNP: 0 = g, 1 = 2 - g */
    uint64_t *snp;        /* number of the cohort's SNP; UINT64_MAX when there is none to use */
    char **text; /* the cohort's SNP as "id\tchrom\tpos\ta1\ta2"; NULL for absent ones. Of several that
                    compete, the first in byte order, so that it does not depend on the order of rows */
    uint64_t count[DN_N_REASONS];
    uint64_t n_used; /* sum over the used reasons */
    dn_build_sign build;
    uint64_t id_same_pos,
        id_other_pos; /* model SNPs whose ID the cohort has at the same / at another position */
    uint64_t n_hits,
        n_reachable;          /* model SNPs with a candidate; model SNPs on chromosomes that the cohort has */
    uint64_t cohort_snps;     /* SNPs seen */
    uint64_t cohort_unplaced; /* of them, on chromosomes other than 1-26, X, Y, XY, MT: matched by ID alone */
    uint64_t cohort_ignored;  /* of them, left out for a negative position, as PLINK does */
} dn_match;
void dn_match_free(dn_match *m);

typedef struct dn_matcher dn_matcher;
/* model stays the caller's and must outlive the matcher. DN_EMISMATCH: by position with a model that has
 * none. */
DN_MUST_USE dn_status dn_matcher_new(dn_matcher **out, const dn_snps *model, const dn_match_opts *opts,
                                     dn_err *err);
/* One SNP of the cohort, number snp. Strings are not kept. */
DN_MUST_USE dn_status dn_matcher_add(dn_matcher *k, const char *chrom, const char *id, int64_t pos,
                                     const char *a1, const char *a2, uint64_t snp, dn_err *err);
/* The answer for all that was added; the matcher is empty afterwards and only to be freed. */
DN_MUST_USE dn_status dn_matcher_finish(dn_matcher *k, dn_match *out, dn_err *err);
void dn_matcher_free(dn_matcher *k);

/* --ambiguous freq: decides model SNP j, an ambiguous one, from frequencies of A1: `model` in the model's
 * training set, and a1 copies of the cohort's A1 among `called` people. Kept (perhaps as the other strand)
 * when both frequencies are clearly away from one half and 20 people were called; else dropped. Updates the
 * counts. */
void dn_match_decide(dn_match *m, uint64_t j, double model, uint64_t a1, uint64_t called,
                     bool no_strand_flip);

/* ---- frequencies ---- */

/* Do the cohort's frequencies agree with the model's? Sums of (p - 1/2)(q - 1/2) over SNPs with p of the
 * model and q of the cohort (after mapping), one set per reason. About one half and not about the mean,
 * because which allele is A1 is arbitrary: labels that lie turn q into 1 - q. */
typedef struct {
    uint64_t n[DN_N_REASONS];
    double pq[DN_N_REASONS], pp[DN_N_REASONS], qq[DN_N_REASONS];
} dn_match_freq;
/* a1, called: as above, from the cohort's own A1. Add in SNP order: sums of floats depend on it. */
void dn_match_freq_add(dn_match_freq *f, const dn_match *m, uint64_t j, double model, uint64_t a1,
                       uint64_t called);
/* The correlation about one half for one reason, and whether it is clearly negative (20 SNPs, 4 standard
 * errors). */
bool dn_match_freq_lies(const dn_match_freq *f, dn_reason r, double *corr);

#endif
