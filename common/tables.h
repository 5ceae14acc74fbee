/* tables.h: the two lists that every file carries: people and SNPs. IDs are byte strings, kept as written. */
#ifndef DN_TABLES_H
#define DN_TABLES_H

#include "dn.h"

/* n byte strings in one arena, each NUL-terminated: string i is buf + off[i]. Zero-initialise before use. */
typedef struct {
    uint64_t n;
    uint64_t *off;
    char *buf;
    size_t n_cap, used, cap;
} dn_strs;

/* Appends s (len bytes, no NUL inside). DN_ENOMEM on failure. */
DN_MUST_USE dn_status dn_strs_add(dn_strs *t, const char *s, size_t len, dn_err *err);
static inline const char *dn_strs_get(const dn_strs *t, uint64_t i)
{
    return t->buf + t->off[i];
}
size_t dn_strs_max_len(const dn_strs *t); /* longest string in bytes, without NUL; 0 for none */
void dn_strs_free(dn_strs *t);            /* frees the contents, zeroes *t; NULL is fine */
bool dn_strs_equal(const dn_strs *a, const dn_strs *b);
/* Fingerprint of the list: lengths and bytes, so that no two different lists collide by joining. */
uint64_t dn_strs_hash(const dn_strs *t);

/* People in file order. fid and iid both have n strings. A person is FID+IID. */
typedef struct {
    dn_strs fid, iid;
} dn_people;
void dn_people_free(dn_people *p);
bool dn_people_equal(const dn_people *a, const dn_people *b);

/* SNPs in file order; id has n strings. chrom, a1, a2 have n strings or none (n == 0: not known);
 * pos has n entries or is NULL. chrom is as written in the file; compare with dn_chrom_code(). a1 is .bim
 * column 5, the allele that dosages count. */
typedef struct {
    dn_strs id, chrom, a1, a2;
    int64_t *pos;
} dn_snps;
void dn_snps_free(dn_snps *s);
static inline bool dn_snps_have_alleles(const dn_snps *s)
{
    return s->a1.n == s->id.n && s->id.n > 0;
}
static inline bool dn_snps_have_pos(const dn_snps *s)
{
    return s->pos && s->chrom.n == s->id.n && s->id.n > 0;
}
/* Fingerprint of IDs and, if present, upper-cased alleles: two models or files with the same SNP list agree
 * in it. Positions and chromosome names are left out: they change with the genome build and with spelling. */
uint64_t dn_snps_hash(const dn_snps *s);

/* Chromosome name -> number: "1" "01" "chr1" "CHR1" -> 1; X 23, Y 24, XY/PAR1/PAR2 25, MT/M 26; 1..26 by
 * number; 0 (unplaced), unknown names (scaffold_3, chrUn_1) and the empty name -> 0. */
int dn_chrom_code(const char *name);

/* A set of byte strings -> index (first one added wins). Keys are not copied: they must outlive the map and
 * not move (fill a dn_strs first, then map it). */
typedef struct dn_map dn_map;
DN_MUST_USE dn_status dn_map_new(dn_map **out, uint64_t expected, dn_err *err);
/* Adds key (len bytes). *prev = index already stored under the key, or UINT64_MAX when it was new and value
 * was stored. */
DN_MUST_USE dn_status dn_map_add(dn_map *m, const char *key, size_t len, uint64_t value, uint64_t *prev,
                                 dn_err *err);
uint64_t dn_map_get(const dn_map *m, const char *key, size_t len); /* UINT64_MAX: not there */
void dn_map_free(dn_map *m);

#endif
