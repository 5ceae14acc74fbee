/* model.h: an ensemble ready to predict, from a directory of our packages or from upstream's published
 * release.
 *
 * One package file alone is read and written by package.h.
 *
 * Shapes: M SNPs of the model, C classes (1 output for regression), layer sizes units[0..n_hidden-1] of the
 * main net (units[0] = H, the fat layer's), L members. */
#ifndef DN_MODEL_H
#define DN_MODEL_H

#include "dn.h"
#include "tables.h"

/* BatchNorm(ReLU(z)) parameters of one hidden layer, u units each. All arrays owned by the member. */
typedef struct {
    uint64_t n_in, n_out;
    float *weight; /* n_out x n_in row-major; NULL for the fat layer (see fat) */
    float *bias;   /* n_out */
    float *bn_gamma, *bn_beta, *bn_mean, *bn_var; /* n_out; NULL for the output layer */
} dn_layer;

/* Standardisation of one fold, shared by members of the fold. */
typedef struct {
    double *mean, *sd; /* M; sd includes upstream's + 1e-6. A SNP that contributes nothing has sd <= 1e-6 +
                          tiny, see DESIGN */
} dn_norm;

typedef struct {
    char *name;          /* "1_1" for a release's fold 1 repeat 1; "seed78_fold0" for a package */
    uint64_t fold, seed; /* release: fold number and repeat as in the file name */
    size_t norm;         /* index into dn_model.norms */
    float *fat;          /* M x H row-major: the fat layer's weight (auxiliary net's output) */
    size_t n_layers; /* hidden layers and the output layer; layer[0] is the fat layer's bias and BatchNorm */
    dn_layer *layer;
    uint64_t weight_hash; /* of all weights: two equal members are refused */
    void *keep;           /* owned: what `fat` lies in, when that is a mapped file (dn_model_free's affair) */
} dn_member;

typedef enum { DN_TASK_CLASSIFICATION = 0, DN_TASK_REGRESSION = 1 } dn_task;

typedef struct {
    dn_task task;
    bool is_release;
    dn_snps snps;           /* alleles absent with no dummy.bim or under no_alleles */
    float *freq;            /* M: frequency of A1 in the (first fold's) training set = mean / 2;
                               NaN: no call there */
    dn_strs classes;        /* C names; empty for regression */
    uint64_t n_snps, n_out; /* n_out = C, or 1 */
    size_t n_norms, n_members;
    dn_norm *norms;
    dn_member *members; /* in the order of the output columns */
    uint64_t snps_hash; /* dn_snps_hash() of the SNPs, with alleles where the files have them even under
                           no_alleles: what a matched file must carry */
} dn_model;

typedef struct {
    bool snps_only;           /* only SNPs, alleles and freq: what snpmatch needs */
    bool no_alleles;          /* ignore dummy.bim / stored alleles */
    const char *classes_file; /* class names, one per line; NULL: the package's, or upstream's fixed list for
                                 24 classes */
    bool number_classes; /* call classes without names class0, class1, ... instead of failing (DN_EUSAGE) */
    size_t threads;      /* for computing a release's fat weights */
    uint64_t memory;     /* bound for those, in bytes: DN_ENOMEM before they are made; 0: none */
} dn_model_opts;

/* path: a release directory (DN_MODELS/, DN_SNPS/), a folder of packages (seed{S}_fold{F}.h5), or one
 * package. Members are ordered by fold, then by repeat (release) or seed (packages), all by number. The grid
 * must be whole: every fold 1..F (release) or 0..F (packages) with every repeat or seed that there is.
 * DN_EMISMATCH: members disagree in SNPs, alleles, classes or task, or two are equal; DN_EFORMAT: damaged, or
 * a member of the grid is missing; DN_EUSAGE: class names are needed; DN_ENUMERIC: weights or statistics that
 * are not finite. Each names the file. A package's fat weights are mapped in place where its layout allows; a
 * release's are computed: M x H floats per member, and M x K doubles of one fold while opening. */
DN_MUST_USE dn_status dn_model_open(dn_model **out, const char *path, const dn_model_opts *opts, dn_err *err);
void dn_model_free(dn_model *m);

#endif
