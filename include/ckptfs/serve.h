/* SPDX-License-Identifier: MIT */
/*
 * serve: what a rank does: it answers requests for the files of its directory, and the
 * first one of a host with a mount passes on what the mount asks others. One thread
 * carries messages; others read files.
 */
#ifndef CKPTFS_SERVE_H
#define CKPTFS_SERVE_H

#include "ckptfs/owner.h"
#include "ckptfs/xport.h"

struct ck_serve_options {
	struct ck_data_owner *owner; /* NULL: this host offers nothing */
	struct ck_xport *xport; /* NULL: there is one rank; closed at the end */
	/* The other end of a ck_link, or -1, and its memory, see ck_link_options. Stay
	 * the caller's. */
	int link, memory;
	uint64_t size; /* of the memory, bytes */
	/* Bytes of answers on their way, for all who ask together: the link and the
	 * other ranks. Each has an equal share, but not less than CK_WIRE_READ_MAX; a
	 * single answer may have more. Who asks takes turns with the others, and is
	 * kept waiting by none of them. */
	uint64_t memory_most;
	unsigned threads; /* that read files, at least 1 */
	/* It serves one mount, which is that rank's and not this one's: it ends when
	 * that is lost, or has been silent for so long; 0: it ends for no one. */
	uint32_t holder, silence_msec;
	int stop; /* a descriptor: it serves until that is readable, or -1 */
	/* Called when it ends, before it waits for threads that may still read a
	 * file, however long that takes. May be NULL. */
	void (*ending)(void *arg);
	void *arg;
};

/* Serves until the link's other end is gone or `stop` says so. 0; -EPROTO: the link is
 * not one; -EINVAL: its memory is not as it has to be, or no threads; -ENOMEM; errors of
 * the transport, of mmap(2) and pthread_create(3). */
CK_MUST_USE int ck_serve_run(const struct ck_serve_options *options);

#endif
