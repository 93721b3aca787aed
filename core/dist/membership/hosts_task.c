/* SPDX-License-Identifier: MIT */
/*
 * hosts_task: blocking work with other hosts. A task runs for each process in a
 * thread of its own. A read blocks until the remote client has completed it. No
 * state beyond the call; any thread, except for ck_hosts_each(). Below all
 * other hosts files.
 */
#include "hosts_internal.h"

#include <errno.h>

/* --- all at once ---------------------------------------------------------- */

struct work {
	struct ck_hosts_task *task;
	int (*run)(struct ck_hosts_task *t);
	pthread_t thread;
	bool started;
};

static void *work_run(void *arg)
{
	const struct work *w = arg;

	w->task->rc = w->run(w->task);
	return NULL;
}

int ck_hosts_run(struct ck_hosts_task *tasks, uint32_t n,
		 int (*run)(struct ck_hosts_task *t))
{
	ck_auto_free struct work *list = calloc(n, sizeof(*list));
	int rc = list ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < n && rc == 0; i++) {
		tasks[i].rc = -EIO;
		if (!tasks[i].wanted)
			continue;
		list[i] = (struct work){ .task = &tasks[i], .run = run };
		rc = ck_thread_start(&list[i].thread, work_run, &list[i]);
		list[i].started = rc == 0;
	}
	for (uint32_t i = 0; list && i < n; i++)
		if (list[i].started)
			pthread_join(list[i].thread, NULL);
	return rc;
}

uint32_t ck_hosts_count_up(const struct ck_hosts *h)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < h->n; i++)
		n += h->hosts[i].there;
	return n;
}

void ck_hosts_tasks_init(struct ck_hosts *h, void *arg,
			 struct ck_hosts_task *tasks)
{
	for (uint32_t i = 0; i < h->n; i++)
		tasks[i] =
			(struct ck_hosts_task){ .hosts = h,
						.host = &h->hosts[i],
						.index = i,
						.arg = arg,
						.wanted = h->hosts[i].there };
}

int ck_hosts_each(struct ck_hosts *h, int (*run)(struct ck_hosts_task *t),
		  void *arg, struct ck_hosts_task *tasks)
{
	int rc;

	ck_hosts_tasks_init(h, arg, tasks);
	rc = ck_hosts_run(tasks, h->n, run);
	/* All task threads have ended, so `there` may be written. */
	for (uint32_t i = 0; i < h->n; i++) {
		struct ck_hosts_host *host = &h->hosts[i];

		if (!host->there)
			continue;
		host->there = ck_calls_is_up(h->calls, i);
		if (!host->there)
			ck_log("host %s: its process went down while the "
			       "checkpoint was opened",
			       host->name);
	}
	return rc;
}

/* --- reads that wait ------------------------------------------------------ */

/* A batch that a thread waits for. */
struct await {
	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed;
	bool completed;
};

static void batch_done(struct ck_copy_batch *batch)
{
	struct await *a = batch->arg;

	pthread_mutex_lock(&a->lock);
	a->completed = true;
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

/* Blocks until the batch has completed, or until the deadline. Returns false at
 * the deadline. */
static bool await_moves(struct await *a, const struct timespec *until)
{
	bool there;
	int rc = 0;

	pthread_mutex_lock(&a->lock);
	while (!a->completed && rc == 0)
		rc = until ? pthread_cond_clockwait(&a->changed, &a->lock,
						    CLOCK_MONOTONIC, until)
			   : pthread_cond_wait(&a->changed, &a->lock);
	there = a->completed;
	pthread_mutex_unlock(&a->lock);
	return there;
}

static void read_remote(struct ck_remote_client *r, struct ck_copy_desc *list,
			size_t n, const struct timespec *until)
{
	struct await a = { .lock = PTHREAD_MUTEX_INITIALIZER,
			   .changed = PTHREAD_COND_INITIALIZER };
	struct ck_copy_batch batch = {
		.list = list, .n = n, .done = batch_done, .arg = &a
	};

	if (r->backend.start(&r->backend, &batch) == -EINPROGRESS &&
	    !await_moves(&a, until)) {
		__atomic_store_n(&batch.cancelled, true, __ATOMIC_RELEASE);
		r->backend.interrupt(&r->backend, &batch);
		(void)await_moves(&a, NULL);
	}
	pthread_cond_destroy(&a.changed);
	pthread_mutex_destroy(&a.lock);
}

void ck_hosts_read_batch(struct ck_remote_client *r, struct ck_copy_desc *list,
			 size_t n)
{
	if (n)
		read_remote(r, list, n, NULL);
}

int ck_hosts_read(struct ck_remote_client *r, uint32_t file, uint64_t fpos,
		  uint64_t len, void *to, const struct timespec *until)
{
	struct ck_copy_desc move = {
		.file = file, .fpos = fpos, .run = len, .to = to
	};

	read_remote(r, &move, len > 0, until);
	return move.rc;
}
