/* SPDX-License-Identifier: MIT */
/*
 * rendezvous: connects the mount to its serving process, which another program
 * (mpirun) may have started. The mount listens at a socket in Linux's abstract
 * namespace and passes its name on to that process only. The process connects
 * and receives the socket of the link and a descriptor of its shared memory.
 *
 * The socket leaves no file behind, however the processes end. Both ends reject
 * other users' processes. They also authenticate each other by parts of the
 * name that are not visible in /proc/net/unix. One thread at each end.
 */
#ifndef CKPTFS_RENDEZVOUS_H
#define CKPTFS_RENDEZVOUS_H

#include "ckptfs/base.h"

enum { CK_RENDEZVOUS_NAME = 56 }; /* bytes of a name, with its NUL */

/* The listening end. */
struct ck_rendezvous {
	/* Printable, random, secret. */
	char name[CK_RENDEZVOUS_NAME];
	int listener; /* private */
};

/* One end of a link, see ck_link_options and ck_serve_options. Owns the
 * descriptors. */
struct ck_rendezvous_link {
	int sock, memory; /* -1: not open */
	uint64_t size;	  /* of the memory, bytes */
};

#define CK_RENDEZVOUS_NO_LINK                                                  \
	{                                                                      \
		-1, -1, 0                                                      \
	}

/* Closes both descriptors. */
static inline void ck_rendezvous_link_fini(struct ck_rendezvous_link *link_fds)
{
	ck_fd_cleanup(&link_fds->sock);
	ck_fd_cleanup(&link_fds->memory);
}

/* Listens at a new name. Returns 0, and the caller must call
 * ck_rendezvous_close(), or: -EIO if there are no random bytes; errors of
 * socket(2), bind(2) and listen(2). */
CK_MUST_USE int ck_rendezvous_open(struct ck_rendezvous *door);
void ck_rendezvous_close(struct ck_rendezvous *door);
/* The mount blocks until the serving process connects, at most msec
 * milliseconds, and makes shared memory of `size` bytes, sealed against
 * shrinking. ended: a descriptor that is readable once no process will connect,
 * or -1. Caller owns *out. Returns 0, or: -ETIMEDOUT; -ECHILD if `ended` is
 * readable; errors of sockets and of ck_rendezvous_memory(). */
CK_MUST_USE int ck_rendezvous_wait(const struct ck_rendezvous *door,
				   uint64_t size, int ended, int msec,
				   struct ck_rendezvous_link *out);
/* The serving process connects. Caller owns *out. Returns 0, or: -EINVAL if the
 * name has another form; -EPERM if the listener belongs to another user or does
 * not know the whole name; -EPROTO if it has another version; -ETIMEDOUT if it
 * does not reply; errors of sockets. */
CK_MUST_USE int ck_rendezvous_enter(const char *name,
				    struct ck_rendezvous_link *out);
/* Makes memory of `size` bytes, sealed against any change of its size. Returns
 * a descriptor that the caller owns, or errors of memfd_create(2), ftruncate(2)
 * and fcntl(2). */
CK_MUST_USE int ck_rendezvous_memory(uint64_t size);
/* Makes both ends of a link, for a process that starts the other one. Caller
 * owns both. Returns 0, or errors of ck_rendezvous_memory(), fcntl(2) and
 * socketpair(2). */
CK_MUST_USE int ck_rendezvous_pair(uint64_t size,
				   struct ck_rendezvous_link *one,
				   struct ck_rendezvous_link *other);

#endif
