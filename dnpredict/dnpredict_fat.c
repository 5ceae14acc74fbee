/* dnpredict_fat.c: see dnpredict_fat.h. */
#include "dnpredict_fat.h"

#include <stdlib.h>

#include "fat.h"

#define PINNED ((uint64_t)48 << 20)

struct dn_predict_fat {
    dn_fat_problem problem;
    dn_fat_member *members;
    uint64_t row_bytes;
    dn_pool *pool;
    const uint8_t *rows; /* on the CPU: the block submitted, computed when it is waited for */
    uint64_t n;
    const dn_cuda_plugin *plugin; /* NULL: the CPU */
    dn_cuda_fat *gpu;
};

static dn_status make_problem(const dn_model *model, const dn_matched *cohort, dn_fat_member **members,
                              dn_fat_problem *p, dn_err *err)
{
    dn_status status = dn_alloc(members, model->n_members, sizeof **members, "members", err);
    if (status != DN_OK) return status;
    for (size_t m = 0; m < model->n_members; m++) {
        const dn_member *x = &model->members[m];
        const dn_norm *norm = &model->norms[x->norm];
        (*members)[m] = (dn_fat_member){x->fat, x->layer[0].n_out, norm->mean, norm->sd};
    }
    *p = (dn_fat_problem){cohort->n_cols, cohort->place, cohort->scale, model->n_members, *members};
    return DN_OK;
}

dn_status dn_predict_fat_new(dn_predict_fat **out, const dn_model *model, const dn_matched *cohort,
                             uint64_t max_people, const dn_device *device, dn_pool *pool, dn_err *err)
{
    dn_status status;
    dn_predict_fat *f = NULL;
    *out = NULL;
    DN_TRY(dn_alloc(&f, 1, sizeof *f, "fat layer", err));
    f->row_bytes = cohort->row_bytes;
    f->pool = pool;
    DN_TRY(make_problem(model, cohort, &f->members, &f->problem, err));
    if (device && device->cuda) {
        f->plugin = device->plugin;
        DN_TRY(f->plugin->fat_new(&f->gpu, &f->problem, max_people, &device->options, err));
    }
    *out = f;
    f = NULL;
    status = DN_OK;
done:
    dn_predict_fat_free(f);
    return status;
}

size_t dn_predict_fat_depth(const dn_device *device)
{
    return device && device->cuda ? 2 : 1;
}

dn_status dn_predict_fat_submit(dn_predict_fat *f, const uint8_t *rows, uint64_t n, dn_err *err)
{
    if (f->plugin) return f->plugin->fat_submit(f->gpu, rows, f->row_bytes, n, err);
    f->rows = rows;
    f->n = n;
    return DN_OK;
}

dn_status dn_predict_fat_wait(dn_predict_fat *f, float *z, dn_err *err)
{
    if (f->plugin) return f->plugin->fat_wait(f->gpu, z, err);
    return dn_fat_forward(&f->problem, f->rows, f->row_bytes, f->n, z, f->pool, err);
}

void dn_predict_fat_free(dn_predict_fat *f)
{
    if (!f) return;
    if (f->gpu) f->plugin->fat_free(f->gpu);
    free(f->members);
    free(f);
}

dn_status dn_predict_fat_bytes(const dn_model *model, const dn_matched *cohort, uint64_t n,
                               const dn_device *device, size_t n_threads, uint64_t *host, uint64_t *gpu,
                               dn_err *err)
{
    dn_fat_member *members;
    dn_fat_problem p;
    dn_status status = make_problem(model, cohort, &members, &p, err);
    if (status != DN_OK) return status;
    *gpu = 0;
    if (device && device->cuda) {
        uint64_t units = 0, z, rows = n * dn_gpk_row_bytes(p.n_cols);
        for (size_t m = 0; m < p.n_members; m++) units += members[m].units;
        z = n * units * sizeof(float);
        /* Pinned memory: what comes back of two blocks, and buffers that rows go through. On the GPU:
         * weights, dosages as numbers per norm, two blocks, and one of them decoded in slices. */
        *host = 2 * z + device->options.n_devices * PINNED;
        *gpu = p.n_cols * (units * sizeof(float) + model->n_norms * 4 * sizeof(float)) + 2 * (rows + z) +
               n * (p.n_cols < DN_FAT_CHUNK ? p.n_cols : DN_FAT_CHUNK) * sizeof(float);
    } else {
        *host = dn_fat_scratch(&p, n, n_threads);
    }
    free(members);
    return DN_OK;
}
