/* package.h: one trained model in one file (seed{S}_fold{F}.h5, docs/format-package.md): all that prediction
 * needs, and all that an audit asks for. Shapes: M SNPs, C classes (n_out = C, or 1 for regression), H =
 * units of the fat layer. */
#ifndef DN_PACKAGE_H
#define DN_PACKAGE_H

#include "dn.h"
#include "io.h"
#include "model.h"

#define DN_PACKAGE_MAJOR 1 /* another major version is refused */
#define DN_PACKAGE_MINOR 0

/* What is written. Nothing is owned or kept. */
typedef struct {
    dn_task task;
    uint64_t fold, seed;
    const dn_snps *snps;
    const float *freq;       /* M: A1 frequency in the training set */
    const dn_strs *classes;  /* C; empty or NULL for regression */
    const double *mean, *sd; /* M */
    const float *fat;        /* M x H */
    size_t n_layers; /* main net: hidden layers and the output layer; layer[0] has no weight (fat is it) */
    const dn_layer *layer;
    /* for audit; may be 0/NULL */
    size_t n_aux;            /* auxiliary layers */
    const dn_layer *aux;     /* weight only: n_out x n_in */
    const char *config_yaml; /* the configuration as text */
    const char *log_tsv;     /* metrics per epoch */
    uint64_t data_hash, split_hash;
    uint64_t best_epoch;
    double test_loss, test_acc; /* NaN: not known */
} dn_package;
/* Writes whole or not at all. Same inputs, same bytes. DN_EINTERNAL: shapes that do not fit together or a
 * weight that is not finite (DN_ENUMERIC, named). */
DN_MUST_USE dn_status dn_package_write(const char *path, const dn_package *p, unsigned out_flags,
                                       dn_err *err);

/* What is read. Everything is owned by it; a caller may take an array over and set the field to NULL. */
typedef struct {
    dn_task task;
    uint64_t fold, seed;
    uint64_t n_snps, n_out; /* M; C or 1 */
    dn_snps snps;
    float *freq;       /* M */
    dn_strs classes;   /* empty for regression */
    double *mean, *sd; /* M */
    uint64_t units;    /* H */
    float *fat;        /* M x H; with DN_PACKAGE_MAP inside `map` (do not free or take it) */
    bool fat_mapped;
    dn_mapped map;
    size_t n_layers;
    dn_layer *layer;
    size_t n_aux;
    dn_layer *aux;
    char *config_yaml, *log_tsv; /* "" when the package has none */
    char *program;               /* "dnpipe 0.1.0": who wrote it */
    uint64_t data_hash, split_hash, snps_hash;
    uint64_t weight_hash; /* of fat weights, bias and the main net: equal members have it equal */
    uint64_t best_epoch;
    double test_loss, test_acc;
} dn_package_in;

enum {
    DN_PACKAGE_SNPS = 1, /* only SNPs with alleles, freq, classes and the attributes: what snpmatch needs */
    DN_PACKAGE_NET = 2,  /* also mean, sd, fat and the main net, but no auxiliary net, configuration and log:
                            what dnpredict needs */
    DN_PACKAGE_ALL = 3,  /* everything, and the checksum over the whole */
    DN_PACKAGE_MAP =
        16 /* with NET or ALL: map the fat weights in place (or read them where the layout forbids it) */
};
/* Each dataset carries its checksum, and what is read is verified. DN_EFORMAT: not a package, damaged, sizes
 * that do not fit together, a weight that is not finite; DN_EUNSUPPORTED: another major version (named). All
 * messages name the file. */
DN_MUST_USE dn_status dn_package_read(dn_package_in **out, const char *path, unsigned what, dn_err *err);
void dn_package_free(dn_package_in *p);
/* Is it a package, by its type mark? false too when it cannot be read. */
bool dn_package_is(const char *path);

#endif
