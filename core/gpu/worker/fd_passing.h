/* SPDX-License-Identifier: MIT */
/*
 * gpuhand: hands descriptors of memory to those who were told a token of it, over a socket in
 * Linux's abstract space: to processes of this user and of root. Nobody is waited for.
 */
#ifndef CK_GPUHAND_H
#define CK_GPUHAND_H

#include "ckptfs/base.h"

#include <poll.h>

enum {
	CK_GPUHAND_TOKEN = 16,	/* bytes */
	CK_GPUHAND_NAME = 64,	/* with a NUL */
	CK_GPUHAND_COMERS = 16, /* at a time */
	CK_GPUHAND_POLL = 1 + CK_GPUHAND_COMERS,
};

struct ck_gpuhand {
	char name[CK_GPUHAND_NAME]; /* without the NUL before it */
	int listener;
	int spare; /* closed to have a descriptor for whoever has to be sent away; or -1 */
	uint64_t
		deaf; /* ms: until then nobody is let in, for want of descriptors */

	struct {
		int sock; /* -1: nobody */
		uint64_t since;
	} comers[CK_GPUHAND_COMERS];
};

/* Errors of sockets and getrandom(2). */
CK_MUST_USE int ck_gpuhand_open(struct ck_gpuhand *h);
/* One of which listener is -1 was not opened. */
void ck_gpuhand_close(struct ck_gpuhand *h);
CK_MUST_USE int ck_gpuhand_token(uint8_t out[static CK_GPUHAND_TOKEN]);
/* Microseconds until more is to be waited for than now; UINT32_MAX: it is all. */
uint32_t ck_gpuhand_wait(const struct ck_gpuhand *h);
/* What is to be waited for. */
void ck_gpuhand_fds(const struct ck_gpuhand *h,
		    struct pollfd out[static CK_GPUHAND_POLL]);
/* Those who have come. file: the descriptor for a token, or -1. Never waits. */
void ck_gpuhand_serve(struct ck_gpuhand *h,
		      const struct pollfd fds[static CK_GPUHAND_POLL],
		      int (*file)(void *arg, const uint8_t *token), void *arg);

#endif
