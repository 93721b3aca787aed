/* SPDX-License-Identifier: MIT */
/*
 * forward: routes messages. Requests of the mount go to the local file server
 * or to another rank, and replies go back. Requests of other ranks are answered
 * here. Notes between ranks end mounts and jobs. forward_rounds.c has the
 * messages about rounds.
 *
 * All functions run in the messaging thread. State is in struct ck_serve.
 */
#include "rank_loop_internal.h"

#include <errno.h>

enum { TELL_MSEC = 500 }; /* limit for notes at the end */

/* --- replies of this rank ------------------------------------------------- */

void ck_serve_put(struct ck_serve *s, uint32_t sender,
		  const struct ck_frame *frame, const struct ck_wire_head *head,
		  struct ck_str body)
{
	struct ck_serve_end *e = &s->ends[sender];

	if (e->frames->fd < 0 || e->rc)
		return;
	e->rc = ck_frames_waiting(e->frames) > e->most
			? -EPIPE
			: ck_frames_put(e->frames, frame, head, body);
}

/* A payload longer than the reserved range is an error of the sender, whose
 * request and frame disagree: the mount's link ends, the process of rounds gets
 * EIO. */
static void answer_link(struct ck_serve *s, struct ck_serve_job *j)
{
	struct ck_serve_end *e = &s->ends[j->sender];
	const struct ck_answer *a = &j->answer;
	const struct ck_transport *x = s->options->xport;
	const struct ck_frame frame = { .peer = x ? x->rank : 0,
					.kind = CK_FRAME_MESSAGE,
					.place = j->place,
					.room = j->room };

	if (a->head.payload > j->room) {
		if (j->sender == CK_FROM_ROUNDS)
			ck_serve_rounds_refuse(s, &frame, &a->head);
		else
			e->rc = -EPROTO;
		return;
	}
	if (a->head.payload)
		memcpy(e->memory + j->place, a->payload, a->head.payload);
	ck_serve_put(s, j->sender, &frame, &a->head,
		     (struct ck_str){ a->body.data, a->head.body });
}

static void job_sent(struct ck_parcel *p, int rc)
{
	struct ck_serve_job *j =
		(struct ck_serve_job *)(void *)((char *)p -
						offsetof(struct ck_serve_job,
							 parcel));

	(void)rc;
	ck_serve_job_free(j->serve, j);
}

void ck_serve_answer(struct ck_serve *s, struct ck_serve_job *j)
{
	const struct ck_answer *a = &j->answer;

	if (j->sender < CK_FROM_RANK) {
		if (s->ends[j->sender].frames->fd >= 0)
			answer_link(s, j);
		ck_serve_job_free(s, j);
		return;
	}
	j->serve = s;
	j->parcel = (struct ck_parcel){
		.to = j->sender - CK_FROM_RANK,
		.head = a->head,
		.body = { a->body.data, a->head.body },
		.payload = a->payload,
		.sent = job_sent,
	};
	s->options->xport->send(s->options->xport, &j->parcel);
}

/* --- forwarding ----------------------------------------------------------- */

/* A message from a link, in flight to another rank. */
struct passed {
	struct ck_parcel parcel; /* first */
	uint64_t *unsent;	 /* counts it; may be NULL */
	char body[];
};

static void passed_sent(struct ck_parcel *parcel, int rc)
{
	struct passed *p = (struct passed *)parcel;

	(void)rc; /* the transport reports a lost rank */
	if (p->unsent)
		*p->unsent -= sizeof(*p) + parcel->body.len;
	free(p);
}

int ck_serve_pass(struct ck_serve *s, const struct ck_framed *f,
		  uint64_t *unsent)
{
	struct ck_transport *x = s->options->xport;
	struct passed *p = malloc(sizeof(*p) + f->head.body);

	if (!p)
		return -ENOMEM;
	if (f->head.body)
		memcpy(p->body, f->body.p, f->head.body);
	p->parcel = (struct ck_parcel){ .to = f->frame.peer,
					.head = f->head,
					.body = { p->body, f->head.body },
					.sent = passed_sent };
	p->unsent = unsent;
	if (unsent)
		*unsent += sizeof(*p) + f->head.body;
	x->send(x, &p->parcel);
	return 0;
}

/* --- requests of the mount ------------------------------------------------ */

