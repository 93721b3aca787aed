/* SPDX-License-Identifier: MIT */
/*
 * ring: reusable slots of memory, either pinned host memory or device memory.
 * The caller takes a slot, starts work of the device on it, marks it, and
 * releases it. The slot is free again when the device has passed the mark. No
 * function blocks: if no slot is free, the caller retries later. One thread,
 * except for ck_slot_release().
 */
#ifndef CK_RING_H
#define CK_RING_H

#include "cuda_device.h"

struct ck_slot {
	uint8_t *host;	    /* of a pinned ring, else NULL */
	CUdeviceptr device; /* of a device ring, else 0 */
	/* Private: */
	CUevent done;
	bool marked; /* `done` was recorded and has not been seen */
	bool held;   /* atomic: taken, and not released */
};

struct ck_ring {
	struct ck_device *device;
	uint32_t n, next;
	size_t size; /* bytes of a slot, a multiple of 16 */
	bool any;    /* slots are taken in any order; may be set */
	struct ck_slot *slots;
};

enum ck_ring_kind {
	CK_RING_PINNED,
	CK_RING_DEVICE,
};

/* Makes n slots of `size` bytes. The device's context must be current, as in
 * all functions below. Returns 0, or: -ENOMEM; -ENOSPC if there is no memory
 * left; errors of ck_device_check(). d has the reason. */
CK_MUST_USE int ck_ring_make(struct ck_device *g, enum ck_ring_kind kind,
			     uint32_t n, size_t size, struct ck_ring *out,
			     struct ck_diag *d);
/* Waits for the device, and frees all slots; no slot may be held. A
 * zeroed ring is allowed. */
void ck_ring_fini(struct ck_ring *ring);
/* Takes the next slot in order, or, with `any`, the next free one. Returns 0,
 * or: -EAGAIN if it is, or all are, in use; errors of ck_device_check(). */
CK_MUST_USE int ck_ring_take(struct ck_ring *ring, struct ck_slot **out);
/* Marks a slot: it is in use until the stream has done all work so far. Returns
 * as ck_device_check(). */
CK_MUST_USE int ck_slot_mark(struct ck_ring *ring, struct ck_slot *slot,
			     enum ck_gpu_stream stream);
/* Returns 1 if the device has passed the mark; 0 if not yet; or errors of
 * ck_device_check(). */
CK_MUST_USE int ck_slot_is_done(struct ck_ring *ring, struct ck_slot *slot);
/* Later work in a stream waits for the mark of the slot. Returns as
 * ck_device_check(). */
CK_MUST_USE int ck_slot_wait(struct ck_ring *ring, const struct ck_slot *slot,
			     enum ck_gpu_stream stream);
/* The host no longer uses the slot. Any thread. */
void ck_slot_release(struct ck_slot *slot);

#endif
