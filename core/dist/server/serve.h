/* SPDX-License-Identifier: MIT */
/*
 * serve: the event loop of a rank. It serves requests for the files of its
 * directory. If a mount is connected, it forwards the mount's requests to other
 * ranks, and their replies back. One thread sends and receives messages; worker
 * threads read files.
 *
 * The rank serves until the last mount of the job is gone, or an event of
 * ck_serve_options ends it.
 */
#ifndef CKPTFS_SERVE_H
#define CKPTFS_SERVE_H

#include "dist/transport/transport.h"
#include "file_server.h"

/* What ends the rank, besides the end of the last mount and its own `stop`. */
enum ck_serve_until {
	CK_UNTIL_UNMOUNTED, /* no other event */
	CK_UNTIL_TOLD,	    /* another rank has sent OVER: it was stopped */
	CK_UNTIL_LOST,	    /* another rank has sent OVER or is lost */
};

struct ck_serve_options {
	/* NULL: this rank has no files; their requests fail with ENODATA. */
	struct ck_file_server *owner;
	/* NULL: this is the only rank. ck_serve_run() closes it. */
	struct ck_transport *xport;
	/* The rank's end of a ck_link, or -1, and its memory, see
	 * ck_link_options. The caller keeps and closes both. */
	int link, memory;
	uint64_t size; /* of the memory, bytes */

	/* The same for the process on this host that executes rounds with the
	 * processes of other ranks, on GPUs. link -1: there is no such process,
	 * and this rank takes part in no rounds. */
	struct ck_serve_rounds {
		int link, memory;
		uint64_t size;
		uint32_t msec; /* timeout of a round */
		/* The job was started for rounds: if this rank does not take
		 * part, or no longer does, it notifies all others. Implied by a
		 * link. */
		bool used;
		/* Other ranks may have been started for rounds though this one
		 * was not. It replies to their messages about rounds instead of
		 * dropping the rank. */
		bool allowed;
	} rounds;

	/* Bytes of replies in memory, for all senders together: both links and
	 * the other ranks. Each sender has an equal share, at least
	 * CK_WIRE_READ_MAX; a single reply may exceed it. Senders are served in
	 * turns, and a blocked sender does not block others. */
	uint64_t memory_most;
	unsigned threads; /* that read files, at least 1 */
	/* By rank: true if it has a mount. A mount is gone when its rank sends
	 * UNMOUNTED, is lost, or is silent for silence_msec. NULL: only the
	 * mount of `link`. Copied. */
	const bool *mounts;
	uint32_t silence_msec; /* 0: no limit */
	enum ck_serve_until until;
	int stop; /* the rank ends when this descriptor is readable; -1: no descriptor */
	/* Called when the rank ends, before it joins threads that may still
	 * read a file for an unlimited time. May be NULL. */
	void (*ending)(void *arg);
	void *arg;
};

/* Serves until the rank ends, see above. A rounds link that violates the
 * protocol is closed, and the rank continues. Returns 0, or: -EPROTO if the
 * mount's link violates the protocol; -EINVAL if a link's memory is too small
 * or not sealed, or threads is 0; -ENOMEM; errors of the transport, eventfd(2),
 * mmap(2) and pthread_create(3). */
CK_MUST_USE int ck_serve_run(const struct ck_serve_options *options);

#endif
