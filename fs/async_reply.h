/* SPDX-License-Identifier: MIT */
/*
 * late: requests that are answered when bytes of remote files have come.
 */
#ifndef CKPTFS_FS_ASYNC_REPLY_H
#define CKPTFS_FS_ASYNC_REPLY_H

#include "handle.h"

struct ck_async_replies;

struct ck_async_replies *ck_async_replies_make(void); /* NULL: out of memory */
/* Those that are on the way are interrupted; returns when all are answered. No
 * more come. NULL is allowed. */
void ck_async_replies_end(struct ck_fs *fs);
void ck_async_replies_free(
	struct ck_async_replies *all); /* ended; NULL is allowed */

/* A request on the way, at the beginning of what else is needed to answer it. */
struct ck_async_reply {
	struct ck_async_reply *next, *prev; /* under ck_async_replies.lock */
	/* Constant: */
	struct ck_fs *fs;
	fuse_req_t req;
	struct ck_waiter *waiter;
	struct ck_stream_read *segments; /* or NULL */
	bool may_end;			 /* when it is interrupted */
};

/* What is read ahead of remote bytes, with the options of its mount. Errors as of
 * ck_streams_make(). */
CK_MUST_USE int ck_async_streams_make(struct ck_fs *fs);
/* Answers a read that may need remote bytes, when they are there. r: its from, vpos and
 * len; size: as it was asked for; may_end: a signal ends it. */
void ck_async_read(fuse_req_t req, struct ck_handle *h, struct ck_read *r,
		   size_t size, bool may_end);

/* What a request needs before it can be answered, at the beginning of what else is
 * needed to run it. It is the caller's. */
struct ck_async_fetch {
	/* Private: */
	struct ck_async_reply reply; /* first */
	struct ck_errand errand;
	bool waits;
	int rc; /* of what was fetched last */
	void (*again)(struct ck_async_fetch *l);
};

/* again: has it run once more, in the mover's thread. */
void ck_async_fetch_init(struct ck_async_fetch *l, struct ck_fs *fs,
			 fuse_req_t req,
			 void (*again)(struct ck_async_fetch *l));
/* Runs a request with what was fetched so far. 1: it needs more; again() will be called
 * when that is there, or was, and *l may be gone. Else what it came to, or an error of
 * fetching, -EINTR too; it is answered next. */
CK_MUST_USE int ck_async_fetch_run(struct ck_async_fetch *l,
				   int (*run)(void *arg), void *arg);
/* It was answered: the mount may end. */
void ck_async_fetch_end(struct ck_async_fetch *l);

#endif
