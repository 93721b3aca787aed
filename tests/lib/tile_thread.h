/* SPDX-License-Identifier: MIT */
/*
 * tile_thread: what a thread of each kernel does, on the processor. Who includes it may define
 * CK_TILE_FROM and CK_TILE_TO, see body.h.
 */
#ifndef CK_TILE_THREAD_H
#define CK_TILE_THREAD_H

#include "gpu/driver/change.h"

#include <stdlib.h>

static inline void tile_thread(enum ck_tile_kind kind, const struct ck_tile *t,
			       const struct ck_nest *nest, uint32_t thread)
{
	const uint32_t threads = CK_TILE_THREADS;

	switch (kind) {
	case CK_TILE_1: ck_tile_vectors(t, nest, thread, threads, 1); break;
	case CK_TILE_2: ck_tile_vectors(t, nest, thread, threads, 2); break;
	case CK_TILE_4: ck_tile_vectors(t, nest, thread, threads, 4); break;
	case CK_TILE_8: ck_tile_vectors(t, nest, thread, threads, 8); break;
	case CK_TILE_16: ck_tile_vectors(t, nest, thread, threads, 16); break;
	case CK_TILE_LONG: ck_tile_long(t, nest, thread, threads); break;
	case CK_TILE_CHANGE: ck_tile_change(t, nest, thread, threads); break;
	case CK_TILE_KINDS: abort();
	}
}

#endif
