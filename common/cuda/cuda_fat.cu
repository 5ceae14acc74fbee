/* cuda_fat.cu: the fat layer of prediction (backend_cuda.h: fat_*).
 *
 * Members of a fold have the same mean and sd, so they share decoded genotypes: per norm (a distinct pair of
 * mean and sd) the members' weights stand side by side in one matrix, columns x units, and z of a block is,
 * per slice of DN_FAT_CHUNK columns, one decoding and one product, added up in column order. A slice's x is
 * at most max_people x 4,096 floats whatever the model's size. Every device has all weights and takes its
 * share of a block's people.
 *
 * Floors for people x SNPs (N M), F folds and U units in all: N M / 4 bytes come over PCIe once; x is written
 * and read once per fold, 8 F N M bytes; 2 N M U operations in float32. For 486,748 x 229,986, F = 5, U =
 * 1,500: 28 GB, 4.5 TB and 3.4e14 operations; on an H200 (55 GB/s, 4.8 TB/s, 67e12/s) 0.5, 0.9 and 5.0 s:
 * arithmetic, unless tf32 is asked for.
 *
 * Two blocks are under way: each has its packed rows, z, and z on the host; uploads run on a stream of their
 * own. */
#include <stdlib.h>
#include <string.h>

#include "cuda_decode.cuh"
#include "cuda_ops.cuh"

#define SLOTS       2
#define MAX_DEVICES 64

/* Members with the same mean and sd. */
struct fat_norm {
    size_t member;  /* one of them */
    uint64_t units; /* of all */
    uint64_t at;    /* first column of z on the device */
};

/* A device's part. */
struct part {
    gpu g;
    float4 **dosage; /* per norm */
    float **weight;  /* per norm: n_cols x units */
    float *x;        /* people x slice */
    struct {
        uint8_t *rows;
        float *z, *host_z; /* people x total */
        uint64_t first, n; /* people of the block */
        cudaEvent_t loaded, done;
    } slot[SLOTS];
};

struct dn_cuda_fat {
    uint64_t n_cols, row_bytes, stride, total, max_people, slice;
    size_t n_members, n_norms, n_parts;
    fat_norm *norms;
    uint64_t *units, *column; /* per member: its units, and its first column of z on the device */
    part *parts;
    uint64_t submitted, waited;
};

static void fat_free(dn_cuda_fat *f)
{
    if (!f) return;
    for (size_t d = 0; f->parts && d < f->n_parts; d++) {
        part *p = &f->parts[d];
        if (p->g.open) {
            gpu_quiet(&p->g);
            for (int s = 0; s < SLOTS; s++) {
                if (p->slot[s].host_z) (void)cudaFreeHost(p->slot[s].host_z);
                if (p->slot[s].loaded) (void)cudaEventDestroy(p->slot[s].loaded);
                if (p->slot[s].done) (void)cudaEventDestroy(p->slot[s].done);
            }
        }
        gpu_close(&p->g);
        free(p->dosage);
        free(p->weight);
    }
    free(f->parts);
    free(f->norms);
    free(f->units);
    free(f->column);
    free(f);
}

/* Puts members into norms, and norms side by side. */
static dn_status find_norms(dn_cuda_fat *f, const dn_fat_problem *p, dn_err *err)
{
    UP(dn_alloc(&f->norms, p->n_members, sizeof *f->norms, "fat layer", err));
    UP(dn_alloc(&f->units, p->n_members, sizeof *f->units, "fat layer", err));
    UP(dn_alloc(&f->column, p->n_members, sizeof *f->column, "fat layer", err));
    for (size_t m = 0; m < p->n_members; m++) {
        const dn_fat_member *a = &p->members[m];
        size_t k = 0;
        while (k < f->n_norms &&
               (p->members[f->norms[k].member].mean != a->mean || p->members[f->norms[k].member].sd != a->sd))
            k++;
        if (k == f->n_norms) f->norms[f->n_norms++].member = m;
        f->units[m] = a->units;
        f->column[m] = f->norms[k].units; /* within the norm, for now */
        f->norms[k].units += a->units;
    }
    for (size_t k = 0; k < f->n_norms; k++) {
        f->norms[k].at = f->total;
        f->total += f->norms[k].units;
    }
    for (size_t m = 0; m < p->n_members; m++) {
        for (size_t k = 0; k < f->n_norms; k++) {
            const dn_fat_member *a = &p->members[f->norms[k].member];
            if (a->mean == p->members[m].mean && a->sd == p->members[m].sd) f->column[m] += f->norms[k].at;
        }
    }
    return DN_OK;
}

