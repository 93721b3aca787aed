/* SPDX-License-Identifier: MIT */
/*
 * Random shapes whose elements are a range of a flat tensor, which is stored in uneven and empty
 * chunks. The boxes are at most as many as promised and contain each element once, in order.
 * The planner finds every byte of any window at its place in the flat tensor.
 */
#include "catalogs.h"
#include "ckptfs/io.h"
#include "model/catalog/flat.h"
#include "tap.h"

enum { DIMS_MOST = 5, ELEMENTS = 600, SIZE = 2, BOXES = 400 };

static uint64_t below(uint64_t *random, uint64_t n)
{
	return tap_random(random) % n;
}

/* A case: a tensor, its range in the flat tensor, and the chunks of that. */
struct made {
	uint32_t ndim, world;
	int64_t shape[DIMS_MOST];
	uint64_t count, offset, numel, lost, shift;
	int64_t boxes[BOXES * 2 * DIMS_MOST];
	uint64_t src[BOXES]; /* element of the flat tensor */
	uint32_t order[BOXES], n;
};

static void draw(struct made *m, uint64_t *random)
{
	*m = (struct made){ .ndim = (uint32_t)below(random, DIMS_MOST + 1),
			    .world = 1 + (uint32_t)below(random, 9),
			    .count = 1 };
	for (uint32_t d = 0; d < m->ndim; d++) {
		m->shape[d] = 1 + (int64_t)below(random, 6);
		if (m->count * (uint64_t)m->shape[d] > ELEMENTS)
			m->shape[d] = 1;
		m->count *= (uint64_t)m->shape[d];
	}
	m->offset = below(random, 40);
	m->numel = m->offset + m->count + below(random, 40);
	m->lost = below(random, 3) ? UINT64_MAX : below(random, m->world);
}

/* Counts faults in the boxes of one rank's run. */
static unsigned cut(struct made *m, uint64_t first, uint64_t count)
{
	struct ck_flat_run run = { m->ndim, m->shape, first, count };
	unsigned wrong = 0, most = m->ndim ? 2 * m->ndim - 1 : 1, boxes = 0;
	uint64_t got;

	for (uint64_t at = first;; at += got, boxes++) {
		int64_t *box = m->boxes + (size_t)m->n * 2 * m->ndim;

		got = ck_run_next(&run, box, box + m->ndim);
		if (got == 0)
			return wrong + (at != first + count) + (boxes > most);
		m->src[m->n] = m->offset + at + m->shift;
		m->order[m->n] = m->n;
		m->n++;
	}
}

static unsigned compare(struct made *m, const struct ck_plan *plan,
			const struct ck_request *r, const uint8_t *lost)
{
	uint8_t seen[ELEMENTS * SIZE] = { 0 };
	unsigned wrong = 0;

	for (size_t i = 0; i < plan->ncopies; i++) {
		const struct ck_plan_op *c = &plan->copies[i];

		wrong += c->nloops != 0 && r->size[0] == 0;
		for (uint64_t k = 0; c->nloops == 0 && k < c->run; k++) {
			uint64_t to = r->begin + c->dst + k;
			uint64_t from = m->src[c->chunk] * SIZE + c->src + k;

			wrong += to >= r->end || seen[to]++ ||
				 from != m->offset * SIZE + to;
		}
	}
	for (uint64_t b = r->begin; b < r->end; b++)
		wrong += seen[b] == lost[b / SIZE];
	return wrong;
}

/* Reads the tensor between random bytes, and counts wrong bytes. */
static unsigned check(struct made *m, uint64_t *random)
{
	static const uint64_t zeros[DIMS_MOST];
	uint8_t lost[ELEMENTS] = { 0 };
	struct ck_plan plan = { 0 };
	unsigned wrong = 0;

	for (uint32_t rank = 0; rank < m->world; rank++) {
		uint64_t first;
		uint64_t n = ck_flat_piece(m->numel, m->world, rank, m->offset,
					   m->count, &first);

		if (rank == m->lost)
			memset(lost + first, 1, n);
		else
			wrong += cut(m, first, n);
	}
	for (unsigned i = 0; i < 4; i++) {
		uint64_t a = below(random, m->count * SIZE + 1);
		uint64_t b = below(random, m->count * SIZE + 1);
		struct ck_request r = { .ndim = m->ndim,
					.item = SIZE,
					.off = zeros,
					.size = (const uint64_t *)m->shape,
					.begin = ck_min(a, b),
					.end = ck_max(a, b),
					.nchunks = m->n,
					.boxes = m->boxes,
					.order = m->order };

		wrong += ck_plan_make(&r, &plan) != 0;
		wrong += compare(m, &plan, &r, lost);
	}
	ck_plan_fini(&plan);
	return wrong;
}

static void test_random(void)
{
	uint64_t random = tap_seed(1107) | 1;
	static struct made m;
	unsigned wrong = 0;

	for (unsigned i = 0; i < 3000; i++) {
		draw(&m, &random);
		wrong += check(&m, &random);
	}
	eq_u64(wrong, 0);
	/* the canary: bytes are one element off */
	do
		draw(&m, &random);
	while (m.lost != UINT64_MAX || m.count < 2);
	m.offset++;
	m.numel++;
	eq_u64(check(&m, &random), 0);
	m.n = 0;
	m.shift = 1;
	ok(check(&m, &random) > 0);
}

/* An archive is located later: the catalog keeps the range of elements within it. */
static void test_archives(void)
{
	struct ck_catalog *c = ck_catalog_make("test");
	struct ck_flat_shard shards[] = {
		{ .begin = 0, .count = 7 },
		{ .begin = 7, .count = 5, .chunk = 1 }
	};
	const int64_t flat = 12, shape[] = { 2, 4 };
	const struct ck_within *in;

	eq_i64(ck_catalog_tensor_add(c, CK_STR("f"), CK_STR("torch.float32"), 1,
				     &flat),
	       0);
	for (unsigned i = 0; i < 2; i++) {
		int64_t at = (int64_t)shards[i].begin;
		int64_t size = (int64_t)shards[i].count;

		shards[i].item = (struct ck_item){ .file = i,
						   .fpos = 100 + i,
						   .length = 500 };
		eq_i64(ck_catalog_chunk_add(c, &at, &size, &shards[i].item), 0);
	}
	eq_i64(ck_flat_tensor_add(c, CK_STR("p"), CK_STR("torch.float32"), 2,
				  shape, 3, shards, 2),
	       0);
	eq_u64(c->chunks.n, 4);
	ok(ck_catalog_within(c, 0) == NULL && ck_catalog_within(c, 1) == NULL);
	for (uint32_t i = 0; i < 2; i++) {
		const struct ck_item *item = ck_catalog_item(c, 2 + i);

		in = ck_catalog_within(c, 2 + i);
		ok(in && in->of == i);
		eq_u64(in ? in->first : 9, i ? 0 : 3);
		ok(item->form == CK_FORM_WITHIN && item->file == i &&
		   item->fpos == 100 + i && item->length == 500);
	}
	ok(ck_catalog_within(c, 4) == NULL);
	ck_catalog_put(c);
}

int main(void)
{
	test_random();
	test_archives();
	return tap_done();
}
