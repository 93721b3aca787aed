/* SPDX-License-Identifier: MIT */
/*
 * gpurounds_rank: a rank with a GPU of the fake driver, which requests random rounds and takes
 * part in rounds of other ranks. The fake NCCL transfers the bytes, and each gathered byte is
 * compared. Messages use the transport between processes of one machine. A rank may do harm
 * (rounds_harm.h), or use memory too early.
 */
#ifndef GPUROUNDS_RANK_H
#define GPUROUNDS_RANK_H

#include "gpurounds_part.h"
#include "xport_local.h"

#include <dlfcn.h>
#include <sys/mman.h>

/* --- the user of rounds ----------------------------------------------------------------- */

static inline struct grank *grank_of(struct ck_round_user *u)
{
	return (struct grank *)u;
}

static inline void grank_send(struct ck_round_user *u, uint32_t to,
			      struct ck_str body)
{
	struct grank *k = grank_of(u);

	if (harm_may_send(&k->harm, k->x->rank == to, body))
		ordered_send_body(k->x, to, body, &k->seen.out);
}

static inline struct grank_part *part_new(struct grank *k)
{
	for (unsigned i = 0; i < GRANK_SLOTS; i++) {
		struct grank_part *p = &k->parts[i];

		if (p->used)
			continue;
		*p = (struct grank_part){ .used = true, .since = now_msec() };
		p->fill = k->memory + (size_t)2 * i * DEAL_ROOM;
		p->result = p->fill + DEAL_ROOM;
		p->memory = k->sent + (size_t)GRANK_MOST * i * DEAL_ROOM;
		return p;
	}
	return NULL;
}

static inline void grank_prepare(struct ck_round_user *u, struct ck_round *r,
				 struct ck_str what)
{
	struct grank *k = grank_of(u);
	struct grank_part *p = part_new(k);

	if (!p) {
		ck_rounds_refuse(k->all, r->op, -EBUSY);
		return;
	}
	memcpy(&p->key, what.p, sizeof(p->key));
	p->op = r->op;
	p->receives = grank_receives(p->key, p->op, k->x->rank);
	if (p->receives)
		deal(&p->deal, p->key, k->x->rank, r->ranks, r->nranks);
	if (p->receives)
		part_work(p, k->x->rank);
	part_plan(p, r, k->x->rank);
	r->arg = p;
}

static inline void grank_ended(struct ck_round_user *u, struct ck_round *r,
			       int rc)
{
	struct grank *k = grank_of(u);
	struct grank_part *p = r->arg;

	k->result->parts++;
	k->result->slowest = ck_max(k->result->slowest, now_msec() - p->since);
	k->result->later += rc == 0 && p->epoch > k->x->size;
	for (uint32_t i = 0; rc == 0 && i < r->npairs; i++)
		k->result->bytes += r->pairs[i].received.bytes;
	part_end(k, p, rc);
}

/* Backoff after -EBUSY: the slots of other ranks become free sooner with fewer requests. */
static inline void grank_rest(struct grank *k)
{
	uint64_t most = ck_min(UINT64_C(5) << k->busy, GRANK_BUSY_MSEC);

	k->busy += most < GRANK_BUSY_MSEC;
	k->not_before = now_msec() + boxes_below(&k->random, most);
}

static inline void grank_over(struct ck_round_user *u, uint64_t op, int rc)
{
	struct grank *k = grank_of(u);

	(void)op;
	k->asked--;
	k->result->good += rc == 0;
	k->result->busy += rc == -EBUSY;
	k->result->failed += rc && rc != -EBUSY;
	if (rc && rc != -EBUSY && !k->result->failed_at)
		k->result->failed_at = now_msec();
	if (rc == -EBUSY)
		grank_rest(k);
	else if (rc)
		k->not_before = now_msec() + GRANK_REST_MSEC;
	if (rc != -EBUSY) {
		k->busy = 0;
		k->rounds++;
	}
}

/* --- a proxy that observes the calls to the real backend ---------------------------------- */

static inline struct grank *grank_of_mover(struct ck_round_backend *m)
{
	return (void *)((char *)m - offsetof(struct grank, seen));
}

static inline void seen_epoch(struct ck_round_backend *m, uint64_t epoch,
			      const uint32_t *members, uint32_t n,
			      const uint8_t token[static CK_ROUND_TOKEN])
{
	struct grank *k = grank_of_mover(m);

	k->seen.epoch = epoch;
	k->backend->epoch(k->backend, epoch, members, n, token);
}

static inline void seen_token(struct ck_round_backend *m,
			      uint8_t out[static CK_ROUND_TOKEN])
{
	struct grank *k = grank_of_mover(m);

	k->backend->token(k->backend, out);
}

