/* backend_cpu_impl.h: what the backend_cpu*.c files and their tests share.
 *
 * SNPs are worked on in blocks of CPU_BLOCK, so that a block's activations stay in L2 between one operation
 * and the next; blocks are dealt out in chunks, whose number depends on shapes alone, and every sum over SNPs
 * is made per chunk and then over chunks in order: threads never change a result. Rows of activations are
 * padded to CPU_LANES floats, SNPs to whole blocks; all padding is 0. */
#ifndef DN_BACKEND_CPU_IMPL_H
#define DN_BACKEND_CPU_IMPL_H

#include "backend.h"
#include "geno.h"

#define CPU_LANES 16
#define CPU_COLS  32  /* codes of a word */
#define CPU_BLOCK 384 /* SNPs: whole words, whole sets */
#define CPU_TILES (CPU_BLOCK / CPU_COLS)
#define CPU_BACK  2 /* blocks that share tables over people */
#define CPU_ROWS  6 /* rows that the products work on at a time; CPU_BLOCK is a multiple */

static inline size_t cpu_pad(uint64_t n)
{
    return (size_t)((n + CPU_LANES - 1) / CPU_LANES * CPU_LANES);
}

/* ---- kernels, one table per instruction set ---- */
/* The fat layer works by tables on sets of CPU_CODES = 24 two-bit codes, the low 48 bits of a word, in
 * CPU_GROUPS = 8 groups of 3: per group a table has a row of CPU_LANES sums for every value of its 6 bits.
 * Groups are CPU_PITCH rows apart, not 64, so that the same value of two groups does not fall into the same
 * cache set. The rows that occur fit into L1 (tables of 4 codes, as prediction has them, do not when all SNPs
 * of a block meet in them). */
#define CPU_CODES  24
#define CPU_GROUPS 8
#define CPU_PITCH  71
#define CPU_TABLE  (CPU_GROUPS * CPU_PITCH * CPU_LANES) /* floats */
#define CPU_SETS   (CPU_BLOCK / CPU_CODES)              /* of a block; even */

/* The rows of a table to make besides the 27 of each group in which no call is missing: group * 64 + value;
 * n == CPU_ALL_ROWS: all rows, whatever is in the list. */
#define CPU_ALL_ROWS  0xffff
#define CPU_MOST_ROWS 64 /* more rows than this are all of them */
typedef struct {
    uint16_t n, row[CPU_MOST_ROWS];
} cpu_rows;

/* What a product's rows get besides: add[0 .. n_pad) to all, and for row s and every i in [first[s], first[s
 * + 1]) r[i] times row 1 + cls[i] of add, whose rows are n_pad apart. */
typedef struct {
    const float *add;
    const uint32_t *first;
    const uint16_t *cls;
    const float *r;
} cpu_extra;

