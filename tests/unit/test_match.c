/* Matching a cohort's SNPs to a model's: letters, duplicates, names, builds, order, frequencies. */
#include "check.h"

#include "match.h"

typedef struct {
    const char *chrom, *id;
    long long pos;
    const char *a1, *a2;
} rec;

static dn_err err;

static void add_snp(dn_snps *s, const rec *r, bool alleles, bool place)
{
    CHECK_OK(dn_strs_add(&s->id, r->id, strlen(r->id), &err), &err);
    if (place) {
        CHECK_OK(dn_strs_add(&s->chrom, r->chrom, strlen(r->chrom), &err), &err);
        s->pos = realloc(s->pos, s->id.n * sizeof *s->pos);
        s->pos[s->id.n - 1] = r->pos;
    }
    if (alleles) {
        CHECK_OK(dn_strs_add(&s->a1, r->a1, strlen(r->a1), &err), &err);
        CHECK_OK(dn_strs_add(&s->a2, r->a2, strlen(r->a2), &err), &err);
    }
}

static dn_snps snps_of(const rec *r, size_t n, bool alleles, bool place)
{
    dn_snps s = {0};
    for (size_t i = 0; i < n; i++) add_snp(&s, &r[i], alleles, place);
    return s;
}

static dn_match run(const dn_snps *model, const rec *cohort, size_t n, dn_match_opts opts, bool backwards)
{
    dn_matcher *k;
    dn_match m;
    CHECK_OK(dn_matcher_new(&k, model, &opts, &err), &err);
    for (size_t i = 0; i < n; i++) {
        size_t at = backwards ? n - 1 - i : i;
        const rec *r = &cohort[at];
        CHECK_OK(dn_matcher_add(k, r->chrom, r->id, r->pos, r->a1, r->a2, at, &err), &err);
    }
    CHECK_OK(dn_matcher_finish(k, &m, &err), &err);
    dn_matcher_free(k);
    return m;
}

