/* SPDX-License-Identifier: MIT */
/*
 * gpurounds_part: the state of a rank in one round: the gather request that receives bytes, the
 * messages to send, and all transfers in their order.
 */
#ifndef GPUROUNDS_PART_H
#define GPUROUNDS_PART_H

#include "gpurounds_deal.h"
#include "rounds_harm.h"

enum {
	GRANK_MOST = 8,	  /* ranks */
	GRANK_PARTS = 4,  /* at a time */
	GRANK_WINDOW = 2, /* requests at a time */
	GRANK_SLOTS = 8,  /* of memory */
	GRANK_TRANSFERS = 2 * DEAL_COPIES * GRANK_MOST,
	GRANK_BUSY_MSEC = 64,	/* longest pause before a retry */
	GRANK_REST_MSEC = 100,	/* pause after a failed round */
	GRANK_ROOM_MSEC = 500,	/* limit of the wait for a free slot */
	GRANK_FINISHED = 0x203, /* a message kind of this test only */
	GRANK_UNTOUCHED = 0x5a, /* the initial bytes of a result */
};

/* A planted fault of a rank, which the canary tests must detect. */
enum grank_spoil {
	SPOIL_NONE,
	SPOIL_PROCEEDS, /* proceeds with a work when its round begins */
	SPOIL_UNPACKS,	/* frees its messages then, and packs others */
	SPOIL_EVENTS,	/* events of the driver always seem complete */
};

struct grank_plan {
	struct rank_plan rounds; /* and the harm, see rounds_harm.h */
	const char *words; /* options of the fake driver for the rank `who` */
	enum grank_spoil spoil;
	bool settles; /* the ranks wait for their whole device at times */
	bool falls_back; /* after a failed round, bytes are gathered from host memory */
	bool at_once; /* the harm happens at the begin of a round, before any transfer */
	unsigned window; /* requests at a time; 0: GRANK_WINDOW */
	unsigned lives; /* how often the rank joins and leaves, at least once */
};

struct grank_result {
	uint64_t good, failed, busy; /* requested rounds by result */
	/* later: in an epoch after the first one */
	uint64_t parts, works, later, bytes, wrong;
	uint64_t aborts, epoch, slowest;
	uint64_t failed_at; /* time of the first reported failure, or 0 */
	/* gather requests that fell back to host memory */
	uint64_t fell, fell_slowest;
	unsigned leaks;
	bool over;
};

/* Calls of the driver that the plugin lacks. */
struct grank_driver {
	/* A call of the fake driver; NULL for a real driver. */
	int (*control)(const char *text);
	unsigned (*leaks)(void);
	int (*info)(size_t *left, size_t *all);
	int (*settle)(void);
};

/* --- one round of a rank --------------------------------------------------------------- */

enum grank_from { FROM_STAGED, FROM_BYTES, FROM_ZEROS };

struct grank_part {
	struct ck_gpu_round round; /* first */
	struct ck_gpu_transfer list[GRANK_TRANSFERS];
	enum grank_from from[GRANK_TRANSFERS];
	struct ck_round_pair pairs[GRANK_MOST];
	uint32_t npairs;
	uint64_t op, key, since, epoch;
	bool used, ready, ended, falls, fell;

	/* If the rank receives: */
	bool receives, staged, proceeded;
	struct deal deal;
	struct ck_gpu_work work;
	uint8_t *fill, *result;

	/* If the rank sends: */
	uint8_t *memory;
	uint64_t nbytes, nzeros;
	struct ck_gpu_parcel *bytes, *zeros;
	bool late; /* in use until `bytes` is packed */
};

struct grank {
	struct ck_round_user user; /* first */
	struct ordered seen; /* checks each call and forwards it to `mover` */
	struct ck_round_backend *backend;
	struct ck_gpu *gpu;
	struct grank_driver driver;
	struct ck_transport *x;
	struct ck_rounds *all;
	const struct grank_plan *plan;
	struct grank_result *result;
	struct harm harm;
	uint64_t random, rounds, not_before;
	unsigned busy; /* consecutive -EBUSY results */
	unsigned asked;
	bool sent_finished, lost[GRANK_MOST], finished[GRANK_MOST];
	/* GRANK_SLOTS blocks each: gathered bytes, and bytes to send */
	uint8_t *memory, *sent;
	struct grank_part parts[GRANK_SLOTS];
};

