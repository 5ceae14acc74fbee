/* report.c: tables, warnings and the report file (see report.h). */
#include "report.h"

#include <stdio.h>
#include <string.h>

#include "log.h"

typedef unsigned long long ull;

enum { N_CHROMS = 27 }; /* 0: not known */

typedef struct {
    uint64_t model, used, reason[DN_N_REASONS];
} tally;

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void count_chroms(const dn_model_list *l, const dn_match *m, tally t[N_CHROMS])
{
    bool known = l->snps->chrom.n == m->n_model;
    memset(t, 0, N_CHROMS * sizeof *t);
    for (uint64_t j = 0; j < m->n_model; j++) {
        tally *c = &t[known ? dn_chrom_code(dn_strs_get(&l->snps->chrom, j)) : 0];
        c->model++;
        c->used += dn_reason_used((dn_reason)m->reason[j]);
        c->reason[m->reason[j]]++;
    }
}

static const char *chrom_name(int code, char buf[16])
{
    static const char *const named[] = {"X", "Y", "XY", "MT"};
    if (code == 0) return "other";
    if (code >= 23) return named[code - 23];
    snprintf(buf, 16, "%d", code);
    return buf;
}

static void print_row(const char *name, const tally *t)
{
    const uint64_t *r = t->reason;
    dn_info("%10s %8llu %8llu %8llu %8llu %8llu %9llu %10llu %10llu %7llu %9llu %8llu", name, (ull)t->model,
            (ull)t->used, (ull)r[DN_REASON_MATCHED], (ull)r[DN_REASON_SWAPPED], (ull)r[DN_REASON_FLIPPED],
            (ull)r[DN_REASON_FLIPPED_SWAPPED], (ull)r[DN_REASON_AMBIGUOUS_KEPT],
            (ull)r[DN_REASON_AMBIGUOUS_DROPPED], (ull)r[DN_REASON_ALLELES_DIFFER],
            (ull)r[DN_REASON_DUPLICATE], (ull)r[DN_REASON_ABSENT]);
}

void dn_report_summary(const dn_model_list *l, const dn_match *m)
{
    tally t[N_CHROMS], all = {.model = m->n_model, .used = m->n_used};
    char name[16];
    count_chroms(l, m, t);
    memcpy(all.reason, m->count, sizeof all.reason);
    dn_info("%10s %8s %8s %8s %8s %8s %9s %10s %10s %7s %9s %8s", "chromosome", "model", "used", "matched",
            "swapped", "flipped", "flip+swap", "ambig-kept", "ambig-drop", "differ", "duplicate", "absent");
    for (int k = 1; k <= N_CHROMS; k++) {
        int c = k % N_CHROMS; /* those without a known chromosome last */
        if (t[c].model && t[c].model < m->n_model) print_row(chrom_name(c, name), &t[c]);
    }
    print_row("all", &all);
    uint64_t other = m->by == DN_BY_POS ? m->n_id : m->n_pos;
    dn_info("matched by %s: %llu of the model's %llu SNPs are used (%.1f %%); by %s it would be %llu",
            m->by == DN_BY_POS ? "position" : "ID", (ull)m->n_used, (ull)m->n_model,
            percent(m->n_used, m->n_model), m->by == DN_BY_POS ? "ID" : "position", (ull)other);
    if (m->cohort_unplaced && m->by == DN_BY_POS) {
        dn_info("%llu SNPs of the cohort are on none of the chromosomes 1-26, X, Y, XY, MT: skipped",
                (ull)m->cohort_unplaced);
    }
    if (m->cohort_ignored) {
        dn_info("%llu SNPs of the cohort have a negative position: left out, as PLINK does",
                (ull)m->cohort_ignored);
    }
}

void dn_report_warn(const dn_model_list *l, const dn_match *m, const dn_match_opts *opts)
{
    bool alleles = !opts->no_alleles && dn_snps_have_alleles(l->snps);
    if (!alleles) {
        dn_warn(
            "matching without alleles (%s): a SNP whose A1 is not the one that the model counts, or that is "
            "on the "
            "other strand, is read the wrong way round and nobody is told; use it only for files made alike",
            opts->no_alleles ? "--no-alleles" : "the model has none: no dummy.bim");
    }
    if (m->build == DN_BUILD_MOVED) {
        dn_warn("probably another genome build: of %llu SNPs that have the model's IDs, %llu are at other "
                "positions%s",
                (ull)(m->id_same_pos + m->id_other_pos), (ull)m->id_other_pos,
                m->by == DN_BY_POS ? "; matching by position (--by pos) is not to be trusted then"
                                   : " (SNPs matched by ID are not affected)");
    } else if (m->build == DN_BUILD_CHANCE) {
        dn_warn("probably another genome build: the SNPs found by position look like chance hits");
    }
    uint64_t kept = m->count[DN_REASON_AMBIGUOUS_KEPT];
    if (kept && opts->ambiguous == DN_AMBIGUOUS_KEEP) {
        dn_warn("%llu of the %llu SNPs used are A/T or C/G, whose strand letters cannot tell: taken to be on "
                "the model's "
                "strand (--ambiguous drop leaves them out, --ambiguous freq decides by frequency)",
                (ull)kept, (ull)m->n_used);
    }
}

void dn_report_frequencies(const dn_match_freq *f)
{
    for (int r = 0; r < DN_N_REASONS; r++) {
        double corr;
        if (!dn_reason_used((dn_reason)r) || !dn_match_freq_lies(f, (dn_reason)r, &corr)) continue;
        dn_warn("alleles seem to be labelled wrongly: in the %llu SNPs of group '%s' the cohort's allele "
                "frequencies run "
                "against the model's (correlation about one half %.2f): %s",
                (ull)f->n[r], dn_reason_name((dn_reason)r), corr,
                r == DN_REASON_AMBIGUOUS_KEPT
                    ? "they are on the other strand; use --ambiguous freq or drop"
                    : "were columns 5 and 6 of the .bim exchanged without recoding the .bed?");
    }
}

