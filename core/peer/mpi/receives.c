/* SPDX-License-Identifier: MIT */
/*
 * What comes from other ranks: see mpi_internal.h. Messages of a rank are parsed, and
 * delivered, in their order. A few may be on their way at a time: heads are taken while
 * the payload of the one before is still coming.
 */
#include "mpi_internal.h"

#include <errno.h>

enum { TURN = 32 }; /* messages until it is something else's turn */

static struct ck_mpi_coming *nth(struct ck_mpi_rank *r, unsigned n)
{
	return &r->coming[(r->first + n) % CK_MPI_COMING];
}

/* It has sent what is no message. Whatever it sends is thrown away from now on: left
 * where it is, it would fill the memory of this process. */
static void deafen(struct ck_mpi *m, uint32_t rank)
{
	m->ranks[rank].deaf = true;
	ck_mpi_drop(m, rank);
}

/* --- bulk ---------------------------------------------------------------------------------------- */

static bool is_large(const struct ck_mpi_coming *c)
{
	return c->head.payload > CK_MPI_SMALL;
}

static void piece_came(struct ck_mpi *m, const struct ck_mpi_pending *p, int rc,
		       int count, bool cancelled)
{
	struct ck_mpi_rank *r = &m->ranks[p->rank];
	struct ck_mpi_coming *c = p->what;

	c->pieces--;
	r->awaited -= p->into_users;
	/* It will come, and be thrown away. MPI takes pieces in order, so it is the
	 * last ones that are cancelled. */
	if (cancelled)
		c->posted -= (uint64_t)p->len;
	else if (rc || count != p->len)
		deafen(m, p->rank);
	if (r->dropped && c->pieces == 0)
		c->to = NULL;
}

static int post_piece(struct ck_mpi *m, uint32_t from, struct ck_mpi_coming *c)
{
	int len = (int)ck_min(c->head.payload - c->posted, CK_MPI_PIECE);
	struct ck_mpi_pending p = { .done = piece_came,
				    .rank = from,
				    .what = c,
				    .len = len,
				    .into_users = c->to };
	MPI_Request request;
	int rc = ck_mpi_reserve(m);

	if (rc)
		return rc;
	if (!c->to && !c->scrap)
		c->scrap = malloc((size_t)len);
	if (!c->to && !c->scrap)
		return -ENOMEM;
	if (MPI_Irecv(c->to ? c->to + c->posted : c->scrap, len, MPI_BYTE,
		      (int)from, 0, m->bulk, &request) != MPI_SUCCESS) {
		deafen(m, from);
		return 0;
	}
	ck_mpi_note(m, request, p);
	c->posted += (uint64_t)len;
	c->pieces++;
	m->ranks[from].awaited += p.into_users;
	return 0;
}

/* To where it is expected all pieces are posted at once, into scrap one at a time. */
static bool may_post(const struct ck_mpi_rank *r, const struct ck_mpi_coming *c)
{
	if (r->deaf || c->posted == c->head.payload)
		return false;
	return c->to ? !r->dropped : c->pieces == 0;
}

/* In the order of the messages, as they are sent. */
static int post(struct ck_mpi *m, uint32_t from)
{
	struct ck_mpi_rank *r = &m->ranks[from];

	for (unsigned i = 0; i < r->ncoming; i++) {
		struct ck_mpi_coming *c = nth(r, i);
		int rc = 0;

		if (!c->parsed || c->bad || !is_large(c))
			continue;
		while (rc == 0 && may_post(r, c))
			rc = post_piece(m, from, c);
		if (rc || c->posted < c->head.payload)
			return rc;
	}
	return 0;
}

/* --- control ------------------------------------------------------------------------------------- */

/* False: it is no message. */
static bool parse(struct ck_mpi *m, uint32_t from, struct ck_mpi_coming *c)
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
		c->to = ck_xport_take_expected(&m->b, from, &c->head);
	if (c->to && !is_large(c))
		memcpy(c->to, c->bytes + CK_WIRE_HEAD + c->head.body,
		       c->head.payload);
	return true;
}

static void control_came(struct ck_mpi *m, const struct ck_mpi_pending *p,
			 int rc, int count, bool cancelled)
{
	struct ck_mpi_coming *c = p->what;

	(void)cancelled;
	m->ranks[p->rank].receiving = false;
	c->bad |= rc || count != c->len || !parse(m, p->rank, c);
	c->parsed = true;
}

