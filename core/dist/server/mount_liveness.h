/* SPDX-License-Identifier: MIT */
/*
 * mount_liveness: which ranks of a job have a mount, as one rank knows it. A
 * mount is gone when its rank reports so, is lost, or has been silent for too
 * long. The caller passes the time. One thread at a time.
 */
#ifndef CK_MOUNT_LIVENESS_H
#define CK_MOUNT_LIVENESS_H

#include "ckptfs/base.h"

struct ck_mounter {
	bool has;
	uint64_t last_message; /* last message of the rank, ms */
};

/* Zero-initialise. */
struct ck_mount_liveness {
	uint32_t size, self; /* ranks, and the own rank */
	uint32_t left;	     /* ranks that have a mount */
	/* time of the last ck_mount_liveness_expire() */
	uint64_t last_check;
	struct ck_mounter *list;
};

/* has: for each rank, whether it has a mount. now: ms of a monotonic clock,
 * here and below. Returns 0 or -ENOMEM. */
CK_MUST_USE int ck_mount_liveness_init(struct ck_mount_liveness *m,
				       uint32_t size, uint32_t self,
				       const bool *has, uint64_t now);
void ck_mount_liveness_fini(struct ck_mount_liveness *m);
/* A message of a rank was received. */
void ck_mount_liveness_note(struct ck_mount_liveness *m, uint32_t rank,
			    uint64_t now);
/* The mount of a rank is gone. True if it had one. */
bool ck_mount_liveness_gone(struct ck_mount_liveness *m, uint32_t rank);
/* True if ranks other than this one have a mount: then
 * ck_mount_liveness_expire() must be called regularly. */
CK_MUST_USE bool ck_mount_liveness_watch(const struct ck_mount_liveness *m);
/* Marks the mounts of other ranks as gone whose rank has been silent for
 * `silence` ms. If the last call was more than `most` ms ago, this process was
 * stopped: then all silence counts from now. True if a mount is gone now that
 * was not before. */
bool ck_mount_liveness_expire(struct ck_mount_liveness *m, uint64_t now,
			      uint64_t silence, uint64_t most);

#endif
