/* model_impl.h: what model.c shares with the readers of its two sources. */
#ifndef DN_MODEL_IMPL_H
#define DN_MODEL_IMPL_H

#include "model.h"

/* Fills m from upstream's release directory (release.c) or from packages (model_package.c). m is zeroed; on
 * failure the caller frees it. Checks between members are model.c's. */
DN_MUST_USE dn_status dn_release_load(dn_model *m, const char *path, const dn_model_opts *opts, dn_err *err);
DN_MUST_USE dn_status dn_packages_load(dn_model *m, const char *path, const dn_model_opts *opts, dn_err *err);
/* Class names from a file: one per line, n_out of them, no two equal. */
DN_MUST_USE dn_status dn_classes_read(dn_strs *out, const char *path, uint64_t n_out, dn_err *err);
/* Fingerprint of a member's main net, to be mixed with its fat weights' or auxiliary net's. */
uint64_t dn_layers_hash(const dn_layer *layer, size_t n_layers);
void dn_layers_free(dn_layer *layer, size_t n_layers);

#endif
