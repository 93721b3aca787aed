/* SPDX-License-Identifier: MIT */
/*
 * rounds_nodes: parts of the ranks of rounds_model.h: messages, prepared
 * operations, a backend with the rules of NCCL, and the conditions that must hold
 * when a round ends.
 */
#ifndef CK_ROUNDS_NODES_H
#define CK_ROUNDS_NODES_H

#include "dist/round/rounds_internal.h"
#include "tap.h"

enum {
	NODES = 6,
	MODEL_OPS = 64, /* requested in a schedule */
	PREPARE_MSEC = 1000,
	ROUND_MSEC = 600,
	MOST = 3,
	PAUSE_MSEC = 300, /* longest time without a tick */
};

/* A message in flight. */
struct letter {
	struct letter *next;
	size_t len;
	uint8_t bytes[];
};

/* Messages from one rank to another; they arrive in order. */
struct letters {
	struct letter *first, **last;
};

/* State of a requested op. */
struct model_op {
	uint64_t op, asked_at;
	uint32_t ranks;				      /* bits */
	uint32_t ready, prepared, ended, good, begun; /* of ranks, too */
	bool lied;				      /* about counts */
	unsigned overs;
	int rc;			  /* of over() */
	uint64_t finished[NODES]; /* epoch in which a rank ran its part */
};

/* A transfer that a rank has entered. The k-th entry of an epoch matches the
 * k-th of the peer. */
struct entry {
	uint64_t epoch, op;
};

struct entries {
	struct entry *list;
	size_t n, cap;
};

struct node {
	struct ck_round_user user;	 /* first */
	struct ck_round_backend backend; /* see node_of_mover() */
	struct model *m;
	uint32_t rank;
	struct ck_rounds *all;
	bool dead, stopped;
	uint64_t away; /* milliseconds in which it was stopped */
	bool saw_lost[NODES];
	uint64_t pending[MOST + 1]; /* ops in preparation */
	unsigned npending;
	struct ck_round *running;
	bool aborted, hangs;
	uint64_t epoch; /* last one passed to the backend */
	struct entries sends[NODES], receives[NODES];
};

struct model {
	uint32_t size;
	uint64_t now;
	bool lossy;    /* messages get lost */
	bool slow;     /* backends are slow, and hang at times */
	bool quick;    /* ranks prepare without delay */
	bool loses_go; /* lose GO instead: the checks must detect it */
	uint32_t liar; /* states wrong counts; size: no rank does */
	uint64_t (*choose)(struct model *m, uint64_t n); /* below n */
	uint64_t random;
	struct node nodes[NODES];
	struct letters letters[NODES][NODES];
	struct model_op ops[MODEL_OPS];
	unsigned nops, wrong;
	unsigned lost; /* messages */
	bool over;     /* during cleanup */
};

static inline void model_wrong(struct model *m, const char *what)
{
	if (!m->over && m->wrong++ == 0 && !m->loses_go)
		printf("# %s, at %" PRIu64 "\n", what, m->now);
}

static inline bool model_one_in(struct model *m, uint64_t n)
{
	return m->choose(m, n) == 0;
}

static inline struct model_op *model_op(struct model *m, uint64_t op)
{
	for (unsigned i = 0; i < m->nops; i++)
		if (m->ops[i].op == op)
			return &m->ops[i];
	if (m->nops == MODEL_OPS)
		abort();
	m->ops[m->nops] = (struct model_op){ .op = op, .asked_at = m->now };
	return &m->ops[m->nops++];
}

/* --- messages -------------------------------------------------------------------------- */

static inline void letters_add(struct letters *l, struct ck_str body)
{
	struct letter *x = malloc(sizeof(*x) + body.len);

	if (!x)
		abort();
	x->next = NULL;
	x->len = body.len;
	memcpy(x->bytes, body.p, body.len);
	*(l->first ? l->last : &l->first) = x;
	l->last = &x->next;
}

static inline struct letter *letters_take(struct letters *l)
{
	struct letter *x = l->first;

	if (x)
		l->first = x->next;
	return x;
}

static inline void letters_clear(struct letters *l)
{
	struct letter *x;

	while ((x = letters_take(l)))
		free(x);
}

static inline void node_send(struct ck_round_user *u, uint32_t to,
			     struct ck_str body)
{
	struct node *n = (struct node *)u;

	/* GO messages are not lost: the transport guarantees delivery. A rank that misses a
	 * round would run the next one instead, as with NCCL. */
	if (n->m->lossy && n->rank != to &&
	    (body.p[0] == CK_ROUNDS_GO) == n->m->loses_go &&
	    model_one_in(n->m, 30)) {
		n->m->lost++;
		return;
	}
	letters_add(&n->m->letters[n->rank][to], body);
}

static inline void node_lose(struct node *n, uint32_t rank)
{
	if (n->saw_lost[rank])
		return;
	n->saw_lost[rank] = true;
	letters_clear(&n->m->letters[rank][n->rank]);
	ck_rounds_lost(n->all, rank, n->m->now);
}

