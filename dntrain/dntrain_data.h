/* dntrain_data.h: the people of one fold, their labels and their packed rows. */
#ifndef DNTRAIN_DATA_H
#define DNTRAIN_DATA_H

#include "dataset.h"
#include "dntrain.h"
#include "net.h"
#include "par.h"
#include "split.h"

/* Where rows come from. */
typedef enum {
    ROWS_MAPPED, /* the mapped .gpk itself */
    ROWS_MEMORY, /* packed into memory once */
    ROWS_GATHER  /* int8 rows of a mapped .h5, packed batch by batch */
} train_rows;

typedef struct {
    dn_dataset *dataset;
    const dn_gpk_info *info;
    dn_task task;
    uint64_t n_snps, n_out;   /* M; C or 1 */
    uint64_t n_embed_classes; /* classes of the embedding: C, or for regression those of the labels, or 1 */
    uint64_t data_hash, split_hash;
    uint64_t *index[DN_SPLIT_SETS], n[DN_SPLIT_SETS]; /* person numbers in the split's order */
    uint64_t *class_size[DN_SPLIT_SETS];              /* n_embed_classes people per class */

    train_rows rows;
    uint64_t stride;     /* bytes of a packed row */
    const uint8_t *base; /* row i at base + i * stride; NULL for ROWS_GATHER */
    uint8_t *memory;     /* ROWS_MEMORY */
    uint8_t *gather;     /* ROWS_GATHER: room for n_room rows */
    uint64_t n_room;
    dn_pool *pool; /* borrowed */

    /* one batch, reused: n_room entries */
    const uint8_t **ptr;
    int64_t *label;
    double *target;
} train_data;

/* Opens both files and checks them against each other and against the task: fold number, people, labels. No
 * genotype is read, but for the fingerprint of a .h5 that does not carry it. n_room: most people in one
 * train_data_batch(). */
DN_MUST_USE dn_status train_data_open(train_data *d, const train_options *o, const train_task *t,
                                      uint64_t n_room, dn_pool *pool, dn_err *err);
/* Makes rows ready as --inputs says. */
DN_MUST_USE dn_status train_data_load(train_data *d, const train_options *o, dn_err *err);
void train_data_close(train_data *d);

/* Prints how many people of each class each set has, and warns of classes that the training set lacks. */
void train_data_report(const train_data *d, const train_task *t);

/* Statistics of the training set: mean, sd: M doubles; emb: M x 3 n_embed_classes floats, normalised. All
 * three are allocated here. n_flat SNPs contribute nothing, n_empty of them have no call. */
DN_MUST_USE dn_status train_data_stats(train_data *d, double **mean, double **sd, float **emb,
                                       uint64_t *n_flat, uint64_t *n_empty, dn_err *err);

/* The people pos[0..n) of a set (pos: places in its list; NULL: first, first + 1, ...) as a batch; valid
 * until the next call. n <= n_room. */
DN_MUST_USE dn_status train_data_batch(train_data *d, dn_split_set set, const uint32_t *pos, uint64_t first,
                                       uint64_t n, dn_net_batch *b, dn_err *err);

#endif