/* Columns [first, first + n) of norm k's weights, n x units: rows of the members side by side. A SNP that
 * contributes nothing has weight 0, whatever the model says: infinite times 0 is not 0. */
static dn_status gather_weights(const dn_cuda_fat *f, const dn_fat_problem *p, size_t k, uint64_t first,
                                uint64_t n, float *out, dn_err *err)
{
    const dn_fat_member *lead = &p->members[f->norms[k].member];
    for (uint64_t j = first; j < first + n; j++) {
        uint64_t at = p->place ? p->place[j] : j;
        bool flat = dn_snp_is_flat(lead->mean[at], lead->sd[at]);
        for (size_t m = 0; m < p->n_members; m++) {
            const dn_fat_member *a = &p->members[m];
            if (a->mean != lead->mean || a->sd != lead->sd) continue;
            const float *w = a->weight + at * a->units;
            for (uint64_t u = 0; u < a->units; u++) {
                if (!flat && !(w[u] - w[u] == 0)) {
                    return dn_fail(err, DN_ENUMERIC,
                                   "fat layer: SNP %llu of member %llu has a weight that is not finite",
                                   (unsigned long long)at, (unsigned long long)m);
                }
                *out++ = flat ? 0 : w[u];
            }
        }
    }
    return DN_OK;
}

/* Weights and values of all norms to a device, `slice` columns at a time through `stage`. */
static dn_status load_model(dn_cuda_fat *f, part *d, const dn_fat_problem *p, float *stage, dn_err *err)
{
    gpu *g = &d->g;
    uint64_t cols4 = (f->n_cols + 3) / 4 * 4;
    for (size_t k = 0; k < f->n_norms; k++) {
        const dn_fat_member *lead = &p->members[f->norms[k].member];
        uint64_t units = f->norms[k].units, n_weights;
        if (!dn_mul(f->n_cols, units, &n_weights))
            return dn_fail(err, DN_EGPU, "GPU: the model is too large");
        UP(gpu_alloc(g, &d->weight[k], n_weights, "fat layer's weights", err));
        UP(gpu_alloc(g, &d->dosage[k], cols4, "standardised dosages", err));
        for (uint64_t at = 0; at < f->n_cols; at += f->slice) {
            uint64_t n = f->n_cols - at < f->slice ? f->n_cols - at : f->slice;
            gpu_dosages(lead->mean, lead->sd, p->place, at, n, p->scale, stage);
            UP(gpu_upload(g, g->stream, d->dosage[k] + at, stage, (n + 3) / 4 * 16 * sizeof(float), err));
            UP(gather_weights(f, p, k, at, n, stage, err));
            UP(gpu_upload(g, g->stream, d->weight[k] + at * units, stage, n * units * sizeof(float), err));
        }
    }
    return DN_OK;
}

