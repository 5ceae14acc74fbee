/* HDF5 files as datasets and as packages. Checksums stop most damage, so the first byte's bit 0 = leave them
 * as they are, else the attributes that hold them are renamed away in a dataset (a file of upstream's has
 * none). */
#include "fuzz.h"

#include "dataset.h"
#include "package.h"

/* Where upstream's files have no such attribute, ours must not matter. */
static void rename_all(uint8_t *p, size_t n, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i + len <= n; i++) {
        if (memcmp(p + i, name, len) == 0) p[i] = 'z';
    }
}

static void as_dataset(const char *path)
{
    dn_err err = {0};
    dn_dataset *d;
    dn_status status = dn_dataset_open(&d, path, &err);
    FUZZ_SAYS(status, err);
    if (status != DN_OK) return;
    const dn_gpk_info *info = dn_dataset_info(d);
    uint64_t stride = dn_dataset_row_bytes(d), fingerprint, cost;
    FUZZ_CHECK(info->people.iid.n == info->n_people && info->people.fid.n == info->n_people &&
               info->snps.id.n == info->n_snps);
    for (uint64_t i = 0; info->label && i < info->n_people; i++) {
        FUZZ_CHECK(info->label[i] >= -1 && info->label[i] < (int64_t)info->class_names.n);
    }
    if (dn_mul(info->n_people, stride, &cost) && cost < 1 << 24) {
        uint8_t *buf = aligned_alloc(64, cost);
        FUZZ_CHECK(buf);
        status = dn_dataset_read(d, 0, info->n_people, buf, &err);
        FUZZ_SAYS(status, err);
        if (status == DN_OK) {
            status = dn_dataset_fingerprint(d, &fingerprint, NULL, NULL, &err);
            FUZZ_CHECK(status == DN_OK && fingerprint != 0);
        }
        free(buf);
    }
    dn_dataset_close(d);
}

static void as_package(const char *path, unsigned what)
{
    dn_err err = {0};
    dn_package_in *p;
    dn_status status = dn_package_read(&p, path, what, &err);
    FUZZ_SAYS(status, err);
    if (status != DN_OK) return;
    FUZZ_CHECK(p->snps.id.n == p->n_snps && p->n_layers >= 2 && p->layer[p->n_layers - 1].n_out == p->n_out);
    dn_package_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[256];
    if (size < 1) return 0;
    uint8_t *copy = malloc(size);
    FUZZ_CHECK(copy);
    memcpy(copy, data + 1, size - 1);
    if ((data[0] & 1) == 0) {
        rename_all(copy, size - 1, "tables_xxh3");
        rename_all(copy, size - 1, "rows_xxh3");
    }
    fuzz_file(path, "x.h5", copy, size - 1);
    free(copy);
    if (data[0] & 2)
        as_package(path, DN_PACKAGE_ALL | (data[0] & 4 ? DN_PACKAGE_MAP : 0));
    else
        as_dataset(path);
    return 0;
}
