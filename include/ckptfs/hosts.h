/* SPDX-License-Identifier: MIT */
/*
 * hosts: a checkpoint that lies in pieces on several hosts becomes one. Each host is
 * asked which of its files it has; every file is then read on one of them, here if it
 * is here.
 */
#ifndef CKPTFS_HOSTS_H
#define CKPTFS_HOSTS_H

#include "ckptfs/calls.h"
#include "ckptfs/hosts_options.h"
#include "ckptfs/remote_source.h"
#include "ckptfs/source.h"

struct ck_hosts; /* opaque */
struct ck_ways_by_rounds;

/* A process on a host. There may be several, which all have its files. */
struct ck_host_rank {
	const char *name; /* of the host */
	const char *path; /* of the checkpoint there */
	uint32_t
		rank; /* its place where it is to matter: all who ask have the same */
	bool missing; /* it never was there */
};

struct ck_hosts_setup {
	struct ck_calls *calls; /* its peers are those of the list */
	/* The first is one of this host; those of a host follow each other. Names and
	 * paths are the caller's, as long as the ck_hosts. */
	const struct ck_host_rank *list;
	uint32_t n;
	enum ck_replicas replicas;
	/* Where copies differ, that of the first of these hosts that has one counts:
	 * 0 is the first host of the list, 1 the next other one. Borrowed while it is
	 * made. */
	const size_t *order;
	size_t norder;
	struct ck_stats
		*stats; /* by place in the list; the caller's; or NULL */
};

/* NULL: out of memory. */
struct ck_hosts *ck_hosts_make(const struct ck_hosts_setup *options);
/* No checkpoint uses it any more, and nothing of it is on its way. NULL is allowed. */
void ck_hosts_free(struct ck_hosts *h);
/* For the one checkpoint that is opened with it. A host that does not answer is
 * missing from then on: what only it may have is an error. */
struct ck_remote_source *ck_hosts_elsewhere(struct ck_hosts *h);
/* All threads that use the checkpoint may wait for other hosts: what they read of
 * headers is brought at once. Before it is opened. */
void ck_hosts_let_wait(struct ck_hosts *h);
/* Of its remote files. Any thread. */
struct ck_backend *ck_hosts_mover(struct ck_hosts *h);

/* One of its processes, by place in the list. */
struct ck_hosts_peer {
	const char *name; /* of its host */
	bool here,
		again; /* on this host; the one before it is of the same host */
};

void ck_hosts_peer(const struct ck_hosts *h, uint32_t i,
		   struct ck_hosts_peer *out);
/* Who can send bytes by rounds, from now on: see ck_remote_client_rounds(). Any thread. */
CK_MUST_USE int ck_hosts_rounds(struct ck_hosts *h,
				const struct ck_ways_by_rounds *by);

/* --- once the checkpoint is open ------------------------------------------------------ */

/* Hears again from each host what it has to say of some of its files, next time of
 * others: whether they are what they were, and who may read them. Waits for nobody. To
 * be called from time to time, by one thread. */
void ck_hosts_hear(struct ck_hosts *h);
/* Another job takes over, of which these are the calls: hosts are asked for the files that
 * they had, which takes its time, and those for which `there` is true are used from then
 * on, as far as they answer. there: by place in the list. The calls of the job before are
 * not used any more when it returns 0, and can be ended: what they have not answered is
 * asked for again. Files that were away may be read by then, and those that have changed
 * are not. -EIO: this host does not answer; -ENOMEM. By the thread of ck_hosts_hear(). */
CK_MUST_USE int ck_hosts_renew(struct ck_hosts *h, struct ck_calls *calls,
			       const bool *there);
/* By host of the list, which may have several ranks: whether it is up. False: the
 * checkpoint is being opened. By the same thread. */
bool ck_hosts_states(struct ck_hosts *h, bool *up);
/* Measures how fast bytes come from one of the hosts that this is not known of, in 50 ms
 * at most, with its files. False: it is known of all, or cannot be. Any thread, once those
 * who read may be hit by SIGBUS. */
bool ck_hosts_measure(struct ck_hosts *h);
/* Nothing of that is on its way any more, and it is not called again. Before the
 * checkpoint is closed. */
void ck_hosts_hear_end(struct ck_hosts *h);

#endif
