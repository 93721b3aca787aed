/* SPDX-License-Identifier: MIT */
/*
 * digest: XXH3-128 of the bytes of tensors as raw/ shows them, so that it does not depend on
 * how a tensor is sharded or stored; and files of digests in the form of xxhsum. A part of values.
 */
#ifndef CKPTFS_DIGEST_H
#define CKPTFS_DIGEST_H

#include "tensor_pass.h"

enum { CK_DIGEST_LEN = 16, CK_DIGEST_HEX = 2 * CK_DIGEST_LEN + 1 };

/* A tensor and its digest. */
struct ck_digest {
	uint32_t tensor; /* row in the catalog; set by the caller */
	int err;	 /* 0, or the positive errno of reading it */
	uint8_t sum[CK_DIGEST_LEN];
};

struct ck_digest_options {
	unsigned threads; /* as in ck_pass */
	void (*progress)(void *arg, uint64_t bytes);
	void *arg;
};

/* Bytes that the digests of n tensors need, for progress. */
uint64_t ck_digests_bytes(const struct ck_catalog *c,
			  const struct ck_digest *all, size_t n);
/* Computes the digests of n tensors. A tensor that cannot be read has `err`. Returns 0, or:
 * shortages of this process. */
CK_MUST_USE int ck_digests_compute(const struct ck_pass_source *from,
				   struct ck_digest *all, size_t n,
				   const struct ck_digest_options *o);
/* Appends the line of a tensor with a digest: "HEX  raw/STEM", and a newline. */
void ck_digest_print(const struct ck_catalog *c, const struct ck_digest *d,
		     struct ck_buf *out);

/* A line of a file of digests. */
struct ck_digest_line {
	struct ck_str hex;  /* 32 hex digits, any case */
	struct ck_str stem; /* the name without "raw/" */
};

/* Takes the next line with a digest. Returns 1; 0 at the end; or -EBADMSG if a line has another
 * form. *number: counts lines, from 1; the caller sets it to 0 first. */
CK_MUST_USE int ck_digest_line_take(struct ck_cur *at, size_t *number,
				    struct ck_digest_line *out);

#endif
