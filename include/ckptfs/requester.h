/* SPDX-License-Identifier: MIT */
/*
 * requester: the mover of remote files. It asks the peers that have them, each for all
 * that it has of the moves, all at once.
 */
#ifndef CKPTFS_REQUESTER_H
#define CKPTFS_REQUESTER_H

#include "ckptfs/calls.h"

#include <pthread.h>

/* Where a file is. */
struct ck_whereabouts {
	uint32_t peer;
	uint32_t number; /* of the file there */
};

struct ck_requester {
	/* Constant: */
	struct ck_mover mover; /* first; any thread may call it */
	struct ck_calls *calls;
	const struct ck_whereabouts *files; /* by number, n; the caller's */
	uint32_t n;

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_requester_op *first; /* moves on their way */
};

/* calls and files are the caller's and outlive it. A move of a file of number n or
 * above is -ENODATA. */
void ck_requester_init(struct ck_requester *r, struct ck_calls *calls,
		       const struct ck_whereabouts *files, uint32_t n);
/* Nothing is on its way. */
void ck_requester_fini(struct ck_requester *r);

#endif
