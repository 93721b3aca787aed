/* SPDX-License-Identifier: MIT */
/*
 * cluster: the processes that serve the files of all hosts of a checkpoint, and
 * the connection to them. A mount, or a command without a mount, starts and
 * ends them.
 */
#ifndef CKPTFS_CLUSTER_H
#define CKPTFS_CLUSTER_H

#include "ckptfs/format.h"
#include "ckptfs/hosts.h"
#include "dist/launch/rendezvous.h"
#include "source/hosts_options.h"

enum {
	/* bytes for replies, shared with the first rank */
	CK_CLUSTER_MEMORY = 64 << 20,
	/* bytes shared by that rank and the process that runs rounds */
	CK_CLUSTER_ROUNDS = 64 << 20,
};

/* Links to the first rank of a job: of the mount, and of the process that runs
 * rounds, if there is one. Descriptors are owned; -1 if unset. */
struct ck_cluster_links {
	struct ck_rendezvous_link link, rounds;
};

#define CK_CLUSTER_NO_LINKS                                                    \
	{                                                                      \
		CK_RENDEZVOUS_NO_LINK, CK_RENDEZVOUS_NO_LINK                   \
	}

static inline void ck_cluster_links_fini(struct ck_cluster_links *links)
{
	ck_rendezvous_link_fini(&links->link);
	ck_rendezvous_link_fini(&links->rounds);
}

struct ck_cluster; /* opaque */
struct ck_inherited;

/*
 * If there are several hosts: probes them, starts the job, and waits until its
 * process on this host has connected. Must be called before privileges are
 * dropped. Logs hosts that are missing.
 *
 * format: receives the options to open the checkpoint with; *source: the
 * checkpoint's path on this host. options: completed here; owned by the caller,
 * as is *source. wanted: the write end of a pipe whose read end is closed if
 * the caller has given up, or -1.
 *
 * Returns 0, or an errno with a message; -ECANCELED if the caller has given up.
 */
CK_MUST_USE int ck_cluster_start(struct ck_hosts_options *options,
				 struct ck_format_options *format,
				 const char **source, int wanted,
				 struct ck_cluster **out, struct ck_diag *d);
/* The checkpoint can be used: logs the networks in use, and begins to measure
 * the rate from each host. NULL is allowed. */
void ck_cluster_ready(struct ck_cluster *c);
/* The same for a job of an external launcher, whose rank on this host has
 * passed its descriptors in *handed; the ranks stay there. If that rank ends,
 * SIGTERM is sent to this process. *source stays as the rank has passed it.
 * Returns 0, or an errno with a message. */
CK_MUST_USE int ck_cluster_join(struct ck_hosts_options *options,
				struct ck_inherited *handed,
				struct ck_format_options *format,
				struct ck_cluster **out, struct ck_diag *d);
/* The hosts; NULL if c is NULL. */
struct ck_hosts *ck_cluster_hosts(struct ck_cluster *c);

/* The backend for remote files; NULL if there is no cluster. */
static inline struct ck_backend *ck_cluster_backend(struct ck_cluster *c)
{
	return c ? ck_hosts_backend(ck_cluster_hosts(c)) : NULL;
}

/* Ends the job. No read may be in progress. Returns when its processes on this
 * host have ended, at the latest after 5 s. NULL is allowed. */
void ck_cluster_end(struct ck_cluster *c);

#endif
