/* SPDX-License-Identifier: MIT */
/* export_fill: see export_fill.h. */
#include "export_fill.h"

#include <errno.h>

enum {
	AT_A_TIME = 8, /* pieces */
	PAUSE_MSEC =
		2, /* until a slot is tried for again that others have now */
};

struct piece {
	struct ck_read read; /* first */
	struct ck_export_fill *fill;
	bool on_way;
};

struct ck_export_fill {
	/* Constant: */
	struct ck_route *route;
	const struct ck_export_wish *wish;
	const struct ck_export *export;

	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed;
	struct piece pieces[AT_A_TIME];
	uint64_t next; /* bytes that were asked for */
	uint32_t on_way;
	int rc;
};

/* --- a piece --------------------------------------------------------------------------- */

/* Under the lock. */
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

/* The next one, under the lock; NULL: so many are on their way. */
static struct piece *piece_next(struct ck_export_fill *f)
{
	const struct ck_export_wish *w = f->wish;
	struct piece *p = f->pieces;
	uint64_t at = f->next;

	while (p < f->pieces + AT_A_TIME && p->on_way)
		p++;
	if (p == f->pieces + AT_A_TIME)
		return NULL;
	p->fill = f;
	p->read = (struct ck_read){
		.from = w->from,
		.vpos = w->vpos + at,
		.len = ck_min(w->len - at, f->route->gatherer->piece),
		.memory = f->export->memory,
		.at = f->export->at + at,
		.done = piece_came,
	};
	p->on_way = true;
	f->on_way++;
	f->next += p->read.len;
	return p;
}

/* Under the lock, but while it asks. -EAGAIN: there is no room for it now. */
static int piece_start(struct ck_export_fill *f, struct piece *p)
{
	int rc;

	pthread_mutex_unlock(&f->lock);
	rc = ck_route_read(f->route, &p->read);
	pthread_mutex_lock(&f->lock);
	return rc;
}

/* --- all of them ----------------------------------------------------------------------- */

/* Under the lock. Something ends soon, or others give back a slot. */
static void wait_a_little(struct ck_export_fill *f)
{
	struct timespec end = ck_time_in(CLOCK_REALTIME, PAUSE_MSEC);
	struct ck_gatherer *g = f->route->gatherer;

	(void)pthread_cond_timedwait(&f->changed, &f->lock, &end);
	if (!g->holds(g, f->export->memory) && !f->rc)
		f->rc = -EOPNOTSUPP;
}

/* Under the lock. */
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

static void bring(struct ck_export_fill *f)
{
	pthread_mutex_lock(&f->lock);
	while (f->rc == 0 && f->next < f->wish->len) {
		struct piece *p = piece_next(f);

		if (p)
			bring_piece(f, p);
		else
			wait_a_little(f);
	}
	pthread_mutex_unlock(&f->lock);
}

/* Until all has come, or will not. */
static void bring_all(struct ck_export_fill *f)
{
	struct ck_gatherer *g = f->route->gatherer;

	bring(f);
	pthread_mutex_lock(&f->lock);
	while (f->on_way)
		pthread_cond_wait(&f->changed, &f->lock);
	if (!g->holds(g, f->export->memory))
		f->rc = -EOPNOTSUPP;
	pthread_mutex_unlock(&f->lock);
}

static void announce(struct ck_exports *all, struct ck_export_wish *w,
		     struct ck_export_fill *f)
{
	pthread_mutex_lock(&all->lock);
	w->fill = f;
	if (f && __atomic_load_n(&w->unwanted, __ATOMIC_ACQUIRE))
		f->rc = -EINTR;
	pthread_mutex_unlock(&all->lock);
}

int ck_export_fill(struct ck_exports *all, struct ck_export_wish *w,
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
	bring_all(f);
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
