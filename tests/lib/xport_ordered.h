/* SPDX-License-Identifier: MIT */
/*
 * xport_ordered: executes rounds over any transport by the rules of NCCL, more strictly.
 *
 *  - Transfers from one rank to another in an epoch have one order at each side: the k-th
 *    sent one is the k-th received one, even if the two sides mean different rounds.
 *  - No bytes move before both sides have entered. A round ends when all of its transfers
 *    have ended: a transfer that one side never enters hangs the other side.
 *  - Counts must be equal at both sides; otherwise the error is recorded, and both hang.
 *  - A dead rank is not reported. abort() ends the waits of this rank only.
 *  - Bytes are delayed at random.
 *
 * The receiver sends WANT(k, counts) when it enters. The sender replies with the messages
 * when it has entered too. Two swapped rounds of equal counts get each other's bytes, as
 * with NCCL.
 */
#ifndef CK_TRANSPORT_ORDERED_H
#define CK_TRANSPORT_ORDERED_H

#include "dist/round/rounds.h"
#include "dist/transport/transport.h"
#include "tap.h"

enum {
	ORDERED_RANKS = 16,
	ORDERED_WANT = 0x101, /* not a message of rounds */
	ORDERED_DATA = 0x102,
	ORDERED_HEAD = 40,
};

/* One direction between two ranks. */
struct ordered_stream {
	uint64_t entered; /* by this rank, in the epoch */
	bool busy;	  /* a transfer of the present round is open */
	uint64_t due;	  /* sender: earliest time in µs; 0: unset */
	uint64_t came;	  /* receiver: bytes and messages */
	uint32_t messages;

	struct {
		uint64_t epoch, k;
		struct ck_round_count count;
	} want; /* sender: last WANT of the receiver */
};

struct ordered {
	struct ck_round_backend backend; /* first */
	struct ck_transport *x;
	/* Addresses of the bytes between this rank and a peer. */
	const uint8_t *(*source)(struct ck_round *r, uint32_t peer);
	uint8_t *(*place)(struct ck_round *r, uint32_t peer);
	uint64_t random;
	unsigned late_one_in; /* transfers are late; 0: no delays */
	uint64_t late_usec;   /* at most */

	uint64_t epoch;
	struct ck_round *r; /* running */
	bool aborted;
	struct ordered_stream to[ORDERED_RANKS], from[ORDERED_RANKS];
	uint64_t moved, bytes, aborts, differ; /* so many */
	size_t out;			       /* parcels in flight */
};

/* --- messages ------------------------------------------------------------------------- */

struct ordered_parcel {
	struct ck_parcel p; /* first */
	size_t *out;
	char body[];
};

static inline void ordered_sent(struct ck_parcel *p, int rc)
{
	struct ordered_parcel *o = (struct ordered_parcel *)p;

	(void)rc; /* lost() reports the lost rank */
	--*o->out;
	free(o);
}

/* Sends a copy, of type ROUND. */
static inline void ordered_send_body(struct ck_transport *x, uint32_t to,
				     struct ck_str body, size_t *out)
{
	struct ordered_parcel *o = malloc(sizeof(*o) + body.len);

	if (!o)
		abort();
	memcpy(o->body, body.p, body.len);
	o->out = out;
	++*out;
	o->p = (struct ck_parcel){ .to = to,
				   .head = { .type = CK_WIRE_ROUND,
					     .body = (uint32_t)body.len },
				   .body = { o->body, body.len },
				   .sent = ordered_sent };
	x->send(x, &o->p);
}

static inline void ordered_say(struct ordered *o, uint32_t to, uint16_t kind,
			       uint64_t k, struct ck_round_count c,
			       struct ck_str bytes)
{
	struct ck_buf b = { 0 };

	ck_buf_u16(&b, kind);
	ck_buf_u16(&b, 0);
	ck_buf_u32(&b, c.messages);
	ck_buf_u64(&b, o->epoch);
	ck_buf_u64(&b, k);
	ck_buf_u64(&b, c.bytes);
	ck_buf_u64(&b, 0);
	ck_buf_str(&b, bytes);
	if (b.err)
		abort();
	ordered_send_body(o->x, to, (struct ck_str){ b.data, b.len }, &o->out);
	ck_buf_fini(&b);
}

/* --- sending --------------------------------------------------------------------------- */

