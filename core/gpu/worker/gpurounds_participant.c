/* SPDX-License-Identifier: MIT */
/*
 * gpurounds_participant: bytes for rounds of other ranks. States of a part:
 * READING, the rank reads files into the link's memory; READ; PACKED, being
 * copied to the device as a parcel; READY, reported to the initiator. One
 * thread.
 */
#include "gpurounds_internal.h"

#include <errno.h>

/* Limit to wait for a free parcel. Longer waits could deadlock: rounds that
 * hold parcels may wait for a parcel that this round holds at another rank. */
enum { PARCEL_MSEC = 500 };

/* --- parts ---------------------------------------------------------------- */

static uint8_t *place_at(const struct ck_gpurounds *r, uint32_t place)
{
	return r->memory + (size_t)place * CK_GPU_PARCEL;
}

static void part_free(struct ck_gpurounds *r, struct ck_gpurounds_part *p)
{
	struct ck_gpu *gpu = r->options.gpu;

	if (p->parcel)
		gpu->unpack(gpu, p->parcel);
	r->taken[p->place] = false;
	free(p);
}

/* Frees parts whose round has ended and whose READs all have replies. */
static void clear_away(struct ck_gpurounds *r)
{
	struct ck_gpurounds_part **at = &r->parts;

	while (*at) {
		struct ck_gpurounds_part *p = *at;

		if (p->round || p->answers < p->nreads) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		part_free(r, p);
	}
}

static void refuse(struct ck_gpurounds *r, struct ck_gpurounds_part *p, int rc)
{
	p->round = NULL;
	ck_rounds_refuse(r->rounds, p->op, rc);
}

/* --- requested bytes ------------------------------------------------------ */

/* Counts the entries for this rank, and their bytes. Returns 0, or: -EPROTO if
 * the list is invalid or has no such entry; -E2BIG if a parcel is too small. */
static int measure(const struct ck_gpurounds *r, struct ck_cur c, size_t *n,
		   uint64_t *bytes)
{
	struct ck_want want;
	int rc;

	*n = 0;
	*bytes = 0;
	while ((rc = ck_want_next(&c, &want)) > 0)
		if (want.rank == r->rank) {
			*bytes += want.bytes;
			++*n;
		}
	if (rc == 0 && *bytes > CK_GPU_PARCEL)
		rc = -E2BIG;
	return rc == 0 && *n == 0 ? -EPROTO : rc;
}

static bool is_one_of(const struct ck_round *round, uint32_t rank)
{
	for (uint32_t i = 0; i < round->nranks; i++)
		if (round->ranks[i] == rank)
			return true;
	return false;
}

static bool place_take(struct ck_gpurounds *r, uint32_t *out)
{
	for (uint32_t i = 0; i < GPU_PLACES; i++)
		if (!r->taken[i]) {
			r->taken[i] = true;
			*out = i;
			return true;
		}
	return false;
}

/* Entries without a READ are used for measurements: any bytes will do. */
static void fill(struct ck_gpurounds *r, const struct ck_gpurounds_part *p,
		 const struct ck_want *want)
{
	memset(place_at(r, p->place) + p->bytes, 0, want->bytes);
}

static void read(struct ck_gpurounds *r, struct ck_gpurounds_part *p,
		 const struct ck_want *want)
{
	const struct ck_frame frame = {
		.peer = r->rank,
		.kind = CK_FRAME_MESSAGE,
		.place = (uint64_t)p->place * CK_GPU_PARCEL + p->bytes,
		.room = want->bytes,
	};
	const struct ck_wire_head head = { .type = CK_WIRE_READ,
					   .id = ++r->next_id,
					   .body = (uint32_t)want->body.len };

	p->expected[p->nreads++] = want->bytes;
	ck_gpurounds_put(r, &frame, &head, want->body);
}

static void want_all(struct ck_gpurounds *r, struct ck_gpurounds_part *p,
		     struct ck_cur c)
{
	struct ck_want want;

	while (ck_want_next(&c, &want) > 0) {
		if (want.rank != r->rank)
			continue;
		p->list[p->n++] = (struct ck_gpu_transfer){
			.peer = p->initiator,
			.sends = true,
			.at = p->bytes,
			.bytes = want.bytes,
		};
		if (want.body.len)
			read(r, p, &want);
		else
			fill(r, p, &want);
		p->bytes += want.bytes;
	}
	if (p->nreads == 0)
		p->state = GPU_PARCEL_READ;
}

static int part_make(struct ck_gpurounds *r, struct ck_round *round,
		     struct ck_cur c, struct ck_gpurounds_part **out)
{
	struct ck_gpurounds_part *p;
	uint32_t initiator;
	uint64_t bytes;
	size_t n;
	int rc;

