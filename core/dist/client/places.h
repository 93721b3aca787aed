/* SPDX-License-Identifier: MIT */
/*
 * places: which peer a move goes to, of the places that its file has. All of a requester's
 * ways: under ck_remote_client.ways_lock.
 */
#ifndef CK_PLACES_H
#define CK_PLACES_H

#include "ckptfs/remote_client.h"

/* The i-th place that is tried. */
CK_MUST_USE bool ck_places_find(const struct ck_ways *w, uint32_t file,
				uint32_t i, struct ck_location *out);

/* A move, and which peer is asked for it; UINT32_MAX: nobody. */
struct ck_sorted {
	struct ck_location at;
	uint32_t index; /* in the moves */
};

/* Who is asked for a move, at the place that is tried next. Nobody is where there is none,
 * or another file; then that is what has become of the move. */
struct ck_sorted ck_places_sorted(const struct ck_ways *w, struct ck_move *m,
				  uint32_t index, uint32_t tries);
/* Those that one peer is asked for together follow each other; nobody's are last. */
void ck_sort(struct ck_sorted *order, size_t n);
/* The first behind `from` that is not asked for with it. */
size_t ck_sorted_end(const struct ck_sorted *order, size_t from, size_t n);

/* As of ck_backend, of a requester's: takes ways_lock. */
bool ck_places_describe(struct ck_backend *m, const struct ck_moves *moves,
			struct ck_described *out);
void ck_places_came(struct ck_backend *m, const struct ck_moves *moves);

#endif
