/* SPDX-License-Identifier: MIT */
/*
 * payload_alloc: slots in the memory of a link, compared with a model that knows the slot of
 * each block. Slots never overlap and are not reused before they are released. An allocation
 * succeeds whenever there are enough adjacent free blocks.
 */
#include "dist/rpc/payload_alloc.h"
#include "tap.h"

enum { BLOCKS = 24, SLOTS = 64, PEERS = 4 };

struct slot {
	bool used;
	uint32_t peer;
	uint64_t id;
	uint32_t body;
	uint64_t place, blocks;
};

struct model {
	struct ck_payload_alloc rooms;
	struct slot slots[SLOTS];
	uint64_t random, last_id;
	unsigned wrong, taken, refused;
};

static uint64_t below(struct model *m, uint64_t n)
{
	return tap_random(&m->random) % n;
}

/* --- the model ------------------------------------------------------------------------- */

static void model_owners(const struct model *m, unsigned owners[BLOCKS])
{
	memset(owners, 0, BLOCKS * sizeof(*owners));
	for (size_t i = 0; i < SLOTS; i++) {
		const struct slot *s = &m->slots[i];

		for (uint64_t k = 0; s->used && k < s->blocks; k++)
			owners[s->place / CK_ROOM_BLOCK + k]++;
	}
}

/* The length of the longest run of free blocks. */
static uint64_t model_longest(const struct model *m)
{
	unsigned owners[BLOCKS];
	uint64_t longest = 0, run = 0;

	model_owners(m, owners);
	for (size_t i = 0; i < BLOCKS; i++) {
		run = owners[i] ? 0 : run + 1;
		longest = ck_max(longest, run);
	}
	return longest;
}

static bool model_overlaps(const struct model *m)
{
	unsigned owners[BLOCKS];

	model_owners(m, owners);
	for (size_t i = 0; i < BLOCKS; i++)
		if (owners[i] > 1)
			return true;
	return false;
}

static struct ck_payload_alloc_sum model_of(const struct model *m,
					    uint32_t peer)
{
	struct ck_payload_alloc_sum sum = { 0 };

	for (size_t i = 0; i < SLOTS; i++) {
		const struct slot *s = &m->slots[i];

		if (!s->used || s->peer != peer)
			continue;
		sum.requests++;
		sum.bodies += s->body;
		sum.bytes += s->blocks * CK_ROOM_BLOCK;
	}
	return sum;
}

static bool is_sum(struct ck_payload_alloc_sum a, struct ck_payload_alloc_sum b)
{
	return a.requests == b.requests && a.bodies == b.bodies &&
	       a.bytes == b.bytes;
}

static bool slot_is_found(const struct model *m, const struct slot *s)
{
	uint64_t place = 1, bytes = 1;
	bool found = ck_payload_alloc_find(&m->rooms, s->peer, s->id, &place,
					   &bytes);

	if (!s->used || s->blocks == 0)
		return !found;
	return found && place == s->place && bytes == s->blocks * CK_ROOM_BLOCK;
}

static void check(struct model *m)
{
	m->wrong += model_overlaps(m);
	for (uint32_t peer = 0; peer < PEERS; peer++)
		m->wrong += !is_sum(ck_payload_alloc_of(&m->rooms, peer),
				    model_of(m, peer));
	for (size_t i = 0; i < SLOTS; i++)
		m->wrong += m->slots[i].id && !slot_is_found(m, &m->slots[i]);
}

/* --- random steps ---------------------------------------------------------------------- */

static struct slot *slot_free(struct model *m)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (!m->slots[i].used)
			return &m->slots[i];
	return NULL;
}