static void send_lost(struct ck_serve *s, uint32_t rank)
{
	const struct ck_frame frame = { .peer = rank, .kind = CK_FRAME_LOST };

	ck_serve_put(s, CK_FROM_LINK, &frame, NULL, CK_STR(""));
}

/* Enters a forwarded request, and passes the transport the place where its payload
 * goes. */
static int expect(struct ck_serve *s, const struct ck_framed *f)
{
	struct ck_transport *x = s->options->xport;
	const struct ck_frame *frame = &f->frame;
	int rc = ck_forward_table_add(&s->passed, frame->peer, &f->head,
				      frame->room);

	if (rc || frame->room == 0)
		return rc;
	return x->expect(x, frame->peer, f->head.id,
			 s->ends[CK_FROM_LINK].memory + frame->place,
			 frame->room);
}

static int pass_on(struct ck_serve *s, const struct ck_framed *f)
{
	int rc;

	if (ck_forward_table_is_lost(&s->passed, f->frame.peer)) {
		/* A lost rank is reported once only: fail this request, too. */
		send_lost(s, f->frame.peer);
		return 0;
	}
	rc = expect(s, f);
	return rc ? rc : ck_serve_pass(s, f, NULL);
}

/* Drops the connection to a rank that has broken the protocol. */
static void drop(struct ck_serve *s, uint32_t rank)
{
	s->senders[CK_FROM_RANK + rank].dropped = true;
	ck_request_queue_forget(s, CK_FROM_RANK + rank);
	s->options->xport->drop(s->options->xport, rank);
}

/* The mount has received an invalid reply of a rank. */
static int drop_asked(struct ck_serve *s, uint32_t rank)
{
	const struct ck_transport *x = s->options->xport;

	if (!x || rank >= x->size || rank == x->rank)
		return -EPROTO;
	drop(s, rank);
	return 0;
}

bool ck_serve_has_place(const struct ck_serve *s, uint32_t sender,
			const struct ck_frame *frame)
{
	uint64_t end;

	return ck_add(&end, frame->place, frame->room) &&
	       end <= s->ends[sender].size;
}

static int asked(struct ck_serve *s, const struct ck_framed *f)
{
	const struct ck_frame *frame = &f->frame;
	const struct ck_message m = { .head = f->head, .body = f->body };
	uint32_t rank = s->options->xport ? s->options->xport->rank : 0;
	uint32_t size = s->options->xport ? s->options->xport->size : 1;

	if (frame->kind == CK_FRAME_DROP)
		return drop_asked(s, frame->peer);
	if (frame->kind != CK_FRAME_MESSAGE || frame->peer >= size ||
	    f->head.answer || f->head.type >= CK_WIRE_REQUESTS ||
	    !ck_serve_has_place(s, CK_FROM_LINK, frame))
		return -EPROTO;
	if (frame->peer != rank)
		return pass_on(s, f);
	return ck_serve_request(s, CK_FROM_LINK, frame->place, frame->room, &m);
}

static int asked_all(struct ck_serve *s, uint32_t sender)
{
	struct ck_frames *frames = s->ends[sender].frames;
	struct ck_framed f;
	int rc = ck_frames_read(frames), next;

	while ((next = ck_frames_next(frames, &f)) > 0) {
		int one = sender == CK_FROM_LINK ? asked(s, &f)
						 : ck_serve_rounds_frame(s, &f);

		if (one)
			return one;
	}
	return next < 0 ? next : rc;
}

int ck_serve_link(struct ck_serve *s, uint32_t sender, short events)
{
	struct ck_serve_end *e = &s->ends[sender];
	int rc = ck_frames_flush(e->frames);

	if (rc == 0 && !ck_serve_is_full(s, sender))
		rc = asked_all(s, sender);
	else if (rc == 0 && events & (POLLHUP | POLLERR))
		rc = -EPIPE;
	return rc ? rc : e->rc;
}

void ck_serve_end_close(struct ck_serve *s, uint32_t sender)
{
	struct ck_serve_end *e = &s->ends[sender];

	e->frames->fd = -1;
	e->rc = 0;
	ck_frames_fini(e->frames);
	ck_request_queue_forget(s, sender);
}

/* --- notes between ranks -------------------------------------------------- */

/* A note in flight to another rank. */
struct note {
	struct ck_parcel parcel; /* first */
	struct ck_serve *serve;
};

