/* SPDX-License-Identifier: MIT */
/*
 * ring: slots of memory that are used in turn, pinned memory of the host or memory of the
 * device. A slot is taken, something is asked of the device with it, it is marked and
 * released: it can be taken again when that is done. Nobody waits for a device in here: who
 * finds a slot in use does something else, and asks again. One thread, but for ck_slot_release().
 */
#ifndef CK_RING_H
#define CK_RING_H

#include "device.h"

struct ck_slot {
	uint8_t *host;	    /* of a pinned ring; else NULL */
	CUdeviceptr device; /* of a ring of the device; else 0 */
	/* Private: */
	CUevent done;
	bool marked; /* `done` is to come */
	bool held;   /* atomic: it was taken, and is not released */
};

struct ck_ring {
	struct ck_device *device;
	uint32_t n, next;
	size_t size; /* bytes of a slot, a multiple of 16 */
	bool any;    /* not only in turn; may be set */
	struct ck_slot *slots;
};

enum ck_ring_kind {
	CK_RING_PINNED,
	CK_RING_DEVICE,
};

/* The device's context is current in this thread, as in all that follow. -ENOSPC: there
 * is no room; -ENOMEM; as of ck_device_check(). */
CK_MUST_USE int ck_ring_make(struct ck_device *g, enum ck_ring_kind kind,
			     uint32_t n, size_t size, struct ck_ring *out,
			     struct ck_diag *d);
/* Waits for the device, and frees all. A ring of zeros is allowed. Nobody holds a slot. */
void ck_ring_fini(struct ck_ring *ring);
/* The next slot in turn, or the first from there on that is free if any will do. It is in
 * use until it is released, and until the device has done what was asked for before its
 * last mark. -EAGAIN: it is in use already, or all are. As of ck_device_check(). */
CK_MUST_USE int ck_ring_take(struct ck_ring *ring, struct ck_slot **out);
/* Behind all that the device was asked for on this way. As of ck_device_check(). */
CK_MUST_USE int ck_slot_mark(struct ck_ring *ring, struct ck_slot *slot,
			     enum ck_way way);
/* 1: the device has done all up to the mark; 0: not yet. As of ck_device_check(). */
CK_MUST_USE int ck_slot_is_done(struct ck_ring *ring, struct ck_slot *slot);
/* What is asked of a way from now on comes after the mark. As of ck_device_check(). */
CK_MUST_USE int ck_slot_wait(struct ck_ring *ring, const struct ck_slot *slot,
			     enum ck_way way);
/* The host does not use it any more. Any thread. */
void ck_slot_release(struct ck_slot *slot);

#endif
