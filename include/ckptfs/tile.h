/* SPDX-License-Identifier: MIT */
/*
 * tile: a nest of runs, cut into pieces of at most 64 KiB, each of which a block of threads
 * of a GPU moves by itself. C, and what CUDA makes of it: the same structs are read on
 * the device, so that they have no padding. A part of move.
 */
#ifndef CKPTFS_TILE_H
#define CKPTFS_TILE_H

#include <stdint.h>

enum {
	CK_TILE_BYTES = 65536,	/* at most, in one tile */
	CK_TILE_THREADS = 256,	/* of the block that moves it */
	CK_TILE_LONG_FROM = 64, /* bytes of a run: see CK_TILE_LONG */
	CK_NEST_LOOPS = 8,	/* at most; loops around those are unrolled */
};

/* What moves the tile: there is one kernel for each. */
enum ck_tile_kind {
	CK_TILE_1, /* runs of vectors of so many bytes; both ends, all steps and the
		    * run are multiples of it */
	CK_TILE_2,
	CK_TILE_4,
	CK_TILE_8,
	CK_TILE_16,
	CK_TILE_LONG,	/* runs of CK_TILE_LONG_FROM bytes or more, anywhere */
	CK_TILE_CHANGE, /* values change: enum ck_tile_how */
	CK_TILE_KINDS
};

/* As enum ck_change, and what it is about. */
enum ck_tile_how {
	CK_TILE_SWAP = 1,
	CK_TILE_CONJ = 2, /* complex only */
	CK_TILE_NEG = 4,
	CK_TILE_FLOAT = 8, /* the sign is the top bit of each unit */
};

/* The loops around the runs of a tile, the innermost first. */
struct ck_nest {
	uint32_t nloops;
	uint8_t unit; /* bytes of what changes together: 1, 2, 4 or 8 */
	uint8_t how;  /* enum ck_tile_how; 0: bytes are copied */
	uint8_t unused[2];
	uint32_t count[CK_NEST_LOOPS];
	uint64_t src[CK_NEST_LOOPS]; /* steps in bytes */
	uint64_t dst[CK_NEST_LOOPS];
};

/* Runs [row, row + rows) of a nest whose first one begins at src and dst, which are
 * addresses where the bytes are. */
struct ck_tile {
	uint64_t src, dst;
	uint32_t nest; /* number in the ck_tiles */
	uint32_t row, rows;
	uint32_t run;	/* bytes; rows * run <= CK_TILE_BYTES */
	uint32_t lanes; /* threads for each run, a power of two */
	uint32_t unused;
};

#endif
