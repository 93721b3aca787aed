/* SPDX-License-Identifier: MIT */
/*
 * nccl_thread: a thread that makes and ends communicators of NCCL, with the lock of who has it.
 * Some call of NCCL may never return to it: nobody waits for that.
 */
#ifndef CK_NCCL_THREAD_H
#define CK_NCCL_THREAD_H

#include "ckptfs/base.h"

#include <pthread.h>

struct ck_nccl_thread {
	/* Constant: */
	pthread_t id; /* 0: it was not started */

	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed;
	bool closing, ended; /* ended: it does nothing any more */
};

/* Zeros before. */
void ck_nccl_thread_init(struct ck_nccl_thread *t);
/* It is at its end when run() is. As of pthread_create(3), with a message. */
CK_MUST_USE int ck_nccl_thread_start(struct ck_nccl_thread *t,
				     void *(*run)(void *arg), void *arg,
				     struct ck_diag *d);
/* Its last call. */
void ck_nccl_thread_end(struct ck_nccl_thread *t);
/* Under lock. Until `since`, in ms, is so long ago, or something may have changed: true if it
 * is. */
CK_MUST_USE bool ck_nccl_thread_wait(struct ck_nccl_thread *t, uint64_t since,
				     uint32_t msec);
/* Tells it to end, and waits at most so long. False: NCCL does not return to it. Then it has all
 * that it uses for as long as the process lives, and what NCCL is. */
CK_MUST_USE bool ck_nccl_thread_close(struct ck_nccl_thread *t, uint32_t msec);

#endif
