/* SPDX-License-Identifier: MIT */
#ifndef CK_GPULINK_INTERNAL_H
#define CK_GPULINK_INTERNAL_H

#include "ckptfs/gpulink.h"
#include "gpuwire.h"

#include <pthread.h>

enum ck_gpulink_state {
	GPU_SLOT_FREE,
	GPU_SLOT_TAKEN,
	GPU_SLOT_ON_WAY,
	GPU_SLOT_LEFT, /* on its way, and nobody waits for it */
};

struct ck_gpulink_slot {
	struct ck_gather_slot is;	/* first */
	struct ck_gpulink_mover *mover; /* constant */
	/* Under ck_gpulink.lock: */
	enum ck_gpulink_state state;
	uint64_t since; /* when it was sent, in ms; 0: it was not */
	bool lost;	/* it was not: its mover is gone, as is known soon */
	uint32_t use;	/* how often it was sent */
	bool unwanted;
};

/* One mover, and the memory that it has. It is there until nobody has a slot of it. */
struct ck_gpulink_mover {
	/* Constant, but that the link's thread closes it: */
	int sock;
	/* Constant, but that the same unmaps it when nobody has a slot any more: */
	uint8_t *memory;
	/* Constant: */
	size_t size; /* bytes */
	uint32_t n;  /* slots */

	/* Under ck_gpulink.lock: */
	struct ck_gpulink_mover *next; /* that was before it */
	uint32_t used;		       /* slots that are not free */
	bool up, gone;
	bool worked;	   /* something came of it */
	bool slow;	   /* something takes longer than it may */
	uint32_t silent;   /* looks since it has said anything */
	uint64_t started;  /* in ms */
	uint32_t memories; /* allocations of it that somebody has */
	struct ck_gpulink_memory *asked; /* not answered */
	uint8_t *numbers; /* of memory: whether each is in use; there is no 0 */
	size_t nnumbers, numbers_cap;
	size_t lowest; /* no number below it is free */

	struct ck_gpulink_slot slots[];
};

enum ck_gpulink_allocation {
	GPU_MEMORY_ASKED,
	GPU_MEMORY_ANSWERED,
	GPU_MEMORY_UNWANTED, /* asked for, and nobody waits for it */
};

/* An allocation. */
struct ck_gpulink_memory {
	struct ck_gather_memory is; /* first; constant once it is there */
	/* Under ck_gpulink.lock: */
	struct ck_gpulink_mover *mover;
	uint32_t number;		/* in its mover */
	struct ck_gpulink_memory *next; /* that is asked for, or was released */
	enum ck_gpulink_allocation state;
	uint64_t since; /* when it was asked for, in ms */
	int rc;
};

/* A rank that takes no part in a job. */
struct ck_gpulink_absent {
	struct ck_gpulink_absent *next;
	uint32_t rank;
	char why[];
};

/* A job that the mover takes part in. */
struct ck_gpulink_job {
	struct ck_rendezvous_way
		way;  /* that was not handed to it yet; none: it was */
	uint32_t set; /* 0: there is none */
	bool heard;   /* what became of it */
	int rc;
	char text[CK_GPU_TEXT]; /* NCCL's version, or why it takes no part */
	struct ck_gpulink_absent *absent; /* those of which is known why */
};

struct ck_gpulink {
	/* Constant: */
	struct ck_gatherer is; /* first */
	struct ck_gpulink_options options;
	struct ck_gpulink_rate gpu; /* constant once it was measured */
	int wake;		    /* an eventfd, for the thread */
	bool stopped;		    /* atomic: nothing is to be measured */
	pthread_t thread;
	bool started; /* the thread */

	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t changed; /* what is said below */
	struct ck_gpulink_mover
		*movers; /* the first is the one that is asked, if it is not
				   * gone */
	struct ck_gpulink_memory
		*released;  /* of which movers are not told yet */
	bool ending, heard; /* heard: the first mover has said something */
	bool over;	    /* no other mover will be started */
	struct ck_gpulink_job job;
	int err;		/* positive: why there is none now */
	char text[CK_GPU_TEXT]; /* its devices, or why there is none */

