/* SPDX-License-Identifier: MIT */
/*
 * receives: messages from other ranks. Messages of a rank are parsed and
 * delivered in order. Up to CK_MPI_INCOMING are in progress: heads are received
 * while the payload of an earlier message is in flight. State: the ring
 * `coming` of each rank. One thread.
 */
#include "mpi_internal.h"

#include <errno.h>

enum { TURN = 32 }; /* messages received per call */

static struct ck_mpi_incoming *nth(struct ck_mpi_rank *r, unsigned n)
{
	return &r->incoming[(r->first + n) % CK_MPI_INCOMING];
}

/* A rank has sent an invalid message. From now on its messages are received and
 * discarded: otherwise MPI would buffer them in this process. */
static void deafen(struct ck_mpi *m, uint32_t rank)
{
	m->ranks[rank].deaf = true;
	ck_mpi_drop(m, rank);
}

/* --- bulk ---------------------------------------------------------------------------------------- */

static bool is_large(const struct ck_mpi_incoming *c)
{
	return c->head.payload > CK_MPI_SMALL;
}

static void piece_done(struct ck_mpi *m, const struct ck_mpi_pending *p, int rc,
		       int count)
{
	struct ck_mpi_rank *r = &m->ranks[p->rank];
	struct ck_mpi_incoming *c = p->what;

	c->pieces--;
	r->awaited -= p->into_users;
	if (rc || count != p->len)
		deafen(m, p->rank);
	if (r->dropped && c->pieces == 0)
		c->to = NULL;
}

/* Receives a piece of c, of that length. Returns 0, -ENOMEM or -EIO. */
static int take_piece(struct ck_mpi *m, uint32_t from,
		      struct ck_mpi_incoming *c, MPI_Message *message, int len)
{
	struct ck_mpi_pending p = { .done = piece_done,
				    .rank = from,
				    .what = c,
				    .len = len,
				    .into_users = c->to };
	MPI_Request request;

	if (!c->to && !c->scrap)
		c->scrap = malloc((size_t)len);
	if (!c->to && !c->scrap)
		return -ENOMEM;
	if (MPI_Imrecv(c->to ? c->to + c->posted : c->scrap, len, MPI_BYTE,
		       message, &request) != MPI_SUCCESS)
		return -EIO;
	ck_mpi_note(m, request, p);
	c->posted += (uint64_t)len;
	c->pieces++;
	m->ranks[from].awaited += p.into_users;
	m->active = true;
	return 0;
}

/* Receives the next piece of c if it has arrived; sets *any then. */
static int look_for_piece(struct ck_mpi *m, uint32_t from,
			  struct ck_mpi_incoming *c, bool *any)
{
	uint64_t want = ck_min(c->head.payload - c->posted, CK_MPI_PIECE);
	MPI_Message message;
	MPI_Status status;
	int flag = 0, len, rc = ck_mpi_reserve(m);

	*any = false;
	if (rc)
		return rc;
	if (MPI_Improbe((int)from, MPI_ANY_TAG, m->bulk, &flag, &message,
			&status) != MPI_SUCCESS)
		return -EIO;
	if (!flag)
		return 0;
	if (MPI_Get_count(&status, MPI_BYTE, &len) != MPI_SUCCESS || len < 0 ||
	    (uint64_t)len != want) {
		deafen(m, from); /* the message is not received */
		return 0;
	}
	*any = true;
	return take_piece(m, from, c, &message, len);
}

/* Several pieces may be in flight into the user's memory, but only one into the
 * discard buffer. */
static bool may_take(const struct ck_mpi_rank *r,
		     const struct ck_mpi_incoming *c)
{
	if (r->deaf || c->posted == c->head.payload)
		return false;
	return c->to ? !r->dropped : c->pieces == 0;
}

