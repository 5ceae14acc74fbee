/* match_freq.c: what allele frequencies say: the strand of A/T and C/G SNPs, and labels that lie (see
 * match.h). */
#include "match.h"

#include <math.h>

#define FREQ_AWAY  0.1 /* "clearly away from one half" */
#define MIN_CALLED 20  /* people, to know a frequency */
#define MIN_SNPS   20  /* SNPs, to speak of a correlation */

void dn_match_decide(dn_match *m, uint64_t j, double model, uint64_t a1, uint64_t called, bool no_strand_flip)
{
    if (m->reason[j] != DN_REASON_AMBIGUOUS_KEPT) return;
    double p = model - 0.5, q = called ? (double)a1 / (2.0 * (double)called) - 0.5 : 0;
    if (m->map[j]) q = -q;
    bool sure = called >= MIN_CALLED && fabs(p) >= FREQ_AWAY && fabs(q) >= FREQ_AWAY;
    bool other_strand = p * q < 0;
    if (sure && !(other_strand && no_strand_flip)) {
        /* On the other strand A is T and C is G, so the alleles change places. */
        if (other_strand) m->map[j] = !m->map[j];
        return;
    }
    m->reason[j] = DN_REASON_AMBIGUOUS_DROPPED;
    m->snp[j] = UINT64_MAX;
    m->count[DN_REASON_AMBIGUOUS_KEPT]--;
    m->count[DN_REASON_AMBIGUOUS_DROPPED]++;
    m->n_used--;
}

void dn_match_freq_add(dn_match_freq *f, const dn_match *m, uint64_t j, double model, uint64_t a1,
                       uint64_t called)
{
    if (!called || !isfinite(model)) return;
    double p = model - 0.5, q = (double)a1 / (2.0 * (double)called) - 0.5;
    if (m->map[j]) q = -q;
    dn_reason r = (dn_reason)m->reason[j];
    f->n[r]++;
    f->pq[r] += p * q;
    f->pp[r] += p * p;
    f->qq[r] += q * q;
}

bool dn_match_freq_lies(const dn_match_freq *f, dn_reason r, double *corr)
{
    double scale = sqrt(f->pp[r] * f->qq[r]);
    *corr = scale > 0 ? f->pq[r] / scale : 0;
    return f->n[r] >= MIN_SNPS && *corr * sqrt((double)f->n[r]) < -4.0;
}
