/* SPDX-License-Identifier: MIT */
/*
 * gpulink: the mount's end of the connection to its GPU worker (gpulink.h). A
 * thread starts a worker process, receives its messages, and replaces it when
 * it has ended or does not answer. Any thread sends requests, under the lock.
 *
 * States of a worker: started; up, after READY; gone. A worker that is gone is
 * kept until its slots and allocations are unused. State `over`: no worker will
 * be started any more.
 */
#include "dist/launch/control_msg.h"
#include "dist/launch/rendezvous.h"
#include "gpu/export/export.h"
#include "gpulink_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	LOOK_MSEC = 1000,   /* interval of checks for late replies */
	BEGIN_MSEC = 60000, /* limit to get READY */
	/* a longer gap between checks: this process was stopped */
	STOPPED_MSEC = 5000,
	/* a worker that ends sooner is restarted after a pause */
	SHORT_MSEC = 5000,
	MESSAGES = 1000, /* received in a row */
	GONE_MOST = 1,	 /* workers that are gone and still have slots in use */
	PAUSE_MSEC = 1000,
	PAUSE_MOST = 60000,
};

struct ck_gpulink_worker *ck_gpulink_worker_now(const struct ck_gpulink *l)
{
	return l->workers && !l->workers->gone ? l->workers : NULL;
}

/* --- a worker ------------------------------------------------------------- */

static void worker_unmap(struct ck_gpulink_worker *m)
{
	if (m->memory)
		(void)munmap(m->memory, m->size);
	m->memory = NULL;
}

static void memories_free(struct ck_gpulink_memory *first)
{
	while (first) {
		struct ck_gpulink_memory *next = first->next;

		free(first);
		first = next;
	}
}

static void worker_free(struct ck_gpulink_worker *m)
{
	ck_fd_cleanup(&m->sock);
	worker_unmap(m);
	memories_free(m->requested);
	free(m->numbers);
	free(m);
}

static struct ck_gpulink_worker *worker_alloc(uint64_t pinned)
{
	uint64_t n = ck_min(pinned / ck_gpu_slot_size(), CK_GPU_SLOTS_MOST);
	struct ck_gpulink_worker *m =
		calloc(1, sizeof(*m) + n * sizeof(m->slots[0]));

	if (!m)
		return NULL;
	m->sock = -1;
	m->started = ck_msec_now();
	m->n = (uint32_t)n;
	m->size = n * ck_gpu_slot_size();
	return m;
}

static int worker_map(struct ck_gpulink_worker *m, int memory)
{
	void *at = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED,
			memory, 0);

	if (at == MAP_FAILED)
		return -errno;
	m->memory = at;
	for (uint32_t i = 0; i < m->n; i++) {
		ck_gpu_slot_at(m->memory, i, &m->slots[i].is);
		m->slots[i].worker = m;
	}
	return 0;
}

static int worker_start(struct ck_gpulink *l, struct ck_gpulink_worker *m)
{
	ck_auto_fd int memory = ck_rendezvous_memory(m->size);
	int ends[2], rc;

	if (memory < 0)
		return memory;
	rc = worker_map(m, memory);
	if (rc == 0)
		rc = ck_control_msg_sockets(ends);
	if (rc)
		return rc;
	m->sock = ends[0];
	rc = l->options.start(l->options.arg, ends[1], memory);
	close(ends[1]);
	return rc;
}

static void notify_failed(struct ck_gpulink *l, int err, const char *text)
{
	bool news;

	pthread_mutex_lock(&l->lock);
	news = l->reported && strcmp(l->text, text) != 0;
	l->err = err;
	(void)snprintf(l->text, sizeof(l->text), "%s", text);
	l->reported = true;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
	if (news)
		ck_log("no GPU is used: %s", ck_show(ck_str_from(text)));
}

/* Starts the next worker. */
static void start_next(struct ck_gpulink *l)
{
	struct ck_gpulink_worker *m = worker_alloc(l->options.pinned);
	int rc = m ? worker_start(l, m) : -ENOMEM;

	l->next = ck_msec_now() + l->pause;
	l->pause = (uint32_t)ck_min(l->pause * 2UL, PAUSE_MOST);
	if (rc) {
		if (m)
			worker_free(m);
		notify_failed(l, -rc,
			      rc == -EPIPE ? "what starts its process has ended"
					   : strerror(-rc));
		return;
	}
	pthread_mutex_lock(&l->lock);
	m->next = l->workers;
	l->workers = m;
	pthread_mutex_unlock(&l->lock);
}

/* --- messages of the worker ----------------------------------------------- */

static void worker_ready(struct ck_gpulink *l, struct ck_gpulink_worker *m,
			 const char *devices)
{
	bool again;

	pthread_mutex_lock(&l->lock);
	m->up = true;
	l->err = 0;
	again = l->reported;
	l->reported = true;
	(void)snprintf(l->text, sizeof(l->text), "%s", devices);
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
	if (again)
		ck_log("GPUs are used again: %s", devices);
}

