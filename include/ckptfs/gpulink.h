/* SPDX-License-Identifier: MIT */
/*
 * gpulink: joins the process of a mount to its mover of GPUs: a gatherer. Bytes lie in memory
 * that both have. A mover that dies, loses a GPU or answers no more is replaced; until the
 * next one is up, and if there is none, all is gathered where it was before.
 */
#ifndef CKPTFS_GPULINK_H
#define CKPTFS_GPULINK_H

#include "ckptfs/gatherer.h"
#include "ckptfs/privileges.h"
#include "ckptfs/rendezvous.h"

struct ck_gpulink; /* opaque */

struct ck_gpulink_options {
	uint64_t pinned;       /* bytes of that memory */
	uint32_t timeout_msec; /* that one gathering may take */
	/* Starts a mover, of which these are the ends: they stay the link's. The one before
	 * is ended, whatever it does. Called in the link's thread, and while it is
	 * made. 0 or an error. */
	int (*start)(void *arg, int sock, int memory);
	void *arg;
	const char
		*none; /* NULL, or why there is no driver: nothing is started */
	struct ck_thread_init thread_init; /* of the link's thread */
	const char *host; /* the name of this one, for reports; borrowed */
};

/* Starts its thread, and the first mover. -EINVAL: not one slot has room; -ENOMEM, errors
 * of ck_thread_start_init(), of memory and sockets. */
CK_MUST_USE int ck_gpulink_make(const struct ck_gpulink_options *options,
				struct ck_gpulink **out);
/* Nobody has a slot any more. NULL is allowed. */
void ck_gpulink_free(struct ck_gpulink *l);
/* Waits until the first mover is up, or has failed, at most msec. -ETIMEDOUT; the errno of
 * that. Why is in d; of those after it the log says so. */
CK_MUST_USE int ck_gpulink_wait(struct ck_gpulink *l, uint32_t msec,
				struct ck_diag *d);
/* Whether there was no driver: no mover was up, and none will be started. */
CK_MUST_USE bool ck_gpulink_is_over(struct ck_gpulink *l);
/* Measures how fast bytes go through a GPU, for a moment. Waits for that. No one else has
 * slots yet. */
void ck_gpulink_measure(struct ck_gpulink *l);

/* --- rounds ---------------------------------------------------------------------------- */

/* What was measured of a way. */
struct ck_gpulink_rate {
	double gbps, usec; /* 0: it was not */
};

/* A job that the mover is to take part in, instead of one before: a link to its rank here.
 * Takes the descriptors. set: its number, which is not 0. Any thread. */
void ck_gpulink_join(struct ck_gpulink *l, const struct ck_rendezvous_way *way,
		     uint32_t set);
/* Waits until it takes part in that one, at most msec. -ETIMEDOUT; -ESTALE: another one is
 * there; else why it does not, which is in d. */
CK_MUST_USE int ck_gpulink_joined(struct ck_gpulink *l, uint32_t set,
				  uint32_t msec, struct ck_diag *d);
/* How fast bytes of a rank of that job come, to the device and from there to here. False:
 * none have come. Waits for that. */
CK_MUST_USE bool ck_gpulink_measure_rank(struct ck_gpulink *l, uint32_t set,
					 uint32_t rank,
					 struct ck_gpulink_rate *out);
/* Why that rank of that job takes no part in rounds, if it has said that. out may be NULL, with
 * size 0. */
bool ck_gpulink_why_absent(struct ck_gpulink *l, uint32_t set, uint32_t rank,
			   char *out, size_t size);
/* Nothing is measured any more: whoever waits for that returns soon. Any thread. */
void ck_gpulink_stop(struct ck_gpulink *l);
/* For `status` and `stats`: sets out to NCCL's version and file, or to the reason why there
 * are no rounds now. Returns true if there are. */
bool ck_gpulink_nccl(struct ck_gpulink *l, char *out, size_t size);

/* --- as rows --------------------------------------------------------------------------- */

/* Whether something came of it. */
CK_MUST_USE bool ck_gpulink_works(const struct ck_gpulink *l);
struct ck_gatherer *ck_gpulink_gatherer(struct ck_gpulink *l);

/* Appends the row of the path "gpu" for .ckptfs/stats. gathers: reads are gathered there. */
void ck_gpulink_print(struct ck_gpulink *l, bool gathers, struct ck_buf *out);

#endif
