/* SPDX-License-Identifier: MIT */
/*
 * rounds_participant: the role of a rank that takes part in rounds. It prepares
 * requested rounds, and runs those that have a number one by one, by increasing
 * number. A prepared round keeps its memory until OVER: if an epoch ends before
 * the round has, the round is run again in the next one.
 *
 * States of a part: PREPARING, READY, TURN (has a number), RUNNING, DONE;
 * ABORTING, from RUNNING, until the backend has stopped.
 */
#include "rounds_internal.h"

#include <errno.h>

/* An initiator ends a round within 2 * round_msec. Twice that time without OVER
 * means that the initiator is hung. */
enum { PATIENCE_ROUNDS = 4 };

struct ck_participant *ck_participant_find(struct ck_rounds *all, uint64_t op)
{
	struct ck_participant *p = all->parts;

	while (p && p->r.op != op)
		p = p->next;
	return p;
}

static struct ck_participant *running(const struct ck_rounds *all)
{
	struct ck_participant *p = all->parts;

	while (p && p->state != CK_PARTICIPANT_RUNNING &&
	       p->state != CK_PARTICIPANT_ABORTING)
		p = p->next;
	return p;
}

bool ck_participant_is_running(const struct ck_rounds *all)
{
	return running(all);
}

static void send_refused(struct ck_rounds *all, uint64_t op, int rc)
{
	ck_rounds_send_head(
		all, ck_rounds_initiator(op),
		&(struct ck_rounds_message){ .kind = CK_ROUNDS_REFUSED,
					     .err = (uint32_t)-rc,
					     .op = op });
}

/* --- the end of a part ------------------------------------------------------------------ */

static void drop(struct ck_rounds *all, struct ck_participant *p)
{
	struct ck_participant **at = &all->parts;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	all->nparts--;
	free(p);
}

static void ended(struct ck_rounds *all, struct ck_participant *p, int rc)
{
	all->user->ended(all->user, &p->r, rc);
	drop(all, p);
}

static void abort_run(struct ck_rounds *all, struct ck_participant *p)
{
	p->state = CK_PARTICIPANT_ABORTING;
	p->n = 0;
	all->backend->abort(all->backend, &p->r);
}

/* Ends a part. If it has a number and the other ranks do not know of the end,
 * they wait for this rank: then the epoch is broken. */
static void over(struct ck_rounds *all, struct ck_participant *p, int rc)
{
	if (p->over)
		return;
	if (p->n)
		ck_rounds_break(all);
	if (p->state == CK_PARTICIPANT_RUNNING)
		abort_run(all, p);
	if (p->state != CK_PARTICIPANT_ABORTING) {
		ended(all, p, rc);
		return;
	}
	p->over = true;
	p->rc = rc;
}

void ck_participant_lost(struct ck_rounds *all, uint32_t rank)
{
	struct ck_participant *p = all->parts, *next;

	for (; p; p = next) {
		next = p->next;
		if (ck_rounds_initiator(p->r.op) == rank)
			over(all, p, -EHOSTDOWN);
	}
}

void ck_participant_end(struct ck_rounds *all)
{
	struct ck_participant *p = all->parts, *next;

	for (; p; p = next) {
		next = p->next;
		if (!p->over)
			send_refused(all, p->r.op, -ECANCELED);
		over(all, p, -ECANCELED);
	}
}

/* --- preparation ---------------------------------------------------------- */

static struct ck_participant *add(struct ck_rounds *all,
				  const struct ck_rounds_message *m)
{
	struct ck_participant *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->r.op = m->op;
	p->r.nranks = m->nranks;
	for (uint32_t i = 0; i < m->nranks; i++)
		p->r.ranks[i] = ck_rounds_rank(m, i);
	p->since = all->now;
	p->next = all->parts;
	all->parts = p;
	all->nparts++;
	return p;
}

static int check_room(const struct ck_rounds *all,
		      const struct ck_rounds_message *m)
{
	if (all->ended)
		return -ECANCELED;
	for (uint32_t i = 0; i < m->nranks; i++)
		if (all->ranks[ck_rounds_rank(m, i)].lost)
			return -EHOSTDOWN;
	return all->nparts < all->o.most ? 0 : -EBUSY;
}

