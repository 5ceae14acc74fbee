/* plink.h: PLINK 1 filesets (.bed/.bim/.fam): one, several (per chromosome), or PREFIX with '@' for the
 * chromosome. Everything is checked against everything else before a genotype is read: .bed size in 64 bits
 * against .bim and .fam, all .fam files against the first in people and order. Genotypes are read with pread
 * into the caller's buffers, so memory does not depend on the size of the .bed. */
#ifndef DN_PLINK_H
#define DN_PLINK_H

#include "dn.h"
#include "tables.h"

/* One .bim line. Pointers are valid until the next call. */
typedef struct {
    const char *chrom, *id, *a1, *a2;
    int64_t pos;
    uint64_t line;
} dn_bim_rec;

/* Reads a .fam: six fields of blanks or tabs; a duplicate FID+IID, a line of another width or an empty line
 * inside is DN_EFORMAT with the line number(s); 0 people is DN_EFORMAT. */
DN_MUST_USE dn_status dn_fam_read(const char *path, dn_people *people, dn_err *err);

typedef struct dn_bim dn_bim; /* a .bim read line by line: any size in little memory */
DN_MUST_USE dn_status dn_bim_open(dn_bim **out, const char *path, dn_err *err);
/* *more = false at the end. Positions must be whole numbers (1e+05 is refused with a hint); negative ones
 * pass, as in PLINK they mean "ignore this SNP", and are returned as they are. */
DN_MUST_USE dn_status dn_bim_next(dn_bim *b, dn_bim_rec *rec, bool *more, dn_err *err);
void dn_bim_close(dn_bim *b);
/* The whole .bim as a table. */
DN_MUST_USE dn_status dn_bim_read(const char *path, dn_snps *snps, dn_err *err);

typedef struct {
    char *prefix, *bed, *bim, *fam; /* paths, owned */
    int fd;                         /* of the .bed */
    uint64_t n_snps, first_snp;     /* SNP k of this set is SNP first_snp + k of the cohort */
    uint64_t row_bytes, size;
    bool snp_major;     /* byte 3 of the .bed */
    bool padding_dirty; /* set by dn_plink_read when non-zero padding bits were seen: worth one warning */
} dn_fileset;

typedef struct {
    dn_people people;
    uint64_t n_snps;
    size_t n_sets;
    dn_fileset *sets;
} dn_plink; /* the lines of each .bim are counted at open; its fields are checked when dn_bim_next comes to
               them */

/* prefixes: as given by the user (--bfile, repeatable); '@' in a single one is expanded to the
 * chromosomes 1..26, X, Y, XY, MT that exist (at least one; both "chr@" spellings work as the user writes
 * them). "x.bed" is accepted for "x". */
DN_MUST_USE dn_status dn_plink_open(dn_plink **out, const dn_strs *prefixes, dn_err *err);
void dn_plink_close(dn_plink *p);

/* One SNP's .bed row for people [person, person + n): SNP-major sets only. person % 4 == 0. buf gets
 * ceil(n/4) bytes of PLINK codes; calls past the n-th in its last byte are missing (01), whatever the file
 * holds there. snp is the cohort's number. Thread-safe. */
DN_MUST_USE dn_status dn_plink_read_snp(dn_plink *p, uint64_t snp, uint64_t person, uint64_t n, uint8_t *buf,
                                        dn_err *err);
/* The same shape of result for a sample-major set is made by transposing blocks; this reader hides the
 * difference: fills bufs[k] (each ceil(n/4) bytes) for SNPs snp[k], k < n_want, people [person, person + n).
 * person % 4 == 0. Any order of SNPs works; increasing order is fastest (neighbours of whole rows are read by
 * one call). */
DN_MUST_USE dn_status dn_plink_read_block(dn_plink *p, const uint64_t *snp, size_t n_want, uint64_t person,
                                          uint64_t n, uint8_t *const *bufs, dn_err *err);

/* --keep/--remove FILE (FID IID per line, or IID alone: --id-cols) and --extract/--exclude FILE (SNP ID per
 * line). Any of the names may be NULL. *keep: n bytes (1 = keep), allocated; *n_missing: lines that name
 * nobody here (counted, first few in `missing` if not NULL). */
DN_MUST_USE dn_status dn_keep_people(const dn_people *p, const char *keep_file, const char *remove_file,
                                     uint8_t **keep, dn_strs *missing, uint64_t *n_missing, dn_err *err);
DN_MUST_USE dn_status dn_keep_snps(const dn_strs *ids, const char *extract_file, const char *exclude_file,
                                   uint8_t **keep, dn_strs *missing, uint64_t *n_missing, dn_err *err);

#endif
