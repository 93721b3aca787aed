/* SPDX-License-Identifier: MIT */
/*
 * control_msg: what the process of a mount, its starter and the keepers of jobs say to each
 * other (see spawn_helper.h): short messages over a socket that keeps them apart, with
 * descriptors. All are of one program on one host.
 */
#ifndef CKPTFS_CONTROL_MSG_H
#define CKPTFS_CONTROL_MSG_H

#include "ckptfs/subprocess.h"

enum ck_control_msg_kind {
	CK_CONTROL_MSG_START =
		1, /* to the starter: `err` is milliseconds that hosts have to
			    * answer, bytes: for each host, an enum ck_try;
			    * the keeper's end of a socket */
	/* Of a keeper: */
	CK_CONTROL_MSG_SAID, /* bytes: what its processes have said */
	CK_CONTROL_MSG_UP, /* bytes: for each host, whether it takes part; the link's
			 * socket and memory, of `size` bytes; if there are rounds, the
			 * same of what makes them, of CK_CLUSTER_ROUNDS bytes */
	CK_CONTROL_MSG_FAILED, /* bytes: why; `err`: a positive errno */
	CK_CONTROL_MSG_TRIED, /* before that: a job was begun; bytes: for each host, an
			 * enum ck_tried */
	/* To the process that forks workers of GPUs: CK_CONTROL_MSG_START is for the worker of a
	 * mount, which may join rounds later if `err` is not 0. This one is for a worker
	 * that only makes rounds; socket and memory, of `size` bytes, of its link to a
	 * rank. */
	CK_CONTROL_MSG_ROUNDS,
};

enum {
	CK_CONTROL_MSG_MOST = 128 << 10, /* bytes */
	CK_CONTROL_MSG_FILES = 4,
};

struct ck_control_msg {
	enum ck_control_msg_kind kind;
	uint32_t err;
	uint64_t size;
	struct ck_str bytes;
	int files
		[CK_CONTROL_MSG_FILES]; /* -1: there is none, nor any behind it */
};

#define CK_CONTROL_MSG_NO_FILES                                                \
	{                                                                      \
		-1                                                             \
	}

/* Two ends of a socket. Errors of socketpair(2). */
CK_MUST_USE int ck_control_msg_sockets(int ends[static 2]);
/* A job beside us that has one end of them as its only file; *sock: the other. Errors of
 * those, and of ck_subprocess_start_beside(). */
CK_MUST_USE int ck_control_msg_job(char *const words[], int *sock,
				   struct ck_subprocess *out);
/* -EAGAIN: there is no room now, if it is not to wait; -EPIPE: nobody is there; errors of
 * sendmsg(2). */
CK_MUST_USE int ck_control_msg_send(int sock, const struct ck_control_msg *n,
				    bool wait);
/* Waits for one. room: CK_CONTROL_MSG_MOST bytes, for those that it has. Its descriptors are the
 * caller's. -EPIPE: nobody is there; -EPROTO: it is none; errors of recvmsg(2). */
CK_MUST_USE int ck_control_msg_take(int sock, struct ck_control_msg *out,
				    char *room);
/* Closes its descriptors. */
void ck_control_msg_close(struct ck_control_msg *n);

#endif
