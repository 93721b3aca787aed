/* SPDX-License-Identifier: MIT */
/*
 * rounds_rank: a rank that requests rounds at random, participates in rounds of
 * others, and compares each received byte. It fetches the bytes of failed rounds
 * by messages from any live rank: all bytes are derived from a key. It works over
 * any transport; xport_ordered.h executes the rounds. One rank of a job may violate
 * the protocol or die in a phase, see rounds_harm.h.
 *
 * Delays are measured on a clock of the rank that advances only while it waits for
 * other ranks, by at most RANK_TURN_MSEC a turn. So a slow machine does not delay a
 * rank, and a rank that waits in vain times out on any machine.
 */
#ifndef CK_ROUNDS_RANK_H
#define CK_ROUNDS_RANK_H

#include "rounds_harm.h"

enum {
	RANK_FETCH = 0x201, /* private kinds of messages */
	RANK_BYTES = 0x202,
	RANK_FINISHED = 0x203,
	RANK_PARTS = 4,	     /* at a time; with everybody: all */
	RANK_WINDOW = 2,     /* requested rounds at a time */
	RANK_MOST = 6 << 10, /* bytes between two ranks */
	RANK_AGAIN_MSEC = 500,
	RANK_TURN_MSEC = 5,  /* longest wait in a turn */
	RANK_BUSY_MSEC = 64, /* longest backoff */
};

/* Result of a rank, for the test. */
struct rank_result {
	uint64_t good, failed, busy, parts, wrong, fetched, slowest;
	uint64_t refused, mismatched, aborts, differ, epoch, bytes;
	bool over;
};

/* A round in which this rank participates. */
struct slot {
	uint64_t op, key, since;
	uint8_t *sends[ORDERED_RANKS], *places[ORDERED_RANKS];
};

/* Bytes that are fetched by messages. */
struct fetch {
	struct fetch *next;
	uint64_t key, bytes, since, asked;
	uint32_t from, whom;
};

struct rank {
	struct ck_round_user user; /* first */
	struct ck_transport *x;
	struct ck_rounds *all;
	struct ordered ordered;
	const struct rank_plan *plan;
	struct harm harm;
	struct rank_result *result;
	uint64_t random, rounds, not_before;
	uint64_t clock;	      /* milliseconds spent waiting */
	unsigned asked, busy; /* busy: consecutive replies -EBUSY */
	struct fetch *fetches;
	bool said_finished, lost[ORDERED_RANKS], finished[ORDERED_RANKS];
};

static inline uint64_t rank_below(struct rank *k, uint64_t n)
{
	return tap_random(&k->random) % n;
}

/* --- contents of a round -------------------------------------------------------------- */

static inline CK_WRAPS uint64_t rank_key(uint64_t key, uint32_t from,
					 uint32_t to)
{
	uint64_t r = (key + 1) * 1000003 + (from * 64 + to + 1) * 7919;

	r |= 1;
	return tap_random(&r);
}

/* All ranks send to the initiator, or each rank to each. */
static inline struct ck_round_count rank_count(uint64_t op, uint64_t key,
					       uint32_t from, uint32_t to)
{
	uint64_t r = rank_key(key, from, to) | 1;
	struct ck_round_count c = { 0, 0 };

	if (key % 2 && to != op >> 48)
		return c;
	if (from == to && key % 3)
		return c;
	c.bytes = tap_random(&r) % 16 ? tap_random(&r) % RANK_MOST : 0;
	c.messages = 1 + (uint32_t)(tap_random(&r) % 3);
	return c;
}

static inline void *rank_alloc(size_t len)
{
	void *p = calloc(1, len + 1);

	if (!p)
		abort();
	return p;
}

static inline uint32_t slot_pairs(struct slot *s, const struct ck_round *r,
				  uint32_t self, struct ck_round_pair *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->nranks; i++) {
		uint32_t peer = r->ranks[i];
		struct ck_round_pair p = {
			peer, rank_count(r->op, s->key, self, peer),
			rank_count(r->op, s->key, peer, self)
		};

		if (!p.sent.messages && !p.received.messages)
			continue;
		s->sends[peer] = rank_alloc(p.sent.bytes);
		fill_bytes(s->sends[peer], p.sent.bytes,
			   rank_key(s->key, self, peer));
		s->places[peer] = rank_alloc(p.received.bytes);
		out[n++] = p;
	}
	return n;
}

