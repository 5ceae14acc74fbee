/* cuda_backend.cuh: training on GPUs (backend.h): what cuda_main.cu, cuda_genome.cu and cuda_aux.cu share.
 *
 * Design. The fat layer is the work: B x M x H multiply-adds forward and as many back, and M x (K H1 + H1 H)
 * x 3 for the auxiliary net. All of it are products for cuBLAS; our kernels decode, apply tanh and add up.
 *
 * - Packed rows stay on the device when they fit (2 bits a call: 12.4 GB for 292,048 x 169,829); a batch is
 * then a list of row numbers. Else a batch is staged: copied to pinned memory and over PCIe on a stream of
 * its own, two buffers in turn, while the step before is still at work.
 * - SNPs are taken in chunks of CHUNK; a product over SNPs (z, and the gradients of the auxiliary weights) is
 * made per chunk in one batched call, so that small batches and few units still fill the device, and the
 * chunks' parts are added in order, in double. Chunks are worked on a slice at a time: as many as keep x (B x
 * slice) and the parts within a bound that depends on the device's memory (or --memory) alone, so the numbers
 * of a device do not depend on what else is in its memory. A slice's x is decoded again for the way back,
 * unless there is but one slice.
 * - Input dropout makes a packed copy of the batch's rows with the dropped calls missing, so that both
 * decodings of a step see the same draws: MT19937's come from the host, a bit a call; Philox's are made in
 * the kernel.
 * - SNPs past the last one fill up the last chunk; all their values are 0.
 * - Several devices split the SNPs: each has its own columns of the rows, of the embedding and of the
 * activations. z is summed over devices in order on device 0, which alone has the main net; dz goes to all;
 * gradients of auxiliary weights are summed in order again. This is exact under BatchNorm, which a split of
 * the batch is not. Per step and device B x H floats go each way, and the auxiliary weights.
 * - One wait per step: the loss is looked at before the step goes on (net.c).
 *
 * Floors of a step, float32: operations 4 B M H + 4 M K H1 + 6 M H1 H; bytes: x written and read, 16 B M
 * forward and back if x must be decoded twice, and about 12 passes over M x H x 4 for the activations. At M =
 * 169,829, K = 72, H1 = H = 100 on an H200 (67e12 operations/s, 4.8e12 bytes/s): B = 2,048: 154e9
 * operations, 2.3 ms, and 6.4 GB, 1.3 ms; B = 138: 24e9, 0.4 ms, and 1.2 GB, 0.25 ms. */
#ifndef DN_CUDA_BACKEND_CUH
#define DN_CUDA_BACKEND_CUH

#include "cuda_decode.cuh"

#define CHUNK     1024                /* SNPs of a product; fewer in a small net */
#define ALIGN     64                  /* SNPs: where devices' shares begin */
#define X_BYTES   ((uint64_t)4 << 30) /* of x at most; and a sixteenth of the memory */
#define MAX_BATCH 65535 /* products in one batched call: more than that not every kernel of cuBLAS takes */
#define STAGES    2
#define NO_SLICE  UINT64_MAX

typedef struct {
    dn_backend be; /* first: a dn_backend * is a cuda_backend * */
    dn_backend_ops table;
    size_t n_gpus;
    gpu *g;
    uint64_t x_bytes; /* bound of x on a device */
    bool tf32;
} cuda_backend;

/* A device's share of the genome. */
typedef struct {
    gpu *g;
    uint64_t first, n;             /* SNPs; n may be 0 */
    uint64_t chunk, pad;           /* pad: n in whole chunks */
    uint64_t bytes, stride;        /* of its part of a packed row */
    float *act[DN_MAX_LAYERS + 1]; /* pad x width[l]; act[0]: embedding */
    float4 *dosage;                /* pad */
    uint8_t *resident;
    float *w[DN_MAX_LAYERS]; /* aux weights: its own copy; on device 0 the caller's */
    float *w_copy, *dw_copy; /* all of them in a line; not on device 0 */
    /* the batch */
    packed_rows rows;
    uint64_t room;          /* people that the buffers below are for */
    uint64_t *index;        /* of resident rows */
    uint8_t *stage[STAGES]; /* room x stride */
    cudaEvent_t loaded, used[STAGES];
    uint8_t *dropped;  /* room x stride: rows after input dropout */
    uint8_t *bits;     /* room x bits_stride: which calls are dropped */
    float *x, *z, *dz; /* room people; z, dz: not on device 0 */
    uint64_t x_floats, z_room;
    uint64_t slice, x_slice; /* SNPs at a time; which slice x holds */
} shard;

struct dn_genome {
    uint64_t n_snps, widest, n_weights; /* n_weights: of the auxiliary net */
    size_t n_aux, n_shards;
    uint64_t width[DN_MAX_LAYERS + 1];
    shard *s;
    const uint8_t *base; /* resident rows on the host, NULL: none */
    uint64_t base_stride, base_rows;
    uint64_t n; /* people of the batch */
    float scale;
    int stage; /* the one in use */
    bool staged;
    uint8_t *host_bits;
    uint64_t host_bits_n, *host_index, host_index_n;
    float *z_in; /* on device 0: the other devices' z */
    uint64_t z_in_floats;
    float *dw_in;
};

/* cuda_main.cu: memory and the main net */
void cuda_main_ops(dn_backend_ops *t);
/* cuda_genome.cu */
dn_status cuda_genome_new(dn_backend *be, dn_genome **out, const dn_genome_spec *spec, dn_err *err);
void cuda_genome_free(dn_backend *be, dn_genome *g);
dn_status cuda_resident(dn_backend *be, dn_genome *g, const uint8_t *base, uint64_t stride, uint64_t n_rows,
                        dn_err *err);
dn_status cuda_load_rows(dn_backend *be, dn_genome *g, const uint8_t *const *rows, uint64_t n, double keep,
                         dn_rng *rng, dn_err *err);
dn_status cuda_fat_download(dn_backend *be, dn_genome *g, float *host, dn_err *err);
/* cuda_aux.cu */
/* SNPs that shard s works on at a time for a batch of n people. */
uint64_t cuda_slice(const cuda_backend *cb, const dn_genome *g, const shard *s, uint64_t n);
dn_status cuda_aux_forward(dn_backend *be, dn_genome *g, float *const *w, dn_err *err);
dn_status cuda_fat_forward(dn_backend *be, dn_genome *g, float *z, dn_err *err);
dn_status cuda_aux_fat_forward(dn_backend *be, dn_genome *g, float *const *w, float *z, dn_err *err);
dn_status cuda_aux_fat_backward(dn_backend *be, dn_genome *g, float *const *w, const float *dz,
                                float *const *dw, dn_err *err);
/* cuda_backend.cu */
void cuda_name(cuda_backend *cb, const char *more); /* how the backend is called */
dn_status cuda_backend_new(dn_backend **out, const dn_cuda_options *o, dn_err *err);

#endif
