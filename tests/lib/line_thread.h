/* SPDX-License-Identifier: MIT */
/*
 * line_thread: a connection to file servers, run by its own thread. It replies in
 * any order, is full at times, is replaced by another connection, and loses
 * messages and peers. Its clock is simulated and advances when the thread is idle.
 */
#ifndef CK_LINE_THREAD_H
#define CK_LINE_THREAD_H

#include "dist/client/remote_client.h"
#include "owners_case.h"

#include <pthread.h>
#include <sched.h>

struct line_thread {
	struct ck_line line; /* first */
	pthread_t thread;
	/* Constant while it runs: */
	struct ck_calls *calls; /* the thread's, once it runs */
	struct ck_file_server *owner[OWNERS];
	uint32_t npeers;
	bool calm; /* nothing gets lost */
	bool lie;  /* changes the last byte of each reply */
	struct ck_calls_options options;
	/* Set by line_thread_serve(). Under lock: */
	struct ck_remote_client *requester;
	struct ck_routes routes;
	/* The thread's: */
	uint64_t now, random, renewed, lost, answered;

	pthread_mutex_t lock;
	/* Under lock: */
	bool ending, full, woken;
	struct packets packets;
};

static inline int line_thread_send(struct ck_line *l, uint32_t peer,
				   const struct ck_query *a)
{
	struct line_thread *t = (struct line_thread *)l;
	int rc = -EAGAIN;

	pthread_mutex_lock(&t->lock);
	if (!t->full) {
		struct packet *p = packets_add(&t->packets);

		wire_add_ask(&p->bytes, a);
		p->head = a->head;
		p->peer = peer;
		rc = 0;
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

static inline void line_thread_wake(struct ck_line *l)
{
	struct line_thread *t = (struct line_thread *)l;

	pthread_mutex_lock(&t->lock);
	t->woken = true;
	pthread_mutex_unlock(&t->lock);
}

static inline bool line_thread_one_in(struct line_thread *t, uint64_t n)
{
	return boxes_one_in(&t->random, n);
}

/* Takes a random message in flight. False if there is no message. */
static inline bool line_thread_take(struct line_thread *t, struct packet *out)
{
	bool any;

	pthread_mutex_lock(&t->lock);
	any = t->packets.n > 0;
	if (any)
		*out = packets_take(&t->packets,
				    boxes_below(&t->random, t->packets.n));
	pthread_mutex_unlock(&t->lock);
	return any;
}

static inline void line_thread_deliver(struct line_thread *t, struct packet *p)
{
	struct ck_message m;

	packet_answer(p, t->owner[p->peer]);
	m = packet_open(p);
	if (t->lie && p->head.payload)
		p->bytes.data[p->bytes.len - 1] ^= 1;
	if (ck_calls_take(t->calls, p->peer, &m, t->now))
		abort();
	t->answered++;
}

/* Replaces the connection. Half of the messages in flight are lost; replies to the rest
 * are ignored. */
static inline void line_thread_renew(struct line_thread *t)
{
	struct ck_calls *old = t->calls;

	pthread_mutex_lock(&t->lock);
	for (size_t i = t->packets.n; i > 0 && i--;)
		if (line_thread_one_in(t, 2))
			packets_drop(&t->packets, i);
	pthread_mutex_unlock(&t->lock);
	t->options.epoch++;
	t->calls = ck_calls_make(&t->options, &t->line, t->now);
	if (!t->calls)
		abort();
	t->routes.calls = t->calls;
	ck_remote_client_renew(t->requester, &t->routes);
	ck_calls_end(old);
	ck_calls_free(old);
	t->renewed++;
}

/* Sets the client. From now on the connection may be replaced. */
static inline void line_thread_serve(struct line_thread *t,
				     struct ck_remote_client *r)
{
	pthread_mutex_lock(&t->lock);
	t->requester = r;
	t->routes = r->routes;
	pthread_mutex_unlock(&t->lock);
}

static inline bool line_thread_serves(struct line_thread *t)
{
	bool serves;

	pthread_mutex_lock(&t->lock);
	serves = t->requester != NULL;
	pthread_mutex_unlock(&t->lock);
	return serves;
}

static inline void line_thread_tick(struct line_thread *t)
{
	if (ck_calls_tick(t->calls, t->now) == 0)
		abort();
}

/* Sets whether the connection is full. When it has room again, a tick resends. */
static inline void line_thread_fill(struct line_thread *t, bool full)
{
	bool woken;

	pthread_mutex_lock(&t->lock);
	woken = t->woken || (t->full && !full);
	t->full = full;
	t->woken = false;
	pthread_mutex_unlock(&t->lock);
	if (woken)
		line_thread_tick(t);
}

static inline void line_thread_disturb(struct line_thread *t)
{
	if (line_thread_one_in(t, 40) && line_thread_serves(t))
		line_thread_renew(t);
	if (t->calm || !line_thread_one_in(t, 60))
		return;
	ck_calls_lost(t->calls, (uint32_t)boxes_below(&t->random, t->npeers));
	t->lost++;
}

static inline void line_thread_step(struct line_thread *t)
{
	struct packet p;

	line_thread_disturb(t);
	line_thread_fill(t, line_thread_one_in(t, 8));
	if (!line_thread_take(t, &p)) {
		t->now += 250;
		line_thread_tick(t);
		sched_yield();
		return;
	}
	t->now += boxes_below(&t->random, 4);
	if (t->calm || !line_thread_one_in(t, 50))
		line_thread_deliver(t, &p);
	ck_buf_fini(&p.bytes);
}

static inline bool line_thread_is_ending(struct line_thread *t)
{
	bool ending;

	pthread_mutex_lock(&t->lock);
	ending = t->ending;
	pthread_mutex_unlock(&t->lock);
	return ending;
}

static inline void *line_thread_run(void *arg)
{
	struct line_thread *t = arg;

	while (!line_thread_is_ending(t))
		line_thread_step(t);
	ck_calls_end(t->calls);
	return NULL;
}

/* The caller has set owner, npeers and calm. */
static inline void line_thread_begin(struct line_thread *t, uint64_t window,
				     uint64_t seed)
{
	t->options = (struct ck_calls_options){ .npeers = t->npeers,
						.ping_msec = 1000,
						.silence_msec = 10000,
						.timeout_msec = 20000,
						.window = window };
	t->line = (struct ck_line){ line_thread_send, line_thread_wake };
	t->random = seed | 1;
	t->ending = t->full = t->woken = false;
	t->now = 1;
	pthread_mutex_init(&t->lock, NULL);
	t->calls = ck_calls_make(&t->options, &t->line, t->now);
	if (!t->calls || pthread_create(&t->thread, NULL, line_thread_run, t))
		abort();
}

/* No request may be pending. */
static inline void line_thread_end(struct line_thread *t)
{
	pthread_mutex_lock(&t->lock);
	t->ending = true;
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	ck_calls_free(t->calls);
	packets_fini(&t->packets);
	pthread_mutex_destroy(&t->lock);
}

#endif
