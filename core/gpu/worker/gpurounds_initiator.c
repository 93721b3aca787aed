/* SPDX-License-Identifier: MIT */
/*
 * gpurounds_initiator: rounds requested by this rank. A round serves as many
 * waiting gather requests as fit. Bytes are received directly into the staged
 * memory of each request on the device. State: the waiting list and `batches`.
 * One thread.
 */
#include "gpurounds_internal.h"

#include <errno.h>

enum { PAUSE_MSEC = 500, PAUSE_MOST = 30000 };

/* Ranks and bytes of a round. */
struct sum {
	uint32_t ranks[CK_ROUND_RANKS]; /* ascending, with this rank */
	uint64_t bytes[CK_ROUND_RANKS]; /* that each rank sends */
	uint32_t nranks;
};

/* --- limits --------------------------------------------------------------- */

/* False if there are too many ranks, or too many bytes of this one. */
static bool sum_add(struct sum *s, uint32_t rank, uint64_t bytes)
{
	uint32_t i = 0;

	while (i < s->nranks && s->ranks[i] < rank)
		i++;
	if (i == s->nranks || s->ranks[i] != rank) {
		size_t behind = s->nranks - i;

		if (s->nranks == CK_ROUND_RANKS)
			return false;
		memmove(s->ranks + i + 1, s->ranks + i,
			behind * sizeof(s->ranks[0]));
		memmove(s->bytes + i + 1, s->bytes + i,
			behind * sizeof(s->bytes[0]));
		s->ranks[i] = rank;
		s->bytes[i] = 0;
		s->nranks++;
	}
	s->bytes[i] += bytes;
	return s->bytes[i] <= CK_GPU_PARCEL;
}

static struct ck_cur wants_of(const struct ck_gpurounds_request *w)
{
	return ck_cur_make(w->wants, w->wanted);
}

/* Adds a request. Returns 0, or: -EPROTO if its list is invalid; -EHOSTDOWN if
 * a rank is lost; -E2BIG if it does not fit. */
static int sum_request(const struct ck_gpurounds *r, struct sum *s,
		       const struct ck_gpurounds_request *w)
{
	struct ck_cur c = wants_of(w);
	struct ck_want want;
	int rc;

	while ((rc = ck_want_next(&c, &want)) > 0) {
		if (want.rank >= r->size || want.rank == r->rank)
			return -EPROTO;
		if (r->lost[want.rank])
			return -EHOSTDOWN;
		if (!sum_add(s, want.rank, want.bytes))
			return -E2BIG;
	}
	return rc;
}

/* --- a batch ----------------------------------------------------------------------------- */

static void batch_free(struct ck_gpurounds_batch *b)
{
	ck_buf_fini(&b->what);
	free(b->list);
	*b = (struct ck_gpurounds_batch){ 0 };
}

/* Lets the batch's requests proceed: with their bytes, or as failed. */
static void settle(struct ck_gpurounds *r, struct ck_gpurounds_batch *b, int rc)
{
	struct ck_gpu *gpu = r->options.gpu;

	for (uint32_t i = 0; i < b->n; i++)
		gpu->proceed(gpu, b->requests[i]->work, rc ? -EREMOTEIO : 0);
	r->open -= b->n;
	b->n = 0;
}

static struct ck_gpurounds_batch *batch_of(struct ck_gpurounds *r, uint64_t op)
{
	for (unsigned i = 0; i < GPU_INITIATED && op; i++)
		if (r->batches[i].op == op)
			return &r->batches[i];
	return NULL;
}

static struct ck_gpurounds_batch *batch_unused(struct ck_gpurounds *r)
{
	for (unsigned i = 0; i < GPU_INITIATED; i++)
		if (!r->batches[i].op && !r->batches[i].n)
			return &r->batches[i];
	return NULL;
}

/* --- requesting ----------------------------------------------------------- */

/* Removes the first waiting request. */
static struct ck_gpurounds_request *take_out(struct ck_gpurounds *r)
{
	struct ck_gpurounds_request *w = r->waiting;

