/* checkpoint.h: the file in which a training run survives (docs/format-checkpoint.md): named arrays with one
 * checksum over all, written whole, with the one before kept until the new one is on the disk. What the
 * arrays mean is the program's affair (dntrain/dntrain_state.h); this file knows names, types and bytes. */
#ifndef DN_CHECKPOINT_H
#define DN_CHECKPOINT_H

#include "dn.h"

#define DN_CKPT_MAJOR 1 /* another major version is refused */
#define DN_CKPT_MINOR 1 /* 1: rng_fast */

typedef enum { DN_CKPT_TEXT, DN_CKPT_U32, DN_CKPT_U64, DN_CKPT_F32, DN_CKPT_F64 } dn_ckpt_type;

#define DN_CKPT_NAME 64 /* with the NUL */

/* One array to write. data: n items (bytes for text), the caller's. */
typedef struct {
    char name[DN_CKPT_NAME];
    dn_ckpt_type type;
    const void *data;
    uint64_t n;
} dn_ckpt_item;

/* Writes `path` through dn_out: whole or not at all. keep_previous: an existing `path` stays as `path`.prev,
 * so that at every instant at least one of the two is whole; false when `path` is known to be damaged, so
 * that it does not push out a good `path`.prev. DN_EWRITE: what was there before is as it was. */
DN_MUST_USE dn_status dn_ckpt_write(const char *path, const dn_ckpt_item *items, size_t n, bool keep_previous,
                                    dn_err *err);

typedef struct dn_ckpt dn_ckpt;
/* Reads a file and checks everything: magic, version, sizes, checksum. DN_EOPEN; DN_EFORMAT: damaged, cut, or
 * something else; DN_EUNSUPPORTED: another major version. */
DN_MUST_USE dn_status dn_ckpt_read(dn_ckpt **out, const char *path, dn_err *err);
void dn_ckpt_free(dn_ckpt *c);
/* `path`, or `path`.prev when `path` is absent or damaged. *out = NULL when neither exists. *warning: why the
 * previous one was taken, or NULL; free() it. *current_good: `path` itself is whole (then dn_ckpt_write may
 * keep it). An error when there are files and none can be read: that of `path`, naming both. Another version
 * is always an error. */
DN_MUST_USE dn_status dn_ckpt_read_newest(dn_ckpt **out, const char *path, char **warning, bool *current_good,
                                          dn_err *err);

size_t dn_ckpt_count(const dn_ckpt *c);
const char *dn_ckpt_name(const dn_ckpt *c, size_t i);
/* The array of that name, n items of that type, owned by c and aligned to 8 bytes. want == UINT64_MAX: any
 * length, put into *n (may be NULL). DN_EFORMAT when it is absent, of another type or length. Text is
 * NUL-terminated. */
DN_MUST_USE dn_status dn_ckpt_get(const dn_ckpt *c, const char *name, dn_ckpt_type type, uint64_t want,
                                  const void **data, uint64_t *n, dn_err *err);

#endif
