/* SPDX-License-Identifier: MIT */
/*
 * cluster: the hosts of a checkpoint, each with a process that serves its files, and the
 * way to them. A mount, or a command that mounts nothing, starts them and ends them.
 */
#ifndef CKPTFS_CLUSTER_H
#define CKPTFS_CLUSTER_H

#include "ckptfs/format.h"
#include "ckptfs/hosts.h"
#include "ckptfs/launch.h"

struct ck_cluster; /* opaque */

struct ck_cluster_options {
	const struct ck_host_list *list; /* settled; the caller's */
	/* As of ck_launch_options: */
	const char *agent, *program, *net;
	bool shardlinks, all;
	uint32_t timeout_msec;
};

/* Asks the hosts, starts the job, and waits until its process here has come in. Before
 * privileges are given up. What hosts are missing is logged. Errors with a message. */
CK_MUST_USE int ck_cluster_start(const struct ck_cluster_options *options,
				 struct ck_cluster **out, struct ck_diag *d);
struct ck_hosts *ck_cluster_hosts(struct ck_cluster *c);
/* Nobody reads any more. Returns when no process of it is left here, after 5 s at the
 * latest. NULL is allowed. */
void ck_cluster_end(struct ck_cluster *c);

#endif
