/* match_alleles.c: what two pairs of allele letters say about each other (see match.h). */
#include "match.h"

#include <string.h>
#include <strings.h>

static bool unseen(const char *a)
{
    return a[0] == 0 || ((a[0] == '0' || a[0] == '.') && a[1] == 0);
}

/* Are (c1, c2) the model's (m1, m2)? An unseen allele agrees with anything, but one pair at least must really
 * be equal. */
static bool agree(const char *m1, const char *m2, const char *c1, const char *c2)
{
    bool open1 = unseen(m1) || unseen(c1), open2 = unseen(m2) || unseen(c2);
    if (open1 && open2) return false;
    return (open1 || strcasecmp(m1, c1) == 0) && (open2 || strcasecmp(m2, c2) == 0);
}

/* The letter on the other strand as a string; NULL when `a` is no single base. An unseen allele stays as it
 * is. */
static const char *other_strand(const char *a)
{
    if (unseen(a)) return a;
    if (a[1]) return NULL;
    switch (a[0]) {
    case 'A':
    case 'a': return "T";
    case 'C':
    case 'c': return "G";
    case 'G':
    case 'g': return "C";
    case 'T':
    case 't': return "A";
    default: return NULL;
    }
}

dn_fit dn_match_alleles(const char *m1, const char *m2, const char *c1, const char *c2)
{
    /* One letter twice says nothing about which copy is counted. */
    if (!unseen(m1) && strcasecmp(m1, m2) == 0) return DN_FIT_NONE;
    if (!unseen(c1) && strcasecmp(c1, c2) == 0) return DN_FIT_NONE;
    bool same = agree(m1, m2, c1, c2), swap = agree(m1, m2, c2, c1);
    const char *f1 = other_strand(c1), *f2 = other_strand(c2);
    bool bases = f1 && f2 && other_strand(m1) && other_strand(m2);
    bool flip = bases && agree(m1, m2, f1, f2), flip_swap = bases && agree(m1, m2, f2, f1);
    if (same) return flip || flip_swap ? DN_FIT_AMB_SAME : DN_FIT_SAME;
    if (swap) return flip || flip_swap ? DN_FIT_AMB_SWAP : DN_FIT_SWAP;
    return flip ? DN_FIT_FLIP : flip_swap ? DN_FIT_FLIP_SWAP : DN_FIT_NONE;
}
