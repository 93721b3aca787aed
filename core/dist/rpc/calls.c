/* SPDX-License-Identifier: MIT */
/*
 * calls: calls to all peers of one line, and the state of each peer.
 *
 * A call is queued for its peer until the peer's window has room (QUEUED), then
 * in flight (ON_WAY). It ends when its reply arrives (DONE), or when it fails
 * by timeout, cancellation or loss of the peer (FAILED). The line's thread
 * delivers failures by done(), then the call is DONE.
 *
 * A peer is up or down. A silent peer is sent a PING after ping_msec and is
 * down after silence_msec. Any reply to a request that was sent since then
 * makes it up again.
 *
 * Any thread sends and cancels calls; the line's thread receives, runs the
 * timers and calls done(), without holding the lock.
 */
#include "calls.h"

#include <errno.h>
#include <pthread.h>

enum { BUCKETS = 256, BRIEF_MSEC = 2000 };

enum state { NEW, QUEUED, ON_WAY, FAILED, DONE };

/* A circular list; its head is not a call. */
struct calls_list {
	struct ck_call head;
};

struct peer {
	bool up;
	/* when it last sent something, and was last sent a PING */
	uint64_t last_message, last_ping;
	uint64_t progress; /* when it last answered a call */
	/* while it is down: calls with keep_queued stay queued until then */
	uint64_t held;
	uint64_t before; /* the last id that was in use when it went down */
	uint64_t window; /* bytes of replies in flight */
	struct calls_list queue, on_way;
	struct ck_query ping;
};

struct ck_calls {
	/* Constant: */
	struct ck_calls_options options;
	struct ck_line *line;

	pthread_mutex_t lock;
	/* Under lock: */
	bool ended;
	uint64_t last_id;
	uint64_t now;
	uint32_t first; /* the peer that look_after_all() begins with */
	struct ck_call *by_id[BUCKETS]; /* calls in flight */
	struct calls_list over;
	struct peer peers[];
};

/* --- lists ------------------------------------------------------------------------ */

static void list_init(struct calls_list *l)
{
	l->head.next = l->head.prev = &l->head;
}

static struct ck_call *list_first(struct calls_list *l)
{
	return l->head.next == &l->head ? NULL : l->head.next;
}

static void insert_before(struct ck_call *at, struct ck_call *c)
{
	c->next = at;
	c->prev = at->prev;
	c->prev->next = c;
	at->prev = c;
}

static void list_append(struct calls_list *l, struct ck_call *c)
{
	insert_before(&l->head, c);
}

static void list_remove(struct ck_call *c)
{
	c->prev->next = c->next;
	c->next->prev = c->prev;
}

static struct ck_call **bucket_of(struct ck_calls *all, uint64_t id)
{
	return &all->by_id[id % BUCKETS];
}

static struct ck_call *find(struct ck_calls *all, uint64_t id)
{
	struct ck_call *c = *bucket_of(all, id);

	while (c && c->query.head.id != id)
		c = c->same;
	return c;
}

/* --- making ------------------------------------------------------------------------ */

void ck_calls_free(struct ck_calls *all)
{
	if (!all)
		return;
	for (uint32_t i = 0; i < all->options.npeers; i++)
		ck_query_fini(&all->peers[i].ping);
	pthread_mutex_destroy(&all->lock);
	free(all);
}

struct ck_calls *ck_calls_make(const struct ck_calls_options *options,
			       struct ck_line *line, uint64_t now)
{
	struct ck_calls *all =
		calloc(1, sizeof(*all) + options->npeers * sizeof(struct peer));
	int rc = 0;

	if (!all)
		return NULL;
	all->options = *options;
	all->line = line;
	all->now = now;
	pthread_mutex_init(&all->lock, NULL);
	list_init(&all->over);
	for (uint32_t i = 0; i < options->npeers && rc == 0; i++) {
		struct peer *p = &all->peers[i];

		p->up = true;
		p->last_message = p->last_ping = p->progress = now;
		list_init(&p->queue);
		list_init(&p->on_way);
		rc = ck_query_ping(&p->ping);
	}
	if (rc == 0)
		return all;
	ck_calls_free(all);
	return NULL;
}

