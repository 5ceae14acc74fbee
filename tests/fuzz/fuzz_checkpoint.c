/* Checkpoints. First byte: bit 0 = as it is; else size and checksums are made right first
 * (docs/format-checkpoint.md), so that damage reaches the table of arrays. */
#include "fuzz.h"

#include "checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[256];
    dn_err err = {0};
    dn_ckpt *c;
    if (size < 1) return 0;
    uint8_t *copy = malloc(size);
    FUZZ_CHECK(copy);
    size_t n = size - 1;
    memcpy(copy, data + 1, n);
    if (n >= 64 && (data[0] & 1) == 0) {
        uint64_t v = n;
        memcpy(copy + 16, &v, 8);
        v = dn_hash(copy + 64, n - 64);
        memcpy(copy + 32, &v, 8);
        v = dn_hash(copy, 56);
        memcpy(copy + 56, &v, 8);
    }
    fuzz_file(path, "x.ckpt", copy, n);
    free(copy);
    dn_status status = dn_ckpt_read(&c, path, &err);
    FUZZ_SAYS(status, err);
    if (status != DN_OK) return 0;
    for (size_t i = 0; i < dn_ckpt_count(c) && i < 100; i++) {
        static const uint8_t width[] = {1, 4, 8, 4, 8};
        const char *name = dn_ckpt_name(c, i);
        FUZZ_CHECK(strlen(name) < DN_CKPT_NAME);
        for (dn_ckpt_type t = DN_CKPT_TEXT; t <= DN_CKPT_F64; t++) {
            const void *p;
            uint64_t items, sum = 0;
            status = dn_ckpt_get(c, name, t, UINT64_MAX, &p, &items, &err);
            FUZZ_SAYS(status, err);
            if (status != DN_OK) continue;
            FUZZ_CHECK((uintptr_t)p % 8 == 0 && items <= n / width[t]);
            for (uint64_t k = 0; k < items * width[t]; k++) sum += ((const uint8_t *)p)[k];
            if (t == DN_CKPT_TEXT) FUZZ_CHECK(((const char *)p)[items] == 0); /* a zero byte follows */
            FUZZ_CHECK(sum <= 255 * n);
        }
    }
    dn_ckpt_free(c);
    return 0;
}
