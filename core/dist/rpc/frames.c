/* SPDX-License-Identifier: MIT */
/*
 * frames: buffers of one end of a link. Sending never blocks: bytes that the
 * socket does not accept stay in `out` for ck_frames_flush(). Received bytes
 * stay in `in` until a frame is complete. No thread of its own.
 */
#include "link_internal.h"

#include <errno.h>
#include <sys/socket.h>

void ck_frames_fini(struct ck_frames *f)
{
	ck_buf_fini(&f->in);
	ck_buf_fini(&f->out);
	f->taken = f->sent = 0;
}

/* --- out ----------------------------------------------------------------------------- */

size_t ck_frames_waiting(const struct ck_frames *f)
{
	return f->out.len - f->sent;
}

/* Removes sent bytes from the buffer once they outnumber the unsent ones. */
static void drop_sent(struct ck_frames *f)
{
	size_t waiting = ck_frames_waiting(f);

	if (f->sent < waiting || f->sent == 0)
		return;
	memmove(f->out.data, f->out.data + f->sent, waiting);
	f->out.len = waiting;
	f->sent = 0;
}

static int send_all(struct ck_frames *f)
{
	while (f->sent < f->out.len) {
		ssize_t n = send(f->fd, f->out.data + f->sent,
				 f->out.len - f->sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return -EPIPE;
		f->sent += (size_t)n;
	}
	return 0;
}

int ck_frames_flush(struct ck_frames *f)
{
	int rc = send_all(f);

	drop_sent(f);
	return rc;
}

int ck_frames_put(struct ck_frames *f, const struct ck_frame *frame,
		  const struct ck_wire_head *head, struct ck_str body)
{
	uint8_t bytes[CK_WIRE_HEAD];
	size_t before = f->out.len;

	ck_buf_u32(&f->out, frame->peer);
	ck_buf_u32(&f->out, frame->kind);
	ck_buf_u64(&f->out, frame->place);
	ck_buf_u64(&f->out, frame->room);
	if (head) {
		ck_wire_head_put(head, bytes);
		ck_buf_add(&f->out, bytes, sizeof(bytes));
		ck_buf_str(&f->out, body);
	}
	if (f->out.err) {
		f->out.err = 0;
		f->out.len = before;
		return -ENOMEM;
	}
	return ck_frames_flush(f);
}

/* --- in ------------------------------------------------------------------------------ */

/* Removes consumed bytes from the buffer. */
static void move_up(struct ck_frames *f)
{
	if (f->taken == 0)
		return;
	f->in.len -= f->taken;
	memmove(f->in.data, f->in.data + f->taken, f->in.len);
	f->taken = 0;
}

int ck_frames_read(struct ck_frames *f)
{
	ssize_t n;

	move_up(f);
	do {
		n = recv(f->fd, f->step, sizeof(f->step), MSG_DONTWAIT);
		if (n > 0)
			ck_buf_add(&f->in, f->step, (size_t)n);
	} while ((n > 0 && !f->in.err && f->in.len < 2 * CK_WIRE_BODY_MAX) ||
		 (n < 0 && errno == EINTR));
	if (f->in.err)
		return -ENOMEM;
	if (n == 0 || (n < 0 && errno != EAGAIN))
		return -EPIPE;
	return 0;
}

static bool frame_get(struct ck_cur *c, struct ck_frame *out)
{
	return ck_cur_u32(c, &out->peer) && ck_cur_u32(c, &out->kind) &&
	       ck_cur_u64(c, &out->place) && ck_cur_u64(c, &out->room);
}

static int message_get(struct ck_cur *c, struct ck_framed *out)
{
	struct ck_str head;
	int rc;

	if (!ck_cur_bytes(c, CK_WIRE_HEAD, &head))
		return 0;
	rc = ck_wire_head_get((const uint8_t *)head.p, &out->head);
	if (rc)
		return rc;
	return ck_cur_bytes(c, out->head.body, &out->body);
}

int ck_frames_next(struct ck_frames *f, struct ck_framed *out)
{
	size_t all = f->in.len - f->taken;
	struct ck_cur c;
	int rc = 1;

	*out = (struct ck_framed){ 0 };
	if (all == 0)
		return 0; /* in.data may be NULL */
	c = ck_cur_make(f->in.data + f->taken, all);
	if (!frame_get(&c, &out->frame))
		return 0;
	if (out->frame.kind == 0 || out->frame.kind >= CK_FRAME_KINDS)
		return -EPROTO;
	if (out->frame.kind == CK_FRAME_MESSAGE)
		rc = message_get(&c, out);
	if (rc > 0)
		f->taken += all - ck_cur_left(&c);
	return rc;
}
