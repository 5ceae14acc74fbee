/* dnsplit_make.c: folds as the options ask for them (see dnsplit.h). */
#include "dnsplit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dnsplit_draw.h"
#include "dnsplit_group.h"
#include "dnsplit_npz.h"
#include "log.h"

/* People that take part: all, or those with a label where there are labels. */
static dn_status choose_people(const dn_gpk_info *info, uint64_t **who, uint64_t *n, dn_err *err)
{
    dn_status status = dn_alloc(who, info->n_people, sizeof **who, "people", err);
    if (status != DN_OK) return status;
    *n = 0;
    for (uint64_t i = 0; i < info->n_people; i++) {
        bool in = info->label ? info->label[i] >= 0 : !info->target || !isnan(info->target[i]);
        if (in) (*who)[(*n)++] = i;
    }
    if (*n < info->n_people)
        dn_warn("%llu of %llu people have no label and are in no set", (ull)(info->n_people - *n),
                (ull)info->n_people);
    if (*n == 0) return dn_fail(err, DN_EMISMATCH, "nobody in the dataset has a label");
    return DN_OK;
}

/* A set of upstream's may name people whom we know without a label; no model can be trained on them. */
static dn_status check_labelled(const dn_split *s, const dn_gpk_info *info, const char *path, dn_err *err)
{
    for (uint64_t f = 0; info->label && f < s->n_folds; f++) {
        for (int k = 0; k < DN_SPLIT_SETS; k++) {
            for (uint64_t i = 0; i < s->folds[f].n[k]; i++) {
                uint64_t p = s->folds[f].index[k][i];
                if (info->label[p] >= 0) continue;
                return dn_fail(
                    err, DN_EMISMATCH,
                    "%s: fold %llu has %s (person %llu) in its %s set, who has no label in the dataset", path,
                    (ull)f, dn_strs_get(&info->people.iid, p), (ull)p, dn_split_set_name[k]);
            }
        }
    }
    return DN_OK;
}

/* Draws the folds, with groups kept whole where there are any, and says what a plain draw would have torn. */
static dn_status draw(const split_options *o, const dn_gpk_info *info, dn_split *s, dn_err *err)
{
    dn_status status;
    uint64_t *who = NULL, *group = NULL, torn = 0;
    split_groups g = {0};
    split_draw d = {.label = o->balance ? info->label : NULL,
                    .n_classes = info->class_names.n,
                    .n_folds = o->folds,
                    .seed = o->seed,
                    .ratio = o->ratio,
                    .balanced = o->balance};
    if (o->balance && (!info->label || !info->class_names.n)) {
        DN_TRY(dn_fail(err, DN_EMISMATCH, "--balance-class: %s has no class labels", o->data));
    }
    DN_TRY(choose_people(info, &who, &d.n_who, err));
    d.who = who;
    s->n_folds = o->folds;
    DN_TRY(dn_alloc(&s->folds, o->folds, sizeof *s->folds, "folds", err));
    DN_TRY(split_draw_plain(&d, s->folds, err));
    if (!o->group && !o->group_by_fid) goto done;
    DN_TRY(split_groups_read(&g, o->group, &info->people, err));
    if (g.n_unknown)
        dn_warn("%llu lines of %s name nobody of the dataset, the first: %s", (ull)g.n_unknown, o->group,
                dn_strs_get(&g.unknown, 0));
    dn_info("groups: %llu people in %llu groups of two or more, %llu people alone", (ull)g.n_in_large,
            (ull)g.n_large, (ull)(info->n_people - g.n_in_large));
    DN_TRY(dn_alloc(&group, d.n_who, sizeof *group, "groups", err));
    for (uint64_t i = 0; i < d.n_who; i++) group[i] = g.of[who[i]];
    DN_TRY(split_count_torn(&d, group, g.n_groups, s->folds, info->n_people, &torn, err));
    dn_info("a plain split would have torn %llu of %llu groups between the sets of a fold; now none is",
            (ull)torn, (ull)g.n_large);
    if (!g.n_large) goto done;
    for (uint64_t f = 0; f < o->folds; f++) {
        for (int k = 0; k < DN_SPLIT_SETS; k++) {
            free(s->folds[f].index[k]);
            s->folds[f].index[k] = NULL;
        }
    }
    DN_TRY(split_draw_grouped(&d, group, g.n_groups, s->folds, err));
    DN_TRY(split_count_torn(&d, group, g.n_groups, s->folds, info->n_people, &torn, err));
    if (torn) DN_TRY(dn_fail(err, DN_EINTERNAL, "%llu groups are torn", (ull)torn));
done:
    free(who);
    free(group);
    split_groups_free(&g);
    return status;
}

/* Upstream's folds as they are; groups are only looked at. */
static dn_status take_npz(const split_options *o, const dn_gpk_info *info, dn_split *s, dn_err *err)
{
    dn_status status;
    split_groups g = {0};
    bool checked;
    DN_TRY(split_npz_read(o->from_npz, &info->people, &s->folds, &s->n_folds, &checked, err));
    DN_TRY(dn_split_check(s, o->from_npz, err));
    DN_TRY(check_labelled(s, info, o->from_npz, err));
    dn_info("%s: %llu folds; sample IDs %s", o->from_npz, (ull)s->n_folds,
            checked ? "agree with the dataset's" : "are not in the file, so only numbers were checked");
    if (o->group || o->group_by_fid) {
        uint64_t torn, *who = NULL;
        DN_TRY(split_groups_read(&g, o->group, &info->people, err));
        DN_TRY(dn_alloc(&who, info->n_people, sizeof *who, "people", err));
        for (uint64_t i = 0; i < info->n_people; i++) who[i] = i;
        split_draw d = {.who = who, .n_who = info->n_people, .n_folds = s->n_folds};
        status = split_count_torn(&d, g.of, g.n_groups, s->folds, info->n_people, &torn, err);
        free(who);
        DN_TRY(status);
        if (torn)
            dn_warn("%s tears %llu of %llu groups between the sets of a fold: relatives there make accuracy "
                    "look better than it is",
                    o->from_npz, (ull)torn, (ull)g.n_large);
        else
            dn_info("%s tears none of %llu groups", o->from_npz, (ull)g.n_large);
    }
    status = DN_OK;
done:
    split_groups_free(&g);
    return status;
}

static dn_status name_method(const split_options *o, dn_split *s, dn_err *err)
{
    const bool grouped = !o->from_npz && (o->group || o->group_by_fid);
    if (asprintf(&s->method, "%s%s",
                 o->from_npz  ? "npz"
                 : o->balance ? "balanced"
                              : "unbalanced",
                 grouped ? "+groups" : "") < 0) {
        s->method = NULL;
        return dn_fail(err, DN_ENOMEM, "out of memory");
    }
    s->seed = o->from_npz ? 0 : o->seed;
    s->ratio = o->from_npz || o->balance ? NAN : o->ratio;
    return DN_OK;
}

dn_status split_make(const split_options *o, const dn_gpk_info *info, dn_split *s, dn_err *err)
{
    dn_status status = name_method(o, s, err);
    if (status != DN_OK) return status;
    return o->from_npz ? take_npz(o, info, s, err) : draw(o, info, s, err);
}
