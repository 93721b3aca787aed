/* SPDX-License-Identifier: MIT */
/*
 * gathering: a GPU gather engine for tests. Its thread executes the copy
 * descriptors byte by byte, in any order, in small slots filled with garbage. It
 * can fail, and can refuse a slot for too many descriptors.
 */
#ifndef GATHERING_H
#define GATHERING_H

#include "boxes.h"
#include "tap.h"

#include "ckptfs/device.h"
#include "ckptfs/layout.h"
#include "ckptfs/memory.h"

#include <pthread.h>
#include <semaphore.h>

enum { GATHERING_SLOTS = 3, GATHERING_ROOM = 1024, GATHERING_WANTS = 4096 };

struct gathering_slot {
	struct ck_gather_slot is; /* first */
	bool taken, sent, cancelled;
	uint8_t memory[2 * GATHERING_ROOM];
	/* A segment of less than 2 * CK_GATHER_ALIGN bytes cannot be halved: a slot has
	 * room for it, even if each byte is a run. */
	struct ck_gather_desc copies[2 * CK_GATHER_ALIGN];
	struct ck_loop loops[64];
	uint8_t wants[GATHERING_WANTS];
};

struct gathering_memory {
	struct ck_gather_memory is; /* first */
	uint8_t *bytes;
};

static struct gathering {
	struct ck_gather_engine is; /* first */
	pthread_mutex_t lock;
	sem_t sent;
	pthread_t thread;
	struct gathering_slot slots[GATHERING_SLOTS];
	uint64_t random;
	/* Behaviour: */
	bool away; /* no slot is free */
	bool held; /* only cancelled slots complete */
	bool ending;
	unsigned fails;	   /* one slot in this many fails; 0: no failures */
	uint32_t too_many; /* descriptors; 0: no limit */
	bool spoils;
	/* Fetches the remote ranges of a slot; false if that fails. */
	bool (*bring)(struct ck_gather_slot *s);
	unsigned loses; /* one fetch in this many fails; 0: no failures */
	/* Counters: */
	unsigned done, failed, refused, spoiled, wrong, brought, lost;
	int memories; /* not released yet */
} gathering;

/* --- one copy descriptor -------------------------------------------------------------- */

static void gathering_swap(uint8_t *unit, size_t len)
{
	for (size_t k = 0; k < len / 2; k++) {
		uint8_t byte = unit[k];

		unit[k] = unit[len - 1 - k];
		unit[len - 1 - k] = byte;
	}
}

static void gathering_negate(uint8_t *unit, size_t len, bool is_float)
{
	bool carry = true;

	if (is_float)
		unit[len - 1] ^= 0x80;
	for (size_t k = 0; !is_float && k < len; k++) {
		unit[k] = (uint8_t)(~unit[k] + carry);
		carry = carry && unit[k] == 0;
	}
}

/* One element. */
static void gathering_change(uint8_t *p, const struct ck_dtype *dtype,
			     unsigned how)
{
	for (size_t i = 0; i < dtype->size; i += dtype->unit) {
		bool negated = (how & CK_CHANGE_NEG) != 0;

		negated ^= i && (how & CK_CHANGE_CONJ);
		if (how & CK_CHANGE_SWAP)
			gathering_swap(p + i, dtype->unit);
		if (negated)
			gathering_negate(p + i, dtype->unit, dtype->is_float);
	}
}

/* Destination of the result. */
static uint8_t *gathering_to(const struct ck_gather_slot *s)
{
	const struct gathering_memory *m =
		(const struct gathering_memory *)s->memory;

	return m ? m->bytes + s->at : s->result;
}

static void gathering_run(struct ck_gather_slot *s,
			  const struct ck_gather_desc *c, uint64_t src,
			  uint64_t dst)
{
	const struct ck_dtype *dtype = ck_dtype_at(c->dtype);

	gathering.wrong += src + c->run > s->filled ||
			   dst + c->run > s->results ||
			   (c->change && c->run % dtype->size);
	memcpy(gathering_to(s) + dst, s->fill + src, c->run);
	for (uint64_t i = 0; c->change && i < c->run; i += dtype->size)
		gathering_change(gathering_to(s) + dst + i, dtype, c->change);
}

