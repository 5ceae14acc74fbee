/* .gpk files and streams. First byte: bit 0 = as a stream, bit 1 = as it is; else the hashes are made right
 * first (docs/format-gpk.md), so that damage reaches what lies behind them. */
#include "fuzz.h"

#include <fcntl.h>

#include "gpk.h"

static uint64_t get(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}
static void put(uint8_t *p, uint64_t v)
{
    memcpy(p, &v, 8);
}

/* Rewrites every hash that can be found where the counts say it is. */
static void seal(uint8_t *p, size_t n)
{
    if (n < 72 + 80) return;
    put(p + 64, dn_hash(p, 64));
    uint64_t head = get(p + 64), at = 72, people = get(p + 16), row = get(p + 32), rows = get(p + 40);
    uint32_t sections;
    memcpy(&sections, p + 48, 4);
    for (uint32_t k = 0; k < sections && n - at >= 24; k++) {
        uint8_t mix[24];
        uint64_t len = get(p + at + 8);
        if (len > n - at - 24) return;
        memcpy(mix, p + at, 16);
        put(mix + 16, dn_hash(p + at + 24, len));
        put(p + at + 16, dn_hash(mix, 24));
        put(mix, head), put(mix + 8, get(p + at + 16));
        head = dn_hash(mix, 16);
        at += 24 + len + (8 - len % 8) % 8;
        if (at > n) return;
    }
    uint64_t tail = get(p + n - 32), end = n - 8;
    if (tail > n - 80) return;
    put(p + tail + 24, head);
    bool raw = (p[12] & 1) == 0;
    if (raw && rows <= tail && people <= (n - tail) / 8 && row > 0 && row <= n &&
        people * row <= tail - rows) {
        put(p + tail + 32, dn_hash(p + rows, people * row));
        for (uint64_t i = 0; i < people && tail + 48 + 8 * (i + 1) <= n - 32; i++) {
            put(p + tail + 48 + 8 * i, dn_hash(p + rows + i * row, row));
        }
    }
    put(p + n - 24, n);
    put(p + end - 8, dn_hash(p + tail, end - 8 - tail));
}

/* What programs do with an open file. */
static void use(dn_gpk *g)
{
    dn_err err = {0};
    const dn_gpk_info *info = dn_gpk_get_info(g);
    uint64_t bytes = dn_gpk_row_bytes(info->n_snps), sum = 0, cost;
    FUZZ_CHECK(info->people.iid.n == info->n_people && info->people.fid.n == info->n_people);
    FUZZ_CHECK(info->snps.id.n == info->n_snps);
    for (uint64_t i = 0; info->label && i < info->n_people; i++) {
        FUZZ_CHECK(info->label[i] >= -1 && info->label[i] < (int64_t)info->class_names.n);
    }
    for (uint64_t j = 0; info->model_snps && j < info->n_snps; j++)
        FUZZ_CHECK(info->place[j] < info->model_snps);
    if (!dn_mul(7, bytes, &cost) || cost > 1 << 24)
        return; /* rows of one that claims so many are not there */
    uint8_t *buf = malloc(cost);
    FUZZ_CHECK(buf);
    for (uint64_t i = 0; i < info->n_people; i += 7) {
        const uint8_t *rows;
        uint64_t n = info->n_people - i < 7 ? info->n_people - i : 7;
        dn_status status = dn_gpk_rows(g, i, n, buf, &rows, &err);
        FUZZ_SAYS(status, err);
        if (status != DN_OK) break;
        for (uint64_t k = 0; k < n * bytes; k++) sum += rows[k];
        dn_gpk_release(g, i, n);
    }
    free(buf);
    if (!dn_gpk_is_stream(g)) {
        dn_status status = dn_gpk_verify(g, 1, &err);
        FUZZ_SAYS(status, err);
    }
    FUZZ_CHECK(dn_gpk_scale(info) >= 1.0 && sum < UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[256];
    dn_err err = {0};
    dn_gpk *g;
    if (size < 1) return 0;
    uint8_t *copy = malloc(size);
    FUZZ_CHECK(copy);
    memcpy(copy, data + 1, size - 1);
    if ((data[0] & 2) == 0) seal(copy, size - 1);
    fuzz_file(path, "x.gpk", copy, size - 1);
    free(copy);
    int fd = -1, was = -1;
    if (data[0] & 1) {
        /* "-" is standard input. */
        fd = open(path, O_RDONLY);
        was = dup(0);
        FUZZ_CHECK(fd >= 0 && dup2(fd, 0) == 0);
    }
    dn_status status = dn_gpk_open(&g, fd >= 0 ? "-" : path, &err);
    FUZZ_SAYS(status, err);
    if (status == DN_OK) {
        use(g);
        dn_gpk_close(g);
    }
    if (fd >= 0) {
        close(fd);
        if (was >= 0) dup2(was, 0), close(was);
    }
    return 0;
}
