/* SPDX-License-Identifier: MIT */
/*
 * sends: messages to other ranks. Control messages are copied, so that a parcel
 * with a small payload, or without one, is given back as soon as MPI has the copy. A
 * send cannot be cancelled (MPI_Cancel has no effect on one), and a send to a
 * dead rank never completes.
 *
 * State: the queue `out` of each rank, and the pieces of its first parcel in
 * flight. One thread.
 */
#include "mpi_internal.h"

#include <errno.h>

/* Bytes of control messages that MPI may buffer for a rank that does not
 * receive, approximately. Beyond that a synchronous send (MPI_Issend) is used,
 * which completes when the rank has received it. */
enum { UNMATCHED_MAX = 256 << 10 };

/* --- control --------------------------------------------------------------------------------- */

static void control_done(struct ck_mpi *m, const struct ck_mpi_pending *p,
			 int rc, int count)
{
	(void)count;
	free(p->what);
	if (rc)
		ck_mpi_drop(m, p->rank);
}

static void matched_done(struct ck_mpi *m, const struct ck_mpi_pending *p,
			 int rc, int count)
{
	m->ranks[p->rank].matching = false;
	control_done(m, p, rc, count);
}

static bool is_small(const struct ck_parcel *p)
{
	return p->head.payload <= CK_MPI_SMALL;
}

static size_t control_bytes(const struct ck_parcel *p)
{
	return CK_WIRE_HEAD + p->head.body +
	       (is_small(p) ? p->head.payload : 0);
}

/* Copies the control message of a parcel. Returns NULL if out of memory; *len:
 * bytes. */
static uint8_t *make_control(const struct ck_parcel *p, int *len)
{
	uint8_t *bytes = malloc(control_bytes(p));

	*len = (int)control_bytes(p);
	if (!bytes)
		return NULL;
	ck_wire_head_put(&p->head, bytes);
	if (p->head.body)
		memcpy(bytes + CK_WIRE_HEAD, p->body.p, p->head.body);
	if (is_small(p) && p->head.payload)
		memcpy(bytes + CK_WIRE_HEAD + p->head.body, p->payload,
		       p->head.payload);
	return bytes;
}

/* Sends a control message, and takes ownership of bytes. There must be room for
 * a request. */
static void begin_control(struct ck_mpi *m, uint32_t to, uint8_t *bytes,
			  int len)
{
	struct ck_mpi_rank *r = &m->ranks[to];
	struct ck_mpi_pending p = { .done = control_done,
				    .rank = to,
				    .what = bytes };
	MPI_Request request;
	int rc;

	r->unmatched += (size_t)len;
	if (r->unmatched > UNMATCHED_MAX) {
		r->unmatched = 0;
		r->matching = true;
		p.done = matched_done;
		rc = MPI_Issend(bytes, len, MPI_BYTE, (int)to, 0, m->control,
				&request);
	} else {
		rc = MPI_Isend(bytes, len, MPI_BYTE, (int)to, 0, m->control,
			       &request);
	}
	m->active = true;
	if (rc == MPI_SUCCESS)
		ck_mpi_note(m, request, p);
	else
		p.done(m, &p, -EIO, 0);
}

static int send_control(struct ck_mpi *m, uint32_t to,
			const struct ck_parcel *p)
{
	int len, rc = ck_mpi_reserve(m);
	uint8_t *bytes;

	if (rc)
		return rc;
	bytes = make_control(p, &len);
	if (!bytes)
		return -ENOMEM;
	begin_control(m, to, bytes, len);
	return 0;
}

/* True if the next parcel must wait for the synchronous send in flight. */
static bool is_full(const struct ck_mpi_rank *r)
{
	return r->matching &&
	       r->unmatched + control_bytes(r->out.first) > UNMATCHED_MAX;
}

static void bye_done(struct ck_mpi *m, const struct ck_mpi_pending *p, int rc,
		     int count)
{
	(void)rc, (void)count;
	m->ranks[p->rank].bye_matched = true;
}

/* Sends the goodbye as a synchronous message: once it completes, nothing of
 * this rank is in flight, and the process may exit. */
int ck_mpi_send_bye(struct ck_mpi *m, uint32_t to)
{
	struct ck_mpi_pending p = { .done = bye_done, .rank = to };
	MPI_Request request;
	int rc = ck_mpi_reserve(m);

	if (rc)
		return rc;
	m->ranks[to].bye_sent = true;
	if (MPI_Issend(NULL, 0, MPI_BYTE, (int)to, 0, m->control, &request) ==
	    MPI_SUCCESS)
		ck_mpi_note(m, request, p);
	return 0;
}

/* --- bulk --------------------------------------------------------------------------------------- */

/* True if MPI has completed all pieces. */
static bool has_landed(const struct ck_mpi_payload *f)
{
	return f->pieces == 0 && f->begun == f->p->head.payload;
}