/* If there is no driver at the start of the mount, no other worker is
 * started. */
static void worker_failed(struct ck_gpulink *l,
			  const struct ck_gpu_message *message)
{
	pthread_mutex_lock(&l->lock);
	l->over = !l->reported && message->rc == -ENOENT;
	pthread_mutex_unlock(&l->lock);
	notify_failed(l, message->rc < 0 ? -message->rc : EIO, message->text);
}

/* Returns 0; -EAGAIN if there is no message; or another errno if the worker is
 * gone. */
static int receive_one(struct ck_gpulink *l, struct ck_gpulink_worker *m)
{
	struct ck_gpu_message message;
	int rc = ck_gpu_take(m->sock, &message, NULL);

	if (rc)
		return rc;
	switch (message.kind) {
	case CK_GPU_READY: worker_ready(l, m, message.text); return 0;
	case CK_GPU_FAILED: worker_failed(l, &message); return -EIO;
	case CK_GPU_DONE: return ck_gpulink_done(l, m, &message);
	case CK_GPU_ALLOCATED: return ck_gpulink_allocated(l, m, &message);
	case CK_GPU_JOINED: ck_gpulink_handle_joined(l, m, &message); return 0;
	case CK_GPU_ABSENT: ck_gpulink_handle_absent(l, &message); return 0;
	case CK_GPU_TURNS: return 0;
	default: return -EPROTO;
	}
}

/* The worker is not used any more, and its messages are ignored. A worker that
 * has served requests is replaced at once, unless it ended soon after its
 * start. */
static void worker_gone(struct ck_gpulink *l, struct ck_gpulink_worker *m)
{
	uint64_t now = ck_msec_now();
	bool worked;

	pthread_mutex_lock(&l->lock);
	worked = m->worked;
	m->gone = true;
	m->up = false;
	ck_gpulink_requests_end(l, m);
	ck_gpulink_job_lost(l);
	pthread_mutex_unlock(&l->lock);
	ck_fd_cleanup(&m->sock);
	if (!worked)
		return;
	l->pause = PAUSE_MSEC;
	l->next = now - m->started > SHORT_MSEC ? 0 : now + PAUSE_MSEC;
}

static void receive(struct ck_gpulink *l, struct ck_gpulink_worker *m)
{
	unsigned left = MESSAGES;
	int rc;

	do
		rc = receive_one(l, m);
	while (rc == 0 && --left);
	if (left < MESSAGES)
		ck_gpulink_received(l, m);
	if (rc == 0 || rc == -EAGAIN)
		return;
	if (rc != -EIO)
		notify_failed(l, EIO, "its process has ended");
	worker_gone(l, m);
}

/* --- workers that are gone ------------------------------------------------ */

/* Frees workers that are gone and unused. */
static void free_unused(struct ck_gpulink *l)
{
	struct ck_gpulink_worker **at = &l->workers, *unused = NULL;

	pthread_mutex_lock(&l->lock);
	while (*at) {
		struct ck_gpulink_worker *m = *at;

		if (m->gone && !m->used)
			worker_unmap(m);
		if (!m->gone || m->used || m->memories) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		m->next = unused;
		unused = m;
	}
	pthread_mutex_unlock(&l->lock);
	while (unused) {
		struct ck_gpulink_worker *next = unused->next;

		worker_free(unused);
		unused = next;
	}
}

/* Completes and frees as much as possible. True if the worker's socket is full,
 * so that more must be sent later. */
static bool clear_away(struct ck_gpulink *l)
{
	bool full;

	ck_gpulink_clear(l);
	full = ck_gpulink_send_released(l);
	free_unused(l);
	return full;
}

/* A worker that exceeds a limit is given up. */
static void check_overdue(struct ck_gpulink *l, struct ck_gpulink_worker *m)
{
	uint64_t now = ck_msec_now(), gap = now - l->last_check;
	bool begins;

	if (gap < LOOK_MSEC)
		return;
	pthread_mutex_lock(&l->lock);
	begins = !m->up;
	/* This process was stopped, and possibly the worker, too. */
	if (l->last_check && gap > STOPPED_MSEC)
		ck_gpulink_forgive(m, gap, now);
	pthread_mutex_unlock(&l->lock);
	l->last_check = now;
	if (begins && now - m->started < BEGIN_MSEC)
		return;
	if (!begins && !ck_gpulink_is_overdue(l, m))
		return;
	notify_failed(l, EIO, "it does not answer");
	worker_gone(l, m);
}

/* A worker that is gone keeps its memory while slots of it are in use. */
static bool may_start(struct ck_gpulink *l)
{
	unsigned gone = 0;

	pthread_mutex_lock(&l->lock);
	for (const struct ck_gpulink_worker *m = l->workers; m; m = m->next)
		gone += m->used > 0;
	pthread_mutex_unlock(&l->lock);
	return gone <= GONE_MOST && ck_msec_now() >= l->next;
}

