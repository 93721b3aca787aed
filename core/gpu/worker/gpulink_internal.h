/* SPDX-License-Identifier: MIT */
/*
 * gpulink_internal: the mount's end of the connection to its GPU worker:
 * gpulink.c (thread, start and end of workers), gpulink_slots.c (gather
 * requests), gpulink_memory.c (allocations), gpulink_rounds.c (jobs) and
 * gpulink_measure.c (rates). One lock; the files call each other in a cycle:
 * they are one object.
 */
#ifndef CK_GPULINK_INTERNAL_H
#define CK_GPULINK_INTERNAL_H

#include "gpulink.h"
#include "gpuwire.h"

#include <pthread.h>

enum ck_gpulink_state {
	GPU_SLOT_FREE,
	GPU_SLOT_TAKEN,
	GPU_SLOT_IN_FLIGHT,
	GPU_SLOT_CANCELLED, /* in flight, but the caller has cancelled it */
};

struct ck_gpulink_slot {
	struct ck_gather_slot is;	  /* first */
	struct ck_gpulink_worker *worker; /* constant */
	/* Under ck_gpulink.lock: */
	enum ck_gpulink_state state;
	uint64_t since; /* when it was sent, ms; 0 if it was not */
	/* not sent: its worker has closed the socket, which the thread notices
	 * soon */
	bool lost;
	uint32_t use; /* counts how often it was sent */
	bool cancelled;
};

/* A worker process, and the memory shared with it. Freed when all its slots and
 * allocations are unused. */
struct ck_gpulink_worker {
	/* Constant, except that the link's thread closes it: */
	int sock;
	/* Constant, except that the link's thread unmaps it once all slots are
	 * unused: */
	uint8_t *memory;
	/* Constant: */
	size_t size; /* bytes */
	uint32_t n;  /* slots */

	/* Under ck_gpulink.lock: */
	struct ck_gpulink_worker *next; /* the previous worker */
	uint32_t used;			/* slots that are not free */
	bool up, gone;
	bool worked;	   /* has completed a request */
	bool slow;	   /* a request takes longer than expected */
	uint32_t silent;   /* checks since its last message */
	uint64_t started;  /* ms */
	uint32_t memories; /* its allocations that callers have */
	struct ck_gpulink_memory *requested; /* requests without a reply */
	/* for each number of an allocation, whether it is in use; 0 is never
	 * used */
	uint8_t *numbers;
	size_t nnumbers, numbers_cap;
	size_t lowest; /* no number below is free */

	struct ck_gpulink_slot slots[];
};

enum ck_gpulink_allocation {
	GPU_MEMORY_REQUESTED,
	GPU_MEMORY_ANSWERED,
	GPU_MEMORY_CANCELLED, /* requested, but the caller has given up */
};

/* An allocation on a device. */
struct ck_gpulink_memory {
	/* first; constant once the request has succeeded */
	struct ck_gather_memory is;
	/* Under ck_gpulink.lock: */
	struct ck_gpulink_worker *worker;
	uint32_t number; /* number at its worker */
	/* in the list `requested` or `released` */
	struct ck_gpulink_memory *next;
	enum ck_gpulink_allocation state;
	uint64_t since; /* when it was requested, ms */
	int rc;
};

/* A rank that takes no part in rounds, and why. */
struct ck_gpulink_absent {
	struct ck_gpulink_absent *next;
	uint32_t rank;
	char why[];
};

/* A job whose rounds the worker takes part in. */
struct ck_gpulink_job {
	/* link to a rank, to be passed to the worker; empty once it was */
	struct ck_rendezvous_link link_fds;
	uint32_t set;  /* 0 if there is no job */
	bool reported; /* the worker has replied */
	int rc;
	char text[CK_GPU_TEXT]; /* NCCL's version, or why it takes no part */
	struct ck_gpulink_absent *absent; /* ranks that have reported why */
};

struct ck_gpulink {
	/* Constant: */
	struct ck_gather_engine is; /* first */
	struct ck_gpulink_options options;
	struct ck_gpulink_rate gpu; /* constant once it was measured */
	int wake;		    /* eventfd that wakes the thread */
	bool stopped;		    /* atomic: measurements must end */
	pthread_t thread;
	bool started; /* the thread was started */

	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed; /* signalled when a field below has changed */
	/* the first one is in use, unless it is gone */
	struct ck_gpulink_worker *workers;
	/* allocations to be freed by their workers */
	struct ck_gpulink_memory *released;
	/* reported: the first worker has reported success or failure */
	bool ending, reported;
	bool over; /* no other worker will be started */
	struct ck_gpulink_job job;
	int err;		/* positive errno if no GPU can be used */
	char text[CK_GPU_TEXT]; /* its devices, or why no GPU can be used */

