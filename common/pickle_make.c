/* pickle_make.c: the few constructors that pickle.h admits, each checked as strictly as its result is used.
 */
#include "pickle_impl.h"

#include <string.h>

/* ---- names ---- */

#define F(name, k, size)                                                                                     \
    {                                                                                                        \
        "torch", name, G_STORAGE, k, size                                                                    \
    }
static const struct {
    const char *module, *name;
    pk_global global;
    char kind;
    uint8_t item;
} known[] = {
    {"collections", "OrderedDict", G_ORDERED_DICT, 0, 0},
    {"torch._utils", "_rebuild_tensor_v2", G_REBUILD_TENSOR, 0, 0},
    F("FloatStorage", 'f', 4),
    F("DoubleStorage", 'f', 8),
    F("HalfStorage", 'f', 2),
    F("BFloat16Storage", 'B', 2),
    F("LongStorage", 'i', 8),
    F("IntStorage", 'i', 4),
    F("ShortStorage", 'i', 2),
    F("CharStorage", 'i', 1),
    F("ByteStorage", 'u', 1),
    F("BoolStorage", 'b', 1),
    {"numpy.core.multiarray", "_reconstruct", G_NP_RECONSTRUCT, 0, 0},
    {"numpy._core.multiarray", "_reconstruct", G_NP_RECONSTRUCT, 0, 0},
    {"numpy.core.numeric", "_frombuffer", G_NP_FROMBUFFER, 0, 0},
    {"numpy._core.numeric", "_frombuffer", G_NP_FROMBUFFER, 0, 0},
    {"numpy.core.multiarray", "scalar", G_NP_SCALAR, 0, 0},
    {"numpy._core.multiarray", "scalar", G_NP_SCALAR, 0, 0},
    {"numpy", "dtype", G_NP_DTYPE, 0, 0},
    {"numpy", "ndarray", G_NP_NDARRAY, 0, 0},
    {"_codecs", "encode", G_ENCODE, 0, 0},
    {"__builtin__", "bytes", G_NO_BYTES, 0, 0},
};
#undef F

static bool same(const char *s, size_t n, const char *t)
{
    return strlen(t) == n && memcmp(s, t, n) == 0;
}

dn_status pk_make_global(dn_pickle *p, const char *module, size_t n_module, const char *name, size_t n_name,
                         dn_pk *out, dn_err *err)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (same(module, n_module, known[i].module) && same(name, n_name, known[i].name)) {
            pk_node node = {.type = DN_PK_GLOBAL,
                            .global = (uint8_t)known[i].global,
                            .kind = (uint8_t)known[i].kind,
                            .item = known[i].item};
            return pk_new(p, node, out, err);
        }
    }
    return pk_fail(
        p, err,
        "it asks for \"%.*s %.*s\", which is not among the names that a model or an index list needs; "
        "it is refused, not run: do not load this file in Python either unless you trust its source",
        (int)(n_module > 100 ? 100 : n_module), module, (int)(n_name > 100 ? 100 : n_name), name);
}

/* ---- arguments ---- */

static bool is_global(const dn_pickle *p, dn_pk v, pk_global g)
{
    return p->node[v].type == DN_PK_GLOBAL && p->node[v].global == g;
}

/* A tuple of whole numbers >= 0, at most DN_PICKLE_MAX_NDIM of them. */
static bool get_dims(const dn_pickle *p, dn_pk v, int *ndim, uint64_t dim[DN_PICKLE_MAX_NDIM])
{
    if (p->node[v].type != DN_PK_TUPLE || dn_pk_len(p, v) > DN_PICKLE_MAX_NDIM) return false;
    *ndim = (int)dn_pk_len(p, v);
    for (int k = 0; k < *ndim; k++) {
        int64_t x;
        if (!dn_pk_int(p, dn_pk_item(p, v, (uint64_t)k), &x) || x < 0) return false;
        dim[k] = (uint64_t)x;
    }
    return true;
}

static bool product(int ndim, const uint64_t *dim, uint64_t *n)
{
    *n = 1;
    for (int k = 0; k < ndim; k++) {
        if (!dn_mul(*n, dim[k], n)) return false;
    }
    return true;
}

