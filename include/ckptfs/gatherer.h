/* SPDX-License-Identifier: MIT */
/*
 * gatherer: puts the bytes of a read together elsewhere than in this process: on a GPU. It
 * lends slots of memory. Who reads packs what he needs into one, says where each piece
 * belongs in the result, and has the result in the same slot a moment later. A part of
 * move.
 */
#ifndef CKPTFS_GATHERER_H
#define CKPTFS_GATHERER_H

#include "ckptfs/backend.h"

enum {
	CK_GATHER_ALIGN = 16,  /* bytes: of fill and result */
	CK_GATHER_CHANGES = 7, /* all of enum ck_change */
};

/* A loop nest over runs, as of ck_plan_op, from what is packed to where it belongs. Has no
 * padding: it lies in memory that two processes share. */
struct ck_gather_desc {
	uint64_t src;	       /* bytes from `fill` */
	uint64_t dst;	       /* bytes from `result` */
	uint64_t run;	       /* bytes */
	uint32_t loop, nloops; /* of those of the slot, outermost first */
	uint8_t dtype;	/* ck_dtype_at(): of the values, if they change */
	uint8_t change; /* enum ck_change */
	uint8_t unused[6];
};

/* Memory of a device, which other processes can open. */
struct ck_gather_memory {
	/* Constant: */
	uint64_t size; /* bytes of the allocation */
	uint8_t handle
		[64];	 /* a CUipcMemHandle; zeros if a descriptor is given: */
	char socket[64]; /* by this socket in the abstract space, */
	uint8_t token[16]; /* to who says that */
};

struct ck_gather_want {
	uint8_t uuid[16]; /* of the device */
	uint64_t bytes;	  /* at least 1 */
	bool with_file;	  /* to be opened by a descriptor, not by a handle */
	const bool *unwanted; /* atomic: set when nobody wants it any more */
};

/* The user's until it is started, and again when it is done, until it is put back. */
struct ck_gather_slot {
	/* Constant: */
	uint8_t *fill, *result; /* `room` bytes each */
	struct ck_gather_desc *copies;
	struct ck_loop *loops;
	uint32_t room, copies_most, loops_most;
	uint8_t *wants; /* `wants_most` bytes */
	uint32_t wants_most;
	/* Set by the user: */
	uint32_t filled,
		results; /* bytes: what is packed, and what shall come of it */
	uint32_t ncopies, nloops;
	/* Where the result goes, from byte `at` on, a multiple of 16; NULL, as it is at
	 * first: to `result`. */
	struct ck_gather_memory *memory;
	uint64_t at;
	/* Bytes of `fill` that are not in it, but come from other hosts straight to the
	 * device: so many bytes of `wants`, see ck_backend.describe; 0, as it is at first:
	 * there are none. bare: all of them are so. */
	uint32_t wanted, set;
	bool bare;
	/* Called once if it was started, by any thread that holds no lock. rc: 0;
	 * -EOVERFLOW: the copies are too many small ones for it; -EREMOTEIO: what was to
	 * come from other hosts did not, and has to be filled in; -EINTR: it was
	 * interrupted, and the slot is not the user's any more, who does not put it
	 * back; else nothing came of it, and the bytes have to be gathered here. */
	void (*done)(struct ck_gather_slot *s, int rc);
	void *arg;
};

/* Any thread. */
struct ck_gatherer {
	uint64_t
		piece; /* constant: bytes of a read that a slot is for; it has room for
			 * more, since there is something between the copies */
	/* Atomic: the set of hosts whose bytes can come straight to the device now; 0:
	 * none. */
	uint32_t rounds;
	/* An empty slot; NULL: all are in use, or there is no device now. Never waits. */
	struct ck_gather_slot *(*take)(struct ck_gatherer *g);
	/* done() will be called, or was: always, within a time that the gatherer sets. */
	void (*start)(struct ck_gatherer *g, struct ck_gather_slot *s);
	/* Nobody wants it any more: done() is called soon, if it was not yet. Neither
	 * calls it nor waits. May be called before start(), and until done() has
	 * begun. */
	void (*interrupt)(struct ck_gatherer *g, struct ck_gather_slot *s);
	/* One that is not on its way. */
	void (*put)(struct ck_gatherer *g, struct ck_gather_slot *s);
	/* Waits for it. -ENODEV: there is no such device; -ENOSPC: it has no room;
	 * -EOPNOTSUPP: there is no device now; -EINTR; -EIO, -ENOMEM. NULL, as release:
	 * nobody can. */
	int (*allocate)(struct ck_gatherer *g,
			const struct ck_gather_want *want,
			struct ck_gather_memory **out);
	/* Nothing is on its way there. Its device may be gone. */
	void (*release)(struct ck_gatherer *g, struct ck_gather_memory *m);
	/* Whether it is there still: it goes with its device. */
	bool (*holds)(struct ck_gatherer *g, const struct ck_gather_memory *m);
};

#endif
