/* dn.h: read this first. The version, the status codes (which are the exit codes), how errors travel,
 * and the attributes and limits that every other file uses.
 *
 * Errors. A library function returns a dn_status. Where the fault is known, the function that knows it fills
 * the caller's dn_err with one sentence (what is wrong, where, found, expected, what to do) through
 * dn_fail(); callers pass both up unchanged with DN_TRY() and only main() prints. Nothing in common/ prints
 * or exits.
 *
 * Dimension letters used in comments everywhere: N people, M SNPs, C classes, H units of a layer, K embedding
 * features (3*C), B people in a batch or block, L members (models) of an ensemble.
 */
#ifndef DN_H
#define DN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DN_VERSION "0.1.0"

/* Status = exit code of the program. Pinned: scripts depend on the numbers (docs/exit-codes.md). */
typedef enum {
    DN_OK = 0,
    DN_EINTERNAL = 1,    /* a fault of ours */
    DN_EUSAGE = 2,       /* the command line is wrong */
    DN_EOPEN = 3,        /* an input cannot be opened or read */
    DN_EFORMAT = 4,      /* an input is malformed or damaged */
    DN_EMISMATCH = 5,    /* inputs are each fine but disagree */
    DN_EWRITE = 6,       /* an output cannot be written whole */
    DN_ENOMEM = 7,       /* memory, or the bound given by --memory */
    DN_EUNSUPPORTED = 8, /* valid, but not supported by this build or version */
    DN_EGPU = 9,         /* the GPU, its driver or its library */
    DN_ENUMERIC = 10,    /* non-finite or degenerate numbers */
    DN_ESTOPPED = 75     /* stopped on a signal after saving: run again to continue */
} dn_status;

#define DN_ERR_MAX 4096
typedef struct {
    dn_status status;
    char msg[DN_ERR_MAX];
} dn_err;

#if defined(__GNUC__)
#define DN_MUST_USE     __attribute__((warn_unused_result))
#define DN_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define DN_MUST_USE
#define DN_PRINTF(f, a)
#endif

/* Fills *err (if not NULL) with a formatted sentence and returns st. Control bytes in the result, which can
 * only come from file contents, are shown as \xNN so that a hostile file cannot drive the terminal. */
dn_status dn_fail(dn_err *err, dn_status st, const char *fmt, ...) DN_PRINTF(3, 4);

/* Puts text in front of the message of an error that is travelling up ("member seed78_fold0: "). Returns
 * err->status. */
dn_status dn_fail_prefix(dn_err *err, const char *fmt, ...) DN_PRINTF(2, 3);

/* Runs expr; on failure goes to `done:` with `status` set. Needs a local `dn_status status` and a label
 * `done`. */
#define DN_TRY(expr)                                                                                         \
    do {                                                                                                     \
        status = (expr);                                                                                     \
        if (status != DN_OK) goto done;                                                                      \
    } while (0)

/* Memory. All three check n*size for overflow and, on failure, leave *out NULL and return DN_ENOMEM naming
 * `what` and the bytes asked for. dn_alloc zeroes; dn_alloc_aligned (64 bytes) does not. Free with free().
 * `out` is the address of the caller's pointer: dn_alloc(&v, n, sizeof *v, "...", err). n == 0 gives one
 * item. */
DN_MUST_USE dn_status dn_alloc_(void **out, size_t n, size_t size, const char *what, dn_err *err);
DN_MUST_USE dn_status dn_alloc_aligned_(void **out, size_t n, size_t size, const char *what, dn_err *err);
#define dn_alloc(out, n, size, what, err) dn_alloc_((void **)(out), (n), (size), (what), (err))
#define dn_alloc_aligned(out, n, size, what, err)                                                            \
    dn_alloc_aligned_((void **)(out), (n), (size), (what), (err))

/* Grows *buf (items of `size` bytes) to hold at least `need` items, doubling; *cap is the capacity in items.
 */
DN_MUST_USE dn_status dn_grow_(void **buf, size_t *cap, size_t need, size_t size, const char *what,
                               dn_err *err);
#define dn_grow(buf, cap, need, size, what, err)                                                             \
    dn_grow_((void **)(buf), (cap), (need), (size), (what), (err))

/* Checked 64-bit products and sums: false on overflow, *r untouched. */
static inline bool dn_mul(uint64_t a, uint64_t b, uint64_t *r)
{
    return !__builtin_mul_overflow(a, b, r);
}
static inline bool dn_add(uint64_t a, uint64_t b, uint64_t *r)
{
    return !__builtin_add_overflow(a, b, r);
}

/* Limits: a header or a file that asks for more is refused before anything is allocated. */
#define DN_MAX_PEOPLE  ((uint64_t)1 << 32)
#define DN_MAX_SNPS    ((uint64_t)1 << 31)
#define DN_MAX_CLASSES ((uint64_t)1 << 12)
#define DN_MAX_UNITS   ((uint64_t)1 << 16)
#define DN_MAX_LAYERS  64
#define DN_MAX_MEMBERS 4096
#define DN_MAX_ID      4096 /* bytes of a person ID, SNP ID, allele or class name */

/* 64-bit content fingerprint of bytes (XXH3-64): for checksums and identities, not for security. */
uint64_t dn_hash(const void *p, size_t n);

#ifdef __cplusplus
}
#endif

#endif
