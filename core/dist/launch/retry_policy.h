/* SPDX-License-Identifier: MIT */
/*
 * retry_policy: which hosts that are down the next job includes, and when it is
 * started. A job fails as a whole if one of its hosts cannot take part. A host
 * that made a job fail, or may have, is a suspect: it is left out of jobs of
 * other hosts, and tried after pauses that grow, one suspect at a time. No I/O
 * and no clock: times are milliseconds of a monotonic clock. One thread.
 */
#ifndef CKPTFS_RETRY_POLICY_H
#define CKPTFS_RETRY_POLICY_H

#include "ckptfs/base.h"

enum { CK_RETRY_POLICY_PAUSE_MOST = 5 * 60 * 1000 }; /* milliseconds */

/* The part of a host in the next job. The first host takes part in each job. */
enum ck_try {
	CK_TRY_WANTED,	 /* it is down, and is included if it answers */
	CK_TRY_UP,	 /* it is up: without it no job is started */
	CK_TRY_LEFT_OUT, /* a suspect that waits */
	CK_TRY_SUSPECT,	 /* included only if no host that is wanted answers */
};

/* The part of a host in a job that failed. */
enum ck_tried {
	CK_TRIED_NOT, /* it was not in the job */
	CK_TRIED_IN,
	CK_TRIED_BAD, /* it was, and no program can be started there */
};

struct ck_retry_policy_host {
	bool up;
	bool logged; /* see ck_retry_policy_log() */
	/* Consecutive jobs that failed with the host; not 0: a suspect. */
	unsigned failed;
	uint64_t due; /* the host is left out until then */
};

struct ck_retry_policy {
	struct ck_retry_policy_host *hosts; /* n; the first is this one */
	size_t n;
	uint64_t every; /* milliseconds between two jobs */
	size_t suspect; /* that the next job may include; 0: no suspect */
	uint64_t due;	/* when the next job is started */
};

/* up: by host, n; copied. every: the pause between two jobs, milliseconds.
 * Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_retry_policy_make(struct ck_retry_policy *t, const bool *up,
				     size_t n, uint64_t every, uint64_t now);
void ck_retry_policy_fini(struct ck_retry_policy *t);

/* Records which hosts are up now. A host that has gone down is tried at once.
 * Returns true if a job is to be started now, unless one is being started. */
bool ck_retry_policy_update(struct ck_retry_policy *t, const bool *up,
			    uint64_t now);
/* Chooses the part of each host in the next job. how: n of enum ck_try. */
void ck_retry_policy_choose(struct ck_retry_policy *t, uint64_t now,
			    uint8_t *how);

/* The result of a job, one of these: */

/* No host that is down has replied; no job was started. */
void ck_retry_policy_silent(struct ck_retry_policy *t, uint64_t now);
/* The job has failed. tried: n of enum ck_tried; NULL: it did not begin. If no
 * program can be started on some hosts, these are suspects, else all that
 * joined. Hosts that are up are never suspects; nor is any host if no program
 * can be started on one that is up. */
void ck_retry_policy_failed(struct ck_retry_policy *t, const uint8_t *tried,
			    uint64_t now);
/* The job has taken over. in: the hosts in it; up: those that are up now. */
void ck_retry_policy_over(struct ck_retry_policy *t, const bool *in,
			  const bool *up, uint64_t now);

/* Returns the index of a suspect to be logged: once for each time that it goes
 * down, after two failed jobs. Returns n without such a host. */
size_t ck_retry_policy_log(struct ck_retry_policy *t);

#endif
