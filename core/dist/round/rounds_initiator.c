/* SPDX-License-Identifier: MIT */
/*
 * rounds_initiator: the role of a rank that has requested rounds. It collects
 * the counts that the ranks of a round send with READY, and proposes them to
 * the sequencer, in each new epoch again, until all ranks are DONE. Then, or on
 * the first failure, it sends OVER.
 *
 * State: the list of rounds requested here (struct ck_initiated).
 */
#include "rounds_internal.h"

#include <errno.h>

/* For so many times round_msec no round is requested of a rank that did not
 * answer. */
enum { QUIET_ROUNDS = 8 };

static struct ck_initiated *find(const struct ck_rounds *all, uint64_t op)
{
	struct ck_initiated *a = all->initiated;

	while (a && a->op != op)
		a = a->next;
	return a;
}

/* NULL if the rank is not part of the round. */
static struct ck_rounds_report *report_of(struct ck_initiated *a, uint32_t rank)
{
	for (uint32_t i = 0; i < a->nranks; i++)
		if (a->ranks[i] == rank)
			return &a->reports[i];
	return NULL;
}

/* --- end of a round ------------------------------------------------------- */

static void drop(struct ck_rounds *all, struct ck_initiated *a)
{
	struct ck_initiated **at = &all->initiated;

	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	all->ninitiated--;
	for (uint32_t i = 0; i < a->nranks; i++)
		free(a->reports[i].pairs);
	free(a);
}

static void over(struct ck_rounds *all, struct ck_initiated *a, int rc)
{
	const struct ck_rounds_message m = { .kind = CK_ROUNDS_OVER,
					     .err = (uint32_t)-rc,
					     .op = a->op };
	uint64_t op = a->op;

	for (uint32_t i = 0; i < a->nranks; i++)
		ck_rounds_send_head(all, a->ranks[i], &m);
	drop(all, a);
	all->user->over(all->user, op, rc);
}

/* --- requesting ----------------------------------------------------------- */

static bool answers(const struct ck_rounds *all, uint32_t rank)
{
	const struct ck_rounds_rank *r = &all->ranks[rank];

	return !r->lost && all->now >= r->quiet_until;
}

static int check_ranks(const struct ck_rounds *all, const uint32_t *ranks,
		       uint32_t n)
{
	bool self = false, all_answer = answers(all, ck_rounds_sequencer(all));

	if (n == 0 || n > CK_ROUND_RANKS)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		if (ranks[i] >= all->o.size || (i && ranks[i] <= ranks[i - 1]))
			return -EINVAL;
		self |= ranks[i] == all->o.rank;
		all_answer &= answers(all, ranks[i]);
	}
	if (!self)
		return -EINVAL;
	return all_answer ? 0 : -EHOSTDOWN;
}

static struct ck_initiated *add(struct ck_rounds *all, const uint32_t *ranks,
				uint32_t n)
{
	struct ck_initiated *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->op = (uint64_t)all->o.rank << 48 | ++all->last_serial;
	a->since = all->now;
	a->nranks = n;
	memcpy(a->ranks, ranks, n * sizeof(*ranks));
	a->next = all->initiated;
	all->initiated = a;
	all->ninitiated++;
	return a;
}

static void send_prepare(struct ck_rounds *all, const struct ck_initiated *a,
			 struct ck_str what)
{
	ck_rounds_put(&all->out,
		      &(struct ck_rounds_message){ .kind = CK_ROUNDS_PREPARE,
						   .op = a->op,
						   .nranks = a->nranks },
		      (uint32_t)what.len);
	ck_rounds_put_ranks(all, a->ranks, a->nranks);
	ck_buf_str(&all->out, what);
	for (uint32_t i = 0; i < a->nranks; i++)
		ck_rounds_send(all, a->ranks[i]);
}

int ck_rounds_request(struct ck_rounds *all, const uint32_t *ranks, uint32_t n,
		      struct ck_str what, uint64_t *op)
{
	struct ck_initiated *a;
	int rc = check_ranks(all, ranks, n);

	if (rc || all->ended)
		return rc ? rc : -ECANCELED;
	if (what.len > CK_ROUND_WHAT)
		return -EINVAL;
	if (all->ninitiated >= all->o.most)
		return -EBUSY;
	a = add(all, ranks, n);
	if (!a)
		return -ENOMEM;
	*op = a->op;
	send_prepare(all, a, what);
	return 0;
}

/* --- proposing ------------------------------------------------------------------------------- */

static void put_stated(struct ck_rounds *all, const struct ck_initiated *a)
{
	for (uint32_t i = 0; i < a->nranks; i++)
		ck_buf_u32(&all->out, a->reports[i].n);
	for (uint32_t i = 0; i < a->nranks; i++)
		for (uint32_t k = 0; k < a->reports[i].n; k++)
			ck_rounds_put_row(&all->out, &a->reports[i].pairs[k]);
}

/* Proposes a round if all its ranks are ready and an epoch has begun. Otherwise
 * it is called again when that is so. */
