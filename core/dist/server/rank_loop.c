/* SPDX-License-Identifier: MIT */
/*
 * rank_loop: runs one rank (serve.h). The messaging thread receives requests,
 * sends replies and forwards messages. Worker threads take queued requests,
 * read files and make replies. Small reads of cached files are answered by the
 * messaging thread itself.
 *
 * The loop ends when the last mount is gone, the stop descriptor is readable,
 * or another rank ends the job (ck_serve_until).
 */
#include "dist/dist_internal.h"
#include "rank_loop_internal.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	WATCH_MSEC = 1000, /* how often ranks with a mount are checked */
	/* limit of unsent bytes to the process of rounds */
	ROUNDS_WAITING = 8 << 20,
};

/* --- requests ------------------------------------------------------------------------------ */

bool ck_serve_is_full(const struct ck_serve *s, uint32_t sender)
{
	return ck_request_queue_are_too_many(s, sender) ||
	       ck_frames_waiting(s->ends[sender].frames) > s->share ||
	       (sender == CK_FROM_ROUNDS && ck_serve_rounds_wait(s));
}

static void answer_without(const struct ck_message *m, uint32_t err,
			   struct ck_answer *out)
{
	*out = (struct ck_answer){ .head = { .type = m->head.type,
					     .answer = true,
					     .err = err,
					     .id = m->head.id,
					     .epoch = m->head.epoch } };
}

/* Answers a request in the messaging thread if that does not block. A PING is
 * always answered at once, so that a busy rank does not look dead. */
static bool answer_now(struct ck_serve *s, struct ck_serve_job *j)
{
	struct ck_file_server *owner = s->options->owner;

	if (j->request.head.type == CK_WIRE_PING) {
		answer_without(&j->request, 0, &j->answer);
		return true;
	}
	if (!owner || !ck_file_server_is_quick(owner, &j->request, j->cost) ||
	    !ck_request_queue_has_memory(s, j) ||
	    !ck_file_server_answer_now(owner, &j->request, j->cost, &j->answer))
		return false;
	ck_request_queue_count(s, j);
	return true;
}

static void pass_in(struct ck_serve *s, struct ck_serve_job *j)
{
	if (answer_now(s, j))
		ck_serve_answer(s, j);
	else
		ck_request_queue_add(s, j);
}

/* A link with too many requests is not read for a while; a rank with too many
 * breaks the protocol. */
int ck_serve_request(struct ck_serve *s, uint32_t sender, uint64_t place,
		     uint64_t room, const struct ck_message *m)
{
	struct ck_serve_job *j;
	uint64_t cost;
	int rc = ck_file_server_cost(m, &cost);

	if (rc)
		return rc;
	if (sender >= CK_FROM_RANK && ck_request_queue_are_too_many(s, sender))
		return -EPROTO;
	j = ck_serve_job_make(s, sender, m);
	if (!j)
		return -ENOMEM;
	j->place = place;
	j->room = room;
	j->cost = cost;
	pass_in(s, j);
	return 0;
}

/* --- threads that read files --------------------------------------------------------------- */

static void work(struct ck_serve *s, struct ck_serve_job *j)
{
	if (!s->options->owner)
		answer_without(&j->request, ENODATA, &j->answer);
	else
		/* -EPROTO cannot happen: ck_serve_request() has parsed it */
		j->rc = ck_file_server_answer(s->options->owner, &j->request,
					      &j->answer);
}

/* Must hold the lock. */
static void work_over(struct ck_serve *s, struct ck_serve_job *j)
{
	if (j->request.head.type == CK_WIRE_STAT) {
		s->stat_running = false;
		ck_request_queue_call(s);
	}
	/* The messaging thread takes all answered requests at once. */
	if (!s->answered.first)
		ck_serve_wake(s);
	ck_request_queue_append(&s->answered, j);
}

bool ck_serve_work(struct ck_serve *s)
{
	struct ck_serve_job *j = ck_request_queue_next(s);

	if (!j)
		return false;
	/* Another request may be ready for another worker. */
	ck_request_queue_call(s);
	pthread_mutex_unlock(&s->lock);
	work(s, j);
	pthread_mutex_lock(&s->lock);
	work_over(s, j);
	return true;
}

