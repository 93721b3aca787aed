/* SPDX-License-Identifier: MIT */
/*
 * gpurounds: the part of a process with GPUs that takes part in rounds: it has a link to a
 * rank of a job, which carries what rounds.h says and reads files. Gatherings of which
 * bytes come by rounds are asked for together, as many as wait; what others ask for is
 * read by the rank into the link's memory, goes up to the device, and is sent from there.
 * One thread, that of the GPUs.
 */
#ifndef CK_GPUROUNDS_H
#define CK_GPUROUNDS_H

#include "ckptfs/gpu.h"
#include "transfer_list.h"

/* A gathering, and what of it comes by a round. All stays as it is until it is done. */
struct ck_gpurounds_wish {
	struct ck_gpu_work *work;
	uint8_t *wants; /* `wanted` bytes of wants, in the room of the work */
	uint32_t wanted;
	struct ck_gpurounds_wish *next; /* private */
};

struct ck_gpurounds_options {
	struct ck_gpu *gpu;
	int sock, memory; /* a link's; stay the caller's */
	uint64_t size;	  /* of the memory, bytes */
	/* It will not come, and was not begun: rc. Else the device gives the work back
	 * when it is done, with -EREMOTEIO if nothing came. */
	void (*failed)(void *arg, struct ck_gpurounds_wish *w, int rc);
	/* Once: it takes part, or why not, rc < 0. text: the version of NCCL, or that. */
	void (*joined)(void *arg, int rc, const char *text);
	/* Why another rank takes no part: any bytes. */
	void (*absent)(void *arg, uint32_t rank, struct ck_str why);
	void *arg;
};

struct ck_gpurounds; /* opaque */

/* Says to the rank at the other end of a link why this process takes no part. Nothing was
 * said there before. */
void ck_gpurounds_decline(int sock, const char *why);
/* -ENOMEM; errors of mmap(2). */
CK_MUST_USE int ck_gpurounds_make(const struct ck_gpurounds_options *options,
				  struct ck_gpurounds **out);
/* Nothing is begun any more, and what runs is aborted. Wishes that wait have failed. False:
 * something of it does not end, so that the process has to, and nothing that the devices use is
 * given back before. NULL is allowed. */
CK_MUST_USE bool ck_gpurounds_free(struct ck_gpurounds *r);
/* Wishes that were added, and are neither done nor on the device's way. */
uint32_t ck_gpurounds_open(const struct ck_gpurounds *r);
/* The next of them. */
void ck_gpurounds_add(struct ck_gpurounds *r, struct ck_gpurounds_wish *w);
/* What is to be polled for. */
short ck_gpurounds_events(const struct ck_gpurounds *r);
/* Gets on with everything. -ECANCELED: it takes no part, which was said; other errors: the
 * rank is gone, or says what cannot be. It is to be freed then. */
CK_MUST_USE int ck_gpurounds_turn(struct ck_gpurounds *r);
/* Microseconds until the next turn is due; UINT32_MAX: when something comes. */
uint32_t ck_gpurounds_wait(const struct ck_gpurounds *r);

#endif
