/* SPDX-License-Identifier: MIT */
/*
 * link: the IPC channel between the mount and its serving process, which is a
 * rank of a job and reaches the other ranks. A UNIX socket has requests and
 * replies; shared memory has payloads. This is the mount's end: a connection
 * for ck_calls, with one thread. The rank's end is ck_serve_run().
 *
 * States: connected; then dead, once the process or the socket is gone. A dead
 * link stays dead; all its peers are down.
 */
#ifndef CKPTFS_LINK_H
#define CKPTFS_LINK_H

#include "base/system/privileges.h"
#include "calls.h"

#define CK_LINK_NO_RANK UINT32_MAX

struct ck_link; /* opaque */

struct ck_link_options {
	/* One end of a pair of stream sockets, and memory of `size` bytes that
	 * the rank maps too (memfd_create(2), sealed against shrinking). size
	 * must be greater than CK_WIRE_READ_MAX. The link owns both once it is
	 * made. */
	int sock, memory;
	uint64_t size;
	struct ck_calls_options calls;
	/* By peer: its rank in the job, below calls.npeers, or CK_LINK_NO_RANK
	 * if the peer is not in the job; it is then down. NULL: peer i is rank
	 * i. Copied. */
	const uint32_t *ranks;
	struct ck_thread_init thread_init; /* of its thread */
};

/* Starts the thread. Returns 0, or: -EINVAL if the memory is smaller than size
 * or not sealed, if there are no peers or no ping_msec, or if two peers have
 * one rank; -ENOMEM; errors of mmap(2), eventfd(2) and ck_thread_start_init().
 * After an error the caller still owns sock and memory. */
CK_MUST_USE int ck_link_make(const struct ck_link_options *options,
			     struct ck_link **out);
/* The calls of the link. Borrowed. Any thread. */
struct ck_calls *ck_link_calls(struct ck_link *l);
/* Shuts the socket down: the link dies as if the process had exited. Any
 * thread. */
void ck_link_cut(struct ck_link *l);
/* Fails all calls, ends the thread and closes the socket, which notifies the
 * rank. No thread may send calls any more. NULL is allowed. */
void ck_link_free(struct ck_link *l);

#endif