	if (!ck_cur_u32(&c, &initiator) || initiator == r->rank ||
	    !is_one_of(round, initiator))
		return -EPROTO;
	rc = measure(r, c, &n, &bytes);
	if (rc)
		return rc;
	p = calloc(1, sizeof(*p) +
			      n * (sizeof(p->list[0]) + sizeof(*p->expected)));
	if (!p)
		return -ENOMEM;
	if (!place_take(r, &p->place)) {
		free(p);
		return -EBUSY;
	}
	p->expected = (uint64_t *)(p->list + n);
	p->round = round;
	p->op = round->op;
	p->initiator = initiator;
	p->first = r->next_id + 1;
	want_all(r, p, c);
	*out = p;
	return 0;
}

void ck_gpurounds_participant_prepare(struct ck_gpurounds *r,
				      struct ck_round *round,
				      struct ck_str what)
{
	struct ck_gpurounds_part *p;
	int rc;

	rc = part_make(r, round, ck_cur_make(what.p, what.len), &p);
	if (rc) {
		ck_rounds_refuse(r->rounds, round->op, rc);
		return;
	}
	round->arg = &p->arg;
	p->next = r->parts;
	r->parts = p;
}

void ck_gpurounds_participant_ended(struct ck_gpurounds *r,
				    const struct ck_round *round)
{
	for (struct ck_gpurounds_part *p = r->parts; p; p = p->next)
		if (p->round == round)
			p->round = NULL;
	clear_away(r);
}

/* --- reading and packing -------------------------------------------------- */

/* True if a reply to a READ has all bytes, and no error in any descriptor. */
static bool is_good(const struct ck_framed *f, uint64_t bytes)
{
	struct ck_cur c = ck_cur_make(f->body.p, f->body.len);
	uint64_t read;
	uint32_t err;

	if (f->head.err || f->head.payload != bytes || !ck_cur_u64(&c, &read))
		return false;
	while (ck_cur_left(&c))
		if (!ck_cur_u32(&c, &err) || err)
			return false;
	return true;
}

int ck_gpurounds_participant_answer(struct ck_gpurounds *r,
				    const struct ck_framed *f)
{
	struct ck_gpurounds_part *p = r->parts;
	uint64_t id = f->head.id;

	while (p && (id < p->first || id - p->first >= p->nreads))
		p = p->next;
	if (!p || f->head.type != CK_WIRE_READ || f->frame.peer != r->rank ||
	    p->answers == p->nreads)
		return -EPROTO;
	p->answers++;
	if (!is_good(f, p->expected[id - p->first]))
		p->err = -ENODATA;
	if (p->answers < p->nreads)
		return 0;
	p->state = GPU_PARCEL_READ;
	if (!p->round)
		clear_away(r);
	return 0;
}

/* No parcel is free. */
static int wait_for_parcel(struct ck_gpurounds_part *p)
{
	uint64_t now = ck_msec_now();

	if (p->waits == 0)
		p->waits = now;
	return now - p->waits > PARCEL_MSEC ? -EBUSY : 0;
}

/* Begins to copy the bytes to the device. */
static int pack(struct ck_gpurounds *r, struct ck_gpurounds_part *p)
{
	struct ck_gpu *gpu = r->options.gpu;
	int rc = p->err ? p->err
			: gpu->pack(gpu, place_at(r, p->place), p->bytes,
				    &p->parcel);

	if (rc == 0)
		p->state = GPU_PARCEL_PACKED;
	return rc == -EAGAIN ? wait_for_parcel(p) : rc;
}

static int report_ready(struct ck_gpurounds *r, struct ck_gpurounds_part *p)
{
	struct ck_gpu *gpu = r->options.gpu;
	struct ck_round_pair pairs[CK_ROUND_RANKS];
	int rc = gpu->is_packed(gpu, p->parcel);

	if (rc != 1)
		return rc;
	for (size_t i = 0; i < p->n; i++)
		p->list[i].at += p->parcel->at;
	p->arg = (struct ck_gpu_round){ p->list, p->n };
	p->state = GPU_PARCEL_READY;
	return ck_rounds_ready(r->rounds, p->op, pairs,
			       ck_gpurounds_pairs(p->list, p->n, pairs));
}

static void part_turn(struct ck_gpurounds *r, struct ck_gpurounds_part *p)
{
	int rc = 0;

	if (p->state == GPU_PARCEL_READ)
		rc = pack(r, p);
	if (rc == 0 && p->state == GPU_PARCEL_PACKED)
		rc = report_ready(r, p);
	if (rc)
		refuse(r, p, rc);
}

void ck_gpurounds_participant_advance(struct ck_gpurounds *r)
{
	for (struct ck_gpurounds_part *p = r->parts; p; p = p->next)
		if (p->round)
			part_turn(r, p);
	clear_away(r);
}

/* READs may be in flight, but their replies are not received any more. */
void ck_gpurounds_participant_end(struct ck_gpurounds *r)
{
	while (r->parts) {
		struct ck_gpurounds_part *next = r->parts->next;

		part_free(r, r->parts);
		r->parts = next;
	}
}
