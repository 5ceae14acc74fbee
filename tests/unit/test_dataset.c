/* Datasets: the .h5 and the .gpk of one panel give the same rows and the same fingerprint; what is refused.
 */
#include "check.h"

#include <unistd.h>

#include "dataset.h"
#include "fingerprint.h"
#include "geno.h"
#include "h5.h"

static char dir[256], h5[300], gpk[300];

static void add(dn_strs *t, const char *fmt, unsigned long long i)
{
    dn_err err;
    char s[64];
    snprintf(s, sizeof s, fmt, i);
    if (dn_strs_add(t, s, strlen(s), &err) != DN_OK) exit(1);
}

static uint8_t *make(dn_gpk_info *info, uint64_t n, uint64_t m, bool labels, bool fids, bool alleles,
                     unsigned long long *seed)
{
    memset(info, 0, sizeof *info);
    info->n_people = n, info->n_snps = m;
    for (uint64_t i = 0; i < n; i++) {
        add(&info->people.iid, "S%llu", i);
        add(&info->people.fid, fids ? "F%llu" : "0", i);
    }
    if (alleles) info->snps.pos = calloc(m, sizeof(int64_t));
    for (uint64_t j = 0; j < m; j++) {
        add(&info->snps.id, "rs%llu", j);
        if (!alleles) continue;
        add(&info->snps.chrom, "%llu", 1 + j % 22);
        add(&info->snps.a1, j % 2 ? "A" : "c", j);
        add(&info->snps.a2, "G", j);
        info->snps.pos[j] = (int64_t)j * 10;
    }
    if (labels) {
        add(&info->class_names, "AAA", 0);
        add(&info->class_names, "B B", 0);
        info->label = calloc(n, sizeof *info->label);
        info->target = calloc(n, sizeof *info->target);
        for (uint64_t i = 0; i < n; i++)
            info->label[i] = (int64_t)(i % 3) - 1, info->target[i] = i % 4 ? (double)i / 3 : NAN;
    }
    uint64_t stride = dn_gpk_row_bytes(m);
    uint8_t *rows = aligned_alloc(64, n * stride);
    memset(rows, 0xff, n * stride);
    int8_t *calls = malloc(m);
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t j = 0; j < m; j++) calls[j] = (int8_t)(check_rand(seed) >> 60 & 3) - 1;
        dn_geno_pack(calls, m, rows + i * stride);
    }
    free(calls);
    return rows;
}

static void write_both(const dn_gpk_info *info, const uint8_t *rows)
{
    dn_err err = {0};
    dn_dataset_writer *w;
    uint64_t n = info->n_people, stride = dn_gpk_row_bytes(info->n_snps);
    CHECK_OK(dn_dataset_create(&w, h5, info, DN_OUT_FORCE, &err), &err);
    CHECK_OK(dn_dataset_write(w, rows, stride, n / 2, &err), &err);
    CHECK_OK(dn_dataset_write(w, rows + n / 2 * stride, stride, n - n / 2, &err), &err);
    CHECK(dn_dataset_write(w, rows, stride, 1, &err) == DN_EINTERNAL);
    CHECK_OK(dn_dataset_commit(&w, &err), &err);
    dn_out *out;
    dn_gpk_writer *g;
    CHECK_OK(dn_out_open(&out, gpk, DN_OUT_FORCE, &err), &err);
    CHECK_OK(dn_gpk_write_start(&g, out, info, &err), &err);
    CHECK_OK(dn_gpk_write_rows(g, rows, n, &err), &err);
    CHECK_OK(dn_gpk_write_end(&g, &err), &err);
    CHECK_OK(dn_out_commit(&out, &err), &err);
}

static void same_tables(const dn_gpk_info *a, const dn_gpk_info *b)
{
    uint64_t n = a->n_people;
    CHECK(a->n_people == b->n_people && a->n_snps == b->n_snps && dn_people_equal(&a->people, &b->people));
    CHECK(dn_strs_equal(&a->snps.id, &b->snps.id) && dn_strs_equal(&a->snps.a1, &b->snps.a1) &&
          dn_strs_equal(&a->snps.a2, &b->snps.a2));
    CHECK(dn_strs_equal(&a->snps.chrom, &b->snps.chrom) && !a->snps.pos == !b->snps.pos);
    CHECK(!a->snps.pos || !memcmp(a->snps.pos, b->snps.pos, a->n_snps * sizeof(int64_t)));
    CHECK(!a->label == !b->label && (!a->label || !memcmp(a->label, b->label, n * sizeof(int64_t))));
    CHECK(!a->target == !b->target && (!a->target || !memcmp(a->target, b->target, n * sizeof(double))));
    CHECK(dn_strs_equal(&a->class_names, &b->class_names));
}

