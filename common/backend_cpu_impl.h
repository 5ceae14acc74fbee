/* backend_cpu_impl.h: what the backend_cpu*.c files and their tests share.
 *
 * SNPs are worked on in blocks of CPU_BLOCK, so that a block's activations stay in L2 between one operation
 * and the next; blocks are dealt out in chunks, whose number depends on shapes alone, and every sum over SNPs
 * is made per chunk and then over chunks in order: threads never change a result. Rows of activations are
 * padded to CPU_LANES floats, SNPs to whole blocks; all padding is 0. */
#ifndef DN_BACKEND_CPU_IMPL_H
#define DN_BACKEND_CPU_IMPL_H

#include "backend.h"
#include "fat_kernel.h"
#include "geno.h"

#define CPU_LANES FAT_LANES
#define CPU_BLOCK 384 /* SNPs; whole tiles of FAT_COLS */
#define CPU_TILES (CPU_BLOCK / FAT_COLS)

static inline size_t cpu_pad(uint64_t n)
{
    return (size_t)((n + CPU_LANES - 1) / CPU_LANES * CPU_LANES);
}

/* ---- dense kernels, one table per instruction set ---- */
typedef enum { CPU_PLAIN, CPU_TANH, CPU_DTANH } cpu_epilogue;
typedef struct {
    size_t panel; /* columns of a panel of a packed right-hand matrix */
    /* y (S x n_pad) = f(x b): x: S x K of row stride ldx; b: K x n_pad packed by cpu_pack(). S % 4 == 0. f:
     * CPU_TANH: tanh; CPU_DTANH: times (1 - act^2), act shaped as y. */
    void (*mul)(const float *x, size_t ldx, const float *b, size_t S, size_t K, size_t n_pad, float *y,
                cpu_epilogue f, const float *act);
    /* dw (n_out x n_pad) += d^T x: d: S x n_out of row stride ldd, x: S x n_pad. n_out % 4 == 0. */
    void (*mul_t)(const float *d, size_t ldd, const float *x, size_t S, size_t n_out, size_t n_pad,
                  float *dw);
    /* d (S x n_pad, in place) = isd[s] * (d - mean[s] * (total - missing)) * (1 - act^2); missing may be
     * NULL: zeros. */
    void (*finish_grad)(float *d, const float *isd, const float *mean, const float *total,
                        const float *missing, const float *act, size_t S, size_t n_pad);
} cpu_dense;
const cpu_dense *cpu_dense_of(dn_isa isa);

/* Packs b for mul: element (k, n) is src[k * row + n * col]; columns past n up to n_pad become 0. out: K x
 * n_pad. */
void cpu_pack(const float *src, size_t row, size_t col, size_t K, size_t n, size_t n_pad, size_t panel,
              float *out);

/* Plain versions, in double, on unpacked matrices: b: K x n. */
void cpu_mul_ref(const float *x, size_t ldx, const float *b, size_t S, size_t K, size_t n, double *y);
void cpu_mul_t_ref(const float *d, size_t ldd, const float *x, size_t ldx, size_t S, size_t n_out, size_t n,
                   double *dw);

/* ---- genotypes of a batch ---- */
/* 32 x 32 2-bit codes: out[s]'s code i = in[i]'s code s. */
void cpu_transpose32(const uint64_t in[32], uint64_t out[32]);
void cpu_transpose32_ref(const uint64_t in[32], uint64_t out[32]);
/* The values that each byte of n words takes. */
void cpu_used(const uint64_t *word, size_t n, fat_used used[FAT_GROUPS]);

typedef struct {
    dn_backend be;
    dn_backend_ops table;
    dn_pool *pool;
    const cpu_dense *dense;
    fat_kernels fat;
    float *scratch; /* of the main net's operations */
    size_t scratch_n;
} cpu_backend;

struct dn_genome {
    uint64_t n_snps, n_blocks,
        n_chunks; /* chunk c: blocks [c * n_blocks / n_chunks, (c + 1) * n_blocks / n_chunks) */
    size_t n_aux, width[DN_MAX_LAYERS + 1],
        pad[DN_MAX_LAYERS + 1];    /* width[0] = K, width[l] = units of aux layer l - 1 */
    float *act[DN_MAX_LAYERS + 1]; /* n_blocks * CPU_BLOCK x pad[l]; act[0]: embedding */
    float *x;                      /* padded M x 3: standardised dosages */
    float *mean, *isd;             /* padded M; isd 0: contributes nothing */
    /* the batch */
    uint64_t n, room; /* people; room: for how many there is space */
    uint64_t *word;   /* tiles of 32 SNPs x n people: 32 codes each */
    double scale;     /* 1 / keep */
    /* scratch */
    size_t n_workers, worker_floats;
    float *worker; /* per worker: see backend_cpu_aux.c */
    float *packed[DN_MAX_LAYERS],
        *packed_t[DN_MAX_LAYERS]; /* aux weights packed: w^T for forward, w for backward */
    uint64_t slab;                /* people whose sums over chunks are kept at once */
    float *zpart;                 /* n_chunks x slab x pad(H) */
    uint64_t zpart_n;
    float *dwpart; /* n_chunks x sum over layers of pad(out) x pad(in) */
    uint64_t dw_floats;
    float *gtab, *dz; /* tables over people: see grad_tables(); dz by slices */
    uint64_t gtab_n, dz_n;
};

/* backend_cpu_genome.c */
dn_status cpu_genome_new(dn_backend *be, dn_genome **out, const dn_genome_spec *spec, dn_err *err);
void cpu_genome_free(dn_backend *be, dn_genome *g);
dn_status cpu_load_rows(dn_backend *be, dn_genome *g, const uint8_t *const *rows, uint64_t n, double keep,
                        dn_rng *rng, dn_err *err);
dn_status cpu_fat_download(dn_backend *be, dn_genome *g, float *host, dn_err *err);
/* backend_cpu_aux.c */
dn_status cpu_aux_forward(dn_backend *be, dn_genome *g, float *const *w, dn_err *err);
dn_status cpu_fat_forward(dn_backend *be, dn_genome *g, float *z, dn_err *err);
dn_status cpu_aux_fat_forward(dn_backend *be, dn_genome *g, float *const *w, float *z, dn_err *err);
dn_status cpu_aux_fat_backward(dn_backend *be, dn_genome *g, float *const *w, const float *dz,
                               float *const *dw, dn_err *err);
/* backend_cpu_main.c */
extern const dn_backend_ops cpu_main_ops; /* its part of the table */

#endif
