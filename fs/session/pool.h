/* SPDX-License-Identifier: MIT */
/*
 * pool: threads for requests that wait for the source.
 */
#ifndef CKPTFS_FS_POOL_H
#define CKPTFS_FS_POOL_H

#include "ckptfs/base.h"

struct ck_pool;

/* First in what is to be done. */
struct ck_pool_job {
	struct ck_pool_job *next; /* private */
	/* Frees the job. ended: nobody waits for it any more. Any thread. */
	void (*run)(struct ck_pool_job *job, bool ended);
};

/* threads: at most. NULL: out of memory. */
struct ck_pool *ck_pool_make(unsigned threads);
/* Runs it, soon and in a thread of the pool; if none can have it, now and here. */
void ck_pool_run(struct ck_pool *p, struct ck_pool_job *job);
/* The same, but false if none can have it. */
CK_MUST_USE bool ck_pool_offer(struct ck_pool *p, struct ck_pool_job *job);
/* Returns when those that had begun are done, and the others have ended; nobody
 * gives it more. NULL is allowed. */
void ck_pool_free(struct ck_pool *p);

#endif
