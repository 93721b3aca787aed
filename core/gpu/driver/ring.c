/* SPDX-License-Identifier: MIT */
/*
 * ring: slots of pinned host memory or device memory. A slot is free, held by
 * the caller, or released but still in use by the device until its event. One
 * thread, except for ck_slot_release().
 */
#include "ring.h"

#include <errno.h>

/* --- creation ------------------------------------------------------------- */

static CUresult slot_make(const struct ck_ring *ring, enum ck_ring_kind kind,
			  struct ck_slot *slot)
{
	const struct ck_cuda *cuda = ring->device->cuda;
	void *host = NULL;
	CUresult rc = cuda->cuEventCreate(&slot->done, CU_EVENT_DISABLE_TIMING);

	if (rc != CUDA_SUCCESS) {
		slot->done = NULL;
		return rc;
	}
	if (kind == CK_RING_DEVICE) {
		rc = cuda->cuMemAlloc(&slot->device, ring->size);
		if (rc != CUDA_SUCCESS)
			slot->device = 0;
		return rc;
	}
	rc = cuda->cuMemHostAlloc(&host, ring->size, CU_MEMHOSTALLOC_PORTABLE);
	if (rc == CUDA_SUCCESS)
		slot->host = host;
	return rc;
}

int ck_ring_make(struct ck_device *g, enum ck_ring_kind kind, uint32_t n,
		 size_t size, struct ck_ring *out, struct ck_diag *d)
{
	CUresult rc = CUDA_SUCCESS;

	*out = (struct ck_ring){ .device = g,
				 .size = size,
				 .slots = calloc(n, sizeof(*out->slots)) };
	if (!out->slots)
		return ck_fail(d, ENOMEM, "out of memory");
	for (; out->n < n && rc == CUDA_SUCCESS; out->n++)
		rc = slot_make(out, kind, &out->slots[out->n]);
	if (rc == CUDA_SUCCESS)
		return 0;
	ck_ring_fini(out);
	return ck_fail(d, -ck_device_check(g, rc),
		       "GPU %d: %u x %zu bytes of %s memory: %s", g->ordinal, n,
		       size, kind == CK_RING_DEVICE ? "its" : "pinned",
		       ck_cuda_error(g->cuda, rc));
}

/* Errors are ignored: the device may be lost. */
static void slot_fini(const struct ck_ring *ring, struct ck_slot *slot)
{
	const struct ck_cuda *cuda = ring->device->cuda;

	if (slot->device)
		(void)cuda->cuMemFree(slot->device);
	if (slot->host)
		(void)cuda->cuMemFreeHost(slot->host);
	if (slot->done)
		(void)cuda->cuEventDestroy(slot->done);
}

void ck_ring_fini(struct ck_ring *ring)
{
	if (!ring->slots)
		return;
	ck_device_settle(ring->device);
	for (uint32_t i = 0; i < ring->n; i++)
		slot_fini(ring, &ring->slots[i]);
	free(ring->slots);
	*ring = (struct ck_ring){ 0 };
}

/* --- use --------------------------------------------------------------------------------- */

int ck_slot_mark(struct ck_ring *ring, struct ck_slot *slot,
		 enum ck_gpu_stream stream)
{
	struct ck_device *g = ring->device;
	int rc = ck_device_check(
		g, g->cuda->cuEventRecord(slot->done, g->streams[stream]));

	slot->marked |= rc == 0;
	return rc;
}

int ck_slot_is_done(struct ck_ring *ring, struct ck_slot *slot)
{
	struct ck_device *g = ring->device;
	CUresult found;
	int rc;

	if (!slot->marked)
		return 1;
	found = g->cuda->cuEventQuery(slot->done);
	if (found == CUDA_ERROR_NOT_READY)
		return 0;
	rc = ck_device_check(g, found);
	if (rc)
		return rc;
	slot->marked = false;
	return 1;
}

int ck_slot_wait(struct ck_ring *ring, const struct ck_slot *slot,
		 enum ck_gpu_stream stream)
{
	struct ck_device *g = ring->device;

	if (!slot->marked)
		return 0;
	return ck_device_check(
		g, g->cuda->cuStreamWaitEvent(g->streams[stream], slot->done,
					      CU_EVENT_WAIT_DEFAULT));
}

/* Returns 1 if the slot is free, 0 if not, or errors of ck_device_check(). */
static int is_free(struct ck_ring *ring, struct ck_slot *slot)
{
	if (__atomic_load_n(&slot->held, __ATOMIC_ACQUIRE))
		return 0;
	return ck_slot_is_done(ring, slot);
}

int ck_ring_take(struct ck_ring *ring, struct ck_slot **out)
{
	uint32_t at = ring->next, tries = ring->any ? ring->n : 1;
	int rc = is_free(ring, &ring->slots[at]);

	while (rc == 0 && --tries > 0) {
		at = (at + 1) % ring->n;
		rc = is_free(ring, &ring->slots[at]);
	}
	if (rc <= 0)
		return rc ? rc : -EAGAIN;
	ring->next = (at + 1) % ring->n;
	ring->slots[at].held = true;
	*out = &ring->slots[at];
	return 0;
}

void ck_slot_release(struct ck_slot *slot)
{
	__atomic_store_n(&slot->held, false, __ATOMIC_RELEASE);
}
