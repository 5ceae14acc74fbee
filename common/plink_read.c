/* plink_read.c: genotypes of a fileset, by pread into the caller's buffers (see plink.h). */
#include "plink_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "geno.h"
#include "io.h"

typedef unsigned long long ull;

/* The set that holds the cohort's SNP number snp. */
static dn_fileset *find_set(const dn_plink *p, uint64_t snp)
{
    size_t lo = 0, hi = p->n_sets;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (p->sets[mid].first_snp <= snp)
            lo = mid;
        else
            hi = mid;
    }
    return &p->sets[lo];
}

static dn_status check_range(const dn_plink *p, uint64_t snp, uint64_t person, uint64_t n, dn_err *err)
{
    uint64_t n_people = p->people.iid.n;
    if (snp >= p->n_snps || person % 4 != 0 || person > n_people || n > n_people - person) {
        return dn_fail(err, DN_EINTERNAL, "asked for SNP %llu of %llu, people %llu to %llu of %llu", (ull)snp,
                       (ull)p->n_snps, (ull)person, (ull)(person + n), (ull)n_people);
    }
    return DN_OK;
}

/* Calls after the n-th in the last byte become missing, so that nobody can take padding, or the people after
 * the block, for people of the block. Padding of the file that is not zero is noted. */
static void clean_tail(dn_plink *p, dn_fileset *s, uint64_t person, uint64_t n, uint8_t *buf)
{
    if (n % 4 == 0) return;
    unsigned used = n % 4 * 2;
    uint8_t *last = buf + n / 4;
    if (person + n == p->people.iid.n && *last >> used != 0)
        __atomic_store_n(&s->padding_dirty, true, __ATOMIC_RELAXED);
    *last = (uint8_t)((*last & ((1u << used) - 1)) | (0x55u << used));
}

dn_status dn_plink_read_snp(dn_plink *p, uint64_t snp, uint64_t person, uint64_t n, uint8_t *buf, dn_err *err)
{
    dn_status status = check_range(p, snp, person, n, err);
    if (status != DN_OK || n == 0) return status;
    dn_fileset *s = find_set(p, snp);
    if (!s->snp_major) return dn_plink_read_block(p, &snp, 1, person, n, &buf, err);
    uint64_t at = 3 + (snp - s->first_snp) * s->row_bytes + person / 4;
    status = dn_pread_full(s->fd, buf, dn_geno_bytes(n), at, s->bed, err);
    if (status == DN_OK) clean_tail(p, s, person, n, buf);
    return status;
}

/* ---- variant-major ---- */

enum { ROWS_A_CALL = 256, GAP = 4096 };

/* Reads `bytes` bytes from byte `skip` of each of n_rows rows that follow one another in the file, with one
 * call: what lies between them is read too, and dropped. A gap of up to a page or so costs less than another
 * call. */
static dn_status read_rows(const dn_fileset *s, uint64_t row, uint64_t skip, uint64_t bytes,
                           uint8_t *const *bufs, size_t n_rows, dn_err *err)
{
    uint8_t dropped[GAP];
    struct iovec iov[2 * ROWS_A_CALL];
    uint64_t at = 3 + row * s->row_bytes + skip, gap = s->row_bytes - bytes;
    int n_iov = 0;
    for (size_t k = 0; k < n_rows; k++) {
        iov[n_iov++] = (struct iovec){bufs[k], bytes};
        // cppcheck-suppress legacyUninitvar
        if (gap && k + 1 < n_rows) iov[n_iov++] = (struct iovec){dropped, gap};
    }
    ssize_t got;
    do got = preadv(s->fd, iov, n_iov, (off_t)at);
    while (got < 0 && errno == EINTR);
    if (got < 0) return dn_fail(err, DN_EOPEN, "cannot read %s: %s", s->bed, strerror(errno));
    /* A short read is finished row by row. */
    for (uint64_t k = (uint64_t)got / s->row_bytes; k < n_rows; k++) {
        uint64_t have = (uint64_t)got > k * s->row_bytes ? (uint64_t)got - k * s->row_bytes : 0;
        if (have >= bytes) continue;
        dn_status status =
            dn_pread_full(s->fd, bufs[k] + have, bytes - have, at + k * s->row_bytes + have, s->bed, err);
        if (status != DN_OK) return status;
    }
    return DN_OK;
}

/* snp[0..n_want) lie in set s. */
static dn_status read_snp_major(dn_plink *p, dn_fileset *s, const uint64_t *snp, size_t n_want,
                                uint64_t person, uint64_t n, uint8_t *const *bufs, dn_err *err)
{
    /* Rows of neighbours in one call, as long as a call stays near 1 MB. */
    uint64_t bytes = dn_geno_bytes(n),
             most = s->row_bytes - bytes <= GAP ? ((uint64_t)1 << 20) / s->row_bytes : 1;
    if (most > ROWS_A_CALL) most = ROWS_A_CALL;
    for (size_t k = 0, run; k < n_want; k += run) {
        run = 1;
        while (run < most && k + run < n_want && snp[k + run] == snp[k] + run) run++;
        dn_status status = read_rows(s, snp[k] - s->first_snp, person / 4, bytes, bufs + k, run, err);
        if (status != DN_OK) return status;
        for (size_t i = 0; i < run; i++) clean_tail(p, s, person, n, bufs[k + i]);
    }
    return DN_OK;
}