static dn_status make_part(dn_cuda_fat *f, part *d, int id, const dn_fat_problem *p, const dn_cuda_options *o,
                           float *stage, dn_err *err)
{
    gpu *g = &d->g;
    uint64_t people = (f->max_people + f->n_parts - 1) / f->n_parts, row_bytes, n_z, n_x;
    UP(dn_alloc(&d->dosage, f->n_norms, sizeof *d->dosage, "fat layer", err));
    UP(dn_alloc(&d->weight, f->n_norms, sizeof *d->weight, "fat layer", err));
    UP(gpu_open(g, id, o->memory, o->tf32, err));
    UP(load_model(f, d, p, stage, err));
    if (!dn_mul(people, f->stride, &row_bytes) || !dn_mul(people, f->total, &n_z) ||
        !dn_mul(n_z, sizeof(float), &n_z) || !dn_mul(people, f->slice, &n_x)) {
        return dn_fail(err, DN_EGPU, "GPU: blocks of %llu people are too large",
                       (unsigned long long)f->max_people);
    }
    UP(gpu_alloc(g, &d->x, n_x, "genotypes of a slice", err));
    for (int s = 0; s < SLOTS; s++) {
        UP(gpu_alloc(g, &d->slot[s].rows, row_bytes, "packed rows of a block", err));
        UP(gpu_alloc_bytes(g, (void **)&d->slot[s].z, n_z, "sums of a block", err));
        CU(g, cudaHostAlloc((void **)&d->slot[s].host_z, n_z ? n_z : 1, cudaHostAllocDefault));
        CU(g, cudaEventCreateWithFlags(&d->slot[s].loaded, cudaEventDisableTiming));
        CU(g, cudaEventCreateWithFlags(&d->slot[s].done, cudaEventDisableTiming));
    }
    return gpu_sync(g, err); /* what went wrong on the way shows now */
}

static dn_status fill(dn_cuda_fat *f, const dn_fat_problem *p, uint64_t max_people, const dn_cuda_options *o,
                      dn_err *err)
{
    int n_devices;
    UP(gpu_want(o->n_devices, &n_devices, err));
    f->n_cols = p->n_cols;
    f->row_bytes = dn_geno_bytes(p->n_cols);
    f->stride = (f->row_bytes + 15) / 16 * 16;
    f->max_people = max_people ? max_people : 1;
    f->slice = p->n_cols < DN_FAT_CHUNK ? (p->n_cols + 3) / 4 * 4 : DN_FAT_CHUNK;
    f->n_members = p->n_members;
    UP(find_norms(f, p, err));
    f->n_parts = (size_t)n_devices;
    UP(dn_alloc(&f->parts, f->n_parts, sizeof *f->parts, "fat layer", err));
    uint64_t widest = 4;
    for (size_t k = 0; k < f->n_norms; k++) widest = f->norms[k].units > widest ? f->norms[k].units : widest;
    float *stage;
    UP(dn_alloc(&stage, f->slice * widest, sizeof *stage, "fat layer's weights", err));
    dn_status status = DN_OK;
    for (size_t d = 0; status == DN_OK && d < f->n_parts; d++)
        status = make_part(f, &f->parts[d], (int)d, p, o, stage, err);
    free(stage);
    return status;
}

dn_status cuda_fat_new(dn_cuda_fat **out, const dn_fat_problem *p, uint64_t max_people,
                       const dn_cuda_options *o, dn_err *err)
{
    dn_cuda_fat *f;
    *out = NULL;
    UP(dn_alloc(&f, 1, sizeof *f, "fat layer", err));
    dn_status status = fill(f, p, max_people, o, err);
    if (status == DN_OK)
        *out = f;
    else
        fat_free(f);
    return status;
}

