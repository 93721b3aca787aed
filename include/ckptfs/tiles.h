/* SPDX-License-Identifier: MIT */
/*
 * tiles: makes tiles of the copies of a plan, and says which kernel moves them. No
 * memory of the device is touched here. A part of move.
 */
#ifndef CKPTFS_TILES_H
#define CKPTFS_TILES_H

#include "ckptfs/backend.h"
#include "ckptfs/layout.h"
#include "ckptfs/model.h"
#include "ckptfs/tile.h"

/* The tiles of one launch of each kernel. Zero-initialise. */
struct ck_tiles {
	struct {
		struct ck_tile *list;
		size_t n, cap;
	} of[CK_TILE_KINDS];
	struct ck_nest *nests;
	size_t nnests, nests_cap;
};

/* A loop nest over runs, as of ck_plan_op, between two places in memory of one device. */
struct ck_tile_copy {
	uint64_t src, dst;	     /* addresses of the first run */
	uint64_t run;		     /* bytes */
	uint32_t nloops;	     /* at most CK_MAX_DIMS */
	const struct ck_loop *loops; /* outermost first */
	/* Of the values; a run has whole elements if `change` is not 0. */
	const struct ck_dtype *dtype;
	uint8_t change; /* enum ck_change */
};

/* Adds tiles for all runs, each of whose bytes is then in one of them. What lies at
 * src is a multiple of 16 bytes that begins at a multiple of 16, of which a kernel may
 * load all. -ENOMEM; -EOVERFLOW: more nests than a number of one has bits. */
CK_MUST_USE int ck_tiles_add(struct ck_tiles *t, const struct ck_tile_copy *c);
/* There are none any more; their memory is kept. */
void ck_tiles_clear(struct ck_tiles *t);
void ck_tiles_fini(struct ck_tiles *t);
/* The name of a kernel. */
const char *ck_tile_kernel(enum ck_tile_kind kind);

#endif
