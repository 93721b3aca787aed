/* SPDX-License-Identifier: MIT */
/* pipe: see pipe.h. */
#include "pipe.h"

#include <errno.h>

int ck_pipe_make(struct ck_device *g, const struct ck_pipe_sizes *sizes,
		 struct ck_pipe *out, struct ck_diag *d)
{
	struct {
		struct ck_ring *ring;
		enum ck_ring_kind kind;
		uint32_t n;
	} rings[] = {
		{ &out->filled, CK_RING_PINNED, sizes->pinned },
		{ &out->staging, CK_RING_DEVICE, sizes->device },
		{ &out->gathered, CK_RING_DEVICE, sizes->device },
		{ &out->read, CK_RING_PINNED, sizes->pinned },
	};

	int rc = 0;

	*out = (struct ck_pipe){ .device = g };
	for (unsigned i = 0; i < CK_ARRAY_SIZE(rings) && rc == 0; i++)
		rc = ck_ring_make(g, rings[i].kind, rings[i].n, sizes->slot,
				  rings[i].ring, d);
	if (rc)
		ck_pipe_fini(out);
	return rc;
}

void ck_pipe_fini(struct ck_pipe *p)
{
	ck_ring_fini(&p->filled);
	ck_ring_fini(&p->staging);
	ck_ring_fini(&p->gathered);
	ck_ring_fini(&p->read);
}

/* --- a batch ------------------------------------------------------------------------------ */

static int take(struct ck_ring *ring, struct ck_slot **slot)
{
	return *slot ? 0 : ck_ring_take(ring, slot);
}

int ck_pipe_take(struct ck_pipe *p, CUdeviceptr result, struct ck_pipe_batch *b)
{
	int rc = take(&p->filled, &b->filled);

	if (rc == 0)
		rc = take(&p->staging, &b->staging);
	if (rc == 0 && !result)
		rc = take(&p->gathered, &b->gathered);
	if (rc == 0 && !result)
		rc = take(&p->read, &b->read);
	if (rc)
		return rc;
	b->fill = b->filled->host;
	b->size = p->filled.size;
	b->staged = b->staging->device;
	b->result = result ? result : b->gathered->device;
	return 0;
}

/* --- on its way ----------------------------------------------------------------------------- */

static int go_up(struct ck_pipe *p, struct ck_pipe_batch *b, size_t bytes)
{
	struct ck_device *g = p->device;
	int rc = ck_device_check(
		g, g->cuda->cuMemcpyHtoDAsync(b->staged, b->fill, bytes,
					      g->ways[CK_WAY_UP]));

	if (rc == 0)
		rc = ck_slot_mark(&p->filled, b->filled, CK_WAY_UP);
	if (rc == 0)
		rc = ck_slot_mark(&p->staging, b->staging, CK_WAY_UP);
	return rc;
}

static int work(struct ck_pipe *p, struct ck_pipe_batch *b,
		const struct ck_placed *placed)
{
	int rc = ck_slot_wait(&p->staging, b->staging, CK_WAY_WORK);

	if (rc == 0)
		rc = ck_tiles_launch(p->device, b->staged, placed);
	if (rc == 0)
		rc = ck_slot_mark(&p->staging, b->staging, CK_WAY_WORK);
	if (rc == 0 && b->gathered)
		rc = ck_slot_mark(&p->gathered, b->gathered, CK_WAY_WORK);
	return rc;
}

static int come_down(struct ck_pipe *p, struct ck_pipe_batch *b, size_t bytes)
{
	struct ck_device *g = p->device;
	int rc = ck_slot_wait(&p->gathered, b->gathered, CK_WAY_DOWN);

	if (rc == 0)
		rc = ck_device_check(g, g->cuda->cuMemcpyDtoHAsync(
						b->read->host, b->result, bytes,
						g->ways[CK_WAY_DOWN]));
	if (rc == 0)
		rc = ck_slot_mark(&p->gathered, b->gathered, CK_WAY_DOWN);
	if (rc == 0)
		rc = ck_slot_mark(&p->read, b->read, CK_WAY_DOWN);
	return rc;
}

int ck_pipe_send(struct ck_pipe *p, struct ck_pipe_batch *b, size_t filled,
		 size_t down)
{
	struct ck_placed placed;
	int rc = ck_tiles_place(b->tiles, b->fill, filled, b->size, &placed);

	if (rc)
		return rc;
	rc = go_up(p, b, placed.end);
	if (rc == 0)
		rc = work(p, b, &placed);
	if (rc == 0 && b->read)
		rc = come_down(p, b, down);
	b->fill = NULL;
	ck_slot_release(b->filled);
	ck_slot_release(b->staging);
	if (b->gathered)
		ck_slot_release(b->gathered);
	return rc;
}

int ck_pipe_is_done(struct ck_pipe *p, struct ck_pipe_batch *b)
{
	int rc;

	if (!b->read)
		return ck_slot_is_done(&p->staging, b->staging);
	rc = ck_slot_is_done(&p->read, b->read);
	if (rc == 1)
		b->bytes = b->read->host;
	return rc;
}

void ck_pipe_put(struct ck_pipe_batch *b)
{
	if (b->read)
		ck_slot_release(b->read);
}