static inline void slot_free(struct slot *s)
{
	for (unsigned i = 0; i < ORDERED_RANKS; i++) {
		free(s->sends[i]);
		free(s->places[i]);
	}
	free(s);
}

static inline const uint8_t *rank_source(struct ck_round *r, uint32_t peer)
{
	return ((struct slot *)r->arg)->sends[peer];
}

static inline uint8_t *rank_place(struct ck_round *r, uint32_t peer)
{
	return ((struct slot *)r->arg)->places[peer];
}

/* --- fetching by messages ----------------------------------------------------------------- */

static inline void rank_say(struct rank *k, uint32_t to, uint16_t kind,
			    const struct fetch *f, struct ck_str bytes)
{
	struct ck_buf b = { 0 };

	ck_buf_u16(&b, kind);
	ck_buf_u64(&b, f->key);
	ck_buf_u32(&b, f->from);
	ck_buf_u64(&b, f->bytes);
	ck_buf_str(&b, bytes);
	if (b.err)
		abort();
	ordered_send_body(k->x, to, (struct ck_str){ b.data, b.len },
			  &k->ordered.out);
	ck_buf_fini(&b);
}

/* Requests the bytes from the next live rank, which may be this rank. */
static inline void fetch_ask(struct rank *k, struct fetch *f)
{
	while (k->lost[f->whom])
		f->whom = (f->whom + 1) % k->x->size;
	f->asked = now_msec();
	rank_say(k, f->whom, RANK_FETCH, f, CK_STR(""));
}

static inline void fetch_begin(struct rank *k, const struct slot *s,
			       uint32_t from)
{
	struct fetch *f = rank_alloc(sizeof(*f));

	f->key = s->key;
	f->from = f->whom = from;
	f->since = s->since;
	f->bytes = rank_count(s->op, s->key, from, k->x->rank).bytes;
	f->next = k->fetches;
	k->fetches = f;
	fetch_ask(k, f);
}

/* Resends fetches whose rank is lost or does not reply in time. */
static inline void fetches_look(struct rank *k)
{
	for (struct fetch *f = k->fetches; f; f = f->next)
		if (k->lost[f->whom] ||
		    now_msec() - f->asked > RANK_AGAIN_MSEC) {
			f->whom = (f->whom + 1) % k->x->size;
			fetch_ask(k, f);
		}
}

static inline void fetch_came(struct rank *k, const struct fetch *m,
			      struct ck_str bytes)
{
	struct fetch **at = &k->fetches, *f;

	while (*at && ((*at)->key != m->key || (*at)->from != m->from))
		at = &(*at)->next;
	f = *at;
	if (!f)
		return; /* another rank has replied */
	if (bytes.len != f->bytes ||
	    !are_bytes(bytes.p, bytes.len,
		       rank_key(f->key, f->from, k->x->rank)))
		k->result->wrong++;
	k->result->fetched++;
	k->result->slowest = ck_max(k->result->slowest, k->clock - f->since);
	*at = f->next;
	free(f);
}

static inline void fetch_answer(struct rank *k, uint32_t to,
				const struct fetch *m)
{
	uint8_t *bytes = rank_alloc(m->bytes);

	fill_bytes(bytes, m->bytes, rank_key(m->key, m->from, to));
	rank_say(k, to, RANK_BYTES, m,
		 (struct ck_str){ (const char *)bytes, m->bytes });
	free(bytes);
}

/* False if the message is of another kind. */
static inline bool rank_take(struct rank *k, uint32_t from, struct ck_str body)
{
	struct ck_cur c = ck_cur_make(body.p, body.len);
	struct fetch m = { 0 };
	uint16_t kind;

	if (!ck_cur_u16(&c, &kind) || kind < RANK_FETCH)
		return false;
	if (!ck_cur_u64(&c, &m.key) || !ck_cur_u32(&c, &m.from) ||
	    !ck_cur_u64(&c, &m.bytes))
		abort();
	if (kind == RANK_FETCH)
		fetch_answer(k, from, &m);
	else if (kind == RANK_BYTES)
		fetch_came(
			k, &m,
			(struct ck_str){ (const char *)c.p, ck_cur_left(&c) });
	else
		k->finished[from] = true;
	return true;
}

/* --- the user of rounds --------------------------------------------------------------------- */

static inline struct rank *rank_of(struct ck_round_user *u)
{
	return (struct rank *)u;
}

static inline void rank_send(struct ck_round_user *u, uint32_t to,
			     struct ck_str body)
{
	struct rank *k = rank_of(u);

