/* check_release.h: upstream's published release: whole, and the statistics and embeddings that its data give?
 */
#ifndef DNCHECK_CHECK_RELEASE_H
#define DNCHECK_CHECK_RELEASE_H

#include "check_file.h"
#include "dataset.h"
#include "par.h"
#include "split.h"

/* Is the folder laid out as a release (DN_MODELS, DN_SNPS)? */
bool check_is_release(const char *dir);
/* Opens every file of it as dnpredict would (all weights; equal members, missing members, sizes). dataset and
 * split (both or neither): also recomputes mean, sd and embedding of every fold and compares them with the
 * .npz files: equal to 1e-10 relative (1e-6 where a file holds float32), or which SNPs differ and by how
 * much. */
DN_MUST_USE dn_status check_release(findings *f, const char *dir, dn_dataset *dataset, const dn_split *split,
                                    const check_opts *o, dn_pool *pool, dn_err *err);

#endif
