/* match.c: one candidate at a time into one answer per model SNP (see match.h).
 *
 * Both ways of matching are followed at once: every model SNP has a slot for candidates found by ID and one
 * for those found by position. A slot keeps counts and the best candidate, never a list, and everything kept
 * is symmetric in the order of arrival: counts, and minima in byte order. */
#include "match.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT64_MAX

/* Candidates of one model SNP in one way of matching. */
typedef struct {
    uint64_t snp; /* the candidate that `text` names: the first in byte order among those that fit, else among
                     all */
    char *text;
    uint32_t n_seen, n_fit; /* saturating */
    uint8_t fit;            /* of that candidate: dn_fit, of the one that fits best */
    bool pos_known, pos_same, id_same;
} slot;

struct dn_matcher {
    const dn_snps *model;
    dn_match_opts opts;
    bool alleles;
    uint64_t n;
    dn_map *by_id, *by_pos;
    uint64_t *pos_key;            /* M: chromosome and position in one number, the map's keys; 0 for none */
    uint64_t *next_id, *next_pos; /* M: next model SNP of the same key, NONE at the end */
    uint64_t *head_id, *head_pos; /* M: first model SNP of the same key: where its list begins */
    uint64_t hint_id,
        hint_pos;       /* model SNP after the last one found: most cohorts come in the model's order */
    slot *slots[2];     /* [0]: by ID, [1]: by position; M each */
    bool has_chrom[27]; /* chromosomes seen in the cohort */
    uint64_t n_seen, n_unplaced, n_ignored;
    char *line; /* scratch for a candidate's text */
    size_t line_cap;
};

const char *dn_reason_name(dn_reason r)
{
    static const char *const names[] = {"matched",         "swapped",        "flipped",
                                        "flipped+swapped", "ambiguous-kept", "ambiguous-dropped",
                                        "alleles-differ",  "duplicate",      "absent"};
    return r < DN_N_REASONS ? names[r] : "?";
}

/* "." and "---" stand where there is no ID; matching by them would match anything with anything. */
static bool is_id(const char *id)
{
    for (; *id; id++) {
        if (isalnum((unsigned char)*id) || (*id & 0x80)) return true;
    }
    return false;
}

/* 0 when the place is not known. */
static uint64_t key_of(const char *chrom, int64_t pos)
{
    int code = dn_chrom_code(chrom);
    return code > 0 && pos > 0 && pos < (int64_t)1 << 56 ? (uint64_t)code << 56 | (uint64_t)pos : 0;
}

/* Enters model SNP j under a key; those that share one hang on the first. */
static dn_status enter(dn_map *map, const void *key, size_t len, uint64_t j, uint64_t *next, uint64_t *head,
                       dn_err *err)
{
    uint64_t first;
    dn_status status = dn_map_add(map, key, len, j, &first, err);
    head[j] = j;
    if (status == DN_OK && first != NONE) {
        next[j] = next[first];
        next[first] = j;
        head[j] = first;
    }
    return status;
}