	if (harm_may_send(&k->harm, k->x->rank == to, body))
		ordered_send_body(k->x, to, body, &k->ordered.out);
}

/* Refuses the first round, later ones at random. */
static inline bool rank_refuses(struct rank *k)
{
	return k->plan->refuse_one_in &&
	       (!k->result->refused || !rank_below(k, k->plan->refuse_one_in));
}

static inline void rank_prepare(struct ck_round_user *u, struct ck_round *r,
				struct ck_str what)
{
	struct rank *k = rank_of(u);
	struct slot *s = rank_alloc(sizeof(*s));
	struct ck_round_pair pairs[CK_ROUND_RANKS];
	uint32_t n;

	memcpy(&s->key, what.p, sizeof(s->key));
	s->op = r->op;
	s->since = k->clock;
	r->arg = s;
	if (rank_refuses(k)) {
		slot_free(s);
		k->result->refused++;
		ck_rounds_refuse(k->all, r->op, -ENOSPC);
		return;
	}
	n = slot_pairs(s, r, k->x->rank, pairs);
	if (n && harm_lies(&k->harm)) {
		pairs[0].received.bytes++;
		pairs[0].received.messages++;
	}
	if (ck_rounds_ready(k->all, r->op, pairs, n))
		k->result->wrong++;
}

static inline void rank_compare(struct rank *k, const struct ck_round *r,
				const struct slot *s)
{
	for (uint32_t i = 0; i < r->npairs; i++) {
		uint32_t peer = r->pairs[i].peer;

		k->result->bytes += r->pairs[i].received.bytes;
		if (!are_bytes(s->places[peer], r->pairs[i].received.bytes,
			       rank_key(s->key, peer, k->x->rank)))
			k->result->wrong++;
	}
}

/* The initiator requests a round again that was refused with -EBUSY. */
static inline void rank_ended(struct ck_round_user *u, struct ck_round *r,
			      int rc)
{
	struct rank *k = rank_of(u);
	struct slot *s = r->arg;

	k->result->parts++;
	if (rc == 0)
		rank_compare(k, r, s);
	for (uint32_t i = 0; i < r->nranks && rc && rc != -EBUSY; i++)
		if (rank_count(r->op, s->key, r->ranks[i], k->x->rank).messages)
			fetch_begin(k, s, r->ranks[i]);
	slot_free(s);
}

/* Exponential backoff: immediate requests would keep the other ranks from
 * working. */
static inline void rank_rest(struct rank *k)
{
	uint64_t most = ck_min(UINT64_C(3) << k->busy, RANK_BUSY_MSEC);

	k->busy += most < RANK_BUSY_MSEC;
	k->not_before = now_msec() + rank_below(k, most);
}

static inline void rank_over(struct ck_round_user *u, uint64_t op, int rc)
{
	struct rank *k = rank_of(u);
	struct rank_result *t = k->result;

	(void)op;
	k->asked--;
	t->good += rc == 0;
	t->busy += rc == -EBUSY;
	t->failed += rc && rc != -EBUSY;
	t->mismatched += rc == -EBADMSG;
	if (rc == -EBUSY) {
		rank_rest(k);
		return;
	}
	k->busy = 0;
	k->rounds++;
}

/* --- callbacks of the transport -------------------------------------------------------------- */

static inline void rank_deliver(struct rank *k, uint32_t from,
				struct ck_str body)
{
	if (ck_rounds_receive(k->all, from, body, now_msec()) == 0)
		return;
	k->result->wrong++;
	k->x->drop(k->x, from);
}

static inline void rank_got(void *arg, uint32_t from,
			    const struct ck_message *m)
{
	struct rank *k = arg;
	struct ck_str first, second;

	if (ordered_take(&k->ordered, from, m->body) ||
	    rank_take(k, from, m->body))
		return;
	harm_see(&k->harm, k->x->rank == from, m->body);
	if (!harm_hold(&k->harm, from, m->body, &first, &second)) {
		rank_deliver(k, from, m->body);
		return;
	}
	if (first.len) {
		rank_deliver(k, from, first);
		rank_deliver(k, from, second);
	}
}

static inline void rank_lost(void *arg, uint32_t from)
{
	struct rank *k = arg;

	k->lost[from] = true;
	ck_rounds_lost(k->all, from, now_msec());
}

/* --- main loop --------------------------------------------------------------------------------- */

