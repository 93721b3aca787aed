/* SPDX-License-Identifier: MIT */
/*
 * note: what the process of a mount, its starter and the keepers of jobs say to each
 * other (see spawn_helper.h): short messages over a socket that keeps them apart, with
 * descriptors. All are of one program on one host.
 */
#ifndef CKPTFS_NOTE_H
#define CKPTFS_NOTE_H

#include "ckptfs/job.h"

enum ck_note_kind {
	CK_NOTE_START =
		1, /* to the starter: `err` is milliseconds that hosts have to
			    * answer, bytes: for each host, an enum ck_try;
			    * the keeper's end of a socket */
	/* Of a keeper: */
	CK_NOTE_SAID, /* bytes: what its processes have said */
	CK_NOTE_UP,   /* bytes: for each host, whether it takes part; the link's
			 * socket and memory, of `size` bytes; if there are rounds, the
			 * same of what makes them, of CK_CLUSTER_ROUNDS bytes */
	CK_NOTE_FAILED, /* bytes: why; `err`: a positive errno */
	CK_NOTE_TRIED, /* before that: a job was begun; bytes: for each host, an
			 * enum ck_tried */
	/* To the process that forks workers of GPUs: CK_NOTE_START is for the worker of a
	 * mount, which may join rounds later if `err` is not 0. This one is for a worker
	 * that only makes rounds; socket and memory, of `size` bytes, of its link to a
	 * rank. */
	CK_NOTE_ROUNDS,
};

enum {
	CK_NOTE_MOST = 128 << 10, /* bytes */
	CK_NOTE_FILES = 4,
};

struct ck_note {
	enum ck_note_kind kind;
	uint32_t err;
	uint64_t size;
	struct ck_str bytes;
	int files[CK_NOTE_FILES]; /* -1: there is none, nor any behind it */
};

#define CK_NOTE_NO_FILES                                                       \
	{                                                                      \
		-1                                                             \
	}

/* Two ends of a socket. Errors of socketpair(2). */
CK_MUST_USE int ck_note_sockets(int ends[static 2]);
/* A job beside us that has one end of them as its only file; *sock: the other. Errors of
 * those, and of ck_job_start_beside(). */
CK_MUST_USE int ck_note_job(char *const words[], int *sock, struct ck_job *out);
/* -EAGAIN: there is no room now, if it is not to wait; -EPIPE: nobody is there; errors of
 * sendmsg(2). */
CK_MUST_USE int ck_note_send(int sock, const struct ck_note *n, bool wait);
/* Waits for one. room: CK_NOTE_MOST bytes, for those that it has. Its descriptors are the
 * caller's. -EPIPE: nobody is there; -EPROTO: it is none; errors of recvmsg(2). */
CK_MUST_USE int ck_note_take(int sock, struct ck_note *out, char *room);
/* Closes its descriptors. */
void ck_note_close(struct ck_note *n);

#endif