/* Pieces are received in the order of their messages, as they are sent. */
static int take_pieces(struct ck_mpi *m, uint32_t from)
{
	struct ck_mpi_rank *r = &m->ranks[from];

	for (unsigned i = 0; i < r->nincoming; i++) {
		struct ck_mpi_incoming *c = nth(r, i);
		bool any = true;
		int rc = 0;

		if (!c->parsed || c->bad || !is_large(c))
			continue;
		while (rc == 0 && any && may_take(r, c))
			rc = look_for_piece(m, from, c, &any);
		if (rc || c->posted < c->head.payload)
			return rc;
	}
	return 0;
}

/* --- control ------------------------------------------------------------------------------------- */

/* Parses a control message. False if it is invalid. */
static bool parse(struct ck_mpi *m, uint32_t from, struct ck_mpi_incoming *c)
{
	struct ck_mpi_rank *r = &m->ranks[from];
	uint64_t len;

	if (c->len == 0)
		return true;
	if (ck_wire_head_get(c->bytes, &c->head))
		return false;
	len = CK_WIRE_HEAD + (uint64_t)c->head.body;
	if (!is_large(c))
		len += c->head.payload;
	if ((uint64_t)c->len != len)
		return false;
	if (!r->dropped)
		c->to = ck_transport_take_expected(&m->b, from, &c->head);
	if (c->to && !is_large(c))
		memcpy(c->to, c->bytes + CK_WIRE_HEAD + c->head.body,
		       c->head.payload);
	return true;
}

static void control_done(struct ck_mpi *m, const struct ck_mpi_pending *p,
			 int rc, int count)
{
	struct ck_mpi_incoming *c = p->what;

	m->ranks[p->rank].receiving = false;
	c->bad |= rc || count != c->len || !parse(m, p->rank, c);
	c->parsed = true;
	m->asked |= !c->head.answer;
}

static void thrown_away(struct ck_mpi *m, const struct ck_mpi_pending *p,
			int rc, int count)
{
	(void)rc, (void)count;
	free(p->what);
	m->ranks[p->rank].receiving = false;
}

static bool is_no_message(int len)
{
	return len < 0 || len > CK_MPI_CONTROL_MAX ||
	       (len > 0 && len < CK_WIRE_HEAD);
}

/* Begins to receive a message of p->len bytes. */
static int begin(struct ck_mpi *m, MPI_Message *message, void *bytes,
		 const struct ck_mpi_pending *p)
{
	MPI_Request request;

	m->ranks[p->rank].receiving = true;
	if (MPI_Imrecv(bytes, p->len, MPI_BYTE, message, &request) !=
	    MPI_SUCCESS)
		return -EIO;
	ck_mpi_note(m, request, *p);
	return 0;
}

/* A message that exceeds the limit is not received: see mpi_internal.h. */
static int throw_away(struct ck_mpi *m, MPI_Message *message,
		      struct ck_mpi_pending *p)
{
	if (p->len < 0 || p->len > CK_MPI_CONTROL_MAX)
		return 0;
	p->done = thrown_away;
	p->what = malloc((size_t)p->len + 1);
	return p->what ? begin(m, message, p->what, p) : -ENOMEM;
}

static int take(struct ck_mpi *m, MPI_Message *message,
		const MPI_Status *status)
{
	struct ck_mpi_pending p = { .done = control_done,
				    .rank = (uint32_t)status->MPI_SOURCE };
	struct ck_mpi_rank *r = &m->ranks[p.rank];
	struct ck_mpi_incoming *c = nth(r, r->nincoming);
	int rc = ck_mpi_reserve(m);

	if (rc)
		return rc;
	m->active = true;
	if (MPI_Get_count(status, MPI_BYTE, &p.len) != MPI_SUCCESS)
		p.len = -EPROTO;
	if (r->deaf)
		return throw_away(m, message, &p);
	*c = (struct ck_mpi_incoming){ .len = p.len,
				       .bad = is_no_message(p.len) };
	p.what = c;
	r->nincoming++;
	if (c->bad)
		return throw_away(m, message, &p);
	c->bytes = malloc((size_t)p.len + 1);
	return c->bytes ? begin(m, message, c->bytes, &p) : -ENOMEM;
}

