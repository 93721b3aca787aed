/* SPDX-License-Identifier: MIT */
/*
 * note: what the process of a mount, its starter and the keepers of jobs say to each
 * other (see starter.h): short messages over a socket that keeps them apart, with
 * descriptors. All are of one program on one host.
 */
#ifndef CKPTFS_NOTE_H
#define CKPTFS_NOTE_H

#include "ckptfs/base.h"

enum ck_note_kind {
	CK_NOTE_START =
		1, /* to the starter: `err` is milliseconds that hosts have to
			    * answer, bytes: for each host, an enum ck_try;
			    * the keeper's end of a socket */
	/* Of a keeper: */
	CK_NOTE_SAID, /* bytes: what its processes have said */
	CK_NOTE_UP,   /* bytes: for each host, whether it takes part; the link's
			 * socket and memory, of `size` bytes */
	CK_NOTE_FAILED, /* bytes: why; `err`: a positive errno */
	CK_NOTE_TRIED, /* before that: a job was begun; bytes: for each host, an
			 * enum ck_tried */
};

enum {
	CK_NOTE_MOST = 128 << 10, /* bytes */
	CK_NOTE_FILES = 2,
};

struct ck_note {
	enum ck_note_kind kind;
	uint32_t err;
	uint64_t size;
	struct ck_str bytes;
	int files[CK_NOTE_FILES]; /* -1: there is none */
};

/* Two ends of a socket. Errors of socketpair(2). */
CK_MUST_USE int ck_note_sockets(int ends[static 2]);
/* -EAGAIN: there is no room now, if it is not to wait; -EPIPE: nobody is there; errors of
 * sendmsg(2). */
CK_MUST_USE int ck_note_send(int sock, const struct ck_note *n, bool wait);
/* Waits for one. room: CK_NOTE_MOST bytes, for those that it has. Its descriptors are the
 * caller's. -EPIPE: nobody is there; -EPROTO: it is none; errors of recvmsg(2). */
CK_MUST_USE int ck_note_take(int sock, struct ck_note *out, char *room);
/* Closes its descriptors. */
void ck_note_close(struct ck_note *n);

#endif
