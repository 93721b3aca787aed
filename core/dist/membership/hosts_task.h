/* SPDX-License-Identifier: MIT */
/*
 * hosts_task: work with other hosts that blocks, as hosts_task.c describes it.
 */
#ifndef CK_HOSTS_TASK_H
#define CK_HOSTS_TASK_H

#include "dist/client/remote_client.h"

struct ck_hosts;
struct ck_hosts_host;

/* The task of one process, see ck_hosts_run(). */
struct ck_hosts_task {
	struct ck_hosts *hosts;
	const struct ck_hosts_host *host;
	uint32_t index;
	void *arg;
	bool wanted; /* the task is to be run */
	int rc;	     /* the result of run(); -EIO if it was not run */
};

/* Initialises n tasks, one for each process, all that are up wanted. */
void ck_hosts_tasks_init(struct ck_hosts *h, void *arg,
			 struct ck_hosts_task *tasks);
/* Runs the tasks that are wanted, each in a thread of its own, and blocks until
 * all have returned. Returns 0, or: -ENOMEM; errors of pthread_create(3). */
CK_MUST_USE int ck_hosts_run(struct ck_hosts_task *tasks, uint32_t n,
			     int (*run)(struct ck_hosts_task *t));
/* Runs a task for every process that is up, by ck_hosts_run(). A process that
 * went down meanwhile is no longer `there`, and is logged. tasks: n, filled
 * here. Must be called by the opening thread. Returns 0, or errors of ck_hosts_run();
 * results are in tasks[].rc. */
CK_MUST_USE int ck_hosts_each(struct ck_hosts *h,
			      int (*run)(struct ck_hosts_task *t), void *arg,
			      struct ck_hosts_task *tasks);
/* Returns the number of processes whose `there` is true. */
uint32_t ck_hosts_count_up(const struct ck_hosts *h);

/* Reads bytes of a remote file and blocks. until: a deadline of the monotonic
 * clock; NULL: no deadline. Returns 0, or: -EINTR if the deadline has passed;
 * errors of the remote client. */
CK_MUST_USE int ck_hosts_read(struct ck_remote_client *r, uint32_t file,
			      uint64_t fpos, uint64_t len, void *to,
			      const struct timespec *until);
/* The same for n descriptors, without a deadline. Each rc is set. */
void ck_hosts_read_batch(struct ck_remote_client *r, struct ck_copy_desc *list,
			 size_t n);

#endif