/* Delivers the first message of one rank to another. */
static inline void model_deliver(struct model *m, uint32_t from, uint32_t to)
{
	struct letter *x = letters_take(&m->letters[from][to]);
	struct node *n = &m->nodes[to];
	int rc;

	if (!x)
		return;
	if (!n->dead && !n->saw_lost[from]) {
		rc = ck_rounds_receive(
			n->all, from,
			(struct ck_str){ (const char *)x->bytes, x->len },
			m->now);
		if (rc && !m->lost)
			model_wrong(m, "a message that may not come");
		if (rc && from != to) {
			node_lose(n, from);
			if (!m->nodes[from].dead)
				node_lose(&m->nodes[from], to);
		}
	}
	free(x);
}

/* --- preparation ------------------------------------------------------------------------- */

static inline uint64_t model_bytes(uint64_t op, uint32_t from, uint32_t to)
{
	uint64_t r = (op * 64 + from) * 64 + to + 1;

	tap_random(&r);
	return tap_random(&r) % 3 ? 0 : 1 + tap_random(&r) % 1000;
}

static inline struct ck_round_count model_count(uint64_t op, uint32_t from,
						uint32_t to)
{
	uint64_t bytes = model_bytes(op, from, to);

	return (struct ck_round_count){ bytes, bytes ? 1 : 0 };
}

/* Fills the counts that a rank states. Returns the number of pairs. */
static inline uint32_t model_pairs(const struct model_op *o, uint32_t size,
				   uint32_t rank, struct ck_round_pair *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < size; i++) {
		struct ck_round_pair p = { i, model_count(o->op, rank, i),
					   model_count(o->op, i, rank) };

		if (o->ranks >> i & 1 &&
		    (p.sent.messages || p.received.messages))
			out[n++] = p;
	}
	return n;
}

static inline void node_forget_pending(struct node *n, uint64_t op)
{
	unsigned left = 0;

	for (unsigned i = 0; i < n->npending; i++)
		if (n->pending[i] != op)
			n->pending[left++] = n->pending[i];
	n->npending = left;
}

static inline void node_ready(struct node *n, uint64_t op)
{
	struct model_op *o = model_op(n->m, op);
	struct ck_round_pair pairs[NODES];
	uint32_t count = model_pairs(o, n->m->size, n->rank, pairs);

	node_forget_pending(n, op);
	if (n->rank == n->m->liar && count && model_one_in(n->m, 2)) {
		pairs[count - 1].received.bytes++;
		pairs[count - 1].received.messages++;
		o->lied = true;
	}
	o->ready |= 1U << n->rank;
	if (ck_rounds_ready(n->all, op, pairs, count))
		model_wrong(n->m, "ready() was refused");
}

static inline void node_refuse(struct node *n, uint64_t op)
{
	struct model_op *o = model_op(n->m, op);

	node_forget_pending(n, op);
	o->prepared &= ~(1U << n->rank);
	ck_rounds_refuse(n->all, op, -ENOSPC);
}

static inline void node_prepare(struct ck_round_user *u, struct ck_round *r,
				struct ck_str what)
{
	struct node *n = (struct node *)u;
	struct model_op *o = model_op(n->m, r->op);

	if (!ck_str_eq(what, CK_STR("what")) || n->npending > MOST ||
	    o->prepared >> n->rank & 1) {
		model_wrong(n->m, "prepare");
		return;
	}
	for (uint32_t i = 0; i < r->nranks; i++)
		o->ranks |= 1U << r->ranks[i];
	o->prepared |= 1U << n->rank;
	r->arg = n;
	n->pending[n->npending++] = r->op;
	if (n->m->quick)
		node_ready(n, r->op);
}

/* --- results -------------------------------------------------------------------------------- */

/* True if all ranks of an op ran it in the same epoch. */
static inline bool model_was_run(const struct model *m,
				 const struct model_op *o)
{
	uint64_t epoch = 0;

	for (uint32_t i = 0; i < m->size; i++) {
		if (!(o->ranks >> i & 1))
			continue;
		if (!o->finished[i] || (epoch && o->finished[i] != epoch))
			return false;
		epoch = o->finished[i];
	}
	return true;
}

static inline void node_ended(struct ck_round_user *u, struct ck_round *r,
			      int rc)
{
	struct node *n = (struct node *)u;
	struct model_op *o = model_op(n->m, r->op);
	uint32_t bit = 1U << n->rank;

	if (r->arg != n || !(o->prepared & bit) || o->ended & bit || rc > 0)
		model_wrong(n->m, "ended");
	if (n->running == r)
		model_wrong(n->m, "ended while it is running");
	if (rc == 0 && (!model_was_run(n->m, o) || o->lied))
		model_wrong(n->m, "ended well, and was not run");
	o->ended |= bit;
	o->good |= rc == 0 ? bit : 0;
	node_forget_pending(n, r->op);
}

