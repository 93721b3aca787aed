/* SPDX-License-Identifier: MIT */
/*
 * What transports share: parcels that wait, answers that are expected, and what a rank
 * sends to itself. All of it is of the one thread that a transport has.
 */
#ifndef CK_TRANSPORT_INTERNAL_H
#define CK_TRANSPORT_INTERNAL_H

#include "ckptfs/transport.h"
#include "dist_internal.h"

enum { CK_EXPECTED_BUCKETS = 1024 };

/* First in, first out. */
struct ck_parcels {
	struct ck_parcel *first, *last;
};

/* What a transport begins with. */
struct ck_transport_base {
	struct ck_transport x; /* first */
	int event;	       /* of wake(); -1: none yet */
	bool called; /* something of the user's, since wait() cleared it */
	struct ck_parcels own;	   /* to this rank itself */
	struct ck_parcels refused; /* to those that are lost, or nobody */
	size_t nexpected;
	struct ck_expected *expected[CK_EXPECTED_BUCKETS];
};

/* Makes the event. 0 or a negative errno. */
CK_MUST_USE int ck_transport_base_init(struct ck_transport_base *b);
/* All parcels were given back. */
void ck_transport_base_fini(struct ck_transport_base *b);

void ck_parcels_push(struct ck_parcels *q, struct ck_parcel *p);
/* NULL: it is empty. */
struct ck_parcel *ck_parcels_pop(struct ck_parcels *q);

/* Calls sent(). */
void ck_transport_give_back(struct ck_transport_base *b, struct ck_parcel *p,
			    int rc);
/* Gives back all that are in q now, with -EIO; not what comes into it meanwhile. */
void ck_transport_refuse(struct ck_transport_base *b, struct ck_parcels *q);

/* As ck_transport.expect(), of a rank that is not lost. */
CK_MUST_USE int ck_transport_expect(struct ck_transport_base *b, uint32_t from,
				    uint64_t id, uint8_t *to, uint64_t len);
/* Where the payload goes of a message that comes now; NULL: nowhere. It is not expected
 * any more. */
uint8_t *ck_transport_take_expected(struct ck_transport_base *b, uint32_t from,
				    const struct ck_wire_head *h);
void ck_transport_forget(struct ck_transport_base *b, uint32_t from);

/* Calls got(). payload: where that of m is; NULL: it was dropped. */
void ck_transport_got(struct ck_transport_base *b, uint32_t from,
		      struct ck_message *m, const uint8_t *payload);
/* Delivers what this rank has sent to itself. */
void ck_transport_deliver_own(struct ck_transport_base *b);
/* For close(): gives back what is in `own` and `refused`, and what comes meanwhile; every
 * rank is lost by then. */
void ck_transport_refuse_rest(struct ck_transport_base *b);

/* As ck_transport.wake(). */
void ck_transport_wake(struct ck_transport *x);

#endif