static void gathering_nest(struct ck_gather_slot *s,
			   const struct ck_gather_desc *c, uint32_t loop,
			   uint64_t src, uint64_t dst)
{
	const struct ck_loop *l = &s->loops[c->loop + loop];

	if (loop == c->nloops) {
		gathering_run(s, c, src, dst);
		return;
	}
	for (uint64_t i = 0; i < l->count; i++)
		gathering_nest(s, c, loop + 1, src + i * l->src,
			       dst + i * l->dst);
}

/* --- the thread ----------------------------------------------------------------------- */

static int gathering_do(struct ck_gather_slot *s)
{
	struct gathering *g = &gathering;

	g->wrong += s->ncopies == 0 || s->filled > s->room ||
		    s->results > s->room;
	g->wrong += s->memory && (s->at % CK_GATHER_ALIGN ||
				  s->at + s->results > s->memory->size);
	memset(s->result, 0xa5, s->room);
	if (g->fails && boxes_one_in(&g->random, g->fails)) {
		g->failed++;
		return -EIO;
	}
	if (s->wanted && (!g->bring || !g->is.rounds || s->set != 1))
		g->wrong++;
	if (g->too_many && s->ncopies > g->too_many) {
		g->refused++;
		return -EOVERFLOW;
	}
	if (s->wanted && ((g->loses && boxes_one_in(&g->random, g->loses)) ||
			  !g->bring(s))) {
		memset(s->fill, 0xc3, s->all_remote ? s->room : 0);
		g->lost++;
		return -EREMOTEIO;
	}
	g->brought += s->wanted != 0;
	for (uint32_t i = s->ncopies; i > 0; i--)
		gathering_nest(s, &s->copies[i - 1], 0, s->copies[i - 1].src,
			       s->copies[i - 1].dst);
	if (g->spoils) {
		gathering_to(s)[s->copies[0].dst] ^= 1;
		g->spoiled++;
	}
	g->done++;
	return 0;
}

/* A random slot that is ready, or NULL. */
static struct gathering_slot *gathering_next(bool *ending)
{
	struct gathering *g = &gathering;
	unsigned from = (unsigned)boxes_below(&g->random, GATHERING_SLOTS);
	struct gathering_slot *next = NULL;

	pthread_mutex_lock(&g->lock);
	for (unsigned i = 0; i < GATHERING_SLOTS && !next; i++) {
		struct gathering_slot *s =
			&g->slots[(from + i) % GATHERING_SLOTS];

		if (s->sent && (s->cancelled || !g->held))
			next = s;
	}
	if (next)
		next->sent = false;
	*ending = g->ending;
	pthread_mutex_unlock(&g->lock);
	return next;
}

static void gathering_answer(struct gathering_slot *s)
{
	int rc = -EINTR;
	bool cancelled;

	pthread_mutex_lock(&gathering.lock);
	cancelled = s->cancelled;
	pthread_mutex_unlock(&gathering.lock);
	if (!cancelled)
		rc = gathering_do(&s->is);
	s->is.done(&s->is, rc);
	if (!cancelled)
		return;
	pthread_mutex_lock(&gathering.lock);
	s->taken = false;
	pthread_mutex_unlock(&gathering.lock);
}

static void *gathering_thread(void *arg)
{
	struct gathering_slot *s;
	bool ending = false;

	(void)arg;
	while (!ending) {
		while (sem_wait(&gathering.sent))
			;
		while ((s = gathering_next(&ending)))
			gathering_answer(s);
	}
	return NULL;
}

/* --- the engine ----------------------------------------------------------------------- */

static struct ck_gather_slot *gathering_take(struct ck_gather_engine *is)
{
	struct gathering *g = (struct gathering *)is;
	struct gathering_slot *taken = NULL;

	pthread_mutex_lock(&g->lock);
	for (unsigned i = 0; i < GATHERING_SLOTS && !taken && !g->away; i++)
		if (!g->slots[i].taken)
			taken = &g->slots[i];
	if (taken) {
		taken->taken = true;
		taken->cancelled = false;
	}
	pthread_mutex_unlock(&g->lock);
	if (!taken)
		return NULL;
	taken->is = (struct ck_gather_slot){
		.fill = taken->memory,
		.result = taken->memory + GATHERING_ROOM,
		.copies = taken->copies,
		.loops = taken->loops,
		.room = GATHERING_ROOM,
		.copies_most = CK_ARRAY_SIZE(taken->copies),
		.loops_most = CK_ARRAY_SIZE(taken->loops),
		.wants = taken->wants,
		.wants_most = GATHERING_WANTS,
	};
	memset(taken->memory, 0x5a, sizeof(taken->memory));
	return &taken->is;
}

