/* SPDX-License-Identifier: MIT */
/*
 * launch: makes the command line and environment with which mpirun(1) starts a
 * serving process on each host of a list. Before that, a preflight finds the
 * hosts that can take part: mpirun ends all processes if one host cannot be
 * reached, and processes of different versions are incompatible.
 * ck_subprocess_start() runs the results. There is no state between calls. One
 * thread at a time.
 */
#ifndef CKPTFS_LAUNCH_H
#define CKPTFS_LAUNCH_H

#include "source/hostlist.h"

#define CK_LAUNCH_RDMA	  "/sys/class/infiniband"
/* The preflight option of `ckptfs serve`, before the networks, and the prefix
 * of a line of its output that states why the host cannot take part. */
#define CK_LAUNCH_SELF	  "--self"
#define CK_LAUNCH_LACKS	  "ckptfs-lacks: "
/* The prefix of the line that identifies the host, whatever name it was reached
 * by. */
#define CK_LAUNCH_IS	  "ckptfs-is: "
/* The option of `ckptfs serve` before the command line of a launch daemon: it
 * runs the daemon in private temporary directories and removes them
 * afterwards. */
#define CK_LAUNCH_SHELTER "--shelter"

/* Borrows all texts. */
struct ck_launch_options {
	const struct ck_host_list *hosts; /* checked; the first is this host */
	/* The command that starts a program on another host, as mpirun calls
	 * it: words separated by spaces, then the host, then one word for a
	 * shell. NULL: ssh. */
	const char *agent;
	/* ckptfs, an absolute path, the same on all hosts */
	const char *program;
	const char *net;   /* CIDR[+CIDR], or NULL: mpirun decides */
	const char *door;  /* rendezvous name, for the first rank */
	bool shardlinks;   /* follow symbolic links that stay beneath SRC */
	uint64_t ownermem; /* bytes for replies in a file server; 0: default */
	/* The GPUs on which each rank executes rounds by NCCL, in a process
	 * beside it: `auto`, or numbers joined by `+`. NULL: there are no
	 * rounds. */
	const char *nccl;
	unsigned timeout; /* seconds, of a round; 0: default of the ranks */
	int ask_msec;	  /* deadline of the preflight; 0: 10 s */
	/* A descriptor that cancels the preflight when it is readable or
	 * closed; 0: no descriptor. */
	int stop;
};

/* Checks that mpirun is in PATH, and that the agent exists; NULL: ssh. Returns
 * 0, or: -ENOENT if one is missing, with a message in d. */
CK_MUST_USE int ck_launch_find(const char *agent, struct ck_diag *d);

/* The preflight: queries all hosts in parallel for their versions of mpirun and
 * ckptfs and for reasons why they cannot take part. there: by host. Sets
 * there[i] to false if host i does not reply in time, has other versions than
 * this host, or cannot take part; appends a line for the user to *lines, with
 * escaped names. Blocks up to the deadline.
 *
 * Returns 0, or: -EPROTO if this host did not reply or cannot take part;
 * -EINVAL if two names are one host; -ECANCELED if `stop` is readable; -ENOMEM.
 * The message is in d. */
CK_MUST_USE int ck_launch_preflight(const struct ck_launch_options *options,
				    bool *there, struct ck_buf *lines,
				    struct ck_diag *d);

/* The test after a failed job: starts the launch daemon without work on all
 * hosts for which `there` is true, in parallel; the first one is this host.
 * Sets there[i] to false where that fails, and appends a line for the user to
 * *lines. If it fails on this host, it changes nothing. Blocks up to the
 * deadline. Returns 0, or: -ENOMEM; -ECANCELED if `stop` is readable; `there`
 * is then unchanged. */
CK_MUST_USE int ck_launch_try(const struct ck_launch_options *options,
			      bool *there, struct ck_buf *lines);

/* Appends the lines with which this host replies to the preflight. net: see the
 * options; "": all networks. */
void ck_launch_self(const char *net, struct ck_buf *out);

/* Restricts NCCL to the networks in net, in this process and its children. Sets
 * NCCL_SOCKET_IFNAME, and, if there are RDMA devices, NCCL_IB_HCA or
 * NCCL_IB_DISABLE; variables that the user has set stay. devices: the directory
 * that lists RDMA devices, CK_LAUNCH_RDMA. Does nothing if net is NULL. No
 * other thread may use the environment. Returns 0, or: -ENONET if this host has
 * no address in these networks; -ENOMEM; errors of getifaddrs(3) and
 * setenv(3). */
CK_MUST_USE int ck_launch_bind_nccl(const char *net, const char *devices);

/* Appends lines for the log: the networks that MPI may choose from, if
 * options->net is NULL; and that an RDMA device exists and is not used.
 * devices: as above. */
void ck_launch_networks(const struct ck_launch_options *options,
			const char *devices, struct ck_buf *lines);

/* Returns the command line of mpirun, with NULL as its end, for
 * ck_launch_words_free(). Ranks are in the order of the hosts for which `there`
 * is true; there[0] must be. If there are rounds, ranks inherit NCCL's
 * variables of this process. NULL if out of memory. */
char **ck_launch_argv(const struct ck_launch_options *options,
		      const bool *there);
/* Returns a copy of an environment without the variables that make mpirun take
 * itself for a part of another job, for ck_launch_words_free(). NULL if out of
 * memory. */
char **ck_launch_environment(char *const from[]);
/* Frees the result of either. NULL is allowed. */
void ck_launch_words_free(char **words);

#endif
