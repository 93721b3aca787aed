/* SPDX-License-Identifier: MIT */
/*
 * remote_client: the mover of remote files. It asks the peers that have them, each for all
 * that it has of the moves, all at once. Where that fails, and there is another copy, it
 * asks for that one, within the time that is left. Who is asked, and how, may be replaced:
 * what was not answered by then is asked for again.
 */
#ifndef CKPTFS_REMOTE_CLIENT_H
#define CKPTFS_REMOTE_CLIENT_H

#include "ckptfs/calls.h"

#include <pthread.h>

/* Where a file is. */
struct ck_location {
	uint32_t peer; /* UINT32_MAX: nobody has it now */
	/* Of the file there; UINT32_MAX: what is there is another one. */
	uint32_t number;
};

/* Another place of a file, for when those before have failed. */
struct ck_other_place {
	uint32_t file; /* number here */
	struct ck_location at;
};

/* Who is asked, and how. All is the caller's. */
struct ck_ways {
	struct ck_calls *calls;
	const struct ck_location *files; /* by number, n */
	uint32_t n;
	/* Files that are in more than one place, by number; those of a file follow each
	 * other in the order in which they are tried. */
	const struct ck_other_place *others;
	size_t nothers;
};

/* Who can send bytes by rounds (rounds.h). */
struct ck_ways_by_rounds {
	uint32_t
		set; /* the epoch of the calls of the same job; 0: nobody can */
	const uint32_t
		*ranks; /* of n peers, in that job; UINT32_MAX: it cannot */
	uint32_t n;
};

struct ck_remote_client {
	/* Constant: */
	struct ck_backend mover; /* first; any thread may call it */
	struct ck_stats
		*stats; /* NULL, unless it is set before the first use */

	pthread_rwlock_t ways_lock;
	/* Under ways_lock: */
	struct ck_ways ways;
	uint32_t generation;		 /* of the ways */
	struct ck_ways_by_rounds rounds; /* owned */

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_remote_client_op *first; /* moves on their way */
};

/* A move of a file of number ways.n or above is -ENODATA. The ways outlive it, or are
 * replaced. */
void ck_remote_client_init(struct ck_remote_client *r,
			   const struct ck_ways *ways);
/* From now on those are used. Moves that others have under way are asked for again as
 * soon as the calls of those before have ended; tables of before are not used any more
 * when it returns. Any thread. */
void ck_remote_client_renew(struct ck_remote_client *r,
			    const struct ck_ways *ways);
/* From now on these peers can. Copied. -ENOMEM. Any thread. */
CK_MUST_USE int ck_remote_client_rounds(struct ck_remote_client *r,
					const struct ck_ways_by_rounds *by);
/* Whether a peer is up. Any thread. */
bool ck_remote_client_is_up(struct ck_remote_client *r, uint32_t peer);
/* Where a file is, the i-th place that is tried. False: there are not so many. Any
 * thread. */
bool ck_remote_client_place(struct ck_remote_client *r, uint32_t file,
			    uint32_t i, struct ck_location *out);
/* Nothing is on its way. */
void ck_remote_client_fini(struct ck_remote_client *r);

#endif
