/* SPDX-License-Identifier: MIT */
/*
 * rounds_wire: encoding and parsing of messages about rounds. A message from
 * another rank is checked completely before it is used. No state.
 */
#include "rounds_internal.h"

#include <errno.h>

enum { ERR_MAX = 4095 };

#define EPOCH_MAX (UINT64_C(1) << 48)

/* Fields that a kind of message has. */
enum has {
	OP = 1,
	EPOCH = 2,
	N = 4,
	RANKS = 8,
	ERR = 16,     /* a positive errno */
	MAY_ERR = 32, /* an errno or 0 */
};

static const unsigned kinds[CK_ROUNDS_KINDS] = {
	[CK_ROUNDS_PREPARE] = OP | RANKS,
	[CK_ROUNDS_READY] = OP,
	[CK_ROUNDS_REFUSED] = OP | ERR,
	[CK_ROUNDS_PROPOSE] = OP | EPOCH | RANKS,
	[CK_ROUNDS_GO] = OP | EPOCH | N,
	[CK_ROUNDS_DONE] = OP | EPOCH,
	[CK_ROUNDS_OVER] = OP | MAY_ERR,
	[CK_ROUNDS_BROKEN] = EPOCH,
	[CK_ROUNDS_EPOCH] = EPOCH | RANKS,
};

/* --- encoding ------------------------------------------------------------- */

void ck_rounds_put(struct ck_buf *out, const struct ck_rounds_message *m,
		   uint32_t rest)
{
	out->len = 0;
	ck_buf_u16(out, (uint16_t)m->kind);
	ck_buf_u16(out, 0);
	ck_buf_u32(out, m->err);
	ck_buf_u64(out, m->op);
	ck_buf_u64(out, m->epoch);
	ck_buf_u64(out, m->n);
	ck_buf_u32(out, m->nranks);
	ck_buf_u32(out, rest);
}

void ck_rounds_put_row(struct ck_buf *out, const struct ck_round_pair *p)
{
	ck_buf_u32(out, p->peer);
	ck_buf_u32(out, p->sent.messages);
	ck_buf_u32(out, p->received.messages);
	ck_buf_u32(out, 0);
	ck_buf_u64(out, p->sent.bytes);
	ck_buf_u64(out, p->received.bytes);
}

/* --- parsing -------------------------------------------------------------- */

static bool get_head(struct ck_cur *c, struct ck_rounds_message *m,
		     uint32_t *rest)
{
	uint16_t kind, zero;

	if (!ck_cur_u16(c, &kind) || !ck_cur_u16(c, &zero) ||
	    !ck_cur_u32(c, &m->err) || !ck_cur_u64(c, &m->op) ||
	    !ck_cur_u64(c, &m->epoch) || !ck_cur_u64(c, &m->n) ||
	    !ck_cur_u32(c, &m->nranks) || !ck_cur_u32(c, rest))
		return false;
	if (zero || kind == 0 || kind >= CK_ROUNDS_KINDS)
		return false;
	m->kind = (enum ck_rounds_kind)kind;
	return true;
}

/* True if it has the fields of its kind, and no others. */
static bool is_whole(const struct ck_rounds_message *m, uint32_t size)
{
	unsigned has = kinds[m->kind];

	if (!(has & OP) != !m->op || !(has & EPOCH) != !m->epoch ||
	    !(has & N) != !m->n || !(has & RANKS) != !m->nranks)
		return false;
	if (!(has & MAY_ERR) && !(has & ERR) != !m->err)
		return false;
	return m->err <= ERR_MAX && m->epoch < EPOCH_MAX &&
	       ck_rounds_initiator(m->op) < size;
}

uint32_t ck_rounds_rank(const struct ck_rounds_message *m, uint32_t i)
{
	struct ck_cur c = ck_cur_make(m->ranks + 4 * (size_t)i, 4);
	uint32_t rank = 0;

	(void)!ck_cur_u32(&c, &rank);
	return rank;
}

uint32_t ck_rounds_place(const struct ck_rounds_message *m, uint32_t rank)
{
	uint32_t i = 0;

	while (i < m->nranks && ck_rounds_rank(m, i) != rank)
		i++;
	return i;
}

