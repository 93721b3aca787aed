/* SPDX-License-Identifier: MIT */
/*
 * places: selects the peer that serves a copy descriptor, among the locations
 * of its file. All functions read the routes of a remote client: the caller
 * must hold ck_remote_client.routes_lock, except where a function takes it.
 */
#ifndef CK_PLACES_H
#define CK_PLACES_H

#include "remote_client.h"

/* Sets *out to the i-th location that a read of the file tries. Returns false
 * if there are fewer. */
CK_MUST_USE bool ck_places_find(const struct ck_routes *w, uint32_t file,
				uint32_t i, struct ck_location *out);

/* A copy descriptor and the location that serves it. */
struct ck_sorted {
	struct ck_location at; /* peer UINT32_MAX: not located */
	uint32_t index;	       /* of the descriptor in its batch */
};

/* Returns the location of descriptor m with the given index after `tries`
 * failed ones. at.peer is UINT32_MAX if there is no such location, or if its
 * file has changed; m->rc is then -ESTALE. */
struct ck_sorted ck_places_sorted(const struct ck_routes *w,
				  struct ck_copy_desc *m, uint32_t index,
				  uint32_t tries);
/* Sorts by peer, then by index; descriptors without a peer are last. */
void ck_sort(struct ck_sorted *order, size_t n);
/* Returns the end of the run of descriptors that have the same peer as
 * order[from]. */
size_t ck_sorted_end(const struct ck_sorted *order, size_t from, size_t n);

/* Implement ck_backend.describe and ck_backend.delivered of a remote client,
 * for rounds. They take routes_lock. */
bool ck_places_describe(struct ck_backend *m, const struct ck_copy_batch *batch,
			struct ck_described *out);
void ck_places_delivered(struct ck_backend *m,
			 const struct ck_copy_batch *batch);

#endif
