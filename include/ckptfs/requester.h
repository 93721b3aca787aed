/* SPDX-License-Identifier: MIT */
/*
 * requester: the mover of remote files. It asks the peers that have them, each for all
 * that it has of the moves, all at once. Where that fails, and there is another copy, it
 * asks for that one, within the time that is left.
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

/* Another place of a file, for when those before have failed. */
struct ck_other_place {
	uint32_t file; /* number here */
	struct ck_whereabouts at;
};

struct ck_requester {
	/* Constant: */
	struct ck_mover mover; /* first; any thread may call it */
	struct ck_calls *calls;
	const struct ck_whereabouts *files; /* by number, n; the caller's */
	uint32_t n;
	const struct ck_other_place *others;
	size_t nothers;

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_requester_op *first; /* moves on their way */
};

/* calls and files are the caller's and outlive it. A move of a file of number n or
 * above is -ENODATA. */
void ck_requester_init(struct ck_requester *r, struct ck_calls *calls,
		       const struct ck_whereabouts *files, uint32_t n);
/* Files that are in more than one place, by number; those of a file follow each other
 * in the order in which they are tried. They are the caller's and outlive it. Before it
 * is used. */
void ck_requester_set_others(struct ck_requester *r,
			     const struct ck_other_place *others, size_t n);
/* Where a file is, the i-th place that is tried. False: there are not so many. Any
 * thread. */
bool ck_requester_place(const struct ck_requester *r, uint32_t file, uint32_t i,
			struct ck_whereabouts *out);
/* Nothing is on its way. */
void ck_requester_fini(struct ck_requester *r);

#endif
