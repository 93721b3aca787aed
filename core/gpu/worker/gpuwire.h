/* SPDX-License-Identifier: MIT */
/*
 * gpuwire: messages between a mount and its GPU worker, on a SOCK_SEQPACKET
 * socket. Bytes lie in slots of shared memory; messages name the slot. Both
 * processes run the same version of the program on one host.
 */
#ifndef CK_GPUWIRE_H
#define CK_GPUWIRE_H

#include "ckptfs/device.h"

enum {
	/* Bytes of a read per slot. A device link of 55 GB/s reaches 48 GB/s
	 * with pieces of 1 MiB, since each piece costs the worker 10 us. */
	CK_GPU_PIECE = 4 << 20,
	CK_GPU_ROOM = 5 << 20, /* bytes of `fill`, and of `result` */
	CK_GPU_COPIES = 2048,
	CK_GPU_LOOPS = 4096,
	CK_GPU_WANTS = 32 << 10, /* bytes */
	CK_GPU_FILES = 2,
	/* A socket buffer has room for a message of each slot, and for some
	 * more: a message that the socket does not accept at once counts as
	 * failed. */
	CK_GPU_SLOTS_MOST = 192,
	CK_GPU_TEXT = 512,
	CK_GPU_TURNS_MSEC = 500,
	CK_GPU_MEMORIES = 1 << 20, /* allocations at a time */
};

enum ck_gpu_kind {
	CK_GPU_GATHER = 1, /* to the worker: gather the request in `slot` */
	CK_GPU_DONE,	   /* from the worker: `slot` is done, with `rc` */
	/* from the worker: it accepts requests; text: its devices */
	CK_GPU_READY,
	/* from the worker: no GPU can be used, permanently; text: why */
	CK_GPU_FAILED,
	/* to the worker: allocate `bytes` on the device of `uuid`, with number
	 * `memory` */
	CK_GPU_ALLOCATE,
	CK_GPU_ALLOCATED, /* from the worker: the allocation, or `rc` */
	/* to the worker: free `memory`; nothing is in flight to it */
	CK_GPU_RELEASE,
	/* to the worker: take part in job `set`, by a link to one of its ranks,
	 * whose socket and memory of `bytes` bytes are attached */
	CK_GPU_JOIN,
	/* from the worker: takes part in job `set`; with `rc`, it does not or
	 * does not any more; text: the version of NCCL, or why */
	CK_GPU_JOINED,
	/* from the worker: `rank` takes no part in job `set`; text: why */
	CK_GPU_ABSENT,
	/* from the worker: heartbeat, each CK_GPU_TURNS_MSEC while requests are
	 * in flight */
	CK_GPU_TURNS,
};

struct ck_gpu_message {
	uint32_t kind; /* enum ck_gpu_kind */
	uint32_t slot;
	uint32_t use; /* of the slot; replies for another use are ignored */
	int32_t rc;
	uint32_t filled, results, ncopies, nloops;
	uint32_t wanted, set, all_remote, rank;
	uint32_t memory;  /* number of an allocation; 0 is the slot's result */
	uint64_t at;	  /* offset of the result in the allocation */
	uint64_t bytes;	  /* of an allocation */
	uint8_t uuid[16]; /* of the device */
	uint32_t with_file; /* allocate with a descriptor instead of a handle */
	uint8_t handle[64]; /* of an allocation: a CUipcMemHandle */
	uint8_t token
		[16]; /* for its descriptor; text: the socket that passes it */
	char text[CK_GPU_TEXT]; /* with a NUL */
};

/* Bytes of a slot in the shared memory. */
size_t ck_gpu_slot_size(void);
/* Sets the pointers and limits of a slot. */
void ck_gpu_slot_at(uint8_t *memory, uint32_t slot, struct ck_gather_slot *out);
/* Sends a message; wait: blocks while the socket is full. Returns 0, or:
 * -EAGAIN if it is full and wait is false; errors of send(2), such as
 * -EPIPE. */
CK_MUST_USE int ck_gpu_send(int sock, const struct ck_gpu_message *m,
			    bool wait);
/* Sends a message, without its text, with descriptors, and never blocks.
 * Returns as ck_gpu_send(). */
CK_MUST_USE int ck_gpu_send_files(int sock, const struct ck_gpu_message *m,
				  const int files[static CK_GPU_FILES]);
/* Receives a message without blocking. files: receives up to two attached
 * descriptors, which the caller closes, or -1; NULL: descriptors are refused. Returns
 * 0, or: -EAGAIN if there is no message; -EPIPE if the other end is closed;
 * -EPROTO if it is invalid; errors of recvmsg(2). */
CK_MUST_USE int ck_gpu_take(int sock, struct ck_gpu_message *out, int *files);

#endif
