/* dnpredict_run.h: the ensemble over a matched cohort, block by block of people, each block read once for all
 * members. */
#ifndef DNPREDICT_RUN_H
#define DNPREDICT_RUN_H

#include "device.h"
#include "dn.h"
#include "matched.h"
#include "dnpredict_table.h"
#include "model.h"
#include "par.h"

typedef struct {
    const dn_model *model;
    dn_matched *cohort; /* opened and checked */
    const char *out;    /* the table */
    const char *scores; /* scores.h5, or NULL */
    const char *report; /* an HTML page, or NULL */
    const char *name;   /* of the cohort, for the report's title */
    unsigned out_flags;
    const dn_part *part; /* NULL: everybody */
    uint64_t memory;     /* bound in bytes: weights, block and scratch */
    dn_pool *pool;
    const dn_device *device; /* for the fat layer; NULL: the CPU */
    void (*progress)(uint64_t people);
} dn_predict_job;

typedef struct {
    uint64_t n_people;  /* predicted */
    uint64_t no_call;   /* of them without any call */
    uint64_t low_call;  /* with calls for less than half of the SNPs that matched */
    double seconds;     /* in all blocks */
    double fat_cpu;     /* CPU time of all threads in the fat layer */
    double fat_seconds; /* and wall time; on GPUs: how long they were waited for */
    double cpu;         /* and in all blocks */
} dn_predict_stats;

typedef struct {
    uint64_t people;  /* of a block */
    uint64_t weights; /* bytes of the model */
    uint64_t block;   /* bytes for a block, scratch included */
    uint64_t gpu;     /* bytes on each GPU, about */
} dn_predict_plan;

/* How many people a block has under job->memory. DN_ENOMEM with what is needed when not even a small block
 * fits. */
DN_MUST_USE dn_status dn_predict_plan_make(const dn_predict_job *job, dn_predict_plan *plan, dn_err *err);
/* Writes the outputs, whole or not at all. DN_ENUMERIC: a probability or hidden unit is not finite (person
 * and member are named). */
DN_MUST_USE dn_status dn_predict_run(const dn_predict_job *job, const dn_predict_plan *plan,
                                     dn_predict_stats *stats, dn_err *err);
/* What makes two parts parts of one run: members, SNPs, classes, precision, and the matched data as far as
 * the file tells. */
uint64_t dn_predict_run_hash(const dn_model *model, const dn_matched *cohort, bool tf32);

/* For the parts of this program: blocks in memory besides their rows (two under way, one at its end), and
 * units of the widest last hidden layer. */
#define DN_PREDICT_SLOTS 3
uint64_t dn_predict_hidden_units(const dn_model *model);

#endif
