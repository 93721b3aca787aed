/* SPDX-License-Identifier: MIT */
/*
 * transport: carries messages between the ranks of one job. This is the
 * interface; ckptfs-mpi.so implements it.
 *
 * A rank is connected until it is lost; a lost rank stays lost. One thread
 * calls all functions but wake(), and all callbacks run in it. Callbacks may
 * call send(), expect(), drop() and wake() only. A rank may send to itself.
 */
#ifndef CKPTFS_TRANSPORT_H
#define CKPTFS_TRANSPORT_H

#include "dist/proto/wire.h"

#include <poll.h>

/* An outgoing message. The caller must not change it until sent(). */
struct ck_parcel {
	uint32_t to; /* rank */
	struct ck_wire_head head;
	struct ck_str body;	/* head.body bytes */
	const uint8_t *payload; /* head.payload bytes */
	/* Returns the parcel to the caller, exactly once, from send(), wait()
	 * or close(). rc: 0, which does not confirm delivery; or -EIO if the
	 * rank is lost or does not exist, or the transport is closed. */
	void (*sent)(struct ck_parcel *p, int rc);
	struct ck_parcel *next; /* private */
};

struct ck_transport {
	/* Constant: */
	uint32_t rank, size;
	/* Allgather, before all other functions, and once: each rank
	 * contributes `len` bytes, the same number at all ranks. all: size *
	 * len bytes, by rank. Blocks until all ranks have called it. Returns 0,
	 * or: -EIO. The pointer is NULL if the transport has no such
	 * function. */
	int (*gather)(struct ck_transport *x, const void *record, size_t len,
		      void *all);
	/* Queues a parcel and never blocks. Parcels to one rank arrive in the
	 * order of their send(). A rank that does not receive does not delay
	 * parcels to other ranks. */
	void (*send)(struct ck_transport *x, struct ck_parcel *p);
	/* The payload of the reply with this id from that rank is written to
	 * `to`, which has room for len bytes. Must be called before the request
	 * is sent; holds for one reply; a second call for the same reply
	 * replaces the first. Payloads without room, and longer ones, are
	 * dropped. The transport may write to `to` until the reply has arrived
	 * or the rank is lost. Returns 0, or: -ENOMEM. */
	int (*expect)(struct ck_transport *x, uint32_t from, uint64_t id,
		      uint8_t *to, uint64_t len);
	/* Sends and receives until a callback has run, a descriptor of `also`
	 * is ready (see its revents), wake() was called, or msec milliseconds
	 * have passed; msec -1: without a limit. Returns 0, or an error that
	 * ends the transport. */
	int (*wait)(struct ck_transport *x, struct pollfd *also, nfds_t n,
		    int msec);
	/* Disconnects another rank that has violated the protocol: it is lost
	 * soon. */
	void (*drop)(struct ck_transport *x, uint32_t rank);
	/* Makes wait() return soon. Any thread. */
	void (*wake)(struct ck_transport *x);
	/* Frees the transport. The other ranks receive all parcels whose sent()
	 * was called with 0; then this rank is lost to them. */
	void (*close)(struct ck_transport *x);

	/* Set by the user of the transport, before wait(): */
	void *arg;
	/* A whole message has arrived. Borrows m. The payload of m is in the
	 * memory passed to expect(); a dropped payload has the length 0 and
	 * NULL. */
	void (*got)(void *arg, uint32_t from, const struct ck_message *m);
	/* A rank is lost: it has closed its transport, was dropped, or has sent
	 * an invalid message. Called once per rank. No message of the rank
	 * follows, no memory of expect() is written any more, and all its
	 * parcels were returned. */
	void (*lost)(void *arg, uint32_t rank);
};

#endif
