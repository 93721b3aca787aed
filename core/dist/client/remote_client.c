/* SPDX-License-Identifier: MIT */
/*
 * remote_client: the remote backend. An operation sorts its descriptors by
 * peer; those of one peer are a part, which becomes READ requests. When all
 * requests of a part are over, its failed descriptors become parts of the next
 * replicas, and so on. The operation completes when no part is in flight. A
 * request without a reply and without a further replica is sent once more as a
 * call that stays queued until the next connection.
 *
 * Threads: the caller of start() makes the first parts. The connection's thread
 * completes parts and makes the next ones.
 */
#include "remote_client.h"
#include "places.h"

#include <errno.h>

/* A batch of descriptors in flight. */
struct ck_remote_client_op {
	struct ck_remote_client_op *next,
		*prev; /* under ck_remote_client.lock */
	struct ck_remote_client *r;
	struct ck_copy_batch *batch;
	/* Under ck_remote_client.lock, once the parts are sent: */
	struct part *parts;
	size_t left; /* parts in flight */
};

/* How a part was made. */
struct attempt {
	uint32_t tries; /* locations that were tried before */
	/* its calls stay queued while the peer is down */
	bool keep_queued;
	/* Milliseconds of the deadline that its descriptors have used, at
	 * most. */
	uint64_t spent;
};

/* The descriptors that one peer serves. */
struct part {
	struct part *next;
	struct ck_remote_client_op *op;
	uint32_t peer;
	struct attempt attempt;
	/* The routes that it uses: */
	struct ck_calls *line;
	uint32_t generation;
	bool unanswered; /* a call has ended without a reply */
	/* Under ck_remote_client.lock: complete; `line` may be freed. */
	bool over;
	struct read_call *calls;
	size_t ncalls, cap;
	size_t left;	 /* calls in flight; of the connection's thread */
	uint32_t *index; /* by descriptor: its index in the batch */
	size_t n;
	/* Files have the peer's numbers. The memory of `index` follows. */
	struct ck_copy_desc list[];
};

struct read_call {
	struct ck_call call; /* first */
	struct part *part;
};

/* --- from descriptors to calls -------------------------------------------- */

static void parts_free(struct part *p)
{
	while (p) {
		struct part *next = p->next;

		for (size_t i = 0; i < p->ncalls; i++)
			ck_query_fini(&p->calls[i].call.query);
		free(p->calls);
		free(p);
		p = next;
	}
}

static void op_free(struct ck_remote_client_op *op)
{
	parts_free(op->parts);
	free(op);
}

static int call_done(struct ck_call *c, const struct ck_message *m, int rc);

static int add_call(struct part *p, struct ck_reads *reads)
{
	struct read_call *calls = ck_grow(p->calls, &p->cap, p->ncalls, 1,
					  sizeof(*calls));
	struct read_call *c;
	int rc;

	if (!calls)
		return -ENOMEM;
	p->calls = calls;
	c = &calls[p->ncalls];
	*c = (struct read_call){ .call.peer = p->peer,
				 .call.spent = p->attempt.spent,
				 .call.keep_queued = p->attempt.keep_queued,
				 .call.short_deadline =
					 p->op->batch->short_deadline,
				 .call.done = call_done,
				 .part = p };
	rc = ck_query_read(reads, &c->call.query);
	p->ncalls += rc == 0;
	return rc;
}

static int add_calls(struct part *p)
{
	struct ck_reads reads;
	int rc = 0;

	ck_reads_begin(&reads, p->list, p->n);
	while (rc == 0 && ck_reads_left(&reads))
		rc = add_call(p, &reads);
	p->left = p->ncalls;
	return rc;
}

/* Makes a part of n descriptors that have the same peer. NULL if out of
 * memory. */
static struct part *part_make(struct ck_remote_client_op *op,
			      const struct ck_sorted *order, size_t n,
			      struct attempt attempt)
{
	struct part *p = calloc(
		1, sizeof(*p) + n * (sizeof(p->list[0]) + sizeof(p->index[0])));

