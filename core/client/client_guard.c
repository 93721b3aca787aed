/* SPDX-License-Identifier: MIT */
/*
 * client_guard: makes fork(2) safe. Locks of the core would stay locked in a child if another
 * thread held them during the fork. So each call of the library holds `calls` for reading,
 * and fork(2) takes it for writing: no call is in progress then. Writers come first, so
 * that calls without end do not hold up a fork(2).
 */
#include "client_internal.h"

#include <pthread.h>

static pthread_rwlock_t calls =
	PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static void fork_begin(void)
{
	pthread_rwlock_wrlock(&calls);
}

static void fork_end(void)
{
	pthread_rwlock_unlock(&calls);
}

/* The lock belongs to a thread of the parent: the child has another thread number. */
static void fork_child(void)
{
	calls = (pthread_rwlock_t)
		PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
}

static int registered; /* result of pthread_atfork(3), positive */

static void once(void)
{
	registered = pthread_atfork(fork_begin, fork_end, fork_child);
}

int ck_client_guard(void)
{
	static pthread_once_t done = PTHREAD_ONCE_INIT;

	pthread_once(&done, once);
	return -registered;
}

int ck_client_enter(void)
{
	pthread_rwlock_rdlock(&calls);
	return 1;
}

void ck_client_leave(const int *inside)
{
	(void)inside;
	pthread_rwlock_unlock(&calls);
}
