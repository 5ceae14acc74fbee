/* dnsim: simulates a structured panel and a cohort drawn from the same populations, as PLINK filesets.
 *
 * Model: populations are leaves of a two-level tree. At each SNP an ancestral frequency p ~ U(0.05, 0.95)
 * drifts to each region and from there to each population by Balding and Nichols (1995): p' ~ Beta(p(1-F)/F,
 * (1-p)(1-F)/F), F = Fst of that branch. Genotypes are binomial(2, p') (Hardy-Weinberg). Everything follows
 * from --seed and the SNP's number.
 *
 * The cohort holds new people and is made awkward on purpose: a share of SNPs has A1/A2 the other way round
 * (genotypes recoded with them, as plink1.9 --make-bed does), a share is on the other strand, a share is
 * absent, calls are missing.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "geno.h"
#include "io.h"
#include "log.h"
#include "opt.h"
#include "simrng.h"

enum { MAX_POPS = 64 };

typedef struct {
    dn_common common;
    const char *out;
    uint64_t n_people, n_cohort, n_snps, n_pops, n_regions, seed;
    double fst_region, fst_pop, missing, swap, flip, drop;
} options;

static double normal(uint64_t *s)
{
    return sqrt(-2 * log(1 - unit(s))) * cos(6.283185307179586 * unit(s));
}

/* Gamma(a, 1) by Marsaglia and Tsang (2000); a < 1 by the usual power of a uniform. */
static double gamma_draw(uint64_t *s, double a)
{
    if (a < 1) return gamma_draw(s, a + 1) * pow(1 - unit(s), 1 / a);
    double d = a - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(s), v = 1 + c * x;
        if (v <= 0) continue;
        v = v * v * v;
        if (log(1 - unit(s)) < 0.5 * x * x + d - d * v + d * log(v)) return d * v;
    }
}

static double drift(uint64_t *s, double p, double fst)
{
    double a = gamma_draw(s, p * (1 - fst) / fst), b = gamma_draw(s, (1 - p) * (1 - fst) / fst);
    double q = a + b > 0 ? a / (a + b) : p;
    return q < 0.001 ? 0.001 : q > 0.999 ? 0.999 : q;
}

static void frequencies(const options *o, uint64_t snp, double *freq)
{
    uint64_t s = o->seed * 0x100000001B3u + snp * 2 + 1;
    double region[MAX_POPS], p = 0.05 + 0.9 * unit(&s);
    for (uint64_t r = 0; r < o->n_regions; r++) region[r] = drift(&s, p, o->fst_region);
    for (uint64_t k = 0; k < o->n_pops; k++) freq[k] = drift(&s, region[k % o->n_regions], o->fst_pop);
}

static void pop_name(const options *o, uint64_t k, char name[16])
{
    snprintf(name, 16, "%c%02u", (char)('A' + k % o->n_regions), (unsigned)(k / o->n_regions + 1));
}

typedef struct {
    char a1, a2;
    bool swap, flip, drop;
    int chrom;
    uint64_t pos;
} snp_facts;

static char complement(char c)
{
    return c == 'A' ? 'T' : c == 'T' ? 'A' : c == 'C' ? 'G' : 'C';
}

static snp_facts facts_of(const options *o, uint64_t snp)
{
    static const char pairs[][3] = {"AG", "GA", "CT", "TC", "AC", "CA", "GT", "TG"},
                      palindromes[][3] = {"AT", "CG"};
    uint64_t s = (o->seed ^ 0x5bd1e995) * 0x100000001B3u + snp * 2;
    snp_facts f;
    const char *pair = unit(&s) < 0.08 ? palindromes[next64(&s) % 2] : pairs[next64(&s) % 8];
    f.a1 = pair[0], f.a2 = pair[1];
    f.swap = unit(&s) < o->swap;
    /* A/T and C/G SNPs look the same on both strands: flipping those would be a lie nobody could see. */
    f.flip = unit(&s) < o->flip && complement(f.a1) != f.a2;
    f.drop = unit(&s) < o->drop;
    f.chrom = (int)(snp * 22 / o->n_snps) + 1;
    uint64_t first = ((uint64_t)(f.chrom - 1) * o->n_snps + 21) / 22;
    f.pos = 10000 + (snp - first) * (200000000 / (o->n_snps / 22 + 1)) + next64(&s) % 97;
    return f;
}

/* Person i belongs to population i mod n_pops: equal classes, mixed order.
 * Per population: a 16-bit draw below t[0] is dosage 0, below t[1] dosage 1, else 2. */
