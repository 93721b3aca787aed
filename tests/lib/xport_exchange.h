/* SPDX-License-Identifier: MIT */
/*
 * xport_exchange: ranks that send random requests to each other and to themselves, in
 * both directions at once, over any transport. Messages must arrive unchanged and in
 * order. It also tests the wait() of any transport.
 */
#ifndef CK_TRANSPORT_EXCHANGE_H
#define CK_TRANSPORT_EXCHANGE_H

#include "xport_case.h"

#include <fcntl.h>
#include <pthread.h>

enum { EXCHANGE_RANKS = 8, EXCHANGE_STUCK_MSEC = 60000 };

/* --- requests and replies -------------------------------------------------------------- */

struct exchange {
	uint64_t seed;
	uint32_t size;
	uint64_t requests; /* from each rank to each */
	uint64_t window;   /* in flight, to each */
	uint64_t most;	   /* bytes of a payload */
	uint32_t body_most;
	uint64_t edge;	       /* bytes; some payloads have about this length */
	const uint64_t *sizes; /* payloads of the first ones */
	size_t nsizes;
	uint32_t flip; /* id of an answer of rank 1 to 0 that is changed */
};

/* The way in which a reply is expected. */
enum how { NOT, EXACT, LARGE, SHORT, TWICE, HOWS };

/* A request, and its answer: known to both ends. */
struct talk {
	uint64_t key;
	uint32_t ask, body; /* bytes */
	uint64_t payload, room;
	uint32_t err;
	enum how how;
};

static inline uint64_t some_bytes(uint64_t *r, uint64_t few, uint64_t most)
{
	uint64_t kind = tap_random(r) % 16;

	if (kind == 0)
		return 0;
	if (kind == 1)
		return most;
	return tap_random(r) % (kind < 4 ? most : few);
}

static inline struct talk talk_of(const struct exchange *e, uint32_t from,
				  uint32_t to, uint64_t id)
{
	uint64_t r = word_of(e->seed + id,
			     ((size_t)from * EXCHANGE_RANKS + to) * 8) |
		     1;
	struct talk t = { .key = tap_random(&r) };

	t.ask = (uint32_t)some_bytes(&r, 2000, e->body_most);
	t.body = (uint32_t)some_bytes(&r, 500, e->body_most);
	t.payload = some_bytes(&r, 20000, e->most);
	if (e->edge && tap_random(&r) % 8 == 0)
		t.payload = e->edge + tap_random(&r) % 3 - 1;
	t.how = (enum how)(tap_random(&r) % HOWS);
	if (tap_random(&r) % 11 == 0)
		t.err = EACCES;
	if (t.err) {
		t.body = 0;
		t.payload = 0;
	}
	if (id <= e->nsizes)
		t = (struct talk){ .key = t.key,
				   .payload = e->sizes[id - 1],
				   .how = EXACT };
	t.room = t.payload;
	if (t.how == LARGE)
		t.room += 1 + tap_random(&r) % 100;
	if (t.how == SHORT && t.room)
		t.room -= 1 + tap_random(&r) % t.room;
	return t;
}

/* --- a rank ------------------------------------------------------------------------------ */

struct side {
	const struct exchange *e;
	uint32_t rank;
	struct ck_transport *x;
	uint64_t asked[EXCHANGE_RANKS], heard[EXCHANGE_RANKS],
		answered[EXCHANGE_RANKS];
	uint8_t **rooms[EXCHANGE_RANKS]; /* by id: where answers go */
	uint64_t out;			 /* parcels in flight */
	uint64_t wrong;
	bool gone[EXCHANGE_RANKS];
};

struct item {
	struct ck_parcel p;
	struct side *s;
	uint8_t bytes[];
};

static inline void check(struct side *s, bool good, const char *what)
{
	if (!good && s->wrong++ < 3 && !s->e->flip)
		printf("# rank %u: %s\n", s->rank, what);
}

