/* SPDX-License-Identifier: MIT */
/*
 * tiles: splits the copies of a plan into tiles for GPU kernels, and chooses a
 * kernel for each tile. Does not access device memory. For one thread.
 */
#ifndef CK_TILES_H
#define CK_TILES_H

#include "ckptfs/backend.h"
#include "ckptfs/layout.h"
#include "ckptfs/model.h"
#include "tile.h"

/* The tiles of one launch per kernel. Zero-initialise. */
struct ck_tiles {
	struct {
		struct ck_tile *list;
		size_t n, cap;
	} of[CK_TILE_KINDS];
	struct ck_nest *nests;
	size_t nnests, nests_cap;
};

/* A loop nest over runs, as in ck_plan_op, from one address of device memory to
 * another. */
struct ck_tile_copy {
	uint64_t src, dst;	     /* device addresses of the first run */
	uint64_t run;		     /* bytes */
	uint32_t nloops;	     /* at most CK_MAX_DIMS */
	const struct ck_loop *loops; /* outermost first */
	/* Dtype of the values. A run has whole elements if `change` is not 0. */
	const struct ck_dtype *dtype;
	uint8_t change; /* enum ck_change */
};

/* Adds tiles for all runs; each byte is then in one tile. Kernels may load whole
 * vectors: memory at `src` must begin at a multiple of 16 and be a multiple of 16
 * bytes long. Returns 0, or: -ENOMEM; -EOVERFLOW if there are more nests than a
 * tile can number. */
CK_MUST_USE int ck_tiles_add(struct ck_tiles *t, const struct ck_tile_copy *c);
/* Removes all tiles and keeps their memory. */
void ck_tiles_clear(struct ck_tiles *t);
void ck_tiles_fini(struct ck_tiles *t);
/* Name of a kernel. */
const char *ck_tile_kernel(enum ck_tile_kind kind);

#endif
