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
#include "ckptfs/rendezvous.h"

enum {
	CK_CLUSTER_MEMORY = 64 << 20, /* of answers, shared with the mover */
	CK_CLUSTER_ROUNDS = 64 << 20, /* the same of what makes rounds */
};

/* The ways to the first rank of a job: of the mount's link, and of the process that makes
 * rounds, if there is one. Descriptors that are not -1 are owned. */
struct ck_cluster_ways {
	struct ck_rendezvous_way link, rounds;
};

#define CK_CLUSTER_NO_WAYS                                                     \
	{                                                                      \
		CK_RENDEZVOUS_NO_WAY, CK_RENDEZVOUS_NO_WAY                     \
	}

static inline void ck_cluster_ways_fini(struct ck_cluster_ways *ways)
{
	ck_rendezvous_way_fini(&ways->link);
	ck_rendezvous_way_fini(&ways->rounds);
}

struct ck_cluster; /* opaque */
struct ck_inherited;

/* If there are several hosts: asks them, starts the job, and waits until its process
 * here has come in; then `format` is for opening the checkpoint, and *source where it is,
 * or would be, on this host. Before privileges are given up. What hosts are missing is
 * logged. options: settled here; the caller's, as is *source. wanted: the write end of a
 * pipe, of which nobody reads when nobody waits for all this any more, which is an error
 * then; or -1. Errors with a message. */
CK_MUST_USE int ck_cluster_start(struct ck_hosts_options *options,
				 struct ck_format_options *format,
				 const char **source, int wanted,
				 struct ck_cluster **out, struct ck_diag *d);
/* What it is for can be used: logs which networks are used, which nobody has to read, and
 * has it measured how fast bytes come from each host. NULL is allowed. */
void ck_cluster_ready(struct ck_cluster *c);
/* The same of a job that somebody else has started, and of which a rank has handed us
 * what it takes: that is *handed, of which the ranks stay. If that rank ends, SIGTERM is
 * sent to this process. Its checkpoint is where it was said to be. */
CK_MUST_USE int ck_cluster_join(struct ck_hosts_options *options,
				struct ck_inherited *handed,
				struct ck_format_options *format,
				struct ck_cluster **out, struct ck_diag *d);
/* NULL if it is. */
struct ck_hosts *ck_cluster_hosts(struct ck_cluster *c);

/* Of remote files; NULL: there is no cluster. */
static inline struct ck_backend *ck_cluster_mover(struct ck_cluster *c)
{
	return c ? ck_hosts_mover(ck_cluster_hosts(c)) : NULL;
}

/* Nobody reads any more. Returns when no process of it is left here, after 5 s at the
 * latest. NULL is allowed. */
void ck_cluster_end(struct ck_cluster *c);

#endif
