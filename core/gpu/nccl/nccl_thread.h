/* SPDX-License-Identifier: MIT */
/*
 * nccl_thread: a thread that makes and aborts communicators, and the lock that
 * it shares with the caller. A call of NCCL may never return: then the thread
 * is abandoned.
 */
#ifndef CK_NCCL_THREAD_H
#define CK_NCCL_THREAD_H

#include "ckptfs/base.h"

#include <pthread.h>

struct ck_nccl_thread {
	/* Constant: */
	pthread_t id; /* 0 if it was not started */

	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed;
	bool closing, ended; /* ended: the thread has left its loop */
};

/* *t must be zeroed. */
void ck_nccl_thread_init(struct ck_nccl_thread *t);
/* Starts the thread, which must call ck_nccl_thread_end() last. Returns 0, or
 * errors of pthread_create(3) with a message. */
CK_MUST_USE int ck_nccl_thread_start(struct ck_nccl_thread *t,
				     void *(*run)(void *arg), void *arg,
				     struct ck_diag *d);
/* The last call of the thread. */
void ck_nccl_thread_end(struct ck_nccl_thread *t);
/* Waits for a change, at most 500 ms. True if `since` is at least msec ms ago,
 * without waiting. Must hold the lock. */
CK_MUST_USE bool ck_nccl_thread_wait(struct ck_nccl_thread *t, uint64_t since,
				     uint32_t msec);
/* Tells the thread to end, and waits at most msec ms. False if NCCL does not
 * return: then the thread, everything it uses and the library must stay until
 * the process ends. */
CK_MUST_USE bool ck_nccl_thread_close(struct ck_nccl_thread *t, uint32_t msec);

#endif
