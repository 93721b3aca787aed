/* SPDX-License-Identifier: MIT */
/*
 * What both ends of a link share: frames on a UNIX stream socket, and memory that both
 * have. A frame says which peer it is for or of; a message has its head and body behind
 * it, and its payload lies in the memory, at a place that the process of the mount
 * chose.
 */
#ifndef CK_LINK_INTERNAL_H
#define CK_LINK_INTERNAL_H

#include "ckptfs/wire.h"

enum { CK_FRAME = 24 }; /* bytes */

/* Maps the memory of a link, `size` bytes. -EINVAL: that is not more than
 * CK_WIRE_READ_MAX, or the memory is less, or could become less, and who touches what is
 * gone dies; errors of mmap(2), fstat(2) and fcntl(2). */
CK_MUST_USE int ck_link_map(int memory, uint64_t size, uint8_t **out);

enum ck_frame_kind {
	CK_FRAME_MESSAGE = 1,
	CK_FRAME_LOST, /* from the mover: nothing more comes of the peer */
	CK_FRAME_DROP, /* to the mover: nothing more is wanted of the peer */
	CK_FRAME_JOB, /* to who makes rounds, first of all: peer is this rank, place is
			* how many there are, room is the time of a round in ms */
	CK_FRAME_KINDS
};

struct ck_frame {
	uint32_t peer;
	uint32_t kind;	/* enum ck_frame_kind */
	uint64_t place; /* of the answer's payload, in the memory */
	uint64_t room;	/* bytes that it has there */
};

/* What came, whole: a frame and, of CK_FRAME_MESSAGE, its message without payload. */
struct ck_framed {
	struct ck_frame frame;
	struct ck_wire_head head;
	struct ck_str body; /* borrowed */
};

/* One end's socket, with what is on its way in and out. Zero-initialise but for fd. */
struct ck_frames {
	int fd; /* does not block */
	struct ck_buf in, out;
	size_t taken;	     /* bytes of `in` that were used */
	size_t sent;	     /* bytes of `out` that were sent */
	char step[64 << 10]; /* what was read last */
};

void ck_frames_fini(struct ck_frames *f);
/* Sends a frame, with the message if head is not NULL, or keeps it until there is room.
 * -ENOMEM, -EPIPE. */
CK_MUST_USE int ck_frames_put(struct ck_frames *f, const struct ck_frame *frame,
			      const struct ck_wire_head *head,
			      struct ck_str body);
/* Bytes that wait to be sent. */
size_t ck_frames_waiting(const struct ck_frames *f);
/* Sends what waits, as far as there is room. -EPIPE. */
CK_MUST_USE int ck_frames_flush(struct ck_frames *f);
/* Reads what is there. -EPIPE: the other end is gone; -ENOMEM. */
CK_MUST_USE int ck_frames_read(struct ck_frames *f);
/* The next that is whole: 1; 0: there is none. Borrowed until the next call of this or
 * of ck_frames_read(). -EPROTO. */
CK_MUST_USE int ck_frames_next(struct ck_frames *f, struct ck_framed *out);

/* --- the end of the mount -------------------------------------------------------- */

struct ck_link;

/* What its thread does, once around; false: it ends. *dead: false at first, and true once
 * the mover is gone, or said what is no frame. */
CK_MUST_USE bool ck_link_turn(struct ck_link *l, bool *dead);

#endif
