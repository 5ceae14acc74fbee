/* pickle.c: the stack machine of pickle.h. Constructors are in pickle_make.c. */
#include "pickle_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MARKS 1000

/* Names of all opcodes, so that a refusal can say which one it met. */
static const struct {
    uint8_t code;
    const char *name;
} opcode_names[] = {
    {'(', "MARK"},
    {'.', "STOP"},
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'F', "FLOAT"},
    {'I', "INT"},
    {'J', "BININT"},
    {'K', "BININT1"},
    {'L', "LONG"},
    {'M', "BININT2"},
    {'N', "NONE"},
    {'P', "PERSID"},
    {'Q', "BINPERSID"},
    {'R', "REDUCE"},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'X', "BINUNICODE"},
    {'a', "APPEND"},
    {'b', "BUILD"},
    {'c', "GLOBAL"},
    {'d', "DICT"},
    {'}', "EMPTY_DICT"},
    {'e', "APPENDS"},
    {'g', "GET"},
    {'h', "BINGET"},
    {'i', "INST"},
    {'j', "LONG_BINGET"},
    {'l', "LIST"},
    {']', "EMPTY_LIST"},
    {'o', "OBJ"},
    {'p', "PUT"},
    {'q', "BINPUT"},
    {'r', "LONG_BINPUT"},
    {'s', "SETITEM"},
    {'t', "TUPLE"},
    {')', "EMPTY_TUPLE"},
    {'u', "SETITEMS"},
    {'G', "BINFLOAT"},
    {0x80, "PROTO"},
    {0x81, "NEWOBJ"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {0x85, "TUPLE1"},
    {0x86, "TUPLE2"},
    {0x87, "TUPLE3"},
    {0x88, "NEWTRUE"},
    {0x89, "NEWFALSE"},
    {0x8a, "LONG1"},
    {0x8b, "LONG4"},
    {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"},
    {0x8c, "SHORT_BINUNICODE"},
    {0x8d, "BINUNICODE8"},
    {0x8e, "BINBYTES8"},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x92, "NEWOBJ_EX"},
    {0x93, "STACK_GLOBAL"},
    {0x94, "MEMOIZE"},
    {0x95, "FRAME"},
    {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
};

static const char *opcode_name(uint8_t code)
{
    for (size_t i = 0; i < sizeof opcode_names / sizeof opcode_names[0]; i++) {
        if (opcode_names[i].code == code) return opcode_names[i].name;
    }
    return NULL;
}

const char *dn_pk_type_name(dn_pk_type t)
{
    static const char *const names[] = {"None",          "a bool",        "an integer",      "a float",
                                        "a string",      "bytes",         "a tuple",         "a list",
                                        "a dict",        "a constructor", "a torch storage", "a torch tensor",
                                        "a NumPy dtype", "a NumPy array"};
    return names[t];
}

dn_status pk_fail(dn_pickle *p, dn_err *err, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return dn_fail(err, DN_EFORMAT, "%s: pickle opcode %s at byte %zu: %s", p->what, p->op_name, p->op_at,
                   text);
}

dn_status pk_new(dn_pickle *p, pk_node node, dn_pk *out, dn_err *err)
{
    dn_status status =
        dn_grow(&p->node, &p->node_cap, p->n_nodes + 1, sizeof *p->node, "pickled values", err);
    if (status != DN_OK) return status;
    *out = (dn_pk)p->n_nodes;
    p->node[p->n_nodes++] = node;
    return DN_OK;
}

/* ---- the stack ---- */

static dn_status push(dn_pickle *p, dn_pk v, dn_err *err)
{
    dn_status status =
        dn_grow(&p->stack, &p->stack_cap, p->n_stack + 1, sizeof *p->stack, "pickle stack", err);
    if (status == DN_OK) p->stack[p->n_stack++] = v;
    return status;
}

static dn_status push_new(dn_pickle *p, pk_node node, dn_err *err)
{
    dn_pk v;
    dn_status status = pk_new(p, node, &v, err);
    return status == DN_OK ? push(p, v, err) : status;
}

/* Values above the last mark only: an opcode must not reach below one. */
static size_t floor_of(const dn_pickle *p)
{
    return p->n_marks ? p->mark[p->n_marks - 1] : 0;
}

static dn_status pop(dn_pickle *p, dn_pk *v, dn_err *err)
{
    if (p->n_stack <= floor_of(p)) return pk_fail(p, err, "nothing is on the stack: the file is damaged");
    *v = p->stack[--p->n_stack];
    return DN_OK;
}

static dn_status pop_mark(dn_pickle *p, size_t *from, dn_err *err)
{
    if (!p->n_marks) return pk_fail(p, err, "no MARK before it: the file is damaged");
    *from = p->mark[--p->n_marks];
    return DN_OK;
}

/* ---- the input ---- */

static dn_status take(dn_pickle *p, uint64_t n, const uint8_t **at, dn_err *err)
{
    if (n > p->n_in - p->pos) {
        return pk_fail(p, err, "needs %llu bytes but %zu are left: the file is truncated or damaged",
                       (unsigned long long)n, p->n_in - p->pos);
    }
    *at = p->in + p->pos;
    p->pos += (size_t)n;
    return DN_OK;
}

/* Little-endian unsigned integer of n <= 8 bytes. */
static dn_status take_uint(dn_pickle *p, int n, uint64_t *x, dn_err *err)
{
    const uint8_t *at = NULL;
    dn_status status = take(p, (uint64_t)n, &at, err);
    *x = 0;
    for (int i = 0; status == DN_OK && i < n; i++) *x |= (uint64_t)at[i] << (8 * i);
    return status;
}

static dn_status take_line(dn_pickle *p, const char **s, size_t *n, dn_err *err)
{
    const uint8_t *at = p->in + p->pos, *nl = memchr(at, '\n', p->n_in - p->pos);
    if (!nl) return pk_fail(p, err, "its name does not end: the file is truncated or damaged");
    *s = (const char *)at;
    *n = (size_t)(nl - at);
    p->pos += *n + 1;
    return DN_OK;
}

/* ---- opcodes ---- */

static dn_status op_text(dn_pickle *p, int n_len, dn_pk_type type, dn_err *err)
{
    uint64_t len;
    const uint8_t *at = NULL;
    dn_status status = take_uint(p, n_len, &len, err);
    if (status == DN_OK) status = take(p, len, &at, err);
    if (status != DN_OK) return status;
    pk_node node = {.type = (uint8_t)type, .item = (uint32_t)len};
    node.u.s.off = (uint32_t)(at - p->in);
    node.u.s.len = (uint32_t)len;
    return push_new(p, node, err);
}

static dn_status op_long1(dn_pickle *p, dn_err *err)
{
    uint64_t n, x = 0;
    dn_status status = take_uint(p, 1, &n, err);
    if (status != DN_OK) return status;
    if (n > 8) return pk_fail(p, err, "an integer of %llu bytes is too large", (unsigned long long)n);
    status = take_uint(p, (int)n, &x, err);
    if (status != DN_OK) return status;
    if (n > 0 && n < 8 && x >> (8 * n - 1)) x |= UINT64_MAX << (8 * n); /* two's complement */
    return push_new(p, (pk_node){.type = DN_PK_INT, .u.i = (int64_t)x}, err);
}

static dn_status op_float(dn_pickle *p, dn_err *err)
{
    const uint8_t *at = NULL;
    dn_status status = take(p, 8, &at, err);
    if (status != DN_OK) return status;
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++) bits = bits << 8 | at[i]; /* big-endian */
    pk_node node = {.type = DN_PK_FLOAT};
    memcpy(&node.u.f, &bits, 8);
    return push_new(p, node, err);
}

