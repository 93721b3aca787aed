/* SPDX-License-Identifier: MIT */
/*
 * backend: runs moves, which say all there is to know: bytes of data files, and where
 * in memory they belong. There is one mover for each way by which bytes can come. A
 * part of move.
 */
#ifndef CKPTFS_BACKEND_H
#define CKPTFS_BACKEND_H

#include "ckptfs/model.h"
#include "ckptfs/source.h"

/* count >= 1 repetitions; each moves on by dst and src bytes. Those of a single one are
 * small, since they may be added all the same. */
struct ck_loop {
	uint64_t count;
	uint64_t dst;
	uint64_t src;
};

/* A loop nest over runs of contiguous bytes of one file. */
struct ck_move {
	uint32_t file;		     /* number in the ck_files */
	uint32_t nloops;	     /* at most CK_MAX_DIMS */
	const struct ck_loop *loops; /* outermost first; src is in the file */
	uint64_t fpos;		     /* of the first run */
	uint64_t run;		     /* bytes, >= 1 */
	uint8_t *to;		     /* where the first run goes */
	int rc; /* of the mover: 0, or why it was not done: as of ck_read; then
		 * what it should have written may be anything */
};

/* Sets dst of each loop so that the runs lie one behind the other, in the order of the
 * nest: they are packed. What they come to fits in 64 bits. */
void ck_loops_pack(struct ck_loop *loops, uint32_t nloops, uint64_t run);
/* How many bytes it brings, and where in its file the last of them ends. False: one of
 * them is more than 64 bits can say. */
CK_MUST_USE bool ck_move_measure(const struct ck_move *m, uint64_t *bytes,
				 uint64_t *end);
/* Copies bytes that came packed to where they belong. They may not be in a file. */
void ck_move_unpack(const struct ck_move *m, const uint8_t *packed);

/* What one mover does at once, for one who waits for it. */
struct ck_moves {
	struct ck_move *list;
	size_t n;
	/* Called once if they were not done at once, by any thread that holds
	 * no lock which its mover's interrupt() takes; the moves are the
	 * caller's again. */
	void (*done)(struct ck_moves *moves);
	void *arg;
	bool brief; /* whoever waits has waited for them before: 2 s must do */
	bool unwanted; /* atomic: set before they are interrupted */
	uint64_t
		read; /* by the host mover: bytes of files that it read for them */
};

/* Room for words that say whose bytes moves are, for those who can have them sent straight
 * to a device. */
struct ck_described {
	const uint8_t *
		base; /* where all moves lead to, and how many bytes are there */
	uint32_t size;
	uint8_t *out; /* `room` bytes */
	uint32_t room;
	uint32_t used; /* of them, once it is described */
	uint32_t set;  /* of hosts of which that is */
};

/* Any thread may call it. Threads of its own leave signals to others. */
struct ck_backend {
	const char *name; /* for a person */
	/* Waits for nobody elsewhere. 0: all have their rc. -EINPROGRESS: done() will be called, or was: always,
	 * within a time that the mover sets, also if nobody answers. */
	int (*start)(struct ck_backend *m, struct ck_moves *moves);
	/* Nobody wants them any more: those that are not done yet end soon, with
	 * -EINTR if they have not come otherwise. Neither calls done() itself nor
	 * waits for it. May be called before start() has taken them, which then
	 * sees `unwanted`, and until done() has begun. NULL: it does all at
	 * once. */
	void (*interrupt)(struct ck_backend *m, struct ck_moves *moves);
	/* The moves in other words: false if that cannot be for one of them, or if hosts
	 * have no such way now. NULL: they never have. */
	bool (*describe)(struct ck_backend *m, const struct ck_moves *moves,
			 struct ck_described *out);
	/* What was described has come: it counts as what this brings. */
	void (*came)(struct ck_backend *m, const struct ck_moves *moves);
};

/* --- host mover: files of this host ----------------------------------------------- */

/* Does all at once. */
struct ck_host_mover {
	struct ck_backend mover;
	struct ck_files *files;
};

/* Only those bytes of local files that are in memory, without a wait for a disk: false if
 * some are not, or a file is not open or cannot be read, or a move has loops; then nothing
 * is said of any of them. Files are looked at, by name too, for one that was replaced is
 * ESTALE: that waits where their filesystem is elsewhere, and for no disk where it is not,
 * since the kernel keeps the names that lead to a file that is open (not those of links). */
CK_MUST_USE bool ck_host_mover_now(struct ck_host_mover *m,
				   struct ck_moves *moves);
void ck_host_mover_init(struct ck_host_mover *m, struct ck_files *files);

#endif
