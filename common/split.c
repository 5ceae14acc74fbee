/* split.c: see split.h and docs/format-split.md. */
#include "split.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5.h"

const char *const dn_split_set_name[DN_SPLIT_SETS] = {"train", "valid", "test"};

static const char mark[] = "dnpipe split";

uint64_t dn_split_hash(const dn_split *s)
{
    uint64_t ratio = 0x7ff8000000000000u; /* one NaN for all */
    if (!isnan(s->ratio)) memcpy(&ratio, &s->ratio, sizeof ratio);
    uint64_t head[6] = {s->n_folds, s->n_people, s->data_hash, s->seed, dn_hash(s->method, strlen(s->method)),
                        ratio};
    uint64_t h = dn_hash(head, sizeof head);
    for (uint64_t f = 0; f < s->n_folds; f++) {
        for (int k = 0; k < DN_SPLIT_SETS; k++) {
            uint64_t n = s->folds[f].n[k];
            uint64_t mix[3] = {h, n, dn_hash(s->folds[f].index[k], (size_t)n * sizeof(uint64_t))};
            h = dn_hash(mix, sizeof mix);
        }
    }
    return h ? h : 1;
}

dn_status dn_split_check(const dn_split *s, const char *what, dn_err *err)
{
    dn_status status;
    uint8_t *seen = NULL;
    DN_TRY(dn_alloc(&seen, s->n_people, 1, "fold check", err));
    for (uint64_t f = 0; f < s->n_folds; f++) {
        memset(seen, 0, s->n_people);
        for (int k = 0; k < DN_SPLIT_SETS; k++) {
            for (uint64_t i = 0; i < s->folds[f].n[k]; i++) {
                uint64_t p = s->folds[f].index[k][i];
                if (p >= s->n_people) {
                    DN_TRY(dn_fail(err, DN_EFORMAT,
                                   "%s: fold %llu, %s set, item %llu is person %llu, but the dataset has "
                                   "%llu people (numbered from 0)",
                                   what, (unsigned long long)f, dn_split_set_name[k], (unsigned long long)i,
                                   (unsigned long long)p, (unsigned long long)s->n_people));
                }
                if (seen[p]) {
                    DN_TRY(dn_fail(err, DN_EFORMAT,
                                   "%s: fold %llu has person %llu twice, in its %s and its %s set", what,
                                   (unsigned long long)f, (unsigned long long)p,
                                   dn_split_set_name[seen[p] - 1], dn_split_set_name[k]));
                }
                seen[p] = (uint8_t)(k + 1);
            }
        }
    }
    status = DN_OK;
done:
    free(seen);
    return status;
}

void dn_split_free(dn_split *s)
{
    if (!s) return;
    for (uint64_t f = 0; s->folds && f < s->n_folds; f++) {
        for (int k = 0; k < DN_SPLIT_SETS; k++) free(s->folds[f].index[k]);
    }
    free(s->folds);
    free(s->method);
    free(s);
}

dn_status dn_split_write(const char *path, dn_split *s, unsigned out_flags, dn_err *err)
{
    dn_status status;
    dn_h5 *f = NULL;
    char name[64];
    const uint64_t version[2] = {DN_SPLIT_MAJOR, DN_SPLIT_MINOR};
    DN_TRY(dn_split_check(s, path, err));
    s->hash = dn_split_hash(s);
    DN_TRY(dn_h5_create(&f, path, out_flags, err));
    DN_TRY(dn_h5_write_attr_str(f, "/", "format", mark, err));
    DN_TRY(dn_h5_write_attr(f, "/", "version_major", DN_U64, &version[0], err));
    DN_TRY(dn_h5_write_attr(f, "/", "version_minor", DN_U64, &version[1], err));
    DN_TRY(dn_h5_write_attr_str(f, "/", "program", "dnpipe " DN_VERSION, err));
    DN_TRY(dn_h5_write_attr_str(f, "/", "method", s->method, err));
    DN_TRY(dn_h5_write_attr(f, "/", "seed", DN_U64, &s->seed, err));
    DN_TRY(dn_h5_write_attr(f, "/", "train_valid_ratio", DN_F64, &s->ratio, err));
    DN_TRY(dn_h5_write_attr(f, "/", "n_folds", DN_U64, &s->n_folds, err));
    DN_TRY(dn_h5_write_attr(f, "/", "n_people", DN_U64, &s->n_people, err));
    DN_TRY(dn_h5_write_attr(f, "/", "data_fingerprint", DN_U64, &s->data_hash, err));
    DN_TRY(dn_h5_write_attr(f, "/", "checksum", DN_U64, &s->hash, err));
    for (uint64_t i = 0; i < s->n_folds; i++) {
        snprintf(name, sizeof name, "fold%llu", (unsigned long long)i);
        DN_TRY(dn_h5_group(f, name, err));
        for (int k = 0; k < DN_SPLIT_SETS; k++) {
            snprintf(name, sizeof name, "fold%llu/%s", (unsigned long long)i, dn_split_set_name[k]);
            DN_TRY(dn_h5_write(f, name, DN_U64, 1, &s->folds[i].n[k], s->folds[i].index[k], err));
        }
    }
    status = dn_h5_commit(&f, err);
done:
    dn_h5_abort(&f);
    return status;
}