static dn_status op_tuple(dn_pickle *p, size_t from, dn_err *err)
{
    size_t n = p->n_stack - from;
    dn_status status =
        dn_grow(&p->items, &p->items_cap, p->n_items + n, sizeof *p->items, "pickled tuples", err);
    if (status != DN_OK) return status;
    pk_node node = {.type = DN_PK_TUPLE};
    node.u.s.off = (uint32_t)p->n_items;
    node.u.s.len = (uint32_t)n;
    if (n) memcpy(p->items + p->n_items, p->stack + from, n * sizeof *p->items);
    p->n_items += n;
    p->n_stack = from;
    return push_new(p, node, err);
}

static dn_status op_tuple_n(dn_pickle *p, size_t n, dn_err *err)
{
    if (p->n_stack < floor_of(p) + n)
        return pk_fail(p, err, "fewer than %zu values on the stack: the file is damaged", n);
    return op_tuple(p, p->n_stack - n, err);
}

static dn_status op_container(dn_pickle *p, dn_pk_type type, dn_err *err)
{
    dn_status status = dn_grow(&p->vec, &p->vec_cap, p->n_vecs + 1, sizeof *p->vec, "pickled lists", err);
    if (status != DN_OK) return status;
    pk_node node = {.type = (uint8_t)type};
    node.u.index = (uint32_t)p->n_vecs;
    p->vec[p->n_vecs++] = (pk_vec){NULL, 0, 0};
    return push_new(p, node, err);
}

