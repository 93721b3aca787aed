/* SPDX-License-Identifier: MIT */
/*
 * gpurounds_deal: random gather requests that all ranks of a round derive from one key: which rank
 * has which segment of the source, and the expected result.
 */
#ifndef GPUROUNDS_DEAL_H
#define GPUROUNDS_DEAL_H

#include "boxes.h"
#include "gpu/gpu.h"
#include "xport_case.h"

/* Scale of all sizes. */
#ifndef DEAL_TIMES
#define DEAL_TIMES 1
#endif

enum {
	DEAL_ROOM = DEAL_TIMES << 17, /* bytes of the source, and of a result */
	DEAL_COPIES = 10,
	DEAL_LOOPS = 3 * DEAL_COPIES,
};

/* The source of a copy. */
struct piece {
	uint32_t owner;
	bool zeros;
	uint32_t src, len;
	uint64_t key;
};

struct deal {
	struct ck_gather_desc copies[DEAL_COPIES];
	struct ck_loop loops[DEAL_LOOPS];
	struct piece pieces[DEAL_COPIES];
	uint32_t n, nloops, filled, results;
};

static inline uint64_t deal_run(uint64_t *random)
{
	uint64_t most = boxes_one_in(random, 20)  ? DEAL_TIMES * 60000
			: boxes_one_in(random, 4) ? 3000
						  : 20;

	return 1 + boxes_below(random, most);
}

/* Adds a nest of loops that writes each byte at most once. */
static inline void deal_copy(struct deal *d, uint64_t *random)
{
	struct ck_gather_desc *c = &d->copies[d->n];
	uint64_t src_end, dst_end;

	*c = (struct ck_gather_desc){
		.run = deal_run(random),
		.loop = d->nloops,
		.nloops = (uint32_t)boxes_below(random, 4),
		.src = d->filled,
		.dst = d->results,
	};
	src_end = dst_end = c->run;
	for (uint32_t k = c->nloops; k > 0; k--) {
		struct ck_loop *l = &d->loops[c->loop + k - 1];

		l->count = 1 + boxes_below(random, c->run > 1000 ? 2 : 4);
		l->src = src_end + boxes_below(random, 4);
		l->dst = dst_end + boxes_below(random, 4);
		src_end += (l->count - 1) * l->src;
		dst_end += (l->count - 1) * l->dst;
	}
	if (d->filled + src_end > DEAL_ROOM || d->results + dst_end > DEAL_ROOM)
		return;
	d->pieces[d->n].src = d->filled;
	d->pieces[d->n].len = (uint32_t)src_end;
	d->nloops += c->nloops;
	d->filled += (uint32_t)src_end;
	d->results += (uint32_t)dst_end;
	d->n++;
}

static inline CK_WRAPS uint64_t deal_key(uint64_t key, uint64_t more)
{
	uint64_t random = (key + 1) * 1000003 + (more + 1) * 7919;

	random |= 1;
	return tap_random(&random);
}

/* The gather request of rank `to`. */
static inline void deal(struct deal *d, uint64_t key, uint32_t to,
			const uint32_t *ranks, uint32_t nranks)
{
	uint64_t random = deal_key(key, to) | 1;
	uint64_t most = 1 + boxes_below(&random, DEAL_COPIES);

	*d = (struct deal){ 0 };
	for (uint64_t i = 0; i < most; i++)
		deal_copy(d, &random);
	for (uint32_t i = 0; i < d->n; i++) {
		struct piece *p = &d->pieces[i];

		p->owner = ranks[boxes_below(&random, nranks)];
		p->zeros = boxes_one_in(&random, 8);
		p->key = tap_random(&random);
	}
}

static inline void piece_fill(const struct piece *p, uint8_t *to)
{
	if (p->zeros)
		memset(to, 0, p->len);
	else
		fill_bytes(to, p->len, p->key);
}

/* --- the expected result ------------------------------------------------------------------ */

static inline void deal_expect(const struct deal *d,
			       const struct ck_gather_desc *c, uint32_t loop,
			       const uint8_t *src, uint8_t *want, bool *known)
{
	const struct ck_loop *l = &d->loops[c->loop + loop];

	if (loop == c->nloops) {
		memcpy(want, src, c->run);
		memset(known, true, c->run);
		return;
	}
	for (uint64_t i = 0; i < l->count; i++)
		deal_expect(d, c, loop + 1, src + i * l->src, want + i * l->dst,
			    known + i * l->dst);
}

static inline bool deal_is_right(const struct deal *d, const uint8_t *result)
{
	uint8_t *filled = malloc(DEAL_ROOM), *want = malloc(DEAL_ROOM);
	bool *known = calloc(DEAL_ROOM, 1), right = true;

	if (!filled || !want || !known)
		abort();
	for (uint32_t i = 0; i < d->n; i++) {
		const struct ck_gather_desc *c = &d->copies[i];

		piece_fill(&d->pieces[i], filled + d->pieces[i].src);
		deal_expect(d, c, 0, filled + c->src, want + c->dst,
			    known + c->dst);
	}
	for (uint32_t i = 0; i < d->results; i++)
		right = right && (!known[i] || result[i] == want[i]);
	free(filled);
	free(want);
	free(known);
	return right;
}

#endif