static inline bool grank_receives(uint64_t key, uint64_t op, uint32_t rank)
{
	return key % 4 == 0 || op >> 48 == rank;
}

static inline void part_add(struct grank_part *p, uint32_t peer, bool sends,
			    uint64_t at, uint32_t bytes, enum grank_from from)
{
	struct ck_round_pair *pair;
	struct ck_round_count *c;

	if (p->npairs == 0 || p->pairs[p->npairs - 1].peer != peer)
		p->pairs[p->npairs++] = (struct ck_round_pair){ .peer = peer };
	pair = &p->pairs[p->npairs - 1];
	c = sends ? &pair->sent : &pair->received;
	c->bytes += bytes;
	c->messages++;
	p->from[p->round.n] = from;
	p->list[p->round.n++] = (struct ck_gpu_transfer){ peer, sends, at,
							  bytes };
}

/* The bytes of all transfers are contiguous; zeros are sent from one block. */
static inline void part_send(struct grank_part *p, uint32_t peer,
			     const struct piece *piece)
{
	if (piece->zeros) {
		part_add(p, peer, true, 0, piece->len, FROM_ZEROS);
		p->nzeros = ck_max(p->nzeros, piece->len);
		return;
	}
	part_add(p, peer, true, p->nbytes, piece->len, FROM_BYTES);
	piece_fill(piece, p->memory + p->nbytes);
	p->nbytes += piece->len;
}

static inline void part_plan(struct grank_part *p, const struct ck_round *r,
			     uint32_t self)
{
	for (uint32_t i = 0; i < r->nranks; i++) {
		uint32_t peer = r->ranks[i];
		struct deal d = { 0 };

		if (peer == self)
			continue;
		if (grank_receives(p->key, p->op, peer))
			deal(&d, p->key, peer, r->ranks, r->nranks);
		for (uint32_t k = 0; k < d.n; k++)
			if (d.pieces[k].owner == self)
				part_send(p, peer, &d.pieces[k]);
		for (uint32_t k = 0; k < p->deal.n; k++)
			if (p->deal.pieces[k].owner == peer)
				part_add(p, peer, false, p->deal.pieces[k].src,
					 p->deal.pieces[k].len, FROM_STAGED);
	}
}

static inline void part_work(struct grank_part *p, uint32_t self)
{
	bool own = false;

	memset(p->fill, 0xee, p->deal.filled);
	memset(p->result, GRANK_UNTOUCHED, p->deal.results);
	for (uint32_t k = 0; k < p->deal.n; k++)
		if (p->deal.pieces[k].owner == self) {
			piece_fill(&p->deal.pieces[k],
				   p->fill + p->deal.pieces[k].src);
			own = true;
		}
	p->work = (struct ck_gpu_work){
		.fill = own || p->key % 3 == 0 ? p->fill : NULL,
		.result = p->result,
		.filled = p->deal.filled,
		.results = p->deal.results,
		.ncopies = p->deal.n,
		.copies = p->deal.copies,
		.loops = p->deal.loops,
	};
}

static inline void part_unpack(struct grank *k, struct grank_part *p)
{
	if (p->bytes)
		k->gpu->unpack(k->gpu, p->bytes);
	if (p->zeros)
		k->gpu->unpack(k->gpu, p->zeros);
	p->bytes = p->zeros = NULL;
}

/* Packs both messages, or neither one, so that no two ranks block each other. */
static inline int part_pack(struct grank *k, struct grank_part *p)
{
	int rc = 0;

	if (p->nzeros && !p->zeros)
		rc = k->gpu->pack(k->gpu, NULL, p->nzeros, &p->zeros);
	if (rc == 0 && p->nbytes && !p->bytes)
		rc = k->gpu->pack(k->gpu, p->memory, p->nbytes, &p->bytes);
	if (rc)
		part_unpack(k, p);
	return rc;
}

static inline int part_stage(struct grank *k, struct grank_part *p)
{
	int rc;

	if (!p->receives || p->staged)
		return 0;
	rc = k->gpu->stage(k->gpu, &p->work);
	p->staged = rc == 0;
	return rc;
}

