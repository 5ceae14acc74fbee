/* dnsplit_table.c: see dnsplit_table.h. */
#include "dnsplit_table.h"

#include <inttypes.h>
#include <stdlib.h>

dn_status split_table(const dn_split *s, const dn_gpk_info *info, uint64_t **counts, uint64_t *n_classes,
                      dn_err *err)
{
    *n_classes = info->label && info->class_names.n ? info->class_names.n : 1;
    dn_status status =
        dn_alloc(counts, s->n_folds * DN_SPLIT_SETS, *n_classes * sizeof **counts, "class table", err);
    if (status != DN_OK) return status;
    for (uint64_t f = 0; f < s->n_folds; f++) {
        for (uint64_t k = 0; k < DN_SPLIT_SETS; k++) {
            for (uint64_t i = 0; i < s->folds[f].n[k]; i++) {
                int64_t c = info->label && info->class_names.n ? info->label[s->folds[f].index[k][i]] : 0;
                if (c >= 0) (*counts)[(f * DN_SPLIT_SETS + k) * *n_classes + (uint64_t)c]++;
            }
        }
    }
    return DN_OK;
}

void split_table_print(FILE *f, const dn_split *s, const dn_gpk_info *info, const uint64_t *counts,
                       uint64_t n_classes)
{
    const bool named = info->label && info->class_names.n;
    fprintf(f, "fold\tset\tpeople");
    for (uint64_t c = 0; named && c < n_classes; c++) fprintf(f, "\t%s", dn_strs_get(&info->class_names, c));
    fprintf(f, "\n");
    for (uint64_t k = 0; k < s->n_folds * DN_SPLIT_SETS; k++) {
        fprintf(f, "%" PRIu64 "\t%s\t%" PRIu64, k / DN_SPLIT_SETS, dn_split_set_name[k % DN_SPLIT_SETS],
                s->folds[k / DN_SPLIT_SETS].n[k % DN_SPLIT_SETS]);
        for (uint64_t c = 0; named && c < n_classes; c++) fprintf(f, "\t%" PRIu64, counts[k * n_classes + c]);
        fprintf(f, "\n");
    }
}

dn_status split_table_check(const dn_split *s, const dn_gpk_info *info, const uint64_t *counts,
                            uint64_t n_classes, dn_err *err)
{
    uint64_t n_absent = 0, fold = 0, class = 0;
    for (uint64_t f = 0; f < s->n_folds; f++) {
        for (int k = DN_SPLIT_TRAIN; k <= DN_SPLIT_VALID; k++) {
            if (s->folds[f].n[k]) continue;
            return dn_fail(
                err, DN_ENUMERIC,
                "the %s set of fold %llu is empty: give fewer folds%s, or --force to write it all the same",
                dn_split_set_name[k], (unsigned long long)f,
                k == DN_SPLIT_VALID ? ", a smaller --train-valid-ratio" : "");
        }
        for (uint64_t c = n_classes; c-- > 0;) {
            if (counts[f * DN_SPLIT_SETS * n_classes + c]) continue;
            if (n_absent++ == 0 || fold == f) fold = f, class = c;
        }
    }
    if (!n_absent) return DN_OK;
    if (!info->label || !info->class_names.n) return DN_OK;
    uint64_t total = 0;
    for (uint64_t k = 0; k < DN_SPLIT_SETS; k++)
        total += counts[(fold * DN_SPLIT_SETS + k) * n_classes + class];
    char more[96] = "";
    if (n_absent > 1)
        snprintf(more, sizeof more, " (and so it is %llu more times, of other classes or folds)",
                 (unsigned long long)n_absent - 1);
    return dn_fail(
        err, DN_ENUMERIC,
        "class %s (%llu people) is absent from the training set of fold %llu%s: its model could never learn "
        "it. Leave such "
        "classes out, merge them, give fewer folds or another --seed; or --force to write it all the same",
        dn_strs_get(&info->class_names, class), (unsigned long long)total, (unsigned long long)fold, more);
}