static void both(uint64_t n, uint64_t m, bool labels, bool fids, bool alleles)
{
    static unsigned long long seed = 5;
    dn_err err = {0};
    dn_gpk_info info;
    uint8_t *rows = make(&info, n, m, labels, fids, alleles, &seed);
    uint64_t stride = dn_gpk_row_bytes(m), fp[2];
    write_both(&info, rows);
    uint8_t *buf = aligned_alloc(64, n * stride);
    for (int k = 0; k < 2; k++) {
        dn_dataset *d;
        const uint8_t *got;
        bool checked;
        CHECK_OK(dn_dataset_open(&d, k ? gpk : h5, &err), &err);
        CHECK(dn_dataset_is_gpk(d) == (k == 1) && dn_dataset_row_bytes(d) == stride);
        same_tables(dn_dataset_info(d), &info);
        CHECK_OK(dn_dataset_rows(d, 0, n, buf, &got, &err), &err);
        CHECK(!memcmp(got, rows, n * stride));
        CHECK_OK(dn_dataset_read(d, n - 1, 1, buf, &err), &err);
        CHECK(!memcmp(buf, rows + (n - 1) * stride, stride));
        CHECK(dn_dataset_rows(d, n, 1, buf, &got, &err) == DN_EINTERNAL &&
              dn_dataset_rows(d, n, 0, buf, &got, &err) == DN_OK);
        CHECK_OK(dn_dataset_fingerprint(d, &fp[k], NULL, NULL, &err), &err);
        CHECK(dn_dataset_verify(d, 1, &checked, NULL, NULL, &err) == DN_OK && checked);
        dn_dataset_release(d, 0, n);
        dn_dataset_close(d);
    }
    CHECK(fp[0] == fp[1]);
    dn_row_hash *h;
    CHECK_OK(dn_row_hash_new(&h, &err), &err);
    dn_row_hash_add(h, rows, n * stride);
    CHECK(fp[0] == dn_data_fingerprint(&info.people, &info.snps, &info.class_names, info.label, info.target,
                                       dn_row_hash_get(h)));
    dn_row_hash_free(h);
    free(buf);
    free(rows);
    dn_gpk_info_free(&info);
}

/* A file as upstream would write it, or almost. */
static void upstream(const char *spoil, dn_type type, int64_t label2, dn_status want, const char *words)
{
    dn_err err = {0};
    dn_h5 *f;
    dn_dataset *d = NULL;
    const int32_t calls[15] = {0, 1, 2, -1, 0, 2, 2, 2, 2, 2, 1, 0, -1, -1, strcmp(spoil, "value") ? 1 : 3};
    int8_t small[15];
    for (int i = 0; i < 15; i++) small[i] = (int8_t)calls[i];
    int64_t labels[3] = {0, 1, label2};
    dn_strs iid = {0}, snp = {0}, cls = {0};
    for (unsigned i = 0; i < 3; i++) add(&iid, "NA%llu", i);
    for (unsigned i = 0; i < (strcmp(spoil, "snps") ? 5u : 4u); i++) add(&snp, "rs%llu_A", i);
    add(&cls, "x", 0);
    add(&cls, strcmp(spoil, "twice") ? "y" : "x", 0);
    uint64_t dims[2] = {3, 5}, n = 3;
    CHECK_OK(dn_h5_create(&f, h5, DN_OUT_FORCE, &err), &err);
    if (strcmp(spoil, "inputs")) {
        CHECK_OK(dn_h5_write(f, "inputs", type, 2, dims,
                             type == DN_I8 ? (const void *)small : (const void *)calls, &err),
                 &err);
    }
    CHECK_OK(dn_h5_write_strs(f, "samples", &iid, &err), &err);
    CHECK_OK(dn_h5_write_strs(f, "snp_names", &snp, &err), &err);
    CHECK_OK(dn_h5_write(f, "class_labels", DN_I64, 1, &n, labels, &err), &err);
    if (strcmp(spoil, "names")) CHECK_OK(dn_h5_write_strs(f, "class_label_names", &cls, &err), &err);
    CHECK_OK(dn_h5_commit(&f, &err), &err);
    dn_status st = dn_dataset_open(&d, h5, &err);
    if (st == DN_OK) {
        uint8_t *buf = aligned_alloc(64, 3 * 64);
        uint64_t fp;
        bool checked = true;
        st = dn_dataset_read(d, 0, 3, buf, &err);
        if (st == DN_OK) {
            CHECK(dn_geno_get(buf + 128, 0) == 1 && dn_geno_get(buf, 3) == 3 && buf[63] == 0xff);
            CHECK(!strcmp(dn_strs_get(&dn_dataset_info(d)->people.fid, 2), "0"));
            CHECK(dn_dataset_fingerprint(d, &fp, NULL, NULL, &err) == DN_OK && fp != 0);
            CHECK(dn_dataset_verify(d, 1, &checked, NULL, NULL, &err) == DN_OK && !checked);
        }
        free(buf);
        dn_dataset_close(d);
    }
    CHECK_MSG(st == want && (want == DN_OK || (strstr(err.msg, words) && strstr(err.msg, h5))), "%s: %d %s",
              spoil, (int)st, err.msg);
    dn_strs_free(&iid), dn_strs_free(&snp), dn_strs_free(&cls);
}

