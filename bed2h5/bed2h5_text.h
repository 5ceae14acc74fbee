/* bed2h5_text.h: genotypes from text, one line per person: upstream's tab-separated table, or PLINK's .raw.
 */
#ifndef BED2H5_TEXT_H
#define BED2H5_TEXT_H

#include "dn.h"
#include "tables.h"

typedef enum { B2H_TSV, B2H_RAW } b2h_kind;

/* A table whose header and IDs were read. N people, M SNPs. */
typedef struct {
    b2h_kind kind;
    const char *path;
    char sep;      /* between fields: tab, or a blank in PLINK 1.9's .raw */
    size_t n_lead; /* fields before the genotypes: 1, or 6 */
    uint64_t n_people;
    dn_people people; /* N, in the order of the file; FID "0" in a .tsv; a caller may take it over */
    dn_snps snps;   /* M; .raw: IDs without the allele, a1 = the counted allele, a2 = "" where the header does
                       not say */
    bool all_a2;    /* every a2 is known */
    uint64_t *line; /* N: where each person stands */
    uint64_t n_swapped; /* columns whose counted allele is A2 of the .bim */
} b2h_text;

/* Reads the header line and everybody's ID (the whole file once). bim: a .bim that gives chromosome, position
 * and alleles by SNP ID, or NULL. DN_EFORMAT with line and field; DN_EMISMATCH where .bim and header
 * disagree. */
DN_MUST_USE dn_status b2h_text_open(b2h_text *t, const char *path, b2h_kind kind, const char *bim,
                                    dn_err *err);
/* The SNPs of the columns taken, added to *to; alleles only where both are known for all. */
DN_MUST_USE dn_status b2h_text_snps(const b2h_text *t, const uint8_t *keep_snp, dn_snps *to, dn_err *err);
/* Reads the genotypes and hands on a packed row (stride row_bytes) for every person with keep[i] (N bytes),
 * of the columns with keep_snp[j] (M bytes; NULL: all). DN_EFORMAT with line, column, SNP and what stands
 * there. */
DN_MUST_USE dn_status b2h_text_rows(const b2h_text *t, const uint8_t *keep, const uint8_t *keep_snp,
                                    uint64_t row_bytes,
                                    dn_status (*row)(void *ctx, const uint8_t *row, dn_err *err), void *ctx,
                                    dn_err *err);
void b2h_text_close(b2h_text *t);

#endif