static void thrown_away(struct ck_mpi *m, const struct ck_mpi_pending *p,
			int rc, int count, bool cancelled)
{
	(void)rc, (void)count, (void)cancelled; /* it was cut */
	m->ranks[p->rank].receiving = false;
}

static bool is_no_message(int len)
{
	return len < 0 || len > CK_MPI_CONTROL_MAX ||
	       (len > 0 && len < CK_WIRE_HEAD);
}

/* Where a message of len bytes goes. */
static struct ck_mpi_coming *make_coming(struct ck_mpi_rank *r, int len)
{
	struct ck_mpi_coming *c = nth(r, r->ncoming);

	*c = (struct ck_mpi_coming){ .len = len, .bad = is_no_message(len) };
	if (c->bad)
		c->len = 0;
	c->bytes = malloc((size_t)c->len + 1);
	if (!c->bytes)
		return NULL;
	r->ncoming++;
	return c;
}

static int take(struct ck_mpi *m, MPI_Message *message,
		const MPI_Status *status)
{
	struct ck_mpi_pending p = { .done = thrown_away,
				    .rank = (uint32_t)status->MPI_SOURCE };
	struct ck_mpi_rank *r = &m->ranks[p.rank];
	struct ck_mpi_coming *c = NULL;
	MPI_Request request;
	int len, rc = ck_mpi_reserve(m);

	if (rc)
		return rc;
	if (!r->deaf) {
		if (MPI_Get_count(status, MPI_BYTE, &len) != MPI_SUCCESS)
			len = -EPROTO;
		c = make_coming(r, len);
		if (!c)
			return -ENOMEM;
		p.what = c;
		p.done = control_came;
	}
	m->active = true;
	r->receiving = true;
	if (MPI_Imrecv(c ? c->bytes : NULL, c ? c->len : 0, MPI_BYTE, message,
		       &request) != MPI_SUCCESS)
		return -EIO;
	ck_mpi_note(m, request, p);
	return 0;
}

/* What comes behind something that is no message is not looked at. */
static bool has_room(struct ck_mpi_rank *r)
{
	if (r->receiving)
		return false;
	if (r->deaf || r->ncoming == 0)
		return true;
	return r->ncoming < CK_MPI_COMING && !nth(r, r->ncoming - 1)->bad;
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

/* Takes from anybody as long as there is room for messages of all: else one that has
 * none would have to be left out. */
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

static bool is_whole(const struct ck_mpi_rank *r, const struct ck_mpi_coming *c)
{
	if (c->pieces)
		return false;
	if (!c->parsed)
		return r->deaf && !r->receiving;
	return r->deaf || !is_large(c) || c->posted == c->head.payload;
}

static void coming_free(struct ck_mpi_coming *c)
{
	free(c->bytes);
	free(c->scrap);
}

static void deliver(struct ck_mpi *m, uint32_t from, struct ck_mpi_coming *c)
{
	struct ck_mpi_rank *r = &m->ranks[from];
	struct ck_message message = { .head = c->head };

	if (c->bad) {
		deafen(m, from);
	} else if (c->len == 0) {
		r->bye_came = true;
		ck_mpi_drop(m, from);
	} else if (!r->dropped) {
		message.body = (struct ck_str){
			(const char *)c->bytes + CK_WIRE_HEAD, c->head.body
		};
		ck_xport_got(&m->b, from, &message, c->to);
	}
}

int ck_mpi_deliver(struct ck_mpi *m, uint32_t from)
{
	struct ck_mpi_rank *r = &m->ranks[from];

	while (r->ncoming && is_whole(r, nth(r, 0))) {
		struct ck_mpi_coming c = *nth(r, 0);

		r->first = (r->first + 1) % CK_MPI_COMING;
		r->ncoming--;
		deliver(m, from, &c);
		coming_free(&c);
	}
	return post(m, from);
}

void ck_mpi_receives_free(struct ck_mpi *m, uint32_t from)
{
	struct ck_mpi_rank *r = &m->ranks[from];

	for (; r->ncoming; r->ncoming--)
		coming_free(nth(r, r->ncoming - 1));
}
