/* SPDX-License-Identifier: MIT */
/*
 * serve_rank: a rank of a job that a launcher of the user's has started, mpirun or srun:
 * what it is told, who the others are, and its mount, if it has one.
 */
#ifndef CKPTFS_SERVE_RANK_H
#define CKPTFS_SERVE_RANK_H

#include "ckptfs/fs.h"
#include "ckptfs/serve.h"
#include "inherit_fds.h"

/* Zero-initialise but for the ends of the mount, which are -1. */
struct ck_serve_rank {
	char *place;  /* of a mount; NULL: it needs none */
	bool survive; /* it goes on when another rank dies */
	char **texts; /* of -o, ntexts; owned, but not what they point to */
	size_t ntexts;
	struct ck_mount_options options;
	char devices[CK_GPUS_TEXT]; /* for rounds */
	struct ck_rank_mount mount;
	bool *mounts; /* by rank: which have one */
};

/* All of these return an exit status, and say what is wrong. */

/* Reads all texts; what makes no sense here is refused. */
int ck_serve_rank_parse(struct ck_serve_rank *l);
/* Tells all ranks who this is, hears who they are, and starts the mount. Sets what is of
 * that in *serve, which has the transport. */
int ck_serve_rank_meet(struct ck_serve_rank *l, const char *source,
		       struct ck_serve_options *serve);
/* What has become of the mount, which is to end. */
int ck_serve_rank_end(struct ck_serve_rank *l);
void ck_serve_rank_fini(struct ck_serve_rank *l);

#endif
