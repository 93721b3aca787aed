/* SPDX-License-Identifier: MIT */
/*
 * sockets: credentials of the process at the other end of a UNIX socket, and
 * sending a file descriptor with a message (SCM_RIGHTS).
 */
#ifndef CK_SOCKETS_H
#define CK_SOCKETS_H

#include "ckptfs/base.h"

#include <sys/types.h>

/* Sets *out to the user of the process at the other end. False if the kernel
 * does not report one. */
CK_MUST_USE bool ck_sock_user(int sock, uid_t *out);
/* True if the process at the other end runs as our effective user. */
CK_MUST_USE bool ck_sock_is_ours(int sock);
/* Sends len bytes and the descriptor `file` in one message. flags: of
 * sendmsg(2), in addition to MSG_NOSIGNAL. Returns 0, or: -EIO if only a part
 * was sent; errors of sendmsg(2). */
CK_MUST_USE int ck_sock_send_file(int sock, const void *data, size_t len,
				  int file, int flags);

#endif