/* False if the rank's ring is full, or its last message is invalid. */
static bool has_room(struct ck_mpi_rank *r)
{
	if (r->receiving)
		return false;
	if (r->deaf || r->nincoming == 0)
		return true;
	return r->nincoming < CK_MPI_INCOMING && !nth(r, r->nincoming - 1)->bad;
}

static int take_from(struct ck_mpi *m, int source, bool *any)
{
	MPI_Message message;
	MPI_Status status;
	int flag = 0;

	if (MPI_Improbe(source, MPI_ANY_TAG, m->control, &flag, &message,
			&status) != MPI_SUCCESS)
		return -EIO;
	if (!flag)
		return 0;
	*any = true;
	return take(m, &message, &status);
}

/* Receives from any rank while all have room. Otherwise each rank with room is
 * probed on its own, since MPI cannot exclude the others. */
static int take_one(struct ck_mpi *m, bool *any)
{
	bool all = true;
	int rc = 0;

	*any = false;
	for (uint32_t i = 0; i < m->b.x.size; i++)
		all &= has_room(&m->ranks[i]);
	if (all)
		return take_from(m, MPI_ANY_SOURCE, any);
	for (uint32_t i = 0; rc == 0 && i < m->b.x.size; i++)
		if (i != m->b.x.rank && has_room(&m->ranks[i]))
			rc = take_from(m, (int)i, any);
	return rc;
}

int ck_mpi_receive(struct ck_mpi *m)
{
	bool any = true;
	int rc = 0;

	for (unsigned i = 0; i < TURN && any && rc == 0; i++)
		rc = take_one(m, &any);
	return rc;
}

/* --- delivery ---------------------------------------------------------------------------------------- */

static bool is_whole(const struct ck_mpi_rank *r,
		     const struct ck_mpi_incoming *c)
{
	if (c->pieces || (!c->parsed && r->receiving))
		return false;
	if (r->deaf)
		return true;
	return c->parsed && !c->bad &&
	       (!is_large(c) || c->posted == c->head.payload);
}

static void incoming_free(struct ck_mpi_incoming *c)
{
	free(c->bytes);
	free(c->scrap);
}

static void deliver(struct ck_mpi *m, uint32_t from, struct ck_mpi_incoming *c)
{
	struct ck_mpi_rank *r = &m->ranks[from];
	struct ck_message message = { .head = c->head };

	if (r->deaf)
		return;
	if (c->len == 0) {
		r->bye_received = true;
		ck_mpi_drop(m, from);
	} else if (!r->dropped) {
		message.body = (struct ck_str){
			(const char *)c->bytes + CK_WIRE_HEAD, c->head.body
		};
		ck_transport_got(&m->b, from, &message, c->to);
	}
}

static void deliver_whole(struct ck_mpi *m, uint32_t from)
{
	struct ck_mpi_rank *r = &m->ranks[from];

	while (r->nincoming && is_whole(r, nth(r, 0))) {
		struct ck_mpi_incoming c = *nth(r, 0);

		r->first = (r->first + 1) % CK_MPI_INCOMING;
		r->nincoming--;
		deliver(m, from, &c);
		incoming_free(&c);
	}
}

/* Complete messages before an invalid one are delivered. */
int ck_mpi_deliver(struct ck_mpi *m, uint32_t from)
{
	struct ck_mpi_rank *r = &m->ranks[from];

	deliver_whole(m, from);
	if (r->nincoming && nth(r, r->nincoming - 1)->bad && !r->deaf) {
		deafen(m, from);
		deliver_whole(m, from);
	}
	return take_pieces(m, from);
}

void ck_mpi_receives_free(struct ck_mpi *m, uint32_t from)
{
	struct ck_mpi_rank *r = &m->ranks[from];

	for (; r->nincoming; r->nincoming--)
		incoming_free(nth(r, r->nincoming - 1));
}
