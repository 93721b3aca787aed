/* SPDX-License-Identifier: MIT */
/*
 * fd_passing: a server that passes file descriptors to local processes that
 * present a token. It listens on a UNIX socket in the abstract namespace, and
 * accepts processes of this user and of root. No function blocks. One thread.
 */
#ifndef CK_FD_PASSING_H
#define CK_FD_PASSING_H

#include "ckptfs/base.h"

#include <poll.h>

enum {
	CK_FD_PASSING_TOKEN = 16,  /* bytes */
	CK_FD_PASSING_NAME = 64,   /* including the final NUL */
	CK_FD_PASSING_COMERS = 16, /* connections at a time */
	CK_FD_PASSING_POLL = 1 + CK_FD_PASSING_COMERS,
};

struct ck_fd_passing {
	/* the socket's name, without the leading NUL */
	char name[CK_FD_PASSING_NAME];
	int listener;
	/* closed to free a descriptor when a connection must be rejected; -1 if
	 * it is in use */
	int spare;
	/* no connection is accepted before, for want of descriptors; ms */
	uint64_t deaf;

	struct {
		int sock; /* -1 if free */
		uint64_t since;
	} comers[CK_FD_PASSING_COMERS];
};

/* Returns 0, or errors of socket(2), bind(2), listen(2) and getrandom(2); then
 * ck_fd_passing_close() is due, too. */
CK_MUST_USE int ck_fd_passing_open(struct ck_fd_passing *h);
/* Does nothing if listener is -1. */
void ck_fd_passing_close(struct ck_fd_passing *h);
/* Writes a random token. Returns 0, or: -EIO; errors of getrandom(2). */
CK_MUST_USE int ck_fd_passing_token(uint8_t out[static CK_FD_PASSING_TOKEN]);
/* Microseconds until ck_fd_passing_fds() will return more descriptors to wait
 * for; UINT32_MAX if all are included now. */
uint32_t ck_fd_passing_wait(const struct ck_fd_passing *h);
/* The descriptors to poll. */
void ck_fd_passing_fds(const struct ck_fd_passing *h,
		       struct pollfd out[static CK_FD_PASSING_POLL]);
/* Handles connections after poll(2). file: returns the descriptor for a token,
 * or -1. Never blocks. */
void ck_fd_passing_serve(struct ck_fd_passing *h,
			 const struct pollfd fds[static CK_FD_PASSING_POLL],
			 int (*file)(void *arg, const uint8_t *token),
			 void *arg);

#endif