/* --- queued and in flight; must hold the lock ----------------------------- */

static struct peer *peer_of(struct ck_calls *all, const struct ck_call *c)
{
	return &all->peers[c->peer];
}

/* The time limit of the call, in ms; time spent with other peers is
 * subtracted. */
static uint64_t left_of(const struct ck_calls *all, const struct ck_call *c)
{
	uint64_t most = all->options.timeout_msec;
	uint64_t left = most - ck_min(most, c->spent);

	return c->short_deadline ? ck_min(left, (uint64_t)BRIEF_MSEC) : left;
}

/* Removes a call from those in flight. */
static void arrive(struct ck_calls *all, struct ck_call *c)
{
	struct ck_call **at = bucket_of(all, c->query.head.id);

	while (*at != c)
		at = &(*at)->same;
	*at = c->same;
	list_remove(c);
	peer_of(all, c)->window -= ck_query_bytes(&c->query);
}

/* Moves the call to the list of failed calls. The line's thread delivers rc. */
static void give_up(struct ck_calls *all, struct ck_call *c, int rc)
{
	if (c->state == ON_WAY)
		arrive(all, c);
	else if (c->state == QUEUED)
		list_remove(c);
	c->spent += all->now - c->since;
	c->state = FAILED;
	c->rc = rc;
	list_append(&all->over, c);
}

static bool is_held(const struct ck_calls *all, const struct peer *p,
		    const struct ck_call *c)
{
	return c->keep_queued && all->now < p->held;
}

/* Fails the calls to a peer that is down, except those that wait for another
 * line. */
static void give_up_all(struct ck_calls *all, struct peer *p)
{
	struct ck_call *c, *next;

	while ((c = list_first(&p->on_way)))
		give_up(all, c, -EIO);
	for (c = p->queue.head.next; c != &p->queue.head; c = next) {
		next = c->next;
		if (!is_held(all, p, c))
			give_up(all, c, -EIO);
	}
}

static void go_down(struct ck_calls *all, struct peer *p)
{
	if (p->up) {
		p->held = p->last_message + all->options.hold_msec;
		p->before = all->last_id;
	}
	p->up = false;
	give_up_all(all, p);
}

static int depart(struct ck_calls *all, struct ck_call *c)
{
	struct peer *p = peer_of(all, c);
	struct ck_call **bucket;
	int rc;

	c->query.head.id = all->last_id + 1;
	c->query.head.epoch = all->options.epoch;
	rc = all->line->send(all->line, c->peer, &c->query);
	if (rc)
		return rc;
	all->last_id++;
	list_remove(c);
	list_append(&p->on_way, c);
	c->state = ON_WAY;
	c->since = all->now;
	bucket = bucket_of(all, c->query.head.id);
	c->same = *bucket;
	*bucket = c;
	p->window += ck_query_bytes(&c->query);
	return 0;
}

/* Sends queued calls as far as the window permits. */
static void pump(struct ck_calls *all, struct peer *p)
{
	struct ck_call *c;

	while (p->up && (c = list_first(&p->queue))) {
		uint64_t bytes = ck_query_bytes(&c->query);
		int rc;

		if (p->window && (p->window >= all->options.window ||
				  bytes > all->options.window - p->window))
			break;
		rc = depart(all, c);
		if (rc == -EAGAIN)
			break;
		if (rc)
			give_up(all, c, -EIO);
	}
}

/* --- any thread ---------------------------------------------------------------------- */

