/* pickle.h: the part of Python's pickle format that PyTorch state dicts and NumPy object arrays need, read as
 * data.
 *
 * Nothing is executed: a pickle is a program for a stack machine, and this one knows only the opcodes that
 * build numbers, strings, tuples, lists and dicts, and a handful of named constructors (below), each of which
 * makes a plain value here. Any other opcode or name is DN_EFORMAT with the opcode's name and byte offset. So
 * a file that would call os.system in Python is refused, not run.
 *
 * Protocols 2 to 5. Constructors: collections OrderedDict; torch._utils _rebuild_tensor_v2 over torch
 * *Storage; numpy's _reconstruct, _frombuffer, scalar, dtype and ndarray (under numpy.core and numpy._core);
 * _codecs encode to latin1 and bytes() for none.
 *
 * Bounds: every value costs at least a byte of input, so memory is at most about 50 times the input; nesting,
 * stack and memo are bounded too. Values are numbered nodes; lists may contain themselves, so callers walk to
 * a fixed depth only.
 */
#ifndef DN_PICKLE_H
#define DN_PICKLE_H

#include "dn.h"

#define DN_PICKLE_MAX_BYTES ((uint64_t)1 << 28)
#define DN_PICKLE_MAX_NDIM  8

typedef uint32_t dn_pk; /* a node: valid as long as the dn_pickle */

typedef enum {
    DN_PK_NONE,
    DN_PK_BOOL,
    DN_PK_INT,
    DN_PK_FLOAT,
    DN_PK_STR,
    DN_PK_BYTES,
    DN_PK_TUPLE,
    DN_PK_LIST,
    DN_PK_DICT,
    DN_PK_GLOBAL,  /* the name of a constructor */
    DN_PK_STORAGE, /* torch: numbers kept outside of the pickle */
    DN_PK_TENSOR,
    DN_PK_DTYPE,
    DN_PK_ARRAY /* numpy.ndarray */
} dn_pk_type;
const char *dn_pk_type_name(dn_pk_type t);

typedef struct dn_pickle dn_pickle;
/* Interprets bytes[0, n). The bytes must outlive the result. what: "file: member", for messages. */
DN_MUST_USE dn_status dn_pickle_parse(dn_pickle **out, const uint8_t *bytes, size_t n, const char *what,
                                      dn_err *err);
void dn_pickle_free(dn_pickle *p);
size_t dn_pickle_used(const dn_pickle *p); /* bytes up to and including STOP */

dn_pk dn_pk_root(const dn_pickle *p);
dn_pk_type dn_pk_type_of(const dn_pickle *p, dn_pk v);
uint64_t dn_pk_len(const dn_pickle *p, dn_pk v); /* items of a tuple, list or dict (pairs); else 0 */
dn_pk dn_pk_item(const dn_pickle *p, dn_pk v, uint64_t i); /* i < len of a tuple or list */
void dn_pk_pair(const dn_pickle *p, dn_pk v, uint64_t i, dn_pk *key, dn_pk *value); /* i < len of a dict */
/* Last value stored under a string key; false when absent or v is no dict. */
bool dn_pk_get(const dn_pickle *p, dn_pk v, const char *key, dn_pk *value);
bool dn_pk_int(const dn_pickle *p, dn_pk v, int64_t *x);                /* INT, BOOL */
bool dn_pk_float(const dn_pickle *p, dn_pk v, double *x);               /* FLOAT, INT, BOOL */
bool dn_pk_str(const dn_pickle *p, dn_pk v, const char **s, size_t *n); /* STR as UTF-8; not NUL-terminated */
bool dn_pk_str_is(const dn_pickle *p, dn_pk v, const char *s);

/* Numbers of a NumPy dtype: kind as NumPy's ('b', 'i', 'u', 'f', 'S', 'U', 'O'). */
typedef struct {
    char kind;
    uint32_t item; /* bytes; for 'U' 4 per character */
} dn_pk_dtype;

/* A torch tensor: where its numbers are in storage `key` (a member of the archive). */
typedef struct {
    const char *key; /* not NUL-terminated */
    size_t key_len;
    dn_pk_dtype dtype; /* bfloat16 is kind 'B' */
    uint64_t numel;    /* items in the storage */
    uint64_t offset;   /* in items */
    int ndim;
    uint64_t size[DN_PICKLE_MAX_NDIM],
        stride[DN_PICKLE_MAX_NDIM]; /* in items; every index lies in [0, numel): checked */
    uint64_t n_items;
} dn_pk_tensor;
bool dn_pk_get_tensor(const dn_pickle *p, dn_pk v, dn_pk_tensor *t);

/* A NumPy array: either bytes (row-major unless fortran) or a list of objects. */
typedef struct {
    dn_pk_dtype dtype;
    bool fortran;
    int ndim;
    uint64_t dim[DN_PICKLE_MAX_NDIM];
    uint64_t n_items;
    dn_pk data; /* BYTES of n_items * item bytes, or for 'O' a LIST of n_items nodes: checked */
} dn_pk_array;
bool dn_pk_get_array(const dn_pickle *p, dn_pk v, dn_pk_array *a);
/* Copies bytes [first, first + n) of a BYTES node. DN_EFORMAT past its end. */
DN_MUST_USE dn_status dn_pk_bytes(const dn_pickle *p, dn_pk v, uint64_t first, uint64_t n, uint8_t *out,
                                  dn_err *err);

#endif
