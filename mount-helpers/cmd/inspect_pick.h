/* SPDX-License-Identifier: MIT */
/*
 * inspect_pick: the entries of a checkpoint that globs match. The main thread.
 */
#ifndef CKPTFS_INSPECT_PICK_H
#define CKPTFS_INSPECT_PICK_H

#include "ckptfs/model.h"

/* In the order of reports; the lists are owned. */
struct ck_picked {
	uint32_t *tensors, *objects;
	size_t ntensors, nobjects;
	bool *is_used; /* for each glob: it has matched an entry */
};

/* Finds the entries that one of n globs matches, by shown name, stem or name of a file, each
 * also if it is the glob itself; all entries if n is 0. Returns 0, or -ENOMEM. Caller calls
 * ck_picked_fini(). */
CK_MUST_USE int ck_pick(const struct ck_catalog *c, char *const *globs,
			size_t n, struct ck_picked *out);
void ck_picked_fini(struct ck_picked *p);
/* Warns on stderr of a glob that matches nothing, with the nearest name of the catalog: an
 * empty list looks like an empty checkpoint. */
void ck_pick_warn(const struct ck_catalog *c, const char *glob);

#endif