static void take(struct model *m)
{
	uint64_t longest = model_longest(m);
	uint64_t bytes =
		below(m, (below(m, 8) ? 4UL : BLOCKS + 2UL) * CK_ROOM_BLOCK) *
		(below(m, 8) > 0);
	uint64_t blocks = (bytes + CK_ROOM_BLOCK - 1) / CK_ROOM_BLOCK;
	struct slot *s = slot_free(m);
	uint64_t place = 0;
	int rc;

	if (!s)
		return;
	*s = (struct slot){ .peer = (uint32_t)below(m, PEERS),
			    .id = ++m->last_id,
			    .body = (uint32_t)below(m, 1000),
			    .blocks = blocks };
	rc = ck_payload_alloc_take(&m->rooms, s->peer, s->id, s->body, bytes,
				   &place);
	s->used = rc == 0;
	s->place = place;
	m->taken += rc == 0;
	m->refused += rc != 0;
	m->wrong += rc != (blocks <= longest ? 0 : -EAGAIN);
	m->wrong += place % CK_ROOM_BLOCK ||
		    place / CK_ROOM_BLOCK + blocks > BLOCKS + (rc ? blocks : 0);
}

static void give(struct model *m)
{
	struct slot *s = &m->slots[below(m, SLOTS)];

	/* The same id of another peer is another request, which has no slot. */
	ck_payload_alloc_give(&m->rooms, s->peer + 1, s->id);
	ck_payload_alloc_give(&m->rooms, s->peer, s->id);
	s->used = false;
}

static void give_all(struct model *m)
{
	uint32_t peer = (uint32_t)below(m, PEERS);

	ck_payload_alloc_give_all(&m->rooms, peer);
	for (size_t i = 0; i < SLOTS; i++)
		if (m->slots[i].peer == peer)
			m->slots[i].used = false;
}

static void step(struct model *m)
{
	uint64_t what = below(m, 100);

	if (what < 55)
		take(m);
	else if (what < 98)
		give(m);
	else
		give_all(m);
	check(m);
}

static void begin(struct model *m, uint64_t seed)
{
	*m = (struct model){ .random = seed };
	if (ck_payload_alloc_make(&m->rooms,
				  BLOCKS * (uint64_t)CK_ROOM_BLOCK + 5))
		abort();
}

static void test_random(void)
{
	struct model m;

	begin(&m, tap_seed(20));
	for (unsigned i = 0; i < (TAP_SLOW ? 20000 : 100000); i++)
		step(&m);
	eq_u64(m.wrong, 0);
	ok(m.taken > 1000 && m.refused > 1000);
	for (uint32_t peer = 0; peer < PEERS; peer++)
		ck_payload_alloc_give_all(&m.rooms, peer);
	eq_u64(m.rooms.n, 0);
	ck_payload_alloc_fini(&m.rooms);
}

/* Canaries: a slot in use that is marked free, and a block that is lost. */
static void test_canaries(void)
{
	struct model m;

	begin(&m, 3);
	for (unsigned i = 0; i < 20000; i++) {
		step(&m);
		m.rooms.taken[i % BLOCKS] = 0;
	}
	ok(m.wrong > 0);
	ck_payload_alloc_fini(&m.rooms);
	begin(&m, 4);
	m.rooms.taken[BLOCKS / 2] = 1;
	for (unsigned i = 0; i < 20000; i++)
		step(&m);
	ok(m.wrong > 0);
	ck_payload_alloc_fini(&m.rooms);
}

/* --- handwritten cases ----------------------------------------------------------------- */

static void test_full(void)
{
	struct ck_payload_alloc r;
	uint64_t place = 7, bytes = 7;

	eq_err(ck_payload_alloc_make(&r, 2 * CK_ROOM_BLOCK), 0);
	eq_err(ck_payload_alloc_take(&r, 0, 1, 0, 2 * CK_ROOM_BLOCK, &place),
	       0);
	eq_u64(place, 0);
	eq_err(ck_payload_alloc_take(&r, 0, 2, 0, 1, &place), -EAGAIN);
	eq_err(ck_payload_alloc_take(&r, 1, 1, 0, 1, &place), -EAGAIN);
	ok(!ck_payload_alloc_find(&r, 1, 1, &place, &bytes));
	ck_payload_alloc_give(&r, 0, 1);
	eq_err(ck_payload_alloc_take(&r, 1, 1, 0, CK_ROOM_BLOCK + 1, &place),
	       0);
	eq_u64(ck_payload_alloc_of(&r, 1).bytes, 2 * CK_ROOM_BLOCK);
	eq_u64(ck_payload_alloc_of(&r, 0).bytes, 0);
	ck_payload_alloc_fini(&r);
}

