/* SPDX-License-Identifier: MIT */
/*
 * turn: a program that was overtaken by a commit opens next. The open of an inode whose
 * tensor has a newer version is answered ESTALE; the kernel then looks the name
 * up anew and opens what it finds, but does so only once. So that no second
 * commit comes between, none is shown until the same thread has opened what it
 * found: a moment only, since that thread may have ended. It may also wait for
 * its directory, which somebody else has locked; when it looks up at last, its
 * moment begins again.
 *
 * If there is no room to note a turn, or nobody comes, nothing is lost: that
 * open may fail with ESTALE.
 */
#include "../internal.h"
#include <errno.h>

enum {
	LEASES = 32,	  /* at a time, in one mount */
	LEASE_MSEC = 300, /* after that it is over */
	LAST_MSEC = 2000, /* and after that it cannot be renewed */
};

struct turn {
	pid_t thread;
	struct timespec until; /* in the past: nobody waits for it */
	struct timespec last;  /* until then it is renewed */
};

struct ck_reopen_leases {
	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t taken;
	struct turn reopen_leases[LEASES];
	size_t next; /* to be given: the oldest */
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
	t->reopen_leases[t->next++ % LEASES] = (struct turn){
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
		if (t->reopen_leases[i].thread == thread &&
		    is_before(now, t->reopen_leases[i].last))
			t->reopen_leases[i].until = end_of_lease();
	pthread_mutex_unlock(&t->lock);
}

void ck_reopen_lease_end(struct ck_reopen_leases *t, pid_t thread)
{
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < LEASES; i++)
		if (t->reopen_leases[i].thread == thread)
			t->reopen_leases[i] = (struct turn){ 0 };
	pthread_cond_broadcast(&t->taken);
	pthread_mutex_unlock(&t->lock);
}

/* Under the lock. */
static bool is_any_held(const struct ck_reopen_leases *t)
{
	struct timespec now = ck_time_in(CLOCK_MONOTONIC, 0);

	for (size_t i = 0; i < LEASES; i++)
		if (is_before(now, t->reopen_leases[i].until))
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
