/* SPDX-License-Identifier: MIT */
/*
 * request_queue: requests that this rank answers, from arrival until the reply
 * is sent. Each sender has two queues (STATs, other requests) and a share of
 * the memory for replies. Workers serve senders and queues round-robin.
 *
 * Under ck_serve.lock: queues, used memory. Messaging thread only: the numbers
 * of unanswered requests.
 */
#include "rank_loop_internal.h"

/* --- requests ------------------------------------------------------------- */

struct ck_serve_job *ck_serve_job_make(struct ck_serve *s, uint32_t sender,
				       const struct ck_message *m)
{
	struct ck_serve_job *j = calloc(1, sizeof(*j) + m->head.body);
	char *body = (char *)(j + 1);

	if (!j)
		return NULL;
	if (m->head.body)
		memcpy(body, m->body.p, m->head.body);
	j->request.head = m->head;
	j->request.body = (struct ck_str){ body, m->head.body };
	j->sender = sender;
	s->senders[sender].open++;
	s->senders[sender].asked += m->head.body;
	return j;
}

/* Must hold the lock. */
static void note_unsent(struct ck_serve *s)
{
	for (uint32_t i = 0; i < CK_FROM_RANK; i++)
		s->senders[i].unsent = ck_frames_waiting(s->ends[i].frames);
	ck_request_queue_call(s);
}

void ck_serve_job_free(struct ck_serve *s, struct ck_serve_job *j)
{
	struct ck_serve_sender *sender = &s->senders[j->sender];

	ck_answer_fini(&j->answer);
	sender->open--;
	sender->asked -= j->request.head.body;
	pthread_mutex_lock(&s->lock);
	sender->used -= j->counted ? j->cost : 0;
	note_unsent(s);
	pthread_mutex_unlock(&s->lock);
	free(j);
}

/* --- queues ------------------------------------------------------------------------ */

void ck_request_queue_append(struct ck_serve_jobs *q, struct ck_serve_job *j)
{
	j->next = NULL;
	*(q->first ? &q->last->next : &q->first) = j;
	q->last = j;
}

struct ck_serve_job *ck_request_queue_take(struct ck_serve_jobs *q)
{
	struct ck_serve_job *j = q->first;

	if (j)
		q->first = j->next;
	return j;
}

static enum ck_serve_queue queue_of(const struct ck_serve_job *j)
{
	return j->request.head.type == CK_WIRE_STAT ? CK_QUEUE_STATS
						    : CK_QUEUE_OTHERS;
}

void ck_request_queue_call(struct ck_serve *s)
{
	if (s->waiting)
		pthread_cond_signal(&s->more);
}

void ck_request_queue_add(struct ck_serve *s, struct ck_serve_job *j)
{
	pthread_mutex_lock(&s->lock);
	j->number = s->last_number++;
	ck_request_queue_append(&s->senders[j->sender].waiting[queue_of(j)], j);
	s->waiting++;
	ck_request_queue_call(s);
	pthread_mutex_unlock(&s->lock);
}

/* --- order; must hold the lock -------------------------------------------- */

/* True if the sender's share has room for the reply. A sender that uses no
 * memory may exceed its share by one reply. */
static bool has_memory(const struct ck_serve *s, const struct ck_serve_job *j)
{
	const struct ck_serve_sender *sender = &s->senders[j->sender];
	uint64_t used = sender->used + sender->unsent;

	return used == 0 || used + j->cost <= s->share;
}

bool ck_request_queue_has_memory(struct ck_serve *s,
				 const struct ck_serve_job *j)
{
	const struct ck_serve_sender *sender = &s->senders[j->sender];
	bool has = true;

	pthread_mutex_lock(&s->lock);
	for (unsigned q = 0; q < CK_SERVE_QUEUES; q++)
		has &= !sender->waiting[q].first ||
		       has_memory(s, sender->waiting[q].first);
	has &= has_memory(s, j);
	pthread_mutex_unlock(&s->lock);
	return has;
}

void ck_request_queue_count(struct ck_serve *s, struct ck_serve_job *j)
{
	pthread_mutex_lock(&s->lock);
	s->senders[j->sender].used += j->cost;
	j->counted = true;
	pthread_mutex_unlock(&s->lock);
}

/* True if j would take memory that an older request of its sender, in the other
 * queue, is waiting for. */
