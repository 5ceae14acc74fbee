/* inspect: opens what the library reads and says what it found, for tests. Exit code = status.
 *   inspect model DIR [--snps-only] [--no-alleles] [--number] [--classes FILE] [--threads N] [--fat]
 *   inspect pt FILE             tensors with shape and sum
 *   inspect npz FILE NAME       shape and sum, strings, or index lists
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "npz.h"
#include "torch_pt.h"

static dn_status show_model(int argc, char **argv, dn_err *err)
{
    dn_model_opts o = {.threads = 1};
    bool fat = false; /* print the first member's fat weights */
    dn_model *m;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--snps-only") == 0)
            o.snps_only = true;
        else if (strcmp(argv[i], "--no-alleles") == 0)
            o.no_alleles = true;
        else if (strcmp(argv[i], "--number") == 0)
            o.number_classes = true;
        else if (strcmp(argv[i], "--classes") == 0)
            o.classes_file = argv[++i];
        else if (strcmp(argv[i], "--fat") == 0)
            fat = true;
        else if (strcmp(argv[i], "--threads") == 0)
            o.threads = (size_t)atoi(argv[++i]);
    }
    dn_status status = dn_model_open(&m, argv[0], &o, err);
    if (status != DN_OK) return status;
    printf("snps %" PRIu64 " outputs %" PRIu64
           " members %zu folds %zu task %d release %d alleles %d hash %016" PRIx64 "\n",
           m->n_snps, m->n_out, m->n_members, m->n_norms, (int)m->task, m->is_release,
           dn_snps_have_alleles(&m->snps), m->snps_hash);
    for (uint64_t c = 0; c < m->classes.n; c++) printf("class %s\n", dn_strs_get(&m->classes, c));
    for (size_t i = 0; i < m->n_members; i++) {
        const dn_member *x = &m->members[i];
        printf("member %s fold %" PRIu64 " seed %" PRIu64 " norm %zu units", x->name, x->fold, x->seed,
               x->norm);
        for (size_t l = 0; l < x->n_layers; l++) printf(" %" PRIu64, x->layer[l].n_out);
        printf(" fat %016" PRIx64 "\n",
               dn_hash(x->fat, (size_t)(m->n_snps * x->layer[0].n_out) * sizeof(float)));
    }
    for (uint64_t k = 0; fat && k < m->n_snps * m->members[0].layer[0].n_out; k++)
        printf("%.9g\n", (double)m->members[0].fat[k]);
    dn_model_free(m);
    return DN_OK;
}

static dn_status show_pt(char **argv, dn_err *err)
{
    dn_status status;
    dn_pt *f = NULL;
    float *v = NULL;
    DN_TRY(dn_pt_open(&f, argv[0], err));
    const dn_strs *keys = dn_pt_keys(f);
    for (uint64_t i = 0; i < keys->n; i++) {
        const char *key = dn_strs_get(keys, i);
        int ndim;
        uint64_t dim[8], n = 1;
        double sum = 0;
        DN_TRY(dn_pt_shape(f, key, &ndim, dim, err));
        printf("%s", key);
        for (int k = 0; k < ndim; k++) {
            printf(" %" PRIu64, dim[k]);
            n *= dim[k];
        }
        if (strstr(key, "num_batches")) {
            printf("\n");
            continue;
        }
        DN_TRY(dn_pt_read(f, key, ndim, dim, &v, err));
        for (uint64_t k = 0; k < n; k++) sum += (double)v[k] * (double)(k + 1);
        printf(" = %.9g\n", sum);
        free(v);
        v = NULL;
    }
    status = DN_OK;
done:
    free(v);
    dn_pt_close(f);
    return status;
}

static dn_status show_npz(char **argv, dn_err *err)
{
    dn_status status;
    dn_npz *z = NULL;
    dn_npy_info info;
    dn_npy_objects o = {0};
    dn_strs strs = {0};
    void *data = NULL;
    DN_TRY(dn_npz_open(&z, argv[0], err));
    DN_TRY(dn_npz_info(z, argv[1], &info, err));
    printf("%c%u%s", info.kind, info.item, info.fortran ? " fortran" : "");
    for (int k = 0; k < info.ndim; k++) printf(" %" PRIu64, info.dim[k]);
    printf("\n");
    if (info.kind == 'O') {
        DN_TRY(dn_npz_read_objects(z, argv[1], &o, &info, err));
        for (uint64_t i = 0; i < info.n_items; i++) {
            int64_t *v;
            uint64_t n;
            DN_TRY(dn_pk_read_ints(o.pickle, o.nodes[i], argv[0], &v, &n, err));
            for (uint64_t k = 0; k < n; k++) printf("%s%" PRId64, k ? "," : "", v[k]);
            printf("\n");
            free(v);
        }
    } else if (info.kind == 'S' || info.kind == 'U') {
        DN_TRY(dn_npz_read_strs(z, argv[1], &strs, &info, err));
        for (uint64_t i = 0; i < strs.n; i++) printf("%s\n", dn_strs_get(&strs, i));
    } else if (info.kind == 'f') {
        DN_TRY(dn_npz_read(z, argv[1], DN_F64, &data, &info, err));
        for (uint64_t i = 0; i < info.n_items; i++) printf("%.17g\n", ((double *)data)[i]);
    } else {
        DN_TRY(dn_npz_read(z, argv[1], DN_I64, &data, &info, err));
        for (uint64_t i = 0; i < info.n_items; i++) printf("%" PRId64 "\n", ((int64_t *)data)[i]);
    }
    status = DN_OK;
done:
    free(data);
    dn_strs_free(&strs);
    dn_npy_objects_free(&o);
    dn_npz_close(z);
    return status;
}

int main(int argc, char **argv)
{
    dn_err err;
    dn_status status = DN_EUSAGE;
    snprintf(err.msg, sizeof err.msg, "see the top of inspect.c");
    if (argc >= 3 && strcmp(argv[1], "model") == 0)
        status = show_model(argc - 2, argv + 2, &err);
    else if (argc == 3 && strcmp(argv[1], "pt") == 0)
        status = show_pt(argv + 2, &err);
    else if (argc == 4 && strcmp(argv[1], "npz") == 0)
        status = show_npz(argv + 2, &err);
    if (status != DN_OK) fprintf(stderr, "inspect: %s\n", err.msg);
    return (int)status;
}
