/* SPDX-License-Identifier: MIT */
/*
 * dcp_rewrite: a `.metadata` with other places for some boxes, made of the
 * bytes of the old one (dcp_rewrite.c), and the proof that it is that and
 * nothing else (dcp_verify.c).
 */
#ifndef CK_FORMAT_DCP_REWRITE_H
#define CK_FORMAT_DCP_REWRITE_H

#include "ckptfs/rewrite.h"
#include "dcp.h"

/* What is wanted: the old bytes, what the catalog made of them says, and the
 * changes, sorted by chunk. */
struct ck_dcp_wish {
	const struct ck_catalog *catalog;
	struct ck_str old;
	const struct ck_change_of_place *changes;
	uint32_t n;
};

/* See ck_metadata_rewrite(). */
CK_MUST_USE int ck_dcp_rewrite(const struct ck_dcp_wish *w, int out,
			       struct ck_diag *d);
/* ck_metadata_verify() in two steps, so that old bytes and new catalog need
 * not be in memory together. What the new bytes say; w->old is not used.
 * Places are the caller's also after an error. */
CK_MUST_USE int ck_dcp_verify_says(const struct ck_dcp_wish *w,
				   struct ck_str bytes,
				   struct ck_dcp_places *places,
				   struct ck_diag *d);
/* What they are, with the places that the first step found in them. */
CK_MUST_USE int ck_dcp_verify_is(const struct ck_dcp_wish *w,
				 struct ck_str bytes,
				 const struct ck_dcp_places *places,
				 struct ck_diag *d);

/* What is put before a BUILD: the keys of one place. */
struct ck_dcp_insertion {
	struct ck_str path;
	uint64_t fpos, length;
	bool transform; /* with transform_descriptors: None */
};

/* out is cleared before. */
void ck_dcp_insertion_make(const struct ck_dcp_insertion *i,
			   struct ck_buf *out);
/* The one that says where this chunk lies now. */
struct ck_dcp_insertion ck_dcp_insertion_of(const struct ck_catalog *c,
					    uint32_t chunk, bool transform);

/* A pickle changed at some positions, in order: so many bytes more there, or
 * less (modulo 2^64). */
struct ck_dcp_growth {
	uint64_t at;
	uint64_t more; /* here and before */
};

/* By how much what begins in [begin, end) grows. */
uint64_t ck_dcp_growth_in(const struct ck_dcp_growth *g, size_t n,
			  uint64_t begin, uint64_t end);

#endif
