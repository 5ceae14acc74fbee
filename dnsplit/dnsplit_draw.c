/* dnsplit_draw.c: upstream's folds, draw for draw (see dnsplit_draw.h). */
#include "dnsplit_draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"

static dn_status set_list(dn_fold *f, int set, uint64_t n, dn_err *err)
{
    f->n[set] = 0;
    return dn_alloc(&f->index[set], n, sizeof(uint64_t), "fold", err);
}

static void append(dn_fold *f, int set, uint64_t person)
{
    f->index[set][f->n[set]++] = person;
}

static dn_status check_sizes(const split_draw *d, dn_err *err)
{
    uint64_t least = d->balanced ? 3 : 2;
    if (d->n_folds < least) {
        return dn_fail(err, DN_EUSAGE,
                       "--folds %llu: %s folds need %llu or more, so that each has people to train, to "
                       "choose and to test with",
                       (unsigned long long)d->n_folds, d->balanced ? "balanced" : "unbalanced",
                       (unsigned long long)least);
    }
    if (d->n_who < d->n_folds) {
        return dn_fail(err, DN_ENUMERIC, "%llu people cannot be dealt into %llu folds",
                       (unsigned long long)d->n_who, (unsigned long long)d->n_folds);
    }
    return DN_OK;
}

/* numpy.random.seed(seed); shuffle(arange(n)): the order of people, as places in `who`. *rng goes on from
 * there. */
static dn_status shuffled(const split_draw *d, uint64_t n, dn_rng *rng, uint64_t **order, dn_err *err)
{
    dn_status status = dn_alloc(order, n, sizeof **order, "shuffle", err);
    if (status != DN_OK) return status;
    for (uint64_t i = 0; i < n; i++) (*order)[i] = i;
    dn_rng_seed(rng, d->seed);
    dn_rng_np_shuffle(rng, *order, n);
    return DN_OK;
}

static dn_status unbalanced(const split_draw *d, const uint64_t *order, dn_fold *folds, dn_err *err)
{
    dn_status status;
    const uint64_t n = d->n_who, step = n / d->n_folds;
    for (uint64_t f = 0; f < d->n_folds; f++) {
        uint64_t from = f * step, to = f + 1 < d->n_folds ? from + step : n, rest = n - (to - from);
        uint64_t n_train = (uint64_t)(d->ratio * (double)rest);
        for (int s = 0; s < DN_SPLIT_SETS; s++) DN_TRY(set_list(&folds[f], s, n, err));
        for (uint64_t i = from; i < to; i++) append(&folds[f], DN_SPLIT_TEST, d->who[order[i]]);
        for (uint64_t i = 0; i < rest; i++) {
            append(&folds[f], i < rest - n_train ? DN_SPLIT_VALID : DN_SPLIT_TRAIN,
                   d->who[order[(to + i) % n]]);
        }
    }
    status = DN_OK;
done:
    return status;
}

/* Where part i of a class of m people begins on its wheel; parts go round, so that each person is in one. */
static uint64_t wheel(double u, uint64_t i, uint64_t n_folds, uint64_t m)
{
    uint64_t turns = i / n_folds;
    return (uint64_t)floor((u + (double)(i % n_folds) / (double)n_folds) * (double)m) + turns * m;
}

static dn_status balanced(const split_draw *d, const uint64_t *order, double u, dn_fold *folds, dn_err *err)
{
    dn_status status;
    uint64_t *member = NULL;
    const uint64_t k = d->n_folds;
    DN_TRY(dn_alloc(&member, d->n_who, sizeof *member, "classes", err));
    for (uint64_t f = 0; f < k; f++) {
        for (int s = 0; s < DN_SPLIT_SETS; s++) DN_TRY(set_list(&folds[f], s, d->n_who, err));
    }
    for (uint64_t c = 0; c < d->n_classes; c++) {
        uint64_t m = 0;
        for (uint64_t i = 0; i < d->n_who; i++) {
            uint64_t person = d->who[order[i]];
            if (d->label[person] == (int64_t)c) member[m++] = person;
        }
        for (uint64_t f = 0; m && f < k; f++) {
            uint64_t valid = wheel(u, f, k, m), test = wheel(u, f + 1, k, m), train = wheel(u, f + 2, k, m);
            for (uint64_t i = valid; i < test; i++) append(&folds[f], DN_SPLIT_VALID, member[i % m]);
            for (uint64_t i = test; i < train; i++) append(&folds[f], DN_SPLIT_TEST, member[i % m]);
            for (uint64_t i = train; i < valid + m; i++) append(&folds[f], DN_SPLIT_TRAIN, member[i % m]);
        }
    }
    status = DN_OK;
done:
    free(member);
    return status;
}

