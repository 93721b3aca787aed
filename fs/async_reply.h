/* SPDX-License-Identifier: MIT */
/*
 * async_reply: replies to requests that need bytes of remote files.
 */
#ifndef CKPTFS_ASYNC_REPLY_H
#define CKPTFS_ASYNC_REPLY_H

#include "handle.h"

struct ck_async_replies;

/* NULL if memory is exhausted */
struct ck_async_replies *ck_async_replies_make(void);
/* Interrupts all requests in flight and returns when they are answered. No
 * request may come any more. NULL is allowed. */
void ck_async_replies_end(struct ck_fs *fs);
void ck_async_replies_free(
	struct ck_async_replies *all); /* ended; NULL is allowed */

/* A request in flight. It is the first member of a struct with all that the
 * reply needs. */
struct ck_async_reply {
	struct ck_async_reply *next, *prev; /* under ck_async_replies.lock */
	/* Constant: */
	struct ck_fs *fs;
	fuse_req_t req;
	struct ck_waiter *waiter;
	struct ck_stream_read *segments; /* or NULL */
	bool may_end;			 /* a signal may interrupt it */
	struct ck_request_time time;
};

/* Makes the read-ahead of remote bytes, as the options of the mount have it.
 * Errors of ck_streams_make(). */
CK_MUST_USE int ck_async_streams_make(struct ck_fs *fs);
/* Replies to a read that may need remote bytes when they have arrived. r: its
 * from, vpos and len are used; size: as the kernel requested it; may_end: a
 * signal interrupts the read. */
void ck_async_read(fuse_req_t req, struct ck_handle *h, struct ck_read *r,
		   size_t size, bool may_end);

/* Remote bytes that a request needs before its reply. It is the first member of
 * a struct with all that is needed to run the request. Caller owns it. */
struct ck_async_fetch {
	/* Private: */
	struct ck_async_reply reply; /* first */
	struct ck_header_fetch headers;
	bool waits;
	int rc; /* result of the last fetch */
	void (*again)(struct ck_async_fetch *l);
};

/* again: runs the request once more, in the thread of the remote backend. */
void ck_async_fetch_init(struct ck_async_fetch *l, struct ck_fs *fs,
			 fuse_req_t req,
			 void (*again)(struct ck_async_fetch *l));
/* Runs a request with the bytes fetched so far. Returns 1 if it needs more:
 * again() is or was called when they have arrived, and *l may be freed by then.
 * Otherwise returns the result of `run`, or an error of the fetch such as
 * -EINTR; the caller replies next. */
CK_MUST_USE int ck_async_fetch_run(struct ck_async_fetch *l,
				   int (*run)(void *arg), void *arg);
/* Must be called after the reply. The mount does not end before. */
void ck_async_fetch_end(struct ck_async_fetch *l);

#endif
