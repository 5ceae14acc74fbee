/* zip_read.h: members of a zip archive (.npz, .pt), through libzip, with everything an archive claims checked
 * before it is believed: stored or deflated only, no encryption, no name twice, and no member larger than its
 * compressed bytes can hold. An archive is used by one thread at a time. */
#ifndef DN_ZIP_READ_H
#define DN_ZIP_READ_H

#include "dn.h"

#define DN_ZIP_MAX_MEMBERS ((uint64_t)1 << 20)

typedef struct dn_zip dn_zip;
/* DN_EOPEN: cannot be read; DN_EFORMAT: not a zip, truncated or damaged; DN_EUNSUPPORTED: encrypted or packed
 * by a method other than deflate. */
DN_MUST_USE dn_status dn_zip_open(dn_zip **out, const char *path, dn_err *err);
void dn_zip_close(dn_zip *z);
const char *dn_zip_path(const dn_zip *z);
uint64_t dn_zip_count(const dn_zip *z);
const char *dn_zip_name(const dn_zip *z, uint64_t i); /* valid until close */
uint64_t dn_zip_size(const dn_zip *z, uint64_t i);    /* unpacked bytes; bounded by what the file can hold */
uint64_t dn_zip_find(const dn_zip *z, const char *name); /* UINT64_MAX: not there */

/* Sequential reading of member i. Several members of one archive may be open at once. */
typedef struct dn_zip_member dn_zip_member;
DN_MUST_USE dn_status dn_zip_member_open(dn_zip_member **out, dn_zip *z, uint64_t i, dn_err *err);
/* Exactly n bytes. DN_EFORMAT when the member ends before, or is damaged (named). */
DN_MUST_USE dn_status dn_zip_member_read(dn_zip_member *m, void *buf, size_t n, dn_err *err);
/* Checks that the member ends here; this is also where its checksum is compared. */
DN_MUST_USE dn_status dn_zip_member_end(dn_zip_member *m, dn_err *err);
void dn_zip_member_close(dn_zip_member *m);

/* The whole member, checksum compared; *buf from dn_alloc_aligned. More than max bytes: DN_EFORMAT. */
DN_MUST_USE dn_status dn_zip_read_all(dn_zip *z, uint64_t i, uint64_t max, uint8_t **buf, size_t *n,
                                      dn_err *err);

#endif