/* ---- torch ---- */

dn_status pk_make_persistent(dn_pickle *p, dn_pk id, dn_pk *out, dn_err *err)
{
    int64_t numel;
    const pk_node *type;
    uint64_t n = dn_pk_len(p, id);
    if (p->node[id].type != DN_PK_TUPLE || (n != 5 && n != 6) ||
        !dn_pk_str_is(p, dn_pk_item(p, id, 0), "storage") || !is_global(p, dn_pk_item(p, id, 1), G_STORAGE) ||
        p->node[dn_pk_item(p, id, 2)].type != DN_PK_STR || !dn_pk_int(p, dn_pk_item(p, id, 4), &numel) ||
        numel < 0) {
        return pk_fail(p, err, "not a torch storage");
    }
    dn_status status =
        dn_grow(&p->storage, &p->storage_cap, p->n_storages + 1, sizeof *p->storage, "torch storages", err);
    if (status != DN_OK) return status;
    type = &p->node[dn_pk_item(p, id, 1)];
    p->storage[p->n_storages] =
        (pk_storage){dn_pk_item(p, id, 2), {(char)type->kind, type->item}, (uint64_t)numel};
    pk_node node = {.type = DN_PK_STORAGE};
    node.u.index = (uint32_t)p->n_storages++;
    return pk_new(p, node, out, err);
}

static dn_status make_tensor(dn_pickle *p, dn_pk args, dn_pk *out, dn_err *err)
{
    dn_pk_tensor t;
    int n_stride = 0;
    int64_t offset;
    memset(&t, 0, sizeof t);
    uint64_t n = dn_pk_len(p, args);
    if ((n != 6 && n != 7) || p->node[dn_pk_item(p, args, 0)].type != DN_PK_STORAGE ||
        !dn_pk_int(p, dn_pk_item(p, args, 1), &offset) || offset < 0 ||
        !get_dims(p, dn_pk_item(p, args, 2), &t.ndim, t.size) ||
        !get_dims(p, dn_pk_item(p, args, 3), &n_stride, t.stride) || n_stride != t.ndim) {
        return pk_fail(p, err, "not the arguments of a torch tensor");
    }
    const pk_storage *st = &p->storage[p->node[dn_pk_item(p, args, 0)].u.index];
    (void)dn_pk_str(p, st->key, &t.key, &t.key_len);
    t.dtype = st->dtype;
    t.numel = st->numel;
    t.offset = (uint64_t)offset;
    uint64_t last = t.offset, step;
    bool ok = product(t.ndim, t.size, &t.n_items);
    for (int k = 0; ok && t.n_items > 0 && k < t.ndim; k++) {
        ok = dn_mul(t.size[k] - 1, t.stride[k], &step) && dn_add(last, step, &last);
    }
    if (!ok || t.n_items > t.numel || (t.n_items > 0 && last >= t.numel)) {
        return pk_fail(p, err, "a torch tensor reaches outside of its storage of %llu numbers",
                       (unsigned long long)t.numel);
    }
    dn_status status =
        dn_grow(&p->tensor, &p->tensor_cap, p->n_tensors + 1, sizeof *p->tensor, "torch tensors", err);
    if (status != DN_OK) return status;
    p->tensor[p->n_tensors] = t;
    pk_node node = {.type = DN_PK_TENSOR};
    node.u.index = (uint32_t)p->n_tensors++;
    return pk_new(p, node, out, err);
}

bool dn_pk_get_tensor(const dn_pickle *p, dn_pk v, dn_pk_tensor *t)
{
    if (p->node[v].type != DN_PK_TENSOR) return false;
    *t = p->tensor[p->node[v].u.index];
    return true;
}

/* ---- NumPy ---- */