typedef enum { CPU_PLAIN, CPU_TANH, CPU_DTANH } cpu_epilogue;
typedef struct {
    size_t panel; /* columns of a panel of a packed right-hand matrix */
    /* y (S x n, rows n_pad apart) = f(x b): x: S x K of row stride ldx; b: K x n_pad packed by cpu_pack(). S
     * % CPU_ROWS == 0. f: CPU_TANH: tanh, stored to out as well, past the caches, unless it is NULL;
     * CPU_DTANH: times (1 - act^2), act shaped as y, and so is out. y's padding: left alone or set to 0.
     * extra: added before the tanh, or NULL. next: what is to be read from memory ahead, next_floats of it,
     * or NULL. */
    void (*mul)(const float *x, size_t ldx, const float *b, size_t S, size_t K, size_t n, size_t n_pad,
                float *y, cpu_epilogue f, const float *act, float *out, const cpu_extra *extra,
                const float *next, size_t next_floats);
    /* dw (n_out x n) += d^T x: d: S x n_out of row stride ldd; x: S x n; rows of x and dw n_pad apart. n_out
     * is rounded up to CPU_ROWS: dw has as many rows, and 5 floats past the end of d may be read. next: as
     * for mul, or NULL. */
    void (*mul_t)(const float *d, size_t ldd, const float *x, size_t S, size_t n_out, size_t n, size_t n_pad,
                  float *dw, const float *next, size_t next_floats);
    /* The sums that go with cpu_extra: out[0 .. n_pad) += the S rows of d (S % 12 == 0); row 1 + cls[i] of
     * out += r[i] times d's row s for i in [first[s], first[s + 1]). add: not looked at. */
    void (*sums)(const float *d, size_t S, size_t n_pad, const cpu_extra *extra, float *out);
    /* The values that each group of n words takes, as bits. */
    void (*used)(const uint64_t *word, size_t n, uint64_t used[CPU_GROUPS]);
    /* Table of 24 codes: code j counts x[4j + code] times the 16 floats at w + j * stride; x of a missing one
     * is 0. */
    void (*build)(const float *w, size_t stride, const float *x, const cpu_rows *rows, float *table);
    /* acc[i] (16 floats) += the table's rows for word[i], and those of the table after it for second[i]
     * (second may be NULL); i < n. first: = instead. */
    void (*add)(const float *table, const uint64_t *word, const uint64_t *second, size_t n, float *acc,
                bool first);
    /* Codes of n <= 24 people for a block's SNPs. src: person after person, CPU_TILES words each; SNP j's
     * word goes to place cpu_place(j) of word and miss: the people's codes, 0 where missing or nobody; and
     * bit 2i where person i's call is missing. */
    void (*turn)(const uint64_t *src, size_t n, uint64_t *word, uint64_t *miss);
    /* A block's d[s][k] = isd[s] * (grad - mean[s] * (total[k] - missing)) * (1 - act[s][k]^2), missing = sum
     * of dz over the people without a call. d, act: CPU_BLOCK x n_pad; grad: slices of 16 units, `rows` rows
     * apart, and miss, for each of `sets` sets of people, `rows` words apart: both in the order of
     * cpu_place(); dz: people x n_pad. missing: the sums for missing calls, shaped as grad, where they are
     * known: miss and dz are then not looked at; or NULL. */
    void (*finish)(const float *grad, const float *missing, size_t rows, const uint64_t *miss, size_t sets,
                   const float *dz, const float *isd, const float *mean, const float *total, const float *act,
                   size_t n_pad, float *d);
} cpu_kernels;
const cpu_kernels *cpu_kernels_of(dn_isa isa);

/* The rows that are used besides those without a missing call. */
void cpu_rows_of(const uint64_t used[CPU_GROUPS], cpu_rows *rows);

/* Packs b for mul: element (k, n) is src[k * row + n * col]; columns past n up to n_pad become 0. out: K x
 * n_pad. */
void cpu_pack(const float *src, size_t row, size_t col, size_t K, size_t n, size_t n_pad, size_t panel,
              float *out);

/* Plain versions, in double, on unpacked matrices: b: K x n. */
void cpu_mul_ref(const float *x, size_t ldx, const float *b, size_t S, size_t K, size_t n, double *y);
void cpu_mul_t_ref(const float *d, size_t ldd, const float *x, size_t ldx, size_t S, size_t n_out, size_t n,
                   double *dw);

/* ---- genotypes of a batch ---- */
/* Where SNP j of a block is when people and SNPs have changed places. */
static inline size_t cpu_place(size_t j)
{
    return j % CPU_COLS * CPU_TILES + j / CPU_COLS;
}
/* Set k (24 codes) of a row of 32-code words; bits above 48 are anything. */
static inline uint64_t cpu_set_word(const uint64_t *words, size_t k)
{
    size_t bit = k * 2 * CPU_CODES, q = bit / 64, r = bit % 64;
    uint64_t w = words[q] >> r;
    return r > 16 ? w | words[q + 1] << (64 - r) : w;
}
/* Plain version of build and add, in double: acc[i] += sums for word[i] of 24 codes; x as for build, but its
 * value for a missing call is not looked at. */
void cpu_turn_ref(const uint64_t *src, size_t n, uint64_t *word, uint64_t *miss);
void cpu_fat_ref(const uint64_t *word, size_t n, const float *w, size_t stride, const float *x, double *acc);

