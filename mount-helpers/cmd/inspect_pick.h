/* SPDX-License-Identifier: MIT */
/*
 * inspect_pick: the entries of a checkpoint that a glob means.
 */
#ifndef CKPTFS_INSPECT_PICK_H
#define CKPTFS_INSPECT_PICK_H

#include "ckptfs/model.h"

/* In the order of reports; the lists are owned. */
struct ck_picked {
	uint32_t *tensors, *objects;
	size_t ntensors, nobjects;
};

/* By shown name, stem or name of a file, each also if it is the glob itself;
 * all if glob is NULL. -ENOMEM. */
CK_MUST_USE int ck_pick(const struct ck_catalog *c, const char *glob,
			struct ck_picked *out);
void ck_picked_fini(struct ck_picked *p);
/* A name like a glob that picked nothing, from the catalog; empty: none is
 * near. */
struct ck_str ck_pick_nearest(const struct ck_catalog *c, const char *glob);

#endif