/* dtype('f8', False, True): the byte order comes later, with BUILD. */
static dn_status make_dtype(dn_pickle *p, dn_pk args, dn_pk *out, dn_err *err)
{
    const char *s;
    size_t n;
    uint64_t item = 0;
    if (dn_pk_len(p, args) < 1 || !dn_pk_str(p, dn_pk_item(p, args, 0), &s, &n) || n < 1 || n > 10 ||
        !memchr("biufSUO", s[0], 7)) {
        return pk_fail(p, err, "a NumPy dtype that is not read here (numbers, strings and objects are)");
    }
    for (size_t i = 1; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return pk_fail(p, err, "a NumPy dtype that is not read here: \"%.*s\"", (int)n, s);
        item = item * 10 + (uint64_t)(s[i] - '0');
    }
    if (s[0] == 'U') item *= 4;
    bool number = memchr("biuf", s[0], 4) != NULL;
    bool fits = item == 1 || item == 2 || item == 4 || item == 8;
    if ((number && !fits) || (s[0] == 'f' && item == 1) || (s[0] == 'b' && item != 1) || item > UINT32_MAX) {
        return pk_fail(p, err, "a NumPy dtype that is not read here: \"%.*s\"", (int)n, s);
    }
    pk_node node = {.type = DN_PK_DTYPE, .kind = (uint8_t)s[0], .item = (uint32_t)item};
    return pk_new(p, node, out, err);
}

static dn_status build_dtype(dn_pickle *p, dn_pk state, dn_err *err)
{
    int64_t version;
    if (p->node[state].type != DN_PK_TUPLE || dn_pk_len(p, state) < 2 ||
        !dn_pk_int(p, dn_pk_item(p, state, 0), &version)) {
        return pk_fail(p, err, "not the state of a NumPy dtype");
    }
    dn_pk order = dn_pk_item(p, state, 1);
    if (dn_pk_str_is(p, order, ">")) return pk_fail(p, err, "big-endian numbers are not read");
    if (!dn_pk_str_is(p, order, "<") && !dn_pk_str_is(p, order, "|") && !dn_pk_str_is(p, order, "=")) {
        return pk_fail(p, err, "not the state of a NumPy dtype");
    }
    return DN_OK;
}

static dn_status new_array(dn_pickle *p, dn_pk *out, dn_err *err)
{
    dn_status status =
        dn_grow(&p->array, &p->array_cap, p->n_arrays + 1, sizeof *p->array, "NumPy arrays", err);
    if (status != DN_OK) return status;
    memset(&p->array[p->n_arrays], 0, sizeof *p->array);
    pk_node node = {.type = DN_PK_ARRAY};
    node.u.index = (uint32_t)p->n_arrays++;
    return pk_new(p, node, out, err);
}

/* Fills array number `index`; data is BYTES or, for objects, a LIST. */
static dn_status set_array(dn_pickle *p, uint32_t index, dn_pk shape, dn_pk dtype, bool fortran, dn_pk data,
                           dn_err *err)
{
    dn_pk_array a;
    uint64_t bytes;
    memset(&a, 0, sizeof a);
    if (p->node[dtype].type != DN_PK_DTYPE || !get_dims(p, shape, &a.ndim, a.dim) ||
        !product(a.ndim, a.dim, &a.n_items)) {
        return pk_fail(p, err, "not the state of a NumPy array");
    }
    a.dtype = (dn_pk_dtype){(char)p->node[dtype].kind, p->node[dtype].item};
    a.fortran = fortran;
    a.data = data;
    uint8_t want = a.dtype.kind == 'O' ? DN_PK_LIST : DN_PK_BYTES;
    if (p->node[data].type != want) return pk_fail(p, err, "a NumPy array without its data");
    if (want == DN_PK_LIST ? dn_pk_len(p, data) != a.n_items
                           : !dn_mul(a.n_items, a.dtype.item, &bytes) || bytes != p->node[data].item) {
        return pk_fail(p, err, "a NumPy array's shape does not fit its data: the file is damaged");
    }
    p->array[index] = a;
    return DN_OK;
}

static dn_status build_array(dn_pickle *p, uint32_t index, dn_pk state, dn_err *err)
{
    int64_t fortran;
    if (p->node[state].type != DN_PK_TUPLE || dn_pk_len(p, state) != 5 ||
        !dn_pk_int(p, dn_pk_item(p, state, 3), &fortran)) {
        return pk_fail(p, err, "not the state of a NumPy array");
    }
    return set_array(p, index, dn_pk_item(p, state, 1), dn_pk_item(p, state, 2), fortran != 0,
                     dn_pk_item(p, state, 4), err);
}

