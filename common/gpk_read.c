/* gpk_read.c: opening a .gpk file or stream: header, sections, trailer. Nothing in it is trusted (see gpk.h).
 */
#include "gpk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpk_impl.h"

#define ULL(x) ((unsigned long long)(x))

/* ---- bytes, from the mapping or from the stream ---- */

dn_status gpk_stream_take(dn_gpk *g, void *buf, uint64_t n, const char *what, dn_err *err)
{
    uint8_t *p = buf;
    while (n) {
        ssize_t k = read(g->fd, p, n > (1u << 30) ? (1u << 30) : (size_t)n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return dn_fail(err, DN_EOPEN, "cannot read %s: %s", g->path, strerror(errno));
        if (k == 0) {
            return dn_fail(err, DN_EFORMAT,
                           "%s ends after %llu bytes, in %s: the program that writes it has failed, or the "
                           "file is cut off",
                           g->path, ULL(g->pos), what);
        }
        p += k;
        n -= (uint64_t)k;
        g->pos += (uint64_t)k;
    }
    return DN_OK;
}

/* The next n bytes: *p points into the mapping, or to *owned (the caller frees it). A stream's length is not
 * known in advance, so its buffer grows with what has really come, whatever length the section claims. */
static dn_status take(dn_gpk *g, uint64_t n, const uint8_t **p, uint8_t **owned, const char *what,
                      dn_err *err)
{
    *owned = NULL;
    if (!g->stream) {
        if (n > g->map.size - g->pos) {
            return dn_fail(
                err, DN_EFORMAT,
                "%s ends after %llu bytes, in %s, which needs %llu bytes more: the file is cut off", g->path,
                ULL(g->map.size), what, ULL(n - (g->map.size - g->pos)));
        }
        *p = g->map.base + g->pos;
        g->pos += n;
        return DN_OK;
    }
    dn_status status = DN_OK;
    uint8_t *buf = NULL;
    size_t cap = 0;
    for (uint64_t got = 0; got < n && status == DN_OK;) {
        uint64_t k = n - got < 1u << 20 ? n - got : 1u << 20;
        status = dn_grow(&buf, &cap, got + k, 1, what, err);
        if (status == DN_OK) status = gpk_stream_take(g, buf + got, k, what, err);
        got += k;
    }
    if (status != DN_OK) free(buf), buf = NULL;
    *p = *owned = buf;
    return status;
}

static dn_status damaged(const dn_gpk *g, const char *what, dn_err *err)
{
    return dn_fail(err, DN_EFORMAT, "%s: %s is damaged: its checksum is wrong: copy or make the file again",
                   g->path, what);
}

/* ---- header ---- */

static dn_status check_kind(const dn_gpk *g, const uint8_t *p, size_t n, dn_err *err)
{
    if (n >= 8 && memcmp(p, GPK_MAGIC, 8) == 0) return DN_OK;
    if (n >= 4 && memcmp(p, GPK_MAGIC, 4) == 0) {
        const char *why =
            n < 8 ? "it is cut off" : "its line ends were changed, as a transfer in text mode does";
        return dn_fail(err, DN_EFORMAT, "%s: starts like a .gpk file, but %s: copy it again", g->path, why);
    }
    return dn_fail(err, DN_EFORMAT, "%s should be a .gpk file, but it is %s", g->path,
                   dn_kind_name(dn_kind_of_bytes(p, n)));
}

static dn_status check_header(const dn_gpk *g, dn_err *err)
{
    const gpk_header *h = &g->head;
    if (h->major != GPK_MAJOR) {
        return dn_fail(err, DN_EUNSUPPORTED,
                       "%s is .gpk version %u.%u; dnpipe %s reads version %d.x: use the dnpipe that wrote it "
                       "or a newer one",
                       g->path, h->major, h->minor, DN_VERSION, GPK_MAJOR);
    }
    if (h->hash != dn_hash(h, offsetof(gpk_header, hash))) return damaged(g, "the header", err);
    if (h->flags & GPK_F_RESERVED) {
        return dn_fail(err, DN_EUNSUPPORTED,
                       "%s: reserved header flags 0x%x are set: it needs a newer dnpipe than %s", g->path,
                       h->flags & GPK_F_RESERVED, DN_VERSION);
    }
    const char *bad = NULL;
    if (h->n_people == 0 || h->n_people > DN_MAX_PEOPLE)
        bad = "number of people";
    else if (h->n_snps == 0 || h->n_snps > DN_MAX_SNPS)
        bad = "number of SNPs";
    else if (h->row_bytes != dn_gpk_row_bytes(h->n_snps))
        bad = "row length";
    else if (h->n_sections > GPK_MAX_SECTIONS)
        bad = "number of sections";
    else if (h->rows_offset % GPK_PAGE || h->rows_offset < sizeof *h)
        bad = "offset of the rows";
    else if (h->flags & GPK_F_COMPRESSED) {
        if (h->block_rows == 0 || h->block_rows > h->n_people)
            bad = "number of rows in a block";
        else if (h->block_rows > 1 && h->block_rows * h->row_bytes > GPK_MAX_BLOCK)
            bad = "size of a block";
    }
    if (bad) {
        return dn_fail(
            err, DN_EFORMAT,
            "%s: header: wrong %s (%llu people, %llu SNPs, rows of %llu bytes from byte %llu, %u to a block)",
            g->path, bad, ULL(h->n_people), ULL(h->n_snps), ULL(h->row_bytes), ULL(h->rows_offset),
            h->block_rows);
    }
    return DN_OK;
}

static dn_status read_header(dn_gpk *g, dn_err *err)
{
    if (g->stream) {
        uint8_t head[sizeof(gpk_header)];
        size_t got = 0;
        while (got < sizeof head) { /* by hand, so that a short stream of another kind is named by its kind */
            ssize_t k = read(g->fd, head + got, sizeof head - got);
            if (k < 0 && errno == EINTR) continue;
            if (k < 0) return dn_fail(err, DN_EOPEN, "cannot read %s: %s", g->path, strerror(errno));
            if (k == 0) break;
            got += (size_t)k;
        }
        if (got == 0)
            return dn_fail(err, DN_EFORMAT, "%s is empty: the program that should write it has failed",
                           g->path);
        dn_status status = check_kind(g, head, got, err);
        if (status != DN_OK) return status;
        g->pos = got;
        memcpy(&g->head, head, got);
        if (got < sizeof head)
            return gpk_stream_take(g, (uint8_t *)&g->head + got, sizeof head - got, "the header", err);
    } else {
        const uint8_t *p;
        uint8_t *owned;
        dn_status status = check_kind(g, g->map.base, g->map.size < 512 ? g->map.size : 512, err);
        if (status == DN_OK) status = take(g, sizeof g->head, &p, &owned, "the header", err);
        if (status != DN_OK) return status;
        memcpy(&g->head, p, sizeof g->head);
    }
    return check_header(g, err);
}

/* ---- sections ---- */

/* n NUL-terminated strings -> a table. */
static dn_status parse_strs(dn_gpk *g, const char *tag, dn_strs *t, uint64_t n, const uint8_t *p,
                            uint64_t length, dn_err *err)
{
    dn_status status;
    uint64_t found = 0;
    for (uint64_t at = 0; at < length; at++, found++) { /* p is NULL when length is 0 */
        const uint8_t *q = memchr(p + at, 0, (size_t)(length - at));
        if (!q) break;
        at = (uint64_t)(q - p);
    }
    if (found != n || (length && p[length - 1] != 0)) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: section %s holds %llu strings, not %llu", g->path, tag,
                       ULL(found), ULL(n)));
    }
    DN_TRY(dn_alloc(&t->off, n, sizeof *t->off, "string table", err));
    DN_TRY(dn_alloc(&t->buf, length, 1, "string table", err));
    t->n = t->n_cap = n;
    t->used = t->cap = length;
    if (length) memcpy(t->buf, p, length);
    for (uint64_t i = 0, at = 0; i < n; i++) {
        t->off[i] = at;
        at += strlen(t->buf + at) + 1;
    }
    status = DN_OK;