dn_status dn_matcher_new(dn_matcher **out, const dn_snps *model, const dn_match_opts *opts, dn_err *err)
{
    dn_status status;
    dn_matcher *k = NULL;
    uint64_t n = model->id.n, n_keys = 0;
    *out = NULL;
    DN_TRY(dn_alloc(&k, 1, sizeof *k, "matcher", err));
    k->model = model;
    k->opts = *opts;
    k->alleles = !opts->no_alleles && dn_snps_have_alleles(model);
    k->n = n;
    DN_TRY(dn_map_new(&k->by_id, n, err));
    DN_TRY(dn_map_new(&k->by_pos, n, err));
    DN_TRY(dn_alloc(&k->pos_key, n, sizeof *k->pos_key, "model positions", err));
    DN_TRY(dn_alloc(&k->next_id, n, sizeof *k->next_id, "model IDs", err));
    DN_TRY(dn_alloc(&k->next_pos, n, sizeof *k->next_pos, "model positions", err));
    DN_TRY(dn_alloc(&k->head_id, n, sizeof *k->head_id, "model IDs", err));
    DN_TRY(dn_alloc(&k->head_pos, n, sizeof *k->head_pos, "model positions", err));
    DN_TRY(dn_alloc(&k->slots[0], n, sizeof *k->slots[0], "matches", err));
    DN_TRY(dn_alloc(&k->slots[1], n, sizeof *k->slots[1], "matches", err));
    for (uint64_t j = 0; j < n; j++) {
        const char *id = dn_strs_get(&model->id, j);
        k->next_id[j] = k->next_pos[j] = NONE;
        if (is_id(id)) DN_TRY(enter(k->by_id, id, strlen(id), j, k->next_id, k->head_id, err));
        if (dn_snps_have_pos(model)) k->pos_key[j] = key_of(dn_strs_get(&model->chrom, j), model->pos[j]);
        if (!k->pos_key[j]) continue;
        n_keys++;
        DN_TRY(enter(k->by_pos, &k->pos_key[j], sizeof *k->pos_key, j, k->next_pos, k->head_pos, err));
    }
    if (opts->by == DN_BY_POS && !n_keys) {
        DN_TRY(dn_fail(err, DN_EMISMATCH, "the model has no positions to match by: use --by id"));
    }
    *out = k;
    k = NULL;
    status = DN_OK;
done:
    dn_matcher_free(k);
    return status;
}

void dn_matcher_free(dn_matcher *k)
{
    if (!k) return;
    for (int way = 0; way < 2; way++) {
        for (uint64_t j = 0; k->slots[way] && j < k->n; j++) free(k->slots[way][j].text);
        free(k->slots[way]);
    }
    dn_map_free(k->by_id);
    dn_map_free(k->by_pos);
    free(k->pos_key);
    free(k->next_id);
    free(k->next_pos);
    free(k->head_id);
    free(k->head_pos);
    free(k->line);
    free(k);
}

static dn_fit fit_of(const dn_matcher *k, uint64_t j, const char *a1, const char *a2)
{
    if (!k->alleles) return DN_FIT_SAME;
    dn_fit fit = dn_match_alleles(dn_strs_get(&k->model->a1, j), dn_strs_get(&k->model->a2, j), a1, a2);
    if (k->opts.no_strand_flip && (fit == DN_FIT_FLIP || fit == DN_FIT_FLIP_SWAP)) return DN_FIT_NONE;
    return fit;
}

/* One candidate for one slot. k->line holds its text. */
static dn_status offer(dn_matcher *k, slot *s, dn_fit fit, uint64_t snp, dn_err *err)
{
    bool fits = fit != DN_FIT_NONE;
    bool better = !s->text || (fits && !s->n_fit) || (fits == (s->n_fit > 0) && strcmp(k->line, s->text) < 0);
    if (s->n_seen < UINT32_MAX) s->n_seen++;
    if (fits && s->n_fit < UINT32_MAX) s->n_fit++;
    if (!better) return DN_OK;
    free(s->text);
    s->text = strdup(k->line);
    if (!s->text) return dn_fail(err, DN_ENOMEM, "out of memory: names of matched SNPs");
    s->snp = snp;
    s->fit = (uint8_t)fit;
    return DN_OK;
}

/* First model SNP of that ID, or place; NONE. A look at the SNP after the last hit mostly saves the hash map.
 */
static uint64_t find_id(dn_matcher *k, const char *id)
{
    if (!is_id(id)) return NONE;
    uint64_t h = k->hint_id;
    uint64_t j = h < k->n && strcmp(id, dn_strs_get(&k->model->id, h)) == 0
                     ? k->head_id[h]
                     : dn_map_get(k->by_id, id, strlen(id));
    if (j != NONE) k->hint_id = (h < k->n && j == k->head_id[h] ? h : j) + 1;
    return j;
}