/* ---- sample-major ---- */

enum { TILE_PEOPLE = 1024, TILE_SNPS = 4096 }; /* 1 MiB read, 1 MiB transposed */

typedef struct {
    uint64_t snp;
    size_t k;
} wanted;

static int by_snp(const void *a, const void *b)
{
    const wanted *x = a, *y = b;
    if (x->snp != y->snp) return x->snp < y->snp ? -1 : 1;
    return x->k < y->k ? -1 : x->k > y->k;
}

/* Reads SNPs [first, first + n_snps) of set s, first % 4 == 0, for n <= TILE_PEOPLE people into rows of SNPs.
 */
static dn_status read_tile(dn_fileset *s, uint64_t first, uint64_t n_snps, uint64_t person, uint64_t n,
                           uint8_t *in, uint8_t *out, dn_err *err)
{
    const uint8_t *src[TILE_PEOPLE];
    static const uint8_t map[TILE_PEOPLE] = {DN_GENO_SAME};
    uint64_t bytes = dn_geno_bytes(n_snps);
    for (uint64_t i = 0; i < n; i++) {
        uint8_t *row = in + i * (TILE_SNPS / 4);
        dn_status status =
            dn_pread_full(s->fd, row, bytes, 3 + (person + i) * s->row_bytes + first / 4, s->bed, err);
        if (status != DN_OK) return status;
        if (first + n_snps == s->n_snps && n_snps % 4 != 0 && row[bytes - 1] >> (n_snps % 4 * 2) != 0) {
            __atomic_store_n(&s->padding_dirty, true, __ATOMIC_RELAXED);
        }
        src[i] = row;
    }
    dn_geno_transpose(src, map, n, n_snps, out, TILE_PEOPLE / 4, 0);
    return DN_OK;
}

/* Dosage codes -> .bed codes: 0 -> 11, 1 -> 10, 2 -> 00, 3 -> 01. */
static void back_to_bed(const uint8_t *row, uint64_t n_bytes, uint8_t *bed)
{
    for (uint64_t i = 0; i < n_bytes; i++) {
        unsigned x = row[i];
        bed[i] = (uint8_t) ~((x & 0xAAu) | ((x ^ x >> 1) & 0x55u));
    }
}

/* As read_snp_major. The file has people's rows: tiles of people x SNPs are read and transposed, and the SNPs
 * asked for are copied out. */
static dn_status read_sample_major(dn_fileset *s, const uint64_t *snp, size_t n_want, uint64_t person,
                                   uint64_t n, uint8_t *const *bufs, dn_err *err)
{
    dn_status status;
    wanted *w = NULL;
    uint8_t *in = NULL, *out = NULL;
    DN_TRY(dn_alloc(&w, n_want, sizeof *w, "SNPs of a block", err));
    DN_TRY(dn_alloc_aligned(&in, TILE_PEOPLE, TILE_SNPS / 4, "tile of a sample-major .bed", err));
    DN_TRY(dn_alloc_aligned(&out, TILE_SNPS, TILE_PEOPLE / 4, "tile of a sample-major .bed", err));
    for (size_t k = 0; k < n_want; k++) w[k] = (wanted){snp[k] - s->first_snp, k};
    qsort(w, n_want, sizeof *w, by_snp);
    for (uint64_t from = 0; from < n; from += TILE_PEOPLE) {
        uint64_t n_tile = n - from < TILE_PEOPLE ? n - from : TILE_PEOPLE;
        for (size_t k = 0; k < n_want;) {
            uint64_t first = w[k].snp & ~(uint64_t)3, end = first + TILE_SNPS;
            if (end > s->n_snps) end = s->n_snps;
            size_t last = k;
            while (last + 1 < n_want && w[last + 1].snp < end) last++;
            /* Up to the last SNP wanted, or the last of the file so that its padding is seen. */
            end = (w[last].snp & ~(uint64_t)3) + 4 < s->n_snps ? (w[last].snp & ~(uint64_t)3) + 4 : s->n_snps;
            DN_TRY(read_tile(s, first, end - first, person + from, n_tile, in, out, err));
            for (; k <= last; k++) {
                back_to_bed(out + (w[k].snp - first) * (TILE_PEOPLE / 4), dn_geno_bytes(n_tile),
                            bufs[w[k].k] + from / 4);
            }
        }
    }
    status = DN_OK;
done:
    free(w);
    free(in);
    free(out);
    return status;
}

dn_status dn_plink_read_block(dn_plink *p, const uint64_t *snp, size_t n_want, uint64_t person, uint64_t n,
                              uint8_t *const *bufs, dn_err *err)
{
    for (size_t k = 0, run; k < n_want; k += run) {
        dn_fileset *s = NULL;
        for (run = 0; k + run < n_want; run++) {
            dn_status status = check_range(p, snp[k + run], person, n, err);
            if (status != DN_OK) return status;
            uint64_t at = snp[k + run];
            if (!s) s = find_set(p, at);
            if (at < s->first_snp || at - s->first_snp >= s->n_snps) break;
        }
        if (n == 0) continue;
        dn_status status = s->snp_major ? read_snp_major(p, s, snp + k, run, person, n, bufs + k, err)
                                        : read_sample_major(s, snp + k, run, person, n, bufs + k, err);
        if (status != DN_OK) return status;
    }
    return DN_OK;
}