static inline int seen_begin(struct ck_round_backend *m, struct ck_round *r)
{
	struct grank *k = grank_of_mover(m);
	struct grank_part *p = r->arg;
	int rc = k->backend->begin(k->backend, r);

	p->epoch = r->epoch;
	k->seen.r = rc ? NULL : r;
	if (k->plan->settles || k->plan->at_once)
		harm_happens(
			&k->harm); /* before the others can do without it */
	if (k->plan->spoil == SPOIL_PROCEEDS)
		part_proceed(k, p, 0);
	if (k->plan->spoil == SPOIL_UNPACKS && p->bytes) {
		part_unpack(k, p);
		memset(p->memory, 0xdd, p->nbytes);
		for (unsigned i = 0; i < 4; i++)
			if (k->gpu->pack(k->gpu, p->memory, p->nbytes,
					 &p->bytes) == 0)
				part_unpack(k, p);
	}
	return rc;
}

static inline int seen_poll(struct ck_round_backend *m, struct ck_round *r)
{
	struct grank *k = grank_of_mover(m);
	int rc = k->backend->poll(k->backend, r);

	if (rc == -EINPROGRESS && k->plan->settles &&
	    boxes_one_in(&k->random, 4))
		(void)k->driver.settle();
	if (rc == -EINPROGRESS)
		return rc;
	k->seen.r = NULL;
	k->seen.moved += rc == 0;
	k->seen.aborts += rc != 0;
	return rc;
}

static inline void seen_abort(struct ck_round_backend *m, struct ck_round *r)
{
	struct grank *k = grank_of_mover(m);

	k->backend->abort(k->backend, r);
}

/* --- the transport's ------------------------------------------------------------------------ */

static inline void grank_got(void *arg, uint32_t from,
			     const struct ck_message *m)
{
	struct grank *k = arg;
	uint16_t kind;

	memcpy(&kind, m->body.p, sizeof(kind));
	if (kind == GRANK_FINISHED) {
		k->finished[from] = true;
		return;
	}
	harm_see(&k->harm, k->x->rank == from, m->body);
	if (ck_rounds_receive(k->all, from, m->body, now_msec())) {
		k->result->wrong++;
		k->x->drop(k->x, from);
	}
}

static inline void grank_lost(void *arg, uint32_t from)
{
	struct grank *k = arg;

	k->lost[from] = true;
	ck_rounds_lost(k->all, from, now_msec());
}

/* --- requests and events -------------------------------------------------------------------- */

static inline void grank_ask(struct grank *k)
{
	uint32_t ranks[GRANK_MOST], n = 0;
	uint64_t key = tap_random(&k->random), op;
	uint64_t want = k->plan->rounds.everybody
				? 0
				: 1 + boxes_below(&k->random,
						  ck_min(k->x->size, 4));
	int rc;

	for (uint32_t i = 0; i < k->x->size; i++)
		if (i == k->x->rank ||
		    (k->plan->rounds.everybody && !k->lost[i]) ||
		    boxes_below(&k->random, k->x->size) < want)
			ranks[n++] = i;
	rc = ck_rounds_request(
		k->all, ranks, n,
		(struct ck_str){ (const char *)&key, sizeof(key) }, &op);
	k->asked += rc == 0;
	if (rc && rc != -EHOSTDOWN && rc != -EBUSY)
		k->result->wrong++;
	if (rc)
		k->not_before = now_msec() + 1;
}

static inline void grank_finish(struct grank *k)
{
	const uint16_t kind = GRANK_FINISHED;

	k->sent_finished = true;
	for (uint32_t i = 0; i < k->x->size; i++)
		ordered_send_body(
			k->x, i,
			(struct ck_str){ (const char *)&kind, sizeof(kind) },
			&k->seen.out);
}

static inline bool grank_is_idle(const struct grank *k)
{
	for (unsigned i = 0; i < GRANK_SLOTS; i++)
		if (k->parts[i].used)
			return false;
	for (uint32_t i = 0; i < k->x->size; i++)
		if (!k->finished[i] && !k->lost[i])
			return false;
	return k->seen.out == 0;
}

/* Runs one iteration; true if the rank has more to do. */
static inline bool grank_turn(struct grank *k)
{
	unsigned window = k->plan->window ? k->plan->window : GRANK_WINDOW;
	uint64_t now = now_msec();
	uint32_t due;

	while (k->rounds + k->asked < k->plan->rounds.rounds &&
	       k->asked < window && now >= k->not_before)
		grank_ask(k);
	if (k->rounds >= k->plan->rounds.rounds && !k->sent_finished)
		grank_finish(k);
	if (!k->sent_finished)
		k->result->epoch = k->seen.epoch;
	grank_look(k);
	due = ck_rounds_tick(k->all, now);
	grank_done(k);
	if (due == CK_ROUNDS_IDLE && grank_is_idle(k))
		return false;
	if (k->x->wait(k->x, NULL, 0, (int)ck_min(due, 1)))
		abort();
	harm_happens(&k->harm);
	return true;
}

