/* SPDX-License-Identifier: MIT */
/*
 * gpurounds: the part of a GPU worker that takes part in rounds (rounds.h). A
 * link to a rank of the job transports the messages and reads files.
 *
 * Gather requests that need remote bytes are collected, and one round fetches
 * the bytes for several of them. For rounds of other ranks, this rank's bytes
 * are read into the link's memory, copied to the device, and sent from there.
 * One thread, that of the GPUs.
 */
#ifndef CK_GPUROUNDS_H
#define CK_GPUROUNDS_H

#include "dist/proto/transfer_list.h"
#include "gpu/gpu.h"

/* A gather request, and the transfer list of its remote bytes. Must stay as it
 * is until the request is done. */
struct ck_gpurounds_request {
	struct ck_gpu_work *work;
	/* `wanted` bytes of transfer list; destinations are offsets in the
	 * request's `fill` */
	uint8_t *wants;
	uint32_t wanted;
	struct ck_gpurounds_request *next; /* private */
};

struct ck_gpurounds_options {
	struct ck_gpu *gpu;
	int sock, memory; /* of a link; the caller's */
	uint64_t size;	  /* of the memory, bytes */
	/* The request has failed with rc, and was not begun. Otherwise the
	 * device completes it; with -EREMOTEIO if the round has failed. */
	void (*failed)(void *arg, struct ck_gpurounds_request *w, int rc);
	/* Called once. rc 0: this process takes part, and text is the version
	 * of NCCL; rc < 0: it does not, and text is the reason. */
	void (*joined)(void *arg, int rc, const char *text);
	/* Another rank takes no part. why: any bytes. */
	void (*absent)(void *arg, uint32_t rank, struct ck_str why);
	void *arg;
};

struct ck_gpurounds; /* opaque */

/* Notifies the rank at the other end of a link why this process takes no part.
 * Must be the first message there. */
void ck_gpurounds_decline(int sock, const char *why);
/* Returns 0, or: -ENOMEM; -EINVAL if the memory is too small; errors of
 * ck_link_map(). */
CK_MUST_USE int ck_gpurounds_make(const struct ck_gpurounds_options *options,
				  struct ck_gpurounds **out);
/* Aborts the running round, and fails the waiting requests. False if a transfer
 * does not end: then the process must exit, and memory used by the devices is
 * not freed. NULL is allowed. */
CK_MUST_USE bool ck_gpurounds_free(struct ck_gpurounds *r);
/* Requests that were added, and are neither done nor passed on to the device. r
 * may be NULL. */
uint32_t ck_gpurounds_open(const struct ck_gpurounds *r);
/* Queues a request; calls failed() at once if this process takes no part. */
void ck_gpurounds_add(struct ck_gpurounds *r, struct ck_gpurounds_request *w);
/* Events to poll on `sock`. */
short ck_gpurounds_events(const struct ck_gpurounds *r);
/* Makes progress with messages, requests and rounds, without blocking. Returns
 * 0, or: -ECANCELED if this process takes no part, after joined(); -EPIPE,
 * -EPROTO or -ENOMEM if the link has ended. After an error it must be freed. */
CK_MUST_USE int ck_gpurounds_advance(struct ck_gpurounds *r);
/* Microseconds until the next call of ck_gpurounds_advance(); UINT32_MAX if
 * only a message needs one. */
uint32_t ck_gpurounds_wait(const struct ck_gpurounds *r);

#endif
