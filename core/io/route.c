/* SPDX-License-Identifier: MIT */
/*
 * route: reads and header fetches of remote files. A read runs as if all files were
 * local, and records a move for each remote range. The remote backend then runs
 * these moves in one batch, whatever hosts they are on. If headers of items are
 * needed to plan, they are fetched first, and the read runs again.
 *
 * No thread blocks: a read continues in the thread in which the backend or gatherer
 * completes. With a gatherer, the bytes of boxes are packed into a slot, and
 * delivered when the slot is done.
 */
#include "ckptfs/move.h"
#include "header_fetch.h"
#include "staging.h"

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

/* --- moves in flight ------------------------------------------------------------ */

/* Maps errors of hosts to those that programs may see. */
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

/* Records changed files and failovers, and maps the errors. */
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

/* Ends the wait of `w`. Returns true unless it was interrupted. */
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

/* Begins a wait. Returns 0, and the backend must be called next, or an error. */
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

/* --- header fetches ------------------------------------------------------------- */

/* Makes one move for each recorded range. */
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

/* Maps ENODATA to EIO: ENODATA would be recorded as permanent damage. A file that
 * really is too short is detected by its size. */
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

/* As ck_route_errand(), for the waiter `sender`. */
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

/* A read operation, in segments: one segment is all that is left, or what fits into
 * a slot of the gatherer. */
struct journey {
	struct ck_route *route;
	struct ck_read *read;
	struct ck_read piece;
	uint64_t done; /* bytes of completed segments */
	uint64_t most; /* most bytes of a gathered segment; 0: not gathered */
	/* without a slot: gathered in this process */
	struct ck_packing packing;
	struct ck_header_fetch errand; /* for headers */
	struct ck_remote_moves remote;
	struct ck_moves moves; /* the moves of `remote`, as a batch */
	bool by_round;	       /* peers send the moves straight to the device */
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

/* --- a segment ------------------------------------------------------------------ */

/* Directs the result to device memory. */
static void piece_aim(struct journey *j)
{
	struct ck_gather_slot *slot = j->packing.slot;

	slot->memory = j->read->memory;
	slot->at = j->read->at + j->done;
	j->piece.to = slot->result;
}

/* Begins the next segment, or begins it again. */
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

/* Ends a segment. Returns true if there are more. */
static bool piece_end(struct journey *j)
{
	j->done += j->piece.len;
	return j->done < j->read->len;
}

/* Halves a segment that exceeds a slot or the gatherer. */
static void piece_cut(struct journey *j)
{
	/* Below 1/256 of a slot the GPU does not pay: gather on the host, unless
	 * the destination is device memory. */
	enum { PARTS = 256 };

	uint64_t least = j->route->gatherer->piece / PARTS;

	j->most = j->piece.len / 2 / CK_GATHER_ALIGN * CK_GATHER_ALIGN;
	if (j->most > least || (j->most && j->read->memory))
		return;
	j->most = 0;
	slot_put(j);
}

/* Starts the recorded moves. */
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

/* Starts the recorded moves, or encodes them for peers to send straight to the
 * device. */
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

/* Files of the read: those of a step of a run directory differ from those of the
 * route. */
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
	rc = ck_read_slice(files_of(j), &j->piece, &j->remote, packing);
	ck_fetch_end(&j->errand.fetch);
	/* An errno of a file, not of a start: no move is in flight. */
	return rc == -EINPROGRESS ? -EIO : rc;
}

/* Returns 0 if all bytes of the segment are copied or packed. */
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

/* True if the result is exactly the segment. */
static bool is_aimed(const struct journey *j)
{
	const struct ck_packing *p = &j->packing;

	return p->n == 1 && p->arrivals[0].at == 0 &&
	       p->arrivals[0].len == j->piece.len;
}

static void gathered(struct ck_gather_slot *slot, int rc);

/* Makes the slot interruptible. Returns false if the read was interrupted. */
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

/* Starts the slot. Returns 0 if nothing was packed. */
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

/* Runs segments until one waits. Returns as ck_route_read(). */
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

/* --- completions ---------------------------------------------------------------- */

/* Continues after a segment ended with rc. */
static void travel(struct journey *j, int rc, bool more)
{
	if (rc == 0 && more)
		rc = go_on(j);
	if (rc != -EINPROGRESS)
		journey_end(j, rc);
}

/* Continues after the moves of a segment completed with rc. */
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

/* A round of the segment ended: counts it, or falls back to the backend. */
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

/* After an error of the gatherer the segment is gathered in this process. */
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

/* True if the read starts with a slot. */
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
