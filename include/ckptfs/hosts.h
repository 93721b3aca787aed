/* SPDX-License-Identifier: MIT */
/*
 * hosts: merges the directories of several hosts into one checkpoint. When the
 * checkpoint is opened, each host reports which of the files it has. Each file
 * is then read on one host: on this host if it has the file.
 *
 * States: opening (one thread opens the checkpoint and may block), then open.
 * From then on one thread revalidates files (ck_hosts_revalidate()) and moves
 * to a new job (ck_hosts_renew()); below it is called the revalidating thread.
 * Any thread reads.
 */
#ifndef CKPTFS_HOSTS_H
#define CKPTFS_HOSTS_H

#include "ckptfs/source.h"
#include "dist/rpc/calls.h"
#include "source/hosts_options.h"
#include "source/remote_source.h"

struct ck_hosts; /* opaque */
struct ck_round_routes;

/* A serving process on a host. All processes of one host have all its files. */
struct ck_host_rank {
	const char *name; /* of the host */
	const char *path; /* of the checkpoint there */
	/* Its number in an order that is the same for all mounts of the job. */
	uint32_t rank;
	bool missing; /* it did not take part in the job */
};

struct ck_hosts_setup {
	struct ck_calls *calls; /* its peers are those of `list` */
	/* The first one is of this host. Those of one host follow each other.
	 * The caller keeps names and paths as long as the ck_hosts. */
	const struct ck_host_rank *list;
	uint32_t n;
	enum ck_replicas replicas;
	/* Where replicas differ, the first of these hosts that has one is used:
	 * 0 is the first host of the list, 1 the next one. Read by
	 * ck_hosts_make() only. */
	const size_t *order;
	size_t norder;
	/* By index in the list; borrowed; or NULL. */
	struct ck_stats *stats;
};

/* Returns NULL if out of memory. */
struct ck_hosts *ck_hosts_make(const struct ck_hosts_setup *options);
/* The checkpoint must be closed, and no read in flight. NULL is allowed. */
void ck_hosts_free(struct ck_hosts *h);
/* The source of remote files, for the one checkpoint that is opened with it. A
 * host that does not reply while the checkpoint is opened is missing from then
 * on; files that only it may have are errors. Borrowed from h. */
struct ck_remote_source *ck_hosts_elsewhere(struct ck_hosts *h);
/* All threads that use the checkpoint may block on other hosts, so headers are
 * read remotely in place. Must be called before the checkpoint is opened. */
void ck_hosts_let_wait(struct ck_hosts *h);
/* The backend of remote files. Borrowed from h. Any thread. */
struct ck_backend *ck_hosts_backend(struct ck_hosts *h);

/* A serving process, by index in the list. */
struct ck_hosts_peer {
	const char *name; /* of its host */
	bool here;	  /* on this host */
	bool again;	  /* the process before it is of the same host */
};

/* Sets *out for i below the n of the setup. Any thread. */
void ck_hosts_peer(const struct ck_hosts *h, uint32_t i,
		   struct ck_hosts_peer *out);
/* Replaces the peers that can send by rounds, see ck_remote_client_rounds().
 * Any thread. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_hosts_rounds(struct ck_hosts *h,
				const struct ck_round_routes *by);

/* --- once the checkpoint is open ------------------------------------------ */

/* Asks each host that is up to stat some of its files; the next call continues
 * with the files that follow. Replies update change and access permission of
 * the files. Never blocks on another host; stats some local files. Does nothing
 * while the checkpoint is opened. Called periodically by the revalidating
 * thread. */
void ck_hosts_revalidate(struct ck_hosts *h);
/* Moves to a new job with these calls. Blocks while each host for which `there`
 * is true stats the files that it had; hosts that reply are used from then on.
 * there: by index in the list. Files that were unavailable may become readable;
 * files that have changed become -ESTALE.
 *
 * Returns 0, or: -EIO if this host does not reply; -ENOMEM; errors of
 * pthread_create(3). After 0 the calls of the old job are unused and may be
 * ended; their requests without a reply are sent again. After an error nothing
 * has changed. Must be called by the revalidating thread. */
CK_MUST_USE int ck_hosts_renew(struct ck_hosts *h, struct ck_calls *calls,
			       const bool *there);
/* Sets up[i] to whether all processes of host i are up; i counts hosts, not
 * processes. Returns false if the checkpoint is being opened. Must be called by
 * the revalidating thread. */
bool ck_hosts_states(struct ck_hosts *h, bool *up);
/* Measures the read rate from one host whose rate is unknown, within 50 ms, by
 * reading one of its files. Returns true if a further host has not been tried.
 * Any thread, once ck_sigbus_install() was called. */
bool ck_hosts_measure(struct ck_hosts *h);
/* Ends revalidation: no request of it is in flight when this returns. Must be
 * called before the checkpoint is closed; ck_hosts_revalidate() may not be
 * called after it. */
void ck_hosts_revalidate_end(struct ck_hosts *h);

#endif
