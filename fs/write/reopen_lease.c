/* SPDX-License-Identifier: MIT */
/*
 * reopen_lease: prevents starvation of open(2) by commits.
 *
 * The open of an inode whose tensor has a newer version fails with ESTALE. The
 * kernel then looks the name up again and opens the new inode, but retries only
 * once. So no further version is published until the same thread has opened the
 * file, or its lease has expired: the thread may have ended. A thread may also
 * wait for the lock of its directory; when its lookup comes at last, the lease
 * starts again.
 *
 * States of a lease: held until `until`; renewed by a lookup until `last`;
 * released by an open, or expired. Leases are an optimisation: without a free
 * slot, or after expiry, that open may fail with ESTALE.
 *
 * Threads: FUSE threads grant and release; the commit thread waits.
 */
#include "../internal.h"
#include <errno.h>

enum {
	LEASES = 32,	  /* at a time, in one mount */
	LEASE_MSEC = 300, /* lease time */
	LAST_MSEC = 2000, /* no renewal after that */
};

struct lease {
	pid_t thread;
	struct timespec until; /* in the past: expired or released */
	struct timespec last;  /* end of renewals */
};

struct ck_reopen_leases {
	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t taken;
	struct lease leases[LEASES];
	size_t next; /* the oldest, which is replaced next */
};

struct ck_reopen_leases *ck_reopen_leases_make(void)
{
	struct ck_reopen_leases *t = calloc(1, sizeof(*t));
	pthread_condattr_t attr;

	if (!t)
		return NULL;
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->taken, &attr);
	pthread_condattr_destroy(&attr);
	return t;
}

void ck_reopen_leases_free(struct ck_reopen_leases *t)
{
	if (!t)
		return;
	pthread_cond_destroy(&t->taken);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static struct timespec end_of_lease(void)
{
	return ck_time_in(CLOCK_MONOTONIC, LEASE_MSEC);
}

static bool is_before(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec
				    : a.tv_nsec < b.tv_nsec;
}

void ck_reopen_lease_grant(struct ck_reopen_leases *t, pid_t thread)
{
	pthread_mutex_lock(&t->lock);
	t->leases[t->next++ % LEASES] = (struct lease){
		.thread = thread,
		.until = end_of_lease(),
		.last = ck_time_in(CLOCK_MONOTONIC, LAST_MSEC),
	};
	pthread_mutex_unlock(&t->lock);
}

void ck_reopen_lease_renew(struct ck_reopen_leases *t, pid_t thread)
{
	struct timespec now = ck_time_in(CLOCK_MONOTONIC, 0);

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < LEASES; i++)
		if (t->leases[i].thread == thread &&
		    is_before(now, t->leases[i].last))
			t->leases[i].until = end_of_lease();
	pthread_mutex_unlock(&t->lock);
}

void ck_reopen_lease_end(struct ck_reopen_leases *t, pid_t thread)
{
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < LEASES; i++)
		if (t->leases[i].thread == thread)
			t->leases[i] = (struct lease){ 0 };
	pthread_cond_broadcast(&t->taken);
	pthread_mutex_unlock(&t->lock);
}

/* Under the lock. */
static bool is_any_held(const struct ck_reopen_leases *t)
{
	struct timespec now = ck_time_in(CLOCK_MONOTONIC, 0);

	for (size_t i = 0; i < LEASES; i++)
		if (is_before(now, t->leases[i].until))
			return true;
	return false;
}

void ck_reopen_leases_wait(struct ck_reopen_leases *t)
{
	struct timespec until = end_of_lease();
	int rc = 0;

	pthread_mutex_lock(&t->lock);
	while (rc == 0 && is_any_held(t))
		rc = pthread_cond_timedwait(&t->taken, &t->lock, &until);
	pthread_mutex_unlock(&t->lock);
}
