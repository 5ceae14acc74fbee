/* cuda_genome.cu: the genotype side of a net on GPUs (see cuda_backend.cuh): who has which SNPs, resident
 * rows, the batch and its input dropout. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_backend.cuh"
#include "philox.h"

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- making and freeing ---- */

/* SNPs [first, first + n) of the spec to a device. */
static dn_status fill_shard(dn_genome *g, shard *s, const dn_genome_spec *spec, dn_err *err)
{
    gpu *d = s->g;
    uint64_t K = g->width[0], floats;
    for (int i = 0; i < STAGES; i++) CU(d, cudaEventCreateWithFlags(&s->used[i], cudaEventDisableTiming));
    CU(d, cudaEventCreateWithFlags(&s->loaded, cudaEventDisableTiming));
    for (size_t l = 0; l <= g->n_aux; l++) {
        if (!dn_mul(s->pad, g->width[l], &floats))
            return dn_fail(err, DN_EGPU, "GPU: the network is too large");
        UP(gpu_alloc(d, &s->act[l], floats, l ? "activations of the auxiliary net" : "the embedding", err));
    }
    UP(gpu_upload(d, d->stream, s->act[0], spec->emb + s->first * K, s->n * K * sizeof(float), err));
    if (s->pad > s->n) {
        CU(d, cudaMemsetAsync(s->act[0] + s->n * K, 0, (s->pad - s->n) * K * sizeof(float), d->stream));
    }
    UP(gpu_alloc(d, &s->dosage, s->pad, "standardised dosages", err));
    float *dosage;
    UP(dn_alloc(&dosage, s->pad * 4, sizeof *dosage, "standardised dosages", err));
    gpu_dosages(spec->mean, spec->sd, NULL, s->first, s->n, 1.0, dosage);
    dn_status status = gpu_upload(d, d->stream, s->dosage, dosage, s->pad * 4 * sizeof *dosage, err);
    free(dosage);
    return status;
}

static dn_status make_shard(dn_genome *g, size_t i, const dn_genome_spec *spec, dn_err *err)
{
    shard *s = &g->s[i];
    uint64_t units = (g->n_snps + ALIGN - 1) / ALIGN, n = g->n_shards;
    uint64_t end = (units * (i + 1) + n - 1) / n * ALIGN;
    s->first = (units * i + n - 1) / n * ALIGN; /* rounded up: device 0 has some if anybody has */
    if (end > g->n_snps) end = g->n_snps;
    s->n = end > s->first ? end - s->first : 0;
    s->chunk = s->n < CHUNK ? round_up(s->n, 4) : CHUNK;
    s->x_slice = NO_SLICE;
    if (s->n == 0) return DN_OK;
    s->pad = round_up(s->n, s->chunk);
    s->bytes = dn_geno_bytes(s->n);
    s->stride = round_up(s->bytes, 16);
    UP(gpu_use(s->g, err));
    if (i > 0) {
        UP(gpu_alloc(s->g, &s->w_copy, g->n_weights, "auxiliary weights", err));
        UP(gpu_alloc(s->g, &s->dw_copy, g->n_weights, "auxiliary weights", err));
        for (size_t l = 0, at = 0; l < g->n_aux; at += g->width[l] * g->width[l + 1], l++)
            s->w[l] = s->w_copy + at;
    }
    return fill_shard(g, s, spec, err);
}

dn_status cuda_genome_new(dn_backend *be, dn_genome **out, const dn_genome_spec *spec, dn_err *err)
{
    cuda_backend *cb = (cuda_backend *)be;
    dn_genome *g;
    *out = NULL;
    UP(dn_alloc(&g, 1, sizeof *g, "network", err));
    g->n_snps = spec->n_snps;
    g->n_aux = spec->n_aux;
    g->n_shards = cb->n_gpus;
    for (size_t l = 0; l <= g->n_aux; l++) {
        g->width[l] = l ? spec->aux[l - 1] : spec->n_features;
        if (g->width[l] > g->widest) g->widest = g->width[l];
        if (l) g->n_weights += g->width[l - 1] * g->width[l];
    }
    dn_status status = dn_alloc(&g->s, g->n_shards, sizeof *g->s, "network", err);
    for (size_t i = 0; i < g->n_shards && status == DN_OK; i++) {
        g->s[i].g = &cb->g[i];
        status = make_shard(g, i, spec, err);
    }
    if (status == DN_OK && g->n_shards > 1)
        status =
            gpu_alloc(&cb->g[0], &g->dw_in, (g->n_shards - 1) * g->n_weights, "auxiliary gradients", err);
    if (status == DN_OK)
        *out = g;
    else
        cuda_genome_free(be, g);
    return status;
}

