/* SPDX-License-Identifier: MIT */
/*
 * rendezvous: how a mover and the process of its mount find each other, since something else
 * may have started the mover, mpirun say. The mount opens a door, of which only the
 * mover is told the name; it comes in, and is handed one end of the link and its memory.
 * The name is a socket's in Linux's abstract space: nothing is left of it, however the
 * processes end. Processes of other users are turned away at both ends, and so is who
 * was not told the whole name: what all can see of it is not enough.
 */
#ifndef CKPTFS_RENDEZVOUS_H
#define CKPTFS_RENDEZVOUS_H

#include "ckptfs/base.h"

enum { CK_RENDEZVOUS_NAME = 56 }; /* bytes of a name, with its NUL */

struct ck_rendezvous {
	char name
		[CK_RENDEZVOUS_NAME]; /* printable, of no meaning, hard to guess */
	int listener;		      /* private */
};

/* What both have of the link: see ck_link_options and ck_serve_options. */
struct ck_rendezvous_way {
	int sock, memory; /* owned by who has it */
	uint64_t size;	  /* of the memory, bytes */
};

#define CK_RENDEZVOUS_NO_WAY                                                   \
	{                                                                      \
		-1, -1, 0                                                      \
	}

static inline void ck_rendezvous_way_fini(struct ck_rendezvous_way *way)
{
	ck_fd_cleanup(&way->sock);
	ck_fd_cleanup(&way->memory);
}

/* Errors of socket(2). ck_rendezvous_close() is due if it returns 0. */
CK_MUST_USE int ck_rendezvous_open(struct ck_rendezvous *door);
void ck_rendezvous_close(struct ck_rendezvous *door);
/* The mount waits, at most msec, until the mover comes in, and makes memory of `size`
 * bytes, which neither can make smaller. ended: a descriptor that is readable
 * when nobody will come, or -1. -ETIMEDOUT; -ECHILD: `ended`; errors of sockets and
 * memfd_create(2). */
CK_MUST_USE int ck_rendezvous_wait(const struct ck_rendezvous *door,
				   uint64_t size, int ended, int msec,
				   struct ck_rendezvous_way *out);
/* The mover comes in. -EINVAL: no name of a door; -EPERM: another user's, or somebody has
 * taken its place; -EPROTO: who is behind it is of another version; -ETIMEDOUT: nobody
 * answers; errors of sockets. */
CK_MUST_USE int ck_rendezvous_enter(const char *name,
				    struct ck_rendezvous_way *out);
/* Such memory: a descriptor; errors of memfd_create(2) and ftruncate(2). */
CK_MUST_USE int ck_rendezvous_memory(uint64_t size);
/* Both ends at once, where one process starts the other. Errors as of ck_rendezvous_wait(). */
CK_MUST_USE int ck_rendezvous_pair(uint64_t size, struct ck_rendezvous_way *one,
				   struct ck_rendezvous_way *other);

#endif