done:
    return status;
}

static dn_status parse_array(dn_gpk *g, const char *tag, void *out, uint64_t n, const uint8_t *p,
                             uint64_t length, dn_err *err)
{
    void **array = out;
    if (length != n * 8) {
        return dn_fail(err, DN_EFORMAT, "%s: section %s holds %llu bytes, not %llu", g->path, tag,
                       ULL(length), ULL(n * 8));
    }
    dn_status status = dn_alloc_aligned(array, n, 8, tag, err);
    if (status == DN_OK) memcpy(*array, p, n * 8);
    return status;
}

static dn_status parse_model(dn_gpk *g, const uint8_t *p, uint64_t length, dn_err *err)
{
    if (length != 16)
        return dn_fail(err, DN_EFORMAT, "%s: section MODL holds %llu bytes, not 16", g->path, ULL(length));
    memcpy(&g->info.model_snps, p, 8);
    memcpy(&g->info.model_hash, p + 8, 8);
    return g->info.model_snps ? DN_OK
                              : dn_fail(err, DN_EFORMAT, "%s: section MODL: a model of 0 SNPs", g->path);
}

static dn_status parse_section(dn_gpk *g, const gpk_section *s, const uint8_t *p, uint32_t *seen, dn_err *err)
{
    dn_gpk_info *f = &g->info;
    uint64_t n = f->n_people, m = f->n_snps, size = s->length, n_classes = 0;
    for (uint64_t i = 0; memcmp(s->tag, "CLAS", 4) == 0 && i < size; i++) n_classes += p[i] == 0;
    enum { STRS, ARRAY, MODEL };
    const struct {
        char tag[5];
        int kind;
        void *out;
        uint64_t n;
    } known[] = {
        {"FID ", STRS, &f->people.fid, n},
        {"IID ", STRS, &f->people.iid, n},
        {"SNP ", STRS, &f->snps.id, m},
        {"CHR ", STRS, &f->snps.chrom, m},
        {"POS ", ARRAY, &f->snps.pos, m},
        {"A1  ", STRS, &f->snps.a1, m},
        {"A2  ", STRS, &f->snps.a2, m},
        {"LABL", ARRAY, &f->label, n},
        {"CLAS", STRS, &f->class_names, n_classes},
        {"TARG", ARRAY, &f->target, n},
        {"PLAC", ARRAY, &f->place, m},
        {"MODL", MODEL, NULL, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (memcmp(s->tag, known[i].tag, 4) != 0) continue;
        if (*seen & 1u << i)
            return dn_fail(err, DN_EFORMAT, "%s: section %s is there twice", g->path, known[i].tag);
        *seen |= 1u << i;
        if (known[i].kind == STRS) return parse_strs(g, known[i].tag, known[i].out, known[i].n, p, size, err);
        if (known[i].kind == ARRAY)
            return parse_array(g, known[i].tag, known[i].out, known[i].n, p, size, err);
        return parse_model(g, p, size, err);
    }
    if (s->flags & GPK_S_OPTIONAL) return DN_OK;
    return dn_fail(
        err, DN_EUNSUPPORTED,
        "%s (.gpk version %u.%u): section '%.4s' is required and not known to dnpipe %s: use a newer one",
        g->path, g->head.major, g->head.minor, (const char *)s->tag, DN_VERSION);
}

static dn_status take_zeros(dn_gpk *g, uint64_t to, const char *what, dn_err *err)
{
    const uint8_t *p;
    uint8_t *owned;
    uint64_t n = gpk_round_up(g->pos, to) - g->pos;
    dn_status status = take(g, n, &p, &owned, what, err);
    if (status != DN_OK) return status;
    bool zero = true;
    for (uint64_t i = 0; i < n; i++) zero &= p[i] == 0;
    free(owned);
    return zero ? DN_OK
                : dn_fail(err, DN_EFORMAT, "%s: padding before byte %llu is not 0: the file is damaged",
                          g->path, ULL(g->pos));
}

static dn_status read_section(dn_gpk *g, uint32_t *seen, dn_err *err)
{
    dn_status status;
    const uint8_t *p;
    uint8_t *owned = NULL;
    gpk_section s;
    char what[64];
    DN_TRY(take(g, sizeof s, &p, &owned, "the list of sections", err));
    memcpy(&s, p, sizeof s);
    free(owned);
    owned = NULL;
    snprintf(what, sizeof what, "section %.4s", (const char *)s.tag);
    /* Before the length is used for anything; rows_offset is covered by the header's checksum. */
    if (s.length > g->head.rows_offset - g->pos) {
        DN_TRY(dn_fail(err, DN_EFORMAT,
                       "%s: %s claims %llu bytes, more than there are before the rows: the file is damaged",
                       g->path, what, ULL(s.length)));
    }
    DN_TRY(take(g, s.length, &p, &owned, what, err));
    if (s.hash != gpk_section_hash(&s, p)) DN_TRY(damaged(g, what, err));
    g->head_hash = gpk_chain(g->head_hash, s.hash);
    if (s.flags & GPK_S_RESERVED) {
        DN_TRY(dn_fail(err, DN_EUNSUPPORTED,
                       "%s: %s has reserved flags 0x%x: it needs a newer dnpipe than %s", g->path, what,
                       s.flags & GPK_S_RESERVED, DN_VERSION));
    }
    DN_TRY(parse_section(g, &s, p, seen, err));
    DN_TRY(take_zeros(g, 8, what, err));
    status = DN_OK;
done:
    free(owned);
    return status;
}

static dn_status read_sections(dn_gpk *g, dn_err *err)
{
    dn_status status;
    uint32_t seen = 0;
    g->head_hash = g->head.hash;
    for (uint32_t i = 0; i < g->head.n_sections; i++) {
        if (g->pos + sizeof(gpk_section) > g->head.rows_offset) break;
        DN_TRY(read_section(g, &seen, err));
    }
    DN_TRY(take_zeros(g, GPK_PAGE, "the padding before the rows", err));
    if (g->pos != g->head.rows_offset) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: the sections end at byte %llu, but the rows start at byte %llu",
                       g->path, ULL(g->pos), ULL(g->head.rows_offset)));
    }
    if (!g->info.label != !g->info.class_names.buf || !g->info.place != !g->info.model_snps) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: of the sections %s only one is there", g->path,
                       !g->info.label != !g->info.class_names.buf ? "CLAS and LABL" : "MODL and PLAC"));
    }
    for (uint64_t i = 0; g->info.target && i < g->info.n_people; i++) {
        double v = gpk_plain_nan(g->info.target[i]);
        if (memcmp(&v, &g->info.target[i], sizeof v) != 0) {
            DN_TRY(dn_fail(err, DN_EFORMAT,
                           "%s: section TARG: item %llu is another NaN than 0x7ff8000000000000", g->path,
                           ULL(i + 1)));
        }
    }
    DN_TRY(dn_gpk_info_check(&g->info, g->path, err));
    status = DN_OK;