static uint64_t find_pos(dn_matcher *k, uint64_t key)
{
    if (!key) return NONE;
    uint64_t h = k->hint_pos;
    uint64_t j = h < k->n && k->pos_key[h] == key ? k->head_pos[h]
                                                  : dn_map_get(k->by_pos, (const char *)&key, sizeof key);
    if (j != NONE) k->hint_pos = (h < k->n && j == k->head_pos[h] ? h : j) + 1;
    return j;
}

/* k->line = the candidate's text. */
static dn_status spell(dn_matcher *k, const char *const field[5], dn_err *err)
{
    size_t used = 0;
    for (int i = 0; i < 5; i++) {
        size_t len = strlen(field[i]);
        dn_status status = dn_grow(&k->line, &k->line_cap, used + len + 1, 1, "text of a SNP", err);
        if (status != DN_OK) return status;
        memcpy(k->line + used, field[i], len);
        used += len + 1;
        k->line[used - 1] = i < 4 ? '\t' : 0;
    }
    return DN_OK;
}

dn_status dn_matcher_add(dn_matcher *k, const char *chrom, const char *id, int64_t pos, const char *a1,
                         const char *a2, uint64_t snp, dn_err *err)
{
    dn_status status;
    uint64_t key = key_of(chrom, pos), by_id, by_pos;
    k->n_seen++;
    int code = dn_chrom_code(chrom);
    if (!code) k->n_unplaced++;
    if (pos < 0) {
        k->n_ignored++;
        return DN_OK;
    }
    k->has_chrom[code] = true;
    by_id = find_id(k, id);
    by_pos = find_pos(k, key);
    if (by_id == NONE && by_pos == NONE) return DN_OK;

    char at[24];
    snprintf(at, sizeof at, "%lld", (long long)pos);
    DN_TRY(spell(k, (const char *const[5]){id, chrom, at, a1, a2}, err));
    for (uint64_t j = by_id; j != NONE; j = k->next_id[j]) {
        slot *s = &k->slots[0][j];
        DN_TRY(offer(k, s, fit_of(k, j, a1, a2), snp, err));
        if (key && k->pos_key[j]) s->pos_known = true;
        if (key && k->pos_key[j] == key) s->pos_same = true;
    }
    for (uint64_t j = by_pos; j != NONE; j = k->next_pos[j]) {
        slot *s = &k->slots[1][j];
        DN_TRY(offer(k, s, fit_of(k, j, a1, a2), snp, err));
        if (strcmp(dn_strs_get(&k->model->id, j), id) == 0) s->id_same = true;
    }
    status = DN_OK;
done:
    return status;
}

static dn_reason reason_of(const slot *s, dn_match_ambiguous ambiguous)
{
    if (!s->n_seen) return DN_REASON_ABSENT;
    if (!s->n_fit) return DN_REASON_ALLELES_DIFFER;
    if (s->n_fit > 1) return DN_REASON_DUPLICATE;
    switch ((dn_fit)s->fit) {
    case DN_FIT_SAME: return DN_REASON_MATCHED;
    case DN_FIT_SWAP: return DN_REASON_SWAPPED;
    case DN_FIT_FLIP: return DN_REASON_FLIPPED;
    case DN_FIT_FLIP_SWAP: return DN_REASON_FLIPPED_SWAPPED;
    case DN_FIT_AMB_SAME:
    case DN_FIT_AMB_SWAP:
        return ambiguous == DN_AMBIGUOUS_DROP ? DN_REASON_AMBIGUOUS_DROPPED : DN_REASON_AMBIGUOUS_KEPT;
    case DN_FIT_NONE: break;
    }
    return DN_REASON_ALLELES_DIFFER;
}

static uint64_t count_used(const dn_matcher *k, const slot *slots)
{
    uint64_t n = 0;
    for (uint64_t j = 0; j < k->n; j++) n += dn_reason_used(reason_of(&slots[j], k->opts.ambiguous));
    return n;
}