static inline uint64_t ordered_usec(void)
{
	struct timespec t = ck_time_in(CLOCK_MONOTONIC, 0);

	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static inline const struct ck_round_pair *ordered_pair(const struct ck_round *r,
						       uint32_t peer)
{
	for (uint32_t i = 0; i < r->npairs; i++)
		if (r->pairs[i].peer == peer)
			return &r->pairs[i];
	abort();
}

static inline uint64_t ordered_lateness(struct ordered *o)
{
	if (!o->late_one_in || tap_random(&o->random) % o->late_one_in)
		return 0;
	return tap_random(&o->random) % o->late_usec;
}

/* Sends all messages of a transfer; the last one has the remainder. */
static inline void ordered_send_data(struct ordered *o, uint32_t peer)
{
	const struct ck_round_count c = ordered_pair(o->r, peer)->sent;
	const uint8_t *bytes = o->source(o->r, peer);
	uint64_t each = c.bytes / c.messages, at = 0;

	for (uint32_t i = 0; i < c.messages; i++) {
		uint64_t len = i + 1 < c.messages ? each : c.bytes - at;

		ordered_say(o, peer, ORDERED_DATA, o->to[peer].entered, c,
			    (struct ck_str){ (const char *)bytes + at, len });
		at += len;
	}
	o->bytes += c.bytes;
}

/* Sends if the other side has entered too. */
static inline void ordered_meet(struct ordered *o, uint32_t peer)
{
	struct ordered_stream *s = &o->to[peer];
	const struct ck_round_count c = ordered_pair(o->r, peer)->sent;

	if (s->want.epoch != o->epoch || s->want.k != s->entered)
		return;
	if (s->want.count.bytes != c.bytes ||
	    s->want.count.messages != c.messages) {
		o->differ += s->due == 0;
		s->due = UINT64_MAX;
		return;
	}
	if (s->due == 0)
		s->due = ordered_usec() + ordered_lateness(o);
	if (ordered_usec() < s->due)
		return;
	ordered_send_data(o, peer);
	s->busy = false;
}

/* --- receiving --------------------------------------------------------------------------- */

struct ordered_message {
	uint16_t kind, zero;
	uint64_t epoch, k, unused;
	struct ck_round_count count;
	struct ck_str bytes;
};

static inline void ordered_take_data(struct ordered *o, uint32_t from,
				     const struct ordered_message *m)
{
	struct ordered_stream *s = &o->from[from];
	uint64_t most;

	/* A message of an aborted round. */
	if (!o->r || o->aborted || m->epoch != o->epoch || !s->busy ||
	    m->k != s->entered)
		return;
	most = ordered_pair(o->r, from)->received.bytes;
	if (m->bytes.len > most - s->came)
		abort();
	memcpy(o->place(o->r, from) + s->came, m->bytes.p, m->bytes.len);
	s->came += m->bytes.len;
	s->messages++;
	if (s->messages == m->count.messages)
		s->busy = false;
}

/* False if the message is of another kind. */
static inline bool ordered_take(struct ordered *o, uint32_t from,
				struct ck_str body)
{
	struct ck_cur c = ck_cur_make(body.p, body.len);
	struct ordered_message m;

	if (!ck_cur_u16(&c, &m.kind) ||
	    (m.kind != ORDERED_WANT && m.kind != ORDERED_DATA))
		return false;
	if (!ck_cur_u16(&c, &m.zero) || !ck_cur_u32(&c, &m.count.messages) ||
	    !ck_cur_u64(&c, &m.epoch) || !ck_cur_u64(&c, &m.k) ||
	    !ck_cur_u64(&c, &m.count.bytes) || !ck_cur_u64(&c, &m.unused))
		abort();
	m.bytes = (struct ck_str){ (const char *)c.p, ck_cur_left(&c) };
	if (m.kind == ORDERED_DATA) {
		ordered_take_data(o, from, &m);
	} else {
		o->to[from].want.epoch = m.epoch;
		o->to[from].want.k = m.k;
		o->to[from].want.count = m.count;
	}
	return true;
}

/* --- the backend --------------------------------------------------------------------------- */

static inline void ordered_epoch(struct ck_round_backend *backend,
				 uint64_t epoch, const uint32_t *members,
				 uint32_t n,
				 const uint8_t token[static CK_ROUND_TOKEN])
{
	struct ordered *o = (struct ordered *)backend;

	(void)members;
	(void)n;
	(void)token;
	o->epoch = epoch;
	for (uint32_t i = 0; i < o->x->size; i++)
		o->to[i].entered = o->from[i].entered = 0;
}

static inline int ordered_begin(struct ck_round_backend *backend,
				struct ck_round *r)
{
	struct ordered *o = (struct ordered *)backend;

	o->r = r;
	o->aborted = false;
	for (uint32_t i = 0; i < r->npairs; i++) {
		const struct ck_round_pair *p = &r->pairs[i];
		struct ordered_stream *to = &o->to[p->peer],
				      *from = &o->from[p->peer];

		to->busy = p->sent.messages;
		to->due = 0;
		to->entered += to->busy;
		from->busy = p->received.messages;
		from->came = from->messages = 0;
		from->entered += from->busy;
		if (from->busy)
			ordered_say(o, p->peer, ORDERED_WANT, from->entered,
				    p->received, CK_STR(""));
	}
	return 0;
}

static inline int ordered_poll(struct ck_round_backend *backend,
			       struct ck_round *r)
{
	struct ordered *o = (struct ordered *)backend;
	bool busy = false;

	if (o->r != r)
		abort();
	for (uint32_t i = 0; i < r->npairs && !o->aborted; i++) {
		uint32_t peer = r->pairs[i].peer;

		if (o->to[peer].busy)
			ordered_meet(o, peer);
		busy |= o->to[peer].busy || o->from[peer].busy;
	}
	if (busy)
		return -EINPROGRESS;
	o->r = NULL;
	o->moved += !o->aborted;
	o->aborts += o->aborted;
	return o->aborted ? -ECANCELED : 0;
}

static inline void ordered_abort(struct ck_round_backend *backend,
				 struct ck_round *r)
{
	struct ordered *o = (struct ordered *)backend;

	if (o->r != r)
		abort();
	o->aborted = true;
}

static inline void ordered_init(struct ordered *o, struct ck_transport *x,
				uint64_t seed)
{
	if (x->size > ORDERED_RANKS)
		abort();
	*o = (struct ordered){ .backend = { ordered_epoch, NULL, ordered_begin,
					    ordered_poll, ordered_abort },
			       .x = x,
			       .random = seed | 1 };
}

#endif
