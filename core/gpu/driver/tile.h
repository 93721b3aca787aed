/* SPDX-License-Identifier: MIT */
/*
 * tile: at most 64 KiB of a nest of runs, copied by one block of GPU threads. C and
 * CUDA compile this file; kernels read the structs on the device, so they have no
 * padding.
 */
#ifndef CK_TILE_H
#define CK_TILE_H

#include <stdint.h>

enum {
	CK_TILE_BYTES = 65536,	/* most bytes of one tile */
	CK_TILE_THREADS = 256,	/* threads of a block */
	CK_TILE_LONG_FROM = 64, /* bytes; shortest run for CK_TILE_LONG */
	CK_NEST_LOOPS =
		8, /* most loops of a nest; more tiles replace outer loops */
};

/* Selects the kernel of a tile. */
enum ck_tile_kind {
	CK_TILE_1, /* vectors of 1 byte, and so on: addresses, steps and
		    * the run are multiples of a vector */
	CK_TILE_2,
	CK_TILE_4,
	CK_TILE_8,
	CK_TILE_16,
	CK_TILE_LONG,	/* runs of CK_TILE_LONG_FROM bytes or more, unaligned */
	CK_TILE_CHANGE, /* values change: enum ck_tile_how */
	CK_TILE_KINDS
};

/* Changes of values, as enum ck_change; bits. */
enum ck_tile_how {
	CK_TILE_SWAP = 1,
	CK_TILE_CONJ = 2, /* complex only */
	CK_TILE_NEG = 4,
	CK_TILE_FLOAT = 8, /* the sign is the top bit of each unit */
};

/* The loops around the runs of a tile, innermost first. */
struct ck_nest {
	uint32_t nloops;
	uint8_t unit; /* bytes that change together: 1, 2, 4 or 8 */
	uint8_t how;  /* enum ck_tile_how; 0: bytes are copied unchanged */
	uint8_t unused[2];
	uint32_t count[CK_NEST_LOOPS];
	uint64_t src[CK_NEST_LOOPS]; /* steps in bytes */
	uint64_t dst[CK_NEST_LOOPS];
};

/* Runs [row, row + rows) of a nest. src and dst are the device addresses of the first
 * run of the nest. */
struct ck_tile {
	uint64_t src, dst;
	uint32_t nest; /* index in ck_tiles.nests */
	uint32_t row, rows;
	uint32_t run;	/* bytes; rows * run <= CK_TILE_BYTES */
	uint32_t lanes; /* threads for each run, a power of two */
	uint32_t unused;
};

#endif
