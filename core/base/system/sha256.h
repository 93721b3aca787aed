/* SPDX-License-Identifier: MIT */
/*
 * sha256: SHA-256 by OpenSSL's libcrypto, which is loaded when the first hash is made, so that
 * the program needs it only then. A part of base. Any thread; a hash has one user at a time.
 */
#ifndef CKPTFS_SHA256_H
#define CKPTFS_SHA256_H

#include "ckptfs/base.h"

enum { CK_SHA256_LEN = 32, CK_SHA256_HEX = 2 * CK_SHA256_LEN + 1 };

struct ck_sha256;

/* Begins a hash. Returns 0, or: -ELIBACC if libcrypto cannot be loaded, d has the reason;
 * -ENOMEM. Caller calls ck_sha256_free(). */
CK_MUST_USE int ck_sha256_make(struct ck_sha256 **out, struct ck_diag *d);
/* Adds bytes. Returns 0, or -EIO if libcrypto refuses. */
CK_MUST_USE int ck_sha256_add(struct ck_sha256 *h, const void *bytes,
			      size_t len);
/* Ends the hash: 64 lower-case hex digits and a terminator. Errors as of ck_sha256_add(). */
CK_MUST_USE int ck_sha256_hex(struct ck_sha256 *h,
			      char out[static CK_SHA256_HEX]);
void ck_sha256_free(struct ck_sha256 *h); /* NULL is allowed */

#endif
