/* Filesets and lists of people and SNPs. Input: two bytes each (little-endian) for the lengths of .fam and
 * .bim, then .fam, .bim and .bed. The .bim also serves as a list of people, the .fam as a list of SNPs. */
#include "fuzz.h"

#include "geno.h"
#include "plink.h"

static void read_genotypes(dn_plink *p)
{
    dn_err err = {0};
    uint64_t n = p->people.iid.n, first = n > 4 ? 4 : 0, bytes = dn_geno_bytes(n - first);
    uint8_t *buf = malloc(2 * bytes), *bufs[2] = {buf, buf + bytes};
    FUZZ_CHECK(buf && n > 0 && p->n_snps > 0);
    for (uint64_t j = 0; j < p->n_snps && j < 300; j++) {
        uint64_t snp[2] = {p->n_snps - 1 - j, j};
        dn_status status = dn_plink_read_block(p, snp, 2, first, n - first, bufs, &err);
        FUZZ_CHECK(status == DN_OK); /* sizes were checked when it was opened */
        if ((n - first) % 4)
            FUZZ_CHECK(bufs[0][bytes - 1] >> (n - first) % 4 * 2 == 0x55 >> (n - first) % 4 * 2);
    }
    free(buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char fam[256], bim[256], bed[256];
    if (size < 4) return 0;
    size_t n_fam = (size_t)(data[0] | data[1] << 8), n_bim = (size_t)(data[2] | data[3] << 8);
    data += 4, size -= 4;
    if (n_fam > size) n_fam = size;
    if (n_bim > size - n_fam) n_bim = size - n_fam;
    fuzz_file(fam, "x.fam", data, n_fam);
    fuzz_file(bim, "x.bim", data + n_fam, n_bim);
    fuzz_file(bed, "x.bed", data + n_fam + n_bim, size - n_fam - n_bim);
    bed[strlen(bed) - 4] = 0;

    dn_err err = {0};
    dn_strs prefix = {0};
    dn_snps snps = {0};
    dn_people people = {0};
    dn_plink *p = NULL;
    dn_status fam_st = dn_fam_read(fam, &people, &err);
    FUZZ_SAYS(fam_st, err);
    FUZZ_CHECK(fam_st != DN_OK || (people.iid.n > 0 && people.fid.n == people.iid.n));
    dn_status bim_st = dn_bim_read(bim, &snps, &err);
    FUZZ_SAYS(bim_st, err);
    FUZZ_CHECK(bim_st != DN_OK || (snps.id.n > 0 && snps.a2.n == snps.id.n && snps.chrom.n == snps.id.n));
    dn_status status = dn_strs_add(&prefix, bed, strlen(bed), &err);
    if (status == DN_OK) status = dn_plink_open(&p, &prefix, &err);
    FUZZ_SAYS(status, err);
    if (status == DN_OK) {
        FUZZ_CHECK(fam_st == DN_OK && dn_people_equal(&people, &p->people));
        FUZZ_CHECK(bim_st != DN_OK || snps.id.n == p->n_snps);
        read_genotypes(p);
    }
    uint8_t *keep;
    uint64_t n_missing;
    dn_strs missing = {0};
    if (fam_st == DN_OK) {
        status = dn_keep_people(&people, bim, NULL, &keep, &missing, &n_missing, &err);
        FUZZ_SAYS(status, err);
        free(keep);
    }
    dn_strs_free(&missing);
    if (bim_st == DN_OK) {
        status = dn_keep_snps(&snps.id, NULL, fam, &keep, &missing, &n_missing, &err);
        FUZZ_SAYS(status, err);
        free(keep);
    }
    dn_strs_free(&missing);
    dn_plink_close(p);
    dn_strs_free(&prefix);
    dn_snps_free(&snps);
    dn_people_free(&people);
    return 0;
}
