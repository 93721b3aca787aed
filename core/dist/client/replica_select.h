/* SPDX-License-Identifier: MIT */
/*
 * replica_select: which replicas of a file are used, if several hosts have one.
 * The result depends only on what the hosts have reported, and never on time:
 * every mount whose host has no replica itself reaches the same result.
 */
#ifndef CK_REPLICA_SELECT_H
#define CK_REPLICA_SELECT_H

#include "ckptfs/base.h"

enum { CK_COPY_DIGEST = 16 }; /* bytes */

/* The replica of one host. */
struct ck_file_copy {
	/* The host is up and has a readable file. */
	bool has;
	uint64_t size;
	uint8_t digest[CK_COPY_DIGEST]; /* if replicas are compared */
	/* Not used by ck_replica_select(): */
	bool unread; /* its digest could not be computed */
	bool begins; /* it equals the beginning of the longest replica */
};

/* Hosts are numbers below n, the same at all mounts. */
struct ck_replica_query {
	const struct ck_file_copy *copies; /* by host, n */
	uint32_t n;
	uint32_t here; /* this host */
	/* Hosts; where replicas differ, the first of them that has one is
	 * used. */
	const uint32_t *prefer;
	uint32_t nprefer;
	uint64_t needed;       /* bytes in use; 0: unknown */
	bool compared;	       /* false: replicas are assumed to be equal */
	const uint64_t *loads; /* by host: bytes that it has to serve */
};

enum ck_replica_outcome { CK_COPIES_NONE, CK_COPIES_FINE, CK_COPIES_DIFFER };

struct ck_replica_choice {
	enum ck_replica_outcome outcome;
	/* Of FINE: the number of replicas in use. The first one is read; the
	 * others are for failover. server: the host whose load grows, at any
	 * mount. */
	uint32_t n;
	uint32_t server;
	/* Of DIFFER: the first host with a replica, and the first with a
	 * different one. */
	uint32_t one, other;
	/* The first host with a replica that is shorter than `needed` although
	 * another one is not; such replicas are ignored. n of the query: no
	 * host. */
	uint32_t too_short;
};

/* Selects replicas. list: room for n hosts; receives the out->n hosts in
 * use. */
void ck_replica_select(const struct ck_replica_query *asked,
		       struct ck_replica_choice *out, uint32_t *list);

#endif
