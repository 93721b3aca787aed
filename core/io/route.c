/* SPDX-License-Identifier: MIT */
/*
 * route: reads and requests that need remote files. A read runs as if all was here,
 * and notes the moves of what is not; the mover of remote files does these at once,
 * whatever hosts they are on. Where the headers of items must be read before it is
 * known what to move, these are fetched first, and it runs again. It goes on in the
 * thread in which the mover is done; nobody waits. With a gatherer the bytes of boxes, from
 * wherever they come, are packed into one of its slots, and are the reader's when they
 * have come back from there.
 */
#include "ckptfs/move.h"
#include "read_op.h"

#include <errno.h>

void ck_route_init(struct ck_route *route, struct ck_files *files,
		   struct ck_backend *remote)
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
	struct ck_backend *m = route->remote;

	pthread_mutex_lock(&route->lock);
	w->unwanted = true;
	if (w->moving && m->interrupt) {
		__atomic_store_n(&w->moving->unwanted, true, __ATOMIC_RELEASE);
		m->interrupt(m, w->moving);
	}
	if (w->gathering)
		route->gatherer->interrupt(route->gatherer, w->gathering);
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

static void moves_drop(struct ck_header_fetch *e)
{
	free(e->moves.list);
	e->moves = (struct ck_moves){ 0 };
}

/* That it has no bytes there would be for good; its size says so, if it is so. */
static int piece_rc(int rc)
{
	return rc == -ENODATA ? -EIO : rc;
}

static int errand_end(struct ck_header_fetch *e)
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
	struct ck_header_fetch *e = moves->arg;

	e->done(e, errand_end(e));
}

