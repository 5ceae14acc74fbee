/* Genotypes from text (bed2h5 --tsv, --raw). First byte: bit 0 = PLINK's .raw; bit 1 = the part before the
 * first blank line is a .bim for it. */
#include "fuzz.h"

#include "bed2h5_text.h"
#include "geno.h"
#include "gpk.h"

typedef struct {
    uint64_t n_rows, n_snps;
} seen;

static dn_status look(void *ctx, const uint8_t *row, dn_err *err)
{
    seen *s = ctx;
    (void)err;
    s->n_rows++;
    FUZZ_CHECK(dn_geno_count_missing(row, s->n_snps) <= s->n_snps);
    return DN_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[256], bim[256];
    dn_err err = {0};
    b2h_text t = {0};
    if (size < 1) return 0;
    b2h_kind kind = data[0] & 1 ? B2H_RAW : B2H_TSV;
    bool has_bim = data[0] & 2;
    data++, size--;
    const uint8_t *cut = has_bim ? memmem(data, size, "\n\n", 2) : NULL;
    if (cut) {
        fuzz_file(bim, "x.bim", data, (size_t)(cut + 1 - data));
        size -= (size_t)(cut + 2 - data);
        data = cut + 2;
    }
    fuzz_file(path, "x.txt", data, size);
    dn_status status = b2h_text_open(&t, path, kind, cut ? bim : NULL, &err);
    FUZZ_SAYS(status, err);
    if (status == DN_OK) {
        FUZZ_CHECK(t.n_people == t.people.iid.n && t.people.fid.n == t.people.iid.n && t.snps.id.n > 0);
        uint8_t *keep = malloc(t.n_people), *keep_snp = malloc(t.snps.id.n);
        FUZZ_CHECK(keep && keep_snp);
        memset(keep, 1, t.n_people);
        seen s = {0, t.snps.id.n};
        status = b2h_text_rows(&t, keep, NULL, dn_gpk_row_bytes(s.n_snps), look, &s, &err);
        FUZZ_SAYS(status, err);
        FUZZ_CHECK(status != DN_OK || s.n_rows == t.n_people);
        /* Every second person and SNP. */
        s = (seen){0, 0};
        for (uint64_t i = 0; i < t.n_people; i++) keep[i] = i % 2 == 0;
        for (uint64_t j = 0; j < t.snps.id.n; j++) s.n_snps += keep_snp[j] = j % 2 == 0;
        status = b2h_text_rows(&t, keep, keep_snp, dn_gpk_row_bytes(s.n_snps), look, &s, &err);
        FUZZ_SAYS(status, err);
        FUZZ_CHECK(status != DN_OK || s.n_rows == (t.n_people + 1) / 2);
        free(keep);
        free(keep_snp);
    }
    b2h_text_close(&t);
    return 0;
}
