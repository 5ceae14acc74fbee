/* net.h: the Diet Network: initial weights, one training step, evaluation (DESIGN section 3). What runs where
 * is the backend's affair (backend.h); which people make up a batch, epochs, checkpoints and files are the
 * caller's.
 *
 * M SNPs, C classes (1 output for regression), K embedding features, H units of the fat layer, B people in a
 * batch. Auxiliary net: n_aux layers without bias, tanh after each; the last one's output (M x H) is the fat
 * layer's weight. With n_aux = 0 the embedding itself is (H = K). Main net: hidden layer 0 is the fat layer,
 * hidden layers 1..n_main follow, each ReLU, BatchNorm, dropout; layer n_main + 1 is the output.
 *
 * Numbers: float32 in arrays and products, double in losses. Results do not depend on the number of threads,
 * byte for byte. */
#ifndef DN_NET_H
#define DN_NET_H

#include "backend.h"
#include "dn.h"
#include "model.h"
#include "rng.h"

typedef struct {
    dn_task task;
    uint64_t n_snps;     /* M */
    uint64_t n_features; /* K = 3 x classes of the embedding: also in regression, where the data have class
                            labels (else 3) */
    uint64_t n_out;      /* C, or 1 for regression */
    size_t n_aux, n_main;
    uint64_t aux[DN_MAX_LAYERS];        /* nb_hidden_u_aux */
    uint64_t main[DN_MAX_LAYERS];       /* nb_hidden_u_main */
    double input_dropout, dropout_main; /* shares dropped, 0 <= d < 1 */
    double uniform_init_limit;
} dn_net_config;

typedef struct dn_net dn_net;

/* cfg, and emb (M x K float row-major, columns normalised: dn_embedding_normalise), mean and sd (M doubles:
 * dn_stats) are copied: all may be freed. SNPs that dn_snp_is_flat() contribute 0. be: where to compute;
 * borrowed. Weights are zero until dn_net_init() or dn_net_push(). DN_EUSAGE: a config out of bounds (what,
 * found, allowed); DN_ENOMEM; DN_EGPU. */
DN_MUST_USE dn_status dn_net_new(dn_net **out, const dn_net_config *cfg, const float *emb, const double *mean,
                                 const double *sd, dn_backend *be, dn_err *err);
void dn_net_free(dn_net *net);
const dn_net_config *dn_net_get_config(const dn_net *net);

/* Draws initial weights as DESIGN section 3 "Draws in order" says, and sets biases, BatchNorm and Adam to
 * their starting values. */
DN_MUST_USE dn_status dn_net_init(dn_net *net, dn_rng *rng, dn_err *err);

/* Some people: rows[i] is person i's packed row (geno.h; ceil(M/4) bytes are read, whatever is in the last
 * byte's padding is ignored). label[i] in [0, C) for classification; target[i] for regression; the other one
 * is not looked at. */
typedef struct {
    uint64_t n;
    const uint8_t *const *rows;
    const int64_t *label;
    const double *target;
} dn_net_batch;

/* A hint, before training: the rows of later batches lie at base + i * stride, i < n_rows (a backend with its
 * own memory keeps them there). Without it everything works. base must stay as it is until the next hint or
 * dn_net_free(). */
DN_MUST_USE dn_status dn_net_resident(dn_net *net, const uint8_t *base, uint64_t stride, uint64_t n_rows,
                                      dn_err *err);

/* One step: forward with dropout drawn from rng (input first: B x M draws in row order when input_dropout >
 * 0; then B x units per hidden layer when dropout_main > 0), backward, both Adams. *loss_sum += sum over the
 * batch's people of their loss (cross-entropy, or squared error); *n_correct += people whose largest output
 * is their label (first one of equals; regression: 0). b->n >= 2 (BatchNorm: the caller joins a last batch of
 * one to the one before; 1 is DN_ENUMERIC). DN_ENUMERIC: the loss is not finite; weights and optimisers are
 * then still those of the step before. */
DN_MUST_USE dn_status dn_net_train_batch(dn_net *net, const dn_net_batch *b, double lr_aux, double lr_main,
                                         dn_rng *rng, double *loss_sum, uint64_t *n_correct, dn_err *err);

/* Evaluation: running statistics, no dropout, any number of people; sums as above. The fat layer's weight is
 * computed once per state of the weights, not per call. scores: n x n_out floats or NULL: probabilities
 * (classification) or values (regression). stop: NULL, or asked between blocks of people: true ends with
 * DN_ESTOPPED (sums then mean nothing). DN_ENUMERIC: a loss is not finite. */
DN_MUST_USE dn_status dn_net_eval(dn_net *net, const dn_net_batch *b, double *loss_sum, uint64_t *n_correct,
                                  float *scores, bool (*stop)(void *), void *stop_arg, dn_err *err);

/* ---- the state: for checkpoints, best models and packages ---- */
typedef enum {
    DN_NET_AUX_WEIGHT, /* aux layer's out x in */
    DN_NET_WEIGHT,     /* main layer's out x in; none for layer 0 */
    DN_NET_BIAS,       /* units */
    DN_NET_BN_GAMMA,   /* units; none for the output layer, as the next three */
    DN_NET_BN_BETA,
    DN_NET_BN_MEAN, /* running mean: no Adam state */
    DN_NET_BN_VAR   /* running variance, unbiased: no Adam state */
} dn_net_kind;

/* One array of the state, on the host. */
typedef struct {
    char name[48]; /* "aux/0/weight", "main/0/bias", "main/0/bn_gamma", "main/1/weight" ... */
    dn_net_kind kind;
    size_t layer; /* of the auxiliary or main net; main layer n_main + 1 is the output */
    int rank;
    uint64_t dims[2], n; /* n = product of dims */
    float *value;        /* n, owned by the net */
    float *m, *v;        /* n each: Adam's moments; NULL for running statistics */
} dn_net_param;

/* All arrays, always in the same order: everything that a step changes, with dn_net_step(). Owned by the net.
 */
dn_net_param *dn_net_params(dn_net *net, size_t *n);
/* Steps made: the t of both Adams. Writable. */
uint64_t *dn_net_step(dn_net *net);
/* Brings the host arrays up to date with the backend (before reading them) / gives changed ones to the
 * backend (after writing them). Cheap on the CPU, but never to be left out. */
DN_MUST_USE dn_status dn_net_pull(dn_net *net, dn_err *err);
DN_MUST_USE dn_status dn_net_push(dn_net *net, dn_err *err);
/* The fat layer's weight of the present state: fat: M x H floats, the caller's. */
DN_MUST_USE dn_status dn_net_fat(dn_net *net, float *fat, dn_err *err);
uint64_t dn_net_fat_units(const dn_net *net); /* H */

#endif