void ck_calls_send(struct ck_calls *all, struct ck_call *c)
{
	struct peer *p = peer_of(all, c);
	bool wake;

	pthread_mutex_lock(&all->lock);
	c->state = NEW;
	c->since = all->now;
	if ((!p->up && !is_held(all, p, c)) || left_of(all, c) == 0) {
		give_up(all, c, -EIO);
	} else {
		c->state = QUEUED;
		list_append(&p->queue, c);
		pump(all, p);
	}
	wake = list_first(&all->over);
	pthread_mutex_unlock(&all->lock);
	if (wake)
		all->line->wake(all->line);
}

void ck_calls_drop(struct ck_calls *all, struct ck_call *c)
{
	bool dropped;

	pthread_mutex_lock(&all->lock);
	dropped = c->state == QUEUED || c->state == ON_WAY;
	if (dropped)
		give_up(all, c, -EINTR);
	pthread_mutex_unlock(&all->lock);
	if (dropped)
		all->line->wake(all->line);
}

void ck_calls_release(struct ck_calls *all)
{
	pthread_mutex_lock(&all->lock);
	for (uint32_t i = 0; i < all->options.npeers; i++) {
		struct peer *p = &all->peers[i];

		p->held = 0;
		if (!p->up)
			give_up_all(all, p);
	}
	pthread_mutex_unlock(&all->lock);
	all->line->wake(all->line);
}

bool ck_calls_is_up(struct ck_calls *all, uint32_t peer)
{
	bool up;

	pthread_mutex_lock(&all->lock);
	up = all->peers[peer].up;
	pthread_mutex_unlock(&all->lock);
	return up;
}

uint32_t ck_calls_epoch(const struct ck_calls *all)
{
	return all->options.epoch;
}

/* --- the line's thread ----------------------------------------------------------------- */

static struct ck_call *take_over(struct ck_calls *all)
{
	struct ck_call *c;

	pthread_mutex_lock(&all->lock);
	c = list_first(&all->over);
	if (c) {
		list_remove(c);
		c->state = DONE;
	}
	pthread_mutex_unlock(&all->lock);
	return c;
}

/* Delivers the failed calls. */
static void deliver_failed(struct ck_calls *all)
{
	struct ck_call *c;

	while ((c = take_over(all)))
		(void)c->done(c, NULL, c->rc);
}

/* Shifts the start of all calls of a list. */
static void put_off(struct calls_list *l, uint64_t by)
{
	for (struct ck_call *c = l->head.next; c != &l->head; c = c->next)
		c->since += by;
}

/* If this process was stopped or the machine slept, all timers are shifted by
 * the gap, so that no peer is blamed for it. Must hold the lock. */
static void set_now(struct ck_calls *all, uint64_t now)
{
	uint64_t gap = now - all->now;

	all->now = now;
	if (gap <= 2 * (uint64_t)all->options.ping_msec)
		return;
	for (uint32_t i = 0; i < all->options.npeers; i++) {
		struct peer *p = &all->peers[i];

		p->last_message += gap;
		p->last_ping += gap;
		p->progress += gap;
		p->held += p->held ? gap : 0;
		put_off(&p->queue, gap);
		put_off(&p->on_way, gap);
	}
}

/* A reply to a request from before the peer went down does not make it up:
 * requests may not arrive there yet. */
static void note_reply(const struct ck_calls *all, struct peer *p, uint64_t id,
		       uint64_t now)
{
	if (!p->up && id <= p->before)
		return;
	p->last_message = now;
	p->up = !all->ended;
}

/* Returns the call that a message answers, removed from those in flight; NULL
 * if there is no such call, because it failed earlier. */
static struct ck_call *answered(struct ck_calls *all, uint32_t peer,
				const struct ck_message *m, uint64_t now)
{
	struct peer *p = &all->peers[peer];
	struct ck_call *c = NULL;

	pthread_mutex_lock(&all->lock);
	set_now(all, now);
	if (m->head.epoch == all->options.epoch) {
		note_reply(all, p, m->head.id, now);
		c = find(all, m->head.id);
	}
	if (c && c->peer != peer)
		c = NULL;
	if (c) {
		arrive(all, c);
		c->spent += now - c->since;
		c->state = DONE;
		p->progress = now;
		pump(all, p);
	}
	pthread_mutex_unlock(&all->lock);
	return c;
}

