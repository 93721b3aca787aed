/* SPDX-License-Identifier: MIT */
/*
 * pipe: the four rings of a device, and the steps of a batch through them.
 * State: the rings; a batch has a slot of each ring that it needs. One thread,
 * which never blocks, except for ck_pipe_put().
 */
#include "pipe.h"

#include <errno.h>

int ck_pipe_make(struct ck_device *g, const struct ck_pipe_sizes *sizes,
		 struct ck_pipe *out, struct ck_diag *d)
{
	size_t pinned = sizes->tiles ? sizes->tiles : sizes->slot;

	struct {
		struct ck_ring *ring;
		enum ck_ring_kind kind;
		uint32_t n;
		size_t size;
	} rings[] = {
		{ &out->filled, CK_RING_PINNED, sizes->pinned, pinned },
		{ &out->staging, CK_RING_DEVICE, sizes->device, sizes->slot },
		{ &out->gathered, CK_RING_DEVICE, sizes->device, sizes->slot },
		{ &out->read, CK_RING_PINNED, sizes->pinned, pinned },
	};

	unsigned n = CK_ARRAY_SIZE(rings) - (sizes->tiles ? 1 : 0);
	int rc = 0;

	*out = (struct ck_pipe){ .device = g };
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = ck_ring_make(g, rings[i].kind, rings[i].n, rings[i].size,
				  rings[i].ring, d);
	if (rc)
		ck_pipe_fini(out);
	return rc;
}

