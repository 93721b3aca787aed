/* SPDX-License-Identifier: MIT */
/*
 * rank_loop_internal: one running ck_serve_run(), shared by rank_loop.c
 * (threads), request_queue.c (order of requests, memory for replies), forward.c
 * (messages between links, files and ranks) and forward_rounds.c (messages
 * about rounds).
 *
 * Two kinds of threads: the messaging thread, which called ck_serve_run(), does
 * all sending and receiving; worker threads read files. The files call each
 * other in a cycle: they are one object.
 */
#ifndef CK_RANK_LOOP_INTERNAL_H
#define CK_RANK_LOOP_INTERNAL_H

#include "dist/round/no_rounds.h"
#include "dist/rpc/link_internal.h"
#include "forward_table.h"
#include "mount_liveness.h"
#include "serve.h"

#include <pthread.h>

/* Only one STAT is answered at a time, so STATs have a queue of their own. */
enum ck_serve_queue { CK_QUEUE_STATS, CK_QUEUE_OTHERS, CK_SERVE_QUEUES };

/* A request that this rank answers. */
struct ck_serve_job {
	struct ck_serve_job *next;
	uint32_t sender; /* index in ck_serve.senders */
	/* from a link: where the payload goes in its memory */
	uint64_t place, room;
	uint64_t cost;	 /* memory for the reply, bytes */
	uint64_t number; /* order of arrival */
	bool counted;	 /* the cost is part of ck_serve_sender.used */
	struct ck_message request; /* its body lies behind this struct */
	struct ck_answer answer;
	int rc; /* of ck_file_server_answer() */
	struct ck_parcel parcel;
	struct ck_serve *serve;
};

/* Indices of senders: the mount, by its link; the process that runs rounds, by
 * its link; rank r is CK_FROM_RANK + r. */
enum { CK_FROM_LINK, CK_FROM_ROUNDS, CK_FROM_RANK };

/* This rank's end of a link to a process on this host. */
struct ck_serve_end {
	/* fd is -1 if there is no link, or it has ended */
	struct ck_frames *frames;
	uint8_t *memory;
	uint64_t size;
	uint64_t most; /* limit of unsent bytes; the link ends beyond it */
	int rc;	       /* first error of sending to it */
};

struct ck_serve_jobs {
	struct ck_serve_job *first, *last;
};

/* A sender of requests. Each one has its own queues and its own share of the
 * memory, so that a sender that does not read its replies delays no other. */
struct ck_serve_sender {
	/* Requests without a sent reply, and bytes of their bodies; like all
	 * fields before `waiting`, used by the messaging thread only. */
	uint32_t open;
	uint64_t asked;
	/* a rank whose connection is being dropped: its messages are ignored */
	bool dropped;
	/* a rank that was sent the reason why this one takes no part in
	 * rounds */
	bool refusal_sent;
	/* Under ck_serve.lock: */
	struct ck_serve_jobs waiting[CK_SERVE_QUEUES];
	uint64_t used;	 /* memory of replies that are being made or sent */
	uint64_t unsent; /* of a link: bytes that its socket has not accepted */
};

struct ck_serve {
	/* Constant, or used by the messaging thread only: */
	const struct ck_serve_options *options;
	struct ck_serve_end ends[CK_FROM_RANK];
	struct ck_forward_table passed;
	uint32_t nsenders;
	uint64_t share; /* memory for replies per sender, bytes */
	pthread_t *workers;
	unsigned nworkers;
	int event;
	bool over;	       /* the loop ends */
	uint64_t rounds;       /* bytes about rounds in flight to other ranks */
	uint32_t unsent_notes; /* notes to other ranks that were not sent yet */
	/* message that this rank takes no part in rounds, see no_rounds.h;
	 * constant once sent */
	char no_rounds[CK_NO_ROUNDS];
	size_t no_rounds_len;
	struct ck_mount_liveness mounters;

	pthread_mutex_t lock;
	/* Under lock: */
	/* signalled when a request may be ready to be answered */
	pthread_cond_t more;
	struct ck_serve_sender *senders;
	uint32_t turn[CK_SERVE_QUEUES]; /* the sender to begin with */
	enum ck_serve_queue next_queue;
	bool stat_running; /* a STAT is being answered */
	uint32_t waiting;  /* requests in the senders' queues */
	uint64_t last_number;
	struct ck_serve_jobs answered;
	bool ending;
};

/* --- request_queue.c ------------------------------------------------------------------------ */

/* Returns 0, or -ENOMEM; ck_request_queue_fini() is due in both cases. */
CK_MUST_USE int ck_request_queue_init(struct ck_serve *s);
/* Frees all requests. No worker thread may be running. */
void ck_request_queue_fini(struct ck_serve *s);
/* Copies a request and counts it for its sender, until ck_serve_job_free().
 * NULL if out of memory. */
struct ck_serve_job *ck_serve_job_make(struct ck_serve *s, uint32_t sender,
				       const struct ck_message *m);
void ck_serve_job_free(struct ck_serve *s, struct ck_serve_job *j);
/* Appends to a list. Must hold the lock if the list is in ck_serve. */
void ck_request_queue_append(struct ck_serve_jobs *q, struct ck_serve_job *j);
/* Removes and returns the first request; NULL if the list is empty. Must hold
 * the lock if the list is in ck_serve. */
struct ck_serve_job *ck_request_queue_take(struct ck_serve_jobs *q);
/* Queues a request for the worker threads. */
void ck_request_queue_add(struct ck_serve *s, struct ck_serve_job *j);
/* True if there is memory for the reply, and no queued request of the sender is
 * waiting for memory. */