/* ---- the embedding without the features that follow from others (backend_cpu_shares.c) ---- */
typedef struct {
    bool useless;
    size_t C;          /* classes; 0: all features are kept */
    double *norm;      /* 3 x C */
    uint8_t *left_out; /* C: 0, 1 or 2 */
    uint32_t *first;   /* padded M + 1: see cpu_extra, as the next two */
    uint16_t *cls;
    float *r;
    float *w;   /* H x 2C: weights of the features that are kept */
    float *add; /* (1 + C) x pad(H): see cpu_extra */
} cpu_shares;
/* emb: n_snps x K; rows: SNPs with padding. s->C == 0 when it does not pay. */
dn_status cpu_shares_new(cpu_shares *s, const float *emb, uint64_t n_snps, uint64_t rows, uint64_t K,
                         uint64_t H, dn_err *err);
void cpu_shares_free(cpu_shares *s);
/* A SNP's 3C features -> the 2C that are kept. */
void cpu_shares_embedding(const cpu_shares *s, const float *e, float *out);
/* w: H x 3C -> s->w and s->add. */
void cpu_shares_weights(cpu_shares *s, const float *w, size_t H);
/* A unit's gradient (3C) from that for the kept features (2C), the sum of d over SNPs, and of r d by class.
 */
void cpu_shares_gradient(const cpu_shares *s, const double *g, double sum, const double *missing, float *dw);

typedef struct {
    dn_backend be;
    dn_backend_ops table;
    dn_pool *pool;
    const cpu_kernels *kern;
    uint64_t shares_from; /* SNPs from which cpu_shares is tried; tests change it */
    float *scratch;       /* of the main net's operations */
    size_t scratch_n;
} cpu_backend;

struct dn_genome {
    uint64_t n_snps, n_blocks,
        n_chunks; /* chunk c: blocks [c * n_blocks / n_chunks, (c + 1) * n_blocks / n_chunks) */
    size_t n_aux, width[DN_MAX_LAYERS + 1],
        pad[DN_MAX_LAYERS + 1];    /* width[0] = features, width[l] = units of aux layer l - 1 */
    float *act[DN_MAX_LAYERS + 1]; /* n_blocks * CPU_BLOCK x pad[l]; act[0]: embedding */
    cpu_shares shares;             /* shares.C: width[0] is 2C, not 3C */
    float *x;                      /* padded M x 3: standardised dosages */
    float *mean, *isd;             /* padded M; isd 0: contributes nothing */
    /* the batch */
    uint64_t n, room; /* people; room: for how many there is space */
    uint64_t *word;   /* blocks x n people x CPU_TILES: 32 codes each */
    double scale;     /* 1 / keep */
    /* scratch */
    size_t n_workers, worker_floats, each; /* each: floats of a block's widest rows */
    float *worker;                         /* per worker: see backend_cpu_aux.c */
    float *packed[DN_MAX_LAYERS],
        *packed_t[DN_MAX_LAYERS]; /* aux weights packed: w^T for forward, w for backward */
    uint64_t slab;                /* people whose sums over chunks are kept at once */
    uint64_t *codes, codes_n;     /* per worker: words of sets of codes */
    float *zpart;                 /* n_chunks x slab x pad(H) */
    uint64_t zpart_n;
    float *dwpart;                  /* n_chunks x sum over layers of pad(out) x pad(in) */
    uint64_t dw_floats, sum_floats; /* dw_floats includes the last sum_floats: (1 + C) x pad of layer 1 */
    float *dz;                      /* people in whole sets x pad(H); then the sums over people */
    uint64_t dz_n;
};

/* Floats of the padded gradient of aux layer l's weight: as many rows as mul_t writes. */
static inline size_t cpu_dw_floats(const dn_genome *g, size_t l)
{
    return (g->width[l + 1] + CPU_ROWS - 1) / CPU_ROWS * CPU_ROWS * g->pad[l];
}

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
/* Half of aux_fat_backward, to be timed alone: aux: the layers' products (on whatever the scratch holds);
 * fat: the tables. */
dn_status cpu_backward(dn_backend *be, dn_genome *g, float *const *w, const float *dz, float *const *dw,
                       bool aux, bool fat, dn_err *err);
/* backend_cpu_main.c */
extern const dn_backend_ops cpu_main_ops; /* its part of the table */

#endif
