/* SPDX-License-Identifier: MIT */
/*
 * What the parts of serve share: serve.c (jobs, threads), relay.c (from whom requests
 * come, and where answers go).
 */
#ifndef CK_SERVE_INTERNAL_H
#define CK_SERVE_INTERNAL_H

#include "ckptfs/serve.h"
#include "link_internal.h"

#include <pthread.h>

/* A request that is answered here. */
struct ck_serve_job {
	struct ck_serve_job *next;
	int64_t from;	      /* rank; CK_FROM_LINK */
	uint64_t place, room; /* of one of the link: where its payload goes */
	uint64_t cost;
	struct ck_message request; /* its body lies behind the job */
	struct ck_answer answer;
	int rc; /* of it */
	struct ck_parcel parcel;
	struct ck_serve *serve;
};

enum { CK_FROM_LINK = -1 };

struct ck_serve_jobs {
	struct ck_serve_job *first, *last;
};

struct ck_serve {
	/* Constant, or of the thread that carries messages: */
	const struct ck_serve_options *options;
	uint8_t *memory;	      /* of the link */
	struct ck_frames *frames;     /* of the link */
	struct ck_serve_jobs waiting; /* for memory */
	uint64_t asked;		      /* bytes of those that wait */
	uint64_t memory_used;
	pthread_t *workers;
	unsigned nworkers;
	int event;
	int link_rc; /* of what came for the link */

	pthread_mutex_t look_lock; /* one LOOK at a time: names of the owner */
	pthread_mutex_t lock;
	/* Under lock: */
	pthread_cond_t more;
	struct ck_serve_jobs todo, answered;
	bool ending;
};

void ck_job_free(struct ck_serve *s, struct ck_serve_job *j);
/* A request for the files here. -EPROTO, -ENOMEM. */
CK_MUST_USE int ck_serve_ask(struct ck_serve *s, int64_t from, uint64_t place,
			     uint64_t room, const struct ck_message *m);
/* Has the thread that carries messages look what was answered. */
void ck_serve_wake(struct ck_serve *s);
/* Sets who is called by the transport. */
void ck_serve_join(struct ck_serve *s);
/* Sends an answer; frees the job when it is sent. */
void ck_serve_answer(struct ck_serve *s, struct ck_serve_job *j);
/* Whether the link is not read from now: too much waits. */
CK_MUST_USE bool ck_serve_is_full(const struct ck_serve *s);
/* What the mount asks; events as of poll(2). -EPIPE: it is gone; -EPROTO, -ENOMEM. */
CK_MUST_USE int ck_serve_link(struct ck_serve *s, short events);

#endif
