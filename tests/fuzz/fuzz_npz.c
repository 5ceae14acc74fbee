/* .npy and .npz: header, numbers, strings, objects, and reading in pieces. */
#include "fuzz.h"

#include "npz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[256];
    dn_err err = {0};
    dn_npz *z;
    fuzz_file(path, "x.npz", data, size);
    dn_status status = dn_npz_open(&z, path, &err);
    FUZZ_SAYS(status, err);
    if (status != DN_OK) return 0;
    static const char *const names[] = {"a", "folds_indexes", "emb"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        dn_npy_info info;
        void *v;
        status = dn_npz_info(z, names[k], &info, &err);
        FUZZ_SAYS(status, err);
        if (status != DN_OK) continue;
        FUZZ_CHECK(dn_npz_has(z, names[k]));
        for (dn_type t = DN_I8; t <= DN_F64; t++) {
            if (t != DN_I64 && t != DN_F32 && t != DN_F64) continue;
            status = dn_npz_read(z, names[k], t, &v, &info, &err);
            FUZZ_SAYS(status, err);
            if (status == DN_OK) {
                uint64_t sum = 0; /* every item is there */
                for (uint64_t i = 0; i < info.n_items * dn_type_size(t); i++) sum += ((uint8_t *)v)[i];
                FUZZ_CHECK(sum <= info.n_items * dn_type_size(t) * 255);
                free(v);
            }
        }
        dn_strs strs = {0};
        status = dn_npz_read_strs(z, names[k], &strs, &info, &err);
        FUZZ_SAYS(status, err);
        FUZZ_CHECK(status != DN_OK || strs.n == info.n_items);
        dn_strs_free(&strs);
        dn_npy_objects o = {0};
        status = dn_npz_read_objects(z, names[k], &o, &info, &err);
        FUZZ_SAYS(status, err);
        for (uint64_t i = 0; status == DN_OK && i < info.n_items && i < 100; i++) {
            int64_t *x;
            uint64_t n;
            if (dn_pk_read_ints(o.pickle, o.nodes[i], "fuzz", &x, &n, &err) == DN_OK) free(x);
        }
        if (status == DN_OK) dn_npy_objects_free(&o);
        dn_npy *a;
        if (dn_npy_start(&a, z, names[k], &err) == DN_OK) {
            double piece[7];
            uint64_t left = dn_npy_get_info(a)->n_items;
            for (status = DN_OK; left > 0 && status == DN_OK;) {
                uint64_t n = left < 7 ? left : 7;
                status = dn_npy_next(a, DN_F64, n, piece, &err);
                FUZZ_SAYS(status, err);
                left -= n;
            }
            if (status == DN_OK)
                status = dn_npy_end(&a, &err);
            else
                dn_npy_free(a);
        }
    }
    dn_npz_close(z);
    return 0;
}
