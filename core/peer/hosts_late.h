/* SPDX-License-Identifier: MIT */
/*
 * hosts_late: see hosts_late.c; what is known of hosts that are late, and what comes of
 * it, which is done in hosts_late_place.c.
 */
#ifndef CK_HOSTS_LATE_H
#define CK_HOSTS_LATE_H

#include "hosts_internal.h"

/* What is known of a copy. */
enum ck_late_verdict {
	CK_LATE_NONE,	 /* there is none, or one that was known */
	CK_LATE_UNKNOWN, /* it cannot be compared in this job */
	CK_LATE_AGAIN,	 /* something has failed that is soon tried again */
	CK_LATE_COMPARE, /* the digests say it */
	CK_LATE_EQUAL,
	CK_LATE_DIFFERS,
};

struct ck_late_rank {
	bool is_late;
	struct ck_looked *said; /* of all candidates; NULL: nothing */
	uint8_t *verdicts;	/* the same */
};

struct ck_late_batch;

struct ck_hosts_late {
	/* Files that are read somewhere, n, in their order: */
	struct ck_str *names;
	uint32_t *files;	       /* in the set */
	size_t n, next;		       /* that is compared next */
	struct ck_late_batch *batches; /* by rank */
	struct ck_hosts_unused refused;
	struct ck_late_rank of[]; /* by rank */
};

/* All are compared: equal copies are used from now on, others are told of. -ENOMEM. By the
 * thread that hears. */
CK_MUST_USE int ck_hosts_late_settle(struct ck_hosts *h);

#endif
