/* SPDX-License-Identifier: MIT */
/*
 * What the parts of serve share: rank_loop.c (threads), request_queue.c (whose turn it is, and memory
 * for answers), forward.c (from whom requests come, and where answers go), forward_rounds.c
 * (the same of messages about rounds).
 */
#ifndef CK_SERVE_INTERNAL_H
#define CK_SERVE_INTERNAL_H

#include "ckptfs/serve.h"
#include "forward_table.h"
#include "link_internal.h"
#include "mount_liveness.h"
#include "no_rounds.h"

#include <pthread.h>

/* Names are looked at by one thread at a time, so LOOKs have a queue of their own. */
enum ck_serve_queue { CK_QUEUE_LOOKS, CK_QUEUE_OTHERS, CK_SERVE_QUEUES };

/* A request that is answered here. */
struct ck_serve_job {
	struct ck_serve_job *next;
	uint32_t sender;      /* its index in ck_serve.senders */
	uint64_t place, room; /* of one of a link: where its payload goes */
	uint64_t cost;	      /* memory for its answer, bytes */
	uint64_t number;      /* in the order in which they came */
	bool counted;	      /* the cost is in ck_serve_sender.used */
	struct ck_message request; /* its body lies behind the job */
	struct ck_answer answer;
	int rc; /* of it */
	struct ck_parcel parcel;
	struct ck_serve *serve;
};

/* Senders: the mount, by its link; the process that makes rounds, by its own; a rank is the
 * sender CK_FROM_RANK + its number. */
enum { CK_FROM_LINK, CK_FROM_ROUNDS, CK_FROM_RANK };

/* This rank's end of a link to a process beside it. */
struct ck_serve_end {
	struct ck_frames *frames; /* fd -1: there is none, any more */
	uint8_t *memory;
	uint64_t size;
	uint64_t most; /* bytes that may wait to be sent; with more it ends */
	int rc;	       /* of what came for it */
};

struct ck_serve_jobs {
	struct ck_serve_job *first, *last;
};

/* Who asks. What one has asked for, and does not read, is no other's business: each has
 * its own queues and its own share of the memory. */
struct ck_serve_sender {
	/* Requests whose answers were not sent yet, and bytes of their bodies; of the
	 * thread that carries messages, as all up to the lock. */
	uint32_t open;
	uint64_t asked;
	bool dropped; /* a rank that is lost soon: nobody listens to it */
	bool told; /* a rank: that this one takes no part in rounds, any more */
	/* Under ck_serve.lock: */
	struct ck_serve_jobs waiting[CK_SERVE_QUEUES];
	uint64_t used;	 /* bytes of answers that are made or on their way */
	uint64_t unsent; /* of a link: bytes that wait for room in its socket */
};

struct ck_serve {
	/* Constant, or of the one thread that carries messages: */
	const struct ck_serve_options *options;
	struct ck_serve_end ends[CK_FROM_RANK];
	struct ck_forward_table passed;
	uint32_t nsenders;
	uint64_t share; /* bytes of answers that a sender may have */
	pthread_t *workers;
	unsigned nworkers;
	int event;
	bool over;	 /* it ends */
	uint64_t rounds; /* bytes about rounds on their way to other ranks */
	uint32_t untold; /* notes to other ranks on their way */
	char none
		[CK_NO_ROUNDS]; /* that nobody here takes part in rounds; once it is said */
	size_t none_len; /* it stays */
	struct ck_mount_liveness mounters;

	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t more; /* there may be a job that can be begun */
	struct ck_serve_sender *senders;
	uint32_t turn[CK_SERVE_QUEUES]; /* the sender that is next */
	enum ck_serve_queue next_queue;
	bool looking;	  /* a LOOK is being answered */
	uint32_t waiting; /* jobs in the senders' queues */
	uint64_t last_number;
	struct ck_serve_jobs answered;
	bool ending;
};

/* --- request_queue.c ------------------------------------------------------------------------ */

/* -ENOMEM. */
CK_MUST_USE int ck_request_queue_init(struct ck_serve *s);
/* No thread is there that could begin one. */
void ck_request_queue_fini(struct ck_serve *s);
/* Copies the request; it counts as the sender's from now on. NULL: out of memory. */
struct ck_serve_job *ck_subprocess_make(struct ck_serve *s, uint32_t sender,
					const struct ck_message *m);
void ck_subprocess_free(struct ck_serve *s, struct ck_serve_job *j);
void ck_request_queue_append(struct ck_serve_jobs *q, struct ck_serve_job *j);
/* The first one, taken out; NULL: there is none. */
struct ck_serve_job *ck_request_queue_take(struct ck_serve_jobs *q);
/* Has it wait until it is its sender's turn. */
void ck_request_queue_add(struct ck_serve *s, struct ck_serve_job *j);
/* Whether there is memory for its answer, and nothing of its sender waits for some. */
CK_MUST_USE bool ck_request_queue_has_memory(struct ck_serve *s,
					     const struct ck_serve_job *j);