static bool is_ahead(const struct ck_serve *s, const struct ck_serve_job *j,
		     enum ck_serve_queue q)
{
	const struct ck_serve_sender *sender = &s->senders[j->sender];
	const struct ck_serve_job *other =
		sender->waiting[q == CK_QUEUE_STATS ? CK_QUEUE_OTHERS
						    : CK_QUEUE_STATS]
			.first;

	return other && other->number < j->number && !has_memory(s, other);
}

static struct ck_serve_job *begin(struct ck_serve *s, enum ck_serve_queue q,
				  uint32_t sender)
{
	struct ck_serve_job *j =
		ck_request_queue_take(&s->senders[sender].waiting[q]);

	s->waiting--;
	s->senders[sender].used += j->cost;
	j->counted = true;
	s->turn[q] = (sender + 1) % s->nsenders;
	s->stat_running |= q == CK_QUEUE_STATS;
	return j;
}

static struct ck_serve_job *next_of(struct ck_serve *s, enum ck_serve_queue q)
{
	if (q == CK_QUEUE_STATS && s->stat_running)
		return NULL;
	for (uint32_t i = 0; i < s->nsenders; i++) {
		uint32_t sender = (s->turn[q] + i) % s->nsenders;
		const struct ck_serve_job *j =
			s->senders[sender].waiting[q].first;

		if (j && has_memory(s, j) && !is_ahead(s, j, q))
			return begin(s, q, sender);
	}
	return NULL;
}

/* Queues alternate, so that a single worker serves both. */
struct ck_serve_job *ck_request_queue_next(struct ck_serve *s)
{
	enum ck_serve_queue q = s->next_queue;
	enum ck_serve_queue other = q == CK_QUEUE_STATS ? CK_QUEUE_OTHERS
							: CK_QUEUE_STATS;
	struct ck_serve_job *j = next_of(s, q);

	if (!j)
		return next_of(s, other);
	s->next_queue = other;
	return j;
}

/* --- all requests of a sender --------------------------------------------- */

static void free_all(struct ck_serve *s, struct ck_serve_jobs q)
{
	struct ck_serve_job *j;

	while ((j = ck_request_queue_take(&q)))
		ck_serve_job_free(s, j);
}

void ck_request_queue_forget(struct ck_serve *s, uint32_t sender)
{
	for (unsigned q = 0; q < CK_SERVE_QUEUES; q++) {
		struct ck_serve_jobs *waiting = &s->senders[sender].waiting[q];
		struct ck_serve_jobs all;

		pthread_mutex_lock(&s->lock);
		all = *waiting;
		for (const struct ck_serve_job *j = all.first; j; j = j->next)
			s->waiting--;
		*waiting = (struct ck_serve_jobs){ 0 };
		pthread_mutex_unlock(&s->lock);
		free_all(s, all);
	}
}

/* Twice the limit of the protocol: a new request may arrive before this rank
 * has been notified that a reply was sent. */
bool ck_request_queue_are_too_many(const struct ck_serve *s, uint32_t sender)
{
	const struct ck_serve_sender *from = &s->senders[sender];

	return from->open > 2 * CK_WIRE_OPEN_MAX ||
	       from->asked > 2 * CK_WIRE_BODIES_MAX;
}

void ck_request_queue_note_unsent(struct ck_serve *s)
{
	pthread_mutex_lock(&s->lock);
	note_unsent(s);
	pthread_mutex_unlock(&s->lock);
}

/* --- creation and end ----------------------------------------------------- */

int ck_request_queue_init(struct ck_serve *s)
{
	const struct ck_serve_options *o = s->options;
	uint32_t ranks = o->xport ? o->xport->size : 1;
	uint64_t askers = ranks - 1UL + (o->link >= 0) + (o->rounds.link >= 0);

	s->nsenders = CK_FROM_RANK + ranks;
	s->share = ck_max(o->memory_most / ck_max(askers, 1), CK_WIRE_READ_MAX);
	s->senders = calloc(s->nsenders, sizeof(*s->senders));
	return s->senders ? 0 : -ENOMEM;
}

void ck_request_queue_fini(struct ck_serve *s)
{
	for (uint32_t i = 0; s->senders && i < s->nsenders; i++)
		ck_request_queue_forget(s, i);
	free_all(s, s->answered);
	free(s->senders);
}
