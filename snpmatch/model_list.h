/* model_list.h: the SNPs that snpmatch matches to, from any of the things --model accepts. */
#ifndef SNPMATCH_MODEL_LIST_H
#define SNPMATCH_MODEL_LIST_H

#include "gpk.h"
#include "model.h"
#include "tables.h"

typedef struct {
    const dn_snps *snps; /* owned by what follows */
    const float *freq;   /* M: frequency of A1 in training; NULL: not known */
    uint64_t hash;       /* dn_snps_hash() of the list as the model has it, also under --no-alleles */
    const char *what;    /* "release", "package", ".bim", ".gpk": for messages */
    dn_snps own;
    dn_gpk *gpk;
    dn_model *model;
} dn_model_list;

/* path: a release's folder, a folder of packages, one package, a .bim or a .gpk. DN_EOPEN; DN_EFORMAT, with
 * what the file seems to be when it is none of these. */
DN_MUST_USE dn_status dn_model_list_open(dn_model_list *l, const char *path, size_t threads, dn_err *err);
void dn_model_list_close(dn_model_list *l);

#endif
