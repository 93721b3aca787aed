/* SPDX-License-Identifier: MIT */
/*
 * device: the seam between the program and the GPU module ckptfs-gpu.so, which
 * implements it: the gather engine, and exports. Without the module a mount has
 * neither. A part of io.
 *
 * Gather engine: gathers the bytes of a read on a GPU instead of in this
 * process. It lends slots of shared memory. A reader packs runs of bytes into
 * `fill` of a slot and describes where each run belongs in the result; the
 * gather engine writes `result` of the same slot, or device memory. A slot is
 * free, taken, in flight from start() to done(), and free again after put().
 *
 * Exports: tensors in device memory that other processes open. Requests for the
 * same bytes on the same device share one export, unless a request asks for its
 * own. The first request allocates and fills the export; later requests wait
 * until it is filled. An export is being filled, then filled or failed. A
 * filled one without users is idle, and is cached until its memory is needed.
 */
#ifndef CKPTFS_DEVICE_H
#define CKPTFS_DEVICE_H

#include "ckptfs/backend.h"

enum {
	CK_GATHER_ALIGN = 16,  /* alignment in bytes, of fill and result */
	CK_GATHER_CHANGES = 7, /* number of values of enum ck_change */
};

/* A loop nest over runs, as in ck_plan_op, from `fill` to the result. The struct
 * has no padding: it lies in memory that two processes share. */
struct ck_gather_desc {
	uint64_t src; /* bytes from the begin of `fill` */
	uint64_t dst; /* bytes from the begin of `result` */
	uint64_t run; /* bytes */
	/* range of the loops of the slot, outermost first */
	uint32_t loop, nloops;
	uint8_t dtype;	/* ck_dtype_at() of the values, if `change` is set */
	uint8_t change; /* enum ck_change */
	uint8_t unused[6];
};

/* Device memory that other processes can open. Constant. */
struct ck_gather_memory {
	/* Constant: */
	uint64_t size; /* bytes of the allocation */
	/* A CUipcMemHandle; zeros if the memory is opened by a descriptor: */
	uint8_t handle[64];
	/* socket in the abstract namespace that sends the descriptor */
	char socket[64];
	uint8_t token[16]; /* token that the socket expects from the opener */
};

struct ck_gather_alloc {
	uint8_t uuid[16]; /* UUID of the device */
	uint64_t bytes;	  /* at least 1 */
	bool with_file;	  /* share by descriptor instead of by handle */
	/* Atomic: set by the caller to cancel the allocation. */
	const bool *cancelled;
};

/* Owned by the user from take() to start(), and from done() to put(). */
struct ck_gather_slot {
	/* Constant: */
	uint8_t *fill, *result; /* `room` bytes each */
	struct ck_gather_desc *copies;
	struct ck_loop *loops;
	/* copies_most: at least 2 * CK_GATHER_ALIGN, so that segments which are too
	 * short to be halved fit */
	uint32_t room, copies_most, loops_most;
	uint8_t *wants; /* buffer of `wants_most` bytes */
	uint32_t wants_most;
	/* Set by the user. Bytes that are packed in `fill`, and bytes of the
	 * result: */
	uint32_t filled, results;
	uint32_t ncopies, nloops;
	/* Device memory that receives the result, from byte `at` on, a multiple of
	 * 16. NULL, as take() sets it: `result` receives it. */
	struct ck_gather_memory *memory;
	uint64_t at;
	/* Length of the encoded list in `wants` of ranges that peers send
	 * straight to the device, see ck_backend.describe; 0 if there are no
	 * such ranges, as take() sets it. `set` is the set of hosts of the
	 * list. all_remote: all of `fill` is such ranges, so that it holds no
	 * local data. */
	uint32_t wanted, set;
	bool all_remote;
	/*
	 * Called once after start(), by any thread that holds no lock. rc:
	 * - 0: the result is complete;
	 * - -EOVERFLOW: too many small copies for the gather engine;
	 * - -EREMOTEIO: the peers did not send; the user must fill those ranges of
	 *   `fill`;
	 * - -EINTR: interrupted; the gather engine owns the slot, and the user must not
	 *   put it;
	 * - other errors: no result; the user gathers the bytes in this process.
	 */
	void (*done)(struct ck_gather_slot *s, int rc);
	void *arg;
};

