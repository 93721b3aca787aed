/* SPDX-License-Identifier: MIT */
/*
 * rounds: agreement of ranks on rounds (rounds.h): creation, dispatch of
 * messages to the three roles, and time. One thread at a time; the caller
 * passes the time and transports the messages.
 */
#include "rounds_internal.h"

#include <errno.h>

/* Calls are never further apart while a round is active: a longer gap means
 * that this process was stopped. */
enum { GAP_MSEC = 1000 };

/* --- creation ------------------------------------------------------------- */

void ck_rounds_free(struct ck_rounds *all)
{
	if (!all)
		return;
	ck_buf_fini(&all->out);
	free(all->ranks);
	free(all->members);
	free(all);
}

static bool options_are_sound(const struct ck_rounds_options *o)
{
	return o->size && o->size <= CK_ROUNDS_SIZE && o->rank < o->size &&
	       o->most && o->prepare_msec && o->round_msec;
}

/* Length of the longest message that a rank sends: PREPARE or PROPOSE. */
static size_t longest(uint32_t size)
{
	size_t n = ck_min(size, CK_ROUND_RANKS);
	size_t rows = 4 * n + n * n * CK_ROUNDS_ROW;

	return CK_ROUNDS_HEAD + 4 * (size_t)size + ck_max(rows, CK_ROUND_WHAT);
}

/* Allocates the buffer of messages in advance, so that sending one cannot
 * fail. */
static int make_room(struct ck_buf *out, size_t len)
{
	static const uint8_t zeros[1024];

	while (!out->err && out->len < len)
		ck_buf_add(out, zeros, sizeof(zeros));
	return out->err;
}

struct ck_rounds *ck_rounds_make(const struct ck_rounds_options *o,
				 struct ck_round_user *user,
				 struct ck_round_backend *backend, uint64_t now)
{
	struct ck_rounds *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	all->o = *o;
	all->user = user;
	all->backend = backend;
	all->now = now;
	if (options_are_sound(o)) {
		all->ranks = calloc(o->size, sizeof(*all->ranks));
		all->members = calloc(o->size, sizeof(*all->members));
	}
	if (all->ranks && all->members &&
	    make_room(&all->out, longest(o->size)) == 0)
		return all;
	ck_rounds_free(all);
	return NULL;
}

/* --- messages out -------------------------------------------------------------------- */

void ck_rounds_put_ranks(struct ck_rounds *all, const uint32_t *ranks,
			 uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		ck_buf_u32(&all->out, ranks[i]);
}

void ck_rounds_send(struct ck_rounds *all, uint32_t to)
{
	if (!all->ranks[to].lost)
		all->user->send(all->user, to,
				(struct ck_str){ all->out.data, all->out.len });
}

void ck_rounds_send_head(struct ck_rounds *all, uint32_t to,
			 const struct ck_rounds_message *m)
{
	ck_rounds_put(&all->out, m, 0);
	ck_rounds_send(all, to);
}

void ck_rounds_break(struct ck_rounds *all)
{
	if (all->broken || !all->epoch)
		return;
	all->broken = true;
	ck_rounds_send_head(
		all, ck_rounds_sequencer(all),
		&(struct ck_rounds_message){ .kind = CK_ROUNDS_BROKEN,
					     .epoch = all->epoch });
}

/* --- messages in ---------------------------------------------------------- */

/* If this process was stopped, all timers are shifted by the gap. */
static void set_now(struct ck_rounds *all, uint64_t now)
{
	uint64_t gap = now - all->now;

	all->now = now;
	if (gap <= GAP_MSEC)
		return;
	for (struct ck_initiated *a = all->initiated; a; a = a->next)
		a->since += gap;
	for (struct ck_participant *p = all->parts; p; p = p->next) {
		p->since += gap;
		p->begun += gap;
	}
}

static int take(struct ck_rounds *all, uint32_t from,
		const struct ck_rounds_message *m)
{
	switch (m->kind) {
	case CK_ROUNDS_PREPARE:
	case CK_ROUNDS_GO:
	case CK_ROUNDS_OVER: return ck_participant_receive(all, from, m);
	case CK_ROUNDS_READY:
	case CK_ROUNDS_REFUSED:
	case CK_ROUNDS_DONE: return ck_initiated_receive(all, from, m);
	case CK_ROUNDS_PROPOSE:
	case CK_ROUNDS_BROKEN:
	case CK_ROUNDS_EPOCH: return ck_sequencer_receive(all, from, m);
	case CK_ROUNDS_KINDS: break;
	}
	return -EPROTO;
}

int ck_rounds_receive(struct ck_rounds *all, uint32_t from, struct ck_str body,
		      uint64_t now)
{
	struct ck_rounds_message m;
	int rc;

	if (from >= all->o.size)
		return -EPROTO;
	set_now(all, now);
	if (all->ranks[from].lost)
		return 0;
	rc = ck_rounds_parse(body, all->o.size, &m);
	if (rc)
		return rc;
	all->ranks[from].quiet_until = 0;
	return take(all, from, &m);
}

void ck_rounds_lost(struct ck_rounds *all, uint32_t rank, uint64_t now)
{
	set_now(all, now);
	if (rank >= all->o.size || rank == all->o.rank || all->ranks[rank].lost)
		return;
	all->ranks[rank].lost = true;
	ck_initiated_lost(all, rank);
	ck_participant_lost(all, rank);
	ck_sequencer_lost(all, rank);
}

/* --- time ------------------------------------------------------------------------------ */

/* Often enough for each timeout; each ms while a round is running. */
static uint32_t next_tick(const struct ck_rounds *all)
{
	uint64_t least = ck_min(all->o.prepare_msec, all->o.round_msec);

	if (!all->initiated && !all->parts)
		return CK_ROUNDS_IDLE;
	if (ck_participant_is_running(all))
		return 1;
	return (uint32_t)ck_max(1, ck_min(least / 4, GAP_MSEC / 2));
}

uint32_t ck_rounds_tick(struct ck_rounds *all, uint64_t now)
{
	set_now(all, now);
	ck_sequencer_begin(all);
	ck_initiated_tick(all);
	ck_participant_tick(all);
	return next_tick(all);
}

bool ck_rounds_end(struct ck_rounds *all, uint64_t now)
{
	set_now(all, now);
	all->ended = true;
	ck_initiated_end(all);
	ck_participant_end(all);
	return !all->parts;
}
