/* SPDX-License-Identifier: MIT */
/*
 * control_msg: the messages between the mount, its spawn helper and the
 * supervisors of jobs (see spawn_helper.h), and to the process that forks GPU
 * workers. They are short and may have descriptors. A SOCK_SEQPACKET socket
 * keeps their boundaries. Sender and receiver are of one program on one host.
 * One thread at a time uses a socket.
 */
#ifndef CKPTFS_CONTROL_MSG_H
#define CKPTFS_CONTROL_MSG_H

#include "subprocess.h"

enum ck_control_msg_kind {
	/* To the spawn helper: start a job. err: milliseconds that hosts have
	 * to reply; bytes: for each host, an enum ck_try; a file: the
	 * supervisor's end of a socket. */
	CK_CONTROL_MSG_START = 1,
	/* From a supervisor: */
	/* bytes: standard error of its processes. */
	CK_CONTROL_MSG_SAID,
	/* The job is up. bytes: for each host, whether it takes part; files:
	 * the link's socket and memory, of `size` bytes; if there are rounds,
	 * also the socket and memory of the rounds link, of CK_CLUSTER_ROUNDS
	 * bytes. */
	CK_CONTROL_MSG_UP,
	/* The job has failed. bytes: the reason; err: a positive errno. */
	CK_CONTROL_MSG_FAILED,
	/* Before FAILED, if mpirun was started. bytes: for each host, an enum
	 * ck_tried. */
	CK_CONTROL_MSG_TRIED,
	/* To the process that forks GPU workers: CK_CONTROL_MSG_START is for
	 * the worker of a mount, which may join rounds later if err is not 0.
	 * This one is for a worker that only executes rounds; files: socket and
	 * memory, of `size` bytes, of its link to a rank. */
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
	/* The first -1 ends the list. */
	int files[CK_CONTROL_MSG_FILES];
};

#define CK_CONTROL_MSG_NO_FILES                                                \
	{                                                                      \
		-1                                                             \
	}

/* Makes a pair of connected sockets, which the caller owns. Returns 0, or
 * errors of socketpair(2). */
CK_MUST_USE int ck_control_msg_sockets(int ends[static 2]);
/* Starts a program with ck_subprocess_start_beside() that inherits one end of
 * such a pair as its only file. Caller owns *sock, the other end. Returns 0, or
 * errors of both functions. */
CK_MUST_USE int ck_control_msg_job(char *const words[], int *sock,
				   struct ck_subprocess *out);
/* Sends a message; the caller keeps its files. wait: block until there is room.
 * Returns 0, or: -EAGAIN if there is no room and `wait` is false; -EPIPE if the
 * other end is closed; errors of sendmsg(2). */
CK_MUST_USE int ck_control_msg_send(int sock, const struct ck_control_msg *n,
				    bool wait);
/* Blocks until a message arrives. room: CK_CONTROL_MSG_MOST bytes, from which
 * out->bytes borrows. Caller owns out->files. Returns 0, or: -EPIPE if the
 * other end is closed; -EPROTO if the message is too short, too long or has too
 * many files; errors of recvmsg(2). */
CK_MUST_USE int ck_control_msg_take(int sock, struct ck_control_msg *out,
				    char *room);
/* Closes the files of a received message. */
void ck_control_msg_close(struct ck_control_msg *n);

#endif