/* Any thread may call these functions. */
struct ck_gather_engine {
	/* Constant: bytes of a read for which a slot is made. A slot has more room,
	 * since there may be gaps between copies. */
	uint64_t segment;
	/* Atomic: number of the set of hosts that can send straight to the device
	 * now; 0 if there is no such set. */
	uint32_t rounds;
	/* An empty slot, or NULL if all are in use or there is no device now. Never
	 * blocks. */
	struct ck_gather_slot *(*take)(struct ck_gather_engine *g);
	/* Starts a slot. done() is always called, possibly before this returns, and
	 * at the latest after the timeout of the gather engine. */
	void (*start)(struct ck_gather_engine *g, struct ck_gather_slot *s);
	/* Cancels a slot: done() is called soon. Neither calls done() nor waits for
	 * it. May be called before start(), and until done() has begun. */
	void (*interrupt)(struct ck_gather_engine *g, struct ck_gather_slot *s);
	/* Returns a slot that is not in flight. */
	void (*put)(struct ck_gather_engine *g, struct ck_gather_slot *s);
	/* Allocates device memory. Blocks. Returns 0, or: -ENODEV if there is no
	 * such device; -ENOSPC if it has no free memory; -EOPNOTSUPP if no device
	 * can be used now; -EINTR if cancelled; -EIO; -ENOMEM. NULL, and so is
	 * `release`, if the gather engine cannot allocate. */
	int (*allocate)(struct ck_gather_engine *g,
			const struct ck_gather_alloc *want,
			struct ck_gather_memory **out);
	/* Frees memory that no transfer writes to. Its device may be gone. */
	void (*release)(struct ck_gather_engine *g, struct ck_gather_memory *m);
	/* True if the memory still exists: it is lost with its device. */
	bool (*holds)(struct ck_gather_engine *g,
		      const struct ck_gather_memory *m);
	/* The functions of exports in memory of this gather engine. NULL if it
	 * cannot allocate. */
	const struct ck_export_ops *exports;
};

/* --- exports ---------------------------------------------------------------------------- */

struct ck_open_slice;
struct ck_exports; /* all exports of one mount; any thread */

/* One export, shared by its users. */
struct ck_export {
	/* Constant from the first get() on: */
	/* the allocation; may contain other exports */
	struct ck_gather_memory *memory;
	/* first byte of the export in `memory`, a multiple of 256 */
	uint64_t at;
	uint64_t bytes;
	uint8_t uuid[16]; /* UUID of the device */
	bool with_file;	  /* shared by descriptor, not by handle */
	/* Private, protected by ck_exports.lock: */
	struct ck_export *next; /* in the same bucket */
	uint64_t slice;		/* the key: ck_export_request.slice */
	uint64_t touches;	/* ck_files_touches() before the fill */
	/* allocation that contains it; NULL: `memory` is its own */
	struct ck_slab *slab;
	uint64_t room;	    /* bytes of `memory` reserved for it */
	bool own;	    /* not shared with other requests */
	bool there, failed; /* filled; failed; neither: it is being filled */
	uint32_t users;	    /* users, and the thread that fills it */
	/* No users: it is in the list of idle exports, ordered by release. */
	bool idle;
	struct ck_export *older, *newer;
};

/* A request for bytes [vpos, vpos + len) of an open slice, all of one box. */
struct ck_export_request {
	struct ck_open_slice *from;
	struct ck_files *files; /* as in ck_read */
	uint64_t vpos, len;	/* bytes; len is not 0 */
	/* Equal for slices that have the same bytes, and different for all
	 * others. */
	uint64_t slice;
	uint8_t uuid[16]; /* UUID of the device */
	bool own, with_file;
	/* Private. Next request, protected by ck_exports.lock: */
	struct ck_export_request *next;
	/* reads in flight, protected by ck_exports.lock */
	struct ck_export_fill *fill;
	bool cancelled; /* atomic: interrupted */
};

/* The functions of exports. Constant. */
struct ck_export_ops {
	/* gather engine: must have allocate(). cache: most bytes of idle
	 * exports that are kept. Caller owns all arguments, which must outlive
	 * the result. NULL if out of memory. */
	struct ck_exports *(*make)(struct ck_files *files,
				   struct ck_backend *remote,
				   struct ck_gather_engine *gather_engine,
				   uint64_t cache);
	/* No export may have a user. NULL is allowed. */
	void (*free)(struct ck_exports *all);
	/* Blocks until the export is filled. Returns 0, or: -EBUSY if a user
	 * has the same bytes shared in the other form (descriptor or handle);
	 * -EINTR if interrupted or stopped; errors of ck_read and of
	 * ck_gather_engine.allocate. Caller must call put(). */
	int (*get)(struct ck_exports *all, struct ck_export_request *w,
		   struct ck_export **out);
	/* Cancels get() of this request: it ends soon, with -EINTR unless the
	 * export is filled. May be called before it begins, and until it has
	 * returned. */
	void (*interrupt)(struct ck_exports *all, struct ck_export_request *w);
	/* Cancels all waiting requests and refuses later ones, both with -EINTR. */
	void (*stop)(struct ck_exports *all);
	void (*put)(struct ck_exports *all, struct ck_export *e);
};

#endif
