/* SPDX-License-Identifier: MIT */
/*
 * pool: threads for requests that wait for the source.
 */
#ifndef CKPTFS_POOL_H
#define CKPTFS_POOL_H

#include "ckptfs/base.h"

struct ck_pool;

/* First member of a struct with all that the job needs. */
struct ck_pool_job {
	struct ck_pool_job *next; /* private */
	/* Runs the job in any thread, and frees it. ended: the pool ends, so
	 * the result is not needed. */
	void (*run)(struct ck_pool_job *job, bool ended);
};

/* threads: the maximum. NULL if memory is exhausted. */
struct ck_pool *ck_pool_make(unsigned threads);
/* Runs a job in a thread of the pool. If the pool cannot take it, runs it in
 * the calling thread. */
void ck_pool_run(struct ck_pool *p, struct ck_pool_job *job);
/* The same, but returns false if the pool cannot take it. */
CK_MUST_USE bool ck_pool_offer(struct ck_pool *p, struct ck_pool_job *job);
/* Queues a job behind any number of others. Returns false if no thread of the
 * pool could be started. */
CK_MUST_USE bool ck_pool_add(struct ck_pool *p, struct ck_pool_job *job);
/* Waits for running jobs, and ends the queued ones. No job may be added any
 * more. NULL is allowed. */
void ck_pool_free(struct ck_pool *p);

#endif