	r->waiting = w->next;
	if (!r->waiting)
		r->waiting_end = &r->waiting;
	return w;
}

static void fail_first(struct ck_gpurounds *r, int rc)
{
	struct ck_gpurounds_request *w = take_out(r);

	r->open--;
	r->options.failed(r->options.arg, w, rc);
}

static void add_first(struct ck_gpurounds *r, struct ck_gpurounds_batch *b)
{
	struct ck_gpurounds_request *w = take_out(r);

	ck_buf_add(&b->what, w->wants, w->wanted);
	b->requests[b->n++] = w;
}

/* Adds the first waiting request to the batch. False if it does not fit now; a
 * request that never can be served has failed. */
static bool take_first(struct ck_gpurounds *r, struct ck_gpurounds_batch *b,
		       struct sum *s)
{
	struct ck_gpu *gpu = r->options.gpu;
	struct sum with = *s;
	int rc = sum_request(r, &with, r->waiting);

	if (rc == 0 && b->what.len + r->waiting->wanted > CK_ROUND_WHAT)
		rc = -E2BIG;
	if (rc == 0)
		rc = gpu->stage(gpu, r->waiting->work);
	if (rc == 0) {
		*s = with;
		add_first(r, b);
	} else if (rc != -EAGAIN && (rc != -E2BIG || b->n == 0)) {
		fail_first(r, rc == -EPROTO ? rc : -EREMOTEIO);
	}
	return rc == 0;
}

/* After failures, pauses before the next round. Losses and silence of ranks are
 * handled by rounds. */
static void note(struct ck_gpurounds *r, int rc)
{
	if (rc == 0)
		r->pause = 0;
	if (rc != -ETIMEDOUT && rc != -ECANCELED && rc != -EIO)
		return;
	r->pause = (uint32_t)ck_min(
		r->pause ? r->pause * UINT64_C(2) : PAUSE_MSEC, PAUSE_MOST);
	r->quiet_until = ck_msec_now() + r->pause;
}

/* Requests the round; without memory its requests fail. */
static void send(struct ck_gpurounds *r, struct ck_gpurounds_batch *b,
		 const struct sum *s)
{
	int rc = b->what.err;

	if (rc == 0)
		rc = ck_rounds_request(
			r->rounds, s->ranks, s->nranks,
			(struct ck_str){ b->what.data, b->what.len }, &b->op);
	if (rc == 0)
		return;
	note(r, rc);
	settle(r, b, rc);
	batch_free(b);
}

/* False if ranks are not connected: requests do not wait for that, but fail. */
static bool may_initiate(const struct ck_gpurounds *r)
{
	struct ck_gpu *gpu = r->options.gpu;

	return ck_msec_now() >= r->quiet_until && gpu->is_up(gpu) == 1;
}

void ck_gpurounds_initiate(struct ck_gpurounds *r)
{
	struct ck_gpurounds_batch *b;

	while (r->waiting && !may_initiate(r))
		fail_first(r, -EREMOTEIO);
	while (r->waiting && (b = batch_unused(r))) {
		struct sum s = { .nranks = 1, .ranks = { r->rank } };

		ck_buf_u32(&b->what, r->rank);
		while (r->waiting && b->n < GPU_BATCH && take_first(r, b, &s))
			;
		if (b->n == 0) {
			batch_free(b);
			return;
		}
		send(r, b, &s);
	}
}

/* --- progress ------------------------------------------------------------- */

bool ck_gpurounds_initiator_prepare(struct ck_gpurounds *r,
				    struct ck_round *round)
{
	struct ck_gpurounds_batch *b = batch_of(r, round->op);

	if (!b)
		return false;
	b->round = round;
	round->arg = &b->arg;
	return true;
}

/* Appends the transfers from one rank, in the order of its part of the
 * request. */