/* Fewer than 3 of 10 model SNPs of the cohort's chromosomes found at their position, and of those that fit, a
 * third or more swapped or on the other strand: chance hits show a half or more, and a cohort of the right
 * build whose few SNPs are really the model's shows it in their IDs. */
static bool looks_like_chance(const dn_match *m, uint64_t ids_agree)
{
    uint64_t turned =
        m->count[DN_REASON_SWAPPED] + m->count[DN_REASON_FLIPPED] + m->count[DN_REASON_FLIPPED_SWAPPED];
    uint64_t sure = turned + m->count[DN_REASON_MATCHED];
    return sure >= 6 && 10 * m->n_hits < 3 * m->n_reachable && 20 * turned >= 7 * sure &&
           10 * ids_agree < m->n_hits;
}

static void judge_build(const dn_matcher *k, dn_match *m)
{
    uint64_t ids_agree = 0;
    const slot *used = k->slots[m->by == DN_BY_POS];
    for (uint64_t j = 0; j < k->n; j++) {
        const slot *s = &k->slots[0][j];
        if (s->pos_known) m->id_same_pos += s->pos_same, m->id_other_pos += !s->pos_same;
        m->n_hits += used[j].n_seen > 0;
        m->n_reachable += m->by == DN_BY_ID || (k->pos_key[j] && k->has_chrom[k->pos_key[j] >> 56]);
        ids_agree += k->slots[1][j].id_same;
    }
    /* One in ten, not half: one chromosome's fileset of another build among 22 must show as well. */
    if (m->id_other_pos >= 3 && 10 * m->id_other_pos > m->id_same_pos + m->id_other_pos)
        m->build = DN_BUILD_MOVED;
    else if (m->by == DN_BY_POS && looks_like_chance(m, ids_agree))
        m->build = DN_BUILD_CHANCE;
}

dn_status dn_matcher_finish(dn_matcher *k, dn_match *out, dn_err *err)
{
    dn_status status;
    dn_match m = {.n_model = k->n,
                  .cohort_snps = k->n_seen,
                  .cohort_unplaced = k->n_unplaced,
                  .cohort_ignored = k->n_ignored};
    m.n_id = count_used(k, k->slots[0]);
    m.n_pos = count_used(k, k->slots[1]);
    m.by = k->opts.by != DN_BY_AUTO ? k->opts.by : m.n_pos > m.n_id ? DN_BY_POS : DN_BY_ID;
    DN_TRY(dn_alloc(&m.reason, k->n, sizeof *m.reason, "match reasons", err));
    DN_TRY(dn_alloc(&m.map, k->n, sizeof *m.map, "match maps", err));
    DN_TRY(dn_alloc(&m.snp, k->n, sizeof *m.snp, "matched SNPs", err));
    DN_TRY(dn_alloc(&m.text, k->n, sizeof *m.text, "names of matched SNPs", err));
    slot *slots = k->slots[m.by == DN_BY_POS];
    for (uint64_t j = 0; j < k->n; j++) {
        slot *s = &slots[j];
        dn_reason r = reason_of(s, k->opts.ambiguous);
        m.reason[j] = (uint8_t)r;
        m.map[j] = s->fit == DN_FIT_SWAP || s->fit == DN_FIT_FLIP_SWAP || s->fit == DN_FIT_AMB_SWAP;
        m.snp[j] = dn_reason_used(r) ? s->snp : NONE;
        m.text[j] = s->text;
        s->text = NULL;
        m.count[r]++;
        m.n_used += dn_reason_used(r);
    }
    judge_build(k, &m);
    *out = m;
    memset(&m, 0, sizeof m);
    status = DN_OK;
done:
    dn_match_free(&m);
    return status;
}

void dn_match_free(dn_match *m)
{
    if (!m) return;
    for (uint64_t j = 0; m->text && j < m->n_model; j++) free(m->text[j]);
    free(m->reason);
    free(m->map);
    free(m->snp);
    free(m->text);
    memset(m, 0, sizeof *m);
}