static void *worker_run(void *arg)
{
	struct ck_serve *s = arg;

	pthread_mutex_lock(&s->lock);
	while (!s->ending)
		if (!ck_serve_work(s))
			pthread_cond_wait(&s->more, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static void workers_end(struct ck_serve *s)
{
	pthread_mutex_lock(&s->lock);
	s->ending = true;
	pthread_cond_broadcast(&s->more);
	pthread_mutex_unlock(&s->lock);
	for (unsigned i = 0; i < s->nworkers; i++)
		pthread_join(s->workers[i], NULL);
}

static int workers_start(struct ck_serve *s)
{
	int rc = 0;

	s->workers = calloc(s->options->threads, sizeof(*s->workers));
	if (!s->workers)
		return -ENOMEM;
	while (s->nworkers < s->options->threads && rc == 0) {
		rc = ck_thread_start(&s->workers[s->nworkers], worker_run, s);
		s->nworkers += rc == 0;
	}
	return s->nworkers ? 0 : rc;
}

/* --- the messaging thread ------------------------------------------------- */

void ck_serve_wake(struct ck_serve *s)
{
	if (s->options->xport)
		s->options->xport->wake(s->options->xport);
	else
		ck_event_wake(s->event);
}

static void answers_send(struct ck_serve *s)
{
	struct ck_serve_job *j;

	do {
		pthread_mutex_lock(&s->lock);
		j = ck_request_queue_take(&s->answered);
		pthread_mutex_unlock(&s->lock);
		if (j && j->rc)
			ck_serve_job_free(s, j); /* no reply; see work() */
		else if (j)
			ck_serve_answer(s, j);
	} while (j);
}

static struct pollfd link_poll(const struct ck_serve *s, uint32_t sender)
{
	const struct ck_frames *frames = s->ends[sender].frames;
	short events = ck_serve_is_full(s, sender) ? 0 : POLLIN;

	if (ck_frames_waiting(frames))
		events |= POLLOUT;
	return (struct pollfd){ .fd = frames->fd, .events = events };
}

static bool watches(const struct ck_serve *s)
{
	return s->options->silence_msec &&
	       ck_mount_liveness_watch(&s->mounters);
}

/* Indices of the descriptors that are polled: each link has the index of its
 * sender. */
enum { STOP = CK_FROM_RANK, EVENT, WAITED };

/* Waits for messages, links, wake-ups and the stop descriptor. */
static int wait(struct ck_serve *s, struct pollfd fds[static WAITED])
{
	struct ck_transport *x = s->options->xport;

	for (uint32_t i = 0; i < CK_FROM_RANK; i++)
		fds[i] = link_poll(s, i);
	fds[STOP] = (struct pollfd){ .fd = s->options->stop, .events = POLLIN };
	fds[EVENT] = (struct pollfd){ .fd = s->event, .events = POLLIN };
	if (x)
		return x->wait(x, fds, EVENT, watches(s) ? WATCH_MSEC : -1);
	if (poll(fds, WAITED, -1) < 0 && errno != EINTR)
		return -errno;
	return 0;
}

static int turn_link(struct ck_serve *s, uint32_t sender,
		     const struct pollfd fds[static WAITED])
{
	int rc = s->ends[sender].rc;

	if (rc == 0 && fds[sender].revents)
		rc = ck_serve_link(s, sender, fds[sender].revents);
	return rc;
}

/* Handles the events that wait() returned. */
static int turn(struct ck_serve *s, const struct pollfd fds[static WAITED])
{
	int rc;

	if (fds[EVENT].revents)
		(void)ck_event_drain(s->event);
	answers_send(s);
	if (turn_link(s, CK_FROM_ROUNDS, fds))
		ck_serve_rounds_end(s);
	rc = turn_link(s, CK_FROM_LINK, fds);
	if (rc == -EPIPE) {
		ck_serve_link_end(s);
		rc = 0;
	}
	ck_request_queue_note_unsent(s);
	return rc;
}

void ck_serve_unmounted(struct ck_serve *s, uint32_t rank)
{
	s->over |= ck_mount_liveness_gone(&s->mounters, rank) &&
		   s->mounters.left == 0;
}

static void watch(struct ck_serve *s)
{
	if (watches(s) &&
	    ck_mount_liveness_expire(&s->mounters, ck_msec_now(),
				     s->options->silence_msec, 2 * WATCH_MSEC))
		s->over |= s->mounters.left == 0 ||
			   s->options->until == CK_UNTIL_LOST;
}

static int loop(struct ck_serve *s)
{
	struct pollfd fds[WAITED] = { 0 };
	int rc = 0;

	while (rc == 0 && !s->over) {
		rc = wait(s, fds);
		if (rc == 0 && fds[STOP].revents) {
			ck_serve_notify(s, CK_WIRE_OVER);
			return 0;
		}
		if (rc == 0)
			rc = turn(s, fds);
		watch(s);
	}
	return rc;
}

static void end_fini(struct ck_serve_end *e)
{
	if (e->frames)
		ck_frames_fini(e->frames);
	free(e->frames);
	if (e->memory)
		munmap(e->memory, e->size);
}

static void fini(struct ck_serve *s)
{
	if (s->options->ending)
		s->options->ending(s->options->arg);
	ck_serve_notify_end(s);
	workers_end(s);
	if (s->options->xport)
		s->options->xport->close(s->options->xport);
	ck_request_queue_fini(s);
	ck_forward_table_fini(&s->passed);
	ck_mount_liveness_fini(&s->mounters);
	free(s->workers);
	for (uint32_t i = 0; i < CK_FROM_RANK; i++)
		end_fini(&s->ends[i]);
	if (s->event >= 0)
		close(s->event);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->more);
}

static int mounters_init(struct ck_serve *s, uint32_t size)
{
	const struct ck_serve_options *o = s->options;
	uint32_t self = o->xport ? o->xport->rank : 0;
	ck_auto_free bool *linked = calloc(size, sizeof(*linked));

	if (!linked)
		return -ENOMEM;
	linked[self] = o->link >= 0;
	return ck_mount_liveness_init(&s->mounters, size, self,
				      o->mounts ? o->mounts : linked,
				      ck_msec_now());
}

static int end_init(struct ck_serve_end *e, int fd, int memory, uint64_t size,
		    uint64_t most)
{
	e->frames->fd = fd;
	e->size = size;
	e->most = most;
	return fd < 0 ? 0 : ck_link_map(memory, size, &e->memory);
}

static int init(struct ck_serve *s)
{
	const struct ck_serve_options *o = s->options;
	const struct ck_serve_rounds *r = &o->rounds;
	uint32_t size = o->xport ? o->xport->size : 1;
	int rc = o->threads ? ck_request_queue_init(s) : -EINVAL;

	if (rc == 0)
		rc = ck_forward_table_init(&s->passed, size);
	if (rc == 0)
		rc = mounters_init(s, size);
	s->event = ck_event_make();
	if (rc || s->event < 0)
		return rc ? rc : s->event;
	rc = end_init(&s->ends[CK_FROM_LINK], o->link, o->memory, o->size,
		      UINT64_MAX);
	if (rc)
		return rc;
	return end_init(&s->ends[CK_FROM_ROUNDS], r->link, r->memory, r->size,
			ROUNDS_WAITING);
}

/* Frames exist for both links, also if a link is not open. */
static int frames_make(struct ck_serve *s)
{
	bool all = true;

	for (uint32_t i = 0; i < CK_FROM_RANK; i++) {
		struct ck_frames **f = &s->ends[i].frames;

		*f = calloc(1, sizeof(**f));
		all &= *f != NULL;
	}
	return all ? 0 : -ENOMEM;
}

int ck_serve_run(const struct ck_serve_options *options)
{
	struct ck_serve s = { .options = options, .event = -1 };
	int rc;

	pthread_mutex_init(&s.lock, NULL);
	pthread_cond_init(&s.more, NULL);
	rc = frames_make(&s);
	if (rc == 0)
		rc = init(&s);
	if (rc == 0)
		rc = workers_start(&s);
	if (rc == 0) {
		ck_serve_join(&s);
		ck_serve_rounds_begin(&s);
		rc = loop(&s);
	}
	fini(&s);
	return rc;
}
