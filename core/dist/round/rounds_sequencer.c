/* SPDX-License-Identifier: MIT */
/*
 * rounds_sequencer: the role of the rank that numbers rounds. It numbers
 * proposed rounds whose counts agree. It begins a new epoch when the current
 * one is broken, when a member is lost, or when it takes over from a lost
 * sequencer. A rank of another epoch that learns of a later one adopts it.
 */
#include "rounds_internal.h"

#include <errno.h>

enum { AHEAD_MOST = 1 << 16 }; /* epochs that a rank may be ahead */

/* --- epochs ------------------------------------------------------------------------- */

/* Makes an epoch the current one, and resets the state of the previous one. */
static void adopt(struct ck_rounds *all, uint64_t epoch)
{
	all->epoch = epoch;
	all->broken = false;
	all->epoch_pending = true;
	all->last_n = 0;
	all->next_n = 0;
	memset(all->numbered, 0, sizeof(all->numbered));
	ck_participant_renew(all);
	ck_initiated_renew(all);
}

static void forget_members(struct ck_rounds *all)
{
	for (uint32_t i = 0; i < all->nmembers; i++)
		all->ranks[all->members[i]].member = false;
	all->nmembers = 0;
}

static void add_member(struct ck_rounds *all, uint32_t rank)
{
	all->ranks[rank].member = true;
	all->members[all->nmembers++] = rank;
}

/* Sends EPOCH to all other members. */
static void say_epoch(struct ck_rounds *all, uint64_t epoch)
{
	ck_rounds_put(&all->out,
		      &(struct ck_rounds_message){ .kind = CK_ROUNDS_EPOCH,
						   .epoch = epoch,
						   .nranks = all->nmembers },
		      CK_ROUND_TOKEN);
	ck_rounds_put_ranks(all, all->members, all->nmembers);
	ck_buf_add(&all->out, all->token, CK_ROUND_TOKEN);
	for (uint32_t i = 0; i < all->nmembers; i++)
		if (all->members[i] != all->o.rank)
			ck_rounds_send(all, all->members[i]);
}

/* The first number after `epoch` that belongs to this rank. */
static uint64_t next_epoch(const struct ck_rounds *all, uint64_t epoch)
{
	uint64_t next = epoch - epoch % all->o.size + all->o.rank;

	return next > epoch ? next : next + all->o.size;
}

/* Begins an epoch that is later than `after`, the latest one known. */
static void begin_epoch(struct ck_rounds *all, uint64_t after)
{
	uint64_t epoch = next_epoch(all, after);

	memset(all->token, 0, sizeof(all->token));
	if (all->backend->token)
		all->backend->token(all->backend, all->token);
	forget_members(all);
	for (uint32_t i = 0; i < all->o.size; i++)
		if (!all->ranks[i].lost)
			add_member(all, i);
	say_epoch(all, epoch);
	adopt(all, epoch);
}

static uint32_t lowest(const struct ck_rounds *all)
{
	uint32_t i = 0;

	while (all->ranks[i].lost)
		i++;
	return i;
}

static bool is_sequencer(const struct ck_rounds *all)
{
	return all->epoch && ck_rounds_sequencer(all) == all->o.rank;
}

void ck_sequencer_begin(struct ck_rounds *all)
{
	if (!all->epoch && lowest(all) == all->o.rank && !all->ended)
		begin_epoch(all, 0);
}

/* Reports that the current epoch cannot go on; the receiver is expected to
 * begin a later one. */
static void say_broken(struct ck_rounds *all, uint32_t to)
{
	if (all->epoch)
		ck_rounds_send_head(
			all, to,
			&(struct ck_rounds_message){ .kind = CK_ROUNDS_BROKEN,
						     .epoch = all->epoch });
}

/* The sequencer is lost. The rank that takes over may not know of the current
 * epoch, or that the lost rank was its sequencer, so it is notified. */
static void find_other(struct ck_rounds *all)
{
	uint32_t next = lowest(all);

	if (next == all->o.rank)
		begin_epoch(all, all->epoch);
	else
		say_broken(all, next);
}

void ck_sequencer_lost(struct ck_rounds *all, uint32_t rank)
{
	if (is_sequencer(all) && all->ranks[rank].member)
		begin_epoch(all, all->epoch);
	else if (all->ranks[ck_rounds_sequencer(all)].lost)
		find_other(all);
}

/* False if an epoch is so far ahead that a malicious rank could exhaust the
 * numbers. */
static bool is_near(const struct ck_rounds *all, uint64_t epoch)
{
	return epoch <= all->epoch + all->o.size * (uint64_t)AHEAD_MOST;
}

static int take_epoch(struct ck_rounds *all, uint32_t from,
		      const struct ck_rounds_message *m)
{
	if (m->epoch % all->o.size != from || !is_near(all, m->epoch) ||
	    ck_rounds_place(m, from) == m->nranks)
		return -EPROTO;
	if (m->epoch <= all->epoch) {
		/* The sender does not know of the current epoch. */
		if (m->epoch < all->epoch)
			say_broken(all, from);
		return 0;
	}
	forget_members(all);
	for (uint32_t i = 0; i < m->nranks; i++)
		add_member(all, ck_rounds_rank(m, i));
	memcpy(all->token, m->rest.p, CK_ROUND_TOKEN);
	adopt(all, m->epoch);
	return 0;
}

