/* SPDX-License-Identifier: MIT */
/*
 * remote_client: the backend for remote files. It sends READ requests to the
 * peers that have the files, to all of them at once. If a peer fails, its
 * descriptors fail over to the next replica within the time that is left. If
 * the routes are replaced, requests without a reply are sent again by the new
 * ones.
 *
 * An operation is one batch of descriptors in flight. It completes when no
 * request of it is in flight. Any thread starts and interrupts operations; the
 * connection's thread completes them.
 */
#ifndef CKPTFS_REMOTE_CLIENT_H
#define CKPTFS_REMOTE_CLIENT_H

#include "dist/rpc/calls.h"

#include <pthread.h>

/* Where a file is. */
struct ck_location {
	uint32_t peer; /* UINT32_MAX: no peer has the file now */
	/* The file's number at the peer. UINT32_MAX: the peer has another file
	 * of this name; reads are -ESTALE. */
	uint32_t number;
};

/* A further replica of a file, for when the ones before it have failed. */
struct ck_other_place {
	uint32_t file; /* number here */
	struct ck_location at;
};

/* The routes: the peer that serves a file, and its connection. All
 * pointers are borrowed. */
struct ck_routes {
	struct ck_calls *calls;
	const struct ck_location *files; /* first location, by number, n */
	uint32_t n;
	/* Further replicas, sorted by file; those of one file in the order in
	 * which they are tried. */
	const struct ck_other_place *others;
	size_t nothers;
};

/* The peers that can send bytes by rounds (rounds.h). */
struct ck_round_routes {
	/* The epoch of the calls of the same job; 0: no peer can. */
	uint32_t set;
	/* By peer, n: its rank in that job; UINT32_MAX: the peer cannot. */
	const uint32_t *ranks;
	uint32_t n;
};

struct ck_remote_client {
	/* Constant: */
	struct ck_backend backend; /* first; any thread may call it */
	struct ck_stats *stats;	   /* NULL, unless set before the first use */

	pthread_rwlock_t routes_lock;
	/* Under routes_lock: */
	struct ck_routes routes;
	uint32_t generation;	       /* counts ck_remote_client_renew() */
	struct ck_round_routes rounds; /* owned */

	pthread_mutex_t lock;
	/* Under lock: */
	struct ck_remote_client_op *first; /* operations in flight */
};

/* A descriptor of a file number of routes->n or above completes with -ENODATA.
 * The caller keeps the routes until they are replaced or *r is finished. */
void ck_remote_client_init(struct ck_remote_client *r,
			   const struct ck_routes *routes);
/* Replaces the routes. Operations in flight are sent again once the calls of
 * the old routes have ended. The old tables are unused when this returns. Any
 * thread. */
void ck_remote_client_renew(struct ck_remote_client *r,
			    const struct ck_routes *routes);
/* Replaces the peers that can send by rounds. Copies *by. Any thread. Returns
 * 0, or: -ENOMEM. */
CK_MUST_USE int ck_remote_client_rounds(struct ck_remote_client *r,
					const struct ck_round_routes *by);
/* Returns true if the peer is up. Any thread. */
bool ck_remote_client_is_up(struct ck_remote_client *r, uint32_t peer);
/* Sets *out to the i-th location that a read of the file tries. Returns false
 * if there are fewer. Any thread. */
bool ck_remote_client_place(struct ck_remote_client *r, uint32_t file,
			    uint32_t i, struct ck_location *out);
/* No operation may be in flight. */
void ck_remote_client_fini(struct ck_remote_client *r);

#endif