done:
    return status;
}

/* ---- trailer ---- */

uint64_t gpk_trailer_size(const dn_gpk *g)
{
    uint64_t n_index = g->n_blocks ? g->n_blocks + 1 : 0;
    return sizeof(gpk_trailer) + 8 * (g->info.n_people + n_index) + sizeof(gpk_footer);
}

dn_status gpk_check_trailer(dn_gpk *g, const uint8_t *t, uint64_t size, uint64_t offset,
                            const uint64_t *hashes, dn_err *err)
{
    gpk_trailer h;
    gpk_footer f;
    memcpy(&h, t, sizeof h);
    memcpy(&f, t + size - sizeof f, sizeof f);
    if (memcmp(f.magic, GPK_END_MAGIC, 8) != 0 || memcmp(h.magic, GPK_TRAILER_MAGIC, 8) != 0) {
        return dn_fail(err, DN_EFORMAT,
                       "%s: no trailer where one should be (bytes %llu to %llu): the file is damaged",
                       g->path, ULL(offset), ULL(offset + size));
    }
    if (f.hash != dn_hash(t, size - sizeof f + offsetof(gpk_footer, hash)))
        return damaged(g, "the trailer", err);
    const char *bad = NULL;
    if (f.trailer_offset != offset)
        bad = "its own offset";
    else if (f.file_size != offset + size)
        bad = "the file's size";
    else if (h.n_rows != g->info.n_people)
        bad = "the number of rows";
    else if (h.n_index != (g->n_blocks ? g->n_blocks + 1 : 0))
        bad = "the number of blocks";
    else if (h.head_hash != g->head_hash)
        bad = "the checksums of header and sections";
    else if (h.n_missing > g->info.n_people * g->info.n_snps)
        bad = "the number of missing calls";
    if (bad)
        return dn_fail(err, DN_EFORMAT, "%s: the trailer disagrees with the file about %s", g->path, bad);
    for (uint64_t i = 0; hashes && i < g->info.n_people; i++) {
        if (memcmp(t + sizeof h + i * 8, &hashes[i], 8) != 0) {
            return dn_fail(err, DN_EFORMAT,
                           "%s: row %llu is damaged: its checksum is wrong: copy or make the file again",
                           g->path, ULL(i + 1));
        }
    }
    g->rows_hash = h.rows_hash;
    g->n_missing = h.n_missing;
    g->fingerprint = gpk_fingerprint(&g->info, h.rows_hash);
    return DN_OK;
}

