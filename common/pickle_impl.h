/* pickle_impl.h: the insides of a dn_pickle, shared by pickle.c (the stack machine) and pickle_make.c
 * (constructors). */
#ifndef DN_PICKLE_IMPL_H
#define DN_PICKLE_IMPL_H

#include "pickle.h"

/* The constructors that a pickle may name. */
typedef enum {
    G_ORDERED_DICT,
    G_REBUILD_TENSOR,
    G_STORAGE, /* with a dtype */
    G_NP_RECONSTRUCT,
    G_NP_FROMBUFFER,
    G_NP_SCALAR,
    G_NP_DTYPE,
    G_NP_NDARRAY,
    G_ENCODE,
    G_NO_BYTES
} pk_global;

typedef struct {
    uint8_t type;         /* dn_pk_type */
    uint8_t latin1;       /* BYTES: the input holds them as UTF-8 text, to be read as latin1 */
    uint8_t global, kind; /* GLOBAL: pk_global, and a storage's number type (kind, item) */
    uint32_t item;        /* DTYPE, storage GLOBAL: bytes per number; BYTES: length once decoded */
    union {
        int64_t i; /* INT, BOOL */
        double f;
        struct {
            uint32_t off, len; /* STR, BYTES: in the input; TUPLE: in items */
        } s;
        uint32_t index; /* LIST, DICT: in vecs; STORAGE, TENSOR, ARRAY: in their arrays */
    } u;
} pk_node;

typedef struct {
    dn_pk *v; /* LIST: items; DICT: key, value, key, value... */
    uint32_t n, cap;
} pk_vec;

typedef struct {
    dn_pk key; /* STR */
    dn_pk_dtype dtype;
    uint64_t numel;
} pk_storage;

struct dn_pickle {
    const uint8_t *in;
    size_t n_in, pos, op_at; /* op_at: where the opcode at hand begins */
    const char *op_name;
    char *what;
    pk_node *node;
    size_t n_nodes, node_cap;
    dn_pk *items; /* of tuples */
    size_t n_items, items_cap;
    pk_vec *vec;
    size_t n_vecs, vec_cap;
    pk_storage *storage;
    size_t n_storages, storage_cap;
    dn_pk_tensor *tensor;
    size_t n_tensors, tensor_cap;
    dn_pk_array *array;
    size_t n_arrays, array_cap;
    dn_pk *stack;
    size_t n_stack, stack_cap;
    size_t *mark;
    size_t n_marks, mark_cap;
    dn_pk *memo;
    size_t n_memo, memo_cap, memo_next;
    uint64_t text_budget; /* bytes of text that may still be looked through by encode() */
    dn_pk root;
};

/* "file: member: pickle opcode NAME at byte N: ..." */
dn_status pk_fail(dn_pickle *p, dn_err *err, const char *fmt, ...) DN_PRINTF(3, 4);
DN_MUST_USE dn_status pk_new(dn_pickle *p, pk_node node, dn_pk *out, dn_err *err);
/* In pickle_make.c: */
DN_MUST_USE dn_status pk_make_global(dn_pickle *p, const char *module, size_t n_module, const char *name,
                                     size_t n_name, dn_pk *out, dn_err *err);
DN_MUST_USE dn_status pk_make_reduce(dn_pickle *p, dn_pk callable, dn_pk args, dn_pk *out, dn_err *err);
DN_MUST_USE dn_status pk_make_build(dn_pickle *p, dn_pk object, dn_pk state, dn_err *err);
DN_MUST_USE dn_status pk_make_persistent(dn_pickle *p, dn_pk id, dn_pk *out, dn_err *err);

#endif
