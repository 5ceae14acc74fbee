/* PyTorch's .pt. Input: as it is when it begins like a zip; else two bytes for the length of data.pkl, then
 * data.pkl, and the rest is the bytes of storages 0 and 1: a zip is made of them, so that damage reaches what
 * lies behind its checksums. */
#include "fuzz.h"

#include <zip.h>

#include "torch_pt.h"

static void add(zip_t *z, const char *name, const void *p, size_t n)
{
    zip_source_t *s = zip_source_buffer(z, p, n, 0);
    zip_int64_t i = s ? zip_file_add(z, name, s, 0) : -1;
    FUZZ_CHECK(i >= 0 && zip_set_file_compression(z, (zip_uint64_t)i, ZIP_CM_STORE, 0) == 0);
}

static void make_zip(char path[256], const uint8_t *data, size_t size)
{
    size_t n_pkl = (size_t)(data[0] | data[1] << 8);
    data += 2, size -= 2;
    if (n_pkl > size) n_pkl = size;
    fuzz_file(path, "x.pt", "", 0);
    zip_t *z = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, NULL);
    FUZZ_CHECK(z);
    add(z, "m/data.pkl", data, n_pkl);
    add(z, "m/data/0", data + n_pkl, size - n_pkl);
    add(z, "m/data/1", data + n_pkl, (size - n_pkl) / 2);
    add(z, "m/version", "3\n", 2);
    FUZZ_CHECK(zip_close(z) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[256];
    dn_err err = {0};
    dn_pt *f;
    if (size < 2) return 0;
    if (data[0] == 'P' && data[1] == 'K')
        fuzz_file(path, "x.pt", data, size);
    else
        make_zip(path, data, size);
    dn_status status = dn_pt_open(&f, path, &err);
    FUZZ_SAYS(status, err);
    if (status != DN_OK) return 0;
    const dn_strs *keys = dn_pt_keys(f);
    for (uint64_t i = 0; i < keys->n && i < 50; i++) {
        const char *key = dn_strs_get(keys, i);
        int ndim;
        uint64_t dim[8], n = 1;
        float *v;
        FUZZ_CHECK(dn_pt_has(f, key));
        status = dn_pt_shape(f, key, &ndim, dim, &err);
        FUZZ_SAYS(status, err);
        if (status != DN_OK) continue;
        status = dn_pt_read(f, key, ndim, dim, &v, &err);
        FUZZ_SAYS(status, err);
        if (status != DN_OK) continue;
        for (int k = 0; k < ndim; k++) n *= dim[k];
        for (uint64_t k = 0; k < n; k++) FUZZ_CHECK(v[k] - v[k] == 0);
        free(v);
    }
    dn_pt_close(f);
    return 0;
}
