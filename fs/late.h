/* SPDX-License-Identifier: MIT */
/*
 * late: requests that are answered when bytes of remote files have come.
 */
#ifndef CK_LATE_H
#define CK_LATE_H

#include "handle.h"

struct ck_lates;

struct ck_lates *ck_lates_make(void); /* NULL: out of memory */
/* Those that are on the way are interrupted; returns when all are answered. No
 * more come. NULL is allowed. */
void ck_lates_end(struct ck_fs *fs);
void ck_lates_free(struct ck_lates *all); /* ended; NULL is allowed */

/* A request on the way, at the beginning of what else is needed to answer it. */
struct ck_late {
	struct ck_late *next, *prev; /* under ck_lates.lock */
	/* Constant: */
	struct ck_fs *fs;
	fuse_req_t req;
	struct ck_waiter *waiter;
	struct ck_stream_read *segments; /* or NULL */
	bool may_end;			 /* when it is interrupted */
};

/* What is read ahead of remote bytes, with the options of its mount. Errors as of
 * ck_streams_make(). */
CK_MUST_USE int ck_late_streams(struct ck_fs *fs);
/* Answers a read that may need remote bytes, when they are there. r: its from, vpos and
 * len; size: as it was asked for; may_end: a signal ends it. */
void ck_late_read(fuse_req_t req, struct ck_handle *h, struct ck_read *r,
		  size_t size, bool may_end);

/* What a request needs before it can be answered, at the beginning of what else is
 * needed to run it. It is the caller's. */
struct ck_late_fetch {
	/* Private: */
	struct ck_late late; /* first */
	struct ck_errand errand;
	bool waits;
	int rc; /* of what was fetched last */
	void (*again)(struct ck_late_fetch *l);
};

/* again: has it run once more, in the mover's thread. */
void ck_late_fetch_init(struct ck_late_fetch *l, struct ck_fs *fs,
			fuse_req_t req, void (*again)(struct ck_late_fetch *l));
/* Runs a request with what was fetched so far. 1: it needs more; again() will be called
 * when that is there, or was, and *l may be gone. Else what it came to, or an error of
 * fetching, -EINTR too; it is answered next. */
CK_MUST_USE int ck_late_run(struct ck_late_fetch *l, int (*run)(void *arg),
			    void *arg);
/* It was answered: the mount may end. */
void ck_late_fetch_end(struct ck_late_fetch *l);

#endif
