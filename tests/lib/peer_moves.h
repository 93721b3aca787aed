/* SPDX-License-Identifier: MIT */
/*
 * peer_moves: random moves from files of file servers, each to its own memory, and
 * a simple model of the memory after they have completed.
 */
#ifndef CK_PEER_MOVES_H
#define CK_PEER_MOVES_H

#include "dist/client/remote_client.h"
#include "owners_case.h"

enum {
	SET_MOVES = 6,
	SET_LOOPS = 3,
	SET_ROOM = 1800,
	OWNED_ALL = OWNERS * OWNED,
	NOT_THERE =
		OWNED_ALL, /* number of a file that its owner does not have */
	NOBODYS, /* a file without a peer; numbers above it are unknown */
	SET_FILES,
	SENTINEL = 0xe5,
};

/* Expected result of a move if no fault occurs. */
enum move_kind { PLAIN, OUTSIDE, UNKNOWN, NONE, WILD };

struct move_set {
	struct ck_copy_batch batch; /* first */
	struct ck_copy_desc list[SET_MOVES];
	enum move_kind kind[SET_MOVES];
	struct ck_loop loops[SET_MOVES][SET_LOOPS];
	uint8_t to[SET_ROOM];
};

/* Expected rc of a move without a peer: no peer has the file, or it is unknown. */
static inline int move_none_rc(const struct ck_copy_desc *m)
{
	return m->file == NOBODYS ? -EIO : -ENODATA;
}

/* File i is file i / OWNERS of owner i % OWNERS, if there are so many. */
static inline void whereabouts_fill(struct ck_location *files, uint32_t npeers)
{
	for (uint32_t i = 0; i < OWNED_ALL; i++)
		files[i] = (struct ck_location){ i % npeers,
						 i / OWNERS % OWNED };
	files[NOT_THERE] = (struct ck_location){ 0, 77 };
	files[NOBODYS] = (struct ck_location){ UINT32_MAX, 0 };
}

/* --- random moves -------------------------------------------------------------------------- */

/* Destinations of the runs, with gaps, the loops in any order. Returns the
 * span. */
static inline uint64_t random_dst(struct ck_copy_desc *m, struct ck_loop *loops,
				  uint64_t *random)
{
	uint64_t span = m->run, first = boxes_below(random, SET_LOOPS);

	for (uint32_t i = 0; i < m->nloops; i++) {
		struct ck_loop *loop = &loops[(first + i) % m->nloops];

		loop->dst = span + boxes_below(random, 4);
		span += (loop->count - 1) * loop->dst;
	}
	return span;
}

/* Positions in the file; runs may overlap. */
static inline void random_src(struct ck_copy_desc *m, struct ck_loop *loops,
			      uint64_t *random)
{
	uint64_t left = OWNED_BYTES - m->run;

	for (uint32_t k = 0; k < m->nloops; k++) {
		uint64_t most = left / loops[k].count;

		loops[k].src = boxes_below(random, most + 1);
		left -= (loops[k].count - 1) * loops[k].src;
	}
	m->fpos = boxes_below(random, left + 1);
}

static inline enum move_kind random_fault(struct ck_copy_desc *m,
					  struct ck_loop *loops,
					  uint64_t *random)
{
	uint64_t bytes, end;

	switch (boxes_below(random, 40)) {
	case 0:
		m->fpos = OWNED_BYTES - boxes_below(random, 1 + m->run);
		return ck_copy_desc_measure(m, &bytes, &end) &&
				       end <= OWNED_BYTES
			       ? PLAIN
			       : OUTSIDE;
	case 1: m->file = NOT_THERE; return UNKNOWN;
	case 2:
		m->file = NOBODYS + (uint32_t)boxes_below(random, 2) * 1000;
		return NONE;
	case 3:
		loops[0] = (struct ck_loop){ UINT64_MAX / 2, 8, 8 };
		m->nloops = 1;
		return WILD;
	default: return PLAIN;
	}
}