static void land(struct ck_mpi *m, struct ck_mpi_payload *f)
{
	struct ck_parcel *p = f->p;
	int rc = f->rc;

	m->ranks[p->to].parcels_out--;
	free(f);
	ck_transport_give_back(&m->b, p, rc);
}

static void piece_done(struct ck_mpi *m, const struct ck_mpi_pending *p, int rc,
		       int count)
{
	struct ck_mpi_payload *f = p->what;

	(void)count;
	f->pieces--;
	m->ranks[p->rank].pieces_out--;
	if (rc) {
		f->rc = -EIO;
		ck_mpi_drop(m, p->rank);
	}
	if (has_landed(f))
		land(m, f);
}

static int begin_piece(struct ck_mpi *m, uint32_t to, struct ck_mpi_payload *f)
{
	int len = (int)ck_min(f->p->head.payload - f->begun, CK_MPI_PIECE);
	const uint8_t *bytes = f->p->payload + f->begun;
	struct ck_mpi_pending p = { .done = piece_done, .rank = to, .what = f };
	MPI_Request request;
	int rc = ck_mpi_reserve(m);

	if (rc)
		return rc;
	f->begun += (uint64_t)len;
	f->pieces++;
	m->ranks[to].pieces_out++;
	m->active = true;
	if (MPI_Isend(bytes, len, MPI_BYTE, (int)to, 0, m->bulk, &request) ==
	    MPI_SUCCESS)
		ck_mpi_note(m, request, p);
	else
		piece_done(m, &p, -EIO, 0);
	return 0;
}

/* --- parcels ------------------------------------------------------------------------------------- */

/* Sends the head of a parcel with a large payload. Returns 0, -ENOMEM or
 * -EIO. */
static int begin_payload(struct ck_mpi *m, uint32_t to, struct ck_parcel *p)
{
	struct ck_mpi_rank *r = &m->ranks[to];
	int rc;

	r->payload_out = calloc(1, sizeof(*r->payload_out));
	if (!r->payload_out)
		return -ENOMEM;
	rc = send_control(m, to, p);
	if (rc) {
		free(r->payload_out);
		r->payload_out = NULL;
		return rc;
	}
	r->payload_out->p = p;
	r->parcels_out++;
	return 0;
}

/* Sends the first parcel, or pieces of it. *more: it was removed from the
 * queue. */
static int send_first(struct ck_mpi *m, uint32_t to, bool *more)
{
	struct ck_mpi_rank *r = &m->ranks[to];
	struct ck_parcel *p = r->out.first;
	int rc = 0;

	*more = false;
	if (!r->payload_out && is_full(r))
		return 0;
	if (is_small(p)) {
		rc = send_control(m, to, p);
		*more = rc == 0;
		if (rc == 0)
			ck_transport_give_back(&m->b, ck_parcels_pop(&r->out),
					       0);
		return rc;
	}
	if (!r->payload_out)
		rc = begin_payload(m, to, p);
	while (rc == 0 && r->pieces_out < CK_MPI_FLYING &&
	       r->payload_out->begun < p->head.payload)
		rc = begin_piece(m, to, r->payload_out);
	if (rc == 0 && r->payload_out->begun == p->head.payload) {
		(void)ck_parcels_pop(&r->out);
		r->payload_out = NULL;
		*more = true;
	}
	return rc;
}

/* A parcel whose head was sent is completed even to a dropped rank, which waits
 * for its payload. */
int ck_mpi_send(struct ck_mpi *m, uint32_t to)
{
	struct ck_mpi_rank *r = &m->ranks[to];
	bool more = true;
	int rc = 0;

	while (rc == 0 && more && r->out.first &&
	       (!r->dropped || r->payload_out))
		rc = send_first(m, to, &more);
	return rc;
}

void ck_mpi_refuse(struct ck_mpi *m, uint32_t to)
{
	struct ck_mpi_rank *r = &m->ranks[to];
	struct ck_parcels rest = r->out;

	if (r->payload_out) {
		struct ck_parcel *first = ck_parcels_pop(&rest);

		r->out = (struct ck_parcels){ 0 };
		ck_parcels_push(&r->out, first);
	} else {
		r->out = (struct ck_parcels){ 0 };
	}
	ck_transport_refuse(&m->b, &rest);
}

void ck_mpi_abandon(struct ck_mpi *m)
{
	for (uint32_t i = 0; i < m->b.x.size; i++) {
		struct ck_mpi_rank *r = &m->ranks[i];

		if (!r->payload_out)
			continue;
		(void)ck_parcels_pop(&r->out);
		r->payload_out->begun = r->payload_out->p->head.payload;
		r->payload_out->rc = -EIO;
		if (has_landed(r->payload_out))
			land(m, r->payload_out);
		r->payload_out = NULL;
	}
	for (size_t i = 0; i < m->nrequests; i++) {
		const struct ck_mpi_pending *p = &m->pending[i];

		if (p->done == piece_done)
			piece_done(m, p, -EIO, 0);
	}
}