static inline void rank_ask(struct rank *k)
{
	uint32_t ranks[ORDERED_RANKS], n = 0, want = k->x->size;
	uint64_t key = tap_random(&k->random), op;
	int rc;

	if (k->plan->everybody)
		key &= ~UINT64_C(1);
	want = 1 + (uint32_t)rank_below(k, ck_min(want, 4));
	for (uint32_t i = 0; i < k->x->size; i++)
		if (k->plan->everybody
			    ? !k->lost[i]
			    : i == k->x->rank ||
				      rank_below(k, k->x->size) < want)
			ranks[n++] = i;
	rc = ck_rounds_request(
		k->all, ranks, n,
		(struct ck_str){ (const char *)&key, sizeof(key) }, &op);
	k->asked += rc == 0;
	if (rc && rc != -EHOSTDOWN && rc != -EBUSY)
		k->result->wrong++;
	if (rc)
		k->not_before = now_msec() + 1;
}

static inline void rank_finish(struct rank *k)
{
	k->said_finished = true;
	for (uint32_t i = 0; i < k->x->size; i++)
		rank_say(k, i, RANK_FINISHED, &(struct fetch){ 0 }, CK_STR(""));
}

static inline bool rank_all_finished(const struct rank *k)
{
	for (uint32_t i = 0; i < k->x->size; i++)
		if (!k->finished[i] && !k->lost[i])
			return false;
	return true;
}

static inline void rank_wait(struct rank *k, uint64_t msec)
{
	uint64_t since = now_msec();

	if (k->x->wait(k->x, NULL, 0, (int)msec))
		abort();
	k->clock += ck_min(now_msec() - since, msec);
}

static inline bool rank_has_seen_all(const struct rank *k)
{
	switch (k->plan->until) {
	case LATER_EPOCH: return k->ordered.epoch > k->x->size;
	case FAILURE: return k->result->failed || k->lost[k->plan->who];
	case ENOUGH:
	default: return true;
	}
}

static inline bool rank_wants(const struct rank *k)
{
	return k->rounds + k->asked < k->plan->rounds || !rank_has_seen_all(k);
}

/* True if there is more work. */
static inline bool rank_turn(struct rank *k)
{
	uint64_t now = now_msec();
	uint32_t due;

	while (rank_wants(k) && k->asked < RANK_WINDOW && now >= k->not_before)
		rank_ask(k);
	/* A rank that leaves also begins an epoch, which does not count. */
	if (!k->said_finished)
		k->result->epoch = k->ordered.epoch;
	if (k->rounds >= k->plan->rounds && rank_has_seen_all(k) &&
	    !k->said_finished && !k->fetches)
		rank_finish(k);
	fetches_look(k);
	due = ck_rounds_tick(k->all, now);
	if (due == CK_ROUNDS_IDLE && !k->fetches && rank_all_finished(k) &&
	    k->ordered.out == 0)
		return false;
	rank_wait(k, ck_min((uint64_t)due, RANK_TURN_MSEC));
	harm_happens(&k->harm);
	return true;
}

static inline void rank_run(struct ck_transport *x,
			    const struct rank_plan *plan,
			    struct rank_result *result)
{
	const struct ck_rounds_options options = {
		x->rank, x->size,
		plan->everybody ? RANK_WINDOW * x->size : RANK_PARTS,
		plan->prepare_msec, plan->round_msec
	};
	struct rank *k = rank_alloc(sizeof(*k));

	k->user = (struct ck_round_user){ rank_send, rank_prepare, rank_ended,
					  rank_over };
	k->x = x;
	k->plan = plan;
	k->result = result;
	k->random = rank_key(plan->seed, x->rank, 0) | 1;
	ordered_init(&k->ordered, x, k->random);
	k->ordered.source = rank_source;
	k->ordered.place = rank_place;
	k->ordered.late_one_in = plan->late_one_in;
	k->ordered.late_usec = plan->late_usec;
	harm_init(&k->harm, plan, x->rank, &k->ordered);
	k->all = ck_rounds_make(&options, &k->user, &k->ordered.backend,
				now_msec());
	if (!k->all)
		abort();
	x->arg = k;
	x->got = rank_got;
	x->lost = rank_lost;
	while (rank_turn(k))
		;
	result->aborts = k->ordered.aborts;
	result->differ = k->ordered.differ;
	if (!ck_rounds_end(k->all, now_msec()))
		result->wrong++;
	x->close(x);
	ck_rounds_free(k->all);
	free(k);
	result->over = true;
}

#endif