/* Moves the stack's values from `from` on into the container below them. */
static dn_status op_extend(dn_pickle *p, size_t from, dn_pk_type type, dn_err *err)
{
    size_t n = p->n_stack - from;
    if (from <= floor_of(p) || p->node[p->stack[from - 1]].type != type) {
        return pk_fail(p, err, "its target is not %s", dn_pk_type_name(type));
    }
    if (type == DN_PK_DICT && n % 2) return pk_fail(p, err, "a key has no value: the file is damaged");
    pk_vec *v = &p->vec[p->node[p->stack[from - 1]].u.index];
    if (n > v->cap - v->n) {
        uint64_t cap = v->cap ? v->cap : 4;
        while (cap < (uint64_t)v->n + n) cap *= 2;
        dn_pk *grown = cap <= UINT32_MAX ? realloc(v->v, (size_t)cap * sizeof *grown) : NULL;
        if (!grown)
            return dn_fail(err, DN_ENOMEM, "%s: out of memory: a pickled list of %llu items", p->what,
                           (unsigned long long)cap);
        v->v = grown;
        v->cap = (uint32_t)cap;
    }
    if (n) memcpy(v->v + v->n, p->stack + from, n * sizeof *v->v);
    v->n += (uint32_t)n;
    p->n_stack = from;
    return DN_OK;
}

static dn_status op_put(dn_pickle *p, uint64_t index, dn_err *err)
{
    if (p->n_stack <= floor_of(p)) return pk_fail(p, err, "nothing is on the stack: the file is damaged");
    /* Python numbers its memo from 0 upwards and spends two bytes or more on each entry. */
    if (index >= p->n_in) return pk_fail(p, err, "memo number %llu is too large", (unsigned long long)index);
    dn_status status =
        dn_grow(&p->memo, &p->memo_cap, (size_t)index + 1, sizeof *p->memo, "pickle memo", err);
    if (status != DN_OK) return status;
    for (; p->n_memo <= index; p->n_memo++) p->memo[p->n_memo] = UINT32_MAX;
    p->memo[index] = p->stack[p->n_stack - 1];
    p->memo_next++;
    return DN_OK;
}

static dn_status op_get(dn_pickle *p, uint64_t index, dn_err *err)
{
    if (index >= p->n_memo || p->memo[index] == UINT32_MAX) {
        return pk_fail(p, err, "memo %llu was never stored: the file is damaged", (unsigned long long)index);
    }
    return push(p, p->memo[index], err);
}