/* Its answer is made, though it was in no queue. */
void ck_request_queue_count(struct ck_serve *s, struct ck_serve_job *j);
/* Calls a thread if there are jobs that wait. Under the lock. */
void ck_request_queue_call(struct ck_serve *s);
/* The one that is begun now: senders take turns, and one that has to wait for memory
 * stops no other. NULL: there is none. Under the lock. */
struct ck_serve_job *ck_request_queue_next(struct ck_serve *s);
/* Frees those of a sender that wait: it is gone. */
void ck_request_queue_forget(struct ck_serve *s, uint32_t sender);
/* Whether a sender has asked for more than anybody may. */
CK_MUST_USE bool ck_request_queue_are_too_many(const struct ck_serve *s,
					       uint32_t sender);
/* The links' sockets have taken, or not taken, some bytes. */
void ck_request_queue_note_unsent(struct ck_serve *s);

/* --- rank_loop.c, forward.c ---------------------------------------------------------------- */

/* A request for the files here. -EPROTO, -ENOMEM. */
CK_MUST_USE int ck_serve_ask(struct ck_serve *s, uint32_t sender,
			     uint64_t place, uint64_t room,
			     const struct ck_message *m);
/* Answers the job whose turn it is; false: there is none that can be begun. Under the
 * lock, which it does not keep meanwhile. */
CK_MUST_USE bool ck_serve_work(struct ck_serve *s);
/* Has the thread that carries messages look what was answered. */
void ck_serve_wake(struct ck_serve *s);
/* A mount may have gone: this rank ends with the last. */
void ck_serve_unmounted(struct ck_serve *s, uint32_t rank);
/* Sets who is called by the transport. */
void ck_serve_join(struct ck_serve *s);
/* The mount of the link is gone: all are told, and what was for it goes nowhere. */
void ck_serve_link_end(struct ck_serve *s);
/* Says to all other ranks that have ears: UNMOUNTED or OVER. */
void ck_serve_tell(struct ck_serve *s, enum ck_wire_type what);
/* Says something to another rank. body: stays there. False: out of memory. */
bool ck_serve_say(struct ck_serve *s, uint32_t rank, enum ck_wire_type what,
		  struct ck_str body);
/* Waits, for half a second at most, until they were told. */
void ck_serve_tell_end(struct ck_serve *s);
/* Sends an answer; frees the job when it is sent. */
void ck_serve_answer(struct ck_serve *s, struct ck_serve_job *j);
/* Whether a link is not read from now: too much waits. */
CK_MUST_USE bool ck_serve_is_full(const struct ck_serve *s, uint32_t sender);
/* What is asked by way of a link; events as of poll(2). -EPIPE: who asks is gone; -EPROTO,
 * -ENOMEM. */
CK_MUST_USE int ck_serve_link(struct ck_serve *s, uint32_t sender,
			      short events);
/* Sends a frame by way of a link, if it is there; what becomes of that is noted there. */
void ck_serve_put(struct ck_serve *s, uint32_t sender,
		  const struct ck_frame *frame, const struct ck_wire_head *head,
		  struct ck_str body);
/* Nothing more comes by way of it. */
void ck_serve_end_close(struct ck_serve *s, uint32_t sender);
/* Sends what came by a link on to another rank. unsent: where it counts until it is sent;
 * may be NULL. -ENOMEM. */
CK_MUST_USE int ck_serve_pass(struct ck_serve *s, const struct ck_framed *f,
			      uint64_t *unsent);
/* Whether a place in the memory of a link is in it. */
CK_MUST_USE bool ck_serve_has_place(const struct ck_serve *s, uint32_t sender,
				    const struct ck_frame *frame);

/* --- forward_rounds.c ------------------------------------------------------------------ */

/* Says to the process of rounds what it is part of, or to all that there is none. */
void ck_serve_rounds_begin(struct ck_serve *s);
/* There is none any more: its link is closed, and all are told. */
void ck_serve_rounds_end(struct ck_serve *s);
/* What it says. -EPROTO, -ENOMEM. */
CK_MUST_USE int ck_serve_rounds_asked(struct ck_serve *s,
				      const struct ck_framed *f);
/* Answers EIO to a READ of it: what the process passes on came from another rank, and is no
 * fault of its own. */
void ck_serve_rounds_refuse(struct ck_serve *s, const struct ck_frame *frame,
			    const struct ck_wire_head *asked);
/* What another rank says about rounds. False: that may not be said here. */
CK_MUST_USE bool ck_serve_rounds_heard(struct ck_serve *s, uint32_t from,
				       const struct ck_message *m);
/* That rank is lost. */
void ck_serve_rounds_lost(struct ck_serve *s, uint32_t rank);
/* Whether so much is on its way to others that the process has to wait. */
CK_MUST_USE bool ck_serve_rounds_wait(const struct ck_serve *s);

#endif
