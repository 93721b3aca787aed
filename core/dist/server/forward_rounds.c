/* SPDX-License-Identifier: MIT */
/*
 * forward_rounds: connects the process that runs rounds on this host (the GPU
 * worker) with those of other ranks. Its READs are answered from local files.
 *
 * A rank without such a process, or whose process has refused rounds, sends the
 * message of no_rounds.h once to every rank. All functions run in the messaging
 * thread.
 */
#include "rank_loop_internal.h"

#include <errno.h>
#include <sys/socket.h>

enum {
	OUT_MOST = 8 << 20
}; /* bytes in flight to other ranks; the process waits beyond it */

static bool is_there(const struct ck_serve *s)
{
	return s->ends[CK_FROM_ROUNDS].frames->fd >= 0;
}

/* --- notification that this rank takes no part ---------------------------- */

/* Notifies a rank once, as soon as there is memory for it. */
static void send_refusal(struct ck_serve *s, uint32_t rank)
{
	struct ck_serve_sender *sender = &s->senders[CK_FROM_RANK + rank];

	if (!sender->refusal_sent)
		sender->refusal_sent = ck_serve_send(
			s, rank, CK_WIRE_ROUND,
			(struct ck_str){ s->no_rounds, s->no_rounds_len });
}

static void refuse_all(struct ck_serve *s)
{
	const struct ck_transport *x = s->options->xport;

	for (uint32_t i = 0; x && i < x->size; i++)
		if (i != x->rank)
			send_refusal(s, i);
}

/* --- beginning and end --------------------------------------------------------------------- */

void ck_serve_rounds_begin(struct ck_serve *s)
{
	const struct ck_transport *x = s->options->xport;
	const struct ck_frame frame = { .peer = x ? x->rank : 0,
					.kind = CK_FRAME_JOB,
					.place = x ? x->size : 1,
					.room = s->options->rounds.msec };

	ck_serve_put(s, CK_FROM_ROUNDS, &frame, NULL, CK_STR(""));
	if (s->ends[CK_FROM_ROUNDS].rc)
		ck_serve_rounds_end(s);
	else if (!is_there(s) && s->options->rounds.used)
		refuse_all(s);
}

/* shutdown() ends the link for the process, too. */
void ck_serve_rounds_end(struct ck_serve *s)
{
	(void)shutdown(s->ends[CK_FROM_ROUNDS].frames->fd, SHUT_RDWR);
	ck_serve_end_close(s, CK_FROM_ROUNDS);
	refuse_all(s);
}

/* --- messages of the process ---------------------------------------------- */

bool ck_serve_rounds_wait(const struct ck_serve *s)
{
	return s->rounds > OUT_MOST;
}

void ck_serve_rounds_refuse(struct ck_serve *s, const struct ck_frame *frame,
			    const struct ck_wire_head *asked)
{
	const struct ck_wire_head head = { .type = asked->type,
					   .answer = true,
					   .err = EIO,
					   .id = asked->id,
					   .epoch = asked->epoch };

	ck_serve_put(s, CK_FROM_ROUNDS, frame, &head, CK_STR(""));
}

/* A request of the process may be copied from a message of another rank, so
 * that it may be invalid without a fault of the process. */
static int read_own(struct ck_serve *s, const struct ck_framed *f)
{
	const struct ck_message m = { .head = f->head, .body = f->body };
	uint64_t cost;

	if (ck_file_server_cost(&m, &cost) == 0)
		return ck_serve_request(s, CK_FROM_ROUNDS, f->frame.place,
					f->frame.room, &m);
	ck_serve_rounds_refuse(s, &f->frame, &f->head);
	return 0;
}

/* Keeps the reason why the process takes no part in rounds, its last
 * message. */
static int keep_why(struct ck_serve *s, struct ck_str why)
{
	if (s->no_rounds_len)
		return -EPROTO;
	s->no_rounds_len = ck_no_rounds_put(s->no_rounds, why);
	return 0;
}

int ck_serve_rounds_frame(struct ck_serve *s, const struct ck_framed *f)
{
	const struct ck_transport *x = s->options->xport;
	const struct ck_frame *frame = &f->frame;
	uint32_t rank = x ? x->rank : 0, size = x ? x->size : 1;

	if (frame->kind != CK_FRAME_MESSAGE || frame->peer >= size ||
	    f->head.answer)
		return -EPROTO;
	if (f->head.type == CK_WIRE_ROUND && f->head.body &&
	    ck_no_rounds_is(f->body))
		return keep_why(s, ck_no_rounds_why(f->body));
	if (f->head.type == CK_WIRE_ROUND && frame->peer != rank &&
	    f->head.body)
		return ck_serve_pass(s, f, &s->rounds);
	if (f->head.type != CK_WIRE_READ || frame->peer != rank ||
	    !ck_serve_has_place(s, CK_FROM_ROUNDS, frame))
		return -EPROTO;
	return read_own(s, f);
}

/* --- messages of other ranks ---------------------------------------------- */

void ck_serve_rounds_lost(struct ck_serve *s, uint32_t rank)
{
	const struct ck_frame frame = { .peer = rank, .kind = CK_FRAME_LOST };

	ck_serve_put(s, CK_FROM_ROUNDS, &frame, NULL, CK_STR(""));
}

bool ck_serve_rounds_message(struct ck_serve *s, uint32_t from,
			     const struct ck_message *m)
{
	const struct ck_serve_rounds *r = &s->options->rounds;
	const struct ck_frame frame = { .peer = from,
					.kind = CK_FRAME_MESSAGE };

	if (!r->used && !r->allowed && r->link < 0)
		return false;
	if (m->head.body && is_there(s))
		ck_serve_put(s, CK_FROM_ROUNDS, &frame, &m->head, m->body);
	if (ck_no_rounds_is(m->body))
		ck_serve_rounds_lost(s, from);
	else if (!is_there(s))
		send_refusal(s, from);
	return true;
}