/* How long a compressed file should be up to its trailer, by its chain of blocks, as far as the file goes. */
static uint64_t walk_blocks(const dn_gpk *g, uint64_t *whole)
{
    uint64_t pos = g->head.rows_offset;
    for (*whole = 0; *whole < g->n_blocks; ++*whole) {
        uint64_t size;
        if (pos > g->map.size || g->map.size - pos < 8) break;
        memcpy(&size, g->map.base + pos, 8);
        if (size > g->map.size - pos - 8) break;
        pos += 8 + gpk_round_up(size, 8);
    }
    return pos;
}

static dn_status wrong_size(const dn_gpk *g, uint64_t want_trailer, dn_err *err)
{
    uint64_t size = g->map.size, whole = 0, rows_end, want = 0;
    if (g->n_blocks) {
        rows_end = walk_blocks(g, &whole);
        if (whole == g->n_blocks) want = rows_end + want_trailer;
        whole *= g->head.block_rows;
    } else {
        rows_end = g->head.rows_offset + g->info.n_people * g->head.row_bytes;
        want = rows_end + want_trailer;
        whole = size > g->head.rows_offset ? (size - g->head.rows_offset) / g->head.row_bytes : 0;
    }
    if (want && size > want) {
        return dn_fail(err, DN_EFORMAT,
                       "%s: %llu bytes of something else follow the end of the .gpk data at byte %llu",
                       g->path, ULL(size - want), ULL(want));
    }
    if (want && size == want) {
        return dn_fail(err, DN_EFORMAT,
                       "%s: the trailer is damaged (bytes %llu to %llu): copy or make the file again",
                       g->path, ULL(rows_end), ULL(size));
    }
    if (want && size >= rows_end) {
        return dn_fail(err, DN_EFORMAT,
                       "%s is cut off: all %llu rows are there, but %llu bytes of the trailer are missing",
                       g->path, ULL(g->info.n_people), ULL(want - size));
    }
    if (want) {
        return dn_fail(err, DN_EFORMAT, "%s is cut off: it has %llu of %llu rows; %llu bytes are missing",
                       g->path, ULL(whole), ULL(g->info.n_people), ULL(want - size));
    }
    return dn_fail(
        err, DN_EFORMAT,
        "%s is cut off or damaged: only the first %llu of %llu compressed rows and no trailer are there",
        g->path, ULL(whole), ULL(g->info.n_people));
}

