/* SPDX-License-Identifier: MIT */
/*
 * serve_rank: a rank of a job that an external launcher (mpirun, srun) has
 * started: its arguments, the exchange of rank records, and its mount, if it
 * has one.
 */
#ifndef CKPTFS_SERVE_RANK_H
#define CKPTFS_SERVE_RANK_H

#include "ckptfs/fs.h"
#include "dist/server/serve.h"
#include "inherit_fds.h"

/* Zero-initialise, except that the descriptors of `mount` are -1. */
struct ck_serve_rank {
	char *place;  /* of a mount; NULL if it has no mount */
	bool survive; /* continues when another rank dies */
	/* arguments of -o, ntexts; the array is owned, the texts are not */
	char **texts;
	size_t ntexts;
	struct ck_mount_options options;
	char devices[CK_GPUS_TEXT]; /* for rounds */
	struct ck_rank_mount mount;
	bool *mounts; /* by rank: has a mount */
};

/* These return an exit status, and print errors. */

/* Parses all options. Options that a launcher makes meaningless are errors. */
int ck_serve_rank_parse(struct ck_serve_rank *l);
/* Exchanges the records of all ranks, and starts the mount. Sets the members of
 * *serve that depend on them; serve->xport must be set. */
int ck_serve_rank_meet(struct ck_serve_rank *l, const char *source,
		       struct ck_serve_options *serve);
/* Waits until the mount has ended. Returns an exit status, and prints an error
 * if the mount was killed. */
int ck_serve_rank_end(struct ck_serve_rank *l);
void ck_serve_rank_fini(struct ck_serve_rank *l);

#endif
