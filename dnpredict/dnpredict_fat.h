/* dnpredict_fat.h: the fat layer of all members, block by block of people, on the CPU (fat.h) or on GPUs
 * (backend_cuda.h): the caller need not know which. On GPUs two blocks may be under way while the caller
 * works on a third. */
#ifndef DNPREDICT_FAT_H
#define DNPREDICT_FAT_H

#include "device.h"
#include "matched.h"
#include "model.h"
#include "par.h"

typedef struct dn_predict_fat dn_predict_fat;

/* Model, cohort, device (loaded; NULL or not cuda: the CPU) and pool are borrowed. max_people: of a block.
 * DN_ENOMEM; DN_EGPU, also when the weights do not fit into the GPU's memory. */
DN_MUST_USE dn_status dn_predict_fat_new(dn_predict_fat **out, const dn_model *model,
                                         const dn_matched *cohort, uint64_t max_people,
                                         const dn_device *device, dn_pool *pool, dn_err *err);
/* Blocks that may be submitted and not waited for: 1 or 2. */
size_t dn_predict_fat_depth(const dn_device *device);
/* rows: n packed rows of the cohort; with a depth of 1 they must stay until dn_predict_fat_wait(). */
DN_MUST_USE dn_status dn_predict_fat_submit(dn_predict_fat *f, const uint8_t *rows, uint64_t n, dn_err *err);
/* The oldest block submitted: z: its n x units, members side by side. */
DN_MUST_USE dn_status dn_predict_fat_wait(dn_predict_fat *f, float *z, dn_err *err);
void dn_predict_fat_free(dn_predict_fat *f);

/* Bytes of this process for blocks of n people, beside their rows and z; and on each GPU. */
DN_MUST_USE dn_status dn_predict_fat_bytes(const dn_model *model, const dn_matched *cohort, uint64_t n,
                                           const dn_device *device, size_t n_threads, uint64_t *host,
                                           uint64_t *gpu, dn_err *err);

#endif