/* As ck_route_errand(), for somebody else who waits. */
static int errand_send(struct ck_route *route, struct ck_header_fetch *e,
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

int ck_route_errand(struct ck_route *route, struct ck_header_fetch *e)
{
	return errand_send(route, e, &e->waiter);
}

void ck_header_fetch_fini(struct ck_header_fetch *e)
{
	ck_fetch_fini(&e->fetch);
}

/* --- reads ------------------------------------------------------------------------- */

/* A read that is on its way, piece by piece: one is all that is left, or what a slot of the
 * gatherer takes. */
struct journey {
	struct ck_route *route;
	struct ck_read *read;
	struct ck_read piece;
	uint64_t done; /* bytes of the pieces before */
	uint64_t
		most; /* bytes of a piece that is gathered elsewhere; 0: none is */
	struct ck_packing packing;     /* without a slot: it is gathered here */
	struct ck_header_fetch errand; /* for headers */
	struct ck_remote_moves remote;
	struct ck_moves moves; /* the same, as the mover has them */
	bool by_round;	       /* they come straight to the device */
	uint64_t begun;
};

static void slot_put(struct journey *j)
{
	struct ck_gatherer *g = j->route->gatherer;

	if (j->packing.slot)
		g->put(g, j->packing.slot);
	ck_packing_fini(&j->packing);
}

static void journey_free(struct journey *j)
{
	if (j->read->remote && !j->read->ahead)
		ck_stats_waited(ck_files_stats(j->route->files),
				ck_msec_now() - j->begun);
	slot_put(j);
	ck_remote_fini(&j->remote);
	ck_header_fetch_fini(&j->errand);
	free(j);
}

static void journey_end(struct journey *j, int rc)
{
	struct ck_read *r = j->read;

	journey_free(j);
	r->done(r, rc);
}

/* --- a piece ----------------------------------------------------------------------- */

/* At memory of a device: nothing arrives here. */
static void piece_aim(struct journey *j)
{
	struct ck_gather_slot *slot = j->packing.slot;

	slot->memory = j->read->memory;
	slot->at = j->read->at + j->done;
	j->piece.to = slot->result;
}

/* The one that comes now; it may have begun. */
static void piece_begin(struct journey *j)
{
	const struct ck_read *r = j->read;
	struct ck_gatherer *g = j->route->gatherer;
	uint64_t left = r->len - j->done;

	if (j->most && !j->packing.slot)
		j->packing.slot = g->take(g);
	j->piece = (struct ck_read){
		.from = r->from,
		.vpos = r->vpos + j->done,
		.len = j->packing.slot ? ck_min(left, j->most) : left,
		.memory = r->memory,
	};
	if (!r->memory)
		j->piece.to = (uint8_t *)r->to + j->done;
	else if (j->packing.slot)
		piece_aim(j);
}

/* Whether there are others. */
static bool piece_end(struct journey *j)
{
	j->done += j->piece.len;
	return j->done < j->read->len;
}

/* It was too much for a slot, or for what gathers. */
static void piece_cut(struct journey *j)
{
	/* Of so many, in a whole piece, none is gathered that has not to be. */
	enum { PARTS = 256 };

	uint64_t least = j->route->gatherer->piece / PARTS;

	j->most = j->piece.len / 2 / CK_GATHER_ALIGN * CK_GATHER_ALIGN;
	if (j->most > least || (j->most && j->read->memory))
		return;
	j->most = 0;
	slot_put(j);
}

/* All was noted, and is brought now. */
static int bytes_bring(struct journey *j)
{
	struct ck_waiter *w = &j->read->waiter;
	int rc;

	rc = check_in(j->route, w, &j->moves);
	if (rc == 0)
		rc = j->route->remote->start(j->route->remote, &j->moves);
	if (rc)
		return rc;
	(void)arrive(j->route, w, &j->moves);
	return ck_remote_finish(&j->remote);
}

/* The same, straight to the device if that can be. */
static int bytes_want(struct journey *j)
{
	struct ck_gatherer *g = j->route->gatherer;

	j->read->remote = true;
	j->moves.list = j->remote.list;
	j->moves.n = j->remote.n;
	j->by_round = j->packing.slot && j->route->remote &&
		      __atomic_load_n(&g->rounds, __ATOMIC_RELAXED) &&
		      !j->remote.changes &&
		      ck_packing_want(&j->packing, j->route->remote, &j->moves);
	return j->by_round ? 0 : bytes_bring(j);
}

/* Of a step of a run directory they are not the route's. */
static struct ck_files *files_of(const struct journey *j)
{
	return j->read->files ? j->read->files : j->route->files;
}

static int plan_piece(struct journey *j)
{
	struct ck_packing *packing = j->packing.slot ? &j->packing : NULL;
	int rc;

	j->by_round = false;
	ck_remote_fini(&j->remote);
	if (packing)
		ck_packing_clear(packing);
	ck_fetch_begin(&j->errand.fetch);
	rc = ck_read_op_run(files_of(j), &j->piece, &j->remote, packing);
	ck_fetch_end(&j->errand.fetch);
	/* The errno of a file: nothing is on its way. */
	return rc == -EINPROGRESS ? -EIO : rc;
}

/* 0: its bytes are there, or packed. */
static int piece_bring(struct journey *j)
{
	int rc;

	do {
		rc = plan_piece(j);
		if (rc == 0 && j->remote.n)
			return bytes_want(j);
		if (rc != -EREMOTE)
			return rc;
		j->read->remote = true;
		rc = errand_send(j->route, &j->errand, &j->read->waiter);
	} while (rc == 0);
	return rc;
}

/* The result is all that is wanted, and nothing else. */
static bool is_aimed(const struct journey *j)
{
	const struct ck_packing *p = &j->packing;

	return p->n == 1 && p->arrivals[0].at == 0 &&
	       p->arrivals[0].len == j->piece.len;
}

static void gathered(struct ck_gather_slot *slot, int rc);

/* Who waits can interrupt that slot from now on. False: he has. */
static bool gather_with(struct journey *j, struct ck_gather_slot *slot)
{
	struct ck_waiter *w = &j->read->waiter;
	bool wanted;

	pthread_mutex_lock(&j->route->lock);
	wanted = !w->unwanted;
	w->gathering = wanted ? slot : NULL;
	pthread_mutex_unlock(&j->route->lock);
	return wanted;
}

/* What is packed is put together. 0: nothing was. */
static int piece_gather(struct journey *j)
{
	struct ck_gatherer *g = j->route->gatherer;
	struct ck_gather_slot *slot = j->packing.slot;

	if (j->piece.memory && !is_aimed(j))
		return -EIO;
	if (j->packing.n == 0)
		return 0;
	slot->done = gathered;
	slot->arg = j;
	if (!gather_with(j, slot))
		return -EINTR;
	g->start(g, slot);
	return -EINPROGRESS;
}

/* As ck_route_read(). */
static int go_on(struct journey *j)
{
	bool more = true;
	int rc = 0;

	while (more && rc == 0) {
		piece_begin(j);
		if (j->piece.memory && !j->packing.slot)
			return j->most ? -EAGAIN : -EIO;
		rc = piece_bring(j);
		if (rc == 0)
			rc = piece_gather(j);
		if (rc == 0)
			more = piece_end(j);
		if (rc != -E2BIG || !j->packing.slot)
			continue;
		piece_cut(j);
		rc = 0;
	}
	return rc;
}

/* --- what was waited for ------------------------------------------------------------ */

/* rc: of its last piece, which has ended. */
static void travel(struct journey *j, int rc, bool more)
{
	if (rc == 0 && more)
		rc = go_on(j);
	if (rc != -EINPROGRESS)
		journey_end(j, rc);
}

/* rc: of all that a piece needs, if that is there. */
static void piece_brought(struct journey *j, int rc)
{
	bool more = false;

	if (rc == 0)
		rc = piece_gather(j);
	if (rc == 0)
		more = piece_end(j);
	if (rc != -EINPROGRESS)
		travel(j, rc, more);
}

static void bytes_came(struct ck_moves *moves)
{
	struct journey *j = moves->arg;

	(void)arrive(j->route, &j->read->waiter, moves);
	piece_brought(j, ck_remote_finish(&j->remote));
}

static void headers_came(struct ck_header_fetch *e, int rc)
{
	travel(e->arg, rc, true);
}

/* What was to come by a round has come, or comes the other way. */
static void round_over(struct journey *j, int rc)
{
	struct ck_backend *remote = j->route->remote;
	struct ck_stats *stats = ck_files_stats(j->route->files);

	j->by_round = false;
	ck_packing_want_none(&j->packing);
	if (rc)
		return;
	for (size_t i = 0; i < j->moves.n; i++)
		j->moves.list[i].rc = 0;
	learn(j->route, &j->moves);
	if (remote->came)
		remote->came(remote, &j->moves);
	if (stats)
		ck_count(&stats->rounds, 1);
}

/* What did not come of it is gathered here. */
static void gathered(struct ck_gather_slot *slot, int rc)
{
	struct journey *j = slot->arg;
	struct ck_stats *stats = ck_files_stats(j->route->files);
	bool more = true;

	pthread_mutex_lock(&j->route->lock);
	j->read->waiter.gathering = NULL;
	pthread_mutex_unlock(&j->route->lock);
	if (rc == -EINTR) {
		j->packing.slot = NULL;
		travel(j, -EINTR, false);
		return;
	}
	if (j->by_round && (rc == 0 || rc == -EREMOTEIO)) {
		round_over(j, rc);
		if (rc) {
			rc = bytes_bring(j);
			if (rc != -EINPROGRESS)
				piece_brought(j, rc);
			return;
		}
	}
	if (rc == -EOVERFLOW) {
		piece_cut(j);
	} else if (rc && j->piece.memory) {
		travel(j, -EIO, false);
		return;
	} else if (rc) {
		j->most = 0;
		slot_put(j);
	} else {
		uint64_t bytes = j->piece.len;

		if (!j->piece.memory)
			bytes = ck_packing_arrive(&j->packing);
		if (stats)
			ck_count(&stats->gpu_bytes, bytes);
		more = piece_end(j);
	}
	travel(j, 0, more);
}

/* Whether it is begun there; what is here comes at once otherwise. */
static bool gathers(const struct ck_route *route)
{
	const struct ck_gatherer *g = route->gatherer;

	return ck_route_gathers(route) ||
	       (g && __atomic_load_n(&g->rounds, __ATOMIC_RELAXED));
}

int ck_route_read(struct ck_route *route, struct ck_read *r)
{
	uint64_t size = ck_open_slice_slice(r->from)->size;
	struct journey *j;
	int rc;

	r->remote = false;
	if (r->len > size || r->vpos > size - r->len)
		return -EINVAL;
	j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	j->route = route;
	j->read = r;
	if (gathers(route))
		j->most = route->gatherer->piece;
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