	/* One thread, that of the link: */
	uint64_t next;	     /* when the next worker is started, ms */
	uint64_t last_check; /* time of the last check for late replies, ms */
	uint32_t pause;	     /* pause before the next start if that fails, ms */
};

/* The worker in use; NULL while no worker is up. Must hold the lock. */
struct ck_gpulink_worker *ck_gpulink_worker_now(const struct ck_gpulink *l);
/* True if a slot in flight has its result in that allocation. Must hold the
 * lock. */
bool ck_gpulink_is_aimed_at(const struct ck_gpulink_worker *m,
			    const struct ck_gpulink_memory *memory);
/* Functions of struct ck_gather_engine. */
struct ck_gather_slot *ck_gpulink_take(struct ck_gather_engine *is);
void ck_gpulink_start(struct ck_gather_engine *is, struct ck_gather_slot *s);
void ck_gpulink_interrupt(struct ck_gather_engine *is,
			  struct ck_gather_slot *s);
void ck_gpulink_put(struct ck_gather_engine *is, struct ck_gather_slot *s);

/* Thread only: handles a DONE message. Returns 0, or -EPROTO if no such request
 * is in flight. */
CK_MUST_USE int ck_gpulink_done(struct ck_gpulink *l,
				struct ck_gpulink_worker *m,
				const struct ck_gpu_message *message);
/* Thread only: completes cancelled slots, and slots of workers that are
 * gone. */
void ck_gpulink_clear(struct ck_gpulink *l);
/* Thread only: the worker has sent a message. */
void ck_gpulink_received(struct ck_gpulink *l, struct ck_gpulink_worker *m);
/* Shifts the worker's timers by msec, up to now: time in which this process was
 * stopped. Must hold the lock. */
void ck_gpulink_forgive(struct ck_gpulink_worker *m, uint64_t msec,
			uint64_t now);
/* Thread only, once per check: true if a request exceeds its time limit, or if
 * the worker has sent no message for too long while requests are in flight. */
bool ck_gpulink_is_overdue(struct ck_gpulink *l, struct ck_gpulink_worker *m);

/* Handles an ALLOCATED message. Returns 0, or -EPROTO if there is no such
 * request. */
CK_MUST_USE int ck_gpulink_allocated(struct ck_gpulink *l,
				     struct ck_gpulink_worker *m,
				     const struct ck_gpu_message *message);
/* Thread only: handles a JOINED message. */
void ck_gpulink_handle_joined(struct ck_gpulink *l, struct ck_gpulink_worker *m,
			      const struct ck_gpu_message *message);
/* Thread only: handles an ABSENT message. */
void ck_gpulink_handle_absent(struct ck_gpulink *l,
			      const struct ck_gpu_message *message);
/* Closes the link, if it was not passed on, and frees the job's list. */
void ck_gpulink_job_fini(struct ck_gpulink_job *job);
/* Thread only: passes the link of a new job to the worker. */
void ck_gpulink_hand_over(struct ck_gpulink *l, struct ck_gpulink_worker *m);
/* The worker is gone: its job has ended. Must hold the lock. */
void ck_gpulink_job_lost(struct ck_gpulink *l);
/* Fails the worker's requests for allocations. Must hold the lock. */
void ck_gpulink_requests_end(struct ck_gpulink *l, struct ck_gpulink_worker *m);
/* Sends RELEASE messages to workers while their sockets have room; most of the
 * room is kept for requests. True if a socket is full: poll it for POLLOUT. */
bool ck_gpulink_send_released(struct ck_gpulink *l);
int ck_gpulink_allocate(struct ck_gather_engine *is,
			const struct ck_gather_alloc *want,
			struct ck_gather_memory **out);
void ck_gpulink_release(struct ck_gather_engine *is,
			struct ck_gather_memory *m);
bool ck_gpulink_holds(struct ck_gather_engine *is,
		      const struct ck_gather_memory *m);

#endif
