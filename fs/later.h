/* SPDX-License-Identifier: MIT */
/*
 * later: requests that wait for a draft to be gone.
 */
#ifndef CKPTFS_FS_LATER_H
#define CKPTFS_FS_LATER_H

#include "ckptfs/base.h"
#include <errno.h>
#include <time.h>

struct ck_laters;

/* Results of a request that cannot be answered yet. The kernel never gets them. LATER:
 * wait until the draft of the tensor is gone. AFTER: retry in the thread that commits,
 * since the request commits, or meets a commit. */
#define CK_LATER (-EINPROGRESS)
#define CK_AFTER (-EALREADY)

/* A request. It is the first member of a struct with all that the answer needs. That
 * struct is copied while the request waits, so it has no pointers to memory of the
 * caller. */
struct ck_later {
	struct ck_later *next;
	/* Answers the request in any thread and returns 0, or returns: CK_LATER, but
	 * not if `last`; CK_AFTER, but not if `may_commit`. */
	int (*answer)(struct ck_later *l);
	uint32_t tensor;       /* set by answer(): its draft is in the way */
	bool last;	       /* the wait is over */
	bool may_commit;       /* this is the thread that commits */
	struct timespec until; /* CLOCK_MONOTONIC; 0: has not waited yet */
};

/* Callbacks of the queue, which any thread may call. */
struct ck_laters_options {
	/* True if a request about this tensor still has to wait. */
	bool (*waits)(void *arg, uint32_t tensor);
	/* Hands a request to the thread that commits, which calls ck_later_commit().
	 * Returns 0, or -ENOMEM. */
	int (*commit)(void *arg, struct ck_later *l);
	void *arg;
};

/* Starts the thread of the queue. Copies *o. NULL if memory or threads are exhausted. */
struct ck_laters *ck_laters_start(const struct ck_laters_options *o);
/* Ends the thread and answers all requests that wait. No request may come any more.
 * NULL is allowed. */
void ck_laters_end(struct ck_laters *all);
void ck_laters_free(struct ck_laters *all); /* NULL is allowed */
/* Retries requests, since a draft is gone. NULL is allowed. */
void ck_laters_look(struct ck_laters *all);
/* Answers a request now, or after the draft in its way is gone, or 0.3 s later. size: of
 * the struct that begins with *l. */
void ck_later_answer(struct ck_laters *all, struct ck_later *l, size_t size);
/* The same in the thread that commits. Frees l, which was allocated. */
void ck_later_commit(struct ck_laters *all, struct ck_later *l);

#endif
