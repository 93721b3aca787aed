/* SPDX-License-Identifier: MIT */
/*
 * link: joins the process of a mount to its mover, which is a rank of a job and reaches
 * the others: a UNIX socket for requests and answers, and shared memory for bytes. The
 * end of the mount is a line for its calls, with a thread; the end of the mover is
 * ck_serve_run().
 */
#ifndef CKPTFS_LINK_H
#define CKPTFS_LINK_H

#include "ckptfs/calls.h"
#include "ckptfs/privileges.h"

#define CK_LINK_NO_RANK UINT32_MAX

struct ck_link; /* opaque */

struct ck_link_options {
	/* One end of a pair of stream sockets, and memory that the mover has too
	 * (memfd_create(2), sealed against shrinking), of so many bytes: more than
	 * CK_WIRE_READ_MAX. They are the link's once it is made. */
	int sock, memory;
	uint64_t size;
	struct ck_calls_options calls;
	/* The rank of each peer in the mover's job, below calls.npeers, or
	 * CK_LINK_NO_RANK: it is not in it, and down as long as this link is. NULL:
	 * peers are ranks. Borrowed while it is made. */
	const uint32_t *ranks;
	struct ck_thread_init thread_init; /* of its thread */
};

/* Starts its thread. -EINVAL: the memory is not so, or there are no peers or no
 * ping_msec, or two have one rank; -ENOMEM; errors of mmap(2) and
 * ck_thread_start_init(). */
CK_MUST_USE int ck_link_make(const struct ck_link_options *options,
			     struct ck_link **out);
struct ck_calls *ck_link_calls(struct ck_link *l);
/* It is as if the mover was gone. Any thread. */
void ck_link_cut(struct ck_link *l);
/* All calls fail, its thread ends, and the mover is told. Nobody sends calls any more.
 * NULL is allowed. */
void ck_link_free(struct ck_link *l);

#endif