static dn_status op_global(dn_pickle *p, dn_err *err)
{
    dn_status status;
    const char *module = NULL, *name = NULL;
    size_t n_module = 0, n_name = 0;
    dn_pk v = 0;
    DN_TRY(take_line(p, &module, &n_module, err));
    DN_TRY(take_line(p, &name, &n_name, err));
    DN_TRY(pk_make_global(p, module, n_module, name, n_name, &v, err));
    status = push(p, v, err);
done:
    return status;
}

static dn_status op_stack_global(dn_pickle *p, dn_err *err)
{
    dn_status status;
    const char *module = NULL, *name = NULL;
    size_t n_module = 0, n_name = 0;
    dn_pk v = 0, a = 0, b = 0;
    DN_TRY(pop(p, &b, err));
    DN_TRY(pop(p, &a, err));
    if (!dn_pk_str(p, a, &module, &n_module) || !dn_pk_str(p, b, &name, &n_name))
        DN_TRY(pk_fail(p, err, "the name is not a string"));
    DN_TRY(pk_make_global(p, module, n_module, name, n_name, &v, err));
    status = push(p, v, err);
done:
    return status;
}

static dn_status op_call(dn_pickle *p, uint8_t code, dn_err *err)
{
    dn_status status;
    dn_pk a = 0, b = 0, v = 0;
    DN_TRY(pop(p, &b, err));
    if (code == 'Q') {
        DN_TRY(pk_make_persistent(p, b, &v, err));
        status = push(p, v, err);
    } else if (code == 'R') {
        DN_TRY(pop(p, &a, err));
        DN_TRY(pk_make_reduce(p, a, b, &v, err));
        status = push(p, v, err);
    } else { /* BUILD: the object stays where it is */
        if (p->n_stack <= floor_of(p)) DN_TRY(pk_fail(p, err, "nothing to build on: the file is damaged"));
        status = pk_make_build(p, p->stack[p->n_stack - 1], b, err);
    }
done:
    return status;
}

static dn_status op_mark(dn_pickle *p, dn_err *err)
{
    if (p->n_marks >= MAX_MARKS) return pk_fail(p, err, "nested more than %d deep", MAX_MARKS);
    dn_status status = dn_grow(&p->mark, &p->mark_cap, p->n_marks + 1, sizeof *p->mark, "pickle marks", err);
    if (status == DN_OK) p->mark[p->n_marks++] = p->n_stack;
    return status;
}