static void propose(struct ck_rounds *all, struct ck_initiated *a)
{
	uint32_t rows = 0;

	if (a->nready < a->nranks || !all->epoch || all->broken)
		return;
	for (uint32_t i = 0; i < a->nranks; i++)
		rows += a->reports[i].n;
	a->epoch = all->epoch;
	ck_rounds_put(&all->out,
		      &(struct ck_rounds_message){ .kind = CK_ROUNDS_PROPOSE,
						   .op = a->op,
						   .epoch = a->epoch,
						   .nranks = a->nranks },
		      4 * a->nranks + CK_ROUNDS_ROW * rows);
	ck_rounds_put_ranks(all, a->ranks, a->nranks);
	put_stated(all, a);
	ck_rounds_send(all, ck_rounds_sequencer(all));
}

void ck_initiated_renew(struct ck_rounds *all)
{
	for (struct ck_initiated *a = all->initiated; a; a = a->next) {
		a->epoch = 0;
		a->ndone = 0;
		for (uint32_t i = 0; i < a->nranks; i++)
			a->reports[i].done = false;
		propose(all, a);
	}
}

/* --- messages in ---------------------------------------------------------- */

static int keep_pairs(struct ck_initiated *a, struct ck_rounds_report *s,
		      struct ck_str rows)
{
	struct ck_round_pair pairs[CK_ROUND_RANKS];

	if (ck_rounds_rows(rows, &s->n, pairs) ||
	    !ck_rounds_pairs_are_sound(pairs, s->n, a->ranks, a->nranks))
		return -EPROTO;
	if (s->n == 0)
		return 0;
	s->pairs = calloc(s->n, sizeof(*s->pairs));
	if (!s->pairs)
		return -ENOMEM;
	memcpy(s->pairs, pairs, s->n * sizeof(*pairs));
	return 0;
}

static int take_ready(struct ck_rounds *all, struct ck_initiated *a,
		      struct ck_rounds_report *s, struct ck_str rows)
{
	int rc = s->ready ? -EPROTO : keep_pairs(a, s, rows);

	if (rc == -ENOMEM) {
		over(all, a, rc);
		return 0;
	}
	if (rc)
		return rc;
	s->ready = true;
	if (++a->nready == a->nranks)
		a->since = all->now;
	propose(all, a);
	return 0;
}

static int take_done(struct ck_rounds *all, struct ck_initiated *a,
		     struct ck_rounds_report *s, uint64_t epoch)
{
	if (epoch != a->epoch)
		return 0; /* of an earlier epoch: the round is run again */
	if (s->done)
		return -EPROTO;
	s->done = true;
	if (++a->ndone == a->nranks)
		over(all, a, 0);
	return 0;
}

int ck_initiated_receive(struct ck_rounds *all, uint32_t from,
			 const struct ck_rounds_message *m)
{
	struct ck_initiated *a = find(all, m->op);
	struct ck_rounds_report *s = a ? report_of(a, from) : NULL;

	if (ck_rounds_initiator(m->op) != all->o.rank)
		return -EPROTO;
	if (!a)
		return 0; /* it has ended */
	if (m->kind == CK_ROUNDS_REFUSED) {
		/* A refusal of an earlier sequencer is out of date. */
		if (s || from == ck_rounds_sequencer(all))
			over(all, a, -(int)m->err);
		return 0;
	}
	if (!s)
		return -EPROTO;
	if (m->kind == CK_ROUNDS_READY)
		return take_ready(all, a, s, m->rest);
	return take_done(all, a, s, m->epoch);
}

/* --- losses and timeouts -------------------------------------------------- */

void ck_initiated_lost(struct ck_rounds *all, uint32_t rank)
{
	struct ck_initiated *a = all->initiated, *next;

	for (; a; a = next) {
		next = a->next;
		if (report_of(a, rank))
			over(all, a, -EHOSTDOWN);
	}
}

void ck_initiated_end(struct ck_rounds *all)
{
	while (all->initiated)
		over(all, all->initiated, -ECANCELED);
}

static void be_quiet(struct ck_rounds *all, uint32_t rank)
{
	if (rank != all->o.rank)
		all->ranks[rank].quiet_until =
			all->now + QUIET_ROUNDS * (uint64_t)all->o.round_msec;
}

/* Marks the ranks that did not answer in time. */
static void find_quiet(struct ck_rounds *all, const struct ck_initiated *a)
{
	const struct ck_participant *own = ck_participant_find(all, a->op);

	for (uint32_t i = 0; i < a->nranks; i++)
		if (!a->reports[i].ready)
			be_quiet(all, a->ranks[i]);
	/* All ranks are ready, but the sequencer has sent no number. */
	if (a->nready == a->nranks && own && own->state == CK_PARTICIPANT_READY)
		be_quiet(all, ck_rounds_sequencer(all));
}

static bool is_too_late(const struct ck_rounds *all,
			const struct ck_initiated *a)
{
	uint64_t most = a->nready < a->nranks ? all->o.prepare_msec
					      : 2 * (uint64_t)all->o.round_msec;

	return all->now - a->since >= most;
}

void ck_initiated_tick(struct ck_rounds *all)
{
	struct ck_initiated *a = all->initiated, *next;

	for (; a; a = next) {
		next = a->next;
		if (!is_too_late(all, a))
			continue;
		find_quiet(all, a);
		over(all, a, -ETIMEDOUT);
	}
}
