/* par.h: a pool of threads that runs numbered items. Results must not depend on who runs which item: items
 * write to places of their own, and sums across items are made afterwards in item order. */
#ifndef DN_PAR_H
#define DN_PAR_H

#include "dn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dn_pool dn_pool;
/* n_threads >= 1, this thread included. */
DN_MUST_USE dn_status dn_pool_new(dn_pool **out, size_t n_threads, dn_err *err);
size_t dn_pool_threads(const dn_pool *p);
/* Calls fn(ctx, item, worker) once for every item in [0, n_items), on the pool's threads and this one;
 * returns when all are done. worker in [0, n_threads) names the thread, for scratch space. Items are handed
 * out in increasing order. Not re-entrant: fn must not call dn_pool_run on the same pool. */
void dn_pool_run(dn_pool *p, size_t n_items, void (*fn)(void *ctx, size_t item, size_t worker), void *ctx);
void dn_pool_free(dn_pool *p);

#ifdef __cplusplus
}
#endif

#endif
