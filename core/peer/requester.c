/* SPDX-License-Identifier: MIT */
/*
 * requester: see requester.h. Moves are sorted by peer, and those of each become READs;
 * they are done when all of these have come or were given up.
 */
#include "ckptfs/requester.h"

#include <errno.h>

/* Moves on their way. */
struct ck_requester_op {
	struct ck_requester_op *next, *prev; /* under ck_requester.lock */
	struct ck_requester *r;
	struct ck_moves *moves;

	struct sorted {
		uint32_t peer;
		uint32_t index; /* in the moves */
	} * order;
	struct ck_move *list; /* in that order; files are the peers' */
	struct read_call *calls;
	size_t ncalls, cap;
	size_t left; /* calls that are not over; of the line's thread, once they
		      * are sent */
};

struct read_call {
	struct ck_call call; /* first */
	struct ck_requester_op *op;
};

/* --- from moves to calls ------------------------------------------------------------ */

static void op_free(struct ck_requester_op *op)
{
	for (size_t i = 0; i < op->ncalls; i++)
		ck_ask_fini(&op->calls[i].call.ask);
	free(op->calls);
	free(op->list);
	free(op->order);
	free(op);
}

static int sorted_cmp(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;

	if (x->peer != y->peer)
		return x->peer < y->peer ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

/* Those of files that nobody has are -ENODATA, and no peer's. */
static void sort(struct ck_requester_op *op)
{
	const struct ck_requester *r = op->r;

	for (size_t i = 0; i < op->moves->n; i++) {
		uint32_t file = op->moves->list[i].file;

		op->order[i] = (struct sorted){
			.peer = file < r->n ? r->files[file].peer : UINT32_MAX,
			.index = (uint32_t)i,
		};
	}
	qsort(op->order, op->moves->n, sizeof(*op->order), sorted_cmp);
	for (size_t i = 0; i < op->moves->n; i++) {
		struct ck_move *m = &op->list[i];

		*m = op->moves->list[op->order[i].index];
		m->rc = -ENODATA;
		if (op->order[i].peer != UINT32_MAX)
			m->file = r->files[m->file].number;
	}
}

static int call_came(struct ck_call *c, const struct ck_message *m, int rc);

static int add_call(struct ck_requester_op *op, uint32_t peer,
		    struct ck_reads *reads)
{
	struct read_call *calls = ck_grow(op->calls, &op->cap, op->ncalls, 1,
					  sizeof(*calls));
	struct read_call *c;
	int rc;

	if (!calls)
		return -ENOMEM;
	op->calls = calls;
	c = &calls[op->ncalls];
	*c = (struct read_call){ .call.peer = peer,
				 .call.came = call_came,
				 .op = op };
	rc = ck_ask_read(reads, &c->call.ask);
	op->ncalls += rc == 0;
	return rc;
}

/* All calls of the moves [from, end), which are of one peer. */
static int add_calls(struct ck_requester_op *op, size_t from, size_t end)
{
	struct ck_reads reads;
	int rc = 0;

	ck_reads_begin(&reads, op->list + from, end - from);
	while (rc == 0 && ck_reads_left(&reads))
		rc = add_call(op, op->order[from].peer, &reads);
	return rc;
}

static int calls_make(struct ck_requester_op *op)
{
	size_t n = op->moves->n;
	int rc = 0;

	for (size_t from = 0, end; from < n && rc == 0; from = end) {
		uint32_t peer = op->order[from].peer;

		for (end = from + 1; end < n && op->order[end].peer == peer;)
			end++;
		if (peer != UINT32_MAX)
			rc = add_calls(op, from, end);
	}
	op->left = op->ncalls;
	return rc;
}

static struct ck_requester_op *op_make(struct ck_requester *r,
				       struct ck_moves *moves)
{
	struct ck_requester_op *op = calloc(1, sizeof(*op));

	if (!op)
		return NULL;
	op->r = r;
	op->moves = moves;
	op->order = calloc(moves->n + 1, sizeof(*op->order));
	op->list = calloc(moves->n + 1, sizeof(*op->list));
	if (op->order && op->list) {
		sort(op);
		if (calls_make(op) == 0)
			return op;
	}
	op_free(op);
	return NULL;
}

/* --- on the way ------------------------------------------------------------------------ */

static void link_in(struct ck_requester_op *op)
{
	struct ck_requester *r = op->r;

	op->next = r->first;
	if (op->next)
		op->next->prev = op;
	r->first = op;
}

static void link_out(struct ck_requester_op *op)
{
	struct ck_requester *r = op->r;

	pthread_mutex_lock(&r->lock);
	if (op->prev)
		op->prev->next = op->next;
	else
		r->first = op->next;
	if (op->next)
		op->next->prev = op->prev;
	pthread_mutex_unlock(&r->lock);
}

/* The moves have what became of them. That an answer was none, or that an owner says
 * so, is nothing that a file can have. */
static void op_finish(struct ck_requester_op *op)
{
	for (size_t i = 0; i < op->moves->n; i++) {
		int rc = op->list[i].rc;

		op->moves->list[op->order[i].index].rc = rc == -EPROTO ? -EIO
								       : rc;
	}
	op_free(op);
}

static int call_came(struct ck_call *c, const struct ck_message *m, int rc)
{
	struct ck_requester_op *op = ((struct read_call *)c)->op;
	struct ck_moves *moves = op->moves;

	if (m)
		rc = ck_take_read(&c->ask, m);
	if (rc)
		ck_ask_fail(&c->ask, rc);
	if (--op->left == 0) {
		link_out(op);
		op_finish(op);
		moves->done(moves);
	}
	return rc == -EPROTO ? rc : 0;
}

static bool is_unwanted(const struct ck_moves *moves)
{
	return __atomic_load_n(&moves->unwanted, __ATOMIC_ACQUIRE);
}

/* With r->lock, so that the op is there until all are dropped. */
static void drop_all(struct ck_requester_op *op)
{
	for (size_t i = 0; i < op->ncalls; i++)
		ck_calls_drop(op->r->calls, &op->calls[i].call);
}

static void fail_all(struct ck_moves *moves, int rc)
{
	for (size_t i = 0; i < moves->n; i++)
		moves->list[i].rc = rc;
}

static int start(struct ck_mover *mover, struct ck_moves *moves)
{
	struct ck_requester *r = (struct ck_requester *)mover;
	struct ck_requester_op *op = op_make(r, moves);

	if (!op) {
		fail_all(moves, -ENOMEM);
		return 0;
	}
	if (op->ncalls == 0) {
		op_finish(op);
		return 0;
	}
	/* Who is done waits for the lock before the op goes. */
	pthread_mutex_lock(&r->lock);
	link_in(op);
	for (size_t i = 0; i < op->ncalls; i++)
		ck_calls_send(r->calls, &op->calls[i].call);
	if (is_unwanted(moves))
		drop_all(op);
	pthread_mutex_unlock(&r->lock);
	return -EINPROGRESS;
}

static void interrupt(struct ck_mover *mover, struct ck_moves *moves)
{
	struct ck_requester *r = (struct ck_requester *)mover;
	struct ck_requester_op *op;

	pthread_mutex_lock(&r->lock);
	for (op = r->first; op && op->moves != moves;)
		op = op->next;
	if (op)
		drop_all(op);
	pthread_mutex_unlock(&r->lock);
}

void ck_requester_init(struct ck_requester *r, struct ck_calls *calls,
		       const struct ck_whereabouts *files, uint32_t n)
{
	*r = (struct ck_requester){
		.mover = { "peers", start, interrupt },
		.calls = calls,
		.files = files,
		.n = n,
	};
	pthread_mutex_init(&r->lock, NULL);
}

void ck_requester_fini(struct ck_requester *r)
{
	pthread_mutex_destroy(&r->lock);
}
