/* torch_pt.h: PyTorch's .pt files (zip archives with a pickle and one member per storage), as far as state
 * dicts go. Read as data by pickle.h: nothing in the file is executed. */
#ifndef DN_TORCH_PT_H
#define DN_TORCH_PT_H

#include "dn.h"
#include "tables.h"

typedef struct dn_pt dn_pt;
/* Finds FOLDER/data.pkl, interprets it, and takes as state dict the entry "model_state_dict" or "state_dict"
 * of the top dict, or the top dict itself when it holds tensors. DN_EFORMAT: damaged, not a .pt, or asks for
 * anything but data (what and where); DN_EUNSUPPORTED: PyTorch's format before 1.6, TorchScript, big-endian.
 */
DN_MUST_USE dn_status dn_pt_open(dn_pt **out, const char *path, dn_err *err);
void dn_pt_close(dn_pt *f);
/* Names of the tensors in the state dict, in its order. */
const dn_strs *dn_pt_keys(const dn_pt *f);
bool dn_pt_has(const dn_pt *f, const char *key);
/* Shape of a tensor: ndim <= 8. DN_EFORMAT when absent. */
DN_MUST_USE dn_status dn_pt_shape(const dn_pt *f, const char *key, int *ndim, uint64_t dim[8], dn_err *err);
/* The tensor as float, row-major whatever its strides, *data from dn_alloc_aligned, owned by the caller.
 * DN_EFORMAT when the shape is not (dim[0], ..., dim[ndim-1]); DN_ENUMERIC for a value that is not finite,
 * with its place. */
DN_MUST_USE dn_status dn_pt_read(dn_pt *f, const char *key, int ndim, const uint64_t *dim, float **data,
                                 dn_err *err);

#endif