static inline void item_sent(struct ck_parcel *p, int rc)
{
	struct item *i = (struct item *)p;

	check(i->s, rc == 0, "a parcel was not sent");
	i->s->out--;
	free(i);
}

static inline void send_item(struct side *s, uint32_t to,
			     struct ck_wire_head head, uint64_t key)
{
	struct item *i = malloc(sizeof(*i) + head.body + head.payload);

	if (!i)
		abort();
	i->s = s;
	fill_bytes(i->bytes, head.body, key);
	fill_bytes(i->bytes + head.body, head.payload, key + 1);
	if (s->rank == 1 && to == 0 && head.answer && head.id == s->e->flip)
		i->bytes[(head.body + head.payload) / 2] ^= 1;
	i->p = (struct ck_parcel){
		.to = to,
		.head = head,
		.body = { (const char *)i->bytes, head.body },
		.payload = i->bytes + head.body,
		.sent = item_sent,
	};
	s->out++;
	s->x->send(s->x, &i->p);
}

/* Memory for a payload, with a guard byte behind it. */
static inline uint8_t *make_room(const struct talk *t)
{
	uint8_t *room = malloc(t->room + 1);

	if (!room)
		abort();
	room[t->room] = 0xee;
	if (t->room > t->payload)
		room[t->payload] = 0xee;
	return room;
}

static inline void ask(struct side *s, uint32_t to)
{
	uint64_t id = ++s->asked[to];
	struct talk t = talk_of(s->e, s->rank, to, id);
	uint8_t *room = t.how == NOT ? NULL : make_room(&t), none;

	s->rooms[to][id] = room;
	if (t.how == TWICE)
		check(s, s->x->expect(s->x, to, id, &none, UINT64_MAX) == 0,
		      "expect");
	if (room)
		check(s, s->x->expect(s->x, to, id, room, t.room) == 0,
		      "expect");
	send_item(s, to,
		  (struct ck_wire_head){ .type = CK_WIRE_READ,
					 .id = id,
					 .epoch = s->rank,
					 .body = t.ask },
		  t.key);
}

static inline void answer(struct side *s, uint32_t from,
			  const struct ck_message *m)
{
	struct talk t = talk_of(s->e, from, s->rank, m->head.id);

	check(s, m->head.id == ++s->heard[from], "order of requests");
	check(s, m->body.len == t.ask && are_bytes(m->body.p, t.ask, t.key),
	      "a request");
	check(s, !m->payload.p && !m->payload.len, "payload of a request");
	send_item(s, from,
		  (struct ck_wire_head){ .type = CK_WIRE_READ,
					 .answer = true,
					 .err = t.err,
					 .id = m->head.id,
					 .epoch = m->head.epoch,
					 .body = t.body,
					 .payload = t.payload },
		  t.key + 2);
}

static inline bool is_payload(const struct talk *t, const struct ck_message *m,
			      const uint8_t *room)
{
	if (!t->payload || t->how == NOT || t->how == SHORT)
		return !m->payload.p && !m->payload.len;
	return m->payload.p == (const char *)room &&
	       m->payload.len == t->payload &&
	       are_bytes(room, t->payload, t->key + 3) &&
	       (t->how != LARGE || room[t->payload] == 0xee);
}

static inline void take(struct side *s, uint32_t from,
			const struct ck_message *m)
{
	struct talk t = talk_of(s->e, s->rank, from, m->head.id);
	uint8_t *room = s->rooms[from][m->head.id];

	check(s, m->head.id == ++s->answered[from], "order of answers");
	check(s, m->head.err == t.err && m->head.epoch == s->rank, "a head");
	check(s,
	      m->body.len == t.body && are_bytes(m->body.p, t.body, t.key + 2),
	      "an answer");
	check(s, is_payload(&t, m, room), "a payload");
	check(s, !room || room[t.room] == 0xee, "room behind a payload");
	free(room);
	if (s->asked[from] < s->e->requests)
		ask(s, from);
}