static inline void node_over(struct ck_round_user *u, uint64_t op, int rc)
{
	const struct node *n = (struct node *)u;
	struct model_op *o = model_op(n->m, op);

	if (o->overs++ || ck_rounds_initiator(op) != n->rank || rc > 0)
		model_wrong(n->m, "over");
	if (rc == 0 && !model_was_run(n->m, o))
		model_wrong(n->m, "over, and was not run");
	if (n->m->now - o->asked_at >
	    PREPARE_MSEC + 2 * ROUND_MSEC + n->away + 2 * PAUSE_MSEC)
		model_wrong(n->m, "over too late");
	o->rc = rc;
}

/* --- a backend with the rules of NCCL --------------------------------------------------------- */

static inline struct node *node_of_mover(struct ck_round_backend *backend)
{
	return (struct node *)(void *)((uint8_t *)backend -
				       offsetof(struct node, backend));
}

static inline void entries_add(struct entries *e, uint64_t epoch, uint64_t op)
{
	e->list = ck_grow(e->list, &e->cap, e->n, 1, sizeof(*e->list));
	if (!e->list)
		abort();
	e->list[e->n++] = (struct entry){ epoch, op };
}

/* The k-th of an epoch. */
static inline const struct entry *entries_at(const struct entries *e,
					     uint64_t epoch, size_t k)
{
	for (size_t i = 0, at = 0; i < e->n; i++)
		if (e->list[i].epoch == epoch && at++ == k)
			return &e->list[i];
	return NULL;
}

/* Index of an op within its epoch. */
static inline size_t entries_place(const struct entries *e, uint64_t epoch,
				   uint64_t op)
{
	size_t k = 0;

	for (size_t i = 0; i < e->n; i++) {
		if (e->list[i].epoch != epoch)
			continue;
		if (e->list[i].op == op)
			return k;
		k++;
	}
	abort();
}

static inline void node_epoch(struct ck_round_backend *backend, uint64_t epoch,
			      const uint32_t *members, uint32_t count,
			      const uint8_t token[static CK_ROUND_TOKEN])
{
	struct node *n = node_of_mover(backend);

	if (n->running || epoch <= n->epoch || count == 0 ||
	    members[count - 1] >= n->m->size || token[0] != epoch % n->m->size)
		model_wrong(n->m, "epoch");
	n->epoch = epoch;
}

/* The token contains the rank that made it. */
static inline void node_token(struct ck_round_backend *backend,
			      uint8_t out[static CK_ROUND_TOKEN])
{
	out[0] = (uint8_t)node_of_mover(backend)->rank;
}

static inline int node_begin(struct ck_round_backend *backend,
			     struct ck_round *r)
{
	struct node *n = node_of_mover(backend);
	struct model_op *o = model_op(n->m, r->op);

	if (n->running || r->epoch != n->epoch || o->ready != o->ranks ||
	    o->lied)
		model_wrong(n->m, "begin");
	if (n->m->slow && model_one_in(n->m, 100))
		return -EIO;
	n->running = r;
	n->aborted = false;
	n->hangs = n->m->slow && model_one_in(n->m, 40);
	o->begun |= 1U << n->rank;
	for (uint32_t i = 0; i < r->npairs; i++) {
		const struct ck_round_pair *p = &r->pairs[i];

		if (p->sent.messages)
			entries_add(&n->sends[p->peer], r->epoch, r->op);
		if (p->received.messages)
			entries_add(&n->receives[p->peer], r->epoch, r->op);
	}
	return 0;
}

/* True if the other side has entered the same transfer. NCCL would not detect a transfer of
 * another round; the model reports it. */
static inline bool node_met(struct node *n, const struct entries *own,
			    const struct entries *other)
{
	size_t k = entries_place(own, n->epoch, n->running->op);
	const struct entry *e = entries_at(other, n->epoch, k);

	if (e && e->op != n->running->op)
		model_wrong(n->m, "two rounds meet");
	return e;
}

static inline int node_poll(struct ck_round_backend *backend,
			    struct ck_round *r)
{
	struct node *n = node_of_mover(backend);
	bool met = true;

	if (n->running != r)
		model_wrong(n->m, "poll");
	if ((n->m->slow && model_one_in(n->m, 4)) || (n->hangs && !n->aborted))
		return -EINPROGRESS;
	for (uint32_t i = 0; i < r->npairs && !n->aborted; i++) {
		const struct ck_round_pair *p = &r->pairs[i];
		const struct node *peer = &n->m->nodes[p->peer];

		if (p->sent.messages)
			met &= node_met(n, &n->sends[p->peer],
					&peer->receives[n->rank]);
		if (p->received.messages)
			met &= node_met(n, &n->receives[p->peer],
					&peer->sends[n->rank]);
	}
	if (!met)
		return -EINPROGRESS;
	n->running = NULL;
	if (n->aborted)
		return -ECANCELED;
	model_op(n->m, r->op)->finished[n->rank] = r->epoch;
	return 0;
}

static inline void node_abort(struct ck_round_backend *backend,
			      struct ck_round *r)
{
	struct node *n = node_of_mover(backend);

	if (n->running != r)
		model_wrong(n->m, "abort");
	n->aborted = true;
}

#endif