/* One opcode; its byte has been read. *stop at the end. */
static dn_status step(dn_pickle *p, uint8_t code, bool *stop, dn_err *err)
{
    dn_status status = DN_OK;
    uint64_t x = 0;
    size_t from = 0;
    switch (code) {
    case 0x80: /* PROTO */
        DN_TRY(take_uint(p, 1, &x, err));
        if (x < 2 || x > 5)
            DN_TRY(pk_fail(p, err, "protocol %llu is not known here (2 to 5 are)", (unsigned long long)x));
        break;
    case 0x95: /* FRAME: only a hint for buffering */
        DN_TRY(take_uint(p, 8, &x, err));
        if (x > p->n_in - p->pos)
            DN_TRY(pk_fail(p, err, "needs %llu bytes but %zu are left: the file is truncated or damaged",
                           (unsigned long long)x, p->n_in - p->pos));
        break;
    case '.':
        DN_TRY(pop(p, &p->root, err));
        if (p->n_stack || p->n_marks)
            DN_TRY(pk_fail(p, err, "values are left on the stack: the file is damaged"));
        *stop = true;
        break;
    case '(': status = op_mark(p, err); break;
    case 'N': status = push(p, 0, err); break; /* nodes 0, 1, 2 are None, False, True */
    case 0x89: status = push(p, 1, err); break;
    case 0x88: status = push(p, 2, err); break;
    case 'K':
    case 'M':
    case 'J':
        DN_TRY(take_uint(p, code == 'K' ? 1 : code == 'M' ? 2 : 4, &x, err));
        status = push_new(
            p, (pk_node){.type = DN_PK_INT, .u.i = code == 'J' ? (int32_t)(uint32_t)x : (int64_t)x}, err);
        break;
    case 0x8a: status = op_long1(p, err); break;
    case 'G': status = op_float(p, err); break;
    case 0x8c: status = op_text(p, 1, DN_PK_STR, err); break;
    case 'X': status = op_text(p, 4, DN_PK_STR, err); break;
    case 0x8d: status = op_text(p, 8, DN_PK_STR, err); break;
    case 'C': status = op_text(p, 1, DN_PK_BYTES, err); break;
    case 'B': status = op_text(p, 4, DN_PK_BYTES, err); break;
    case 0x8e:
    case 0x96: status = op_text(p, 8, DN_PK_BYTES, err); break;
    case ')': status = op_tuple_n(p, 0, err); break;
    case 0x85: status = op_tuple_n(p, 1, err); break;
    case 0x86: status = op_tuple_n(p, 2, err); break;
    case 0x87: status = op_tuple_n(p, 3, err); break;
    case 't':
        DN_TRY(pop_mark(p, &from, err));
        status = op_tuple(p, from, err);
        break;
    case ']': status = op_container(p, DN_PK_LIST, err); break;
    case '}': status = op_container(p, DN_PK_DICT, err); break;
    case 'a':
    case 's':
        from = code == 'a' ? 1 : 2;
        if (p->n_stack < floor_of(p) + from)
            DN_TRY(pk_fail(p, err, "nothing is on the stack: the file is damaged"));
        status = op_extend(p, p->n_stack - from, code == 'a' ? DN_PK_LIST : DN_PK_DICT, err);
        break;
    case 'e':
    case 'u':
        DN_TRY(pop_mark(p, &from, err));
        status = op_extend(p, from, code == 'e' ? DN_PK_LIST : DN_PK_DICT, err);
        break;
    case 'q':
    case 'r':
        DN_TRY(take_uint(p, code == 'q' ? 1 : 4, &x, err));
        status = op_put(p, x, err);
        break;
    case 0x94: status = op_put(p, p->memo_next, err); break;
    case 'h':
    case 'j':
        DN_TRY(take_uint(p, code == 'h' ? 1 : 4, &x, err));
        status = op_get(p, x, err);
        break;
    case 'c': status = op_global(p, err); break;
    case 0x93: status = op_stack_global(p, err); break;
    case 'R':
    case 'b':
    case 'Q': status = op_call(p, code, err); break;
    default:
        status = pk_fail(p, err,
                         "not among the opcodes that a model or an index list needs; it is refused, not run");
    }
done:
    return status;
}

dn_status dn_pickle_parse(dn_pickle **out, const uint8_t *bytes, size_t n, const char *what, dn_err *err)
{
    dn_status status;
    dn_pickle *p = NULL;
    dn_pk v;
    *out = NULL;
    DN_TRY(dn_alloc(&p, 1, sizeof *p, "pickle", err));
    p->in = bytes;
    p->n_in = n;
    p->what = strdup(what);
    if (!p->what) DN_TRY(dn_fail(err, DN_ENOMEM, "out of memory"));
    if (n > DN_PICKLE_MAX_BYTES) {
        DN_TRY(dn_fail(err, DN_EFORMAT, "%s: a pickle of %zu bytes is too large (limit %llu)", what, n,
                       (unsigned long long)DN_PICKLE_MAX_BYTES));
    }
    p->text_budget = 4 * (uint64_t)n + 65536;
    DN_TRY(pk_new(p, (pk_node){.type = DN_PK_NONE}, &v, err));
    DN_TRY(pk_new(p, (pk_node){.type = DN_PK_BOOL, .u.i = 0}, &v, err));
    DN_TRY(pk_new(p, (pk_node){.type = DN_PK_BOOL, .u.i = 1}, &v, err));
    for (bool stop = false; !stop;) {
        p->op_at = p->pos;
        if (p->pos >= n) {
            DN_TRY(dn_fail(err, DN_EFORMAT,
                           "%s: the pickle ends at byte %zu without STOP: the file is truncated", what, n));
        }
        uint8_t code = bytes[p->pos++];
        p->op_name = opcode_name(code);
        if (!p->op_name) {
            DN_TRY(dn_fail(err, DN_EFORMAT,
                           "%s: byte 0x%02x at byte %zu is no pickle opcode: the file is damaged", what, code,
                           p->op_at));
        }
        DN_TRY(step(p, code, &stop, err));
    }
    *out = p;
    p = NULL;
    status = DN_OK;
done:
    dn_pickle_free(p);
    return status;
}

