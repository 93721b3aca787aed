/* SPDX-License-Identifier: MIT */
/*
 * inherit_fds: with an external launcher, a rank starts its mount as a separate
 * process, `ckptfs mount`, which inherits descriptors from it:
 * - the mount's end of the link
 * - the list of ranks
 * - the read end of a liveness pipe, which closes when the rank ends; then the
 *   mount unmounts
 * - with rounds, the end of the link for the process that runs them
 * Both sides are here.
 */
#ifndef CKPTFS_INHERIT_FDS_H
#define CKPTFS_INHERIT_FDS_H

#include "dist/launch/rank_table.h"
#include "dist/launch/rendezvous.h"
#include "dist/launch/subprocess.h"
#include "source/hosts_options.h"

/* The option that makes the process take inherited descriptors, and its
 * value if there are rounds. */
#define CK_INHERITED_OPTION "beside-rank"
#define CK_INHERITED_ROUNDS "rounds"

/* --- the rank ---------------------------------------------------------------------- */

struct ck_rank_mount {
	struct ck_rendezvous_link link_fds; /* the rank's end */
	/* the same for rounds; sock is -1 without them */
	struct ck_rendezvous_link rounds;
	int liveness; /* write end of the liveness pipe; -1 if there is no mount */
	struct ck_subprocess job;
};

/* Starts a mount. words: its options, NULL-terminated. place: the mount point.
 * rounds: with a link for them. Returns 0, or an errno with a message. */
CK_MUST_USE int ck_rank_mount_start(const struct ck_rank_table *roster,
				    uint32_t rank, char *const words[],
				    char *place, bool rounds,
				    struct ck_rank_mount *out,
				    struct ck_diag *d);
/* Asks the mount to end. */
void ck_rank_mount_stop(struct ck_rank_mount *m);
/* Waits until it has ended, and closes everything. Returns 0 if it was
 * unmounted; -EIO if it has failed with a message of its own; -ECHILD if a
 * signal killed it. */
int ck_rank_mount_end(struct ck_rank_mount *m);

/* --- the process of the mount ------------------------------------------------------ */

/* The inherited descriptors, owned. */
struct ck_inherited {
	struct ck_rendezvous_link link_fds;
	bool has_rounds;		  /* set by the caller */
	struct ck_rendezvous_link rounds; /* sock is -1 without rounds */
	int liveness;
	struct ck_host_rank *ranks; /* n; strings point into `text` */
	uint32_t n;
	char *text;
};

/* Takes the inherited descriptors, and sets the hosts in the options. Returns
 * 0, or an errno with a message. */
CK_MUST_USE int ck_inherited_take(struct ck_inherited *h,
				  struct ck_hosts_options *options,
				  struct ck_diag *d);
void ck_inherited_fini(struct ck_inherited *h);

#endif
