/* SPDX-License-Identifier: MIT */
/*
 * calls: the table of requests to peers. Each request ends with its reply or
 * with an error before its deadline.
 *
 * A call is queued at its peer until the peer's window has room, then in
 * flight, then over: its reply has arrived, or it has failed. A peer is up or
 * down. A peer without traffic is pinged; without a reply in time it goes down,
 * and its calls fail. A later reply brings the peer up again.
 *
 * Threads: any thread sends and drops calls. The connection's thread takes
 * replies, keeps the time and completes calls. The table does no I/O and reads
 * no clock: a struct ck_line sends messages and passes the time in.
 *
 * A connection that has ended is not replaced here. The owner of the calls
 * sends them again in the table of the next connection.
 */
#ifndef CKPTFS_CALLS_H
#define CKPTFS_CALLS_H

#include "dist/proto/wire.h"

/* A connection, as the table uses it. It has one thread, see below. */
struct ck_line {
	/* Sends a request to a peer and never blocks. Copies *a. Called with
	 * the table's lock held, by any thread, by one at a time. Returns 0 if
	 * the request is queued or lost, or: -EAGAIN if there is no room now;
	 * the connection's thread then calls ck_calls_tick() when there may be
	 * room. Other errors fail the call. */
	int (*send)(struct ck_line *l, uint32_t peer, const struct ck_query *a);
	/* Makes the connection's thread call ck_calls_tick() soon. Any
	 * thread. */
	void (*wake)(struct ck_line *l);
};

struct ck_calls; /* opaque */

struct ck_calls_options {
	uint32_t npeers;
	/* A peer that has been silent for this long is pinged. */
	uint32_t ping_msec;
	/* A peer that has been silent for this long goes down. */
	uint32_t silence_msec;
	/* The deadline of a call in flight. A queued call fails after the same
	 * time in which its peer has completed no call. */
	uint32_t timeout_msec;
	/* Bytes of replies that one peer has in flight at a time. A single call
	 * may have more. */
	uint64_t window;
	/* Sent with each request. Replies of another epoch are ignored. */
	uint32_t epoch;
	/* Patient calls to a peer that is down stay queued until this long
	 * after its last message, for another connection to replace this one;
	 * 0: they fail at once. */
	uint32_t hold_msec;
	/* Counts the bytes received; NULL if they are not counted. */
	struct ck_stats *stats;
};

/* A request to one peer. The caller owns it and must keep it until done(). */
struct ck_call {
	/* Set by the caller, who may not touch it between send and done(): */
	struct ck_query query; /* ck_calls sets its head's id and epoch */
	uint32_t peer;
	/* stays queued while the peer is down, see hold_msec */
	bool keep_queued;
	/* short deadline: at most 2 s of the time that is left */
	bool short_deadline;
	/* Milliseconds of the deadline already used by earlier attempts at
	 * other peers. The time of this attempt has been added when done() is
	 * called. */
	uint64_t spent;
	/* Completes the call, exactly once, in the connection's thread, without
	 * locks. m: the reply, for the ck_reply_ function of the request, valid
	 * until this returns. m is NULL if there is no reply; rc is then -EIO
	 * (peer down, or deadline passed) or -EINTR (dropped). Returns 0, or
	 * -EPROTO if m is not a valid reply. */
	int (*done)(struct ck_call *c, const struct ck_message *m, int rc);
	/* Private, under ck_calls.lock: */
	struct ck_call *next, *prev;
	struct ck_call *same; /* the next one in its hash bucket */
	uint64_t since;	      /* when it was sent, or queued */
	uint8_t state;
	int rc;
};

/* All peers start up. now: milliseconds of a monotonic clock. The table borrows
 * `line` and options->stats. Returns NULL if out of memory. */
struct ck_calls *ck_calls_make(const struct ck_calls_options *options,
			       struct ck_line *line, uint64_t now);
/* No call may be queued or in flight. NULL is allowed. */
void ck_calls_free(struct ck_calls *all);

/* Sends the call, or queues it behind earlier ones. Any thread. The caller may
 * hold a lock that done() does not take. */
void ck_calls_send(struct ck_calls *all, struct ck_call *c);
/* Cancels the call: done() is called soon with -EINTR, unless the call is
 * already over. The call must stay valid until done(). Any thread. */
void ck_calls_drop(struct ck_calls *all, struct ck_call *c);
/* No other connection will replace this one for now. Patient calls to peers
 * that are down fail now and later, until such a peer has been up and goes down
 * again. Any thread. */
void ck_calls_release(struct ck_calls *all);
/* Returns true if the peer is up. Any thread. */
bool ck_calls_is_up(struct ck_calls *all, uint32_t peer);
/* Returns the epoch of the options. Any thread. */
uint32_t ck_calls_epoch(const struct ck_calls *all);

/* --- the connection's thread only ----------------------------------------- */

/* Completes the call that a message from `peer` replies to; a reply to no call
 * is ignored. Borrows m. Returns 0, or: -EPROTO if the message is not a reply
 * or not a valid one; the connection must then drop the peer. */
CK_MUST_USE int ck_calls_take(struct ck_calls *all, uint32_t peer,
			      const struct ck_message *m, uint64_t now);
/* Applies all deadlines, sends the queued messages, and completes failed calls.
 * Returns the milliseconds until the next call is due. */
CK_MUST_USE uint32_t ck_calls_tick(struct ck_calls *all, uint64_t now);
/* The peer is lost: it goes down, and its calls fail as above. */
void ck_calls_lost(struct ck_calls *all, uint32_t peer);
/* Ends sending: all peers go down for good. All calls fail, later ones too;
 * those with keep_queued stay queued for hold_msec. */
void ck_calls_end(struct ck_calls *all);

/* --- calls that block; any thread but the connection's -------------------- */

/* Sends a request and blocks until take() has parsed the reply, or the call has
 * failed. The caller keeps *a. Returns the value of take(), or -EIO, see
 * ck_call.done. */
CK_MUST_USE int ck_calls_wait(struct ck_calls *all, uint32_t peer,
			      struct ck_query *a,
			      int (*take)(const struct ck_query *a,
					  const struct ck_message *m,
					  void *arg),
			      void *arg);
/* Stats n names at a peer by STAT requests, several in flight at a time. out: n
 * results. Returns 0, or: -EIO if the peer does not reply; -ENAMETOOLONG;
 * -ENOMEM; -EPROTO; the errno of the peer. */
CK_MUST_USE int ck_calls_stat(struct ck_calls *all, uint32_t peer,
			      struct ck_ids shown, const struct ck_str *names,
			      size_t n, struct ck_name_stat *out);

#endif
