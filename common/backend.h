/* backend.h: where the arithmetic is done. net.c says what, a backend says how: the CPU's is in
 * backend_cpu*.c. */
#ifndef DN_BACKEND_H
#define DN_BACKEND_H

#include "dn.h"
#include "par.h"

typedef struct dn_backend dn_backend;

/* The CPU, on the threads of pool (borrowed, must outlive the backend; nobody else runs on it during a call).
 */
DN_MUST_USE dn_status dn_backend_cpu(dn_backend **out, dn_pool *pool, dn_err *err);
void dn_backend_free(dn_backend *be);

#endif
