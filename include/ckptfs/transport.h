/* SPDX-License-Identifier: MIT */
/*
 * transport: carries messages between the processes of one job, its ranks. There are several
 * transports, and nothing here is of one of them. All functions but wake() are for one
 * thread, in which all callbacks are called. Callbacks may call send(), expect(), drop()
 * and wake(), and nothing else. A rank may send to itself.
 */
#ifndef CKPTFS_TRANSPORT_H
#define CKPTFS_TRANSPORT_H

#include "ckptfs/wire.h"

#include <poll.h>

/* A message on its way out. What it consists of stays as it is until sent(). */
struct ck_parcel {
	uint32_t to; /* rank */
	struct ck_wire_head head;
	struct ck_str body;	/* head.body bytes */
	const uint8_t *payload; /* head.payload bytes */
	/* Once, from send(), wait() or close(): the parcel is the caller's again. rc:
	 * 0, which does not say that it arrived, or -EIO: it did not, for the rank is
	 * lost, or there is none, or the transport is closed. */
	void (*sent)(struct ck_parcel *p, int rc);
	struct ck_parcel *next; /* private */
};

struct ck_transport {
	/* Constant: */
	uint32_t rank, size;
	/* Before all else, and once: each rank says `len` bytes, and has in `all` what
	 * all have said, by rank. Waits until all have called it. NULL: it cannot. 0,
	 * -EIO. */
	int (*gather)(struct ck_transport *x, const void *said, size_t len,
		      void *all);
	/* Takes a parcel, and never waits. Parcels to one rank arrive in the order of
	 * their send(); one to a rank that does not read keeps no other's waiting. */
	void (*send)(struct ck_transport *x, struct ck_parcel *p);
	/* The payload of the answer with this id of that rank goes to `to`, which has
	 * room for len bytes: said before the request is sent, and good for one
	 * answer. Said again of the same answer, the last holds. Payloads that nobody
	 * expects, or that are longer, are dropped. `to` is the transport's until the
	 * answer has come or the rank is lost, at once if it is lost already.
	 * -ENOMEM. */
	int (*expect)(struct ck_transport *x, uint32_t from, uint64_t id,
		      uint8_t *to, uint64_t len);
	/* Carries on until something was called, or one of `also` is ready (its revents
	 * say which), or wake() was called, or the time is over, -1: never. 0, or an
	 * error that ends the transport. */
	int (*wait)(struct ck_transport *x, struct pollfd *also, nfds_t n,
		    int msec);
	/* Nothing more is wanted of another rank, which has said what may not be said:
	 * it is lost soon. */
	void (*drop)(struct ck_transport *x, uint32_t rank);
	/* Any thread: wait() returns soon. */
	void (*wake)(struct ck_transport *x);
	/* Frees all. Others see what was sent(), and then that this rank is lost. */
	void (*close)(struct ck_transport *x);

	/* Set by whoever has it, before wait(): */
	void *arg;
	/* A whole message came. m is borrowed; its payload is where it was expected, and
	 * NULL with length 0 if it was dropped. */
	void (*got)(void *arg, uint32_t from, const struct ck_message *m);
	/* Once for a rank that is gone for good, or sent what is no message: nothing
	 * more of it comes, nothing that was expected of it is written any more, and
	 * all its parcels were given back. */
	void (*lost)(void *arg, uint32_t rank);
};

#endif
