/* SPDX-License-Identifier: MIT */
/*
 * gpulink: the mount's end of the channel to its GPU worker process: a GPU
 * gather engine. Both processes share pinned memory, divided into slots.
 *
 * A worker is starting, up, or gone. A worker that dies, loses a GPU or does
 * not reply in time is gone, and the next one is started after a pause. While
 * no worker is up, the host gathers. If there is no driver at the start, no
 * worker is started again.
 *
 * Any thread calls the functions. The link has one thread, which starts workers
 * and receives their messages.
 */
#ifndef CK_GPULINK_H
#define CK_GPULINK_H

#include "base/system/privileges.h"
#include "ckptfs/device.h"
#include "dist/launch/rendezvous.h"

struct ck_gpulink; /* opaque */

struct ck_gpulink_options {
	uint64_t pinned;       /* bytes of the shared memory */
	uint32_t timeout_msec; /* of one gather request */
	/* Starts a worker with its end of the channel and its memory, and ends
	 * the worker before. Borrows both descriptors. Called in the link's
	 * thread. Returns 0 or an error. */
	int (*start)(void *arg, int sock, int memory);
	void *arg;
	/* NULL, or the reason why there is no driver: no worker is started. */
	const char *none;
	struct ck_thread_init thread_init; /* of the link's thread */
	const char *host; /* the name of this host, for reports; borrowed */
};

/* Starts the thread, which starts the first worker. Caller owns *out. Returns
 * 0, or: -EINVAL if `pinned` is smaller than one slot; -ENOMEM; errors of
 * eventfd(2) and ck_thread_start_init(). */
CK_MUST_USE int ck_gpulink_make(const struct ck_gpulink_options *options,
				struct ck_gpulink **out);
/* Ends the thread. No slot may be in use. NULL is allowed. */
void ck_gpulink_free(struct ck_gpulink *l);
/* Blocks until the first worker is up or has failed, at most msec milliseconds.
 * Returns 0, or: -ETIMEDOUT; the errno of the failure, with the reason in d.
 * Failures of later workers are logged. */
CK_MUST_USE int ck_gpulink_wait(struct ck_gpulink *l, uint32_t msec,
				struct ck_diag *d);
/* Returns true if there was no driver: no worker is up or will be
 * started. */
CK_MUST_USE bool ck_gpulink_is_over(struct ck_gpulink *l);
/* Measures the rate of the GPU path, for about 50 ms, and blocks for it. No
 * other thread may use slots yet. */
void ck_gpulink_measure(struct ck_gpulink *l);

/* --- rounds --------------------------------------------------------------- */

/* The result of a measurement. */
struct ck_gpulink_rate {
	double gbps; /* 1e9 bytes a second; 0: not measured */
	double usec; /* of a few bytes, microseconds; 0: not measured */
};

/* Lets the worker take part in a job, in place of an earlier one, by a link to
 * the rank on this host. Takes the descriptors of *way. set: the job's number,
 * not 0. Any thread. */
void ck_gpulink_join(struct ck_gpulink *l,
		     const struct ck_rendezvous_link *link_fds, uint32_t set);
/* Blocks until the worker takes part in that job, at most msec milliseconds.
 * Returns 0, or: -ETIMEDOUT; -ESTALE if another job has replaced it; the error
 * of the worker. The reason is in d. */
CK_MUST_USE int ck_gpulink_joined(struct ck_gpulink *l, uint32_t set,
				  uint32_t msec, struct ck_diag *d);
/* Measures the rate of transfers from a rank of that job to the device and back
 * to the host. Blocks, up to 10 s until the first round succeeds. Returns false
 * if no bytes arrive. */
CK_MUST_USE bool ck_gpulink_measure_rank(struct ck_gpulink *l, uint32_t set,
					 uint32_t rank,
					 struct ck_gpulink_rate *out);
/* Returns true if that rank of that job has reported that it takes part in no
 * rounds; out is then the reason. out may be NULL, with size 0. */
bool ck_gpulink_why_absent(struct ck_gpulink *l, uint32_t set, uint32_t rank,
			   char *out, size_t size);
/* Ends all measurements: functions that measure return soon. Any thread. */
void ck_gpulink_stop(struct ck_gpulink *l);
/* For `status` and `stats`: sets out to NCCL's version and file, or to the
 * reason why there are no rounds now. Returns true if there are. */
bool ck_gpulink_nccl(struct ck_gpulink *l, char *out, size_t size);

/* --- as rows -------------------------------------------------------------- */

/* Returns true if ck_gpulink_measure() has measured a rate. */
CK_MUST_USE bool ck_gpulink_works(const struct ck_gpulink *l);
/* Returns the gather engine. Borrowed from l. */
struct ck_gather_engine *ck_gpulink_gather_engine(struct ck_gpulink *l);

/* Appends the row of the path "gpu" for .ckptfs/stats. gathers: true if reads
 * are gathered there. */
void ck_gpulink_print(struct ck_gpulink *l, bool gathers, struct ck_buf *out);

#endif