int ck_calls_take(struct ck_calls *all, uint32_t peer,
		  const struct ck_message *m, uint64_t now)
{
	struct ck_call *c;
	int rc;

	ck_stats_received(all->options.stats, peer,
			  CK_WIRE_HEAD + m->body.len + m->payload.len);

	if (peer >= all->options.npeers || !m->head.answer)
		return -EPROTO;
	c = answered(all, peer, m, now);
	if (!c)
		return 0;
	rc = ck_query_check(&c->query, &m->head);
	if (rc == 0)
		return c->done(c, m, 0);
	(void)c->done(c, NULL, -EIO);
	return rc;
}

static bool is_too_late(const struct ck_calls *all, const struct ck_call *c)
{
	return all->now - c->since >= left_of(all, c);
}

/* Calls in flight have different time limits, so the whole list is searched. */
static void give_up_old(struct ck_calls *all, const struct peer *p)
{
	struct ck_call *c = p->on_way.head.next, *next;

	for (; c != &p->on_way.head; c = next) {
		next = c->next;
		if (is_too_late(all, c))
			give_up(all, c, -EIO);
	}
}

/* A queued call expires only if the peer has also answered no other call for
 * that time. */
static void give_up_waiting(struct ck_calls *all, const struct peer *p)
{
	struct ck_call *c = p->queue.head.next, *next;

	for (; c != &p->queue.head; c = next) {
		next = c->next;
		if (is_too_late(all, c) &&
		    all->now - p->progress >= left_of(all, c))
			give_up(all, c, -EIO);
	}
}

static void ask_whether_there(struct ck_calls *all, uint32_t peer)
{
	struct peer *p = &all->peers[peer];

	if (all->now - p->last_message < all->options.ping_msec ||
	    all->now - p->last_ping < all->options.ping_msec || all->ended)
		return;
	p->ping.head.id = ++all->last_id;
	p->ping.head.epoch = all->options.epoch;
	if (all->line->send(all->line, peer, &p->ping) == 0)
		p->last_ping = all->now;
}

static void look_after(struct ck_calls *all, uint32_t peer)
{
	struct peer *p = &all->peers[peer];

	if (p->up && all->now - p->last_message >= all->options.silence_msec)
		go_down(all, p);
	if (!p->up)
		give_up_all(all, p);
	give_up_old(all, p);
	give_up_waiting(all, p);
	pump(all, p);
	ask_whether_there(all, peer);
}

/* The first peer changes each time: otherwise the same peers would always get
 * the room that the line has. */
static void look_after_all(struct ck_calls *all)
{
	uint32_t n = all->options.npeers;

	for (uint32_t i = 0; i < n; i++)
		look_after(all, (all->first + i) % n);
	all->first = all->first + 1 < n ? all->first + 1 : 0;
}

uint32_t ck_calls_tick(struct ck_calls *all, uint64_t now)
{
	enum { TICKS = 4 }; /* per ping_msec */

	pthread_mutex_lock(&all->lock);
	set_now(all, now);
	look_after_all(all);
	pthread_mutex_unlock(&all->lock);
	deliver_failed(all);
	return (uint32_t)ck_max(all->options.ping_msec / TICKS, 1);
}

void ck_calls_lost(struct ck_calls *all, uint32_t peer)
{
	pthread_mutex_lock(&all->lock);
	go_down(all, &all->peers[peer]);
	pthread_mutex_unlock(&all->lock);
	deliver_failed(all);
}

void ck_calls_end(struct ck_calls *all)
{
	pthread_mutex_lock(&all->lock);
	all->ended = true;
	for (uint32_t i = 0; i < all->options.npeers; i++)
		go_down(all, &all->peers[i]);
	pthread_mutex_unlock(&all->lock);
	deliver_failed(all);
}