/* A move to m->to. Returns its span. */
static inline uint64_t random_move(struct move_set *s, size_t i,
				   uint64_t *random)
{
	struct ck_copy_desc *m = &s->list[i];
	uint64_t span;

	m->file = (uint32_t)boxes_below(random, OWNED_ALL);
	m->run = 1 + boxes_below(random, boxes_one_in(random, 4) ? 300 : 12);
	m->nloops = (uint32_t)boxes_below(random, SET_LOOPS + 1);
	m->loops = s->loops[i];
	for (uint32_t k = 0; k < m->nloops; k++)
		s->loops[i][k].count = 1 + boxes_below(random, 4);
	span = random_dst(m, s->loops[i], random);
	random_src(m, s->loops[i], random);
	s->kind[i] = random_fault(m, s->loops[i], random);
	if (s->kind[i] == PLAIN && m->fpos + m->run > OWNED_BYTES)
		abort();
	return span;
}

static inline void move_set_random(struct move_set *s, uint64_t *random)
{
	uint64_t n = 1 + boxes_below(random, SET_MOVES), at = 0;

	*s = (struct move_set){ .batch.list = s->list };
	memset(s->to, SENTINEL, sizeof(s->to));
	for (size_t i = 0; i < n; i++) {
		uint64_t span = random_move(s, i, random);

		at += boxes_below(random, 3);
		if (at + span > SET_ROOM)
			break;
		s->list[i].to = s->to + at;
		s->batch.n++;
		at += span;
	}
	/* In any order. */
	for (size_t i = s->batch.n; i > 1 && i--;) {
		size_t k = boxes_below(random, i + 1);
		struct ck_copy_desc move = s->list[i];
		enum move_kind kind = s->kind[i];

		s->list[i] = s->list[k];
		s->kind[i] = s->kind[k];
		s->list[k] = move;
		s->kind[k] = kind;
	}
}

/* --- expected memory ------------------------------------------------------------------------- */

/* Advances to the next run of a loop nest. False after the last one. */
static inline bool run_next(const struct ck_copy_desc *m, uint64_t *index)
{
	uint32_t k = m->nloops;

	while (k > 0 && ++index[k - 1] == m->loops[k - 1].count)
		index[--k] = 0;
	return k > 0;
}

/* A failed move may have written any bytes to its runs. */
static inline void expect_move(const struct ck_copy_desc *m,
			       const uint8_t *file, const uint8_t *base,
			       uint8_t *want, bool *any)
{
	uint64_t index[SET_LOOPS] = { 0 };

	do {
		uint64_t src = m->fpos, dst = (uint64_t)(m->to - base);

		for (uint32_t k = 0; k < m->nloops; k++) {
			src += index[k] * m->loops[k].src;
			dst += index[k] * m->loops[k].dst;
		}
		for (uint64_t i = 0; i < m->run; i++) {
			if (m->rc)
				any[dst + i] = true;
			else
				want[dst + i] = file[src + i];
		}
	} while (run_next(m, index));
}

static inline bool move_set_is_right(const struct move_set *s,
				     const struct owners *o,
				     const struct ck_location *files)
{
	bool any[SET_ROOM] = { false };
	uint8_t want[SET_ROOM];

	memset(want, SENTINEL, sizeof(want));
	for (size_t i = 0; i < s->batch.n; i++) {
		const struct ck_copy_desc *m = &s->list[i];

		if (m->rc == 0 && s->kind[i] != PLAIN)
			return false;
		if (s->kind[i] == NONE || s->kind[i] == WILD)
			continue; /* no request was sent */
		expect_move(m,
			    o->bytes[files[m->file].peer]
				    [files[m->file].number % OWNED],
			    s->to, want, any);
	}
	for (size_t i = 0; i < SET_ROOM; i++)
		if (!any[i] && want[i] != s->to[i])
			return false;
	return true;
}

#endif