/* --- join, run, leave ----------------------------------------------------------------------- */

static inline uint8_t *grank_map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

static inline bool find_call(void *library, const char *name, void *function)
{
	void *found = library ? dlsym(library, name) : NULL;

	memcpy(function, &found, sizeof(found));
	return found;
}

static inline void grank_find_driver(struct grank_driver *d)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	(void)find_call(library, "standin_control", &d->control);
	(void)find_call(library, "standin_leaks", &d->leaks);
	if (!find_call(library, "cuMemGetInfo_v2", &d->info) ||
	    !find_call(library, "cuCtxSynchronize", &d->settle))
		abort();
}

static inline _Noreturn void grank_fails(const char *what)
{
	(void)fprintf(stderr, "rank fails: %s\n", what);
	_exit(4);
}

static inline void grank_open(struct grank *k)
{
	struct ck_gpu_options options = {
		.size = (size_t)2 * GRANK_SLOTS * DEAL_ROOM, .room = DEAL_ROOM
	};
	struct ck_diag d = { 0 };

	grank_find_driver(&k->driver);
	k->memory = grank_map(options.size);
	k->sent = grank_map((size_t)GRANK_MOST * GRANK_SLOTS * DEAL_ROOM);
	options.memory = k->memory;
	if (ck_gpu_open(&options, &k->gpu, &d))
		grank_fails(d.text);
}

static inline size_t grank_left(const struct grank *k)
{
	size_t left = 0, all;

	if (k->driver.info(&left, &all))
		grank_fails("how much memory there is");
	return left;
}

static inline void grank_join(struct grank *k)
{
	const struct ck_rounds_options options = { k->x->rank, k->x->size,
						   GRANK_PARTS,
						   k->plan->rounds.prepare_msec,
						   k->plan->rounds.round_msec };
	struct ck_diag d = { 0 };

	if (k->gpu->join(k->gpu, k->x->rank, k->sent,
			 (size_t)GRANK_MOST * GRANK_SLOTS * DEAL_ROOM,
			 &k->backend, &d))
		grank_fails(d.text);
	k->seen.backend = (struct ck_round_backend){ seen_epoch, seen_token,
						     seen_begin, seen_poll,
						     seen_abort };
	k->all = ck_rounds_make(&options, &k->user, &k->seen.backend,
				now_msec());
	if (!k->all)
		abort();
	k->x->arg = k;
	k->x->got = grank_got;
	k->x->lost = grank_lost;
}

static inline void grank_leave(struct grank *k)
{
	k->result->aborts += k->seen.aborts;
	if (!ck_rounds_end(k->all, now_msec()))
		k->result->wrong++;
	k->x->close(k->x);
	ck_rounds_free(k->all);
	k->gpu->leave(k->gpu);
}

static inline void grank_live(struct grank *k)
{
	size_t left = grank_left(k);

	k->rounds = 0;
	k->asked = 0;
	k->sent_finished = false;
	memset(k->lost, 0, sizeof(k->lost));
	memset(k->finished, 0, sizeof(k->finished));
	memset(&k->seen, 0, sizeof(k->seen));
	grank_join(k);
	harm_init(&k->harm, &k->plan->rounds, k->x->rank, &k->seen);
	while (grank_turn(k))
		;
	grank_leave(k);
	k->result->leaks += grank_left(k) != left;
}

/* Runs one rank; a process has only one. directory: see ck_transport_local(). */
static inline void grank_run(const char *directory, uint32_t rank,
			     uint32_t ranks, const struct grank_plan *plan,
			     struct grank_result *result)
{
	struct grank *k = calloc(1, sizeof(*k));

	if (!k)
		abort();
	k->user = (struct ck_round_user){ grank_send, grank_prepare,
					  grank_ended, grank_over };
	k->plan = plan;
	k->result = result;
	k->random = deal_key(plan->rounds.seed, rank) | 1;
	grank_open(k);
	if (plan->words && rank == plan->rounds.who &&
	    (!k->driver.control || k->driver.control(plan->words)))
		abort();
	for (unsigned i = 0; i < ck_max(plan->lives, 1); i++) {
		if (ck_transport_local(directory, rank, ranks, 60000, &k->x))
			grank_fails("no transport");
		grank_live(k);
	}
	if (k->gpu->trouble(k->gpu))
		grank_fails(k->gpu->trouble(k->gpu));
	k->gpu->close(k->gpu);
	result->leaks += k->driver.leaks ? k->driver.leaks() : 0;
	free(k);
	result->over = true;
}

#endif
