/* SPDX-License-Identifier: MIT */
/*
 * gpuwire: what a mount and its mover of GPUs say to each other. Bytes lie in memory that
 * both have, in slots; messages say which slot. Both are of one program on one host.
 */
#ifndef CK_GPUWIRE_H
#define CK_GPUWIRE_H

#include "ckptfs/gatherer.h"

enum {
	/* Bytes of a read that a slot is for: a link to a device that moves 55 GB/s moves 48 in
	 * pieces of 1 MiB, and each costs its mover 10 microseconds. */
	CK_GPU_PIECE = 4 << 20,
	CK_GPU_ROOM = 5 << 20, /* of `fill`, and of `result` */
	CK_GPU_COPIES = 2048,
	CK_GPU_LOOPS = 4096,
	CK_GPU_WANTS = 32 << 10, /* bytes */
	CK_GPU_FILES = 2,
	/* A socket has room for a message of each, and some more, whatever its mover does:
	 * what is not taken at once would count as failed. */
	CK_GPU_SLOTS_MOST = 192,
	CK_GPU_TEXT = 512,
	CK_GPU_TURNS_MSEC = 500,
	CK_GPU_MEMORIES = 1 << 20, /* allocations at a time, at most */
};

enum ck_gpu_kind {
	CK_GPU_GATHER = 1, /* to the mover: what is in a slot */
	CK_GPU_DONE,	   /* of the mover: that slot is done, with `rc` */
	CK_GPU_READY,	   /* it can be asked; text: its devices */
	CK_GPU_FAILED,	   /* it never can, or cannot any more; text: why */
	CK_GPU_ALLOCATE, /* to the mover: `bytes` on the device of `uuid`, to be called
			    * `memory` from now on */
	CK_GPU_ALLOCATED, /* of the mover: that, or `rc` */
	CK_GPU_RELEASE, /* to the mover: `memory`, to which nothing is on its way */
	CK_GPU_JOIN, /* to the mover: the link to a rank of the job that is `set`: its
			 * socket and memory, of `bytes` bytes, go with it */
	CK_GPU_JOINED, /* of the mover: it takes part in that, or not, or not any more, if
			* there is an `rc`; text: the version of NCCL, or why */
	CK_GPU_ABSENT, /* of the mover: `rank` takes no part in the job that is `set`; text:
			* why */
	CK_GPU_TURNS, /* of the mover, each CK_GPU_TURNS_MSEC while something is on its way:
		       * it does not wait for anything */
};

struct ck_gpu_message {
	uint32_t kind; /* enum ck_gpu_kind */
	uint32_t slot;
	uint32_t use; /* of the slot: answers of another use are no one's */
	int32_t rc;
	uint32_t filled, results, ncopies, nloops;
	uint32_t wanted, set, bare, rank;
	uint32_t memory;    /* number of an allocation; 0: the slot's result */
	uint64_t at;	    /* byte of it where the result goes */
	uint64_t bytes;	    /* of an allocation */
	uint8_t uuid[16];   /* of the device */
	uint32_t with_file; /* an allocation by a descriptor, not by a handle */
	uint8_t handle[64]; /* of an allocation: a CUipcMemHandle */
	uint8_t token
		[16]; /* for its descriptor; text: the socket that gives it */
	char text[CK_GPU_TEXT]; /* with a NUL */
};

/* Bytes of one slot in the memory. */
size_t ck_gpu_slot_size(void);
/* Where its pieces are. */
void ck_gpu_slot_at(uint8_t *memory, uint32_t slot, struct ck_gather_slot *out);
/* -EAGAIN: there is no room now, if it is not to wait; -EPIPE; errors of send(2). */
CK_MUST_USE int ck_gpu_send(int sock, const struct ck_gpu_message *m,
			    bool wait);
/* The same, that does not wait, with descriptors. */
CK_MUST_USE int ck_gpu_send_files(int sock, const struct ck_gpu_message *m,
				  const int files[static CK_GPU_FILES]);
/* -EAGAIN: there is none now; -EPIPE: nobody is there; -EPROTO; errors of recvmsg(2).
 * files: those that came with it, which are the caller's, or -1; NULL: none may. */
CK_MUST_USE int ck_gpu_take(int sock, struct ck_gpu_message *out, int *files);

#endif
