/* SPDX-License-Identifier: MIT */
/*
 * serve: what a rank does: it answers requests for the files of its directory, and if it
 * has a mount beside it, passes on what that asks others. One thread carries messages;
 * others read files.
 */
#ifndef CKPTFS_SERVE_H
#define CKPTFS_SERVE_H

#include "ckptfs/file_server.h"
#include "ckptfs/transport.h"

/* Besides the end of the last mount, and its own `stop`, which it tells the others. */
enum ck_serve_until {
	CK_UNTIL_UNMOUNTED, /* nothing */
	CK_UNTIL_TOLD,	    /* another rank was told to stop */
	CK_UNTIL_LOST,	    /* that, or another one is lost */
};

struct ck_serve_options {
	struct ck_file_server *owner; /* NULL: this host offers nothing */
	struct ck_transport
		*xport; /* NULL: there is one rank; closed at the end */
	/* The other end of a ck_link, or -1, and its memory, see ck_link_options. Stay
	 * the caller's. */
	int link, memory;
	uint64_t size; /* of the memory, bytes */

	/* The same to the process here that makes rounds with those of other ranks, on
	 * GPUs; link -1: there is none, and this rank takes no part in any. */
	struct ck_serve_rounds {
		int link, memory;
		uint64_t size;
		uint32_t msec; /* that one may take */
		/* The job was started for rounds: a rank that takes no part in them, or
		 * does not any more, says so to all others. So it is if there is a link. */
		bool used;
		/* Other ranks may have been started for rounds though this one was not:
		 * who speaks of them is told so, and not dropped for it. */
		bool allowed;
	} rounds;

	/* Bytes of answers on their way, for all who ask together: both links and the
	 * other ranks. Each has an equal share, but not less than CK_WIRE_READ_MAX; a
	 * single answer may have more. Who asks takes turns with the others, and is
	 * kept waiting by none of them. */
	uint64_t memory_most;
	unsigned threads; /* that read files, at least 1 */
	/* By rank: which have a mount. It ends when the last of them is gone, which
	 * its rank says, or which is so when that is lost or was silent for so long.
	 * Borrowed while this begins. NULL: none has, but the one of a link. */
	const bool *mounts;
	uint32_t silence_msec; /* 0: however long */
	enum ck_serve_until until;
	int stop; /* a descriptor: it serves until that is readable, or -1 */
	/* Called when it ends, before it waits for threads that may still read a
	 * file, however long that takes. May be NULL. */
	void (*ending)(void *arg);
	void *arg;
};

/* Serves until the last mount is gone, or `stop` or `until` says so; a link of rounds that
 * is none is closed, and it goes on. 0; -EPROTO: the link is not one; -EINVAL: its memory is not as it has to be, or no threads; -ENOMEM; errors of
 * the transport, of mmap(2) and pthread_create(3). */
CK_MUST_USE int ck_serve_run(const struct ck_serve_options *options);

#endif