void ck_pipe_disorder(struct ck_pipe *p)
{
	p->filled.any = p->staging.any = true;
	p->gathered.any = p->read.any = true;
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

/* Releases a slot taken for an earlier batch that was not sent. */
static void give_back(struct ck_slot **slot)
{
	if (*slot)
		ck_slot_release(*slot);
	*slot = NULL;
}

/* True if the slot that goes up contains only tiles. */
static bool is_apart(const struct ck_pipe_batch *b)
{
	return b->from || b->split;
}

int ck_pipe_take(struct ck_pipe *p, CUdeviceptr result, struct ck_pipe_batch *b)
{
	int rc = take(&p->filled, &b->filled);

	if (result || b->to)
		give_back(&b->read);
	if (result)
		give_back(&b->gathered);
	if (rc == 0)
		rc = take(&p->staging, &b->staging);
	if (rc == 0 && !result)
		rc = take(&p->gathered, &b->gathered);
	if (rc == 0 && !result && !b->to)
		rc = take(&p->read, &b->read);
	if (rc)
		return rc;
	b->fill = is_apart(b) ? NULL : b->filled->host;
	b->size = is_apart(b) ? p->staging.size : p->filled.size;
	b->staged = b->staging->device;
	b->result = result ? result : b->gathered->device;
	return 0;
}

/* --- in flight ------------------------------------------------------------ */

static int copy_up(struct ck_pipe *p, CUdeviceptr to, const uint8_t *from,
		   size_t bytes)
{
	struct ck_device *g = p->device;

	return ck_device_check(
		g, g->cuda->cuMemcpyHtoDAsync(to, from, bytes,
					      g->streams[CK_GPU_STREAM_UP]));
}

/* Copies a batch to the device. The tiles lie in the slot, and go to offset
 * `at` on the device. The bytes before them are in the slot, too, or in the
 * caller's memory. */
static int go_up(struct ck_pipe *p, struct ck_pipe_batch *b, size_t filled,
		 size_t at, size_t bytes)
{
	const uint8_t *slot = b->filled->host;
	int rc = 0;

	if (b->from && !b->split)
		rc = copy_up(p, b->staged, b->from, filled);
	if (rc == 0)
		rc = is_apart(b) ? copy_up(p, b->staged + at, slot, bytes)
				 : copy_up(p, b->staged, slot, at + bytes);
	if (rc == 0)
		rc = ck_slot_mark(&p->filled, b->filled, CK_GPU_STREAM_UP);
	if (rc == 0)
		rc = ck_slot_mark(&p->staging, b->staging, CK_GPU_STREAM_UP);
	return rc;
}

static int work(struct ck_pipe *p, struct ck_pipe_batch *b, CUdeviceptr tiles,
		const struct ck_placed *placed)
{
	int rc = ck_slot_wait(&p->staging, b->staging, CK_GPU_STREAM_WORK);

	if (rc == 0)
		rc = ck_tiles_launch(p->device, tiles, placed);
	if (rc == 0)
		rc = ck_slot_mark(&p->staging, b->staging, CK_GPU_STREAM_WORK);
	if (rc == 0 && b->gathered)
		rc = ck_slot_mark(&p->gathered, b->gathered,
				  CK_GPU_STREAM_WORK);
	return rc;
}

static int come_down(struct ck_pipe *p, struct ck_pipe_batch *b, size_t bytes)
{
	struct ck_device *g = p->device;
	uint8_t *to = b->to ? b->to : b->read->host;
	int rc = ck_slot_wait(&p->gathered, b->gathered, CK_GPU_STREAM_DOWN);

	if (rc == 0)
		rc = ck_device_check(g,
				     g->cuda->cuMemcpyDtoHAsync(
					     to, b->result, bytes,
					     g->streams[CK_GPU_STREAM_DOWN]));
	if (rc == 0)
		rc = ck_slot_mark(&p->gathered, b->gathered,
				  CK_GPU_STREAM_DOWN);
	if (rc == 0 && b->read)
		rc = ck_slot_mark(&p->read, b->read, CK_GPU_STREAM_DOWN);
	return rc;
}

/* Places the tiles of a batch, and sets the offset on the device from which the
 * positions in *placed count. */
static int place_tiles(const struct ck_pipe *p, const struct ck_pipe_batch *b,
		       size_t filled, size_t *at, struct ck_placed *placed)
{
	*at = is_apart(b) ? ck_tiles_aligned(filled) : 0;
	if (!is_apart(b))
		return ck_tiles_place(b->tiles, b->fill, filled, b->size,
				      placed);
	if (*at > b->size)
		return -E2BIG;
	return ck_tiles_place(b->tiles, b->filled->host, 0,
			      ck_min(p->filled.size, b->size - *at), placed);
}

int ck_pipe_upload(struct ck_pipe *p, struct ck_pipe_batch *b, size_t bytes)
{
	int rc;

	if (!b->from)
		return 0;
	rc = copy_up(p, b->staged, b->from, bytes);
	if (rc == 0)
		rc = ck_slot_mark(&p->staging, b->staging, CK_GPU_STREAM_UP);
	return rc;
}

int ck_pipe_is_uploaded(struct ck_pipe *p, struct ck_pipe_batch *b)
{
	return ck_slot_is_done(&p->staging, b->staging);
}

void ck_pipe_drop(struct ck_pipe_batch *b)
{
	give_back(&b->gathered);
	give_back(&b->read);
	ck_slot_release(b->filled);
	ck_slot_release(b->staging);
}

int ck_pipe_send(struct ck_pipe *p, struct ck_pipe_batch *b, size_t filled,
		 size_t down)
{
	struct ck_placed placed;
	size_t at;
	int rc = place_tiles(p, b, filled, &at, &placed);

	if (rc)
		return rc;
	rc = go_up(p, b, filled, at, placed.end);
	if (rc == 0)
		rc = work(p, b, b->staged + at, &placed);
	if (rc == 0 && b->gathered)
		rc = come_down(p, b, down);
	b->fill = NULL;
	ck_slot_release(b->filled);
	ck_slot_release(b->staging);
	if (b->gathered && !b->to)
		ck_slot_release(b->gathered);
	return rc;
}

int ck_pipe_is_done(struct ck_pipe *p, struct ck_pipe_batch *b)
{
	int rc;

	if (!b->gathered)
		return ck_slot_is_done(&p->staging, b->staging);
	rc = b->to ? ck_slot_is_done(&p->gathered, b->gathered)
		   : ck_slot_is_done(&p->read, b->read);
	if (rc == 1)
		b->bytes = b->to ? b->to : b->read->host;
	return rc;
}

void ck_pipe_put(struct ck_pipe_batch *b)
{
	if (b->read)
		ck_slot_release(b->read);
	if (b->to && b->gathered)
		ck_slot_release(b->gathered);
}
