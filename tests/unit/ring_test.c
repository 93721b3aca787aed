/* SPDX-License-Identifier: MIT */
/*
 * ring: a slot is taken again only after its release and after the device has passed its
 * mark. The functions of the driver are in this file: the test sets which events the
 * device has reached.
 */
#include "gpu/driver/ring.h"
#include "tap.h"

enum { SLOTS = 3 };

/* --- the driver ------------------------------------------------------------------------- */

static struct event {
	bool reached;
} events[SLOTS];

static unsigned made;

static CUresult event_create(CUevent *out, unsigned flags)
{
	(void)flags;
	events[made].reached = true;
	*out = (CUevent)&events[made++];
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
	(void)stream;
	((struct event *)event)->reached = false;
	return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event)
{
	return ((struct event *)event)->reached ? CUDA_SUCCESS
						: CUDA_ERROR_NOT_READY;
}

static CUresult event_destroy(CUevent event)
{
	(void)event;
	return CUDA_SUCCESS;
}

static CUresult host_alloc(void **out, size_t size, unsigned flags)
{
	(void)flags;
	*out = malloc(size);
	return CUDA_SUCCESS;
}

static CUresult host_free(void *p)
{
	free(p);
	return CUDA_SUCCESS;
}

static const struct ck_cuda cuda = {
	.cuEventCreate = event_create,
	.cuEventRecord = event_record,
	.cuEventQuery = event_query,
	.cuEventDestroy = event_destroy,
	.cuMemHostAlloc = host_alloc,
	.cuMemFreeHost = host_free,
};

/* --- tests ------------------------------------------------------------------------------- */

static struct ck_slot *taken(struct ck_ring *ring)
{
	struct ck_slot *slot = NULL;

	eq_err(ck_ring_take(ring, &slot), 0);
	return slot;
}

static void is_full(struct ck_ring *ring)
{
	struct ck_slot *slot;

	eq_err(ck_ring_take(ring, &slot), -EAGAIN);
}

/* Takes and marks all slots. */
static void fill(struct ck_ring *ring)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct ck_slot *slot = taken(ring);

		ok(slot == &ring->slots[i]);
		eq_err(ck_slot_mark(ring, slot, CK_GPU_STREAM_UP), 0);
	}
	is_full(ring);
}

/* In turn: only the next slot may be taken, whichever others are free. */
static void test_in_turn(struct ck_ring *ring)
{
	fill(ring);
	events[0].reached = true;
	is_full(ring); /* slot 0 is not released */
	for (unsigned i = 0; i < SLOTS; i++)
		ck_slot_release(&ring->slots[i]);
	events[0].reached = false;
	events[1].reached = true;
	is_full(ring); /* the device still uses slot 0 */
	events[0].reached = true;
	ok(taken(ring) == &ring->slots[0]);
	ok(taken(ring) == &ring->slots[1]);
	is_full(ring);
	events[2].reached = true;
	ok(taken(ring) == &ring->slots[2]);
	for (unsigned i = 0; i < SLOTS; i++)
		ck_slot_release(&ring->slots[i]);
}

/* Not in turn: the first free slot is taken. */
static void test_any(struct ck_ring *ring)
{
	ring->any = true;
	fill(ring);
	ck_slot_release(&ring->slots[0]);
	ck_slot_release(&ring->slots[1]);
	is_full(ring);
	events[1].reached = events[2].reached = true;
	ok(taken(ring) == &ring->slots[1]);
	is_full(ring);
	ck_slot_release(&ring->slots[2]);
	ok(taken(ring) == &ring->slots[2]);
	events[0].reached = true;
	ok(taken(ring) == &ring->slots[0]);
}

int main(void)
{
	struct ck_device device = { .cuda = &cuda };
	struct ck_ring ring;
	struct ck_diag d;

	if (ck_ring_make(&device, CK_RING_PINNED, SLOTS, 16, &ring, &d))
		return 2;
	test_in_turn(&ring);
	test_any(&ring);
	ck_ring_fini(&ring);
	return tap_done();
}
