/* SPDX-License-Identifier: MIT */
/*
 * route: reads and requests that need remote files. A read runs as if all was here,
 * and notes the moves of what is not; the mover of remote files does these at once,
 * whatever hosts they are on. Where the headers of items must be read before it is
 * known what to move, these are fetched first, and it runs again. It goes on in the
 * thread in which the mover is done; nobody waits.
 */
#include "ckptfs/move.h"
#include "reading.h"

#include <errno.h>
#include <semaphore.h>

void ck_route_init(struct ck_route *route, struct ck_files *files,
		   struct ck_mover *remote)
{
	*route = (struct ck_route){ .files = files, .remote = remote };
	pthread_mutex_init(&route->lock, NULL);
}

void ck_route_fini(struct ck_route *route)
{
	pthread_mutex_destroy(&route->lock);
}

/* --- moves on the way ------------------------------------------------------------ */

/* What a program may be told; the rest is between hosts. */
static int told(int rc)
{
	switch (rc) {
	case 0:
	case -EBADMSG:
	case -EINTR:
	case -ENODATA:
	case -ENOMEM:
	case -ESTALE: return rc;
	default: return -EIO;
	}
}

/* What it says of files is noted. */
static void learn(const struct ck_route *route, const struct ck_moves *moves)
{
	struct ck_stats *stats = ck_files_stats(route->files);

	for (size_t i = 0; i < moves->n; i++) {
		struct ck_move *m = &moves->list[i];

		if (m->rc == 0 || m->rc == -ESTALE)
			ck_files_note_changed(route->files, m->file,
					      m->rc != 0);
		if (m->rc == 0 && stats &&
		    ck_files_is_left(route->files, m->file))
			ck_count(&stats->copies, 1);
		m->rc = told(m->rc);
	}
}

/* Whether he is still interested. */
static bool arrive(struct ck_route *route, struct ck_waiter *w,
		   const struct ck_moves *moves)
{
	bool unwanted;

	pthread_mutex_lock(&route->lock);
	w->moving = NULL;
	unwanted = w->unwanted;
	pthread_mutex_unlock(&route->lock);
	learn(route, moves);
	return !unwanted;
}

/* 0: he is still interested, and the mover is asked next. */
static int check_in(struct ck_route *route, struct ck_waiter *w,
		    struct ck_moves *moves)
{
	bool unwanted;

	if (!route->remote)
		return -EIO;
	pthread_mutex_lock(&route->lock);
	unwanted = w->unwanted;
	if (!unwanted)
		w->moving = moves;
	pthread_mutex_unlock(&route->lock);
	return unwanted ? -EINTR : 0;
}

void ck_route_interrupt(struct ck_route *route, struct ck_waiter *w)
{
	struct ck_mover *m = route->remote;

	pthread_mutex_lock(&route->lock);
	w->unwanted = true;
	if (w->moving && m->interrupt) {
		__atomic_store_n(&w->moving->unwanted, true, __ATOMIC_RELEASE);
		m->interrupt(m, w->moving);
	}
	pthread_mutex_unlock(&route->lock);
}

/* --- errands ----------------------------------------------------------------------- */

/* One move for each piece that is wanted. */
static int moves_of(const struct ck_fetch *f, struct ck_moves *out)
{
	size_t n = f->n - f->brought;
	struct ck_move *list = calloc(n, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct ck_piece *p = &f->pieces[f->brought + i];

		list[i] = (struct ck_move){ .file = p->file,
					    .fpos = p->fpos,
					    .run = p->len,
					    .to = p->bytes };
	}
	*out = (struct ck_moves){ .list = list, .n = n };
	return 0;
}

static void moves_drop(struct ck_errand *e)
{
	free(e->moves.list);
	e->moves = (struct ck_moves){ 0 };
}

/* That it has no bytes there would be for good; its size says so, if it is so. */
static int piece_rc(int rc)
{
	return rc == -ENODATA ? -EIO : rc;
}

static int errand_end(struct ck_errand *e)
{
	struct ck_fetch *f = &e->fetch;
	bool wanted = arrive(e->route, e->sender, &e->moves);

	if (e->sender == &e->waiter)
		ck_stats_waited(ck_files_stats(e->route->files),
				ck_msec_now() - e->begun);
	for (size_t i = 0; i < e->moves.n; i++)
		f->pieces[f->brought + i].rc = piece_rc(e->moves.list[i].rc);
	ck_fetch_came(f);
	moves_drop(e);
	return wanted ? 0 : -EINTR;
}

static void errand_done(struct ck_moves *moves)
{
	struct ck_errand *e = moves->arg;

	e->done(e, errand_end(e));
}

/* As ck_route_errand(), for somebody else who waits. */
static int errand_send(struct ck_route *route, struct ck_errand *e,
		       struct ck_waiter *sender)
{
	int rc;

	if (e->fetch.err)
		return e->fetch.err;
	if (e->fetch.n == e->fetch.brought)
		return -EIO;
	rc = moves_of(&e->fetch, &e->moves);
	if (rc)
		return rc;
	e->route = route;
	e->sender = sender;
	e->begun = ck_msec_now();
	e->moves.brief = e->brief;
	e->moves.done = errand_done;
	e->moves.arg = e;
	rc = check_in(route, sender, &e->moves);
	if (rc) {
		moves_drop(e);
		return rc;
	}
	rc = route->remote->start(route->remote, &e->moves);
	return rc ? rc : errand_end(e);
}

