/* gpk.c: what reading and writing .gpk share: sizes, hashes and checks (see gpk.h). */
#include "gpk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "geno.h"
#include "gpk_impl.h"

void dn_gpk_info_free(dn_gpk_info *info)
{
    if (!info) return;
    dn_people_free(&info->people);
    dn_snps_free(&info->snps);
    dn_strs_free(&info->class_names);
    free(info->label);
    free(info->target);
    free(info->place);
    memset(info, 0, sizeof *info);
}

double dn_gpk_scale(const dn_gpk_info *info)
{
    return info->model_snps ? (double)info->model_snps / (double)info->n_snps : 1.0;
}

uint64_t dn_gpk_row_bytes(uint64_t n_snps)
{
    return gpk_round_up(dn_geno_bytes(n_snps), 64);
}

uint32_t dn_gpk_block_rows(uint64_t n_snps)
{
    uint64_t n = ((uint64_t)64 << 10) / dn_gpk_row_bytes(n_snps);
    return n ? (uint32_t)n : 1;
}

uint64_t gpk_row_hash(const uint8_t *row, uint64_t row_bytes)
{
    return dn_hash(row, row_bytes);
}

bool gpk_padding_ok(const uint8_t *row, uint64_t n_snps, uint64_t row_bytes)
{
    uint64_t used = dn_geno_bytes(n_snps);
    unsigned tail = n_snps % 4 ? 0xffu << n_snps % 4 * 2 & 0xffu : 0;
    unsigned all = n_snps % 4 ? (row[used - 1] & tail) == tail : 1;
    for (uint64_t i = used; i < row_bytes; i++) all &= row[i] == 0xff;
    return all;
}

uint64_t gpk_section_hash(const gpk_section *s, const void *payload)
{
    uint8_t bytes[24];
    uint64_t h = dn_hash(payload, s->length);
    memcpy(bytes, s, 16);
    memcpy(bytes + 16, &h, 8);
    return dn_hash(bytes, sizeof bytes);
}

double gpk_plain_nan(double v)
{
    uint64_t bits = 0x7ff8000000000000u;
    double nan_value;
    if (!isnan(v)) return v;
    memcpy(&nan_value, &bits, sizeof bits);
    return nan_value;
}

uint64_t gpk_chain(uint64_t so_far, uint64_t next)
{
    uint64_t both[2] = {so_far, next};
    return dn_hash(both, sizeof both);
}

uint64_t gpk_fingerprint(const dn_gpk_info *f, uint64_t rows_hash)
{
    return dn_data_fingerprint(&f->people, &f->snps, &f->class_names, f->label, f->target, rows_hash);
}

static dn_status check_strs(const dn_strs *s, uint64_t want, const char *what, const char *path, dn_err *err)
{
    if (s->n != want) {
        return dn_fail(err, DN_EFORMAT, "%s: %llu %s for %llu", path, (unsigned long long)s->n, what,
                       (unsigned long long)want);
    }
    for (uint64_t i = 0; i < s->n; i++) {
        uint64_t end = i + 1 < s->n ? s->off[i + 1] : s->used;
        if (end - s->off[i] > DN_MAX_ID + 1) {
            return dn_fail(err, DN_EFORMAT, "%s: %s %llu is longer than %d bytes", path, what,
                           (unsigned long long)i + 1, DN_MAX_ID);
        }
    }
    return DN_OK;
}

static dn_status check_labels(const dn_gpk_info *info, const char *path, dn_err *err)
{
    dn_status status;
    if (info->class_names.n > DN_MAX_CLASSES) {
        return dn_fail(err, DN_EFORMAT, "%s: %llu classes; the limit is %llu", path,
                       (unsigned long long)info->class_names.n, (unsigned long long)DN_MAX_CLASSES);
    }
    if (info->label) {
        status = check_strs(&info->class_names, info->class_names.n, "class name", path, err);
        if (status != DN_OK) return status;
        for (uint64_t i = 0; i < info->n_people; i++) {
            if (info->label[i] < -1 || info->label[i] >= (int64_t)info->class_names.n) {
                return dn_fail(err, DN_EFORMAT, "%s: label of person %llu is %lld; there are %llu classes",
                               path, (unsigned long long)i + 1, (long long)info->label[i],
                               (unsigned long long)info->class_names.n);
            }
        }
    }
    for (uint64_t i = 0; info->target && i < info->n_people; i++) {
        double v = info->target[i];
        if (isinf(v))
            return dn_fail(err, DN_EFORMAT, "%s: regression label of person %llu is infinite", path,
                           (unsigned long long)i + 1);
    }
    return DN_OK;
}

static dn_status check_place(const dn_gpk_info *info, const char *path, dn_err *err)
{
    if (!info->model_snps) return DN_OK;
    if (!info->place || info->model_snps < info->n_snps || info->model_snps > DN_MAX_SNPS) {
        return dn_fail(err, DN_EFORMAT, "%s: matched to a model of %llu SNPs, but holds %llu%s", path,
                       (unsigned long long)info->model_snps, (unsigned long long)info->n_snps,
                       info->place ? "" : " without their places");
    }
    for (uint64_t j = 0; j < info->n_snps; j++) {
        if (info->place[j] >= info->model_snps || (j && info->place[j] <= info->place[j - 1])) {
            return dn_fail(err, DN_EFORMAT,
                           "%s: place %llu of SNP %llu in the model of %llu SNPs is out of order", path,
                           (unsigned long long)info->place[j], (unsigned long long)j + 1,
                           (unsigned long long)info->model_snps);
        }
    }
    return DN_OK;
}

dn_status dn_gpk_info_check(const dn_gpk_info *info, const char *path, dn_err *err)
{
    dn_status status;
    if (info->n_people == 0 || info->n_snps == 0) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: 0 %s: there is nothing to hold", path,
                       info->n_people ? "SNPs" : "people"));
    }
    if (info->n_people > DN_MAX_PEOPLE || info->n_snps > DN_MAX_SNPS) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: %llu people x %llu SNPs; the limits are %llu and %llu", path,
                       (unsigned long long)info->n_people, (unsigned long long)info->n_snps,
                       (unsigned long long)DN_MAX_PEOPLE, (unsigned long long)DN_MAX_SNPS));
    }
    DN_TRY(check_strs(&info->people.fid, info->n_people, "family ID", path, err));
    DN_TRY(check_strs(&info->people.iid, info->n_people, "person ID", path, err));
    DN_TRY(check_strs(&info->snps.id, info->n_snps, "SNP ID", path, err));
    if (info->snps.chrom.n) DN_TRY(check_strs(&info->snps.chrom, info->n_snps, "chromosome", path, err));
    if (info->snps.a1.n) DN_TRY(check_strs(&info->snps.a1, info->n_snps, "allele 1", path, err));
    if (info->snps.a2.n) DN_TRY(check_strs(&info->snps.a2, info->n_snps, "allele 2", path, err));
    DN_TRY(check_labels(info, path, err));
    DN_TRY(check_place(info, path, err));
    status = DN_OK;
done:
    return status;
}