	if (!p)
		return NULL;
	p->op = op;
	p->peer = order[0].at.peer;
	p->attempt = attempt;
	p->line = op->r->routes.calls;
	p->generation = op->r->generation;
	p->n = n;
	p->index = (uint32_t *)(p->list + n);
	for (size_t i = 0; i < n; i++) {
		p->index[i] = order[i].index;
		p->list[i] = op->batch->list[order[i].index];
		p->list[i].file = order[i].at.number;
	}
	if (add_calls(p) == 0)
		return p;
	parts_free(p);
	return NULL;
}

/* Makes a part for each peer. Returns 0, or: -ENOMEM. */
static int parts_make(struct ck_remote_client_op *op, struct ck_sorted *order,
		      size_t n, struct attempt attempt, struct part **out)
{
	struct part **last = out;

	*out = NULL;
	ck_sort(order, n);
	for (size_t from = 0, end; from < n; from = end) {
		struct part *p;

		end = ck_sorted_end(order, from, n);
		if (order[from].at.peer == UINT32_MAX)
			break; /* descriptors without a peer are last */
		p = part_make(op, order + from, end - from, attempt);
		if (!p) {
			parts_free(*out);
			*out = NULL;
			return -ENOMEM;
		}
		*last = p;
		last = &p->next;
	}
	return 0;
}

/* Copies the results of a part to the batch. -EPROTO becomes -EIO: no file has
 * that error. If every replica fails, the first error stays. */
static void part_note(const struct part *p)
{
	for (size_t i = 0; i < p->n; i++) {
		int rc = p->list[i].rc == -EPROTO ? -EIO : p->list[i].rc;

		if (p->attempt.tries == 0 || rc == 0 || rc == -EINTR)
			p->op->batch->list[p->index[i]].rc = rc;
		if (p->attempt.tries && rc == 0 && p->op->r->stats)
			ck_count(&p->op->r->stats->copies, 1);
	}
}

/* Adds parts to the operation. A part without requests is complete at once. */
static void parts_add(struct ck_remote_client_op *op, struct part *list)
{
	struct part **end = &op->parts;

	for (struct part *p = list; p; p = p->next) {
		if (p->ncalls == 0)
			part_note(p);
		op->left += p->ncalls > 0;
	}
	while (*end)
		end = &(*end)->next;
	*end = list;
}

/* Makes an operation. Descriptors of files that no peer has now are -EIO, those
 * of unknown files -ENODATA; neither has a part. */
static struct ck_remote_client_op *op_make(struct ck_remote_client *r,
					   struct ck_copy_batch *batch)
{
	ck_auto_free struct ck_sorted *order = calloc(batch->n + 1,
						      sizeof(*order));
	struct ck_remote_client_op *op = calloc(1, sizeof(*op));
	struct part *parts;

	if (!order || !op) {
		free(op);
		return NULL;
	}
	op->r = r;
	op->batch = batch;
	for (size_t i = 0; i < batch->n; i++) {
		struct ck_copy_desc *m = &batch->list[i];

		m->rc = m->file < r->routes.n ? -EIO : -ENODATA;
		order[i] = ck_places_sorted(&r->routes, m, (uint32_t)i, 0);
	}
	if (parts_make(op, order, batch->n, (struct attempt){ 0 }, &parts)) {
		op_free(op);
		return NULL;
	}
	parts_add(op, parts);
	return op;
}

/* --- operations in flight ------------------------------------------------- */

static void link_in(struct ck_remote_client_op *op)
{
	struct ck_remote_client *r = op->r;

	op->next = r->first;
	if (op->next)
		op->next->prev = op;
	r->first = op;
}

static void link_out(struct ck_remote_client_op *op)
{
	if (op->prev)
		op->prev->next = op->next;
	else
		op->r->first = op->next;
	if (op->next)
		op->next->prev = op->prev;
}

static bool is_unwanted(const struct ck_copy_batch *batch)
{
	return __atomic_load_n(&batch->cancelled, __ATOMIC_ACQUIRE);
}

/* Must hold r->lock, so that no part completes the operation before all calls
 * are sent. */
