/* SPDX-License-Identifier: MIT */
/*
 * xport_local: a transport between processes of one machine. Tests use it instead of
 * MPI; transport.h has its functions. Each rank has a stream socket to each other rank.
 */
#ifndef CK_TRANSPORT_LOCAL_H
#define CK_TRANSPORT_LOCAL_H

#include "dist/transport/transport.h"

/* Joins `size` ranks by UNIX sockets `0`, `1`, ... in a directory of the job. Waits for
 * all other ranks, at most msec, and then removes its socket. Only processes of the same
 * user are accepted. Returns 0, or: -ETIMEDOUT; -EADDRINUSE if the rank exists already;
 * -EPERM if a lower rank is of another user; -EINVAL, -ENOMEM, errors of sockets. */
CK_MUST_USE int ck_transport_local(const char *directory, uint32_t rank,
				   uint32_t size, int msec,
				   struct ck_transport **out);

#endif