static int take_prepare(struct ck_rounds *all, uint32_t from,
			const struct ck_rounds_message *m)
{
	struct ck_participant *p;
	int rc;

	if (m->op <= all->ranks[from].last_op ||
	    ck_rounds_place(m, from) == m->nranks ||
	    ck_rounds_place(m, all->o.rank) == m->nranks)
		return -EPROTO;
	all->ranks[from].last_op = m->op;
	rc = check_room(all, m);
	p = rc ? NULL : add(all, m);
	if (p)
		all->user->prepare(all->user, &p->r, m->rest);
	else
		send_refused(all, m->op, rc ? rc : -ENOMEM);
	return 0;
}

int ck_rounds_ready(struct ck_rounds *all, uint64_t op,
		    const struct ck_round_pair *pairs, uint32_t n)
{
	struct ck_participant *p = ck_participant_find(all, op);

	if (!p)
		return 0;
	if (p->state != CK_PARTICIPANT_PREPARING ||
	    !ck_rounds_pairs_are_sound(pairs, n, p->r.ranks, p->r.nranks))
		return -EINVAL;
	p->state = CK_PARTICIPANT_READY;
	p->r.npairs = n;
	if (n)
		memcpy(p->r.pairs, pairs, n * sizeof(*pairs));
	ck_rounds_put(&all->out,
		      &(struct ck_rounds_message){ .kind = CK_ROUNDS_READY,
						   .op = op },
		      n * CK_ROUNDS_ROW);
	for (uint32_t i = 0; i < n; i++)
		ck_rounds_put_row(&all->out, &pairs[i]);
	ck_rounds_send(all, ck_rounds_initiator(op));
	return 0;
}

void ck_rounds_refuse(struct ck_rounds *all, uint64_t op, int err)
{
	struct ck_participant *p = ck_participant_find(all, op);

	if (!p || p->state != CK_PARTICIPANT_PREPARING)
		return;
	send_refused(all, op, err);
	drop(all, p);
}

/* --- running -------------------------------------------------------------------------------- */

/* The backend has stopped running it. */
static void stopped(struct ck_rounds *all, struct ck_participant *p)
{
	p->state = p->n ? CK_PARTICIPANT_NUMBERED : CK_PARTICIPANT_READY;
	if (p->over)
		ended(all, p, p->rc);
}

/* A round that fails here cannot end anywhere. The initiator is notified before
 * the sequencer, so that it does not propose the round again. */
static void fail(struct ck_rounds *all, struct ck_participant *p, int rc)
{
	p->n = 0;
	send_refused(all, p->r.op, rc);
	ck_rounds_break(all);
}

static void run_end(struct ck_rounds *all, struct ck_participant *p)
{
	p->state = CK_PARTICIPANT_DONE;
	p->n = 0;
	p->ran = true;
	ck_rounds_send_head(all, ck_rounds_initiator(p->r.op),
			    &(struct ck_rounds_message){ .kind = CK_ROUNDS_DONE,
							 .op = p->r.op,
							 .epoch = all->epoch });
}

static void poll_run(struct ck_rounds *all, struct ck_participant *p)
{
	int rc = all->backend->poll(all->backend, &p->r);

	if (p->state == CK_PARTICIPANT_ABORTING) {
		if (rc != -EINPROGRESS)
			stopped(all, p);
	} else if (rc == 0) {
		run_end(all, p);
	} else if (rc != -EINPROGRESS) {
		fail(all, p, rc);
		stopped(all, p);
	} else if (all->now - p->begun >= all->o.round_msec) {
		fail(all, p, -ETIMEDOUT);
		abort_run(all, p);
	}
}

static struct ck_participant *next_turn(const struct ck_rounds *all)
{
	struct ck_participant *first = NULL;

	for (struct ck_participant *p = all->parts; p; p = p->next)
		if (p->state == CK_PARTICIPANT_NUMBERED &&
		    (!first || p->n < first->n))
			first = p;
	return first;
}