static void add_transfers(struct ck_gpurounds_batch *b, uint32_t rank)
{
	for (uint32_t i = 0; i < b->n; i++) {
		struct ck_cur c = wants_of(b->requests[i]);
		struct ck_want want;

		while (ck_want_next(&c, &want) > 0)
			if (want.rank == rank)
				b->list[b->ntransfers++] =
					(struct ck_gpu_transfer){
						.peer = rank,
						.at = b->requests[i]
							      ->work->staged +
						      want.at,
						.bytes = want.bytes,
					};
	}
}

static int transfers_make(struct ck_gpurounds_batch *b)
{
	size_t n = 0;

	for (uint32_t i = 0; i < b->n; i++) {
		struct ck_cur c = wants_of(b->requests[i]);
		struct ck_want want;

		while (ck_want_next(&c, &want) > 0)
			n++;
	}
	b->list = calloc(n + 1, sizeof(*b->list));
	if (!b->list)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->round->nranks; i++)
		add_transfers(b, b->round->ranks[i]);
	b->arg = (struct ck_gpu_round){ b->list, b->ntransfers };
	return 0;
}

uint32_t ck_gpurounds_pairs(const struct ck_gpu_transfer *list, size_t n,
			    struct ck_round_pair out[static CK_ROUND_RANKS])
{
	uint32_t pairs = 0;

	for (size_t i = 0; i < n; i++) {
		struct ck_round_count *count;

		if (pairs == 0 || out[pairs - 1].peer != list[i].peer)
			out[pairs++] =
				(struct ck_round_pair){ .peer = list[i].peer };
		count = list[i].sends ? &out[pairs - 1].sent
				      : &out[pairs - 1].received;
		count->bytes += list[i].bytes;
		count->messages++;
	}
	return pairs;
}

/* Returns 1 if all are staged, 0 if not yet, or a negative errno. */
static int is_staged(struct ck_gpurounds *r, const struct ck_gpurounds_batch *b)
{
	struct ck_gpu *gpu = r->options.gpu;
	int rc = 1;

	for (uint32_t i = 0; i < b->n && rc == 1; i++)
		rc = gpu->is_staged(gpu, b->requests[i]->work);
	return rc;
}

static void batch_ready(struct ck_gpurounds *r, struct ck_gpurounds_batch *b)
{
	struct ck_round_pair pairs[CK_ROUND_RANKS];
	int rc = is_staged(r, b);

	if (rc == 0)
		return;
	if (rc == 1)
		rc = transfers_make(b);
	if (rc == 0)
		rc = ck_rounds_ready(
			r->rounds, b->op, pairs,
			ck_gpurounds_pairs(b->list, b->ntransfers, pairs));
	b->ready = rc == 0;
	if (rc) {
		b->round = NULL;
		ck_rounds_refuse(r->rounds, b->op, rc);
	}
}

void ck_gpurounds_initiator_advance(struct ck_gpurounds *r)
{
	for (unsigned i = 0; i < GPU_INITIATED; i++)
		if (r->batches[i].round && !r->batches[i].ready)
			batch_ready(r, &r->batches[i]);
}

bool ck_gpurounds_initiator_ended(struct ck_gpurounds *r,
				  const struct ck_round *round, int rc)
{
	struct ck_gpurounds_batch *b = batch_of(r, round->op);

	if (!b)
		return false;
	b->round = NULL;
	settle(r, b, rc);
	if (b->over)
		batch_free(b);
	return true;
}

void ck_gpurounds_initiator_over(struct ck_gpurounds *r, uint64_t op, int rc)
{
	struct ck_gpurounds_batch *b = batch_of(r, op);

	note(r, rc);
	if (!b)
		return;
	b->over = true;
	if (b->round)
		return;
	settle(r, b, rc);
	batch_free(b);
}

void ck_gpurounds_initiator_end(struct ck_gpurounds *r, int rc)
{
	while (r->waiting)
		fail_first(r, rc);
	for (unsigned i = 0; i < GPU_INITIATED; i++) {
		settle(r, &r->batches[i], rc);
		batch_free(&r->batches[i]);
	}
}