static void note_sent(struct ck_parcel *p, int rc)
{
	(void)rc; /* a lost rank needs no note */
	((struct note *)p)->serve->unsent_notes--;
	free(p);
}

bool ck_serve_send(struct ck_serve *s, uint32_t rank, enum ck_wire_type what,
		   struct ck_str body)
{
	struct ck_transport *x = s->options->xport;
	struct note *n = calloc(1, sizeof(*n));

	if (!n)
		return false;
	n->serve = s;
	n->parcel.to = rank;
	n->parcel.head.type = (uint16_t)what;
	n->parcel.head.body = (uint32_t)body.len;
	n->parcel.body = body;
	n->parcel.sent = note_sent;
	s->unsent_notes++;
	x->send(x, &n->parcel);
	return true;
}

/* A rank that is not notified for want of memory detects the end by itself. */
void ck_serve_notify(struct ck_serve *s, enum ck_wire_type what)
{
	const struct ck_transport *x = s->options->xport;

	for (uint32_t i = 0; x && i < x->size; i++)
		if (i != x->rank)
			(void)ck_serve_send(s, i, what, CK_STR(""));
}

void ck_serve_notify_end(struct ck_serve *s)
{
	struct ck_transport *x = s->options->xport;
	uint64_t end = ck_msec_now() + TELL_MSEC;

	while (s->unsent_notes && ck_msec_now() < end)
		if (x->wait(x, NULL, 0, TELL_MSEC / 10))
			break;
}

void ck_serve_link_end(struct ck_serve *s)
{
	ck_serve_end_close(s, CK_FROM_LINK);
	ck_serve_notify(s, CK_WIRE_UNMOUNTED);
	ck_serve_unmounted(s, s->mounters.self);
}

static void heard_note(struct ck_serve *s, uint32_t from,
		       const struct ck_message *m)
{
	if (m->head.type == CK_WIRE_UNMOUNTED)
		ck_serve_unmounted(s, from);
	else if (m->head.type == CK_WIRE_OVER)
		s->over |= s->options->until != CK_UNTIL_UNMOUNTED;
	else if (!ck_serve_rounds_message(s, from, m))
		drop(s, from);
}

/* --- messages of other ranks ---------------------------------------------- */

/* Forwards a reply to the mount. A rank whose reply matches no request is
 * dropped. A reply whose payload the transport has dropped becomes EIO. */
static void got_answer(struct ck_serve *s, uint32_t from,
		       const struct ck_message *m)
{
	struct ck_frame frame = { .peer = from, .kind = CK_FRAME_MESSAGE };
	struct ck_wire_head head = m->head;

	if (!ck_forward_table_take(&s->passed, from, &head)) {
		drop(s, from);
		return;
	}
	if (m->payload.len != head.payload)
		head = (struct ck_wire_head){ .type = head.type,
					      .answer = true,
					      .err = EIO,
					      .id = head.id,
					      .epoch = head.epoch };
	ck_serve_put(s, CK_FROM_LINK, &frame, &head,
		     (struct ck_str){ m->body.p, head.body });
}

static void got(void *arg, uint32_t from, const struct ck_message *m)
{
	struct ck_serve *s = arg;

	ck_mount_liveness_note(&s->mounters, from, ck_msec_now());
	if (s->senders[CK_FROM_RANK + from].dropped)
		return;
	if (m->head.answer)
		got_answer(s, from, m);
	else if (m->head.type >= CK_WIRE_REQUESTS)
		heard_note(s, from, m);
	else if (ck_serve_request(s, CK_FROM_RANK + from, 0, 0, m))
		/* A request without a reply would never be freed at its
		 * sender. */
		drop(s, from);
}

static void lost(void *arg, uint32_t rank)
{
	struct ck_serve *s = arg;

	ck_request_queue_forget(s, CK_FROM_RANK + rank);
	s->over |= s->options->until == CK_UNTIL_LOST;
	ck_serve_unmounted(s, rank);
	ck_forward_table_lose(&s->passed, rank);
	send_lost(s, rank);
	ck_serve_rounds_lost(s, rank);
}

void ck_serve_join(struct ck_serve *s)
{
	struct ck_transport *x = s->options->xport;

	if (!x)
		return;
	x->arg = s;
	x->got = got;
	x->lost = lost;
}
