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
#include "internal.h"
#include <errno.h>

enum {
	TURNS = 32,	  /* at a time, in one mount */
	TURN_MSEC = 300,  /* after that it is over */
	LAST_MSEC = 2000, /* and after that it cannot be renewed */
};

struct turn {
	pid_t thread;
	struct timespec until; /* in the past: nobody waits for it */
	struct timespec last;  /* until then it is renewed */
};

struct ck_turns {
	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t taken;
	struct turn turns[TURNS];
	size_t next; /* to be given: the oldest */
};

struct ck_turns *ck_turns_make(void)
{
	struct ck_turns *t = calloc(1, sizeof(*t));
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

void ck_turns_free(struct ck_turns *t)
{
	if (!t)
		return;
	pthread_cond_destroy(&t->taken);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static struct timespec end_of_turn(void)
{
	return ck_time_in(CLOCK_MONOTONIC, TURN_MSEC);
}

static bool is_before(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec
				    : a.tv_nsec < b.tv_nsec;
}

void ck_turn_give(struct ck_turns *t, pid_t thread)
{
	pthread_mutex_lock(&t->lock);
	t->turns[t->next++ % TURNS] = (struct turn){
		.thread = thread,
		.until = end_of_turn(),
		.last = ck_time_in(CLOCK_MONOTONIC, LAST_MSEC),
	};
	pthread_mutex_unlock(&t->lock);
}

void ck_turn_renew(struct ck_turns *t, pid_t thread)
{
	struct timespec now = ck_time_in(CLOCK_MONOTONIC, 0);

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < TURNS; i++)
		if (t->turns[i].thread == thread &&
		    is_before(now, t->turns[i].last))
			t->turns[i].until = end_of_turn();
	pthread_mutex_unlock(&t->lock);
}

void ck_turn_take(struct ck_turns *t, pid_t thread)
{
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < TURNS; i++)
		if (t->turns[i].thread == thread)
			t->turns[i] = (struct turn){ 0 };
	pthread_cond_broadcast(&t->taken);
	pthread_mutex_unlock(&t->lock);
}

/* Under the lock. */
static bool somebody_has_one(const struct ck_turns *t)
{
	struct timespec now = ck_time_in(CLOCK_MONOTONIC, 0);

	for (size_t i = 0; i < TURNS; i++)
		if (is_before(now, t->turns[i].until))
			return true;
	return false;
}

void ck_turns_wait(struct ck_turns *t)
{
	struct timespec until = end_of_turn();
	int rc = 0;

	pthread_mutex_lock(&t->lock);
	while (rc == 0 && somebody_has_one(t))
		rc = pthread_cond_timedwait(&t->taken, &t->lock, &until);
	pthread_mutex_unlock(&t->lock);
}
