/* SPDX-License-Identifier: MIT */
/*
 * transport_internal: the base of every transport: queued parcels, expected
 * replies, and parcels of a rank to itself. Used by the transport's thread
 * only, except for ck_transport_wake().
 */
#ifndef CK_TRANSPORT_INTERNAL_H
#define CK_TRANSPORT_INTERNAL_H

#include "dist/dist_internal.h"
#include "transport.h"

enum { CK_EXPECTED_BUCKETS = 1024 };

/* A FIFO of parcels. */
struct ck_parcels {
	struct ck_parcel *first, *last;
};

/* The first member of every transport. */
struct ck_transport_base {
	struct ck_transport x; /* first */
	int event;	       /* set by wake(); -1 if not created */
	bool called; /* a callback was called since wait() cleared it */
	struct ck_parcels own;	   /* to the rank itself */
	struct ck_parcels refused; /* to ranks that are lost or do not exist */
	size_t nexpected;	   /* entries of `expected` */
	struct ck_expected *expected[CK_EXPECTED_BUCKETS];
};

/* Zero-initialised but for x. Returns 0, or errors of eventfd(2). */
CK_MUST_USE int ck_transport_base_init(struct ck_transport_base *b);
/* Frees the table and the event. All parcels must have been given back. */
void ck_transport_base_fini(struct ck_transport_base *b);

/* Appends a parcel. */
void ck_parcels_push(struct ck_parcels *q, struct ck_parcel *p);
/* Removes and returns the first parcel; NULL if q is empty. */
struct ck_parcel *ck_parcels_pop(struct ck_parcels *q);

/* Calls sent() of a parcel, with rc. */
void ck_transport_give_back(struct ck_transport_base *b, struct ck_parcel *p,
			    int rc);
/* Gives back all parcels of q with -EIO. Parcels that the callbacks add stay in
 * q. */
void ck_transport_refuse(struct ck_transport_base *b, struct ck_parcels *q);

/* Like ck_transport.expect(), of a rank that is not lost. Returns 0 or
 * -ENOMEM. */
CK_MUST_USE int ck_transport_expect(struct ck_transport_base *b, uint32_t from,
				    uint64_t id, uint8_t *to, uint64_t len);
/* Removes the entry that a message belongs to. Returns the destination of
 * its payload; NULL if there is no entry, no payload, or the payload is too
 * long. */
uint8_t *ck_transport_take_expected(struct ck_transport_base *b, uint32_t from,
				    const struct ck_wire_head *h);
/* Removes all entries of a rank. */
void ck_transport_forget(struct ck_transport_base *b, uint32_t from);

/* Calls got(). payload: where the payload of m is; NULL if it was discarded. */
void ck_transport_got(struct ck_transport_base *b, uint32_t from,
		      struct ck_message *m, const uint8_t *payload);
/* Delivers the parcels in `own`. */
void ck_transport_deliver_own(struct ck_transport_base *b);
/* Empties `own` and `refused` with -EIO, for close(); callbacks may add parcels
 * meanwhile. Every rank must be lost. */
void ck_transport_refuse_rest(struct ck_transport_base *b);

/* Implements ck_transport.wake(). Any thread. */
void ck_transport_wake(struct ck_transport *x);

#endif