static void send_all(const struct part *p)
{
	for (; p; p = p->next)
		for (size_t i = 0; i < p->ncalls; i++)
			ck_calls_send(p->line, &p->calls[i].call);
}

/* Must hold r->lock. */
static void drop_all(const struct ck_remote_client_op *op)
{
	for (const struct part *p = op->parts; p; p = p->next)
		for (size_t i = 0; i < p->ncalls && !p->over; i++)
			ck_calls_drop(p->line, &p->calls[i].call);
}

/* --- failover and retry --------------------------------------------------- */

/* True if another replica may have the bytes. */
static bool may_try_again(int rc)
{
	return rc && rc != -ENOMEM && rc != -EINTR;
}

static bool has_failed(const struct part *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (may_try_again(p->list[i].rc))
			return true;
	return false;
}

/* Makes parts of the failed descriptors at the next location of their files.
 * only_last: only those without a further replica. NULL if no descriptor
 * has one, or if out of memory. */
static struct part *parts_again(struct part *failed, struct attempt attempt,
				bool only_last)
{
	struct ck_remote_client_op *op = failed->op;
	ck_auto_free struct ck_sorted *order = calloc(failed->n,
						      sizeof(*order));
	struct part *parts;
	size_t n = 0;

	for (size_t i = 0; order && i < failed->n; i++) {
		uint32_t index = failed->index[i];
		uint32_t file = op->batch->list[index].file;
		struct ck_location next;

		if (!may_try_again(failed->list[i].rc) ||
		    (only_last &&
		     ck_places_find(&op->r->routes, file,
				    failed->attempt.tries + 1, &next)))
			continue;
		order[n++] = ck_places_sorted(&op->r->routes,
					      &op->batch->list[index], index,
					      attempt.tries);
	}
	if (n == 0 || parts_make(op, order, n, attempt, &parts))
		return NULL;
	return parts;
}

/* Fails descriptors of an interrupted operation that another replica could
 * serve. */
static void give_up(struct ck_remote_client_op *op, const struct part *p)
{
	for (; p; p = p->next)
		for (size_t i = 0; i < p->n; i++)
			op->batch->list[p->index[i]].rc = -EINTR;
}

static void ask_again(struct part *failed, struct attempt attempt,
		      bool only_last)
{
	struct ck_remote_client_op *op = failed->op;
	struct part *parts = parts_again(failed, attempt, only_last);

	if (parts && is_unwanted(op->batch)) {
		give_up(op, parts);
		parts_free(parts);
	} else if (parts) {
		parts_add(op, parts);
		send_all(parts);
	}
}

/* Retries a failed part: by new routes if they were replaced; else at the next
 * replicas; else at the same one with calls that stay queued. */
static void try_again(struct part *failed)
{
	struct attempt next = failed->attempt;

	if (!has_failed(failed))
		return;
	/* The new routes may have the replicas in another order. */
	if (failed->generation != failed->op->r->generation &&
	    (failed->unanswered || failed->op->r->routes.nothers)) {
		ask_again(failed, (struct attempt){ 0 }, false);
		return;
	}
	next.tries++;
	next.keep_queued = false;
	if (failed->op->r->routes.nothers)
		ask_again(failed, next, false);
	if (failed->unanswered && !failed->attempt.keep_queued) {
		next.tries = failed->attempt.tries;
		next.keep_queued = true;
		ask_again(failed, next, true);
	}
}

/* All calls of the part are over. */
static void part_over(struct part *p)
{
	struct ck_remote_client_op *op = p->op;
	struct ck_remote_client *r = op->r;
	struct ck_copy_batch *batch = op->batch;
	bool over;

	pthread_rwlock_rdlock(&r->routes_lock);
	pthread_mutex_lock(&r->lock);
	p->over = true;
	part_note(p);
	try_again(p);
	over = --op->left == 0;
	if (over)
		link_out(op);
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->routes_lock);
	if (!over)
		return;
	op_free(op);
	batch->done(batch);
}

