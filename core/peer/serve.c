/* SPDX-License-Identifier: MIT */
/*
 * serve: see serve.h. A request becomes a job; jobs wait until there is memory for their
 * answers, are answered by threads, and what they made is sent by the one thread that
 * carries messages.
 */
#include "serve_internal.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ASKED_MAX = 4 << 20 }; /* bytes of requests that wait */

/* --- jobs -------------------------------------------------------------------------------- */

void ck_job_free(struct ck_serve *s, struct ck_serve_job *j)
{
	s->memory_used -= j->cost;
	ck_answer_fini(&j->answer);
	free(j);
}

static uint64_t job_bytes(const struct ck_serve_job *j)
{
	return sizeof(*j) + j->request.head.body;
}

/* Copies the request, behind the job. */
static struct ck_serve_job *job_make(const struct ck_message *m)
{
	struct ck_serve_job *j = calloc(1, sizeof(*j) + m->head.body);
	char *body = (char *)(j + 1);

	if (!j)
		return NULL;
	if (m->head.body)
		memcpy(body, m->body.p, m->head.body);
	j->request.head = m->head;
	j->request.body = (struct ck_str){ body, m->head.body };
	return j;
}

static void append(struct ck_serve_jobs *q, struct ck_serve_job *j)
{
	j->next = NULL;
	*(q->first ? &q->last->next : &q->first) = j;
	q->last = j;
}

static struct ck_serve_job *take(struct ck_serve_jobs *q)
{
	struct ck_serve_job *j = q->first;

	if (j)
		q->first = j->next;
	return j;
}

/* Whether there is memory for its answer. */
static bool has_memory(const struct ck_serve *s, const struct ck_serve_job *j)
{
	uint64_t used = s->memory_used + ck_frames_waiting(s->frames);

	return used == 0 || used + j->cost <= s->options->memory_most;
}

/* Hands over those for whose answers there is memory. */
static void hand_over(struct ck_serve *s)
{
	struct ck_serve_job *j;

	while ((j = s->waiting.first) && has_memory(s, j)) {
		(void)take(&s->waiting);
		s->asked -= job_bytes(j);
		s->memory_used += j->cost;
		pthread_mutex_lock(&s->lock);
		append(&s->todo, j);
		pthread_cond_signal(&s->more);
		pthread_mutex_unlock(&s->lock);
	}
}

