/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the MPI transport share: transport_mpi.c (beginning, waiting, the end),
 * requests.c (what MPI has begun), sends.c and receives.c.
 *
 * On the wire, between two ranks:
 *
 *	control	a message of MPI for each parcel: head, body, and the payload if it is
 *		small. One of no bytes is a goodbye: the sender has lost the receiver, or
 *		is closed, and sends nothing more. Who gets a goodbye answers with his own
 *		when he has nothing more to send, and until then the other one takes, and
 *		throws away, what was on its way.
 *	bulk	large payloads, in the order of their heads, cut into pieces. They are
 *		received when the head is there. Nothing is posted before, with the
 *		request: a large message of MPI only moves when both sides know of it,
 *		either way; a small payload comes with its head; and nothing has to be
 *		taken back if an answer has no payload, or a rank is lost.
 *
 * MPI keeps the order of messages between two ranks on each of the two.
 *
 * Everything is received by its length, which MPI_Improbe() says: OpenMPI 4.1 writes
 * behind the end of memory that is too short for a large message, and only then says that
 * it was cut. A message that is longer than any may be is left where it is.
 */
#ifndef CK_MPI_INTERNAL_H
#define CK_MPI_INTERNAL_H

#include "transport_internal.h"

#include <mpi.h>

enum {
	CK_MPI_SMALL =
		32 << 10,	/* bytes of a payload that goes with its head */
	CK_MPI_PIECE = 4 << 20, /* bytes */
	CK_MPI_CONTROL_MAX = CK_WIRE_HEAD + CK_WIRE_BODY_MAX + CK_MPI_SMALL,
	CK_MPI_FLYING = 4, /* pieces on their way to a rank */
	CK_MPI_COMING = 4, /* messages of a rank on their way */
	CK_MPI_LINGER =
		1000, /* msec until a lost rank's parcels do not count */
};

struct ck_mpi;

/* What is to be done when MPI is done with something. */
struct ck_mpi_pending {
	/* rc: 0, or -EIO; count: bytes. */
	void (*done)(struct ck_mpi *m, const struct ck_mpi_pending *p, int rc,
		     int count);
	uint32_t rank;
	void *what; /* of done() */
	int len;
	bool into_users; /* it receives into the user's memory */
};

/* A parcel with a large payload, of which MPI has pieces. */
struct ck_mpi_flight {
	struct ck_parcel *p;
	uint64_t begun;	 /* bytes of the payload */
	unsigned pieces; /* that MPI has */
	int rc;
};

/* A message that is coming. */
struct ck_mpi_coming {
	uint8_t *bytes; /* what control brings; owned */
	int len;
	bool parsed; /* that is there, and the head holds; a goodbye has none */
	bool bad;    /* it is no message */
	struct ck_wire_head head;
	uint8_t *to;	 /* where its payload goes; NULL: nowhere */
	uint8_t *scrap;	 /* then a large one goes there; owned */
	uint64_t posted; /* bytes of a large payload that MPI receives or has */
	unsigned pieces; /* that it receives */
};

struct ck_mpi_rank {
	struct ck_parcels out;
	struct ck_mpi_flight *flight; /* of the first; NULL: none yet */
	unsigned flying;	      /* pieces */
	unsigned flights;	      /* parcels of which MPI has something */
	size_t unmatched; /* bytes of control since one that had to be matched */
	bool matching;	  /* one that has to be matched is on its way */

	struct ck_mpi_coming coming[CK_MPI_COMING];
	unsigned first, ncoming;
	bool receiving; /* what control brings of the last one, or is thrown away */
	unsigned awaited; /* pieces on their way into the user's memory */

	bool dropped; /* nothing of it is delivered, nothing new is sent to it */
	uint64_t when; /* in milliseconds */
	bool told;     /* lost() was called */
	bool deaf;     /* has sent what is no message: nothing of it is read */
	bool bye_came, bye_sent, bye_matched;
};

struct ck_mpi {
	struct ck_transport_base b; /* first */
	MPI_Comm control, bulk;
	bool active;	    /* something happened since it was last cleared */
	uint64_t active_at; /* nanoseconds */
	bool asked; /* another rank has asked since it was last cleared */
	uint64_t asked_at;     /* nanoseconds */
	uint64_t polled_at;    /* nanoseconds */
	struct pollfd *polled; /* the event, and those of `also` */
	size_t polled_cap;
	/* What MPI has begun: cap each. */
	size_t nrequests, cap;
	MPI_Request *requests;
	struct ck_mpi_pending *pending;
	int *indices;
	MPI_Status *statuses;
	struct ck_mpi_rank ranks[];
};

/* --- requests.c: all return 0, -ENOMEM, or -EIO: MPI works no more ------------------------ */

/* Room for one more request: before MPI begins it. */
CK_MUST_USE int ck_mpi_reserve(struct ck_mpi *m);
void ck_mpi_note(struct ck_mpi *m, MPI_Request request,
		 struct ck_mpi_pending pending);
/* Does what is to be done with those that MPI is done with. */
CK_MUST_USE int ck_mpi_test(struct ck_mpi *m);
void ck_mpi_requests_free(struct ck_mpi *m);

/* --- sends.c --------------------------------------------------------------------------------- */

/* Begins what can be begun. */
CK_MUST_USE int ck_mpi_send(struct ck_mpi *m, uint32_t to);
/* Gives back what MPI has not begun with. */
void ck_mpi_refuse(struct ck_mpi *m, uint32_t to);
CK_MUST_USE int ck_mpi_say_bye(struct ck_mpi *m, uint32_t to);
/* Gives back what MPI still has; no function of MPI is called any more. */
void ck_mpi_abandon(struct ck_mpi *m);

/* --- receives.c ------------------------------------------------------------------------------ */

/* Takes messages that are there. */
CK_MUST_USE int ck_mpi_receive(struct ck_mpi *m);
/* Delivers those of a rank that are whole, and has more come. */
CK_MUST_USE int ck_mpi_deliver(struct ck_mpi *m, uint32_t from);
/* Frees what has not come. */
void ck_mpi_receives_free(struct ck_mpi *m, uint32_t from);

/* --- transport_mpi.c ------------------------------------------------------------------------------ */

/* Nothing more is wanted of a rank. Calls nobody. */
void ck_mpi_drop(struct ck_mpi *m, uint32_t rank);

#endif