static void gathering_start(struct ck_gather_engine *is,
			    struct ck_gather_slot *slot)
{
	struct gathering *g = (struct gathering *)is;

	pthread_mutex_lock(&g->lock);
	((struct gathering_slot *)slot)->sent = true;
	pthread_mutex_unlock(&g->lock);
	sem_post(&g->sent);
}

static void gathering_interrupt(struct ck_gather_engine *is,
				struct ck_gather_slot *slot)
{
	struct gathering *g = (struct gathering *)is;

	pthread_mutex_lock(&g->lock);
	((struct gathering_slot *)slot)->cancelled = true;
	pthread_mutex_unlock(&g->lock);
	sem_post(&g->sent);
}

/* With false, held slots continue. */
static inline void gathering_hold(bool held)
{
	pthread_mutex_lock(&gathering.lock);
	gathering.held = held;
	pthread_mutex_unlock(&gathering.lock);
	sem_post(&gathering.sent);
}

static void gathering_put(struct ck_gather_engine *is,
			  struct ck_gather_slot *slot)
{
	struct gathering *g = (struct gathering *)is;

	pthread_mutex_lock(&g->lock);
	((struct gathering_slot *)slot)->taken = false;
	pthread_mutex_unlock(&g->lock);
}

static int gathering_allocate(struct ck_gather_engine *is,
			      const struct ck_gather_alloc *want,
			      struct ck_gather_memory **out)
{
	struct gathering *g = (struct gathering *)is;
	struct gathering_memory *m = calloc(1, sizeof(*m));

	if (!m || want->uuid[0] != 'g')
		abort();
	m->is.size = want->bytes;
	m->bytes = malloc(want->bytes);
	if (!m->bytes)
		abort();
	memset(m->bytes, 0x3c, want->bytes);
	*out = &m->is;
	__atomic_fetch_add(&g->memories, 1, __ATOMIC_RELAXED);
	return 0;
}

static void gathering_release(struct ck_gather_engine *is,
			      struct ck_gather_memory *memory)
{
	struct gathering *g = (struct gathering *)is;
	struct gathering_memory *m = (struct gathering_memory *)memory;

	__atomic_fetch_sub(&g->memories, 1, __ATOMIC_RELAXED);
	free(m->bytes);
	free(m);
}

static bool gathering_holds(struct ck_gather_engine *is,
			    const struct ck_gather_memory *m)
{
	(void)is;
	(void)m;
	return true;
}

static void gathering_begin(uint64_t seed)
{
	gathering = (struct gathering){
		.is = { .segment = GATHERING_ROOM / 2,
			.take = gathering_take,
			.start = gathering_start,
			.interrupt = gathering_interrupt,
			.put = gathering_put,
			.allocate = gathering_allocate,
			.release = gathering_release,
			.holds = gathering_holds },
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.random = seed,
	};
	sem_init(&gathering.sent, 0, 0);
	if (ck_thread_start(&gathering.thread, gathering_thread, NULL))
		abort();
}

/* No slot may be in flight. A slot or memory that was not released is an error. */
static void gathering_end(void)
{
	pthread_mutex_lock(&gathering.lock);
	gathering.ending = true;
	pthread_mutex_unlock(&gathering.lock);
	sem_post(&gathering.sent);
	pthread_join(gathering.thread, NULL);
	for (unsigned i = 0; i < GATHERING_SLOTS; i++)
		gathering.wrong += gathering.slots[i].taken;
	gathering.wrong += gathering.memories != 0;
}

/* trials() must detect slots with a wrong byte; it returns their number. */
static void gathering_canary(unsigned (*trials)(uint64_t n, uint64_t seed))
{
	unsigned wrong, before = gathering.spoiled;

	gathering.spoils = true;
	wrong = trials(100, 5);
	gathering.spoils = false;
	printf("# %u of %u were seen\n", wrong, gathering.spoiled - before);
	ok(gathering.spoiled - before > 5 &&
	   wrong > (gathering.spoiled - before) / 4);
}

#endif
