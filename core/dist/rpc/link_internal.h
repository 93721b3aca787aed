/* SPDX-License-Identifier: MIT */
/*
 * link_internal: the protocol shared by both ends of a link (link.h): frames on
 * a UNIX stream socket, and a memory region mapped by both processes.
 *
 * A frame names the peer that it is sent to or comes from. A message frame is
 * followed by the head and the body of the message. The payload is not sent: it
 * lies in the shared memory, at an offset chosen by the mount process.
 */
#ifndef CK_LINK_INTERNAL_H
#define CK_LINK_INTERNAL_H

#include "dist/proto/wire.h"

enum { CK_FRAME = 24 }; /* bytes */

/* Maps `size` bytes of the memory of a link; *out is released with munmap(2).
 * Returns 0, or: -EINVAL if size is not more than CK_WIRE_READ_MAX, if the
 * memory is shorter, or if it is not sealed against shrinking (an access behind
 * the end would raise SIGBUS); errors of mmap(2), fstat(2) and fcntl(2). */
CK_MUST_USE int ck_link_map(int memory, uint64_t size, uint8_t **out);

enum ck_frame_kind {
	CK_FRAME_MESSAGE = 1,
	CK_FRAME_LOST, /* from the rank: the peer is down */
	CK_FRAME_DROP, /* to the rank: drop the connection to the peer */
	/* to the process that runs rounds, as first frame: peer is this rank,
	 * place the number of ranks, room the duration of a round in ms */
	CK_FRAME_JOB,
	CK_FRAME_KINDS
};

struct ck_frame {
	uint32_t peer;
	uint32_t kind;	/* enum ck_frame_kind */
	uint64_t place; /* offset of the reply's payload in the memory */
	uint64_t room;	/* bytes reserved there */
};

/* A complete received frame; head and body are set for CK_FRAME_MESSAGE only.
 * The payload is not part of the frame. */
struct ck_framed {
	struct ck_frame frame;
	struct ck_wire_head head;
	struct ck_str body; /* borrowed */
};

/* One end of a link: its socket, and buffers of data received and data to be
 * sent. Zero-initialise all but fd. One thread at a time, except that one
 * thread may receive (ck_frames_read, ck_frames_next) while another one
 * sends. */
struct ck_frames {
	int fd; /* non-blocking */
	struct ck_buf in, out;
	size_t taken; /* bytes of `in` that ck_frames_next() has consumed */
	size_t sent;  /* bytes of `out` that were sent */
	char step[64 << 10]; /* receive buffer of ck_frames_read() */
};

/* Frees the buffers; does not close fd. */
void ck_frames_fini(struct ck_frames *f);
/* Queues a frame, with a message if head is not NULL, and sends as much as the
 * socket accepts. Never blocks. Returns 0, or: -ENOMEM, nothing was queued;
 * -EPIPE if the other end is closed. */
CK_MUST_USE int ck_frames_put(struct ck_frames *f, const struct ck_frame *frame,
			      const struct ck_wire_head *head,
			      struct ck_str body);
/* Bytes queued and not sent. */
size_t ck_frames_waiting(const struct ck_frames *f);
/* Sends queued bytes as far as the socket accepts them. Returns 0, or -EPIPE if
 * the other end is closed. */
CK_MUST_USE int ck_frames_flush(struct ck_frames *f);
/* Receives available bytes without blocking, until at least 2 *
 * CK_WIRE_BODY_MAX are buffered. Returns 0, or: -EPIPE if the other end is
 * closed; -ENOMEM. In each case ck_frames_next() returns the frames received so
 * far. */
CK_MUST_USE int ck_frames_read(struct ck_frames *f);
/* Takes the next complete frame. Returns 1; 0 if there is no complete frame;
 * -EPROTO if the data is not a frame. out->body is borrowed until the next call
 * of this function or of ck_frames_read(). */
CK_MUST_USE int ck_frames_next(struct ck_frames *f, struct ck_framed *out);

/* --- the mount's end ------------------------------------------------------ */

struct ck_link;

/* One iteration of the link's thread: times out calls, waits for events, sends,
 * receives. *dead is false at first; it is set when the rank has closed its end
 * or has sent an invalid frame. Returns false if ck_link_free() was called. */
CK_MUST_USE bool ck_link_turn(struct ck_link *l, bool *dead);

#endif
