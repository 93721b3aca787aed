/* SPDX-License-Identifier: MIT */
/*
 * nccl_thread: start and end of a thread that calls NCCL, its lock, and waiting
 * with a limit. The thread is abandoned if it does not end in time.
 */
#include "nccl_thread.h"

enum { WAIT_MSEC = 500 }; /* limit of a single wait */

void ck_nccl_thread_init(struct ck_nccl_thread *t)
{
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->changed, NULL);
}

int ck_nccl_thread_start(struct ck_nccl_thread *t, void *(*run)(void *arg),
			 void *arg, struct ck_diag *d)
{
	int rc = ck_thread_start(&t->id, run, arg);

	if (rc == 0)
		return 0;
	t->id = 0;
	return ck_fail(d, -rc, "a thread for NCCL: %s", strerror(-rc));
}

void ck_nccl_thread_end(struct ck_nccl_thread *t)
{
	pthread_mutex_lock(&t->lock);
	t->ended = true;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

bool ck_nccl_thread_wait(struct ck_nccl_thread *t, uint64_t since,
			 uint32_t msec)
{
	uint64_t age = ck_msec_now() - since;
	struct timespec end;

	if (age >= msec)
		return true;
	end = ck_time_in(CLOCK_REALTIME,
			 (uint32_t)ck_min(msec - age, WAIT_MSEC));
	(void)pthread_cond_timedwait(&t->changed, &t->lock, &end);
	return false;
}

/* False if the thread does not end within msec. */
static bool ends(struct ck_nccl_thread *t, uint32_t msec)
{
	uint64_t since = ck_msec_now();
	bool ended;

	pthread_mutex_lock(&t->lock);
	t->closing = true;
	pthread_cond_broadcast(&t->changed);
	while (!t->ended && !ck_nccl_thread_wait(t, since, msec))
		;
	ended = t->ended;
	pthread_mutex_unlock(&t->lock);
	if (ended)
		pthread_join(t->id, NULL);
	return ended;
}

bool ck_nccl_thread_close(struct ck_nccl_thread *t, uint32_t msec)
{
	if (t->id && !ends(t, msec))
		return false;
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->changed);
	return true;
}