static void begin(struct ck_rounds *all, struct ck_participant *p)
{
	int rc;

	p->begun = all->now;
	p->r.n = p->n;
	p->r.epoch = all->epoch;
	p->state = CK_PARTICIPANT_RUNNING;
	rc = all->backend->begin(all->backend, &p->r);
	if (rc) {
		fail(all, p, rc);
		stopped(all, p);
	}
}

/* Notifies the backend of a new epoch. Also if this rank has no round in it:
 * the communicator needs all members. */
static void notify_backend(struct ck_rounds *all)
{
	if (all->epoch_pending)
		all->backend->epoch(all->backend, all->epoch, all->members,
				    all->nmembers, all->token);
	all->epoch_pending = false;
}

/* Runs rounds until one is not complete at once. */
static void run(struct ck_rounds *all)
{
	struct ck_participant *p = running(all);

	if (p)
		poll_run(all, p);
	while (!running(all)) {
		notify_backend(all);
		p = all->broken ? NULL : next_turn(all);
		if (!p)
			return;
		begin(all, p);
		if (p == running(all))
			poll_run(all, p);
	}
}

static bool may_go(const struct ck_participant *p)
{
	return (p->state == CK_PARTICIPANT_READY ||
		p->state == CK_PARTICIPANT_ABORTING) &&
	       !p->n && !p->over;
}

static int take_go(struct ck_rounds *all, uint32_t from,
		   const struct ck_rounds_message *m)
{
	struct ck_participant *p = ck_participant_find(all, m->op);

	if (m->epoch % all->o.size != from || m->epoch > all->epoch)
		return -EPROTO;
	if (m->epoch < all->epoch)
		return 0;
	if (m->n <= all->last_n)
		return -EPROTO;
	all->last_n = m->n;
	if (!p || !may_go(p)) {
		/* It was ended here, and the other ranks wait for it. */
		ck_rounds_break(all);
		return 0;
	}
	p->n = m->n;
	if (p->state == CK_PARTICIPANT_READY)
		p->state = CK_PARTICIPANT_NUMBERED;
	return 0;
}

void ck_participant_renew(struct ck_rounds *all)
{
	for (struct ck_participant *p = all->parts; p; p = p->next) {
		if (p->state == CK_PARTICIPANT_RUNNING)
			abort_run(all, p);
		else if (p->state == CK_PARTICIPANT_NUMBERED ||
			 p->state == CK_PARTICIPANT_DONE)
			p->state = CK_PARTICIPANT_READY;
		p->n = 0;
	}
}

/* --- messages of the initiator -------------------------------------------- */

static int take_over(struct ck_rounds *all, const struct ck_rounds_message *m)
{
	struct ck_participant *p = ck_participant_find(all, m->op);
	bool good;

	if (!p)
		return 0;
	/* Only a round that has run has delivered its bytes. */
	good = p->state == CK_PARTICIPANT_DONE ||
	       (p->state == CK_PARTICIPANT_READY && p->ran);
	if (m->err == 0 && !good)
		return -EPROTO;
	over(all, p, -(int)m->err);
	return 0;
}

int ck_participant_receive(struct ck_rounds *all, uint32_t from,
			   const struct ck_rounds_message *m)
{
	if (m->kind == CK_ROUNDS_GO)
		return take_go(all, from, m);
	if (ck_rounds_initiator(m->op) != from)
		return -EPROTO;
	return m->kind == CK_ROUNDS_PREPARE ? take_prepare(all, from, m)
					    : take_over(all, m);
}

/* --- time ------------------------------------------------------------------------------------- */

static void give_up_old(struct ck_rounds *all)
{
	uint64_t most = all->o.prepare_msec +
			PATIENCE_ROUNDS * (uint64_t)all->o.round_msec;
	struct ck_participant *p = all->parts, *next;

	for (; p; p = next) {
		next = p->next;
		if (all->now - p->since < most || p->over)
			continue;
		send_refused(all, p->r.op, -ETIMEDOUT);
		over(all, p, -ETIMEDOUT);
	}
}

void ck_participant_tick(struct ck_rounds *all)
{
	give_up_old(all);
	run(all);
}
