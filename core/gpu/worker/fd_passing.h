/* SPDX-License-Identifier: MIT */
/*
 * fd_passing: hands descriptors of memory to those who were told a token of it, over a socket in
 * Linux's abstract space: to processes of this user and of root. Nobody is waited for.
 */
#ifndef CK_FD_PASSING_H
#define CK_FD_PASSING_H

#include "ckptfs/base.h"

#include <poll.h>

enum {
	CK_FD_PASSING_TOKEN = 16,  /* bytes */
	CK_FD_PASSING_NAME = 64,   /* with a NUL */
	CK_FD_PASSING_COMERS = 16, /* at a time */
	CK_FD_PASSING_POLL = 1 + CK_FD_PASSING_COMERS,
};

struct ck_fd_passing {
	char name[CK_FD_PASSING_NAME]; /* without the NUL before it */
	int listener;
	int spare; /* closed to have a descriptor for whoever has to be sent away; or -1 */
	uint64_t
		deaf; /* ms: until then nobody is let in, for want of descriptors */

	struct {
		int sock; /* -1: nobody */
		uint64_t since;
	} comers[CK_FD_PASSING_COMERS];
};

/* Errors of sockets and getrandom(2). */
CK_MUST_USE int ck_fd_passing_open(struct ck_fd_passing *h);
/* One of which listener is -1 was not opened. */
void ck_fd_passing_close(struct ck_fd_passing *h);
CK_MUST_USE int ck_fd_passing_token(uint8_t out[static CK_FD_PASSING_TOKEN]);
/* Microseconds until more is to be waited for than now; UINT32_MAX: it is all. */
uint32_t ck_fd_passing_wait(const struct ck_fd_passing *h);
/* What is to be waited for. */
void ck_fd_passing_fds(const struct ck_fd_passing *h,
		       struct pollfd out[static CK_FD_PASSING_POLL]);
/* Those who have come. file: the descriptor for a token, or -1. Never waits. */
void ck_fd_passing_serve(struct ck_fd_passing *h,
			 const struct pollfd fds[static CK_FD_PASSING_POLL],
			 int (*file)(void *arg, const uint8_t *token),
			 void *arg);

#endif
