/* The restricted pickle interpreter: parse, then walk what came out. */
#include "fuzz.h"

#include "pickle.h"

/* Visits at most *budget nodes: lists may hold themselves. */
static void walk(const dn_pickle *p, dn_pk v, int depth, int *budget)
{
    const char *s;
    size_t n;
    int64_t i;
    double d;
    dn_pk_tensor t;
    dn_pk_array a;
    if (depth == 0 || --*budget < 0) return;
    dn_pk_type type = dn_pk_type_of(p, v);
    FUZZ_CHECK(dn_pk_type_name(type) != NULL);
    if (dn_pk_str(p, v, &s, &n)) {
        unsigned sum = 0;
        for (size_t k = 0; k < n; k++) sum += (unsigned char)s[k];
        FUZZ_CHECK(sum <= 255 * n);
    }
    dn_pk_int(p, v, &i);
    dn_pk_float(p, v, &d);
    if (dn_pk_get_tensor(p, v, &t)) {
        /* Every index lies in the storage. */
        uint64_t last = t.offset;
        for (int k = 0; k < t.ndim; k++) last += t.size[k] ? (t.size[k] - 1) * t.stride[k] : 0;
        FUZZ_CHECK(t.n_items == 0 || last < t.numel);
        FUZZ_CHECK(t.ndim <= DN_PICKLE_MAX_NDIM && t.key_len < 1 << 20);
    }
    if (dn_pk_get_array(p, v, &a)) {
        uint8_t one[64];
        dn_err err;
        if (a.dtype.kind == 'O')
            FUZZ_CHECK(dn_pk_len(p, a.data) == a.n_items);
        else if (a.n_items > 0 && a.dtype.item <= sizeof one) {
            FUZZ_CHECK(dn_pk_bytes(p, a.data, (a.n_items - 1) * a.dtype.item, a.dtype.item, one, &err) ==
                       DN_OK);
        }
        walk(p, a.data, depth - 1, budget);
    }
    uint64_t len = dn_pk_len(p, v);
    for (uint64_t k = 0; k<len && * budget> 0; k++) {
        if (type == DN_PK_DICT) {
            dn_pk key, value;
            dn_pk_pair(p, v, k, &key, &value);
            walk(p, key, depth - 1, budget);
            walk(p, value, depth - 1, budget);
        } else {
            walk(p, dn_pk_item(p, v, k), depth - 1, budget);
        }
    }
    dn_pk_get(p, v, "model_state_dict", &v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dn_err err = {0};
    dn_pickle *p;
    dn_status status = dn_pickle_parse(&p, data, size, "fuzz", &err);
    FUZZ_SAYS(status, err);
    if (status != DN_OK) return 0;
    int budget = 5000;
    FUZZ_CHECK(dn_pickle_used(p) <= size);
    walk(p, dn_pk_root(p), 12, &budget);
    dn_pickle_free(p);
    return 0;
}
