/* log.h: what a program says on stderr. Only program folders use it; common/ returns errors and counts
 * instead. */
#ifndef DN_LOG_H
#define DN_LOG_H

#include "dn.h"
#include "opt.h"

/* Call first in main(): sets the C locale, the name in front of every line, the clock. */
void dn_log_start(const char *prog, int argc, char **argv);
const char *dn_log_prog(void); /* the name given to dn_log_start */
void dn_log_level(bool quiet, bool verbose);
void dn_info(const char *fmt, ...) DN_PRINTF(1, 2);  /* not under --quiet */
void dn_debug(const char *fmt, ...) DN_PRINTF(1, 2); /* only under --verbose */
void dn_warn(const char *fmt, ...) DN_PRINTF(1, 2);  /* always: "prog: warning: ..." */

/* Progress: a bar with rate and time left on a terminal, else a line every 30 s. unit is a plural ("people").
 */
void dn_progress_start(const char *what, uint64_t total, const char *unit);
void dn_progress(uint64_t done); /* cheap; call from one thread */
void dn_progress_end(void);

/* The last line: version, wall, CPU, peak RSS (not under --quiet, nor before dn_log_level()), and the exit
 * code for main(): prints err when status != DN_OK. Also turns a failed write to stdout into DN_EWRITE. */
int dn_finish(dn_status status, const dn_err *err);
/* --version: version, compiler, instruction set in use, library versions, CUDA or not. To stdout. */
void dn_print_version(void);

#endif
