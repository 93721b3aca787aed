/* SPDX-License-Identifier: MIT */
/*
 * mount_liveness: which ranks of a job have a mount, as far as one of them knows: a mount is
 * gone when its rank says so, is lost, or has been silent for too long. No clock here.
 */
#ifndef CK_MOUNT_LIVENESS_H
#define CK_MOUNT_LIVENESS_H

#include "ckptfs/base.h"

struct ck_mounter {
	bool has;
	uint64_t heard; /* when its rank said something, milliseconds */
};

/* Zero-initialise. */
struct ck_mount_liveness {
	uint32_t size, self; /* ranks, and the one that this is of */
	uint32_t left;	     /* that have a mount */
	uint64_t looked;     /* when silence was looked for last */
	struct ck_mounter *list;
};

/* has: by rank. -ENOMEM. */
CK_MUST_USE int ck_mount_liveness_init(struct ck_mount_liveness *m,
				       uint32_t size, uint32_t self,
				       const bool *has, uint64_t now);
void ck_mount_liveness_fini(struct ck_mount_liveness *m);
void ck_mount_liveness_heard(struct ck_mount_liveness *m, uint32_t rank,
			     uint64_t now);
/* A rank has none from now on. Whether it had one. */
bool ck_mount_liveness_gone(struct ck_mount_liveness *m, uint32_t rank);
/* Whether others have one, so that their silence would be noted. */
CK_MUST_USE bool ck_mount_liveness_watch(const struct ck_mount_liveness *m);
/* Those of other ranks that have been silent for so long are gone. Time in which nobody
 * looked, for `most` and more, is nobody's silence: this process was stopped. Whether one
 * is gone. */
bool ck_mount_liveness_look(struct ck_mount_liveness *m, uint64_t now,
			    uint64_t silence, uint64_t most);

#endif
