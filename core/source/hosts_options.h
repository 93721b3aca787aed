/* SPDX-License-Identifier: MIT */
/*
 * hosts_options: options of a mount, or of a command without a mount, for a
 * checkpoint on several hosts. Each option is set by its name, from -o or a long
 * option. ck_hosts_options_settle() completes them once, before use. Not for
 * several threads.
 */
#ifndef CKPTFS_HOSTS_OPTIONS_H
#define CKPTFS_HOSTS_OPTIONS_H

#include "base/system/privileges.h"
#include "hostlist.h"

/* How replicas of a file are compared. */
enum ck_replicas { CK_REPLICAS_SAMPLE, CK_REPLICAS_FULL, CK_REPLICAS_FIRST };

enum { CK_RESTART_OFF = -1 };

struct ck_rendezvous_link;

/* Receiver of the connection to the local rank: the process of a mount that runs
 * rounds with other ranks. */
struct ck_rounds_taker {
	/* Called when a job is up, the first one or one after a failover.
	 * link_fds: how the process connects to the local rank; the receiver
	 * owns its descriptors. epoch: that of the calls over the IPC channel
	 * of the same job. numbers: the rank of each of npeers peers, or
	 * CK_LINK_NO_RANK; borrowed. Called by the thread that starts the first
	 * job before its channel is used, later by the thread that listens,
	 * when the channel of the next job is used. */
	void (*take)(void *arg, struct ck_rendezvous_link *link_fds,
		     uint32_t epoch, const uint32_t *numbers, uint32_t npeers);
	void *arg;
};

/* Zero-initialise. Texts are owned, or NULL. Numbers that were not set are 0 until
 * settled. */
struct ck_hosts_options {
	struct ck_host_list list; /* settled together with the others */
	char *hostfile;
	char *prefer; /* names with `+` between */
	/* norder, once settled: indexes in the list, in descending order of
	 * preference */
	size_t *order;
	size_t norder;
	char *agent;   /* see ck_launch_options; NULL: ssh */
	char *program; /* absolute path; NULL: this program */
	char *net;     /* IPv4 networks, CIDR with `+` between; NULL: any */
	enum ck_replicas replicas;
	bool allhosts;	  /* a missing host is an error */
	unsigned timeout; /* seconds without progress until a read fails */
	int rejoin;	  /* seconds between restarts, or CK_RESTART_OFF */
	uint64_t segment, cache, ownermem; /* bytes */
	/* Set before the job starts by a caller that runs rounds. nccl: see
	 * ck_launch_options. Borrowed. */
	const char *nccl;
	const struct ck_rounds_taker *rounds; /* NULL: no receiver */
	/* For threads that start before the mount; set by a caller that drops
	 * privileges then. */
	struct ck_thread_init thread_init;
	const char *dependent; /* private: an option that requires hosts */
};

/* Sets an option. name: from a table of options, maybe with a trailing `=`.
 * separator: between values of a list, ',' for long options and '+' for mount
 * options; a map in a long option is one value without `\`. Returns 0, or -EINVAL
 * with a message. */
CK_MUST_USE int ck_hosts_options_set(struct ck_hosts_options *o,
				     const char *name, const char *value,
				     char separator, struct ck_diag *d);
/* True if there are several hosts. */
bool ck_hosts_options_given(const struct ck_hosts_options *o);
/* Returns 0, or -EINVAL with a message if an option requires hosts and no
 * host is given. */
CK_MUST_USE int ck_hosts_options_check(const struct ck_hosts_options *o,
				       struct ck_diag *d);
/* Reads the file of hosts, settles the list, and sets defaults. Must be called
 * once, if there are several hosts. Returns 0, or an error of ck_host_list_read(),
 * ck_host_list_settle() or ck_host_list_prefer(). */
CK_MUST_USE int ck_hosts_options_settle(struct ck_hosts_options *o,
					const char *source, struct ck_diag *d);
/* The same for a list that is already complete, with this host first. */
CK_MUST_USE int ck_hosts_options_settle_known(struct ck_hosts_options *o,
					      struct ck_diag *d);
void ck_hosts_options_fini(struct ck_hosts_options *o);

#endif
