/* tables.c: string tables, people, SNPs, and the string -> index map (see tables.h). */
#include "tables.h"

#include <ctype.h>
#include <stdlib.h>
#include <strings.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

dn_status dn_strs_add(dn_strs *t, const char *s, size_t len, dn_err *err)
{
    dn_status status = dn_grow(&t->off, &t->n_cap, t->n + 1, sizeof *t->off, "string table", err);
    if (status != DN_OK) return status;
    status = dn_grow(&t->buf, &t->cap, t->used + len + 1, 1, "string table", err);
    if (status != DN_OK) return status;
    t->off[t->n++] = t->used;
    memcpy(t->buf + t->used, s, len);
    t->buf[t->used + len] = 0;
    t->used += len + 1;
    return DN_OK;
}

size_t dn_strs_max_len(const dn_strs *t)
{
    size_t max = 0;
    for (uint64_t i = 0; i < t->n; i++) {
        size_t n = strlen(dn_strs_get(t, i));
        if (n > max) max = n;
    }
    return max;
}

void dn_strs_free(dn_strs *t)
{
    if (!t) return;
    free(t->off);
    free(t->buf);
    memset(t, 0, sizeof *t);
}

bool dn_strs_equal(const dn_strs *a, const dn_strs *b)
{
    if (a->n != b->n) return false;
    for (uint64_t i = 0; i < a->n; i++) {
        if (strcmp(dn_strs_get(a, i), dn_strs_get(b, i)) != 0) return false;
    }
    return true;
}

/* The NUL of each string goes into the hash too: it marks where one string ends. */
static void hash_strs(XXH3_state_t *st, const dn_strs *t, bool upper)
{
    XXH3_64bits_update(st, &t->n, sizeof t->n);
    if (!upper) {
        if (t->used) XXH3_64bits_update(st, t->buf, t->used);
        return;
    }
    for (uint64_t i = 0; i < t->n; i++) {
        for (const char *p = dn_strs_get(t, i);; p++) {
            char c = (char)toupper((unsigned char)*p);
            XXH3_64bits_update(st, &c, 1);
            if (!c) break;
        }
    }
}

uint64_t dn_strs_hash(const dn_strs *t)
{
    XXH3_state_t st;
    XXH3_64bits_reset(&st);
    hash_strs(&st, t, false);
    return XXH3_64bits_digest(&st);
}

void dn_people_free(dn_people *p)
{
    if (!p) return;
    dn_strs_free(&p->fid);
    dn_strs_free(&p->iid);
}

bool dn_people_equal(const dn_people *a, const dn_people *b)
{
    return dn_strs_equal(&a->fid, &b->fid) && dn_strs_equal(&a->iid, &b->iid);
}

void dn_snps_free(dn_snps *s)
{
    if (!s) return;
    dn_strs_free(&s->id);
    dn_strs_free(&s->chrom);
    dn_strs_free(&s->a1);
    dn_strs_free(&s->a2);
    free(s->pos);
    s->pos = NULL;
}

uint64_t dn_snps_hash(const dn_snps *s)
{
    XXH3_state_t st;
    XXH3_64bits_reset(&st);
    hash_strs(&st, &s->id, false);
    if (dn_snps_have_alleles(s)) {
        hash_strs(&st, &s->a1, true);
        hash_strs(&st, &s->a2, true);
    }
    return XXH3_64bits_digest(&st);
}

int dn_chrom_code(const char *name)
{
    if (strncasecmp(name, "chr", 3) == 0) name += 3;
    if (isdigit((unsigned char)*name)) {
        int v = 0;
        for (const char *p = name; *p; p++) {
            if (!isdigit((unsigned char)*p)) return 0;
            v = v * 10 + (*p - '0');
            if (v > 26) return 0;
        }
        return v;
    }
    static const struct {
        const char *name;
        int code;
    } named[] = {{"X", 23}, {"Y", 24}, {"XY", 25}, {"PAR1", 25}, {"PAR2", 25}, {"MT", 26}, {"M", 26}};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        if (strcasecmp(name, named[i].name) == 0) return named[i].code;
    }
    return 0;
}

/* Open addressing with linear probing at load <= 1/2. A slot is free when key is NULL. */
struct dn_map {
    struct slot {
        const char *key;
        uint64_t hash, value;
        size_t len;
    } * slots;
    uint64_t n_slots, used;
};

dn_status dn_map_new(dn_map **out, uint64_t expected, dn_err *err)
{
    dn_map *m = NULL;
    *out = NULL;
    dn_status status = dn_alloc(&m, 1, sizeof *m, "hash map", err);
    if (status != DN_OK) return status;
    m->n_slots = 64;
    while (m->n_slots < expected * 2) m->n_slots *= 2;
    status = dn_alloc(&m->slots, m->n_slots, sizeof *m->slots, "hash map", err);
    if (status != DN_OK) {
        free(m);
        return status;
    }
    *out = m;
    return DN_OK;
}

static struct slot *find(const dn_map *m, const char *key, size_t len, uint64_t hash)
{
    for (uint64_t i = hash & (m->n_slots - 1);; i = (i + 1) & (m->n_slots - 1)) {
        struct slot *s = &m->slots[i];
        if (!s->key || (s->hash == hash && s->len == len && memcmp(s->key, key, len) == 0)) return s;
    }
}

static dn_status rehash(dn_map *m, dn_err *err)
{
    dn_map bigger = {.n_slots = m->n_slots * 2, .used = m->used};
    dn_status status = dn_alloc(&bigger.slots, bigger.n_slots, sizeof *bigger.slots, "hash map", err);
    if (status != DN_OK) return status;
    for (uint64_t i = 0; i < m->n_slots; i++) {
        const struct slot *s = &m->slots[i];
        if (s->key) *find(&bigger, s->key, s->len, s->hash) = *s;
    }
    free(m->slots);
    *m = bigger;
    return DN_OK;
}

dn_status dn_map_add(dn_map *m, const char *key, size_t len, uint64_t value, uint64_t *prev, dn_err *err)
{
    if ((m->used + 1) * 2 > m->n_slots) {
        dn_status status = rehash(m, err);
        if (status != DN_OK) return status;
    }
    uint64_t hash = XXH3_64bits(key, len);
    struct slot *s = find(m, key, len, hash);
    *prev = s->key ? s->value : UINT64_MAX;
    if (!s->key) {
        *s = (struct slot){key, hash, value, len};
        m->used++;
    }
    return DN_OK;
}

uint64_t dn_map_get(const dn_map *m, const char *key, size_t len)
{
    const struct slot *s = find(m, key, len, XXH3_64bits(key, len));
    return s->key ? s->value : UINT64_MAX;
}

void dn_map_free(dn_map *m)
{
    if (!m) return;
    free(m->slots);
    free(m);
}
