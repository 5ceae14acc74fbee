/* gpk_impl.h: the layout of .gpk version 1 (docs/format-gpk.md), shared by gpk*.c only. All numbers are
 * little-endian. */
#ifndef DN_GPK_IMPL_H
#define DN_GPK_IMPL_H

#include <pthread.h>
#include <zstd.h>

#include "fingerprint.h"
#include "gpk.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error ".gpk files are mapped in place, which needs a little-endian machine"
#endif

#define GPK_MAGIC         "\x89GPK\r\n\x1a\n"
#define GPK_TRAILER_MAGIC "GPKtrail"
#define GPK_END_MAGIC     "\x89GPKend\n"
#define GPK_MAJOR         1
#define GPK_MINOR         0
#define GPK_PAGE          4096
#define GPK_MAX_SECTIONS  1024
#define GPK_MAX_BLOCK     ((uint64_t)64 << 20) /* raw bytes of a compressed block of more than one row */

/* Header flags. */
#define GPK_F_COMPRESSED (1u << 0)
#define GPK_F_RESERVED   0x0000fffeu /* must be 0; bits 16..31 are unused: ignored */

typedef struct {
    uint8_t magic[8];
    uint16_t major, minor;
    uint32_t flags;
    uint64_t n_people, n_snps, row_bytes, rows_offset;
    uint32_t n_sections, block_rows, zstd_level, unused;
    uint64_t hash; /* XXH3 of the 64 bytes before it */
} gpk_header;
_Static_assert(sizeof(gpk_header) == 72, "layout");

/* Section flags. */
#define GPK_S_OPTIONAL (1u << 0) /* a reader that does not know the tag may skip it */
#define GPK_S_RESERVED 0x0000fffeu

typedef struct {
    uint8_t tag[4];
    uint32_t flags;
    uint64_t length; /* of the payload, without the zero padding to a multiple of 8 */
    uint64_t hash;   /* XXH3 of the 16 bytes before it, XXH3 of the payload appended as 8 bytes */
} gpk_section;
_Static_assert(sizeof(gpk_section) == 24, "layout");

/* The trailer: this, then u64 row_hash[n_people], then u64 block_offset[n_index], then the footer. */
typedef struct {
    uint8_t magic[8];
    uint64_t n_rows, n_index;
    uint64_t head_hash; /* gpk_chain() over header and sections */
    uint64_t rows_hash; /* XXH3 of all rows in order, row_bytes each: dn_row_hash */
    uint64_t n_missing;
} gpk_trailer;
_Static_assert(sizeof(gpk_trailer) == 48, "layout");

typedef struct {
    uint64_t trailer_offset, file_size;
    uint64_t hash; /* XXH3 of the trailer from its magic up to this field */
    uint8_t magic[8];
} gpk_footer;
_Static_assert(sizeof(gpk_footer) == 32, "layout");

uint64_t gpk_section_hash(const gpk_section *s, const void *payload);
/* Ties the trailer to header and sections: starts as the header's hash; then for each section in order. */
uint64_t gpk_chain(uint64_t so_far, uint64_t next);
uint64_t gpk_row_hash(const uint8_t *row, uint64_t row_bytes);
uint64_t gpk_fingerprint(const dn_gpk_info *info, uint64_t rows_hash);
/* NaN stands for "no label" and has many bit patterns: files and hashes hold 0x7ff8000000000000. */
double gpk_plain_nan(double v);
/* True when the calls and bytes past n_snps of a row are all missing (3, so 0xff). */
bool gpk_padding_ok(const uint8_t *row, uint64_t n_snps, uint64_t row_bytes);
/* Rows per block and number of blocks, as header and trailer need them. */
static inline uint64_t gpk_n_blocks(uint64_t n_people, uint64_t block_rows)
{
    return (n_people + block_rows - 1) / block_rows;
}
static inline uint64_t gpk_round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- an open file or stream (gpk_read.c opens, gpk_rows.c reads rows) ---- */

/* A decompressor with the block it decoded last. One user at a time. */
typedef struct gpk_decoder {
    struct gpk_decoder *next;
    ZSTD_DCtx *dctx;
    uint8_t *rows;  /* block_rows x row_bytes */
    uint64_t block; /* which one lies in rows; UINT64_MAX for none */
} gpk_decoder;

struct dn_gpk {
    char *path;
    dn_gpk_info info;
    gpk_header head;
    uint64_t n_blocks; /* 0: raw rows */
    uint64_t head_hash;
    uint64_t rows_hash, n_missing; /* as the trailer says */
    uint64_t fingerprint;
    const uint64_t *row_hash;     /* n_people, in the mapping; NULL in a stream */
    const uint64_t *block_offset; /* n_blocks + 1, in the mapping */
    /* file */
    dn_mapped map;
    pthread_mutex_t lock;
    gpk_decoder *idle;
    /* stream */
    bool stream, at_end;
    int fd;
    uint64_t pos, next_row, seen_missing;
    uint64_t *seen_hash;   /* of the rows read so far */
    dn_row_hash *seen_all; /* of all of them */
    uint64_t *seen_offset; /* of the blocks read so far */
    uint8_t *packed;       /* one compressed block */
    uint64_t packed_cap;
};

/* Stream only: exactly n bytes; `what` names what is cut off when they do not come. */
DN_MUST_USE dn_status gpk_stream_take(dn_gpk *g, void *buf, uint64_t n, const char *what, dn_err *err);
/* Checks a trailer of `size` bytes (with its footer) that starts at `offset`. hashes: those of the rows read,
 * or NULL when not known. */
DN_MUST_USE dn_status gpk_check_trailer(dn_gpk *g, const uint8_t *t, uint64_t size, uint64_t offset,
                                        const uint64_t *hashes, dn_err *err);
uint64_t gpk_trailer_size(const dn_gpk *g);
/* Rows of block b. */
static inline uint64_t gpk_rows_in_block(const dn_gpk *g, uint64_t b)
{
    uint64_t left = g->info.n_people - b * g->head.block_rows;
    return left < g->head.block_rows ? left : g->head.block_rows;
}
void gpk_decoders_free(gpk_decoder *d);

#endif