static bool ranks_are_sound(const struct ck_rounds_message *m, uint32_t size)
{
	for (uint32_t i = 0; i < m->nranks; i++) {
		uint32_t rank = ck_rounds_rank(m, i);

		if (rank >= size || (i && rank <= ck_rounds_rank(m, i - 1)))
			return false;
	}
	return true;
}

/* Checks the length of the rest. The rows in it are checked by the roles. */
static bool rest_is_sound(const struct ck_rounds_message *m)
{
	size_t len = m->rest.len;

	switch (m->kind) {
	case CK_ROUNDS_PREPARE: return len <= CK_ROUND_WHAT;
	case CK_ROUNDS_READY:
		return len % CK_ROUNDS_ROW == 0 &&
		       len / CK_ROUNDS_ROW <= CK_ROUND_RANKS;
	case CK_ROUNDS_EPOCH: return len == CK_ROUND_TOKEN;
	case CK_ROUNDS_PROPOSE: return len >= 4 * (size_t)m->nranks;
	case CK_ROUNDS_REFUSED:
	case CK_ROUNDS_GO:
	case CK_ROUNDS_DONE:
	case CK_ROUNDS_OVER:
	case CK_ROUNDS_BROKEN:
	case CK_ROUNDS_KINDS: break;
	}
	return len == 0;
}

int ck_rounds_parse(struct ck_str body, uint32_t size,
		    struct ck_rounds_message *out)
{
	struct ck_cur c = ck_cur_make(body.p, body.len);
	struct ck_rounds_message m = { .op = 0 };
	struct ck_str ranks;
	uint32_t rest;

	if (body.len > CK_ROUNDS_BODY || !get_head(&c, &m, &rest) ||
	    !is_whole(&m, size))
		return -EPROTO;
	if (m.nranks > (m.kind == CK_ROUNDS_EPOCH ? size : CK_ROUND_RANKS) ||
	    !ck_cur_bytes(&c, 4 * (uint64_t)m.nranks, &ranks) ||
	    !ck_cur_bytes(&c, rest, &m.rest) || ck_cur_left(&c))
		return -EPROTO;
	m.ranks = (const uint8_t *)ranks.p;
	if (!ranks_are_sound(&m, size) || !rest_is_sound(&m))
		return -EPROTO;
	*out = m;
	return 0;
}

/* --- rows ---------------------------------------------------------------------------- */

static bool get_row(struct ck_cur *c, struct ck_round_pair *p)
{
	uint32_t zero;

	return ck_cur_u32(c, &p->peer) && ck_cur_u32(c, &p->sent.messages) &&
	       ck_cur_u32(c, &p->received.messages) && ck_cur_u32(c, &zero) &&
	       ck_cur_u64(c, &p->sent.bytes) &&
	       ck_cur_u64(c, &p->received.bytes) && zero == 0;
}

struct ck_round_pair ck_rounds_row(struct ck_str rows, uint32_t i)
{
	struct ck_cur c = ck_cur_make(rows.p + CK_ROUNDS_ROW * (size_t)i,
				      CK_ROUNDS_ROW);
	struct ck_round_pair p = { 0 };

	if (!get_row(&c, &p))
		p.peer = UINT32_MAX; /* not a rank */
	return p;
}

int ck_rounds_rows(struct ck_str rows, uint32_t *n,
		   struct ck_round_pair out[CK_ROUND_RANKS])
{
	struct ck_cur c = ck_cur_make(rows.p, rows.len);

	*n = (uint32_t)(rows.len / CK_ROUNDS_ROW);
	for (uint32_t i = 0; i < *n; i++)
		if (!get_row(&c, &out[i]))
			return -EPROTO;
	return 0;
}

static bool count_is_sound(struct ck_round_count c)
{
	return c.messages <= CK_ROUND_MESSAGES && c.bytes <= CK_ROUND_BYTES &&
	       (c.messages || !c.bytes);
}

bool ck_rounds_pairs_are_sound(const struct ck_round_pair *pairs, uint32_t n,
			       const uint32_t *ranks, uint32_t nranks)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct ck_round_pair *p = &pairs[i];

		while (at < nranks && ranks[at] != p->peer)
			at++;
		if (at++ == nranks || !count_is_sound(p->sent) ||
		    !count_is_sound(p->received) ||
		    (!p->sent.messages && !p->received.messages))
			return false;
	}
	return true;
}