CK_MUST_USE bool ck_request_queue_has_memory(struct ck_serve *s,
					     const struct ck_serve_job *j);
/* Counts the memory of a reply that was made without queueing the request. */
void ck_request_queue_count(struct ck_serve *s, struct ck_serve_job *j);
/* Wakes a worker if requests are queued. Must hold s->lock. */
void ck_request_queue_call(struct ck_serve *s);
/* Removes and returns the request to answer next: senders and queues are served
 * round-robin, and requests for whose reply there is no memory are skipped.
 * NULL if no request is ready. Must hold s->lock. */
struct ck_serve_job *ck_request_queue_next(struct ck_serve *s);
/* Frees the queued requests of a sender that has gone. */
void ck_request_queue_forget(struct ck_serve *s, uint32_t sender);
/* True if a sender has more unanswered requests than it may. */
CK_MUST_USE bool ck_request_queue_are_too_many(const struct ck_serve *s,
					       uint32_t sender);
/* Updates the unsent bytes of both links. */
void ck_request_queue_note_unsent(struct ck_serve *s);

/* --- rank_loop.c, forward.c ---------------------------------------------------------------- */

/* Accepts a request for the files of this rank. place, room: where the payload
 * goes in the memory of a link, and its length. Returns 0, or: -EPROTO if the
 * request does not parse, or a rank has too many; -ENOMEM. */
CK_MUST_USE int ck_serve_request(struct ck_serve *s, uint32_t sender,
				 uint64_t place, uint64_t room,
				 const struct ck_message *m);
/* Answers the next request. False if no request is ready. Must hold s->lock,
 * which is released while the request is answered. */
CK_MUST_USE bool ck_serve_work(struct ck_serve *s);
/* Wakes the messaging thread. Any thread. */
void ck_serve_wake(struct ck_serve *s);
/* The mount of a rank is gone: the loop ends if it was the last one. */
void ck_serve_unmounted(struct ck_serve *s, uint32_t rank);
/* Sets the callbacks of the transport. */
void ck_serve_join(struct ck_serve *s);
/* The mount's end of the link is closed: notifies all ranks, and drops replies
 * to the mount. */
void ck_serve_link_end(struct ck_serve *s);
/* Sends UNMOUNTED or OVER to all other ranks; without memory some are not
 * notified. */
void ck_serve_notify(struct ck_serve *s, enum ck_wire_type what);
/* Sends a message to another rank. body is borrowed until it is sent. False if
 * out of memory. */
bool ck_serve_send(struct ck_serve *s, uint32_t rank, enum ck_wire_type what,
		   struct ck_str body);
/* Waits until all notes were sent, at most 500 ms. */
void ck_serve_notify_end(struct ck_serve *s);
/* Sends a reply; the request is freed when that is done. */
void ck_serve_answer(struct ck_serve *s, struct ck_serve_job *j);
/* True if a link must not be read now: the sender has too many requests, or too
 * much is unsent. */
CK_MUST_USE bool ck_serve_is_full(const struct ck_serve *s, uint32_t sender);
/* Sends and receives on a link. events: revents of poll(2). Returns 0, or:
 * -EPIPE if the other end is closed; -EPROTO if it has sent something invalid;
 * -ENOMEM. */
CK_MUST_USE int ck_serve_link(struct ck_serve *s, uint32_t sender,
			      short events);
/* Sends a frame by a link, if that is open. An error is kept in
 * ck_serve_end.rc. */
void ck_serve_put(struct ck_serve *s, uint32_t sender,
		  const struct ck_frame *frame, const struct ck_wire_head *head,
		  struct ck_str body);
/* Stops the use of a link: its fd is not closed, which is the caller's of
 * ck_serve_run(); queued requests are freed. */
void ck_serve_end_close(struct ck_serve *s, uint32_t sender);
/* Forwards a message from a link to another rank. *unsent counts its bytes
 * until it is sent; may be NULL. Returns 0 or -ENOMEM. */
CK_MUST_USE int ck_serve_pass(struct ck_serve *s, const struct ck_framed *f,
			      uint64_t *unsent);
/* True if the range that a frame names lies in the memory of the link. */
CK_MUST_USE bool ck_serve_has_place(const struct ck_serve *s, uint32_t sender,
				    const struct ck_frame *frame);

/* --- forward_rounds.c ------------------------------------------------------------------ */

/* Sends rank, size and round time to the process that runs rounds. Without that
 * process, notifies all ranks if the job uses rounds. */
void ck_serve_rounds_begin(struct ck_serve *s);
/* The process that runs rounds is gone or has failed: ends its link, and
 * notifies all ranks. */
void ck_serve_rounds_end(struct ck_serve *s);
/* Handles a frame from the process that runs rounds. Returns 0, or: -EPROTO if
 * the frame is invalid; -ENOMEM. */
CK_MUST_USE int ck_serve_rounds_frame(struct ck_serve *s,
				      const struct ck_framed *f);
/* Replies EIO to an invalid READ of that process. Its link stays: the READ was
 * copied from a message of another rank. */
void ck_serve_rounds_refuse(struct ck_serve *s, const struct ck_frame *frame,
			    const struct ck_wire_head *asked);
/* Handles a message about rounds from another rank. False if this rank is not
 * configured for rounds: the sender must be dropped. */
CK_MUST_USE bool ck_serve_rounds_message(struct ck_serve *s, uint32_t from,
					 const struct ck_message *m);
/* Notifies the process that runs rounds of a lost rank. */
void ck_serve_rounds_lost(struct ck_serve *s, uint32_t rank);
/* True if so many bytes are in flight to other ranks that the process must
 * wait. */
CK_MUST_USE bool ck_serve_rounds_wait(const struct ck_serve *s);

#endif