/* Type mark and version, so that another of our files is named rather than blamed for what it lacks. */
static dn_status check_mark(dn_h5 *f, dn_err *err)
{
    dn_status status;
    char *text = NULL;
    uint64_t major;
    const char *path = dn_h5_path(f);
    if (!dn_h5_has_attr(f, "/", "format"))
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s is an HDF5 file but no split: it has no mark \"%s\"; make one with dnsplit", path,
                       mark));
    DN_TRY(dn_h5_read_attr_str(f, "/", "format", &text, err));
    if (strcmp(text, mark) != 0)
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s is no split: it calls itself \"%s\"", path, text));
    DN_TRY(dn_h5_read_attr(f, "/", "version_major", DN_U64, &major, err));
    if (major != DN_SPLIT_MAJOR) {
        DN_TRY(dn_fail(err, DN_EUNSUPPORTED,
                       "%s is a split of version %llu; this program reads version %d: use the dnpipe that "
                       "wrote it, or a newer one",
                       path, (unsigned long long)major, DN_SPLIT_MAJOR));
    }
    status = DN_OK;
done:
    free(text);
    return status;
}

static dn_status read_set(dn_h5 *f, uint64_t fold, int set, uint64_t n_people, dn_fold *out, dn_err *err)
{
    dn_status status;
    char name[64];
    int rank;
    uint64_t dims[4];
    void *data;
    snprintf(name, sizeof name, "fold%llu/%s", (unsigned long long)fold, dn_split_set_name[set]);
    DN_TRY(dn_h5_shape(f, name, &rank, dims, err));
    if (rank != 1 || dims[0] > n_people) {
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s: %s has %llu entries in %d dimension(s) for %llu people: the file is damaged",
                       dn_h5_path(f), name, (unsigned long long)dims[0], rank, (unsigned long long)n_people));
    }
    DN_TRY(dn_h5_read(f, name, DN_U64, dims[0], &data, &out->n[set], err));
    out->index[set] = data;
    status = DN_OK;
done:
    return status;
}

dn_status dn_split_read(dn_split **out, const char *path, dn_err *err)
{
    dn_status status;
    dn_h5 *f = NULL;
    dn_split *s = NULL;
    uint64_t checksum;
    *out = NULL;
    DN_TRY(dn_h5_open(&f, path, err));
    DN_TRY(check_mark(f, err));
    DN_TRY(dn_alloc(&s, 1, sizeof *s, "split", err));
    DN_TRY(dn_h5_read_attr(f, "/", "n_folds", DN_U64, &s->n_folds, err));
    DN_TRY(dn_h5_read_attr(f, "/", "n_people", DN_U64, &s->n_people, err));
    if (s->n_folds == 0 || s->n_folds > DN_MAX_FOLDS || s->n_people == 0 || s->n_people > DN_MAX_PEOPLE) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: %llu folds of %llu people: the file is damaged", path,
                       (unsigned long long)s->n_folds, (unsigned long long)s->n_people));
    }
    DN_TRY(dn_h5_read_attr(f, "/", "data_fingerprint", DN_U64, &s->data_hash, err));
    DN_TRY(dn_h5_read_attr(f, "/", "seed", DN_U64, &s->seed, err));
    DN_TRY(dn_h5_read_attr(f, "/", "train_valid_ratio", DN_F64, &s->ratio, err));
    DN_TRY(dn_h5_read_attr_str(f, "/", "method", &s->method, err));
    DN_TRY(dn_h5_read_attr(f, "/", "checksum", DN_U64, &checksum, err));
    DN_TRY(dn_alloc(&s->folds, (size_t)s->n_folds, sizeof *s->folds, "folds", err));
    for (uint64_t i = 0; i < s->n_folds; i++) {
        for (int k = 0; k < DN_SPLIT_SETS; k++) DN_TRY(read_set(f, i, k, s->n_people, &s->folds[i], err));
    }
    s->hash = dn_split_hash(s);
    if (s->hash != checksum) {
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s: the checksum does not match (%016llx found, %016llx expected): the file is "
                       "damaged or was changed",
                       path, (unsigned long long)s->hash, (unsigned long long)checksum));
    }
    DN_TRY(dn_split_check(s, path, err));
    *out = s;
    s = NULL;
    status = DN_OK;
done:
    dn_h5_close(f);
    dn_split_free(s);
    return status;
}
