/* SPDX-License-Identifier: MIT */
/*
 * sockets: who is at the other end of one between processes of this machine, and a descriptor
 * that goes with what is said there.
 */
#ifndef CK_SOCKETS_H
#define CK_SOCKETS_H

#include "ckptfs/base.h"

#include <sys/types.h>

/* False: nobody knows. */
CK_MUST_USE bool ck_sock_user(int sock, uid_t *out);
/* Whether it is a process of our user. */
CK_MUST_USE bool ck_sock_is_ours(int sock);
/* All of it at once, with the file. flags: of sendmsg(2), besides MSG_NOSIGNAL. Errors of
 * that; -EIO: not all of it. */
CK_MUST_USE int ck_sock_send_file(int sock, const void *said, size_t len,
				  int file, int flags);

#endif
