/* SPDX-License-Identifier: MIT */
/*
 * export_fill: fills an export (export.h). The thread of the request and its helpers
 * start pieces, each a read into device memory; completions free them. A fill runs
 * until all pieces have ended: with 0, or with the first error, after which no piece
 * is started. ck_export_fill.lock protects it, and is released while a piece is started.
 */
#include "base/system/process.h"
#include "export.h"

#include <errno.h>

enum {
	AT_A_TIME = 16, /* pieces */
	/* Most threads beside those of requests, for all exports: with these a copy is as
	 * fast as a link to a device. */
	HELPERS_MOST = 7,
	PIECES_EACH = 2, /* least pieces of a thread */
	PAUSE_MSEC = 2,	 /* until the next try to get a slot */
};

struct piece {
	struct ck_read read; /* first */
	struct ck_export_fill *fill;
	bool on_way; /* started, and not ended */
};

struct ck_export_fill {
	/* Constant: */
	struct ck_route *route;
	const struct ck_export_request *wish;
	const struct ck_export *export;

	pthread_mutex_t lock;
	/* Protected by lock: */
	pthread_cond_t changed;
	struct piece pieces[AT_A_TIME];
	uint64_t next;	 /* first byte of the next piece */
	uint32_t on_way; /* pieces in flight */
	int rc;		 /* the first error */
};

/* --- pieces ----------------------------------------------------------------------------- */

/* Must hold the lock. */
static void piece_ended(struct piece *p, int rc)
{
	struct ck_export_fill *f = p->fill;

	p->on_way = false;
	f->on_way--;
	if (rc && !f->rc)
		f->rc = rc;
	pthread_cond_broadcast(&f->changed);
}

static void piece_came(struct ck_read *r, int rc)
{
	struct piece *p = (struct piece *)r;
	struct ck_export_fill *f = p->fill;

	pthread_mutex_lock(&f->lock);
	piece_ended(p, rc);
	pthread_mutex_unlock(&f->lock);
}

/* Prepares the next piece. Must hold the lock. NULL if AT_A_TIME pieces are in flight. */
static struct piece *piece_next(struct ck_export_fill *f)
{
	const struct ck_export_request *w = f->wish;
	struct piece *p = f->pieces;
	uint64_t at = f->next;

	while (p < f->pieces + AT_A_TIME && p->on_way)
		p++;
	if (p == f->pieces + AT_A_TIME)
		return NULL;
	p->fill = f;
	p->read = (struct ck_read){
		.from = w->from,
		.files = w->files,
		.vpos = w->vpos + at,
		.len = ck_min(w->len - at, f->route->gather_engine->segment),
		.memory = f->export->memory,
		.at = f->export->at + at,
		.done = piece_came,
	};
	p->on_way = true;
	f->on_way++;
	f->next += p->read.len;
	return p;
}

/* Starts a piece. Must hold the lock, which is released meanwhile. -EAGAIN if there is no
 * free slot. */
static int piece_start(struct ck_export_fill *f, struct piece *p)
{
	int rc;

	pthread_mutex_unlock(&f->lock);
	rc = ck_route_read(f->route, &p->read);
	pthread_mutex_lock(&f->lock);
	return rc;
}

/* --- all pieces ------------------------------------------------------------------------- */

/* Waits until a piece ends, or a slot may be free. Must hold the lock. */
static void wait_a_little(struct ck_export_fill *f)
{
	struct timespec end = ck_time_in(CLOCK_REALTIME, PAUSE_MSEC);
	struct ck_gather_engine *g = f->route->gather_engine;

	(void)pthread_cond_timedwait(&f->changed, &f->lock, &end);
	if (!g->holds(g, f->export->memory) && !f->rc)
		f->rc = -EOPNOTSUPP;
}

/* Starts a piece; waits while no slot is free. Must hold the lock. */
static void bring_piece(struct ck_export_fill *f, struct piece *p)
{
	int rc = piece_start(f, p);

	while (rc == -EAGAIN && !f->rc) {
		wait_a_little(f);
		rc = f->rc ? f->rc : piece_start(f, p);
	}
	if (rc != -EINPROGRESS)
		piece_ended(p, rc);
}

/* The main function of a thread that fills. */
static void *bring(void *arg)
{
	struct ck_export_fill *f = arg;

	pthread_mutex_lock(&f->lock);
	while (f->rc == 0 && f->next < f->wish->len) {
		struct piece *p = piece_next(f);

		if (p)
			bring_piece(f, p);
		else
			wait_a_little(f);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

/* Reserves helpers for so many pieces, and returns their number. */
static uint32_t helpers_take(struct ck_exports *all, uint64_t pieces)
{
	uint32_t n = (uint32_t)ck_min(pieces / PIECES_EACH, HELPERS_MOST + 1);
	uint32_t most;

	if (n < 2)
		return 0;
	most = (uint32_t)ck_min(ck_processors() - 1, HELPERS_MOST);
	pthread_mutex_lock(&all->lock);
	n = (uint32_t)ck_min(n - 1, most - ck_min(most, all->helpers));
	all->helpers += n;
	pthread_mutex_unlock(&all->lock);
	return n;
}

static void helpers_give_back(struct ck_exports *all, uint32_t n)
{
	pthread_mutex_lock(&all->lock);
	all->helpers -= n;
	pthread_mutex_unlock(&all->lock);
}

/* Blocks until all pieces have ended. */
static void bring_all(struct ck_exports *all, struct ck_export_fill *f)
{
	struct ck_gather_engine *g = f->route->gather_engine;
	uint32_t n = helpers_take(all, f->wish->len / g->segment), started = 0;
	pthread_t helpers[HELPERS_MOST];

	while (started < n && ck_thread_start(&helpers[started], bring, f) == 0)
		started++;
	(void)bring(f);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(helpers[i], NULL);
	helpers_give_back(all, n);
	pthread_mutex_lock(&f->lock);
	while (f->on_way)
		pthread_cond_wait(&f->changed, &f->lock);
	if (!g->holds(g, f->export->memory))
		f->rc = -EOPNOTSUPP;
	pthread_mutex_unlock(&f->lock);
}

static void announce(struct ck_exports *all, struct ck_export_request *w,
		     struct ck_export_fill *f)
{
	pthread_mutex_lock(&all->lock);
	w->fill = f;
	if (f && __atomic_load_n(&w->cancelled, __ATOMIC_ACQUIRE))
		f->rc = -EINTR;
	pthread_mutex_unlock(&all->lock);
}

int ck_export_fill(struct ck_exports *all, struct ck_export_request *w,
		   const struct ck_export *e)
{
	struct ck_export_fill *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return -ENOMEM;
	f->route = &all->route;
	f->wish = w;
	f->export = e;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, NULL);
	announce(all, w, f);
	bring_all(all, f);
	announce(all, w, NULL);
	rc = f->rc;
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	free(f);
	return rc;
}

void ck_export_fill_stop(struct ck_export_fill *f)
{
	pthread_mutex_lock(&f->lock);
	if (!f->rc)
		f->rc = -EINTR;
	for (unsigned i = 0; i < AT_A_TIME; i++)
		if (f->pieces[i].on_way)
			ck_route_interrupt(f->route, &f->pieces[i].read.waiter);
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}
