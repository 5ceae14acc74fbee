/* cuda_backend.cu: the table of functions for training on GPUs (see cuda_backend.cuh). */
#include "cuda_backend.cuh"

#include <stdio.h>
#include <stdlib.h>

#include "cuda_ops.cuh"

#define EVAL_BLOCK 2048

static void backend_free(dn_backend *be)
{
    cuda_backend *cb = (cuda_backend *)be;
    for (size_t i = 0; cb->g && i < cb->n_gpus; i++) gpu_close(&cb->g[i]);
    free(cb->g);
    free(cb);
}

void cuda_name(cuda_backend *cb, const char *more)
{
    char many[24] = "";
    if (cb->n_gpus > 1) snprintf(many, sizeof many, "%u x ", (unsigned)cb->n_gpus);
    snprintf(cb->be.name, sizeof cb->be.name, "cuda (%s%.24s%s%s)", many, cb->g[0].name,
             cb->tf32 ? ", tf32" : "", more);
}

static void fill_table(dn_backend_ops *t)
{
    cuda_main_ops(t);
    t->free = backend_free;
    t->genome_new = cuda_genome_new;
    t->genome_free = cuda_genome_free;
    t->resident = cuda_resident;
    t->load_rows = cuda_load_rows;
    t->aux_forward = cuda_aux_forward;
    t->fat_forward = cuda_fat_forward;
    t->aux_fat_forward = cuda_aux_fat_forward;
    t->aux_fat_backward = cuda_aux_fat_backward;
    t->fat_download = cuda_fat_download;
}

static dn_status open_gpus(cuda_backend *cb, const dn_cuda_options *o, dn_err *err)
{
    int n;
    UP(gpu_want(o->n_devices, &n, err));
    UP(dn_alloc(&cb->g, (size_t)n, sizeof *cb->g, "backend", err));
    cb->n_gpus = (size_t)n;
    cb->x_bytes = X_BYTES;
    for (int i = 0; i < n; i++) {
        UP(gpu_open(&cb->g[i], i, o->memory, o->tf32, err));
        uint64_t memory = o->memory && o->memory < cb->g[i].total ? o->memory : cb->g[i].total;
        if (memory / 16 < cb->x_bytes) cb->x_bytes = memory / 16;
    }
    for (int i = 1; i < n; i++) {
        UP(gpu_peer(&cb->g[0], &cb->g[i], err));
        UP(gpu_peer(&cb->g[i], &cb->g[0], err));
    }
    return DN_OK;
}

dn_status cuda_backend_new(dn_backend **out, const dn_cuda_options *o, dn_err *err)
{
    cuda_backend *cb;
    *out = NULL;
    UP(dn_alloc(&cb, 1, sizeof *cb, "backend", err));
    dn_status status = open_gpus(cb, o, err);
    if (status != DN_OK) {
        backend_free(&cb->be);
        return status;
    }
    fill_table(&cb->table);
    cb->be.ops = &cb->table;
    cb->be.host_memory = false;
    cb->be.eval_block = EVAL_BLOCK;
    cb->tf32 = o->tf32;
    cuda_name(cb, "");
    *out = &cb->be;
    return DN_OK;
}