int ck_route_errand(struct ck_route *route, struct ck_errand *e)
{
	return errand_send(route, e, &e->waiter);
}

void ck_errand_fini(struct ck_errand *e)
{
	ck_fetch_fini(&e->fetch);
}

/* --- reads ------------------------------------------------------------------------- */

/* A read that is on its way. */
struct journey {
	struct ck_route *route;
	struct ck_read *read;
	struct ck_errand errand; /* for headers */
	struct ck_remote_moves remote;
	struct ck_moves moves; /* the same, as the mover has them */
	uint64_t begun;
};

static void journey_free(struct journey *j)
{
	if (!j->read->ahead)
		ck_stats_waited(ck_files_stats(j->route->files),
				ck_msec_now() - j->begun);
	ck_remote_fini(&j->remote);
	ck_errand_fini(&j->errand);
	free(j);
}

static void journey_end(struct journey *j, int rc)
{
	struct ck_read *r = j->read;

	journey_free(j);
	r->done(r, rc);
}

/* All was noted, and is brought now. */
static int bytes_bring(struct journey *j)
{
	struct ck_waiter *w = &j->read->waiter;
	int rc;

	j->moves.list = j->remote.list;
	j->moves.n = j->remote.n;
	rc = check_in(j->route, w, &j->moves);
	if (rc == 0)
		rc = j->route->remote->start(j->route->remote, &j->moves);
	if (rc)
		return rc;
	(void)arrive(j->route, w, &j->moves);
	return ck_remote_finish(&j->remote);
}

static void bytes_came(struct ck_moves *moves)
{
	struct journey *j = moves->arg;

	(void)arrive(j->route, &j->read->waiter, moves);
	journey_end(j, ck_remote_finish(&j->remote));
}

/* As ck_route_read(). */
static int go_on(struct journey *j)
{
	struct ck_read *r = j->read;
	int rc;

	do {
		ck_remote_fini(&j->remote);
		ck_fetch_begin(&j->errand.fetch);
		rc = ck_reading_run(j->route->files, r, &j->remote);
		ck_fetch_end(&j->errand.fetch);
		if (rc == 0 && j->remote.n)
			return bytes_bring(j);
		/* The errno of a file: nothing is on its way. */
		if (rc == -EINPROGRESS)
			return -EIO;
		if (rc != -EREMOTE)
			return rc;
		rc = errand_send(j->route, &j->errand, &r->waiter);
	} while (rc == 0);
	return rc;
}

static void headers_came(struct ck_errand *e, int rc)
{
	struct journey *j = e->arg;

	if (rc == 0)
		rc = go_on(j);
	if (rc != -EINPROGRESS)
		journey_end(j, rc);
}

int ck_route_read(struct ck_route *route, struct ck_read *r)
{
	struct journey *j = calloc(1, sizeof(*j));
	int rc;

	if (!j)
		return -ENOMEM;
	j->route = route;
	j->read = r;
	j->begun = ck_msec_now();
	j->errand.done = headers_came;
	j->errand.arg = j;
	j->errand.brief = r->brief;
	j->moves.brief = r->brief;
	j->moves.done = bytes_came;
	j->moves.arg = j;
	rc = go_on(j);
	if (rc != -EINPROGRESS)
		journey_free(j);
	return rc;
}

/* --- those who wait ---------------------------------------------------------------- */

struct wait {
	sem_t done;
	int rc;
};

static void wake(struct wait *w, int rc)
{
	w->rc = rc;
	sem_post(&w->done);
}

static void wait_begin(struct wait *w)
{
	sem_init(&w->done, 0, 0);
}

/* rc: what the start came to. */
static int wait_end(struct wait *w, int rc)
{
	if (rc == -EINPROGRESS) {
		while (sem_wait(&w->done))
			; /* a signal */
		rc = w->rc;
	}
	sem_destroy(&w->done);
	return rc;
}

static void wake_reader(struct ck_read *r, int rc)
{
	wake(r->arg, rc);
}

static void wake_sender(struct ck_errand *e, int rc)
{
	wake(e->arg, rc);
}

int ck_move_read(struct ck_route *route, struct ck_read *r)
{
	struct ck_fetch none = { 0 };
	struct wait w;
	int rc;

	/* What is remote is brought by the route, all at once. */
	ck_fetch_begin(&none);
	rc = ck_host_read(route->files, r);
	ck_fetch_end(&none);
	ck_fetch_fini(&none);
	r->remote = rc == -EREMOTE;
	if (!r->remote)
		return rc;
	wait_begin(&w);
	r->done = wake_reader;
	r->arg = &w;
	return wait_end(&w, ck_route_read(route, r));
}

int ck_move_errand(struct ck_route *route, struct ck_errand *e)
{
	struct wait w;

	wait_begin(&w);
	e->done = wake_sender;
	e->arg = &w;
	return wait_end(&w, ck_route_errand(route, e));
}