static int take_broken(struct ck_rounds *all, uint64_t epoch)
{
	if (!is_near(all, epoch))
		return -EPROTO;
	if (epoch >= all->epoch &&
	    (is_sequencer(all) || lowest(all) == all->o.rank))
		begin_epoch(all, epoch);
	return 0;
}

/* --- counts ------------------------------------------------------------------------------ */

/* A PROPOSE; the rows of its rank i are [first[i], first[i + 1]). */
struct stated {
	const struct ck_rounds_message *m;
	struct ck_str rows;
	uint32_t first[CK_ROUND_RANKS + 1];
};

static int find_rows(const struct ck_rounds_message *m, struct stated *out)
{
	struct ck_cur c = ck_cur_make(m->rest.p, m->rest.len);
	uint32_t total = 0, n;

	out->m = m;
	for (uint32_t i = 0; i < m->nranks; i++) {
		out->first[i] = total;
		if (!ck_cur_u32(&c, &n) || n > m->nranks)
			return -EPROTO;
		total += n;
	}
	out->first[m->nranks] = total;
	if (ck_cur_left(&c) != CK_ROUNDS_ROW * (size_t)total)
		return -EPROTO;
	out->rows = (struct ck_str){ (const char *)c.p, ck_cur_left(&c) };
	return 0;
}

static bool same(struct ck_round_count a, struct ck_round_count b)
{
	return a.bytes == b.bytes && a.messages == b.messages;
}

/* True if the other rank of a pair has stated the same counts, with sent and
 * received exchanged. */
static bool has_mirror(const struct stated *s, uint32_t rank,
		       const struct ck_round_pair *p)
{
	uint32_t other = ck_rounds_place(s->m, p->peer);

	if (other == s->m->nranks)
		return false;
	for (uint32_t i = s->first[other]; i < s->first[other + 1]; i++) {
		struct ck_round_pair q = ck_rounds_row(s->rows, i);

		if (q.peer == rank)
			return same(p->sent, q.received) &&
			       same(p->received, q.sent);
	}
	return false;
}

static bool counts_agree(const struct stated *s)
{
	for (uint32_t k = 0; k < s->m->nranks; k++)
		for (uint32_t i = s->first[k]; i < s->first[k + 1]; i++) {
			struct ck_round_pair p = ck_rounds_row(s->rows, i);

			if (!has_mirror(s, ck_rounds_rank(s->m, k), &p))
				return false;
		}
	return true;
}

/* --- numbers ------------------------------------------------------------------------------ */

static bool has_number(const struct ck_rounds *all, uint64_t op)
{
	for (uint32_t i = 0; i < CK_ROUNDS_NUMBERED; i++)
		if (all->numbered[i] == op)
			return true;
	return false;
}

static bool all_are_members(const struct ck_rounds *all,
			    const struct ck_rounds_message *m)
{
	for (uint32_t i = 0; i < m->nranks; i++)
		if (!all->ranks[ck_rounds_rank(m, i)].member)
			return false;
	return true;
}

static void give_number(struct ck_rounds *all,
			const struct ck_rounds_message *m)
{
	const struct ck_rounds_message go = { .kind = CK_ROUNDS_GO,
					      .op = m->op,
					      .epoch = all->epoch,
					      .n = ++all->next_n };

	all->numbered[all->next_n % CK_ROUNDS_NUMBERED] = m->op;
	for (uint32_t i = 0; i < m->nranks; i++)
		ck_rounds_send_head(all, ck_rounds_rank(m, i), &go);
}

/* Returns 0, or the reason why a proposed round gets no number. */
static int judge(const struct ck_rounds *all, const struct stated *s)
{
	if (!all_are_members(all, s->m))
		return -EHOSTDOWN;
	return counts_agree(s) ? 0 : -EBADMSG;
}

static int take_propose(struct ck_rounds *all, uint32_t from,
			const struct ck_rounds_message *m)
{
	struct stated s;
	int rc;

	if (ck_rounds_initiator(m->op) != from ||
	    m->epoch % all->o.size != all->o.rank || m->epoch > all->epoch ||
	    ck_rounds_place(m, from) == m->nranks || find_rows(m, &s))
		return -EPROTO;
	/* Its initiator proposes it again once it knows the current epoch. */
	if (m->epoch < all->epoch || has_number(all, m->op))
		return 0;
	rc = judge(all, &s);
	if (rc == 0)
		give_number(all, m);
	else
		ck_rounds_send_head(
			all, from,
			&(struct ck_rounds_message){ .kind = CK_ROUNDS_REFUSED,
						     .err = (uint32_t)-rc,
						     .op = m->op });
	return 0;
}

int ck_sequencer_receive(struct ck_rounds *all, uint32_t from,
			 const struct ck_rounds_message *m)
{
	if (m->kind == CK_ROUNDS_EPOCH)
		return take_epoch(all, from, m);
	if (m->kind == CK_ROUNDS_PROPOSE)
		return take_propose(all, from, m);
	return take_broken(all, m->epoch);
}
