/* SPDX-License-Identifier: MIT */
/*
 * hosts_options: what a person asks of a mount, or of a command without one, whose
 * checkpoint lies on several hosts. Each option is set by its name, from -o or as a
 * long option, and all are settled before they are used.
 */
#ifndef CKPTFS_HOSTS_OPTIONS_H
#define CKPTFS_HOSTS_OPTIONS_H

#include "ckptfs/hostlist.h"
#include "ckptfs/privileges.h"

/* How copies of one file are compared. */
enum ck_replicas { CK_REPLICAS_SAMPLE, CK_REPLICAS_FULL, CK_REPLICAS_FIRST };

enum { CK_RESTART_OFF = -1 };

struct ck_rendezvous_way;

/* Who has the process of a mount that makes rounds with those of other ranks. */
struct ck_rounds_taker {
	/* A job is there, the first, or one that takes over, and with it the way to the
	 * rank here for that process: its descriptors are the taker's. epoch: that of the
	 * calls by way of the same job's link; numbers: the rank in it of each of npeers
	 * peers, or CK_LINK_NO_RANK; borrowed. In the thread that starts the first job,
	 * before its link is used, then in the one that listens, when the link of the next
	 * is used. */
	void (*take)(void *arg, struct ck_rendezvous_way *way, uint32_t epoch,
		     const uint32_t *numbers, uint32_t npeers);
	void *arg;
};

/* Zero-initialise. Texts are owned, or NULL. Numbers are 0 before they are settled, if
 * nothing was said of them. */
struct ck_hosts_options {
	struct ck_host_list list; /* settled with the rest */
	char *hostfile;
	char *prefer;  /* names with `+` between */
	size_t *order; /* norder, once settled: indices in the list, the host
			 * that is preferred to all others first */
	size_t norder;
	char *agent;   /* see ck_launch_options; NULL: ssh */
	char *program; /* absolute; NULL: ours */
	char *net;     /* IPv4 networks, CIDR with `+` between; NULL: any */
	enum ck_replicas replicas;
	bool allhosts;	  /* one that is missing is an error */
	unsigned timeout; /* seconds without progress of a read */
	int rejoin;	  /* seconds between tries, or CK_RESTART_OFF */
	uint64_t segment, cache, ownermem; /* bytes */
	/* Set by who has a process for rounds, before the job starts; nccl: see
	 * ck_launch_options. Borrowed. */
	const char *nccl;
	const struct ck_rounds_taker *rounds; /* NULL: nobody takes a way */
	/* Of threads that are there before the checkpoint is mounted; set by who gives up
	 * privileges then. */
	struct ck_thread_init thread_init;
	const char *dependent; /* private: one that needs hosts */
};

/* name: that of an option, as a table has it, perhaps with a `=` behind it. separator:
 * what is between the values of a list, ',' of long options, '+' of mount options; of
 * long options a map is one, and has no `\`. -EINVAL, with a message. */
CK_MUST_USE int ck_hosts_options_set(struct ck_hosts_options *o,
				     const char *name, const char *value,
				     char separator, struct ck_diag *d);
/* Whether there are several hosts. */
bool ck_hosts_options_given(const struct ck_hosts_options *o);
/* -EINVAL: an option that needs hosts, and there are none. */
CK_MUST_USE int ck_hosts_options_check(const struct ck_hosts_options *o,
				       struct ck_diag *d);
/* Once, if there are several: reads the file of hosts, settles the list, and sets what
 * nothing was said of. Errors of ck_host_list_read(), ck_host_list_settle(),
 * ck_host_list_prefer(). */
CK_MUST_USE int ck_hosts_options_settle(struct ck_hosts_options *o,
					const char *source, struct ck_diag *d);
/* The same where the list is what it has to be, the first host this one. */
CK_MUST_USE int ck_hosts_options_settle_known(struct ck_hosts_options *o,
					      struct ck_diag *d);
void ck_hosts_options_fini(struct ck_hosts_options *o);

#endif