void dn_pickle_free(dn_pickle *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->n_vecs; i++) free(p->vec[i].v);
    free(p->what);
    free(p->node);
    free(p->items);
    free(p->vec);
    free(p->storage);
    free(p->tensor);
    free(p->array);
    free(p->stack);
    free(p->mark);
    free(p->memo);
    free(p);
}

/* ---- looking at the result ---- */

size_t dn_pickle_used(const dn_pickle *p)
{
    return p->pos;
}

dn_pk dn_pk_root(const dn_pickle *p)
{
    return p->root;
}

dn_pk_type dn_pk_type_of(const dn_pickle *p, dn_pk v)
{
    return (dn_pk_type)p->node[v].type;
}

uint64_t dn_pk_len(const dn_pickle *p, dn_pk v)
{
    const pk_node *node = &p->node[v];
    switch (node->type) {
    case DN_PK_TUPLE: return node->u.s.len;
    case DN_PK_LIST: return p->vec[node->u.index].n;
    case DN_PK_DICT: return p->vec[node->u.index].n / 2;
    default: return 0;
    }
}

dn_pk dn_pk_item(const dn_pickle *p, dn_pk v, uint64_t i)
{
    const pk_node *node = &p->node[v];
    return node->type == DN_PK_TUPLE ? p->items[node->u.s.off + i] : p->vec[node->u.index].v[i];
}

void dn_pk_pair(const dn_pickle *p, dn_pk v, uint64_t i, dn_pk *key, dn_pk *value)
{
    const pk_vec *vec = &p->vec[p->node[v].u.index];
    *key = vec->v[2 * i];
    *value = vec->v[2 * i + 1];
}

bool dn_pk_get(const dn_pickle *p, dn_pk v, const char *key, dn_pk *value)
{
    if (p->node[v].type != DN_PK_DICT) return false;
    for (uint64_t i = dn_pk_len(p, v); i-- > 0;) {
        dn_pk k;
        dn_pk_pair(p, v, i, &k, value);
        if (dn_pk_str_is(p, k, key)) return true;
    }
    return false;
}

bool dn_pk_int(const dn_pickle *p, dn_pk v, int64_t *x)
{
    const pk_node *node = &p->node[v];
    if (node->type != DN_PK_INT && node->type != DN_PK_BOOL) return false;
    *x = node->u.i;
    return true;
}

bool dn_pk_float(const dn_pickle *p, dn_pk v, double *x)
{
    int64_t i;
    if (dn_pk_int(p, v, &i)) {
        *x = (double)i;
        return true;
    }
    if (p->node[v].type != DN_PK_FLOAT) return false;
    *x = p->node[v].u.f;
    return true;
}

bool dn_pk_str(const dn_pickle *p, dn_pk v, const char **s, size_t *n)
{
    const pk_node *node = &p->node[v];
    if (node->type != DN_PK_STR) return false;
    *s = (const char *)p->in + node->u.s.off;
    *n = node->u.s.len;
    return true;
}

bool dn_pk_str_is(const dn_pickle *p, dn_pk v, const char *s)
{
    const char *at;
    size_t n;
    return dn_pk_str(p, v, &at, &n) && n == strlen(s) && memcmp(at, s, n) == 0;
}
