/* backend_cpu.c: the CPU's table of functions (see backend.h). */
#include "backend_cpu_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void cpu_free(dn_backend *be)
{
    cpu_backend *cb = (cpu_backend *)be;
    free(cb->scratch);
    free(cb);
}

static dn_status cpu_alloc(dn_backend *be, float **p, uint64_t n, const char *what, dn_err *err)
{
    (void)be;
    dn_status status = dn_alloc_aligned(p, n, sizeof **p, what, err);
    if (status == DN_OK) memset(*p, 0, n * sizeof **p);
    return status;
}

static void cpu_release(dn_backend *be, float *p)
{
    (void)be;
    free(p);
}

static dn_status cpu_copy(dn_backend *be, float *dst, const float *src, uint64_t n, dn_err *err)
{
    (void)be, (void)err;
    memcpy(dst, src, n * sizeof *dst);
    return DN_OK;
}

static dn_status cpu_resident(dn_backend *be, dn_genome *g, const uint8_t *base, uint64_t stride,
                              uint64_t n_rows, dn_err *err)
{
    (void)be, (void)g, (void)base, (void)stride, (void)n_rows, (void)err; /* rows are read where they are */
    return DN_OK;
}

static void fill_table(dn_backend_ops *table)
{
    *table = cpu_main_ops;
    table->free = cpu_free;
    table->alloc = cpu_alloc;
    table->release = cpu_release;
    table->upload = cpu_copy;
    table->download = cpu_copy;
    table->genome_new = cpu_genome_new;
    table->genome_free = cpu_genome_free;
    table->resident = cpu_resident;
    table->load_rows = cpu_load_rows;
    table->aux_forward = cpu_aux_forward;
    table->fat_forward = cpu_fat_forward;
    table->aux_fat_forward = cpu_aux_fat_forward;
    table->aux_fat_backward = cpu_aux_fat_backward;
    table->fat_download = cpu_fat_download;
}

dn_status dn_backend_cpu(dn_backend **out, dn_pool *pool, dn_err *err)
{
    cpu_backend *cb;
    *out = NULL;
    dn_status status = dn_alloc(&cb, 1, sizeof *cb, "backend", err);
    if (status != DN_OK) return status;
    fill_table(&cb->table);
    dn_isa isa = dn_isa_get();
    cb->be.ops = &cb->table;
    cb->be.host_memory = true;
    cb->be.eval_block = 512;
    cb->pool = pool;
    cb->kern = cpu_kernels_of(isa);
    cb->shares_from = 32768; /* small networks are fast as they are, and add what upstream adds */
    size_t n = dn_pool_threads(pool);
    snprintf(cb->be.name, sizeof cb->be.name, "cpu (%s, %zu thread%s)", dn_isa_name(isa), n,
             n == 1 ? "" : "s");
    *out = &cb->be;
    return DN_OK;
}

void dn_backend_free(dn_backend *be)
{
    if (be) be->ops->free(be);
}
