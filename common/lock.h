/* lock.h: one owner per task, among processes on one machine or on many that share a file system.
 *
 * The lock is a small text file that says who owns it: host, boot, process, its start time, SLURM job. It
 * appears whole (written aside, then link(2)ed: exactly one process succeeds, on NFS too), and its owner
 * holds a kernel lock on it (fcntl) for as long as it lives, where the file system has
 * those: so an owner that was killed is known to be dead even when its process number is in use again, or
 * belongs to another container.
 *
 * A lock is taken over when its owner is dead for certain: on this host, if the kernel lock is free or
 * (without kernel locks) no process of that number and start time runs; on any host, if it belonged to an
 * earlier start of this very SLURM job (same job and array task, lower restart count: SLURM has ended it).
 * Every taking over is claimed by link(2) under a name made from the dead owner's random number, so that of
 * any number of takers exactly one succeeds. */
#ifndef DN_LOCK_H
#define DN_LOCK_H

#include "dn.h"

typedef struct dn_lock dn_lock;

/* Takes the lock file `path`. *took_over: text that says whose dead lock was taken over, or NULL; free() it.
 * (took_over may be NULL.) DN_EMISMATCH: owned by another process, named with host, process and job, and what
 * to do; DN_EWRITE: the folder cannot be written; DN_EFORMAT: the file is something else. */
DN_MUST_USE dn_status dn_lock_take(dn_lock **out, const char *path, char **took_over, dn_err *err);
/* For tests: behave as on a file system without hard links (exFAT, some FUSE), where renaming that replaces
 * nothing does the same. */
extern bool dn_lock_without_links;
/* Removes the file if it is still ours, and frees. NULL is fine. */
void dn_lock_release(dn_lock **lock);

#endif