/* --- the thread ------------------------------------------------------------------------ */

/* The worker in use, or NULL; *ending: no request will be sent to any
 * worker. */
static struct ck_gpulink_worker *present(struct ck_gpulink *l, bool *ending)
{
	struct ck_gpulink_worker *m;

	pthread_mutex_lock(&l->lock);
	m = ck_gpulink_worker_now(l);
	*ending = l->ending || l->over;
	pthread_mutex_unlock(&l->lock);
	return m;
}

static int wait_msec(const struct ck_gpulink *l,
		     const struct ck_gpulink_worker *m)
{
	uint64_t now = ck_msec_now();

	if (m || l->next <= now)
		return LOOK_MSEC;
	return (int)ck_min(l->next - now, LOOK_MSEC);
}

static void *run(void *arg)
{
	struct ck_gpulink *l = arg;
	struct pollfd fds[] = { { .fd = l->wake, .events = POLLIN },
				{ .events = POLLIN } };
	struct ck_gpulink_worker *m;
	eventfd_t n;
	bool ending, full = false;

	for (m = present(l, &ending); !ending; m = present(l, &ending)) {
		if (!m && may_start(l)) {
			start_next(l);
			continue;
		}
		fds[1].fd = m ? m->sock : -1;
		fds[1].events = full ? POLLIN | POLLOUT : POLLIN;
		fds[1].revents = 0;
		(void)poll(fds, CK_ARRAY_SIZE(fds), wait_msec(l, m));
		if (fds[0].revents)
			(void)eventfd_read(l->wake, &n);
		if (fds[1].revents)
			receive(l, m);
		m = present(l, &ending);
		if (m) {
			ck_gpulink_hand_over(l, m);
			check_overdue(l, m);
		}
		full = clear_away(l);
	}
	return NULL;
}

/* --- creation and end ----------------------------------------------------- */

/* Starts the thread, unless no GPU can be used. */
static int begin(struct ck_gpulink *l)
{
	int rc;

	l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake < 0)
		return -errno;
	if (l->options.none) {
		l->over = true;
		notify_failed(l, ENOENT, l->options.none);
		return 0;
	}
	rc = ck_thread_start_init(&l->thread, &l->options.thread_init, run, l);
	l->started = rc == 0;
	return rc;
}

int ck_gpulink_make(const struct ck_gpulink_options *options,
		    struct ck_gpulink **out)
{
	struct ck_gpulink *l;
	int rc;

	if (options->pinned < ck_gpu_slot_size())
		return -EINVAL;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->is = (struct ck_gather_engine){
		.segment = CK_GPU_PIECE,
		.take = ck_gpulink_take,
		.start = ck_gpulink_start,
		.interrupt = ck_gpulink_interrupt,
		.put = ck_gpulink_put,
		.allocate = ck_gpulink_allocate,
		.release = ck_gpulink_release,
		.holds = ck_gpulink_holds,
		.exports = &ck_gpu_exports,
	};
	l->options = *options;
	l->pause = PAUSE_MSEC;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	l->job.link_fds = (struct ck_rendezvous_link)CK_RENDEZVOUS_NO_LINK;
	rc = begin(l);
	if (rc) {
		ck_fd_cleanup(&l->wake);
		free(l);
		return rc;
	}
	*out = l;
	return 0;
}

void ck_gpulink_free(struct ck_gpulink *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->ending = true;
	pthread_mutex_unlock(&l->lock);
	(void)eventfd_write(l->wake, 1);
	if (l->started)
		pthread_join(l->thread, NULL);
	memories_free(l->released);
	while (l->workers) {
		struct ck_gpulink_worker *next = l->workers->next;

		worker_free(l->workers);
		l->workers = next;
	}
	ck_fd_cleanup(&l->wake);
	ck_gpulink_job_fini(&l->job);
	pthread_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

int ck_gpulink_wait(struct ck_gpulink *l, uint32_t msec, struct ck_diag *d)
{
	struct timespec end = ck_time_in(CLOCK_REALTIME, msec);
	int rc = 0;

	pthread_mutex_lock(&l->lock);
	while (!l->reported && rc == 0)
		rc = pthread_cond_timedwait(&l->changed, &l->lock, &end);
	if (!l->reported)
		rc = ck_fail(d, ETIMEDOUT, "they do not answer");
	else
		rc = l->err ? ck_fail(d, l->err, "%s", l->text) : 0;
	pthread_mutex_unlock(&l->lock);
	return rc;
}

bool ck_gpulink_is_over(struct ck_gpulink *l)
{
	bool over;

	pthread_mutex_lock(&l->lock);
	over = l->over;
	pthread_mutex_unlock(&l->lock);
	return over;
}

struct ck_gather_engine *ck_gpulink_gather_engine(struct ck_gpulink *l)
{
	return &l->is;
}