/* A file's trailer lies at its end; its place must also be the one that the header or the chain of blocks
 * says. */
static dn_status read_trailer(dn_gpk *g, dn_err *err)
{
    dn_status status;
    gpk_footer f = {0};
    uint64_t size = gpk_trailer_size(g), total = g->map.size;
    uint64_t row_total =
        g->info.n_people * g->head.row_bytes;        /* no overflow: DN_MAX_PEOPLE x (DN_MAX_SNPS / 4) */
    bool fits = total - g->head.rows_offset >= size; /* take() has seen that rows_offset lies in the file */
    if (fits) memcpy(&f, g->map.base + total - sizeof f, sizeof f);
    if (!fits || memcmp(f.magic, GPK_END_MAGIC, 8) != 0 ||
        (!g->n_blocks && total - size - g->head.rows_offset != row_total)) {
        DN_TRY(wrong_size(g, size, err));
    }
    uint64_t offset = total - size;
    if (offset % 8) DN_TRY(wrong_size(g, size, err));
    const uint8_t *t = g->map.base + offset;
    DN_TRY(gpk_check_trailer(g, t, size, offset, NULL, err));
    g->row_hash = (const uint64_t *)(const void *)(t + sizeof(gpk_trailer));
    if (g->n_blocks) {
        const uint64_t *o = g->row_hash + g->info.n_people;
        g->block_offset = o;
        bool ok = o[0] == g->head.rows_offset && o[g->n_blocks] == offset;
        for (uint64_t b = 0; ok && b < g->n_blocks; b++)
            ok = o[b] % 8 == 0 && o[b] < o[b + 1] && o[b + 1] - o[b] >= 16;
        if (!ok) DN_TRY(dn_fail(err, DN_EFORMAT, "%s: the index of blocks is not in order", g->path));
    }
    status = DN_OK;
done:
    return status;
}

