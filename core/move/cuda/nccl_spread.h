/* SPDX-License-Identifier: MIT */
/*
 * nccl_spread: transfers between devices of this process, each from one to another. All that are
 * asked for while others are on their way become the next group: so there is one order, the same
 * for all of them.
 */
#ifndef CK_NCCL_SPREAD_H
#define CK_NCCL_SPREAD_H

#include "device.h"

/* A transfer. It stays where it is until it is over. */
struct ck_transfer {
	uint32_t from,
		to; /* devices, by their place in the list; not the same */
	CUdeviceptr src, dst;
	uint64_t bytes;
	/* -EINPROGRESS; 0: they are there; -EIO: nothing of it is moved any more, and what is at
	 * `dst` is not known. */
	int rc;
	struct ck_transfer *next; /* private */
};

/* One thread. */
struct ck_nccl_spread {
	/* What is at `src` is there already. */
	void (*add)(struct ck_nccl_spread *s, struct ck_transfer *t);
	/* Goes on with them. Never waits. */
	void (*turn)(struct ck_nccl_spread *s);
	/* Whether transfers can be made now, as it seems. */
	bool (*is_on)(struct ck_nccl_spread *s);
	/* Why not. */
	void (*why)(struct ck_nccl_spread *s, char *out, size_t size);
	/* A device does what it must not, or NCCL: those that are on their way may not end. */
	bool (*is_broken)(const struct ck_nccl_spread *s, uint32_t *which,
			  const char **what);
	/* Transfers that are not over are given up. */
	void (*end)(struct ck_nccl_spread *s);
	char nccl[512]; /* the version, and the file */
};

/* Waits until transfers can be made. -ENOENT, -ENOEXEC, -ENOSYS: there is no NCCL that can be
 * used; -ENOSPC, -EIO, -ENOMEM: it cannot. Why is in d. */
CK_MUST_USE int ck_nccl_spread_make(struct ck_device *const *devices,
				    uint32_t n, struct ck_nccl_spread **out,
				    struct ck_diag *d);

#endif