static void fill_row(const options *o, uint64_t snp, const double *freq, uint64_t n, uint64_t stream,
                     bool swap, uint8_t *row)
{
    uint32_t t[MAX_POPS][2];
    for (uint64_t k = 0; k < o->n_pops; k++) {
        double p = freq[k];
        t[k][0] = (uint32_t)((1 - p) * (1 - p) * 65536);
        t[k][1] = t[k][0] + (uint32_t)(2 * p * (1 - p) * 65536);
    }
    static const uint8_t code_same[4] = {3, 2, 0, 1},
                         code_swap[4] = {0, 2, 3, 1}; /* dosage 0, 1, 2, missing -> .bed */
    const uint8_t *code = swap ? code_swap : code_same;
    uint32_t lost = (uint32_t)(o->missing * 65536);
    uint64_t s = (o->seed + stream * 0x632BE5ABu) * 0x100000001B3u + snp * 3 + 7, bits = 0, k = 0;
    int left = 0;
    memset(row, 0, dn_geno_bytes(n));
    for (uint64_t i = 0; i < n; i++) {
        if (left == 0) bits = next64(&s), left = 2;
        uint32_t u = bits & 0xffff, v = bits >> 16 & 0xffff;
        bits >>= 32, left--;
        unsigned g = (u >= t[k][0]) + (u >= t[k][1]);
        if (v < lost) g = 3;
        row[i / 4] |= (uint8_t)(code[g] << (i % 4 * 2));
        if (++k == o->n_pops) k = 0;
    }
}

static dn_status open_out(const char *prefix, const char *ext, const options *o, dn_out **out, dn_err *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%s", prefix, ext);
    return dn_out_open(out, path, o->common.force ? DN_OUT_FORCE : 0, err);
}

static dn_status write_people(const options *o, char who, uint64_t n, dn_out *fam, dn_out *lab, dn_err *err)
{
    dn_status status;
    char pop[16];
    DN_TRY(dn_out_printf(lab, err, "sample\tlabel\n"));
    for (uint64_t i = 0; i < n; i++) {
        unsigned long long id = i + 1;
        pop_name(o, i % o->n_pops, pop);
        DN_TRY(dn_out_printf(fam, err, "%c%06llu\t%c%06llu\t0\t0\t%d\t-9\n", who, id, who, id,
                             (int)(i / o->n_pops % 2) + 1));
        DN_TRY(dn_out_printf(lab, err, "%c%06llu\t%s\n", who, id, pop));
    }
    status = DN_OK;
done:
    return status;
}

static dn_status write_set(const options *o, const char *prefix, uint64_t n, bool cohort, dn_err *err)
{
    dn_status status;
    dn_out *bed = NULL, *bim = NULL, *fam = NULL, *lab = NULL;
    uint8_t *row = NULL;
    double freq[MAX_POPS];
    uint64_t kept = 0;
    DN_TRY(dn_alloc(&row, dn_geno_bytes(n), 1, "a row of genotypes", err));
    DN_TRY(open_out(prefix, "bed", o, &bed, err));
    DN_TRY(open_out(prefix, "bim", o, &bim, err));
    DN_TRY(open_out(prefix, "fam", o, &fam, err));
    DN_TRY(open_out(prefix, "labels.tsv", o, &lab, err));
    DN_TRY(write_people(o, cohort ? 'C' : 'P', n, fam, lab, err));
    DN_TRY(dn_out_write(bed, "\x6c\x1b\x01", 3, err));
    dn_progress_start(prefix, o->n_snps, "SNPs");
    for (uint64_t j = 0; j < o->n_snps; j++) {
        snp_facts f = facts_of(o, j);
        dn_progress(j);
        if (cohort && f.drop) continue;
        bool swap = cohort && f.swap;
        char a1 = swap ? f.a2 : f.a1, a2 = swap ? f.a1 : f.a2;
        if (cohort && f.flip) a1 = complement(a1), a2 = complement(a2);
        DN_TRY(dn_out_printf(bim, err, "%d\trs%llu\t0\t%llu\t%c\t%c\n", f.chrom, (unsigned long long)j + 1000,
                             (unsigned long long)f.pos, a1, a2));
        frequencies(o, j, freq);
        fill_row(o, j, freq, n, cohort ? 2 : 1, swap, row);
        DN_TRY(dn_out_write(bed, row, dn_geno_bytes(n), err));
        kept++;
    }
    dn_progress_end();
    DN_TRY(dn_out_commit(&bed, err));
    DN_TRY(dn_out_commit(&bim, err));
    DN_TRY(dn_out_commit(&fam, err));
    DN_TRY(dn_out_commit(&lab, err));
    dn_info("%s: %llu people x %llu SNPs, %llu populations", prefix, (unsigned long long)n,
            (unsigned long long)kept, (unsigned long long)o->n_pops);
    status = DN_OK;
done:
    dn_progress_end();
    free(row);
    dn_out_abort(&bed);
    dn_out_abort(&bim);
    dn_out_abort(&fam);
    dn_out_abort(&lab);
    return status;
}

