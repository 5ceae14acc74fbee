/* io.h: reading files whole or mapped, lines of text with their numbers, and outputs that appear whole or not
 * at all. */
#ifndef DN_IO_H
#define DN_IO_H

#include <stdio.h>

#include "dn.h"

/* What a file's first bytes say it is. */
typedef enum {
    DN_KIND_UNKNOWN,
    DN_KIND_EMPTY,
    DN_KIND_TEXT,
    DN_KIND_GZIP, /* also .bgz */
    DN_KIND_ZSTD,
    DN_KIND_ZIP, /* .npz, .pt */
    DN_KIND_BED,
    DN_KIND_HDF5,
    DN_KIND_GPK
} dn_kind;
dn_kind dn_kind_of_bytes(const unsigned char *p, size_t n);
/* Looks at the file; DN_EOPEN if it cannot be read. A folder is DN_EOPEN "is a folder". */
DN_MUST_USE dn_status dn_kind_of_file(const char *path, dn_kind *kind, dn_err *err);
const char *dn_kind_name(dn_kind kind); /* "gzip-compressed data", ... for messages */

/* A regular file mapped read-only. base is NULL for an empty file. Not for files of unbounded size (address
 * space limits, RSS): large .bed files are read with dn_pread_full(). */
typedef struct {
    const unsigned char *base;
    size_t size;
} dn_mapped;
DN_MUST_USE dn_status dn_mapped_open(dn_mapped *m, const char *path, dn_err *err);
void dn_mapped_close(dn_mapped *m);

/* Reads exactly n bytes at offset, retrying short reads; DN_EOPEN on an error, DN_EFORMAT "ends at byte ..."
 * at EOF. */
DN_MUST_USE dn_status dn_pread_full(int fd, void *buf, size_t n, uint64_t offset, const char *path,
                                    dn_err *err);

/* ---- Lines of text ----
 * Strips one UTF-8 BOM at the start, the newline, and one CR before it. The last line counts without a
 * newline. Compressed or binary input is refused by name (DN_EFORMAT). Reads with a buffer: any file size. */
typedef struct dn_text dn_text;
DN_MUST_USE dn_status dn_text_open(dn_text **out, const char *path, dn_err *err);
/* Next line: *line (NUL-terminated, writable, valid until the next call), *len; *line = NULL at the end.
 * A NUL byte inside a line is DN_EFORMAT. */
DN_MUST_USE dn_status dn_text_next(dn_text *t, char **line, size_t *len, dn_err *err);
uint64_t dn_text_line(const dn_text *t); /* number of the line last returned, from 1 */
const char *dn_text_path(const dn_text *t);
void dn_text_close(dn_text *t);
/* Cuts line in place at runs of blanks and tabs; returns how many fields there are (may exceed max; only max
 * are set). */
size_t dn_split_blanks(char *line, char **field, size_t max);
/* Cuts line in place at every tab (empty fields count). Same return. */
size_t dn_split_tabs(char *line, char **field, size_t max);

/* ---- Outputs ----
 * dn_out_open("name") writes name.tmp.PID beside the target; dn_out_commit() flushes, fsyncs, renames and
 * syncs the folder; dn_out_abort() (also in *_close without commit, and on SIGINT/SIGTERM/SIGHUP through
 * dn_out_on_signal) removes it. An existing target is DN_EUSAGE unless force. "-" is stdout (commit flushes
 * and checks it; refused on a terminal when binary). /dev/... targets are written directly. The check that
 * the target's folder exists and is writable is made at open, that is before work starts. */
typedef struct dn_out dn_out;
enum { DN_OUT_FORCE = 1, DN_OUT_BINARY = 2 };
DN_MUST_USE dn_status dn_out_open(dn_out **out, const char *path, unsigned flags, dn_err *err);
DN_MUST_USE dn_status dn_out_write(dn_out *o, const void *p, size_t n, dn_err *err);
DN_MUST_USE dn_status dn_out_printf(dn_out *o, dn_err *err, const char *fmt, ...) DN_PRINTF(3, 4);
/* Writes at an offset (not for stdout). Mixes with nothing: use either write or pwrite on one output. */
DN_MUST_USE dn_status dn_out_pwrite(dn_out *o, const void *p, size_t n, uint64_t offset, dn_err *err);
/* For libraries that write by themselves (HDF5): the temporary file's path, created and empty; NULL for
 * stdout. */
const char *dn_out_tmp_path(const dn_out *o);
const char *dn_out_path(const dn_out *o); /* the final name, "standard output" for "-" */
/* Flushes and fsyncs what was written so far, under its temporary name: after it, commit can hardly fail. */
DN_MUST_USE dn_status dn_out_sync(dn_out *o, dn_err *err);
DN_MUST_USE dn_status dn_out_commit(dn_out **o,
                                    dn_err *err); /* frees *o whatever happens; on failure nothing is left */
void dn_out_abort(dn_out **o);                    /* frees *o; NULL is fine */
/* Only the existence rule of dn_out_open, for checks before a long computation. */
DN_MUST_USE dn_status dn_out_check(const char *path, unsigned flags, dn_err *err);
/* Compares the free space of the target's file system with `need` bytes: DN_EWRITE with both numbers when it
 * is short. Silent where the system cannot tell. */
DN_MUST_USE dn_status dn_out_room(const char *path, uint64_t need, dn_err *err);
/* Installs handlers that remove temporary files on SIGINT, SIGTERM, SIGHUP and then die of the same signal,
 * and ignores SIGPIPE and SIGXFSZ so that both become write errors. Call once in main(), before threads
 * start. */
void dn_out_on_signal(void);

#endif