dn_status split_draw_plain(const split_draw *d, dn_fold *folds, dn_err *err)
{
    dn_status status;
    uint64_t *order = NULL;
    dn_rng rng;
    DN_TRY(check_sizes(d, err));
    DN_TRY(shuffled(d, d->n_who, &rng, &order, err));
    status = d->balanced ? balanced(d, order, dn_rng_np_random(&rng), folds, err)
                         : unbalanced(d, order, folds, err);
done:
    free(order);
    return status;
}

/* ---- groups ---- */

typedef struct {
    uint64_t first, n; /* its people: members[first .. first + n) */
    uint64_t drawn;    /* place in the shuffle */
    uint64_t part;
} unit;

/* Largest first; equals in the order drawn. */
static int by_size(const void *a, const void *b)
{
    const unit *x = a, *y = b;
    if (x->n != y->n) return x->n > y->n ? -1 : 1;
    return x->drawn < y->drawn ? -1 : 1;
}

static int by_draw(const void *a, const void *b)
{
    const unit *x = a, *y = b;
    return x->drawn < y->drawn ? -1 : 1;
}

/* Groups that have people here, in the order of their first person, and the people group by group. */
static dn_status make_units(const split_draw *d, const uint64_t *group, uint64_t n_groups, unit **units,
                            uint64_t *n_units, uint64_t **members, dn_err *err)
{
    dn_status status;
    uint64_t *place = NULL;
    *n_units = 0;
    DN_TRY(dn_alloc(&place, n_groups, sizeof *place, "groups", err));
    DN_TRY(dn_alloc(units, d->n_who, sizeof **units, "groups", err));
    DN_TRY(dn_alloc(members, d->n_who, sizeof **members, "groups", err));
    memset(place, 0xff, n_groups * sizeof *place);
    for (uint64_t i = 0; i < d->n_who; i++) {
        uint64_t *p = &place[group[i]];
        if (*p == UINT64_MAX) *p = (*n_units)++;
        (*units)[*p].n++;
    }
    for (uint64_t u = 1; u < *n_units; u++) (*units)[u].first = (*units)[u - 1].first + (*units)[u - 1].n;
    for (uint64_t u = 0; u < *n_units; u++) (*units)[u].n = 0;
    for (uint64_t i = 0; i < d->n_who; i++) {
        unit *u = &(*units)[place[group[i]]];
        (*members)[u->first + u->n++] = d->who[i];
    }
    status = DN_OK;
done:
    free(place);
    return status;
}

/* Deals units into K parts. have: K x C people so far (C = 1 when classes do not matter). */
static dn_status deal(const split_draw *d, unit *units, uint64_t n_units, const uint64_t *members,
                      dn_err *err)
{
    dn_status status;
    const uint64_t n_classes = d->balanced ? d->n_classes : 1;
    uint64_t *have = NULL, *total = NULL, *size = NULL;
    DN_TRY(dn_alloc(&have, d->n_folds * n_classes, sizeof *have, "folds", err));
    DN_TRY(dn_alloc(&size, d->n_folds, sizeof *size, "folds", err));
    DN_TRY(dn_alloc(&total, n_classes, sizeof *total, "classes", err));
    for (uint64_t i = 0; i < d->n_who; i++) total[d->balanced ? d->label[d->who[i]] : 0]++;
    for (uint64_t u = 0; u < n_units; u++) {
        double least = INFINITY;
        for (uint64_t p = 0; p < d->n_folds; p++) {
            double cost = 0;
            for (uint64_t i = 0; i < units[u].n; i++) {
                int64_t c = d->balanced ? d->label[members[units[u].first + i]] : 0;
                cost += (double)have[p * n_classes + (uint64_t)c] / (double)total[c];
            }
            if (cost < least || (cost == least && size[p] < size[units[u].part])) {
                least = cost;
                units[u].part = p;
            }
        }
        for (uint64_t i = 0; i < units[u].n; i++) {
            have[units[u].part * n_classes +
                 (uint64_t)(d->balanced ? d->label[members[units[u].first + i]] : 0)]++;
        }
        size[units[u].part] += units[u].n;
    }
    status = DN_OK;
done:
    free(have);
    free(size);
    free(total);
    return status;
}

