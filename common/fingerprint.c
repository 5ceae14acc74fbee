/* fingerprint.c: identity of a dataset (see fingerprint.h). */
#include "fingerprint.h"

#include <stdlib.h>
#include <string.h>

/* Not XXH_INLINE_ALL: the state must be aligned to 64 bytes, and the library's own constructor sees to it. */
#include <xxhash.h>

struct dn_row_hash {
    XXH3_state_t *state;
};

dn_status dn_row_hash_new(dn_row_hash **out, dn_err *err)
{
    *out = calloc(1, sizeof **out);
    if (*out) {
        (*out)->state = XXH3_createState();
        if ((*out)->state && XXH3_64bits_reset((*out)->state) == XXH_OK) return DN_OK;
    }
    dn_row_hash_free(*out);
    *out = NULL;
    return dn_fail(err, DN_ENOMEM, "out of memory: checksum state");
}

void dn_row_hash_add(dn_row_hash *h, const uint8_t *rows, size_t n_bytes)
{
    if (n_bytes) XXH3_64bits_update(h->state, rows, n_bytes);
}

uint64_t dn_row_hash_get(const dn_row_hash *h)
{
    return XXH3_64bits_digest(h->state);
}

void dn_row_hash_free(dn_row_hash *h)
{
    if (!h) return;
    if (h->state) XXH3_freeState(h->state);
    free(h);
}

static uint64_t hash_doubles(const double *v, uint64_t n)
{
    static const uint64_t nan_bits = 0x7ff8000000000000u;
    XXH3_state_t *st = XXH3_createState();
    if (!st) return 1;
    XXH3_64bits_reset(st);
    for (uint64_t i = 0; i < n; i++) {
        if (v[i] != v[i])
            XXH3_64bits_update(st, &nan_bits, sizeof nan_bits);
        else
            XXH3_64bits_update(st, &v[i], sizeof v[i]);
    }
    uint64_t h = XXH3_64bits_digest(st);
    XXH3_freeState(st);
    return h;
}

uint64_t dn_data_fingerprint(const dn_people *people, const dn_snps *snps, const dn_strs *class_names,
                             const int64_t *label, const double *target, uint64_t rows_hash)
{
    uint64_t n = people->iid.n;
    uint64_t parts[9] = {
        n,
        snps->id.n,
        dn_strs_hash(&people->fid),
        dn_strs_hash(&people->iid),
        dn_snps_hash(snps),
        rows_hash,
        label ? dn_strs_hash(class_names) : 0,
        label ? dn_hash(label, (size_t)n * sizeof *label) : 0,
        target ? hash_doubles(target, n) : 0,
    };
    uint64_t h = dn_hash(parts, sizeof parts);
    return h ? h : 1;
}