bool ck_serve_is_full(const struct ck_serve *s)
{
	return s->asked > ASKED_MAX ||
	       ck_frames_waiting(s->frames) > s->options->memory_most;
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

/* That this rank is there is said at once, however much else it has to do. */
static void pass_in(struct ck_serve *s, struct ck_serve_job *j)
{
	if (j->request.head.type == CK_WIRE_PING) {
		answer_without(&j->request, 0, &j->answer);
		s->memory_used += j->cost;
		ck_serve_answer(s, j);
		return;
	}
	s->asked += job_bytes(j);
	append(&s->waiting, j);
	hand_over(s);
}

int ck_serve_ask(struct ck_serve *s, int64_t from, uint64_t place,
		 uint64_t room, const struct ck_message *m)
{
	struct ck_serve_job *j;
	uint64_t cost;
	int rc = ck_data_owner_cost(m, &cost);

	if (rc)
		return rc;
	j = job_make(m);
	if (!j)
		return -ENOMEM;
	j->from = from;
	j->place = place;
	j->room = room;
	j->cost = cost;
	pass_in(s, j);
	return 0;
}

/* --- threads that read files --------------------------------------------------------------- */

/* Names are looked at by one at a time. */
static void work(struct ck_serve *s, struct ck_serve_job *j)
{
	bool look = j->request.head.type == CK_WIRE_LOOK;

	if (!s->options->owner) {
		answer_without(&j->request, ENODATA, &j->answer);
		return;
	}
	if (look)
		pthread_mutex_lock(&s->look_lock);
	/* That it parses was found when its cost was asked for. */
	j->rc = ck_data_owner_answer(s->options->owner, &j->request,
				     &j->answer);
	if (look)
		pthread_mutex_unlock(&s->look_lock);
}

static void *worker_run(void *arg)
{
	struct ck_serve *s = arg;
	struct ck_serve_job *j;

	pthread_mutex_lock(&s->lock);
	while (!s->ending) {
		j = take(&s->todo);
		if (!j) {
			pthread_cond_wait(&s->more, &s->lock);
			continue;
		}
		pthread_mutex_unlock(&s->lock);
		work(s, j);
		pthread_mutex_lock(&s->lock);
		append(&s->answered, j);
		ck_serve_wake(s);
	}
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

/* --- the thread that carries messages --------------------------------------------------------- */

void ck_serve_wake(struct ck_serve *s)
{
	uint64_t one = 1;

	if (s->options->xport)
		s->options->xport->wake(s->options->xport);
	else if (write(s->event, &one, sizeof(one)) < 0)
		return; /* it is awake */
}

static void answers_send(struct ck_serve *s)
{
	struct ck_serve_job *j;

	do {
		pthread_mutex_lock(&s->lock);
		j = take(&s->answered);
		pthread_mutex_unlock(&s->lock);
		if (j && j->rc)
			ck_job_free(s, j); /* as if it had never come */
		else if (j)
			ck_serve_answer(s, j);
	} while (j);
	hand_over(s);
}

static short link_events(const struct ck_serve *s)
{
	short events = ck_serve_is_full(s) ? 0 : POLLIN;

	return ck_frames_waiting(s->frames) ? (short)(events | POLLOUT)
					    : events;
}

/* Waits for what happens next. */
static int wait(struct ck_serve *s, struct pollfd fds[static 3])
{
	struct ck_xport *x = s->options->xport;

	fds[0] = (struct pollfd){ .fd = s->options->stop, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = s->frames->fd,
				  .events = link_events(s) };
	fds[2] = (struct pollfd){ .fd = s->event, .events = POLLIN };
	if (x)
		return x->wait(x, fds, 2, -1);
	if (poll(fds, 3, -1) < 0 && errno != EINTR)
		return -errno;
	return 0;
}

/* What there is to do after wait(). */
static int turn(struct ck_serve *s, const struct pollfd fds[static 3])
{
	uint64_t count;
	int rc;

	if (fds[2].revents && read(s->event, &count, sizeof(count)) < 0)
		return 0;
	answers_send(s);
	rc = s->link_rc;
	if (rc == 0 && fds[1].revents)
		rc = ck_serve_link(s, fds[1].revents);
	hand_over(s);
	return rc;
}

static int loop(struct ck_serve *s)
{
	struct pollfd fds[3];
	int rc = 0;

	while (rc == 0) {
		rc = wait(s, fds);
		if (rc == 0 && fds[0].revents)
			return 0;
		if (rc == 0)
			rc = turn(s, fds);
	}
	return rc == -EPIPE ? 0 : rc;
}

static void jobs_free(struct ck_serve *s, struct ck_serve_jobs *q)
{
	struct ck_serve_job *j;

	while ((j = take(q)))
		ck_job_free(s, j);
}

static void fini(struct ck_serve *s)
{
	if (s->options->ending)
		s->options->ending(s->options->arg);
	workers_end(s);
	if (s->options->xport)
		s->options->xport->close(s->options->xport);
	/* The cost of those that wait was not counted yet. */
	for (struct ck_serve_job *j = s->waiting.first; j; j = j->next)
		j->cost = 0;
	jobs_free(s, &s->waiting);
	jobs_free(s, &s->todo);
	jobs_free(s, &s->answered);
	free(s->workers);
	ck_frames_fini(s->frames);
	free(s->frames);
	if (s->memory)
		munmap(s->memory, s->options->size);
	if (s->event >= 0)
		close(s->event);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->look_lock);
	pthread_cond_destroy(&s->more);
}

static int init(struct ck_serve *s)
{
	const struct ck_serve_options *o = s->options;
	void *p;

	s->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->event < 0)
		return -errno;
	s->frames->fd = o->link;
	if (o->link < 0)
		return 0;
	p = mmap(NULL, o->size, PROT_READ | PROT_WRITE, MAP_SHARED, o->memory,
		 0);
	if (p == MAP_FAILED)
		return -errno;
	s->memory = p;
	return 0;
}

int ck_serve_run(const struct ck_serve_options *options)
{
	struct ck_serve s = { .options = options,
			      .frames = calloc(1, sizeof(*s.frames)) };
	int rc;

	if (!s.frames)
		return -ENOMEM;
	pthread_mutex_init(&s.lock, NULL);
	pthread_mutex_init(&s.look_lock, NULL);
	pthread_cond_init(&s.more, NULL);
	rc = init(&s);
	if (rc == 0)
		rc = workers_start(&s);
	if (rc == 0) {
		ck_serve_join(&s);
		rc = loop(&s);
	}
	fini(&s);
	return rc;
}
