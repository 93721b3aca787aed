/* SPDX-License-Identifier: MIT */
/*
 * mpi_internal: the MPI transport: transport_mpi.c (start, event loop, end),
 * requests.c (MPI requests in progress), sends.c and receives.c. One thread;
 * the files call each other in a cycle: they are one object.
 *
 * Between two ranks there are two channels, each a communicator:
 *
 *	control	an MPI message for each parcel: head, body, and the payload if it is
 *		small. A message of 0 bytes is a goodbye: the sender has given up the
 *		receiver, or is closed, and sends nothing more. The receiver answers
 *		with its own goodbye once it has nothing more to send. Until then
 *		messages that arrive are received and discarded.
 *	bulk	large payloads, in the order of their heads, split into pieces. A
 *		piece is received after its head has arrived. Posting the receive
 *		with the request would not help: MPI moves a large message only when
 *		both sides know of it; and it could not be cancelled if a reply has
 *		no payload or a rank is lost.
 *
 * MPI keeps the order of messages between two ranks on each channel.
 *
 * The length of a message is always taken from MPI_Improbe() before it is
 * received. OpenMPI 4.1 writes behind the end of a buffer that is too short for
 * a large message, and reports the truncation only then. A message that exceeds
 * the limits of the protocol is not received.
 */
#ifndef CK_MPI_INTERNAL_H
#define CK_MPI_INTERNAL_H

#include "dist/transport/transport_internal.h"

#include <mpi.h>

enum {
	/* most bytes of a payload that is sent with its head */
	CK_MPI_SMALL = 32 << 10,
	CK_MPI_PIECE = 4 << 20, /* bytes */
	CK_MPI_CONTROL_MAX = CK_WIRE_HEAD + CK_WIRE_BODY_MAX + CK_MPI_SMALL,
	CK_MPI_FLYING = 4,   /* pieces in flight to a rank */
	CK_MPI_INCOMING = 4, /* messages of a rank in progress */
	/* ms until parcels to a lost rank no longer delay lost() */
	CK_MPI_LINGER = 1000,
};

struct ck_mpi;

/* The action when an MPI request completes. */
struct ck_mpi_pending {
	/* rc: 0, or -EIO; count: bytes. */
	void (*done)(struct ck_mpi *m, const struct ck_mpi_pending *p, int rc,
		     int count);
	uint32_t rank;
	void *what; /* argument of done() */
	int len;
	bool into_users; /* the buffer is the user's memory */
};

/* A parcel with a large payload, some pieces of which are in flight. */
struct ck_mpi_payload {
	struct ck_parcel *p;
	uint64_t begun;	 /* bytes of the payload sent or in flight */
	unsigned pieces; /* in flight */
	int rc;
};

/* A message being received. */
struct ck_mpi_incoming {
	uint8_t *bytes; /* the control message; owned */
	int len;
	bool parsed; /* the head is valid; not set in a goodbye */
	bool bad;    /* not a valid message */
	struct ck_wire_head head;
	uint8_t *to; /* destination of the payload; NULL if it is discarded */
	uint8_t *scrap;	 /* buffer for a discarded large payload; owned */
	uint64_t posted; /* bytes of a large payload received or in flight */
	unsigned pieces; /* pieces in flight */
};

struct ck_mpi_rank {
	struct ck_parcels out;
	/* of the first parcel; NULL if not begun */
	struct ck_mpi_payload *payload_out;
	unsigned pieces_out;  /* pieces in flight */
	unsigned parcels_out; /* parcels of which MPI has pieces */
	size_t unmatched; /* control bytes since the last synchronous send */
	bool matching;	  /* a synchronous send is in flight */

	struct ck_mpi_incoming incoming[CK_MPI_INCOMING];
	unsigned first, nincoming;
	/* a control message is being received, to be parsed or discarded */
	bool receiving;
	unsigned awaited; /* pieces in flight into the user's memory */

	/* nothing is delivered from it, and nothing new is sent to it */
	bool dropped;
	uint64_t when; /* when it was dropped, ms */
	bool reported; /* lost() was called */
	/* has sent an invalid message: all further ones are discarded */
	bool deaf;
	bool bye_received, bye_sent, bye_matched;
};

struct ck_mpi {
	struct ck_transport_base b; /* first */
	MPI_Comm control, bulk;
	bool active;	    /* something has happened; cleared by rest() */
	uint64_t active_at; /* ns */
	bool asked; /* another rank has sent a request; cleared by rest() */
	uint64_t asked_at;     /* ns */
	uint64_t polled_at;    /* ns */
	struct pollfd *polled; /* the event, and the caller's descriptors */
	size_t polled_cap;
	/* MPI requests in progress; each array has room for cap: */
	size_t nrequests, cap;
	MPI_Request *requests;
	struct ck_mpi_pending *pending;
	int *indices;
	MPI_Status *statuses;
	struct ck_mpi_rank ranks[];
};

/* --- requests.c: all return 0, -ENOMEM, or -EIO if MPI has failed --------- */

/* Makes room for one more request. Called before the MPI call that begins
 * it. */
CK_MUST_USE int ck_mpi_reserve(struct ck_mpi *m);
/* Adds a request. ck_mpi_reserve() must have returned 0 before. */
void ck_mpi_note(struct ck_mpi *m, MPI_Request request,
		 struct ck_mpi_pending pending);
/* Calls done() of all completed requests. */
CK_MUST_USE int ck_mpi_test(struct ck_mpi *m);
void ck_mpi_requests_free(struct ck_mpi *m);

/* --- sends.c -------------------------------------------------------------- */

/* Sends queued parcels to a rank as far as possible. Returns 0, or: -ENOMEM;
 * -EIO if MPI has failed. */
CK_MUST_USE int ck_mpi_send(struct ck_mpi *m, uint32_t to);
/* Gives back with -EIO the parcels to a rank that MPI has not begun to send. */
void ck_mpi_refuse(struct ck_mpi *m, uint32_t to);
/* Sends a goodbye. Returns 0 or -ENOMEM. */
CK_MUST_USE int ck_mpi_send_bye(struct ck_mpi *m, uint32_t to);
/* Gives back with -EIO the parcels that MPI still has. No function of MPI may
 * be called afterwards for messages. */
void ck_mpi_abandon(struct ck_mpi *m);

/* --- receives.c: all return 0, -ENOMEM, or -EIO if MPI has failed --------- */

/* Begins to receive control messages that have arrived. */
CK_MUST_USE int ck_mpi_receive(struct ck_mpi *m);
/* Delivers the complete messages of a rank, and continues to receive its large
 * payloads. */
CK_MUST_USE int ck_mpi_deliver(struct ck_mpi *m, uint32_t from);
/* Frees the messages of a rank that are incomplete. */
void ck_mpi_receives_free(struct ck_mpi *m, uint32_t from);

/* --- transport_mpi.c ------------------------------------------------------------------------------ */

/* Marks a rank as dropped: see ck_mpi_rank.dropped. Calls no callback. */
void ck_mpi_drop(struct ck_mpi *m, uint32_t rank);

#endif
