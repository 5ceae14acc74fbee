/* findings.h: what a check found: one line each, as TSV for people and scripts, or as JSON. */
#ifndef DNCHECK_FINDINGS_H
#define DNCHECK_FINDINGS_H

#include "dn.h"
#include "io.h"
#include "tables.h"

typedef enum { FOUND_OK, FOUND_NOTE, FOUND_WARNING, FOUND_FAULT } found_level;

/* Zero-initialise; findings_free(). Item i: level[i], and strings i of check, where, detail. */
typedef struct {
    size_t n, cap, n_faults, n_warnings;
    uint8_t *level;
    dn_strs check, where, detail;
    dn_status worst; /* exit code of the first fault: DN_OK when there is none */
} findings;

/* check: a short fixed name ("weights-distinct"); where: a file or member; fmt: what was found. status: for
 * faults, the code that the program exits with when it is the first one. DN_ENOMEM. */
DN_MUST_USE dn_status found(findings *f, dn_err *err, found_level level, dn_status status, const char *check,
                            const char *where, const char *fmt, ...) DN_PRINTF(7, 8);
/* A fault with the message of an error; `e` is then spent. DN_ENOMEM and DN_EINTERNAL are passed up as they
 * are. */
DN_MUST_USE dn_status found_error(findings *f, dn_err *err, const char *check, const char *where,
                                  const dn_err *e);

/* The name of a level: "ok", "note", "warning", "FAULT". */
const char *found_level_name(found_level l);
/* level, check, where, detail, tab-separated with a header line. Tabs and line breaks in details become
 * blanks. */
DN_MUST_USE dn_status findings_tsv(const findings *f, dn_out *out, dn_err *err);
/* {"ok": bool, "findings": [{"level", "check", "where", "detail"}]} */
DN_MUST_USE dn_status findings_json(const findings *f, dn_out *out, dn_err *err);
void findings_free(findings *f);

#endif
