/* SPDX-License-Identifier: MIT */
/*
 * cluster: the hosts of a checkpoint, each with a process that serves its files, and the
 * way to them. A mount, or a command that mounts nothing, starts them and ends them.
 */
#ifndef CKPTFS_CLUSTER_H
#define CKPTFS_CLUSTER_H

#include "ckptfs/format.h"
#include "ckptfs/hosts.h"
#include "ckptfs/hosts_options.h"

struct ck_cluster; /* opaque */

/* Asks the hosts, starts the job, and waits until its process here has come in. Before
 * privileges are given up. What hosts are missing is logged. options: settled here, the
 * caller's. how: of links on all hosts. Errors with a message. */
CK_MUST_USE int ck_cluster_start(struct ck_hosts_options *options,
				 enum ck_beneath how, const char *source,
				 struct ck_cluster **out, struct ck_diag *d);
/* Where the checkpoint is, or would be, on this host: the caller's as long as the
 * options. */
const char *ck_cluster_source(const struct ck_cluster *c);
struct ck_hosts *ck_cluster_hosts(struct ck_cluster *c);
/* Nobody reads any more. Returns when no process of it is left here, after 5 s at the
 * latest. NULL is allowed. */
void ck_cluster_end(struct ck_cluster *c);

#endif
