/* SPDX-License-Identifier: MIT */
/*
 * deferred: requests that wait until a write handle of their tensor is
 * released.
 */
#ifndef CKPTFS_DEFERRED_H
#define CKPTFS_DEFERRED_H

#include "ckptfs/base.h"
#include "source/stats.h"
#include <errno.h>
#include <time.h>

struct ck_deferred_queue;

/* Results of a request that cannot be answered yet. The kernel never gets them.
 * RELEASE: wait until the write handle of the tensor is released. COMMIT: retry
 * in the commit thread, since the request commits, or meets a commit. */
#define CK_AFTER_RELEASE (-EINPROGRESS)
#define CK_AFTER_COMMIT	 (-EALREADY)

/* A request. It is the first member of a struct with all that the answer needs. That
 * struct is copied while the request waits, so it has no pointers to memory of the
 * caller. */
struct ck_deferred {
	struct ck_deferred *next;
	/* Answers the request in any thread and returns 0, or returns: CK_AFTER_RELEASE, but
	 * not if `last`; CK_AFTER_COMMIT, but not if `may_commit`. */
	int (*answer)(struct ck_deferred *l);
	/* set by answer(): its write handle is in the way */
	uint32_t tensor;
	bool last;	       /* the wait is over */
	bool may_commit;       /* the calling thread may commit */
	struct timespec until; /* CLOCK_MONOTONIC; 0: has not waited yet */
	struct ck_request_time time; /* while it is in the queue */
};

/* Callbacks of the queue, which any thread may call. */
struct ck_deferred_options {
	/* True if a request about this tensor still has to wait. */
	bool (*waits)(void *arg, uint32_t tensor);
	/* Hands a request to the commit thread, which calls
	 * ck_deferred_commit(). Returns 0, or -ENOMEM. */
	int (*commit)(void *arg, struct ck_deferred *l);
	void *arg;
};

/* Starts the thread of the queue. Copies *o. NULL if memory or threads are exhausted. */
struct ck_deferred_queue *ck_deferred_queue_start(
	const struct ck_deferred_options *o);
/* Ends the thread and answers all requests that wait. No request may come any more.
 * NULL is allowed. */
void ck_deferred_queue_end(struct ck_deferred_queue *all);
void ck_deferred_queue_free(
	struct ck_deferred_queue *all); /* NULL is allowed */
/* Retries requests, since a write handle was released. NULL is allowed. */
void ck_deferred_queue_retry(struct ck_deferred_queue *all);
/* Answers a request now, or when the write handle in its way is released, or
 * after 0.3 s. size: of the struct that begins with *l. */
void ck_deferred_answer(struct ck_deferred_queue *all, struct ck_deferred *l,
			size_t size);
/* The same in the commit thread. Frees l, which was allocated. */
void ck_deferred_commit(struct ck_deferred_queue *all, struct ck_deferred *l);

#endif