static void append_unit(dn_fold *f, int set, const unit *u, const uint64_t *members)
{
    for (uint64_t i = 0; i < u->n; i++) append(f, set, members[u->first + i]);
}

/* The units of part p, in the order drawn, to one set. */
static void append_part(dn_fold *f, int set, uint64_t p, const unit *units, uint64_t n_units,
                        const uint64_t *members)
{
    for (uint64_t u = 0; u < n_units; u++) {
        if (units[u].part == p) append_unit(f, set, &units[u], members);
    }
}

static void parts_to_sets(const split_draw *d, uint64_t f, const unit *units, uint64_t n_units,
                          const uint64_t *members, dn_fold *fold)
{
    const uint64_t k = d->n_folds;
    append_part(fold, DN_SPLIT_TEST, f, units, n_units, members);
    if (d->balanced) {
        append_part(fold, DN_SPLIT_VALID, (f + k - 1) % k, units, n_units, members);
        for (uint64_t p = 1; p + 1 < k; p++)
            append_part(fold, DN_SPLIT_TRAIN, (f + p) % k, units, n_units, members);
        return;
    }
    uint64_t rest = d->n_who - fold->n[DN_SPLIT_TEST], want = rest - (uint64_t)(d->ratio * (double)rest);
    for (uint64_t p = 1; p < k; p++) {
        for (uint64_t u = 0; u < n_units; u++) {
            if (units[u].part != (f + p) % k) continue;
            bool fits = fold->n[DN_SPLIT_VALID] + units[u].n <= want;
            append_unit(fold, fits ? DN_SPLIT_VALID : DN_SPLIT_TRAIN, &units[u], members);
        }
    }
}

dn_status split_draw_grouped(const split_draw *d, const uint64_t *group, uint64_t n_groups, dn_fold *folds,
                             dn_err *err)
{
    dn_status status;
    uint64_t *order = NULL, *members = NULL, n_units;
    unit *units = NULL;
    dn_rng rng;
    DN_TRY(check_sizes(d, err));
    DN_TRY(make_units(d, group, n_groups, &units, &n_units, &members, err));
    if (n_units < d->n_folds) {
        DN_TRY(dn_fail(err, DN_ENUMERIC, "%llu groups cannot be dealt into %llu folds",
                       (unsigned long long)n_units, (unsigned long long)d->n_folds));
    }
    DN_TRY(shuffled(d, n_units, &rng, &order, err));
    for (uint64_t i = 0; i < n_units; i++) units[order[i]].drawn = i;
    qsort(units, n_units, sizeof *units, by_size);
    DN_TRY(deal(d, units, n_units, members, err));
    qsort(units, n_units, sizeof *units, by_draw);
    for (uint64_t f = 0; f < d->n_folds; f++) {
        for (int s = 0; s < DN_SPLIT_SETS; s++) DN_TRY(set_list(&folds[f], s, d->n_who, err));
        parts_to_sets(d, f, units, n_units, members, &folds[f]);
    }
    status = DN_OK;
done:
    free(order);
    free(members);
    free(units);
    return status;
}

dn_status split_count_torn(const split_draw *d, const uint64_t *group, uint64_t n_groups,
                           const dn_fold *folds, uint64_t n_people, uint64_t *torn, dn_err *err)
{
    dn_status status;
    uint8_t *set = NULL, *seen = NULL, *bad = NULL;
    *torn = 0;
    DN_TRY(dn_alloc(&set, n_people, 1, "groups", err));
    DN_TRY(dn_alloc(&seen, n_groups, 1, "groups", err));
    DN_TRY(dn_alloc(&bad, n_groups, 1, "groups", err));
    for (uint64_t f = 0; f < d->n_folds; f++) {
        memset(set, 0, n_people);
        memset(seen, 0, n_groups);
        for (int s = 0; s < DN_SPLIT_SETS; s++) {
            for (uint64_t i = 0; i < folds[f].n[s]; i++) set[folds[f].index[s][i]] = (uint8_t)(s + 1);
        }
        for (uint64_t i = 0; i < d->n_who; i++) {
            uint8_t mine = set[d->who[i]], *theirs = &seen[group[i]];
            if (!mine) continue; /* in no set: leaks nothing */
            if (*theirs && *theirs != mine) bad[group[i]] = 1;
            *theirs = mine;
        }
    }
    for (uint64_t g = 0; g < n_groups; g++) *torn += bad[g];
    status = DN_OK;
done:
    free(set);
    free(seen);
    free(bad);
    return status;
}