static void letters(void)
{
    static const struct {
        const char *m1, *m2, *c1, *c2;
        dn_fit fit;
    } cases[] = {
        {"A", "G", "A", "G", DN_FIT_SAME},
        {"A", "G", "G", "A", DN_FIT_SWAP},
        {"A", "G", "T", "C", DN_FIT_FLIP},
        {"A", "G", "C", "T", DN_FIT_FLIP_SWAP},
        {"A", "G", "A", "C", DN_FIT_NONE},
        {"A", "G", "A", "T", DN_FIT_NONE},
        {"A", "T", "A", "T", DN_FIT_AMB_SAME},
        {"A", "T", "T", "A", DN_FIT_AMB_SWAP},
        {"C", "G", "C", "G", DN_FIT_AMB_SAME},
        {"C", "G", "G", "C", DN_FIT_AMB_SWAP},
        {"A", "T", "C", "G", DN_FIT_NONE},
        {"a", "G", "A", "g", DN_FIT_SAME},
        {"A", "g", "c", "t", DN_FIT_FLIP_SWAP}, /* MA07: case never matters */
        {"A", "AT", "A", "AT", DN_FIT_SAME},
        {"AT", "A", "A", "AT", DN_FIT_SWAP},
        {"A", "AT", "T", "AT", DN_FIT_NONE},
        {"A1", "A2", "a2", "a1", DN_FIT_SWAP},
        {"D", "I", "I", "D", DN_FIT_SWAP},
        {"CGCG", "ACT", "CGCG", "ACT", DN_FIT_SAME},
        /* An allele nobody carries is "0" in PLINK's files. */
        {"A", "G", "0", "G", DN_FIT_SAME},
        {"A", "G", "0", "A", DN_FIT_SWAP},
        {"A", "G", "0", "C", DN_FIT_FLIP},
        {"A", "G", "0", "T", DN_FIT_FLIP_SWAP},
        {"A", "C", "0", "G", DN_FIT_FLIP},
        {"C", "G", "0", "G", DN_FIT_AMB_SAME},
        {"C", "G", ".", "C", DN_FIT_AMB_SWAP},
        {"0", "G", "A", "G", DN_FIT_SAME},
        {"0", "G", "G", "A", DN_FIT_SWAP},
        {"0", "G", "0", "G", DN_FIT_SAME},
        {"A", "G", "0", "0", DN_FIT_NONE},
        {"0", "0", "A", "G", DN_FIT_NONE},
        {"0", "G", "0", "A", DN_FIT_NONE},
        {"A", "AT", "0", "T", DN_FIT_NONE},
        {"A", "A", "A", "A", DN_FIT_NONE},
        {"A", "G", "A", "A", DN_FIT_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dn_fit got = dn_match_alleles(cases[i].m1, cases[i].m2, cases[i].c1, cases[i].c2);
        CHECK_MSG(got == cases[i].fit, "%s/%s vs %s/%s: %d, not %d", cases[i].m1, cases[i].m2, cases[i].c1,
                  cases[i].c2, (int)got, (int)cases[i].fit);
    }
}

/* Whatever the two pairs of bases: swapping both sides changes nothing, swapping one exchanges g and 2 - g,
 * and turning the strand of one exchanges same and other strand. */
static void letter_algebra(void)
{
    static const char *const base[] = {"A", "C", "G", "T"};
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            for (int c = 0; c < 4; c++)
                for (int d = 0; d < 4; d++) {
                    static const dn_fit swapped[] = {DN_FIT_NONE,      DN_FIT_SWAP, DN_FIT_SAME,
                                                     DN_FIT_FLIP_SWAP, DN_FIT_FLIP, DN_FIT_AMB_SWAP,
                                                     DN_FIT_AMB_SAME};
                    static const dn_fit flipped[] = {DN_FIT_NONE,    DN_FIT_FLIP, DN_FIT_FLIP_SWAP,
                                                     DN_FIT_SAME,    DN_FIT_SWAP, DN_FIT_AMB_SWAP,
                                                     DN_FIT_AMB_SAME};
                    dn_fit f = dn_match_alleles(base[a], base[b], base[c], base[d]);
                    bool ok = dn_match_alleles(base[b], base[a], base[d], base[c]) == f &&
                              dn_match_alleles(base[a], base[b], base[d], base[c]) == swapped[f] &&
                              dn_match_alleles(base[a], base[b], base[3 - c], base[3 - d]) == flipped[f];
                    CHECK_MSG(ok, "%s/%s vs %s/%s", base[a], base[b], base[c], base[d]);
                }
}

static const rec model9[] = {
    {"1", "rs1", 100, "A", "G"}, {"1", "rs2", 200, "A", "G"}, {"1", "rs3", 300, "A", "G"},
    {"2", "rs4", 100, "A", "G"}, {"2", "rs5", 200, "A", "T"}, {"2", "rs6", 300, "C", "G"},
    {"X", "rs7", 100, "A", "G"}, {"X", "rs8", 200, "A", "G"}, {"X", "rs9", 300, "A", "G"},
};

/* MA05: one SNP for each reason, by ID and by position, and the same for any order of the cohort's rows
 * (MA15). */
static void reasons(void)
{
    static const rec cohort[] = {
        {"chr1", "rs1", 100, "A", "G"}, {"01", "rs2", 200, "g", "a"},   {"CHR1", "rs3", 300, "T", "C"},
        {"Chr2", "rs4", 100, "C", "T"}, {"2", "rs5", 200, "A", "T"},    {"2", "rs6", 300, "G", "C"},
        {"23", "rs7", 100, "A", "C"},   {"chrX", "rs8", 200, "A", "G"}, {"chrX", "rs8", 200, "G", "A"},
        {"9", "rs10", 100, "A", "G"},
    };
    static const dn_reason want[] = {
        DN_REASON_MATCHED,         DN_REASON_SWAPPED,        DN_REASON_FLIPPED,
        DN_REASON_FLIPPED_SWAPPED, DN_REASON_AMBIGUOUS_KEPT, DN_REASON_AMBIGUOUS_KEPT,
        DN_REASON_ALLELES_DIFFER,  DN_REASON_DUPLICATE,      DN_REASON_ABSENT};
    dn_snps model = snps_of(model9, 9, true, true);
    for (int by = DN_BY_AUTO; by <= DN_BY_POS; by++)
        for (int back = 0; back < 2; back++) {
            dn_match m = run(&model, cohort, 10, (dn_match_opts){.by = (dn_match_by)by}, back);
            for (int j = 0; j < 9; j++)
                CHECK_MSG(m.reason[j] == want[j], "by %d, SNP %d: %s", by, j, dn_reason_name(m.reason[j]));
            CHECK(m.by == (by == DN_BY_POS ? DN_BY_POS : DN_BY_ID) && m.n_used == 6 && m.n_id == 6 &&
                  m.n_pos == 6);
            CHECK(!m.map[0] && m.map[1] && !m.map[2] && m.map[3] && !m.map[4] && m.map[5]);
            CHECK(m.snp[0] == 0 && m.snp[5] == 5 && m.snp[6] == UINT64_MAX && m.snp[8] == UINT64_MAX);
            CHECK(strcmp(m.text[1], "rs2\t01\t200\tg\ta") == 0 &&
                  strcmp(m.text[7], "rs8\tchrX\t200\tA\tG") == 0 && !m.text[8]);
            CHECK(m.count[DN_REASON_AMBIGUOUS_KEPT] == 2 && m.count[DN_REASON_ABSENT] == 1 &&
                  m.build == DN_BUILD_FINE);
            dn_match_free(&m);
        }
    dn_match m = run(&model, cohort, 10,
                     (dn_match_opts){.ambiguous = DN_AMBIGUOUS_DROP, .no_strand_flip = true}, false);
    CHECK(m.reason[2] == DN_REASON_ALLELES_DIFFER && m.reason[3] == DN_REASON_ALLELES_DIFFER);
    CHECK(m.reason[4] == DN_REASON_AMBIGUOUS_DROPPED && m.snp[4] == UINT64_MAX && m.n_used == 2);
    dn_match_free(&m);
    m = run(&model, cohort, 10, (dn_match_opts){.no_alleles = true}, false);
    CHECK(m.reason[6] == DN_REASON_MATCHED && m.reason[7] == DN_REASON_DUPLICATE && m.n_used == 7 &&
          !m.map[1]);
    dn_match_free(&m);
    dn_snps_free(&model);
    CHECK(strcmp(dn_reason_name(DN_REASON_FLIPPED_SWAPPED), "flipped+swapped") == 0);
}

/* Same ID or same position twice: the one whose alleles fit; two that fit are absent; none that fits differ.
 */
static void duplicates(void)
{
    static const rec cohort[] = {
        {"1", "rs1", 100, "A", "C"}, {"1", "rs1", 100, "G", "A"}, {"1", "rs2", 200, "A", "C"},
        {"1", "rs2", 200, "A", "T"}, {"1", "a", 300, "A", "G"},   {"1", "b", 300, "A", "T"},
        {"1", "rs3", 999, "C", "A"}, {"2", "rs4", 100, "A", "G"}, {"2", "rs4", 100, "A", "G"},
        {"2", "rs4", 100, "A", "C"},
    };
    dn_snps model = snps_of(model9, 9, true, true);
    for (int back = 0; back < 2; back++) {
        dn_match m = run(&model, cohort, 10, (dn_match_opts){.by = DN_BY_ID}, back);
        CHECK(m.reason[0] == DN_REASON_SWAPPED && m.snp[0] == 1 &&
              strcmp(m.text[0], "rs1\t1\t100\tG\tA") == 0);
        CHECK(m.reason[1] == DN_REASON_ALLELES_DIFFER && strcmp(m.text[1], "rs2\t1\t200\tA\tC") == 0);
        CHECK(m.reason[2] == DN_REASON_ALLELES_DIFFER && m.reason[3] == DN_REASON_DUPLICATE);
        CHECK(strcmp(m.text[3], "rs4\t2\t100\tA\tG") == 0);
        dn_match_free(&m);
        m = run(&model, cohort, 10, (dn_match_opts){.by = DN_BY_POS}, back);
        CHECK(m.reason[2] == DN_REASON_MATCHED && m.snp[2] == 4 && m.reason[3] == DN_REASON_DUPLICATE);
        dn_match_free(&m);
    }
    /* Two model SNPs of one ID or place (a site with three alleles, cut in two): each is judged by itself. */
    static const rec twice[] = {{"1", "rs1", 100, "A", "G"}, {"1", "rs1", 100, "A", "C"}};
    static const rec one[] = {{"1", "rs1", 100, "C", "A"}};
    dn_snps model2 = snps_of(twice, 2, true, true);
    for (int by = DN_BY_ID; by <= DN_BY_POS; by++) {
        dn_match m = run(&model2, one, 1, (dn_match_opts){.by = (dn_match_by)by}, false);
        CHECK(m.reason[0] == DN_REASON_ALLELES_DIFFER && m.reason[1] == DN_REASON_SWAPPED && m.n_used == 1);
        dn_match_free(&m);
    }
    dn_snps_free(&model);
    dn_snps_free(&model2);
}

/* What is no ID, no place or no SNP is never matched by it (IP16, the 58 SNPs named "---" of HapMap 2). */
static void no_names(void)
{
    static const rec list[] = {
        {"1", "---", 100, "A", "G"}, {"0", ".", 100, "A", "G"}, {"scaffold_3", "rs3", 300, "A", "G"}};
    static const rec cohort[] = {{"1", "---", 900, "A", "G"},
                                 {"0", ".", 100, "A", "G"},
                                 {"scaffold_3", "x", 300, "A", "G"},
                                 {"chrUn_1", "rs3", 5, "A", "G"}};
    dn_snps model = snps_of(list, 3, true, true);
    dn_match m = run(&model, cohort, 4, (dn_match_opts){.by = DN_BY_ID}, false);
    CHECK(m.reason[0] == DN_REASON_ABSENT && m.reason[1] == DN_REASON_ABSENT &&
          m.reason[2] == DN_REASON_MATCHED);
    CHECK(m.cohort_snps == 4 && m.cohort_unplaced == 3 && m.cohort_ignored == 0);
    dn_match_free(&m);
    m = run(&model, cohort, 4, (dn_match_opts){.by = DN_BY_POS}, false);
    CHECK(m.n_used == 0 && m.count[DN_REASON_ABSENT] == 3);
    dn_match_free(&m);
    dn_snps_free(&model);
    /* A negative position means "leave this SNP out". */
    static const rec minus[] = {{"1", "rs1", -100, "A", "G"}};
    model = snps_of(model9, 9, true, true);
    m = run(&model, minus, 1, (dn_match_opts){0}, false);
    CHECK(m.n_used == 0 && m.cohort_ignored == 1);
    dn_match_free(&m);
    dn_snps_free(&model);
    /* A model of bare IDs: no letters to look at, no positions to match by. */
    model = snps_of(model9, 9, false, false);
    static const rec any[] = {{"1", "rs1", 100, "C", "T"}};
    m = run(&model, any, 1, (dn_match_opts){0}, false);
    CHECK(m.n_used == 1 && m.reason[0] == DN_REASON_MATCHED && m.by == DN_BY_ID);
    dn_match_free(&m);
    dn_matcher *k;
    CHECK(dn_matcher_new(&k, &model, &(dn_match_opts){.by = DN_BY_POS}, &err) == DN_EMISMATCH &&
          strstr(err.msg, "--by id"));
    dn_snps_free(&model);
}

/* --by auto takes what finds more; MA08: another build shows in moved IDs, or in chance hits. */
static void builds(void)
{
    enum { N = 200 };
    static char ids[N][16];
    static rec list[N], cohort[N];
    static const char *const turn[][2] = {{"A", "G"}, {"G", "A"}};
    for (int i = 0; i < N; i++) {
        snprintf(ids[i], sizeof ids[i], "rs%d", i);
        list[i] = (rec){"1", ids[i], 1000 + 10 * i, "A", "G"};
    }
    dn_snps model = snps_of(list, N, true, true);
    memcpy(cohort, list, sizeof list);
    for (int i = 1; i < N; i++) cohort[i].pos += 1003;
    dn_match m = run(&model, cohort, N, (dn_match_opts){0}, false);
    CHECK(m.by == DN_BY_ID && m.n_used == N && m.build == DN_BUILD_MOVED && m.id_same_pos == 1 &&
          m.id_other_pos == N - 1);
    dn_match_free(&m);
    m = run(&model, cohort, N, (dn_match_opts){.by = DN_BY_POS}, false);
    CHECK(m.n_used == 1 && m.build == DN_BUILD_MOVED);
    dn_match_free(&m);
    /* Other names, one position in ten hit, half of those swapped. */
    for (int i = 0; i < N; i++) {
        const char *const *t = turn[i / 10 % 2];
        cohort[i] = (rec){"chr1", "x1", list[i].pos + (i % 10 ? 100003 : 0), t[0], t[1]};
    }
    m = run(&model, cohort, N, (dn_match_opts){0}, false);
    CHECK(m.by == DN_BY_POS && m.n_used == N / 10 && m.count[DN_REASON_SWAPPED] == N / 20 &&
          m.build == DN_BUILD_CHANCE);
    dn_match_free(&m);
    /* The same few hits with their right names are a small cohort, not a wrong build. */
    for (int i = 0; i < N; i += 10) cohort[i].id = ids[i];
    m = run(&model, cohort, N, (dn_match_opts){.by = DN_BY_POS}, false);
    CHECK(m.n_used == N / 10 && m.build == DN_BUILD_FINE);
    dn_match_free(&m);
    /* Other names at the right places: positions find more. */
    for (int i = 0; i < N; i++) cohort[i] = (rec){"chr1", "x1", list[i].pos, "A", "G"};
    m = run(&model, cohort, N, (dn_match_opts){0}, false);
    CHECK(m.by == DN_BY_POS && m.n_used == N && m.n_id == 0 && m.build == DN_BUILD_FINE && m.snp[7] == 7);
    dn_match_free(&m);
    dn_snps_free(&model);
}

static void frequencies(void)
{
    dn_snps model = snps_of(model9, 9, true, true);
    static const rec cohort[] = {
        {"2", "rs5", 200, "A", "T"}, {"2", "rs6", 300, "G", "C"}, {"1", "rs1", 100, "A", "G"}};
    static const struct {
        double model;
        uint64_t a1, called;
        bool no_flip, used, other_strand;
    } cases[] = {
        {0.2, 40, 100, false, true, false},  {0.2, 160, 100, false, true, true},
        {0.2, 160, 100, true, false, false}, {0.45, 40, 100, false, false, false},
        {0.2, 98, 100, false, false, false}, {0.2, 2, 19, false, false, false},
        {0.2, 0, 0, false, false, false},    {NAN, 40, 100, false, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint64_t j = 4; j < 6; j++) {
            dn_match m = run(&model, cohort, 3, (dn_match_opts){.ambiguous = DN_AMBIGUOUS_FREQ}, false);
            /* SNP 5 has its letters swapped, so the cohort's A1 is the model's A2. */
            uint64_t a1 = j == 5 ? 2 * cases[i].called - cases[i].a1 : cases[i].a1;
            bool swapped = m.map[j];
            dn_match_decide(&m, j, cases[i].model, a1, cases[i].called, cases[i].no_flip);
            CHECK_MSG(dn_reason_used(m.reason[j]) == cases[i].used && m.n_used == 2 + (uint64_t)cases[i].used,
                      "case %zu", i);
            if (cases[i].used)
                CHECK(m.map[j] == (swapped != cases[i].other_strand));
            else
                CHECK(m.reason[j] == DN_REASON_AMBIGUOUS_DROPPED &&
                      m.count[DN_REASON_AMBIGUOUS_DROPPED] == 1);
            dn_match_decide(&m, 0, 0.1, 190, 100, false); /* not ambiguous: left alone */
            CHECK(m.reason[0] == DN_REASON_MATCHED && !m.map[0]);
            dn_match_free(&m);
        }
    dn_snps_free(&model);
    /* Labels that lie turn q into 1 - q, and only among the SNPs where they lie. */
    uint8_t reason[2] = {DN_REASON_MATCHED, DN_REASON_SWAPPED}, map[2] = {0, 1};
    dn_match m = {.n_model = 2, .reason = reason, .map = map};
    dn_match_freq f = {0};
    double corr;
    for (int i = 0; i < 40; i++) {
        uint64_t k = 2 + (uint64_t)i;
        dn_match_freq_add(&f, &m, 0, (double)k / 100, 2 * k, 100);
        dn_match_freq_add(&f, &m, 1, (double)k / 100, 2 * k,
                          100); /* counted from the cohort's A1: should be 200 - 2k */
        dn_match_freq_add(&f, &m, 1, NAN, 2 * k, 100);
        dn_match_freq_add(&f, &m, 1, 0.3, 0, 0);
    }
    CHECK(!dn_match_freq_lies(&f, DN_REASON_MATCHED, &corr) && corr > 0.99);
    CHECK(dn_match_freq_lies(&f, DN_REASON_SWAPPED, &corr) && corr < -0.99 && f.n[DN_REASON_SWAPPED] == 40);
    CHECK(!dn_match_freq_lies(&f, DN_REASON_FLIPPED, &corr));
}

/* Any order of any cohort gives the same answer. */
static void shuffles(void)
{
    enum { M = 60, N = 150 };
    static const char *const base[] = {"A", "C", "G", "T", "0", "a"};
    static char ids[M][8];
    unsigned long long seed = 20240229;
    for (int round = 0; round < 40; round++) {
        rec list[M], cohort[N];
        size_t order[N];
        for (int i = 0; i < M; i++) {
            snprintf(ids[i], sizeof ids[i], "rs%d", i);
            list[i] = (rec){i % 2 ? "1" : "chrX", ids[i], 10 + (long long)(check_rand(&seed) % 40),
                            base[check_rand(&seed) % 4], base[check_rand(&seed) % 4]};
        }
        for (int i = 0; i < N; i++) {
            int at = (int)(check_rand(&seed) % M);
            cohort[i] = list[at];
            if (check_rand(&seed) % 2) cohort[i].a1 = base[check_rand(&seed) % 6];
            if (check_rand(&seed) % 3 == 0) cohort[i].pos++;
            order[i] = (size_t)i;
        }
        dn_snps model = snps_of(list, M, true, true);
        dn_match_opts opts = {.by = (dn_match_by)(round % 3)};
        dn_match a = run(&model, cohort, N, opts, false);
        for (size_t i = N - 1; i > 0; i--) {
            size_t k = check_rand(&seed) % (i + 1), t = order[i];
            order[i] = order[k], order[k] = t;
        }
        dn_matcher *k;
        dn_match b;
        CHECK_OK(dn_matcher_new(&k, &model, &opts, &err), &err);
        for (size_t i = 0; i < N; i++) {
            const rec *r = &cohort[order[i]];
            CHECK_OK(dn_matcher_add(k, r->chrom, r->id, r->pos, r->a1, r->a2, order[i], &err), &err);
        }
        CHECK_OK(dn_matcher_finish(k, &b, &err), &err);
        dn_matcher_free(k);
        bool same = a.by == b.by && a.n_used == b.n_used && a.build == b.build &&
                    memcmp(a.count, b.count, sizeof a.count) == 0;
        uint64_t total = 0;
        for (int r = 0; r < DN_N_REASONS; r++) total += a.count[r];
        for (int j = 0; j < M; j++) {
            same = same && a.reason[j] == b.reason[j] && a.snp[j] == b.snp[j] && (!a.text[j] == !b.text[j]);
            if (a.text[j] && b.text[j]) same = same && strcmp(a.text[j], b.text[j]) == 0;
            if (dn_reason_used(a.reason[j])) same = same && a.map[j] == b.map[j];
        }
        CHECK_MSG(same && total == M, "round %d", round);
        dn_match_free(&a);
        dn_match_free(&b);
        dn_snps_free(&model);
    }
}

int main(void)
{
    letters();
    letter_algebra();
    reasons();
    duplicates();
    no_names();
    builds();
    frequencies();
    shuffles();
    return check_done();
}