/* Genotypes and tables that were changed afterwards. */
static void edited(void)
{
    static unsigned long long seed = 8;
    dn_err err = {0};
    dn_gpk_info info;
    dn_dataset *d;
    uint8_t *rows = make(&info, 20, 400, true, false, true, &seed);
    write_both(&info, rows);
    dn_h5 *f;
    uint64_t at;
    bool ok, checked;
    const char *why;
    CHECK_OK(dn_h5_open(&f, h5, &err), &err);
    CHECK(!dn_h5_has(f, "fids"));
    for (int k = 0; k < 2; k++) {
        CHECK(dn_h5_locate(f, k ? "class_labels" : "inputs", k ? DN_I64 : DN_I8, &at, &ok, &why, &err) ==
                  DN_OK &&
              ok);
        FILE *raw = fopen(h5, "r+b");
        fseek(raw, (long)at + 8 * k, SEEK_SET);
        int c = fgetc(raw);
        fseek(raw, (long)at + 8 * k, SEEK_SET);
        fputc(c == 1 ? 0 : 1, raw);
        fclose(raw);
        dn_status st = dn_dataset_open(&d, h5, &err);
        if (k == 0) {
            CHECK(st == DN_OK && dn_dataset_verify(d, 1, &checked, NULL, NULL, &err) == DN_EFORMAT &&
                  strstr(err.msg, "checksum"));
            dn_dataset_close(d);
        } else {
            CHECK(st == DN_EFORMAT && strstr(err.msg, "names and labels"));
        }
    }
    dn_h5_close(f);
    dn_dataset_writer *w;
    CHECK_OK(dn_dataset_create(&w, h5, &info, DN_OUT_FORCE, &err), &err);
    CHECK_OK(dn_dataset_write(w, rows, dn_gpk_row_bytes(400), 19, &err), &err);
    CHECK(dn_dataset_commit(&w, &err) == DN_EINTERNAL && w == NULL);
    CHECK(dn_dataset_create(&w, "-", &info, 0, &err) == DN_EUSAGE);
    CHECK(dn_dataset_open(&d, "-", &err) == DN_EUSAGE && dn_dataset_open(&d, "/nowhere", &err) == DN_EOPEN);
    free(rows);
    dn_gpk_info_free(&info);
}

int main(void)
{
    snprintf(dir, sizeof dir, "%s/test_dataset.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(dir)) return 1;
    snprintf(h5, sizeof h5, "%s/d.h5", dir);
    snprintf(gpk, sizeof gpk, "%s/d.gpk", dir);
    both(1, 1, false, false, false);
    both(3, 1, true, true, true);
    both(1, 5, true, false, false);
    for (uint64_t m = 254; m < 260; m++) both(7 + m % 4, m, m % 2, m % 3, true);
    both(2, (1u << 20) + 5, true, true, false);
    both(5000, 300, true, true, true);
    upstream("", DN_I8, 1, DN_OK, "");
    upstream("", DN_I32, 1, DN_OK, "");
    upstream("value", DN_I8, 1, DN_EFORMAT, "holds 3 at row 3 (person NA2), column 5 (SNP rs4_A)");
    upstream("", DN_F32, 1, DN_EFORMAT, "whole numbers");
    upstream("", DN_I8, 2, DN_EFORMAT, "person NA2 (row 3) is 2, expected 0 to 1");
    upstream("snps", DN_I8, 1, DN_EFORMAT, "4 entries for 5 SNPs");
    upstream("twice", DN_I8, 1, DN_EFORMAT, "two classes are named 'x'");
    upstream("names", DN_I8, 1, DN_EFORMAT, "without 'class_label_names'");
    upstream("inputs", DN_I8, 1, DN_EFORMAT, "without 'inputs'");
    edited();
    unlink(h5);
    unlink(gpk);
    CHECK(rmdir(dir) == 0);
    return check_done();
}
