/* cuda_ops.cuh: what the files of the plugin give to its table (backend_cuda.h). */
#ifndef DN_CUDA_OPS_CUH
#define DN_CUDA_OPS_CUH

#include "cuda_rt.cuh"

/* cuda_plugin.cu: how many devices are asked for; DN_EGPU if there are fewer. 0: one. */
dn_status gpu_want(size_t asked, int *n, dn_err *err);

/* cuda_fat.cu */
dn_status cuda_fat_new(dn_cuda_fat **out, const dn_fat_problem *p, uint64_t max_people,
                       const dn_cuda_options *o, dn_err *err);
dn_status cuda_fat_submit(dn_cuda_fat *f, const uint8_t *rows, uint64_t row_bytes, uint64_t n_people,
                          dn_err *err);
dn_status cuda_fat_wait(dn_cuda_fat *f, float *z, dn_err *err);
void cuda_fat_free(dn_cuda_fat *f);

#endif