static dn_status make_frombuffer(dn_pickle *p, dn_pk args, dn_pk *out, dn_err *err)
{
    if (dn_pk_len(p, args) != 4) return pk_fail(p, err, "not the arguments of a NumPy array");
    bool fortran = dn_pk_str_is(p, dn_pk_item(p, args, 3), "F");
    if (!fortran && !dn_pk_str_is(p, dn_pk_item(p, args, 3), "C"))
        return pk_fail(p, err, "not the arguments of a NumPy array");
    dn_status status = new_array(p, out, err);
    if (status != DN_OK) return status;
    return set_array(p, p->node[*out].u.index, dn_pk_item(p, args, 2), dn_pk_item(p, args, 1), fortran,
                     dn_pk_item(p, args, 0), err);
}

static dn_status make_scalar(dn_pickle *p, dn_pk args, dn_pk *out, dn_err *err)
{
    uint8_t raw[8] = {0};
    if (dn_pk_len(p, args) != 2 || p->node[dn_pk_item(p, args, 0)].type != DN_PK_DTYPE ||
        p->node[dn_pk_item(p, args, 1)].type != DN_PK_BYTES) {
        return pk_fail(p, err, "not a NumPy number");
    }
    pk_node type = p->node[dn_pk_item(p, args, 0)];
    if (!memchr("biuf", type.kind, 4) || type.item != p->node[dn_pk_item(p, args, 1)].item ||
        (type.kind == 'f' && type.item < 4)) {
        return pk_fail(p, err, "not a NumPy number");
    }
    dn_status status = dn_pk_bytes(p, dn_pk_item(p, args, 1), 0, type.item, raw, err);
    if (status != DN_OK) return status;
    uint64_t x = 0;
    for (uint32_t i = 0; i < type.item; i++) x |= (uint64_t)raw[i] << (8 * i);
    pk_node node = {.type = type.kind == 'f' ? DN_PK_FLOAT : DN_PK_INT};
    if (type.kind == 'f' && type.item == 4) {
        uint32_t low = (uint32_t)x;
        float f;
        memcpy(&f, &low, 4);
        node.u.f = f;
    } else if (type.kind == 'f') {
        memcpy(&node.u.f, &x, 8);
    } else {
        if (type.kind == 'i' && type.item < 8 && x >> (8 * type.item - 1)) x |= UINT64_MAX << (8 * type.item);
        if (type.kind == 'u' && x > INT64_MAX) return pk_fail(p, err, "an integer is too large");
        node.u.i = (int64_t)x;
    }
    return pk_new(p, node, out, err);
}

bool dn_pk_get_array(const dn_pickle *p, dn_pk v, dn_pk_array *a)
{
    if (p->node[v].type != DN_PK_ARRAY) return false;
    *a = p->array[p->node[v].u.index];
    return a->dtype.kind != 0; /* 0: BUILD never came */
}

/* ---- bytes ---- */

/* encode(text, 'latin1'): how protocol 2 writes bytes. The text stays where it is; only its length is found
 * here. */
static dn_status make_encoded(dn_pickle *p, dn_pk args, dn_pk *out, dn_err *err)
{
    const char *s;
    size_t n;
    if (dn_pk_len(p, args) != 2 || !dn_pk_str(p, dn_pk_item(p, args, 0), &s, &n) ||
        (!dn_pk_str_is(p, dn_pk_item(p, args, 1), "latin1") &&
         !dn_pk_str_is(p, dn_pk_item(p, args, 1), "latin-1"))) {
        return pk_fail(p, err, "only text that becomes latin1 bytes is read");
    }
    if (n > p->text_budget) return pk_fail(p, err, "the same text is used too often");
    p->text_budget -= n;
    uint32_t len = 0;
    for (size_t i = 0; i < n; i++, len++) {
        uint8_t c = (uint8_t)s[i];
        if (c < 0x80) continue;
        /* latin1 above 0x7f is two bytes in UTF-8: 0xc2 or 0xc3 and one continuation byte. */
        if ((c != 0xc2 && c != 0xc3) || i + 1 >= n || ((uint8_t)s[i + 1] & 0xc0) != 0x80) {
            return pk_fail(p, err, "text that is not latin1");
        }
        i++;
    }
    pk_node node = p->node[dn_pk_item(p, args, 0)];
    node.type = DN_PK_BYTES;
    node.latin1 = 1;
    node.item = len;
    return pk_new(p, node, out, err);
}

