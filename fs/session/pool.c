/* SPDX-License-Identifier: MIT */
/*
 * pool: threads for requests that wait for the source. A mount has few FUSE
 * threads, since more of them copy bytes more slowly. A request that reads
 * items may wait long for the source; in a FUSE thread it would hold back all
 * others, a commit too.
 *
 * Threads are started when all others are busy, up to a maximum, and run until
 * the pool is freed. Jobs wait in a queue, whose length is limited for those that the
 * caller can also run itself. Any thread may add jobs.
 */
#include "pool.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

enum { QUEUE = 1024 };

struct ck_pool {
	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t more;
	struct ck_pool_job *first, **last; /* jobs that wait */
	unsigned waiting;		   /* number of these */
	unsigned idle;			   /* threads without a job */
	unsigned n, most;		   /* threads, and their maximum */
	bool ended;
	pthread_t threads[];
};

/* Waits for the next job; NULL if the pool has ended. Under the lock. */
static struct ck_pool_job *take(struct ck_pool *p, bool *ended)
{
	struct ck_pool_job *job;

	p->idle++;
	while (!p->first && !p->ended)
		pthread_cond_wait(&p->more, &p->lock);
	p->idle--;
	job = p->first;
	if (!job)
		return NULL;
	p->first = job->next;
	if (!p->first)
		p->last = &p->first;
	p->waiting--;
	*ended = p->ended;
	return job;
}

static void *work(void *arg)
{
	struct ck_pool *p = arg;
	struct ck_pool_job *job;
	bool ended;

	pthread_mutex_lock(&p->lock);
	while ((job = take(p, &ended))) {
		pthread_mutex_unlock(&p->lock);
		job->run(job, ended);
		pthread_mutex_lock(&p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Starts another thread if the maximum allows it. Under the lock. */
static void grow(struct ck_pool *p)
{
	if (p->n < p->most && ck_thread_start(&p->threads[p->n], work, p) == 0)
		p->n++;
}

struct ck_pool *ck_pool_make(unsigned threads)
{
	struct ck_pool *p =
		calloc(1, sizeof(*p) + threads * sizeof(p->threads[0]));

	if (!p)
		return NULL;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	p->last = &p->first;
	p->most = threads;
	return p;
}

static bool add(struct ck_pool *p, struct ck_pool_job *job, unsigned most)
{
	bool taken;

	pthread_mutex_lock(&p->lock);
	if (p->waiting >= p->idle)
		grow(p);
	taken = p->n > 0 && p->waiting < most;
	if (taken) {
		job->next = NULL;
		*p->last = job;
		p->last = &job->next;
		p->waiting++;
		pthread_cond_signal(&p->more);
	}
	pthread_mutex_unlock(&p->lock);
	return taken;
}

bool ck_pool_offer(struct ck_pool *p, struct ck_pool_job *job)
{
	return add(p, job, QUEUE);
}

bool ck_pool_add(struct ck_pool *p, struct ck_pool_job *job)
{
	return add(p, job, UINT_MAX);
}

void ck_pool_run(struct ck_pool *p, struct ck_pool_job *job)
{
	if (!ck_pool_offer(p, job))
		job->run(job, false);
}

void ck_pool_free(struct ck_pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->ended = true;
	pthread_cond_broadcast(&p->more);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->n; i++)
		pthread_join(p->threads[i], NULL);
	pthread_cond_destroy(&p->more);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