uint64_t dn_report_floor(uint64_t n_model)
{
    return n_model < 2000 ? (n_model + 1) / 2 : 1000;
}

/* What is most likely wrong, for the end of an error message. */
static void likely_cause(const dn_model_list *l, const dn_match *m, char *buf, size_t size)
{
    tally t[N_CHROMS];
    count_chroms(l, m, t);
    int wanted = 0, found = 0;
    for (int c = 1; c < N_CHROMS; c++)
        wanted += t[c].model > 0, found += t[c].model > t[c].reason[DN_REASON_ABSENT];
    if (m->build != DN_BUILD_FINE) {
        snprintf(
            buf, size,
            "probably another genome build: %llu SNPs have the model's IDs at its positions, %llu at others",
            (ull)m->id_same_pos, (ull)m->id_other_pos);
    } else if (found > 0 && wanted > 1 && 2 * found <= wanted) {
        snprintf(
            buf, size,
            "SNPs were found on %d of the model's %d chromosomes only: are filesets missing (--bfile may be "
            "repeated, or hold '@' for the chromosome)?",
            found, wanted);
    } else if (2 * m->count[DN_REASON_DUPLICATE] > m->n_hits && m->n_hits) {
        snprintf(buf, size, "%llu SNPs are there more than once: is a fileset given twice?",
                 (ull)m->count[DN_REASON_DUPLICATE]);
    } else if (2 * m->count[DN_REASON_ALLELES_DIFFER] > m->n_hits && m->n_hits) {
        snprintf(buf, size,
                 "%llu SNPs were found with other alleles: is the .bim coded in letters, on this build?",
                 (ull)m->count[DN_REASON_ALLELES_DIFFER]);
    } else {
        snprintf(buf, size, "is it the right model, and were these SNPs typed in this cohort?");
    }
}

dn_status dn_report_check(const dn_model_list *l, const dn_match *m, uint64_t floor, bool force, dn_err *err)
{
    char cause[512];
    if (m->n_used == 0) {
        likely_cause(l, m, cause, sizeof cause);
        return dn_fail(err, DN_EMISMATCH,
                       "none of the model's %llu SNPs can be used: of the cohort's %llu SNPs, %llu were "
                       "found by %s (%llu with "
                       "other alleles, %llu more than once, %llu A/T or C/G dropped); %s",
                       (ull)m->n_model, (ull)m->cohort_snps, (ull)m->n_hits,
                       m->by == DN_BY_POS ? "position" : "ID", (ull)m->count[DN_REASON_ALLELES_DIFFER],
                       (ull)m->count[DN_REASON_DUPLICATE], (ull)m->count[DN_REASON_AMBIGUOUS_DROPPED], cause);
    }
    if (force) return DN_OK;
    if (m->n_used < floor) {
        likely_cause(l, m, cause, sizeof cause);
        return dn_fail(err, DN_EMISMATCH,
                       "only %llu of the model's %llu SNPs can be used (%.1f %%), fewer than --min-overlap "
                       "%llu (--report FILE without -o shows every SNP, --force goes on all the same): %s",
                       (ull)m->n_used, (ull)m->n_model, percent(m->n_used, m->n_model), (ull)floor, cause);
    }
    if (m->build == DN_BUILD_CHANCE) {
        uint64_t turned =
            m->count[DN_REASON_SWAPPED] + m->count[DN_REASON_FLIPPED] + m->count[DN_REASON_FLIPPED_SWAPPED];
        return dn_fail(err, DN_EMISMATCH,
                       "probably another genome build: by position only %llu of %llu SNPs were found, and of "
                       "the %llu that can be "
                       "used %llu are swapped or on the other strand, as in chance hits; lift one side over, "
                       "or match by ID "
                       "(--by id). --force goes on all the same",
                       (ull)m->n_hits, (ull)m->n_reachable, (ull)m->n_used, (ull)turned);
    }
    return DN_OK;
}

/* A field of the model's list, "." where there is none. */
static const char *field(const dn_strs *s, uint64_t j, uint64_t n)
{
    return s->n == n && *dn_strs_get(s, j) ? dn_strs_get(s, j) : ".";
}

dn_status dn_report_write(dn_out *out, const dn_model_list *l, const dn_match *m, dn_err *err)
{
    dn_status status;
    const dn_snps *s = l->snps;
    uint64_t n = m->n_model;
    DN_TRY(dn_out_printf(
        out, err,
        "model_index\tsnp\tchrom\tpos\ta1\ta2\tcohort_snp\tcohort_chrom\tcohort_pos\tcohort_a1\t"
        "cohort_a2\tdosage\treason\n"));
    for (uint64_t j = 0; j < n; j++) {
        dn_reason r = (dn_reason)m->reason[j];
        char pos[24] = ".";
        if (s->pos) snprintf(pos, sizeof pos, "%lld", (long long)s->pos[j]);
        const char *dosage = !dn_reason_used(r) ? "." : m->map[j] ? "2-g" : "g";
        DN_TRY(dn_out_printf(out, err, "%llu\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", (ull)j, field(&s->id, j, n),
                             field(&s->chrom, j, n), pos, field(&s->a1, j, n), field(&s->a2, j, n),
                             m->text[j] ? m->text[j] : ".\t.\t.\t.\t.", dosage, dn_reason_name(r)));
    }
    status = DN_OK;
done:
    return status;
}
