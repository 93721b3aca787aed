/* SPDX-License-Identifier: MIT */
/*
 * fd_message: messages of fixed size with descriptors (SCM_RIGHTS), on a socket of the type
 * SOCK_SEQPACKET between two processes of this host. No state; any thread, but messages of
 * several threads on one socket may change places.
 */
#ifndef CKPTFS_FD_MESSAGE_H
#define CKPTFS_FD_MESSAGE_H

#include "ckptfs/base.h"

/* Most descriptors in a message. */
#define CK_MESSAGE_FDS 2

/* Sends `len` bytes and n descriptors, which stay the caller's. Waits for room. Returns 0, or:
 * -EPIPE if the other end is closed; errors of sendmsg(2). */
CK_MUST_USE int ck_message_send(int socket, const void *bytes, size_t len,
				const int *fds, size_t n);
/* Waits for a message of `len` bytes. Sets fds[0..n) to its descriptors, which are the
 * caller's to close, also after an error, and to -1. Returns 0, or: -EPIPE if the other end is
 * closed; -EBADMSG for another length; errors of recvmsg(2). */
CK_MUST_USE int ck_message_receive(int socket, void *bytes, size_t len,
				   int *fds, size_t n);

#endif