static int call_done(struct ck_call *c, const struct ck_message *m, int rc)
{
	struct part *p = ((struct read_call *)c)->part;
	uint64_t read;

	if (m) {
		rc = ck_reply_read(&c->query, m, &read);
		if (rc == 0)
			ck_stats_read(p->op->r->stats, c->peer, read);
	} else {
		p->unanswered |= rc == -EIO;
	}
	if (rc)
		ck_query_fail(&c->query, rc);
	p->attempt.spent = ck_max(p->attempt.spent, c->spent);
	if (--p->left == 0)
		part_over(p);
	return rc == -EPROTO ? rc : 0;
}

static void fail_all(struct ck_copy_batch *batch, int rc)
{
	for (size_t i = 0; i < batch->n; i++)
		batch->list[i].rc = rc;
}

/* Must hold routes_lock. */
static int begin(struct ck_remote_client *r, struct ck_copy_batch *batch)
{
	struct ck_remote_client_op *op = op_make(r, batch);

	if (!op) {
		fail_all(batch, -ENOMEM);
		return 0;
	}
	if (op->left == 0) {
		op_free(op);
		return 0;
	}
	/* part_over() takes the lock, so the operation outlives send_all(). */
	pthread_mutex_lock(&r->lock);
	link_in(op);
	send_all(op->parts);
	if (is_unwanted(batch))
		drop_all(op);
	pthread_mutex_unlock(&r->lock);
	return -EINPROGRESS;
}

static int start(struct ck_backend *backend, struct ck_copy_batch *batch)
{
	struct ck_remote_client *r = (struct ck_remote_client *)backend;
	int rc;

	pthread_rwlock_rdlock(&r->routes_lock);
	rc = begin(r, batch);
	pthread_rwlock_unlock(&r->routes_lock);
	return rc;
}

static void interrupt(struct ck_backend *backend, struct ck_copy_batch *batch)
{
	struct ck_remote_client *r = (struct ck_remote_client *)backend;
	struct ck_remote_client_op *op;

	pthread_mutex_lock(&r->lock);
	for (op = r->first; op && op->batch != batch;)
		op = op->next;
	if (op)
		drop_all(op);
	pthread_mutex_unlock(&r->lock);
}

void ck_remote_client_renew(struct ck_remote_client *r,
			    const struct ck_routes *routes)
{
	pthread_rwlock_wrlock(&r->routes_lock);
	r->routes = *routes;
	r->generation++;
	pthread_rwlock_unlock(&r->routes_lock);
}

bool ck_remote_client_place(struct ck_remote_client *r, uint32_t file,
			    uint32_t i, struct ck_location *out)
{
	bool found;

	pthread_rwlock_rdlock(&r->routes_lock);
	found = ck_places_find(&r->routes, file, i, out);
	pthread_rwlock_unlock(&r->routes_lock);
	return found;
}

bool ck_remote_client_is_up(struct ck_remote_client *r, uint32_t peer)
{
	bool up;

	pthread_rwlock_rdlock(&r->routes_lock);
	up = ck_calls_is_up(r->routes.calls, peer);
	pthread_rwlock_unlock(&r->routes_lock);
	return up;
}

/* Writers first: a renewal must not starve while reads take the lock. */
static void routes_lock_init(pthread_rwlock_t *lock)
{
	pthread_rwlockattr_t how;

	pthread_rwlockattr_init(&how);
	(void)pthread_rwlockattr_setkind_np(
		&how, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(lock, &how);
	pthread_rwlockattr_destroy(&how);
}

void ck_remote_client_init(struct ck_remote_client *r,
			   const struct ck_routes *routes)
{
	*r = (struct ck_remote_client){
		.backend = { "peers", start, interrupt, ck_places_describe,
			     ck_places_delivered },
		.routes = *routes,
	};
	routes_lock_init(&r->routes_lock);
	pthread_mutex_init(&r->lock, NULL);
}

void ck_remote_client_fini(struct ck_remote_client *r)
{
	free((void *)(uintptr_t)r->rounds.ranks);
	pthread_mutex_destroy(&r->lock);
	pthread_rwlock_destroy(&r->routes_lock);
}
