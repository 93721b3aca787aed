/* SPDX-License-Identifier: MIT */
/*
 * launch: from a list of hosts to the words and the environment with which mpirun(1)
 * starts a mover on each, and before that, who of them can take part: mpirun ends all
 * if one host cannot be reached, and processes of two versions do not understand each
 * other. What is made here is for ck_subprocess_start(). One thread at a time.
 */
#ifndef CKPTFS_LAUNCH_H
#define CKPTFS_LAUNCH_H

#include "ckptfs/hostlist.h"

#define CK_LAUNCH_RDMA	  "/sys/class/infiniband"
/* What `ckptfs serve` is asked with on each host, before the networks, and how a line
 * begins that says what is in the way there. */
#define CK_LAUNCH_SELF	  "--self"
#define CK_LAUNCH_LACKS	  "ckptfs-lacks: "
/* The same of one that says which host it is, under whichever name it was asked. */
#define CK_LAUNCH_IS	  "ckptfs-is: "
/* What it is told with before the words of a launch daemon, which it starts and cleans up
 * behind. */
#define CK_LAUNCH_SHELTER "--shelter"

/* All texts are the caller's. */
struct ck_launch_options {
	const struct ck_host_list *hosts; /* settled */
	/* What starts a program on another host, as mpirun calls it: words with spaces
	 * between, then the host, then one word for a shell. NULL: ssh. */
	const char *agent;
	const char *program; /* ours, an absolute path; the same on all */
	const char *net;     /* CIDR[+CIDR], or NULL: mpirun decides */
	const char *door;    /* of the first rank */
	bool shardlinks;     /* links that stay beneath SRC are followed */
	uint64_t ownermem;   /* bytes for requests at an owner; 0: it decides */
	/* GPUs on which each rank makes rounds by NCCL, in a process beside it: `auto`, or
	 * numbers with `+` between. NULL: there are no rounds. */
	const char *nccl;
	unsigned timeout; /* seconds that a round may take; 0: ranks decide */
	int ask_msec;	  /* for all answers; 0: 10 s */
	int stop; /* readable or closed when nobody wants answers; 0: there is none */
};

/* Whether mpirun is in PATH, and the agent, NULL: ssh, is to be found. -ENOENT: one is not,
 * with the sentence for that. */
CK_MUST_USE int ck_launch_find(const char *agent, struct ck_diag *d);
/* The absolute path of this program, owned; NULL with errno set. */
char *ck_launch_program(void);

/* Asks each host, all at once, for its versions of mpirun and of the program, and for
 * what is in the way of taking part. there: of as many as there are hosts; false: it did
 * not answer in time, has other versions than this host, or something is in the way. Of
 * each of those a line for a person is added to *lines, names escaped. -EPROTO: this host
 * has not answered itself, or something is in the way here, the message says what;
 * -EINVAL: two are one host; -ECANCELED: `stop`. */
CK_MUST_USE int ck_launch_ask(const struct ck_launch_options *options,
			      bool *there, struct ck_buf *lines,
			      struct ck_diag *d);

/* Has each host that is there start the launch daemon for nothing, all at once, the first
 * one too, which is this host. there: false from then on where that fails, and a line for a
 * person is added to *lines. If it fails here, nothing is known of the others. -ENOMEM;
 * -ECANCELED: `stop`; then nothing has changed. */
CK_MUST_USE int ck_launch_try(const struct ck_launch_options *options,
			      bool *there, struct ck_buf *lines);

/* What this host answers then, as lines. net: of the options, "": none. */
void ck_launch_self(const char *net, struct ck_buf *out);

/* Has NCCL use the networks in net, and no others, in this process and those that it
 * starts, but where the environment says what it uses: sets NCCL_SOCKET_IFNAME, and, if there
 * are devices that can do RDMA, NCCL_IB_HCA or NCCL_IB_DISABLE. devices: the directory that
 * has them, CK_LAUNCH_RDMA. net NULL: nothing is to be done. No other thread uses the
 * environment. -ENONET: this host has no address in them; -ENOMEM; errors of getifaddrs(3). */
CK_MUST_USE int ck_launch_bind_nccl(const char *net, const char *devices);

/* Adds lines for the log: which networks MPI has to choose from, if options->net does not
 * say so; and that a device could do RDMA and is not used. devices: the directory that has
 * them, CK_LAUNCH_RDMA. */
void ck_launch_networks(const struct ck_launch_options *options,
			const char *devices, struct ck_buf *lines);

/* The words for mpirun, owned, NULL behind the last: ranks are in the order of the
 * hosts that are there, the first of which must be. Those that make rounds have the
 * variables for NCCL that this process has. NULL: out of memory. */
char **ck_launch_argv(const struct ck_launch_options *options,
		      const bool *there);
/* Those of an environment, NULL behind the last, that do not make mpirun believe that
 * it is part of another job. Owned; NULL: out of memory. */
char **ck_launch_environment(char *const from[]);
/* Of either of these. NULL is allowed. */
void ck_launch_words_free(char **words);

#endif
