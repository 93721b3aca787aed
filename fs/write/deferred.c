/* SPDX-License-Identifier: MIT */
/*
 * deferred: requests that wait until a write handle of their tensor is
 * released. FUSE sends RELEASE only after close(2) has returned, so the next
 * program may open, truncate or replace the file before. A request that finds a
 * closed but unreleased write handle is deferred, up to 300 ms.
 *
 * The FUSE thread copies the request into the queue and serves others. The
 * thread of the queue retries a request when its write handle is released, or
 * when its time is over. A request that commits, or that meets a commit, goes
 * on to the commit thread, so that it does not hold back others.
 *
 * States of a request: tried in the FUSE thread; in the queue; in the commit
 * thread; answered and freed.
 *
 * Whether a write handle still exists is asked by a callback: this file knows
 * neither write handles nor commits.
 */
#include "deferred.h"
#include <pthread.h>
#include <stdlib.h>

#define WAIT_MSEC 300

struct ck_deferred_queue {
	/* Constant, or of the one thread that starts and ends it: */
	struct ck_deferred_options o;
	bool started;
	pthread_t thread;

	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed;
	struct ck_deferred *first; /* by deadline */
	bool ended;
};

static bool is_over(const struct ck_deferred *l)
{
	struct timespec now = ck_time_in(CLOCK_MONOTONIC, 0);

	return now.tv_sec != l->until.tv_sec ? now.tv_sec > l->until.tv_sec
					     : now.tv_nsec >= l->until.tv_nsec;
}

/* Takes the first request that can be retried out of the list; NULL if all must
 * wait. Under the lock. */
static struct ck_deferred *take(struct ck_deferred_queue *all)
{
	struct ck_deferred **at = &all->first, *l;

	while ((l = *at) && !is_over(l) && all->o.waits(all->o.arg, l->tensor))
		at = &l->next;
	if (!l)
		return NULL;
	*at = l->next;
	l->last = is_over(l);
	l->may_commit = false;
	return l;
}

/* False if the queue has ended. */
static bool put(struct ck_deferred_queue *all, struct ck_deferred *l)
{
	struct ck_deferred **at = &all->first;

	if (l->until.tv_sec == 0)
		l->until = ck_time_in(CLOCK_MONOTONIC, WAIT_MSEC);
	pthread_mutex_lock(&all->lock);
	if (all->ended) {
		pthread_mutex_unlock(&all->lock);
		return false;
	}
	/* A request that has waited before has less time left than others. */
	while (*at && ((*at)->until.tv_sec < l->until.tv_sec ||
		       ((*at)->until.tv_sec == l->until.tv_sec &&
			(*at)->until.tv_nsec <= l->until.tv_nsec)))
		at = &(*at)->next;
	l->next = *at;
	*at = l;
	l->time = ck_request_time_take();
	pthread_cond_signal(&all->changed);
	pthread_mutex_unlock(&all->lock);
	return true;
}

static void retry(struct ck_deferred_queue *all, struct ck_deferred *l);

/* Continues with a request after this result of answer(). */
static void proceed(struct ck_deferred_queue *all, struct ck_deferred *l,
		    int answer)
{
	if (answer == CK_AFTER_RELEASE && put(all, l))
		return;
	if (answer == CK_AFTER_COMMIT && all->o.commit(all->o.arg, l) == 0)
		return;
	if (answer != CK_AFTER_RELEASE && answer != CK_AFTER_COMMIT) {
		free(l);
		return;
	}
	/* Without memory for a job the request is executed here. */
	l->last = l->last || answer == CK_AFTER_RELEASE;
	l->may_commit = l->may_commit || answer == CK_AFTER_COMMIT;
	retry(all, l);
}

/* As ck_deferred_answer(), for a request that was allocated. */
static void retry(struct ck_deferred_queue *all, struct ck_deferred *l)
{
	proceed(all, l, l->answer(l));
}

void ck_deferred_commit(struct ck_deferred_queue *all, struct ck_deferred *l)
{
	l->may_commit = true;
	retry(all, l);
}

static void *queue_run(void *arg)
{
	struct ck_deferred_queue *all = arg;
	struct ck_deferred *l;

	pthread_mutex_lock(&all->lock);
	while (!all->ended) {
		l = take(all);
		if (l) {
			pthread_mutex_unlock(&all->lock);
			ck_request_time_resume(&l->time);
			retry(all, l);
			ck_request_time_end();
			pthread_mutex_lock(&all->lock);
		} else if (all->first) {
			pthread_cond_timedwait(&all->changed, &all->lock,
					       &all->first->until);
		} else {
			pthread_cond_wait(&all->changed, &all->lock);
		}
	}
	pthread_mutex_unlock(&all->lock);
	return NULL;
}

struct ck_deferred_queue *ck_deferred_queue_start(
	const struct ck_deferred_options *o)
{
	struct ck_deferred_queue *all = calloc(1, sizeof(*all));
	pthread_condattr_t attr;

	if (!all)
		return NULL;
	all->o = *o;
	pthread_mutex_init(&all->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&all->changed, &attr);
	pthread_condattr_destroy(&attr);
	all->started = pthread_create(&all->thread, NULL, queue_run, all) == 0;
	if (all->started)
		return all;
	ck_deferred_queue_free(all);
	return NULL;
}

void ck_deferred_queue_end(struct ck_deferred_queue *all)
{
	struct ck_deferred *l;

	if (!all || !all->started)
		return;
	pthread_mutex_lock(&all->lock);
	all->ended = true;
	pthread_cond_signal(&all->changed);
	pthread_mutex_unlock(&all->lock);
	pthread_join(all->thread, NULL);
	all->started = false;
	while ((l = all->first)) {
		all->first = l->next;
		l->last = true;
		l->may_commit = false;
		retry(all, l);
	}
}

void ck_deferred_queue_free(struct ck_deferred_queue *all)
{
	if (!all)
		return;
	ck_deferred_queue_end(all);
	pthread_cond_destroy(&all->changed);
	pthread_mutex_destroy(&all->lock);
	free(all);
}

void ck_deferred_queue_retry(struct ck_deferred_queue *all)
{
	if (!all)
		return;
	pthread_mutex_lock(&all->lock);
	pthread_cond_signal(&all->changed);
	pthread_mutex_unlock(&all->lock);
}

void ck_deferred_answer(struct ck_deferred_queue *all, struct ck_deferred *l,
			size_t size)
{
	struct ck_deferred *copy;
	int rc;

	rc = l->answer(l);
	if (rc != CK_AFTER_RELEASE && rc != CK_AFTER_COMMIT)
		return;
	copy = malloc(size);
	if (copy) {
		memcpy(copy, l, size);
		proceed(all, copy, rc);
		return;
	}
	l->last = true;
	l->may_commit = true;
	(void)l->answer(l);
}