static void test_larger_than_all(void)
{
	struct ck_payload_alloc r;
	uint64_t place;

	eq_err(ck_payload_alloc_make(&r, 2 * CK_ROOM_BLOCK + CK_ROOM_BLOCK / 2),
	       0);
	eq_err(ck_payload_alloc_take(&r, 0, 1, 0, 2 * CK_ROOM_BLOCK + 1,
				     &place),
	       -EAGAIN);
	eq_err(ck_payload_alloc_take(&r, 0, 1, 0, UINT64_MAX / 2, &place),
	       -EAGAIN);
	eq_u64(ck_payload_alloc_of(&r, 0).bytes, 0);
	eq_err(ck_payload_alloc_take(&r, 0, 1, 0, 2 * CK_ROOM_BLOCK, &place),
	       0);
	ck_payload_alloc_fini(&r);
	/* Memory smaller than a block has no slot. */
	eq_err(ck_payload_alloc_make(&r, CK_ROOM_BLOCK - 1), 0);
	eq_err(ck_payload_alloc_take(&r, 0, 1, 0, 1, &place), -EAGAIN);
	ck_payload_alloc_fini(&r);
}

/* Requests without a payload are counted, and need no slot. */
static void test_no_payload(void)
{
	struct ck_payload_alloc r;
	struct ck_payload_alloc_sum sum;
	uint64_t place, bytes;

	eq_err(ck_payload_alloc_make(&r, 0), 0);
	for (uint32_t i = 0; i < 100; i++)
		eq_err(ck_payload_alloc_take(&r, i % 2, i, 10, 0, &place), 0);
	sum = ck_payload_alloc_of(&r, 1);
	ok(sum.requests == 50 && sum.bodies == 500 && sum.bytes == 0);
	ok(!ck_payload_alloc_find(&r, 1, 1, &place, &bytes));
	ck_payload_alloc_give(&r, 1, 1);
	eq_u64(ck_payload_alloc_of(&r, 1).requests, 49);
	ck_payload_alloc_give_all(&r, 1);
	eq_u64(ck_payload_alloc_of(&r, 1).requests, 0);
	eq_u64(ck_payload_alloc_of(&r, 0).requests, 50);
	ck_payload_alloc_fini(&r);
}

/* One slot for each block, released in any order. */
static void test_many(void)
{
	enum { MANY = 512 };
	struct ck_payload_alloc r;
	uint64_t place;

	eq_err(ck_payload_alloc_make(&r, MANY * (uint64_t)CK_ROOM_BLOCK), 0);
	for (uint32_t i = 0; i < MANY; i++)
		if (ck_payload_alloc_take(&r, i % 3, i, 0, 1, &place) ||
		    place != i * (uint64_t)CK_ROOM_BLOCK)
			tap_result(false, __FILE__, __LINE__,
				   "each gets the next");
	eq_u64(ck_payload_alloc_of(&r, 0).bytes +
		       ck_payload_alloc_of(&r, 1).bytes +
		       ck_payload_alloc_of(&r, 2).bytes,
	       MANY * (uint64_t)CK_ROOM_BLOCK);
	ck_payload_alloc_give_all(&r, 1);
	eq_u64(ck_payload_alloc_of(&r, 1).bytes, 0);
	eq_err(ck_payload_alloc_take(&r, 9, 0, 0, CK_ROOM_BLOCK + 1, &place),
	       -EAGAIN);
	for (uint32_t i = 0; i < MANY; i += 7)
		ck_payload_alloc_give(&r, i % 3, i);
	ck_payload_alloc_give_all(&r, 0);
	ck_payload_alloc_give_all(&r, 2);
	eq_u64(r.n, 0);
	eq_err(ck_payload_alloc_take(&r, 9, 0, 0,
				     MANY * (uint64_t)CK_ROOM_BLOCK, &place),
	       0);
	ck_payload_alloc_fini(&r);
}

int main(void)
{
	test_full();
	test_larger_than_all();
	test_no_payload();
	test_many();
	test_random();
	test_canaries();
	return tap_done();
}