/* Returns 1 if the round can begin, 0 if not yet. */
static inline int part_prepare(struct grank *k, struct grank_part *p)
{
	int rc = part_stage(k, p);

	if (rc == 0)
		rc = part_pack(k, p);
	/* As in ckptfs: two ranks may each hold the slot that the other one waits for. */
	if (rc == -EAGAIN)
		return now_msec() - p->since > GRANK_ROOM_MSEC ? -EBUSY : 0;
	if (rc)
		return rc;
	rc = p->staged ? k->gpu->is_staged(k->gpu, &p->work) : 1;
	if (rc == 1 && p->bytes)
		rc = k->gpu->is_packed(k->gpu, p->bytes);
	if (rc == 1 && p->zeros)
		rc = k->gpu->is_packed(k->gpu, p->zeros);
	return rc;
}

static inline void part_place(struct grank_part *p)
{
	p->round.list = p->list;
	for (size_t i = 0; i < p->round.n; i++)
		switch (p->from[i]) {
		case FROM_STAGED: p->list[i].at += p->work.staged; break;
		case FROM_BYTES: p->list[i].at += p->bytes->at; break;
		case FROM_ZEROS: p->list[i].at += p->zeros->at; break;
		}
}

static inline void part_proceed(struct grank *k, struct grank_part *p, int rc)
{
	if (p->staged && !p->proceeded)
		k->gpu->proceed(k->gpu, &p->work, rc);
	p->proceeded = p->staged;
}

/* Ends the round; a work of it may still be in flight. The source of an abandoned message may be
 * reused at once, since its bytes are never received. A sanitizer would report that as a race, so
 * the slot then stays in use until the message is packed. */
static inline void part_end(struct grank *k, struct grank_part *p, int rc)
{
	p->late = TAP_THREADS && p->bytes &&
		  k->gpu->is_packed(k->gpu, p->bytes) == 0;
	if (!p->late)
		part_unpack(k, p);
	part_proceed(k, p, rc);
	p->ended = true;
	p->used = p->staged || p->late;
}

static inline void part_look_late(struct grank *k, struct grank_part *p)
{
	if (k->gpu->is_packed(k->gpu, p->bytes) == 0)
		return;
	part_unpack(k, p);
	p->late = false;
	p->used = p->staged;
}

static inline void part_look(struct grank *k, struct grank_part *p)
{
	int rc = part_prepare(k, p);
	uint64_t op = p->op;

	if (rc == 0)
		return;
	if (rc < 0) {
		part_end(k, p, -ECANCELED);
		ck_rounds_refuse(k->all, op, rc);
		return;
	}
	part_place(p);
	p->ready = true;
	if (ck_rounds_ready(k->all, p->op, p->pairs, p->npairs))
		k->result->wrong++;
}

/* Falls back: fills host memory with all bytes, as the messages of peers would. */
static inline void part_fall(struct grank *k, struct grank_part *p)
{
	int rc;

	for (uint32_t i = 0; i < p->deal.n; i++)
		piece_fill(&p->deal.pieces[i], p->fill + p->deal.pieces[i].src);
	p->work.fill = p->fill;
	rc = k->gpu->start(k->gpu, &p->work);
	if (rc && rc != -EAGAIN)
		abort();
	p->falls = rc;
	p->fell = !rc;
}

static inline void grank_look(struct grank *k)
{
	for (unsigned i = 0; i < GRANK_SLOTS; i++) {
		struct grank_part *p = &k->parts[i];

		if (p->late)
			part_look_late(k, p);
		else if (p->falls)
			part_fall(k, p);
		else if (p->used && !p->ready && !p->ended)
			part_look(k, p);
	}
}

static inline bool is_untouched(const struct grank_part *p)
{
	for (uint32_t i = 0; i < p->deal.results; i++)
		if (p->result[i] != GRANK_UNTOUCHED)
			return false;
	return true;
}

static inline void part_done(struct grank *k, struct grank_part *p)
{
	struct grank_result *t = k->result;
	bool again = p->work.rc && k->plan->falls_back && !p->fell;

	t->works++;
	if (p->work.rc == 0)
		t->wrong += !deal_is_right(&p->deal, p->result);
	else
		t->wrong += p->fell || !is_untouched(p);
	t->fell += p->fell;
	if (p->fell)
		t->fell_slowest = ck_max(t->fell_slowest,
					 now_msec() - p->since);
	if (again)
		part_fall(k, p);
	p->staged = again;
	p->used = !p->ended || p->late || again;
}

static inline void grank_done(struct grank *k)
{
	struct ck_gpu_work *w;

	while ((w = k->gpu->done(k->gpu))) {
		struct grank_part *p =
			(void *)((char *)w - offsetof(struct grank_part, work));

		part_done(k, p);
	}
}

#endif