void cuda_genome_free(dn_backend *be, dn_genome *g)
{
    if (!g) return;
    for (size_t i = 0; g->s && i < g->n_shards; i++) { /* devices read of each other */
        if (g->s[i].g) gpu_quiet(g->s[i].g);
    }
    for (size_t i = 0; g->s && i < g->n_shards; i++) {
        shard *s = &g->s[i];
        void *all[] = {s->dosage,   s->resident, s->w_copy, s->dw_copy, s->index, s->stage[0],
                       s->stage[1], s->dropped,  s->bits,   s->x,       s->z,     s->dz};
        if (!s->g) continue; /* not come to */
        for (size_t l = 0; l <= g->n_aux; l++) gpu_free(s->g, s->act[l]);
        for (void *p : all) gpu_free(s->g, p);
        (void)cudaSetDevice(s->g->id);
        for (int k = 0; k < STAGES; k++) {
            if (s->used[k]) (void)cudaEventDestroy(s->used[k]);
        }
        if (s->loaded) (void)cudaEventDestroy(s->loaded);
    }
    gpu_free(&((cuda_backend *)be)->g[0], g->z_in);
    gpu_free(&((cuda_backend *)be)->g[0], g->dw_in);
    free(g->s);
    free(g->host_bits);
    free(g->host_index);
    free(g);
}

dn_status cuda_fat_download(dn_backend *be, dn_genome *g, float *host, dn_err *err)
{
    (void)be;
    uint64_t H = g->width[g->n_aux];
    for (size_t i = 0; i < g->n_shards; i++) {
        const shard *s = &g->s[i];
        UP(gpu_download(s->g, host + s->first * H, s->act[g->n_aux], s->n * H * sizeof *host, err));
    }
    return DN_OK;
}

/* ---- resident rows ---- */

static void not_resident(dn_genome *g)
{
    for (size_t i = 0; i < g->n_shards; i++) {
        gpu_free(g->s[i].g, g->s[i].resident);
        g->s[i].resident = NULL;
        g->s[i].rows.base = NULL;
    }
    g->base = NULL;
}

dn_status cuda_resident(dn_backend *be, dn_genome *g, const uint8_t *base, uint64_t stride, uint64_t n_rows,
                        dn_err *err)
{
    cuda_backend *cb = (cuda_backend *)be;
    not_resident(g);
    bool fits = base && n_rows > 0 && stride > 0;
    for (size_t i = 0; i < g->n_shards && fits; i++) {
        uint64_t bytes, room;
        UP(gpu_room(g->s[i].g, &room, err));
        fits =
            dn_mul(n_rows, g->s[i].stride, &bytes) && dn_add(bytes, 3 * cb->x_bytes, &bytes) && bytes <= room;
    }
    for (size_t i = 0; i < g->n_shards && fits; i++) {
        shard *s = &g->s[i];
        gpu_rows from = {NULL, base, stride, s->first / 4};
        UP(gpu_alloc(s->g, &s->resident, n_rows * s->stride, "resident genotypes", err));
        UP(gpu_upload_rows(s->g, s->g->stream, s->resident, s->stride, from, n_rows, s->bytes, err));
    }
    if (fits) {
        g->base = base;
        g->base_stride = stride;
        g->base_rows = n_rows;
    }
    cuda_name(cb, fits ? ", genotypes resident" : "");
    return DN_OK;
}

/* rows -> their numbers among the resident ones, in host_index; false: not all are. */
static bool find_rows(dn_genome *g, const uint8_t *const *rows, uint64_t n)
{
    for (uint64_t b = 0; b < n; b++) {
        uint64_t at = (uint64_t)((uintptr_t)rows[b] - (uintptr_t)g->base);
        if (rows[b] < g->base || at % g->base_stride || at / g->base_stride >= g->base_rows) return false;
        g->host_index[b] = at / g->base_stride;
    }
    return true;
}

/* ---- input dropout ---- */

