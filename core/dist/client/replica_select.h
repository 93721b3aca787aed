/* SPDX-License-Identifier: MIT */
/*
 * replica_select: which copies of a file are used, where several hosts have one. It follows from
 * what they say and from nothing else, above all from no time: every host that asks and
 * has no copy itself comes to the same.
 */
#ifndef CK_COPIES_H
#define CK_COPIES_H

#include "ckptfs/base.h"

enum { CK_COPY_DIGEST = 16 }; /* bytes */

/* What one host says of its copy. */
struct ck_file_copy {
	bool has; /* it is there, has a file, and its bytes are to be had */
	uint64_t size;
	uint8_t digest[CK_COPY_DIGEST]; /* if they are compared */
	/* Of no interest here: */
	bool unread; /* its digest could not be had */
	bool begins; /* it is shorter than the longest, which begins like it */
};

/* Hosts are numbers below n, the same for all who ask. */
struct ck_replica_query {
	const struct ck_file_copy *copies; /* by host, n */
	uint32_t n;
	uint32_t here;		/* the one that asks */
	const uint32_t *prefer; /* hosts; where copies differ, the first of them
				 * that has one counts */
	uint32_t nprefer;
	uint64_t needed;       /* bytes that are in use of it; 0: not known */
	bool compared;	       /* false: copies are taken for equal */
	const uint64_t *loads; /* by host: bytes that it has to serve */
};

enum ck_replica_outcome { CK_COPIES_NONE, CK_COPIES_FINE, CK_COPIES_DIFFER };

struct ck_replica_choice {
	enum ck_replica_outcome outcome;
	/* Of FINE: the copies in use, the one that is read first, those for when it
	 * fails behind it; and whose load it is, whoever asks. */
	uint32_t n;
	uint32_t server;
	/* Of DIFFER: the first that has one, and the first that has another. */
	uint32_t one, other;
	/* A copy that ends before `needed` although another one does not: such are as
	 * if they were not there. n of the question: there is none. */
	uint32_t too_short;
};

/* list: room for n. */
void ck_replica_select(const struct ck_replica_query *asked,
		       struct ck_replica_choice *out, uint32_t *list);

#endif