static inline void side_got(void *arg, uint32_t from,
			    const struct ck_message *m)
{
	struct side *s = arg;

	if (m->head.id == 0 || m->head.id > s->e->requests)
		check(s, false, "an id");
	else if (m->head.answer)
		take(s, from, m);
	else
		answer(s, from, m);
}

static inline bool is_over_with(const struct side *s, uint32_t rank)
{
	return s->answered[rank] == s->e->requests &&
	       s->heard[rank] == s->e->requests;
}

static inline void side_lost(void *arg, uint32_t rank)
{
	struct side *s = arg;

	check(s, !s->gone[rank] && is_over_with(s, rank), "lost");
	s->gone[rank] = true;
}

static inline bool is_over(const struct side *s)
{
	for (uint32_t i = 0; i < s->e->size; i++)
		if (!is_over_with(s, i) && !s->gone[i])
			return false;
	return s->out == 0;
}

/* Runs the exchange over the rank's transport, and closes it. */
static inline void side_run(struct side *s)
{
	for (uint32_t i = 0; i < s->e->size; i++) {
		s->rooms[i] = calloc(s->e->requests + 1, sizeof(uint8_t *));
		if (!s->rooms[i])
			abort();
	}
	s->x->arg = s;
	s->x->got = side_got;
	s->x->lost = side_lost;
	for (uint32_t i = 0; i < s->e->size; i++)
		for (uint64_t k = 0; k < s->e->window; k++)
			ask(s, i);
	while (!is_over(s)) {
		int rc = s->x->wait(s->x, NULL, 0, EXCHANGE_STUCK_MSEC);

		check(s, rc == 0, "wait");
		if (rc)
			break;
	}
	s->x->close(s->x);
	for (uint32_t i = 0; i < s->e->size; i++)
		free(s->rooms[i]);
}

/* --- wait() --------------------------------------------------------------------------------- */

static inline void *waker(void *arg)
{
	struct ck_transport *x = arg;

	usleep(50000);
	x->wake(x);
	return NULL;
}

static inline void test_wake(struct ck_transport *x)
{
	uint64_t start = now_msec();
	pthread_t thread;

	if (pthread_create(&thread, NULL, waker, x))
		abort();
	eq_err(x->wait(x, NULL, 0, -1), 0);
	ok(now_msec() - start >= 49);
	pthread_join(thread, NULL);
	x->wake(x);
	x->wake(x);
	eq_err(x->wait(x, NULL, 0, -1), 0);
	start = now_msec();
	eq_err(x->wait(x, NULL, 0, 50), 0);
	ok(now_msec() - start >= 49);
	eq_err(x->wait(x, NULL, 0, 0), 0);
}

static inline void test_also(struct ck_transport *x)
{
	int a[2], b[2];
	struct pollfd also[3];

	if (pipe2(a, O_CLOEXEC) || pipe2(b, O_CLOEXEC))
		abort();
	also[0] = (struct pollfd){ .fd = a[0], .events = POLLIN, .revents = 1 };
	also[1] = (struct pollfd){ .fd = -1, .events = POLLIN };
	also[2] = (struct pollfd){ .fd = b[0], .events = POLLIN };
	eq_err(x->wait(x, also, 3, 20), 0);
	ok(!also[0].revents && !also[1].revents && !also[2].revents);
	eq_i64(write(b[1], "x", 1), 1);
	eq_err(x->wait(x, also, 3, -1), 0);
	ok(!also[0].revents && also[2].revents == POLLIN);
	eq_i64(close(a[1]), 0);
	eq_err(x->wait(x, also, 3, -1), 0);
	ok(also[0].revents == POLLHUP && also[2].revents == POLLIN);
	close(a[0]);
	close(b[0]);
	close(b[1]);
}

#endif