	/* Of one thread, its own: */
	uint64_t next;	 /* when a mover is started, in ms */
	uint64_t looked; /* when it was looked for what takes too long */
	uint32_t pause;	 /* ms until the one after that is, if it fails */
};

/* The mover that is asked; NULL: there is none. Under the lock. */
struct ck_gpulink_mover *ck_gpulink_mover_now(const struct ck_gpulink *l);
/* Whether something is on its way to that memory, whoever waits. Under the lock. */
bool ck_gpulink_is_aimed_at(const struct ck_gpulink_mover *m,
			    const struct ck_gpulink_memory *memory);
/* Functions of the gatherer. */
struct ck_gather_slot *ck_gpulink_take(struct ck_gatherer *is);
void ck_gpulink_start(struct ck_gatherer *is, struct ck_gather_slot *s);
void ck_gpulink_interrupt(struct ck_gatherer *is, struct ck_gather_slot *s);
void ck_gpulink_put(struct ck_gatherer *is, struct ck_gather_slot *s);

/* Of the thread: the mover has done it; what nobody has asked for is -EPROTO. */
CK_MUST_USE int ck_gpulink_done(struct ck_gpulink *l,
				struct ck_gpulink_mover *m,
				const struct ck_gpu_message *message);
/* Of the thread: what nobody wants, and what movers that are gone have left, is done. */
void ck_gpulink_clear(struct ck_gpulink *l);
/* Of the thread: the mover has said something. */
void ck_gpulink_heard(struct ck_gpulink *l, struct ck_gpulink_mover *m);
/* So many milliseconds, until now, are none in which it was waited for. Under the lock. */
void ck_gpulink_forgive(struct ck_gpulink_mover *m, uint64_t msec,
			uint64_t now);
/* At each look: whether something takes so long that it will not be done, or the mover says
 * nothing any more, though something is asked of it. */
bool ck_gpulink_is_late(struct ck_gpulink *l, struct ck_gpulink_mover *m);

/* An allocation is there, or not; what nobody has asked for is -EPROTO. */
CK_MUST_USE int ck_gpulink_allocated(struct ck_gpulink *l,
				     struct ck_gpulink_mover *m,
				     const struct ck_gpu_message *message);
/* Of the thread: the mover takes part in a job, or not. */
void ck_gpulink_hear_joined(struct ck_gpulink *l, struct ck_gpulink_mover *m,
			    const struct ck_gpu_message *message);
/* Of the thread: another rank takes no part in it. */
void ck_gpulink_hear_absent(struct ck_gpulink *l,
			    const struct ck_gpu_message *message);
void ck_gpulink_job_fini(struct ck_gpulink_job *job);
/* Of the thread: hands over the link to a job, if one waits for that. */
void ck_gpulink_hand_over(struct ck_gpulink *l, struct ck_gpulink_mover *m);
/* The mover that took part is gone. Under the lock. */
void ck_gpulink_left(struct ck_gpulink *l);
/* What was asked of it will not be answered. Under the lock. */
void ck_gpulink_asked_end(struct ck_gpulink *l, struct ck_gpulink_mover *m);
/* Tells movers what was released, as far as there is room, of which most is left to those
 * who ask. Whether there was none: the socket says when there is some. */
bool ck_gpulink_tell_released(struct ck_gpulink *l);
int ck_gpulink_allocate(struct ck_gatherer *is,
			const struct ck_gather_want *want,
			struct ck_gather_memory **out);
void ck_gpulink_release(struct ck_gatherer *is, struct ck_gather_memory *m);
bool ck_gpulink_holds(struct ck_gatherer *is, const struct ck_gather_memory *m);

#endif