/* ---- open and close ---- */

static dn_status open_source(dn_gpk *g, const char *path, dn_err *err)
{
    struct stat sb;
    if (strcmp(path, "-") == 0) {
        g->stream = true;
        g->fd = STDIN_FILENO;
        return DN_OK;
    }
    if (stat(path, &sb) == 0 && !S_ISREG(sb.st_mode) && !S_ISDIR(sb.st_mode)) {
        g->stream = true;
        g->fd = open(path, O_RDONLY | O_CLOEXEC);
        return g->fd >= 0 ? DN_OK : dn_fail(err, DN_EOPEN, "cannot open %s: %s", path, strerror(errno));
    }
    return dn_mapped_open(&g->map, path, err);
}

dn_status dn_gpk_open(dn_gpk **out, const char *path, dn_err *err)
{
    dn_status status;
    dn_gpk *g = NULL;
    *out = NULL;
    DN_TRY(dn_alloc(&g, 1, sizeof *g, ".gpk reader", err));
    g->fd = -1;
    pthread_mutex_init(&g->lock, NULL);
    g->path = strdup(strcmp(path, "-") == 0 ? "standard input" : path);
    if (!g->path) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    DN_TRY(open_source(g, path, err));
    DN_TRY(read_header(g, err));
    g->info.n_people = g->head.n_people;
    g->info.n_snps = g->head.n_snps;
    if (g->head.flags & GPK_F_COMPRESSED) {
        g->info.zstd_level = g->head.zstd_level ? g->head.zstd_level : 1;
        g->info.block_rows = g->head.block_rows;
        g->n_blocks = gpk_n_blocks(g->info.n_people, g->head.block_rows);
    }
    DN_TRY(read_sections(g, err));
    if (g->stream) {
        DN_TRY(dn_alloc(&g->seen_hash, g->info.n_people, 8, "row hashes", err));
        DN_TRY(dn_row_hash_new(&g->seen_all, err));
        if (g->n_blocks) DN_TRY(dn_alloc(&g->seen_offset, g->n_blocks + 1, 8, "block index", err));
    } else {
        DN_TRY(read_trailer(g, err));
    }
    *out = g;
    g = NULL;
    status = DN_OK;
done:
    dn_gpk_close(g);
    return status;
}

const dn_gpk_info *dn_gpk_get_info(const dn_gpk *g)
{
    return &g->info;
}

uint64_t dn_gpk_missing(const dn_gpk *g)
{
    return g->stream && !g->at_end ? UINT64_MAX : g->n_missing;
}

uint64_t dn_gpk_fingerprint(const dn_gpk *g)
{
    return g->fingerprint;
}

bool dn_gpk_is_stream(const dn_gpk *g)
{
    return g->stream;
}

void dn_gpk_close(dn_gpk *g)
{
    if (!g) return;
    gpk_decoders_free(g->idle);
    dn_mapped_close(&g->map);
    if (g->fd > STDIN_FILENO) close(g->fd);
    pthread_mutex_destroy(&g->lock);
    dn_gpk_info_free(&g->info);
    free(g->seen_hash);
    dn_row_hash_free(g->seen_all);
    free(g->seen_offset);
    free(g->packed);
    free(g->path);
    free(g);
}
