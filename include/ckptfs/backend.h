/* SPDX-License-Identifier: MIT */
/*
 * backend: runs copy descriptors. A descriptor is self-contained: source file
 * and offset, loop nest, destination address. There is one backend for each way
 * to reach a file: the local backend reads local files, the remote backend
 * (core/dist) reads files of other hosts. A part of io.
 *
 * A batch (ck_copy_batch) belongs to the caller until start(), then to the
 * backend until start() returns 0 or done() is called.
 */
#ifndef CKPTFS_BACKEND_H
#define CKPTFS_BACKEND_H

#include "ckptfs/model.h"
#include "ckptfs/source.h"

/* `count` >= 1 repetitions. Each repetition advances the destination by `dst` bytes
 * and the source by `src` bytes. The steps of a loop with count 1 must be small:
 * code may add them. */
struct ck_loop {
	uint64_t count;
	uint64_t dst;
	uint64_t src;
};

/* A loop nest over runs of contiguous bytes of one file. */
struct ck_copy_desc {
	uint32_t file;	 /* index in the ck_files */
	uint32_t nloops; /* at most CK_MAX_DIMS */
	/* outermost loop first; src: offset in the file */
	const struct ck_loop *loops;
	uint64_t fpos; /* file offset of the first run */
	uint64_t run;  /* bytes, >= 1 */
	uint8_t *to;   /* destination of the first run */
	/* Set by the backend: 0 or an error as of ck_read. After an error the
	 * destination bytes are undefined. */
	int rc;
};

/* Sets `dst` of each loop so that the runs are packed: contiguous, in the order of
 * the nest. The sum of all runs must fit in 64 bits. */
void ck_loops_pack(struct ck_loop *loops, uint32_t nloops, uint64_t run);
/* Sets *bytes to the bytes that the descriptor copies, and *end to the file
 * offset behind its last byte. Returns false if one of the two exceeds 64
 * bits. */
CK_MUST_USE bool ck_copy_desc_measure(const struct ck_copy_desc *m,
				      uint64_t *bytes, uint64_t *end);
/* Copies bytes that were received packed to their destinations. The destinations
 * must not overlap `packed`. */
void ck_copy_desc_unpack(const struct ck_copy_desc *m, const uint8_t *packed);

/* A batch of descriptors that one caller starts together. */
struct ck_copy_batch {
	struct ck_copy_desc *list;
	size_t n;
	/* Called exactly once if start() returned -EINPROGRESS, by any thread. That
	 * thread holds no lock that interrupt() of the backend takes. The batch
	 * belongs to the caller again. */
	void (*done)(struct ck_copy_batch *batch);
	void *arg;
	bool short_deadline; /* second attempt: fail after 2 s */
	/* Atomic: the caller sets it before it calls interrupt(). */
	bool cancelled;
	/* set by the local backend: bytes that it read from files */
	uint64_t read;
};

/* Buffer for an encoded list of the bytes that the descriptors copy, in the
 * form in which peers receive it. Peers then send those bytes straight to a
 * device. */
struct ck_described {
	/* memory that contains all destinations, `size` bytes */
	const uint8_t *base;
	uint32_t size;
	uint8_t *out; /* buffer of `room` bytes */
	uint32_t room;
	uint32_t used; /* bytes of `out`, set by describe() */
	/* number of the set of hosts that can send, set by describe() */
	uint32_t set;
};

/* Any thread may call these functions. Threads of a backend block all signals. */
struct ck_backend {
	const char *name; /* for messages */
	/* Never blocks on other hosts. Returns 0 if all descriptors have their
	 * rc, or -EINPROGRESS: done() is then called exactly once, possibly
	 * before start() returns, and at the latest after the timeout of the
	 * backend. */
	int (*start)(struct ck_backend *m, struct ck_copy_batch *batch);
	/* Cancels a batch: descriptors that are not complete end soon, with
	 * -EINTR unless their bytes have arrived. Neither calls done() nor
	 * waits for it. May be called before start(), which then sees
	 * `cancelled`, and until done() has begun. NULL if start() always
	 * completes. */
	void (*interrupt)(struct ck_backend *m, struct ck_copy_batch *batch);
	/* Encodes the descriptors. Returns false if one of them cannot be
	 * encoded, or if hosts cannot send to devices now. NULL if the backend
	 * never can. */
	bool (*describe)(struct ck_backend *m,
			 const struct ck_copy_batch *batch,
			 struct ck_described *out);
	/* The described bytes have arrived at the device; the backend counts them
	 * as its own. */
	void (*delivered)(struct ck_backend *m,
			  const struct ck_copy_batch *batch);
};

/* --- local backend: files of this host ----------------------------------- */

/* The backend for local files. start() blocks on local files, and always
 * completes. */
struct ck_local_backend {
	struct ck_backend backend;
	struct ck_files *files;
};

/*
 * Copies bytes of local files that are resident in the page cache, without
 * waiting for a disk. Returns false if some bytes are not resident, a file is
 * not open or cannot be read, or a descriptor has loops; the rc of all
 * descriptors is undefined then.
 *
 * Stats each file by path, since a file that was replaced is -ESTALE. The stat
 * may block on a network filesystem. On a local one it reads no disk: the
 * kernel keeps the directory entries of an open file, but not those of links.
 */
CK_MUST_USE bool ck_local_backend_try(struct ck_local_backend *m,
				      struct ck_copy_batch *batch);
void ck_local_backend_init(struct ck_local_backend *m, struct ck_files *files);

#endif
