/* SPDX-License-Identifier: MIT */
/*
 * xport_mesh: joins the processes of one machine, each to each, by UNIX sockets in a
 * directory: a rank listens on the socket that has its number, and connects to those
 * with lower numbers.
 */
#ifndef CK_TRANSPORT_MESH_H
#define CK_TRANSPORT_MESH_H

#include "ckptfs/base.h"

/* The first bytes of a connection: who made it. In the order of this machine. */
struct ck_mesh_hello {
	uint32_t magic, size, rank;
};

enum { CK_MESH_MAGIC = 0x6d706b63 }; /* "ckpm" */

/* fds[size]: stream sockets to all others, non-blocking and close-on-exec, owned by the
 * caller; that of the own rank is -1. Waits for the others, at most msec. Only processes
 * of the same user count. Nothing of this rank is left in the directory when it returns.
 * -ETIMEDOUT; -EADDRINUSE: another process has the rank; -EPERM: a lower rank is of
 * another user; -EINVAL, -ENOMEM, and errors of sockets and of the directory: then fds
 * are all -1. */
CK_MUST_USE int ck_mesh_join(const char *directory, uint32_t rank,
			     uint32_t size, int msec, int *fds);

#endif
