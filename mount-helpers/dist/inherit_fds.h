/* SPDX-License-Identifier: MIT */
/*
 * inherit_fds: a rank of a job that somebody else has started has its mount in a process of
 * its own beside it, `ckptfs mount`, to which it hands over what that needs to find the
 * others: its end of the link, the list of ranks, and a rope, which is cut when the rank
 * ends, however it does: then the mount ends, too; and where ranks make rounds, an end of
 * what the process that makes them there has to the rank. Both sides are here.
 */
#ifndef CKPTFS_INHERIT_FDS_H
#define CKPTFS_INHERIT_FDS_H

#include "ckptfs/hosts_options.h"
#include "ckptfs/rank_table.h"
#include "ckptfs/rendezvous.h"
#include "ckptfs/subprocess.h"

/* The word with which the process is told that it was handed something, and its value if
 * there are rounds. */
#define CK_INHERITED_OPTION "beside-rank"
#define CK_INHERITED_ROUNDS "rounds"

/* --- the rank ---------------------------------------------------------------------- */

struct ck_rank_mount {
	struct ck_rendezvous_way way; /* the rank's end */
	struct ck_rendezvous_way
		rounds; /* the same; of sock -1: there are none */
	int rope;	/* ours; -1: there is no mount */
	struct ck_subprocess job;
};

/* words: the options of the mount, NULL behind the last. place: of the mount. rounds: there
 * are some. Errors with a message. */
CK_MUST_USE int ck_rank_mount_start(const struct ck_rank_table *roster,
				    uint32_t rank, char *const words[],
				    char *place, bool rounds,
				    struct ck_rank_mount *out,
				    struct ck_diag *d);
/* It is to end. */
void ck_rank_mount_stop(struct ck_rank_mount *m);
/* Waits until it has ended. 0: it was unmounted; -EIO: it says itself why; -ECHILD: it
 * died, of a signal. Closes all. */
int ck_rank_mount_end(struct ck_rank_mount *m);

/* --- the process of the mount ------------------------------------------------------ */

/* What it has, owned. */
struct ck_inherited {
	struct ck_rendezvous_way way;
	bool has_rounds;		 /* set before it is taken */
	struct ck_rendezvous_way rounds; /* of sock -1: there are none */
	int rope;
	struct ck_host_rank *ranks; /* n; what they name is in the text */
	uint32_t n;
	char *text;
};

/* Takes it from where it is, and names the hosts in the options. Errors with a message. */
CK_MUST_USE int ck_inherited_take(struct ck_inherited *h,
				  struct ck_hosts_options *options,
				  struct ck_diag *d);
void ck_inherited_fini(struct ck_inherited *h);

#endif