/* Bit i to bits 2i and 2i + 1. */
static __device__ __forceinline__ uint64_t both_bits(uint32_t m)
{
    uint64_t x = m;
    x = (x | x << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
    x = (x | x << 2) & 0x3333333333333333u;
    x = (x | x << 1) & 0x5555555555555555u;
    return x * 3;
}

/* An item: 32 calls of a row. Rows and their strides are in whole words. */
static __global__ void k_drop_bits(uint64_t n, const uint8_t *base, uint64_t stride, const uint64_t *index,
                                   uint64_t words, const uint8_t *bits, uint64_t bits_stride, uint8_t *out,
                                   uint64_t out_stride)
{
    EACH(i, n)
    {
        uint64_t b = i / words, w = i % words, row = index ? index[b] : b;
        uint64_t calls = *(const uint64_t *)(base + row * stride + w * 8);
        uint32_t dropped = *(const uint32_t *)(bits + b * bits_stride + w * 4);
        *(uint64_t *)(out + b * out_stride + w * 8) = calls | both_bits(dropped);
    }
}

/* The same with the draws made here: call j of row b is draw number at + b * M + j of the fast kind
 * (philox.h). */
static __global__ void k_drop_fast(uint64_t n, const uint8_t *base, uint64_t stride, const uint64_t *index,
                                   uint64_t words, uint64_t key, uint64_t at, uint64_t M, uint32_t limit,
                                   uint8_t *out, uint64_t out_stride)
{
    EACH(i, n)
    {
        uint64_t b = i / words, w = i % words, row = index ? index[b] : b, from = at + b * M + w * 32;
        uint64_t calls = *(const uint64_t *)(base + row * stride + w * 8);
        uint32_t dropped = 0, draw[4];
        int skip = (int)(from % 4); /* draws of the first block that are the calls' before */
        for (int k = 0; k < 9 && 4 * k - skip < 32; k++) {
            dn_philox_block(key, from / 4 + (uint64_t)k, draw);
            for (int q = 0; q < 4; q++) {
                int j = 4 * k + q - skip;
                if (j >= 0 && j < 32 && !dn_philox_keep(draw[q], limit)) dropped |= 1u << j;
            }
        }
        *(uint64_t *)(out + b * out_stride + w * 8) = calls | both_bits(dropped);
    }
}

/* MT19937 is drawn here, person after person, as upstream does over the batch: a bit per call, 1: dropped. */
static dn_status draw_bits(dn_genome *g, uint64_t n, double keep, dn_rng *rng, uint64_t *stride, dn_err *err)
{
    const uint64_t PIECE = 4096;
    uint8_t kept[PIECE];
    uint64_t bytes;
    *stride = (g->n_snps + 7) / 8;
    if (!dn_mul(n, *stride, &bytes))
        return dn_fail(err, DN_ENOMEM, "a batch of %llu people", (unsigned long long)n);
    if (bytes > g->host_bits_n) {
        free(g->host_bits);
        g->host_bits_n = 0;
        UP(dn_alloc(&g->host_bits, bytes, 1, "input dropout", err));
        g->host_bits_n = bytes;
    }
    for (uint64_t b = 0; b < n; b++) {
        uint8_t *out = g->host_bits + b * *stride;
        for (uint64_t at = 0; at < g->n_snps; at += PIECE) {
            uint64_t k = g->n_snps - at < PIECE ? g->n_snps - at : PIECE;
            dn_rng_bernoulli(rng, keep, kept, k);
            memset(kept + k, 1, (8 - k % 8) % 8);
            for (uint64_t i = 0; i < k; i += 8) { /* eight bytes of 0 or 1 to eight bits */
                uint64_t x;
                memcpy(&x, kept + i, 8);
                *out++ = (uint8_t) ~(x * 0x0102040810204080u >> 56);
            }
        }
    }
    return DN_OK;
}

static dn_status drop_calls(dn_genome *g, shard *s, double keep, const dn_rng *rng, uint64_t host_stride,
                            dn_err *err)
{
    gpu *d = s->g;
    uint64_t words = s->stride / 8, bits_stride = s->stride / 2, n = g->n * words;
    packed_rows *r = &s->rows;
    if (rng->fast) {
        LAUNCH(d, k_drop_fast, n, r->base, r->stride, r->index, words, rng->key, rng->at + s->first,
               g->n_snps, dn_philox_limit(keep), s->dropped, s->stride);
    } else {
        gpu_rows from = {NULL, g->host_bits, host_stride, s->first / 8};
        UP(gpu_upload_rows(d, d->stream, s->bits, bits_stride, from, g->n, (s->n + 7) / 8, err));
        LAUNCH(d, k_drop_bits, n, r->base, r->stride, r->index, words, s->bits, bits_stride, s->dropped,
               s->stride);
    }
    r->base = s->dropped;
    r->stride = s->stride;
    r->index = NULL;
    return DN_OK;
}

/* ---- the batch ---- */

/* Buffers for n people, as far as this batch needs them; kept from batch to batch. */
static dn_status need_room(dn_genome *g, shard *s, uint64_t n, bool staged, bool drop, bool bits, dn_err *err)
{
    gpu *d = s->g;
    if (n > s->room) {
        gpu_quiet(g->s[0].g); /* it may be reading z */
        void *all[] = {s->index, s->stage[0], s->stage[1], s->dropped, s->bits, s->z, s->dz};
        for (void *p : all) gpu_free(d, p);
        s->index = NULL, s->stage[0] = s->stage[1] = s->dropped = s->bits = NULL, s->z = s->dz = NULL;
        s->room = n;
    }
    uint64_t packed, floats;
    if (!dn_mul(s->room, s->stride, &packed) || !dn_mul(s->room, g->width[g->n_aux], &floats))
        return dn_fail(err, DN_EGPU, "GPU: a batch of %llu people is too large", (unsigned long long)n);
    if (!s->index) UP(gpu_alloc(d, &s->index, s->room, "numbers of rows", err));
    for (int k = 0; k < STAGES && staged; k++) {
        if (!s->stage[k]) UP(gpu_alloc(d, &s->stage[k], packed, "packed rows of a batch", err));
    }
    if (drop && !s->dropped) UP(gpu_alloc(d, &s->dropped, packed, "packed rows of a batch", err));
    if (bits && !s->bits) UP(gpu_alloc(d, &s->bits, packed / 2, "input dropout", err));
    if (s != &g->s[0]) {
        if (!s->z) UP(gpu_alloc(d, &s->z, floats, "sums of a batch", err));
        if (!s->dz) UP(gpu_alloc(d, &s->dz, floats, "gradients of a batch", err));
    }
    return DN_OK;
}

/* Rows over PCIe, beside what the device is doing. The buffer was last read by the batch before the last one.
 */
static dn_status stage_rows(dn_genome *g, shard *s, const uint8_t *const *rows, dn_err *err)
{
    gpu *d = s->g;
    gpu_rows from = {rows, NULL, 0, s->first / 4};
    CU(d, cudaStreamWaitEvent(d->copy, s->used[g->stage], 0));
    UP(gpu_upload_rows(d, d->copy, s->stage[g->stage], s->stride, from, g->n, s->bytes, err));
    CU(d, cudaEventRecord(s->loaded, d->copy));
    CU(d, cudaStreamWaitEvent(d->stream, s->loaded, 0));
    packed_rows r = {s->stage[g->stage], s->stride, s->bytes, NULL};
    s->rows = r;
    return DN_OK;
}

static dn_status load_shard(cuda_backend *cb, dn_genome *g, shard *s, const uint8_t *const *rows,
                            bool resident, double keep, const dn_rng *rng, uint64_t host_stride, dn_err *err)
{
    gpu *d = s->g;
    s->x_slice = NO_SLICE;
    if (s->n == 0) return DN_OK;
    UP(gpu_use(d, err));
    UP(need_room(g, s, g->n, !resident, keep < 1, keep < 1 && !rng->fast, err));
    s->slice = cuda_slice(cb, g, s, g->n);
    if (resident) {
        packed_rows r = {s->resident, s->stride, s->bytes, s->index};
        UP(gpu_upload(d, d->stream, s->index, g->host_index, g->n * sizeof *s->index, err));
        s->rows = r;
    } else {
        UP(stage_rows(g, s, rows, err));
    }
    return keep < 1 ? drop_calls(g, s, keep, rng, host_stride, err) : DN_OK;
}

dn_status cuda_load_rows(dn_backend *be, dn_genome *g, const uint8_t *const *rows, uint64_t n, double keep,
                         dn_rng *rng, dn_err *err)
{
    uint64_t host_stride = 0;
    if (n > DN_MAX_PEOPLE) return dn_fail(err, DN_ENOMEM, "a batch of %llu people", (unsigned long long)n);
    if (n > g->host_index_n) {
        free(g->host_index);
        g->host_index_n = 0;
        UP(dn_alloc(&g->host_index, n, sizeof *g->host_index, "numbers of rows", err));
        g->host_index_n = n;
    }
    bool resident = g->base && find_rows(g, rows, n);
    if (g->staged) { /* what has been started up to here is all that reads the buffer in use */
        for (size_t i = 0; i < g->n_shards; i++) {
            shard *s = &g->s[i];
            if (s->n == 0) continue;
            UP(gpu_use(s->g, err));
            CU(s->g, cudaEventRecord(s->used[g->stage], s->g->stream));
        }
        g->stage = (g->stage + 1) % STAGES;
    }
    g->staged = !resident;
    g->n = n;
    g->scale = keep < 1 ? (float)(1.0 / keep) : 1.0f;
    if (keep < 1 && !rng->fast) UP(draw_bits(g, n, keep, rng, &host_stride, err));
    for (size_t i = 0; i < g->n_shards; i++)
        UP(load_shard((cuda_backend *)be, g, &g->s[i], rows, resident, keep, rng, host_stride, err));
    if (keep < 1 && rng->fast) rng->at += n * g->n_snps;
    return DN_OK;
}