static dn_status check(const options *o, const dn_strs *operands, dn_err *err)
{
    if (operands->n)
        return dn_fail(err, DN_EUSAGE, "unexpected argument \"%s\" (see --help)", dn_strs_get(operands, 0));
    if (!o->out) return dn_fail(err, DN_EUSAGE, "give a prefix for the filesets: -o PREFIX");
    if (strlen(o->out) > 3000) return dn_fail(err, DN_EUSAGE, "the output prefix is too long");
    if (o->n_regions > o->n_pops) return dn_fail(err, DN_EUSAGE, "--regions must not be more than --pops");
    return DN_OK;
}

int main(int argc, char **argv)
{
    options o = {.common = DN_COMMON_DEFAULT,
                 .n_people = 600,
                 .n_snps = 4000,
                 .n_pops = 6,
                 .n_regions = 3,
                 .seed = 1,
                 .fst_region = 0.1,
                 .fst_pop = 0.03};
    const dn_opt opts[] = {
        {DN_OPT_STR, "out", 'o', &o.out, "PREFIX", 0, 0,
         "panel PREFIX.bed/.bim/.fam/.labels.tsv; cohort PREFIX_cohort.*", NULL},
        {DN_OPT_U64, "people", 'n', &o.n_people, "N", 1, 4e6, "people of the panel", NULL},
        {DN_OPT_U64, "cohort", 0, &o.n_cohort, "N", 0, 4e6, "people of the cohort (none is made when 0)",
         NULL},
        {DN_OPT_U64, "snps", 'm', &o.n_snps, "M", 1, 1e8, "SNPs", NULL},
        {DN_OPT_U64, "pops", 'k', &o.n_pops, "K", 1, MAX_POPS, "populations", NULL},
        {DN_OPT_U64, "regions", 0, &o.n_regions, "R", 1, 26, "regions that the populations belong to", NULL},
        {DN_OPT_U64, "seed", 's', &o.seed, "S", 0, 4294967295.0, "seed", NULL},
        {DN_OPT_DOUBLE, "fst-region", 0, &o.fst_region, "F", 0.0001, 0.9,
         "drift from the ancestors to a region", NULL},
        {DN_OPT_DOUBLE, "fst-pop", 0, &o.fst_pop, "F", 0.0001, 0.9, "drift from a region to a population",
         NULL},
        {DN_OPT_DOUBLE, "missing", 0, &o.missing, "P", 0, 0.99, "share of missing calls", NULL},
        {DN_OPT_DOUBLE, "swap", 0, &o.swap, "P", 0, 1,
         "cohort: share of SNPs with A1 and A2 the other way round", NULL},
        {DN_OPT_DOUBLE, "flip", 0, &o.flip, "P", 0, 1, "cohort: share of SNPs on the other strand", NULL},
        {DN_OPT_DOUBLE, "drop", 0, &o.drop, "P", 0, 0.99, "cohort: share of SNPs that are absent", NULL},
        DN_COMMON_OPTS(o.common),
    };
    enum { N = sizeof opts / sizeof opts[0] };
    dn_err err = {0};
    dn_strs operands = {0};
    dn_status status;
    dn_log_start("dnsim", argc, argv);
    DN_TRY(dn_opt_parse(argc, argv, opts, N, &operands, &err));
    if (o.common.help) {
        dn_opt_help(stdout, "dnsim -o PREFIX [options]",
                    "Simulates a structured panel and a cohort (Balding-Nichols) for tests and demos.", opts,
                    N, "");
        goto done;
    }
    dn_log_level(o.common.quiet, o.common.verbose);
    DN_TRY(check(&o, &operands, &err));
    dn_out_on_signal();
    DN_TRY(write_set(&o, o.out, o.n_people, false, &err));
    if (o.n_cohort) {
        char prefix[4096];
        snprintf(prefix, sizeof prefix, "%s_cohort", o.out);
        DN_TRY(write_set(&o, prefix, o.n_cohort, true, &err));
    }
done:
    dn_strs_free(&operands);
    return dn_finish(status, &err);
}