dn_status dn_pk_bytes(const dn_pickle *p, dn_pk v, uint64_t first, uint64_t n, uint8_t *out, dn_err *err)
{
    const pk_node *node = &p->node[v];
    if (node->type != DN_PK_BYTES || first > node->item || n > node->item - first) {
        return dn_fail(err, DN_EFORMAT, "%s: a pickled array is shorter than it should be", p->what);
    }
    const uint8_t *at = p->in + node->u.s.off;
    if (!node->latin1) {
        if (n) memcpy(out, at + first, (size_t)n);
        return DN_OK;
    }
    for (uint64_t k = 0; k < first + n; k++) {
        uint8_t c = *at++;
        if (c >= 0x80) c = (uint8_t)(c << 6 | (*at++ & 0x3f));
        if (k >= first) out[k - first] = c;
    }
    return DN_OK;
}

/* ---- opcodes REDUCE and BUILD ---- */

dn_status pk_make_reduce(dn_pickle *p, dn_pk callable, dn_pk args, dn_pk *out, dn_err *err)
{
    dn_status status;
    if (p->node[callable].type != DN_PK_GLOBAL || p->node[args].type != DN_PK_TUPLE) {
        return pk_fail(p, err, "it calls %s", dn_pk_type_name(p->node[callable].type));
    }
    switch ((pk_global)p->node[callable].global) {
    case G_ORDERED_DICT:
        if (dn_pk_len(p, args) != 0) return pk_fail(p, err, "an OrderedDict with arguments");
        status = dn_grow(&p->vec, &p->vec_cap, p->n_vecs + 1, sizeof *p->vec, "pickled dicts", err);
        if (status != DN_OK) return status;
        p->vec[p->n_vecs] = (pk_vec){NULL, 0, 0};
        pk_node node = {.type = DN_PK_DICT};
        node.u.index = (uint32_t)p->n_vecs++;
        return pk_new(p, node, out, err);
    case G_REBUILD_TENSOR: return make_tensor(p, args, out, err);
    case G_NP_RECONSTRUCT:
        if (dn_pk_len(p, args) < 1 || !is_global(p, dn_pk_item(p, args, 0), G_NP_NDARRAY))
            return pk_fail(p, err, "not a NumPy array");
        return new_array(p, out, err);
    case G_NP_FROMBUFFER: return make_frombuffer(p, args, out, err);
    case G_NP_SCALAR: return make_scalar(p, args, out, err);
    case G_NP_DTYPE: return make_dtype(p, args, out, err);
    case G_ENCODE: return make_encoded(p, args, out, err);
    case G_NO_BYTES: { /* how protocol 2 writes b"" */
        if (dn_pk_len(p, args) != 0) return pk_fail(p, err, "bytes() with arguments");
        pk_node empty = {.type = DN_PK_BYTES};
        return pk_new(p, empty, out, err);
    }
    case G_STORAGE:
    case G_NP_NDARRAY: break;
    }
    return pk_fail(p, err, "it calls a name that is not called in models and index lists");
}

dn_status pk_make_build(dn_pickle *p, dn_pk object, dn_pk state, dn_err *err)
{
    switch (p->node[object].type) {
    case DN_PK_DTYPE: return build_dtype(p, state, err);
    case DN_PK_ARRAY: return build_array(p, p->node[object].u.index, state, err);
    case DN_PK_DICT: /* a state dict's _metadata: an attribute, not an entry */
        if (p->node[state].type == DN_PK_DICT) return DN_OK;
        break;
    default: break;
    }
    return pk_fail(p, err, "it sets the state of %s", dn_pk_type_name(p->node[object].type));
}