static dn_status run_part(dn_cuda_fat *f, part *d, int s, gpu_rows from, dn_err *err)
{
    gpu *g = &d->g;
    uint64_t n = d->slot[s].n, at = d->slot[s].first;
    float *z = d->slot[s].z;
    from.offset = at * from.stride;
    UP(gpu_use(g, err));
    UP(gpu_upload_rows(g, g->copy, d->slot[s].rows, f->stride, from, n, f->row_bytes, err));
    CU(g, cudaEventRecord(d->slot[s].loaded, g->copy));
    CU(g, cudaStreamWaitEvent(g->stream, d->slot[s].loaded, 0));
    packed_rows rows = {d->slot[s].rows, f->stride, f->row_bytes, NULL};
    if (f->n_cols == 0) CU(g, cudaMemsetAsync(z, 0, n * f->total * sizeof *z, g->stream));
    for (uint64_t col = 0; col < f->n_cols; col += f->slice) {
        uint64_t k = f->n_cols - col < f->slice ? f->n_cols - col : f->slice;
        for (size_t i = 0; i < f->n_norms; i++) {
            uint64_t units = f->norms[i].units;
            if (units == 0) continue;
            UP(gpu_decode(g, &rows, n, col, k, d->dosage[i], 1.0f, d->x, f->slice, err));
            /* z^T (units x people) = W^T x^T, all column-major. */
            gpu_product q = {};
            q.m = units, q.n = n, q.k = k, q.count = 1;
            q.a = d->weight[i] + col * units, q.lda = units;
            q.b = d->x, q.ldb = f->slice;
            q.beta = col ? 1.0f : 0.0f;
            q.c = z + f->norms[i].at, q.ldc = f->total;
            UP(gpu_multiply(g, &q, err));
        }
    }
    CU(g, cudaMemcpyAsync(d->slot[s].host_z, z, n * f->total * sizeof *z, cudaMemcpyDeviceToHost, g->stream));
    CU(g, cudaEventRecord(d->slot[s].done, g->stream));
    return DN_OK;
}

dn_status cuda_fat_submit(dn_cuda_fat *f, const uint8_t *rows, uint64_t row_bytes, uint64_t n_people,
                          dn_err *err)
{
    if (f->submitted - f->waited >= SLOTS) {
        return dn_fail(err, DN_EINTERNAL, "fat layer: %d blocks are under way: take a result first", SLOTS);
    }
    if (n_people > f->max_people || row_bytes < f->row_bytes) {
        return dn_fail(
            err, DN_EINTERNAL,
            "fat layer: a block of %llu people and rows of %llu bytes, expected at most %llu and at least "
            "%llu",
            (unsigned long long)n_people, (unsigned long long)row_bytes, (unsigned long long)f->max_people,
            (unsigned long long)f->row_bytes);
    }
    int s = (int)(f->submitted % SLOTS);
    uint64_t each = (n_people + f->n_parts - 1) / f->n_parts;
    for (size_t d = 0; d < f->n_parts; d++) {
        part *p = &f->parts[d];
        uint64_t first = d * each < n_people ? d * each : n_people;
        p->slot[s].first = first;
        p->slot[s].n = n_people - first < each ? n_people - first : each;
        if (p->slot[s].n == 0 || f->total == 0) continue;
        gpu_rows from = {NULL, rows, row_bytes, 0};
        UP(run_part(f, p, s, from, err));
    }
    f->submitted++;
    return DN_OK;
}

dn_status cuda_fat_wait(dn_cuda_fat *f, float *z, dn_err *err)
{
    if (f->waited == f->submitted) return dn_fail(err, DN_EINTERNAL, "fat layer: no block is under way");
    int s = (int)(f->waited % SLOTS);
    for (size_t d = 0; d < f->n_parts; d++) {
        part *p = &f->parts[d];
        if (p->slot[s].n == 0 || f->total == 0) continue;
        UP(gpu_use(&p->g, err));
        CU(&p->g, cudaEventSynchronize(p->slot[s].done));
        float *out = z + p->slot[s].first * f->total;
        for (uint64_t i = 0; i < p->slot[s].n; i++) {
            for (size_t m = 0; m < f->n_members; m++) {
                memcpy(out, p->slot[s].host_z + i * f->total + f->column[m], f->units[m] * sizeof *out);
                out += f->units[m];
            }
        }
    }
    f->waited++;
    return DN_OK;
}

void cuda_fat_free(dn_cuda_fat *f)
{
    fat_free(f);
}
